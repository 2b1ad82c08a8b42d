//! A demo that is interrupted, or killed, in the middle leaves no process.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::show::processes_naming;

/// A test that waits longer than this is stuck.
const PATIENCE: Duration = Duration::from_secs(120);

/// Starts a demo and reads its output up to the line that holds `text`. For a program, each line is an event.
#[allow(clippy::disallowed_methods)] // the program under test
fn demo_up_to(text: &str, arguments: &[&str], folder: &Path) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_holdfast"))
        .args(arguments)
        .env("HOLDFAST_DEMO_DIR", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    let is_event = |line: &str| serde_json::from_str::<serde_json::Value>(line).is_ok_and(|event| event["event"].is_string());
    let lines = lines.map_while(Result::ok).inspect(|line| assert_eq!(is_event(line), arguments.contains(&"--json"), "{line}"));
    let found = { lines }.any(|line| line.contains(text));
    assert!(found, "the demo ended before it said {text:?}");
    child
}

fn end(mut child: Child, signal: Signal) -> Option<i32> {
    kill_process(Pid::from_child(&child), signal).unwrap();
    // Read on, so that a full pipe does not hold the program up.
    let mut rest = BufReader::new(child.stdout.take().unwrap());
    let _ = std::io::copy(&mut rest, &mut std::io::sink());
    child.wait().unwrap().code()
}

/// The kernel ends orphans a moment after their parent.
#[allow(clippy::disallowed_methods)] // bounds the wait, decides nothing
fn nothing_is_left(folder: &Path) {
    let begun = Instant::now();
    while !processes_naming(folder).is_empty() {
        assert!(begun.elapsed() < PATIENCE, "{:?}", processes_naming(folder));
        std::thread::yield_now();
    }
}

#[test]
fn an_interrupted_demo_ends_with_130_and_leaves_no_process_and_no_key() {
    let keep = tempfile::tempdir().unwrap();
    let folder = keep.path().join("demo");
    let child = demo_up_to("ok      build-encryption-config", &["demo", "--json"], &folder);
    assert_eq!(end(child, Signal::INT), Some(130));
    nothing_is_left(&folder);
    assert!(super::files(keep.path()).iter().all(|file| file.starts_with(folder.join("reports"))), "keys must not stay");
}

#[test]
fn a_killed_demo_leaves_no_process() {
    let keep = tempfile::tempdir().unwrap();
    let folder = keep.path().join("demo");
    let child = demo_up_to("cp-1$ holdfast snapshot", &["demo"], &folder);
    assert_eq!(end(child, Signal::KILL), None);
    nothing_is_left(&folder);
}
