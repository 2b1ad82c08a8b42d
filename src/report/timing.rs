//! Durations of a run: monotonic within a process, by the wall clock between two.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::manual::{ManualResult, ManualStep, Minutes};
use super::model::{Measure, Phase, Resumed, RtoParts, StepReport, StepResult};
use crate::base::clock::rfc3339;
use crate::base::units::{count, round_duration};
use crate::record::Rung;
use crate::runbook::facts::DataClockFacts;
use crate::runbook::journal::{Event, ProcessMark, RunHead};
use crate::runbook::model::Runbook;

/// When each event happened, counted from the run's start.
#[derive(Debug)]
pub struct Timing {
    /// One per event, in milliseconds; never falling.
    pub offsets: Vec<u64>,
    pub resumed: Vec<Resumed>,
}

/// Puts all events on one axis. Within a process differences are monotonic;
/// between two, only the wall clock can tell. What people say from elsewhere is
/// no restart.
pub fn of(head: &RunHead, events: &[Event]) -> Timing {
    let mut timing = Timing { offsets: Vec::with_capacity(events.len()), resumed: Vec::new() };
    let mut known: BTreeMap<&ProcessMark, (u64, u64)> = BTreeMap::from([(&head.process, (head.uptime_ms, 0))]);
    let mut drivers = BTreeSet::from([&head.process]);
    let (mut at, mut offset) = (head.started, 0_u64);
    for event in events {
        let gap_ms = between(at, event.at);
        let reached = match known.get(&event.process) {
            Some((uptime_ms, offset)) => offset.saturating_add(event.uptime_ms.saturating_sub(*uptime_ms)),
            None => offset.saturating_add(gap_ms),
        };
        offset = offset.max(reached);
        if !event.entry.is_by_hand() && drivers.insert(&event.process) {
            timing.resumed.push(Resumed { at: rfc3339(event.at), gap_ms });
        }
        known.insert(&event.process, (event.uptime_ms, offset));
        at = event.at;
        timing.offsets.push(offset);
    }
    timing
}

/// One phase per rung up to `until` that the runbook has steps for. What the
/// program does decides whether it was reached; what people did adds to its time.
pub fn phases(until: Rung, steps: &[StepReport], manual: &[ManualStep]) -> Vec<Phase> {
    let is_manual = |step: &StepReport| manual.iter().any(|line| line.step == step.id);
    let mut phases = Vec::new();
    let mut before = Some(0);
    for rung in [Rung::Open, Rung::Boot, Rung::Serve].into_iter().filter(|rung| *rung <= until) {
        let own: Vec<_> = steps.iter().filter(|step| step.rung == Some(rung)).collect();
        if own.is_empty() {
            continue;
        }
        let alone = own.iter().all(|step| is_manual(step));
        let missed = own
            .iter()
            .any(|step| !matches!(step.result, StepResult::Passed | StepResult::NotExercised) && (alone || !is_manual(step)));
        let ended = |step: &&StepReport| {
            let last = step.attempts.last().filter(|_| step.result == StepResult::Passed)?;
            Some(last.start_ms + last.duration_ms?)
        };
        // A step that was done again ends later than the step after it first did.
        let end = own.iter().filter_map(ended).max().or(before).filter(|_| !missed);
        let until_ms = before.and_then(|before| end.map(|end| end.max(before)));
        let duration_ms = before.zip(until_ms).map(|(before, end)| end - before);
        let lines = || manual.iter().filter(|line| line.rung == Some(rung));
        let people = lines().map(ManualStep::minutes).sum();
        let carried = lines().map(ManualStep::carried_minutes).sum();
        phases.push(Phase { rung, reached: until_ms.is_some(), duration_ms, until_ms, people, carried });
        before = until_ms;
    }
    phases
}

