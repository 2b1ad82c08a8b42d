//! What `/metrics` shows: plain values, and one table that says how each is named.
//!
//! Owns: the values, the table of families, the text format. Must never: hold a
//! key's name, an object's name or anything else whose number or content an
//! outsider could choose. Times are shown, never ages: a reader that gets no
//! answer any more still knows how old the last one is.
//!
//! Invariant: 0 means "never" in every family that shows a time.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    CounterValueEncoder, DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, GaugeValueEncoder, NoLabelSet, prometheus_text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::families::{FAMILIES, Family, Kind, Sample};
use crate::base::job::Job;
use crate::base::rung::Rung;

/// The format that [`Metrics::text`] writes, for the `Content-Type` header.
pub const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// The values of one process, shared by all who change or show them.
#[derive(Debug, Default)]
pub struct Metrics(Mutex<Values>);

/// Everything that is shown.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Values {
    pub daemon: DaemonValues,
    pub jobs: BTreeMap<Job, JobValues>,
    pub stores: StoreValues,
    /// What the catalog says.
    pub holdings: Holdings,
}

/// The daemon itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DaemonValues {
    pub cluster: String,
    pub host: String,
    pub started: Option<Timestamp>,
    /// When its loop last turned.
    pub turned: Option<Timestamp>,
    /// When the configuration in force was read.
    pub config_loaded: Option<Timestamp>,
    /// The file as it was last read was refused; the configuration before it is in force.
    pub config_refused: bool,
    /// The state file could not be written.
    pub state_unwritten: bool,
}

/// One job that is on the schedule.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JobValues {
    pub running: bool,
    pub last_attempt: Option<Timestamp>,
    /// Ran, and the answer was good.
    pub last_success: Option<Timestamp>,
    pub last_failure: Option<Timestamp>,
    pub last_duration: Option<Duration>,
    pub consecutive_failures: u64,
    /// When it is due next.
    pub next: Option<Timestamp>,
    /// From when on it counts as overdue, unless it is done before.
    pub overdue: Option<Timestamp>,
    pub ended: BTreeMap<Outcome, u64>,
}

/// How one attempt at a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// It ran, and the answer is good.
    Good,
    /// It ran, and the answer is bad.
    Bad,
    /// It could not run.
    Failed,
    /// Somebody stopped it.
    Interrupted,
}

impl Outcome {
    pub const ALL: [Self; 4] = [Self::Good, Self::Bad, Self::Failed, Self::Interrupted];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }
}

/// Records on their way, and the ledger.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StoreValues {
    /// Records that wait in the outbox.
    pub waiting: u64,
    /// When the ledger was last read whole.
    pub ledger_read: Option<Timestamp>,
}

/// What exists, as the catalog of this host has it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Holdings {
    /// The newest rehearsal that passed at each rung or above it.
    pub proven: BTreeMap<Rung, Timestamp>,
    /// The newest snapshot of good quality.
    pub newest_good: Option<Snapshot>,
    /// When the newest snapshot that counts as restorable was taken.
    pub newest_restorable: Option<Timestamp>,
    /// Snapshots by quality.
    pub snapshots: BTreeMap<&'static str, u64>,
    pub keys: Vec<KeyVersion>,
    /// Problems of the newest snapshot, whatever its quality.
    pub problems: BTreeMap<ProblemKind, u64>,
    /// What is wrong in the ledger.
    pub findings: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    pub taken: Option<Timestamp>,
    pub image_bytes: u64,
    pub object_bytes: u64,
    pub revision: i64,
    pub live_keys: u64,
}

/// Both from closed lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProblemKind {
    pub code: &'static str,
    pub severity: &'static str,
}

/// One key version, without its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyVersion {
    pub provider: &'static str,
    /// Enough of it to find it with `holdfast show`; empty where no key opened the objects.
    pub fingerprint: String,
    pub state: KeyState,
    /// Live objects of the newest snapshot need it.
    pub needed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyState {
    /// Deposited, and no rehearsal has missed it since.
    Escrowed,
    /// A rehearsal did not get it from escrow, and it was not deposited since.
    Missing,
    /// Never deposited.
    Absent,
    /// Nobody knows its material: it opened nothing, or lies in a KMS.
    Unknown,
}

impl KeyState {
    pub const ALL: [Self; 4] = [Self::Escrowed, Self::Missing, Self::Absent, Self::Unknown];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Escrowed => "escrowed",
            Self::Missing => "missing",
            Self::Absent => "absent",
            Self::Unknown => "unknown",
        }
    }
}

impl Metrics {
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    pub fn update(&self, change: impl FnOnce(&mut Values)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    #[must_use]
    pub fn read(&self) -> Values {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The values of one job.
    pub fn job(&self, job: Job, change: impl FnOnce(&mut JobValues)) {
        self.update(|values| change(values.jobs.entry(job).or_default()));
    }

    /// All families in the text format of Prometheus; one moment of all values.
    ///
    /// # Errors
    /// None that a text in memory could have.
    pub fn text(&self) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Shown(self.read())));
        let mut text = String::new();
        prometheus_text::encode(&mut text, &registry)?;
        Ok(text)
    }
}

/// Values on their way into the text format.
#[derive(Debug)]
struct Shown(Values);

impl Collector for Shown {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        for Family { name, help, kind, read, .. } in FAMILIES {
            let metric_type = match kind {
                Kind::Gauge => MetricType::Gauge,
                Kind::Counter => MetricType::Counter,
            };
            let mut family = encoder.encode_descriptor(name, help, None, metric_type)?;
            for Sample { labels, value } in read(&self.0) {
                // A sample without labels is the family itself.
                match (kind, labels.is_empty()) {
                    (Kind::Gauge, true) => family.encode_gauge(&Number(value))?,
                    (Kind::Gauge, false) => family.encode_family(&labels)?.encode_gauge(&Number(value))?,
                    (Kind::Counter, true) => family.encode_counter::<NoLabelSet, _, u64>(&Number(value), None)?,
                    (Kind::Counter, false) => {
                        family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&Number(value), None)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Whole numbers are shown as such: a person reads them, too.
struct Number(f64);

impl Number {
    /// The value, where it is whole and a float is exact.
    #[allow(clippy::cast_possible_truncation)]
    fn whole(&self) -> Option<i64> {
        const EXACT: f64 = 9_007_199_254_740_992.0;
        (self.0.fract() == 0.0 && self.0.abs() <= EXACT).then_some(self.0 as i64)
    }
}

impl EncodeGaugeValue for Number {
    fn encode(&self, encoder: &mut GaugeValueEncoder<'_>) -> Result<(), fmt::Error> {
        match self.whole() {
            Some(whole) => EncodeGaugeValue::encode(&whole, encoder),
            None => EncodeGaugeValue::encode(&self.0, encoder),
        }
    }
}

impl EncodeCounterValue for Number {
    fn encode(&self, encoder: &mut CounterValueEncoder<'_>) -> Result<(), fmt::Error> {
        match self.whole() {
            Some(whole) => EncodeCounterValue::encode(&whole.unsigned_abs(), encoder),
            None => EncodeCounterValue::encode(&self.0, encoder),
        }
    }
}
