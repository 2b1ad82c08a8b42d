//! Snapshots: what exists, what each needs, how far each has been proven.

use rusqlite::{Row, params};
use serde::Serialize;

use super::Catalog;
use super::losses::Losses;
use super::proofs::{Attempt, Proven};
use crate::base::codes;
use crate::base::exit::Exit;
use crate::base::failure::Failure;
use crate::base::ids::{Lineage, Principal, SnapshotId};
use crate::record::attestation::Attestation;
use crate::record::manifest::{Manifest, Quality};

/// One line of `list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SnapshotRow {
    pub id: SnapshotId,
    pub lineage: Lineage,
    /// When the take finished; RFC 3339, UTC.
    pub taken: String,
    pub host: Principal,
    pub quality: Quality,
    pub revision: i64,
    pub live_keys: u64,
    pub image_bytes: u64,
    pub object_bytes: u64,
    /// Exactly the key versions that live objects need.
    pub keys: Vec<KeyNeeded>,
    /// Of good quality, every key in escrow, and not found bad since.
    pub restorable: bool,
    /// Why it is not restorable; empty where it is.
    pub obstacles: Vec<String>,
    /// The highest rung reached, and when last.
    pub proven: Option<Proven>,
    pub last_attempt: Option<Attempt>,
    /// The newest rehearsal that judged the data: one that could not run says nothing of it.
    pub last_judged: Option<Attempt>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeyNeeded {
    pub provider: String,
    /// As stored beside the values. Names are never trusted.
    pub name: String,
    /// Null where no key opened the objects.
    pub fingerprint: Option<String>,
    pub live_objects: u64,
    /// What trial decryption showed when the snapshot was taken.
    pub proof: String,
    /// The ledger has a receipt for the key's material, and no rehearsal has refuted it since.
    pub escrowed: bool,
    /// Since when a rehearsal of any snapshot has shown the key to be lost.
    pub missing_since: Option<String>,
}

/// One snapshot, whole.
#[derive(Debug, Clone, PartialEq)]
pub struct SnapshotDetail {
    pub row: SnapshotRow,
    pub manifest: Manifest,
    /// The newest first; only those of this very manifest.
    pub attestations: Vec<Attestation>,
}

/// Lineages by their newest snapshot, and inside a lineage by revision: clocks
/// only break ties.
const ALL: &str = "SELECT s.path, r.sha256, s.id, s.lineage, s.finished, s.host, s.revision, s.live_keys, s.image_bytes,
        s.object_bytes, s.quality
    FROM snapshot s JOIN record r USING (path)
    ORDER BY (SELECT max(o.finished) FROM snapshot o WHERE o.lineage = s.lineage) DESC, s.lineage,
        s.revision DESC, s.finished DESC, s.id DESC";

impl Catalog {
    /// All snapshots, the newest first. Each has a verified manifest.
    pub fn snapshots(&self) -> Result<Vec<SnapshotRow>, Failure> {
        // One reading transaction: rows of one fold, whoever folds meanwhile.
        let _reading = self.connection.unchecked_transaction().map_err(|e| self.failure(e))?;
        let losses = self.losses()?;
        self.rows(ALL, [], Raw::read)?.into_iter().map(|raw| self.complete(raw, &losses)).collect()
    }

    /// The newest snapshot, of whatever quality.
    pub fn latest(&self) -> Result<Option<SnapshotRow>, Failure> {
        Ok(self.snapshots()?.into_iter().next())
    }

