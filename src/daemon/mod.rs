//! The daemon: scheduled snapshots and rehearsals, and what it says of itself.
//!
//! Owns: when something is done ([`schedule`], pure), that it is done once and
//! told ([`supervise`]), what is remembered from one life to the next
//! ([`state`]), `/healthz` and `/metrics` ([`http`]), and what the service
//! manager hears ([`notify`]). Must never: know how a snapshot or a rehearsal is
//! done, start a task that nobody waits for, or print.
//!
//! Invariants: one daemon for a state directory; one job at a time; a job that
//! panics or takes too long is a failure that is told and tried again.

pub mod hands;
pub mod health;
pub mod holdings;
pub mod http;
pub mod listener;
pub mod notify;
pub mod schedule;
pub mod state;
mod status;
pub mod supervise;
pub mod upkeep;
pub mod work;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::base::clock::Clock;
use crate::base::codes;
use crate::base::failure::Failure;
use crate::station::Station;
use crate::station::lock::{self, NamedLock};
use crate::telemetry::events::{DaemonReady, Noted};
use crate::telemetry::metrics::Metrics;
use hands::Hands;
use health::Pulse;
use listener::Bounded;
use notify::Notifier;
use state::State;
use supervise::Supervisor;
use work::Plan;

pub use supervise::{Order, Stop};

/// For a request that is being answered when the daemon stops.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// Everything that a daemon needs, opened: from here on it can only run.
#[derive(Debug)]
pub struct Daemon {
    config: PathBuf,
    station: Station,
    plan: Plan,
    state: State,
    listener: TcpListener,
    metrics: Arc<Metrics>,
    /// For life.
    _lock: NamedLock,
}

impl Daemon {
    /// Reads the configuration, takes the place of the one daemon of its state
    /// directory, opens what lies there, and binds the address of the pages.
    ///
    /// # Errors
    /// `config.*`, `daemon.nothing-scheduled`, `daemon.running`, `state.*`,
    /// `catalog.broken`, `daemon.listen`. Nothing runs then.
    pub async fn open(config: &Path, clock: Arc<dyn Clock>) -> Result<Self, Failure> {
        let mut station = Station::open(config)?;
        station.clock = clock;
        let plan = hands::plan(config, &station.config)?;
        // Makes the state directory where it is missing; one that cannot be used is told now, not at 3 a.m.
        let catalog = station.catalog()?;
        let lock = NamedLock::now_or(&station.state_dir().join(lock::DAEMON), &codes::DAEMON_RUNNING)?;
        let (holdings, waiting) = (holdings::observe(&catalog)?, station.outbox()?.waiting()?);
        drop(catalog);
        let (state, senseless) = State::read(station.state_dir());
        if let Some(failure) = senseless {
            Noted { about: failure.object(), text: failure.cause() }.emit();
        }
        state.write(station.state_dir())?;
        let address = station.config.daemon.listen;
        let unusable = |e: std::io::Error| Failure::because(&codes::DAEMON_LISTEN, address, &e);
        let listener = TcpListener::bind(address).await.map_err(unusable)?;
        let metrics = Metrics::new();
        // What was true before the restart is shown before anything else is asked.
        metrics.update(|values| (values.holdings, values.stores.waiting) = (holdings, waiting as u64));
        Ok(Self { config: config.to_owned(), station, plan, state, listener, metrics, _lock: lock })
    }

    /// Where the pages are served, with the port that was chosen for port 0.
    ///
    /// # Errors
    /// `daemon.listen`.
    pub fn address(&self) -> Result<SocketAddr, Failure> {
        self.listener.local_addr().map_err(|e| Failure::because(&codes::DAEMON_LISTEN, self.station.config.daemon.listen, &e))
    }

    /// Works until an order stops it, and says which. What ran then was
    /// cancelled and cleaned up after itself.
    ///
    /// # Errors
    /// `daemon.listen` when the pages could not be served any more.
    pub async fn run(self, orders: mpsc::Receiver<Order>, notifier: Notifier) -> Result<Stop, Failure> {
        let address = self.address()?;
        let clock = Arc::clone(&self.station.clock);
        let config = self.config.display().to_string();
        let pulse = Pulse::new(clock.uptime());
        let served = http::Served { metrics: Arc::clone(&self.metrics), pulse: Arc::clone(&pulse), clock: Arc::clone(&clock) };
        let (cluster, host) = (self.station.config.cluster.to_string(), self.station.config.host.name.to_string());
        let metrics = Arc::clone(&self.metrics);
        let mut supervisor = Supervisor {
            work: Arc::new(Hands::new(self.config, self.station)),
            plan: self.plan,
            state: self.state,
            clock,
            metrics: self.metrics,
            pulse,
            notifier,
            orders,
            config,
        };
        // What was known before is on the pages before anybody hears of them.
        supervisor.enter_plan();
        DaemonReady {
            version: env!("CARGO_PKG_VERSION"),
            listen: address,
            config: &supervisor.config,
            cluster: &cluster,
            host: &host,
            at: supervisor.clock.now(),
        }
        .emit(&metrics);
        let over = CancellationToken::new();
        let closing = over.clone();
        let serving =
            axum::serve(Bounded::new(self.listener), http::router(served)).with_graceful_shutdown(closing.cancelled_owned());
        let mut serving = std::pin::pin!(serving.into_future());
        let mut supervising = std::pin::pin!(supervisor.run());
        tokio::select! {
            stop = &mut supervising => {
                over.cancel();
                // A reader that does not read is not waited for.
                let _ = tokio::time::timeout(LAST_ANSWERS, serving).await;
                Ok(stop)
            }
            ended = &mut serving => {
                let cause = ended.err().map_or_else(|| "it ended by itself".to_owned(), |error| error.to_string());
                Err(Failure::new(&codes::DAEMON_LISTEN, address, cause))
            }
        }
    }
}
