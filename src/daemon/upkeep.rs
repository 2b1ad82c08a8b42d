//! When the outbox is emptied and the ledger read, beside the jobs.

use std::time::Duration;

use super::schedule::{Backoff, pause};
use super::work::Upkept;
use crate::base::failure::Failure;
use crate::base::units::human_duration;

/// A store that was down is tried again soon, and less and less often.
const FIRST: Duration = Duration::from_secs(10);

/// Times on the monotonic clock. The first round is due at once.
#[derive(Debug, Default)]
pub struct Upkeep {
    due: Duration,
    ledger_due: Duration,
    reads_ledger: bool,
    /// Rounds in a row in which something waited or did not answer.
    troubled: u32,
    waits: bool,
    ledger_failed: bool,
}

/// How it was before a round ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Before {
    pub waited_before: bool,
    pub ledger_failed_before: bool,
}

impl Upkeep {
    #[must_use]
    pub fn is_due(&self, uptime: Duration) -> bool {
        uptime >= self.due
    }

    #[must_use]
    pub fn due(&self) -> Duration {
        self.due
    }

    /// A job ended: there may be something to send and to show.
    pub fn soon(&mut self) {
        self.due = Duration::ZERO;
    }

    /// Begins a round; says whether the ledger is read in it.
    pub fn begin(&mut self, uptime: Duration) -> bool {
        self.reads_ledger = uptime >= self.ledger_due;
        // Asked for meanwhile, another round follows this one.
        self.due = Duration::MAX;
        self.reads_ledger
    }

    /// Ends a round: when the next one is due, and how it was before.
    pub fn end(&mut self, uptime: Duration, upkept: &Upkept, refresh: Duration) -> Before {
        let before = Before { waited_before: self.waits, ledger_failed_before: self.ledger_failed };
        self.waits = upkept.why.is_some();
        if let Some(read) = &upkept.ledger {
            self.ledger_failed = read.is_err();
        }
        let is_troubled = self.waits || self.ledger_failed;
        self.troubled = if is_troubled { self.troubled.saturating_add(1) } else { 0 };
        let again = uptime + pause(Backoff { first: FIRST.min(refresh), longest: refresh }, self.troubled);
        if self.reads_ledger {
            self.ledger_due = if self.ledger_failed { again } else { uptime + refresh };
        }
        let next = if is_troubled { again.min(self.ledger_due) } else { self.ledger_due };
        self.due = self.due.min(next);
        before
    }
}

impl Upkept {
    /// A round that came to no end.
    #[must_use]
    pub fn failed(failure: Failure) -> Self {
        Self { why: Some(failure.clone()), ledger: Some(Err(failure)), ..Self::default() }
    }

    /// A round that took too long or was stopped.
    #[must_use]
    pub fn cut_off(deadline: Duration) -> Self {
        let cause = format!("upkeep did not end within {}", human_duration(deadline));
        Self::failed(Failure::new(&crate::base::codes::LEDGER_UNREACHABLE, "upkeep", cause))
    }
}
