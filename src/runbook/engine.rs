//! What runs next: a pure decision over a runbook and a journal.
//!
//! No clock, no I/O, no state of its own: the journal is the state. Asked about
//! any prefix of a legal journal, it answers; followed, it always ends.

use std::collections::HashMap;

use super::journal::{Entry, Event, FailureText, ProcessMark, RunResult, Word};
use super::model::{OnFailure, Runbook, Step};
use crate::base::exit::Exit;
use crate::record::Rung;

/// What the driver must do now.
#[derive(Debug, PartialEq, Eq)]
pub enum Decision<'a> {
    /// Run this step; its `Started` carries this attempt.
    Run { step: &'a Step, attempt: u32 },
    /// A person's step is due: write `Asked`, or `Unasked` where nobody is to be.
    Ask { step: &'a Step, attempt: u32 },
    /// A person was asked, and no process that ends changes that: somebody
    /// answers, or its time is up.
    Wait { step: String, attempt: u32 },
    /// A step began and its end is not known: write `Unknown` first.
    Settle { step: String, attempt: u32 },
    /// Nothing is left to do: write `Finished`, unless it is there.
    Finish(Outcome),
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub result: RunResult,
    /// The highest rung whose steps, and those of the rungs below, all succeeded.
    /// Only what the program does counts: no person's word proves a rung.
    pub reached: Option<Rung>,
    /// The first step that failed, and how.
    pub failure: Option<(String, FailureText)>,
}

impl Outcome {
    /// The exit code of a command that did this run.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match (self.result, &self.failure) {
            (RunResult::Passed, _) => Exit::Good,
            (RunResult::Interrupted, _) => Exit::Interrupted,
            (RunResult::Failed, Some((_, failure))) => failure.to_failure().exit(),
            (RunResult::Failed, None) => Exit::CouldNotRun,
        }
    }
}

/// Decides what comes next in a run that climbs to `until`, for the process `process`.
///
/// A success of another process counts only where the step is durable, and a
/// step is done again only while work that needs it is left.
#[must_use]
pub fn next<'a>(runbook: &'a Runbook, events: &[Event], until: Rung, process: &ProcessMark) -> Decision<'a> {
    let standing = Standing::of(events);
    match standing.open {
        Some(Open { step, attempt, asked: true }) => return Decision::Wait { step: step.to_owned(), attempt },
        Some(Open { step, attempt, asked: false }) => return Decision::Settle { step: step.to_owned(), attempt },
        None => {}
    }
    let outcome = outcome(runbook.steps.iter().filter(|step| step.is_in(until)).collect(), &standing);
    if let Some((result, reached)) = standing.finished {
        // A run that was left had no closing steps: it says itself how it ended.
        return Decision::Finish(Outcome { result, reached, failure: outcome.failure });
    }
    let climbing = || runbook.steps.iter().filter(|step| !step.always && step.is_in(until));
    let stopped = standing.interrupted
        || climbing().any(|step| step.on_failure == OnFailure::Stop && matches!(standing.end(step), End::Failed(_)));
    let work_left = climbing().any(|step| matches!(standing.end(step), End::None | End::Unknown));
    let run = |step: &'a Step| {
        let attempt = standing.attempts(step) + 1;
        if step.hands().is_some() { Decision::Ask { step, attempt } } else { Decision::Run { step, attempt } }
    };
    if work_left && !stopped {
        let due = climbing().find(|step| match standing.end(step) {
            End::None | End::Unknown => true,
            End::Succeeded(by) => !step.durable && step.hands().is_none() && by != process,
            End::Failed(_) | End::Unasked => false,
        });
        if let Some(step) = due {
            return run(step);
        }
    }
    let mut closing = runbook.steps.iter().filter(|step| step.always);
    match closing.find(|step| matches!(standing.end(step), End::None | End::Unknown)) {
        Some(step) => run(step),
        None => Decision::Finish(outcome),
    }
}

/// Has nothing failed or been interrupted so far?
#[must_use]
pub fn is_on_course(runbook: &Runbook, events: &[Event], until: Rung) -> bool {
    let standing = Standing::of(events);
    let failed = |step: &&Step| step.is_in(until) && matches!(standing.end(step), End::Failed(_));
    !standing.interrupted && !runbook.steps.iter().any(|step| failed(&step))
}

