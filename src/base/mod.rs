//! Vocabulary that every other module shares.
//!
//! Owns: time, identifiers, sizes, secrets, digests, failures and exit codes.
//! Must never: do I/O, except that [`clock::SystemClock`] and
//! [`entropy::OsEntropy`] ask the operating system. Everything above takes
//! them as arguments.

pub mod clock;
pub mod codes;
pub mod cron;
pub mod digest;
pub mod entropy;
pub mod exit;
pub mod failure;
pub mod ids;
pub mod job;
pub mod object_key;
pub mod progress;
pub mod rung;
pub mod secret;
pub mod units;
