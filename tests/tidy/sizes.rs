//! Files and functions stay small. The lists of exceptions only shrink: an
//! entry that is no longer needed, or larger than needed, fails.

use crate::source::{Source, code};
use crate::{assert_none, assert_one};

/// Over this, ask what second noun is in the file.
const FILE_LINES: usize = 600;
/// Longer functions do more than one thing.
const FUNCTION_LINES: usize = 70;

/// Files over the limit, each with the lines it has today.
const LONG_FILES: [(&str, usize); 0] = [];
/// Functions over the limit, as `path name`, each with the lines it has today.
const LONG_FUNCTIONS: [(&str, usize); 0] = [];

/// What is over `limit` and not in `exceptions`, and exceptions that say too much.
fn findings(measured: &[(String, usize)], limit: usize, exceptions: &[(&str, usize)]) -> Vec<String> {
    let excepted = |name: &str| exceptions.iter().find(|(known, _)| *known == name).map_or(limit, |(_, lines)| *lines);
    let long = measured.iter().filter(|(name, lines)| *lines > excepted(name));
    let mut found: Vec<String> = long.map(|(name, lines)| format!("{name} has {lines} lines, over {}", excepted(name))).collect();
    for (name, allowed) in exceptions {
        let lines = measured.iter().filter(|(known, _)| known == name).map(|(_, lines)| *lines).max().unwrap_or(0);
        if lines <= limit {
            found.push(format!("{name} has {lines} lines and needs no exception: remove it"));
        } else if lines < *allowed {
            found.push(format!("{name} has {lines} lines: lower its exception from {allowed}"));
        }
    }
    found
}

fn files(sources: &[Source]) -> Vec<(String, usize)> {
    sources.iter().map(|source| (source.path.clone(), source.text.lines().count())).collect()
}

/// Each function with a body, from `fn` to its last brace.
fn functions(source: &Source) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for at in source.places("fn") {
        // `fn(u8)` is a type and has no name.
        if source.text_at(at + 1) == "(" {
            continue;
        }
        if let Some(body) = body_of(source, at) {
            let last = &source.tokens[source.tokens[body].closes_at];
            found.push((format!("{} {}", source.path, source.text_at(at + 1)), last.line - source.tokens[at].line + 1));
        }
    }
    found
}

/// The opening brace of the function at `at`; none for a declaration.
fn body_of(source: &Source, mut at: usize) -> Option<usize> {
    loop {
        match source.text_at(at) {
            "{" => return Some(at),
            ";" | "" => return None,
            "(" | "[" => at = source.tokens[at].closes_at + 1,
            _ => at += 1,
        }
    }
}

#[test]
fn files_and_functions_are_small() {
    let sources = code();
    assert_none(&findings(&files(sources), FILE_LINES, &LONG_FILES));
    let measured: Vec<_> = sources.iter().flat_map(functions).collect();
    assert!(measured.len() > 100, "functions are found");
    assert_none(&findings(&measured, FUNCTION_LINES, &LONG_FUNCTIONS));
}

#[test]
fn long_files_and_functions_are_found() {
    let text = format!("fn long(x: [u8; 2]) -> u8\nwhere\n    u8: Copy,\n{{\n{}}}\nfn short() {{}}\n", "    x();\n".repeat(66));
    let source = Source::parse("src/a.rs", &text);
    assert_eq!(functions(&source), [("src/a.rs long".to_string(), 71), ("src/a.rs short".to_string(), 1)]);
    assert_one(&findings(&functions(&source), FUNCTION_LINES, &[]), "src/a.rs long has 71 lines, over 70");
    assert_one(&findings(&files(&[source]), 60, &[]), "src/a.rs has 72 lines");
    assert_eq!(functions(&Source::parse("src/a.rs", "trait A { fn b(&self); }\ntype C = fn(u8) -> u8;")), []);
}

#[test]
fn exceptions_only_shrink() {
    let measured = [("a".to_string(), 80)];
    assert_none(&findings(&measured, 70, &[("a", 80)]));
    assert_one(&findings(&measured, 70, &[("a", 79)]), "over 79");
    assert_one(&findings(&measured, 70, &[("a", 81)]), "lower its exception");
    assert_one(&findings(&measured, 90, &[("a", 95)]), "needs no exception");
    assert_one(&findings(&measured, 90, &[("gone", 95)]), "needs no exception");
}
