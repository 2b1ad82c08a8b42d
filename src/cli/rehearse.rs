//! `holdfast rehearse` and `holdfast verify`.

use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tokio_util::sync::CancellationToken;

use super::render::{self, printable};
use super::station::Station;
use crate::base::codes;
use crate::base::exit::Exit;
use crate::base::failure::Failure;
use crate::base::ids::RunId;
use crate::base::units::human_duration;
use crate::catalog::Catalog;
use crate::escrow::seal::Identities;
use crate::record::attestation::{Attestation, ReportRecord};
use crate::record::{Record, Rung};
use crate::rehearsal::{self, ACTIONS, RehearsalHost, Rehearsed, Request, Subject};
use crate::report::{html, json, markdown};
use crate::runbook::journal::{Entry, Event, Journal};
use crate::runbook::model::Runbook;
use crate::sandbox::Places;

/// The restore that a rehearsal rehearses, unless `rehearsal.runbooks` has another.
const RUNBOOK: &[u8] = include_bytes!("../../runbooks/etcd-restore.md");
const RUNBOOK_FILE: &str = "etcd-restore.md";

/// The kinds of record that a rehearsal signs.
const SIGNED_HERE: [&str; 2] = [Attestation::NAMESPACE, ReportRecord::NAMESPACE];

#[derive(Debug, Args)]
pub struct Rehearse {
    /// A snapshot id, the start of one, or `latest`.
    #[arg(default_value = "latest")]
    pub id: String,

    /// The rung to climb to.
    #[arg(long, value_enum, default_value_t = RungArgument::Serve)]
    pub to: RungArgument,

    /// Go on with a run that was cut off, instead of beginning one.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["to", "id"])]
    pub resume: Option<RunId>,
}

/// The rungs that this version climbs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RungArgument {
    /// The stored bytes are whole and escrow opens them.
    Open,
    /// etcd runs it.
    Boot,
    /// Kubernetes reads it.
    Serve,
}

impl From<RungArgument> for Rung {
    fn from(argument: RungArgument) -> Self {
        match argument {
            RungArgument::Open => Self::Open,
            RungArgument::Boot => Self::Boot,
            RungArgument::Serve => Self::Serve,
        }
    }
}

