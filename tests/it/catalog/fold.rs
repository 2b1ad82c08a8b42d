//! Folding and rebuilding.

use std::fs;

use holdfast::base::entropy::SeededEntropy;
use holdfast::catalog::Catalog;
use holdfast::ledger::{Finding, History};
use holdfast::record::Record;
use holdfast::record::Rung;
use holdfast::record::signature::sign_record;
use holdfast::runbook::journal::{Journal, ProcessMark, RunHead};

use super::{answers, folded, history, site};
use crate::ledger::records::{KEY1, KEY2, Site, id, manifest, need, receipt};
use crate::test_key;

fn codes(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|finding| finding.code.as_str()).collect()
}

fn head() -> RunHead {
    RunHead {
        run: id("14:00").as_str().parse().unwrap(),
        runbook: "etcd-restore".into(),
        runbook_digest: holdfast::base::digest::Sha256::of(b"runbook"),
        until: Rung::Serve,
        cluster: "prod".parse().unwrap(),
        snapshot: id("13:05"),
        trigger: "person".into(),
        host: "rehearsal-1".parse().unwrap(),
        tool: "holdfast test".into(),
        started: "2026-12-01T14:00:00Z".parse().unwrap(),
        uptime_ms: 1,
        process: ProcessMark::new(&SeededEntropy::new(1)),
        attended: false,
        incident: None,
    }
}

#[tokio::test]
async fn folding_twice_is_folding_once_and_two_openers_see_the_same() {
    let (site, history) = site().await;
    let mut catalog = folded(&site, &history);
    let once = answers(&catalog);
    catalog.fold(&history).unwrap();
    assert_eq!(answers(&catalog), once);
    assert_eq!(answers(&Catalog::open(site.state.path()).unwrap()), once);
    assert_eq!(catalog.findings().unwrap(), []);
}

#[tokio::test]
async fn a_fold_step_by_step_says_what_one_fold_says() {
    let site = Site::new();
    let mut catalog = Catalog::open(site.state.path()).unwrap();
    assert_eq!(catalog.snapshots().unwrap(), []);
    site.receipt(KEY1, "13:00");
    catalog.fold(&history(&site).await).unwrap();
    site.manifest("13:05", 10, vec![need("key1", Some(KEY1), 4)]);
    catalog.fold(&history(&site).await).unwrap();
    let at_once = tempfile::tempdir().unwrap();
    let mut other = Catalog::open(at_once.path()).unwrap();
    other.fold(&history(&site).await).unwrap();
    assert_eq!(answers(&catalog), answers(&other));
}

#[tokio::test]
async fn a_rebuild_of_a_lost_file_gives_the_same_answers_and_says_that_journals_are_lost() {
    let (site, history) = site().await;
    let before = answers(&folded(&site, &history));
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(site.state.path().join(format!("catalog.db{suffix}")));
    }
    let rebuilt = Catalog::rebuild(site.state.path(), &history).unwrap();
    assert_eq!(answers(&rebuilt.catalog), before);
    assert!(rebuilt.journals_lost);
    assert_eq!(rebuilt.set_aside, None);
}

#[tokio::test]
async fn a_rebuild_of_a_whole_file_keeps_its_journals() {
    let (site, history) = site().await;
    let before = answers(&folded(&site, &history));
    Catalog::journal(site.state.path()).unwrap().begin(&head()).unwrap();
    let rebuilt = Catalog::rebuild(site.state.path(), &history).unwrap();
    assert_eq!((answers(&rebuilt.catalog), rebuilt.journals_lost), (before, false));
    assert_eq!(Catalog::journal(site.state.path()).unwrap().runs().unwrap(), [head()]);
}

