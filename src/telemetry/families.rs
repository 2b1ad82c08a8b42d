//! The table of metric families: name, help, and how each is read from the values.
//!
//! `docs/metrics.md` is written from it, and the alert rules are held to it, by tests.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::metrics::{JobValues, KeyState, KeyVersion, Outcome, ProblemKind, Values};
use crate::base::rung::Rung;

/// A cluster rotates keys some times a year: more are the sign of something else,
/// and a reader of metrics must not be flooded. Counts by state are always whole.
pub const MOST_KEYS: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Gauge,
    /// Its name is shown with `_total`.
    Counter,
}

/// One family.
#[derive(Debug)]
pub struct Family {
    pub name: &'static str,
    pub help: &'static str,
    pub kind: Kind,
    /// Every sample has exactly these.
    pub labels: &'static [&'static str],
    pub read: fn(&Values) -> Vec<Sample>,
}

impl Family {
    /// The name under which its samples appear.
    #[must_use]
    pub fn shown_name(&self) -> String {
        match self.kind {
            Kind::Gauge => self.name.to_owned(),
            Kind::Counter => format!("{}_total", self.name),
        }
    }
}

/// One line of a family.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    pub labels: Vec<(&'static str, String)>,
    pub value: f64,
}

type Labels = &'static [&'static str];

const fn gauge(name: &'static str, labels: Labels, help: &'static str, read: fn(&Values) -> Vec<Sample>) -> Family {
    Family { name, help, kind: Kind::Gauge, labels, read }
}

const fn counter(name: &'static str, labels: Labels, help: &'static str, read: fn(&Values) -> Vec<Sample>) -> Family {
    Family { name, help, kind: Kind::Counter, labels, read }
}

/// Not `job`: that is Prometheus' own name for whom it asks.
const KIND: &str = "kind";

