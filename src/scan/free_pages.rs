//! Plaintext that lies in pages nobody uses any more.
//!
//! A snapshot carries its free pages with it, and with them objects from before
//! encryption was switched on, or deleted ones. They are reported, and never
//! counted as needed.

use super::contents::Contents;
use super::row::Row;
use crate::k8s::resource::{Located, locate};
use crate::k8s::stored::{Stored, classify};

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FreePlaintext {
    /// Objects in the clear.
    pub objects: u64,
    /// Of them Secrets.
    pub secrets: u64,
}

impl FreePlaintext {
    pub fn find(contents: &Contents<'_>, prefix: Option<&str>) -> Self {
        let mut found = Self::default();
        let Some(prefix) = prefix else { return found };
        for item in contents.verified().unreached_leaves() {
            // Old pages of other buckets hold other pairs: they are no rows.
            let Ok(row) = Row::read(item.key, item.value) else { continue };
            let Located::Resource(place) = locate(prefix, row.key) else { continue };
            if matches!(classify(row.value), Stored::Plain(_)) {
                found.objects += 1;
                found.secrets += u64::from(place.group == Some("") && place.resource == "secrets");
            }
        }
        found
    }
}
