//! Snapshots and keys have credentials of their own: that of one store must
//! open no other, shown by requests that must be denied.

use async_trait::async_trait;
use futures::future::join_all;

use super::stores::{Names, store};
use super::{Area, Check, Findings, Host, codes};
use crate::base::failure::Failure;
use crate::ledger::Place;
use crate::store::ErrorKind;
use crate::store::rights::{self, Answer, Right, Rights};

/// Whose credential must not open which store.
const APART: [(Place, Place); 4] = [
    (Place::Snapshots, Place::Escrow),
    (Place::Escrow, Place::Snapshots),
    (Place::Ledger, Place::Snapshots),
    (Place::Ledger, Place::Escrow),
];

pub(super) struct Crossing;

#[async_trait]
impl Check for Crossing {
    fn area(&self) -> Area {
        Area::Stores
    }

    fn name(&self) -> String {
        "the separation of credentials".to_owned()
    }

    async fn examine(&self, host: &Host, findings: &Findings) {
        let config = &host.station.config;
        let pairs = APART.into_iter().filter_map(|(whose, place)| {
            let rights = rights::across(store(config, place), store(config, whose))?;
            Some(async move { ask(host, findings, whose, place, rights.as_ref()).await })
        });
        let asked: Vec<bool> = join_all(pairs).await;
        match (asked.len(), asked.iter().all(|apart| *apart)) {
            (0, _) => findings.not_applicable("credentials", "there are no two buckets whose credentials could be held apart"),
            (_, true) => findings.good("credentials", "open their own store and no other, as far as they were asked"),
            (_, false) => {}
        }
    }
}

/// Asks for everything; is the store closed to that credential?
async fn ask(host: &Host, findings: &Findings, whose: Place, place: Place, rights: &dyn Rights) -> bool {
    let Some(Names { probe, known, below }) = Names::of(host, place, &rights.describe()).await else { return false };
    let object = format!("credential of {whose}");
    let mut open = Vec::new();
    for (word, right) in [
        ("list", Right::List(below)),
        ("get", Right::Get(known.unwrap_or_else(|| probe.clone()))),
        ("put", Right::Put(probe.clone())),
        ("delete", Right::Delete(probe)),
    ] {
        match rights.ask(&right).await {
            Ok(Answer::Denied(_)) => {}
            Ok(Answer::Allowed(_) | Answer::Absent) => open.push(word),
            // A store that does not even know the credential is closed to it.
            Err(error) if error.kind == ErrorKind::Denied => {}
            Err(error) => {
                // The store's own check says what is wrong with it.
                findings.unknown(&Failure::from(error));
                return false;
            }
        }
    }
    if open.is_empty() {
        return true;
    }
    let text = format!("may {} at {place} ({})", open.join(", "), rights.describe());
    findings.found(&codes::STORE_CROSSED, object, text);
    false
}
