//! `holdfast daemon` as a process: what it says, what it refuses, how it ends.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::site::{REHEARSER, Site, TAKER, write};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A daemon that runs, and its log as it grows.
struct Daemon {
    child: Child,
    log: Receiver<String>,
    seen: Vec<String>,
    address: SocketAddr,
}

impl Daemon {
    /// Starts the daemon of a host and waits until it is ready.
    fn start(site: &Site, host: &str) -> Self {
        let mut command = site.command(host, &["daemon", "--json"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (tell, log) = channel();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| tell.send(line)));
        let mut daemon = Self { child, log, seen: Vec::new(), address: ([127, 0, 0, 1], 0).into() };
        let ready = daemon.wait_for("daemon ready");
        daemon.address = ready["listen"].as_str().unwrap().parse().unwrap();
        daemon
    }

    /// The next line of the log with this message.
    #[track_caller]
    fn wait_for(&mut self, message: &str) -> Value {
        loop {
            let Ok(line) = self.log.recv_timeout(PATIENCE) else { panic!("no {message:?} in {:#?}", self.seen) };
            let parsed: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            self.seen.push(line);
            if parsed["message"] == message {
                return parsed;
            }
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn ask(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// The value of one sample.
    #[track_caller]
    fn metric(&self, sample: &str) -> f64 {
        let shown = self.ask("/metrics");
        let line = shown.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {sample} in {shown}")).parse().unwrap()
    }

    /// Ends it with a signal and gives the exit code.
    fn end(mut self, signal: Signal) -> i32 {
        self.signal(signal);
        self.child.wait().unwrap().code().unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A host with a schedule, on a port of its own.
fn scheduled(schedule: &str) -> Site {
    let site = Site::new();
    add(&site, TAKER, &format!("\n[schedule]\n{schedule}\n\n[daemon]\nlisten = \"127.0.0.1:0\"\n"));
    site
}

fn add(site: &Site, host: &str, text: &str) {
    let config = std::fs::read_to_string(site.config(host)).unwrap();
    write(&site.config(host), &(config + text));
}

#[test]
fn a_daemon_serves_its_pages_tells_of_failures_and_ends_well() {
    let site = scheduled("snapshot = \"0 0 1 1 *\"");
    let mut daemon = Daemon::start(&site, TAKER);
    // Never done, it is due at once; nobody answers at its endpoint.
    let failed = daemon.wait_for("job failed");
    assert_eq!(
        (&failed["job"], &failed["code"], &failed["attempt"]),
        (&"snapshot".into(), &"etcd.unreachable".into(), &1.into())
    );
    assert!(failed["next"].as_str().unwrap().contains("etcd"), "{failed}");
    assert_eq!(daemon.metric("holdfast_job_attempts_total{job=\"snapshot\",outcome=\"failed\"}"), 1.0);
    assert_eq!(daemon.metric("holdfast_job_consecutive_failures{job=\"snapshot\"}"), 1.0);
    assert_eq!(daemon.metric("holdfast_last_proven_restore_timestamp_seconds{rung=\"serve\"}"), 0.0);
    let health = daemon.ask("/healthz");
    assert!(health.starts_with("HTTP/1.1 200 OK") && health.ends_with("ok\n"), "{health}");
    assert_eq!(daemon.end(Signal::TERM), 0);
    for store in ["snapshots", "escrow", "ledger"] {
        assert_eq!(site.files(store), Vec::<std::path::PathBuf>::new());
    }
}

#[test]
fn a_person_who_breaks_a_daemon_off_gets_130() {
    let site = scheduled("snapshot = \"0 0 1 1 *\"");
    assert_eq!(Daemon::start(&site, TAKER).end(Signal::INT), 130);
}

#[test]
fn a_second_daemon_is_refused_by_name_and_the_command_line_works_beside_it() {
    let site = scheduled("snapshot = \"0 0 1 1 *\"");
    let daemon = Daemon::start(&site, TAKER);
    let second = site.run(TAKER, &["daemon", "--json"]).exits(2);
    second.refuses("daemon.running");
    let pid = daemon.child.id().to_string();
    assert!(second.stderr.contains(&format!("process {pid} holds the lock")), "{second:#?}");
    site.run(TAKER, &["list"]).exits(0);
    assert_eq!(daemon.end(Signal::TERM), 0);
    // Its place is free, however the first one ended.
    let mut killed = Daemon::start(&site, TAKER);
    killed.child.kill().unwrap();
    killed.child.wait().unwrap();
    assert_eq!(Daemon::start(&site, TAKER).end(Signal::TERM), 0);
}

#[test]
fn a_daemon_that_cannot_begin_says_why() {
    let site = Site::new();
    site.run(TAKER, &["daemon", "--json"]).exits(3).refuses("daemon.nothing-scheduled");
    site.run(TAKER, &["daemon"]).exits(3).is("daemon-nothing-scheduled");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("\n[schedule]\nsnapshot = \"@hourly\"\n\n[daemon]\nlisten = \"{}\"\n", taken.local_addr().unwrap());
    add(&site, TAKER, &listen);
    site.run(TAKER, &["daemon", "--json"]).exits(2).refuses("daemon.listen");
    site.edit(TAKER, "@hourly", "every hour");
    site.run(TAKER, &["daemon"]).exits(3).is("daemon-bad-line");
    site.edit(TAKER, "every hour", "@hourly");
    add(&site, REHEARSER, "\n[schedule]\nsnapshot = \"@hourly\"\n");
    site.run(REHEARSER, &["daemon", "--json"]).exits(3).refuses("config.invalid");
    // A state directory that is a file: for root, permissions refuse nothing.
    let state = site.path(TAKER).join("state");
    std::fs::remove_dir_all(&state).unwrap();
    write(&state, "");
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o400)).unwrap();
    site.run(TAKER, &["daemon", "--json"]).exits(2).refuses("state.unusable");
}

#[test]
fn nonsense_in_the_file_changes_nothing_until_it_is_read_and_then_nothing_but_what_is_told() {
    let site = scheduled("snapshot = \"0 0 1 1 *\"");
    let mut daemon = Daemon::start(&site, TAKER);
    daemon.wait_for("job failed");
    let good = std::fs::read_to_string(site.config(TAKER)).unwrap();
    write(&site.config(TAKER), &good.replace("name = \"cp-1\"", "nmae = 7").replace("0 0 1 1 *", "soon"));
    // Nobody asked for it to be read.
    assert_eq!(daemon.metric("holdfast_config_last_reload_successful"), 1.0);
    daemon.signal(Signal::HUP);
    let refused = daemon.wait_for("configuration refused; the one before it stays in force");
    assert_eq!((&refused["code"], &refused["level"]), (&"config.invalid".into(), &"ERROR".into()));
    let cause = refused["cause"].as_str().unwrap();
    assert!(
        cause.contains("3 mistakes") && cause.contains("did you mean name?") && cause.contains("schedule.snapshot"),
        "{cause}"
    );
    assert_eq!(daemon.metric("holdfast_config_last_reload_successful"), 0.0);
    let health = daemon.ask("/healthz");
    assert!(health.contains("200 OK") && health.contains("note: the configuration file was refused"), "{health}");
    // What needs a restart is refused whole.
    write(&site.config(TAKER), &good.replace("listen = \"127.0.0.1:0\"", "listen = \"127.0.0.1:9\""));
    daemon.signal(Signal::HUP);
    let refused = daemon.wait_for("configuration refused; the one before it stays in force");
    assert_eq!(refused["code"], "daemon.restart-needed");
    assert!(refused["cause"].as_str().unwrap().contains("daemon.listen changed"), "{refused}");
    write(&site.config(TAKER), &good.replace("0 0 1 1 *", "0 0 1 2 *"));
    daemon.signal(Signal::HUP);
    daemon.wait_for("configuration read again");
    assert_eq!(daemon.metric("holdfast_config_last_reload_successful"), 1.0);
    assert!(daemon.ask("/healthz").ends_with("\r\n\r\nok\n"));
    assert_eq!(daemon.end(Signal::TERM), 0);
}
