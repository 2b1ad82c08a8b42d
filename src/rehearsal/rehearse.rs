//! One rehearsal, from the question to the signed answer.

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::base::clock::rfc3339;
use crate::base::codes;
use crate::base::exit::Exit;
use crate::base::failure::Failure;
use crate::base::ids::RunId;
use crate::ledger::Place;
use crate::record::attestation::{Attestation, ReportRecord};
use crate::record::layout::Layout;
use crate::record::manifest::RecordRef;
use crate::record::{Rung, SCHEMA, TOOL};
use crate::rehearsal::ladder::{Ladder, RehearsalHost, Signing};
use crate::rehearsal::subject::Subject;
use crate::report::json;
use crate::report::model::Report;
use crate::runbook::desk::People;
use crate::runbook::engine::Outcome;
use crate::runbook::facts::Facts;
use crate::runbook::journal::{Entry, Event, Journal, ProcessMark, RunHead, RunResult};
use crate::runbook::model::Runbook;
use crate::runbook::run::{Driver, stated};
use crate::sandbox::{Leftover, scratch};

/// What is asked.
pub struct Request<'a> {
    pub until: Rung,
    /// `person`, `timer` or `demo`.
    pub trigger: &'a str,
    pub runbook: &'a Runbook,
    pub cancel: CancellationToken,
    /// Who does the steps that people do.
    pub people: &'a People<'a>,
    /// When the incident began, where somebody declared it.
    pub incident: Option<Timestamp>,
    /// Told of every event once it is in the journal.
    pub watch: &'a (dyn Fn(&Event) + Send + Sync),
}

impl std::fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request").field("until", &self.until).field("runbook", &self.runbook.id).finish_non_exhaustive()
    }
}

/// The answer.
#[derive(Debug)]
pub struct Rehearsed {
    pub run: RunId,
    pub outcome: Outcome,
    pub report: Report,
    /// What runs that were killed had left, removed before this one began.
    pub leftovers: Vec<Leftover>,
    /// What did not go well and does not change the answer.
    pub warnings: Vec<Failure>,
}

impl Rehearsed {
    #[must_use]
    pub fn exit(&self) -> Exit {
        self.outcome.exit()
    }
}

/// Rehearses a snapshot: climbs, tears down, reports, attests.
///
/// # Errors
/// When there is no answer to report: the journal or the scratch root cannot be
/// used, or nothing can be signed. What steps found is an outcome, not an error.
pub async fn rehearse(
    host: &RehearsalHost<'_>,
    subject: &Subject,
    journal: Arc<dyn Journal>,
    request: &Request<'_>,
) -> Result<Rehearsed, Failure> {
    let leftovers = sweep(&host.config.rehearsal.scratch_dir).await?;
    let head = begin(host, subject, &journal, request).await?;
    let process = head.process.clone();
    drive(host, subject, journal, request, (head, process), leftovers, None).await
}

/// Writes down that a run begins, in this process.
pub(super) async fn begin(
    host: &RehearsalHost<'_>,
    subject: &Subject,
    journal: &Arc<dyn Journal>,
    request: &Request<'_>,
) -> Result<RunHead, Failure> {
    let started = host.clock.now();
    let head = RunHead {
        run: RunId::new(started, host.entropy.as_ref()),
        runbook: request.runbook.id.clone(),
        runbook_digest: request.runbook.digest,
        until: request.until,
        cluster: host.config.cluster.clone(),
        snapshot: subject.id.clone(),
        trigger: request.trigger.to_owned(),
        host: host.config.host.name.clone(),
        tool: TOOL.to_owned(),
        started,
        uptime_ms: u64::try_from(host.clock.uptime().as_millis()).unwrap_or(u64::MAX),
        process: ProcessMark::new(host.entropy.as_ref()),
        attended: matches!(request.people, People::Attended(_)),
        incident: request.incident,
    };
    let (begun, copy) = (Arc::clone(journal), head.clone());
    on_a_blocking_thread(move || begun.begin(&copy)).await?;
    Ok(head)
}

