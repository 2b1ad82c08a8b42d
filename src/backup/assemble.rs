//! From facts to the manifest and `RESTORE.md`. Pure.

use super::BackupHost;
use super::clock_offset::ClockOffset;
use super::configuration::Readings;
use super::restore_md::{Page, PageKey, PageKms};
use super::take::Draft;
use crate::base::clock::rfc3339;
use crate::base::codes;
use crate::base::digest::Sha256;
use crate::base::failure::Failure;
use crate::base::units::count;
use crate::escrow::shape;
use crate::etcd::member::Doubt;
use crate::etcd::{Choice, MemberStatus, StreamedImage};
use crate::record::layout::Layout;
use crate::record::manifest::{
    Cluster, Image, KeyNeed, Manifest, Member, Object, Problem, Proof, Quality, RecordRef, Severity, Taken,
};
use crate::record::receipt::Receipt;
use crate::record::{Link, ObjectRef, SCHEMA};
use crate::scan::Captured;
use crate::scan::capture::MemoryLock;
use crate::scan::inspection::{EtcdFacts, KeyEntry};
use crate::store::Stored;

/// What was seen while the snapshot was taken.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    pub choice: &'a Choice,
    /// The same member's status when the stream had ended.
    pub after: Option<&'a MemberStatus>,
    pub degraded: Option<&'a str>,
    pub captured: &'a Captured,
    pub image: &'a StreamedImage,
    pub object: &'a Stored,
    pub receipts: &'a [Receipt],
    pub readings: &'a Readings,
    pub clock_offset: Option<ClockOffset>,
}

/// The documents of a snapshot, still without their place in the chain.
#[derive(Debug)]
pub struct Assembled {
    pub manifest: Manifest,
    pub restore_md: String,
    /// Gaps in escrow and doubts, for the operator.
    pub warnings: Vec<Failure>,
}

/// # Errors
/// `backup.image.broken` when the image could not be read as an etcd database.
pub fn assemble(host: &BackupHost<'_>, draft: &Draft, facts: &Facts<'_>) -> Result<Assembled, Failure> {
    let inspection = &facts.captured.inspection;
    let etcd = inspection
        .etcd
        .as_ref()
        .ok_or_else(|| Failure::new(&codes::BACKUP_IMAGE_BROKEN, &facts.choice.member.endpoint, "its structure is damaged"))?;
    let keys: Vec<KeyNeed> =
        inspection.keys.iter().filter(|key| key.live_objects > 0).map(|key| need(key, facts.receipts)).collect();
    let mut problems = inspection.problems.clone();
    problems.extend(doubts(facts, etcd));
    let (gaps, warnings) = gaps(&keys);
    problems.extend(gaps);
    problems.extend(unlocked(&facts.captured.memory));
    problems.extend(facts.clock_offset.and_then(ClockOffset::problem));
    problems.extend(facts.readings.failure.as_ref().map(unread));
    let mut manifest = Manifest {
        schema: SCHEMA,
        path: draft.snapshots.snapshot_manifest(&draft.lineage, &draft.id),
        signer: Link { name: host.signer.principal().clone(), seq: 0, prev: None },
        id: draft.id.clone(),
        cluster: Cluster { name: host.config.cluster.clone(), lineage: draft.lineage.clone() },
        quality: quality(&keys, &problems, facts.readings.failure.is_some(), facts.clock_offset),
        taken: taken(host, draft, facts, etcd),
        image: image(facts, etcd),
        object: object(facts.object),
        sealed_to: host.config.snapshots.recipients.clone(),
        resources: inspection.resources.clone(),
        keys,
        recovery: None,
        restore_md_sha256: Sha256::of(b""),
        problems,
        tool: crate::record::TOOL.to_owned(),
    };
    let restore_md = page(host, draft, facts, etcd, &manifest).render()?;
    manifest.restore_md_sha256 = Sha256::of(restore_md.as_bytes());
    Ok(Assembled { manifest, restore_md, warnings })
}

