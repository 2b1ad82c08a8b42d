//! Where each object lies in its store. Names carry no secret.

use crate::base::ids::{ClusterName, Fingerprint, Lineage, Principal, RunId, SnapshotId};

/// Names below one cluster: `<prefix>/<cluster>/…`, or `<cluster>/…` where the
/// prefix is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    root: String,
}

impl Layout {
    #[must_use]
    pub fn new(prefix: &str, cluster: &ClusterName) -> Self {
        let prefix = prefix.trim_matches('/');
        Self { root: if prefix.is_empty() { cluster.to_string() } else { format!("{prefix}/{cluster}") } }
    }

    #[must_use]
    pub fn root(&self) -> &str {
        &self.root
    }

    /// Is this the layout of `cluster`, under whatever prefix?
    #[must_use]
    pub fn is_of(&self, cluster: &ClusterName) -> bool {
        self.root.rsplit('/').next() == Some(cluster.as_str())
    }

    /// The folder of one snapshot in the snapshot store.
    #[must_use]
    pub fn snapshot(&self, lineage: &Lineage, id: &SnapshotId) -> String {
        format!("{}/{lineage}/{id}", self.root)
    }

    #[must_use]
    pub fn snapshot_object(&self, lineage: &Lineage, id: &SnapshotId) -> String {
        format!("{}/etcd.db.zst.age", self.snapshot(lineage, id))
    }

    #[must_use]
    pub fn snapshot_manifest(&self, lineage: &Lineage, id: &SnapshotId) -> String {
        format!("{}/manifest.json", self.snapshot(lineage, id))
    }

    #[must_use]
    pub fn snapshot_restore_md(&self, lineage: &Lineage, id: &SnapshotId) -> String {
        format!("{}/RESTORE.md", self.snapshot(lineage, id))
    }

    /// The ledger's byte-identical copy of a manifest.
    #[must_use]
    pub fn ledger_manifest(&self, lineage: &Lineage, id: &SnapshotId) -> String {
        format!("{}/manifests/{lineage}/{id}.json", self.root)
    }

    /// The folder of one key in the escrow store.
    #[must_use]
    pub fn escrow_key(&self, fingerprint: &Fingerprint) -> String {
        format!("{}/keys/{fingerprint}", self.root)
    }

    /// The stem of one escrow record: `.age`, `.json` and `.json.sig` follow.
    #[must_use]
    pub fn escrow_record(&self, fingerprint: &Fingerprint, utc: &str, host: &Principal, tail: &str) -> String {
        format!("{}/{utc}-{host}-{tail}", self.escrow_key(fingerprint))
    }

    #[must_use]
    pub fn receipt(&self, fingerprint: &Fingerprint, utc: &str, host: &Principal, tail: &str) -> String {
        format!("{}/receipts/{fingerprint}/{utc}-{host}-{tail}.json", self.root)
    }

    #[must_use]
    pub fn host(&self, host: &Principal, utc: &str, tail: &str) -> String {
        format!("{}/hosts/{host}/{utc}-{tail}.json", self.root)
    }

    #[must_use]
    pub fn attestation(&self, lineage: &Lineage, id: &SnapshotId, run: &RunId) -> String {
        format!("{}/attestations/{lineage}/{id}/{run}.json", self.root)
    }

    #[must_use]
    pub fn report(&self, run: &RunId) -> String {
        format!("{}/runs/{run}/report.json", self.root)
    }
}
