//! The journal of a run: which events are legal, and the door to where they are kept.
//!
//! A step writes `Started` before it does anything, then `Succeeded` or
//! `Failed`. Where neither followed, the process died: the next one writes
//! `Unknown` and does the step again. A person's step is `Asked`, then `Begun`
//! where somebody says so, and open until `Answered`: by any process, also
//! when none is left of those that ran. Nothing is ever changed or taken back.

use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::facts::Facts;
pub use super::history::History;
use super::model::HandsKind;
use crate::base::codes::{self, Code};
use crate::base::digest::Sha256;
use crate::base::entropy::Entropy;
use crate::base::failure::Failure;
use crate::base::ids::{ClusterName, Principal, RunId, SnapshotId};
use crate::record::Rung;

/// Where journals are kept. Calls may block; each is one committed write or a read.
pub trait Journal: Debug + Send + Sync {
    /// Makes a run known. Refused when the run exists; on failure nothing is kept.
    fn begin(&self, head: &RunHead) -> Result<(), Failure>;
    /// Adds one event, durably. An event that may not follow is refused with
    /// `run.journal`, and on any failure the journal is as it was.
    fn append(&self, event: &Event) -> Result<(), Failure>;
    /// The head of a run; `run.unknown` where there is none.
    fn head(&self, run: &RunId) -> Result<RunHead, Failure>;
    /// All events of a run, in order.
    fn events(&self, run: &RunId) -> Result<Vec<Event>, Failure>;
    /// All runs, the newest first.
    fn runs(&self) -> Result<Vec<RunHead>, Failure>;
}

/// The trigger of a run that restores for somebody who needs the data: it is
/// begun anew rather than gone on with, and `scratch list` shows it while it is up.
pub const RESTORE: &str = "restore";

/// What a run is about, written once before its first event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunHead {
    pub run: RunId,
    /// The runbook's id and the digest of its bytes.
    pub runbook: String,
    pub runbook_digest: Sha256,
    /// How far the run climbs.
    pub until: Rung,
    pub cluster: ClusterName,
    /// The snapshot asked for.
    pub snapshot: SnapshotId,
    /// `person`, `timer`, `demo` or [`RESTORE`].
    pub trigger: String,
    pub host: Principal,
    /// Name and version of the program.
    pub tool: String,
    pub started: Timestamp,
    /// Monotonic time of the process that began the run.
    pub uptime_ms: u64,
    pub process: ProcessMark,
    /// Are people asked? A run that a timer began goes past their steps.
    #[serde(default)]
    pub attended: bool,
    /// When the incident began, where somebody declared it: the point to which
    /// the loss of data is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incident: Option<Timestamp>,
}

/// One process: monotonic times compare only within it, and the effect of a
/// step that is not durable ends with it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProcessMark(String);

