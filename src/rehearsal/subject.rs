//! Which snapshot a rehearsal is about, and what the ledger says of it.

use std::sync::Arc;

use crate::base::codes;
use crate::base::digest::Sha256;
use crate::base::failure::Failure;
use crate::base::ids::{Lineage, Principal, SnapshotId};
use crate::catalog::Catalog;
use crate::record::Record;
use crate::record::canonical;
use crate::record::host::HostRecord;
use crate::record::manifest::RecordRef;
use crate::rehearsal::file::FileSnapshot;

/// A snapshot as the ledger knows it.
#[derive(Debug, Clone)]
pub struct Subject {
    pub id: SnapshotId,
    pub lineage: Lineage,
    /// Of the ledger's copy of the manifest, to which the store's is held.
    pub manifest_sha256: Sha256,
    /// The configuration in force when it was taken.
    pub host_record: Option<(HostRecord, RecordRef)>,
    /// The last report that this host signed.
    pub previous_report: Option<RecordRef>,
    /// Where it lies in a file and in no store: then nothing above says more than its bytes.
    pub file: Option<Arc<FileSnapshot>>,
}

impl Subject {
    /// A snapshot that only its file knows.
    #[must_use]
    pub fn of_file(file: FileSnapshot) -> Self {
        Self {
            id: file.id.clone(),
            lineage: Lineage::of_cluster(0),
            manifest_sha256: Sha256::of(b""),
            host_record: None,
            previous_report: None,
            file: Some(Arc::new(file)),
        }
    }

    /// Looks a snapshot up for the host `reporter`.
    ///
    /// # Errors
    /// `snapshot.unknown` when the ledger has no such snapshot.
    pub fn find(catalog: &Catalog, id: &SnapshotId, reporter: &Principal) -> Result<Self, Failure> {
        let detail = catalog
            .snapshot(id)?
            .ok_or_else(|| Failure::new(&codes::SNAPSHOT_UNKNOWN, id, "no snapshot in the ledger has this id"))?;
        let manifest_sha256 = reference(&detail.manifest)?.sha256;
        let host_record = match catalog.host_record_of(&detail.manifest)? {
            Some(record) => {
                let named = reference(&record)?;
                Some((record, named))
            }
            None => None,
        };
        let mut previous_report = None;
        for row in catalog.reports()? {
            if let Some(report) = catalog.report(&row.run)?.filter(|report| &report.signer.name == reporter) {
                previous_report = Some(reference(&report)?);
                break;
            }
        }
        Ok(Self { id: id.clone(), lineage: detail.row.lineage, manifest_sha256, host_record, previous_report, file: None })
    }
}

/// A record by path and digest. The catalog keeps what was verified, and a
/// record's bytes are canonical, so they come out again as they were signed.
fn reference<R: Record>(record: &R) -> Result<RecordRef, Failure> {
    Ok(RecordRef { key: record.path().to_owned(), sha256: Sha256::of(&canonical::to_bytes(record)?) })
}