/// From the run's start to the highest rung of the runbook, with the minutes of
/// people that an earlier run measured where this one asked nobody. A run that
/// was asked for less restored nothing that serves, and its time is no restore's.
pub fn rto(runbook: &Runbook, until: Rung, phases: &[Phase], manual: &[ManualStep], timing: &Timing) -> (Measure, RtoParts) {
    let objective_ms = runbook.objectives.rto.map(millis);
    let highest = runbook.steps.iter().filter_map(|step| step.rung).max().unwrap_or(Rung::Open);
    let undone = manual.iter().find(|line| !matches!(line.result, ManualResult::Done | ManualResult::NotExercised));
    let elapsed = phases.last().filter(|_| until >= highest && undone.is_none()).and_then(|phase| phase.until_ms);
    let people: Minutes = phases.iter().map(|phase| phase.people).sum();
    let carried: Minutes = phases.iter().map(|phase| phase.carried).sum();
    let unknown: Vec<String> = manual.iter().filter(|line| line.is_unknown()).map(|line| line.step.clone()).collect();
    let measured_ms = elapsed.map(|elapsed| elapsed.saturating_add(carried.total()));
    let how = match (elapsed, undone) {
        (Some(_), _) => measured(highest, people, manual, &unknown, timing),
        (None, _) if until < highest => format!("not measured: a restore is measured at rung {highest} only"),
        (None, Some(line)) if phases.last().is_some_and(|phase| phase.reached) => {
            format!("not measured: step \u{201c}{}\u{201d} was not done", line.title)
        }
        (None, _) => format!("not measured: rung {until} was not reached"),
    };
    let within = objective_ms.zip(measured_ms).map(|(objective, measured)| measured <= objective);
    // With minutes that nobody knows, a promise can be broken and not kept.
    let met = within.filter(|within| !within || unknown.is_empty());
    let machine_ms = elapsed.map(|elapsed| elapsed.saturating_sub(people.total()));
    (Measure { objective_ms, measured_ms, met, how }, RtoParts { machine_ms, people, carried, unknown })
}

fn measured(highest: Rung, people: Minutes, manual: &[ManualStep], unknown: &[String], timing: &Timing) -> String {
    let mut how = format!("from the start of the run to the end of rung {highest}, monotonic");
    if people.total() > 0 {
        how.push_str(&format!(
            "; people took {} of it ({} waiting, {} hands on)",
            human(people.total()),
            human(people.waiting_ms),
            human(people.hands_on_ms)
        ));
    }
    let mut runs: Vec<&str> = manual.iter().filter_map(|line| Some(line.carried.as_ref()?.run.as_str())).collect();
    runs.dedup();
    if !runs.is_empty() {
        let carried: Minutes = manual.iter().map(ManualStep::carried_minutes).sum();
        how.push_str(&format!("; with {} of people, carried from run {}", human(carried.total()), runs.join(", ")));
    }
    if !unknown.is_empty() {
        let steps = count(unknown.len() as u64, "step");
        how.push_str(&format!("; without the time that people take for {steps}, which no run has measured"));
    }
    if !timing.resumed.is_empty() {
        let gap: u64 = timing.resumed.iter().map(|resumed| resumed.gap_ms).sum();
        let times = count(timing.resumed.len() as u64, "restart");
        how.push_str(&format!("; it includes {times} of holdfast, whose gaps ({}) are by the wall clock", human(gap)));
    }
    how
}

/// From the data's own clock to the declared beginning of the incident, else to
/// the run's start.
pub fn rpo(runbook: &Runbook, head: &RunHead, clock: Option<&DataClockFacts>) -> Measure {
    let objective_ms = runbook.objectives.rpo.map(millis);
    let parsed = clock.and_then(|clock| Some((clock.newest.parse::<Timestamp>().ok()?, clock)));
    let Some((newest, clock)) = parsed else {
        let how = "not measured: no time stamp of the data is known".to_owned();
        return Measure { objective_ms, measured_ms: None, met: None, how };
    };
    let (lost_from, point) = match head.incident {
        Some(incident) => (incident, format!("the declared beginning of the incident ({})", rfc3339(incident))),
        None => (head.started, "the start of the run".to_owned()),
    };
    let measured_ms = between(newest, lost_from);
    let mut how = format!("from the {} ({}) to {point}", clock.rule, clock.newest);
    if newest > lost_from {
        how.push_str(match head.incident {
            Some(_) => "; the data is newer than that, so it may hold what the incident did",
            None => "; the data is newer than the run's start, so one of the two clocks is wrong",
        });
    }
    let met = objective_ms.filter(|_| newest <= lost_from).map(|objective| measured_ms <= objective);
    Measure { objective_ms, measured_ms: Some(measured_ms), met, how }
}

/// Milliseconds as people say them.
pub fn human(ms: u64) -> String {
    round_duration(Duration::from_millis(ms))
}

pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds from one wall time to a later one; zero when the clock went back.
pub fn between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.duration_since(from).as_millis()).unwrap_or(0)
}
