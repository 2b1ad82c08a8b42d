//! What happens to a daemon that its operator would want to know: one type for
//! each event, which writes the log line and the metric together.
//!
//! A line has a fixed message and fields. One line tells of a finished unit of
//! work; what goes on and on is told when it begins and when it ends.

use std::net::SocketAddr;
use std::time::Duration;

use jiff::Timestamp;
use tracing::{error, info, warn};

use super::metrics::{Metrics, Outcome};
use crate::base::clock::rfc3339;
use crate::base::failure::Failure;
use crate::base::job::Job;
use crate::base::units::human_duration;

/// The daemon serves and schedules from here on.
#[derive(Debug)]
pub struct DaemonReady<'a> {
    pub version: &'a str,
    pub listen: SocketAddr,
    pub config: &'a str,
    pub cluster: &'a str,
    pub host: &'a str,
    pub at: Timestamp,
}

impl DaemonReady<'_> {
    pub fn emit(&self, metrics: &Metrics) {
        metrics.update(|values| {
            values.daemon.cluster = self.cluster.to_owned();
            values.daemon.host = self.host.to_owned();
            values.daemon.started = Some(self.at);
            values.daemon.config_loaded = Some(self.at);
        });
        let Self { version, listen, config, cluster, host, .. } = self;
        info!(%version, %cluster, %host, %listen, %config, "daemon ready");
    }
}

/// A job was begun.
#[derive(Debug)]
pub struct JobBegan {
    pub job: Job,
    pub slot: Timestamp,
    pub attempt: u32,
    /// No slot of it was ever settled.
    pub is_first: bool,
    pub at: Timestamp,
}

impl JobBegan {
    pub fn emit(&self, metrics: &Metrics) {
        metrics.job(self.job, |job| {
            job.running = true;
            job.last_attempt = Some(self.at);
        });
        let late = self.at.duration_since(self.slot).unsigned_abs();
        // Its end is the line that counts; a slot that was missed is worth one of its own.
        if self.attempt == 1 && self.is_first {
            info!(job = %self.job, slot = %rfc3339(self.slot), "doing a job for the first time");
        } else if self.attempt == 1 && late > LATE {
            info!(job = %self.job, slot = %rfc3339(self.slot), late = %human_duration(late), "making up for a missed slot");
        } else {
            tracing::debug!(job = %self.job, slot = %rfc3339(self.slot), attempt = self.attempt, "job began");
        }
    }
}

/// A job that begins so long after its slot was missed, not merely queued.
const LATE: Duration = Duration::from_secs(90);

/// A job ended, in whatever way.
#[derive(Debug)]
pub struct JobEnded<'a> {
    pub job: Job,
    pub slot: Timestamp,
    pub attempt: u32,
    pub outcome: Outcome,
    /// What came of it, in one line, where it ran.
    pub summary: &'a str,
    /// Why it is not good.
    pub failure: Option<&'a Failure>,
    pub warnings: &'a [Failure],
    pub duration: Duration,
    pub at: Timestamp,
    /// When it is tried again, where it is before its next slot.
    pub retry: Option<Timestamp>,
}

impl JobEnded<'_> {
    pub fn emit(&self, metrics: &Metrics) {
        metrics.job(self.job, |job| {
            job.running = false;
            job.last_duration = Some(self.duration);
            *job.ended.entry(self.outcome).or_default() += 1;
            match self.outcome {
                Outcome::Good => {
                    job.last_success = Some(self.at);
                    job.consecutive_failures = 0;
                }
                Outcome::Bad | Outcome::Failed => {
                    job.last_failure = Some(self.at);
                    job.consecutive_failures += 1;
                }
                Outcome::Interrupted => {}
            }
        });
        self.log();
    }

    fn log(&self) {
        let Self { job, attempt, summary, .. } = self;
        let (slot, duration) = (rfc3339(self.slot), human_duration(self.duration));
        for warning in self.warnings {
            let (object, cause, next) = (warning.object(), warning.cause(), warning.next_action());
            warn!(%job, code = warning.code().name, %object, %cause, %next, "job warned");
        }
        let retry = self.retry.map_or_else(|| "at its next slot".to_owned(), rfc3339);
        match (self.outcome, self.failure) {
            (Outcome::Good, _) => info!(%job, %slot, attempt, %duration, %summary, "job done"),
            (Outcome::Interrupted, _) => info!(%job, %slot, attempt, %duration, "job interrupted"),
            (Outcome::Bad, Some(failure)) => {
                let (code, object, cause, next) = (failure.code().name, failure.object(), failure.cause(), failure.next_action());
                error!(%job, %slot, attempt, %duration, %summary, code, %object, %cause, %next, "job done, and the answer is bad");
            }
            (Outcome::Bad, None) => error!(%job, %slot, attempt, %duration, %summary, "job done, and the answer is bad"),
            (Outcome::Failed, failure) => {
                let (code, object, cause, next) = failure.map_or(("", "", "", ""), |failure| {
                    (failure.code().name, failure.object(), failure.cause(), failure.next_action())
                });
                error!(%job, %slot, attempt, %duration, %retry, code, %object, %cause, %next, "job failed");
            }
        }
    }
}

