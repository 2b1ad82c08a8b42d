//! `holdfast daemon` as a process: what it says, what it refuses, how it ends.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::Value;

use crate::daemon_rig::{Daemon, PATIENCE};
use crate::signals::stuck_tools;
use crate::site::{REHEARSER, Site, TAKER, write};

/// Far from any slot: what is done is done because it never was.
const YEARLY: &str = "0 0 1 1 *";

fn add(site: &Site, host: &str, text: &str) {
    let config = fs::read_to_string(site.config(host)).unwrap();
    write(&site.config(host), &(config + text));
}

/// Gives a host a schedule, on a port of its own.
fn schedule(site: &Site, host: &str, lines: &str) {
    add(site, host, &format!("\n[schedule]\n{lines}\n\n[daemon]\nlisten = \"127.0.0.1:0\"\n"));
}

/// A host whose etcd nobody runs.
fn taker() -> Site {
    let site = Site::new();
    schedule(&site, TAKER, &format!("snapshot = {YEARLY:?}"));
    site
}

fn rehearser(rung: &str) -> Site {
    let site = Site::with_snapshots();
    schedule(&site, REHEARSER, &format!("rehearsal = {YEARLY:?}\nrehearsal_rung = {rung:?}"));
    site
}

#[test]
fn a_daemon_serves_its_pages_tells_of_failures_and_ends_well() {
    let site = taker();
    let mut daemon = Daemon::start(&site.config(TAKER));
    let failed = daemon.wait_for("job failed");
    assert_eq!(
        (&failed["job"], &failed["code"], &failed["attempt"]),
        (&"snapshot".into(), &"etcd.unreachable".into(), &1.into())
    );
    assert!(failed["next"].as_str().unwrap().contains("etcd"), "{failed}");
    assert_eq!(daemon.metric("holdfast_job_attempts_total{kind=\"snapshot\",outcome=\"failed\"}"), 1.0);
    assert_eq!(daemon.metric("holdfast_job_consecutive_failures{kind=\"snapshot\"}"), 1.0);
    assert_eq!(daemon.metric("holdfast_last_proven_restore_timestamp_seconds{rung=\"serve\"}"), 0.0);
    assert_eq!(daemon.ask("/healthz"), (200, "ok\n".into()));
    assert_eq!(daemon.end(Signal::TERM).0, 0);
    for store in ["snapshots", "escrow", "ledger"] {
        assert_eq!(site.files(store), Vec::<PathBuf>::new());
    }
}

#[test]
fn a_person_who_breaks_a_daemon_off_gets_130() {
    assert_eq!(Daemon::start(&taker().config(TAKER)).end(Signal::INT).0, 130);
}

#[test]
fn a_second_daemon_is_refused_by_name_and_the_command_line_works_beside_it() {
    let site = taker();
    let daemon = Daemon::start(&site.config(TAKER));
    let second = site.run(TAKER, &["daemon", "--json"]).exits(2);
    second.refuses("daemon.running");
    assert!(second.stderr.contains(&format!("process {} holds the lock", daemon.pid())), "{second:#?}");
    site.run(TAKER, &["list"]).exits(0);
    assert_eq!(daemon.end(Signal::TERM).0, 0);
    // Its place is free, however the first one ended.
    Daemon::start(&site.config(TAKER)).kill();
    assert_eq!(Daemon::start(&site.config(TAKER)).end(Signal::TERM).0, 0);
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
    fs::remove_dir_all(&state).unwrap();
    write(&state, "");
    fs::set_permissions(&state, fs::Permissions::from_mode(0o400)).unwrap();
    site.run(TAKER, &["daemon", "--json"]).exits(2).refuses("state.unusable");
}

#[test]
fn nonsense_in_the_file_changes_nothing_until_it_is_read_and_then_nothing_but_what_is_told() {
    let site = taker();
    let mut daemon = Daemon::start(&site.config(TAKER));
    daemon.wait_for("job failed");
    let good = fs::read_to_string(site.config(TAKER)).unwrap();
    write(&site.config(TAKER), &good.replace("name = \"cp-1\"", "nmae = 7").replace(YEARLY, "soon"));
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
    let (status, health) = daemon.ask("/healthz");
    assert!(status == 200 && health.contains("note: the configuration file was refused"), "{health}");
    // What needs a restart is refused whole.
    write(&site.config(TAKER), &good.replace("listen = \"127.0.0.1:0\"", "listen = \"127.0.0.1:9\""));
    daemon.signal(Signal::HUP);
    let refused = daemon.wait_for("configuration refused; the one before it stays in force");
    assert_eq!(refused["code"], "daemon.restart-needed");
    assert!(refused["cause"].as_str().unwrap().contains("daemon.listen changed"), "{refused}");
    write(&site.config(TAKER), &good.replace(YEARLY, "0 0 1 2 *"));
    daemon.signal(Signal::HUP);
    daemon.wait_for("configuration read again");
    assert_eq!(daemon.metric("holdfast_config_last_reload_successful"), 1.0);
    assert_eq!(daemon.ask("/healthz"), (200, "ok\n".into()));
    assert_eq!(daemon.end(Signal::TERM).0, 0);
}

