//! Records that nobody allowed wrote: never believed, always told.

use std::fs;

use crate::site::{REHEARSER, Site};

/// Signs the good snapshot's ledger copy anew, as `cp-1` but with the key of another host.
fn forge(site: &Site) {
    let record = site.file("ledger", &["manifests", site.good().as_str(), ".json.sig"]);
    let bytes = fs::read(record.with_extension("")).unwrap();
    let forged = site.signer(REHEARSER).sign("holdfast-manifest", &bytes).unwrap();
    fs::write(&record, forged).unwrap();
}

#[test]
fn a_forged_record_is_a_finding_and_its_snapshot_is_not_listed() {
    let site = Site::with_snapshots();
    forge(&site);
    site.ask(&["list"]).exits(1).is("list-forged");
    let list = site.ask(&["list", "--json"]).exits(1).document();
    assert_eq!(list["snapshots"].as_array().unwrap().len(), 1);
    assert_eq!(list["findings"][0]["code"], "record.bad-signature");
    site.ask(&["catalog", "rebuild"]).exits(1).is("rebuild-forged");
    let rebuilt = site.ask(&["catalog", "rebuild", "--json"]).exits(1).document();
    assert_eq!(rebuilt["findings"][0]["code"], "record.bad-signature");
    site.ask(&["show", site.good().as_str()]).exits(2);
}

#[test]
fn a_record_that_was_seen_and_is_gone_is_a_finding() {
    let site = Site::with_snapshots();
    site.ask(&["list"]).exits(0);
    let record = site.file("ledger", &["manifests", site.good().as_str(), ".json.sig"]);
    fs::remove_file(record.with_extension("")).unwrap();
    fs::remove_file(record).unwrap();
    let list = site.ask(&["list"]).exits(1);
    assert!(list.stdout.contains("[ledger.record-vanished]"), "{list:#?}");
    assert_eq!(site.ask(&["list", "--json"]).document()["findings"][0]["code"], "ledger.record-vanished");
}

#[test]
fn a_list_of_signers_with_a_mistake_is_named_with_its_line() {
    let site = Site::with_snapshots();
    let list = site.path("allowed_signers");
    let text = fs::read_to_string(&list).unwrap();
    fs::write(&list, text + "cp-9 ssh-ed25519 AAAA\n").unwrap();
    let listed = site.ask(&["catalog", "rebuild"]).exits(3);
    listed.is("rebuild-bad-signers");
    site.ask(&["catalog", "rebuild", "--json"]).exits(3).refuses("signing.allowed-signers");
}
