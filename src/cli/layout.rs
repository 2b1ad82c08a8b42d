//! Text that fits a terminal of eighty columns, and a mail, and a change record.
//!
//! Owns: measuring and wrapping. Must never: cut what a person copies. A word
//! that is too wide for its place, such as a path, stands alone on a line, and
//! that line alone may be wider.

use comfy_table::Table;

use super::render::printable;

/// The columns of a terminal that nobody has resized.
pub const WIDTH: usize = 80;

/// What stands before a word that has a line for itself.
const OWN_LINE: &str = "  ";

/// The columns that a terminal gives to a text of one line. Wide characters
/// take two, marks that combine none.
#[must_use]
pub fn width(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    // The table's own measure, so that texts and tables never disagree.
    let mut table = Table::new();
    table.add_row([text]);
    table.column_max_content_widths().first().copied().map_or(0, usize::from)
}

/// A text behind a head. What does not fit on the first line goes on below, at
/// column `indent`. A line break in it is like any other character that steers.
#[must_use]
pub fn behind(head: &str, indent: usize, text: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    parts_behind(head, indent, &words)
}

/// As [`behind`], where a part may hold spaces and stays whole all the same,
/// such as a path.
#[must_use]
pub fn parts_behind(head: &str, indent: usize, parts: &[&str]) -> String {
    let mut page = Wrapped::begin(head, indent);
    parts.iter().for_each(|part| page.add(part));
    page.end()
}

/// A label in a column of its own, and a text behind it.
#[must_use]
pub fn labelled(label: &str, column: usize, text: &str) -> String {
    // A label that is wider than its column needs a gap, too.
    let gap = if width(&printable(label)) < column { "" } else { " " };
    behind(&(padded(label, column) + gap), column, text)
}

/// A text and the spaces that fill its column.
#[must_use]
pub fn padded(text: &str, column: usize) -> String {
    let text = printable(text);
    let gap = column.saturating_sub(width(&text));
    text + &" ".repeat(gap)
}

/// At most `room` columns of a text. What was left out is marked.
#[must_use]
pub fn shortened(text: &str, room: usize) -> String {
    let text = printable(text);
    if width(&text) <= room {
        return text;
    }
    within(room.saturating_sub(1), &mut text.chars()) + "…"
}

/// At most `room` columns of a word, from both its ends: ids and paths differ at
/// the last.
#[must_use]
pub fn middle_out(word: &str, room: usize) -> String {
    let word = printable(word);
    if width(&word) <= room {
        return word;
    }
    let room = room.saturating_sub(1);
    let tail: String = within(room / 2, &mut word.chars().rev());
    let head: String = within(room - width(&tail), &mut word.chars());
    head + "…" + &tail.chars().rev().collect::<String>()
}

/// As many characters as have room.
fn within(room: usize, chars: &mut dyn Iterator<Item = char>) -> String {
    let mut used = 0;
    let fits = |c: &char| {
        used += width(c.encode_utf8(&mut [0; 4]));
        used <= room
    };
    chars.take_while(fits).collect()
}

/// Lines that grow word by word.
struct Wrapped {
    lines: String,
    current: String,
    /// Columns that `current` takes.
    used: usize,
    /// Does `current` hold a word, or only what stands before one?
    has_word: bool,
    indent: usize,
}

impl Wrapped {
    fn begin(head: &str, indent: usize) -> Self {
        let head = printable(head);
        Self { lines: String::new(), used: width(&head), current: head, has_word: false, indent }
    }

    fn add(&mut self, word: &str) {
        let word = printable(word);
        let columns = width(&word);
        let gap = usize::from(self.has_word && self.used > 0);
        if self.used + gap + columns > WIDTH && (self.has_word || self.used > self.indent) {
            self.break_line();
        }
        if self.indent + columns > WIDTH && self.used + columns > WIDTH {
            return self.add_alone(&word);
        }
        if self.has_word {
            self.current.push(' ');
            self.used += 1;
        }
        self.current.push_str(&word);
        self.used += columns;
        self.has_word = true;
    }

