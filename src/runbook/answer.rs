//! What people say of a run, written into its journal from any process.
//!
//! The process that drives the run need not exist: an answer is an event like
//! any other, and whoever goes on with the run finds it there.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use super::history::History;
use super::journal::{Entry, Event, Journal, ProcessMark, Word};
use crate::base::clock::{Clock, rfc3339};
use crate::base::codes;
use crate::base::failure::Failure;
use crate::base::ids::RunId;

/// A name longer than this is something else.
const MAX_NAME: usize = 200;

/// A note is for a report's table; a document belongs beside it.
const MAX_NOTE: usize = 4000;

/// Whoever lost more races than this for one number of the journal has met a defect.
const MAX_RACES: usize = 100;

/// A person, as they are written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name(String);

/// What a person adds to an answer, or has to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note(String);

/// A person's answer to a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub word: Word,
    pub by: Name,
    pub note: Option<Note>,
    /// How long hands were busy; without it, since somebody said that they began.
    pub hands_on: Option<Duration>,
}

/// A hand on a journal: of this process, at this moment.
#[derive(Debug, Clone)]
pub struct Writer {
    pub journal: Arc<dyn Journal>,
    pub clock: Arc<dyn Clock>,
    pub process: ProcessMark,
}

impl Writer {
    /// Says that hands are on the open step `step` now.
    ///
    /// # Errors
    /// `run.unknown`, `run.finished`, `run.step-not-open`, `run.answered`: the
    /// journal is then as it was.
    pub fn begin(&self, run: &RunId, step: &str, by: &Name) -> Result<Event, Failure> {
        self.append(run, |history| {
            let attempt = open(history, run, step)?;
            Ok(Entry::Begun { step: step.to_owned(), attempt, by: by.0.clone() })
        })
    }

    /// Answers the open step `step`.
    ///
    /// # Errors
    /// As [`Writer::begin`]; `run.step-not-open` also where the step asks for
    /// another kind of answer.
    pub fn answer(&self, run: &RunId, step: &str, answer: &Answer) -> Result<Event, Failure> {
        self.append(run, |history| {
            let attempt = open(history, run, step)?;
            Ok(Entry::Answered {
                step: step.to_owned(),
                attempt,
                answer: answer.word,
                by: answer.by.0.clone(),
                note: answer.note.as_ref().map(|note| note.0.clone()),
                hands_on_ms: answer.hands_on.map(millis),
            })
        })
    }

    /// Writes down what somebody did that the runbook did not foresee.
    ///
    /// # Errors
    /// `run.unknown`, `run.finished`: the journal is then as it was.
    pub fn note(&self, run: &RunId, note: &Note, by: &Name, hands_on: Option<Duration>) -> Result<Event, Failure> {
        let entry = Entry::Noted { text: note.0.clone(), by: by.0.clone(), hands_on_ms: hands_on.map(millis) };
        self.append(run, |_| Ok(entry.clone()))
    }

    /// Writes what `entry` makes of the journal as it is. Others may write at
    /// the same moment: then it is made again, of what they left.
    fn append(&self, run: &RunId, entry: impl Fn(&History) -> Result<Entry, Failure>) -> Result<Event, Failure> {
        for _ in 0..MAX_RACES {
            let history = History::read(self.journal.events(run)?)?;
            if matches!(history.events().last().map(|last| &last.entry), Some(Entry::Finished { .. })) {
                return Err(Failure::new(&codes::RUN_FINISHED, format_args!("run {run}"), "it has finished")
                    .next(format!("read its report with holdfast report {run}")));
            }
            let event = Event {
                run: run.clone(),
                number: history.events().len() as u64 + 1,
                at: self.clock.now(),
                uptime_ms: millis(self.clock.uptime()),
                process: self.process.clone(),
                entry: entry(&history)?,
            };
            if let (Err(why), Some((step, _))) = (history.check(&event), event.step()) {
                return Err(Failure::new(&codes::RUN_STEP_NOT_OPEN, format_args!("step {step} of run {run}"), why));
            }
            match self.journal.append(&event) {
                Err(failure) if failure.code() == &codes::RUN_JOURNAL => {}
                other => return other.map(|()| event),
            }
        }
        Err(Failure::new(&codes::RUN_JOURNAL, format_args!("run {run}"), "others write to its journal without end"))
    }
}

/// The attempt of a step that waits for an answer, or why it does not.
fn open(history: &History, run: &RunId, step: &str) -> Result<u32, Failure> {
    let waits = waiting(history.events());
    if let Some((_, attempt)) = waits.filter(|(asked, _)| *asked == step) {
        return Ok(attempt);
    }
    let object = format!("step {step} of run {run}");
    let answered = history.events().iter().rev().find_map(|event| match &event.entry {
        Entry::Answered { step: answered, answer, by, .. } if answered == step => Some((event, *answer, by)),
        _ => None,
    });
    if let Some((event, word, by)) = answered {
        let word = match word {
            Word::Done => "done",
            Word::Refused => "refused",
            Word::Failed => "not done",
        };
        return Err(Failure::new(&codes::RUN_ANSWERED, object, format_args!("{by} answered at {}: {word}", rfc3339(event.at))));
    }
    let cause = match (waits, history.events().iter().any(|event| event.step().is_some_and(|(known, _)| known == step))) {
        (Some((other, _)), _) => format!("the run waits for step {other}"),
        (None, true) => "it waits for nobody: it has ended, or holdfast does it".to_owned(),
        (None, false) => "the run has not come to it".to_owned(),
    };
    Err(Failure::new(&codes::RUN_STEP_NOT_OPEN, object, cause))
}

/// The person's step that is open, and its attempt.
#[must_use]
pub fn waiting(events: &[Event]) -> Option<(&str, u32)> {
    let last = events
        .iter()
        .rev()
        .find(|event| !matches!(event.entry, Entry::Begun { .. } | Entry::Noted { .. } | Entry::Resumed {}))?;
    matches!(last.entry, Entry::Asked { .. }).then(|| last.step()).flatten()
}

impl FromStr for Name {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.trim() {
            "" => Err("a name is not empty"),
            name if name.chars().count() > MAX_NAME => Err("a name has at most 200 characters"),
            name => Ok(Self(name.to_owned())),
        }
    }
}

impl FromStr for Note {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.trim() {
            "" => Err("a note is not empty"),
            note if note.chars().count() > MAX_NOTE => {
                Err("a note has at most 4000 characters; put more into a document, and name that")
            }
            note => Ok(Self(note.to_owned())),
        }
    }
}

impl Name {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
