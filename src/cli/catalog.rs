//! `holdfast catalog rebuild`: the local catalog, made anew from the ledger.

use std::io::{self, Write};

use serde_json::json;

use super::layout::{behind, parts_behind};
use super::list::print_finding;
use super::render;
use crate::base::exit::Exit;
use crate::base::failure::Failure;
use crate::base::units::count;
use crate::catalog::Rebuilt;
use crate::ledger::{Document, Finding, History};

/// Prints what a rebuild read, and what it could not bring back. Records that
/// are not believed make the answer bad.
pub fn print_rebuilt(rebuilt: &Rebuilt, history: &History, json: bool, out: &mut dyn Write) -> Result<Exit, Failure> {
    let findings = rebuilt.catalog.findings()?;
    let printed = if json { as_json(rebuilt, history, &findings, out) } else { as_text(rebuilt, history, &findings, out) };
    printed.map_err(render::unprinted)?;
    Ok(if findings.is_empty() { Exit::Good } else { Exit::Bad })
}

fn as_json(rebuilt: &Rebuilt, history: &History, findings: &[Finding], out: &mut dyn Write) -> io::Result<()> {
    let document = json!({
        "records": history.entries.len(),
        "records_not_understood": foreign(history),
        "findings": findings,
        "journals_lost": rebuilt.journals_lost,
        "set_aside": rebuilt.set_aside.as_ref().map(|path| path.display().to_string()),
    });
    writeln!(out, "{document}")
}

fn foreign(history: &History) -> u64 {
    history.entries.iter().filter(|entry| matches!(entry.document, Document::Foreign(_))).count() as u64
}

fn as_text(rebuilt: &Rebuilt, history: &History, findings: &[Finding], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "catalog rebuilt from {} of the ledger", count(history.entries.len() as u64, "record"))?;
    if foreign(history) > 0 {
        let text =
            format!("{} written by a newer holdfast: signed and in its place, and not read", count(foreign(history), "record"));
        write!(out, "{}", behind("", 2, &text))?;
    }
    if let Some(path) = &rebuilt.set_aside {
        let path = path.display().to_string();
        write!(out, "the old file could not be used; it was moved to\n{}", parts_behind("  ", 2, &[&path]))?;
    }
    if rebuilt.journals_lost {
        writeln!(out, "journals of runs are local: those of unfinished runs, if any, are lost")?;
    }
    if !findings.is_empty() {
        writeln!(out, "{} in the ledger:", count(findings.len() as u64, "finding"))?;
    }
    findings.iter().try_for_each(|finding| print_finding(finding, out))
}
