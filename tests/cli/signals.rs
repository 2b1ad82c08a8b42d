//! Commands that are interrupted: exit 130, and nothing half done.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::site::{REHEARSER, Site, TAKER};
use crate::transcript::Run;

fn interrupt(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

fn start(site: &Site, host: &str, arguments: &[&str]) -> Child {
    site.command(host, arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn an_interrupted_snapshot_stores_nothing() {
    for (json, signal) in [(false, Signal::INT), (true, Signal::INT), (true, Signal::TERM), (true, Signal::HUP)] {
        let site = Site::new();
        // Accepts, and never says a word.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        site.edit(TAKER, "127.0.0.1:1\"", &format!("{}\"", silent.local_addr().unwrap()));
        let arguments = if json { vec!["snapshot", "--json"] } else { vec!["snapshot"] };
        let child = start(&site, TAKER, &arguments);
        let _connection = silent.accept().unwrap();
        interrupt(&child, signal);
        let run = Run::of(child.wait_with_output().unwrap(), &arguments, site.root.path()).exits(130);
        if json {
            run.refuses("interrupted");
        } else {
            run.is("snapshot-interrupted");
        }
        for store in ["snapshots", "escrow", "ledger"] {
            assert_eq!(site.files(store), Vec::<std::path::PathBuf>::new());
        }
    }
}

/// Tools that say their version, and then wait for what never comes.
pub fn stuck_tools(site: &Site) {
    let folder = site.path("tools");
    fs::create_dir(&folder).unwrap();
    for pipe in ["begun", "never"] {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, folder.join(pipe), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }
    let program = folder.join("etcdutl");
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = version ]; then echo 'etcdutl version: 3.6.16'; exit; fi\necho $$ > {0}/begun\nread line < {0}/never\n",
        folder.display()
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    site.edit(REHEARSER, "[rehearsal]\n", &format!("[rehearsal]\ntools = {folder:?}\n"));
}

#[test]
fn an_interrupted_rehearsal_tears_down_and_leaves_nothing() {
    let site = Site::with_snapshots();
    stuck_tools(&site);
    let arguments = ["rehearse", "--to", "boot"];
    let child = start(&site, REHEARSER, &arguments);
    // The tool runs in the scratch environment from here on.
    let mut begun = String::new();
    BufReader::new(fs::File::open(site.path("tools/begun")).unwrap()).read_line(&mut begun).unwrap();
    assert_ne!(site.path("scratch").read_dir().unwrap().count(), 0);
    interrupt(&child, Signal::INT);
    Run::of(child.wait_with_output().unwrap(), &arguments, site.root.path()).exits(130).is("rehearse-interrupted");
    assert_eq!(site.path("scratch").read_dir().unwrap().count(), 0);
    let marker = site.path("tools/etcdutl");
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&line).contains(marker.to_str().unwrap()), "still running");
    }
    // What was shown before it was interrupted counts, and the next run is free to begin.
    let row = site.ask(&["list", "--json"]).exits(0).document()["snapshots"][0].clone();
    assert_eq!((&row["proven"]["rung"], &row["restorable"]), (&"open".into(), &true.into()), "{row:#}");
    site.ask(&["verify"]).exits(0);
}

#[test]
fn what_a_killed_rehearsal_left_is_removed_by_the_next() {
    let site = Site::with_snapshots();
    stuck_tools(&site);
    let arguments = ["rehearse", "--to", "boot"];
    let mut child = start(&site, REHEARSER, &arguments);
    let mut begun = String::new();
    BufReader::new(fs::File::open(site.path("tools/begun")).unwrap()).read_line(&mut begun).unwrap();
    // No chance to tear down: as after a power cut.
    child.kill().unwrap();
    child.wait().unwrap();
    let mut out = String::new();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert!(out.contains("decrypt-objects"), "{out}");
    let next = site.ask(&["verify", "--json"]).exits(0);
    let notes: Vec<serde_json::Value> = next.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let says = |text: &str| notes.iter().any(|note| note["note"].as_str().is_some_and(|note| note.contains(text)));
    assert!(says("was cut off; to go on with it: holdfast rehearse --resume"), "{next:#?}");
    assert!(says("removed what a killed run had left"), "{next:#?}");
    next.document();
    assert_eq!(site.path("scratch").read_dir().unwrap().count(), 0);
}
