//! The EncryptionConfiguration of this host, and whether escrow has its keys
//! and those that snapshots need.

use std::collections::BTreeSet;

use async_trait::async_trait;

use super::recorded::Recorded;
use super::roles::takes_snapshots;
use super::{Area, Check, Findings, Host, blocking, codes};
use crate::backup::configuration;
use crate::base::units::count;
use crate::catalog::KeyRow;
use crate::k8s::encryption_config::{EncryptionConfig, Provider};
use crate::k8s::local_key::LocalKey;

pub(super) struct Encryption;

#[async_trait]
impl Check for Encryption {
    fn area(&self) -> Area {
        Area::Keys
    }

    fn name(&self) -> String {
        "the EncryptionConfiguration".to_owned()
    }

    async fn examine(&self, host: &Host, findings: &Findings) {
        let config = &host.station.config;
        let path = config.backup.encryption_config.clone();
        match (&path, takes_snapshots(config)) {
            (_, false) => findings.not_applicable("backup.encryption_config", "no snapshot is taken here"),
            (None, true) => findings.found(
                &codes::NO_ENCRYPTION,
                "backup.encryption_config",
                "is not set: nothing is encrypted at rest, as far as this host knows",
            ),
            (Some(_), true) => match blocking(move || configuration::read(path.as_deref())).await {
                Err(failure) => findings.failed(&failure),
                Ok(None) => {}
                Ok(Some(read)) => {
                    let object = read.named.name.clone();
                    judge(findings, &object, &read.named.config);
                    escrowed(findings, host.recorded().await, &read.named.config, host);
                }
            },
        }
        needed(findings, host.recorded().await);
    }
}

/// What the file itself says.
fn judge(findings: &Findings, object: &str, config: &EncryptionConfig) {
    let keys = keys(config);
    findings.good(object, format!("is one that an API server reads, with {}", count(keys.len() as u64, "local key")));
    for key in keys.iter().filter(|key| key.is_weak()) {
        findings.found(&codes::KEY_WEAK, name(key), "is text and can be guessed");
    }
    let mut services = BTreeSet::new();
    for provider in config.rules.iter().flat_map(|rule| &rule.providers) {
        if let Provider::Kms(kms) = provider {
            services.insert((kms.name.clone(), kms.endpoint.clone()));
        }
    }
    for (name, endpoint) in services {
        findings.found(
            &codes::KEY_EXTERNAL,
            format!("kms {name}"),
            format!("stays in the service at {endpoint}: a restore needs that service"),
        );
    }
}

/// Is each key of the file in escrow: in this one, for the recipients of the file?
fn escrowed(findings: &Findings, recorded: &Recorded, config: &EncryptionConfig, host: &Host) {
    let set = |names: &[String]| names.iter().cloned().collect::<BTreeSet<_>>();
    let (place, recipients) = (host.station.escrow.describe(), set(&host.station.config.escrow.recipients));
    for key in keys(config) {
        let fingerprint = key.fingerprint().as_str();
        let row = recorded.keys.iter().find(|row| row.fingerprint.as_deref() == Some(fingerprint));
        let deposits = || recorded.deposits.iter().filter(|receipt| receipt.fingerprint.as_str() == fingerprint);
        let here = || deposits().filter(|receipt| receipt.store == place);
        let object = format!("{} ({fingerprint})", name(key));
        if let Some(since) = row.and_then(|row| row.missing_since.as_ref()) {
            findings.found(&codes::KEY_LOST, object, format!("was missing from escrow at {since}, and was not deposited since"));
        } else if let Some(receipt) = here().find(|receipt| set(&receipt.sealed_to) == recipients) {
            findings.good(object, format!("lies in escrow, deposited {}", receipt.deposited));
        } else if let Some(receipt) = here().next() {
            let text = format!("lies in escrow for {}, and escrow.recipients has others", receipt.sealed_to.join(", "));
            findings.found(&codes::KEY_OTHER_RECIPIENTS, object, text);
        } else if let Some(receipt) = deposits().next() {
            let text = format!("was deposited in {}, and escrow is {place} by now", receipt.store);
            findings.found(&codes::KEY_OTHER_STORE, object, text);
        } else {
            findings.found(&codes::KEY_NOT_IN_ESCROW, object, "has no receipt in the ledger: escrow does not have it");
        }
    }
}

/// Keys that snapshots need, whether this host has them or not. One that only
/// older snapshots need cannot spoil the next restore.
fn needed(findings: &Findings, recorded: &Recorded) {
    let newest = recorded.snapshots.first().map(|row| &row.id);
    let mut in_escrow = 0;
    for row in recorded.keys.iter().filter(|row| !row.needed_by.is_empty()) {
        let object = needed_name(row);
        let by_newest = row.needed_by.iter().any(|need| Some(&need.snapshot) == newest);
        let by = match (by_newest, row.needed_by.len() as u64) {
            (true, 1) => "the newest snapshot".to_owned(),
            (true, all) => format!("{}, the newest among them", count(all, "snapshot")),
            (false, all) => count(all, "older snapshot"),
        };
        let cause = match (&row.fingerprint, &row.missing_since) {
            (Some(fingerprint), _) if fingerprint.starts_with("kms") => {
                let text = format!("is needed by {by} and stays in its service: a restore needs that service");
                findings.found(&codes::KEY_EXTERNAL, object, text);
                continue;
            }
            (Some(_), None) if row.deposits > 0 => {
                in_escrow += 1;
                continue;
            }
            (Some(_), Some(since)) => format!("was missing from escrow at {since}"),
            (Some(_), None) => "has no receipt".to_owned(),
            (None, _) => "no known key opens what it encrypted".to_owned(),
        };
        let code = if by_newest { &codes::KEY_NEEDED } else { &codes::KEY_NEEDED_BEFORE };
        findings.found(code, object, format!("is needed by {by}: {cause}"));
    }
    if in_escrow > 0 {
        findings.good("escrow", format!("has {} that snapshots need, by the ledger", count(in_escrow, "key")));
    }
}

/// Each key of a file once, in its order.
fn keys(config: &EncryptionConfig) -> Vec<&LocalKey> {
    let mut found: Vec<&LocalKey> = Vec::new();
    for key in config.keys() {
        if found.iter().all(|other| other.fingerprint() != key.fingerprint()) {
            found.push(key);
        }
    }
    found
}

fn name(key: &LocalKey) -> String {
    format!("{} key {}", key.provider(), key.name())
}

fn needed_name(row: &KeyRow) -> String {
    let names: Vec<_> = row.names.iter().map(String::as_str).collect();
    match &row.fingerprint {
        Some(fingerprint) => format!("{} key {} ({fingerprint})", row.provider, names.join(", ")),
        None => format!("{} key {}", row.provider, names.join(", ")),
    }
}
