//! What the proof of the recovery bundle states in the journal. Names and
//! digests only, as in [`super::facts`].

use serde::{Deserialize, Serialize};

use crate::base::digest::Sha256;
use crate::record::manifest::RecordRef;

/// `open-recovery`: the recovery bundle, and whether it proves itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryFacts {
    /// The digest that the manifest names.
    pub digest: String,
    /// The record that gave the bundle.
    pub escrow_record: Option<RecordRef>,
    /// Paths in the bundle, with the digests of their contents.
    pub files: Vec<BundleFile>,
    /// One for each pair that a cluster needs, whether the bundle has it or not.
    pub pairs: Vec<PairProof>,
    /// Which token of the snapshot the escrowed `sa.pub` verified, as namespace/name; null where it holds none.
    pub token: Option<String>,
    /// `v1.34.4`, as the bundle's kubeadm configuration says.
    pub kubernetes_version: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleFile {
    pub path: String,
    pub sha256: Sha256,
}

/// A private key and what others verify it by: proven by signing a nonce.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairProof {
    /// `pki/ca`, `pki/etcd/ca`, `pki/front-proxy-ca`, `pki/sa`.
    pub name: String,
    pub proven: bool,
    /// Why not.
    pub cause: Option<String>,
    /// Of a certificate: RFC 3339, UTC.
    pub not_after: Option<String>,
}
