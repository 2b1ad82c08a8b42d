//! Tables for people: 80 columns, no borders, nothing that steers a terminal.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table};
use jiff::Timestamp;

use super::render::printable;
use crate::base::units::human_duration;

/// What a mail, a change record and a narrow terminal show without wrapping.
const WIDTH: u16 = 80;

/// A table with a header. Cells wrap where a row would be too wide.
#[must_use]
pub fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH);
    table.set_header(header.to_vec());
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    // No space is needed after the last one.
    if let Some(last) = table.column_mut(header.len().saturating_sub(1)) {
        last.set_padding((0, 0));
    }
    table
}

/// What a person copies does not wrap. For texts of a known length only.
pub fn keep_whole(table: &mut Table, column: usize) {
    if let Some(column) = table.column_mut(column) {
        column.set_constraint(ColumnConstraint::ContentWidth);
    }
}

/// Numbers stand right.
pub fn align_right(table: &mut Table, columns: &[usize]) {
    for column in columns {
        if let Some(column) = table.column_mut(*column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// The lines of a table without spaces at their ends.
#[must_use]
pub fn lines(table: &Table) -> String {
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// How long ago in one unit, for a narrow column: `3 h ago`.
#[must_use]
pub fn about(at: &str, now: Timestamp) -> String {
    let seconds = at.parse::<Timestamp>().ok().and_then(|at| u64::try_from(now.duration_since(at).as_secs()).ok());
    match seconds {
        None | Some(0..60) => ago(at, now),
        Some(seconds @ 60..3600) => format!("{} min ago", seconds / 60),
        Some(seconds @ 3600..172_800) => format!("{} h ago", seconds / 3600),
        Some(seconds) => format!("{} d ago", seconds / 86_400),
    }
}

/// How long ago: `3 h 5 min ago`. Text that is no time is shown as it is.
#[must_use]
pub fn ago(at: &str, now: Timestamp) -> String {
    let Ok(at) = at.parse::<Timestamp>() else { return printable(at) };
    match u64::try_from(now.duration_since(at).as_secs()) {
        // Records have whole seconds: nothing finer is known.
        Ok(0) => "just now".to_owned(),
        Ok(seconds @ 1..60) => format!("{seconds} s ago"),
        Ok(seconds) => format!("{} ago", human_duration(std::time::Duration::from_secs(seconds))),
        // Clocks of two hosts differ by a little; by more is worth seeing.
        Err(_) => format!("at {at}, in this host's future"),
    }
}

/// The digits of a fingerprint that people compare; `show` and JSON have all.
#[must_use]
pub fn short(fingerprint: &str) -> String {
    match fingerprint.strip_prefix("hf1-") {
        Some(digits) => printable(digits.get(..8).unwrap_or(digits)),
        None => printable(fingerprint),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_read_as_sentences() {
        let now = "2026-12-01T15:05:00Z".parse().unwrap();
        for (at, expected) in [
            ("2026-12-01T13:00:00Z", "2 h 5 min ago"),
            ("2026-12-01T15:04:51Z", "9 s ago"),
            ("2026-12-01T15:04:59.2Z", "just now"),
            ("2026-12-01T15:05:00Z", "just now"),
            ("2026-12-01T15:04:59Z", "1 s ago"),
            ("2026-11-28T15:05:00Z", "3 d 0 h ago"),
            ("2026-12-01T15:06:00Z", "at 2026-12-01T15:06:00Z, in this host's future"),
            ("some\ntime", "some\u{fffd}time"),
        ] {
            assert_eq!(ago(at, now), expected, "{at}");
        }
        assert_eq!(about("2026-12-01T15:05:00Z", now), "just now");
        assert_eq!(about("2026-12-01T15:04:52Z", now), "8 s ago");
        assert_eq!(about("2026-12-01T13:00:00Z", now), "2 h ago");
        assert_eq!(about("2026-11-20T13:00:00Z", now), "11 d ago");
        assert_eq!(about("2027-11-20T13:00:00Z", now), "at 2027-11-20T13:00:00Z, in this host's future");
    }

    #[test]
    fn no_cell_steers_a_terminal() {
        assert_eq!(printable("a\u{1b}[2J\nb"), "a\u{fffd}[2J\u{fffd}b");
        assert_eq!(short("hf1-00112233445566778899aabbccddeeff"), "00112233");
        assert_eq!(short("kms:vault:1"), "kms:vault:1");
    }
}
