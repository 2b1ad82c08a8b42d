//! Each signer's chain: numbers without a gap or a fork, each record naming
//! the digest of the one before.

use std::collections::BTreeMap;

use super::entry::{Entry, Finding};
use crate::base::codes;
use crate::base::digest::Sha256;
use crate::base::failure::Failure;
use crate::base::ids::Principal;
use crate::record::Link;

/// A signer's newest record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub seq: u64,
    pub sha256: Sha256,
}

/// The newest record of each signer: what the next one follows.
#[must_use]
pub fn heads(entries: &[Entry]) -> BTreeMap<Principal, Head> {
    let mut heads: BTreeMap<Principal, Head> = BTreeMap::new();
    for entry in entries {
        let link = entry.document.link();
        if heads.get(&link.name).is_none_or(|head| head.seq < link.seq) {
            heads.insert(link.name.clone(), Head { seq: link.seq, sha256: entry.sha256 });
        }
    }
    heads
}

/// What is wrong with the chains of verified records. One finding a break, so
/// that a hostile number cannot make many.
#[must_use]
pub fn check(entries: &[Entry]) -> Vec<Finding> {
    let mut chains: BTreeMap<&Principal, Vec<(&Link, &Entry)>> = BTreeMap::new();
    for entry in entries {
        let link = entry.document.link();
        chains.entry(&link.name).or_default().push((link, entry));
    }
    let mut findings = Vec::new();
    for (signer, mut chain) in chains {
        chain.sort_by_key(|(link, entry)| (link.seq, &entry.path));
        check_one(signer, &chain, &mut findings);
    }
    findings
}

/// `chain` is sorted by number; records with one number are a fork, and what
/// follows a fork may follow either branch.
fn check_one(signer: &Principal, chain: &[(&Link, &Entry)], findings: &mut Vec<Finding>) {
    let mut find = |code, object: &str, cause: String| findings.push(Finding::from(&Failure::new(code, object, cause)));
    let name = format!("chain of {signer}");
    let mut before: &[(&Link, &Entry)] = &[];
    for branches in chain.chunk_by(|(a, _), (b, _)| a.seq == b.seq) {
        let seq = branches[0].0.seq;
        let last = before.first().map_or(0, |(link, _)| link.seq);
        if seq == 0 {
            find(&codes::LEDGER_CHAIN_BROKEN, &branches[0].1.path, format!("has no number in the chain of {signer}"));
            continue;
        }
        if let [(_, one), (_, other), ..] = branches {
            find(&codes::LEDGER_CHAIN_FORK, &name, format!("number {seq} is both {} and {}", one.path, other.path));
        }
        if seq - last > 1 {
            find(&codes::LEDGER_CHAIN_GAP, &name, missing(last + 1, seq - 1));
        } else if let Some((link, entry)) = branches.iter().find(|(link, _)| !follows(before, link)) {
            let cause = format!("number {} follows another record than the number {last} that is here", link.seq);
            find(&codes::LEDGER_CHAIN_BROKEN, &entry.path, cause);
        }
        before = branches;
    }
}

/// Does `link` name the digest of one of the records before it?
fn follows(before: &[(&Link, &Entry)], link: &Link) -> bool {
    match link.prev {
        None => before.is_empty(),
        Some(prev) => before.iter().any(|(_, entry)| entry.sha256 == prev),
    }
}

fn missing(first: u64, last: u64) -> String {
    if first == last { format!("number {first} is missing") } else { format!("numbers {first} to {last} are missing") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::entry::Document;
    use crate::record::manifest::RecordRef;
    use crate::record::receipt::Receipt;

    /// A record of `cp-1`; `salt` makes branches differ.
    fn entry(seq: u64, prev: Option<&Entry>, salt: &str) -> Entry {
        let path = format!("prod/receipts/{seq}{salt}.json");
        let receipt = Receipt {
            schema: 1,
            path: path.clone(),
            signer: Link { name: "cp-1".parse().unwrap(), seq, prev: prev.map(|entry| entry.sha256) },
            fingerprint: "hf1-00112233445566778899aabbccddeeff".parse().unwrap(),
            provider: "aescbc".into(),
            name: "key1".into(),
            store: "fs /srv/escrow".to_owned(),
            escrow_record: RecordRef { key: "k".into(), sha256: Sha256::of(b"") },
            sealed_to: vec![],
            deposited: "2026-12-01T13:00:00Z".into(),
            tool: "holdfast 0.1.0".into(),
        };
        let sha256 = Sha256::of(path.as_bytes());
        Entry { path, bytes: vec![], sha256, signature: String::new(), document: Document::Receipt(Box::new(receipt)) }
    }

    fn findings(entries: &[Entry]) -> Vec<(String, String)> {
        check(entries).into_iter().map(|finding| (finding.code, finding.message)).collect()
    }

    fn one(code: &str, message: &str) -> Vec<(String, String)> {
        vec![(code.to_owned(), message.to_owned())]
    }

    #[test]
    fn a_whole_chain_has_no_findings_in_whatever_order_it_was_listed() {
        let first = entry(1, None, "");
        let second = entry(2, Some(&first), "");
        let third = entry(3, Some(&second), "");
        let entries = [third.clone(), first, second];
        assert_eq!(findings(&entries), []);
        assert_eq!(heads(&entries)[&"cp-1".parse().unwrap()], Head { seq: 3, sha256: third.sha256 });
    }

    #[test]
    fn missing_numbers_are_named_once() {
        let first = entry(1, None, "");
        let far = entry(u64::MAX, None, "");
        assert_eq!(findings(&[entry(3, None, "")]), one("ledger.chain.gap", "numbers 1 to 2 are missing"));
        assert_eq!(findings(&[first.clone(), entry(3, None, "")]), one("ledger.chain.gap", "number 2 is missing"));
        assert_eq!(findings(&[first, far]), one("ledger.chain.gap", "numbers 2 to 18446744073709551614 are missing"));
    }

    #[test]
    fn two_records_of_one_number_are_a_fork_and_either_may_be_followed() {
        let first = entry(1, None, "");
        let (left, right) = (entry(2, Some(&first), "a"), entry(2, Some(&first), "b"));
        let third = entry(3, Some(&right), "");
        let fork = "number 2 is both prod/receipts/2a.json and prod/receipts/2b.json";
        assert_eq!(findings(&[first, left, right, third]), one("ledger.chain.fork", fork));
    }

    #[test]
    fn a_record_that_was_replaced_breaks_the_chain() {
        let first = entry(1, None, "");
        let second = entry(2, Some(&entry(1, None, "as it was")), "");
        let broken = "number 2 follows another record than the number 1 that is here";
        assert_eq!(findings(&[first, second]), one("ledger.chain.broken", broken));
        let orphan = entry(1, Some(&entry(9, None, "")), "");
        assert_eq!(findings(&[orphan]).len(), 1);
    }

    #[test]
    fn a_record_without_a_number_is_no_part_of_a_chain() {
        let first = entry(1, None, "");
        assert_eq!(findings(&[entry(0, None, ""), first]), one("ledger.chain.broken", "has no number in the chain of cp-1"));
    }
}
