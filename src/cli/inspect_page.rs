//! The page that `inspect` prints for people: whole or not, what it needs,
//! what is wrong, worst first. Plain text, eighty columns.

use std::io::{self, Write};

use super::layout::{self, padded, parts_behind, shortened};
use super::render::printable;
use crate::base::units::{count, human_bytes};
use crate::k8s::encryption_config::NamedConfig;
use crate::record::manifest::{Proof, ResourceCount, Severity};
use crate::scan::Mapped;
use crate::scan::inspection::{EtcdFacts, Inspection, KeyEntry, Trailer, Verdict};

/// Rows of a list before the rest is only counted.
const MOST_ROWS: usize = 20;
/// Where the text begins behind a label.
const LABEL: usize = 12;
/// Columns for the name of a key, and for that of a kind of object.
const NAME: usize = 20;
const KIND: usize = 42;

/// Etcd keys of the first objects that no given configuration reads. Only asked
/// for when there are some, since it reads the snapshot a second time.
#[must_use]
pub fn first_unreadable(mapped: &Mapped, configs: &[NamedConfig], inspection: &Inspection) -> Vec<String> {
    const NAMED: usize = 3;
    let has_some = inspection.problems.iter().any(|problem| matches!(problem.code.as_str(), "undecryptable" | "unknown-body"));
    if !has_some || configs.is_empty() {
        return Vec::new();
    }
    let Ok(contents) = mapped.contents() else { return Vec::new() };
    let mut failures = contents.read_objects(configs, &mut |_| ()).failures;
    // Those that lack a key first: a key can be found, a foreign value cannot be mended.
    failures.sort_by_key(|failure| failure.provider.is_empty());
    failures.into_iter().take(NAMED).map(|failure| format!("{}: {}", failure.etcd_key, failure.reason)).collect()
}

/// Prints the page.
///
/// # Errors
/// Those of `out`.
pub fn print(out: &mut dyn Write, path: &str, inspection: &Inspection, configs: usize, unreadable: &[String]) -> io::Result<()> {
    let head = padded("file", LABEL);
    write!(out, "{}", parts_behind(&head, LABEL, &[path, &format!("({})", human_bytes(inspection.file.bytes))]))?;
    labelled(out, "whole", &whole(inspection))?;
    labelled(out, "verdict", &verdict(inspection, configs))?;
    if let Some(etcd) = &inspection.etcd {
        print_etcd(out, etcd)?;
    }
    print_problems(out, inspection, unreadable)?;
    print_keys(out, &inspection.keys)?;
    print_resources(out, inspection)
}

fn whole(inspection: &Inspection) -> String {
    let structure = if inspection.etcd.is_some() { "structure sound" } else { "STRUCTURE BROKEN" };
    let (word, digest) = match inspection.file.trailer {
        Trailer::Ok if inspection.etcd.is_some() => ("yes", "digest right"),
        Trailer::Ok => ("NO", "digest right"),
        Trailer::Missing if inspection.etcd.is_some() => ("NOT PROVEN", "no digest"),
        Trailer::Missing => ("NO", "no digest"),
        Trailer::Mismatch => ("NO", "DIGEST WRONG"),
    };
    format!("{word}: {digest}, {structure}")
}

fn verdict(inspection: &Inspection, configs: usize) -> String {
    let files = if configs == 1 { "the configuration given" } else { "one of the configurations given" };
    match (inspection.verdict, configs) {
        (Verdict::Restorable, 0) => "restorable: nothing in it is encrypted".to_owned(),
        (Verdict::Restorable, _) => format!("restorable: with {files} an API server reads every object"),
        (Verdict::Unknown, 0) => "unknown: it holds encrypted objects; give --encryption-config to try keys".to_owned(),
        (Verdict::Unknown, _) => format!("unknown: with {files} all depends on a KMS, which was not asked"),
        (Verdict::Unrestorable, _) if inspection.etcd.is_none() => "UNRESTORABLE: it cannot be read".to_owned(),
        (Verdict::Unrestorable, 0) => "UNRESTORABLE: no API server reads every object".to_owned(),
        (Verdict::Unrestorable, 1) => "UNRESTORABLE: an API server with this file cannot read it all".to_owned(),
        (Verdict::Unrestorable, _) if inspection.union_opens => {
            "UNRESTORABLE with any single configuration given; all of them together would do".to_owned()
        }
        (Verdict::Unrestorable, _) => "UNRESTORABLE: not even all configurations together read every object".to_owned(),
    }
}

