//! `holdfast report [RUN] --format md|html|json`: a stored report in one of its faces.

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::base::failure::Failure;
use crate::base::ids::RunId;
use crate::report::{html, json, markdown};

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The run to report on; the newest when absent
    pub run: Option<RunId>,
    /// How to render it
    #[arg(long, value_enum, default_value = "md")]
    pub format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Markdown, for a change record
    Md,
    /// One self-contained file for a browser or a printer
    Html,
    /// The model itself
    Json,
}

/// Renders `stored`, the `report` field of a report's record.
pub fn render(stored: &Value, format: Format) -> Result<String, Failure> {
    let report = json::read(stored)?;
    match format {
        Format::Md => Ok(markdown::render(&report)),
        Format::Html => html::render(&report),
        Format::Json => json::render(&report),
    }
}
