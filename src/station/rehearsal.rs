//! One rehearsal on this host, from the question to the reports on disk.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::Station;
use super::lock::{self, Patience};
use crate::base::codes;
use crate::base::failure::Failure;
use crate::base::ids::RunId;
use crate::base::job::Job;
use crate::catalog::Catalog;
use crate::escrow::seal::Identities;
use crate::record::attestation::{Attestation, ReportRecord};
use crate::record::{Record, Rung};
use crate::rehearsal::{self, ACTIONS, RehearsalHost, Rehearsed, Request, Signing, Subject};
use crate::report::{html, json, markdown};
use crate::runbook::journal::{Event, Journal};
use crate::runbook::model::Runbook;
use crate::sandbox::Places;

/// The restore that a rehearsal rehearses, unless `rehearsal.runbooks` has another.
const RUNBOOK: &[u8] = include_bytes!("../../runbooks/etcd-restore.md");
const RUNBOOK_FILE: &str = "etcd-restore.md";

/// The kinds of record that a rehearsal signs.
pub const SIGNED_HERE: [&str; 2] = [Attestation::NAMESPACE, ReportRecord::NAMESPACE];

/// What is asked of a rehearsal.
#[derive(Debug)]
pub struct Asked<'a> {
    /// A snapshot id, the start of one, or `latest`.
    pub snapshot: &'a str,
    pub until: Rung,
    /// `person`, `timer` or `demo`.
    pub trigger: &'a str,
    /// A run that was cut off, to be gone on with instead.
    pub resume: Option<&'a RunId>,
}