/// Every family, in the order in which they are shown: the headline first.
pub static FAMILIES: &[Family] = &[
    gauge(
        "holdfast_last_proven_restore_timestamp_seconds",
        &["rung"],
        "When a rehearsal of any snapshot last passed at this rung or above it; 0 = never",
        |values| {
            let proven = |rung: Rung| vec![("rung", rung.as_str().to_owned())];
            let at = |rung| time(values.holdings.proven.get(&rung).copied());
            [Rung::Open, Rung::Boot, Rung::Serve].map(|rung| sample(proven(rung), at(rung))).into()
        },
    ),
    gauge(
        "holdfast_newest_good_snapshot_timestamp_seconds",
        &[],
        "When the newest snapshot of good quality was taken; 0 = there is none",
        |values| one(time(values.holdings.newest_good.as_ref().and_then(|snapshot| snapshot.taken))),
    ),
    gauge(
        "holdfast_newest_restorable_snapshot_timestamp_seconds",
        &[],
        "When the newest snapshot was taken that is good, has all its keys in escrow and was not found bad; 0 = there is none",
        |values| one(time(values.holdings.newest_restorable)),
    ),
    gauge("holdfast_newest_good_snapshot_image_bytes", &[], "Size of the etcd image of the newest good snapshot", |values| {
        values.holdings.newest_good.iter().map(|newest| bare(number(newest.image_bytes))).collect()
    }),
    gauge("holdfast_newest_good_snapshot_object_bytes", &[], "Size of the sealed object of the newest good snapshot", |values| {
        values.holdings.newest_good.iter().map(|newest| bare(number(newest.object_bytes))).collect()
    }),
    gauge("holdfast_newest_good_snapshot_revision", &[], "etcd revision of the newest good snapshot", |values| {
        values.holdings.newest_good.iter().map(|newest| bare(number(newest.revision.unsigned_abs()))).collect()
    }),
    gauge("holdfast_newest_good_snapshot_live_keys", &[], "Live etcd keys in the newest good snapshot", |values| {
        values.holdings.newest_good.iter().map(|newest| bare(number(newest.live_keys))).collect()
    }),
    gauge("holdfast_snapshots", &["quality"], "Snapshots in the ledger by quality: good, suspect or incomplete", |values| {
        by("quality", &values.holdings.snapshots)
    }),
    gauge(
        "holdfast_newest_snapshot_problems",
        &["code", "severity"],
        "Problems of the newest snapshot, whatever its quality, by code",
        |values| {
            let labels = |kind: &ProblemKind| vec![("code", kind.code.to_owned()), ("severity", kind.severity.to_owned())];
            values.holdings.problems.iter().map(|(kind, count)| sample(labels(kind), number(*count))).collect()
        },
    ),
    gauge(
        "holdfast_key_versions",
        &["state", "needed"],
        "Key versions by state: escrowed, missing (a rehearsal did not get it), absent (never deposited), unknown; and whether the newest snapshot needs them",
        key_versions,
    ),
    gauge(
        "holdfast_key_version_info",
        &["fingerprint", "provider", "state", "needed"],
        "One line for each key version with the start of its fingerprint and its state; at most 64, the bad ones first",
        key_version_info,
    ),
    gauge("holdfast_ledger_findings", &[], "Records of the ledger that are not believed, and breaks in chains", |values| {
        one(number(values.holdings.findings))
    }),
    gauge("holdfast_ledger_last_read_timestamp_seconds", &[], "When this host last read the whole ledger; 0 = never", |values| {
        one(time(values.stores.ledger_read))
    }),
    gauge("holdfast_outbox_records", &[], "Signed records of this host that a store does not have yet", |values| {
        one(number(values.stores.waiting))
    }),
    gauge(
        "holdfast_job_last_success_timestamp_seconds",
        &[KIND],
        "When the job last ended with a good answer; 0 = never",
        |values| jobs(values, |job| Some(time(job.last_success))),
    ),
    gauge("holdfast_job_last_attempt_timestamp_seconds", &[KIND], "When the job was last begun; 0 = never", |values| {
        jobs(values, |job| Some(time(job.last_attempt)))
    }),
    gauge(
        "holdfast_job_last_failure_timestamp_seconds",
        &[KIND],
        "When the job last failed or ended with a bad answer; 0 = never",
        |values| jobs(values, |job| Some(time(job.last_failure))),
    ),
    gauge(
        "holdfast_job_consecutive_failures",
        &[KIND],
        "Attempts since the last good answer that failed or ended badly",
        |values| jobs(values, |job| Some(number(job.consecutive_failures))),
    ),
    gauge("holdfast_job_last_duration_seconds", &[KIND], "How long the last attempt took", |values| {
        jobs(values, |job| job.last_duration.map(|duration| duration.as_secs_f64()))
    }),
    gauge("holdfast_job_running", &[KIND], "1 while the job runs", |values| {
        jobs(values, |job| Some(number(u64::from(job.running))))
    }),
    gauge("holdfast_job_next_timestamp_seconds", &[KIND], "When the job is due next", |values| {
        jobs(values, |job| job.next.map(|next| time(Some(next))))
    }),
    gauge(
        "holdfast_job_overdue_timestamp_seconds",
        &[KIND],
        "From when on the job counts as overdue unless it is done before: two slots, and at least an hour, after the last one done",
        |values| jobs(values, |job| job.overdue.map(|overdue| time(Some(overdue)))),
    ),
    counter(
        "holdfast_job_attempts",
        &[KIND, "outcome"],
        "Attempts at the job since the daemon started, by outcome: good, bad, failed, interrupted",
        |values| {
            let outcome = |job: &str, outcome: Outcome| vec![(KIND, job.to_owned()), ("outcome", outcome.as_str().to_owned())];
            let jobs = values.jobs.iter();
            let all = jobs.flat_map(|(job, known)| Outcome::ALL.map(|o| (outcome(job.as_str(), o), known.ended.get(&o))));
            all.map(|(labels, count)| sample(labels, number(count.copied().unwrap_or(0)))).collect()
        },
    ),
    gauge(
        "holdfast_config_last_reload_successful",
        &[],
        "0 while the file, as it was last read, was refused and an older one is in force",
        |values| one(number(u64::from(!values.daemon.config_refused))),
    ),
    gauge("holdfast_config_loaded_timestamp_seconds", &[], "When the configuration in force was read", |values| {
        one(time(values.daemon.config_loaded))
    }),
    gauge(
        "holdfast_state_last_write_successful",
        &[],
        "0 while the daemon's own file in the state directory cannot be written",
        |values| one(number(u64::from(!values.daemon.state_unwritten))),
    ),
    gauge(
        "holdfast_daemon_last_turn_timestamp_seconds",
        &[],
        "When the daemon's loop last turned; it turns every ten seconds",
        |values| one(time(values.daemon.turned)),
    ),
    gauge("holdfast_daemon_start_timestamp_seconds", &[], "When the daemon was started", |values| {
        one(time(values.daemon.started))
    }),
    gauge(
        "holdfast_build_info",
        &["version", "cluster", "host"],
        "1, with the version of this program and what its configuration calls this host",
        |values| {
            let version = ("version", env!("CARGO_PKG_VERSION").to_owned());
            let daemon = &values.daemon;
            vec![sample(vec![version, ("cluster", daemon.cluster.clone()), ("host", daemon.host.clone())], 1.0)]
        },
    ),
];

