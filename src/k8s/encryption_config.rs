//! EncryptionConfiguration, read, looked up and written as the API server does.

mod kms;
mod mistakes;
mod parse;
mod resource_rules;
mod write;
mod yaml;

use crate::base::secret::Secret;
use crate::k8s::local_key::{LocalKey, LocalProvider};

pub use mistakes::{ConfigMistake, ConfigMistakes};

/// A configuration with the name it is known by in messages: a path or a host.
#[derive(Debug, Clone)]
pub struct NamedConfig {
    pub name: String,
    pub config: EncryptionConfig,
}

/// A checked EncryptionConfiguration, in the file's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncryptionConfig {
    pub rules: Vec<Rule>,
}

/// One element of `resources:`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Such as `secrets`, `pandas.bears.example`, `*.apps`, `*.`, `*.*`.
    pub resources: Vec<String>,
    pub providers: Vec<Provider>,
}

/// One element of `providers:`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Provider {
    Aescbc(Vec<LocalKey>),
    Aesgcm(Vec<LocalKey>),
    Secretbox(Vec<LocalKey>),
    Kms(KmsProvider),
    Identity,
}

/// A provider whose key lies in a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KmsProvider {
    /// `v1` or `v2`; the file's default, `v1`, is filled in.
    pub api_version: String,
    pub name: String,
    pub endpoint: String,
    /// As the file says it, such as `3s`; none means three seconds.
    pub timeout: Option<String>,
    /// Of v1 only; none means 1000.
    pub cachesize: Option<i32>,
}

impl EncryptionConfig {
    /// Reads a file as the API server would, and says everything that it would refuse.
    ///
    /// # Errors
    /// All mistakes at once, each with its field path; none holds key material.
    pub fn parse(yaml: &[u8]) -> Result<Self, ConfigMistakes> {
        parse::parse(yaml)
    }

    /// Everything under one key, then what is stored in the clear: the form in which one key lies in escrow.
    #[must_use]
    pub fn of_key(key: LocalKey) -> Self {
        let provider = Provider::of_keys(vec![key]);
        let providers = provider.into_iter().chain([Provider::Identity]).collect();
        Self { rules: vec![Rule { resources: vec!["*.*".to_owned()], providers }] }
    }

    /// Every local key, in the file's order, repeated where the file repeats it.
    #[must_use]
    pub fn keys(&self) -> Vec<&LocalKey> {
        self.rules.iter().flat_map(|rule| &rule.providers).flat_map(Provider::keys).collect()
    }

    /// The providers of a resource, in the order in which they are tried:
    /// those of the exact resource (of every rule that names it), else of
    /// `*.group`, else of `*.*`, else `identity` alone.
    #[must_use]
    pub fn providers_for(&self, group: &str, resource: &str) -> Vec<&Provider> {
        let providers = self.rules_for(group, resource);
        if providers.is_empty() { vec![&Provider::Identity] } else { providers }
    }

    /// [`Self::providers_for`], but empty when no rule covers the resource.
    pub(super) fn rules_for(&self, group: &str, resource: &str) -> Vec<&Provider> {
        [(resource, group), ("*", group), ("*", "*")]
            .iter()
            .map(|wanted| self.providers_named(*wanted))
            .find(|providers| !providers.is_empty())
            .unwrap_or_default()
    }

    /// Is what the API server writes for this resource stored in the clear?
    #[must_use]
    pub fn writes_plaintext(&self, group: &str, resource: &str) -> bool {
        matches!(self.providers_for(group, resource).first(), None | Some(Provider::Identity))
    }

    /// A file that the API server accepts, with the same rules in the same order.
    #[must_use]
    pub fn to_yaml(&self) -> Secret<String> {
        write::to_yaml(self)
    }

    fn providers_named(&self, wanted: (&str, &str)) -> Vec<&Provider> {
        let names = |rule: &&Rule| rule.resources.iter().any(|name| resource_and_group(name) == wanted);
        self.rules.iter().filter(names).flat_map(|rule| &rule.providers).collect()
    }
}

/// Splits a rule's `resource.group`; core resources have no group, written without or with a final dot.
fn resource_and_group(name: &str) -> (&str, &str) {
    name.split_once('.').unwrap_or((name, ""))
}

impl Provider {
    /// A provider of these keys, which must be of one kind; none when there are no keys or kinds differ.
    #[must_use]
    pub fn of_keys(keys: Vec<LocalKey>) -> Option<Self> {
        let kind = keys.first()?.provider();
        if keys.iter().any(|key| key.provider() != kind) {
            return None;
        }
        Some(match kind {
            LocalProvider::Aescbc => Self::Aescbc(keys),
            LocalProvider::Aesgcm => Self::Aesgcm(keys),
            LocalProvider::Secretbox => Self::Secretbox(keys),
        })
    }

    /// Which local provider this is; none of a KMS or of identity.
    #[must_use]
    pub fn local_kind(&self) -> Option<LocalProvider> {
        match self {
            Self::Aescbc(_) => Some(LocalProvider::Aescbc),
            Self::Aesgcm(_) => Some(LocalProvider::Aesgcm),
            Self::Secretbox(_) => Some(LocalProvider::Secretbox),
            Self::Kms(_) | Self::Identity => None,
        }
    }

    /// The local keys of this provider, in the file's order; none of a KMS or of identity.
    #[must_use]
    pub fn keys(&self) -> &[LocalKey] {
        match self {
            Self::Aescbc(keys) | Self::Aesgcm(keys) | Self::Secretbox(keys) => keys,
            Self::Kms(_) | Self::Identity => &[],
        }
    }
}