/// Goes on with a run that was killed, in this process. Of one that has ended,
/// the records that are nowhere yet are written: `reported` is its report in
/// the ledger, where that is there; and what waits in the outbox is not made again.
///
/// # Errors
/// As [`rehearse`]; `run.journal` when the runbook has changed since, or the run is about another snapshot.
pub async fn resume(
    host: &RehearsalHost<'_>,
    subject: &Subject,
    journal: Arc<dyn Journal>,
    request: &Request<'_>,
    run: &RunId,
    reported: Option<RecordRef>,
) -> Result<Rehearsed, Failure> {
    let leftovers = sweep(&host.config.rehearsal.scratch_dir).await?;
    let (reading, wanted) = (Arc::clone(&journal), run.clone());
    let head = on_a_blocking_thread(move || reading.head(&wanted)).await?;
    if head.snapshot != subject.id {
        let cause = format!("it is about snapshot {}, not {}", head.snapshot, subject.id);
        return Err(Failure::new(&codes::RUN_JOURNAL, format!("run {run}"), cause));
    }
    let process = ProcessMark::new(host.entropy.as_ref());
    drive(host, subject, journal, request, (head, process), leftovers, reported).await
}

/// Runs that began and have no end, the newest first.
///
/// # Errors
/// When the journal cannot be read.
pub fn unfinished(journal: &dyn Journal) -> Result<Vec<RunHead>, Failure> {
    let mut open = Vec::new();
    for head in journal.runs()? {
        if !is_finished(&journal.events(&head.run)?) {
            open.push(head);
        }
    }
    Ok(open)
}

/// Has a run with these events come to its end?
#[must_use]
pub fn is_finished(events: &[Event]) -> bool {
    matches!(events.last().map(|last| &last.entry), Some(Entry::Finished { .. }))
}

async fn drive(
    host: &RehearsalHost<'_>,
    subject: &Subject,
    journal: Arc<dyn Journal>,
    request: &Request<'_>,
    (head, process): (RunHead, ProcessMark),
    leftovers: Vec<Leftover>,
    reported: Option<RecordRef>,
) -> Result<Rehearsed, Failure> {
    let mut ladder = Ladder::new(host, subject, head.run.as_str());
    let driver = Driver {
        runbook: request.runbook,
        head: &head,
        journal: Arc::clone(&journal),
        clock: Arc::clone(&host.clock),
        process,
        cancel: request.cancel.clone(),
        people: request.people,
        watch: request.watch,
    };
    let outcome = driver.drive(&mut ladder).await?;
    let run = head.run.clone();
    let events = on_a_blocking_thread(move || journal.events(&run)).await?;
    let report = Report::build(&head, request.runbook, &events);
    let mut warnings = Vec::new();
    if let Some(signing) = &host.signing {
        Written { host, signing, subject, head: &head, report: &report, outcome: &outcome }.append(&stated(&events), reported)?;
        warnings.extend(deliver(host, signing).await?);
    }
    Ok(Rehearsed { run: head.run, outcome, report, leftovers, warnings })
}

/// Signs the records of a run that has ended; from then on they are in the outbox.
pub(super) fn append(
    host: &RehearsalHost<'_>,
    signing: &Signing<'_>,
    subject: &Subject,
    head: &RunHead,
    report: &Report,
    outcome: &Outcome,
    events: &[Event],
) -> Result<(), Failure> {
    Written { host, signing, subject, head, report, outcome }.append(&stated(events), None)
}

/// Why the records are still waiting, if they are.
pub(super) async fn deliver(host: &RehearsalHost<'_>, signing: &Signing<'_>) -> Result<Option<Failure>, Failure> {
    let delivery = signing.outbox.deliver(host.stores).await?;
    Ok(delivery.blocked(Place::Ledger).map(|why| {
        let later = why.is_transient();
        if later { Failure::new(&codes::LEDGER_UNREACHABLE, why.object(), why.cause()) } else { why.clone() }
    }))
}

