//! The EncryptionConfiguration of a scratch API server: the source's own order
//! with keys from escrow, and whatever had to differ, named.

use crate::base::ids::Fingerprint;
use crate::escrow::shape;
use crate::k8s::encryption_config::{EncryptionConfig, Provider, Rule};
use crate::k8s::local_key::LocalKey;
use crate::record::host::EncryptionShape;
use crate::record::manifest::KeyNeed;
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
pub fn build(shape: Option<&EncryptionShape>, needs: &[KeyNeed], keys: &OpenedKeys) -> Built {
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
    } else if !needs.is_empty() {
        built.deviate("the EncryptionConfiguration was made from the needed keys alone", "no record tells the source's order");
    }
    for need in needs {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::base::digest::Sha256;
    use crate::base::secret::Secret;
    use crate::k8s::encryption_config::KmsProvider;
    use crate::k8s::local_key::LocalProvider;
    use crate::record::manifest::Proof;

    fn key(provider: LocalProvider, name: &str, byte: u8) -> LocalKey {
        LocalKey::new(provider, name, Secret::new(vec![byte; 32])).unwrap()
    }

    fn opened(keys: &[&LocalKey]) -> OpenedKeys {
        OpenedKeys { keys: keys.iter().map(|key| (key.fingerprint().clone(), (*key).clone())).collect::<BTreeMap<_, _>>() }
    }

    fn need(key: &LocalKey, resources: &[&str]) -> KeyNeed {
        KeyNeed {
            provider: key.provider().as_str().to_owned(),
            name: key.name().to_owned(),
            kms_key_id: None,
            fingerprint: Some(key.fingerprint().to_string()),
            material: None,
            live_objects: 1,
            resources: resources.iter().map(|resource| (*resource).to_owned()).collect(),
            proof: Proof::Opened,
            escrow_record: None,
        }
    }

    fn config(rules: &[(&[&str], Vec<Provider>)]) -> EncryptionConfig {
        let rule = |(resources, providers): &(&[&str], Vec<Provider>)| Rule {
            resources: resources.iter().map(|resource| (*resource).to_owned()).collect(),
            providers: providers.clone(),
        };
        EncryptionConfig { rules: rules.iter().map(rule).collect() }
    }

    fn built(source: &EncryptionConfig, needs: &[KeyNeed], keys: &[&LocalKey]) -> Built {
        build(Some(&shape::of(source, Sha256::of(b"file"))), needs, &opened(keys))
    }

    fn aescbc(keys: &[&LocalKey]) -> Provider {
        Provider::Aescbc(keys.iter().map(|key| (*key).clone()).collect())
    }

    #[test]
    fn the_sources_own_order_comes_out_with_nothing_appended() {
        let (new, old) = (key(LocalProvider::Aescbc, "key2", 2), key(LocalProvider::Aescbc, "key1", 1));
        let source = config(&[(&["secrets"], vec![aescbc(&[&new, &old]), Provider::Identity])]);
        let built = built(&source, &[need(&old, &["secrets"])], &[&new, &old]);
        assert_eq!(built.config, Some(source));
        assert!(built.appended.is_empty() && built.deviations.is_empty(), "{built:?}");
    }

    #[test]
    fn a_needed_key_that_the_source_lacks_goes_before_the_final_identity_and_is_a_deviation() {
        let (new, old) = (key(LocalProvider::Aescbc, "key2", 2), key(LocalProvider::Secretbox, "key1", 1));
        let source = config(&[(&["secrets"], vec![aescbc(&[&new]), Provider::Identity])]);
        let built = built(&source, &[need(&old, &["secrets"])], &[&new, &old]);
        let wanted = vec![aescbc(&[&new]), Provider::Secretbox(vec![old.clone()]), Provider::Identity];
        assert_eq!(built.config.unwrap().rules[0].providers, wanted);
        assert_eq!(built.appended, [format!("secretbox key1 ({}) for secrets", old.fingerprint())]);
        assert_eq!(built.deviations.len(), 1);
    }

    #[test]
    fn the_same_material_under_another_name_is_another_key() {
        let (stored, renamed) = (key(LocalProvider::Aescbc, "key1", 1), key(LocalProvider::Aescbc, "primary", 1));
        let source = config(&[(&["secrets"], vec![aescbc(&[&renamed])])]);
        let built = built(&source, &[need(&stored, &["secrets"])], &[&renamed]);
        assert_eq!(built.config.unwrap().rules[0].providers, [aescbc(&[&renamed]), aescbc(&[&stored])]);
        assert_eq!(built.appended.len(), 1, "the name is part of every stored value");
    }

    #[test]
    fn a_wildcard_governs_what_no_rule_names_and_else_a_rule_is_added() {
        let (one, two) = (key(LocalProvider::Aescbc, "one", 1), key(LocalProvider::Aescbc, "two", 2));
        let source = config(&[(&["secrets"], vec![aescbc(&[&one])]), (&["*.apps"], vec![aescbc(&[&one])])]);
        let needs = [need(&two, &["deployments.apps", "widgets.example.com"])];
        let rules = built(&source, &needs, &[&one, &two]).config.unwrap().rules;
        assert_eq!(rules[0].providers, [aescbc(&[&one])], "a rule that does not govern is left alone");
        assert_eq!(rules[1].providers, [aescbc(&[&one]), aescbc(&[&two])]);
        assert_eq!(rules[2].resources, ["widgets.example.com"]);
        assert_eq!(rules[2].providers, [aescbc(&[&two]), Provider::Identity]);
    }

    #[test]
    fn what_escrow_does_not_give_and_nothing_needs_is_left_out_by_name() {
        let (gone, kept) = (key(LocalProvider::Aescbc, "gone", 1), key(LocalProvider::Aescbc, "kept", 2));
        let source = config(&[(&["secrets"], vec![aescbc(&[&gone, &kept])]), (&["configmaps"], vec![aescbc(&[&gone])])]);
        let built = built(&source, &[need(&kept, &["secrets"])], &[&kept]);
        let rules = built.config.unwrap().rules;
        assert_eq!(rules[0].providers, [aescbc(&[&kept])]);
        assert_eq!(rules[1].providers, [Provider::Identity], "an empty list is refused by the API server");
        assert!(
            built.deviations.iter().any(|deviation| deviation.what.contains(gone.fingerprint().as_str())),
            "{:?}",
            built.deviations
        );
    }

    #[test]
    fn a_kms_that_nothing_needs_is_left_out() {
        let kms = KmsProvider {
            api_version: "v2".into(),
            name: "vault".into(),
            endpoint: "unix:///run/kms.sock".into(),
            timeout: None,
            cachesize: None,
        };
        let source = config(&[(&["secrets"], vec![Provider::Kms(kms), Provider::Identity])]);
        let built = built(&source, &[], &[]);
        assert_eq!(built.config.unwrap().rules[0].providers, [Provider::Identity]);
        assert!(built.deviations[0].what.contains("vault"));
    }

    #[test]
    fn without_a_record_the_needed_keys_make_the_configuration_and_without_keys_there_is_none() {
        let one = key(LocalProvider::Aescbc, "one", 1);
        let built = build(None, &[need(&one, &["secrets"])], &opened(&[&one]));
        assert_eq!(built.config, Some(config(&[(&["secrets"], vec![aescbc(&[&one]), Provider::Identity])])));
        assert!(!built.deviations.is_empty());
        let none = build(None, &[], &OpenedKeys::default());
        assert!(none.config.is_none() && none.deviations.is_empty());
    }

    #[test]
    fn the_outline_of_a_configuration_holds_no_key() {
        let one = key(LocalProvider::Aescbc, "one", b'k');
        let outline = format!("{:?}", describe(&config(&[(&["secrets"], vec![aescbc(&[&one]), Provider::Identity])])));
        assert!(outline.contains(one.fingerprint().as_str()) && outline.contains("identity"));
        assert!(!outline.contains("kkkk") && !outline.contains(&data_encoding::BASE64.encode(&[b'k'; 32])), "{outline}");
    }
}
