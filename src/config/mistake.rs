//! Mistakes in the file, shown as a compiler shows them: place, message, the
//! line, a caret.
//!
//! Must never print what could be a secret: a line is shown whole only where
//! its key is one of ours and its value has a form that ours have. Of any other
//! line only the key is shown.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::Range;

/// More than this is one broken file, not many mistakes.
const MOST_SHOWN: usize = 50;

/// Wider than a terminal, and no line that a person wrote is longer.
const WIDEST_LINE: usize = 160;

/// Keys whose value names a file with a secret in it: people paste the secret itself.
const PATHS_TO_SECRETS: [&str; 5] = ["identity_file", "signing_key", "key", "encryption_config", "file"];

/// Keys whose value names where a credential is: people paste the credential itself.
const NAMES_OF_CREDENTIALS: [&str; 3] = ["profile", "environment", "systemd"];

/// Longer than the names that people give, shorter than a secret key.
const LONGEST_NAME: usize = 32;

/// One thing that is wrong.
#[derive(Debug, Clone)]
pub(super) struct Mistake {
    pub kind: Kind,
    /// Bytes of the file; none when something is missing as a whole.
    pub span: Option<Range<usize>>,
    /// Never quotes a value.
    pub message: String,
    /// The other place of a mistake that has two.
    pub other: Option<(Range<usize>, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Not TOML.
    Syntax,
    /// A key that must be there is not.
    Missing,
    /// A key or value that cannot be.
    Invalid,
    /// Snapshots and keys would share something.
    NotSeparated,
}

impl Mistake {
    pub fn new(kind: Kind, span: Option<Range<usize>>, message: impl Into<String>) -> Self {
        Self { kind, span, message: message.into(), other: None }
    }
}

/// Sorts mistakes by place and drops those that only follow from broken syntax:
/// keys that seem to be missing, and values on the lines that did not parse.
pub(super) fn settle(text: &str, mut mistakes: Vec<Mistake>) -> Vec<Mistake> {
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
    let line_of = |m: &Mistake| m.span.as_ref().map(|span| ends.partition_point(|end| *end < span.start));
    let broken: BTreeSet<_> = mistakes.iter().filter(|m| m.kind == Kind::Syntax).filter_map(line_of).collect();
    if mistakes.iter().any(|m| m.kind == Kind::Syntax) {
        mistakes.retain(|m| match m.kind {
            Kind::Syntax => true,
            Kind::Missing => false,
            _ => line_of(m).is_none_or(|line| !broken.contains(&line)),
        });
    }
    mistakes.sort_by_key(|m| m.span.as_ref().map_or(0, |span| span.start));
    mistakes
}

/// All mistakes, one below the other. `known` says whether a full key, such as
/// `etcd.endpoints`, is one of ours.
pub(super) fn render(file: &str, text: &str, mistakes: &[Mistake], known: &dyn Fn(&str) -> bool) -> String {
    let mut out = String::new();
    for mistake in mistakes.iter().take(MOST_SHOWN) {
        match &mistake.span {
            None => {
                let _ = writeln!(out, "{file}: {}", mistake.message);
            }
            Some(span) => show(&mut out, file, text, span, &mistake.message, known),
        }
        if let Some((span, message)) = &mistake.other {
            show(&mut out, file, text, span, message, known);
        }
    }
    if mistakes.len() > MOST_SHOWN {
        let _ = writeln!(out, "{file}: and {} more", mistakes.len() - MOST_SHOWN);
    }
    out.truncate(out.trim_end().len());
    out
}

fn show(out: &mut String, file: &str, text: &str, span: &Range<usize>, message: &str, known: &dyn Fn(&str) -> bool) {
    let (line, column) = position(text, span.start);
    let source = text.lines().nth(line).unwrap_or("");
    let shown = showable(text, line, source, known);
    let width = shown.chars().count();
    let start = column.min(width);
    let length = text.get(span.clone()).map_or(1, |s| s.lines().next().unwrap_or("").chars().count());
    let length = length.min(width - start).max(1);
    let number = (line + 1).to_string();
    let gutter = " ".repeat(number.len());
    let _ = writeln!(out, "{file}:{number}:{}: {message}", column + 1);
    let _ = writeln!(out, "  {number} | {shown}");
    let _ = writeln!(out, "  {gutter} | {}{}", " ".repeat(start), "^".repeat(length));
}

/// Line and column, both from 0, the column in characters.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    let before = &text[..offset];
    let line = before.bytes().filter(|b| *b == b'\n').count();
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    (line, before[start..].chars().count())
}