fn print_etcd(out: &mut dyn Write, etcd: &EtcdFacts) -> io::Result<()> {
    let version = etcd.storage_version.as_deref().map_or("before 3.6".to_owned(), printable);
    let compacted = match etcd.compact_revision {
        -1 => "never compacted".to_owned(),
        revision => format!("compacted at {revision}"),
    };
    labelled(out, "etcd", &format!("storage version {version}, revision {}, {compacted}", etcd.revision))?;
    let free = human_bytes(etcd.free_bytes);
    let history = count(etcd.history_records, "older record");
    labelled(
        out,
        "",
        &format!("{}, {history}, {free} of {} free", count(etcd.live_keys, "live key"), human_bytes(etcd.db_bytes)),
    )?;
    labelled(out, "", &format!("hash {}, HashKV {} at revision {}", etcd.status_hash, etcd.hash_kv, etcd.revision))?;
    let member = |member: &crate::scan::inspection::MemberFacts| {
        let name = if member.name.is_empty() { "(unstarted)".to_owned() } else { printable(&member.name) };
        let learner = if member.learner { " learner" } else { "" };
        format!("{name} {}{learner}", member.id)
    };
    let members: Vec<String> = etcd.members.iter().take(MOST_ROWS).map(member).collect();
    if !members.is_empty() {
        labelled(out, "members", &members.join(", "))?;
    }
    for alarm in etcd.alarms.iter().take(MOST_ROWS) {
        labelled(out, "alarm", &format!("{} on member {}", alarm.kind, alarm.member))?;
    }
    Ok(())
}

fn print_problems(out: &mut dyn Write, inspection: &Inspection, unreadable: &[String]) -> io::Result<()> {
    if inspection.problems.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nproblems")?;
    for problem in &inspection.problems {
        let severity = match problem.severity {
            Severity::Error => "ERROR",
            Severity::Warning => "warning",
            Severity::Info => "info",
        };
        labelled(out, &format!("  {severity}"), &format!("{}: {}", problem.code, problem.message))?;
    }
    for object in unreadable {
        labelled(out, "  such as", object)?;
    }
    Ok(())
}

fn print_keys(out: &mut dyn Write, keys: &[KeyEntry]) -> io::Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nkeys it needs")?;
    writeln!(out, "  {:<9} {:<NAME$} {:>8}  proof", "provider", "name", "objects")?;
    let (needed, history): (Vec<_>, Vec<_>) = keys.iter().partition(|key| key.live_objects > 0);
    for key in needed.iter().take(MOST_ROWS) {
        let head = format!("  {:<9} ", key.provider);
        row(out, &head, &key.name, NAME, &format!("{:>8}  {}", key.live_objects, proof(key)))?;
        if let Some(fingerprint) = &key.fingerprint {
            write!(out, "{}", parts_behind(&padded("", LABEL), LABEL, &[fingerprint]))?;
        }
    }
    more(out, needed.len())?;
    if !history.is_empty() {
        let records: u64 = history.iter().map(|key| key.history_objects).sum();
        let keys = count(history.len() as u64, "more key");
        writeln!(out, "  {keys} only in older records ({records}): not needed")?;
    }
    Ok(())
}

fn proof(key: &KeyEntry) -> &'static str {
    match key.proof {
        Proof::Opened => "opened all of them",
        Proof::Failed => "FAILED with the key of this name",
        Proof::NoKey => "no key of this name given",
        Proof::NotTried => "not tried: needs its KMS",
    }
}

/// Kinds that are encrypted, or should be, or that cannot be read; the rest as one line.
fn print_resources(out: &mut dyn Write, inspection: &Inspection) -> io::Result<()> {
    let is_telling = |row: &&ResourceCount| {
        row.encrypted > 0 || row.plaintext < row.live || (row.group.is_empty() && row.resource == "secrets")
    };
    let (telling, rest): (Vec<_>, Vec<_>) = inspection.resources.iter().partition(is_telling);
    if inspection.resources.is_empty() && inspection.other.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{:<44} {:>7} {:>9} {:>8} {:>7}", "resources", "live", "encrypted", "in clear", "neither")?;
    for kind in telling.iter().take(MOST_ROWS) {
        let name = if kind.group.is_empty() { kind.resource.clone() } else { format!("{}.{}", kind.resource, kind.group) };
        let neither = kind.live - kind.encrypted - kind.plaintext;
        let counts = format!("{:>7} {:>9} {:>8} {neither:>7}", kind.live, kind.encrypted, kind.plaintext);
        row(out, "  ", &name, KIND, &counts)?;
    }
    more(out, telling.len())?;
    if !rest.is_empty() {
        let live: u64 = rest.iter().map(|row| row.live).sum();
        let kinds = count(rest.len() as u64, "other kind");
        writeln!(out, "  {kinds:<KIND$} {live:>7} {:>9} {live:>8} {:>7}", 0, 0)?;
    }
    for other in inspection.other.iter().take(MOST_ROWS) {
        row(out, "  ", &other.prefix, KIND, &format!("{:>7}", other.live))?;
    }
    more(out, inspection.other.len())
}

fn more(out: &mut dyn Write, rows: usize) -> io::Result<()> {
    if rows > MOST_ROWS { writeln!(out, "  and {} more", rows - MOST_ROWS) } else { Ok(()) }
}

/// A row that begins with a name. One that is too wide for its column is
/// shortened, and follows whole.
fn row(out: &mut dyn Write, head: &str, name: &str, column: usize, rest: &str) -> io::Result<()> {
    let short = shortened(name, column);
    writeln!(out, "{head}{} {rest}", padded(&short, column))?;
    if short == printable(name) { Ok(()) } else { write!(out, "{}", parts_behind("    ", 4, &[name])) }
}

/// A label and a text that is wrapped behind it.
fn labelled(out: &mut dyn Write, label: &str, text: &str) -> io::Result<()> {
    write!(out, "{}", layout::labelled(label, LABEL, text))
}