/// The records of a run: first its report, then the attestation that names it.
struct Written<'a> {
    host: &'a RehearsalHost<'a>,
    signing: &'a Signing<'a>,
    subject: &'a Subject,
    head: &'a RunHead,
    report: &'a Report,
    outcome: &'a Outcome,
}

impl Written<'_> {
    /// Each record once, however often a process is killed between the two.
    fn append(&self, facts: &Facts, reported: Option<RecordRef>) -> Result<(), Failure> {
        let layout = Layout::new(&self.host.config.ledger.prefix, &self.host.config.cluster);
        let report = match reported {
            Some(report) => report,
            None => self.report_at(layout.report(&self.head.run))?,
        };
        let path = layout.attestation(&self.subject.lineage, &self.subject.id, &self.head.run);
        let attest = |signer| self.attestation(facts, path.clone(), signer, report);
        self.signing.outbox.append_once(self.signing.signer, attest, (Place::Ledger, path.clone())).map(drop)
    }

    fn report_at(&self, path: String) -> Result<RecordRef, Failure> {
        let value = json::value(self.report)?;
        let report = self.signing.outbox.append_once(
            self.signing.signer,
            |signer| ReportRecord {
                schema: SCHEMA,
                path: path.clone(),
                signer,
                run: self.head.run.clone(),
                snapshot: self.subject.id.clone(),
                previous_report: self.subject.previous_report.clone(),
                written: rfc3339(self.host.clock.now()),
                report: value,
                tool: TOOL.to_owned(),
            },
            (Place::Ledger, path.clone()),
        )?;
        Ok(RecordRef { key: path, sha256: report.sha256 })
    }

    fn attestation(&self, facts: &Facts, path: String, signer: crate::record::Link, report: RecordRef) -> Attestation {
        let reached = self.report.verdict.reached;
        let until = self.report.phases.iter().filter(|phase| Some(phase.rung) == reached).find_map(|phase| phase.until_ms);
        let interrupted = self.outcome.result == RunResult::Interrupted;
        let failure = self.outcome.failure.as_ref().map(|(_, failure)| failure.code.clone());
        let layout = Layout::new(&self.host.config.snapshots.prefix, &self.host.config.cluster);
        // Where not even the manifest was read, it is the ledger's copy that was believed.
        let manifest = facts.snapshot.as_ref().map_or_else(
            || RecordRef {
                key: layout.snapshot_manifest(&self.subject.lineage, &self.subject.id),
                sha256: self.subject.manifest_sha256,
            },
            |snapshot| snapshot.manifest.clone(),
        );
        Attestation {
            schema: SCHEMA,
            path,
            signer,
            run: self.head.run.clone(),
            cluster: self.host.config.cluster.clone(),
            lineage: self.subject.lineage.clone(),
            snapshot: self.subject.id.clone(),
            manifest,
            host: self.head.host.clone(),
            started: rfc3339(self.head.started),
            finished: rfc3339(self.host.clock.now()),
            asked: self.head.until,
            reached,
            passed: self.outcome.result == RunResult::Passed,
            failure: failure.or_else(|| interrupted.then(|| codes::INTERRUPTED.name.to_owned())),
            escrow_opened: facts.keys.as_ref().map(|keys| keys.openings.clone()).unwrap_or_default(),
            rto_ms: until.unwrap_or(0),
            rpo_ms: self.report.rpo.measured_ms,
            report: Some(report),
            tool: TOOL.to_owned(),
        }
    }
}

pub(super) async fn sweep(root: &Path) -> Result<Vec<Leftover>, Failure> {
    let root = root.to_owned();
    on_a_blocking_thread(move || scratch::sweep(&root)).await
}

pub(super) async fn on_a_blocking_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work).await.map_err(|e| Failure::because(&codes::RUN_JOURNAL, "the journal", &e))?
}
