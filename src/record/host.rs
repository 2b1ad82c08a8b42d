//! A host's record: its EncryptionConfiguration per resource, in provider
//! order, by fingerprint. A rehearsal and `RESTORE.md` rebuild the file from it.

use serde::{Deserialize, Serialize};

use super::{Link, Record};
use crate::base::digest::Sha256;
use crate::base::ids::{ClusterName, Fingerprint, Principal};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostRecord {
    pub schema: u32,
    pub path: String,
    pub signer: Link,
    pub cluster: ClusterName,
    pub host: Principal,
    /// RFC 3339, UTC.
    pub observed: String,
    pub clock_offset_ms: Option<i64>,
    /// Null when the API server has no EncryptionConfiguration.
    pub encryption: Option<EncryptionShape>,
    pub tool: String,
}

/// An EncryptionConfiguration without its key material.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EncryptionShape {
    /// Digest of the file as read. Tells whether the file changed at all;
    /// whether it differs in substance is told by the fingerprints.
    pub file_sha256: Sha256,
    pub rules: Vec<RuleShape>,
}

/// One element of `resources:`, in the file's order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleShape {
    pub resources: Vec<String>,
    pub providers: Vec<ProviderShape>,
}

/// One element of `providers:`, in the file's order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum ProviderShape {
    Aescbc { keys: Vec<KeyShape> },
    Aesgcm { keys: Vec<KeyShape> },
    Secretbox { keys: Vec<KeyShape> },
    Kms { api_version: String, name: String, endpoint: String, timeout: Option<String>, cachesize: Option<i32> },
    Identity {},
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyShape {
    pub name: String,
    pub fingerprint: Fingerprint,
}

impl Record for HostRecord {
    const NAMESPACE: &'static str = "holdfast-host";
    const SIGNED_AT: &'static str = "/observed";

    fn path(&self) -> &str {
        &self.path
    }

    fn signer(&self) -> &Link {
        &self.signer
    }
}
