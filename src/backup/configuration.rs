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
