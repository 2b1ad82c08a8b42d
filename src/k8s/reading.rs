//! What an API server with a given configuration makes of a stored value.

use super::encryption_config::{EncryptionConfig, KmsProvider, Provider};
use super::kms_envelope::BadEnvelope;
use super::local_key::LocalKey;
use super::stored::{LocalValue, Stored, classify, is_encrypted};
use super::trial::{OpenError, Plaintext, open};

/// The outcome of a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading<'c> {
    /// Stored in the clear and read as it is.
    Plain { is_stale: bool },
    /// The first key that decrypts. The API server stops here even when what
    /// comes out is garbage, so ask [`super::object_fits`] too.
    Opened { key: &'c LocalKey, plaintext: Plaintext, is_stale: bool },
    /// A KMS provider fits by kind and name; its key is not held here.
    NotTried { provider: &'c KmsProvider },
    /// Nothing reads it. What each provider that was tried said, in order, never empty.
    Failed(Vec<OpenError>),
}

/// Reads a value as an API server with this configuration would: the
/// providers of the resource in order, within them the keys in order, an error
/// not ending the walk.
#[must_use]
pub fn read<'c>(config: &'c EncryptionConfig, group: &str, resource: &str, value: &[u8], etcd_key: &[u8]) -> Reading<'c> {
    let providers = config.rules_for(group, resource);
    if providers.is_empty() {
        return if is_encrypted(value) {
            Reading::Failed(vec![OpenError::IdentityOnEncrypted])
        } else {
            Reading::Plain { is_stale: false }
        };
    }
    walk(&providers, value, etcd_key)
}

fn walk<'c>(providers: &[&'c Provider], value: &[u8], etcd_key: &[u8]) -> Reading<'c> {
    if !is_encrypted(value) {
        let identity = providers.iter().position(|provider| matches!(provider, Provider::Identity));
        return identity.map_or(Reading::Failed(vec![OpenError::NoMatchingPrefix]), |at| Reading::Plain { is_stale: at != 0 });
    }
    match classify(value) {
        Stored::Local(value) => walk_keys(providers, &value, etcd_key),
        Stored::KmsV1(value) => kms(providers, |provider| {
            let envelope = value.envelope_under(&provider.name).filter(|_| provider.api_version == "v1")?;
            Some(envelope.map(|_| ()))
        }),
        Stored::KmsV2(value) => kms(providers, |provider| {
            let fits = provider.api_version == "v2" && provider.name == value.name;
            fits.then(|| value.envelope.as_ref().map(|_| ()).map_err(|bad| *bad))
        }),
        Stored::UnknownProvider | Stored::Plain(_) | Stored::UnknownBody => Reading::Failed(vec![OpenError::NoMatchingPrefix]),
    }
}

/// The first KMS provider that fits an envelope. One that fits bytes which are
/// no envelope fails whatever key its service holds.
fn kms<'c>(providers: &[&'c Provider], fits: impl Fn(&KmsProvider) -> Option<Result<(), BadEnvelope>>) -> Reading<'c> {
    let mut errors = Vec::new();
    for provider in providers {
        let Provider::Kms(provider) = provider else { continue };
        match fits(provider) {
            Some(Ok(())) => return Reading::NotTried { provider },
            Some(Err(bad)) => errors.push(OpenError::Envelope(bad)),
            None => {}
        }
    }
    if errors.is_empty() {
        errors.push(OpenError::NoMatchingPrefix);
    }
    Reading::Failed(errors)
}

fn walk_keys<'c>(providers: &[&'c Provider], value: &LocalValue<'_>, etcd_key: &[u8]) -> Reading<'c> {
    let mut errors = Vec::new();
    for (at, provider) in providers.iter().enumerate() {
        if provider.local_kind() != Some(value.provider) {
            continue;
        }
        let mut names_fit = false;
        for (nth, key) in provider.keys().iter().enumerate() {
            match open(value, key, etcd_key) {
                Ok(plaintext) => return Reading::Opened { key, plaintext, is_stale: at != 0 || nth != 0 },
                Err(error) if error == OpenError::no_matching_key(value.provider) => {}
                Err(error) => {
                    names_fit = true;
                    errors.push(error);
                }
            }
        }
        if !names_fit {
            errors.push(OpenError::no_matching_key(value.provider));
        }
    }
    if errors.is_empty() {
        errors.push(OpenError::NoMatchingPrefix);
    }
    Reading::Failed(errors)
}
