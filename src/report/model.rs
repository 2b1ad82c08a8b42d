//! The report as plain data: what JSON shows and the other faces are made from.

use serde::{Deserialize, Serialize};

use super::manual::{self, ManualResult, ManualStep, Minutes, Unforeseen};
use super::timing::{self, Timing};
use super::verdict;
use crate::base::clock::rfc3339;
use crate::base::digest::Sha256;
use crate::base::ids::{ClusterName, Principal, RunId, SnapshotId};
use crate::record::Rung;
use crate::record::manifest::ResourceCount;
use crate::runbook::engine::{self, Decision, Outcome};
use crate::runbook::facts::{Facts, LeftOut};
use crate::runbook::journal::{Entry, Event, FailureText, RunHead, RunResult};
use crate::runbook::model::{Runbook, Step};
use crate::runbook::run::stated;

/// The version of the JSON face.
pub const SCHEMA: u32 = 1;

/// What one run showed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub schema: u32,
    pub identity: Identity,
    pub verdict: Verdict,
    pub rto: Measure,
    /// What the measured RTO is made of.
    #[serde(default)]
    pub rto_parts: RtoParts,
    pub rpo: Measure,
    /// One per rung that was asked for.
    pub phases: Vec<Phase>,
    /// All steps of the runbook, also those that did not run.
    pub steps: Vec<StepReport>,
    /// The steps that people do, asked for or not.
    #[serde(default)]
    pub manual: Vec<ManualStep>,
    /// What hands did that the runbook does not foresee: findings against it.
    #[serde(default)]
    pub unforeseen: Vec<Unforeseen>,
    /// Every attempt of a step that failed, in order.
    pub failures: Vec<Failed>,
    /// Per resource, what the snapshot holds and what the API server returned.
    pub resources: Vec<ResourceLine>,
    pub not_covered: Vec<LeftOut>,
    /// Times at which another process went on with the run.
    pub resumed: Vec<Resumed>,
    /// What the steps stated, by group.
    #[serde(flatten)]
    pub facts: Facts,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Also the report's own id: a run has one report.
    pub run: RunId,
    pub runbook: String,
    pub runbook_title: String,
    pub runbook_owner: String,
    pub runbook_sha256: Sha256,
    pub cluster: ClusterName,
    /// The first 8 digits of the lineage, once the manifest was read.
    pub cluster_short_id: Option<String>,
    pub snapshot: SnapshotId,
    pub environment: String,
    pub trigger: String,
    /// Were people asked?
    #[serde(default)]
    pub attended: bool,
    /// The declared beginning of the incident; RFC 3339, UTC.
    #[serde(default)]
    pub incident: Option<String>,
    pub host: Principal,
    pub tool: String,
    /// RFC 3339, UTC, by the host's clock.
    pub started: String,
    /// Of the last event.
    pub finished: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub result: ReportResult,
    /// One sentence that needs nothing around it.
    pub sentence: String,
    pub asked: Rung,
    pub reached: Option<Rung>,
    /// The exit code of the command.
    pub exit: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReportResult {
    Passed,
    /// It ran, and the answer is bad.
    Failed,
    /// It could not run, or cannot tell.
    CouldNotTell,
    Interrupted,
    /// The journal has no end: the run can be gone on with.
    Unfinished,
}

/// A promise, and what was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measure {
    pub objective_ms: Option<u64>,
    pub measured_ms: Option<u64>,
    /// Null when there is no objective, or nothing that can be held against it.
    pub met: Option<bool>,
    /// How it was measured, or why it was not.
    pub how: String,
}

