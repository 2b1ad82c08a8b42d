//! The doctor on hosts that are well, and on their twins that are not.

mod bench;
mod clocks;
mod config;
mod deadline;
mod keys;
mod ledger;
mod stores;
mod tools;
