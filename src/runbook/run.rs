//! The loop that does what the engine decides, and journals it before and after.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::desk::People;
use super::engine::{self, Decision, Outcome};
use super::facts::Facts;
use super::journal::{Entry, Event, FailureText, History, Journal, ProcessMark, RunHead};
use super::model::{Runbook, Step};
use crate::base::clock::Clock;
use crate::base::codes;
use crate::base::failure::Failure;
use crate::base::units::human_duration;

/// Does the work of steps. Every step may be done again: after a crash nobody
/// knows how far it came.
#[async_trait]
pub trait Actions: Send {
    /// Does one step to its end. The future is dropped when the step's time is
    /// up or the run is interrupted; what it left behind is removed by a step
    /// that always runs.
    async fn run(&mut self, step: &Step) -> Result<Done, StepFailure>;

    /// Called once before the first step when another process began the run,
    /// with all that it stated: the place to find what it left behind.
    async fn resume(&mut self, _stated: &Facts) -> Result<(), Failure> {
        Ok(())
    }

    /// Called when this process gives up a run that stays open: ends what would
    /// end with the process, so that nothing is left to clean up after it.
    async fn give_up(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

/// What a step says when it has done its work.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Done {
    /// One line for the table of steps, a phrase without a full stop.
    pub summary: String,
    pub facts: Facts,
}

/// Why a step did not, and what it found out all the same.
#[derive(Debug)]
pub struct StepFailure {
    pub failure: Failure,
    /// Boxed: facts are large, and an error is carried through many frames.
    pub facts: Box<Facts>,
}

impl From<Failure> for StepFailure {
    fn from(failure: Failure) -> Self {
        Self { failure, facts: Box::default() }
    }
}

/// Everything a run needs besides its actions.
pub struct Driver<'a> {
    pub runbook: &'a Runbook,
    pub head: &'a RunHead,
    pub journal: Arc<dyn Journal>,
    pub clock: Arc<dyn Clock>,
    /// This process; equal to the head's in a run that it began itself.
    pub process: ProcessMark,
    pub cancel: CancellationToken,
    pub people: &'a People<'a>,
    /// Told of every event once it is in the journal.
    pub watch: &'a (dyn Fn(&Event) + Send + Sync),
}

impl Debug for Driver<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("run", &self.head.run).field("process", &self.process).finish_non_exhaustive()
    }
}

