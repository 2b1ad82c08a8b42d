//! A receipt: the ledger's word that a key was deposited in escrow.

use serde::{Deserialize, Serialize};

use super::manifest::RecordRef;
use super::{Link, Record};
use crate::base::ids::Fingerprint;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    pub schema: u32,
    pub path: String,
    pub signer: Link,
    pub fingerprint: Fingerprint,
    pub provider: String,
    pub name: String,
    /// The escrow store as its host knows it, without credentials: a receipt says
    /// nothing about another one.
    pub store: String,
    /// The escrow record's path in the escrow store, and its digest.
    pub escrow_record: RecordRef,
    pub sealed_to: Vec<String>,
    /// RFC 3339, UTC.
    pub deposited: String,
    pub tool: String,
}

impl Record for Receipt {
    const NAMESPACE: &'static str = "holdfast-receipt";
    const SIGNED_AT: &'static str = "/deposited";

    fn path(&self) -> &str {
        &self.path
    }

    fn signer(&self) -> &Link {
        &self.signer
    }
}
