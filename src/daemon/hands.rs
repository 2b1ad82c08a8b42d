//! The work of a real host: snapshots and rehearsals of its station.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::holdings::observe;
use super::schedule::{Backoff, Due, Line};
use super::state::State;
use super::work::{Ended, Plan, Upkept, Work};
use crate::backup::Taken;
use crate::base::clock::Clock;
use crate::base::codes;
use crate::base::exit::Exit;
use crate::base::failure::Failure;
use crate::base::job::Job;
use crate::base::units::human_bytes;
use crate::config::Config;
use crate::record::manifest::Quality;
use crate::rehearsal::Rehearsed;
use crate::runbook::journal::{Entry, Event};
use crate::station::lock::{Holder, Patience};
use crate::station::rehearsal::{Asked, Told};
use crate::station::{Station, snapshot};
use crate::telemetry::metrics::Outcome;

/// For a command of a person that does the same work: a snapshot must not wait
/// longer because a rehearsal waits.
const PATIENCE: Duration = Duration::from_secs(60);

/// A host's station, as the configuration in force has it.
#[derive(Debug)]
pub struct Hands {
    path: PathBuf,
    clock: Arc<dyn Clock>,
    /// Replaced whole: what runs goes on with the one that it began with.
    station: RwLock<Arc<Station>>,
}

impl Hands {
    #[must_use]
    pub fn new(path: PathBuf, station: Station) -> Self {
        Self { path, clock: Arc::clone(&station.clock), station: RwLock::new(Arc::new(station)) }
    }

    fn station(&self) -> Arc<Station> {
        Arc::clone(&self.station.read().unwrap_or_else(PoisonError::into_inner))
    }

    async fn snapshot(&self, due: Due, cancel: &CancellationToken) -> Ended {
        let station = self.station();
        let asked = snapshot::Asked { degraded: None, slot: Some(due.slot) };
        let tell = |holder| waits(Job::Snapshot, holder);
        let patience = Patience { limit: PATIENCE, tell: &tell };
        // Whatever was being stored is aborted with the future that stored it.
        tokio::select! {
            taken = station.take_snapshot(&asked, &patience) => taken.map_or_else(Ended::failed, ended_snapshot),
            () = cancel.cancelled() => Ended::interrupted(),
        }
    }

    async fn rehearsal(&self, cancel: CancellationToken) -> Ended {
        let station = self.station();
        let until = station.config.schedule.rehearsal_rung;
        let asked = Asked { snapshot: "latest", until, trigger: "timer", resume: None };
        let holder = |holder| waits(Job::Rehearsal, holder);
        let patience = Patience { limit: PATIENCE, tell: &holder };
        let rehearsed = station.rehearse(&asked, cancel, &watch, &tell, &patience).await;
        rehearsed.map_or_else(unless_interrupted, |(rehearsed, page)| ended_rehearsal(rehearsed, &page.display().to_string()))
    }
}

#[async_trait]
impl Work for Hands {
    async fn perform(&self, due: Due, cancel: CancellationToken) -> Ended {
        match due.job {
            Job::Snapshot => self.snapshot(due, &cancel).await,
            Job::Rehearsal => self.rehearsal(cancel).await,
        }
    }

    async fn upkeep(&self, reads_ledger: bool) -> Upkept {
        let station = self.station();
        let mut upkept = Upkept::default();
        match station.deliver().await {
            Ok(delivery) => {
                upkept.delivered = delivery.delivered.len() as u64;
                upkept.why = delivery.waiting.into_iter().next().map(|waiting| waiting.why);
            }
            Err(failure) => upkept.why = Some(failure),
        }
        upkept.waiting = station.outbox().and_then(|outbox| outbox.waiting()).ok().map(|waiting| waiting as u64);
        if reads_ledger {
            upkept.ledger = Some(station.refresh().await.map(drop));
        }
        let observed = on_a_blocking_thread(move || station.catalog().and_then(|catalog| observe(&catalog))).await;
        match observed {
            Ok(holdings) => upkept.holdings = Some(holdings),
            Err(failure) => upkept.catalog = Some(failure),
        }
        upkept
    }

    async fn persist(&self, state: &State) -> Result<(), Failure> {
        let (state, station) = (state.clone(), self.station());
        on_a_blocking_thread(move || state.write(station.state_dir())).await
    }

    async fn reload(&self) -> Result<Plan, Failure> {
        let path = self.path.clone();
        let mut station = on_a_blocking_thread(move || Station::open(&path)).await?;
        station.clock = Arc::clone(&self.clock);
        refuse_what_needs_a_restart(&self.path, &self.station().config, &station.config)?;
        let plan = plan(&self.path, &station.config)?;
        *self.station.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(station);
        Ok(plan)
    }
}