/// `incomplete` outweighs `suspect`: without its keys the content does not matter.
fn quality(keys: &[KeyNeed], problems: &[Problem], unread: bool, clock: Option<ClockOffset>) -> Quality {
    let complete = !unread && keys.iter().all(|key| key.proof == Proof::Opened && key.escrow_record.is_some());
    let doubted = ["member-lagging", "member-leaderless", "alarm-corrupt", "revision-moved", "undecryptable", "unknown-body"];
    if !complete {
        Quality::Incomplete
    } else if problems.iter().any(|problem| doubted.contains(&problem.code.as_str()))
        || clock.is_some_and(ClockOffset::is_doubtful)
    {
        Quality::Suspect
    } else {
        Quality::Good
    }
}

fn need(key: &KeyEntry, receipts: &[Receipt]) -> KeyNeed {
    let receipt = receipts.iter().find(|receipt| Some(receipt.fingerprint.as_str()) == key.fingerprint.as_deref());
    KeyNeed {
        provider: key.provider.clone(),
        name: key.name.clone(),
        kms_key_id: key.kms_key_id.clone(),
        fingerprint: key.fingerprint.clone(),
        material: key.material.clone(),
        live_objects: key.live_objects,
        resources: key.resources.clone(),
        proof: key.proof,
        escrow_record: receipt
            .map(|receipt| RecordRef { key: receipt.escrow_record.key.clone(), sha256: receipt.escrow_record.sha256 }),
    }
}

/// A needed key that escrow does not have, or that opens nothing, is named in
/// the same run, with what hangs on it.
fn gaps(keys: &[KeyNeed]) -> (Vec<Problem>, Vec<Failure>) {
    let mut problems = Vec::new();
    let mut warnings = Vec::new();
    for key in keys {
        let cause = match (key.proof, &key.escrow_record) {
            (Proof::Opened, Some(_)) => continue,
            (Proof::Opened, None) => "is not in escrow",
            (Proof::NotTried, _) => "belongs to a KMS and is not in escrow",
            (Proof::Failed, _) => "does not open them: the configuration has this name with other material",
            (Proof::NoKey, _) => "is not in the EncryptionConfiguration of this host",
        };
        let objects = count(key.live_objects, "live object");
        let message = format!("{objects} ({}) need {} key {:?}, which {cause}", key.resources.join(", "), key.provider, key.name);
        warnings.push(Failure::new(&codes::ESCROW_GAP, format!("key {} {:?}", key.provider, key.name), &message));
        problems.push(Problem { code: "escrow-gap".into(), severity: Severity::Error, message, count: key.live_objects });
    }
    (problems, warnings)
}

fn doubts(facts: &Facts<'_>, etcd: &EtcdFacts) -> Vec<Problem> {
    let warning = |code: &str, message: String| Problem { code: code.to_owned(), severity: Severity::Warning, message, count: 1 };
    let member = &facts.choice.member;
    let mut problems = Vec::new();
    for doubt in &facts.choice.doubts {
        problems.push(match doubt {
            Doubt::Lagging => warning(doubt.code(), format!("the member was {} behind", count(facts.choice.lag, "raft entry"))),
            Doubt::Leaderless => {
                let reason = facts.degraded.unwrap_or("no reason given");
                warning(doubt.code(), format!("the member had no leader; taken all the same: {reason}"))
            }
            // The bytes say so too when the alarm is in this member's database.
            Doubt::Corrupt => warning(doubt.code(), "a CORRUPT alarm is raised".to_owned()),
        });
    }
    let newest = facts.after.map_or(i64::MAX, |status| status.revision);
    if etcd.revision < member.revision || etcd.revision > newest {
        let message = format!("the image is at revision {}, the member said {} to {newest}", etcd.revision, member.revision);
        problems.push(warning("revision-moved", message));
    }
    problems
}

