//! The EncryptionConfiguration of this host, as the API server has it on disk.

use std::path::Path;

use zeroize::Zeroizing;

use crate::base::codes;
use crate::base::digest::Sha256;
use crate::base::failure::Failure;
use crate::k8s::encryption_config::{EncryptionConfig, NamedConfig};

/// A configuration and the digest of the file it came from.
#[derive(Debug, Clone)]
pub struct ReadConfig {
    pub named: NamedConfig,
    pub sha256: Sha256,
}

/// Reads the file; `None` when the API server has no encryption at rest.
///
/// # Errors
/// `backup.encryption-config.unreadable` when it is configured and cannot be
/// read or has mistakes: a snapshot without its keys is worth nothing.
pub fn read(path: Option<&Path>) -> Result<Option<ReadConfig>, Failure> {
    let Some(path) = path else { return Ok(None) };
    let refuse =
        |cause: &dyn std::error::Error| Failure::new(&codes::BACKUP_ENCRYPTION_CONFIG, path.display(), cause.to_string());
    let bytes = Zeroizing::new(std::fs::read(path).map_err(|error| refuse(&error))?);
    let config = EncryptionConfig::parse(&bytes).map_err(|mistakes| refuse(&mistakes))?;
    let named = NamedConfig { name: path.display().to_string(), config };
    Ok(Some(ReadConfig { named, sha256: Sha256::of(&bytes) }))
}

/// What was read before and after the image streamed.
#[derive(Debug, Clone, Default)]
pub struct Readings {
    /// In the order of reading; `None` where there is no encryption at rest, or
    /// the file could not be read.
    pub configs: Vec<Option<ReadConfig>>,
    /// Why a reading failed. The image is kept all the same: it may be the last
    /// one, and the keys may be found.
    pub failure: Option<Failure>,
}

impl Readings {
    /// Reads once more.
    pub fn add(&mut self, path: Option<&Path>) {
        match read(path) {
            Ok(config) => self.configs.push(config),
            Err(failure) => self.failure = Some(failure),
        }
    }

    /// The newest that could be read.
    #[must_use]
    pub fn newest(&self) -> Option<&ReadConfig> {
        self.configs.last().and_then(Option::as_ref)
    }
}

/// The configurations to try keys from: one where the file did not change
/// while the image streamed, both where it did.
#[must_use]
pub fn distinct(configs: &[Option<ReadConfig>]) -> Vec<NamedConfig> {
    let mut digests = Vec::new();
    let mut named = Vec::new();
    for read in configs.iter().flatten() {
        if !digests.contains(&read.sha256) {
            digests.push(read.sha256);
            named.push(read.named.clone());
        }
    }
    named
}
