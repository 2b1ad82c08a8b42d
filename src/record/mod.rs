//! What is signed and stored: exact bytes, field by field.
//!
//! Owns: the types of all records, their canonical bytes, SSHSIG signatures.
//! Must never: talk to a store, or re-serialise what it verified: a signature
//! is over the stored bytes, and those are checked before they are parsed.
//!
//! JSON is written with sorted keys, no spaces and one final newline; SHA-256
//! digests and 64-bit ids are lower-case hex strings, CRC-32 hashes and counts
//! are integers.

pub mod attestation;
pub mod canonical;
pub mod escrow;
pub mod foreign;
pub mod host;
pub mod layout;
pub mod manifest;
pub mod receipt;
pub mod signature;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::base::digest::Sha256;
use crate::base::ids::Principal;
pub use crate::base::rung::Rung;

/// The version of all record types in this file tree.
pub const SCHEMA: u32 = 1;

/// Name and version of this program, as records name it.
pub const TOOL: &str = concat!("holdfast ", env!("CARGO_PKG_VERSION"));

/// A document that is signed and stored under a path that it names itself.
pub trait Record: Serialize + DeserializeOwned + Send + Sync {
    /// The SSHSIG namespace, such as `holdfast-manifest`.
    const NAMESPACE: &'static str;

    /// JSON pointer to the record's own time, at which its signer must have
    /// been allowed: rotated signers stay good.
    const SIGNED_AT: &'static str;

    /// The object path in the record's home store.
    fn path(&self) -> &str;

    /// Who signed, and where in the signer's chain it stands.
    fn signer(&self) -> &Link;
}

/// A record's place in its signer's chain over all record types.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    pub name: Principal,
    /// 1 for a signer's first record.
    pub seq: u64,
    /// Digest of the bytes of the signer's record before this one.
    pub prev: Option<Sha256>,
}

/// Where a sealed object lies, and what it must be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectRef {
    pub key: String,
    pub version_id: Option<String>,
    pub bytes: u64,
    pub sha256: Sha256,
}
