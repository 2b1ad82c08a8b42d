//! What a report says of people: their steps, their minutes, and what the
//! runbook did not foresee.

use super::document::{Card, Cell, Section, Span, Tone};
use super::manual::{ManualResult, ManualStep, Minutes};
use super::model::{Report, StepReport};
use super::timing::human;
use crate::base::units::count;
use crate::runbook::model::HandsKind;

/// What stands where there is nothing.
const NONE: &str = "\u{2013}";

/// How much of the RTO is people's.
pub fn card(report: &Report) -> Option<Card> {
    if report.manual.is_empty() {
        return None;
    }
    let parts = &report.rto_parts;
    let (people, carried) = (parts.people.total(), parts.carried.total());
    let (value, note, tone) = match (people, carried) {
        (0, 0) if !parts.unknown.is_empty() => {
            ("not measured".to_owned(), "unattended, and no run has measured it".to_owned(), Tone::Doubt)
        }
        (_, 0) => (human(people), "measured, waiting included".to_owned(), Tone::Plain),
        (0, _) => (human(carried), "carried from an earlier run".to_owned(), Tone::Doubt),
        _ => (human(people.saturating_add(carried)), format!("{} of it carried", human(carried)), Tone::Doubt),
    };
    Some(Card { label: "People, in the RTO".into(), value: value.into(), note: note.into(), tone })
}

/// Waiting, then hands on; one of unknown length where it is open.
pub fn spans(line: &ManualStep, step: &StepReport) -> Vec<Span> {
    let Some(attempt) = step.attempts.last() else { return Vec::new() };
    let (Some(took), true) = (line.took_ms, line.result == ManualResult::Done) else {
        let tone = if line.result == ManualResult::Waiting { Tone::Waiting } else { Tone::Bad };
        return vec![Span::new(attempt.start_ms, attempt.duration_ms, tone)];
    };
    let Minutes { waiting_ms, hands_on_ms } = line.minutes();
    let mut waiting = Span::new(attempt.start_ms, Some(waiting_ms), Tone::Waiting);
    let mut hands = Span::new(attempt.start_ms.saturating_add(waiting_ms), Some(hands_on_ms), Tone::Hands);
    (waiting.value, hands.value) = ("".into(), human(took).into());
    vec![waiting, hands]
}

/// Minutes of a phase.
pub fn cell(minutes: Minutes) -> Cell {
    match minutes.total() {
        0 => Cell::plain(NONE),
        total => Cell::plain(human(total)).note(format!("{} hands on", human(minutes.hands_on_ms))),
    }
}

/// Every step that people do, asked for or not.
pub fn manual(report: &Report) -> Option<Section> {
    if report.manual.is_empty() {
        return None;
    }
    let titles = ["Step", "Who", "Result", "When", "Waiting#", "Hands on#"];
    let mut section = Section::new("Steps that people do", opening(report)).columns(&titles);
    for line in &report.manual {
        let (tone, word) = match line.result {
            ManualResult::Done if line.kind == HandsKind::Approval => (Tone::Good, "approved"),
            ManualResult::Done => (Tone::Good, "done"),
            ManualResult::Refused => (Tone::Bad, "REFUSED"),
            ManualResult::Failed => (Tone::Bad, "NOT DONE"),
            ManualResult::Unanswered => (Tone::Bad, "NOBODY ANSWERED"),
            ManualResult::Waiting => (Tone::Doubt, "waits"),
            ManualResult::NotExercised => (Tone::Muted, "not exercised"),
            ManualResult::NotAsked => (Tone::Muted, "not asked"),
        };
        let [waiting, hands] = times(line);
        let cells = [
            Cell::plain(&line.title).note(format!("{}, expected {}", line.kind.as_str(), human(line.expect_ms))),
            Cell::plain(line.by.as_deref().unwrap_or(NONE)).note(format!("expected: {}", line.who)),
            Cell::plain(word).note(line.note.as_deref().unwrap_or_default()),
            Cell::plain(when(line)),
            waiting,
            hands,
        ];
        section.row(tone, cells);
    }
    Some(section)
}

