//! Keys apart from snapshots: sealed when seen, opened only where an identity is.
//!
//! Owns: sealing with age, depositing a key version with its signed record and
//! receipt, opening key versions, and the shape of an EncryptionConfiguration
//! without its keys. Must never: write a key in clear, delete a record, or
//! trust a key's name: every opened key is checked against its fingerprint.

pub mod deposit;
pub mod opener;
pub mod seal;
pub mod shape;
