//! `restore --into scratch`: the climb, and what is to be known of its result.

use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::bench::Bench;
use super::up::Note;
use super::{Tell, Told};
use crate::base::clock::rfc3339;
use crate::base::failure::Failure;
use crate::record::Rung;
use crate::rehearsal::{self, Rehearsed, Request, Standing};
use crate::runbook::desk::NOBODY;
use crate::runbook::journal::{Event, RESTORE};
use crate::station::rehearsal::{RUNBOOK_ID, write_reports};

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
    bench: &Bench,
    until: Rung,
    cancel: CancellationToken,
    watch: &(dyn Fn(&Event) + Send + Sync),
    tell: Tell<'_>,
) -> Result<Raised, Failure> {
    bench.require_identities(true)?;
    let runbook = bench.station.runbook(RUNBOOK_ID)?;
    // Whoever restores is at work already: nobody is asked.
    let people = &NOBODY;
    let request = Request { until, trigger: RESTORE, runbook: &runbook, cancel, people, incident: None, watch };
    let host = bench.host();
    let (rehearsed, standing) = rehearsal::raise(&host, &bench.subject, Arc::clone(&bench.journal), &request).await?;
    let page = keep_report(bench, &rehearsed, tell);
    let up = match standing {
        Some(standing) => {
            let note = note(bench, until, &rehearsed, &standing);
            note.leave(standing.directory())?;
            Some((standing, note))
        }
        None => None,
    };
    Ok(Raised { rehearsed, page, recorded: bench.is_recorded(), up })
}

/// The report's page in the state directory; one that cannot be written stops no restore.
pub(super) fn keep_report(bench: &Bench, rehearsed: &Rehearsed, tell: Tell<'_>) -> Option<PathBuf> {
    if !bench.keeps_state {
        return None;
    }
    write_reports(bench.station.state_dir(), rehearsed).map_err(|failure| tell(Told::Warning(failure))).ok()
}

fn note(bench: &Bench, until: Rung, rehearsed: &Rehearsed, standing: &Standing) -> Note {
    let note = Note {
        run: rehearsed.run.to_string(),
        snapshot: bench.subject.id.to_string(),
        file: bench.subject.file.as_ref().map(|file| file.path.clone()),
        cluster: bench.station.config.cluster.to_string(),
        rung: until.to_string(),
        since: rfc3339(bench.station.clock.now()),
        address: String::new(),
        kubeconfig: None,
        etcdctl: None,
        not_after: String::new(),
        fence: standing.fence(),
    };
    note.access(&standing.access)
}
