//! The EncryptionConfiguration of a scratch API server: the source's own order
//! with keys from escrow, and whatever had to differ, named.

use crate::base::ids::Fingerprint;
use crate::escrow::shape;
use crate::k8s::encryption_config::{EncryptionConfig, Provider, Rule};
use crate::k8s::local_key::LocalKey;
use crate::record::host::EncryptionShape;
use crate::record::manifest::Manifest;
use crate::rehearsal::open::{OpenedKeys, needed_key};
use crate::runbook::facts::{Deviation, EncryptionRule};

/// A configuration that reads the snapshot, and how it came about.
#[derive(Debug)]
pub struct Built {
    /// None where nothing is encrypted and the source had no configuration.
    pub config: Option<EncryptionConfig>,
    /// Keys that the source's list lacks and the snapshot needs.
    pub appended: Vec<String>,
    pub deviations: Vec<Deviation>,
}

/// Builds it from the source's shape and opened keys alone.
#[must_use]
pub fn build(shape: Option<&EncryptionShape>, manifest: &Manifest, keys: &OpenedKeys) -> Built {
    let mut built = Built { config: None, appended: Vec::new(), deviations: Vec::new() };
    let mut config = EncryptionConfig { rules: Vec::new() };
    if let Some(shape) = shape {
        let rebuilt = shape::rebuild(shape, &|fingerprint: &Fingerprint| keys.keys.get(fingerprint).cloned());
        for missing in rebuilt.missing {
            let what = format!("{} ({}) left out of the EncryptionConfiguration", missing.name, missing.fingerprint);
            built.deviate(what, "no live object needs it, and escrow does not give it");
        }
        config = rebuilt.config;
        built.without_kms(&mut config);
    } else if !manifest.keys.is_empty() {
        built.deviate("the EncryptionConfiguration was made from the needed keys alone", "no record tells the source's order");
    }
    for need in &manifest.keys {
        let Some(key) = needed_key(need, keys) else { continue };
        for resource in &need.resources {
            if !reads(&config, resource, &key) {
                append(&mut config, resource, &key);
                built.appended.push(format!("{} for {resource}", describe_key(&key)));
                let what = format!("{} appended for {resource}", describe_key(&key));
                built.deviate(what, "live objects need it, and the source's list does not have it");
            }
        }
    }
    if !config.rules.is_empty() {
        built.config = Some(config);
    }
    built
}

/// The rules as a report shows them: names and fingerprints.
#[must_use]
pub fn describe(config: &EncryptionConfig) -> Vec<EncryptionRule> {
    let rule = |rule: &Rule| EncryptionRule {
        resources: rule.resources.clone(),
        providers: rule.providers.iter().flat_map(describe_provider).collect(),
    };
    config.rules.iter().map(rule).collect()
}

impl Built {
    fn deviate(&mut self, what: impl Into<String>, why: &str) {
        let deviation = Deviation { what: what.into(), why: why.to_owned() };
        if !self.deviations.contains(&deviation) {
            self.deviations.push(deviation);
        }
    }

    /// A scratch API server does not start beside a KMS that is not there; the
    /// rung below found that no live object needs one.
    fn without_kms(&mut self, config: &mut EncryptionConfig) {
        for rule in &mut config.rules {
            for provider in &rule.providers {
                if let Provider::Kms(kms) = provider {
                    let what = format!("KMS provider {} left out of the EncryptionConfiguration", kms.name);
                    self.deviate(what, "no live object needs it, and a rehearsal reaches no KMS");
                }
            }
            rule.providers.retain(|provider| !matches!(provider, Provider::Kms(_)));
            // An empty list is refused by the API server.
            if rule.providers.is_empty() {
                rule.providers.push(Provider::Identity);
            }
        }
    }
}

/// Does the configuration read values of this resource under this very key?
fn reads(config: &EncryptionConfig, resource: &str, key: &LocalKey) -> bool {
    let (name, group) = split(resource);
    config.providers_for(group, name).into_iter().flat_map(Provider::keys).any(|known| known == key)
}

/// Adds a key for a resource: to the rule that governs it, before a final
/// `identity`; else in a rule of its own.
fn append(config: &mut EncryptionConfig, resource: &str, key: &LocalKey) {
    let Some(provider) = Provider::of_keys(vec![key.clone()]) else { return };
    let (name, group) = split(resource);
    let governing = [(name, group), ("*", group), ("*", "*")];
    let place = governing.iter().find_map(|wanted| {
        config.rules.iter().rposition(|rule| rule.resources.iter().any(|resource| split(resource) == *wanted))
    });
    match place {
        Some(at) => {
            let providers = &mut config.rules[at].providers;
            let end = match providers.last() {
                Some(Provider::Identity) => providers.len() - 1,
                _ => providers.len(),
            };
            providers.insert(end, provider);
        }
        None => {
            let providers = vec![provider, Provider::Identity];
            config.rules.push(Rule { resources: vec![resource.to_owned()], providers });
        }
    }
}

/// `secrets`, `deployments.apps`, `*.apps`, `*.`, `*.*`.
fn split(resource: &str) -> (&str, &str) {
    resource.split_once('.').unwrap_or((resource, ""))
}

fn describe_provider(provider: &Provider) -> Vec<String> {
    match provider {
        Provider::Identity => vec!["identity".to_owned()],
        Provider::Kms(kms) => vec![format!("kms {} {}", kms.api_version, kms.name)],
        local => local.keys().iter().map(describe_key).collect(),
    }
}

fn describe_key(key: &LocalKey) -> String {
    format!("{} {} ({})", key.provider(), key.name(), key.fingerprint())
}