/// `asked 13:05:09Z, begun 13:09:09Z by bob, answered 13:15:09Z`.
fn when(line: &ManualStep) -> String {
    let clock = |at: &Option<String>| at.as_deref().and_then(|at| at.get(11..)).map(str::to_owned);
    let other = line.begun_by.as_ref().filter(|begun| line.by.as_ref() != Some(begun));
    let by = other.map(|begun| format!(" by {begun}")).unwrap_or_default();
    let parts = [
        clock(&line.asked).map(|at| format!("asked {at}")),
        clock(&line.begun).map(|at| format!("begun {at}{by}")),
        clock(&line.answered).map(|at| format!("answered {at}")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { NONE.to_owned() } else { parts.join(", ") }
}

/// Waiting and hands-on time, and where they are from.
fn times(line: &ManualStep) -> [Cell; 2] {
    let none = || Cell::plain(NONE);
    let time = |ms: u64| Cell::plain(human(ms));
    match (&line.carried, line.result) {
        (Some(carried), _) => {
            let from = format!("carried from run {} of {}", carried.run, carried.at);
            [time(carried.waiting_ms).note("carried"), time(carried.hands_on_ms).note(from)]
        }
        (None, ManualResult::NotExercised) => [none(), none().note("no run has measured it")],
        _ => {
            let waiting = line.waiting_ms.map_or_else(none, time);
            let hands = match line.hands_on_ms {
                Some(ms) if line.stated => time(ms).note("as stated"),
                Some(ms) => time(ms),
                None if line.answered.is_some() => none().note("nobody said when hands began"),
                None => none(),
            };
            [if line.by_wall { waiting.note("by the wall clock") } else { waiting }, hands]
        }
    }
}

fn opening(report: &Report) -> String {
    let not_exercised = report.manual.iter().filter(|line| line.result == ManualResult::NotExercised).count() as u64;
    if not_exercised > 0 {
        let unknown = report.manual.iter().filter(|line| line.is_unknown()).count() as u64;
        let known = match (not_exercised - unknown, unknown) {
            (_, 0) => "what the last run that asked measured is carried into the RTO".to_owned(),
            (0, _) => "no run has measured what they take, so that the RTO is without it".to_owned(),
            (_, unknown) => {
                format!("what earlier runs measured is carried into the RTO, which is without {}", count(unknown, "step"))
            }
        };
        return format!("Nobody was asked in this run, and these steps were not exercised; {known}.");
    }
    let Minutes { waiting_ms, hands_on_ms } = report.manual.iter().map(ManualStep::minutes).sum();
    format!(
        "Waiting is from asking until somebody began: {} in all. Hands on is from then until the answer: {} in all.",
        human(waiting_ms),
        human(hands_on_ms)
    )
}

/// Findings against the runbook: what it should have foreseen.
pub fn unforeseen(report: &Report) -> Option<Section> {
    let text =
        "Done by hand, and not foreseen: each is a finding against the runbook. Their time is part of the run's, and not added.";
    let mut section = Section::new("Findings against the runbook", text).columns(&["When", "Who", "What", "During", "Hands on#"]);
    for found in &report.unforeseen {
        let during = found.during.as_deref().unwrap_or_default();
        let title = report.steps.iter().find(|step| step.id == during).map_or(during, |step| step.title.as_str());
        let cells = [
            Cell::plain(&found.at),
            Cell::plain(&found.by),
            Cell::plain(&found.text),
            Cell::plain(title),
            Cell::plain(found.hands_on_ms.map_or_else(|| "not stated".to_owned(), human)),
        ];
        section.row(Tone::Doubt, cells);
    }
    (!section.rows.is_empty()).then_some(section)
}