    pub fn snapshot(&self, id: &SnapshotId) -> Result<Option<SnapshotDetail>, Failure> {
        let Some(row) = self.snapshots()?.into_iter().find(|row| &row.id == id) else { return Ok(None) };
        let documents = self.rows(
            "SELECT r.document, r.sha256 FROM snapshot s JOIN record r USING (path) WHERE s.id = ?1 AND s.lineage = ?2",
            [id.as_str(), row.lineage.as_str()],
            |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)),
        )?;
        let Some((document, sha256)) = documents.into_iter().next() else { return Ok(None) };
        let manifest = crate::record::canonical::from_bytes("catalog", document.as_bytes())?;
        let mut attestations = self.attestations(id)?;
        attestations.retain(|attestation| attestation.manifest.sha256.to_string() == sha256);
        Ok(Some(SnapshotDetail { row, manifest, attestations }))
    }

    /// The snapshot that a person means: `latest`, an id, or the start of an
    /// id or of its random tail, where only one snapshot has it.
    pub fn resolve(&self, text: &str) -> Result<SnapshotId, Failure> {
        let ids: Vec<SnapshotId> = self.snapshots()?.into_iter().map(|row| row.id).collect();
        if text == "latest" {
            return match ids.into_iter().next() {
                Some(newest) => Ok(newest),
                None => Err(self.not_found(&codes::SNAPSHOT_NONE, text, "the ledger has no snapshot")?),
            };
        }
        let mut meant: Vec<_> = ids.into_iter().filter(|id| starts(id.as_str(), text)).collect();
        match meant.as_slice() {
            [] => Err(self.not_found(&codes::SNAPSHOT_UNKNOWN, text, "no snapshot in the ledger has this id")?),
            [_] => Ok(meant.remove(0)),
            // Enough for a person to choose by.
            [first, second, ..] => {
                let cause = format!("{} snapshots start so, {first} and {second} among them", meant.len());
                Err(Failure::new(&codes::SNAPSHOT_AMBIGUOUS, text, cause))
            }
        }
    }

    /// What is not found may be there and not be believed.
    pub(super) fn not_found(&self, code: &'static codes::Code, text: &str, cause: &str) -> Result<Failure, Failure> {
        let findings = self.findings()?;
        let unbelieved = match findings.iter().filter(|finding| finding.is_disbelief()).count() {
            0 if findings.is_empty() => return Ok(Failure::new(code, text, cause)),
            0 => format!("{cause}, and the ledger is not whole"),
            1 => format!("{cause}, and it has 1 record that is not believed"),
            many => format!("{cause}, and it has {many} records that are not believed"),
        };
        let next = "check that allowed_signers has everybody who signs; holdfast list says what is wrong in the ledger";
        Ok(Failure::new(code, text, unbelieved).next(next))
    }

    fn complete(&self, raw: Raw, losses: &Losses) -> Result<SnapshotRow, Failure> {
        let quality = [Quality::Good, Quality::Suspect, Quality::Incomplete].into_iter().find(|q| q.as_str() == raw.quality);
        let quality = quality.ok_or_else(|| self.broken(format!("a quality that does not exist: {}", raw.quality)))?;
        let keys = self.keys_needed(&raw.path, losses)?;
        let attempts = self.attempts(&raw.sha256)?;
        let last_judged = attempts.iter().find(|attempt| attempt.outcome.is_judgement()).cloned();
        let obstacles = obstacles(quality, &keys, &self.standing_failures(&raw.sha256)?);
        Ok(SnapshotRow {
            id: self.typed(&raw.id)?,
            lineage: self.typed(&raw.lineage)?,
            taken: raw.finished,
            host: self.typed(&raw.host)?,
            quality,
            revision: raw.revision,
            live_keys: raw.live_keys,
            image_bytes: raw.image_bytes,
            object_bytes: raw.object_bytes,
            restorable: obstacles.is_empty(),
            obstacles,
            proven: self.highest(&raw.sha256)?,
            last_attempt: attempts.into_iter().next(),
            last_judged,
            keys,
        })
    }

    fn keys_needed(&self, path: &str, losses: &Losses) -> Result<Vec<KeyNeeded>, Failure> {
        self.rows(
            "SELECT provider, name, fingerprint, live_objects, proof,
                    EXISTS (SELECT 1 FROM receipt r WHERE r.fingerprint = k.deposit), k.deposit
             FROM snapshot_key k WHERE snapshot = ?1 ORDER BY position",
            params![path],
            |row| {
                let deposit: Option<String> = row.get(6)?;
                let missing_since = deposit.and_then(|fingerprint| losses.get(&fingerprint).cloned());
                Ok(KeyNeeded {
                    provider: row.get(0)?,
                    name: row.get(1)?,
                    fingerprint: row.get(2)?,
                    live_objects: count(row, 3)?,
                    proof: row.get(4)?,
                    escrowed: row.get(5)? && missing_since.is_none(),
                    missing_since,
                })
            },
        )
    }
}

/// Is `text` the start of an id, or of its random tail?
pub(super) fn starts(id: &str, text: &str) -> bool {
    let tail = id.split_once('-').map_or("", |(_, tail)| tail);
    !text.is_empty() && (id.starts_with(text) || tail.starts_with(text))
}

/// Why a snapshot does not count as restorable.
fn obstacles(quality: Quality, keys: &[KeyNeeded], failures: &[String]) -> Vec<String> {
    let mut obstacles = Vec::new();
    if quality != Quality::Good {
        obstacles.push(format!("its quality is {}", quality.as_str()));
    }
    for key in keys.iter().filter(|key| !key.escrowed) {
        obstacles.push(match (&key.fingerprint, &key.missing_since) {
            (Some(fingerprint), Some(since)) => {
                format!(
                    "{} key {} ({fingerprint}) was not opened from escrow at {since}, and not deposited since",
                    key.provider, key.name
                )
            }
            (Some(fingerprint), None) => format!("{} key {} ({fingerprint}) is not in escrow", key.provider, key.name),
            (None, _) => format!("no known key opens what {} key {} encrypted", key.provider, key.name),
        });
    }
    // A rehearsal that could not run says nothing about the snapshot, neither for
    // it nor against; nor does a person who ended one.
    let speaks = |failure: &&String| {
        codes::ALL.iter().all(|code| code.name != failure.as_str() || (code.exit == Exit::Bad && !code.is_of_people()))
    };
    if let Some(failure) = failures.iter().find(speaks) {
        obstacles.push(format!("a rehearsal found it bad: {failure}"));
    }
    obstacles
}

struct Raw {
    path: String,
    sha256: String,
    id: String,
    lineage: String,
    finished: String,
    host: String,
    revision: i64,
    live_keys: u64,
    image_bytes: u64,
    object_bytes: u64,
    quality: String,
}

impl Raw {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            path: row.get(0)?,
            sha256: row.get(1)?,
            id: row.get(2)?,
            lineage: row.get(3)?,
            finished: row.get(4)?,
            host: row.get(5)?,
            revision: row.get(6)?,
            live_keys: count(row, 7)?,
            image_bytes: count(row, 8)?,
            object_bytes: count(row, 9)?,
            quality: row.get(10)?,
        })
    }
}

/// Counts are written from unsigned numbers.
pub(super) fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(column)?.unsigned_abs())
}
