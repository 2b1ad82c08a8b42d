//! A report as a document: headings, tables and cards, in words. Markdown and
//! HTML render this and nothing else.

use serde::Serialize;

use super::model::Report;
use super::sections;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Document {
    pub title: Text,
    pub subtitle: Text,
    pub tone: Tone,
    /// `passed`, `failed`, …: what a glance must show.
    pub word: Text,
    pub sentence: Text,
    pub cards: Vec<Card>,
    pub bars: Vec<Bar>,
    pub sections: Vec<Section>,
    pub foot: Text,
}

/// Text from anywhere, made safe to look at: what a reader could not see, or
/// what would reorder the text around it, becomes a replacement character.
/// Escaping for a format is left to its renderer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Text(String);

/// How a thing looks; never the only way it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tone {
    Plain,
    Good,
    Bad,
    Doubt,
    Muted,
    /// In a timeline: a person is waited for.
    Waiting,
    /// In a timeline: hands are busy.
    Hands,
}

/// A number that matters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Card {
    pub label: Text,
    pub value: Text,
    pub note: Text,
    pub tone: Tone,
}

/// A row of the timeline: a phase, a step with all its attempts, or a person's
/// step with its waiting and hands-on time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bar {
    pub label: Text,
    pub is_phase: bool,
    pub spans: Vec<Span>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Span {
    pub start_ms: u64,
    /// Null when nobody knows when it ended.
    pub duration_ms: Option<u64>,
    pub tone: Tone,
    /// What stands beside it; empty where the next span follows at once.
    pub value: Text,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Section {
    pub title: Text,
    /// A sentence or two before the table; may be empty.
    pub text: Text,
    pub columns: Vec<Column>,
    pub rows: Vec<Row>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Column {
    /// Empty in a table of names and values.
    pub title: Text,
    pub numeric: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    pub tone: Tone,
    pub cells: Vec<Cell>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cell {
    pub text: Text,
    /// A name or digest that is copied rather than read.
    pub code: bool,
    /// Said in smaller letters below.
    pub note: Text,
}

impl Document {
    #[must_use]
    pub fn of(report: &Report) -> Self {
        sections::document(report)
    }
}

impl Text {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: std::fmt::Display> From<T> for Text {
    fn from(text: T) -> Self {
        let text = text.to_string();
        Self(text.chars().map(|c| if is_hidden(c) { char::REPLACEMENT_CHARACTER } else { c }).collect())
    }
}

/// Control characters, and those that turn the direction of text.
fn is_hidden(c: char) -> bool {
    (c.is_control() && c != '\n')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}')
}

impl Cell {
    pub fn plain(text: impl Into<Text>) -> Self {
        Self { text: text.into(), code: false, note: Text::from("") }
    }

    pub fn code(text: impl Into<Text>) -> Self {
        Self { code: true, ..Self::plain(text) }
    }

    #[must_use]
    pub fn note(mut self, note: impl Into<Text>) -> Self {
        self.note = note.into();
        self
    }
}

impl Span {
    /// A span with its duration beside it.
    #[must_use]
    pub fn new(start_ms: u64, duration_ms: Option<u64>, tone: Tone) -> Self {
        let value = duration_ms.map_or_else(|| "unknown".to_owned(), super::timing::human);
        Self { start_ms, duration_ms, tone, value: value.into() }
    }
}

impl Section {
    pub fn new(title: &str, text: impl Into<Text>) -> Self {
        Self { title: title.into(), text: text.into(), columns: Vec::new(), rows: Vec::new() }
    }

    /// Columns by title; one that ends in `#` holds numbers.
    #[must_use]
    pub fn columns(mut self, titles: &[&str]) -> Self {
        let column = |title: &&str| Column { title: title.trim_end_matches('#').into(), numeric: title.ends_with('#') };
        self.columns = titles.iter().map(column).collect();
        self
    }

    /// Names and values, without a heading line.
    #[must_use]
    pub fn pairs(self) -> Self {
        self.columns(&["", ""])
    }

    pub fn row(&mut self, tone: Tone, cells: impl Into<Vec<Cell>>) {
        self.rows.push(Row { tone, cells: cells.into() });
    }

    pub fn pair(&mut self, name: &str, cell: Cell) {
        self.row(Tone::Plain, [Cell::plain(name), cell]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_would_hide_or_reorder_is_shown_as_replaced() {
        assert_eq!(Text::from("a\u{202e}b\u{0}c\td\ne").as_str(), "a\u{fffd}b\u{fffd}c\u{fffd}d\ne");
        assert_eq!(Text::from("plain é 漢").as_str(), "plain é 漢");
    }
}
