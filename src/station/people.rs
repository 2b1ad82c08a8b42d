//! Runs with people in them: begun, gone on with, and answered.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::Station;
use super::lock::Patience;
use super::rehearsal::{Asked, Climb, Told, highest};
use crate::base::codes;
use crate::base::failure::Failure;
use crate::base::ids::RunId;
use crate::catalog::Catalog;
use crate::record::Rung;
use crate::rehearsal::{Rehearsed, WRITE_MEMBER, rehearse};
use crate::report::json;
use crate::runbook::answer::{Writer, waiting};
use crate::runbook::desk::Desk;
use crate::runbook::journal::{Carried, Entry, Event, Journal, ProcessMark, RunHead};
use crate::runbook::model::{Runbook, Work};

/// A person's minutes are looked for in this many reports. What is older says
/// little of the people who would be asked today.
const REPORTS: usize = 500;

/// What is asked of a run by a runbook.
#[derive(Debug)]
pub struct Drill<'a> {
    pub runbook: &'a str,
    /// A snapshot id, the start of one, or `latest`.
    pub snapshot: &'a str,
    /// Without it, to the runbook's highest rung.
    pub until: Option<Rung>,
    /// Where people are asked; without it, nobody is.
    pub desk: Option<&'a dyn Desk>,
    /// When the incident began.
    pub incident: Option<Timestamp>,
}

/// A run that has no end.
#[derive(Debug)]
pub struct OpenRun {
    pub head: RunHead,
    /// The person's step that is open, since when, and who has begun it.
    pub waits: Option<Waits>,
}

#[derive(Debug)]
pub struct Waits {
    pub step: String,
    pub since: Timestamp,
    pub begun_by: Option<String>,
}

