//! `holdfast list`: what can be restored, how far that is proven, which keys
//! it needs, and where those are.

use std::io::{self, Write};

use jiff::Timestamp;
use serde_json::json;

use super::layout::{behind, parts_behind};
use super::render;
use super::render::printable;
use super::table::{Table, about, ago, align_right, keep_whole, lines, short, table};
use crate::base::exit::Exit;
use crate::base::failure::Failure;
use crate::base::units::count;
use crate::catalog::proofs::Outcome;
use crate::catalog::snapshots::KeyNeeded;
use crate::catalog::{Catalog, KeyRow, Proven, SnapshotRow};
use crate::ledger::Finding;
use crate::record::Rung;
use crate::record::manifest::Quality;

/// The lowest rung that counts as a restore: Kubernetes read the data.
const RESTORED: Rung = Rung::Serve;

/// Everything that `list` says.
struct Listing {
    /// The newest first.
    snapshots: Vec<SnapshotRow>,
    keys: Vec<KeyRow>,
    last_proof: Option<Proven>,
    findings: Vec<Finding>,
}

/// Prints the list. Findings make the answer bad: what exists may be more than
/// what is listed.
pub fn print(catalog: &Catalog, json: bool, out: &mut dyn Write, now: Timestamp) -> Result<Exit, Failure> {
    let listing = Listing {
        snapshots: catalog.snapshots()?,
        keys: catalog.keys()?,
        last_proof: catalog.last_proof(RESTORED)?,
        findings: catalog.findings()?,
    };
    let printed = if json { as_json(&listing, out, now) } else { as_text(&listing, out, now) };
    printed.map_err(render::unprinted)?;
    Ok(if listing.findings.is_empty() { Exit::Good } else { Exit::Bad })
}

fn as_json(listing: &Listing, out: &mut dyn Write, now: Timestamp) -> io::Result<()> {
    let age = listing.last_proof.as_ref().and_then(|proof| proof.at.parse::<Timestamp>().ok());
    let document = json!({
        "snapshots": listing.snapshots,
        "keys": listing.keys,
        "last_proven_restore": listing.last_proof,
        "last_proven_restore_doubt": listing.last_proof.as_ref().and_then(|proof| doubt(proof, &listing.snapshots)),
        "last_proven_restore_age_seconds": age.map(|at| now.duration_since(at).as_secs()),
        "findings": listing.findings,
    });
    writeln!(out, "{document}")
}

/// The newest stands last, just above the headline: a long list scrolls.
fn as_text(listing: &Listing, out: &mut dyn Write, now: Timestamp) -> io::Result<()> {
    if listing.snapshots.is_empty() {
        write!(out, "{}", behind("", 2, &nothing(&listing.findings)))?;
    } else {
        let mut snapshots = table(&["SNAPSHOT", "REVISION", "RESTORABLE", "NEEDS KEY", "PROVEN"]);
        keep_whole(&mut snapshots, 0);
        align_right(&mut snapshots, &[1]);
        for row in listing.snapshots.iter().rev() {
            snapshots.add_row([
                row.id.to_string(),
                row.revision.to_string(),
                restorable(row).into(),
                row.keys.iter().map(needs).collect::<Vec<_>>().join("\n"),
                proven(row, now),
            ]);
        }
        write!(out, "{}", lines(&snapshots))?;
    }
    if !listing.keys.is_empty() {
        writeln!(out, "\n{}", lines(&keys(&listing.keys, now)).trim_end())?;
    }
    writeln!(out)?;
    findings(&listing.findings, out)?;
    write!(out, "{}", behind("", 2, &headline(listing.last_proof.as_ref(), &listing.snapshots, now)))
}

/// Why no snapshot is listed.
fn nothing(findings: &[Finding]) -> String {
    match (disbelieved(findings), findings) {
        (_, []) => "no snapshot yet: take one with holdfast snapshot".into(),
        (None, _) => "no snapshot, and the ledger is not whole".into(),
        (Some(records), _) => format!("no snapshot that is believed: {records}; check allowed_signers"),
    }
}

/// `2 records are not believed`, where there are any.
fn disbelieved(findings: &[Finding]) -> Option<String> {
    match findings.iter().filter(|finding| finding.is_disbelief()).count() {
        0 => None,
        1 => Some("1 record is not believed".into()),
        many => Some(format!("{many} records are not believed")),
    }
}

/// `yes`, or the first reason why not; `show` has all of them.
fn restorable(row: &SnapshotRow) -> &'static str {
    match (row.restorable, row.quality) {
        (true, _) => "yes",
        (false, Quality::Incomplete) => "no:\nincomplete",
        (false, Quality::Suspect) => "no: suspect",
        (false, Quality::Good) if row.keys.iter().any(|key| !key.escrowed) => "no:\nkey missing",
        (false, Quality::Good) => "no: failed",
    }
}

