//! The kinds of work that a host does, on a schedule or when a person asks.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One kind of work. Of one kind, a host does one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Job {
    Snapshot,
    Rehearsal,
}

impl Job {
    /// Snapshots come first: what was not taken cannot be rehearsed.
    pub const ALL: [Self; 2] = [Self::Snapshot, Self::Rehearsal];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Snapshot => "snapshot",
            Self::Rehearsal => "rehearsal",
        }
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
