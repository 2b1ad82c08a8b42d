//! Writes a configuration that the API server accepts: the same rules,
//! providers and keys, in the same order.

use std::fmt::Write as _;

use super::{EncryptionConfig, KmsProvider, Provider};
use crate::base::secret::Secret;
use crate::k8s::local_key::LocalKey;

pub(super) fn to_yaml(config: &EncryptionConfig) -> Secret<String> {
    // Room for everything at once: a text that grows leaves copies of key material behind.
    let mut yaml = String::with_capacity(room(config));
    yaml.push_str("apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n");
    for rule in &config.rules {
        yaml.push_str("  - resources:\n");
        for name in &rule.resources {
            line(&mut yaml, "      - ", name);
        }
        yaml.push_str("    providers:\n");
        for provider in &rule.providers {
            write_provider(&mut yaml, provider);
        }
    }
    Secret::new(yaml)
}

fn write_provider(yaml: &mut String, provider: &Provider) {
    match provider {
        Provider::Aescbc(keys) | Provider::Aesgcm(keys) | Provider::Secretbox(keys) => {
            let kind = provider.local_kind().map_or("", |kind| kind.as_str());
            yaml.push_str("      - ");
            yaml.push_str(kind);
            yaml.push_str(":\n          keys:\n");
            keys.iter().for_each(|key| write_key(yaml, key));
        }
        Provider::Kms(kms) => write_kms(yaml, kms),
        Provider::Identity => yaml.push_str("      - identity: {}\n"),
    }
}

fn write_key(yaml: &mut String, key: &LocalKey) {
    line(yaml, "            - name: ", key.name());
    // Quoted, because base64 can look like a number.
    yaml.push_str("              secret: \"");
    data_encoding::BASE64.encode_append(key.secret().expose(), yaml);
    yaml.push_str("\"\n");
}

fn write_kms(yaml: &mut String, kms: &KmsProvider) {
    yaml.push_str("      - kms:\n");
    line(yaml, "          apiVersion: ", &kms.api_version);
    line(yaml, "          name: ", &kms.name);
    line(yaml, "          endpoint: ", &kms.endpoint);
    if let Some(timeout) = &kms.timeout {
        line(yaml, "          timeout: ", timeout);
    }
    if let Some(size) = kms.cachesize {
        let _ = writeln!(yaml, "          cachesize: {size}");
    }
}

/// A line that ends in a text between double quotes, where nothing is taken for anything else.
fn line(yaml: &mut String, start: &str, text: &str) {
    yaml.push_str(start);
    yaml.push('"');
    for c in text.chars() {
        match c {
            '"' => yaml.push_str("\\\""),
            '\\' => yaml.push_str("\\\\"),
            ' '..='~' => yaml.push(c),
            // Writing to a String cannot fail. Not `\u` above 16 bits: YAML has no surrogate pairs.
            _ if u32::from(c) <= 0xffff => drop(write!(yaml, "\\u{:04x}", u32::from(c))),
            _ => drop(write!(yaml, "\\U{:08x}", u32::from(c))),
        }
    }
    yaml.push_str("\"\n");
}

/// No less than the text will have: an escape has at most ten characters, a line's start fewer than forty.
fn room(config: &EncryptionConfig) -> usize {
    let text = |text: &str| 10 * text.len() + 40;
    let provider = |provider: &Provider| {
        let keys: usize = provider.keys().iter().map(|key| text(key.name()) + text("") + 2 * key.secret().expose().len()).sum();
        let kms = match provider {
            Provider::Kms(kms) => {
                let fields = [&kms.api_version, &kms.name, &kms.endpoint, kms.timeout.as_ref().unwrap_or(&kms.name)];
                fields.iter().map(|field| text(field)).sum::<usize>() + text("") * 2
            }
            _ => 0,
        };
        text("") * 2 + keys + kms
    };
    let rule = |rule: &super::Rule| {
        let names: usize = rule.resources.iter().map(|name| text(name)).sum();
        text("") * 2 + names + rule.providers.iter().map(provider).sum::<usize>()
    };
    text("") * 4 + config.rules.iter().map(rule).sum::<usize>()
}
