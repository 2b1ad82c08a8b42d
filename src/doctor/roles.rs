//! What this host can do by its configuration, and what that weakens.

use async_trait::async_trait;

use super::{Area, Check, Findings, Host, codes};
use crate::config::Config;

pub(super) struct Roles;

#[async_trait]
impl Check for Roles {
    fn area(&self) -> Area {
        Area::Config
    }

    fn name(&self) -> String {
        "the configuration".to_owned()
    }

    async fn examine(&self, host: &Host, findings: &Findings) {
        let (config, file) = (&host.station.config, host.file.display());
        let unopened = config.sealed_to_the_example();
        // What a directory cannot keep apart is told with what it grants.
        let told = |about: &str| unopened.contains(&about) || about.ends_with(".store.fs");
        for note in config.notes().into_iter().filter(|note| !told(note.about)) {
            findings.found(&codes::CONFIG_NOTE, note.about, note.text);
        }
        for about in unopened {
            findings.found(
                &codes::CONFIG_EXAMPLE,
                about,
                "is still that of config.example.toml, and nobody can open what is sealed to it",
            );
        }
        match (takes_snapshots(config), rehearses(config)) {
            (true, true) => {
                let text =
                    "takes snapshots and opens them: whoever is root here reads every snapshot and every key, past ones too";
                findings.found(&codes::CONFIG_BOTH_ROLES, &config.host.name, text);
            }
            (false, true) => {
                let text = "rehearses: it can read every snapshot and every key while the identity files are here";
                findings.found(&codes::CONFIG_READS_EVERYTHING, &config.host.name, text);
            }
            (true, false) => findings.good(&config.host.name, "takes snapshots, and can open none"),
            (false, false) => findings.found(&codes::CONFIG_READER, &config.host.name, "only reads what other hosts write"),
        }
        let [snapshots, escrow] = [&config.snapshots, &config.escrow].map(|section| section.identity_file.is_some());
        if snapshots != escrow {
            let (set, missing) = if snapshots { ("snapshots", "escrow") } else { ("escrow", "snapshots") };
            let text = format!("is set and {missing}.identity_file is not: a rehearsal opens both");
            findings.found(&codes::CONFIG_HALF_REHEARSAL, format!("{set}.identity_file"), text);
        }
        findings.good(file, "has no mistakes");
    }
}

/// Does this host take snapshots?
pub(super) fn takes_snapshots(config: &Config) -> bool {
    config.etcd.is_some()
}

/// Can this host open what is sealed?
pub(super) fn rehearses(config: &Config) -> bool {
    config.snapshots.identity_file.is_some() && config.escrow.identity_file.is_some()
}
