//! What the loop has done for it, and what comes back.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::schedule::{Backoff, Due, Line};
use super::state::State;
use crate::base::codes;
use crate::base::failure::Failure;
use crate::base::job::Job;
use crate::telemetry::metrics::{Holdings, Outcome};

/// What a configuration asks of the loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub lines: Vec<Line>,
    pub backoff: Backoff,
    /// Between two looks at the ledger.
    pub refresh: Duration,
    pub deadlines: BTreeMap<Job, Duration>,
    /// What the configuration cannot promise.
    pub notes: Vec<(String, String)>,
}

/// The outside world, as the loop sees it. None of these may panic the loop:
/// jobs and upkeep are tasks of their own.
#[async_trait]
pub trait Work: Send + Sync + 'static {
    /// Does one job to its end. When `cancel` comes it cleans up and ends.
    async fn perform(&self, due: Due, cancel: CancellationToken) -> Ended;

    /// Sends what waits in the outbox, reads the ledger if asked, and says what
    /// the catalog has.
    async fn upkeep(&self, reads_ledger: bool) -> Upkept;

    async fn persist(&self, state: &State) -> Result<(), Failure>;

    /// Reads the configuration again. On failure the old one stays in force.
    async fn reload(&self) -> Result<Plan, Failure>;
}

/// How a job ended.
#[derive(Debug)]
pub struct Ended {
    pub outcome: Outcome,
    /// The slot is not settled: another attempt could end better.
    pub again: bool,
    /// One line, where it ran.
    pub summary: String,
    pub failure: Option<Failure>,
    pub warnings: Vec<Failure>,
}

/// What upkeep found.
#[derive(Debug, Default)]
pub struct Upkept {
    pub delivered: u64,
    /// None where the outbox gave no answer.
    pub waiting: Option<u64>,
    /// Why records wait; of several reasons the first.
    pub why: Option<Failure>,
    /// None where the ledger was not to be read.
    pub ledger: Option<Result<(), Failure>>,
    /// None where the catalog gave no answer.
    pub holdings: Option<Holdings>,
    /// Why it gave none.
    pub catalog: Option<Failure>,
}

impl Ended {
    #[must_use]
    pub fn failed(failure: Failure) -> Self {
        Self { outcome: Outcome::Failed, again: true, summary: String::new(), failure: Some(failure), warnings: Vec::new() }
    }

    /// Nobody asked it to stop, so that being interrupted is a failure.
    #[must_use]
    pub fn unasked(self) -> Self {
        match self.outcome {
            Outcome::Interrupted => Self::failed(Failure::new(&codes::INTERRUPTED, "job", "it ended before its end")),
            _ => self,
        }
    }

    #[must_use]
    pub fn interrupted() -> Self {
        Self { outcome: Outcome::Interrupted, again: true, summary: String::new(), failure: None, warnings: Vec::new() }
    }
}
