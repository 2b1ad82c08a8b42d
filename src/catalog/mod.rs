//! The catalog: a fold of the ledger in SQLite, and the journal of runs.
//!
//! Owns: all SQL, the migrations, the answers of `list`, `show` and `report`.
//! Must never: be the truth. Everything but the journals of runs can be rebuilt
//! from the ledger, and answers are equal afterwards.
//!
//! Invariants: only records that the ledger verified come in; a fold is one
//! transaction and the same history folds to the same answers; a snapshot is
//! listed only with its manifest, and is restorable only with a receipt for
//! every key that it needs, which no rehearsal has refuted since.

mod database;
mod fold;
pub mod journal;
pub mod keys;
mod losses;
pub mod proofs;
mod records;
mod rows;
pub mod snapshots;

pub use database::{Catalog, Rebuilt};
pub use keys::KeyRow;
pub use proofs::Proven;
pub use snapshots::{SnapshotDetail, SnapshotRow};
