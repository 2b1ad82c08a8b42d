//! Signatures over stored bytes, and the one way a record comes to be believed.
//!
//! A signature is SSHSIG, as stock `ssh-keygen -Y verify` checks it. Bytes are
//! verified before they are parsed; before that they are only asked who claims
//! to have signed them, and when, to choose what to verify against.

pub mod allowed_signers;
pub mod pattern;
pub mod signer;

use jiff::Timestamp;
use serde_json::Value;

pub use allowed_signers::AllowedSigners;
pub use signer::Signer;

use super::layout::Layout;
use super::manifest::Manifest;
use super::{Record, SCHEMA, canonical};
use crate::base::codes;
use crate::base::digest::Sha256;
use crate::base::failure::Failure;
use crate::base::ids::Principal;

/// Longest signature that is read; ours have about 300 bytes.
pub const MAX_SIGNATURE_BYTES: u64 = 4096;

/// A record as it is stored: its bytes and the signature that lies beside them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    pub bytes: Vec<u8>,
    /// PEM, stored as `<path>.sig`.
    pub signature: String,
    pub sha256: Sha256,
}

/// Signs a record in its own namespace. Nothing is stored.
pub fn sign_record<R: Record>(signer: &Signer, record: &R) -> Result<Signed, Failure> {
    if &record.signer().name != signer.principal() {
        let cause = format!("names {} as its signer, but {} signs", record.signer().name, signer.principal());
        return Err(Failure::new(&codes::RECORD_INVALID, record.path(), cause));
    }
    let bytes = canonical::to_bytes(record)?;
    let signature = signer.sign(R::NAMESPACE, &bytes)?;
    Ok(Signed { sha256: Sha256::of(&bytes), bytes, signature })
}

/// Believes a record that lies where it says, or tells why not.
pub fn verify_record<R: Record>(path: &str, bytes: &[u8], signature: &[u8], allowed: &AllowedSigners) -> Result<R, Failure> {
    let record: R = verify_bytes(path, bytes, signature, allowed)?;
    if record.path() == path { Ok(record) } else { Err(misplaced(path, format!("its signed path is {}", record.path()))) }
}

/// Believes the ledger's copy of a manifest: it lies under the lineage and id
/// that the path of its home in the snapshot store ends with.
pub fn verify_ledger_manifest(
    layout: &Layout,
    path: &str,
    bytes: &[u8],
    signature: &[u8],
    allowed: &AllowedSigners,
) -> Result<Manifest, Failure> {
    let manifest: Manifest = verify_bytes(path, bytes, signature, allowed)?;
    let Manifest { id, cluster, .. } = &manifest;
    let home = format!("{}/{}/{id}/manifest.json", cluster.name, cluster.lineage);
    let at_home = manifest.path == home || manifest.path.ends_with(&format!("/{home}"));
    if at_home && layout.is_of(&cluster.name) && layout.ledger_manifest(&cluster.lineage, id) == path {
        Ok(manifest)
    } else {
        Err(misplaced(path, format!("its signed path is {}", manifest.path)))
    }
}

/// Signature, then schema, then content; the place is the caller's to check.
fn verify_bytes<R: Record>(path: &str, bytes: &[u8], signature: &[u8], allowed: &AllowedSigners) -> Result<R, Failure> {
    let claim = Claim::peek::<R>(path, bytes)?;
    allowed.verify(path, &claim.principal, R::NAMESPACE, bytes, signature, claim.at)?;
    if claim.schema != u64::from(SCHEMA) {
        let cause = format!("schema {}, and this version reads {SCHEMA}", claim.schema);
        return Err(Failure::new(&codes::RECORD_INVALID, path, cause));
    }
    canonical::from_bytes(path, bytes)
}

/// What unverified bytes say of themselves. Used to choose a key and a time to
/// verify against, and for nothing else.
struct Claim {
    schema: u64,
    principal: Principal,
    at: Timestamp,
}

impl Claim {
    fn peek<R: Record>(path: &str, bytes: &[u8]) -> Result<Self, Failure> {
        let refuse = |cause: String| Failure::new(&codes::RECORD_INVALID, path, cause);
        if bytes.len() as u64 > canonical::MAX_BYTES {
            return Err(refuse(format!("larger than {} bytes", canonical::MAX_BYTES)));
        }
        let value: Value = serde_json::from_slice(bytes).map_err(|e| refuse(e.to_string()))?;
        let text = |pointer: &str| {
            value.pointer(pointer).and_then(Value::as_str).ok_or_else(|| refuse(format!("{pointer} is no text or absent")))
        };
        Ok(Self {
            schema: value.get("schema").and_then(Value::as_u64).ok_or_else(|| refuse("schema is no number or absent".into()))?,
            principal: text("/signer/name")?.parse().map_err(|e| refuse(format!("/signer/name: {e}")))?,
            at: text(R::SIGNED_AT)?.parse().map_err(|e| refuse(format!("{}: {e}", R::SIGNED_AT)))?,
        })
    }
}

fn misplaced(path: &str, cause: String) -> Failure {
    Failure::new(&codes::RECORD_MISPLACED, path, cause)
}
