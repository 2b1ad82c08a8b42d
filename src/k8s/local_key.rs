//! A key that the API server holds itself: provider, name and material.

use std::fmt;

use super::fingerprint;
use crate::base::ids::Fingerprint;
use crate::base::secret::Secret;

/// A provider whose key lies in the EncryptionConfiguration itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LocalProvider {
    Aescbc,
    Aesgcm,
    Secretbox,
}

impl LocalProvider {
    pub const ALL: [Self; 3] = [Self::Aescbc, Self::Aesgcm, Self::Secretbox];

    /// The name in the configuration, in stored values and in fingerprints.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Aescbc => "aescbc",
            Self::Aesgcm => "aesgcm",
            Self::Secretbox => "secretbox",
        }
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|provider| provider.as_str() == text)
    }

    /// The lengths of key material that the API server accepts.
    #[must_use]
    pub fn key_lengths(self) -> &'static [usize] {
        match self {
            Self::Aescbc | Self::Aesgcm => &[16, 24, 32],
            Self::Secretbox => &[32],
        }
    }
}

impl fmt::Display for LocalProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why something is not a key. Never holds material.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    #[error("name is a mandatory field for a key")]
    NoName,
    #[error("secret is not of the expected length, got {got}, expected one of {expected:?}")]
    Length { got: usize, expected: &'static [usize] },
}

/// A key of the EncryptionConfiguration.
///
/// Invariant: the material has a length that its provider takes, the name is
/// not empty, and the fingerprint is that of the material.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalKey {
    provider: LocalProvider,
    name: String,
    fingerprint: Fingerprint,
    secret: Secret<Vec<u8>>,
}

impl LocalKey {
    /// A key of raw material, as the API server decodes it.
    ///
    /// # Errors
    /// The API server would refuse the name or the length.
    pub fn new(provider: LocalProvider, name: impl Into<String>, secret: Secret<Vec<u8>>) -> Result<Self, BadKey> {
        let name = name.into();
        if name.is_empty() {
            return Err(BadKey::NoName);
        }
        let got = secret.expose().len();
        if !provider.key_lengths().contains(&got) {
            return Err(BadKey::Length { got, expected: provider.key_lengths() });
        }
        let fingerprint = fingerprint::of(provider.as_str(), secret.expose());
        Ok(Self { provider, name, fingerprint, secret })
    }

    #[must_use]
    pub fn provider(&self) -> LocalProvider {
        self.provider
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    #[must_use]
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    #[must_use]
    pub fn secret(&self) -> &Secret<Vec<u8>> {
        &self.secret
    }

    /// Does the material look like text? Then it, and its fingerprint, can be guessed.
    #[must_use]
    pub fn is_weak(&self) -> bool {
        self.secret.expose().iter().all(|byte| matches!(byte, b' '..=b'~' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r'))
    }
}
