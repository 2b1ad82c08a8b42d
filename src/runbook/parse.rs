//! From Markdown to a [`Runbook`]: all mistakes at once, each with its line.

use std::collections::HashMap;
use std::time::Duration;

use super::fields::{self, Fields};
use super::mistakes::Mistakes;
use super::model::{Acceptance, Hands, HandsKind, Objectives, OnFailure, Runbook, Step, Work};
use super::page::{self, Section};
use crate::base::digest::Sha256;
use crate::record::Rung;

/// A runbook is a page that people read; a larger file is something else.
pub const MAX_BYTES: usize = 1 << 20;

/// A step that takes longer is hanging.
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// What a person does may wait for a Monday.
const MAX_WAIT: Duration = Duration::from_secs(7 * 24 * 3600);

/// An objective beyond a year promises nothing.
const MAX_OBJECTIVE: Duration = Duration::from_secs(366 * 24 * 3600);

impl Runbook {
    /// Reads a page. `known` are the actions that the caller can do.
    pub fn parse(bytes: &[u8], known: &[&str]) -> Result<Self, Mistakes> {
        let mut mistakes = Mistakes::default();
        let runbook = read(bytes, known, &mut mistakes);
        match runbook {
            Some(runbook) if mistakes.is_empty() => Ok(runbook),
            _ => Err(mistakes.sorted()),
        }
    }
}

/// `None` only where a mistake was added.
fn read(bytes: &[u8], known: &[&str], mistakes: &mut Mistakes) -> Option<Runbook> {
    if bytes.len() > MAX_BYTES {
        mistakes.add(1, format!("the file has {} bytes; a runbook has at most {MAX_BYTES}", bytes.len()));
        return None;
    }
    let source = match std::str::from_utf8(bytes) {
        Ok(source) => source,
        Err(error) => {
            let line = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
            mistakes.add(line, "the file is not UTF-8");
            return None;
        }
    };
    let page = page::read(source, mistakes);
    let steps = steps(&page.sections, known, mistakes);
    let front = page.front?;
    fields::read(&front, mistakes, |fields| {
        let (id, title, owner) = (fields.label("id"), fields.text("title"), fields.text("owner"));
        let environment = fields.text("environment");
        let objectives = fields.table("objectives", |fields| Objectives {
            rto: fields.duration("rto", MAX_OBJECTIVE),
            rpo: fields.duration("rpo", MAX_OBJECTIVE),
        });
        Some(Runbook {
            id: id?,
            title: title?,
            owner: owner?,
            environment: environment?,
            objectives,
            introduction: page.introduction,
            steps,
            digest: Sha256::of(bytes),
        })
    })
}

fn steps(sections: &[Section], known: &[&str], mistakes: &mut Mistakes) -> Vec<Step> {
    if sections.is_empty() {
        mistakes.add(1, "the runbook has no steps");
    }
    let (mut steps, mut places) = (Vec::with_capacity(sections.len()), Vec::with_capacity(sections.len()));
    for section in sections {
        match section.steps.as_slice() {
            [] => mistakes.add(section.line, format!("section {:?} has no ```step block", section.title)),
            [block, rest @ ..] => {
                for extra in rest {
                    mistakes.add(extra.line, format!("section {:?} has more than one ```step block", section.title));
                }
                let (place, step) = fields::read(block, mistakes, |fields| step(fields, section, block.line, known));
                places.push(place);
                steps.extend(step);
            }
        }
        if section.prose.is_empty() {
            mistakes.add(section.line, format!("section {:?} says nothing: a person could not follow it", section.title));
        }
    }
    check_order(&places, mistakes);
    steps
}

/// What the order of steps is judged by, known also of a step with mistakes.
struct Place {
    id: Option<String>,
    rung: Option<Rung>,
    always: bool,
    line: usize,
}

impl Place {
    fn name(&self) -> &str {
        self.id.as_deref().unwrap_or("without an id")
    }
}

