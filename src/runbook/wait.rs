//! Waiting for people: what a driver does while a step is theirs.

use std::sync::Arc;
use std::time::Duration;

use super::answer::{Writer, waiting};
use super::desk::{People, Said};
use super::history::History;
use super::journal::{Entry, Event, FailureText};
use super::model::Step;
use super::run::{Driver, blocking};
use crate::base::codes;
use crate::base::failure::Failure;
use crate::base::units::round_duration;

/// How often the journal is looked at for what other processes write there.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

impl Driver<'_> {
    /// A person's step is due: it is open from here on, or nobody is asked.
    pub(super) async fn ask(&self, history: &mut History, step: &Step, attempt: u32) -> Result<(), Failure> {
        let id = step.id.clone();
        let entry = match (self.people, step.hands()) {
            (People::Attended(_), Some(hands)) => Entry::Asked { step: id, attempt, ask: hands.kind },
            (People::Unattended(carried), _) => Entry::Unasked { carried: carried.get(&id).cloned(), step: id },
            (People::Attended(_), None) => return Err(self.refused(format!("step {id} is no person's"))),
        };
        self.write(history, entry).await
    }

    /// Waits until the open step of a person has its end, from whatever process,
    /// or its time is up.
    pub(super) async fn wait(&self, history: &mut History, id: &str) -> Result<(), Failure> {
        let step = self.runbook.step(id).ok_or_else(|| self.refused(format!("its runbook has no step {id}")))?;
        let People::Attended(desk) = self.people else {
            return Err(Failure::new(
                &codes::RUN_ASKS_PEOPLE,
                format_args!("run {}", self.head.run),
                format_args!("it waits for step {id}"),
            )
            .next(format!("go on with it: holdfast runbook resume {}", self.head.run)));
        };
        desk.opens(self.head, step, begun(history.events()));
        loop {
            if self.is_overdue(history.events(), step.timeout) {
                let cause = format_args!("nobody answered within {}", round_duration(step.timeout)).to_string();
                let failure = Failure::new(&codes::RUN_STEP_TIMEOUT, format_args!("step {id}"), cause);
                let attempt = waiting(history.events()).map_or(1, |(_, attempt)| attempt);
                let entry =
                    Entry::Failed { step: id.to_owned(), attempt, failure: FailureText::of(&failure), facts: Box::default() };
                self.write(history, entry).await?;
            } else {
                tokio::select! {
                    biased;
                    () = self.cancel.cancelled() => return Err(self.left(id)),
                    said = desk.hear(step) => self.take_down(id, said).await?,
                    // Other processes write to the journal and cannot call.
                    () = tokio::time::sleep(LOOK_AGAIN) => {}
                }
                self.catch_up(history).await?;
            }
            if waiting(history.events()).is_none_or(|(open, _)| open != id) {
                let end = history.events().iter().rev().find(|event| event.step().is_some_and(|(step, _)| step == id));
                if let Some(end) = end {
                    desk.closes(step, end);
                }
                return Ok(());
            }
        }
    }

    /// Writes down what was said at the desk; what others said before counts.
    async fn take_down(&self, step: &str, said: Said) -> Result<(), Failure> {
        let writer = Writer { journal: Arc::clone(&self.journal), clock: Arc::clone(&self.clock), process: self.process.clone() };
        let (run, step) = (self.head.run.clone(), step.to_owned());
        let written = blocking(move || match said {
            Said::Begun(by) => writer.begin(&run, &step, &by),
            Said::Answered(answer) => writer.answer(&run, &step, &answer),
        });
        match written.await {
            Err(failure) if ![&codes::RUN_ANSWERED, &codes::RUN_STEP_NOT_OPEN].contains(&failure.code()) => Err(failure),
            _ => Ok(()),
        }
    }

    fn is_overdue(&self, events: &[Event], limit: Duration) -> bool {
        let asked = events.iter().rev().find(|event| matches!(event.entry, Entry::Asked { .. }));
        asked.is_some_and(|asked| {
            let waited = if asked.process == self.process {
                self.clock.uptime().saturating_sub(Duration::from_millis(asked.uptime_ms))
            } else {
                Duration::try_from(self.clock.now().duration_since(asked.at)).unwrap_or_default()
            };
            waited >= limit
        })
    }

    fn left(&self, step: &str) -> Failure {
        let run = &self.head.run;
        Failure::new(&codes::INTERRUPTED, format_args!("run {run}"), format_args!("it waits for step {step}, and stays open"))
            .next(format!("go on with it: holdfast runbook resume {run}"))
    }
}

/// Who said that hands are on the step that is open.
fn begun(events: &[Event]) -> Option<&str> {
    events.iter().rev().find_map(|event| match &event.entry {
        Entry::Begun { by, .. } => Some(Some(by.as_str())),
        Entry::Asked { .. } => Some(None),
        _ => None,
    })?
}
