//! The signing key of this host: will others believe what it signs?

use async_trait::async_trait;

use super::roles::{rehearses, takes_snapshots};
use super::{Area, Check, Findings, Host, codes};
use crate::station::{rehearsal, snapshot};

pub(super) struct Signing;

#[async_trait]
impl Check for Signing {
    fn area(&self) -> Area {
        Area::Keys
    }

    fn name(&self) -> String {
        "the signing key".to_owned()
    }

    async fn examine(&self, host: &Host, findings: &Findings) {
        let (station, config) = (&host.station, &host.station.config);
        if let Err(failure) = station.allowed_signers() {
            // Without the list nothing that is signed here can be judged.
            return findings.failed(&failure);
        }
        let mut namespaces = Vec::new();
        if takes_snapshots(config) {
            namespaces.extend(snapshot::SIGNED_HERE);
        }
        if rehearses(config) {
            namespaces.extend(rehearsal::SIGNED_HERE);
        }
        if namespaces.is_empty() {
            return findings.not_applicable("host.signing_key", "nothing is signed here");
        }
        let Some(path) = &config.host.signing_key else {
            return findings.found(
                &codes::SIGNS_NOTHING,
                "host.signing_key",
                "is not set, and what this host does must be signed",
            );
        };
        let mut believed = Vec::new();
        for namespace in namespaces {
            match station.signer_of(&[namespace]) {
                Ok(_) => believed.push(namespace),
                Err(failure) => {
                    findings.failed(&failure);
                    // One that cannot be used at all is the same for each kind of record.
                    if failure.code() != &crate::base::codes::SIGNING_NOT_ALLOWED {
                        return;
                    }
                }
            }
        }
        if !believed.is_empty() {
            findings.good(path.display(), format!("is believed for {}", believed.join(", ")));
        }
    }
}
