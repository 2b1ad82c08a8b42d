//! The outbox: numbers, crashes, and delivery to stores that fail.

use std::fs;
use std::path::PathBuf;

use holdfast::ledger::{Appended, Outbox, Place};
use holdfast::store::ErrorKind;

use super::records::{KEY1, KEY2, LINEAGE, Site, copy_of, id, layout, need, receipt, receipt_in};
use super::shelf::Rules;
use crate::test_key;

fn links(appended: &[Appended]) -> Vec<u64> {
    for pair in appended.windows(2) {
        assert_eq!(pair[1].link.prev, Some(pair[0].sha256));
    }
    appended.iter().map(|appended| appended.link.seq).collect()
}

fn files(site: &Site) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(site.state.path().join("outbox")).unwrap().map(|item| item.unwrap().path()).collect();
    files.sort();
    files
}

#[tokio::test]
async fn numbers_run_over_all_kinds_of_a_signer_and_go_on_after_delivery_and_reopening() {
    let site = Site::new();
    let mut appended = vec![site.receipt(KEY1, "13:00"), site.host(&[("key1", KEY1)], "13:01")];
    site.outbox.deliver(&site.stores()).await.unwrap();
    assert_eq!(site.outbox.waiting().unwrap(), 0);
    appended.push(site.manifest("13:05", 10, vec![]));
    let other = site.report("13:05", "14:00");
    appended.push(receipt_in(&Outbox::open(site.state.path()).unwrap(), &site.backup_host, KEY2, "13:06"));
    assert_eq!(links(&appended), [1, 2, 3, 4]);
    assert_eq!((other.link.seq, other.link.prev), (1, None));
    assert_eq!(appended[0].link.prev, None);
}

#[tokio::test]
async fn a_record_that_waits_under_its_name_is_not_made_again() {
    let site = Site::new();
    let make = |link| receipt(link, KEY1, "13:00");
    let path = receipt(site.receipt(KEY2, "12:00").link, KEY1, "13:00").path;
    let once = || site.outbox.append_once(&site.backup_host, make, (Place::Ledger, path.clone())).unwrap();
    assert!(!site.outbox.waits_for(Place::Ledger, &path).unwrap());
    let first = once();
    assert_eq!((once(), site.outbox.waiting().unwrap()), (first.clone(), 2));
    assert!(site.outbox.waits_for(Place::Ledger, &path).unwrap());
    assert!(!site.outbox.waits_for(Place::Snapshots, &path).unwrap());
    assert_eq!(links(&[first, site.receipt(KEY2, "13:10")]), [2, 3]);
}

#[tokio::test]
async fn every_signature_is_put_before_its_record_and_records_in_their_order() {
    let site = Site::new();
    site.receipt(KEY1, "13:00");
    let manifest = site.manifest("13:05", 10, vec![]);
    site.receipt(KEY2, "13:06");
    let delivery = site.outbox.deliver(&site.stores()).await.unwrap();
    assert_eq!((delivery.delivered.len(), delivery.waiting.len()), (4, 0));

    let (lineage, id) = (LINEAGE.parse().unwrap(), id("13:05"));
    let (home, copy) = (layout().snapshot_manifest(&lineage, &id), layout().ledger_manifest(&lineage, &id));
    assert_eq!(site.snapshots.take_puts(), [format!("{home}.sig"), home.clone()]);
    let puts = site.ledger.take_puts();
    assert_eq!(puts.len(), 6);
    for pair in puts.chunks(2) {
        assert_eq!(pair[0], format!("{}.sig", pair[1]));
    }
    assert_eq!(puts[3], copy);
    assert!(puts[1].contains(KEY1) && puts[5].contains(KEY2));
    assert_eq!(site.snapshots.get(&home), manifest.bytes);
    assert_eq!(site.ledger.get(&copy), manifest.bytes);
    assert_eq!(site.ledger.get(&format!("{copy}.sig")), manifest.signature.as_bytes());
}

