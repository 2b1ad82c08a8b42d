//! `holdfast snapshot`.

use std::io::Write;

use serde_json::json;

use super::args;
use super::render;
use super::station::Station;
use crate::backup::{BackupHost, Taken, take};
use crate::base::codes;
use crate::base::exit::Exit;
use crate::base::failure::Failure;
use crate::base::units::{count, human_bytes};
use crate::etcd::EtcdClient;
use crate::record::Record;
use crate::record::escrow::EscrowRecord;
use crate::record::host::HostRecord;
use crate::record::manifest::Manifest;
use crate::record::receipt::Receipt;
use crate::scan::capture::MemfdSink;

/// The kinds of record that a snapshot signs.
const SIGNED_HERE: [&str; 4] = [Manifest::NAMESPACE, Receipt::NAMESPACE, HostRecord::NAMESPACE, EscrowRecord::NAMESPACE];

/// Takes a snapshot and says what it needs.
///
/// # Errors
/// Those of [`take`]; nothing is visible then.
pub async fn run(station: &Station, arguments: &args::Snapshot, json: bool, out: &mut dyn Write) -> Result<Exit, Failure> {
    let etcd = station.config.etcd.as_ref().ok_or_else(|| {
        Failure::new(
            &codes::CONFIG_SECTION_MISSING,
            "[etcd]",
            "the section is missing, and a snapshot is taken from its endpoints",
        )
    })?;
    if let Some(list) = station.config.sealed_to_the_example().first() {
        let cause = "it still names a recipient of config.example.toml, and nobody can open what is sealed to it";
        return Err(
            Failure::new(&codes::CONFIG_INVALID, list, cause).next("make an identity with age-keygen and name its recipient")
        );
    }
    let source = EtcdClient::new(etcd)?;
    let signer = station.signer_of(&SIGNED_HERE)?;
    let outbox = station.outbox()?;
    let known = station.known().await?;
    let host = BackupHost {
        config: &station.config,
        source: &source,
        sink: |limit| Ok(Box::new(MemfdSink::new(limit)?)),
        snapshots: station.snapshots.as_ref(),
        escrow: station.escrow.as_ref(),
        stores: &station.stores,
        signer: &signer,
        outbox: &outbox,
        known: &known,
        clock: station.clock.as_ref(),
        entropy: station.entropy.as_ref(),
    };
    let mut taken = take(&host, arguments.degraded.as_deref()).await?;
    // The snapshot exists; a ledger that is down only delays what others see.
    let refreshed = station.refresh().await;
    if let (Err(failure), false) = (refreshed, taken.warnings.iter().any(|told| told.code() == &codes::LEDGER_UNREACHABLE)) {
        taken.warnings.push(failure);
    }
    print(&taken, json, out, &mut render::Output(std::io::stderr())).map_err(render::unprinted)?;
    Ok(taken.exit())
}

/// Says what was taken; as text, the warnings go to `err`.
///
/// # Errors
/// Those of `out` and `err`.
pub fn print(taken: &Taken, json: bool, out: &mut dyn Write, err: &mut dyn Write) -> std::io::Result<()> {
    if json {
        return print_json(out, taken);
    }
    let manifest = &taken.manifest;
    writeln!(out, "snapshot {} of {}: {}", manifest.id, manifest.cluster.name, manifest.quality.as_str())?;
    writeln!(
        out,
        "  revision {}, {}, image {}, sealed {}",
        manifest.image.revision,
        count(manifest.image.live_keys, "live key"),
        human_bytes(manifest.image.bytes),
        human_bytes(manifest.object.bytes),
    )?;
    writeln!(out, "  stored as {}, with RESTORE.md beside it", manifest.object.key)?;
    for key in &manifest.keys {
        let escrow = if key.escrow_record.is_some() { "deposited" } else { "NOT in escrow" };
        writeln!(
            out,
            "  needs {} key {} ({}): {}, {}, {escrow}",
            key.provider,
            render::printable(&key.name),
            key.fingerprint.as_deref().unwrap_or("material unknown"),
            count(key.live_objects, "live object"),
            key.proof.as_str(),
        )?;
    }
    for warning in &taken.warnings {
        render::warning(err, warning, false)?;
    }
    Ok(())
}

fn print_json(out: &mut dyn Write, taken: &Taken) -> std::io::Result<()> {
    let warnings: Vec<_> = taken.warnings.iter().map(render::object).collect();
    let document = json!({ "manifest": taken.manifest, "manifest_sha256": taken.manifest_sha256, "warnings": warnings });
    writeln!(out, "{document}")
}
