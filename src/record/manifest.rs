//! The manifest: what makes a snapshot exist.

use serde::{Deserialize, Serialize};

use super::{Link, ObjectRef, Record};
use crate::base::digest::Sha256;
use crate::base::ids::{ClusterName, Fingerprint, Lineage, Principal, SnapshotId};

/// A snapshot's signed description, written last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    pub schema: u32,
    pub path: String,
    pub signer: Link,
    pub id: SnapshotId,
    pub cluster: Cluster,
    pub quality: Quality,
    pub taken: Taken,
    pub image: Image,
    pub object: Object,
    /// age recipients that the object is sealed to.
    pub sealed_to: Vec<String>,
    pub resources: Vec<ResourceCount>,
    /// Exactly the key versions that live objects need.
    pub keys: Vec<KeyNeed>,
    pub recovery: Option<Recovery>,
    pub restore_md_sha256: Sha256,
    pub problems: Vec<Problem>,
    /// Name and version of the program that wrote this.
    pub tool: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    pub name: ClusterName,
    pub lineage: Lineage,
}

/// Whether a snapshot counts as restorable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Quality {
    Good,
    /// The member or the clock gives reason to doubt the content.
    Suspect,
    /// A needed key is not in escrow, or does not open its objects.
    Incomplete,
}

impl Quality {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Suspect => "suspect",
            Self::Incomplete => "incomplete",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Taken {
    /// The scheduled instant; null for a snapshot taken by hand.
    pub slot: Option<String>,
    /// RFC 3339, UTC.
    pub started: String,
    pub finished: String,
    pub host: Principal,
    /// Local clock minus the store's; null when the store tells no time.
    pub clock_offset_ms: Option<i64>,
    pub member: Member,
}

/// The etcd member that the image was streamed from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// 16 lower-case hex digits.
    pub id: String,
    pub name: String,
    /// The server's version, such as `3.6.16`.
    pub version: String,
    /// Did the member have a leader?
    pub leader: bool,
    /// Raft entries that the member had not applied yet.
    pub lag: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    /// Without the 32-byte digest trailer.
    pub bytes: u64,
    /// Of the image without its trailer: what the trailer says.
    pub sha256: Sha256,
    pub revision: i64,
    pub compact_revision: i64,
    pub hash_kv: u32,
    pub status_hash: u32,
    pub storage_version: Option<String>,
    pub live_keys: u64,
    pub history_records: u64,
    pub free_page_bytes: u64,
}

/// The sealed object, whole and in parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Object {
    pub key: String,
    pub version_id: Option<String>,
    pub bytes: u64,
    pub sha256: Sha256,
    pub parts: Vec<ObjectRef>,
    pub retention_asked: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResourceCount {
    pub group: String,
    pub resource: String,
    pub live: u64,
    pub encrypted: u64,
    pub plaintext: u64,
}

/// A key version that live objects need.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyNeed {
    /// `aescbc`, `aesgcm`, `secretbox`, `kmsv1` or `kmsv2`.
    pub provider: String,
    /// The name in the stored prefix. Never trusted.
    pub name: String,
    pub kms_key_id: Option<String>,
    /// `hf1-…` when a key opened it, `kms:…` or `kms1:…` for KMS, else null.
    pub fingerprint: Option<String>,
    /// Fingerprint of a KEK that we hold, for KMS.
    pub material: Option<Fingerprint>,
    pub live_objects: u64,
    /// `resource` or `resource.group`, sorted.
    pub resources: Vec<String>,
    pub proof: Proof,
    pub escrow_record: Option<RecordRef>,
}

/// What trial decryption showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Proof {
    /// All live objects of the entry opened.
    Opened,
    /// A key of this name exists and does not open them.
    Failed,
    /// No key of this provider and name was given.
    NoKey,
    /// A KMS whose key we do not hold.
    NotTried,
}

impl Proof {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Failed => "failed",
            Self::NoKey => "no-key",
            Self::NotTried => "not-tried",
        }
    }
}

/// A signed record by path and digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordRef {
    pub key: String,
    pub sha256: Sha256,
}

/// Recovery bundles, by the digest of their content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recovery {
    pub common: Option<Bundle>,
    pub host: Option<Bundle>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bundle {
    pub digest: Sha256,
}

/// Something an operator should know, with a stable code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Problem {
    pub code: String,
    pub severity: Severity,
    pub message: String,
    pub count: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Info,
    Warning,
    Error,
}

impl Record for Manifest {
    const NAMESPACE: &'static str = "holdfast-manifest";
    const SIGNED_AT: &'static str = "/taken/finished";

    fn path(&self) -> &str {
        &self.path
    }

    fn signer(&self) -> &Link {
        &self.signer
    }
}
