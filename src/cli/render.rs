//! What an operator sees of a failure, and of a pipe that closed.

use std::io::{self, Write};

use serde_json::json;

use crate::base::codes;
use crate::base::failure::Failure;

/// Prints a failure: object and cause first, then its code and the next action.
///
/// # Errors
/// Those of `out`.
pub fn failure(out: &mut dyn Write, failure: &Failure, json: bool) -> io::Result<()> {
    if json {
        let error = json!({
            "code": failure.code().name,
            "object": failure.object(),
            "cause": failure.cause(),
            "next": failure.next_action(),
        });
        return writeln!(out, "{}", json!({ "error": error }));
    }
    print(out, "error", failure)
}

/// Prints something that went wrong and stopped nothing.
///
/// # Errors
/// Those of `out`.
pub fn warning(out: &mut dyn Write, failure: &Failure) -> io::Result<()> {
    print(out, "warning", failure)
}

fn print(out: &mut dyn Write, word: &str, failure: &Failure) -> io::Result<()> {
    // Where a message is shown without its object, the cause must stand alone.
    writeln!(out, "{word}: {}: {}", printable(failure.object()), printable(failure.cause()))?;
    writeln!(out, "  code: {}", failure.code().name)?;
    writeln!(out, "  next: {}", printable(failure.next_action()))
}

/// Output that could not be written: a closed pipe is a reader that has enough.
#[must_use]
pub fn unprinted(error: io::Error) -> Failure {
    Failure::because(&codes::OUTPUT, "standard output", &error)
}

/// Did the reader of the output go away?
#[must_use]
pub fn is_closed_pipe(failure: &Failure) -> bool {
    failure.code() == &codes::OUTPUT && failure.cause().contains("Broken pipe")
}

/// Names come from snapshots and stores; none may steer a terminal.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
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
    fn a_failure_is_one_json_object_for_machines() {
        let value: serde_json::Value = serde_json::from_str(&shown(true)).unwrap();
        assert_eq!(value["error"]["code"], "store.denied");
    }
}