/// A new configuration is in force.
#[derive(Debug)]
pub struct ConfigReloaded<'a> {
    pub config: &'a str,
    pub at: Timestamp,
}

impl ConfigReloaded<'_> {
    pub fn emit(&self, metrics: &Metrics) {
        metrics.update(|values| {
            values.daemon.config_loaded = Some(self.at);
            values.daemon.config_refused = false;
        });
        info!(config = %self.config, "configuration read again");
    }
}

/// The file was refused; what was in force stays so.
#[derive(Debug)]
pub struct ConfigRefused<'a> {
    pub failure: &'a Failure,
}

impl ConfigRefused<'_> {
    pub fn emit(&self, metrics: &Metrics) {
        metrics.update(|values| values.daemon.config_refused = true);
        let failure = self.failure;
        let (code, object, cause, next) = (failure.code().name, failure.object(), failure.cause(), failure.next_action());
        error!(code, %object, %cause, %next, "configuration refused; the one before it stays in force");
    }
}

/// Something that stops nothing and is worth a person's while, once.
#[derive(Debug)]
pub struct Noted<'a> {
    pub about: &'a str,
    pub text: &'a str,
}

impl Noted<'_> {
    pub fn emit(&self) {
        warn!(about = %self.about, text = %self.text, "note");
    }
}

/// How records wait, told when it begins and when it ends.
#[derive(Debug)]
pub struct OutboxSeen<'a> {
    /// None where nobody could say.
    pub waiting: Option<u64>,
    pub delivered: u64,
    /// Why they wait.
    pub why: Option<&'a Failure>,
    /// Records waited when it was last looked at.
    pub waited_before: bool,
}

impl OutboxSeen<'_> {
    pub fn emit(&self, metrics: &Metrics) {
        if let Some(waiting) = self.waiting {
            metrics.update(|values| values.stores.waiting = waiting);
        }
        let delivered = self.delivered;
        match self.why {
            Some(why) if !self.waited_before => {
                let (code, object, cause, next) = (why.code().name, why.object(), why.cause(), why.next_action());
                warn!(waiting = self.waiting, code, %object, %cause, %next, "records wait in the outbox");
            }
            None if self.waited_before => info!(delivered, "all records are delivered"),
            _ => {}
        }
    }
}

/// How the ledger answered, told when that changes.
#[derive(Debug)]
pub struct LedgerSeen<'a> {
    /// Why it did not.
    pub failure: Option<&'a Failure>,
    pub failed_before: bool,
    pub at: Timestamp,
}

impl LedgerSeen<'_> {
    pub fn emit(&self, metrics: &Metrics) {
        match self.failure {
            None => {
                metrics.update(|values| values.stores.ledger_read = Some(self.at));
                if self.failed_before {
                    info!("the ledger answers again");
                }
            }
            Some(failure) if !self.failed_before => {
                let (code, object, cause, next) = (failure.code().name, failure.object(), failure.cause(), failure.next_action());
                warn!(code, %object, %cause, %next, "the ledger cannot be read; snapshots go on");
            }
            Some(_) => {}
        }
    }
}

/// The daemon's own file, told when that changes.
#[derive(Debug)]
pub struct StateWritten<'a> {
    pub failure: Option<&'a Failure>,
    pub failed_before: bool,
}

