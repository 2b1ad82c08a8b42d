//! Records of kinds that a newer holdfast writes: no alarm, no gap, no belief
//! in what only looks like one.

use holdfast::ledger::{Document, Place};
use holdfast::record::signature::{Signer, sign_record};
use holdfast::record::{Link, Record};
use serde::{Deserialize, Serialize};

use super::records::{KEY1, Site, layout, time};
use crate::test_key;

/// What three hosts agree on, some day.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Take {
    schema: u32,
    path: String,
    signer: Link,
    agreed: Agreed,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Agreed {
    slot: String,
    hosts: Vec<String>,
}

impl Record for Take {
    const NAMESPACE: &'static str = "holdfast-take";
    const SIGNED_AT: &'static str = "/agreed/slot";

    fn path(&self) -> &str {
        &self.path
    }

    fn signer(&self) -> &Link {
        &self.signer
    }
}

fn take(signer: Link, clock: &str) -> Take {
    let agreed = Agreed { slot: time(clock), hosts: vec!["cp-1".into(), "cp-2".into()] };
    Take { schema: 7, path: format!("{}/takes/{}.json", layout().root(), clock.replace(':', "")), signer, agreed }
}

/// A receipt, a take and a receipt of one host.
async fn site() -> (Site, String) {
    let site = Site::new();
    site.receipt(KEY1, "13:00");
    let path = take(Link { name: "cp-1".parse().unwrap(), seq: 0, prev: None }, "13:05").path;
    site.outbox.append(&site.backup_host, |link| take(link, "13:05"), &[(Place::Ledger, path.clone())]).unwrap();
    site.receipt(KEY1, "13:10");
    site.outbox.deliver(&site.stores()).await.unwrap();
    (site, path)
}

fn plant(site: &Site, signer: &Signer, record: &impl Record, path: &str) {
    let signed = sign_record(signer, record).unwrap();
    site.ledger.plant(path, &signed.bytes);
    site.ledger.plant(&format!("{path}.sig"), signed.signature.as_bytes());
}

async fn findings(site: &Site) -> Vec<(String, String)> {
    let history = site.reader().read().await.unwrap();
    history.findings.into_iter().map(|finding| (finding.code, finding.object)).collect()
}

#[tokio::test]
async fn a_kind_that_is_not_known_counts_in_its_chain_and_alarms_nobody() {
    let (site, path) = site().await;
    let history = site.reader().read().await.unwrap();
    assert_eq!(history.findings, []);
    let entry = history.entries.iter().find(|entry| entry.path == path).unwrap();
    let Document::Foreign(foreign) = &entry.document else { panic!("{entry:?}") };
    assert_eq!((foreign.namespace.as_str(), foreign.signer.seq), ("holdfast-take", 2));
    assert_eq!(history.heads()[site.backup_host.principal()].seq, 3);
    let catalog = crate::catalog::folded(&site, &history);
    assert_eq!(catalog.findings().unwrap(), []);
    // Seen once, it is missed when it is gone.
    for suffix in ["", ".sig"] {
        site.ledger.remove(&format!("{path}{suffix}"));
    }
    let history = site.reader().read().await.unwrap();
    assert_eq!(history.findings.iter().map(|finding| finding.code.as_str()).collect::<Vec<_>>(), ["ledger.chain.gap"]);
    let found = crate::catalog::folded(&site, &history).findings().unwrap();
    assert!(found.iter().any(|finding| finding.code == "ledger.record-vanished" && finding.object == path), "{found:?}");
}

#[tokio::test]
async fn a_record_of_an_unknown_kind_that_was_altered_moved_or_forged_is_not_believed() {
    let (site, path) = site().await;
    let altered = String::from_utf8(site.ledger.get(&path)).unwrap().replace("cp-2", "cp-9");
    site.ledger.plant(&path, altered.as_bytes());
    let gap = ("ledger.chain.gap".to_owned(), "chain of cp-1".to_owned());
    assert_eq!(findings(&site).await, [("record.bad-signature".into(), path), gap]);

    let (site, path) = self::site().await;
    let elsewhere = path.replace("takes/", "approvals/");
    for suffix in ["", ".sig"] {
        site.ledger.plant(&format!("{elsewhere}{suffix}"), &site.ledger.get(&format!("{path}{suffix}")));
    }
    assert_eq!(findings(&site).await, [("record.misplaced".into(), elsewhere)]);

    let (site, _) = self::site().await;
    let forged = take(Link { name: "cp-1".parse().unwrap(), seq: 4, prev: None }, "13:20");
    plant(&site, &test_key::stranger("cp-1"), &forged, &forged.path);
    assert_eq!(findings(&site).await, [("record.bad-signature".into(), forged.path)]);
}

#[tokio::test]
async fn a_known_kind_is_not_hidden_under_an_unknown_folder() {
    let (site, _) = site().await;
    let receipt = site.ledger.names().into_iter().find(|name| name.contains("receipts/") && name.ends_with(".json")).unwrap();
    let hidden = format!("{}/leases/x.json", layout().root());
    for suffix in ["", ".sig"] {
        site.ledger.plant(&format!("{hidden}{suffix}"), &site.ledger.get(&format!("{receipt}{suffix}")));
    }
    assert_eq!(findings(&site).await, [("record.misplaced".into(), hidden)]);
}

#[tokio::test]
async fn a_host_that_may_not_sign_the_kind_and_a_record_without_a_time_are_not_believed() {
    let (site, path) = site().await;
    let line = site.backup_host.public_line();
    let key = line.split_once(' ').unwrap().1;
    for (options, believed) in [
        ("namespaces=\"holdfast-receipt,holdfast-take\"", true),
        ("namespaces=\"holdfast-receipt\"", false),
        ("valid-before=\"20261201130600Z\",namespaces=\"holdfast-take\"", true),
        ("valid-before=\"20261201130400Z\",namespaces=\"holdfast-take\"", false),
    ] {
        let list = format!("cp-1 {options} {key}\n");
        let allowed = holdfast::record::signature::AllowedSigners::parse("list", &list, &jiff::tz::TimeZone::UTC).unwrap();
        let history = holdfast::ledger::Ledger::new(site.ledger.clone(), layout(), allowed).read().await.unwrap();
        assert_eq!(history.entries.iter().any(|entry| entry.path == path), believed, "{options}");
    }
    let mut timeless = take(Link { name: "cp-1".parse().unwrap(), seq: 4, prev: None }, "13:20");
    timeless.agreed.slot = "soon".into();
    plant(&site, &site.backup_host, &timeless, &timeless.path);
    assert_eq!(findings(&site).await, [("record.invalid".into(), timeless.path)]);
}
