//! An attestation: what a rehearsal proved about a snapshot, or failed to; and
//! the record of a report.

use serde::{Deserialize, Serialize};

use super::manifest::RecordRef;
use super::{Link, Record, Rung};
use crate::base::ids::{ClusterName, Fingerprint, Lineage, Principal, RunId, SnapshotId};

/// Written once per rehearsal, good or bad.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attestation {
    pub schema: u32,
    pub path: String,
    pub signer: Link,
    pub run: RunId,
    pub cluster: ClusterName,
    pub lineage: Lineage,
    pub snapshot: SnapshotId,
    /// The manifest that was believed.
    pub manifest: RecordRef,
    pub host: Principal,
    /// RFC 3339, UTC.
    pub started: String,
    pub finished: String,
    pub asked: Rung,
    /// The highest rung reached; null when not even `open` was.
    pub reached: Option<Rung>,
    pub passed: bool,
    /// The stable code of the failure that ended the run.
    pub failure: Option<String>,
    /// Every escrow record opened in this run: each opening is on record.
    pub escrow_opened: Vec<Opening>,
    /// Monotonic, from the run's start to the highest rung reached.
    pub rto_ms: u64,
    /// The run's start minus the data's own clock.
    pub rpo_ms: Option<u64>,
    pub report: Option<RecordRef>,
    pub tool: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Opening {
    pub fingerprint: Fingerprint,
    pub escrow_record: RecordRef,
}

impl Record for Attestation {
    const NAMESPACE: &'static str = "holdfast-attestation";
    const SIGNED_AT: &'static str = "/finished";

    fn path(&self) -> &str {
        &self.path
    }

    fn signer(&self) -> &Link {
        &self.signer
    }
}

/// A report in the ledger: the JSON face, whole, inside a signed envelope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportRecord {
    pub schema: u32,
    pub path: String,
    pub signer: Link,
    pub run: RunId,
    pub snapshot: SnapshotId,
    /// RFC 3339, UTC.
    pub written: String,
    /// The signer's report before this one.
    pub previous_report: Option<RecordRef>,
    /// `report::model::Report` as JSON.
    pub report: serde_json::Value,
    pub tool: String,
}

impl Record for ReportRecord {
    const NAMESPACE: &'static str = "holdfast-report";
    const SIGNED_AT: &'static str = "/written";

    fn path(&self) -> &str {
        &self.path
    }

    fn signer(&self) -> &Link {
        &self.signer
    }
}
