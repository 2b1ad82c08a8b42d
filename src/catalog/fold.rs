//! Folding: the ledger's history becomes rows.
//!
//! Each fold writes all rows anew, in one transaction: what the catalog says
//! is what the history says, however often and from whichever state it is
//! folded. The one thing kept is which records were seen before, because a
//! chain cannot show that its last records were removed.

use jiff::Timestamp;
use rusqlite::{Transaction, TransactionBehavior, params};

use super::Catalog;
use crate::base::clock::rfc3339;
use crate::base::codes;
use crate::base::failure::Failure;
use crate::base::ids::Fingerprint;
use crate::ledger::{Document, Entry, Finding, History};
use crate::record::Rung;
use crate::record::attestation::Attestation;
use crate::record::host::{HostRecord, ProviderShape};
use crate::record::manifest::{KeyNeed, Manifest};

/// What was seen is kept apart before the rows go, and forgotten where it is there again.
const KEEP_SEEN: &str = "INSERT OR IGNORE INTO vanished (path, sha256, signer, seq) SELECT path, sha256, signer, seq FROM record";
const FORGET_PRESENT: &str =
    "DELETE FROM vanished WHERE EXISTS (SELECT 1 FROM record r WHERE r.path = vanished.path AND r.sha256 = vanished.sha256)";

impl Catalog {
    /// Makes the catalog say what `history` says. On failure it says what it
    /// said before.
    pub fn fold(&mut self, history: &History) -> Result<(), Failure> {
        let folded = (|| {
            let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            transaction.execute(KEEP_SEEN, [])?;
            transaction.execute("DELETE FROM record", [])?;
            transaction.execute("DELETE FROM finding", [])?;
            for entry in &history.entries {
                insert(&transaction, entry)?;
            }
            for Finding { object, code, message } in &history.findings {
                let insert = "INSERT INTO finding (object, code, message) VALUES (?1, ?2, ?3)";
                transaction.prepare_cached(insert)?.execute(params![object, code, message])?;
            }
            transaction.execute(FORGET_PRESENT, [])?;
            transaction.commit()
        })();
        folded.map_err(|e| self.failure(e))
    }

