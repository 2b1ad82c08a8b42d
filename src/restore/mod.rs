//! Restoring for somebody who needs the data: a scratch cluster that stays up,
//! or a data directory for a member that is to run.
//!
//! Owns: finding the snapshot also where the ledger does not answer, the
//! process that keeps a restored cluster up and its ties to the command that
//! started it, the list of what is up and of what a crash left.
//! Must never: touch production, end what it did not find to be a restored
//! cluster of this host, write a key or a KUBECONFIG to a disk, or refuse a
//! restore because a record of it cannot be kept.

pub mod bench;
pub mod data_dir;
pub mod find;
pub mod member;
pub mod relayed;
pub mod scratch;
pub mod supervisor;
pub mod up;

use crate::base::failure::Failure;

/// What is worth knowing before the answer.
#[derive(Debug)]
pub enum Told {
    /// It went wrong and stops nothing.
    Warning(Failure),
    Note(String),
}

/// Where such news goes.
pub type Tell<'a> = &'a (dyn Fn(Told) + Send + Sync);
