//! Which snapshot is meant, also where the ledger does not answer: then the
//! snapshot store itself is asked, and its manifests are believed by their
//! signatures.

use std::time::Duration;

use super::{Tell, Told};
use crate::base::codes;
use crate::base::failure::Failure;
use crate::base::ids::{Lineage, SnapshotId};
use crate::catalog::Catalog;
use crate::record::canonical;
use crate::record::layout::Layout;
use crate::record::manifest::Manifest;
use crate::record::signature::{AllowedSigners, MAX_SIGNATURE_BYTES, verify_record};
use crate::rehearsal::Subject;
use crate::station::{Current, Station};
use crate::store::{Key, Prefix, Store, read_small};

/// Whoever restores has no time for a ledger that is slow.
const LEDGER_PATIENCE: Duration = Duration::from_secs(10);
/// A listing of years of snapshots, or a store that is down.
const LISTING_LIMIT: Duration = Duration::from_secs(120);
/// A manifest and its signature.
const RECORD_LIMIT: Duration = Duration::from_secs(30);

/// Finds the snapshot that `text` means: `latest`, an id, or the start of one.
///
/// # Errors
/// `snapshot.none`, `snapshot.unknown`, `snapshot.ambiguous`; those of the
/// store, where only it could tell.
pub async fn find(station: &Station, text: &str, tell: Tell<'_>) -> Result<Subject, Failure> {
    let known = known(station, tell).await;
    if let Some(Current { catalog, stale: None }) = &known
        && let Ok(id) = catalog.resolve(text)
    {
        return Subject::find(catalog, &id, &station.config.host.name);
    }
    let unknown = match &known {
        Some(Current { catalog, .. }) => catalog.resolve(text),
        None => Err(Failure::new(&codes::SNAPSHOT_UNKNOWN, text, "the ledger cannot be asked")),
    };
    let found = in_store(station, text, tell).await;
    match (found, unknown) {
        // What lies in the store and what the ledger told may be the same one.
        (Ok(manifest), _) => subject(station, known.as_ref().map(|known| &known.catalog), &manifest, tell),
        (Err(_), Ok(id)) => match &known {
            Some(known) => Subject::find(&known.catalog, &id, &station.config.host.name),
            None => Err(Failure::new(&codes::SNAPSHOT_UNKNOWN, text, "the ledger cannot be asked")),
        },
        // The ledger answered: its word on what is unknown says more.
        (Err(failure), Err(unknown)) if known.is_some() && is_nothing(&failure) => Err(unknown),
        (Err(failure), Err(_)) => Err(failure),
    }
}

fn is_nothing(failure: &Failure) -> bool {
    [&codes::SNAPSHOT_NONE, &codes::SNAPSHOT_UNKNOWN].contains(&failure.code())
}

/// The catalog, as far as it is known; none where nothing is.
async fn known(station: &Station, tell: Tell<'_>) -> Option<Current> {
    let silence = || {
        Failure::new(&codes::LEDGER_UNREACHABLE, station.ledger.describe(), "no answer in time")
            .next("repair the ledger when there is time; the restore goes on without it")
    };
    let current = match tokio::time::timeout(LEDGER_PATIENCE, station.current_catalog()).await {
        Ok(current) => current,
        Err(_) => station.catalog().map(|catalog| Current { catalog, stale: Some(silence()) }),
    };
    match current {
        Ok(current) => {
            if let Some(failure) = &current.stale {
                tell(Told::Warning(failure.clone()));
            }
            Some(current)
        }
        Err(failure) => {
            tell(Told::Warning(failure.next("repair it when there is time; the snapshot store is asked instead")));
            None
        }
    }
}

/// From the catalog, with all that it tells, where it has this very manifest.
fn subject(station: &Station, catalog: Option<&Catalog>, found: &Found, tell: Tell<'_>) -> Result<Subject, Failure> {
    if let Some(catalog) = catalog
        && let Ok(subject) = Subject::find(catalog, &found.manifest.id, &station.config.host.name)
        && subject.manifest_sha256 == found.sha256
    {
        return Ok(subject);
    }
    let manifest = &found.manifest;
    tell(Told::Note(format!(
        "snapshot {} was found in the snapshot store, signed by {}; the order of its keys' providers, which the ledger would \
         tell, is not known",
        manifest.id, manifest.signer.name
    )));
    Ok(Subject {
        id: manifest.id.clone(),
        lineage: manifest.cluster.lineage.clone(),
        manifest_sha256: found.sha256,
        host_record: None,
        previous_report: None,
        file: None,
    })
}

/// A manifest that the store holds, believed.
struct Found {
    manifest: Manifest,
    sha256: crate::base::digest::Sha256,
}

