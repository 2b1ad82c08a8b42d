//! Work that does what a test says, and writes down when it was asked.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use holdfast::base::clock::Clock;
use holdfast::base::codes;
use holdfast::base::failure::Failure;
use holdfast::base::job::Job;
use holdfast::daemon::health::{Health, Pulse, judge};
use holdfast::daemon::notify::Notifier;
use holdfast::daemon::schedule::{Backoff, Due, Line};
use holdfast::daemon::state::State;
use holdfast::daemon::supervise::Supervisor;
use holdfast::daemon::work::{Ended, Plan, Upkept, Work};
use holdfast::daemon::{Order, Stop};
use holdfast::telemetry::metrics::{JobValues, Metrics, Outcome};
use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Wall and monotonic time that follow tokio's clock, which a paused runtime
/// moves whenever nobody has anything to do.
#[derive(Debug)]
pub struct TokioClock {
    begin: Timestamp,
    start: tokio::time::Instant,
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        self.begin + self.uptime()
    }

    fn uptime(&self) -> Duration {
        self.start.elapsed()
    }
}

/// How one attempt goes.
#[derive(Debug, Clone, Copy)]
pub enum Play {
    Good(Duration),
    /// The answer is bad, and another attempt would tell nothing new.
    Bad,
    Fails,
    Panics,
    /// Goes on until it is told to end, and then ends after so long.
    Hangs(Duration),
}

/// What was asked, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    pub at: Timestamp,
    pub job: Job,
    pub slot: Timestamp,
    pub attempt: u32,
}

#[derive(Debug)]
pub struct Scripted {
    clock: Arc<TokioClock>,
    /// The next attempts of each job; after them all is good at once.
    plays: Mutex<BTreeMap<Job, VecDeque<Play>>>,
    pub begun: Mutex<Vec<Begun>>,
    /// Jobs at work right now, and the most that ever were.
    at_work: Mutex<(usize, usize)>,
    pub upkeeps: Mutex<Vec<(Timestamp, bool)>>,
    pub upkept: Mutex<VecDeque<Upkept>>,
    pub written: Mutex<Vec<State>>,
    pub disk_is_full: Mutex<bool>,
    pub reloaded: Mutex<VecDeque<Result<Plan, Failure>>>,
}

#[async_trait]
impl Work for Scripted {
    async fn perform(&self, due: Due, cancel: CancellationToken) -> Ended {
        let Due { job, slot, attempt } = due;
        self.begun.lock().unwrap().push(Begun { at: self.clock.now(), job, slot, attempt });
        let play = self.plays.lock().unwrap().get_mut(&job).and_then(VecDeque::pop_front).unwrap_or(Play::Good(Duration::ZERO));
        let _at_work = AtWork::enter(&self.at_work);
        match play {
            Play::Good(duration) => {
                elapse(duration).await;
                ended(Outcome::Good, false)
            }
            Play::Bad => ended(Outcome::Bad, false),
            Play::Fails => Ended::failed(Failure::new(&codes::ETCD_UNREACHABLE, "etcd", "scripted")),
            Play::Panics => panic!("scripted panic"),
            Play::Hangs(after) => {
                cancel.cancelled().await;
                elapse(after).await;
                Ended::interrupted()
            }
        }
    }

    async fn upkeep(&self, reads_ledger: bool) -> Upkept {
        self.upkeeps.lock().unwrap().push((self.clock.now(), reads_ledger));
        let good = || Upkept { waiting: Some(0), ledger: reads_ledger.then_some(Ok(())), ..Upkept::default() };
        self.upkept.lock().unwrap().pop_front().unwrap_or_else(good)
    }

    async fn persist(&self, state: &State) -> Result<(), Failure> {
        if *self.disk_is_full.lock().unwrap() {
            return Err(Failure::new(&codes::STATE_UNUSABLE, "state", "no space left on device"));
        }
        self.written.lock().unwrap().push(state.clone());
        Ok(())
    }

    async fn reload(&self) -> Result<Plan, Failure> {
        self.reloaded.lock().unwrap().pop_front().unwrap()
    }
}

/// Counts jobs at work, also those that are dropped.
struct AtWork<'a>(&'a Mutex<(usize, usize)>);

impl<'a> AtWork<'a> {
    fn enter(count: &'a Mutex<(usize, usize)>) -> Self {
        let mut held = count.lock().unwrap();
        *held = (held.0 + 1, held.1.max(held.0 + 1));
        drop(held);
        Self(count)
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.0.lock().unwrap().0 -= 1;
    }
}

fn ended(outcome: Outcome, again: bool) -> Ended {
    Ended { outcome, again, summary: "scripted".into(), failure: None, warnings: Vec::new() }
}