fn needs(key: &KeyNeeded) -> String {
    let known = key.fingerprint.as_deref().map_or_else(|| "not known".to_owned(), short);
    let missing = if key.escrowed { "" } else { "\nNOT IN ESCROW" };
    format!("{} {known}{missing}", printable(&key.name))
}

fn proven(row: &SnapshotRow, now: Timestamp) -> String {
    let proof = row.proven.as_ref().map(|proof| format!("{} {}", proof.rung, about(&proof.at, now)));
    let failed = row.last_judged.as_ref().filter(|attempt| attempt.outcome == Outcome::Failed);
    let unjudged = row.last_attempt.as_ref().filter(|attempt| !attempt.outcome.is_judgement());
    let attempts = failed.into_iter().chain(unjudged).map(|attempt| {
        let outcome = match attempt.outcome {
            Outcome::Passed => "passed",
            Outcome::Failed => "FAILED",
            Outcome::CouldNotRun => "could not run",
            Outcome::Interrupted => "interrupted",
            Outcome::NotJudged => "not judged",
        };
        // The column is too narrow for the longer words and an age on one line.
        let gap = if attempt.outcome.is_judgement() { ' ' } else { '\n' };
        format!("{outcome}{gap}{}", about(&attempt.at, now))
    });
    let lines: Vec<String> = proof.into_iter().chain(attempts).collect();
    if lines.is_empty() { "never".into() } else { lines.join("\n") }
}

/// Which keys there are, and what still hangs on each.
fn keys(rows: &[KeyRow], now: Timestamp) -> Table {
    let mut keys = table(&["KEY", "FINGERPRINT", "ESCROW", "HOSTS", "STILL NEEDED BY"]);
    for row in rows {
        let names: Vec<_> = row.names.iter().map(|name| printable(name)).collect();
        let escrow = match (&row.missing_since, &row.last_opened, &row.last_deposit) {
            (Some(since), ..) => format!("MISSING since {}", about(since, now)),
            (None, Some(at), _) => format!("opened {}", about(at, now)),
            (None, None, Some(_)) => "deposited".into(),
            (None, None, None) => "MISSING".into(),
        };
        keys.add_row([
            format!("{} {}", row.provider, names.join(", ")),
            row.fingerprint.as_deref().map_or_else(|| "not known".into(), short),
            escrow,
            if row.configured_on.is_empty() {
                "-".into()
            } else {
                row.configured_on.iter().cloned().collect::<Vec<_>>().join(", ")
            },
            hangs(row),
        ]);
    }
    keys
}

fn hangs(row: &KeyRow) -> String {
    let snapshots = count(row.needed_by.len() as u64, "snapshot");
    match row.needed_by.first() {
        None => "nothing".into(),
        Some(newest) => format!("{snapshots}\n{} in newest", count(newest.live_objects, "object")),
    }
}

/// A flood of findings is one finding; all are in JSON.
fn findings(findings: &[Finding], out: &mut dyn Write) -> io::Result<()> {
    const SHOWN: usize = 10;
    if findings.is_empty() {
        return Ok(());
    }
    let records = disbelieved(findings).map_or_else(String::new, |records| format!("; {records}"));
    writeln!(out, "{} in the ledger{records}:", count(findings.len() as u64, "finding"))?;
    findings.iter().take(SHOWN).try_for_each(|finding| print_finding(finding, out))?;
    if findings.len() > SHOWN {
        writeln!(out, "  and {} more; --json shows all", findings.len() - SHOWN)?;
    }
    writeln!(out)
}

/// The object on a line of its own, then what is wrong with it.
///
/// # Errors
/// Those of `out`.
pub fn print_finding(finding: &Finding, out: &mut dyn Write) -> io::Result<()> {
    let Finding { object, code, message } = finding;
    write!(out, "{}{}", parts_behind("  ", 2, &[object]), behind("    ", 4, &format!("{message} [{code}]")))
}

fn headline(proof: Option<&Proven>, snapshots: &[SnapshotRow], now: Timestamp) -> String {
    match proof {
        Some(proof) => {
            let doubt = doubt(proof, snapshots).map_or_else(String::new, |doubt| format!("; {doubt}"));
            format!("last proven restore: {} ({} to {}){doubt}", ago(&proof.at, now), proof.snapshot, proof.rung)
        }
        None if snapshots.is_empty() => "last proven restore: never".into(),
        None => "last proven restore: never; prove one with holdfast rehearse".into(),
    }
}

/// What has been found since of the snapshot that the headline names.
fn doubt(proof: &Proven, snapshots: &[SnapshotRow]) -> Option<&'static str> {
    let row = snapshots.iter().find(|row| row.id == proof.snapshot)?;
    match row.last_judged.as_ref().map(|attempt| attempt.outcome) {
        Some(Outcome::Failed) => Some("its newest rehearsal FAILED"),
        _ if !row.restorable => Some("it is not restorable now"),
        _ => None,
    }
}
