//! The page of a report for a terminal: what the Markdown face says, in eighty
//! columns. Digests and paths that are too wide for a table follow it in full.

use super::layout::{behind, labelled};
use super::table::{align_right, lines, table};
use crate::report::document::{Cell, Document, Section, Text};
use crate::report::model::Report;

/// Where the value of a pair stands.
const VALUE: usize = 25;

#[must_use]
pub fn render(report: &Report) -> String {
    let document = Document::of(report);
    let mut page = behind("", 0, &line(&document.title)) + &behind("", 0, &line(&document.subtitle));
    page += "\n";
    page += &behind(&format!("{}: ", document.word.as_str().to_uppercase()), 2, &line(&document.sentence));
    page += "\n";
    for card in &document.cards {
        let text = format!("{} ({})", line(&card.value), line(&card.note));
        page += &labelled(&line(&card.label), VALUE, &text);
    }
    for section in &document.sections {
        page += &rendered(section);
    }
    page + "\n" + &behind("", 0, &line(&document.foot))
}

fn rendered(section: &Section) -> String {
    let mut text = format!("\n{}\n", section.title.as_str().to_uppercase());
    if !section.text.is_empty() {
        text += &behind("", 0, &line(&section.text));
    }
    if section.rows.is_empty() {
        return text;
    }
    let titles: Vec<_> = section.columns.iter().map(|column| column.title.as_str()).collect();
    if titles.iter().all(|title| title.is_empty()) {
        for row in &section.rows {
            let mut label = row.cells.first().map_or_else(String::new, |name| line(&name.text));
            for part in row.cells.get(1).into_iter().flat_map(parts) {
                text += &labelled(&label, VALUE, &part);
                label.clear();
            }
        }
        return text;
    }
    let mut rows = table(&titles);
    let numeric: Vec<_> = (0..section.columns.len()).filter(|index| section.columns[*index].numeric).collect();
    align_right(&mut rows, &numeric);
    for row in &section.rows {
        rows.add_row(row.cells.iter().map(|cell| parts(cell).collect::<Vec<_>>().join("\n")));
    }
    text + &lines(&rows)
}

/// The text and the note below it, as far as there are any.
fn parts(cell: &Cell) -> impl Iterator<Item = String> {
    [line(&cell.text), line(&cell.note)].into_iter().filter(|part| !part.is_empty())
}

fn line(text: &Text) -> String {
    text.as_str().replace('\n', " ")
}