/// Without the configuration nobody can say that all its keys are in escrow.
fn unread(failure: &Failure) -> Problem {
    Problem {
        code: "encryption-config-unreadable".to_owned(),
        severity: Severity::Error,
        message: format!("the EncryptionConfiguration could not be read: {}", failure.cause()),
        count: 1,
    }
}

fn unlocked(memory: &MemoryLock) -> Option<Problem> {
    match memory {
        MemoryLock::Unlocked { active_swap } if !active_swap.is_empty() => Some(Problem {
            code: "memory-swappable".to_owned(),
            severity: Severity::Warning,
            message: format!("the image's memory could not be locked and swap is active: {}", active_swap.join(", ")),
            count: active_swap.len() as u64,
        }),
        _ => None,
    }
}

fn taken(host: &BackupHost<'_>, draft: &Draft, facts: &Facts<'_>, etcd: &EtcdFacts) -> Taken {
    let member = &facts.choice.member;
    let id = format!("{:016x}", member.member_id);
    let name = etcd.members.iter().find(|m| m.id == id).map_or(String::new(), |m| m.name.clone());
    Taken {
        slot: draft.slot.clone(),
        started: rfc3339(draft.started),
        finished: rfc3339(host.clock.now()),
        host: host.config.host.name.clone(),
        clock_offset_ms: facts.clock_offset.map(ClockOffset::milliseconds),
        member: Member { id, name, version: member.version.clone(), leader: member.leader != 0, lag: facts.choice.lag },
    }
}

fn image(facts: &Facts<'_>, etcd: &EtcdFacts) -> Image {
    Image {
        bytes: facts.image.bytes,
        sha256: facts.image.sha256,
        revision: etcd.revision,
        compact_revision: etcd.compact_revision,
        hash_kv: etcd.hash_kv,
        status_hash: etcd.status_hash,
        storage_version: etcd.storage_version.clone(),
        live_keys: etcd.live_keys,
        history_records: etcd.history_records,
        free_page_bytes: etcd.free_bytes,
    }
}

fn object(stored: &Stored) -> Object {
    Object {
        key: stored.key.to_string(),
        version_id: stored.version_id.as_ref().map(|version| version.0.clone()),
        bytes: stored.bytes,
        sha256: stored.sha256,
        parts: stored
            .parts
            .iter()
            .map(|part| ObjectRef {
                key: part.key.to_string(),
                version_id: part.version_id.as_ref().map(|version| version.0.clone()),
                bytes: part.bytes,
                sha256: part.sha256,
            })
            .collect(),
        retention_asked: None,
    }
}

fn page(host: &BackupHost<'_>, draft: &Draft, facts: &Facts<'_>, etcd: &EtcdFacts, manifest: &Manifest) -> Page {
    let shape = facts.readings.newest().map(|read| shape::of(&read.named.config, read.sha256));
    let storage = etcd.storage_version.clone();
    let minor = storage.as_deref().and_then(|version| version.rsplit_once('.')).map(|(minor, _)| minor.to_owned());
    Page {
        id: draft.id.to_string(),
        cluster: host.config.cluster.to_string(),
        quality: manifest.quality.as_str().to_owned(),
        taken_started: manifest.taken.started.clone(),
        taken_finished: manifest.taken.finished.clone(),
        verify_time: verify_time(&manifest.taken.finished),
        host: host.signer.principal().to_string(),
        member: manifest.taken.member.id.clone(),
        member_version: manifest.taken.member.version.clone(),
        revision: etcd.revision,
        compact_revision: etcd.compact_revision,
        storage_version: storage.unwrap_or_else(|| "not stated".to_owned()),
        storage_minor: minor.unwrap_or_else(|| "of the member's version".to_owned()),
        live_keys: etcd.live_keys,
        image_bytes: facts.image.bytes,
        image_sha256: facts.image.sha256.to_string(),
        snapshot_store: host.snapshots.describe(),
        escrow_store: host.escrow.describe(),
        snapshot_folder: draft.snapshots.snapshot(&draft.lineage, &draft.id),
        escrow_folder: format!("{}/keys", Layout::new(&host.config.escrow.prefix, &host.config.cluster).root()),
        object_key: manifest.object.key.clone(),
        object_bytes: manifest.object.bytes,
        object_sha256: manifest.object.sha256.to_string(),
        object_version: manifest.object.version_id.clone(),
        sealed_to: manifest.sealed_to.clone(),
        keys: shape.as_ref().map(|shape| page_keys(facts, shape, manifest)).unwrap_or_default(),
        kms_keys: manifest.keys.iter().filter(|key| key.provider.starts_with("kms")).map(page_kms).collect(),
        configuration_unread: facts.readings.failure.is_some(),
        configuration: shape.as_ref().map(shape::placeholder_document).unwrap_or_default(),
        shape_host: host.config.host.name.to_string(),
        prefix: facts.captured.inspection.prefix.clone().unwrap_or_else(|| "/registry".to_owned()),
        alarms: etcd.alarms.iter().map(|alarm| alarm.kind.clone()).collect(),
        auth_enabled: etcd.auth_enabled,
    }
}