/// The newest snapshot in the store that `text` can mean and that is believed.
async fn in_store(station: &Station, text: &str, tell: Tell<'_>) -> Result<Found, Failure> {
    let layout = Layout::new(&station.config.snapshots.prefix, &station.config.cluster);
    let store = station.snapshots.as_ref();
    let root = layout.root();
    let prefix = Prefix::below(&root.parse().map_err(|e| Failure::because(&codes::CONFIG_INVALID, root, &e))?);
    let silent = || Failure::new(&codes::STORE_UNREACHABLE, store.describe(), "no answer in time");
    let listed = tokio::time::timeout(LISTING_LIMIT, store.list(&prefix)).await.map_err(|_| silent())??;
    let mut places: Vec<(SnapshotId, Lineage, Key)> =
        listed.into_iter().filter_map(|listed| place(&layout, listed.key)).collect();
    // Ids begin with the time at which the snapshot was begun.
    places.sort_by(|a, b| b.0.cmp(&a.0));
    if text != "latest" {
        places.retain(|(id, ..)| is_meant(id, text));
        if let [(first, ..), (second, ..), ..] = places.as_slice() {
            let cause = format!("{} snapshots start so, {first} and {second} among them", places.len());
            return Err(Failure::new(&codes::SNAPSHOT_AMBIGUOUS, text, cause));
        }
    }
    let allowed = station.allowed_signers()?;
    let mut refused = None;
    for (.., key) in &places {
        match tokio::time::timeout(RECORD_LIMIT, read(store, key, &allowed)).await.map_err(|_| silent())? {
            Ok(found) => return Ok(found),
            Err(failure) if failure.is_transient() => return Err(failure),
            Err(failure) => {
                tell(Told::Warning(failure.clone()));
                refused = Some(failure);
            }
        }
    }
    Err(refused.unwrap_or_else(|| match text {
        "latest" => Failure::new(&codes::SNAPSHOT_NONE, text, "the snapshot store has none of this cluster"),
        _ => Failure::new(&codes::SNAPSHOT_UNKNOWN, text, "neither the ledger nor the snapshot store has one with this id"),
    }))
}

/// `<root>/<lineage>/<id>/manifest.json`, and nothing else.
fn place(layout: &Layout, key: Key) -> Option<(SnapshotId, Lineage, Key)> {
    let below = key.as_str().strip_prefix(layout.root())?.strip_prefix('/')?;
    let mut parts = below.split('/');
    let (lineage, id, name) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?);
    (name == "manifest.json" && parts.next().is_none()).then_some((id, lineage, key))
}

fn is_meant(id: &SnapshotId, text: &str) -> bool {
    let tail = id.as_str().split_once('-').map_or("", |(_, tail)| tail);
    !text.is_empty() && (id.as_str().starts_with(text) || tail.starts_with(text))
}

async fn read(store: &dyn Store, key: &Key, allowed: &AllowedSigners) -> Result<Found, Failure> {
    let bytes = read_small(store, key, canonical::MAX_BYTES).await?;
    let signature = key.with_suffix(".sig").map_err(|e| Failure::because(&codes::RECORD_INVALID, key, &e))?;
    let signature = read_small(store, &signature, MAX_SIGNATURE_BYTES).await.map_err(|error| match error.kind {
        crate::store::ErrorKind::NotFound => Failure::new(&codes::RECORD_UNSIGNED, key, "no signature lies beside it"),
        _ => error.into(),
    })?;
    let manifest: Manifest = verify_record(key.as_str(), &bytes, &signature, allowed)?;
    Ok(Found { manifest, sha256: crate::base::digest::Sha256::of(&bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_manifests_in_their_place_are_snapshots() {
        let layout = Layout::new("holdfast", &"prod".parse().unwrap());
        let at = |path: &str| place(&layout, path.parse().unwrap()).map(|(id, ..)| id.to_string());
        let good = "holdfast/prod/0123456789abcdef/20261201T130509Z-0badcafe/manifest.json";
        assert_eq!(at(good).as_deref(), Some("20261201T130509Z-0badcafe"));
        for other in [
            "holdfast/prod/0123456789abcdef/20261201T130509Z-0badcafe/manifest.json.sig",
            "holdfast/prod/0123456789abcdef/20261201T130509Z-0badcafe/x/manifest.json",
            "holdfast/prod2/0123456789abcdef/20261201T130509Z-0badcafe/manifest.json",
            "holdfast/prod/lineage/20261201T130509Z-0badcafe/manifest.json",
            "holdfast/prod/manifest.json",
        ] {
            assert_eq!(at(other), None, "{other}");
        }
    }
}
