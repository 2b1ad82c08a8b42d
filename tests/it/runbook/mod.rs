//! Runbooks: pages and their mistakes, the engine, the journal, resuming.

mod harness;
mod journal;
pub mod page;
mod pause;
mod people;
mod properties;
