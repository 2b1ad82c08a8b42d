//! One rehearsal on this host, from the question to the reports on disk.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::going_on::GoingOn;
use super::lock::{self, NamedLock, Patience};
use super::{Current, Station, people};
use crate::base::codes;
use crate::base::failure::Failure;
use crate::base::ids::RunId;
use crate::base::job::Job;
use crate::catalog::Catalog;
use crate::escrow::seal::Identities;
use crate::record::attestation::{Attestation, ReportRecord};
use crate::record::{Record, Rung};
use crate::rehearsal::{self, RehearsalHost, Rehearsed, Request, Signing, Subject};
use crate::report::{html, json, markdown};
use crate::runbook::desk::{Desk, People};
use crate::runbook::journal::{Event, Journal};
use crate::runbook::model::Runbook;
use crate::sandbox::Places;

/// The restore that a rehearsal rehearses.
pub const RUNBOOK_ID: &str = "etcd-restore";
/// The restore of a data directory for a member.
pub const MEMBER_RUNBOOK_ID: &str = "etcd-member";

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
    /// The newest run has ended, and its records are neither in the ledger nor on their way.
    Unrecorded(&'a RunId),
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
        let climb = Climb { asked, runbook: RUNBOOK_ID, until: Some(asked.until), desk: None, incident: None };
        self.climb(&climb, cancel, watch, tell, patience).await
    }

    /// As [`Station::rehearse`], by any page, with people or without.
    pub(super) async fn climb(
        &self,
        climb: &Climb<'_>,
        cancel: CancellationToken,
        watch: &(dyn Fn(&Event) + Send + Sync),
        tell: &(dyn Fn(&Told<'_>) + Send + Sync),
        patience: &Patience<'_>,
    ) -> Result<(Rehearsed, PathBuf), Failure> {
        // Who has no identities is on the wrong host, whatever its key may sign.
        let [snapshot_identity, escrow_identity] = self.identities()?;
        let (signer, outbox, allowed) = (self.signer_of(&SIGNED_HERE)?, self.outbox()?, self.allowed_signers()?);
        // Nothing has begun that would have to be torn down.
        let (_alone, current) = tokio::select! {
            ready = self.wait_for_turn(climb, patience) => ready?,
            () = cancel.cancelled() => return Err(Failure::new(&codes::INTERRUPTED, "holdfast", "interrupted")),
        };
        if let Some(failure) = &current.stale {
            tell(&Told::Stale(failure));
        }
        let journal: Arc<dyn Journal> = Arc::new(Catalog::journal(self.state_dir())?);
        let resumed =
            climb.asked.resume.map(|run| self.resumable(&current, &outbox, journal.as_ref(), run, climb)).transpose()?;
        let head = resumed.as_ref().map(|going_on| &going_on.head);
        let runbook = self.runbook(head.map_or(climb.runbook, |head| &head.runbook))?;
        let until = climb.until.unwrap_or_else(|| highest(&runbook));
        let places = Places::usual(self.config.rehearsal.tools.as_deref(), |variable| std::env::var_os(variable));
        let host = RehearsalHost {
            config: &self.config,
            stores: &self.stores,
            allowed: &allowed,
            snapshot_identity,
            escrow_identity,
            signing: Some(Signing { signer: &signer, outbox: &outbox }),
            places: &places,
            clock: self.clock.clone(),
            entropy: self.entropy.clone(),
            progress: self.progress.clone(),
        };
        let catalog = &current.catalog;
        let people = match climb.desk.filter(|_| head.is_none_or(|head| head.attended)) {
            Some(desk) => People::Attended(desk),
            None => People::Unattended(people::last_measured(catalog, &runbook)?),
        };
        let (trigger, people, incident) = (climb.asked.trigger, &people, climb.incident);
        let request = Request { until, trigger, runbook: &runbook, cancel, people, incident, watch };
        let mut rehearsed = match resumed {
            Some(GoingOn { head, reported }) => {
                let subject = Subject::find(catalog, &head.snapshot, &self.config.host.name)?;
                rehearsal::resume(&host, &subject, journal, &request, &head.run, reported).await?
            }
            None => {
                self.tell_of_newest(&current, &outbox, journal.as_ref(), tell)?;
                let id = catalog.resolve(climb.asked.snapshot)?;
                let subject = Subject::find(catalog, &id, &self.config.host.name)?;
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

    /// Waits until no other process of this host rehearses, and reads what there is.
    async fn wait_for_turn(&self, climb: &Climb<'_>, patience: &Patience<'_>) -> Result<(Option<NamedLock>, Current), Failure> {
        // A run that asks people may wait for days, and nothing waits for it.
        let alone = match climb.desk {
            Some(_) => None,
            None => Some(lock::of_job(self.state_dir(), Job::Rehearsal, patience).await?),
        };
        Ok((alone, self.current_catalog().await?))
    }
}

impl Station {
    /// What opens snapshots, and what opens keys.
    fn identities(&self) -> Result<[Option<Arc<Identities>>; 2], Failure> {
        let of = |path: &Option<PathBuf>, key| identity(path.as_deref(), key).map(Some);
        let (snapshots, escrow) = (&self.config.snapshots.identity_file, &self.config.escrow.identity_file);
        Ok([of(snapshots, "snapshots.identity_file")?, of(escrow, "escrow.identity_file")?])
    }
}

/// A rehearsal by any page.
pub(super) struct Climb<'a> {
    pub asked: &'a Asked<'a>,
    pub runbook: &'a str,
    /// Without it, to the page's highest rung.
    pub until: Option<Rung>,
    /// Where people are asked; without it, nobody is.
    pub desk: Option<&'a dyn Desk>,
    pub incident: Option<Timestamp>,
}

/// The highest rung that a page climbs to.
pub(super) fn highest(runbook: &Runbook) -> Rung {
    runbook.steps.iter().filter_map(|step| step.rung).max().unwrap_or(Rung::Open)
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
