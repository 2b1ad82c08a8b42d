//! The catalog: a fold of the ledger in SQLite, and the journal of runs.
//!
//! Owns: all SQL, the migrations, the answers of `list`, `show` and `report`.
//! Must never: be the truth. Everything but the journals of runs can be rebuilt
//! from the ledger, and answers are equal afterwards.
//!
//! Invariants: only records that the ledger verified come in; a fold is one
//! transaction and the same history folds to the same answers.

mod database;
pub mod journal;

pub use database::Catalog;