fn key_versions(values: &Values) -> Vec<Sample> {
    let mut counts: BTreeMap<(KeyState, bool), u64> = BTreeMap::new();
    for state in KeyState::ALL {
        counts.extend([true, false].map(|needed| ((state, needed), 0)));
    }
    for key in &values.holdings.keys {
        *counts.entry((key.state, key.needed)).or_default() += 1;
    }
    let labels = |state: KeyState, needed| vec![("state", state.as_str().to_owned()), ("needed", yes(needed))];
    counts.into_iter().map(|((state, needed), count)| sample(labels(state, needed), number(count))).collect()
}

fn key_version_info(values: &Values) -> Vec<Sample> {
    let mut keys: Vec<_> = values.holdings.keys.iter().collect();
    // What a person must look at comes first; a cut never hides it behind what is well.
    keys.sort_by_key(|key| (key.state == KeyState::Escrowed, !key.needed, key.fingerprint.clone(), key.provider));
    keys.dedup();
    let line = |key: &KeyVersion| {
        let labels = vec![
            ("fingerprint", key.fingerprint.clone()),
            ("provider", key.provider.to_owned()),
            ("state", key.state.as_str().to_owned()),
            ("needed", yes(key.needed)),
        ];
        sample(labels, 1.0)
    };
    keys.into_iter().take(MOST_KEYS).map(line).collect()
}

fn jobs(values: &Values, read: impl Fn(&JobValues) -> Option<f64>) -> Vec<Sample> {
    let known = values.jobs.iter().filter_map(|(job, known)| Some((job, read(known)?)));
    known.map(|(job, value)| sample(vec![(KIND, job.as_str().to_owned())], value)).collect()
}

fn by(label: &'static str, counts: &BTreeMap<&'static str, u64>) -> Vec<Sample> {
    counts.iter().map(|(name, count)| sample(vec![(label, (*name).to_owned())], number(*count))).collect()
}

fn yes(is: bool) -> String {
    if is { "yes" } else { "no" }.to_owned()
}

fn one(value: f64) -> Vec<Sample> {
    vec![bare(value)]
}

fn bare(value: f64) -> Sample {
    sample(Vec::new(), value)
}