#[tokio::test]
async fn a_ledger_that_is_down_holds_up_its_own_records_only_and_gets_them_in_order() {
    let site = Site::new();
    site.ledger.rule(Rules { down: Some(ErrorKind::Transient), ..Rules::default() });
    site.receipt(KEY1, "13:00");
    site.manifest("13:05", 10, vec![]);
    let delivery = site.outbox.deliver(&site.stores()).await.unwrap();
    assert_eq!(site.snapshots.names().len(), 2);
    assert_eq!(delivery.delivered.len(), 1);
    assert_eq!(delivery.waiting.len(), 2);
    assert_eq!(delivery.blocked(Place::Ledger).unwrap().code().name, "ledger.unreachable");
    assert!(delivery.blocked(Place::Snapshots).is_none());
    assert_eq!(site.ledger.names(), [""; 0]);

    site.receipt(KEY2, "13:06");
    site.snapshots.take_puts();
    site.ledger.rule(Rules::default());
    let delivery = site.outbox.deliver(&site.stores()).await.unwrap();
    assert_eq!((delivery.delivered.len(), delivery.waiting.len()), (3, 0));
    assert_eq!(site.snapshots.take_puts(), [""; 0]);
    let puts = site.ledger.take_puts();
    assert!(puts[1].contains(KEY1) && puts[3].contains("manifests") && puts[5].contains(KEY2), "{puts:?}");
    let history = site.reader().read().await.unwrap();
    assert_eq!((history.entries.len(), history.findings), (3, vec![]));
}

#[tokio::test]
async fn rights_to_put_are_enough_and_a_lost_answer_is_no_failure_forever() {
    let site = Site::new();
    for shelf in [&site.snapshots, &site.ledger] {
        shelf.rule(Rules { put_only: true, answer_lost: true, ..Rules::default() });
    }
    site.manifest("13:05", 10, vec![]);
    // Each round stores one more object and does not hear of it.
    for _ in 0..2 {
        assert_eq!(site.outbox.deliver(&site.stores()).await.unwrap().waiting.len(), 2);
    }
    let delivery = site.outbox.deliver(&site.stores()).await.unwrap();
    assert_eq!((delivery.delivered.len(), delivery.waiting.len()), (2, 0));
    assert_eq!((site.snapshots.names().len(), site.ledger.names().len()), (2, 2));
}

#[tokio::test]
async fn another_object_under_a_records_name_in_the_ledger_is_told_and_holds_up_nothing_else() {
    let site = Site::new();
    let mine = site.receipt(KEY1, "13:00");
    let path = serde_json::from_slice::<serde_json::Value>(&mine.bytes).unwrap()["path"].as_str().unwrap().to_owned();
    site.ledger.plant(&path, b"{}\n");
    site.receipt(KEY2, "13:06");
    let delivery = site.outbox.deliver(&site.stores()).await.unwrap();
    assert_eq!((delivery.delivered.len(), delivery.waiting.len()), (1, 1));
    assert_eq!(delivery.waiting[0].object, path);
    assert_eq!(delivery.waiting[0].why.code().name, "store.exists");
    assert_eq!(site.outbox.waiting().unwrap(), 1);
}

