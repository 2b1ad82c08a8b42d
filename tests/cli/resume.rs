//! A run that ended and was killed before its records were written, or between
//! the two, or before the ledger had them: each is written once.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::site::{REHEARSER, Site};

/// The records that wait in the rehearsal host's outbox, in order.
fn waiting(site: &Site) -> Vec<PathBuf> {
    let is_record = |path: &PathBuf| path.to_str().unwrap().contains("/outbox/") && !path.ends_with("heads.json");
    site.files(REHEARSER).into_iter().filter(is_record).collect()
}

/// A run whose two records wait, because the ledger was away when it ended.
fn ended(site: &Site) -> String {
    site.ask(&["list"]).exits(0);
    fs::rename(site.path("ledger"), site.path("away")).unwrap();
    let run = site.ask(&["verify", "--json"]).exits(0).document()["identity"]["run"].as_str().unwrap().to_owned();
    fs::rename(site.path("away"), site.path("ledger")).unwrap();
    assert_eq!(waiting(site).len(), 2);
    run
}

fn resume(site: &Site, run: &str) -> Value {
    let resumed = site.ask(&["rehearse", "--resume", run, "--json"]).exits(0);
    assert_eq!(resumed.stderr, "");
    resumed.document()
}

/// Both records of so many runs are in the ledger, each once, in a chain without a gap or a fork.
#[track_caller]
fn whole(site: &Site, runs: usize) {
    assert_eq!(waiting(site), Vec::<PathBuf>::new());
    let list = site.ask(&["list", "--json"]).exits(0).document();
    assert_eq!(list["findings"], json!([]));
    assert_eq!(list["snapshots"][0]["proven"]["rung"], "open", "{list:#}");
    let records = |folder: &str| {
        let files = site.files("ledger");
        files.iter().filter(|path| path.to_str().unwrap().contains(folder) && !path.to_str().unwrap().ends_with(".sig")).count()
    };
    assert_eq!((records("/runs/"), records("/attestations/")), (runs, runs));
}

#[test]
fn what_a_killed_run_did_not_write_is_written_by_whoever_goes_on_with_it() {
    // Killed before both, between the two, and after them.
    for lost in 0..=2 {
        let site = Site::with_snapshots();
        let run = ended(&site);
        for record in waiting(&site).iter().rev().take(lost) {
            fs::remove_file(record).unwrap();
        }
        let resumed = resume(&site, &run);
        assert_eq!((&resumed["identity"]["run"], &resumed["verdict"]["result"]), (&json!(run), &json!("passed")), "{lost}");
        whole(&site, 1);
        assert_eq!(site.ask(&["report", &run, "--json"]).exits(0).document(), resumed);
        site.ask(&["rehearse", "--resume", &run, "--json"]).exits(2).refuses("run.journal");
        whole(&site, 1);
    }
}

#[test]
fn an_attestation_is_written_for_a_report_that_is_in_the_ledger_already() {
    let site = Site::with_snapshots();
    let run = ended(&site);
    fs::remove_file(&waiting(&site)[1]).unwrap();
    // Another run delivers the report, and takes the number that was lost.
    site.ask(&["verify"]).exits(0);
    resume(&site, &run);
    whole(&site, 2);
}

#[test]
fn the_next_rehearsal_names_a_run_without_records() {
    let site = Site::with_snapshots();
    let run = ended(&site);
    let note = |text: &str| text.contains(&format!("run {run} has ended")) && text.contains("holdfast rehearse --resume");
    for record in waiting(&site) {
        fs::remove_file(record).unwrap();
    }
    let next = site.ask(&["verify", "--json"]).exits(0);
    let told: Value = serde_json::from_str(&next.stderr).unwrap();
    assert!(note(told["note"].as_str().unwrap()), "{next:#?}");
    // Records that are on their way are nothing to speak of.
    let other = Site::with_snapshots();
    ended(&other);
    assert_eq!(other.ask(&["verify", "--json"]).exits(0).stderr, "");
}

#[test]
fn while_the_ledger_is_silent_nothing_is_written_that_it_may_have() {
    let site = Site::with_snapshots();
    let run = ended(&site);
    for record in waiting(&site) {
        fs::remove_file(record).unwrap();
    }
    fs::rename(site.path("ledger"), site.path("away")).unwrap();
    let refused = site.ask(&["rehearse", "--resume", &run, "--json"]).exits(2);
    let errors: Vec<Value> = refused.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(errors.last().unwrap()["error"]["code"], "ledger.unreachable", "{refused:#?}");
    assert!(errors.last().unwrap()["error"]["cause"].as_str().unwrap().contains(&run), "{refused:#?}");
    assert_eq!(waiting(&site), Vec::<PathBuf>::new());
    fs::rename(site.path("away"), site.path("ledger")).unwrap();
    resume(&site, &run);
    whole(&site, 1);
}
