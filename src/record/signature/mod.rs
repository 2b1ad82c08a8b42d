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

use super::attestation::{Attestation, ReportRecord};
use super::escrow::EscrowRecord;
use super::foreign::{Foreign, Outline};
use super::host::HostRecord;
use super::layout::Layout;
use super::manifest::Manifest;
use super::receipt::Receipt;
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

/// The kinds that this version knows: their records are read as what they are, or not at all.
const KNOWN: [&str; 6] = [
    Attestation::NAMESPACE,
    EscrowRecord::NAMESPACE,
    HostRecord::NAMESPACE,
    Manifest::NAMESPACE,
    Receipt::NAMESPACE,
    ReportRecord::NAMESPACE,
];
/// Kinds of all versions are called so.
const ANY: &str = "holdfast-";
/// A record has a few times; more were put there by somebody else.
const MOST_TIMES: usize = 64;

/// Believes a record of a kind that this version does not know, as far as that
/// goes: its signer was allowed to sign that kind at a time that it names, and
/// it lies where it says.
pub fn verify_foreign(path: &str, bytes: &[u8], signature: &[u8], allowed: &AllowedSigners) -> Result<Foreign, Failure> {
    let refuse = |cause: String| Failure::new(&codes::RECORD_INVALID, path, cause);
    let value = parse(path, bytes)?;
    let principal = text(path, &value, "/signer/name")?.parse().map_err(|e| refuse(format!("/signer/name: {e}")))?;
    let namespace = allowed_signers::namespace_of(path, signature)?;
    if KNOWN.contains(&namespace.as_str()) {
        return Err(misplaced(path, format!("records of {namespace} do not lie here")));
    }
    if !namespace.starts_with(ANY) {
        return Err(refuse(format!("a record of {namespace:?}, which is none of holdfast")));
    }
    // Which of its times is that of the signature, only a newer version knows.
    let mut verified = Err(refuse("it names no time".to_owned()));
    for at in times(&value) {
        verified = allowed.verify(path, &principal, &namespace, bytes, signature, at);
        if verified.is_ok() {
            break;
        }
    }
    verified?;
    let outline: Outline = serde_json::from_slice(bytes).map_err(|e| refuse(e.to_string()))?;
    if outline.path != path {
        return Err(misplaced(path, format!("its signed path is {}", outline.path)));
    }
    Ok(Foreign { namespace, path: outline.path, signer: outline.signer })
}

/// Every time in a document, each once.
fn times(value: &Value) -> Vec<Timestamp> {
    let (mut times, mut open) = (Vec::new(), vec![value]);
    while let Some(value) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(fields) => open.extend(fields.values()),
            Value::String(text) => times.extend(text.parse::<Timestamp>().ok().filter(|at| !times.contains(at))),
            _ => {}
        }
        if times.len() >= MOST_TIMES {
            break;
        }
    }
    times
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
        let value = parse(path, bytes)?;
        Ok(Self {
            schema: value.get("schema").and_then(Value::as_u64).ok_or_else(|| refuse("schema is no number or absent".into()))?,
            principal: text(path, &value, "/signer/name")?.parse().map_err(|e| refuse(format!("/signer/name: {e}")))?,
            at: text(path, &value, R::SIGNED_AT)?.parse().map_err(|e| refuse(format!("{}: {e}", R::SIGNED_AT)))?,
        })
    }
}

fn parse(path: &str, bytes: &[u8]) -> Result<Value, Failure> {
    let refuse = |cause: String| Failure::new(&codes::RECORD_INVALID, path, cause);
    if bytes.len() as u64 > canonical::MAX_BYTES {
        return Err(refuse(format!("larger than {} bytes", canonical::MAX_BYTES)));
    }
    serde_json::from_slice(bytes).map_err(|e| refuse(e.to_string()))
}

fn text<'v>(path: &str, value: &'v Value, pointer: &str) -> Result<&'v str, Failure> {
    let absent = || Failure::new(&codes::RECORD_INVALID, path, format!("{pointer} is no text or absent"));
    value.pointer(pointer).and_then(Value::as_str).ok_or_else(absent)
}

fn misplaced(path: &str, cause: String) -> Failure {
    Failure::new(&codes::RECORD_MISPLACED, path, cause)
}
