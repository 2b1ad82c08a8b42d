//! What the program says about itself while it works.
//!
//! Owns: setting up the log; what a terminal may carry; the metrics, as typed
//! values; the events of a daemon, each with its log line and its metric.
//! Must never: write to standard output, which belongs to
//! answers, or hold a value that could be a secret.

pub mod events;
pub mod families;
mod lines;
pub mod log;
pub mod metrics;
pub mod terminal;
