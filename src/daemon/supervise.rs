//! The loop: one job at a time, upkeep beside it, and an end in good order.
//!
//! All that runs, runs in one set of tasks under one cancellation token; what
//! panics is a failure like any other. The loop itself waits for nothing but
//! small writes with a time limit: while it turns it gives signs of life, and
//! when it does not, it gives none.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::health::{Beat, Pulse};
use super::notify::Notifier;
use super::schedule::{self, Due, Failed, Next};
use super::state::State;
use super::status;
use super::upkeep::Upkeep;
use super::work::{Ended, Plan, Upkept, Work};
use crate::base::clock::Clock;
use crate::base::codes;
use crate::base::failure::Failure;
use crate::base::job::Job;
use crate::base::units::human_duration;
use crate::telemetry::events::{
    ConfigRefused, ConfigReloaded, DaemonStopping, JobBegan, JobEnded, LedgerSeen, Noted, OutboxSeen, StateWritten,
};
use crate::telemetry::metrics::{JobValues, Metrics, Outcome};

/// The loop turns at least this often: a clock that was set is noticed.
const TURN: Duration = Duration::from_secs(10);

/// For a job to tear down what it had begun, at its deadline or at a stop.
/// systemd gives the unit longer (TimeoutStopSec).
const GRACE: Duration = Duration::from_secs(120);

/// For small writes and reads of the loop's own. A disk that takes longer hangs.
const SMALL: Duration = Duration::from_secs(20);

/// For one round of upkeep; each single request has a limit of its own.
const UPKEEP_DEADLINE: Duration = Duration::from_secs(15 * 60);

/// What somebody wants of a running daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Read the configuration again.
    Reload,
    Stop(Stop),
}

/// Why it stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// A service manager asked for it: a good end.
    Terminated,
    /// A person broke it off.
    Interrupted,
}

/// The loop, and all that it knows.
#[derive(Debug)]
pub struct Supervisor<W> {
    pub work: Arc<W>,
    pub plan: Plan,
    pub state: State,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
    pub pulse: Arc<Pulse>,
    pub notifier: Notifier,
    pub orders: mpsc::Receiver<Order>,
    /// The name of the configuration, for messages.
    pub config: String,
}

/// What a task of the set was for.
#[derive(Debug)]
enum Finished {
    Job(Ended),
    Upkeep(Box<Upkept>),
}

#[derive(Debug)]
struct Running {
    task: Id,
    due: Due,
    began: Duration,
}

/// What changes while the loop runs.
#[derive(Debug, Default)]
struct Moment {
    tasks: JoinSet<Finished>,
    cancel: CancellationToken,
    running: Option<Running>,
    upkeep: Upkeep,
    upkeep_task: Option<Id>,
    /// The last that was told to the service manager.
    status: String,
    refused: Option<String>,
    unwritten: bool,
    /// Why, and until when what runs may take to end.
    stopping: Option<(Stop, Duration)>,
}

impl<W: Work> Supervisor<W> {
    /// Works until somebody wants it to stop, and says who.
    pub async fn run(mut self) -> Stop {
        let mut moment = Moment::default();
        self.enter_plan();
        self.persist(&mut moment).await;
        self.tell_notes();
        moment.status = self.status(&moment);
        self.notifier.ready(&moment.status);
        loop {
            self.turn(&mut moment).await;
            if let Some((stop, until)) = moment.stopping
                && (moment.tasks.is_empty() || self.clock.uptime() >= until)
            {
                moment.tasks.shutdown().await;
                self.persist(&mut moment).await;
                return stop;
            }
            let nap = self.nap(&moment);
            tokio::select! {
                biased;
                order = self.orders.recv() => match order {
                    Some(Order::Reload) => self.reload(&mut moment).await,
                    Some(Order::Stop(stop)) => self.stop(&mut moment, stop),
                    // Nobody is left who could stop it in another way.
                    None => self.stop(&mut moment, Stop::Terminated),
                },
                Some(joined) = moment.tasks.join_next_with_id() => self.joined(&mut moment, joined).await,
                () = tokio::time::sleep(nap) => {}
            }
        }
    }