fn step(fields: &mut Fields<'_, '_>, section: &Section, line: usize, known: &[&str]) -> (Place, Option<Step>) {
    let id = fields.label("id");
    let doer = doer(fields);
    let is_persons = matches!(doer, Some(Doer::Person(_)));
    let work = work(fields, doer, known);
    let always_line = fields.line_of("always");
    let always = fields.flag("always");
    match (fields.has("rung"), always) {
        (false, false) => fields.missing("rung"),
        (true, true) => {
            fields.mistake(fields.line_of("rung"), "`rung` does not go with `always`: such a step helps to reach no rung")
        }
        _ => {}
    }
    if always && is_persons {
        fields.mistake(always_line, "`always` does not go with a person's step: nobody may be there when a run is interrupted");
    }
    let always = always && !is_persons;
    let rung = fields.word("rung", &[("open", Rung::Open), ("boot", Rung::Boot), ("serve", Rung::Serve)]);
    let acceptance = fields.table("acceptance", |fields| acceptance(fields, doer));
    if !fields.has("timeout") {
        fields.missing("timeout");
    }
    let longest = if is_persons { MAX_WAIT } else { MAX_TIMEOUT };
    let timeout = fields.duration("timeout", longest);
    let on_failure = fields.word("on_failure", &[("stop", OnFailure::Stop), ("continue", OnFailure::Continue)]);
    let durable_line = fields.line_of("durable");
    let durable = fields.flag("durable");
    if durable && is_persons {
        fields.mistake(durable_line, "`durable` is for what the program does: what a person did stays done");
    }
    let place = Place { id: id.clone(), rung, always, line };
    let whole = || {
        Some(Step {
            id: id?,
            title: section.title.clone(),
            prose: section.prose.clone(),
            work: work?,
            rung,
            acceptance: acceptance?,
            timeout: timeout?,
            on_failure: on_failure.unwrap_or(OnFailure::Stop),
            always,
            durable,
            line,
        })
    };
    (place, whole())
}

/// Who does a step, by its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doer {
    Action,
    Command,
    Person(HandsKind),
}

fn doer(fields: &mut Fields<'_, '_>) -> Option<Doer> {
    if !fields.has("kind") {
        fields.missing("kind");
    }
    let kinds = [
        ("action", Doer::Action),
        ("command", Doer::Command),
        ("manual", Doer::Person(HandsKind::Manual)),
        ("approval", Doer::Person(HandsKind::Approval)),
    ];
    fields.word("kind", &kinds)
}

/// What is done, with the fields of its kind.
fn work(fields: &mut Fields<'_, '_>, doer: Option<Doer>, known: &[&str]) -> Option<Work> {
    match doer {
        Some(Doer::Action) => {
            let line = fields.line_of("action");
            let action = fields.text("action")?;
            if known.contains(&action.as_str()) {
                return Some(Work::Action(action));
            }
            fields.mistake(line, format!("action {action:?} is not known; known are {}", known.join(", ")));
            None
        }
        Some(Doer::Command) => fields.text("command").map(Work::Command),
        Some(Doer::Person(kind)) => {
            if !fields.has("expect") {
                fields.missing("expect");
            }
            let (who, expect) = (fields.text("who"), fields.duration("expect", MAX_TIMEOUT));
            Some(Work::Person(Hands { kind, who: who?, expect: expect? }))
        }
        None => {
            // Not unknown fields: what is wrong is the kind.
            let _ = (fields.optional_text("action"), fields.optional_text("command"));
            let _ = (fields.optional_text("who"), fields.optional_text("expect"));
            None
        }
    }
}

/// A person judges by the sentence alone.
fn acceptance(fields: &mut Fields<'_, '_>, doer: Option<Doer>) -> Option<Acceptance> {
    let (pass, check) = match doer {
        Some(Doer::Person(_)) if fields.has("check") => {
            fields.mistake(
                fields.line_of("check"),
                "`acceptance.check` does not go with a person's step: no machine tests what a person did",
            );
            (fields.text("pass"), fields.optional_text("check").map(Some))
        }
        Some(Doer::Person(_)) => (fields.text("pass"), Some(None)),
        _ => (fields.text("pass"), fields.text("check").map(Some)),
    };
    Some(Acceptance { pass: pass?, check: check? })
}

/// Ids are unique, rungs never fall, and steps that always run stand last.
fn check_order(steps: &[Place], mistakes: &mut Mistakes) {
    let mut ids: HashMap<&str, usize> = HashMap::new();
    let mut highest: Option<(Rung, &Place)> = None;
    let mut closing: Option<&Place> = None;
    for step in steps {
        if let Some(first) = step.id.as_deref().and_then(|id| ids.insert(id, step.line)) {
            mistakes.add(step.line, format!("step {:?} is there twice, first in line {first}", step.name()));
        }
        match (step.always, closing) {
            (true, None) => closing = Some(step),
            (false, Some(first)) => {
                let why =
                    format!("step {:?} stands after {:?}, which always runs and so must stand last", step.name(), first.name());
                mistakes.add(step.line, why);
            }
            _ => {}
        }
        let Some(rung) = step.rung else { continue };
        match highest {
            Some((above, other)) if rung < above => {
                let why = format!("step {:?} of rung {rung} stands after {:?} of rung {above}", step.name(), other.name());
                mistakes.add(step.line, why);
            }
            _ => highest = Some((rung, step)),
        }
    }
    if let (Some(first), None) = (steps.first(), highest) {
        mistakes.add(first.line, "no step helps to reach a rung");
    }
}
