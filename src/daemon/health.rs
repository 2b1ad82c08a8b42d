//! Is the daemon doing its work? A pure function of what its loop last noted.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use crate::base::clock::rfc3339;
use crate::base::job::Job;
use crate::base::units::human_duration;

/// The loop turns every ten seconds; one that did not for a minute is stuck.
pub const STUCK: Duration = Duration::from_secs(60);

/// What the loop notes at each turn, for whoever asks.
#[derive(Debug, Default)]
pub struct Pulse(Mutex<Beat>);

/// One turn of the loop.
#[derive(Debug, Clone, Default)]
pub struct Beat {
    /// On the monotonic clock.
    pub turned: Duration,
    /// From when on each job is overdue.
    pub overdue: Vec<(Job, Timestamp)>,
    /// Why each job last failed, in one line, where it did.
    pub failing: Vec<(Job, String)>,
    /// What is not as it should be and stops nothing.
    pub notes: Vec<String>,
}

/// The answer of `/healthz`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    pub is_good: bool,
    /// Lines for a person; never empty.
    pub text: String,
}

impl Pulse {
    #[must_use]
    pub fn new(uptime: Duration) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Beat { turned: uptime, ..Beat::default() })))
    }

    pub fn beat(&self, beat: Beat) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = beat;
    }

    #[must_use]
    pub fn last(&self) -> Beat {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Good while the loop turns and nothing is overdue. What fails is named only
/// where it makes something overdue: a failure is tried again first.
#[must_use]
pub fn judge(beat: &Beat, now: Timestamp, uptime: Duration) -> Health {
    let mut bad = Vec::new();
    let still = uptime.saturating_sub(beat.turned);
    if still > STUCK {
        bad.push(format!("the daemon's loop has not turned for {}", human_duration(still)));
    }
    for (job, overdue) in beat.overdue.iter().filter(|(_, overdue)| *overdue <= now) {
        let why = beat.failing.iter().find(|(failing, _)| failing == job).map(|(_, why)| format!(": {why}"));
        bad.push(format!("{job} overdue since {}{}", rfc3339(*overdue), why.unwrap_or_default()));
    }
    let is_good = bad.is_empty();
    let first = if is_good { vec!["ok".to_owned()] } else { bad };
    let lines: Vec<String> = first.into_iter().chain(beat.notes.iter().map(|note| format!("note: {note}"))).collect();
    Health { is_good, text: lines.join("\n") + "\n" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn beat() -> Beat {
        Beat {
            turned: Duration::from_secs(100),
            overdue: vec![(Job::Snapshot, at("2026-12-01T12:00:00Z"))],
            failing: vec![(Job::Snapshot, "etcd.unreachable".into())],
            notes: vec!["the configuration file was refused".into()],
        }
    }

    #[test]
    fn a_loop_that_turns_with_nothing_overdue_is_good_and_says_what_it_notes() {
        let health = judge(&beat(), at("2026-12-01T11:59:59Z"), Duration::from_secs(160));
        assert_eq!((health.is_good, health.text.as_str()), (true, "ok\nnote: the configuration file was refused\n"));
    }

    #[test]
    fn what_is_overdue_or_stuck_is_bad_with_the_reason() {
        let health = judge(&beat(), at("2026-12-01T12:00:00Z"), Duration::from_secs(175));
        let expected = "the daemon's loop has not turned for 1 min 15 s\n\
                        snapshot overdue since 2026-12-01T12:00:00Z: etcd.unreachable\n\
                        note: the configuration file was refused\n";
        assert_eq!((health.is_good, health.text.as_str()), (false, expected));
    }
}
