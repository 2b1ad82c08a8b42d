//! Tables for people: 80 columns, no borders, nothing that steers a terminal,
//! no word broken in two.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Width};
use jiff::Timestamp;

use super::columns::{Arranged, GAP, arrange};
use super::layout::{WIDTH, middle_out, parts_behind, width};
use super::render::{printable, printable_lines};
use crate::base::units::human_duration;

/// Rows below a header. A cell may have several lines.
#[derive(Debug, Clone)]
pub struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Columns whose words are never shortened.
    whole: Vec<usize>,
    right: Vec<usize>,
}

impl Table {
    /// Adds a row with a cell for each column.
    pub fn add_row<C: Into<String>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let mut row: Vec<String> = cells.into_iter().map(|cell| printable_lines(&cell.into())).collect();
        row.resize(self.header.len(), String::new());
        self.rows.push(row);
    }
}

/// A table with a header. Cells wrap where a row would be too wide.
#[must_use]
pub fn table(header: &[&str]) -> Table {
    let header = header.iter().map(|title| (*title).to_owned()).collect();
    Table { header, rows: Vec::new(), whole: Vec::new(), right: Vec::new() }
}

/// Neither wraps nor shortens a column. For texts of a known length only.
pub fn keep_whole(table: &mut Table, column: usize) {
    table.whole.push(column);
}

/// Numbers stand right.
pub fn align_right(table: &mut Table, columns: &[usize]) {
    table.right.extend(columns);
}

/// The lines of a table without spaces at their ends. Words that leave no room
/// for the others are shortened in it, and follow below it in full.
#[must_use]
pub fn lines(table: &Table) -> String {
    let rows: Vec<&[String]> = std::iter::once(&table.header).chain(&table.rows).map(Vec::as_slice).collect();
    let Arranged { widths, words } = arrange(&rows, &table.whole);
    let mut page = comfy_table::Table::new();
    page.load_style(NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    page.set_width(u16::try_from(WIDTH).unwrap_or(u16::MAX));
    page.set_header(&table.header);
    let mut in_full: Vec<&str> = Vec::new();
    for row in &table.rows {
        let cells = row.iter().zip(&words);
        page.add_row(cells.map(|(cell, longest)| abridged(cell, *longest, &mut in_full)));
    }
    for (index, column) in page.column_iter_mut().enumerate() {
        // No space is needed after the last one.
        let gap = if index + 1 == table.header.len() { 0 } else { GAP };
        let columns = u16::try_from(widths[index] + gap).unwrap_or(u16::MAX);
        column.set_padding((0, u16::try_from(gap).unwrap_or_default()));
        column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(columns)));
        if table.right.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text: String = page.lines().map(|line| line.trim_end().to_owned() + "\n").collect();
    if !in_full.is_empty() {
        text.push_str("in full:\n");
        text.extend(in_full.iter().map(|word| parts_behind("  ", 2, &[*word])));
    }
    text
}

/// The cell with its words shortened to `longest`; those go to `in_full`.
fn abridged<'c>(cell: &'c str, longest: usize, in_full: &mut Vec<&'c str>) -> String {
    let mut word = |word: &'c str| {
        if width(word) > longest && !in_full.contains(&word) {
            in_full.push(word);
        }
        middle_out(word, longest)
    };
    let mut line = |line: &'c str| line.split(' ').map(&mut word).collect::<Vec<_>>().join(" ");
    cell.split('\n').map(&mut line).collect::<Vec<_>>().join("\n")
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

    fn fits(text: &str) {
        for line in text.lines() {
            assert!(width(line) <= WIDTH && line.trim_end() == line, "{} columns: {line:?}", width(line));
        }
    }

    #[test]
    fn a_table_that_fits_is_as_wide_as_its_cells() {
        let mut rows = table(&["NAME", "N", "WHAT"]);
        align_right(&mut rows, &[1]);
        rows.add_row(["one", "1", "first\nline"]);
        rows.add_row(["日本", "100", "second"]);
        assert_eq!(lines(&rows), "NAME    N  WHAT\none     1  first\n           line\n日本  100  second\n");
    }

    #[test]
    fn cells_wrap_between_words() {
        let mut rows = table(&["ID", "WHAT", "N"]);
        keep_whole(&mut rows, 0);
        rows.add_row(["20010101T140000Z-b260b8a1", &"word ".repeat(30), "7"]);
        let text = lines(&rows);
        fits(&text);
        assert!(text.contains("20010101T140000Z-b260b8a1  word word") && !text.contains("in full"), "{text}");
        assert_eq!(text.matches("word").count(), 30, "{text}");
    }

    #[test]
    fn words_that_leave_no_room_are_shortened_and_follow_in_full() {
        let (long, other) = ("k".repeat(60), "日".repeat(40));
        let mut rows = table(&["A", "B", "C"]);
        rows.add_row([format!("key {long}"), other.clone(), "short".into()]);
        rows.add_row([long.clone(), "x".into(), "short".into()]);
        let text = lines(&rows);
        let (above, below) = text.split_once("in full:\n").unwrap();
        fits(above);
        assert!(above.contains("kk…kk") && above.contains("日…日") && above.contains("short"), "{text}");
        assert_eq!(below, format!("  {long}\n  {other}\n"));
    }

    #[test]
    fn no_table_is_too_crowded() {
        let mut rows = table(&["ONE", "TWO", "THREE", "FOUR", "FIVE", "SIX", "SEVEN", "EIGHT"]);
        for _ in 0..3 {
            rows.add_row((1..9).map(|n| "w".repeat(n * 20)));
        }
        fits(lines(&rows).split_once("in full").unwrap().0);
    }

    #[test]
    fn no_cell_steers_a_terminal() {
        let mut rows = table(&["NAME"]);
        rows.add_row(["a\u{1b}[2J\tb"]);
        assert_eq!(lines(&rows), "NAME\na\u{fffd}[2J\u{fffd}b\n");
        assert_eq!(printable("a\u{1b}[2J\nb"), "a\u{fffd}[2J\u{fffd}b");
        assert_eq!(short("hf1-00112233445566778899aabbccddeeff"), "00112233");
        assert_eq!(short("kms:vault:1"), "kms:vault:1");
    }
}