#[tokio::test]
async fn a_store_that_this_host_does_not_have_leaves_its_records_waiting() {
    let site = Site::new();
    site.manifest("13:05", 10, vec![]);
    let mut stores = site.stores();
    stores.snapshots = None;
    let delivery = site.outbox.deliver(&stores).await.unwrap();
    assert_eq!(delivery.delivered.len(), 1);
    assert_eq!(delivery.blocked(Place::Snapshots).unwrap().code().name, "config.section-missing");
    site.outbox.deliver(&site.stores()).await.unwrap();
    assert_eq!((site.snapshots.names().len(), site.outbox.waiting().unwrap()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_never_answers_counts_as_down() {
    let site = Site::new();
    site.ledger.rule(Rules { silent: true, ..Rules::default() });
    site.manifest("13:05", 10, vec![]);
    let delivery = site.outbox.deliver(&site.stores()).await.unwrap();
    assert_eq!((delivery.delivered.len(), delivery.waiting.len()), (1, 1));
    assert!(delivery.waiting[0].why.cause().contains("no answer within 30 s"), "{:?}", delivery.waiting[0].why);
}

/// Fails the first call, then the second, … until a whole round succeeds.
#[tokio::test]
async fn whatever_call_fails_the_next_round_leaves_the_same_objects() {
    let whole = Site::new();
    whole.receipt(KEY1, "13:00");
    whole.manifest("13:05", 10, vec![need("key1", Some(KEY1), 4)]);
    whole.outbox.deliver(&whole.stores()).await.unwrap();
    for n in 1..20 {
        let site = Site::new();
        site.receipt(KEY1, "13:00");
        site.manifest("13:05", 10, vec![need("key1", Some(KEY1), 4)]);
        site.ledger.rule(Rules { fail_call: Some(n), ..Rules::default() });
        let first = site.outbox.deliver(&site.stores()).await.unwrap();
        if first.waiting.is_empty() {
            assert_eq!(n, 5, "two records are four puts");
            return;
        }
        site.outbox.deliver(&site.stores()).await.unwrap();
        assert_eq!(site.ledger.names(), whole.ledger.names(), "call {n}");
        assert_eq!(site.outbox.waiting().unwrap(), 0);
        assert_eq!(site.reader().read().await.unwrap().findings, [], "call {n}");
    }
    panic!("no round succeeded");
}

#[tokio::test]
async fn a_crash_in_an_append_leaves_neither_a_gap_nor_a_number_used_twice() {
    let site = Site::new();
    site.receipt(KEY1, "13:00");
    site.outbox.deliver(&site.stores()).await.unwrap();
    let before = copy_of(site.state.path());
    // Killed while the bytes were written: a part of a temporary file.
    fs::write(before.path().join("outbox/.writing-x1y2z3"), b"{\"signer\":\"cp").unwrap();
    let outbox = Outbox::open(before.path()).unwrap();
    let again = receipt_in(&outbox, &site.backup_host, KEY2, "13:06");
    assert_eq!(again.link.seq, 2);
    assert!(!before.path().join("outbox/.writing-x1y2z3").exists());

    // Killed right after the rename: the record exists, though nobody was told.
    site.receipt(KEY2, "13:06");
    let after = copy_of(site.state.path());
    let outbox = Outbox::open(after.path()).unwrap();
    let next = receipt_in(&outbox, &site.backup_host, KEY1, "13:07");
    assert_eq!(next.link.seq, 3);
    outbox.deliver(&site.stores()).await.unwrap();
    let history = site.reader().read().await.unwrap();
    assert_eq!((history.entries.len(), history.findings), (3, vec![]));
}

#[tokio::test]
async fn a_crash_in_a_delivery_repeats_and_loses_nothing() {
    let site = Site::new();
    site.manifest("13:05", 10, vec![]);
    let undelivered = copy_of(site.state.path());
    let last = files(&site).into_iter().next_back().unwrap();
    let record = fs::read(&last).unwrap();
    site.outbox.deliver(&site.stores()).await.unwrap();
    let delivered = copy_of(site.state.path());

    // Killed after the stores had it and before the outbox knew.
    let outbox = Outbox::open(undelivered.path()).unwrap();
    let delivery = outbox.deliver(&site.stores()).await.unwrap();
    assert_eq!((delivery.delivered.len(), delivery.waiting.len()), (2, 0));
    assert_eq!(receipt_in(&outbox, &site.backup_host, KEY1, "13:06").link.seq, 2);

    // Killed after the numbers were written and before the record was removed.
    fs::write(delivered.path().join("outbox").join(last.file_name().unwrap()), record).unwrap();
    let outbox = Outbox::open(delivered.path()).unwrap();
    assert_eq!(outbox.deliver(&site.stores()).await.unwrap().delivered.len(), 2);
    assert_eq!(outbox.waiting().unwrap(), 0);
    let next = receipt_in(&outbox, &site.backup_host, KEY1, "13:06");
    assert_eq!(next.link.seq, 2);
    outbox.deliver(&site.stores()).await.unwrap();
    assert_eq!(site.reader().read().await.unwrap().findings, []);
}

#[test]
fn appends_at_the_same_time_get_distinct_consecutive_numbers() {
    let site = Site::new();
    let mut appended: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let (site, state) = (&site, site.state.path());
                scope.spawn(move || {
                    let outbox = Outbox::open(state).unwrap();
                    (0..5).map(|n| receipt_in(&outbox, &site.backup_host, KEY1, &format!("1{thread}:0{n}"))).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    appended.sort_by_key(|appended| appended.link.seq);
    assert_eq!(links(&appended), (1..=20).collect::<Vec<u64>>());
}

#[tokio::test]
async fn deliveries_and_appends_at_the_same_time_lose_nothing() {
    let site = Site::new();
    for n in 0..5 {
        site.manifest(&format!("13:0{n}"), 10 + n, vec![]);
    }
    let outbox = Outbox::open(site.state.path()).unwrap();
    let stores = site.stores();
    let (left, right) = tokio::join!(site.outbox.deliver(&stores), async {
        site.receipt(KEY1, "13:30");
        outbox.deliver(&stores).await
    });
    assert!(left.unwrap().waiting.is_empty() && right.unwrap().waiting.is_empty());
    site.outbox.deliver(&stores).await.unwrap();
    assert_eq!(site.outbox.waiting().unwrap(), 0);
    let history = site.reader().read().await.unwrap();
    assert_eq!((history.entries.len(), history.findings), (6, vec![]));
    assert_eq!(site.receipt(KEY1, "13:31").link.seq, 7);
}

#[tokio::test]
async fn a_state_directory_that_was_lost_goes_on_where_the_ledger_ends() {
    let site = Site::new();
    site.receipt(KEY1, "13:00");
    site.receipt(KEY1, "13:01");
    site.outbox.deliver(&site.stores()).await.unwrap();
    let fresh = tempfile::tempdir().unwrap();
    let outbox = Outbox::open(fresh.path()).unwrap();
    let heads = site.reader().read().await.unwrap().heads();
    for (signer, head) in heads.clone() {
        outbox.resume(&signer, head).unwrap();
    }
    receipt_in(&outbox, &site.backup_host, KEY1, "13:02");
    outbox.resume(site.backup_host.principal(), heads[site.backup_host.principal()].clone()).unwrap();
    assert_eq!(receipt_in(&outbox, &site.backup_host, KEY1, "13:03").link.seq, 4);
    outbox.deliver(&site.stores()).await.unwrap();
    assert_eq!(site.reader().read().await.unwrap().findings, []);
}

#[test]
fn a_record_that_could_not_be_found_again_takes_no_number() {
    let site = Site::new();
    let signer = &site.backup_host;
    let path = layout().receipt(&KEY1.parse().unwrap(), "20261201T130000Z", signer.principal(), "0a1b2c3d");
    let append = |name: &str, seq: u64, destinations: &[(Place, String)]| {
        let make = |mut link: holdfast::record::Link| {
            link.name = name.parse().unwrap();
            link.seq += seq;
            receipt(link, KEY1, "13:00")
        };
        site.outbox.append(signer, make, destinations).unwrap_err().code().name
    };
    let ledger = |path: &str| vec![(Place::Ledger, path.to_owned())];
    for (name, seq, destinations) in [
        ("cp-1", 1, ledger(&path)),
        ("cp-2", 0, ledger(&path)),
        ("cp-1", 0, ledger("elsewhere.json")),
        ("cp-1", 0, [ledger(&path), ledger("../up.json")].concat()),
        ("cp-1", 0, vec![(Place::Escrow, path.clone())]),
        ("cp-1", 0, vec![]),
    ] {
        assert_eq!(append(name, seq, &destinations), "record.invalid", "{name} {seq} {destinations:?}");
    }
    assert_eq!(site.outbox.waiting().unwrap(), 0);
    assert_eq!(site.receipt(KEY1, "13:00").link.seq, 1);
}

#[tokio::test]
async fn a_damaged_file_in_the_outbox_is_named_and_never_sent() {
    let site = Site::new();
    site.receipt(KEY1, "13:00");
    let file = files(&site).into_iter().next_back().unwrap();
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("key1", "key9")).unwrap();
    let failure = site.outbox.deliver(&site.stores()).await.unwrap_err();
    assert_eq!(failure.code().name, "state.unusable");
    assert_eq!(failure.object(), file.display().to_string());
    assert_eq!(site.ledger.names(), [""; 0]);
}

#[test]
fn no_secret_lies_in_the_outbox() {
    let site = Site::new();
    site.receipt(KEY1, "13:00");
    let pem = fs::read_to_string(test_key::data("test-key")).unwrap();
    for file in files(&site) {
        let text = fs::read_to_string(file).unwrap();
        assert!(pem.lines().filter(|line| !line.starts_with('-')).all(|line| !text.contains(line)));
    }
}
