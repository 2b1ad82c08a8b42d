//! What reading the ledger gives: records that are believed, and what is not.

use serde::{Deserialize, Serialize};

use crate::base::digest::Sha256;
use crate::base::failure::Failure;
use crate::record::attestation::{Attestation, ReportRecord};
use crate::record::foreign::Foreign;
use crate::record::host::HostRecord;
use crate::record::manifest::Manifest;
use crate::record::receipt::Receipt;
use crate::record::{Link, Record};

/// A record of the ledger whose signature and place were verified.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Where it lies in the ledger.
    pub path: String,
    /// The stored bytes, their digest, and the signature beside them.
    pub bytes: Vec<u8>,
    pub sha256: Sha256,
    pub signature: String,
    pub document: Document,
}

/// A record by its kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Document {
    Manifest(Box<Manifest>),
    Receipt(Box<Receipt>),
    Host(Box<HostRecord>),
    Attestation(Box<Attestation>),
    Report(Box<ReportRecord>),
    /// Of a kind that this version does not know: a place in a chain, and no more.
    Foreign(Box<Foreign>),
}

impl Document {
    /// The record's place in its signer's chain.
    #[must_use]
    pub fn link(&self) -> &Link {
        match self {
            Self::Manifest(record) => record.signer(),
            Self::Receipt(record) => record.signer(),
            Self::Host(record) => record.signer(),
            Self::Attestation(record) => record.signer(),
            Self::Report(record) => record.signer(),
            Self::Foreign(record) => &record.signer,
        }
    }

    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Manifest(_) => "manifest",
            Self::Receipt(_) => "receipt",
            Self::Host(_) => "host",
            Self::Attestation(_) => "attestation",
            Self::Report(_) => "report",
            Self::Foreign(_) => "foreign",
        }
    }
}

/// Something in the ledger that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Finding {
    /// The object, or the chain: `chain of cp-1`.
    pub object: String,
    /// A code of [`crate::base::codes`].
    pub code: String,
    pub message: String,
}

impl Finding {
    /// Is it about one record that is there and is not believed? Others are
    /// about a chain, or about what is not there.
    #[must_use]
    pub fn is_disbelief(&self) -> bool {
        self.code.starts_with("record.")
    }
}

impl From<&Failure> for Finding {
    fn from(failure: &Failure) -> Self {
        Self { object: failure.object().to_owned(), code: failure.code().name.to_owned(), message: failure.cause().to_owned() }
    }
}
