//! Append-only signed records: how hosts know of each other.
//!
//! Owns: the outbox, which gives each record its place in its signer's chain
//! and keeps it until every store has it; and the reading of the ledger, where
//! every record is verified and every chain is checked.
//! Must never: hold a secret, lock a store, or believe a record that lies
//! elsewhere than it says.
//!
//! Invariants: a number in a chain is used once, whatever crashes; the bytes
//! that were signed are the bytes that are delivered; what does not verify is
//! a [`Finding`], never an [`Entry`] and never a crash.

pub mod chain;
pub mod delivery;
pub mod entry;
pub mod outbox;
pub mod read;
mod spool;
pub mod state_lock;

pub use chain::Head;
pub use delivery::{Delivery, Stores, Undelivered};
pub use entry::{Document, Entry, Finding};
pub use outbox::{Appended, Backlog, Outbox, Place};
pub use read::{History, Ledger};
pub use state_lock::StateLock;
