//! Stores that fail: nothing half visible, nothing lost.

use holdfast::backup::take::Known;
use holdfast::base::exit::Exit;
use holdfast::ledger::{Document, History, Ledger};
use holdfast::record::layout::Layout;
use holdfast::record::manifest::Quality;
use holdfast::store::ErrorKind;
use holdfast::store::layers::{Fault, FaultStore};

use super::bench::{Bench, Keys};
use crate::test_key;

pub async fn history(bench: &Bench) -> History {
    bench.ledger.heal();
    let layout = Layout::new(&bench.config.ledger.prefix, &bench.config.cluster);
    let allowed = test_key::allowed(&[&test_key::signer("cp-1")]);
    Ledger::new(bench.ledger.clone(), layout, allowed).read().await.unwrap()
}

pub fn known(history: &History) -> Known {
    let mut known = Known::default();
    for entry in &history.entries {
        match &entry.document {
            Document::Receipt(receipt) => known.receipts.push(receipt.as_ref().clone()),
            Document::Host(host) => known.host = Some(host.as_ref().clone()),
            _ => {}
        }
    }
    known
}

fn same(store: FaultStore) -> FaultStore {
    store
}

#[tokio::test]
async fn whichever_put_of_the_snapshot_store_fails_nothing_is_visible() {
    let mut failed = 0;
    for n in 1.. {
        let broken = move |store: FaultStore| store.fail(n..=n, Fault::Refused(ErrorKind::Denied));
        let bench = Bench::with(Keys::All, broken, same, same);
        let taken = bench.take().await;
        if taken.is_ok() {
            break;
        }
        failed += 1;
        let failure = taken.unwrap_err();
        assert_eq!((failure.code().name, failure.exit()), ("store.denied", Exit::CouldNotRun), "put {n}");
        assert!(!bench.shows_a_snapshot().await, "put {n}");
    }
    assert_eq!(failed, 4, "object, RESTORE.md, signature and manifest can each fail");
}

#[tokio::test]
async fn a_store_that_breaks_off_in_the_middle_shows_no_object() {
    let cut = |store: FaultStore| store.fail(1..=1, Fault::CutAfter(100));
    let bench = Bench::with(Keys::All, cut, same, same);
    bench.take().await.unwrap_err();
    assert_eq!(Bench::names(&bench.snapshots).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_manifest_that_could_not_be_put_waits_and_the_next_command_delivers_it() {
    let broken = |store: FaultStore| store.fail(3.., Fault::Refused(ErrorKind::Transient));
    let bench = Bench::with(Keys::All, broken, same, same);
    let failure = bench.take().await.unwrap_err();
    assert!(failure.next_action().contains("outbox"), "{failure:?}");
    assert!(!bench.shows_a_snapshot().await);
    bench.take().await.unwrap();
    let manifests = Bench::names(&bench.snapshots).await.into_iter().filter(|name| name.ends_with("manifest.json")).count();
    assert_eq!(manifests, 2);
}

#[tokio::test]
async fn without_escrow_the_manifest_goes_out_incomplete_and_the_deposit_is_made_up_for() {
    let down = |store: FaultStore| store.fail(1.., Fault::Refused(ErrorKind::Transient));
    let bench = Bench::with(Keys::All, same, down, same);
    let taken = bench.take().await.unwrap();
    assert_eq!((taken.manifest.quality, taken.exit()), (Quality::Incomplete, Exit::Bad));
    assert!(taken.manifest.keys.iter().all(|key| key.escrow_record.is_none()));
    assert!(taken.manifest.problems.iter().any(|problem| problem.code == "escrow-gap"));
    assert!(bench.shows_a_snapshot().await, "an image without its keys is still kept");
    bench.escrow.heal();
    let taken = bench.take().await.unwrap();
    assert!(taken.manifest.keys.iter().any(|key| key.escrow_record.is_some()));
}

#[tokio::test]
async fn an_escrow_store_that_never_answers_holds_the_manifest_up_only_until_the_deadline() {
    let silent = |store: FaultStore| store.fail(1.., Fault::Hangs);
    let bench = Bench::with(Keys::All, same, silent, same);
    let taken = bench.take().await.unwrap();
    assert_eq!(taken.manifest.quality, Quality::Incomplete);
    assert!(taken.warnings.iter().any(|warning| warning.code().name == "escrow.unreachable"), "{:?}", taken.warnings);
}

#[tokio::test]
async fn a_ledger_that_is_down_delays_records_and_nothing_else() {
    let down = |store: FaultStore| store.fail(1.., Fault::Refused(ErrorKind::Transient));
    let bench = Bench::with(Keys::All, same, same, down);
    let taken = bench.take().await.unwrap();
    assert!(bench.shows_a_snapshot().await);
    assert!(taken.warnings.iter().any(|warning| warning.code().name == "ledger.unreachable"), "{:?}", taken.warnings);
    bench.ledger.heal();
    bench.take().await.unwrap();
    let history = history(&bench).await;
    assert_eq!(history.findings, []);
    let manifests = history.entries.iter().filter(|entry| matches!(entry.document, Document::Manifest(_))).count();
    assert_eq!(manifests, 2);
}