fn page_keys(facts: &Facts<'_>, shape: &crate::record::host::EncryptionShape, manifest: &Manifest) -> Vec<PageKey> {
    let configured = facts.readings.newest().map(|read| read.named.config.keys()).unwrap_or_default();
    let page_key = |fingerprint: &crate::base::ids::Fingerprint| {
        let key = configured.iter().find(|key| key.fingerprint() == fingerprint)?;
        let receipt = facts.receipts.iter().find(|receipt| receipt.fingerprint == *fingerprint);
        let needs = manifest.keys.iter().filter(|need| need.fingerprint.as_deref() == Some(fingerprint.as_str()));
        Some(PageKey {
            fingerprint: fingerprint.to_string(),
            provider: key.provider().as_str().to_owned(),
            name: serde_json::Value::from(key.name()).to_string(),
            live_objects: needs.map(|need| need.live_objects).sum(),
            record: receipt.map(|r| r.escrow_record.key.trim_end_matches(".json").to_owned()),
            record_sha256: receipt.map(|r| r.escrow_record.sha256.to_string()).unwrap_or_default(),
            signer: receipt.map(|r| r.signer.name.to_string()).unwrap_or_default(),
            verify_time: receipt.map(|r| verify_time(&r.deposited)).unwrap_or_default(),
        })
    };
    shape::fingerprints(shape).into_iter().filter_map(page_key).collect()
}

fn page_kms(key: &KeyNeed) -> PageKms {
    PageKms {
        name: serde_json::Value::from(key.name.as_str()).to_string(),
        fingerprint: serde_json::Value::from(key.fingerprint.as_deref().unwrap_or_default()).to_string(),
        objects: key.live_objects,
    }
}

/// `2026-12-01T13:00:00Z` as ssh-keygen wants it: `20261201130000`.
fn verify_time(rfc3339: &str) -> String {
    rfc3339.chars().filter(char::is_ascii_digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_ten_minutes_off_makes_a_snapshot_suspect() {
        let store: jiff::Timestamp = "2026-12-01T13:00:00Z".parse().unwrap();
        let quality_at = |seconds| {
            let clock = ClockOffset::between(store + jiff::SignedDuration::from_secs(seconds), store);
            quality(&[], &clock.problem().into_iter().collect::<Vec<_>>(), false, Some(clock))
        };
        assert_eq!((quality_at(0), quality_at(599), quality_at(-599)), (Quality::Good, Quality::Good, Quality::Good));
        assert_eq!((quality_at(601), quality_at(-601)), (Quality::Suspect, Quality::Suspect));
        assert_eq!(quality(&[], &[], false, None), Quality::Good);
    }
}