/// Machine and people, apart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RtoParts {
    /// Null where the RTO was not measured.
    pub machine_ms: Option<u64>,
    /// Measured in this run.
    pub people: Minutes,
    /// Measured by an earlier run, for steps that this one did not exercise.
    pub carried: Minutes,
    /// Steps that this run did not exercise and no earlier one measured.
    pub unknown: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    pub rung: Rung,
    pub reached: bool,
    /// From the end of the phase before to the end of the last step; null when not reached.
    pub duration_ms: Option<u64>,
    /// From the run's start to the end of the last step.
    pub until_ms: Option<u64>,
    /// What people took of the duration.
    #[serde(default)]
    pub people: Minutes,
    /// What they took in an earlier run, where this one asked nobody; no part of the duration.
    #[serde(default)]
    pub carried: Minutes,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepReport {
    pub id: String,
    pub title: String,
    pub rung: Option<Rung>,
    /// The criterion, as the runbook states it.
    pub pass: String,
    /// Empty where a person judges.
    pub check: String,
    pub result: StepResult,
    /// What the last attempt said.
    pub summary: String,
    pub attempts: Vec<Attempt>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepResult {
    Passed,
    Failed,
    /// It began, and nobody knows how it ended.
    Unknown,
    NotRun,
    /// Its rung was not asked for.
    NotAsked,
    /// A person's, and it waits for an answer.
    Waiting,
    /// A person's, and nobody was asked.
    NotExercised,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    pub attempt: u32,
    pub result: StepResult,
    pub started: String,
    /// Null when the process died inside it.
    pub finished: Option<String>,
    /// From the run's start.
    pub start_ms: u64,
    pub duration_ms: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    pub step: String,
    pub attempt: u32,
    #[serde(flatten)]
    pub failure: FailureText,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLine {
    #[serde(flatten)]
    pub count: ResourceCount,
    /// Null when the API server was not asked.
    pub api: Option<u64>,
    pub note: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumed {
    pub at: String,
    /// How long no process worked on the run, by the host's clock.
    pub gap_ms: u64,
}

impl Report {
    /// Builds the report of a run, finished or not. Pure: the same journal
    /// always gives the same report.
    #[must_use]
    pub fn build(head: &RunHead, runbook: &Runbook, events: &[Event]) -> Self {
        let facts = stated(events);
        let timing = timing::of(head, events);
        let (outcome, finished) = outcome(head, runbook, events);
        let steps: Vec<_> = runbook.steps.iter().map(|step| step_report(step, head.until, events, &timing)).collect();
        let manual = manual::steps(runbook, head.until, events);
        let phases = timing::phases(head.until, &steps, &manual);
        let last = events.last().map_or(head.started, |event| event.at);
        let identity = Identity {
            run: head.run.clone(),
            runbook: head.runbook.clone(),
            runbook_title: runbook.title.clone(),
            runbook_owner: runbook.owner.clone(),
            runbook_sha256: head.runbook_digest,
            cluster: head.cluster.clone(),
            cluster_short_id: facts.snapshot.as_ref().map(|snapshot| snapshot.lineage.chars().take(8).collect()),
            snapshot: head.snapshot.clone(),
            environment: runbook.environment.clone(),
            trigger: head.trigger.clone(),
            attended: head.attended,
            incident: head.incident.map(rfc3339),
            host: head.host.clone(),
            tool: head.tool.clone(),
            started: rfc3339(head.started),
            finished: rfc3339(last),
        };
        let (rto, rto_parts) = timing::rto(runbook, head.until, &phases, &manual, &timing);
        let rpo = timing::rpo(runbook, head, facts.data_clock.as_ref());
        let verdict = verdict::of(&identity, head.until, &outcome, finished, &phases, &facts, runbook);
        Self {
            schema: SCHEMA,
            verdict,
            rto,
            rto_parts,
            rpo,
            phases,
            unforeseen: manual::unforeseen(events),
            failures: failures(events),
            resources: resources(&facts),
            not_covered: not_covered(head, &steps, &manual, &facts),
            resumed: timing.resumed,
            identity,
            steps,
            manual,
            facts,
        }
    }
}

/// How the run stands, and whether it has ended.
fn outcome(head: &RunHead, runbook: &Runbook, events: &[Event]) -> (Outcome, bool) {
    let written = events.iter().rev().find_map(|event| match event.entry {
        Entry::Finished { result, reached } => Some((result, reached)),
        _ => None,
    });
    // The engine says what failed; what the run itself wrote down is believed before it.
    let process = events.last().map_or(&head.process, |event| &event.process);
    let mut outcome = match engine::next(runbook, events, head.until, process) {
        Decision::Finish(outcome) => outcome,
        _ => Outcome { result: RunResult::Interrupted, reached: None, failure: None },
    };
    if let Some((result, reached)) = written {
        outcome.result = result;
        outcome.reached = reached;
    }
    (outcome, written.is_some())
}

fn step_report(step: &Step, until: Rung, events: &[Event], timing: &Timing) -> StepReport {
    let mut report = StepReport {
        id: step.id.clone(),
        title: step.title.clone(),
        rung: step.rung,
        pass: step.acceptance.pass.clone(),
        check: step.acceptance.check.clone().unwrap_or_default(),
        result: if step.is_in(until) { StepResult::NotRun } else { StepResult::NotAsked },
        summary: String::new(),
        attempts: Vec::new(),
    };
    let mut begun: Option<&Event> = None;
    for (event, offset) in events.iter().zip(&timing.offsets) {
        if matches!(&event.entry, Entry::Unasked { step: id, .. } if *id == step.id) {
            (report.result, report.summary) = (StepResult::NotExercised, "nobody was asked".to_owned());
        }
        let Some((_, attempt)) = event.step().filter(|(id, _)| *id == step.id) else { continue };
        let Some((result, summary)) = said(&event.entry) else { continue };
        if matches!(event.entry, Entry::Started { .. } | Entry::Asked { .. }) {
            begun = Some(event);
            let started = rfc3339(event.at);
            report.attempts.push(Attempt { attempt, result, started, finished: None, start_ms: *offset, duration_ms: None });
        }
        (report.result, report.summary) = (result, summary);
        if let Some(last) = report.attempts.last_mut() {
            last.result = result;
            // Of what holdfast does, another process only learnt that it ended, not when.
            let tells = |begun: &Event| begun.process == event.process || step.hands().is_some();
            if begun.is_some_and(|begun| begun.number != event.number && tells(begun)) {
                last.finished = Some(rfc3339(event.at));
                last.duration_ms = Some(offset - last.start_ms);
            }
        }
    }
    report
}

/// How a step stands after an entry about it, in a word and a phrase; none
/// where that changes nothing.
fn said(entry: &Entry) -> Option<(StepResult, String)> {
    Some(match entry {
        Entry::Succeeded { summary, .. } => (StepResult::Passed, summary.clone()),
        Entry::Failed { failure, .. } => (StepResult::Failed, format!("{}: {}", failure.object, failure.cause)),
        Entry::Unknown { cause, .. } => (StepResult::Unknown, cause.clone()),
        Entry::Started { .. } => (StepResult::Unknown, "it has not ended".to_owned()),
        Entry::Asked { .. } => (StepResult::Waiting, "nobody has answered yet".to_owned()),
        Entry::Answered { by, note, .. } => match entry.failure() {
            Some(failure) => (StepResult::Failed, failure.cause),
            None => {
                let note = note.as_ref().map(|note| format!(": {note}")).unwrap_or_default();
                (StepResult::Passed, format!("by {by}{note}"))
            }
        },
        _ => return None,
    })
}

fn failures(events: &[Event]) -> Vec<Failed> {
    let failed = events.iter().filter_map(|event| {
        let ((step, attempt), failure) = (event.step()?, event.entry.failure()?);
        Some(Failed { step: step.to_owned(), attempt, failure })
    });
    failed.collect()
}

/// What the bytes hold beside what the API server returned, by group and resource.
fn resources(facts: &Facts) -> Vec<ResourceLine> {
    let mut lines: Vec<ResourceLine> = facts
        .structure
        .iter()
        .flat_map(|structure| &structure.resources)
        .map(|count| ResourceLine { count: count.clone(), api: None, note: None })
        .collect();
    for read in facts.read.iter().flat_map(|read| &read.resources) {
        let known = lines.iter_mut().find(|line| line.count.group == read.group && line.count.resource == read.resource);
        if let Some(line) = known {
            (line.api, line.note) = (read.api, read.note.clone());
        } else {
            let (group, resource) = (read.group.clone(), read.resource.clone());
            let count = ResourceCount { group, resource, live: read.snapshot, encrypted: 0, plaintext: read.snapshot };
            lines.push(ResourceLine { count, api: read.api, note: read.note.clone() });
        }
    }
    lines.sort_by(|a, b| (&a.count.group, &a.count.resource).cmp(&(&b.count.group, &b.count.resource)));
    lines
}

/// What nobody should believe was shown.
fn not_covered(head: &RunHead, steps: &[StepReport], manual: &[ManualStep], facts: &Facts) -> Vec<LeftOut> {
    let left_out = |what: String, why: &str| LeftOut { what, objects: None, why: why.to_owned() };
    let mut all = Vec::new();
    let not_run: Vec<_> = steps.iter().filter(|step| step.result == StepResult::NotRun).map(|step| step.title.as_str()).collect();
    if !not_run.is_empty() {
        all.push(left_out(format!("steps of the runbook: {}", not_run.join("; ")), "the run ended before them"));
    }
    for rung in [Rung::Boot, Rung::Serve].into_iter().filter(|rung| *rung > head.until) {
        all.push(left_out(format!("rung {rung}"), "it was not asked for"));
    }
    all.extend(facts.left_out.iter().cloned());
    all.push(left_out("rung cluster".into(), "no controllers, kubelet or workloads were started"));
    let unexercised: Vec<_> =
        manual.iter().filter(|line| line.result == ManualResult::NotExercised).map(|line| line.title.as_str()).collect();
    match unexercised.as_slice() {
        _ if manual.is_empty() => all.push(left_out(
            "steps that people do".into(),
            "the runbook has none: detecting, deciding and approving are not in the RTO",
        )),
        [] => all.push(left_out("the time before the run began".into(), "detecting an incident is not in the RTO")),
        titles => {
            all.push(left_out(format!("steps that people do: {}", titles.join("; ")), "the run was unattended: nobody was asked"))
        }
    }
    all.push(left_out("contents of persistent volumes, and container images".into(), "they are not in etcd"));
    all
}
