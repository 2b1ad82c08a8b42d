//! One snapshot of this host's etcd, with all that belongs to it.

use jiff::Timestamp;

use super::Station;
use super::lock::{self, Patience};
use crate::backup::take::take_for;
use crate::backup::{BackupHost, Taken};
use crate::base::clock::rfc3339;
use crate::base::codes;
use crate::base::failure::Failure;
use crate::base::job::Job;
use crate::etcd::EtcdClient;
use crate::record::Record;
use crate::record::escrow::EscrowRecord;
use crate::record::host::HostRecord;
use crate::record::manifest::Manifest;
use crate::record::receipt::Receipt;
use crate::scan::capture::MemfdSink;

/// The kinds of record that a snapshot signs.
pub const SIGNED_HERE: [&str; 4] = [Manifest::NAMESPACE, Receipt::NAMESPACE, HostRecord::NAMESPACE, EscrowRecord::NAMESPACE];

/// What is asked of a snapshot.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asked<'a> {
    /// Why it is taken also from a member that has no leader.
    pub degraded: Option<&'a str>,
    /// The scheduled instant; none where a person asked.
    pub slot: Option<Timestamp>,
}

impl Station {
    /// Takes a snapshot, when no other process of this host takes one.
    ///
    /// # Errors
    /// Those of [`take_for`]; `work.running`; nothing is visible then.
    pub async fn take_snapshot(&self, asked: &Asked<'_>, patience: &Patience<'_>) -> Result<Taken, Failure> {
        let etcd = self.config.etcd.as_ref().ok_or_else(|| {
            Failure::new(
                &codes::CONFIG_SECTION_MISSING,
                "[etcd]",
                "the section is missing, and a snapshot is taken from its endpoints",
            )
        })?;
        if let Some(list) = self.config.sealed_to_the_example().first() {
            let cause = "it still names a recipient of config.example.toml, and nobody can open what is sealed to it";
            return Err(
                Failure::new(&codes::CONFIG_INVALID, list, cause).next("make an identity with age-keygen and name its recipient")
            );
        }
        let source = EtcdClient::new(etcd)?;
        let signer = self.signer_of(&SIGNED_HERE)?;
        let _alone = lock::of_job(self.state_dir(), Job::Snapshot, patience).await?;
        let outbox = self.outbox()?;
        let known = self.known().await?;
        let host = BackupHost {
            config: &self.config,
            source: &source,
            sink: |limit| Ok(Box::new(MemfdSink::new(limit)?)),
            snapshots: self.snapshots.as_ref(),
            escrow: self.escrow.as_ref(),
            stores: &self.stores,
            signer: &signer,
            outbox: &outbox,
            known: &known,
            clock: self.clock.as_ref(),
            entropy: self.entropy.as_ref(),
            progress: self.progress.as_ref(),
        };
        let mut taken = take_for(&host, asked.degraded, asked.slot.map(rfc3339)).await?;
        // The snapshot exists; a ledger that is down only delays what others see.
        let refreshed = self.refresh().await;
        if let (Err(failure), false) = (refreshed, taken.warnings.iter().any(|told| told.code() == &codes::LEDGER_UNREACHABLE)) {
            taken.warnings.push(failure);
        }
        Ok(taken)
    }
}
