//! The steps that people do: who, when, how long they waited for somebody, how
//! long hands were busy, and what no run exercised.

use serde::{Deserialize, Serialize};

use super::timing::{between, millis};
use crate::base::clock::rfc3339;
use crate::record::Rung;
use crate::runbook::journal::{Carried, Entry, Event, Word};
use crate::runbook::model::{HandsKind, Runbook, Step};

/// A person's step that belongs to the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManualStep {
    pub step: String,
    pub title: String,
    pub kind: HandsKind,
    pub rung: Option<Rung>,
    /// The role that the runbook expects.
    pub who: String,
    pub expect_ms: u64,
    pub result: ManualResult,
    /// Who answered, and who began, where somebody said so.
    pub by: Option<String>,
    pub begun_by: Option<String>,
    pub note: Option<String>,
    /// RFC 3339, UTC.
    pub asked: Option<String>,
    /// As somebody said it, or as the stated hands-on time puts it; never before it was asked.
    pub begun: Option<String>,
    pub answered: Option<String>,
    /// From asked to begun; to the answer, where nobody said when hands began.
    pub waiting_ms: Option<u64>,
    /// From begun to the answer, or as stated. Null where nobody said it.
    pub hands_on_ms: Option<u64>,
    /// Did the person state how long hands were busy?
    pub stated: bool,
    /// From asked to the answer: what it took of the run.
    pub took_ms: Option<u64>,
    /// Were the times told by two processes? Then the durations are by the wall clock.
    pub by_wall: bool,
    /// What an earlier run measured, where this one asked nobody.
    pub carried: Option<Carried>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ManualResult {
    Done,
    Refused,
    /// The person says that the criterion was not met.
    Failed,
    /// Nobody answered in time.
    Unanswered,
    /// It waits still.
    Waiting,
    /// The run was unattended.
    NotExercised,
    /// The run ended before it.
    NotAsked,
}

/// Something done that the runbook did not foresee: a finding against it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unforeseen {
    /// RFC 3339, UTC.
    pub at: String,
    pub by: String,
    pub text: String,
    pub hands_on_ms: Option<u64>,
    /// The step that had begun last.
    pub during: Option<String>,
}

/// People's time, as part of a run's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Minutes {
    pub waiting_ms: u64,
    pub hands_on_ms: u64,
}

impl Minutes {
    #[must_use]
    pub fn total(self) -> u64 {
        self.waiting_ms.saturating_add(self.hands_on_ms)
    }
}

impl std::iter::Sum for Minutes {
    fn sum<I: Iterator<Item = Self>>(minutes: I) -> Self {
        minutes.fold(Self::default(), |sum, one| Self {
            waiting_ms: sum.waiting_ms.saturating_add(one.waiting_ms),
            hands_on_ms: sum.hands_on_ms.saturating_add(one.hands_on_ms),
        })
    }
}

impl ManualStep {
    /// What a step that was done took of the run. Hands that were busy before
    /// they were asked took nothing of it.
    #[must_use]
    pub fn minutes(&self) -> Minutes {
        let Some(took) = self.took_ms.filter(|_| self.result == ManualResult::Done) else { return Minutes::default() };
        let hands_on_ms = self.hands_on_ms.unwrap_or(0).min(took);
        Minutes { waiting_ms: took - hands_on_ms, hands_on_ms }
    }

    /// What is taken over from an earlier run.
    #[must_use]
    pub fn carried_minutes(&self) -> Minutes {
        let minutes = |carried: &Carried| Minutes { waiting_ms: carried.waiting_ms, hands_on_ms: carried.hands_on_ms };
        self.carried.as_ref().map(minutes).unwrap_or_default()
    }

    /// What a later run that asks nobody carries; none where nothing was measured.
    #[must_use]
    pub fn measured(&self, run: &crate::base::ids::RunId) -> Option<Carried> {
        let (Minutes { waiting_ms, hands_on_ms }, at) = (self.minutes(), self.answered.clone()?);
        (self.result == ManualResult::Done).then(|| Carried { run: run.clone(), at, waiting_ms, hands_on_ms })
    }

    /// Does the run not know what it would have taken?
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.result == ManualResult::NotExercised && self.carried.is_none()
    }
}

