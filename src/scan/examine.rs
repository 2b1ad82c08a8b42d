//! One stored value under one etcd key: what it is, and which key opens it.

use std::borrow::Cow;
use std::collections::HashSet;

use super::row::Row;
use crate::k8s::encryption_config::{KmsProvider, NamedConfig, Provider};
use crate::k8s::local_key::LocalKey;
use crate::k8s::resource::{Located, locate};
use crate::k8s::stored::{KmsV1Value, KmsV2Value, LocalValue, Stored, classify};
use crate::k8s::trial::{OpenError, Plaintext};
use crate::k8s::{object, object_fits, open};

/// Every key and KMS provider of all given configurations, each once.
#[derive(Debug)]
pub(super) struct KeyRing<'c> {
    keys: Vec<&'c LocalKey>,
    kms: Vec<&'c KmsProvider>,
}

/// A value that lies under the API server's prefix.
#[derive(Debug)]
pub(super) struct Examined<'a, 'c> {
    pub located: Located<'a>,
    /// Empty for core, and when nothing tells it.
    pub group: Cow<'a, str>,
    /// The API plural; the segment for what the API server keeps for itself.
    pub resource: &'a str,
    pub class: Class<'a, 'c>,
}

#[derive(Debug)]
pub(super) enum Class<'a, 'c> {
    Plain,
    Local(LocalValue<'a>, Trial<'c>),
    KmsV1(KmsV1Value<'a>),
    KmsV2(KmsV2Value<'a>),
    /// Marked as encrypted by a provider that Kubernetes does not have.
    UnknownProvider,
    /// Neither marked as encrypted nor an object.
    UnknownBody,
}

/// What the keys made of a value.
#[derive(Debug)]
pub(super) enum Trial<'c> {
    /// To the object that belongs there.
    Opened(&'c LocalKey, Plaintext),
    /// A key of this name exists and does not open it.
    Failed(&'c LocalKey, Fault),
    /// No key of this provider and name was given.
    NoKey,
}

/// Why a key of the right name does not open a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    Closed(OpenError),
    /// What comes out is not the object that belongs under the etcd key.
    Misfit,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed(error) => error.fmt(f),
            Self::Misfit => f.write_str("decrypts to something else than the object of this etcd key"),
        }
    }
}

impl<'c> KeyRing<'c> {
    pub fn of(configs: &'c [NamedConfig]) -> Self {
        let mut seen = HashSet::new();
        let keys = configs.iter().flat_map(|named| named.config.keys());
        let keys = keys.filter(|key| seen.insert((key.provider().as_str(), key.name(), key.fingerprint()))).collect();
        let providers = configs.iter().flat_map(|named| &named.config.rules).flat_map(|rule| &rule.providers);
        let mut kms: Vec<&KmsProvider> = Vec::new();
        for provider in providers {
            let Provider::Kms(provider) = provider else { continue };
            if !kms.iter().any(|known| known.name == provider.name && known.api_version == provider.api_version) {
                kms.push(provider);
            }
        }
        Self { keys, kms }
    }

    pub fn keys(&self) -> &[&'c LocalKey] {
        &self.keys
    }

    /// Was a KMS provider of this kind (`kmsv1`, `kmsv2`) and name given?
    pub fn has_kms(&self, kind: &str, name: &str) -> bool {
        self.kms.iter().any(|provider| kind.strip_prefix("kms") == Some(&provider.api_version) && provider.name == name)
    }

    /// The name of the KMS v1 provider that a value carries: a configured one
    /// that fits, else what stands before the first colon.
    pub fn kms_v1_name<'v>(&self, value: &KmsV1Value<'v>) -> Cow<'v, str>
    where
        'c: 'v,
    {
        let fits = |provider: &&&'c KmsProvider| provider.api_version == "v1" && value.envelope_under(&provider.name).is_some();
        match self.kms.iter().find(fits) {
            Some(provider) => Cow::Borrowed(&provider.name),
            None => value.name_guess().map(|guess| guess.name).unwrap_or_default(),
        }
    }

    /// What lies under `prefix` at this row; none for keys outside it.
    pub fn examine<'a>(&self, prefix: Option<&str>, row: &Row<'a>) -> Option<Examined<'a, 'c>> {
        let located = locate(prefix?, row.key);
        let (group, resource) = match located {
            Located::Resource(place) => (place.group, place.resource),
            Located::Internal(internal) => (Some(""), internal.segment),
            Located::Outside => return None,
        };
        let mut of_object = None;
        let class = match classify(row.value) {
            Stored::Plain(identity) => {
                of_object = group.is_none().then(|| identity.group().to_owned());
                Class::Plain
            }
            Stored::Local(value) => {
                let trial = self.open(&value, row.key, &located);
                if let (None, Trial::Opened(_, plaintext)) = (group, &trial) {
                    of_object = object::identity(plaintext.expose()).map(|identity| identity.group().to_owned());
                }
                Class::Local(value, trial)
            }
            Stored::KmsV1(value) => Class::KmsV1(value),
            Stored::KmsV2(value) => Class::KmsV2(value),
            Stored::UnknownProvider => Class::UnknownProvider,
            Stored::UnknownBody => Class::UnknownBody,
        };
        let group = group.map_or_else(|| Cow::Owned(of_object.unwrap_or_default()), Cow::Borrowed);
        Some(Examined { located, group, resource, class })
    }

    /// Tries every key whose provider and name the value carries.
    fn open(&self, value: &LocalValue<'_>, etcd_key: &[u8], located: &Located<'_>) -> Trial<'c> {
        let mut outcome = Trial::NoKey;
        for key in &self.keys {
            if key.provider() != value.provider || value.body_under(key.name()).is_none() {
                continue;
            }
            let fault = match open(value, key, etcd_key) {
                Ok(plaintext) if object_fits(&plaintext, located) => return Trial::Opened(key, plaintext),
                Ok(_) => Fault::Misfit,
                Err(error) => Fault::Closed(error),
            };
            outcome = Trial::Failed(key, fault);
        }
        outcome
    }
}

impl Examined<'_, '_> {
    /// `resource` or `resource.group`, as rules of a configuration name it.
    pub fn resource_name(&self) -> String {
        if self.group.is_empty() { self.resource.to_owned() } else { format!("{}.{}", self.resource, self.group) }
    }

    /// Group and resource through whose providers the API server reads this;
    /// none for what it does not read.
    pub fn stored_as(&self) -> Option<(&str, &str)> {
        match self.located {
            Located::Resource(_) => Some((&self.group, self.resource)),
            Located::Internal(internal) => internal.stored_as.map(|resource| ("", resource)),
            Located::Outside => None,
        }
    }
}

impl Class<'_, '_> {
    pub fn is_encrypted(&self) -> bool {
        !matches!(self, Self::Plain | Self::UnknownBody)
    }
}