/// What a configuration asks of the loop.
///
/// # Errors
/// `daemon.nothing-scheduled`.
pub fn plan(path: &std::path::Path, config: &Config) -> Result<Plan, Failure> {
    let (schedule, daemon) = (&config.schedule, &config.daemon);
    let lines = [(Job::Snapshot, &schedule.snapshot), (Job::Rehearsal, &schedule.rehearsal)];
    let lines: Vec<Line> = lines.into_iter().filter_map(|(job, cron)| cron.clone().map(|cron| Line { job, cron })).collect();
    if lines.is_empty() {
        let cause = "neither schedule.snapshot nor schedule.rehearsal is set";
        return Err(Failure::new(&codes::DAEMON_NOTHING_SCHEDULED, path.display(), cause));
    }
    Ok(Plan {
        lines,
        backoff: Backoff { first: daemon.retry_first, longest: daemon.retry_longest },
        refresh: daemon.refresh_interval,
        deadlines: BTreeMap::from([(Job::Snapshot, daemon.snapshot_deadline), (Job::Rehearsal, daemon.rehearsal_deadline)]),
        notes: config.notes().into_iter().map(|note| (note.about.to_owned(), note.text)).collect(),
    })
}

/// Who this host is and where its state lies cannot change under what runs.
fn refuse_what_needs_a_restart(path: &std::path::Path, old: &Config, new: &Config) -> Result<(), Failure> {
    let changed = [
        ("cluster", old.cluster != new.cluster),
        ("host.name", old.host.name != new.host.name),
        ("host.state_dir", old.host.state_dir != new.host.state_dir),
        ("daemon.listen", old.daemon.listen != new.daemon.listen),
    ];
    let keys: Vec<&str> = changed.into_iter().filter_map(|(key, is_changed)| is_changed.then_some(key)).collect();
    if keys.is_empty() {
        return Ok(());
    }
    let cause = format!("{} changed, and nothing of the file was taken over", keys.join(", "));
    Err(Failure::new(&codes::DAEMON_RESTART_NEEDED, path.display(), cause))
}

fn ended_snapshot(taken: Taken) -> Ended {
    let Taken { manifest, warnings, .. } = taken;
    let summary = format!(
        "snapshot {}: {}, revision {}, image {}, sealed {}",
        manifest.id,
        manifest.quality.as_str(),
        manifest.image.revision,
        human_bytes(manifest.image.bytes),
        human_bytes(manifest.object.bytes)
    );
    if manifest.quality == Quality::Good {
        return Ended { outcome: Outcome::Good, again: false, summary, failure: None, warnings };
    }
    let problems: Vec<&str> = manifest.problems.iter().map(|problem| problem.code.as_str()).collect();
    let cause = format!("its quality is {}: {}", manifest.quality.as_str(), problems.join(", "));
    let failure = Failure::new(&codes::SNAPSHOT_NOT_GOOD, format!("snapshot {}", manifest.id), cause);
    // A deposit that came too late succeeds with the next snapshot; another doubt
    // would be met again, and another image would tell no more.
    let again = warnings.iter().any(|warning| warning.code() == &codes::ESCROW_UNREACHABLE);
    Ended { outcome: Outcome::Bad, again, summary, failure: Some(failure), warnings }
}

fn ended_rehearsal(rehearsed: Rehearsed, page: &str) -> Ended {
    let outcome = match rehearsed.exit() {
        Exit::Good => Outcome::Good,
        Exit::Bad => Outcome::Bad,
        Exit::Interrupted => Outcome::Interrupted,
        Exit::CouldNotRun | Exit::Usage => Outcome::Failed,
    };
    for leftover in &rehearsed.leftovers {
        tracing::info!(directory = %leftover.directory.display(), "removed what a killed run had left");
    }
    let failure = rehearsed.outcome.failure.as_ref().map(|(_, failure)| failure.to_failure());
    let summary = format!("run {}: {} Report: {page}", rehearsed.run, rehearsed.report.verdict.sentence);
    Ended { outcome, again: outcome == Outcome::Failed, summary, failure, warnings: rehearsed.warnings }
}

/// Before the first step there is nothing to attest.
fn unless_interrupted(failure: Failure) -> Ended {
    if failure.code() == &codes::INTERRUPTED { Ended::interrupted() } else { Ended::failed(failure) }
}

/// Each step is worth a line to whoever looks closely.
fn watch(event: &Event) {
    let run = &event.run;
    match &event.entry {
        Entry::Succeeded { step, summary, .. } => tracing::debug!(%run, %step, %summary, "step done"),
        Entry::Failed { step, failure, .. } => tracing::debug!(%run, %step, code = %failure.code, "step failed"),
        _ => {}
    }
}

fn tell(told: &Told<'_>) {
    match told {
        Told::Stale(failure) => {
            let (code, object, cause) = (failure.code().name, failure.object(), failure.cause());
            tracing::warn!(code, %object, %cause, "the ledger does not answer; the catalog counts as it was");
        }
        Told::CutOff(run) => tracing::warn!(%run, "a run was cut off; holdfast rehearse --resume goes on with it"),
        Told::Unrecorded(run) => tracing::warn!(%run, "a run has no report in the ledger; holdfast rehearse --resume writes it"),
    }
}

fn waits(job: Job, holder: Holder) {
    tracing::info!(%job, %holder, "waiting for another command to end");
}

async fn on_a_blocking_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work).await.map_err(|e| Failure::because(&codes::STATE_UNUSABLE, "the state directory", &e))?
}
