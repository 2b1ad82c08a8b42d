//! What a snapshot says: the contract of `holdfast inspect --json`.

use serde::{Deserialize, Serialize};

use crate::base::digest::Sha256;
use crate::base::exit::Exit;
use crate::base::ids::Fingerprint;
use crate::record::manifest::{Problem, Proof, ResourceCount, Severity};

/// The answer of `inspect`. Field names are a contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inspection {
    pub file: FileFacts,
    /// Null when the structure is broken.
    pub etcd: Option<EtcdFacts>,
    /// The path before a known resource segment that most objects share.
    pub prefix: Option<String>,
    pub resources: Vec<ResourceCount>,
    /// Live keys that are no listed resource: outside the prefix, or internal.
    pub other: Vec<OtherCount>,
    pub keys: Vec<KeyEntry>,
    pub problems: Vec<Problem>,
    pub verdict: Verdict,
    /// Would all given configurations together open every live object?
    pub union_opens: bool,
}

impl Inspection {
    /// Good, or bad: an unrestorable snapshot or a problem that is an error.
    #[must_use]
    pub fn exit(&self) -> Exit {
        let has_error = self.problems.iter().any(|problem| problem.severity == Severity::Error);
        if has_error || self.verdict == Verdict::Unrestorable { Exit::Bad } else { Exit::Good }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFacts {
    /// Of the file, trailer included.
    pub bytes: u64,
    /// Of the file, trailer included.
    pub sha256: Sha256,
    pub trailer: Trailer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trailer {
    Ok,
    Missing,
    Mismatch,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EtcdFacts {
    pub revision: i64,
    /// -1 when never compacted.
    pub compact_revision: i64,
    /// What `etcdutl snapshot status` prints as hash.
    pub status_hash: u32,
    /// At `revision`, with the file's compaction.
    pub hash_kv: u32,
    /// Such as `3.6.0`; null before etcd 3.6.
    pub storage_version: Option<String>,
    pub live_keys: u64,
    pub history_records: u64,
    pub page_size: u32,
    /// Pages in use and free, without the trailer.
    pub db_bytes: u64,
    pub free_bytes: u64,
    pub members: Vec<MemberFacts>,
    pub alarms: Vec<Alarm>,
    pub auth_enabled: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberFacts {
    /// 16 lower-case hex digits.
    pub id: String,
    pub name: String,
    pub peer_urls: Vec<String>,
    pub client_urls: Vec<String>,
    pub learner: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alarm {
    /// 16 lower-case hex digits.
    pub member: String,
    /// `NOSPACE`, `CORRUPT`, or the number of a kind unknown to us.
    #[serde(rename = "type")]
    pub kind: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherCount {
    pub prefix: String,
    pub live: u64,
}

/// One key version found in the bytes: one entry per provider, name, KMS key
/// id and fingerprint; objects that no key opened share one entry with null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyEntry {
    pub provider: String,
    pub name: String,
    pub kms_key_id: Option<String>,
    pub fingerprint: Option<String>,
    pub material: Option<Fingerprint>,
    pub live_objects: u64,
    pub history_objects: u64,
    pub resources: Vec<String>,
    pub proof: Proof,
}

/// Would an API server given exactly this file read every live object?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Restorable,
    Unrestorable,
    Unknown,
}
