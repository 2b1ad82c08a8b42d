//! `holdfast doctor`: does this host do what it promises?

use std::io::{self, Write};
use std::path::Path;

use serde_json::json;

use super::layout::{behind, padded, parts_behind};
use super::render;
use crate::base::clock::rfc3339;
use crate::base::exit::Exit;
use crate::base::failure::Failure;
use crate::base::units::count;
use crate::doctor::{self, Finding, Host, Status};
use crate::sandbox::Places;
use crate::station::Station;

/// Where the text begins behind a status.
const COLUMN: usize = 11;

/// Examines the host and prints what was found.
///
/// # Errors
/// Those of printing: whatever is found is an answer.
pub async fn run(station: Station, file: &Path, json: bool, out: &mut dyn Write) -> Result<Exit, Failure> {
    let places = Places::usual(station.config.rehearsal.tools.as_deref(), |variable| std::env::var_os(variable));
    let host = Host::new(station, file.to_owned(), places);
    let findings = doctor::examine(&host, &doctor::checks(), doctor::DEADLINE).await;
    let exit = doctor::exit(&findings);
    print(&host, &findings, json, out).map_err(render::unprinted)?;
    Ok(exit)
}

fn print(host: &Host, findings: &[Finding], json: bool, out: &mut dyn Write) -> io::Result<()> {
    let config = &host.station.config;
    if json {
        let document = json!({
            "host": config.host.name.as_str(),
            "cluster": config.cluster.as_str(),
            "at": rfc3339(host.station.clock.now()),
            "exit": doctor::exit(findings) as u8,
            "findings": findings,
        });
        return writeln!(out, "{document}");
    }
    let mut area = None;
    for finding in findings {
        if area != Some(finding.area) {
            let gap = if area.is_some() { "\n" } else { "" };
            writeln!(out, "{gap}{}", finding.area.as_str().to_uppercase())?;
            area = Some(finding.area);
        }
        print_one(out, finding)?;
    }
    let totals = Status::ALL.iter().filter_map(|status| total(*status, findings)).collect::<Vec<_>>().join(", ");
    write!(out, "\n{}", behind("", 2, &format!("{} of cluster {}: {totals}", config.host.name, config.cluster)))
}

fn print_one(out: &mut dyn Write, finding: &Finding) -> io::Result<()> {
    let status = match finding.status {
        Status::NotApplicable => "-",
        status => status.as_str(),
    };
    let object = format!("{}:", finding.object);
    // A path stays whole, for it is there to be copied.
    let whole = object.starts_with('/');
    let mut parts: Vec<&str> = if whole { vec![&object] } else { object.split(' ').collect() };
    let text = finding.finding.replace('\n', "; ");
    parts.extend(text.split(' '));
    write!(out, "{}", parts_behind(&padded(&format!("  {status}"), COLUMN), COLUMN, &parts))?;
    if let Some(code) = finding.code {
        write!(out, "{}", labelled_line("code", code))?;
    }
    if let Some(next) = &finding.next {
        write!(out, "{}", labelled_line("next", next))?;
    }
    Ok(())
}

/// A line below a finding.
fn labelled_line(label: &str, text: &str) -> String {
    behind(&format!("{:COLUMN$}{label}: ", ""), COLUMN + 2, text)
}

/// How many findings there are of a status, if there are any.
fn total(status: Status, findings: &[Finding]) -> Option<String> {
    let found = findings.iter().filter(|finding| finding.status == status).count() as u64;
    (found > 0).then(|| match status {
        Status::Error => count(found, "error"),
        Status::Unknown => format!("{found} unknown"),
        Status::Warning => count(found, "warning"),
        Status::Note => count(found, "note"),
        Status::Ok => format!("{found} good"),
        Status::NotApplicable => format!("{found} not applicable"),
    })
}