/// Climbs, and says at each step what came of it.
///
/// # Errors
/// When there is no answer to report. What a step found is an answer.
pub async fn run(
    station: &Station,
    arguments: &Rehearse,
    json: bool,
    out: &mut dyn Write,
    cancel: CancellationToken,
) -> Result<Exit, Failure> {
    let (signer, outbox, allowed) = (station.signer_of(&SIGNED_HERE)?, station.outbox()?, station.allowed_signers()?);
    let catalog = station.current_catalog(json).await?;
    let journal: Arc<dyn Journal> = Arc::new(Catalog::journal(station.state_dir())?);
    let runbook = read_runbook(station.config.rehearsal.runbooks.as_deref())?;
    let places = Places::usual(station.config.rehearsal.tools.as_deref(), |variable| std::env::var_os(variable));
    let host = RehearsalHost {
        config: &station.config,
        stores: &station.stores,
        allowed: &allowed,
        snapshot_identity: identity(station.config.snapshots.identity_file.as_deref(), "snapshots.identity_file")?,
        escrow_identity: identity(station.config.escrow.identity_file.as_deref(), "escrow.identity_file")?,
        signer: &signer,
        outbox: &outbox,
        places: &places,
        clock: station.clock.clone(),
        entropy: station.entropy.clone(),
    };
    let watch = |event: &Event| show_event(event, json);
    let request = Request { until: arguments.to.into(), trigger: "person", runbook: &runbook, cancel, watch: &watch };
    let rehearsed = match &arguments.resume {
        Some(run) => {
            refuse_reported(&catalog, run)?;
            let id = journal.head(run)?.snapshot;
            let subject = Subject::find(&catalog, &id, &station.config.host.name)?;
            rehearsal::resume(&host, &subject, journal, &request, run).await?
        }
        None => {
            tell_of_unfinished(journal.as_ref(), json)?;
            let id = catalog.resolve(&arguments.id)?;
            let subject = Subject::find(&catalog, &id, &station.config.host.name)?;
            rehearsal::rehearse(&host, &subject, journal, &request).await?
        }
    };
    let page = write_reports(station.state_dir(), &rehearsed)?;
    warn(station, &rehearsed, json).await?;
    let printed = if json { print_json(out, &rehearsed) } else { print(out, &rehearsed, &page) };
    printed.map_err(render::unprinted)?;
    Ok(rehearsed.exit())
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
fn tell_of_unfinished(journal: &dyn Journal, json: bool) -> Result<(), Failure> {
    let newest = journal.runs()?.into_iter().next();
    for head in rehearsal::rehearse::unfinished(journal)?.into_iter().filter(|head| newest.as_ref() == Some(head)) {
        let run = &head.run;
        let text = format!("run {run} was cut off; to go on with it: holdfast rehearse --resume {run}");
        render::note(&mut render::Output(io::stderr()), &text, json).map_err(render::unprinted)?;
    }
    Ok(())
}

fn identity(path: Option<&Path>, key: &str) -> Result<Arc<Identities>, Failure> {
    let missing = || {
        Failure::new(&codes::CONFIG_SECTION_MISSING, key, "it is not set, and a rehearsal opens what is sealed")
            .next("set it to the identity file of this rehearsal host, or run this on a host that has one")
    };
    Ok(Arc::new(Identities::load(path.ok_or_else(missing)?)?))
}

fn read_runbook(folder: Option<&Path>) -> Result<Runbook, Failure> {
    let path = folder.map_or_else(|| PathBuf::from(RUNBOOK_FILE), |folder| folder.join(RUNBOOK_FILE));
    let bytes = match folder {
        Some(_) => std::fs::read(&path).map_err(|e| Failure::because(&codes::RUNBOOK_UNKNOWN, path.display(), &e))?,
        None => RUNBOOK.to_vec(),
    };
    Runbook::parse(&bytes, ACTIONS).map_err(|mistakes| mistakes.into_failure(path.display()))
}

/// One line for each step that ended. With JSON it is for a person who watches,
/// on standard error: programs get nothing there that is no JSON.
fn show_event(event: &Event, json: bool) {
    if json && !io::stderr().is_terminal() {
        return;
    }
    let line = match &event.entry {
        Entry::Succeeded { step, summary, .. } => format!("  ok      {step:<24} {}", printable(summary)),
        Entry::Failed { step, failure, .. } => format!("  FAILED  {step:<24} {}", failure.code),
        Entry::Unknown { step, .. } => format!("  unknown {step:<24} it was cut off"),
        Entry::Started { .. } | Entry::Interrupted {} | Entry::Finished { .. } => return,
    };
    // A terminal that went away does not stop a rehearsal.
    let _ = if json { writeln!(io::stderr(), "{line}") } else { writeln!(io::stdout(), "{line}") };
}

/// Keeps the three faces beside the catalog; the signed one is in the ledger.
fn write_reports(state: &Path, rehearsed: &Rehearsed) -> Result<PathBuf, Failure> {
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

async fn warn(station: &Station, rehearsed: &Rehearsed, json: bool) -> Result<(), Failure> {
    let err = &mut render::Output(io::stderr());
    for leftover in &rehearsed.leftovers {
        let text = format!("removed what a killed run had left: {}", leftover.directory.display());
        render::note(err, &text, json).map_err(render::unprinted)?;
    }
    for warning in &rehearsed.warnings {
        render::warning(err, warning, json).map_err(render::unprinted)?;
    }
    // The answer is signed already; the catalog follows when the ledger answers.
    let refreshed = station.refresh().await;
    if let (Err(failure), true) = (refreshed, rehearsed.warnings.is_empty()) {
        render::warning(err, &failure, json).map_err(render::unprinted)?;
    }
    Ok(())
}

fn print(out: &mut dyn Write, rehearsed: &Rehearsed, page: &Path) -> io::Result<()> {
    let report = &rehearsed.report;
    match &rehearsed.outcome.failure {
        None => writeln!(out, "{}", printable(&report.verdict.sentence))?,
        Some((_, failure)) => render::failure(out, &failure.to_failure(), false)?,
    }
    for object in report.facts.decryption.iter().flat_map(|decryption| &decryption.failures) {
        // What is not encrypted has no key.
        let key =
            if object.provider.is_empty() { String::new() } else { format!(" ({} key {})", object.provider, object.key_name) };
        writeln!(out, "  unreadable: {}{}: {}", printable(&object.object), printable(&key), printable(&object.cause))?;
    }
    for (what, measured) in [("restored in", report.rto.measured_ms), ("age of the data at the start", report.rpo.measured_ms)] {
        if let Some(ms) = measured {
            writeln!(out, "  {what}: {}", human_duration(Duration::from_millis(ms)))?;
        }
    }
    if let Some(fence) = &report.facts.fence {
        writeln!(out, "  {}", printable(&fence.statement))?;
    }
    writeln!(out, "report {}: {}", rehearsed.run, page.display())
}

fn print_json(out: &mut dyn Write, rehearsed: &Rehearsed) -> io::Result<()> {
    let text = json::render(&rehearsed.report).map_err(io::Error::other)?;
    out.write_all(text.as_bytes())
}
