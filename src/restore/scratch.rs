//! `restore --into scratch`: the climb, and what is to be known of its result.

use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::up::Note;
use super::{Tell, Told, find};
use crate::base::clock::rfc3339;
use crate::base::codes;
use crate::base::failure::Failure;
use crate::catalog::Catalog;
use crate::ledger::Outbox;
use crate::record::Rung;
use crate::record::signature::Signer;
use crate::rehearsal::{self, RehearsalHost, Rehearsed, Request, Signing, Standing, Subject};
use crate::runbook::journal::{Event, Journal, MemoryJournal};
use crate::sandbox::Places;
use crate::station::Station;
use crate::station::rehearsal::{SIGNED_HERE, identity, read_runbook, write_reports};

/// What is asked of a restore.
#[derive(Debug)]
pub struct Asked<'a> {
    /// A snapshot id, the start of one, or `latest`.
    pub snapshot: &'a str,
    pub until: Rung,
}

/// What came of it.
#[derive(Debug)]
pub struct Raised {
    pub rehearsed: Rehearsed,
    /// The report's page on this host, where it could be written.
    pub page: Option<PathBuf>,
    /// Is there a signed record of it?
    pub recorded: bool,
    /// None where a step failed or somebody stopped it: then nothing is left.
    pub up: Option<(Standing, Note)>,
}

/// Climbs and leaves the cluster up.
///
/// # Errors
/// When there is no answer to report; nothing is left running. What a step
/// found is an answer.
pub async fn raise(
    station: &Station,
    asked: &Asked<'_>,
    cancel: CancellationToken,
    watch: &(dyn Fn(&Event) + Send + Sync),
    tell: Tell<'_>,
) -> Result<Raised, Failure> {
    let config = &station.config;
    let allowed = station.allowed_signers()?;
    let runbook = read_runbook(config.rehearsal.runbooks.as_deref())?;
    let snapshot_identity = identity(config.snapshots.identity_file.as_deref(), "snapshots.identity_file")?;
    let escrow_identity = identity(config.escrow.identity_file.as_deref(), "escrow.identity_file")?;
    let subject = tokio::select! {
        subject = find::find(station, asked.snapshot, tell) => subject?,
        () = cancel.cancelled() => return Err(Failure::new(&codes::INTERRUPTED, "holdfast", "interrupted")),
    };
    let signing = signing(station, tell);
    let places = Places::usual(config.rehearsal.tools.as_deref(), |variable| std::env::var_os(variable));
    let host = RehearsalHost {
        config,
        stores: &station.stores,
        allowed: &allowed,
        snapshot_identity,
        escrow_identity,
        signing: signing.as_ref().map(|(signer, outbox)| Signing { signer, outbox }),
        places: &places,
        clock: station.clock.clone(),
        entropy: station.entropy.clone(),
    };
    let request = Request { until: asked.until, trigger: "person", runbook: &runbook, cancel, watch };
    let (rehearsed, standing) = rehearsal::raise(&host, &subject, journal(station, tell), &request).await?;
    let page = match write_reports(station.state_dir(), &rehearsed) {
        Ok(page) => Some(page),
        Err(failure) => {
            tell(Told::Warning(failure));
            None
        }
    };
    let up = match standing {
        Some(standing) => {
            let note = note(station, &subject, asked.until, &rehearsed, &standing);
            note.leave(standing.directory())?;
            Some((standing, note))
        }
        None => None,
    };
    Ok(Raised { rehearsed, page, recorded: signing.is_some(), up })
}

fn note(station: &Station, subject: &Subject, until: Rung, rehearsed: &Rehearsed, standing: &Standing) -> Note {
    let note = Note {
        run: rehearsed.run.to_string(),
        snapshot: subject.id.to_string(),
        cluster: station.config.cluster.to_string(),
        rung: until.to_string(),
        since: rfc3339(station.clock.now()),
        address: String::new(),
        kubeconfig: None,
        etcdctl: None,
        not_after: String::new(),
        fence: standing.fence(),
    };
    note.access(&standing.access)
}

/// How this host signs; none where it does not, which stops no restore.
fn signing(station: &Station, tell: Tell<'_>) -> Option<(Signer, Outbox)> {
    if station.config.host.signing_key.is_none() {
        tell(Told::Note("this host has no signing key: nothing of this restore is put on record".to_owned()));
        return None;
    }
    let both = station.signer_of(&SIGNED_HERE).and_then(|signer| Ok((signer, station.outbox()?)));
    both.map_err(|failure| {
        tell(Told::Warning(failure.next("repair it when there is time; nothing of this restore is put on record")))
    })
    .ok()
}

/// Where steps are written down; where the state directory is of no use, only in memory.
fn journal(station: &Station, tell: Tell<'_>) -> Arc<dyn Journal> {
    match Catalog::journal(station.state_dir()) {
        Ok(journal) => Arc::new(journal),
        Err(failure) => {
            tell(Told::Warning(
                failure.next("repair it when there is time; the steps of this restore are not journaled on disk"),
            ));
            Arc::new(MemoryJournal::default())
        }
    }
}