    /// One turn: signs of life, and whatever is due is begun.
    async fn turn(&mut self, moment: &mut Moment) {
        self.notifier.alive();
        let now = self.clock.now();
        if moment.stopping.is_none() {
            if moment.running.is_none()
                && let Next::Run(due) = schedule::next(&self.plan.lines, |job| self.state.past(job), self.plan.backoff, now)
            {
                self.begin(moment, due, now).await;
            }
            if moment.upkeep_task.is_none() && moment.upkeep.is_due(self.clock.uptime()) {
                self.begin_upkeep(moment);
            }
        }
        self.beat(moment, now);
    }

    async fn begin(&mut self, moment: &mut Moment, due: Due, now: Timestamp) {
        let is_first = self.state.past(due.job).settled.is_none();
        JobBegan { job: due.job, slot: due.slot, attempt: due.attempt, is_first, at: now }.emit(&self.metrics);
        let known = self.state.jobs.entry(due.job).or_default();
        known.last_attempt = Some(now);
        // Written down before it begins: a job that takes the whole process with
        // it must not be the first thing that the next process does.
        known.past.failed = Some(Failed { slot: due.slot, at: now, times: due.attempt });
        self.persist(moment).await;
        let deadline = self.plan.deadlines.get(&due.job).copied().unwrap_or(Duration::MAX);
        let (work, cancel) = (Arc::clone(&self.work), moment.cancel.child_token());
        let handle = moment.tasks.spawn(async move {
            let job = work.perform(due, cancel.clone());
            Finished::Job(in_time(due.job, job, &cancel, deadline).await)
        });
        moment.running = Some(Running { task: handle.id(), due, began: self.clock.uptime() });
    }

    fn begin_upkeep(&self, moment: &mut Moment) {
        let reads_ledger = moment.upkeep.begin(self.clock.uptime());
        let (work, cancel) = (Arc::clone(&self.work), moment.cancel.child_token());
        let handle = moment.tasks.spawn(async move {
            // Whatever waits, waits on: a round that is dropped loses nothing.
            let upkept = tokio::select! {
                upkept = tokio::time::timeout(UPKEEP_DEADLINE, work.upkeep(reads_ledger)) => upkept.ok(),
                () = cancel.cancelled() => None,
            };
            Finished::Upkeep(Box::new(upkept.unwrap_or_else(|| Upkept::cut_off(UPKEEP_DEADLINE))))
        });
        moment.upkeep_task = Some(handle.id());
    }

    async fn joined(&mut self, moment: &mut Moment, joined: Result<(Id, Finished), JoinError>) {
        let (task, finished) = match joined {
            Ok((task, finished)) => (task, Ok(finished)),
            Err(error) => (error.id(), Err(error)),
        };
        if moment.upkeep_task == Some(task) {
            moment.upkeep_task = None;
            let upkept = match finished {
                Ok(Finished::Upkeep(upkept)) => *upkept,
                Ok(Finished::Job(_)) => Upkept::default(),
                Err(error) => Upkept::failed(panicked("upkeep", error)),
            };
            self.upkept(moment, upkept);
        } else if let Some(running) = moment.running.take_if(|running| running.task == task) {
            let ended = match finished {
                Ok(Finished::Job(ended)) => ended,
                Ok(Finished::Upkeep(_)) => Ended::interrupted(),
                Err(error) => Ended::failed(panicked(running.due.job.as_str(), error)),
            };
            let stopped = moment.stopping.is_some();
            self.ended(stopped, &running, if stopped { ended } else { ended.unasked() });
            self.persist(moment).await;
            // What the job wrote is sent, and shown.
            moment.upkeep.soon();
        }
    }