impl ProcessMark {
    /// A mark that no other process has.
    #[must_use]
    pub fn new(entropy: &dyn Entropy) -> Self {
        Self(entropy.hex(16))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A mark that was stored.
    #[must_use]
    pub fn stored(text: String) -> Self {
        Self(text)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    pub run: RunId,
    /// 1 for a run's first event, without gaps.
    pub number: u64,
    /// Wall time, for display.
    pub at: Timestamp,
    /// Monotonic time of the process that wrote this.
    pub uptime_ms: u64,
    pub process: ProcessMark,
    pub entry: Entry,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Entry {
    Started {
        step: String,
        attempt: u32,
    },
    Succeeded {
        step: String,
        attempt: u32,
        /// One line for the table of steps.
        summary: String,
        facts: Box<Facts>,
    },
    Failed {
        step: String,
        attempt: u32,
        failure: FailureText,
        facts: Box<Facts>,
    },
    /// The step began and nobody knows how far it came.
    Unknown {
        step: String,
        attempt: u32,
        cause: String,
    },
    /// A person's step is open from here on.
    Asked {
        step: String,
        attempt: u32,
        ask: HandsKind,
    },
    /// Somebody said that hands are on the step now.
    Begun {
        step: String,
        attempt: u32,
        by: String,
    },
    /// A person's word; the step is not open any more.
    Answered {
        step: String,
        attempt: u32,
        answer: Word,
        by: String,
        note: Option<String>,
        /// How long hands were busy, where somebody stated it.
        hands_on_ms: Option<u64>,
    },
    /// A person's step that the run went past, because nobody is asked.
    Unasked {
        step: String,
        /// What the last run that asked for it measured.
        carried: Option<Carried>,
    },
    /// What somebody did that the runbook did not foresee.
    Noted {
        text: String,
        by: String,
        hands_on_ms: Option<u64>,
    },
    /// Another process goes on with the run from here.
    Resumed {},
    /// Somebody stopped the run: only steps that always run follow.
    Interrupted {},
    Finished {
        result: RunResult,
        reached: Option<Rung>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunResult {
    Passed,
    Failed,
    Interrupted,
}

/// What a person said of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Word {
    /// Done, or approved.
    Done,
    /// Not approved.
    Refused,
    /// Tried, and it did not meet its criterion.
    Failed,
}

/// A person's minutes that an earlier run measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    pub run: RunId,
    /// When it was answered there; RFC 3339, UTC.
    pub at: String,
    pub waiting_ms: u64,
    pub hands_on_ms: u64,
}

/// A failure as it is written down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureText {
    pub code: String,
    pub object: String,
    pub cause: String,
    pub next: String,
}

impl FailureText {
    #[must_use]
    pub fn of(failure: &Failure) -> Self {
        Self {
            code: failure.code().name.to_owned(),
            object: failure.object().to_owned(),
            cause: failure.cause().to_owned(),
            next: failure.next_action().to_owned(),
        }
    }

    /// The failure again. A code of another version becomes `run.journal`,
    /// which keeps the text.
    #[must_use]
    pub fn to_failure(&self) -> Failure {
        Failure::new(self.code(), &self.object, &self.cause).next(self.next.clone())
    }

    fn code(&self) -> &'static Code {
        codes::ALL.iter().find(|code| code.name == self.code).copied().unwrap_or(&codes::RUN_JOURNAL)
    }
}

impl Event {
    /// The step and attempt that this event speaks of.
    #[must_use]
    pub fn step(&self) -> Option<(&str, u32)> {
        match &self.entry {
            Entry::Started { step, attempt }
            | Entry::Succeeded { step, attempt, .. }
            | Entry::Failed { step, attempt, .. }
            | Entry::Unknown { step, attempt, .. }
            | Entry::Asked { step, attempt, .. }
            | Entry::Begun { step, attempt, .. }
            | Entry::Answered { step, attempt, .. } => Some((step, *attempt)),
            Entry::Unasked { .. } | Entry::Noted { .. } | Entry::Resumed {} | Entry::Interrupted {} | Entry::Finished { .. } => {
                None
            }
        }
    }
}

impl Entry {
    /// May any process write this, whoever drives the run?
    #[must_use]
    pub fn is_by_hand(&self) -> bool {
        matches!(self, Self::Begun { .. } | Self::Answered { .. } | Self::Noted { .. })
    }

    /// Why a step did not succeed, where this says so.
    #[must_use]
    pub fn failure(&self) -> Option<FailureText> {
        match self {
            Self::Failed { failure, .. } => Some(failure.clone()),
            Self::Answered { step, answer, by, note, .. } => {
                let (code, what) = match answer {
                    Word::Done => return None,
                    Word::Refused => (&codes::RUN_REFUSED, "refused"),
                    Word::Failed => (&codes::RUN_BY_HAND, "not done"),
                };
                let why = note.as_ref().map(|note| format!(": {note}")).unwrap_or_default();
                Some(FailureText::of(&Failure::new(code, format_args!("step {step}"), format_args!("{what} by {by}{why}"))))
            }
            _ => None,
        }
    }
}

/// A journal that ends with the process, for tests and runs without a catalog.
#[derive(Debug, Default)]
pub struct MemoryJournal {
    runs: Mutex<Vec<(RunHead, History)>>,
}

impl Journal for MemoryJournal {
    fn begin(&self, head: &RunHead) -> Result<(), Failure> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if runs.iter().any(|(known, _)| known.run == head.run) {
            return Err(Failure::new(&codes::RUN_JOURNAL, format_args!("run {}", head.run), "the run exists already"));
        }
        runs.push((head.clone(), History::default()));
        Ok(())
    }

    fn append(&self, event: &Event) -> Result<(), Failure> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let found = runs.iter_mut().find(|(head, _)| head.run == event.run);
        found.ok_or_else(|| unknown(&event.run))?.1.admit(event.clone())
    }

    fn head(&self, run: &RunId) -> Result<RunHead, Failure> {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.iter().find(|(head, _)| head.run == *run).map(|(head, _)| head.clone()).ok_or_else(|| unknown(run))
    }

    fn events(&self, run: &RunId) -> Result<Vec<Event>, Failure> {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let found = runs.iter().find(|(head, _)| head.run == *run);
        found.map(|(_, history)| history.events().to_vec()).ok_or_else(|| unknown(run))
    }

    fn runs(&self) -> Result<Vec<RunHead>, Failure> {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut heads: Vec<_> = runs.iter().map(|(head, _)| head.clone()).collect();
        heads.sort_by(|a, b| (b.started, &b.run).cmp(&(a.started, &a.run)));
        Ok(heads)
    }
}

/// No run has this id.
#[must_use]
pub fn unknown(run: &RunId) -> Failure {
    Failure::new(&codes::RUN_UNKNOWN, format_args!("run {run}"), "no journal has this run")
        .next("a run goes on only where it was started; start another with holdfast rehearse")
}
