//! Rehearsals: how far a snapshot can be restored, proven by restoring it.
//!
//! Owns: the actions of the restore runbook, one rung after the other; the
//! throwaway authorities of a scratch API server; the verdict.
//! Must never: take a key from anywhere but escrow, use production's
//! authorities, write to production, or call a snapshot proven that a step did
//! not prove.

pub mod apiserver;
mod boot;
pub mod encryption;
mod fetch;
pub mod file;
pub mod index;
mod kubeconfig;
pub mod ladder;
pub mod member;
mod open;
pub mod pki;
pub mod reading;
pub mod rehearse;
mod serve;
pub mod standing;
pub mod subject;
pub mod symptom;
pub mod target;
pub mod write;

pub use file::FileSnapshot;
pub use ladder::{Ladder, RehearsalHost, Signing};
pub use rehearse::{Rehearsed, Request, rehearse, resume};
pub use standing::{Standing, raise};
pub use subject::Subject;
pub use write::write_member;

/// The action that only a restore into a directory can do.
pub const WRITE_MEMBER: &str = "write-member";

/// What steps of a runbook may ask a rehearsal to do.
pub const ACTIONS: &[&str] = &[
    "fetch-manifest",
    "fetch-image",
    "check-structure",
    "open-keys",
    "decrypt-objects",
    "restore-data",
    "start-etcd",
    "compare-hash",
    "build-encryption-config",
    "make-certificates",
    "start-apiserver",
    "read-everything",
    WRITE_MEMBER,
    "tear-down",
];