/// The people's steps of a run to `until`, in the runbook's order.
pub fn steps(runbook: &Runbook, until: Rung, events: &[Event]) -> Vec<ManualStep> {
    runbook.steps.iter().filter(|step| step.is_in(until)).filter_map(|step| manual(step, events)).collect()
}

fn manual(step: &Step, events: &[Event]) -> Option<ManualStep> {
    let hands = step.hands()?;
    let mut line = ManualStep {
        step: step.id.clone(),
        title: step.title.clone(),
        kind: hands.kind,
        rung: step.rung,
        who: hands.who.clone(),
        expect_ms: millis(hands.expect),
        result: ManualResult::NotAsked,
        by: None,
        begun_by: None,
        note: None,
        asked: None,
        begun: None,
        answered: None,
        waiting_ms: None,
        hands_on_ms: None,
        stated: false,
        took_ms: None,
        by_wall: false,
        carried: None,
    };
    let (mut asked, mut begun): (Option<&Event>, Option<&Event>) = (None, None);
    let own = |event: &&Event| match &event.entry {
        Entry::Unasked { step: id, .. } => *id == step.id,
        _ => event.step().is_some_and(|(id, _)| id == step.id),
    };
    for event in events.iter().filter(own) {
        match &event.entry {
            Entry::Unasked { carried, .. } => (line.result, line.carried) = (ManualResult::NotExercised, carried.clone()),
            Entry::Asked { .. } => {
                (asked, line.result, line.asked) = (Some(event), ManualResult::Waiting, Some(rfc3339(event.at)));
            }
            Entry::Begun { by, .. } => {
                (begun, line.begun_by, line.begun) = (Some(event), Some(by.clone()), Some(rfc3339(event.at)));
            }
            Entry::Failed { .. } => line.result = ManualResult::Unanswered,
            Entry::Answered { answer, by, note, hands_on_ms, .. } => {
                line.result = match answer {
                    Word::Done => ManualResult::Done,
                    Word::Refused => ManualResult::Refused,
                    Word::Failed => ManualResult::Failed,
                };
                (line.by, line.note, line.answered) = (Some(by.clone()), note.clone(), Some(rfc3339(event.at)));
                if let Some(asked) = asked {
                    line.measure(asked, begun, event, *hands_on_ms);
                }
            }
            _ => {}
        }
    }
    Some(line)
}

impl ManualStep {
    /// A stated time puts the beginning that long before the answer, and never
    /// before the asking: what hands did earlier delayed nobody.
    fn measure(&mut self, asked: &Event, begun: Option<&Event>, answered: &Event, stated_ms: Option<u64>) {
        let took = elapsed(asked, answered);
        self.took_ms = Some(took);
        self.by_wall = [Some(answered), begun].into_iter().flatten().any(|event| event.process != asked.process);
        if let Some(stated) = stated_ms {
            let within = stated.min(took);
            let before = jiff::SignedDuration::from_millis(i64::try_from(within).unwrap_or(i64::MAX));
            self.begun = Some(rfc3339(answered.at.checked_sub(before).unwrap_or(asked.at)));
            (self.stated, self.hands_on_ms, self.waiting_ms) = (true, Some(stated), Some(took - within));
        } else if let Some(begun) = begun {
            // Clocks of two processes may disagree; the parts are never more than the whole.
            let hands = elapsed(begun, answered).min(took);
            (self.hands_on_ms, self.waiting_ms) = (Some(hands), Some(took - hands));
        } else {
            self.waiting_ms = Some(took);
        }
    }
}

/// Monotonic within a process; between two, only the wall clock can tell.
fn elapsed(from: &Event, to: &Event) -> u64 {
    if from.process == to.process { to.uptime_ms.saturating_sub(from.uptime_ms) } else { between(from.at, to.at) }
}

pub fn unforeseen(events: &[Event]) -> Vec<Unforeseen> {
    let mut during = None;
    let mut all = Vec::new();
    for event in events {
        match &event.entry {
            Entry::Started { step, .. } | Entry::Asked { step, .. } => during = Some(step.clone()),
            Entry::Noted { text, by, hands_on_ms } => all.push(Unforeseen {
                at: rfc3339(event.at),
                by: by.clone(),
                text: text.clone(),
                hands_on_ms: *hands_on_ms,
                during: during.clone(),
            }),
            _ => {}
        }
    }
    all
}
