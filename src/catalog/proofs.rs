//! Proofs: what rehearsals showed about a snapshot, and how old that is.
//!
//! An attestation counts for the very manifest that it names by digest, and
//! for no other.

use rusqlite::{OptionalExtension, Row, params};
use serde::Serialize;

use super::Catalog;
use super::fold::rung_number;
use crate::base::codes;
use crate::base::exit::Exit;
use crate::base::failure::Failure;
use crate::base::ids::{RunId, SnapshotId};
use crate::record::Rung;
use crate::record::attestation::Attestation;

/// A rung that was reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Proven {
    pub snapshot: SnapshotId,
    pub rung: Rung,
    /// RFC 3339, UTC.
    pub at: String,
    pub run: RunId,
}

/// A rehearsal, whatever came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Attempt {
    pub run: RunId,
    pub at: String,
    pub passed: bool,
    /// The stable code of the failure that ended it.
    pub failure: Option<String>,
    pub outcome: Outcome,
}

/// What a rehearsal says of its snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Passed,
    /// It ran, and the answer is bad.
    Failed,
    /// Nothing: it could not run to an answer.
    CouldNotRun,
    /// Nothing: somebody stopped it.
    Interrupted,
    /// Nothing: a person ended it, or its runbook has no proof in it.
    NotJudged,
}

impl Outcome {
    fn of(passed: bool, reached: bool, failure: Option<&str>) -> Self {
        let code = codes::ALL.iter().find(|code| Some(code.name) == failure);
        match code.map(|code| code.exit) {
            _ if passed && reached => Self::Passed,
            _ if passed || code.is_some_and(|code| code.is_of_people()) => Self::NotJudged,
            Some(Exit::CouldNotRun | Exit::Usage) => Self::CouldNotRun,
            Some(Exit::Interrupted) => Self::Interrupted,
            // A code of another version may speak of the data: nobody is told that it is good.
            Some(Exit::Bad | Exit::Good) | None => Self::Failed,
        }
    }

    /// Was the data judged?
    #[must_use]
    pub fn is_judgement(self) -> bool {
        matches!(self, Self::Passed | Self::Failed)
    }
}

impl Catalog {
    /// The newest rehearsal of any snapshot that passed, at `rung` or above:
    /// its age is the headline of every status.
    pub fn last_proof(&self, rung: Rung) -> Result<Option<Proven>, Failure> {
        self.proven(
            "SELECT a.snapshot, a.reached, a.finished, a.run FROM attestation a JOIN record q USING (path)
             WHERE a.passed AND a.reached >= ?1 AND EXISTS (
                SELECT 1 FROM snapshot s JOIN record r USING (path) WHERE r.sha256 = a.manifest)
             ORDER BY a.finished DESC, q.seq DESC, a.run DESC LIMIT 1",
            params![rung_number(rung)],
        )
    }

    /// Every rehearsal of a snapshot, the newest first.
    pub fn attestations(&self, snapshot: &SnapshotId) -> Result<Vec<Attestation>, Failure> {
        self.documents(
            "SELECT r.document FROM attestation a JOIN record r USING (path)
             WHERE a.snapshot = ?1 ORDER BY a.finished DESC, r.seq DESC, a.run DESC",
            [snapshot.as_str()],
        )
    }

    /// The highest rung that the manifest of this digest reached, and when last.
    pub(super) fn highest(&self, manifest: &str) -> Result<Option<Proven>, Failure> {
        self.proven(
            "SELECT snapshot, reached, finished, run FROM attestation JOIN record USING (path)
             WHERE manifest = ?1 AND reached IS NOT NULL ORDER BY reached DESC, finished DESC, seq DESC, run DESC LIMIT 1",
            [manifest],
        )
    }

    /// Every rehearsal of the manifest of this digest, the newest first. Times
    /// have whole seconds: within one, a signer's own numbers tell the order.
    pub(super) fn attempts(&self, manifest: &str) -> Result<Vec<Attempt>, Failure> {
        let rows = self.rows(
            "SELECT run, finished, passed, failure, reached IS NOT NULL FROM attestation JOIN record USING (path)
             WHERE manifest = ?1 ORDER BY finished DESC, seq DESC, run DESC",
            [manifest],
            |row| Ok((row.get::<_, String>(0)?, row.get(1)?, row.get(2)?, row.get::<_, Option<String>>(3)?, row.get(4)?)),
        )?;
        rows.into_iter()
            .map(|(run, at, passed, failure, reached)| {
                let outcome = Outcome::of(passed, reached, failure.as_deref());
                Ok(Attempt { run: self.typed(&run)?, at, passed, failure, outcome })
            })
            .collect()
    }

    /// Failures of rehearsals that no later one got past, the newest first. A
    /// run that passed to `open` says nothing of an etcd that would not start.
    pub(super) fn standing_failures(&self, manifest: &str) -> Result<Vec<String>, Failure> {
        self.rows(
            "SELECT a.failure FROM attestation a JOIN record r USING (path)
             WHERE a.manifest = ?1 AND NOT a.passed AND a.failure IS NOT NULL AND NOT EXISTS (
                SELECT 1 FROM attestation b JOIN record q USING (path)
                WHERE b.manifest = a.manifest AND (b.finished, q.seq, b.run) > (a.finished, r.seq, a.run)
                    AND b.reached > coalesce(a.reached, 0))
             ORDER BY a.finished DESC, r.seq DESC, a.run DESC",
            [manifest],
            |row| row.get(0),
        )
    }

    fn proven(&self, sql: &str, parameters: impl rusqlite::Params) -> Result<Option<Proven>, Failure> {
        let read = |row: &Row<'_>| {
            Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?, row.get::<_, String>(2)?, row.get::<_, String>(3)?))
        };
        let row = self.connection.query_row(sql, parameters, read).optional().map_err(|e| self.failure(e))?;
        row.map(|(snapshot, rung, at, run)| {
            let rung = [Rung::Open, Rung::Boot, Rung::Serve, Rung::Cluster].into_iter().find(|r| rung_number(*r) == rung);
            let rung = rung.ok_or_else(|| self.broken("a rung that does not exist"))?;
            Ok(Proven { snapshot: self.typed(&snapshot)?, rung, at, run: self.typed(&run)? })
        })
        .transpose()
    }
}
