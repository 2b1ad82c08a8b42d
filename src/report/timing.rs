//! Durations of a run: monotonic within a process, by the wall clock between two.

use std::time::Duration;

use jiff::Timestamp;

use super::model::{Measure, Phase, Resumed, StepReport, StepResult};
use crate::base::clock::rfc3339;
use crate::base::units::{count, human_duration};
use crate::record::Rung;
use crate::runbook::facts::DataClockFacts;
use crate::runbook::journal::{Event, RunHead};
use crate::runbook::model::Runbook;

/// When each event happened, counted from the run's start.
#[derive(Debug)]
pub struct Timing {
    /// One per event, in milliseconds; never falling.
    pub offsets: Vec<u64>,
    pub resumed: Vec<Resumed>,
}

/// Puts all events on one axis. Within a process differences are monotonic; where
/// another process went on, only the wall clock can tell how long nobody worked.
pub fn of(head: &RunHead, events: &[Event]) -> Timing {
    let mut timing = Timing { offsets: Vec::with_capacity(events.len()), resumed: Vec::new() };
    let (mut at, mut uptime_ms, mut process, mut offset) = (head.started, head.uptime_ms, &head.process, 0_u64);
    for event in events {
        if event.process == *process {
            offset = offset.saturating_add(event.uptime_ms.saturating_sub(uptime_ms));
        } else {
            let gap_ms = between(at, event.at);
            offset = offset.saturating_add(gap_ms);
            timing.resumed.push(Resumed { at: rfc3339(event.at), gap_ms });
        }
        (at, uptime_ms, process) = (event.at, event.uptime_ms, &event.process);
        timing.offsets.push(offset);
    }
    timing
}

/// One phase per rung up to `until` that the runbook has steps for.
pub fn phases(until: Rung, steps: &[StepReport]) -> Vec<Phase> {
    let mut phases = Vec::new();
    let mut before = Some(0);
    for rung in [Rung::Open, Rung::Boot, Rung::Serve].into_iter().filter(|rung| *rung <= until) {
        let own: Vec<_> = steps.iter().filter(|step| step.rung == Some(rung)).collect();
        if own.is_empty() {
            continue;
        }
        let ends = own.iter().map(|step| {
            let last = step.attempts.last().filter(|_| step.result == StepResult::Passed)?;
            Some(last.start_ms + last.duration_ms?)
        });
        // A step that was done again ends later than the step after it first did.
        let end: Option<u64> = ends.collect::<Option<Vec<_>>>().and_then(|ends| ends.into_iter().max());
        let until_ms = before.and_then(|before| end.map(|end| end.max(before)));
        let duration_ms = before.zip(until_ms).map(|(before, end)| end - before);
        phases.push(Phase { rung, reached: until_ms.is_some(), duration_ms, until_ms });
        before = until_ms;
    }
    phases
}

/// From the run's start to the highest rung of the runbook. A run that was asked
/// for less restored nothing that serves, and its time is no restore's.
pub fn rto(runbook: &Runbook, until: Rung, phases: &[Phase], timing: &Timing) -> Measure {
    let objective_ms = runbook.objectives.rto.map(millis);
    let highest = runbook.steps.iter().filter_map(|step| step.rung).max().unwrap_or(Rung::Open);
    let measured_ms = phases.last().filter(|_| until >= highest).and_then(|phase| phase.until_ms);
    let mut how = match measured_ms {
        Some(_) => format!("from the start of the run to the end of rung {highest}, monotonic"),
        None if until < highest => format!("not measured: a restore is measured at rung {highest} only"),
        None => format!("not measured: rung {until} was not reached"),
    };
    if measured_ms.is_some() && !timing.resumed.is_empty() {
        let gap: u64 = timing.resumed.iter().map(|resumed| resumed.gap_ms).sum();
        let times = count(timing.resumed.len() as u64, "restart");
        how.push_str(&format!("; it includes {times} of holdfast, whose gaps ({}) are by the wall clock", human(gap)));
    }
    let met = objective_ms.zip(measured_ms).map(|(objective, measured)| measured <= objective);
    Measure { objective_ms, measured_ms, met, how }
}

/// From the data's own clock to the run's start.
pub fn rpo(runbook: &Runbook, started: Timestamp, clock: Option<&DataClockFacts>) -> Measure {
    let objective_ms = runbook.objectives.rpo.map(millis);
    let parsed = clock.and_then(|clock| Some((clock.newest.parse::<Timestamp>().ok()?, clock)));
    let Some((newest, clock)) = parsed else {
        let how = "not measured: no time stamp of the data is known".to_owned();
        return Measure { objective_ms, measured_ms: None, met: None, how };
    };
    let measured_ms = between(newest, started);
    let mut how = format!("from the {} ({}) to the start of the run", clock.rule, clock.newest);
    if newest > started {
        how.push_str("; the data is newer than the run's start, so one of the two clocks is wrong");
    }
    let met = objective_ms.filter(|_| newest <= started).map(|objective| measured_ms <= objective);
    Measure { objective_ms, measured_ms: Some(measured_ms), met, how }
}

/// A duration as people say it: `30 min`, not `30 min 0 s`.
pub fn human(ms: u64) -> String {
    let text = human_duration(Duration::from_millis(ms));
    let round = [" 0 s", " 0 min", " 0 h"].iter().find_map(|rest| text.strip_suffix(rest));
    round.map_or_else(|| text.clone(), str::to_owned)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds from one wall time to a later one; zero when the clock went back.
fn between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.duration_since(from).as_millis()).unwrap_or(0)
}