/// What is worth knowing before the first step.
#[derive(Debug)]
pub enum Told<'a> {
    /// The ledger does not answer: what it last said counts.
    Stale(&'a Failure),
    /// The newest run was cut off and can be gone on with.
    CutOff(&'a RunId),
}

impl Station {
    /// When no other process of this host rehearses: climbs, tears down, attests, and keeps the reports in the state directory;
    /// gives the answer and the path of its page.
    ///
    /// # Errors
    /// When there is no answer to report. What a step found is an answer.
    pub async fn rehearse(
        &self,
        asked: &Asked<'_>,
        cancel: CancellationToken,
        watch: &(dyn Fn(&Event) + Send + Sync),
        tell: &(dyn Fn(&Told<'_>) + Send + Sync),
        patience: &Patience<'_>,
    ) -> Result<(Rehearsed, PathBuf), Failure> {
        let (signer, outbox, allowed) = (self.signer_of(&SIGNED_HERE)?, self.outbox()?, self.allowed_signers()?);
        let waiting = async {
            let alone = lock::of_job(self.state_dir(), Job::Rehearsal, patience).await?;
            Ok::<_, Failure>((alone, self.current_catalog().await?))
        };
        // Nothing has begun that would have to be torn down.
        let (_alone, current) = tokio::select! {
            ready = waiting => ready?,
            () = cancel.cancelled() => return Err(Failure::new(&codes::INTERRUPTED, "holdfast", "interrupted")),
        };
        if let Some(failure) = &current.stale {
            tell(&Told::Stale(failure));
        }
        let catalog = current.catalog;
        let journal: Arc<dyn Journal> = Arc::new(Catalog::journal(self.state_dir())?);
        let runbook = read_runbook(self.config.rehearsal.runbooks.as_deref())?;
        let places = Places::usual(self.config.rehearsal.tools.as_deref(), |variable| std::env::var_os(variable));
        let host = RehearsalHost {
            config: &self.config,
            stores: &self.stores,
            allowed: &allowed,
            snapshot_identity: Some(identity(self.config.snapshots.identity_file.as_deref(), "snapshots.identity_file")?),
            escrow_identity: Some(identity(self.config.escrow.identity_file.as_deref(), "escrow.identity_file")?),
            signing: Some(Signing { signer: &signer, outbox: &outbox }),
            places: &places,
            clock: self.clock.clone(),
            entropy: self.entropy.clone(),
        };
        let request = Request { until: asked.until, trigger: asked.trigger, runbook: &runbook, cancel, watch };
        let mut rehearsed = match asked.resume {
            Some(run) => {
                refuse_reported(&catalog, run)?;
                let id = journal.head(run)?.snapshot;
                let subject = Subject::find(&catalog, &id, &self.config.host.name)?;
                rehearsal::resume(&host, &subject, journal, &request, run).await?
            }
            None => {
                tell_of_cut_off(journal.as_ref(), tell)?;
                let id = catalog.resolve(asked.snapshot)?;
                let subject = Subject::find(&catalog, &id, &self.config.host.name)?;
                rehearsal::rehearse(&host, &subject, journal, &request).await?
            }
        };
        let page = write_reports(self.state_dir(), &rehearsed)?;
        // The answer is signed already; the catalog follows when the ledger answers.
        if let (Err(failure), true) = (self.refresh().await, rehearsed.warnings.is_empty()) {
            rehearsed.warnings.push(failure);
        }
        Ok((rehearsed, page))
    }
}

/// A run has one report: a second one would take numbers in this host's chain
/// and never find a place in the ledger.
///
/// # Errors
/// `run.journal` for a run that has a report.
pub fn refuse_reported(catalog: &Catalog, run: &RunId) -> Result<(), Failure> {
    if catalog.report(run)?.is_none() {
        return Ok(());
    }
    let cause = "it has ended, and its report is in the ledger";
    Err(Failure::new(&codes::RUN_JOURNAL, format!("run {run}"), cause).next(format!("read it with holdfast report {run}")))
}

/// A run that was cut off can be gone on with; nothing else names it.
fn tell_of_cut_off(journal: &dyn Journal, tell: &(dyn Fn(&Told<'_>) + Send + Sync)) -> Result<(), Failure> {
    let newest = journal.runs()?.into_iter().next();
    for head in rehearsal::rehearse::unfinished(journal)?.into_iter().filter(|head| newest.as_ref() == Some(head)) {
        tell(&Told::CutOff(&head.run));
    }
    Ok(())
}

/// # Errors
/// `config.section-missing` when it is not set, `identity.unreadable`.
pub fn identity(path: Option<&Path>, key: &str) -> Result<Arc<Identities>, Failure> {
    let missing = || {
        Failure::new(&codes::CONFIG_SECTION_MISSING, key, "it is not set, and a rehearsal opens what is sealed")
            .next("set it to the identity file of this rehearsal host, or run this on a host that has one")
    };
    Ok(Arc::new(Identities::load(path.ok_or_else(missing)?)?))
}

/// The restore that is rehearsed, from `folder` or from the binary.
///
/// # Errors
/// `runbook.unknown`, `runbook.invalid`.
pub fn read_runbook(folder: Option<&Path>) -> Result<Runbook, Failure> {
    let path = folder.map_or_else(|| PathBuf::from(RUNBOOK_FILE), |folder| folder.join(RUNBOOK_FILE));
    let bytes = match folder {
        Some(_) => std::fs::read(&path).map_err(|e| Failure::because(&codes::RUNBOOK_UNKNOWN, path.display(), &e))?,
        None => RUNBOOK.to_vec(),
    };
    Runbook::parse(&bytes, ACTIONS).map_err(|mistakes| mistakes.into_failure(path.display()))
}

/// Keeps the three faces beside the catalog; the signed one is in the ledger.
/// Gives the path of the page.
///
/// # Errors
/// `state.unusable`; some of the faces may be there.
pub fn write_reports(state: &Path, rehearsed: &Rehearsed) -> Result<PathBuf, Failure> {
    let folder = state.join("reports");
    let failed = |e: io::Error| Failure::because(&codes::STATE_UNUSABLE, folder.display(), &e);
    // They name objects of the cluster, down to those that nobody could read.
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed)?;
    let page = folder.join(format!("{}.html", rehearsed.run));
    let faces = [
        ("html", html::render(&rehearsed.report)?),
        ("md", markdown::render(&rehearsed.report)),
        ("json", json::render(&rehearsed.report)?),
    ];
    for (ending, text) in faces {
        std::fs::write(page.with_extension(ending), text).map_err(failed)?;
    }
    Ok(page)
}