#[test]
fn a_state_directory_that_fails_under_a_running_daemon_is_told_and_taken_up_again() {
    let site = taker();
    site.edit(TAKER, "listen = \"127.0.0.1:0\"", "listen = \"127.0.0.1:0\"\nretry_first = \"1s\"\nretry_longest = \"1s\"");
    let mut daemon = Daemon::start(&site.config(TAKER));
    daemon.wait_for("job failed");
    // As a disk that is full or gone: nothing can be made there, for root neither.
    let (state, away) = (site.path(TAKER).join("state"), site.path("away"));
    fs::rename(&state, &away).unwrap();
    write(&state, "");
    let told = daemon.wait_for("the state file cannot be written; after a restart jobs may be done again");
    assert_eq!((&told["code"], &told["level"]), (&"state.unusable".into(), &"ERROR".into()));
    daemon.wait_until("a job that fails of it", |line| line["message"] == "job failed" && line["code"] == "state.unusable");
    assert_eq!(daemon.metric("holdfast_state_last_write_successful"), 0.0);
    assert!(daemon.ask("/healthz").1.contains("note: the state file cannot be written"));
    fs::remove_file(&state).unwrap();
    fs::rename(&away, &state).unwrap();
    daemon.wait_for("the state file is written again");
    daemon.wait_until("etcd again", |line| line["code"] == "etcd.unreachable");
    assert_eq!(daemon.metric("holdfast_state_last_write_successful"), 1.0);
    assert_eq!(daemon.end(Signal::TERM).0, 0);
}

#[test]
fn a_rehearsal_on_the_schedule_proves_the_newest_snapshot_and_a_restart_remembers_it() {
    let site = rehearser("open");
    let mut daemon = Daemon::start(&site.config(REHEARSER));
    let done = daemon.wait_for("job done");
    assert_eq!((&done["job"], &done["level"]), (&"rehearsal".into(), &"INFO".into()));
    assert!(done["summary"].as_str().unwrap().contains(site.good().as_str()), "{done}");
    let proven = "holdfast_last_proven_restore_timestamp_seconds{rung=\"open\"}";
    let at = daemon.until_metric(proven, |at| at > 0.0);
    assert_eq!(daemon.metric("holdfast_last_proven_restore_timestamp_seconds{rung=\"serve\"}"), 0.0);
    assert_eq!(daemon.metric("holdfast_snapshots{quality=\"good\"}"), 1.0);
    assert_eq!(daemon.metric("holdfast_snapshots{quality=\"incomplete\"}"), 1.0);
    assert_eq!(daemon.metric("holdfast_key_versions{state=\"missing\",needed=\"yes\"}"), 0.0);
    // 2001-01-01T14:00:00Z, when the good one of the two was taken.
    assert_eq!(daemon.metric("holdfast_newest_good_snapshot_timestamp_seconds"), 978_357_600.0);
    let success = daemon.metric("holdfast_job_last_success_timestamp_seconds{kind=\"rehearsal\"}");
    assert!(success > 0.0);
    assert_eq!(daemon.end(Signal::TERM).0, 0);

    // The first answer after a restart is as good as the last before it, and nothing is done again.
    let mut again = Daemon::start(&site.config(REHEARSER));
    assert_eq!(again.metric(proven), at);
    assert_eq!(again.metric("holdfast_job_last_success_timestamp_seconds{kind=\"rehearsal\"}"), success);
    again.until_metric("holdfast_ledger_last_read_timestamp_seconds", |at| at > 0.0);
    assert_eq!(again.count("job done"), 0);
    assert_eq!(again.end(Signal::TERM).0, 0);
}

#[test]
fn a_rehearsal_whose_answer_is_bad_is_told_with_what_is_missing_and_shown() {
    let site = rehearser("open");
    for file in site.files("escrow") {
        fs::remove_file(file).unwrap();
    }
    let mut daemon = Daemon::start(&site.config(REHEARSER));
    let bad = daemon.wait_for("job done, and the answer is bad");
    assert_eq!((&bad["level"], &bad["code"]), (&"ERROR".into(), &"escrow.key-missing".into()), "{bad}");
    daemon.until_metric("holdfast_key_versions{state=\"missing\",needed=\"yes\"}", |missing| missing > 0.0);
    assert_eq!(daemon.metric("holdfast_last_proven_restore_timestamp_seconds{rung=\"open\"}"), 0.0);
    assert_eq!(daemon.metric("holdfast_job_attempts_total{kind=\"rehearsal\",outcome=\"bad\"}"), 1.0);
    assert_eq!(daemon.end(Signal::TERM).0, 0);
}