impl Driver<'_> {
    /// Runs, or goes on with, a run that is in the journal, to its end.
    ///
    /// A step that fails is part of the outcome. An error means that the
    /// journal could not be read or written, or that the run was left while it
    /// waits for a person: then nothing more is started, the run stays
    /// unfinished, and it can be gone on with.
    pub async fn drive(&self, actions: &mut dyn Actions) -> Result<Outcome, Failure> {
        let ended = self.drive_to(actions, &|_, _| false).await?;
        ended.ok_or_else(|| self.refused("it paused, and was not asked to"))
    }

    /// As [`Driver::drive`], but pauses before a step that `pause` names; it is
    /// also told whether all has gone well so far. There is no outcome then, and
    /// what the steps made stands. The same driver goes on from there.
    ///
    /// # Errors
    /// As [`Driver::drive`].
    pub async fn drive_to(
        &self,
        actions: &mut dyn Actions,
        pause: &(dyn Fn(&Step, bool) -> bool + Send + Sync),
    ) -> Result<Option<Outcome>, Failure> {
        let mut history = self.open().await?;
        self.take_over(&mut history).await?;
        let mut prepared = self.process == self.head.process;
        loop {
            let is_well = engine::is_on_course(self.runbook, history.events(), self.head.until);
            match engine::next(self.runbook, history.events(), self.head.until, &self.process) {
                Decision::Settle { step, attempt } => {
                    let cause = "the process ended before it could say how the step ended".to_owned();
                    self.write(&mut history, Entry::Unknown { step, attempt, cause }).await?;
                }
                Decision::Run { step, .. } | Decision::Ask { step, .. }
                    if self.cancel.is_cancelled() && (!step.always || pause(step, is_well)) && !interrupted(&history) =>
                {
                    self.write(&mut history, Entry::Interrupted {}).await?;
                }
                Decision::Run { step, .. } | Decision::Ask { step, .. } if pause(step, is_well) => return Ok(None),
                Decision::Run { step, attempt } => {
                    if !prepared {
                        actions.resume(&stated(history.events())).await?;
                        prepared = true;
                    }
                    self.step(&mut history, actions, step, attempt).await?;
                }
                Decision::Ask { step, attempt } => self.ask(&mut history, step, attempt).await?,
                Decision::Wait { step, .. } => {
                    if let Err(failure) = self.wait(&mut history, &step).await {
                        actions.give_up().await?;
                        return Err(failure);
                    }
                }
                Decision::Finish(outcome) => {
                    if !is_finished(&history) {
                        self.write(&mut history, Entry::Finished { result: outcome.result, reached: outcome.reached }).await?;
                    }
                    return Ok(Some(outcome));
                }
            }
        }
    }

    /// Ends a run that paused before the steps that always run: what the run
    /// made stays, and whoever keeps it removes it.
    ///
    /// # Errors
    /// As [`Driver::drive`].
    pub async fn leave(&self) -> Result<Outcome, Failure> {
        let mut history = self.open().await?;
        let outcome = engine::climbed(self.runbook, history.events(), self.head.until);
        self.write(&mut history, Entry::Finished { result: outcome.result, reached: outcome.reached }).await?;
        Ok(outcome)
    }

    /// The run's history, if it is a run of this very page.
    async fn open(&self) -> Result<History, Failure> {
        if self.runbook.digest == self.head.runbook_digest {
            return self.read().await;
        }
        let next = "restore the runbook's old text, or start a new run";
        Err(self.refused("the runbook has changed since the run began").next(next))
    }

    /// A process that did not begin the run says that it goes on with it.
    async fn take_over(&self, history: &mut History) -> Result<(), Failure> {
        let known = self.process == self.head.process || history.events().iter().any(|event| event.process == self.process);
        if known || is_finished(history) { Ok(()) } else { self.write(history, Entry::Resumed {}).await }
    }

    pub(super) fn refused(&self, cause: impl std::fmt::Display) -> Failure {
        Failure::new(&codes::RUN_JOURNAL, format_args!("run {}", self.head.run), cause)
    }

    /// One step: journaled, done, journaled.
    async fn step(&self, history: &mut History, actions: &mut dyn Actions, step: &Step, attempt: u32) -> Result<(), Failure> {
        let id = || step.id.clone();
        self.write(history, Entry::Started { step: id(), attempt }).await?;
        let result = tokio::select! {
            biased;
            // What always runs is what cleans up: it is not interrupted, only timed.
            () = self.cancel.cancelled(), if !step.always => None,
            result = tokio::time::timeout(step.timeout, actions.run(step)) => Some(result),
        };
        let entry = match result {
            Some(Ok(Ok(Done { summary, facts }))) => Entry::Succeeded { step: id(), attempt, summary, facts: Box::new(facts) },
            Some(Ok(Err(StepFailure { failure, facts }))) => {
                Entry::Failed { step: id(), attempt, failure: FailureText::of(&failure), facts }
            }
            Some(Err(_elapsed)) => {
                let cause = format_args!("it did not end within {}", human_duration(step.timeout)).to_string();
                let failure = Failure::new(&codes::RUN_STEP_TIMEOUT, format_args!("step {}", step.id), cause);
                Entry::Failed { step: id(), attempt, failure: FailureText::of(&failure), facts: Box::default() }
            }
            None => Entry::Unknown { step: id(), attempt, cause: "the run was interrupted".to_owned() },
        };
        self.write(history, entry).await
    }

    async fn read(&self) -> Result<History, Failure> {
        let (journal, run) = (Arc::clone(&self.journal), self.head.run.clone());
        History::read(blocking(move || journal.events(&run)).await?)
    }

    /// Appends an event with the times of now; the history follows the journal.
    /// People write to it meanwhile: where that leaves no place for the entry,
    /// nothing is written, and the engine decides anew.
    pub(super) async fn write(&self, history: &mut History, entry: Entry) -> Result<(), Failure> {
        loop {
            let event = Event {
                run: self.head.run.clone(),
                number: history.events().len() as u64 + 1,
                at: self.clock.now(),
                uptime_ms: u64::try_from(self.clock.uptime().as_millis()).unwrap_or(u64::MAX),
                process: self.process.clone(),
                entry: entry.clone(),
            };
            let (journal, copy) = (Arc::clone(&self.journal), event.clone());
            match blocking(move || journal.append(&copy)).await {
                Ok(()) => {
                    (self.watch)(&event);
                    return history.admit(event);
                }
                Err(failure) if failure.code() != &codes::RUN_JOURNAL => return Err(failure),
                Err(failure) if !self.catch_up(history).await? => return Err(failure),
                Err(_) => {}
            }
            if history.check(&Event { number: history.events().len() as u64 + 1, ..event }).is_err() {
                return Ok(());
            }
        }
    }

    /// Takes over what others wrote; was there anything?
    ///
    /// # Errors
    /// `run.journal` when another process goes on with the run.
    pub(super) async fn catch_up(&self, history: &mut History) -> Result<bool, Failure> {
        let mut events = self.read().await?.into_events();
        let new = events.split_off(history.events().len().min(events.len()));
        let grown = !new.is_empty();
        for event in new {
            if event.process != self.process && !event.entry.is_by_hand() {
                return Err(self.refused("another process goes on with it"));
            }
            (self.watch)(&event);
            history.admit(event)?;
        }
        Ok(grown)
    }
}

/// Everything that the steps of a run stated, joined in order.
#[must_use]
pub fn stated(events: &[Event]) -> Facts {
    let mut all = Facts::default();
    for event in events {
        if let Entry::Succeeded { facts, .. } | Entry::Failed { facts, .. } = &event.entry {
            all.absorb((**facts).clone());
        }
    }
    all
}

fn is_finished(history: &History) -> bool {
    matches!(history.events().last().map(|last| &last.entry), Some(Entry::Finished { .. }))
}

fn interrupted(history: &History) -> bool {
    history.events().iter().any(|event| matches!(event.entry, Entry::Interrupted {}))
}

/// A journal may wait for a disk: never on a thread that serves timers.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let lost = |error| Failure::because(&codes::RUN_JOURNAL, "the journal", &error);
    tokio::task::spawn_blocking(work).await.map_err(lost)?
}
