//! The outbox and the reading of the ledger.

pub mod records;
pub mod shelf;

mod crowd;
mod foreign;
mod outbox;
mod reading;