impl Station {
    /// Climbs by a runbook, as [`Station::rehearse`] does, with people where there is a desk.
    ///
    /// # Errors
    /// When there is no answer to report; `interrupted` where the run was left
    /// while it waits for a person, and stays open.
    pub async fn run_runbook(
        &self,
        drill: &Drill<'_>,
        cancel: CancellationToken,
        watch: &(dyn Fn(&Event) + Send + Sync),
        tell: &(dyn Fn(&Told<'_>) + Send + Sync),
        patience: &Patience<'_>,
    ) -> Result<(Rehearsed, PathBuf), Failure> {
        let runbook = self.runbook(drill.runbook)?;
        if runbook.steps.iter().any(|step| step.work == Work::Action(WRITE_MEMBER.to_owned())) {
            let cause = "it writes a member's data directory, and a run of it here would have none";
            return Err(Failure::new(&codes::USAGE, format_args!("runbook {}", runbook.id), cause)
                .next("run it with holdfast restore --into DIR --name NAME"));
        }
        let highest = highest(&runbook);
        if let Some(until) = drill.until.filter(|until| *until > highest) {
            let cause = format!("the runbook climbs to {highest}, not to {until}");
            return Err(Failure::new(&codes::USAGE, "--to", cause).next(format!("leave it out, or ask for {highest}")));
        }
        let asked = Asked { snapshot: drill.snapshot, until: highest, trigger: "person", resume: None };
        let Drill { runbook, until, desk, incident, .. } = *drill;
        self.climb(&Climb { asked: &asked, runbook, until, desk, incident }, cancel, watch, tell, patience).await
    }

    /// Goes on with a run that has no end. One that asks people needs a desk.
    ///
    /// # Errors
    /// As [`Station::run_runbook`]; `run.unknown`, `run.journal` for a run that has its report.
    pub async fn resume_run(
        &self,
        run: &RunId,
        desk: Option<&dyn Desk>,
        cancel: CancellationToken,
        watch: &(dyn Fn(&Event) + Send + Sync),
        tell: &(dyn Fn(&Told<'_>) + Send + Sync),
        patience: &Patience<'_>,
    ) -> Result<(Rehearsed, PathBuf), Failure> {
        let head = Catalog::journal(self.state_dir())?.head(run)?;
        let asked = Asked { snapshot: head.snapshot.as_str(), until: head.until, trigger: &head.trigger, resume: Some(run) };
        let climb = Climb { asked: &asked, runbook: &head.runbook, until: Some(head.until), desk, incident: head.incident };
        self.climb(&climb, cancel, watch, tell, patience).await
    }

    /// A hand on the journals of this host, for one answer.
    ///
    /// # Errors
    /// `state.unusable`, `catalog.broken`.
    pub fn writer(&self) -> Result<Writer, Failure> {
        let journal = Arc::new(Catalog::journal(self.state_dir())?);
        Ok(Writer { journal, clock: Arc::clone(&self.clock), process: ProcessMark::new(self.entropy.as_ref()) })
    }

    /// The run of this host that a person means: `latest`, an id, or the start
    /// of an id or of its random tail, where only one run has it.
    ///
    /// # Errors
    /// `run.unknown`, `run.ambiguous`.
    pub fn resolve_journal(&self, text: &str) -> Result<RunHead, Failure> {
        let mut heads = Catalog::journal(self.state_dir())?.runs()?;
        let unknown = |cause| Failure::new(&codes::RUN_UNKNOWN, text, cause);
        if text == "latest" {
            return heads.into_iter().next().ok_or_else(|| unknown("this host has no run yet"));
        }
        heads.retain(|head| {
            let id = head.run.as_str();
            !text.is_empty() && (id.starts_with(text) || id.split_once('-').is_some_and(|(_, tail)| tail.starts_with(text)))
        });
        match heads.as_slice() {
            [] => Err(unknown("no journal of this host has this run")
                .next("a run is answered on the host that runs it; holdfast runbook list shows what is open")),
            [_] => Ok(heads.remove(0)),
            [first, second, ..] => {
                let cause = format!("{} runs start so, {} and {} among them", heads.len(), first.run, second.run);
                Err(Failure::new(&codes::RUN_AMBIGUOUS, text, cause))
            }
        }
    }

    /// Refuses a step that the run's runbook does not have, if this host still
    /// has that very page.
    ///
    /// # Errors
    /// `run.step-unknown`, with the steps that people do.
    pub fn refuse_unknown_step(&self, head: &RunHead, step: &str) -> Result<(), Failure> {
        let Ok(runbook) = self.runbook(&head.runbook) else { return Ok(()) };
        if runbook.digest != head.runbook_digest || runbook.step(step).is_some() {
            return Ok(());
        }
        let steps: Vec<_> = runbook.steps.iter().filter(|step| step.hands().is_some()).map(|step| step.id.as_str()).collect();
        let cause = match steps.as_slice() {
            [] => format!("runbook {} has no such step, and none that people do", runbook.id),
            steps => format!("runbook {} has no such step; people do {}", runbook.id, steps.join(", ")),
        };
        Err(Failure::new(&codes::RUN_STEP_UNKNOWN, format_args!("step {step}"), cause))
    }

    /// The runs of this host that have no end, the newest first.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn open_runs(&self) -> Result<Vec<OpenRun>, Failure> {
        let journal = Catalog::journal(self.state_dir())?;
        let mut open = Vec::new();
        for head in rehearse::unfinished(&journal)? {
            let waits = waits(&journal.events(&head.run)?);
            open.push(OpenRun { head, waits });
        }
        Ok(open)
    }
}

fn waits(events: &[Event]) -> Option<Waits> {
    let step = waiting(events)?.0.to_owned();
    let asked = events.iter().rposition(|event| matches!(event.entry, Entry::Asked { .. }))?;
    let begun_by = events[asked..].iter().find_map(|event| match &event.entry {
        Entry::Begun { by, .. } => Some(by.clone()),
        _ => None,
    });
    Some(Waits { step, since: events[asked].at, begun_by })
}

/// What each person's step of a runbook took when somebody was last asked, by
/// any host's reports.
///
/// # Errors
/// When the catalog cannot be read. A report that this version cannot read is
/// passed over.
pub(super) fn last_measured(catalog: &Catalog, runbook: &Runbook) -> Result<BTreeMap<String, Carried>, Failure> {
    let mut sought: Vec<&str> = runbook.steps.iter().filter(|step| step.hands().is_some()).map(|step| step.id.as_str()).collect();
    let mut found = BTreeMap::new();
    let mut rows = catalog.reports()?.into_iter().take(REPORTS);
    while let (false, Some(row)) = (sought.is_empty(), rows.next()) {
        let Some(record) = catalog.report(&row.run)? else { continue };
        let Ok(report) = json::read(&record.report) else { continue };
        if report.identity.runbook != runbook.id {
            continue;
        }
        for line in &report.manual {
            if let (true, Some(carried)) = (sought.contains(&line.step.as_str()), line.measured(&report.identity.run)) {
                sought.retain(|step| *step != line.step);
                found.insert(line.step.clone(), carried);
            }
        }
    }
    Ok(found)
}
