//! `holdfast show ID`: one snapshot with its keys, its proofs and its problems.

use std::io::{self, Write};

use jiff::Timestamp;
use serde_json::json;

use super::layout::{behind, labelled, padded, parts_behind};
use super::render;
use super::render::printable;
use super::table::{Table, about, ago, align_right, keep_whole, lines, table};
use crate::base::codes;
use crate::base::exit::Exit;
use crate::base::failure::Failure;
use crate::base::units::{count, human_bytes, human_duration};
use crate::catalog::snapshots::KeyNeeded;
use crate::catalog::{Catalog, SnapshotDetail};
use crate::record::attestation::Attestation;
use crate::record::manifest::Severity;

/// Where the values of the first lines stand.
const LABEL: usize = 14;

/// Prints the snapshot that `id` means: an id, the start of one, or `latest`.
pub fn print(catalog: &Catalog, id: &str, json: bool, out: &mut dyn Write, now: Timestamp) -> Result<Exit, Failure> {
    let id = catalog.resolve(id)?;
    let unknown = || Failure::new(&codes::SNAPSHOT_UNKNOWN, &id, "no snapshot in the ledger has this id");
    let detail = catalog.snapshot(&id)?.ok_or_else(unknown)?;
    let printed = if json { as_json(&detail, out) } else { as_text(&detail, out, now) };
    printed.map_err(render::unprinted)?;
    Ok(Exit::Good)
}

fn as_json(detail: &SnapshotDetail, out: &mut dyn Write) -> io::Result<()> {
    let SnapshotDetail { row, manifest, attestations } = detail;
    writeln!(out, "{}", json!({ "snapshot": row, "manifest": manifest, "attestations": attestations }))
}

fn as_text(detail: &SnapshotDetail, out: &mut dyn Write, now: Timestamp) -> io::Result<()> {
    let SnapshotDetail { row, manifest, attestations } = detail;
    facts(detail, out, now)?;
    for obstacle in row.obstacles.iter().skip(1) {
        // Below the text that follows `no:`.
        let column = LABEL + "no: ".len();
        write!(out, "{}", labelled("", column, obstacle))?;
    }
    if !row.keys.is_empty() {
        write!(out, "\n{}", lines(&keys(&row.keys, now)))?;
    }
    if !manifest.resources.is_empty() {
        let mut resources = table(&["RESOURCE", "LIVE", "ENCRYPTED", "PLAINTEXT"]);
        align_right(&mut resources, &[1, 2, 3]);
        for count in &manifest.resources {
            let dot = if count.group.is_empty() { "" } else { "." };
            resources.add_row([
                format!("{}{dot}{}", printable(&count.resource), printable(&count.group)),
                count.live.to_string(),
                count.encrypted.to_string(),
                count.plaintext.to_string(),
            ]);
        }
        write!(out, "\n{}", lines(&resources))?;
    }
    if !attestations.is_empty() {
        write!(out, "\n{}", lines(&rehearsals(attestations)))?;
    }
    for (index, problem) in manifest.problems.iter().enumerate() {
        let severity = match problem.severity {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        let gap = if index == 0 { "\n" } else { "" };
        write!(out, "{gap}{}", behind(&format!("{severity}: "), 2, &format!("{} [{}]", problem.message, problem.code)))?;
    }
    Ok(())
}

fn facts(detail: &SnapshotDetail, out: &mut dyn Write, now: Timestamp) -> io::Result<()> {
    let SnapshotDetail { row, manifest, .. } = detail;
    let (taken, image, object) = (&manifest.taken, &manifest.image, &manifest.object);
    let proven = match &row.proven {
        Some(proof) => format!("to {}, {} (run {})", proof.rung, ago(&proof.at, now), proof.run),
        None => "never".into(),
    };
    let member = &taken.member;
    // etcd's Status does not tell a member's name.
    let name = if member.name.is_empty() { String::new() } else { format!("{} ", member.name) };
    for (name, value) in [
        ("snapshot", row.id.to_string()),
        ("cluster", format!("{}, lineage {}", manifest.cluster.name, row.lineage)),
        ("taken", format!("{} ({}) by {}", row.taken, ago(&row.taken, now), row.host)),
        ("member", format!("{name}{}, etcd {}", member.id, member.version)),
        ("revision", format!("{}, {}", row.revision, count(row.live_keys, "live key"))),
        ("image", human_bytes(image.bytes)),
        ("image sha256", image.sha256.to_string()),
        ("object", human_bytes(object.bytes)),
        ("quality", row.quality.as_str().into()),
        ("proven", proven),
        ("restorable", row.obstacles.first().map_or_else(|| "yes".into(), |first| format!("no: {first}"))),
    ] {
        match name {
            // A path is one piece, whatever is in it.
            "object" => write!(out, "{}", parts_behind(&padded(name, LABEL), LABEL, &[&value, &object.key]))?,
            _ => write!(out, "{}", labelled(name, LABEL, &value))?,
        }
    }
    Ok(())
}

fn keys(rows: &[KeyNeeded], now: Timestamp) -> Table {
    let mut keys = table(&["KEY", "FINGERPRINT", "OBJECTS", "TRIAL", "ESCROW"]);
    align_right(&mut keys, &[2]);
    for key in rows {
        keys.add_row([
            format!("{} {}", key.provider, printable(&key.name)),
            key.fingerprint.as_deref().map_or_else(|| "not known".into(), printable),
            key.live_objects.to_string(),
            key.proof.clone(),
            match &key.missing_since {
                Some(since) => format!("MISSING since {}", about(since, now)),
                None if key.escrowed => "deposited".into(),
                None => "MISSING".into(),
            },
        ]);
    }
    keys
}

fn rehearsals(attestations: &[Attestation]) -> Table {
    let mut runs = table(&["REHEARSAL", "ASKED", "REACHED", "TOOK", "RESULT"]);
    keep_whole(&mut runs, 0);
    for run in attestations {
        runs.add_row([
            run.run.to_string(),
            run.asked.to_string(),
            run.reached.map_or_else(|| "nothing".into(), |rung| rung.to_string()),
            human_duration(std::time::Duration::from_millis(run.rto_ms)),
            match (&run.failure, run.passed) {
                (_, true) => "passed".into(),
                (Some(code), false) => printable(code),
                (None, false) => "failed".into(),
            },
        ]);
    }
    runs
}
