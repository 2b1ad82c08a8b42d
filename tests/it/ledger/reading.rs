//! Reading the ledger: what is believed, and what becomes a finding.

use holdfast::record::Link;
use holdfast::record::attestation::Attestation;
use holdfast::record::canonical;
use holdfast::record::signature::sign_record;
use holdfast::record::{Record, Rung};
use holdfast::store::ErrorKind;

use super::records::{KEY1, KEY2, LINEAGE, Site, attestation, host, layout, need, receipt};
use super::shelf::Rules;
use crate::test_key;

async fn codes(site: &Site) -> Vec<(String, String)> {
    let history = site.reader().read().await.unwrap();
    history.findings.into_iter().map(|finding| (finding.code, finding.object)).collect()
}

/// Four records of one host and two of another, delivered.
async fn site() -> Site {
    let site = Site::new();
    site.receipt(KEY1, "13:00");
    site.host(&[("key1", KEY1)], "13:01");
    let manifest = site.manifest("13:05", 10, vec![need("key1", Some(KEY1), 4)]);
    site.receipt(KEY2, "13:06");
    site.attestation(&manifest, "13:05", "14:00", Some(Rung::Serve), true);
    site.report("13:05", "14:00");
    site.outbox.deliver(&site.stores()).await.unwrap();
    site
}

fn path_of(site: &Site, part: &str) -> String {
    site.ledger.names().into_iter().find(|name| name.contains(part) && name.ends_with(".json")).unwrap()
}

#[tokio::test]
async fn every_kind_is_read_and_a_whole_ledger_has_no_findings() {
    let site = site().await;
    let history = site.reader().read().await.unwrap();
    assert_eq!(history.findings, []);
    let mut kinds: Vec<_> = history.entries.iter().map(|entry| entry.document.kind()).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["attestation", "host", "manifest", "receipt", "receipt", "report"]);
    for entry in &history.entries {
        assert_eq!(site.ledger.get(&entry.path), entry.bytes);
    }
    assert_eq!(history.heads()[site.backup_host.principal()].seq, 4);
}

#[tokio::test]
async fn an_altered_record_is_a_finding_and_leaves_a_gap() {
    let site = site().await;
    let path = path_of(&site, "hosts/");
    let altered = String::from_utf8(site.ledger.get(&path)).unwrap().replace("\"identity\"", "\"identitx\"");
    site.ledger.plant(&path, altered.as_bytes());
    let expected = [("ledger.chain.gap".into(), "chain of cp-1".into()), ("record.bad-signature".into(), path)];
    let mut found = codes(&site).await;
    found.sort();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_record_signed_by_a_stranger_is_not_believed() {
    let site = site().await;
    let link = Link { name: "cp-1".parse().unwrap(), seq: 5, prev: None };
    let forged = receipt(link, KEY1, "13:30");
    let signed = sign_record(&test_key::stranger("cp-1"), &forged).unwrap();
    site.ledger.plant(forged.path(), &signed.bytes);
    site.ledger.plant(&format!("{}.sig", forged.path()), signed.signature.as_bytes());
    assert_eq!(codes(&site).await, [("record.bad-signature".into(), forged.path().to_owned())]);
    assert_eq!(site.reader().read().await.unwrap().entries.len(), 6);
}

#[tokio::test]
async fn a_moved_record_is_not_believed() {
    let site = site().await;
    let path = path_of(&site, "manifests/");
    let elsewhere = path.replace(LINEAGE, "ffffffffffffffff");
    for suffix in ["", ".sig"] {
        let bytes = site.ledger.get(&format!("{path}{suffix}"));
        site.ledger.plant(&format!("{elsewhere}{suffix}"), &bytes);
    }
    assert_eq!(codes(&site).await, [("record.misplaced".into(), elsewhere)]);
}

#[tokio::test]
async fn a_record_of_one_kind_under_anothers_folder_is_not_believed() {
    let site = site().await;
    let path = path_of(&site, KEY1);
    let elsewhere = path.replace("receipts/", "hosts/");
    for suffix in ["", ".sig"] {
        let bytes = site.ledger.get(&format!("{path}{suffix}"));
        site.ledger.plant(&format!("{elsewhere}{suffix}"), &bytes);
    }
    let found = codes(&site).await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].1, elsewhere);
}

#[tokio::test]
async fn a_host_does_not_speak_for_another() {
    let site = site().await;
    let link = Link { name: "rehearsal-1".parse().unwrap(), seq: 3, prev: None };
    let mut record = host(link, &[("key1", KEY2)], "13:40");
    record.host = "cp-1".parse().unwrap();
    record.path = record.path.replace("rehearsal-1", "cp-1");
    let signed = sign_record(&site.rehearsal_host, &record).unwrap();
    site.ledger.plant(record.path(), &signed.bytes);
    site.ledger.plant(&format!("{}.sig", record.path()), signed.signature.as_bytes());
    assert_eq!(codes(&site).await, [("record.misplaced".into(), record.path().to_owned())]);
}

#[tokio::test]
async fn a_record_without_a_signature_is_a_finding_and_a_signature_alone_is_no_record_yet() {
    let site = site().await;
    let path = path_of(&site, "runs/");
    site.ledger.remove(&format!("{path}.sig"));
    assert_eq!(codes(&site).await, [("record.unsigned".into(), path.clone())]);

    let other = Site::new();
    other.receipt(KEY1, "13:00");
    other.ledger.rule(Rules { fail_call: Some(2), ..Rules::default() });
    other.outbox.deliver(&other.stores()).await.unwrap();
    assert_eq!(other.ledger.names().len(), 1);
    let history = other.reader().read().await.unwrap();
    assert_eq!((history.entries.len(), history.findings), (0, vec![]));
}

