//! `restore` and `scratch` as far as no other program runs: what is refused,
//! what a plan looks like, and that nothing is up where nothing was made.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::site::{REHEARSER, Site, files};
use crate::transcript::Run;

/// An etcdutl that says its version, and fails when it is run.
fn pretend(site: &Site, version: &str) {
    let folder = site.path("tools");
    fs::create_dir(&folder).unwrap();
    let program = folder.join("etcdutl");
    fs::write(&program, format!("#!/bin/sh\n[ \"$1\" = version ] && echo 'etcdutl version: {version}' || exit 7\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    site.edit(REHEARSER, "[rehearsal]\n", &format!("[rehearsal]\ntools = {folder:?}\n"));
}

/// The call, on a host whose only tools are its own.
fn ask(site: &Site, arguments: &[&str]) -> Run {
    let mut command = site.command(REHEARSER, arguments);
    command.current_dir(site.root.path()).env("PATH", "").env("HOME", site.root.path()).env_remove("XDG_CACHE_HOME");
    Run::of(command.output().unwrap(), arguments, site.root.path())
}

fn nothing_is_left(site: &Site) {
    assert_eq!(files(&site.path("scratch")), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_plan_is_shown_with_its_checks_and_writes_nothing() {
    let site = Site::with_snapshots();
    pretend(&site, "3.6.16");
    let list = "m1=https://10.0.0.1:2380,m2=https://10.0.0.2:2380";
    let arguments = ["restore", site.good().as_str(), "--into", "etcd", "--name", "m1", "--initial-cluster", list, "--plan"];
    ask(&site, &[&arguments[..], &["--initial-cluster-token", "restore-01234567"]].concat()).exits(0).is("restore-plan");
    assert!(!site.path("etcd").exists());
    nothing_is_left(&site);
}

#[test]
fn what_cannot_be_restored_is_refused_in_words() {
    let site = Site::with_snapshots();
    pretend(&site, "3.5.9");
    let member = ["--name", "m1", "--peer-url", "https://10.0.0.1:2380"];
    let restore = |more: &[&str]| ask(&site, &[&["restore", site.good().as_str(), "--into", "etcd"], more].concat());
    restore(&member).exits(2).is("restore-wrong-etcdutl");
    restore(&["--name", "m2", "--initial-cluster", "m1=https://10.0.0.1:2380"]).exits(3).is("restore-wrong-member");
    fs::create_dir_all(site.path("etcd/member")).unwrap();
    restore(&member).exits(2).is("restore-filled");
    ask(&site, &["restore", "20990101T000000Z-00000000", "--into", "scratch"]).exits(2).is("restore-unknown");
    ask(&site, &["restore", site.good().as_str(), "--into", "scratch"]).exits(2).is("restore-scratch-wrong-etcdutl");
    nothing_is_left(&site);
}

#[test]
fn where_nothing_is_up_the_list_is_empty_and_nothing_is_ended() {
    let site = Site::with_snapshots();
    ask(&site, &["scratch", "list"]).exits(0).is("scratch-empty");
    ask(&site, &["scratch", "down", "--all"]).exits(0).is("scratch-none");
    ask(&site, &["scratch", "down", "2026"]).exits(2).is("scratch-unknown");
    fs::create_dir_all(site.path("scratch/holdfast-run-restore-20010101T000000Z-0badcafe-1-1/etcd")).unwrap();
    ask(&site, &["scratch", "list"]).exits(0).is("scratch-leftover");
    ask(&site, &["scratch", "down"]).exits(0).is("scratch-leftover-removed");
    assert_eq!(site.path("scratch").read_dir().unwrap().count(), 0);
}
