//! What an operator sees of a failure, and of a pipe that closed.

use std::io::{self, IsTerminal, Write};

use serde_json::json;

use crate::base::codes;
use crate::base::failure::Failure;
use crate::telemetry::terminal::{self, aside};

/// Where failures are printed, and whether words may be coloured there.
pub trait Sink: Write {
    fn has_colours(&self) -> bool {
        false
    }
}

impl Sink for dyn Write + '_ {}
impl Sink for dyn Write + Send + '_ {}
impl Sink for Vec<u8> {}

impl Sink for io::Stderr {
    fn has_colours(&self) -> bool {
        terminal::has_colours(self)
    }
}

impl<W: Write + IsTerminal> Sink for Output<W> {
    fn has_colours(&self) -> bool {
        terminal::has_colours(&self.0)
    }
}

/// Bold, and red or yellow, as compilers and clap have them.
const ERROR: (&str, &str) = ("error", "1;31");
const WARNING: (&str, &str) = ("warning", "1;33");

/// Prints a failure: object and cause first, then its code and the next action.
/// Each has a line, however long: lines are searched for, and pasted.
///
/// # Errors
/// Those of `out`.
pub fn failure<W: Sink + ?Sized>(out: &mut W, failure: &Failure, json: bool) -> io::Result<()> {
    show(out, ERROR, failure, json)
}

/// Prints something that went wrong and stopped nothing.
///
/// # Errors
/// Those of `out`.
pub fn warning<W: Sink + ?Sized>(out: &mut W, failure: &Failure, json: bool) -> io::Result<()> {
    show(out, WARNING, failure, json)
}

/// Prints something worth knowing that is no mistake.
///
/// # Errors
/// Those of `out`.
pub fn note<W: Sink + ?Sized>(out: &mut W, text: &str, json: bool) -> io::Result<()> {
    if json { writeln!(out, "{}", json!({ "note": text })) } else { writeln!(out, "note: {}", printable_lines(text)) }
}

/// The failure as one object for machines.
#[must_use]
pub fn object(failure: &Failure) -> serde_json::Value {
    json!({
        "code": failure.code().name,
        "object": failure.object(),
        "cause": failure.cause(),
        "next": failure.next_action(),
    })
}

fn show<W: Sink + ?Sized>(out: &mut W, (word, colour): (&str, &str), failure: &Failure, json: bool) -> io::Result<()> {
    if json {
        return writeln!(out, "{}", json!({ word: object(failure) }));
    }
    // Where a message is shown without its object, the cause must stand alone.
    let word = if out.has_colours() { format!("\u{1b}[{colour}m{word}:\u{1b}[0m") } else { format!("{word}:") };
    writeln!(out, "{word} {}: {}", printable(failure.object()), printable_lines(failure.cause()))?;
    writeln!(out, "  code: {}", failure.code().name)?;
    writeln!(out, "  next: {}", printable(failure.next_action()))
}

/// A stream whose reader may have enough of it: what is written after that is
/// dropped, and the command goes on to its own exit code.
#[derive(Debug)]
pub struct Output<W>(pub W);

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Nothing that moves may stand where this goes.
        match aside(|| self.0.write(bytes)).unwrap_or(Ok(bytes.len())) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(bytes.len()),
            other => other,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.0.flush() {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }
}

/// Output that could not be written. A closed pipe is none of these: see [`Output`].
#[must_use]
pub fn unprinted(error: io::Error) -> Failure {
    Failure::because(&codes::OUTPUT, "standard output", &error)
}

/// Did the reader of the output go away?
#[must_use]
pub fn is_closed_pipe(failure: &Failure) -> bool {
    failure.code() == &codes::OUTPUT && failure.cause().contains("Broken pipe")
}

/// Names come from snapshots and stores; none may steer a terminal, turn the
/// direction of a line, or break one.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if steers(c) { '\u{fffd}' } else { c }).collect()
}

/// A cause may have several lines, such as a log's end.
#[must_use]
pub fn printable_lines(text: &str) -> String {
    text.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}

fn steers(c: char) -> bool {
    // Unicode's marks, embeddings, overrides and isolates of direction.
    c.is_control() || matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(json: bool) -> String {
        let mut out = Vec::new();
        let bad = Failure::new(&codes::STORE_DENIED, "fs /backup: a/b\u{1b}[2J", "put: denied");
        failure(&mut out, &bad, json).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_failure_names_object_cause_code_and_next_action() {
        let text = shown(false);
        assert!(
            text.starts_with("error: fs /backup: a/b\u{fffd}[2J: put: denied\n  code: store.denied\n  next: grant"),
            "{text}"
        );
    }

    #[test]
    fn only_the_first_word_is_coloured_and_only_where_colours_are() {
        struct Coloured(Vec<u8>);
        impl Write for Coloured {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.write(bytes)
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        impl Sink for Coloured {
            fn has_colours(&self) -> bool {
                true
            }
        }
        let mut out = Coloured(Vec::new());
        let bad = Failure::new(&codes::STORE_DENIED, "fs /backup: a/b", "put: denied");
        warning(&mut out, &bad, false).unwrap();
        let text = String::from_utf8(std::mem::take(&mut out.0)).unwrap();
        assert!(text.starts_with("\u{1b}[1;33mwarning:\u{1b}[0m fs /backup: a/b: put: denied\n  code: "), "{text:?}");
        assert_eq!(text.matches('\u{1b}').count(), 2);
        failure(&mut out, &bad, true).unwrap();
        assert!(!out.0.contains(&0x1b), "JSON has no colours");
        assert!(!shown(false).contains('\u{1b}'));
    }

    #[test]
    fn a_failure_is_one_json_object_for_machines() {
        let value: serde_json::Value = serde_json::from_str(&shown(true)).unwrap();
        assert_eq!(value["error"]["code"], "store.denied");
    }

    #[test]
    fn no_name_steers_a_terminal_or_turns_a_line_around() {
        assert_eq!(printable("a\u{1b}[2J\nb"), "a\u{fffd}[2J\u{fffd}b");
        assert_eq!(printable("user\u{202e}nimda"), "user\u{fffd}nimda");
        assert_eq!(printable("zażółć/日本"), "zażółć/日本");
        assert_eq!(printable_lines("one\ntwo\u{7}"), "one\ntwo\u{fffd}");
    }
}
