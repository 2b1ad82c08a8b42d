//! A runbook as checked values: what [`super::parse`] yields.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::digest::Sha256;
use crate::record::Rung;

/// A runbook that has no mistakes left in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runbook {
    pub id: String,
    pub title: String,
    /// Who answers for this page.
    pub owner: String,
    /// What it is run against, such as `scratch`.
    pub environment: String,
    pub objectives: Objectives,
    /// What stands before the first step.
    pub introduction: String,
    /// At least one; rungs never fall, and steps that always run stand last.
    pub steps: Vec<Step>,
    /// Of the file's bytes: a run belongs to exactly this page.
    pub digest: Sha256,
}

/// What was promised before anyone measured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Objectives {
    /// How long a restore may take.
    pub rto: Option<Duration>,
    /// How much may be lost.
    pub rpo: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub id: String,
    pub title: String,
    /// What to do and why, for a person with holdfast gone.
    pub prose: String,
    pub work: Work,
    /// The rung that this step helps to reach; none for a step that always runs.
    pub rung: Option<Rung>,
    pub acceptance: Acceptance,
    /// How long the step may take; a person's step, how long it waits for an answer.
    pub timeout: Duration,
    pub on_failure: OnFailure,
    /// Runs also after a failure or an interruption, such as a tear-down.
    pub always: bool,
    /// Does its effect outlive the process? If not, a run that resumes in
    /// another process does the step again. What a person did stays done.
    pub durable: bool,
    /// The line of the step's block in the file.
    pub line: usize,
}

/// What is done at a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// The name of an action that the caller knows.
    Action(String),
    /// A command line.
    Command(String),
    /// What only a person can do.
    Person(Hands),
}

/// What a person is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hands {
    pub kind: HandsKind,
    /// The role that is expected to do it, such as `incident lead`.
    pub who: String,
    /// How long hands are expected to be busy.
    pub expect: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HandsKind {
    /// Something to do.
    Manual,
    /// Something to agree to, or to refuse.
    Approval,
}

impl HandsKind {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Manual => "manual",
            Self::Approval => "approval",
        }
    }
}

/// When a step counts as done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acceptance {
    /// A sentence that a person can judge.
    pub pass: String,
    /// What the machine tests; none where a person judges.
    pub check: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// Nothing but the steps that always run comes after.
    Stop,
    /// The run has failed, and the steps after this one are still worth running.
    Continue,
}

impl OnFailure {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Continue => "continue",
        }
    }
}

impl Runbook {
    #[must_use]
    pub fn step(&self, id: &str) -> Option<&Step> {
        self.steps.iter().find(|step| step.id == id)
    }
}

impl Step {
    /// Does this step belong to a run that climbs to `until`?
    #[must_use]
    pub fn is_in(&self, until: Rung) -> bool {
        self.always || self.rung.is_some_and(|rung| rung <= until)
    }

    /// What a person is asked for; none where the program does the work.
    #[must_use]
    pub fn hands(&self) -> Option<&Hands> {
        match &self.work {
            Work::Person(hands) => Some(hands),
            Work::Action(_) | Work::Command(_) => None,
        }
    }
}
