//! ARCHITECTURE.md names tests that attack its invariants: each must exist.

use std::collections::BTreeSet;

use crate::source::{Source, code};
use crate::{assert_none, assert_one, read};

/// The names in the last column of the invariants' table that no test has.
fn findings(page: &str, tests: &BTreeSet<String>) -> Vec<String> {
    let section = page.split("\n## ").find(|section| section.starts_with("Invariants")).unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| ")).skip(2);
    let rows: Vec<&str> = rows.collect();
    let mut findings = Vec::new();
    if rows.is_empty() {
        findings.push("ARCHITECTURE.md has no table of invariants".to_string());
    }
    for row in rows {
        let attacked_by = row.trim_end_matches([' ', '|']).rsplit('|').next().unwrap_or_default();
        let names: Vec<&str> = attacked_by.split('`').skip(1).step_by(2).collect();
        if names.is_empty() {
            findings.push(format!("no test attacks: {row}"));
        }
        let function = |name: &str| name.rsplit("::").next().unwrap_or_default().to_string();
        findings
            .extend(names.iter().filter(|name| !tests.contains(&function(name))).map(|name| format!("there is no test {name}")));
    }
    findings
}

fn test_names(sources: &[Source]) -> BTreeSet<String> {
    let names = |source: &Source| {
        source
            .places("fn")
            .filter(|&at| source.tokens[at].in_test)
            .map(|at| source.text_at(at + 1).to_string())
            .collect::<Vec<_>>()
    };
    sources.iter().flat_map(names).collect()
}

#[test]
fn every_invariant_names_tests_that_exist() {
    assert_none(&findings(&read("ARCHITECTURE.md"), &test_names(code())));
}

#[test]
fn invented_tests_and_untested_invariants_are_found() {
    let page = |cell: &str| {
        format!(
            "# A\n\n## Invariants and tests\n\n| # | I | W | A |\n| --- | --- | --- | --- |\n| 1 | x | y | {cell} |\n\n## Next\n"
        )
    };
    let tests = test_names(&[Source::parse("tests/it/a.rs", "fn it_holds() {}")]);
    assert_none(&findings(&page("`a::it_holds`"), &tests));
    assert_one(&findings(&page("`it_holds`, `it_shines`"), &tests), "no test it_shines");
    assert_one(&findings(&page(""), &tests), "no test attacks");
    assert_one(&findings("# A\n", &tests), "no table of invariants");
}
