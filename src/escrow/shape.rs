//! An EncryptionConfiguration without its keys, and back again.
//!
//! The host record keeps the shape: rules, providers and keys in the file's
//! order, by fingerprint. With the keys that escrow opens, the same file comes
//! out again; what is missing is named, never invented.

use serde_json::{Value, json};

use crate::base::digest::Sha256;
use crate::base::ids::Fingerprint;
use crate::k8s::encryption_config::{EncryptionConfig, KmsProvider, Provider, Rule};
use crate::k8s::local_key::{LocalKey, LocalProvider};
use crate::record::host::{EncryptionShape, KeyShape, ProviderShape, RuleShape};

/// The shape of a configuration that was read from a file of this digest.
#[must_use]
pub fn of(config: &EncryptionConfig, file_sha256: Sha256) -> EncryptionShape {
    let rule = |rule: &Rule| RuleShape {
        resources: rule.resources.clone(),
        providers: rule.providers.iter().map(provider_shape).collect(),
    };
    EncryptionShape { file_sha256, rules: config.rules.iter().map(rule).collect() }
}

/// A configuration rebuilt from its shape.
#[derive(Debug, Clone)]
pub struct Rebuilt {
    pub config: EncryptionConfig,
    /// Keys of the shape that were not given.
    pub missing: Vec<KeyShape>,
}

/// The configuration of this shape, with the keys that `key_of` has. A provider
/// with no key left is dropped: an API server refuses an empty list.
#[must_use]
pub fn rebuild(shape: &EncryptionShape, key_of: &dyn Fn(&Fingerprint) -> Option<LocalKey>) -> Rebuilt {
    let mut missing = Vec::new();
    let rules = shape
        .rules
        .iter()
        .map(|rule| Rule {
            resources: rule.resources.clone(),
            providers: rule.providers.iter().filter_map(|p| rebuild_provider(p, key_of, &mut missing)).collect(),
        })
        .collect();
    Rebuilt { config: EncryptionConfig { rules }, missing }
}

/// The file as JSON, which an API server reads like YAML, with `@hf1-…@` where
/// each secret goes. It tells a person the order and holds no key.
#[must_use]
pub fn placeholder_document(shape: &EncryptionShape) -> String {
    let rules: Vec<_> = shape
        .rules
        .iter()
        .map(|rule| {
            let providers: Vec<_> = rule.providers.iter().map(placeholder_provider).collect();
            json!({ "resources": rule.resources, "providers": providers })
        })
        .collect();
    let document = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "EncryptionConfiguration",
        "resources": rules,
    });
    format!("{document:#}\n")
}

/// What stands for a key's secret in [`placeholder_document`].
#[must_use]
pub fn placeholder(fingerprint: &Fingerprint) -> String {
    format!("@{fingerprint}@")
}

/// The fingerprints of a shape, each once, in order.
#[must_use]
pub fn fingerprints(shape: &EncryptionShape) -> Vec<&Fingerprint> {
    let mut all = Vec::new();
    for key in shape.rules.iter().flat_map(|rule| &rule.providers).flat_map(keys_of) {
        if !all.contains(&&key.fingerprint) {
            all.push(&key.fingerprint);
        }
    }
    all
}

fn keys_of(provider: &ProviderShape) -> &[KeyShape] {
    match provider {
        ProviderShape::Aescbc { keys } | ProviderShape::Aesgcm { keys } | ProviderShape::Secretbox { keys } => keys,
        ProviderShape::Kms { .. } | ProviderShape::Identity {} => &[],
    }
}

fn provider_shape(provider: &Provider) -> ProviderShape {
    let shapes = |keys: &[LocalKey]| {
        keys.iter().map(|key| KeyShape { name: key.name().to_owned(), fingerprint: key.fingerprint().clone() }).collect()
    };
    match provider {
        Provider::Aescbc(keys) => ProviderShape::Aescbc { keys: shapes(keys) },
        Provider::Aesgcm(keys) => ProviderShape::Aesgcm { keys: shapes(keys) },
        Provider::Secretbox(keys) => ProviderShape::Secretbox { keys: shapes(keys) },
        Provider::Kms(kms) => ProviderShape::Kms {
            api_version: kms.api_version.clone(),
            name: kms.name.clone(),
            endpoint: kms.endpoint.clone(),
            timeout: kms.timeout.clone(),
            cachesize: kms.cachesize,
        },
        Provider::Identity => ProviderShape::Identity {},
    }
}

fn rebuild_provider(
    shape: &ProviderShape,
    key_of: &dyn Fn(&Fingerprint) -> Option<LocalKey>,
    missing: &mut Vec<KeyShape>,
) -> Option<Provider> {
    let mut keys = |shapes: &[KeyShape], provider: LocalProvider| {
        let mut found = Vec::new();
        for shape in shapes {
            // The shape's name counts: it is part of every stored prefix.
            let key = key_of(&shape.fingerprint).filter(|key| key.provider() == provider);
            let renamed = key.and_then(|key| LocalKey::new(provider, shape.name.as_str(), key.secret().clone()).ok());
            match renamed {
                Some(key) => found.push(key),
                None => missing.push(shape.clone()),
            }
        }
        Provider::of_keys(found)
    };
    match shape {
        ProviderShape::Aescbc { keys: shapes } => keys(shapes, LocalProvider::Aescbc),
        ProviderShape::Aesgcm { keys: shapes } => keys(shapes, LocalProvider::Aesgcm),
        ProviderShape::Secretbox { keys: shapes } => keys(shapes, LocalProvider::Secretbox),
        ProviderShape::Kms { api_version, name, endpoint, timeout, cachesize } => Some(Provider::Kms(KmsProvider {
            api_version: api_version.clone(),
            name: name.clone(),
            endpoint: endpoint.clone(),
            timeout: timeout.clone(),
            cachesize: *cachesize,
        })),
        ProviderShape::Identity {} => Some(Provider::Identity),
    }
}

fn placeholder_provider(provider: &ProviderShape) -> Value {
    let keys = |shapes: &[KeyShape]| {
        let keys: Vec<_> =
            shapes.iter().map(|key| json!({ "name": key.name, "secret": placeholder(&key.fingerprint) })).collect();
        json!({ "keys": keys })
    };
    match provider {
        ProviderShape::Aescbc { keys: shapes } => json!({ "aescbc": keys(shapes) }),
        ProviderShape::Aesgcm { keys: shapes } => json!({ "aesgcm": keys(shapes) }),
        ProviderShape::Secretbox { keys: shapes } => json!({ "secretbox": keys(shapes) }),
        ProviderShape::Kms { api_version, name, endpoint, timeout, cachesize } => {
            let mut kms = json!({ "apiVersion": api_version, "name": name, "endpoint": endpoint });
            if let Some(timeout) = timeout {
                kms["timeout"] = json!(timeout);
            }
            if let Some(cachesize) = cachesize {
                kms["cachesize"] = json!(cachesize);
            }
            json!({ "kms": kms })
        }
        ProviderShape::Identity {} => json!({ "identity": {} }),
    }
}
