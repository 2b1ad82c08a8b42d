//! What `list`, `show` and `catalog rebuild` print.

use holdfast::base::exit::Exit;
use holdfast::catalog::Catalog;
use holdfast::cli;
use jiff::Timestamp;
use serde_json::Value;

use super::{folded, history, site};
use crate::ledger::records::{KEY1, Site, id, manifest, need};

fn now() -> Timestamp {
    "2026-12-01T16:05:00Z".parse().unwrap()
}

fn list(catalog: &Catalog, json: bool) -> String {
    let mut out = Vec::new();
    assert_eq!(cli::list::print(catalog, json, &mut out, now()).unwrap(), Exit::Good);
    String::from_utf8(out).unwrap()
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
    fits(&text.lines().filter(|line| !line.starts_with("object ")).map(|line| format!("{line}\n")).collect::<String>());
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
