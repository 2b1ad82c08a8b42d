//! How restored clusters end: asked to, killed, interrupted half way.

use std::path::PathBuf;
use std::process::{Child, Stdio};

use holdfast::sandbox::identity::ProcessIdentity;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{Host, until};
use crate::scene::{files, source};

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn two_clusters_stand_side_by_side_and_a_rehearsal_leaves_them_alone() {
    let host = Host::new();
    let (first, second) = (source().first.id.as_str(), source().second.id.as_str());
    let one = host.raise(first, &["--to", "boot"]);
    let two = host.raise(second, &["--to", "boot"]);
    assert_ne!((&one.run, &one.address, &one.directory), (&two.run, &two.address, &two.directory));
    host.refuses(&["scratch", "down"], 3, "scratch.ambiguous");
    // It sweeps what killed runs left, and finds two that live.
    host.run(&["rehearse", second, "--to", "boot"], 0);
    let states: Vec<Value> = host.list().into_iter().map(|scratch| scratch["state"].clone()).collect();
    assert_eq!(states, ["up", "up"]);
    assert!([&one, &two].iter().all(|up| up.process("etcd").is_alive() && up.supervisor().is_alive()));
    let etcd = one.process("etcd");
    host.run(&["scratch", "down", &one.run], 0);
    assert!(!etcd.is_alive() && !one.directory.exists());
    assert!(two.process("etcd").is_alive(), "the other one stands");
    let ended = host.json(&["scratch", "down", "--all"], 0);
    assert_eq!(ended["ended"].as_array().unwrap().len(), 1);
    host.scene.nothing_is_left();
    assert_eq!(host.json(&["scratch", "down", "--all"], 0)["ended"], serde_json::json!([]));
}

#[test]
fn nothing_runs_on_when_the_supervisor_is_killed_and_what_is_left_is_named_and_removed() {
    let host = Host::new();
    let up = host.raise(source().first.id.as_str(), &[]);
    let children: Vec<ProcessIdentity> = up.processes().into_iter().map(|(_, identity)| identity).collect();
    assert!(up.supervisor().kill());
    until("a child outlives its supervisor", || children.iter().all(|child| !child.is_alive()));

    let listed = host.list();
    assert_eq!((listed.len(), &listed[0]["state"], &listed[0]["supervisor"]), (1, &"leftover".into(), &Value::Null));
    assert!(up.directory.exists() && up.kubeconfig.exists(), "what a crash leaves");
    let ended = host.json(&["scratch", "down", &up.run], 0);
    assert_eq!(ended["ended"][0]["state"], "leftover");
    assert!(!up.directory.exists() && !up.kubeconfig.exists() && !up.kubeconfig.parent().unwrap().exists());
    host.scene.nothing_is_left();
}

#[test]
fn a_program_that_ended_by_itself_is_seen_in_the_list() {
    let host = Host::new();
    let up = host.raise(source().first.id.as_str(), &["--to", "boot"]);
    assert!(up.process("etcd").kill());
    until("the list does not see it", || host.list()[0]["state"] == "broken");
    host.run(&["scratch", "down"], 0);
    host.scene.nothing_is_left();
}

#[test]
fn a_restore_that_is_interrupted_or_killed_while_it_climbs_leaves_nothing() {
    let host = Host::new();
    let arguments = ["restore", source().second.id.as_str(), "--into", "scratch"];
    for (by, exit) in [(Signal::INT, Some(130)), (Signal::TERM, Some(130)), (Signal::KILL, None)] {
        let mut child = host.climbing_past("restore-data", &arguments);
        signal(&child, by);
        assert_eq!(child.wait().unwrap().code(), exit, "{by:?}");
        if by != Signal::KILL {
            host.scene.nothing_is_left();
        }
        let scratch = &host.scene.config.rehearsal.scratch_dir;
        until("something is left", || files(scratch) == Vec::<PathBuf>::new());
        until("something is listed", || host.list().is_empty());
        host.scene.nothing_is_left();
    }
}

#[test]
fn a_cluster_that_was_not_shown_to_anybody_is_torn_down() {
    use std::io::{BufRead, BufReader, Write};
    let host = Host::new();
    let arguments = ["restore", source().first.id.as_str(), "--into", "scratch", "--to", "boot"];
    // This test is the starter, who goes before it has shown anything; or who shows it, and goes then.
    for shows in [false, true] {
        let mut command = host.command(&arguments);
        command.env("HOLDFAST_STARTED_BY", std::process::id().to_string());
        let mut supervisor = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (mut input, output) = (supervisor.stdin.take().unwrap(), supervisor.stdout.take().unwrap());
        let mut frames = BufReader::new(output).lines().map(Result::unwrap);
        assert!(frames.any(|frame| frame == "\"up\""), "it is up");
        assert_eq!(host.list()[0]["state"], "up");
        if shows {
            input.write_all(b".").unwrap();
        }
        drop(input);
        if shows {
            assert_eq!(host.list()[0]["state"], "up", "it stays");
            host.run(&["scratch", "down"], 0);
            assert_eq!(supervisor.wait().unwrap().code(), Some(0));
        } else {
            assert!(frames.any(|frame| frame == "{\"done\":130}"));
            assert_eq!(supervisor.wait().unwrap().code(), Some(130));
        }
        host.scene.nothing_is_left();
        assert_eq!(host.list(), Vec::<Value>::new());
    }
    // A variable that was merely inherited makes nobody a supervisor.
    let mut command = host.command(&["restore", "20990101", "--into", "scratch"]);
    let output = command.env("HOLDFAST_STARTED_BY", "1").output().unwrap();
    assert!(super::text(&output.stderr).starts_with("error: 20990101"), "{}", super::text(&output.stderr));
}

#[test]
fn in_the_foreground_it_stays_until_a_signal() {
    let host = Host::new();
    let arguments = ["restore", source().first.id.as_str(), "--into", "scratch", "--to", "boot", "--foreground"];
    let mut child = host.climbing_past("compare-hash", &arguments);
    until("it is not up", || host.list().first().is_some_and(|scratch| scratch["state"] == "up"));
    assert_eq!(host.list()[0]["supervisor"], child.id());
    signal(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    host.scene.nothing_is_left();
}

#[test]
fn what_is_not_a_restored_cluster_of_ours_is_not_ended() {
    let host = Host::new();
    let scratch = &host.scene.config.rehearsal.scratch_dir;
    std::fs::create_dir_all(scratch.join("somebody-elses")).unwrap();
    // This test is the living owner, and no restore.
    let own = ProcessIdentity::own().unwrap();
    let rehearsal = scratch.join(format!("holdfast-run-20261201T130509Z-0badcafe-{own}"));
    std::fs::create_dir(&rehearsal).unwrap();
    let listed = host.list();
    assert_eq!((listed.len(), &listed[0]["state"]), (1, &"busy".into()));
    host.refuses(&["scratch", "down", "20261201T130509Z-0badcafe"], 2, "scratch.busy");
    for unknown in ["somebody-elses", "../scratch", "holdfast-run-20261201T130509Z-0badcafe", "2027"] {
        host.refuses(&["scratch", "down", unknown], 2, "scratch.unknown");
    }
    host.run(&["scratch", "down", "--all"], 0);
    assert!(rehearsal.exists() && scratch.join("somebody-elses").exists() && own.is_alive());
    std::fs::remove_dir(&rehearsal).unwrap();
}
