//! One call of the program, and what can be said of every call.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use holdfast::cli::layout::width;
use regex::Regex;
use serde_json::Value;

/// What differs from run to run, and what stands for it in a transcript.
/// Snapshots are taken in 2001, so that everything later is the program's own time.
const VARYING: [(&str, &str); 11] = [
    (r"127\.0\.0\.1:\d+", "127.0.0.1:[PORT]"),
    (r"20[2-9]\d{5}T\d{6}Z-[0-9a-f]{8}", "[RUN]"),
    (r"20[2-9]\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", "[NOW]"),
    (r"\b\d+ d( \d+ h)?\b", "[AGES]"),
    (r"\b\d+(\.\d+)? (ms|s|min)\b( \d+ s)?( ago)?", "[TIME]"),
    (r"\b\d+\.\d KiB (read back|holdfast/)", "[SIZE] $1"),
    (r"sealed \d+\.\d KiB", "sealed [SIZE]"),
    (r"\b\d+(\.\d)? [KMGT]iB are free", "[SIZE] are free"),
    (r"object {8}\d+\.\d KiB", "object        [SIZE]"),
    // age adds a stanza of a random length.
    (r"bytes where the manifest says \d+", "bytes where the manifest says [BYTES]"),
    (r"\bage1[0-9a-z]{58}\b", "[RECIPIENT]"),
];

/// The program, with nothing of this process's environment that changes what it does.
#[allow(clippy::disallowed_methods)] // the program under test
pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    for name in ["HOLDFAST_LOG", "HOLDFAST_TOOLS", "NO_COLOR", "CLICOLOR_FORCE", "RUST_BACKTRACE"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// What a call left.
#[derive(Debug)]
pub struct Run {
    pub exit: i32,
    pub stdout: String,
    pub stderr: String,
    arguments: String,
}

impl Run {
    /// Of a call whose paths lie below `root`. No call panics, and none colours a pipe.
    pub fn of(output: Output, arguments: &[&str], root: &Path) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(root.to_str().unwrap(), "[ROOT]");
        let exit = output.status.code().unwrap_or_else(|| panic!("{arguments:?}: {}", output.status));
        let run = Self { exit, stdout: text(output.stdout), stderr: text(output.stderr), arguments: arguments.join(" ") };
        for stream in [&run.stdout, &run.stderr] {
            assert!(!stream.contains('\u{1b}') && !stream.contains("panicked"), "{run:?}");
        }
        run
    }

    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.exit, code, "{self:#?}");
        self
    }

    /// Compares the whole call with the transcript of this name.
    #[track_caller]
    pub fn is(self, name: &str) -> Self {
        let streams = [("", &self.stdout), ("standard error:\n", &self.stderr)];
        let streams: String =
            streams.iter().filter(|(_, text)| !text.is_empty()).map(|(head, text)| format!("{head}{text}\n")).collect();
        recorded(name, format!("$ holdfast {}\n{streams}exit {}", self.arguments, self.exit));
        self
    }

    /// Every line of standard output fits a terminal.
    #[track_caller]
    pub fn fits(self) -> Self {
        for line in self.stdout.lines() {
            assert!(width(line) <= 80, "{} columns: {line}", width(line));
            assert_eq!(line, line.trim_end());
        }
        self
    }

    /// Standard output is exactly one JSON document.
    #[track_caller]
    pub fn document(&self) -> Value {
        assert!(self.stdout.ends_with('\n'), "{self:#?}");
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    /// Nothing on standard output; one JSON object with an error on the other, whose code this is.
    #[track_caller]
    pub fn refuses(&self, code: &str) {
        let value: Value = serde_json::from_str(&self.stderr).unwrap_or_else(|error| panic!("{error}: {self:#?}"));
        let error = value["error"].as_object().unwrap_or_else(|| panic!("{self:#?}"));
        for part in ["code", "object", "cause", "next"] {
            assert!(error[part].as_str().is_some_and(|text| !text.is_empty()), "{part}: {self:#?}");
        }
        assert_eq!((error["code"].as_str(), self.stdout.as_str()), (Some(code), ""), "{self:#?}");
    }
}

/// Compares a text with the transcript of this name.
#[track_caller]
pub fn recorded(name: &str, text: String) {
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!(name, without_what_varies(text));
    });
}

fn without_what_varies(text: String) -> String {
    VARYING.iter().fold(text, |text, (pattern, stands)| Regex::new(pattern).unwrap().replace_all(&text, *stands).into_owned())
}