impl StateWritten<'_> {
    pub fn emit(&self, metrics: &Metrics) {
        metrics.update(|values| values.daemon.state_unwritten = self.failure.is_some());
        match self.failure {
            None if self.failed_before => info!("the state file is written again"),
            Some(failure) if !self.failed_before => {
                let (code, object, cause, next) = (failure.code().name, failure.object(), failure.cause(), failure.next_action());
                error!(code, %object, %cause, %next, "the state file cannot be written; after a restart jobs may be done again");
            }
            _ => {}
        }
    }
}

/// Nothing new is begun; what runs is being stopped.
#[derive(Debug)]
pub struct DaemonStopping<'a> {
    pub why: &'a str,
}

impl DaemonStopping<'_> {
    pub fn emit(&self) {
        info!(why = %self.why, "daemon stopping");
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use serde_json::Value;

    use super::*;
    use crate::base::codes;
    use crate::telemetry::log::{Look, subscriber};

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// The lines that are written meanwhile.
    fn written(emit: impl FnOnce()) -> Vec<Value> {
        let lines = Lines::default();
        let writer = lines.clone();
        let look = Look { filter: "debug".into(), json: true, colours: false, journal: false, targets: false };
        tracing::subscriber::with_default(subscriber(&look, move || writer.clone()).unwrap(), emit);
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn ended(outcome: Outcome, failure: Option<&Failure>) -> JobEnded<'_> {
        JobEnded {
            job: Job::Snapshot,
            slot: at("2026-12-01T10:00:00Z"),
            attempt: 2,
            outcome,
            summary: "snapshot x: good",
            failure,
            warnings: &[],
            duration: Duration::from_millis(4_200),
            at: at("2026-12-01T10:00:04Z"),
            retry: None,
        }
    }

    #[test]
    fn the_end_of_a_job_is_one_line_with_duration_and_outcome_and_the_same_in_the_metrics() {
        let metrics = Metrics::new();
        let failure = Failure::new(&codes::ETCD_UNREACHABLE, "https://10.0.0.1:2379", "connection refused");
        let lines = written(|| ended(Outcome::Failed, Some(&failure)).emit(&metrics));
        assert_eq!(lines.len(), 1);
        for (field, value) in [
            ("level", "ERROR"),
            ("message", "job failed"),
            ("job", "snapshot"),
            ("slot", "2026-12-01T10:00:00Z"),
            ("duration", "4.2 s"),
            ("code", "etcd.unreachable"),
            ("object", "https://10.0.0.1:2379"),
            ("cause", "connection refused"),
            ("next", codes::ETCD_UNREACHABLE.next),
            ("retry", "at its next slot"),
        ] {
            assert_eq!(lines[0][field], value, "{field}: {}", lines[0]);
        }
        let job = metrics.read().jobs[&Job::Snapshot].clone();
        assert_eq!((job.consecutive_failures, job.last_failure), (1, Some(at("2026-12-01T10:00:04Z"))));

        let lines = written(|| ended(Outcome::Good, None).emit(&metrics));
        assert_eq!((lines.len(), &lines[0]["level"], &lines[0]["message"]), (1, &"INFO".into(), &"job done".into()));
        let job = metrics.read().jobs[&Job::Snapshot].clone();
        assert_eq!((job.consecutive_failures, job.last_success), (0, Some(at("2026-12-01T10:00:04Z"))));
        assert_eq!(job.ended, [(Outcome::Good, 1), (Outcome::Failed, 1)].into());
    }

    #[test]
    fn what_goes_on_is_told_when_it_begins_and_when_it_ends() {
        let metrics = Metrics::new();
        let down = Failure::new(&codes::LEDGER_UNREACHABLE, "ledger", "no answer");
        let seen = |why, waited_before| OutboxSeen { waiting: Some(2), delivered: 1, why, waited_before };
        let messages = |emit: &dyn Fn()| -> Vec<String> {
            written(emit).iter().map(|line| line["message"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(messages(&|| seen(Some(&down), false).emit(&metrics)), ["records wait in the outbox"]);
        assert_eq!(messages(&|| seen(Some(&down), true).emit(&metrics)), Vec::<String>::new());
        assert_eq!(messages(&|| seen(None, true).emit(&metrics)), ["all records are delivered"]);
        assert_eq!(messages(&|| seen(None, false).emit(&metrics)), Vec::<String>::new());
        // Who could not say leaves what was said.
        OutboxSeen { waiting: None, delivered: 0, why: None, waited_before: false }.emit(&metrics);
        assert_eq!(metrics.read().stores.waiting, 2);
    }
}
