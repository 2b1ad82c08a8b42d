//! Walks the parsed file table by table: every key is asked for by name, and
//! what nobody asked for is a mistake.

use std::cell::RefCell;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::mistake::{Kind, Mistake};

/// What a walk gathers on its way.
#[derive(Debug, Default)]
pub(super) struct Walk {
    mistakes: RefCell<Vec<Mistake>>,
    /// Every full key that this version knows, whether the file has it or not.
    known: RefCell<Vec<String>>,
}

impl Walk {
    pub fn note(&self, mistake: Mistake) {
        self.mistakes.borrow_mut().push(mistake);
    }

    pub fn finish(self) -> (Vec<Mistake>, Vec<String>) {
        (self.mistakes.into_inner(), self.known.into_inner())
    }
}

/// One table of the file, or the place where it would be.
#[derive(Debug)]
pub(super) struct Section<'w, 'i> {
    walk: &'w Walk,
    /// Full name, empty for the file itself.
    path: String,
    place: Option<Range<usize>>,
    table: Option<&'w DeTable<'i>>,
    asked: Vec<&'static str>,
}

impl<'w, 'i> Section<'w, 'i> {
    pub fn file(walk: &'w Walk, table: &'w DeTable<'i>) -> Self {
        Self { walk, path: String::new(), place: None, table: Some(table), asked: Vec::new() }
    }

    /// Does the file have this table?
    pub fn is_present(&self) -> bool {
        self.table.is_some()
    }

    /// The table's full name: `snapshots.store`.
    pub fn name(&self) -> &str {
        &self.path
    }

    /// Does the file have this key, whatever its value?
    pub fn has(&self, key: &str) -> bool {
        self.table.is_some_and(|table| table.contains_key(key))
    }

    /// A table below this one.
    pub fn section(&mut self, key: &'static str) -> Section<'w, 'i> {
        let mut below = Section { walk: self.walk, path: self.full(key), place: None, table: None, asked: Vec::new() };
        if let Some((place, value)) = self.ask(key) {
            match value.get_ref() {
                DeValue::Table(table) => (below.place, below.table) = (Some(place), Some(table)),
                _ => self.wrong(key, value.span(), "must be a table"),
            }
        }
        below
    }

    /// A table that must be there if this one is.
    pub fn required_section(&mut self, key: &'static str) -> Section<'w, 'i> {
        if self.is_present() && !self.has(key) {
            self.missing(key, "");
        }
        self.section(key)
    }

    /// A value that may be absent.
    pub fn optional<T>(&mut self, key: &'static str, read: impl Fn(&DeValue<'_>) -> Result<T, String>) -> Option<Spanned<T>> {
        let (_, value) = self.ask(key)?;
        match read(value.get_ref()) {
            Ok(read) => Some(Spanned::new(value.span(), read)),
            Err(must) => {
                self.wrong(key, value.span(), &must);
                None
            }
        }
    }

    /// A value that must be there if the table is.
    pub fn required<T>(&mut self, key: &'static str, read: impl Fn(&DeValue<'_>) -> Result<T, String>) -> Option<Spanned<T>> {
        if self.is_present() && !self.has(key) {
            self.missing(key, "");
        }
        self.optional(key, read)
    }

    /// A value with a default.
    pub fn or<T>(&mut self, key: &'static str, default: T, read: impl Fn(&DeValue<'_>) -> Result<T, String>) -> T {
        self.optional(key, read).map_or(default, Spanned::into_inner)
    }

    /// A list whose items are read one by one; absent is empty.
    pub fn list<T>(&mut self, key: &'static str, read: impl Fn(&DeValue<'_>) -> Result<T, String>) -> Vec<Spanned<T>> {
        let Some((_, value)) = self.ask(key) else { return Vec::new() };
        let DeValue::Array(items) = value.get_ref() else {
            self.wrong(key, value.span(), "must be a list");
            return Vec::new();
        };
        let mut list = Vec::new();
        for item in items.iter() {
            match read(item.get_ref()) {
                Ok(read) => list.push(Spanned::new(item.span(), read)),
                Err(must) => self.wrong(key, item.span(), &must),
            }
        }
        list
    }

    /// A list that must be there, with at least one item, if the table is.
    pub fn required_list<T>(&mut self, key: &'static str, read: impl Fn(&DeValue<'_>) -> Result<T, String>) -> Vec<Spanned<T>> {
        if self.is_present() && !self.has(key) {
            self.missing(key, "");
        }
        if let Some(value) = self.table.and_then(|table| table.get(key))
            && matches!(value.get_ref(), DeValue::Array(items) if items.is_empty())
        {
            self.wrong(key, value.span(), "must have at least one item");
        }
        self.list(key, read)
    }

    /// Notes that `key` of this table must be there; `why` follows as it is.
    pub fn missing(&self, key: &str, why: &str) {
        self.walk.note(Mistake::new(Kind::Missing, self.place.clone(), format!("{} is missing{why}", self.full(key))));
    }

    /// Notes what is wrong with this table as a whole.
    pub fn wrong_itself(&self, must: &str) {
        self.walk.note(Mistake::new(Kind::Invalid, self.place.clone(), format!("{} {must}", self.path)));
    }

    /// Notes every key that nobody asked for.
    pub fn finish(self) {
        let Some(table) = self.table else { return };
        for key in table.keys().filter(|key| !self.asked.contains(&key.get_ref().as_ref())) {
            let place = if self.path.is_empty() { String::new() } else { format!(" in [{}]", self.path) };
            let hint = match nearest(key.get_ref(), &self.asked) {
                Some(name) => format!("did you mean {name}?"),
                None => format!("known here: {}", self.asked.join(", ")),
            };
            self.walk.note(Mistake::new(Kind::Invalid, Some(key.span()), format!("unknown key{place}; {hint}")));
        }
    }

    fn ask(&mut self, key: &'static str) -> Option<(Range<usize>, &'w Spanned<DeValue<'i>>)> {
        self.asked.push(key);
        self.walk.known.borrow_mut().push(self.full(key));
        let (name, value) = self.table?.get_key_value(key)?;
        Some((name.span(), value))
    }

    /// Notes that the value of `key` of this table, which is at `span`, cannot be; `must` follows its name.
    pub fn wrong(&self, key: &str, span: Range<usize>, must: &str) {
        self.walk.note(Mistake::new(Kind::Invalid, Some(span), format!("{} {must}", self.full(key))));
    }

    fn full(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }
}

/// The known name that a person who typed `typed` most likely meant.
fn nearest(typed: &str, known: &[&'static str]) -> Option<&'static str> {
    // Beyond this no name of ours is near, and the work stays small.
    const LONGEST: usize = 64;
    if typed.len() > LONGEST {
        return None;
    }
    let typed = typed.to_ascii_lowercase().replace('-', "_");
    let near = known.iter().map(|name| (distance(&typed, name), *name)).min()?;
    // A third of the letters may be wrong: `endpoint`, `stal_timeout`, `recipents`.
    (near.0 <= near.1.len().div_ceil(3)).then_some(near.1)
}

/// How many letters must be added, removed or changed.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_mistake_finds_its_name_and_nonsense_does_not() {
        let known = ["endpoints", "stall_timeout", "total_timeout", "ca"];
        for (typed, meant) in [
            ("endpoint", Some("endpoints")),
            ("stal_timeout", Some("stall_timeout")),
            ("Total-Timeout", Some("total_timeout")),
            ("password", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, &known), meant, "{typed}");
        }
        assert_eq!(nearest(&"e".repeat(100_000), &known), None);
    }

    #[test]
    fn distance_counts_changed_letters() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", ""), 3);
    }
}
