//! Which event may follow which: the one rule of every journal.

use std::collections::{BTreeMap, BTreeSet};

use super::journal::{Entry, Event, ProcessMark, Word};
use super::model::HandsKind;
use crate::base::codes;
use crate::base::failure::Failure;

/// A legal sequence of events, and what may follow it.
#[derive(Debug, Default)]
pub struct History {
    events: Vec<Event>,
    open: Option<Open>,
    attempts: BTreeMap<String, u32>,
    unasked: BTreeSet<String>,
    /// The last monotonic time of each process.
    uptimes: BTreeMap<ProcessMark, u64>,
    finished: bool,
}

/// The step that began, or was asked for, and has not ended.
#[derive(Debug)]
struct Open {
    step: String,
    attempt: u32,
    process: ProcessMark,
    /// Set for a person's step.
    asked: Option<Asked>,
}

#[derive(Debug)]
struct Asked {
    kind: HandsKind,
    /// Who said that hands are on it.
    begun: Option<String>,
}

impl History {
    /// Reads stored events; refused with `run.journal` where one is not legal.
    pub fn read(events: Vec<Event>) -> Result<Self, Failure> {
        let mut history = Self::default();
        for event in events {
            history.admit(event)?;
        }
        Ok(history)
    }

    /// Takes one more event, or refuses it and stays as it was.
    pub fn admit(&mut self, event: Event) -> Result<(), Failure> {
        if let Err(why) = self.check(&event) {
            return Err(Failure::new(&codes::RUN_JOURNAL, format_args!("run {} event {}", event.run, event.number), why));
        }
        let opened = |asked| {
            let (step, attempt) = event.step()?;
            Some(Open { step: step.to_owned(), attempt, process: event.process.clone(), asked })
        };
        match &event.entry {
            Entry::Started { .. } => self.open = opened(None),
            Entry::Asked { ask, .. } => self.open = opened(Some(Asked { kind: *ask, begun: None })),
            Entry::Begun { by, .. } => {
                if let Some(asked) = self.open.as_mut().and_then(|open| open.asked.as_mut()) {
                    asked.begun = Some(by.clone());
                }
            }
            Entry::Succeeded { .. } | Entry::Failed { .. } | Entry::Unknown { .. } | Entry::Answered { .. } => self.open = None,
            Entry::Unasked { step, .. } => drop(self.unasked.insert(step.clone())),
            Entry::Noted { .. } | Entry::Resumed {} | Entry::Interrupted {} => {}
            Entry::Finished { .. } => self.finished = true,
        }
        if let Entry::Started { step, attempt } | Entry::Asked { step, attempt, .. } = &event.entry {
            self.attempts.insert(step.clone(), *attempt);
        }
        self.uptimes.insert(event.process.clone(), event.uptime_ms);
        self.events.push(event);
        Ok(())
    }

    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    #[must_use]
    pub fn into_events(self) -> Vec<Event> {
        self.events
    }

    /// Why this event may not follow, if so.
    pub fn check(&self, event: &Event) -> Result<(), String> {
        if self.finished {
            return Err("the run has finished".into());
        }
        if self.events.last().is_some_and(|last| last.run != event.run) {
            return Err("it belongs to another run".into());
        }
        if self.uptimes.get(&event.process).is_some_and(|last| event.uptime_ms < *last) {
            return Err("monotonic time went back".into());
        }
        if event.number != self.events.len() as u64 + 1 {
            return Err(format!("event {} was expected", self.events.len() + 1));
        }
        match &event.entry {
            Entry::Noted { .. } => Ok(()),
            Entry::Resumed {} if self.uptimes.contains_key(&event.process) => Err("this process has the run already".into()),
            Entry::Resumed {} => Ok(()),
            _ => match &self.open {
                Some(open) => open.check(event),
                None => self.check_closed(&event.entry),
            },
        }
    }

    /// Between two steps.
    fn check_closed(&self, entry: &Entry) -> Result<(), String> {
        match entry {
            Entry::Started { step, attempt } | Entry::Asked { step, attempt, .. } => {
                let expected = self.attempts.get(step).copied().unwrap_or(0) + 1;
                if *attempt == expected { Ok(()) } else { Err(format!("attempt {expected} of {step} was expected")) }
            }
            Entry::Unasked { step, .. } if self.attempts.contains_key(step) => Err(format!("{step} has been asked for")),
            Entry::Unasked { step, .. } if self.unasked.contains(step) => Err(format!("the run went past {step} before")),
            Entry::Unasked { .. } | Entry::Interrupted {} | Entry::Finished { .. } => Ok(()),
            _ => Err("no step has begun".into()),
        }
    }
}

impl Open {
    /// While this step is open.
    fn check(&self, event: &Event) -> Result<(), String> {
        let Self { step, attempt, process, asked } = self;
        if event.step() != Some((step.as_str(), *attempt)) {
            return Err(format!("attempt {attempt} of {step} has not ended"));
        }
        match (&event.entry, asked) {
            // Nobody but the process that ran a step can know how it ended.
            (Entry::Succeeded { .. } | Entry::Failed { .. }, None) if event.process != *process => {
                Err(format!("attempt {attempt} of {step} was begun by another process"))
            }
            (Entry::Succeeded { .. } | Entry::Failed { .. } | Entry::Unknown { .. }, None) => Ok(()),
            (Entry::Begun { .. } | Entry::Answered { .. }, None) => Err(format!("{step} is no person's step")),
            (Entry::Begun { .. }, Some(Asked { begun: Some(by), .. })) => Err(format!("{step} was begun by {by}")),
            (Entry::Begun { .. }, Some(_)) => Ok(()),
            (Entry::Answered { answer: Word::Refused, .. }, Some(Asked { kind: HandsKind::Manual, .. })) => {
                Err(format!("{step} asks for no approval, so it cannot be refused"))
            }
            (Entry::Answered { answer: Word::Failed, .. }, Some(Asked { kind: HandsKind::Approval, .. })) => {
                Err(format!("{step} asks for an approval, which is given or refused"))
            }
            // That nobody answered in time, any process can tell.
            (Entry::Answered { .. } | Entry::Failed { .. }, Some(_)) => Ok(()),
            (Entry::Succeeded { .. } | Entry::Unknown { .. }, Some(_)) => Err(format!("only a person can end {step}")),
            _ => Err(format!("attempt {attempt} of {step} has not ended")),
        }
    }
}
