//! The Markdown face, for a change record.

use std::fmt::Write as _;

use super::document::{Cell, Document, Section, Text};
use super::model::Report;

#[must_use]
pub fn render(report: &Report) -> String {
    let document = Document::of(report);
    let mut page = String::new();
    let _ = writeln!(page, "# {}\n\n{}\n", escape(&document.title), escape(&document.subtitle));
    let _ = writeln!(page, "**{}** {}\n", escape(&document.word).to_uppercase(), escape(&document.sentence));
    page.push_str("| | | |\n| --- | --- | --- |\n");
    for card in &document.cards {
        let _ = writeln!(page, "| {} | **{}** | {} |", escape(&card.label), escape(&card.value), escape(&card.note));
    }
    for section in &document.sections {
        print_section(&mut page, section);
    }
    let _ = writeln!(page, "\n---\n\n{}", escape(&document.foot));
    page
}

fn print_section(page: &mut String, section: &Section) {
    let _ = writeln!(page, "\n## {}\n", escape(&section.title));
    if !section.text.is_empty() {
        let _ = writeln!(page, "{}", escape(&section.text));
    }
    if section.rows.is_empty() {
        return;
    }
    if !section.text.is_empty() {
        page.push('\n');
    }
    let titles: Vec<_> = section.columns.iter().map(|column| escape(&column.title)).collect();
    let rules: Vec<_> = section.columns.iter().map(|column| if column.numeric { "---:" } else { "---" }).collect();
    let _ = writeln!(page, "| {} |\n| {} |", titles.join(" | "), rules.join(" | "));
    for row in &section.rows {
        let cells: Vec<_> = row.cells.iter().map(cell).collect();
        let _ = writeln!(page, "| {} |", cells.join(" | "));
    }
}

fn cell(cell: &Cell) -> String {
    let text = if cell.code { code(&cell.text) } else { escape(&cell.text) };
    match (text.is_empty(), cell.note.is_empty()) {
        (_, true) => text,
        (true, false) => escape(&cell.note),
        (false, false) => format!("{text}<br>{}", escape(&cell.note)),
    }
}

/// A code span whose fence is longer than any run of backticks in it.
fn code(text: &Text) -> String {
    let text = text.as_str().replace('\n', " ").replace('|', "\\|");
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let space = if text.contains('`') { " " } else { "" };
    if text.is_empty() { text } else { format!("{fence}{space}{text}{space}{fence}") }
}

/// Text that stays text: no markup, no new line, no second cell.
fn escape(text: &Text) -> String {
    let mut escaped = String::with_capacity(text.as_str().len());
    for c in text.as_str().chars() {
        match c {
            '\n' => escaped.push(' '),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' => {
                escaped.push('\\');
                escaped.push(c);
            }
            _ => escaped.push(c),
        }
    }
    escaped
}
