//! The identities of a rehearsal host: do they open what is sealed, and are
//! those of snapshots and of keys apart?

use std::path::PathBuf;

use async_trait::async_trait;

use super::{Area, Check, Findings, Host, blocking, codes};
use crate::base::failure::Failure;
use crate::config::SealedStoreConfig;
use crate::escrow::seal::Identities;

pub(super) struct IdentityFiles;

#[async_trait]
impl Check for IdentityFiles {
    fn area(&self) -> Area {
        Area::Keys
    }

    fn name(&self) -> String {
        "the identity files".to_owned()
    }

    async fn examine(&self, host: &Host, findings: &Findings) {
        let (config, recorded) = (&host.station.config, host.recorded().await);
        let image_sealed_to = recorded.latest.iter().flat_map(|latest| latest.manifest.sealed_to.clone()).collect::<Vec<_>>();
        let keys_sealed_to = recorded.deposits.iter().flat_map(|receipt| receipt.sealed_to.clone()).collect::<Vec<_>>();
        let snapshots = one(findings, "snapshots", &config.snapshots, &image_sealed_to).await;
        let escrow = one(findings, "escrow", &config.escrow, &keys_sealed_to).await;
        if let (Some((path, snapshots)), Some((_, escrow))) = (&snapshots, &escrow)
            && escrow.are_among(snapshots.recipients())
        {
            findings.found(&codes::IDENTITY_SHARED, path.display(), "opens snapshots and keys: whoever has it has both");
        }
        if let Some(recipient) = image_sealed_to.iter().find(|recipient| keys_sealed_to.contains(recipient)) {
            findings.found(&codes::RECIPIENT_SHARED, recipient, "opens the newest snapshot and keys in escrow");
        } else if !image_sealed_to.is_empty() && !keys_sealed_to.is_empty() {
            findings.good("recipients", "of the newest snapshot and of the keys in escrow are distinct");
        }
    }
}

/// Loads one identity file and holds it against what is sealed: by the
/// configuration where it says so, and by the newest record.
async fn one(
    findings: &Findings,
    section: &str,
    store: &SealedStoreConfig,
    recorded: &[String],
) -> Option<(PathBuf, Identities)> {
    let Some(path) = store.identity_file.clone() else {
        findings.not_applicable(format!("{section}.identity_file"), "is not set: nothing is opened here");
        return None;
    };
    let loading = path.clone();
    let loaded: Result<Identities, Failure> = blocking(move || Identities::load(&loading)).await;
    let identities = match loaded {
        Ok(identities) => identities,
        Err(failure) => {
            findings.failed(&failure);
            return None;
        }
    };
    let mut opens = Vec::new();
    for (whose, sealed_to) in [("the configuration", store.recipients.as_slice()), ("the newest records", recorded)] {
        match sealed_to.is_empty() {
            true => {}
            false if identities.are_among(sealed_to) => opens.push(whose),
            false => findings.found(
                &codes::IDENTITY_FOREIGN,
                path.display(),
                format!("opens nothing that is sealed to the recipients of {section} in {whose}"),
            ),
        }
    }
    match opens.as_slice() {
        [] => {}
        opens => findings
            .good(path.display(), format!("opens what is sealed to the recipients of {section} in {}", opens.join(" and "))),
    }
    Some((path, identities))
}
