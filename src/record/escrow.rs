//! The open half of an escrow record: what a sealed key is, without the key.

use serde::{Deserialize, Serialize};

use super::{Link, ObjectRef, Record};
use crate::base::ids::{Fingerprint, Principal};

/// Lies beside the sealed object in the escrow store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EscrowRecord {
    pub schema: u32,
    pub path: String,
    pub signer: Link,
    pub fingerprint: Fingerprint,
    pub provider: String,
    /// The key's name in the configuration it was read from.
    pub name: String,
    pub host: Principal,
    pub sealed: ObjectRef,
    pub sealed_to: Vec<String>,
    /// RFC 3339, UTC.
    pub deposited: String,
    pub tool: String,
}

impl Record for EscrowRecord {
    const NAMESPACE: &'static str = "holdfast-escrow";
    const SIGNED_AT: &'static str = "/deposited";

    fn path(&self) -> &str {
        &self.path
    }

    fn signer(&self) -> &Link {
        &self.signer
    }
}