/// How a run stands without the steps that always run, for one whose result is kept.
#[must_use]
pub fn climbed(runbook: &Runbook, events: &[Event], until: Rung) -> Outcome {
    let steps = runbook.steps.iter().filter(|step| !step.always && step.is_in(until));
    outcome(steps.collect(), &Standing::of(events))
}

/// How the last attempt of a step ended.
#[derive(Debug, Clone, Copy)]
enum End<'e> {
    /// It never began.
    None,
    Unknown,
    Succeeded(&'e ProcessMark),
    /// The entry says how.
    Failed(&'e Entry),
    /// It is a person's, and nobody is asked.
    Unasked,
}

/// The step that has not ended.
#[derive(Debug, Clone, Copy)]
struct Open<'e> {
    step: &'e str,
    attempt: u32,
    /// Is it a person's?
    asked: bool,
}

/// A fold of the journal.
#[derive(Default)]
struct Standing<'e> {
    ends: HashMap<&'e str, (u32, End<'e>)>,
    open: Option<Open<'e>>,
    interrupted: bool,
    finished: Option<(RunResult, Option<Rung>)>,
}

impl<'e> Standing<'e> {
    fn of(events: &'e [Event]) -> Self {
        let mut standing = Self::default();
        for event in events {
            match &event.entry {
                Entry::Started { step, attempt } => standing.begins(step, *attempt, false),
                Entry::Asked { step, attempt, .. } => standing.begins(step, *attempt, true),
                Entry::Succeeded { step, attempt, .. } | Entry::Answered { step, attempt, answer: Word::Done, .. } => {
                    standing.ends(step, *attempt, End::Succeeded(&event.process));
                }
                Entry::Failed { step, attempt, .. } | Entry::Answered { step, attempt, .. } => {
                    standing.ends(step, *attempt, End::Failed(&event.entry));
                }
                Entry::Unknown { step, attempt, .. } => standing.ends(step, *attempt, End::Unknown),
                Entry::Unasked { step, .. } => standing.ends(step, 0, End::Unasked),
                Entry::Begun { .. } | Entry::Noted { .. } | Entry::Resumed {} => {}
                Entry::Interrupted {} => standing.interrupted = true,
                Entry::Finished { result, reached } => standing.finished = Some((*result, *reached)),
            }
        }
        standing
    }

    fn begins(&mut self, step: &'e str, attempt: u32, asked: bool) {
        self.open = Some(Open { step, attempt, asked });
        self.ends.insert(step, (attempt, End::Unknown));
    }

    fn ends(&mut self, step: &'e str, attempt: u32, end: End<'e>) {
        self.open = None;
        self.ends.insert(step, (attempt, end));
    }

    fn end(&self, step: &Step) -> End<'e> {
        self.ends.get(step.id.as_str()).map_or(End::None, |(_, end)| *end)
    }

    fn attempts(&self, step: &Step) -> u32 {
        self.ends.get(step.id.as_str()).map_or(0, |(attempt, _)| *attempt)
    }
}

/// `steps` are those of the runbook that belong to the run.
fn outcome(steps: Vec<&Step>, standing: &Standing<'_>) -> Outcome {
    let succeeded = |step: &&Step| matches!(standing.end(step), End::Succeeded(_) | End::Unasked);
    let failure = steps.iter().find_map(|step| match standing.end(step) {
        End::Failed(entry) => Some((step.id.clone(), entry.failure()?)),
        _ => None,
    });
    let climbing = || steps.iter().filter(|step| !step.always && step.hands().is_none());
    let mut reached = None;
    for step in climbing() {
        if !succeeded(step) {
            // This step's own rung is not reached, and none above it.
            reached = climbing().filter_map(|other| other.rung).filter(|rung| Some(*rung) < step.rung).max();
            break;
        }
        reached = step.rung;
    }
    let result = if standing.interrupted {
        RunResult::Interrupted
    } else if steps.iter().all(succeeded) {
        RunResult::Passed
    } else {
        RunResult::Failed
    };
    Outcome { result, reached, failure }
}
