//! What `list`, `show` and `catalog rebuild` print.

use holdfast::base::exit::Exit;
use holdfast::catalog::Catalog;
use holdfast::cli;
use holdfast::ledger::Ledger;
use holdfast::record::Rung;
use jiff::Timestamp;
use serde_json::Value;

use super::{folded, history, site};
use crate::ledger::records::{KEY1, Site, attestation, id, layout, manifest, need, time};
use crate::test_key;

fn now() -> Timestamp {
    "2026-12-01T16:05:00Z".parse().unwrap()
}

fn list(catalog: &Catalog, json: bool) -> String {
    let mut out = Vec::new();
    let exit = cli::list::print(catalog, json, &mut out, now()).unwrap();
    assert_eq!(exit, if catalog.findings().unwrap().is_empty() { Exit::Good } else { Exit::Bad });
    String::from_utf8(out).unwrap()
}

/// The text however it is wrapped.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What ends the list, however it is wrapped.
fn headline(catalog: &Catalog) -> String {
    let text = list(catalog, false);
    words(&text[text.rfind("last proven restore: ").unwrap()..])
}

fn show(catalog: &Catalog, id: &str, json: bool) -> String {
    let mut out = Vec::new();
    assert_eq!(cli::show::print(catalog, id, json, &mut out, now()).unwrap(), Exit::Good);
    String::from_utf8(out).unwrap()
}

fn fits(text: &str) {
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
        assert_eq!(line, line.trim_end());
    }
}

#[tokio::test]
async fn the_list_answers_what_how_far_which_keys_and_how_old() {
    let (site, history) = site().await;
    let text = list(&folded(&site, &history), false);
    fits(&text);
    insta::assert_snapshot!(text);
}

#[tokio::test]
async fn a_gap_a_doubt_and_findings_are_seen_in_the_list() {
    let site = Site::new();
    site.manifest("13:05", 10, vec![need("key1", Some(KEY1), 4)]);
    site.manifest_but("13:06", |link| {
        let mut incomplete = manifest(link, "13:06", 1_234_567_890, vec![need("a-key-with-a-very-long-name-for-a-key", None, 1)]);
        incomplete.quality = holdfast::record::manifest::Quality::Incomplete;
        incomplete
    });
    site.receipt(KEY1, "13:07");
    let mut whole = history(&site).await;
    let path = whole.entries.iter().find(|entry| entry.document.kind() == "receipt").unwrap().path.clone();
    site.ledger.plant(&path, b"{}");
    whole = history(&site).await;
    let text = list(&folded(&site, &whole), false);
    fits(&text.replace(&path, "PATH"));
    insta::assert_snapshot!(text);
}

#[tokio::test]
async fn an_empty_catalog_says_what_to_do() {
    let site = Site::new();
    let text = list(&Catalog::open(site.state.path()).unwrap(), false);
    insta::assert_snapshot!(text);
}

#[tokio::test]
async fn records_that_nobody_may_sign_are_not_an_empty_ledger() {
    let (site, history) = site().await;
    let strangers = test_key::allowed(&[&test_key::signer("somebody-else")]);
    let disbelieved = Ledger::new(site.ledger.clone(), layout(), strangers).read().await.unwrap();
    assert_eq!(disbelieved.entries, []);
    let elsewhere = Site::new();
    let catalog = folded(&elsewhere, &disbelieved);
    let text = list(&catalog, false);
    let count = history.entries.len();
    assert!(
        text.starts_with(&format!("no snapshot that is believed: {count} records are not believed; check allowed_signers\n")),
        "{text}"
    );
    assert!(text.contains(&format!("{count} findings in the ledger; {count} records are not believed:\n")), "{text}");
    assert!(!text.contains("take one"), "{text}");
    for (failure, code) in [
        (catalog.resolve("latest").unwrap_err(), "snapshot.none"),
        (catalog.resolve(id("13:05").as_str()).unwrap_err(), "snapshot.unknown"),
        (catalog.resolve_run("latest").unwrap_err(), "run.unknown"),
    ] {
        assert_eq!(failure.code().name, code);
        assert!(failure.cause().ends_with(&format!("and it has {count} records that are not believed")), "{failure:?}");
        assert!(failure.next_action().contains("allowed_signers"), "{failure:?}");
    }
    // Where all is believed, what is not there is not there.
    let whole = folded(&site, &history);
    let failure = whole.resolve("2024").unwrap_err();
    assert_eq!((failure.cause(), failure.next_action()), ("no snapshot in the ledger has this id", failure.code().next));
}

#[tokio::test]
async fn a_lost_key_is_seen_with_every_snapshot_that_needs_it() {
    let (site, _) = site().await;
    let third = site.manifest("15:05", 30, vec![need("key1", Some(KEY1), 3)]);
    site.failed(&third, "15:05", "15:45", "escrow.key-missing", &[]);
    let catalog = folded(&site, &history(&site).await);
    let text = list(&catalog, false);
    fits(&text);
    assert!(headline(&catalog).ends_with("; it is not restorable now"), "{text}");
    insta::assert_snapshot!(text);
    let shown = words(&show(&catalog, id("13:05").as_str(), false));
    assert!(shown.contains(&format!("restorable no: aescbc key key1 ({KEY1}) was not opened")), "{shown}");
    assert!(shown.contains("MISSING since") && shown.contains("20 min ago"), "{shown}");
}