fn sample(labels: Vec<(&'static str, String)>, value: f64) -> Sample {
    Sample { labels, value }
}

/// Seconds; a whole number, as clocks in names and records have it.
fn time(at: Option<Timestamp>) -> f64 {
    let since_epoch = at.map_or(Duration::ZERO, |at| Duration::from_secs(at.as_second().max(0).unsigned_abs()));
    since_epoch.as_secs_f64()
}

/// Prometheus has floats only; they are exact to 2^53.
#[allow(clippy::cast_precision_loss)]
fn number(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::base::job::Job;
    use crate::telemetry::metrics::{Holdings, Metrics, Snapshot};

    fn at(second: i64) -> Option<Timestamp> {
        Timestamp::from_second(second).ok()
    }

    /// Something in every family.
    fn full() -> Values {
        let mut values = Values::default();
        let job =
            JobValues { last_duration: Some(Duration::from_millis(1_500)), next: at(7), overdue: at(8), ..JobValues::default() };
        values.jobs.extend(Job::ALL.map(|name| (name, job.clone())));
        let snapshot = Snapshot { taken: at(3), image_bytes: 1 << 40, object_bytes: 2, revision: 4, live_keys: 5 };
        let key =
            |fingerprint: &str, state, needed| KeyVersion { provider: "aescbc", fingerprint: fingerprint.into(), state, needed };
        values.holdings = Holdings {
            newest_good: Some(snapshot),
            snapshots: [("good", 1)].into(),
            keys: vec![key("hf1-00000000", KeyState::Escrowed, true), key("hf1-11111111", KeyState::Missing, false)],
            problems: [(ProblemKind { code: "weak-key", severity: "warning" }, 2)].into(),
            ..Holdings::default()
        };
        values
    }

    fn text(values: Values) -> String {
        let metrics = Metrics::new();
        metrics.update(|shown| *shown = values);
        metrics.text().unwrap()
    }

    #[test]
    fn every_family_is_named_as_the_others_and_says_what_it_is() {
        let mut names = BTreeSet::new();
        for family in FAMILIES {
            assert!(names.insert(family.name), "{} is there twice", family.name);
            let rest = family.name.strip_prefix("holdfast_").unwrap();
            assert!(rest.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{rest}");
            assert!(!rest.ends_with("_total") && !rest.contains("_age"), "{rest}");
            assert_eq!(rest.contains("timestamp"), rest.ends_with("_timestamp_seconds"), "{rest}");
            assert!(!family.help.is_empty() && !family.help.ends_with('.'), "{rest}");
            let samples = (family.read)(&full());
            assert!(!samples.is_empty(), "{rest} shows nothing");
            for sample in samples {
                let labels: Vec<&str> = sample.labels.iter().map(|(name, _)| *name).collect();
                assert_eq!(labels, family.labels, "{rest}");
                // Prometheus gives these two to whatever it reads.
                assert!(!labels.contains(&"job") && !labels.contains(&"instance"), "{rest}");
            }
        }
    }

    #[test]
    fn the_text_has_help_and_type_for_every_family_also_where_there_is_no_sample() {
        for values in [Values::default(), full()] {
            let text = text(values);
            for family in FAMILIES {
                let name = family.shown_name();
                let kind = if family.kind == Kind::Gauge { "gauge" } else { "counter" };
                assert!(text.contains(&format!("# HELP {name} {}\n# TYPE {name} {kind}\n", family.help)), "{name}: {text}");
            }
            for line in text.lines().filter(|line| !line.starts_with('#')) {
                let (series, value) = line.rsplit_once(' ').unwrap();
                let name = series.split('{').next().unwrap();
                assert!(FAMILIES.iter().any(|family| family.shown_name() == name), "{line}");
                assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{line}");
            }
        }
    }

    #[test]
    fn never_is_zero_and_whole_numbers_are_shown_whole() {
        let empty = text(Values::default());
        for line in [
            "holdfast_last_proven_restore_timestamp_seconds{rung=\"serve\"} 0",
            "holdfast_newest_good_snapshot_timestamp_seconds 0",
            "holdfast_newest_restorable_snapshot_timestamp_seconds 0",
            "holdfast_key_versions{state=\"missing\",needed=\"yes\"} 0",
            "holdfast_outbox_records 0",
        ] {
            assert!(empty.contains(&format!("\n{line}\n")), "{line}: {empty}");
        }
        let full = text(full());
        for line in [
            "holdfast_newest_good_snapshot_image_bytes 1099511627776",
            "holdfast_job_last_duration_seconds{kind=\"rehearsal\"} 1.5",
            "holdfast_job_attempts_total{kind=\"snapshot\",outcome=\"good\"} 0",
            "holdfast_newest_snapshot_problems{code=\"weak-key\",severity=\"warning\"} 2",
            "holdfast_key_versions{state=\"missing\",needed=\"no\"} 1",
        ] {
            assert!(full.contains(&format!("\n{line}\n")), "{line}: {full}");
        }
    }

    #[test]
    fn of_many_keys_the_bad_ones_are_shown_and_all_are_counted() {
        let mut values = Values::default();
        let key = |n: usize, state| KeyVersion { provider: "aescbc", fingerprint: format!("hf1-{n:08x}"), state, needed: true };
        values.holdings.keys = (0..1_000).map(|n| key(n, KeyState::Escrowed)).collect();
        values.holdings.keys.push(key(1_000, KeyState::Absent));
        let text = text(values);
        let shown: Vec<&str> = text.lines().filter(|line| line.starts_with("holdfast_key_version_info{")).collect();
        assert_eq!(shown.len(), MOST_KEYS);
        assert!(shown[0].contains("hf1-000003e8") && shown[0].contains("state=\"absent\""), "{}", shown[0]);
        assert!(text.contains("holdfast_key_versions{state=\"escrowed\",needed=\"yes\"} 1000\n"), "{text}");
    }
}
