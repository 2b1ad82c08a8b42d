//! `holdfast report [RUN] --format text|md|html|json`: a stored report in one of its faces.

use std::io::{self, IsTerminal, Write};

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::{render, report_page};
use crate::base::codes;
use crate::base::exit::Exit;
use crate::base::failure::Failure;
use crate::catalog::Catalog;
use crate::report::{html, json, markdown};

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// A run's id, the start of one, or `latest`
    #[arg(default_value = "latest")]
    pub run: String,
    /// How to render it [default: text on a terminal, else md]
    #[arg(long, value_enum)]
    pub format: Option<Format>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For a terminal of eighty columns
    Text,
    /// Markdown, for a change record
    Md,
    /// One self-contained file for a browser or a printer
    Html,
    /// The model itself
    Json,
}

/// Prints the report of the run that a person means.
///
/// # Errors
/// `run.unknown` when the ledger has no such report, `run.ambiguous` when it has several.
pub fn run(catalog: &Catalog, arguments: &ReportArgs, json: bool, out: &mut dyn Write) -> Result<Exit, Failure> {
    let wanted = catalog.resolve_run(&arguments.run)?;
    let unknown = || Failure::new(&codes::RUN_UNKNOWN, &wanted, "the ledger has no report of this run");
    let record = catalog.report(&wanted)?.ok_or_else(unknown)?;
    let usual = if io::stdout().is_terminal() { Format::Text } else { Format::Md };
    let format = if json { Format::Json } else { arguments.format.unwrap_or(usual) };
    let text = render(&record.report, format)?;
    out.write_all(text.as_bytes()).map_err(render::unprinted)?;
    Ok(Exit::Good)
}

/// Renders `stored`, the `report` field of a report's record.
pub fn render(stored: &Value, format: Format) -> Result<String, Failure> {
    let report = json::read(stored)?;
    match format {
        Format::Text => Ok(report_page::render(&report)),
        Format::Md => Ok(markdown::render(&report)),
        Format::Html => html::render(&report),
        Format::Json => json::render(&report),
    }
}
