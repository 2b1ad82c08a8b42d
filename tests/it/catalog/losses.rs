//! A key that a rehearsal did not get from escrow is lost for every snapshot.

use holdfast::catalog::Catalog;
use holdfast::record::Rung;

use super::{folded, history};
use crate::ledger::records::{KEY1, KEY2, Site, attestation, failed, id, need};

/// Both keys deposited; the first snapshot needs one of them, the second both,
/// and the rehearsal of the second opened `opened` and failed.
fn rehearsed(failure: &str, opened: &[&str]) -> Site {
    let site = Site::new();
    site.receipt(KEY1, "13:00");
    site.receipt(KEY2, "13:01");
    site.manifest("13:05", 10, vec![need("key1", Some(KEY1), 4)]);
    let second = site.manifest("13:35", 20, vec![need("key1", Some(KEY1), 2), need("key2", Some(KEY2), 2)]);
    site.failed(&second, "13:35", "14:00", failure, opened);
    site
}

async fn catalog(site: &Site) -> Catalog {
    folded(site, &history(site).await)
}

/// Fingerprints that are lost, as `list` says it of keys; `show` must agree.
fn missing(catalog: &Catalog) -> Vec<String> {
    let keys = catalog.keys().unwrap().into_iter().filter(|key| key.missing_since.is_some());
    let keys: Vec<String> = keys.map(|key| key.fingerprint.unwrap()).collect();
    for row in catalog.snapshots().unwrap() {
        for key in row.keys {
            let lost = keys.contains(key.fingerprint.as_ref().unwrap());
            assert_eq!((key.escrowed, key.missing_since.is_some()), (!lost, lost));
        }
    }
    keys
}

fn obstacles(catalog: &Catalog, clock: &str) -> Vec<String> {
    catalog.snapshot(&id(clock)).unwrap().unwrap().row.obstacles
}

#[tokio::test]
async fn a_key_that_a_rehearsal_missed_is_missing_for_every_snapshot_that_needs_it() {
    for failure in ["escrow.key-missing", "escrow.not-opened"] {
        let catalog = catalog(&rehearsed(failure, &[KEY2])).await;
        assert_eq!(missing(&catalog), [KEY1]);
        let lost =
            format!("aescbc key key1 ({KEY1}) was not opened from escrow at 2026-12-01T14:00:00Z, and not deposited since");
        assert_eq!(obstacles(&catalog, "13:05"), std::slice::from_ref(&lost));
        assert_eq!(obstacles(&catalog, "13:35"), [lost, format!("a rehearsal found it bad: {failure}")]);
    }
}

#[tokio::test]
async fn a_rehearsal_that_failed_of_something_else_loses_no_key() {
    for failure in ["store.unreachable", "rehearsal.undecryptable", "interrupted"] {
        let catalog = catalog(&rehearsed(failure, &[])).await;
        assert_eq!(missing(&catalog), [] as [String; 0], "{failure}");
        assert_eq!(obstacles(&catalog, "13:05"), [] as [String; 0]);
    }
}

#[tokio::test]
async fn a_snapshot_that_does_not_need_the_lost_key_stays_restorable() {
    let catalog = catalog(&rehearsed("escrow.key-missing", &[KEY1])).await;
    assert_eq!(missing(&catalog), [KEY2]);
    assert_eq!(obstacles(&catalog, "13:05"), [] as [String; 0]);
}

#[tokio::test]
async fn a_later_deposit_or_opening_takes_the_loss_back_and_an_earlier_one_does_not() {
    let site = rehearsed("escrow.key-missing", &[]);
    assert_eq!(missing(&catalog(&site).await), [KEY1, KEY2]);
    site.receipt(KEY1, "14:01");
    assert_eq!(missing(&catalog(&site).await), [KEY2]);
    // It is opened in a rehearsal that failed all the same, of another key.
    let third = site.manifest("14:02", 30, vec![need("key2", Some(KEY2), 2), need("key1", Some(KEY1), 2)]);
    site.failed(&third, "14:02", "14:03", "escrow.key-missing", &[KEY2]);
    assert_eq!(missing(&catalog(&site).await), [KEY1]);
}

#[tokio::test]
async fn the_loss_is_as_old_as_the_first_rehearsal_that_met_it() {
    let site = rehearsed("escrow.key-missing", &[KEY2]);
    let third = site.manifest("14:02", 30, vec![need("key1", Some(KEY1), 2)]);
    site.failed(&third, "14:02", "14:03", "escrow.key-missing", &[]);
    let since = |catalog: &Catalog| catalog.keys().unwrap()[0].missing_since.clone();
    assert_eq!(since(&catalog(&site).await).as_deref(), Some("2026-12-01T14:00:00Z"));
}

#[tokio::test]
async fn within_one_second_a_chain_tells_the_order_and_between_two_the_loss_is_believed() {
    let site = Site::new();
    site.receipt(KEY1, "13:00");
    let about = site.manifest("13:05", 10, vec![need("key1", Some(KEY1), 4)]);
    let lose = |link| failed(link, &about, "13:05", "13:10", "escrow.key-missing", &[]);
    site.attestation_by(&site.backup_host, lose);
    assert_eq!(missing(&catalog(&site).await), [KEY1]);
    site.receipt(KEY1, "13:10");
    assert_eq!(missing(&catalog(&site).await), [] as [String; 0], "the same host deposited it afterwards");

    let site = Site::new();
    let about = site.manifest("13:05", 10, vec![need("key1", Some(KEY1), 4)]);
    site.receipt(KEY1, "13:10");
    site.failed(&about, "13:05", "13:10", "escrow.key-missing", &[]);
    assert_eq!(missing(&catalog(&site).await), [KEY1], "nobody can tell whether it was deposited afterwards");
}

#[tokio::test]
async fn a_rehearsal_of_another_manifest_loses_no_key() {
    let site = Site::new();
    site.receipt(KEY1, "13:00");
    let about = site.manifest("13:05", 10, vec![need("key1", Some(KEY1), 4)]);
    let mut other = about.clone();
    other.sha256 = holdfast::base::digest::Sha256::of(b"another");
    site.failed(&other, "13:05", "14:00", "escrow.key-missing", &[]);
    assert_eq!(missing(&catalog(&site).await), [] as [String; 0]);
}

#[tokio::test]
async fn a_receipt_stands_until_its_key_is_missed_and_again_when_it_is_opened() {
    let site = rehearsed("escrow.key-missing", &[KEY2]);
    let host = site.backup_host.principal();
    let standing = |catalog: &Catalog| -> Vec<String> {
        catalog.receipts_standing(host).unwrap().iter().map(|receipt| receipt.deposited.clone()).collect()
    };
    let now = catalog(&site).await;
    assert_eq!(standing(&now), ["2026-12-01T13:01:00Z"], "that of the key that was opened");
    assert_eq!(now.receipts_standing(site.rehearsal_host.principal()).unwrap(), []);
    // A new deposit stands; the one that was refuted does not stand again.
    site.receipt(KEY1, "14:10");
    assert_eq!(standing(&catalog(&site).await), ["2026-12-01T14:10:00Z", "2026-12-01T13:01:00Z"]);
    let third = site.manifest("14:12", 30, vec![need("key1", Some(KEY1), 2)]);
    site.attestation_by(&site.rehearsal_host, |link| {
        let mut passed = attestation(link.clone(), &third, "14:12", "14:13", Some(Rung::Serve), true);
        passed.escrow_opened = failed(link, &third, "14:12", "14:13", "", &[KEY1]).escrow_opened;
        passed
    });
    assert_eq!(standing(&catalog(&site).await).len(), 3);
}
