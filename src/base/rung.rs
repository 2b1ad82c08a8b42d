//! The rungs of a rehearsal, from the stored bytes up to an operated cluster.

use serde::{Deserialize, Serialize};

/// How far a snapshot has been proven; each rung includes those below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rung {
    /// The stored bytes are whole and escrow opens them.
    Open,
    /// etcd runs it.
    Boot,
    /// Kubernetes reads it.
    Serve,
    /// An operator can run it.
    Cluster,
}

impl Rung {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Boot => "boot",
            Self::Serve => "serve",
            Self::Cluster => "cluster",
        }
    }
}

impl std::fmt::Display for Rung {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}
