//! Module names say what is inside, and each module begins by saying what it owns.

use crate::source::{Source, code};
use crate::{assert_none, assert_one};

/// Names under which anything would fit.
const EMPTY_NAMES: [&str; 10] =
    ["utils", "util", "helpers", "helper", "misc", "common", "types", "manager", "managers", "shared"];

fn name_findings(source: &Source) -> Vec<String> {
    let parts = source.path.split('/').map(|part| part.trim_end_matches(".rs"));
    let inline = source.places("mod").filter(|&at| source.text_at(at + 2) == "{").map(|at| source.text_at(at + 1));
    let empty = parts.chain(inline).filter(|name| EMPTY_NAMES.contains(name));
    empty.map(|name| format!("{}: {name} says nothing about what is inside", source.path)).collect()
}

/// `lib.rs` includes ARCHITECTURE.md as its documentation instead.
fn opening_findings(source: &Source) -> Vec<String> {
    let first = source.text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let opens = first.starts_with("//! ") || first.starts_with("#![doc = include_str!");
    if opens { Vec::new() } else { vec![format!("{}: begins without //! and what the module owns", source.path)] }
}

#[test]
fn module_names_say_what_is_inside() {
    let findings: Vec<String> = code().iter().flat_map(name_findings).collect();
    assert_none(&findings);
}

#[test]
fn modules_open_with_what_they_own() {
    let findings: Vec<String> = code().iter().flat_map(opening_findings).collect();
    assert_none(&findings);
}

#[test]
fn empty_names_and_silent_modules_are_found() {
    assert_one(&name_findings(&Source::parse("src/store/utils.rs", "")), "utils says nothing");
    assert_one(&name_findings(&Source::parse("src/common/key.rs", "")), "common says nothing");
    assert_one(&name_findings(&Source::parse("src/a.rs", "mod helpers { fn f() {} }")), "helpers says nothing");
    assert_none(&name_findings(&Source::parse("src/store/key.rs", "mod tests { fn helpers() {} }")));
    assert_one(&opening_findings(&Source::parse("src/a.rs", "\nuse std::fs;\n//! late\n")), "begins without //!");
    assert_one(&opening_findings(&Source::parse("src/a.rs", "")), "begins without //!");
    assert_none(&opening_findings(&Source::parse("src/a.rs", "\n//! Owns a.\n")));
}
