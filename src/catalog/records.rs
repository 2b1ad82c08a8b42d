//! Receipts, host records and reports.

use rusqlite::params;
use serde::Serialize;

use super::Catalog;
use super::fold::integer;
use super::snapshots::starts;
use crate::base::codes;
use crate::base::digest::Sha256;
use crate::base::failure::Failure;
use crate::base::ids::{Fingerprint, Principal, RunId, SnapshotId};
use crate::record::attestation::ReportRecord;
use crate::record::host::HostRecord;
use crate::record::manifest::{Manifest, RecordRef};
use crate::record::receipt::Receipt;

/// One line of `report`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReportRow {
    pub run: RunId,
    pub snapshot: SnapshotId,
    /// RFC 3339, UTC.
    pub written: String,
    /// Where the record lies in the ledger.
    pub path: String,
}

impl Catalog {
    /// Deposits of one key, the newest first.
    pub fn receipts(&self, fingerprint: &Fingerprint) -> Result<Vec<Receipt>, Failure> {
        self.documents(
            "SELECT r.document FROM receipt t JOIN record r USING (path)
             WHERE t.fingerprint = ?1 ORDER BY t.deposited DESC, t.path DESC",
            [fingerprint.as_str()],
        )
    }

    /// All deposits that one host made, the newest first.
    pub fn receipts_of(&self, host: &Principal) -> Result<Vec<Receipt>, Failure> {
        let sql = "SELECT document FROM record WHERE kind = 'receipt' AND signer = ?1 ORDER BY seq DESC";
        self.documents(sql, [host.as_str()])
    }

    /// What one host said of itself last.
    pub fn host_record(&self, host: &Principal) -> Result<Option<HostRecord>, Failure> {
        self.host_record_before(host, i64::MAX)
    }

    /// What one host said of itself, the newest first: in the order of its
    /// chain, which no clock can change.
    pub fn host_records(&self, host: &Principal) -> Result<Vec<HostRecord>, Failure> {
        self.documents(
            "SELECT r.document FROM host h JOIN record r USING (path) WHERE h.host = ?1 ORDER BY r.seq DESC",
            [host.as_str()],
        )
    }

    /// The newest record of every host, by name.
    pub fn latest_host_records(&self) -> Result<Vec<HostRecord>, Failure> {
        self.documents(
            "SELECT r.document FROM host h JOIN record r USING (path)
             WHERE (h.host, r.seq) IN (SELECT o.host, max(q.seq) FROM host o JOIN record q USING (path) GROUP BY o.host)
             ORDER BY h.host",
            [],
        )
    }

    /// The configuration that was in force when a snapshot was taken: the last
    /// record that its signer wrote before the manifest.
    pub fn host_record_of(&self, manifest: &Manifest) -> Result<Option<HostRecord>, Failure> {
        self.host_record_before(&manifest.signer.name, integer(manifest.signer.seq))
    }

    fn host_record_before(&self, host: &Principal, seq: i64) -> Result<Option<HostRecord>, Failure> {
        let sql = "SELECT r.document FROM host h JOIN record r USING (path)
                   WHERE h.host = ?1 AND r.seq < ?2 ORDER BY r.seq DESC LIMIT 1";
        Ok(self.documents(sql, params![host.as_str(), seq])?.into_iter().next())
    }

    /// All reports, the newest first.
    pub fn reports(&self) -> Result<Vec<ReportRow>, Failure> {
        let rows = self.rows("SELECT run, snapshot, written, path FROM report ORDER BY written DESC, run DESC", [], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get(2)?, row.get(3)?))
        })?;
        rows.into_iter()
            .map(|(run, snapshot, written, path)| {
                Ok(ReportRow { run: self.typed(&run)?, snapshot: self.typed(&snapshot)?, written, path })
            })
            .collect()
    }

    /// The record of a run's report, by path and digest.
    pub fn report_ref(&self, run: &RunId) -> Result<Option<RecordRef>, Failure> {
        let sql = "SELECT p.path, r.sha256 FROM report p JOIN record r USING (path) WHERE p.run = ?1";
        let found: Vec<(String, String)> = self.rows(sql, [run.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let Some((key, sha256)) = found.into_iter().next() else { return Ok(None) };
        let sha256 = Sha256::parse(&sha256).ok_or_else(|| self.broken("a digest that is none"))?;
        Ok(Some(RecordRef { key, sha256 }))
    }

    /// Has a run an attestation?
    pub fn is_attested(&self, run: &RunId) -> Result<bool, Failure> {
        let sql = "SELECT count(*) FROM attestation WHERE run = ?1";
        let found: Vec<i64> = self.rows(sql, [run.as_str()], |row| row.get(0))?;
        Ok(found.iter().any(|count| *count > 0))
    }

    /// The run that a person means, of those with a report: `latest`, an id, or
    /// the start of an id or of its random tail, where only one run has it.
    pub fn resolve_run(&self, text: &str) -> Result<RunId, Failure> {
        let mut runs = self.reports()?.into_iter().map(|row| row.run);
        if text == "latest" {
            return match runs.next() {
                Some(newest) => Ok(newest),
                None if self.findings()?.is_empty() => {
                    Err(Failure::new(&codes::RUN_UNKNOWN, text, "the ledger has no report yet")
                        .next("make one with holdfast rehearse"))
                }
                None => Err(self.not_found(&codes::RUN_UNKNOWN, text, "the ledger has no report yet")?),
            };
        }
        let mut meant: Vec<_> = runs.filter(|run| starts(run.as_str(), text)).collect();
        match meant.as_slice() {
            [] => Err(self.not_found(&codes::RUN_UNKNOWN, text, "the ledger has no report of this run")?),
            [_] => Ok(meant.remove(0)),
            [first, second, ..] => {
                let cause = format!("{} runs start so, {first} and {second} among them", meant.len());
                Err(Failure::new(&codes::RUN_AMBIGUOUS, text, cause))
            }
        }
    }

    pub fn report(&self, run: &RunId) -> Result<Option<ReportRecord>, Failure> {
        let sql = "SELECT r.document FROM report p JOIN record r USING (path) WHERE p.run = ?1";
        Ok(self.documents(sql, [run.as_str()])?.into_iter().next())
    }
}
