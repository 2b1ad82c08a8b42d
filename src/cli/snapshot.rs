//! `holdfast snapshot`.

use std::io::Write;

use serde_json::json;

use super::args;
use super::layout::{behind, parts_behind};
use super::render;
use super::waiting;
use crate::backup::Taken;
use crate::base::exit::Exit;
use crate::base::failure::Failure;
use crate::base::units::{count, human_bytes};
use crate::station::Station;
use crate::station::lock::Patience;
use crate::station::snapshot::Asked;

/// Takes a snapshot and says what it needs.
///
/// # Errors
/// Those of taking it; nothing is visible then.
pub async fn run(station: &Station, arguments: &args::Snapshot, json: bool, out: &mut dyn Write) -> Result<Exit, Failure> {
    let asked = Asked { degraded: arguments.degraded.as_deref(), slot: None };
    let tell = |holder| waiting::note("takes a snapshot", holder, json);
    let taken = station.take_snapshot(&asked, &Patience { limit: waiting::LIMIT, tell: &tell }).await?;
    print(&taken, json, out, &mut render::Output(std::io::stderr())).map_err(render::unprinted)?;
    Ok(taken.exit())
}

/// Says what was taken; as text, the warnings go to `err`.
///
/// # Errors
/// Those of `out` and `err`.
pub fn print(taken: &Taken, json: bool, out: &mut dyn Write, err: &mut (impl render::Sink + ?Sized)) -> std::io::Result<()> {
    if json {
        return print_json(out, taken);
    }
    let manifest = &taken.manifest;
    let head = format!("snapshot {} of {}: {}", manifest.id, manifest.cluster.name, manifest.quality.as_str());
    write!(out, "{}", behind("", 2, &head))?;
    let facts = format!(
        "revision {}, {}, image {}, sealed {}",
        manifest.image.revision,
        count(manifest.image.live_keys, "live key"),
        human_bytes(manifest.image.bytes),
        human_bytes(manifest.object.bytes),
    );
    write!(out, "{}", behind("  ", 4, &facts))?;
    write!(out, "{}", parts_behind("  stored, with RESTORE.md beside it, as ", 4, &[&manifest.object.key]))?;
    for key in &manifest.keys {
        let escrow = if key.escrow_record.is_some() { "deposited" } else { "NOT in escrow" };
        let needs = format!(
            "needs {} key {} ({}): {}, {}, {escrow}",
            key.provider,
            key.name,
            key.fingerprint.as_deref().unwrap_or("material unknown"),
            count(key.live_objects, "live object"),
            key.proof.as_str(),
        );
        write!(out, "{}", behind("  ", 4, &needs))?;
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
