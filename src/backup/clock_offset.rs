//! How far this host's clock is from the snapshot store's. Pure.
//!
//! A store says what time it is to the second, and some of its answers take a
//! while: smaller differences mean nothing, and are recorded all the same.

use jiff::{SignedDuration, Timestamp};

use crate::base::codes;
use crate::base::failure::Failure;
use crate::base::units::human_duration;
use crate::record::manifest::{Problem, Severity};

/// More than any time service leaves, and than an answer takes.
const WARNED: SignedDuration = SignedDuration::from_secs(60);
/// The times of such a snapshot cannot be relied on, and S3 servers refuse
/// clocks that are much farther off.
const DOUBTED: SignedDuration = SignedDuration::from_mins(10);

/// Local time minus the store's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockOffset(SignedDuration);

impl ClockOffset {
    #[must_use]
    pub fn between(local: Timestamp, store: Timestamp) -> Self {
        Self(local.duration_since(store))
    }

    #[must_use]
    pub fn milliseconds(self) -> i64 {
        i64::try_from(self.0.as_millis()).unwrap_or(if self.0.is_negative() { i64::MIN } else { i64::MAX })
    }

    /// Is it too far off for the snapshot's times to count?
    #[must_use]
    pub fn is_doubtful(self) -> bool {
        self.0.abs() > DOUBTED
    }

    /// What the manifest says of it, from a minute on.
    #[must_use]
    pub fn problem(self) -> Option<Problem> {
        (self.0.abs() > WARNED).then(|| Problem {
            code: "clock-offset".to_owned(),
            severity: Severity::Warning,
            message: self.text(),
            count: 1,
        })
    }

    /// The same for the operator, about the store named.
    #[must_use]
    pub fn warning(self, store: &str) -> Option<Failure> {
        self.problem().map(|problem| Failure::new(&codes::BACKUP_CLOCK, store, problem.message))
    }

    fn text(self) -> String {
        let way = if self.0.is_negative() { "behind" } else { "ahead of" };
        format!("this host's clock is {} {way} the snapshot store's", human_duration(self.0.unsigned_abs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_is_told_and_ten_are_doubtful_either_way() {
        let store: Timestamp = "2026-12-01T13:00:00Z".parse().unwrap();
        for (seconds, told, doubtful) in [
            (0, false, false),
            (60, false, false),
            (61, true, false),
            (600, true, false),
            (601, true, true),
            (86_400, true, true),
        ] {
            for sign in [1, -1] {
                let offset = ClockOffset::between(store + SignedDuration::from_secs(sign * seconds), store);
                assert_eq!(offset.milliseconds(), sign * seconds * 1000);
                assert_eq!((offset.problem().is_some(), offset.is_doubtful()), (told, doubtful), "{}", sign * seconds);
                let way = if sign > 0 { "ahead of" } else { "behind" };
                assert!(offset.warning("s3 x/y").is_none_or(|warning| warning.cause().contains(way)));
            }
        }
    }
}