/// The line as it may be printed: no control characters, not wider than a
/// screen, and no value that could be a secret.
fn showable(text: &str, line: usize, source: &str, known: &dyn Fn(&str) -> bool) -> String {
    let trimmed = source.trim_start();
    let open = match source.split_once('=') {
        _ if looks_secret(source) => false,
        _ if trimmed.starts_with('[') => true,
        Some((key, value)) => {
            let name = key.trim().trim_matches('"');
            let section = section_of(text, line);
            let full = if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") };
            known(&full) && !value.contains('{') && !pasted(name, value)
        }
        None => ["\"age1", "\"http", "]", "}"].iter().any(|start| trimmed.starts_with(start)) || trimmed.is_empty(),
    };
    let shown = match source.split_once('=') {
        _ if open => source.to_owned(),
        Some((key, _)) if !looks_secret(key) => format!("{key}= …"),
        _ => "…".to_owned(),
    };
    shown.chars().take(WIDEST_LINE).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn looks_secret(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    // The sign of a user and a password in an address.
    ["age-secret-key", "private key", "@"].iter().any(|mark| lower.contains(mark))
}

/// Is this anything but a path, where the path of a secret belongs, or anything
/// but a name, where a credential's belongs?
fn pasted(name: &str, value: &str) -> bool {
    let name = name.rsplit('.').next().unwrap_or(name);
    let is_path = || ["\"/", "\".", "\"~", "'/"].iter().any(|start| value.trim_start().starts_with(start));
    let is_name = || value.trim().len() <= LONGEST_NAME && !value.contains(['/', '+']);
    (PATHS_TO_SECRETS.contains(&name) && !is_path()) || (NAMES_OF_CREDENTIALS.contains(&name) && !is_name())
}

/// The nearest header above a line, without its brackets.
fn section_of(text: &str, line: usize) -> &str {
    let above = text.lines().take(line).filter(|l| l.trim_start().starts_with('[') && !l.contains('='));
    above.last().map_or("", |header| header.split('#').next().unwrap_or("").trim().trim_matches(['[', ']']).trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, at: &str) -> String {
        let start = text.find(at).unwrap();
        let mistake = Mistake::new(Kind::Invalid, Some(start..start + at.len()), "wrong");
        render("holdfast.toml", text, &[mistake], &|key| key == "etcd.endpoints" || key == "host.signing_key")
    }

    #[test]
    fn a_mistake_shows_place_line_and_caret() {
        let text = "# ü\n[etcd]\n  endpoints = [\"x\"]\n";
        assert_eq!(shown(text, "\"x\""), "holdfast.toml:3:16: wrong\n  3 |   endpoints = [\"x\"]\n    |                ^^^");
    }

    #[test]
    fn a_value_that_could_be_a_secret_is_not_shown() {
        for (text, at) in [
            ("[vault]\ntoken = \"hunter2-hunter2\"\n", "token"),
            ("[vault]\nendpoints = \"hunter2-hunter2\"\n", "endpoints"),
            ("[etcd]\nendpoints = [\"https://root:hunter2-hunter2@h:2379\"]\n", "["),
            ("[etcd]\nendpoints = { password = \"hunter2-hunter2\" }\n", "{"),
            ("[host]\nsigning_key = \"hunter2-hunter2\"\n", "\"hunter2-hunter2\""),
            ("[etcd]\nendpoints = [\n  \"hunter2-hunter2\",\n]\n", "\"hunter2-hunter2\""),
            ("AGE-SECRET-KEY-HUNTER2-HUNTER2\n", "AGE"),
        ] {
            let text = shown(text, at);
            assert!(!text.to_lowercase().contains("hunter2"), "{text}");
            assert!(text.contains('^'), "{text}");
        }
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let text = "[etcd]\nendpoints = \u{1b}[31m\n";
        assert!(!shown(text, "endpoints").contains('\u{1b}'));
    }

    #[test]
    fn a_place_at_or_past_the_end_is_shown() {
        let mistake = Mistake::new(Kind::Syntax, Some(9..9), "ends too soon");
        let text = render("f", "[etcd]\na=", &[mistake], &|_| false);
        assert!(text.starts_with("f:2:3: ends too soon"), "{text}");
        assert!(position("ü", 1) == (0, 0) && position("", 7) == (0, 0));
    }
}