#[tokio::test]
async fn a_broken_file_is_named_and_a_rebuild_moves_it_aside() {
    let (site, history) = site().await;
    let before = answers(&folded(&site, &history));
    let file = site.state.path().join("catalog.db");
    for n in 1..=2 {
        for suffix in ["-wal", "-shm"] {
            let _ = fs::remove_file(site.state.path().join(format!("catalog.db{suffix}")));
        }
        fs::write(&file, b"this is no database, however long one looks at it".repeat(200)).unwrap();
        assert_eq!(Catalog::open(site.state.path()).unwrap_err().code().name, "catalog.broken");
        let rebuilt = Catalog::rebuild(site.state.path(), &history).unwrap();
        assert_eq!((answers(&rebuilt.catalog), rebuilt.journals_lost), (before.clone(), true));
        let aside = rebuilt.set_aside.unwrap();
        assert_eq!(aside.file_name().unwrap().to_str().unwrap(), format!("catalog.db.broken-{n}"));
        assert!(fs::read(aside).unwrap().starts_with(b"this is no database"));
    }
}

#[tokio::test]
async fn a_file_with_damaged_pages_is_moved_aside_too() {
    let (site, history) = site().await;
    let before = answers(&folded(&site, &history));
    let file = site.state.path().join("catalog.db");
    let mut bytes = fs::read(&file).unwrap();
    assert!(bytes.len() > 8 * 4096, "the last connection that closed wrote everything to the file");
    for byte in &mut bytes[4096 + 100..] {
        *byte = byte.wrapping_mul(31).wrapping_add(7);
    }
    fs::write(&file, bytes).unwrap();
    let rebuilt = Catalog::rebuild(site.state.path(), &history).unwrap();
    assert!(rebuilt.set_aside.is_some());
    assert_eq!(answers(&rebuilt.catalog), before);
}

#[tokio::test]
async fn a_catalog_of_a_newer_version_is_left_alone() {
    let (site, history) = site().await;
    let catalog = folded(&site, &history);
    drop(catalog);
    let file = site.state.path().join("catalog.db");
    rusqlite::Connection::open(&file).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let bytes = fs::read(&file).unwrap();
    let failure = Catalog::rebuild(site.state.path(), &history).unwrap_err();
    assert!(failure.cause().contains("newer version"), "{failure}");
    assert_eq!(fs::read(&file).unwrap(), bytes);
}

#[tokio::test]
async fn processes_that_open_a_new_catalog_at_the_same_time_all_succeed() {
    let (site, history) = site().await;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..3 {
                    let catalog = folded(&site, &history);
                    assert_eq!(catalog.snapshots().unwrap().len(), 2);
                }
            });
        }
    });
}

#[tokio::test]
async fn what_is_forged_moved_or_altered_never_comes_in() {
    let (site, _) = site().await;
    let plain = answers(&folded(&site, &history(&site).await));

    // Forged: a good manifest by a key that nobody allows.
    let link = holdfast::record::Link { name: "cp-1".parse().unwrap(), seq: 7, prev: None };
    let forged = manifest(link, "16:00", 99, vec![]);
    let signed = sign_record(&test_key::stranger("cp-1"), &forged).unwrap();
    let at = crate::ledger::records::layout().ledger_manifest(&forged.cluster.lineage, &forged.id);
    site.ledger.plant(&at, &signed.bytes);
    site.ledger.plant(&format!("{at}.sig"), signed.signature.as_bytes());
    // Moved: a receipt of one key under another's folder.
    let names = site.ledger.names();
    let moved = names.iter().find(|name| name.contains(KEY1) && name.ends_with(".json")).unwrap();
    let unknown_key = "hf1-33333333333333333333333333333333";
    for suffix in ["", ".sig"] {
        site.ledger
            .plant(&format!("{}{suffix}", moved.replace(KEY1, unknown_key)), &site.ledger.get(&format!("{moved}{suffix}")));
    }
    let catalog = folded(&site, &history(&site).await);
    assert_eq!(answers(&catalog), plain);
    assert_eq!(codes(&catalog.findings().unwrap()), ["record.bad-signature", "record.misplaced"]);

    // Altered: the second manifest says that it is of another revision.
    let altered = names.iter().find(|name| name.contains(id("13:35").as_str()) && name.contains("manifests")).unwrap();
    let altered = altered.trim_end_matches(".sig");
    let text = String::from_utf8(site.ledger.get(altered)).unwrap().replace("\"revision\":20", "\"revision\":21");
    site.ledger.plant(altered, text.as_bytes());
    let catalog = folded(&site, &history(&site).await);
    let ids: Vec<_> = catalog.snapshots().unwrap().into_iter().map(|row| row.id).collect();
    assert_eq!(ids, [id("13:05")]);
}

