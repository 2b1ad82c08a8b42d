//! Taking one snapshot, from the first byte of the stream to the signed manifest.
//!
//! Owns: the order of writes (keys, object, `RESTORE.md`, manifest), the
//! snapshot's quality, and the page that lets a person restore it with stock
//! tools. Must never: write a plain image to a file, use any right on a store
//! but to put, or show a snapshot that is not whole.

pub mod assemble;
pub mod clock_offset;
pub mod configuration;
pub mod pipeline;
pub mod restore_md;
pub mod take;

pub use take::{BackupHost, Taken, take};
