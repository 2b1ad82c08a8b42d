//! `docs/errors.md` is the table of error codes, written from `base::codes`.

use std::fmt::Write;

use holdfast::base::codes::{ALL, Code};
use holdfast::base::exit::Exit;

use crate::{read, repository};

const PAGE: &str = "docs/errors.md";

const OPENING: &str = "# Error codes

Every error has its code on a line of its own, as in `code: store.denied`. A code never changes its meaning. This page is written
from `src/base/codes.rs`, and a test keeps the two equal.

Exit codes: 0 good · 1 it ran, and the answer is bad · 2 it could not run, or cannot tell · 3 usage or configuration · 130 interrupted.
\"Passes\" says whether the same command may succeed later without anyone changing anything.

| Code | Exit | Passes | Meaning | What to do |
| --- | --- | --- | --- | --- |
";

fn page(codes: &[&Code]) -> String {
    let mut page = OPENING.to_string();
    for code in codes {
        let passes = if code.transient { "yes" } else { "no" };
        writeln!(page, "| `{}` | {} | {passes} | {} | {} |", code.name, code.exit as u8, code.meaning, code.next).unwrap();
    }
    page
}

#[test]
fn the_page_of_error_codes_is_the_table_in_the_code() {
    let wanted = page(ALL);
    if read(PAGE) != wanted {
        let new = format!("{PAGE}.new");
        std::fs::write(repository().join(&new), wanted).unwrap();
        panic!("{PAGE} is not the table in base::codes: look at {new} and move it over {PAGE}");
    }
}

#[test]
fn a_changed_code_changes_the_page() {
    let code = |next| Code { name: "a.b", exit: Exit::Bad, transient: true, meaning: "broken", next };
    assert!(page(&[&code("mend it")]).ends_with("| `a.b` | 1 | yes | broken | mend it |\n"));
    assert_ne!(page(&[&code("mend it")]), page(&[&code("leave it")]));
}