#[tokio::test]
async fn a_record_overwritten_by_another_good_one_breaks_its_chain() {
    let site = site().await;
    let path = path_of(&site, KEY1);
    let mut record = receipt(Link { name: "cp-1".parse().unwrap(), seq: 1, prev: None }, KEY1, "13:00");
    record.name = "another".into();
    let signed = sign_record(&site.backup_host, &record).unwrap();
    site.ledger.plant(&path, &signed.bytes);
    site.ledger.plant(&format!("{path}.sig"), signed.signature.as_bytes());
    assert_eq!(codes(&site).await, [("ledger.chain.broken".into(), path_of(&site, "hosts/"))]);
}

#[tokio::test]
async fn a_removed_record_is_a_gap_and_a_copied_key_a_fork() {
    let site = site().await;
    let path = path_of(&site, "hosts/");
    for suffix in ["", ".sig"] {
        site.ledger.remove(&format!("{path}{suffix}"));
    }
    assert_eq!(codes(&site).await, [("ledger.chain.gap".into(), "chain of cp-1".into())]);

    let forked = self::site().await;
    let prev = serde_json::from_slice::<Attestation>(&forked.ledger.get(&path_of(&forked, "attestations/"))).unwrap();
    let twin = attestation(prev.signer.clone(), &forked.receipt(KEY1, "13:50"), "13:05", "15:00", None, false);
    let signed = sign_record(&forked.rehearsal_host, &twin).unwrap();
    forked.ledger.plant(twin.path(), &signed.bytes);
    forked.ledger.plant(&format!("{}.sig", twin.path()), signed.signature.as_bytes());
    assert_eq!(codes(&forked).await, [("ledger.chain.fork".into(), "chain of rehearsal-1".into())]);
}

#[tokio::test]
async fn hostile_objects_are_findings_and_never_a_crash() {
    let site = site().await;
    let large = vec![b' '; usize::try_from(canonical::MAX_BYTES).unwrap() + 1];
    let root = layout().root().to_owned();
    for (name, bytes) in [
        ("receipts/a.json", &b"{"[..]),
        ("receipts/b.json", &large),
        ("manifests/c.json", b"null"),
        ("strange/d.json", b"{}"),
        ("e.json", b"[[[["),
    ] {
        site.ledger.plant(&format!("{root}/{name}"), bytes);
        site.ledger.plant(&format!("{root}/{name}.sig"), b"-----BEGIN SSH SIGNATURE-----\nAAAA\n");
    }
    let signature = path_of(&site, "runs/") + ".sig";
    site.ledger.plant(&signature, &vec![b'x'; 10_000]);
    site.ledger.plant(&format!("{root}/receipts/not-a-record.txt"), b"?");
    // Another cluster whose name starts alike is not read.
    site.ledger.plant(&format!("{root}-2/receipts/a.json"), b"{");
    let found = codes(&site).await;
    assert_eq!(found.len(), 6, "{found:?}");
    assert!(found.iter().all(|(code, _)| code == "record.invalid"), "{found:?}");
    assert_eq!(site.reader().read().await.unwrap().entries.len(), 5);
}

#[tokio::test]
async fn a_ledger_that_does_not_answer_or_let_us_in_is_no_empty_ledger() {
    let site = site().await;
    for (rules, code) in [
        (Rules { down: Some(ErrorKind::Transient), ..Rules::default() }, "ledger.unreachable"),
        (Rules { put_only: true, ..Rules::default() }, "store.denied"),
    ] {
        site.ledger.rule(rules);
        assert_eq!(site.reader().read().await.unwrap_err().code().name, code);
    }
    // One list and two reads a record.
    for n in 1..=13 {
        site.ledger.rule(Rules { fail_call: Some(n), ..Rules::default() });
        assert_eq!(site.reader().read().await.unwrap_err().code().name, "ledger.unreachable", "call {n}");
    }
    site.ledger.rule(Rules { fail_call: Some(14), ..Rules::default() });
    assert_eq!(site.reader().read().await.unwrap().entries.len(), 6);
}

#[tokio::test]
async fn c_090_names_that_are_listed_and_gone_stop_nothing() {
    let site = site().await;
    let ghosts = ["receipts/ghost.json", "manifests/ghost.json"].map(|name| format!("{}/{name}", layout().root()));
    site.ledger.rule(Rules { ghosts: ghosts.to_vec(), ..Rules::default() });
    let history = site.reader().read().await.unwrap();
    assert_eq!((history.entries.len(), history.findings), (6, vec![]));
}

#[tokio::test]
async fn a_record_signed_before_its_key_was_allowed_is_not_believed() {
    let site = site().await;
    let line = site.backup_host.public_line();
    let key = line.split_once(' ').unwrap().1;
    for (option, believed) in
        [("valid-before=\"20261202Z\"", 4), ("valid-before=\"20261201130500Z\"", 3), ("valid-after=\"20270101Z\"", 0)]
    {
        let list = format!("cp-1 {option} {key}\n");
        let allowed = holdfast::record::signature::AllowedSigners::parse("list", &list, &jiff::tz::TimeZone::UTC).unwrap();
        let history = holdfast::ledger::Ledger::new(site.ledger.clone(), layout(), allowed).read().await.unwrap();
        assert_eq!(history.entries.len(), believed, "{option}");
    }
}
