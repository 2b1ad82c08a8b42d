//! Rehearsals: how far a snapshot can be restored, proven by restoring it.
//!
//! Owns: the actions of the restore runbook, one rung after the other; the
//! throwaway authorities of a scratch API server; the verdict.
//! Must never: take a key from anywhere but escrow, use production's
//! authorities, write to production, or call a snapshot proven that a step did
//! not prove.

pub mod apiserver;
pub mod index;
pub mod member;
pub mod pki;
pub mod reading;
pub mod symptom;
