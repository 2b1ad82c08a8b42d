//! `list`, `show`, `report` and `catalog rebuild`: what a person asks a host.

use std::fs;

use crate::site::{REHEARSER, Site, TAKER};

#[test]
fn a_list_says_what_exists_which_keys_it_needs_and_that_nothing_is_proven() {
    let site = Site::with_snapshots();
    site.ask(&["list"]).exits(0).fits().is("list");
    let list = site.ask(&["--json", "list"]).exits(0);
    assert_eq!((list.document()["snapshots"][0]["id"].as_str(), list.stderr.as_str()), (Some(site.good().as_str()), ""));
    // Both hosts know each other by the ledger alone, and say the same.
    assert_eq!(site.run(TAKER, &["--json", "list"]).document()["snapshots"], list.document()["snapshots"]);
}

#[test]
fn a_list_of_nothing_says_what_to_do() {
    let site = Site::new();
    site.ask(&["list"]).exits(0).fits().is("list-empty");
    assert_eq!(site.ask(&["list", "--json"]).exits(0).document()["snapshots"], serde_json::json!([]));
}

#[test]
fn a_snapshot_is_shown_with_its_keys_and_problems() {
    let site = Site::with_snapshots();
    site.ask(&["show", "latest"]).exits(0).is("show-good");
    site.ask(&["show", site.doubtful().as_str()]).exits(0).is("show-doubtful");
    let shown = site.ask(&["show", site.good().as_str(), "--json"]).exits(0);
    assert_eq!(shown.document()["manifest"]["id"], site.good().as_str());
    assert_eq!(shown.stderr, "");
}

#[test]
fn an_unknown_an_ambiguous_and_a_missing_id_are_told_apart() {
    let site = Site::with_snapshots();
    site.ask(&["show", "20990101"]).exits(2).is("show-unknown");
    site.ask(&["show", "20010101"]).exits(3).is("show-ambiguous");
    site.ask(&["show"]).exits(3).is("show-nothing");
    site.ask(&["--json", "show", "20990101"]).exits(2).refuses("snapshot.unknown");
    site.ask(&["--json", "show", "20010101"]).exits(3).refuses("snapshot.ambiguous");
    site.ask(&["--json", "show"]).exits(3).refuses("usage");
    Site::new().ask(&["show", "latest"]).exits(2).is("show-none-yet");
    let tail = site.good().as_str().split_once('-').unwrap().1;
    assert_eq!(site.ask(&["--json", "show", tail]).exits(0).document()["snapshot"]["id"], site.good().as_str());
}

#[test]
fn without_the_ledger_the_catalog_answers_and_the_warning_says_so() {
    let site = Site::with_snapshots();
    fs::rename(site.path("ledger"), site.path("ledger-away")).unwrap();
    // Nothing is known of it yet, and silence is not emptiness.
    site.ask(&["list", "--json"]).exits(2).refuses("ledger.unreachable");
    fs::rename(site.path("ledger-away"), site.path("ledger")).unwrap();
    let before = site.ask(&["list", "--json"]).exits(0).document();
    fs::rename(site.path("ledger"), site.path("ledger-away")).unwrap();
    site.ask(&["list"]).exits(0).fits().is("list-without-ledger");
    let list = site.ask(&["list", "--json"]).exits(0);
    assert_eq!(list.document()["snapshots"], before["snapshots"]);
    let warning: serde_json::Value = serde_json::from_str(&list.stderr).unwrap();
    assert_eq!(warning["warning"]["code"], "ledger.unreachable");
    site.ask(&["catalog", "rebuild"]).exits(2).is("rebuild-without-ledger");
    site.ask(&["catalog", "rebuild", "--json"]).exits(2).refuses("ledger.unreachable");
    assert_eq!(site.ask(&["list", "--json"]).document()["snapshots"], before["snapshots"], "the old catalog stays");
}

#[test]
fn a_rebuilt_catalog_gives_the_same_answers() {
    let site = Site::with_snapshots();
    let before = site.ask(&["list", "--json"]).exits(0).document();
    let catalog = site.file(REHEARSER, &["state", ".db"]);
    fs::remove_file(&catalog).unwrap();
    site.ask(&["catalog", "rebuild"]).exits(0).fits().is("rebuild");
    assert_eq!(site.ask(&["list", "--json"]).document()["snapshots"], before["snapshots"]);
    let rebuilt = site.ask(&["catalog", "rebuild", "--json"]).exits(0);
    assert_eq!((rebuilt.document()["findings"].clone(), rebuilt.stderr.as_str()), (serde_json::json!([]), ""));
}

#[test]
fn a_catalog_that_is_no_database_is_named_and_can_be_rebuilt() {
    let site = Site::with_snapshots();
    let before = site.ask(&["list", "--json"]).exits(0).document();
    let catalog = site.file(REHEARSER, &["state", ".db"]);
    fs::write(&catalog, "this was a database once, and is a text now\n".repeat(100)).unwrap();
    site.ask(&["list"]).exits(2).is("list-broken-catalog");
    site.ask(&["catalog", "rebuild"]).exits(0).is("rebuild-broken-catalog");
    assert_eq!(site.ask(&["list", "--json"]).exits(0).document()["snapshots"], before["snapshots"]);
}

#[test]
fn a_report_of_no_run_is_not_made_up() {
    let site = Site::with_snapshots();
    site.ask(&["report"]).exits(2).is("report-none-yet");
    site.ask(&["report", "20200101T000000Z-00000000"]).exits(2).is("report-unknown");
    site.ask(&["report", "--json"]).exits(2).refuses("run.unknown");
    site.ask(&["report", "yesterday"]).exits(2).is("report-no-id");
}

#[test]
fn a_report_has_three_faces() {
    let site = Site::with_snapshots();
    let verified = site.ask(&["verify", "--json"]).exits(0).document();
    let run = verified["identity"]["run"].as_str().unwrap_or_else(|| panic!("{verified:#}")).to_owned();
    let page = site.ask(&["report"]).exits(0);
    assert!(
        page.stdout.starts_with("# ") && page.stdout.contains(&run) && page.stdout.contains(site.good().as_str()),
        "{page:?}"
    );
    let html = site.ask(&["report", &run, "--format", "html"]).exits(0);
    assert!(html.stdout.starts_with("<!doctype html>") && html.stdout.trim_end().ends_with("</html>"), "{html:?}");
    assert_eq!(site.ask(&["report", &run, "--format", "json"]).exits(0).document(), verified);
    assert_eq!(site.ask(&["report", &run, "--json"]).exits(0).document(), verified);
    // The other host reads it from the ledger.
    assert_eq!(site.run(TAKER, &["report", "--json"]).exits(0).document(), verified);
}
