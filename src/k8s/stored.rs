//! A value as etcd holds it: encrypted by some provider, an object in the
//! clear, or neither.
//!
//! A stored value names its provider and, before a colon, its key. Names may
//! hold colons themselves and may have pointed at other material before, so
//! here they are only read; `trial` decides.

use std::borrow::Cow;

use super::kms_envelope::{BadEnvelope, V1Envelope, V2Envelope};
use super::local_key::LocalProvider;
use super::object::{self, ObjectIdentity};

/// Marks encrypted data; the API server's identity provider refuses such values.
const ENCRYPTED: &[u8] = b"k8s:enc:";

/// No key name that a person configured is longer; a longer run of bytes before
/// a colon is not taken for a name.
const MAX_NAME_BYTES: usize = 1024;

/// What a stored value is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stored<'v> {
    /// Encrypted with a key of the EncryptionConfiguration.
    Local(LocalValue<'v>),
    /// Encrypted through a KMS v1 plugin.
    KmsV1(KmsV1Value<'v>),
    /// Encrypted through a KMS v2 plugin.
    KmsV2(KmsV2Value<'v>),
    /// Marked as encrypted, by a provider that Kubernetes does not have.
    UnknownProvider,
    /// An object in the clear.
    Plain(ObjectIdentity<'v>),
    /// Neither marked as encrypted nor an object: foreign or damaged bytes.
    UnknownBody,
}

/// What follows `k8s:enc:<provider>:v1:`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalValue<'v> {
    pub provider: LocalProvider,
    /// Key name, colon, body.
    pub rest: &'v [u8],
}

/// What follows `k8s:enc:kms:v1:`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KmsV1Value<'v> {
    /// Plugin name, colon, envelope.
    pub rest: &'v [u8],
}

/// What follows `k8s:enc:kms:v2:`, whose plugin names never hold a colon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KmsV2Value<'v> {
    pub name: Cow<'v, str>,
    pub envelope: Result<V2Envelope<'v>, BadEnvelope>,
}

/// A name cut at the first colon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameGuess<'v> {
    pub name: Cow<'v, str>,
    /// Another colon follows within printable characters, so the name may be longer.
    pub is_ambiguous: bool,
}

/// Sorts a value into its class.
#[must_use]
pub fn classify(value: &[u8]) -> Stored<'_> {
    if let Some(rest) = value.strip_prefix(ENCRYPTED) {
        return classify_encrypted(rest);
    }
    object::identity(value).map_or(Stored::UnknownBody, Stored::Plain)
}

/// Is this value marked as encrypted?
#[must_use]
pub fn is_encrypted(value: &[u8]) -> bool {
    value.starts_with(ENCRYPTED)
}

fn classify_encrypted(rest: &[u8]) -> Stored<'_> {
    for provider in LocalProvider::ALL {
        let own = rest.strip_prefix(provider.as_str().as_bytes()).and_then(|rest| rest.strip_prefix(b":v1:"));
        if let Some(rest) = own {
            return Stored::Local(LocalValue { provider, rest });
        }
    }
    if let Some(rest) = rest.strip_prefix(b"kms:v1:") {
        return Stored::KmsV1(KmsV1Value { rest });
    }
    if let Some(rest) = rest.strip_prefix(b"kms:v2:") {
        return classify_kms_v2(rest);
    }
    Stored::UnknownProvider
}

fn classify_kms_v2(rest: &[u8]) -> Stored<'_> {
    match guess(rest) {
        Some(NameGuess { name, .. }) => {
            let body = after_first_colon(rest).unwrap_or_default();
            Stored::KmsV2(KmsV2Value { name, envelope: V2Envelope::parse(body) })
        }
        None => Stored::UnknownProvider,
    }
}

impl<'v> LocalValue<'v> {
    /// The body when the value carries this key name; the API server compares
    /// in the same way, so several names may fit.
    #[must_use]
    pub fn body_under(&self, name: &str) -> Option<&'v [u8]> {
        body_under(self.rest, name)
    }

    /// The key name when no configuration tells it; none when there is no colon.
    #[must_use]
    pub fn name_guess(&self) -> Option<NameGuess<'v>> {
        guess(self.rest)
    }
}

impl<'v> KmsV1Value<'v> {
    /// The envelope when the value carries this plugin name.
    ///
    /// # Errors
    /// The name fits, but no envelope follows.
    #[must_use]
    pub fn envelope_under(&self, name: &str) -> Option<Result<V1Envelope<'v>, BadEnvelope>> {
        body_under(self.rest, name).map(V1Envelope::parse)
    }

    /// The plugin name when no configuration tells it; none when there is no colon.
    #[must_use]
    pub fn name_guess(&self) -> Option<NameGuess<'v>> {
        guess(self.rest)
    }
}

fn body_under<'v>(rest: &'v [u8], name: &str) -> Option<&'v [u8]> {
    rest.strip_prefix(name.as_bytes())?.strip_prefix(b":")
}

fn guess(rest: &[u8]) -> Option<NameGuess<'_>> {
    let name = rest.iter().take(MAX_NAME_BYTES + 1).position(|byte| *byte == b':').and_then(|end| rest.get(..end))?;
    let body = after_first_colon(rest)?;
    let printable = body.iter().take(MAX_NAME_BYTES).take_while(|byte| matches!(byte, b' '..=b'~'));
    Some(NameGuess { name: String::from_utf8_lossy(name), is_ambiguous: printable.into_iter().any(|byte| *byte == b':') })
}

fn after_first_colon(rest: &[u8]) -> Option<&[u8]> {
    let end = rest.iter().position(|byte| *byte == b':')?;
    rest.get(end + 1..)
}