    fn ended(&mut self, stopped: bool, running: &Running, ended: Ended) {
        let (due, now) = (running.due, self.clock.now());
        let duration = self.clock.uptime().saturating_sub(running.began);
        let known = self.state.jobs.entry(due.job).or_default();
        known.last_duration_ms = u64::try_from(duration.as_millis()).ok();
        match ended.outcome {
            Outcome::Good => (known.last_success, known.consecutive_failures) = (Some(now), 0),
            Outcome::Bad | Outcome::Failed => {
                known.last_failure = Some(now);
                known.consecutive_failures = known.consecutive_failures.saturating_add(1);
            }
            Outcome::Interrupted => {}
        }
        match (ended.outcome, ended.again) {
            // It is begun again at once by the next process.
            (Outcome::Interrupted, _) => known.past.failed = None,
            (_, false) => (known.past.settled, known.past.failed) = (Some(due.slot), None),
            (_, true) => known.past.failed = Some(Failed { slot: due.slot, at: now, times: due.attempt }),
        }
        let again = ended.again && !stopped;
        let pause = schedule::pause(self.plan.backoff, due.attempt);
        let retry = again.then(|| now.checked_add(pause).unwrap_or(Timestamp::MAX));
        let line = self.plan.lines.iter().find(|line| line.job == due.job);
        let next = line.and_then(|line| schedule::next_slot(line, now));
        JobEnded {
            job: due.job,
            slot: due.slot,
            attempt: due.attempt,
            outcome: ended.outcome,
            summary: &ended.summary,
            failure: ended.failure.as_ref(),
            warnings: &ended.warnings,
            duration,
            at: now,
            retry: retry.filter(|retry| next.is_none_or(|next| *retry < next)),
        }
        .emit(&self.metrics);
    }

    fn upkept(&self, moment: &mut Moment, upkept: Upkept) {
        if moment.stopping.is_some() {
            return;
        }
        let now = self.clock.now();
        let seen = moment.upkeep.end(self.clock.uptime(), &upkept, self.plan.refresh);
        OutboxSeen {
            waiting: upkept.waiting,
            delivered: upkept.delivered,
            why: upkept.why.as_ref(),
            waited_before: seen.waited_before,
        }
        .emit(&self.metrics);
        if let Some(read) = &upkept.ledger {
            LedgerSeen { failure: read.as_ref().err(), failed_before: seen.ledger_failed_before, at: now }.emit(&self.metrics);
        }
        if let Some(failure) = &upkept.catalog {
            Noted { about: failure.object(), text: failure.cause() }.emit();
        }
        if let Some(holdings) = upkept.holdings {
            self.metrics.update(|values| values.holdings = holdings);
        }
    }

    async fn reload(&mut self, moment: &mut Moment) {
        self.notifier.reloading();
        let read = tokio::time::timeout(SMALL, self.work.reload()).await;
        let read =
            read.unwrap_or_else(|_| Err(Failure::new(&codes::CONFIG_UNREADABLE, &self.config, "it took too long to read")));
        match read {
            Ok(plan) => {
                self.plan = plan;
                moment.refused = None;
                self.enter_plan();
                self.persist(moment).await;
                // Whoever reads the line finds the pages as it says.
                self.beat(moment, self.clock.now());
                ConfigReloaded { config: &self.config, at: self.clock.now() }.emit(&self.metrics);
                self.tell_notes();
            }
            Err(failure) => {
                moment.refused = Some(failure.code().name.to_owned());
                self.beat(moment, self.clock.now());
                ConfigRefused { failure: &failure }.emit(&self.metrics);
            }
        }
        self.notifier.ready(&self.status(moment));
    }

    fn stop(&mut self, moment: &mut Moment, stop: Stop) {
        let why = match stop {
            Stop::Terminated => "terminated",
            Stop::Interrupted => "interrupted",
        };
        let now = self.clock.uptime();
        // Whoever asks twice does not want to wait.
        let until = if moment.stopping.is_some() { now } else { now + GRACE };
        DaemonStopping { why }.emit();
        moment.stopping = Some((stop, until));
        moment.cancel.cancel();
        self.notifier.stopping(&self.status(moment));
    }

    /// What is on the schedule is known and shown, and what is no more is not.
    pub fn enter_plan(&mut self) {
        let now = self.clock.now();
        for job in Job::ALL {
            let is_planned = self.plan.lines.iter().any(|line| line.job == job);
            if is_planned {
                let known = self.state.jobs.entry(job).or_default();
                known.past.since = Some(known.past.since.filter(|since| *since <= now).unwrap_or(now));
                let known = known.clone();
                self.metrics.job(job, |shown| {
                    *shown = JobValues {
                        last_attempt: known.last_attempt,
                        last_success: known.last_success,
                        last_failure: known.last_failure,
                        last_duration: known.last_duration(),
                        consecutive_failures: known.consecutive_failures,
                        running: shown.running,
                        ended: std::mem::take(&mut shown.ended),
                        ..JobValues::default()
                    };
                });
            } else {
                if let Some(known) = self.state.jobs.get_mut(&job) {
                    known.past.since = None;
                }
                self.metrics.update(|values| drop(values.jobs.remove(&job)));
            }
        }
    }