#[tokio::test]
async fn a_rehearsal_that_could_not_run_judges_nothing() {
    let site = Site::new();
    let about = site.manifest("13:05", 10, vec![]);
    site.attestation(&about, "13:05", "14:00", Some(Rung::Serve), true);
    site.failed(&about, "13:05", "15:05", "store.unreachable", &[]);
    let catalog = folded(&site, &history(&site).await);
    let text = words(&list(&catalog, false));
    assert!(text.contains("could not run 1 h ago") && !text.contains("FAILED"), "{text}");
    assert!(catalog.latest().unwrap().unwrap().restorable);
    assert_eq!(headline(&catalog), format!("last proven restore: 2 h 5 min ago ({} to serve)", id("13:05")));
    // Nor does it take back what an earlier one found.
    site.failed(&about, "13:05", "15:35", "rehearsal.undecryptable", &[]);
    site.failed(&about, "13:05", "15:45", "interrupted", &[]);
    let catalog = folded(&site, &history(&site).await);
    let text = words(&list(&catalog, false));
    assert!(text.contains("FAILED 30 min ago") && text.contains("interrupted 20 min ago"), "{text}");
    assert!(!catalog.latest().unwrap().unwrap().restorable);
    let failed = format!("last proven restore: 2 h 5 min ago ({} to serve); its newest rehearsal FAILED", id("13:05"));
    assert_eq!(headline(&catalog), failed);
    let value: Value = serde_json::from_str(&list(&catalog, true)).unwrap();
    assert_eq!(value["last_proven_restore_doubt"], "its newest rehearsal FAILED");
}

#[tokio::test]
async fn a_pass_in_the_second_of_a_failure_wins_where_it_came_later() {
    for passes_last in [true, false] {
        let site = Site::new();
        let about = site.manifest("13:05", 10, vec![]);
        // The run's ids stand in the opposite order of the chain in one case.
        let (first, second) = if passes_last { ("14:20", "14:10") } else { ("14:10", "14:20") };
        for (run, passed) in [(first, !passes_last), (second, passes_last)] {
            site.attestation_by(&site.rehearsal_host, |link| {
                let mut made = attestation(link, &about, "13:05", run, passed.then_some(Rung::Serve), passed);
                made.finished = time("15:00");
                made
            });
        }
        let row = folded(&site, &history(&site).await).latest().unwrap().unwrap();
        assert_eq!((row.last_attempt.unwrap().passed, row.restorable), (passes_last, passes_last));
    }
}

#[tokio::test]
async fn the_json_of_a_list_keeps_its_names() {
    let (site, history) = site().await;
    let value: Value = serde_json::from_str(&list(&folded(&site, &history), true)).unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&value).unwrap());
}

#[tokio::test]
async fn one_snapshot_is_shown_whole() {
    let (site, history) = site().await;
    let catalog = folded(&site, &history);
    let text = show(&catalog, "latest", false);
    fits(&text);
    insta::assert_snapshot!(text);
    let value: Value = serde_json::from_str(&show(&catalog, id("13:05").as_str(), true)).unwrap();
    assert_eq!(value["snapshot"]["id"], id("13:05").as_str());
    assert_eq!(value["manifest"]["image"]["revision"], 10);
    assert_eq!(value["attestations"][0]["reached"], "serve");
}

#[tokio::test]
async fn an_unknown_snapshot_prints_nothing() {
    let (site, history) = site().await;
    let mut out = Vec::new();
    let failure = cli::show::print(&folded(&site, &history), "2024", false, &mut out, now()).unwrap_err();
    assert_eq!((failure.code().name, failure.exit(), out.len()), ("snapshot.unknown", Exit::CouldNotRun, 0));
}

#[tokio::test]
async fn names_from_a_snapshot_steer_no_terminal() {
    let site = Site::new();
    site.manifest("13:05", 10, vec![need("\u{1b}[2Jkey\nNAME", Some(KEY1), 4)]);
    let catalog = folded(&site, &history(&site).await);
    for text in [list(&catalog, false), show(&catalog, "latest", false)] {
        assert!(!text.contains('\u{1b}') && !text.contains("\nNAME"), "{text}");
    }
}

#[tokio::test]
async fn a_rebuild_says_what_it_read_and_what_it_could_not_bring_back() {
    let (site, history) = site().await;
    let print = |history, json| {
        let rebuilt = Catalog::rebuild(site.state.path(), history).unwrap();
        let mut out = Vec::new();
        let exit = cli::catalog::print_rebuilt(&rebuilt, history, json, &mut out).unwrap();
        (exit, String::from_utf8(out).unwrap())
    };
    let (exit, text) = print(&history, false);
    assert_eq!(exit, Exit::Good);
    assert!(text.starts_with("catalog rebuilt from 10 records of the ledger\njournals of runs are local"), "{text}");
    site.ledger.plant(&history.entries[0].path, b"{}");
    let altered = site.reader().read().await.unwrap();
    let (exit, text) = print(&altered, true);
    assert_eq!(exit, Exit::Bad);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&value["records"], &value["journals_lost"]), (&Value::from(9), &Value::from(false)));
}
