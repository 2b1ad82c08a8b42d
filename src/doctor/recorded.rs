//! What the ledger says, read once for all checks.

use std::time::Duration;

use jiff::Timestamp;

use crate::base::codes;
use crate::base::failure::Failure;
use crate::base::units::human_duration;
use crate::catalog::{Catalog, KeyRow, Proven, SnapshotDetail, SnapshotRow};
use crate::ledger::Finding;
use crate::record::Rung;
use crate::record::receipt::Receipt;
use crate::station::Station;

/// Checks that need the ledger answer from what this host last saw of it when it
/// hangs, and have time left for a store that takes its own.
const PATIENCE: Duration = Duration::from_secs(10);

/// Plain facts of the catalog: its connection is no thing for many tasks.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    /// Why it may be behind the ledger, or is empty.
    pub stale: Option<Failure>,
    /// Was the ledger ever seen?
    pub seen: bool,
    /// The newest first.
    pub snapshots: Vec<SnapshotRow>,
    pub latest: Option<SnapshotDetail>,
    pub keys: Vec<KeyRow>,
    /// All deposits, of each key the newest first.
    pub deposits: Vec<Receipt>,
    pub findings: Vec<Finding>,
    /// The last rehearsal that passed, however far.
    pub proof: Option<Proven>,
}

impl Recorded {
    /// Reads the ledger into the catalog, as every command does, and the catalog.
    pub async fn read(station: &Station) -> Self {
        let state = station.state_dir();
        if !state.is_dir() {
            let cause = "it is not there, so that nothing of the ledger can be kept";
            return Self::failed(Failure::new(&codes::STATE_UNUSABLE, state.display(), cause));
        }
        let refreshed = tokio::time::timeout(PATIENCE, station.refresh()).await;
        let stale = match refreshed {
            Ok(Ok(catalog)) => return Self::of(&catalog).unwrap_or_else(Self::failed),
            Ok(Err(failure)) => failure,
            Err(_) => {
                let cause = format!("no answer within {}", human_duration(PATIENCE));
                Failure::new(&codes::LEDGER_UNREACHABLE, station.ledger.describe(), cause)
            }
        };
        match station.catalog().and_then(|catalog| Self::of(&catalog)) {
            Ok(known) => Self { seen: !known.snapshots.is_empty(), stale: Some(stale), ..known },
            Err(failure) => Self::failed(failure),
        }
    }

    fn of(catalog: &Catalog) -> Result<Self, Failure> {
        let snapshots = catalog.snapshots()?;
        let latest = snapshots.first().map(|row| catalog.snapshot(&row.id)).transpose()?.flatten();
        let keys = catalog.keys()?;
        let mut deposits = Vec::new();
        for fingerprint in keys.iter().filter_map(|key| key.fingerprint.as_ref()?.parse().ok()) {
            deposits.extend(catalog.receipts(&fingerprint)?);
        }
        let (findings, proof) = (catalog.findings()?, catalog.last_proof(Rung::Open)?);
        Ok(Self { stale: None, seen: true, snapshots, latest, keys, deposits, findings, proof })
    }

    fn failed(failure: Failure) -> Self {
        Self { stale: Some(failure), ..Self::default() }
    }

    /// Bytes of the newest image.
    pub fn newest_image(&self) -> Option<u64> {
        self.snapshots.first().map(|row| row.image_bytes)
    }

    /// The latest moment that a record tells: no clock that is right is behind it.
    pub fn newest_moment(&self) -> Option<(Timestamp, String)> {
        let snapshots = self.snapshots.iter().map(|row| (row.taken.clone(), format!("snapshot {} of {}", row.id, row.host)));
        let deposits = self.deposits.iter().map(|receipt| (receipt.deposited.clone(), format!("receipt {}", receipt.path)));
        let proof = self.proof.iter().map(|proof| (proof.at.clone(), format!("rehearsal {}", proof.run)));
        let all = snapshots.chain(deposits).chain(proof);
        all.filter_map(|(at, what)| Some((at.parse::<Timestamp>().ok()?, what))).max()
    }
}