    fn tell_notes(&self) {
        for (about, text) in &self.plan.notes {
            Noted { about, text }.emit();
        }
    }

    async fn persist(&mut self, moment: &mut Moment) {
        let written = tokio::time::timeout(SMALL, self.work.persist(&self.state)).await;
        let written = written.unwrap_or_else(|_| Err(Failure::new(&codes::STATE_UNUSABLE, "the state directory", "it hangs")));
        StateWritten { failure: written.as_ref().err(), failed_before: moment.unwritten }.emit(&self.metrics);
        moment.unwritten = written.is_err();
    }

    /// Notes this turn for whoever asks, and tells the service manager what is new.
    fn beat(&self, moment: &mut Moment, now: Timestamp) {
        let mut beat = Beat { turned: self.clock.uptime(), ..Beat::default() };
        for line in &self.plan.lines {
            let overdue = schedule::overdue(line, self.state.past(line.job), now);
            beat.overdue.extend(overdue.map(|overdue| (line.job, overdue)));
            let next = schedule::next_slot(line, now);
            self.metrics.job(line.job, |job| (job.next, job.overdue) = (next, overdue));
            let known = self.state.jobs.get(&line.job).filter(|known| known.consecutive_failures > 0);
            beat.failing.extend(known.map(|known| (line.job, status::failing(known.consecutive_failures))));
        }
        let refused = moment
            .refused
            .as_ref()
            .map(|code| format!("the configuration file was refused ({code}); the one before it is in force"));
        let unwritten = moment.unwritten.then(|| "the state file cannot be written".to_owned());
        beat.notes = refused.into_iter().chain(unwritten).collect();
        self.pulse.beat(beat);
        self.metrics.update(|values| values.daemon.turned = Some(now));
        let status = self.status(moment);
        if status != moment.status {
            self.notifier.status(&status);
            moment.status = status;
        }
    }

    fn status(&self, moment: &Moment) -> String {
        let running = moment.running.as_ref().map(|running| running.due.job);
        let is_stopping = moment.stopping.is_some();
        status::line(&self.plan, &self.state, running, moment.refused.is_some(), is_stopping, self.clock.now())
    }

    /// Until the next thing to do, and never longer than a turn.
    fn nap(&self, moment: &Moment) -> Duration {
        let (now, uptime) = (self.clock.now(), self.clock.uptime());
        let mut nap = self.notifier.pings_every().map_or(TURN, |every| every.min(TURN));
        if let Some((_, until)) = moment.stopping {
            return nap.min(until.saturating_sub(uptime));
        }
        if moment.running.is_none()
            && let Next::Wait(until) = schedule::next(&self.plan.lines, |job| self.state.past(job), self.plan.backoff, now)
        {
            nap = nap.min(Duration::try_from(until.duration_since(now)).unwrap_or_default());
        }
        if moment.upkeep_task.is_none() {
            nap = nap.min(moment.upkeep.due().saturating_sub(uptime));
        }
        // Rounding must not make the loop spin.
        nap.max(Duration::from_millis(1))
    }
}

/// A job that takes too long is told to end, and dropped when it does not.
async fn in_time(job: Job, work: impl Future<Output = Ended>, cancel: &CancellationToken, deadline: Duration) -> Ended {
    tokio::pin!(work);
    let cancelled_before = tokio::select! {
        ended = &mut work => return ended,
        () = cancel.cancelled() => true,
        () = tokio::time::sleep(deadline) => false,
    };
    cancel.cancel();
    let ended = tokio::time::timeout(GRACE, &mut work).await;
    match ended {
        Ok(ended) if cancelled_before => ended,
        Err(_) if cancelled_before => Ended::interrupted(),
        Ok(_) | Err(_) => {
            let cause = format!("it did not end within {}", human_duration(deadline));
            Ended::failed(Failure::new(&codes::DAEMON_JOB_DEADLINE, job, cause))
        }
    }
}

fn panicked(what: &str, error: JoinError) -> Failure {
    let cause = match error.try_into_panic() {
        Ok(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                .unwrap_or_else(|| "no message".to_owned())
        }
        Err(error) => error.to_string(),
    };
    Failure::new(&codes::DAEMON_JOB_PANICKED, what, cause)
}