#[test]
fn a_stop_in_the_middle_of_a_rehearsal_tears_down_and_is_on_record() {
    let site = rehearser("boot");
    stuck_tools(&site);
    let daemon = Daemon::start(&site.config(REHEARSER));
    // The tool runs in the scratch environment from here on.
    let mut begun = String::new();
    BufReader::new(fs::File::open(site.path("tools/begun")).unwrap()).read_line(&mut begun).unwrap();
    assert_eq!(daemon.metric("holdfast_job_running{kind=\"rehearsal\"}"), 1.0);
    assert_ne!(site.path("scratch").read_dir().unwrap().count(), 0);
    let (code, log) = daemon.end(Signal::TERM);
    assert_eq!(code, 0, "{log:#?}");
    assert!(log.iter().any(|line| line["message"] == "job interrupted"), "{log:#?}");
    assert_eq!(site.path("scratch").read_dir().unwrap().count(), 0);
    let row = site.ask(&["list", "--json"]).exits(0).document()["snapshots"][0].clone();
    assert_eq!(row["last_attempt"]["outcome"], "interrupted", "{row:#}");
}

#[test]
fn a_command_waits_for_work_of_its_kind_and_says_whom_it_waits_for() {
    let site = taker();
    let lock = fs::File::create(site.path(TAKER).join("state/snapshot.lock")).unwrap();
    lock.lock().unwrap();
    let mut child = site.command(TAKER, &["snapshot", "--json"]).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut err = BufReader::new(child.stderr.take().unwrap()).lines();
    let note: Value = serde_json::from_str(&err.next().unwrap().unwrap()).unwrap();
    assert_eq!(note["note"], "another process takes a snapshot; waiting for it to end, for a minute at most");
    // Other commands have nothing to wait for.
    site.run(TAKER, &["list"]).exits(0);
    drop(lock);
    let failure: Value = serde_json::from_str(&err.next().unwrap().unwrap()).unwrap();
    assert_eq!(failure["error"]["code"], "etcd.unreachable", "it went on: {failure}");
    assert_eq!(child.wait().unwrap().code(), Some(2));
}

/// What the service manager hears, message by message.
struct Manager {
    socket: UnixDatagram,
    heard: Vec<String>,
}

impl Manager {
    fn wait_for(&mut self, text: &str) -> String {
        loop {
            let mut buffer = [0; 4096];
            let length = self.socket.recv(&mut buffer).unwrap_or_else(|e| panic!("no {text:?} ({e}) in {:#?}", self.heard));
            let message = String::from_utf8(buffer[..length].to_vec()).unwrap();
            self.heard.push(message.clone());
            if message.contains(text) {
                return message;
            }
        }
    }
}

#[test]
fn the_service_manager_hears_that_it_is_ready_alive_reloading_and_stopping() {
    let site = taker();
    let path = site.path("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut manager = Manager { socket, heard: Vec::new() };
    let daemon = Daemon::start_with(&site.config(TAKER), |command| {
        command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "400000");
    });
    let ready = manager.wait_for("READY=1");
    assert!(ready.contains("STATUS=snapshot next "), "{ready}");
    for _ in 0..3 {
        manager.wait_for("WATCHDOG=1");
    }
    daemon.signal(Signal::HUP);
    let reloading = manager.wait_for("RELOADING=1");
    assert!(
        reloading.lines().any(|line| line.strip_prefix("MONOTONIC_USEC=").is_some_and(|n| n.parse::<u64>().is_ok())),
        "{reloading}"
    );
    manager.wait_for("READY=1");
    write(&site.config(TAKER), "nonsense");
    daemon.signal(Signal::HUP);
    manager.wait_for("RELOADING=1");
    assert!(manager.wait_for("READY=1").contains("CONFIGURATION FILE REFUSED"));
    let (code, _) = daemon.end(Signal::TERM);
    manager.wait_for("STOPPING=1");
    assert_eq!(code, 0);
    assert!(manager.heard.iter().all(|message| message.lines().all(|line| line.contains('='))), "{:#?}", manager.heard);
}

#[test]
fn without_json_the_log_is_a_line_for_an_event_and_the_journal_gets_priorities() {
    let site = taker();
    let mut command = site.command(TAKER, &["daemon"]);
    let log = fs::File::create(site.path("log")).unwrap();
    let stat = rustix::fs::fstat(&log).unwrap();
    // As under systemd, where standard error is the journal's stream.
    command.env("JOURNAL_STREAM", format!("{}:{}", stat.st_dev, stat.st_ino)).stderr(log);
    let mut child = command.spawn().unwrap();
    let read = || fs::read_to_string(site.path("log")).unwrap();
    while !read().contains("job failed") {
        assert!(child.try_wait().unwrap().is_none(), "{}", read());
        std::thread::yield_now();
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
    let text = read();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.iter().any(|line| line.starts_with("<6>INFO daemon ready version=")), "{text}");
    assert!(lines.iter().any(|line| line.starts_with("<3>ERROR job failed job=snapshot slot=")), "{text}");
    assert!(lines.iter().all(|line| line.starts_with('<')) && !text.contains('\u{1b}'), "{text}");
}
