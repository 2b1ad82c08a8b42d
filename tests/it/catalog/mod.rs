//! The catalog: a fold of the ledger, and what the commands print from it.

mod answers;
mod fold;
mod losses;
mod printed;

use holdfast::catalog::Catalog;
use holdfast::ledger::History;
use holdfast::record::Rung;

use crate::ledger::records::{KEY1, KEY2, Site, need};

/// Two snapshots around a rotation: the first is proven, the second needs a
/// key more, and was proven and then failed.
pub async fn site() -> (Site, History) {
    let site = Site::new();
    site.receipt(KEY1, "13:00");
    site.host(&[("key1", KEY1)], "13:01");
    let first = site.manifest("13:05", 10, vec![need("key1", Some(KEY1), 4)]);
    site.receipt(KEY2, "13:30");
    site.host(&[("key2", KEY2), ("key1", KEY1)], "13:31");
    let second = site.manifest("13:35", 20, vec![need("key1", Some(KEY1), 2), need("key2", Some(KEY2), 2)]);
    site.attestation(&first, "13:05", "14:00", Some(Rung::Serve), true);
    site.report("13:05", "14:00");
    site.attestation(&second, "13:35", "14:10", Some(Rung::Boot), true);
    site.attestation(&second, "13:35", "14:20", None, false);
    let history = history(&site).await;
    assert_eq!(history.findings, []);
    (site, history)
}

pub async fn history(site: &Site) -> History {
    site.outbox.deliver(&site.stores()).await.unwrap();
    site.reader().read().await.unwrap()
}

pub fn folded(site: &Site, history: &History) -> Catalog {
    let mut catalog = Catalog::open(site.state.path()).unwrap();
    catalog.fold(history).unwrap();
    catalog
}

/// Every answer, as one text to compare.
pub fn answers(catalog: &Catalog) -> String {
    let snapshots = catalog.snapshots().unwrap();
    let details: Vec<_> = snapshots.iter().map(|row| catalog.snapshot(&row.id).unwrap().unwrap()).collect();
    let hosts = catalog.latest_host_records().unwrap();
    let receipts: Vec<_> = [KEY1, KEY2].iter().map(|key| catalog.receipts(&key.parse().unwrap()).unwrap()).collect();
    let reports = catalog.reports().unwrap();
    let bodies: Vec<_> = reports.iter().map(|row| catalog.report(&row.run).unwrap().unwrap()).collect();
    let (keys, proof) = (catalog.keys().unwrap(), catalog.last_proof(Rung::Open).unwrap());
    format!("{snapshots:#?}{details:#?}{hosts:#?}{receipts:#?}{reports:#?}{bodies:#?}{keys:#?}{proof:#?}")
}