    /// What is wrong in the ledger, sorted.
    pub fn findings(&self) -> Result<Vec<Finding>, Failure> {
        let vanished = self.rows(
            "SELECT v.path, v.signer, v.seq, EXISTS (SELECT 1 FROM record r WHERE r.path = v.path)
             FROM vanished v WHERE NOT EXISTS (SELECT 1 FROM finding f WHERE f.object = v.path)",
            [],
            |row| {
                let (path, signer, seq): (String, String, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
                let what = if row.get(3)? { "was replaced" } else { "is not there any more" };
                let cause = format!("record {seq} of {signer}, which this host has seen, {what}");
                Ok(Finding::from(&Failure::new(&codes::LEDGER_RECORD_VANISHED, path, cause)))
            },
        )?;
        let mut findings = self.rows("SELECT object, code, message FROM finding", [], |row| {
            Ok(Finding { object: row.get(0)?, code: row.get(1)?, message: row.get(2)? })
        })?;
        findings.extend(vanished);
        findings.sort();
        Ok(findings)
    }
}

fn insert(transaction: &Transaction<'_>, entry: &Entry) -> rusqlite::Result<()> {
    let link = entry.document.link();
    let text = String::from_utf8_lossy(&entry.bytes);
    transaction
        .prepare_cached("INSERT INTO record (path, sha256, kind, signer, seq, document) VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?
        .execute(params![
            entry.path,
            entry.sha256.to_string(),
            entry.document.kind(),
            link.name.as_str(),
            integer(link.seq),
            text
        ])?;
    match &entry.document {
        Document::Manifest(manifest) => insert_snapshot(transaction, &entry.path, manifest),
        Document::Receipt(receipt) => transaction
            .prepare_cached("INSERT INTO receipt (path, fingerprint, provider, name, deposited) VALUES (?1, ?2, ?3, ?4, ?5)")?
            .execute(params![entry.path, receipt.fingerprint.as_str(), receipt.provider, receipt.name, utc(&receipt.deposited)])
            .map(|_| ()),
        Document::Host(host) => insert_host(transaction, &entry.path, host),
        Document::Attestation(attestation) => insert_attestation(transaction, &entry.path, attestation),
        Document::Report(report) => transaction
            .prepare_cached("INSERT INTO report (path, run, snapshot, written) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![entry.path, report.run.as_str(), report.snapshot.as_str(), utc(&report.written)])
            .map(|_| ()),
        // No answer comes from it; that it was there is known.
        Document::Foreign(_) => Ok(()),
    }
}

fn insert_snapshot(transaction: &Transaction<'_>, path: &str, manifest: &Manifest) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO snapshot (path, id, lineage, quality, finished, host, revision, image_bytes, object_bytes, live_keys)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?
        .execute(params![
            path,
            manifest.id.as_str(),
            manifest.cluster.lineage.as_str(),
            manifest.quality.as_str(),
            utc(&manifest.taken.finished),
            manifest.taken.host.as_str(),
            manifest.image.revision,
            integer(manifest.image.bytes),
            integer(manifest.object.bytes),
            integer(manifest.image.live_keys),
        ])?;
    for (position, key) in (0_i64..).zip(&manifest.keys) {
        transaction
            .prepare_cached(
                "INSERT INTO snapshot_key (snapshot, position, provider, name, fingerprint, deposit, live_objects, proof)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(params![
                path,
                position,
                key.provider,
                key.name,
                key.fingerprint,
                deposit(key).map(|fingerprint| fingerprint.to_string()),
                integer(key.live_objects),
                key.proof.as_str(),
            ])?;
    }
    Ok(())
}

fn insert_host(transaction: &Transaction<'_>, path: &str, host: &HostRecord) -> rusqlite::Result<()> {
    transaction.prepare_cached("INSERT INTO host (path, host, observed) VALUES (?1, ?2, ?3)")?.execute(params![
        path,
        host.host.as_str(),
        utc(&host.observed)
    ])?;
    let rules = host.encryption.iter().flat_map(|shape| &shape.rules);
    for provider in rules.flat_map(|rule| &rule.providers) {
        let (kind, keys) = match provider {
            ProviderShape::Aescbc { keys } => ("aescbc", keys.as_slice()),
            ProviderShape::Aesgcm { keys } => ("aesgcm", keys.as_slice()),
            ProviderShape::Secretbox { keys } => ("secretbox", keys.as_slice()),
            ProviderShape::Kms { .. } | ProviderShape::Identity {} => continue,
        };
        for key in keys {
            transaction
                .prepare_cached("INSERT INTO host_key (host, provider, name, fingerprint) VALUES (?1, ?2, ?3, ?4)")?
                .execute(params![path, kind, key.name, key.fingerprint.as_str()])?;
        }
    }
    Ok(())
}

fn insert_attestation(transaction: &Transaction<'_>, path: &str, attestation: &Attestation) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO attestation (path, run, snapshot, manifest, host, finished, reached, passed, failure)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            path,
            attestation.run.as_str(),
            attestation.snapshot.as_str(),
            attestation.manifest.sha256.to_string(),
            attestation.host.as_str(),
            utc(&attestation.finished),
            attestation.reached.map(rung_number),
            attestation.passed,
            attestation.failure,
        ])?;
    for opening in &attestation.escrow_opened {
        transaction
            .prepare_cached("INSERT INTO opening (attestation, fingerprint) VALUES (?1, ?2)")?
            .execute(params![path, opening.fingerprint.as_str()])?;
    }
    Ok(())
}

/// The fingerprint under which escrow must have a key: of the key itself, or
/// of the KEK behind a KMS.
fn deposit(key: &KeyNeed) -> Option<Fingerprint> {
    key.material.clone().or_else(|| key.fingerprint.as_deref()?.parse().ok())
}

/// One form for all times, so that text order is time order.
fn utc(text: &str) -> String {
    text.parse::<Timestamp>().map_or_else(|_| text.to_owned(), rfc3339)
}

/// SQLite counts to 2^63 - 1; no real count comes near.
pub(super) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn rung_number(rung: Rung) -> i64 {
    match rung {
        Rung::Open => 1,
        Rung::Boot => 2,
        Rung::Serve => 3,
        Rung::Cluster => 4,
    }
}