pub fn at(text: &str) -> Timestamp {
    format!("2026-12-01T{text}Z").parse().unwrap()
}

pub fn plan(lines: &[(Job, &str)]) -> Plan {
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    Plan {
        lines: lines.iter().map(|(job, cron)| Line { job: *job, cron: cron.parse().unwrap() }).collect(),
        backoff: Backoff { first: minutes(1), longest: minutes(30) },
        refresh: minutes(5),
        deadlines: Job::ALL.map(|job| (job, minutes(240))).into(),
        notes: Vec::new(),
    }
}

/// A loop that runs, and everything around it.
pub struct Life {
    pub work: Arc<Scripted>,
    pub clock: Arc<TokioClock>,
    pub metrics: Arc<Metrics>,
    pub pulse: Arc<Pulse>,
    pub told: Arc<Mutex<Vec<String>>>,
    pub orders: mpsc::Sender<Order>,
    supervisor: Option<Supervisor<Scripted>>,
}

impl Life {
    /// Not begun yet; it is `begin` o'clock.
    pub fn new(begin: &str, plan: Plan, state: State, plays: &[(Job, &[Play])]) -> Self {
        let clock = Arc::new(TokioClock { begin: at(begin), start: tokio::time::Instant::now() });
        let work = Arc::new(Scripted {
            clock: Arc::clone(&clock),
            plays: Mutex::new(plays.iter().map(|(job, plays)| (*job, plays.iter().copied().collect())).collect()),
            begun: Mutex::default(),
            at_work: Mutex::default(),
            upkeeps: Mutex::default(),
            upkept: Mutex::default(),
            written: Mutex::default(),
            disk_is_full: Mutex::default(),
            reloaded: Mutex::default(),
        });
        let (orders, received) = mpsc::channel(8);
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&told);
        let (metrics, pulse) = (Metrics::new(), Pulse::new(Duration::ZERO));
        let supervisor = Supervisor {
            work: Arc::clone(&work),
            plan,
            state,
            clock: clock.clone(),
            metrics: Arc::clone(&metrics),
            pulse: Arc::clone(&pulse),
            notifier: Notifier::to(move |message| heard.lock().unwrap().push(message), Some(Duration::from_secs(20))),
            orders: received,
            config: "holdfast.toml".into(),
        };
        Self { work, clock, metrics, pulse, told, orders, supervisor: Some(supervisor) }
    }

    pub fn hourly(begin: &str, plays: &[Play]) -> Self {
        Self::new(begin, plan(&[(Job::Snapshot, "0 * * * *")]), State::default(), &[(Job::Snapshot, plays)])
    }

    pub fn start(&mut self) -> JoinHandle<Stop> {
        tokio::spawn(self.supervisor.take().unwrap().run())
    }

    /// Runs until so long after the beginning, stops it, and says who stopped it.
    pub async fn run_for(&mut self, duration: Duration) -> Stop {
        let running = self.start();
        elapse(duration).await;
        self.orders.send(Order::Stop(Stop::Terminated)).await.unwrap();
        running.await.unwrap()
    }

    /// `10:20:00 snapshot 10:00 #1` for each attempt.
    pub fn attempts(&self) -> Vec<String> {
        let begun = self.work.begun.lock().unwrap();
        let line = |begun: &Begun| {
            format!("{} {} {} #{}", begun.at.strftime("%H:%M:%S"), begun.job, begun.slot.strftime("%H:%M"), begun.attempt)
        };
        begun.iter().map(line).collect()
    }

    pub fn most_at_once(&self) -> usize {
        self.work.at_work.lock().unwrap().1
    }

    pub fn at_work(&self) -> usize {
        self.work.at_work.lock().unwrap().0
    }

    pub fn job(&self, job: Job) -> JobValues {
        self.metrics.read().jobs[&job].clone()
    }

    pub fn ended(&self, job: Job, outcome: Outcome) -> u64 {
        self.job(job).ended.get(&outcome).copied().unwrap_or(0)
    }

    pub fn health(&self) -> Health {
        judge(&self.pulse.last(), self.clock.now(), self.clock.uptime())
    }

    pub fn told(&self) -> Vec<String> {
        self.told.lock().unwrap().clone()
    }

    /// The state as it was last written.
    pub fn state(&self) -> State {
        self.work.written.lock().unwrap().last().cloned().unwrap()
    }
}

/// Lets the paused clock go on. Nothing waits for real time.
pub async fn elapse(duration: Duration) {
    let until = tokio::time::Instant::now() + duration;
    tokio::time::sleep_until(until).await;
}

pub const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}
