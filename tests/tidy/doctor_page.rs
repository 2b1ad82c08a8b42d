//! `docs/doctor.md` is the table of what the doctor finds, written from `doctor::codes`.

use std::fmt::Write;

use holdfast::doctor::Status;
use holdfast::doctor::codes::{ALL, Code};

use crate::{read, repository};

const PAGE: &str = "docs/doctor.md";

const OPENING: &str = "# What `holdfast doctor` finds

`holdfast doctor` asks for real: it opens stores, members and files, and also asks for what must be denied. Each answer is `ok`, `note`,
`warning`, `error`, `unknown` (no answer) or `not-applicable`, and has its own next action. This page is written from `src/doctor/codes.rs`,
and a test keeps the two equal. Codes that are not here are those of every command: see [errors](errors.md).

Exit codes: 0 nothing worse than a warning · 1 an error was found · 2 something gave no answer, so it cannot tell · 3 the configuration has
mistakes. `--json` prints one document: `host`, `cluster`, `at`, `exit` and `findings`, each with `area`, `status`, `code` (null where all is
well), `object`, `finding` and `next`. Codes never change their meaning; sentences may.

## What it writes

WRITES
## Codes

| Code | Status | Meaning | What to do |
| --- | --- | --- | --- |
";

fn page(writes: &str, codes: &[&Code]) -> String {
    let mut page = OPENING.replace("WRITES", writes);
    for Code { name, status, meaning, next } in codes {
        let next = if next.is_empty() { "nothing" } else { next };
        writeln!(page, "| `{name}` | {} | {meaning} | {next} |", status.as_str()).unwrap();
    }
    page
}

/// What `src/doctor/mod.rs` says that it writes: the paragraphs of its head
/// that begin with those words.
fn writes(module: &str) -> String {
    let head = module.lines().take_while(|line| line.starts_with("//!")).map(|line| line[3..].trim());
    let said = head.skip_while(|line| !line.starts_with("What it writes"));
    said.skip(1).skip_while(|line| line.is_empty()).fold(String::new(), |page, line| page + line + "\n")
}

#[test]
fn the_page_of_the_doctor_is_the_table_in_the_code() {
    let wanted = page(&writes(&read("src/doctor/mod.rs")), ALL);
    if read(PAGE) != wanted {
        let new = format!("{PAGE}.new");
        std::fs::write(repository().join(&new), wanted).unwrap();
        panic!("{PAGE} is not the table in doctor::codes: look at {new} and move it over {PAGE}");
    }
}

#[test]
fn a_changed_code_and_other_words_change_the_page() {
    let code = |next| Code { name: "doctor.a.b", status: Status::Warning, meaning: "loose", next };
    let rows = |page: String| page.rsplit_once("| --- |\n").unwrap().1.to_owned();
    assert_eq!(rows(page("", &[&code("mend it")])), "| `doctor.a.b` | warning | loose | mend it |\n");
    assert_eq!(rows(page("", &[&code("")])), "| `doctor.a.b` | warning | loose | nothing |\n");
    let module = "//! A.\n//!\n//! What it writes, and nothing else:\n//!\n//! - one file;\n//! - another.\n\nuse x;\n";
    assert_eq!(writes(module), "- one file;\n- another.\n");
    assert!(page(&writes(module), &[]).contains("- one file;\n- another.\n"));
}