    /// A word on a line of its own, where it is copied with one click.
    fn add_alone(&mut self, word: &str) {
        if !self.current.trim_end().is_empty() {
            self.break_line();
        }
        self.current = format!("{OWN_LINE}{word}");
        self.break_line();
    }

    fn break_line(&mut self) {
        self.lines.push_str(self.current.trim_end());
        self.lines.push('\n');
        self.current = " ".repeat(self.indent);
        self.used = self.indent;
        self.has_word = false;
    }

    fn end(mut self) -> String {
        // Nothing follows a word that had its own line.
        if !self.current.trim_end().is_empty() || self.lines.is_empty() {
            self.break_line();
        }
        self.lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn fits(text: &str) {
        assert!(text.ends_with('\n'), "{text:?}");
        for line in text.lines() {
            assert!(width(line) <= WIDTH && line.trim_end() == line, "{} columns: {line:?}", width(line));
        }
    }

    #[test]
    fn wide_characters_take_two_columns_and_marks_none() {
        for (text, columns) in [("", 0), ("abc", 3), ("zażółć", 6), ("日本", 4), ("e\u{301}", 1)] {
            assert_eq!(width(text), columns, "{text}");
        }
    }

    #[test]
    fn texts_are_wrapped_behind_their_label() {
        let text = labelled("whole", 12, &"word ".repeat(40));
        fits(&text);
        assert!(text.starts_with("whole       word") && text.lines().nth(1).unwrap().starts_with("            word"), "{text}");
        let wide = labelled("名前", 12, &"日本語 ".repeat(40));
        fits(&wide);
        assert!(wide.starts_with("名前        日本語"), "{wide}");
    }

    #[test]
    fn a_word_that_is_too_wide_stands_alone_and_whole() {
        let path = "p/".repeat(60);
        let text = behind("stored as ", 4, &format!("{path}, with a page beside it"));
        assert_eq!(text, format!("stored as\n  {path},\n    with a page beside it\n"));
        let text = behind("", 30, &format!("the object {} is gone", "x".repeat(75)));
        assert_eq!(text, format!("the object\n  {}\n                              is gone\n", "x".repeat(75)));
        fits(&text);
        assert_eq!(parts_behind("report: ", 2, &["a path with spaces"]), "report: a path with spaces\n");
        let spaced = "a path ".repeat(12);
        assert_eq!(
            parts_behind("report: ", 2, &[spaced.trim_end(), "end"]),
            format!("report:\n  {}\n  end\n", spaced.trim_end())
        );
    }

    #[test]
    fn a_word_just_wide_enough_stays_on_its_line() {
        let word = "w".repeat(70);
        assert_eq!(behind("          ", 10, &word), format!("          {word}\n"));
        assert_eq!(behind("", 0, ""), "\n");
        assert_eq!(behind("a: ", 2, "  two  spaces"), "a:   two  spaces\n");
    }

    #[test]
    fn no_text_steers_the_terminal_from_where_it_stands() {
        assert_eq!(behind("a\u{1b}: ", 2, "b\u{1b}[2J\tc\nd"), "a\u{fffd}: b\u{fffd}[2J\u{fffd}c\u{fffd}d\n");
    }

    #[test]
    fn what_was_left_out_is_marked() {
        assert_eq!(shortened("a\u{1b}[2Jb", 20), "a\u{fffd}[2Jb");
        assert_eq!(shortened("abcdef", 4), "abc…");
        assert_eq!(shortened("日本語", 4), "日…");
        assert_eq!(padded("日", 4), "日  ");
        assert_eq!(middle_out("abcdefghij", 7), "abc…hij");
        assert_eq!(middle_out("日本語の文字", 7), "日本…字");
        assert_eq!(middle_out("abc", 3), "abc");
    }
}
