//! A TOML block read field by field, so that every mistake is found and has its line.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::mistakes::Mistakes;
use super::page::{Block, Lines};

/// The fields of one table. Each is taken once; what is left at the end is unknown.
pub struct Fields<'t, 'm> {
    entries: BTreeMap<String, (usize, DeValue<'t>)>,
    /// Where a missing field is reported.
    line: usize,
    /// How the table is called, with a dot, in messages.
    prefix: String,
    /// A broken line hides fields: what is not there may not be missing.
    broken: bool,
    mistakes: &'m mut Mistakes,
}

/// Reads the table of a block; syntax errors are mistakes, and the rest is read all the same.
pub fn read<T>(block: &Block, mistakes: &mut Mistakes, fields: impl FnOnce(&mut Fields<'_, '_>) -> T) -> T {
    let lines = Lines::of(&block.text);
    let (table, errors) = DeTable::parse_recoverable(&block.text);
    for error in &errors {
        let line = error.span().map_or(block.line, |span| block.line + lines.at(span.start));
        mistakes.add(line, error.message().to_owned());
    }
    let lines = Place { lines, line: block.line };
    let (entries, broken) = (lines.entries(table.into_inner()), !errors.is_empty());
    let mut reader = Fields { entries, line: block.line, prefix: String::new(), broken, mistakes };
    let value = fields(&mut reader);
    reader.finish();
    value
}

/// Where a block's text stands in the page.
struct Place {
    lines: Lines,
    line: usize,
}

impl Place {
    /// Entries with the lines of their values, tables inside already numbered.
    fn entries<'t>(&self, table: DeTable<'t>) -> BTreeMap<String, (usize, DeValue<'t>)> {
        table
            .into_iter()
            .map(|(key, value)| (key.get_ref().to_string(), (self.line + self.lines.at(key.span().start), self.renumber(value))))
            .collect()
    }

    fn renumber<'t>(&self, value: Spanned<DeValue<'t>>) -> DeValue<'t> {
        match value.into_inner() {
            // Spans inside a table become lines of the page, kept as the span of each key.
            DeValue::Table(table) => {
                let numbered = table.into_iter().map(|(key, value)| {
                    let line = self.line + self.lines.at(key.span().start);
                    let value_span = value.span();
                    (Spanned::new(line..line, key.into_inner()), Spanned::new(value_span, self.renumber(value)))
                });
                DeValue::Table(numbered.collect())
            }
            other => other,
        }
    }
}

impl Fields<'_, '_> {
    /// A text that must be there and say something.
    pub fn text(&mut self, key: &str) -> Option<String> {
        if !self.has(key) {
            self.missing(key);
        }
        self.optional_text(key)
    }

    pub fn optional_text(&mut self, key: &str) -> Option<String> {
        let (line, value) = self.entries.remove(key)?;
        match value {
            DeValue::String(text) if !text.trim().is_empty() => Some(text.trim().to_owned()),
            DeValue::String(_) => self.wrong(line, key, "must not be empty"),
            _ => self.wrong(line, key, "must be a text"),
        }
    }

    /// A name of lower-case letters, digits and hyphens.
    pub fn label(&mut self, key: &str) -> Option<String> {
        let line = self.line_of(key);
        let text = self.text(key)?;
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        if text.len() <= 63 && text.bytes().all(plain) && !text.starts_with('-') && !text.ends_with('-') {
            return Some(text);
        }
        self.wrong(line, key, "must be 1 to 63 lower-case letters, digits and hyphens")
    }

    /// One of a closed set of words.
    pub fn word<T: Copy>(&mut self, key: &str, words: &[(&str, T)]) -> Option<T> {
        let line = self.line_of(key);
        let text = self.optional_text(key)?;
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Some(*value);
        }
        let known: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        self.wrong(line, key, &format!("is {text:?}; it must be one of {}", known.join(", ")))
    }

    pub fn flag(&mut self, key: &str) -> bool {
        match self.entries.remove(key) {
            None => false,
            Some((_, DeValue::Boolean(value))) => value,
            Some((line, _)) => self.wrong(line, key, "must be true or false").unwrap_or(false),
        }
    }

    /// A time such as `90s`, `30m` or `1h 30m`, above zero and at most `most`.
    pub fn duration(&mut self, key: &str, most: Duration) -> Option<Duration> {
        let line = self.line_of(key);
        let text = self.optional_text(key)?;
        let parsed = text.parse::<SignedDuration>().ok().and_then(|duration| Duration::try_from(duration).ok());
        match parsed {
            Some(duration) if !duration.is_zero() && duration <= most => Some(duration),
            Some(_) => {
                self.wrong(line, key, &format!("is {text:?}; it must be above zero and at most {} hours", most.as_secs() / 3600))
            }
            None => self.wrong(line, key, &format!("is {text:?}; it must be a time such as 90s, 30m or 1h 30m")),
        }
    }

    /// The fields of a table inside this one; an absent table has none.
    pub fn table<T>(&mut self, key: &str, fields: impl FnOnce(&mut Fields<'_, '_>) -> T) -> T {
        let line = self.line_of(key);
        let entries = match self.entries.remove(key) {
            Some((_, DeValue::Table(table))) => table
                .into_iter()
                .map(|(key, value)| (key.get_ref().to_string(), (key.span().start, value.into_inner())))
                .collect(),
            Some((line, _)) => {
                self.wrong::<()>(line, key, "must be a table");
                BTreeMap::new()
            }
            None => BTreeMap::new(),
        };
        let prefix = format!("{}{key}.", self.prefix);
        let mut inner = Fields { entries, line, prefix, broken: self.broken, mistakes: self.mistakes };
        let value = fields(&mut inner);
        inner.finish();
        value
    }

    /// The line of a field, or of the block when it is not there.
    pub fn line_of(&self, key: &str) -> usize {
        self.entries.get(key).map_or(self.line, |(line, _)| *line)
    }

    pub fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    pub fn missing(&mut self, key: &str) {
        if !self.broken {
            self.mistakes.add(self.line, format!("`{}{key}` is missing", self.prefix));
        }
    }

    pub fn mistake(&mut self, line: usize, message: impl Into<String>) {
        self.mistakes.add(line, message);
    }

    fn wrong<T>(&mut self, line: usize, key: &str, why: &str) -> Option<T> {
        self.mistakes.add(line, format!("`{}{key}` {why}", self.prefix));
        None
    }

    fn finish(&mut self) {
        for (key, (line, _)) in std::mem::take(&mut self.entries) {
            self.mistakes.add(line, format!("`{}{key}` is not a field that holdfast knows", self.prefix));
        }
    }
}