#[tokio::test]
async fn a_record_that_was_seen_and_is_gone_from_the_end_of_a_chain_is_a_finding_until_it_is_back() {
    let (site, first) = site().await;
    let mut catalog = folded(&site, &first);
    let last = first.entries.iter().filter(|entry| entry.document.link().name.as_str() == "rehearsal-1");
    let last = last.max_by_key(|entry| entry.document.link().seq).unwrap();
    let (json, sig) = (site.ledger.remove(&last.path), site.ledger.remove(&format!("{}.sig", last.path)));
    let without = history(&site).await;
    assert_eq!(without.findings, [], "a chain cannot show that its end was removed");
    for _ in 0..2 {
        catalog.fold(&without).unwrap();
        let found = catalog.findings().unwrap();
        assert_eq!(codes(&found), ["ledger.record-vanished"]);
        assert_eq!(found[0].object, last.path);
        assert!(found[0].message.contains("is not there any more"), "{found:?}");
    }
    site.ledger.plant(&last.path, &json);
    site.ledger.plant(&format!("{}.sig", last.path), &sig);
    catalog.fold(&history(&site).await).unwrap();
    assert_eq!(catalog.findings().unwrap(), []);
}

#[tokio::test]
async fn a_last_record_that_was_replaced_by_another_good_one_is_a_finding() {
    let site = Site::new();
    let old = site.receipt(KEY1, "13:00");
    let mut catalog = folded(&site, &history(&site).await);
    let mut other = receipt(old.link, KEY1, "13:00");
    other.name = "another".into();
    let signed = sign_record(&site.backup_host, &other).unwrap();
    site.ledger.plant(other.path(), &signed.bytes);
    site.ledger.plant(&format!("{}.sig", other.path()), signed.signature.as_bytes());
    catalog.fold(&history(&site).await).unwrap();
    let found = catalog.findings().unwrap();
    assert_eq!(codes(&found), ["ledger.record-vanished"]);
    assert!(found[0].message.contains("was replaced"), "{found:?}");
}

#[tokio::test]
async fn an_altered_record_is_named_once_and_remembered_when_it_is_removed_too() {
    let site = Site::new();
    site.receipt(KEY2, "13:00");
    let first = history(&site).await;
    let mut catalog = folded(&site, &first);
    let path = &first.entries[0].path;
    site.ledger.plant(path, b"{}");
    catalog.fold(&history(&site).await).unwrap();
    assert_eq!(codes(&catalog.findings().unwrap()), ["record.invalid"]);
    site.ledger.remove(path);
    catalog.fold(&history(&site).await).unwrap();
    assert_eq!(codes(&catalog.findings().unwrap()), ["ledger.record-vanished"]);
}

#[tokio::test]
async fn a_fold_that_fails_changes_nothing() {
    let (site, history) = site().await;
    let mut catalog = folded(&site, &history);
    let before = answers(&catalog);
    // Twice the same path cannot come from a store.
    let mut entries = history.entries.clone();
    entries.extend(history.entries.iter().take(1).cloned());
    let twice = History { entries, findings: vec![] };
    assert_eq!(catalog.fold(&twice).unwrap_err().code().name, "catalog.broken");
    assert_eq!(answers(&catalog), before);
}
