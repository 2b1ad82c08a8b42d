//! The JSON face: the model itself, keys sorted.

use serde_json::Value;

use super::model::Report;
use crate::base::codes;
use crate::base::failure::Failure;

/// The report as it is stored in the ledger.
pub fn value(report: &Report) -> Result<Value, Failure> {
    serde_json::to_value(report)
        .map_err(|error| Failure::because(&codes::RECORD_INVALID, format_args!("report {}", report.identity.run), &error))
}

/// The report for a reader: indented, keys sorted, one final newline.
pub fn render(report: &Report) -> Result<String, Failure> {
    Ok(format!("{:#}\n", value(report)?))
}

/// A report that was stored.
pub fn read(value: &Value) -> Result<Report, Failure> {
    serde::Deserialize::deserialize(value)
        .map_err(|error: serde_json::Error| Failure::because(&codes::RECORD_INVALID, "a stored report", &error))
}
