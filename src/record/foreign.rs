//! A record of a kind that this version does not know: a newer holdfast wrote it.
//!
//! What it says is not read. That an allowed host signed it, where it lies and
//! its number in the signer's chain are known all the same.

use serde::Deserialize;

use super::Link;

/// What is believed of such a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    /// Its kind, as its signature states it: `holdfast-take`.
    pub namespace: String,
    pub path: String,
    pub signer: Link,
}

/// The fields that every record has; others are left alone.
#[derive(Debug, Deserialize)]
pub(super) struct Outline {
    pub path: String,
    pub signer: Link,
}
