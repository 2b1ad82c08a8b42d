//! The processes of both hosts: daemons, and commands beside them.

use std::net::SocketAddr;
use std::time::Duration;

use holdfast::sandbox::{Command, Fencing, Process, Sandbox};
use serde_json::Value;

use super::metrics::{Metrics, get};
use super::site::{REHEARSAL, Site};

/// Several slots of a minute, on a machine that is busy with other tests.
const LIMIT: Duration = Duration::from_secs(420);
const POLL: Duration = Duration::from_millis(300);
/// A command that only asks.
const COMMAND_LIMIT: Duration = Duration::from_secs(120);

/// Where the processes run; they end with it.
pub struct Hosts<'a> {
    site: &'a Site,
    sandbox: Sandbox,
}

/// A running daemon.
pub struct Daemon {
    process: Process,
    address: SocketAddr,
}

impl<'a> Hosts<'a> {
    pub async fn up(site: &'a Site) -> Self {
        Self { site, sandbox: Sandbox::up(&site.at("run"), "hosts", Fencing::Never).await.unwrap() }
    }

    /// Starts the daemon of a host and waits until it answers.
    pub async fn daemon(&self, host: &str) -> Daemon {
        let port = self.sandbox.free_port().unwrap();
        self.site.set(host, "listen", &format!("127.0.0.1:{port}"));
        let process = self.sandbox.start(self.command(host, &["daemon"])).await.unwrap();
        let address = ([127, 0, 0, 1], port).into();
        let answers = async {
            while tokio::net::TcpStream::connect(address).await.is_err() {
                tokio::task::yield_now().await;
            }
        };
        if let Err(cause) = process.until(answers, COMMAND_LIMIT).await {
            panic!("the daemon of {host}: {cause}\n{}", process.log_tail(40));
        }
        Daemon { process, address }
    }

    /// The JSON that a command prints.
    pub async fn json(&self, host: &str, arguments: &[&str]) -> Value {
        let process = self.sandbox.start(self.command(host, &[arguments, &["--json"]].concat())).await.unwrap();
        let ended = tokio::time::timeout(COMMAND_LIMIT, process.wait()).await;
        let log = std::fs::read_to_string(process.log()).unwrap();
        assert!(ended.is_ok_and(|ended| ended.unwrap().success()), "{arguments:?}: {log}");
        serde_json::from_str(&log).unwrap_or_else(|e| panic!("{e}: {log}"))
    }

    fn command(&self, host: &str, arguments: &[&str]) -> Command {
        let config = self.site.config(host).display().to_string();
        let arguments = ["--config", &config].into_iter().chain(arguments.iter().copied()).map(str::to_owned);
        Command::new(host, env!("CARGO_BIN_EXE_holdfast")).args(arguments.collect::<Vec<_>>())
    }

    /// What is left of rehearsals.
    pub fn left_in_scratch(&self) -> Vec<String> {
        let folder = self.site.host(REHEARSAL).join("scratch");
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }
}

impl Daemon {
    pub async fn metrics(&self) -> Metrics {
        Metrics::read(self.address).await
    }

    pub async fn metric(&self, name: &str) -> f64 {
        self.metrics().await.get(name)
    }

    /// Status and text of `/healthz`.
    pub async fn health(&self) -> (u16, String) {
        get(self.address, "/healthz").await
    }

    /// Ends it as systemd does; it must end well.
    pub async fn stop(self) {
        let log = self.process.log().to_owned();
        let status = self.process.stop().await.unwrap();
        let log = std::fs::read_to_string(log).unwrap();
        assert!(status.success(), "{status}: {log}");
        assert!(!log.contains("panicked"), "{log}");
    }
}

/// Waits for what must come.
pub async fn until<F: Future<Output = bool>>(what: &str, condition: impl Fn() -> F) {
    let mut ticks = tokio::time::interval(POLL);
    let waiting = async {
        loop {
            ticks.tick().await;
            if condition().await {
                return;
            }
        }
    };
    tokio::time::timeout(LIMIT, waiting).await.unwrap_or_else(|_| panic!("{what} did not come"));
}
