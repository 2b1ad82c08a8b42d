//! Trial decryption: the only thing that binds a key to a stored value.
//!
//! A key that opens a value is not proof yet: a wrong `aescbc` key unpads once
//! in about 256 tries, and `aescbc` and `secretbox` values can be moved to
//! another etcd key unnoticed. So callers also ask [`object_fits`].

use std::fmt;

use zeroize::Zeroizing;

use super::kms_envelope::BadEnvelope;
use super::local_key::{LocalKey, LocalProvider};
use super::object;
use super::resource::Located;
use super::stored::LocalValue;
use super::{aescbc, aesgcm, secretbox};

/// A decrypted value; wiped on drop, never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Plaintext(Zeroizing<Vec<u8>>);

impl Plaintext {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Runs a cipher over the bytes where they lie, so that no copy is left behind.
    pub(super) fn decrypt_in_place<E>(&mut self, cipher: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<(), E> {
        cipher(&mut self.0)
    }

    /// Cuts padding off the end.
    pub(super) fn shorten_by(&mut self, count: usize) {
        let length = self.0.len().saturating_sub(count);
        self.0.truncate(length);
    }

    /// The bytes themselves. Every call is a place to review.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Plaintext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Plaintext(…)")
    }
}

/// Why a value does not open, in the words of the API server, so that an
/// operator can search its log for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum OpenError {
    #[error("no matching prefix found")]
    NoMatchingPrefix,
    #[error("no matching key was found for the provided AES transformer")]
    NoMatchingAesKey,
    #[error("no matching key was found for the provided Secretbox transformer")]
    NoMatchingSecretboxKey,
    #[error("identity transformer tried to read encrypted data")]
    IdentityOnEncrypted,
    #[error("cipher: message authentication failed")]
    Authentication,
    #[error("invalid padding on input")]
    Padding,
    #[error("the stored data is not a multiple of the block size")]
    BlockSize,
    #[error("invalid PKCS7 data (empty or not padded)")]
    Unpadded,
    /// The text misleads: the box does not authenticate under this key.
    #[error("output array was not large enough for encryption")]
    Box,
    #[error("the stored data was shorter than the required size")]
    TooShort,
    /// No KMS envelope, whatever key the service may hold.
    #[error(transparent)]
    Envelope(BadEnvelope),
}

/// What decides an [`OpenError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The list has no provider of this kind, or the data is in the clear and `identity` is missing.
    ProviderMissing,
    /// The provider has no key of this name.
    KeyNameMissing,
    /// A key of this name exists, with other material; or the value was altered or moved.
    MaterialDiffers,
    /// No rule covers the resource, or there is no configuration at all.
    ConfigMissing,
    /// The bytes cannot be a value of this provider.
    Damaged,
}

impl OpenError {
    /// All whose text is fixed.
    pub const ALL: [Self; 10] = [
        Self::NoMatchingPrefix,
        Self::NoMatchingAesKey,
        Self::NoMatchingSecretboxKey,
        Self::IdentityOnEncrypted,
        Self::Authentication,
        Self::Padding,
        Self::BlockSize,
        Self::Unpadded,
        Self::Box,
        Self::TooShort,
    ];

    #[must_use]
    pub fn cause(self) -> Cause {
        match self {
            Self::NoMatchingPrefix => Cause::ProviderMissing,
            Self::NoMatchingAesKey | Self::NoMatchingSecretboxKey => Cause::KeyNameMissing,
            Self::IdentityOnEncrypted => Cause::ConfigMissing,
            Self::Authentication | Self::Padding | Self::Unpadded | Self::Box => Cause::MaterialDiffers,
            Self::BlockSize | Self::TooShort | Self::Envelope(_) => Cause::Damaged,
        }
    }

    /// Every failure whose text stands in an API server's message, which joins those of several providers.
    #[must_use]
    pub fn all_in(message: &str) -> Vec<Self> {
        Self::ALL.into_iter().filter(|error| message.contains(&error.to_string())).collect()
    }

    pub(super) fn no_matching_key(provider: LocalProvider) -> Self {
        match provider {
            LocalProvider::Aescbc | LocalProvider::Aesgcm => Self::NoMatchingAesKey,
            LocalProvider::Secretbox => Self::NoMatchingSecretboxKey,
        }
    }
}

/// Decrypts a value with one key, if it carries the key's name.
///
/// # Errors
/// What the API server would say if this were its only key.
pub fn open(value: &LocalValue<'_>, key: &LocalKey, etcd_key: &[u8]) -> Result<Plaintext, OpenError> {
    if value.provider != key.provider() {
        return Err(OpenError::NoMatchingPrefix);
    }
    let body = value.body_under(key.name()).ok_or(OpenError::no_matching_key(value.provider))?;
    open_body(body, key, etcd_key)
}

/// Decrypts a body with a key, whatever name the value carries: what tells
/// whether material that we hold would open it under its right name.
///
/// # Errors
/// What the API server would say of the body under this material.
pub fn open_body(body: &[u8], key: &LocalKey, etcd_key: &[u8]) -> Result<Plaintext, OpenError> {
    let material = key.secret().expose();
    match key.provider() {
        LocalProvider::Aescbc => aescbc::open(material, body),
        LocalProvider::Aesgcm => aesgcm::open(material, body, etcd_key),
        LocalProvider::Secretbox => secretbox::open(material, body),
    }
}

/// Is this plaintext an object, and the one that belongs where it was found?
#[must_use]
pub fn object_fits(plaintext: &Plaintext, located: &Located<'_>) -> bool {
    object::identity(plaintext.expose()).is_some_and(|identity| object::fits(&identity, located))
}
