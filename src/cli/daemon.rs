//! `holdfast daemon`.

use std::path::Path;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::base::clock::SystemClock;
use crate::base::codes;
use crate::base::exit::Exit;
use crate::base::failure::Failure;
use crate::daemon::notify::Notifier;
use crate::daemon::{Daemon, Order, Stop};

/// Signals that came while others were being handled; more say nothing new.
const PENDING: usize = 8;

/// Runs the daemon until a signal stops it.
///
/// # Errors
/// Those of opening it; `daemon.listen` when its pages cannot be served any more.
pub async fn run(config: &Path) -> Result<Exit, Failure> {
    crate::telemetry::log::log_panics();
    // Listened to before anything is opened: a signal never ends a half opened daemon by itself.
    let mut signals = Signals::listen()?;
    let opened = tokio::select! {
        opened = Daemon::open(config, SystemClock::new()) => opened?,
        order = signals.stop() => return Ok(exit(order)),
    };
    let (orders, received) = mpsc::channel(PENDING);
    let relay = async {
        // While the queue is full, signals wait where they are: none is lost.
        while orders.send(signals.next().await).await.is_ok() {}
        std::future::pending().await
    };
    tokio::select! {
        stop = opened.run(received, Notifier::of_environment()) => stop.map(exit),
        exit = relay => exit,
    }
}

/// A service manager's stop is a good end; a person's is an interruption.
fn exit(stop: Stop) -> Exit {
    match stop {
        Stop::Terminated => Exit::Good,
        Stop::Interrupted => Exit::Interrupted,
    }
}

struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(|error| Failure::because(&codes::STATE_UNUSABLE, "signals", &error));
        Ok(Self {
            hangup: listen(SignalKind::hangup())?,
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> Order {
        tokio::select! {
            _ = self.terminate.recv() => Order::Stop(Stop::Terminated),
            _ = self.interrupt.recv() => Order::Stop(Stop::Interrupted),
            _ = self.hangup.recv() => Order::Reload,
        }
    }

    /// Before there is a daemon there is nothing to reload.
    async fn stop(&mut self) -> Stop {
        loop {
            if let Order::Stop(stop) = self.next().await {
                return stop;
            }
        }
    }
}
