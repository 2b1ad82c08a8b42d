//! What code must not do outside its proper place, and what tests must not do at all.

use crate::source::{Source, code, library};
use crate::{assert_none, assert_one};

/// A thing that only some files may do.
struct Habit {
    /// Token patterns that show it.
    patterns: &'static [&'static str],
    /// Path prefixes where it belongs.
    allowed: &'static [&'static str],
    /// Tests may do it too.
    free_in_tests: bool,
    message: &'static str,
}

const HABITS: [Habit; 5] = [
    Habit {
        patterns: &["println !", "eprintln !", "print !", "eprint !", "io : : stdout", "io : : stderr"],
        // The log goes to standard error, and nowhere else is it set up.
        allowed: &["src/cli/", "src/main.rs", "src/telemetry/log.rs"],
        free_in_tests: true,
        message: "only cli prints",
    },
    Habit {
        patterns: &["rusqlite", "rusqlite_migration"],
        allowed: &["src/catalog/"],
        free_in_tests: true,
        message: "only catalog knows SQL",
    },
    Habit {
        // sandbox has a Command of its own; clippy refuses calls under other names.
        patterns: &[
            "std : : process : : Command",
            "tokio : : process : : Command",
            "{ process : : Command",
            ", process : : Command",
        ],
        allowed: &["src/sandbox/"],
        free_in_tests: true,
        message: "processes are started through sandbox",
    },
    // One argued mmap; everything else has a safe function.
    Habit {
        patterns: &["unsafe"],
        allowed: &["src/bolt/mapping.rs"],
        free_in_tests: false,
        message: "unsafe is for the one mmap in bolt",
    },
    Habit { patterns: &["todo !", "unimplemented !"], allowed: &[], free_in_tests: false, message: "finish it" },
];

fn habit_findings(source: &Source, habit: &Habit) -> Vec<String> {
    if habit.allowed.iter().any(|prefix| source.path.starts_with(prefix)) {
        return Vec::new();
    }
    let places = habit.patterns.iter().flat_map(|pattern| source.places(pattern));
    let places = places.filter(|&at| !(habit.free_in_tests && source.tokens[at].in_test));
    places.map(|at| source.finding(at, habit.message)).collect()
}

/// `process::{Child, Command}` names it too.
fn listed_command_findings(source: &Source) -> Vec<String> {
    if source.path.starts_with("src/sandbox/") {
        return Vec::new();
    }
    let lists = source.places("process : : {").filter(|&at| !source.tokens[at].in_test);
    let naming =
        lists.filter(|&at| source.tokens[at + 3..source.tokens[at + 3].closes_at].iter().any(|token| token.text == "Command"));
    naming.map(|at| source.finding(at, "processes are started through sandbox")).collect()
}

/// A test that is skipped, waits for the wall clock or expects a panic proves little.
const TEST_HABITS: [(&str, &str); 3] = [
    ("# [ ignore", "no test is skipped: fail and name what is missing"),
    ("should_panic", "assert what is wrong today instead of expecting a panic"),
    ("sleep (", "wait for what must happen, not for time to pass"),
];

fn test_findings(source: &Source) -> Vec<String> {
    let places = TEST_HABITS.iter().flat_map(|(pattern, message)| source.places(pattern).map(move |at| (at, *message)));
    let in_tests = places.filter(|(at, _)| source.tokens[*at].in_test);
    in_tests.map(|(at, message)| source.finding(at, message)).collect()
}

#[test]
fn code_keeps_to_its_place() {
    let sources = code();
    let mut findings: Vec<String> =
        HABITS.iter().flat_map(|habit| sources.iter().flat_map(|source| habit_findings(source, habit))).collect();
    findings.extend(sources.iter().flat_map(listed_command_findings));
    assert_none(&findings);
}

#[test]
fn places_that_may_do_a_thing_still_do_it() {
    let sources = library();
    for habit in &HABITS {
        for place in habit.allowed.iter().filter(|place| place.ends_with(".rs") && **place != "src/main.rs") {
            let used = sources
                .iter()
                .filter(|source| source.path == *place)
                .any(|source| habit.patterns.iter().any(|p| source.places(p).next().is_some()));
            assert!(used, "{place} no longer needs its exception ({})", habit.message);
        }
    }
}

#[test]
fn tests_neither_skip_nor_sleep() {
    let findings: Vec<String> = code().iter().flat_map(test_findings).collect();
    assert_none(&findings);
}

fn all_findings(path: &str, text: &str) -> Vec<String> {
    let source = Source::parse(path, text);
    let mut findings: Vec<String> = HABITS.iter().flat_map(|habit| habit_findings(&source, habit)).collect();
    findings.extend(listed_command_findings(&source));
    findings.extend(test_findings(&source));
    findings
}

#[test]
fn misplaced_code_is_found() {
    assert_one(&all_findings("src/backup/take.rs", "fn f() { println!(\"x\"); }"), "src/backup/take.rs:1: only cli prints");
    assert_one(&all_findings("src/demo/mod.rs", "use std::io::stdout;"), "only cli prints");
    assert_one(&all_findings("src/telemetry/mod.rs", "fn f() { eprintln!() }"), "only cli prints");
    assert_one(&all_findings("src/report/mod.rs", "use rusqlite::Connection;"), "only catalog knows SQL");
    assert_one(&all_findings("src/etcd/mod.rs", "fn f() { std::process::Command::new(\"x\"); }"), "through sandbox");
    assert_one(&all_findings("src/etcd/mod.rs", "use std::{fs, process::Command};"), "through sandbox");
    assert_one(&all_findings("src/etcd/mod.rs", "use tokio::process::{Child, Command};"), "through sandbox");
    assert_one(&all_findings("src/bolt/page.rs", "fn f() { unsafe { x() } }"), "unsafe is for");
    assert_one(&all_findings("src/bolt/page.rs", "#[cfg(test)] mod tests { fn f() { unsafe { x() } } }"), "unsafe is for");
    assert_one(&all_findings("src/bolt/page.rs", "fn f() { todo!() }"), "finish it");
}

#[test]
fn bad_tests_are_found() {
    assert_one(&all_findings("tests/it/a.rs", "#[test]\n#[ignore]\nfn f() {}"), "tests/it/a.rs:2: no test is skipped");
    assert_one(&all_findings("tests/it/a.rs", "#[ignore = \"slow\"] fn f() {}"), "no test is skipped");
    assert_one(&all_findings("src/a.rs", "#[cfg(test)] mod tests { #[should_panic] fn f() {} }"), "instead of expecting a panic");
    assert_one(
        &all_findings("src/a.rs", "#[cfg(test)] mod tests { async fn f() { sleep(SECOND).await } }"),
        "not for time to pass",
    );
    assert_one(
        &all_findings("tests/it/a.rs", "fn f() { std::thread::sleep(SECOND) }").first().cloned().into_iter().collect::<Vec<_>>(),
        "not for time",
    );
}

#[test]
fn code_in_its_place_passes() {
    assert_none(&all_findings("src/cli/list.rs", "fn f() { println!(\"x\"); }"));
    assert_none(&all_findings("src/catalog/journal.rs", "use rusqlite::Connection;"));
    assert_none(&all_findings("src/sandbox/process.rs", "use tokio::process::{Child, Command}; fn f() { Command::new(\"x\"); }"));
    assert_none(&all_findings("src/main.rs", "use std::process::ExitCode;"));
    assert_none(&all_findings(
        "src/rehearsal/member.rs",
        "use crate::sandbox::{Command, Process}; fn f() { Command::new(\"x\"); }",
    ));
    assert_none(&all_findings("src/store/layers.rs", "async fn f() { sleep(BACKOFF).await } // println!() todo!()"));
    assert_none(&all_findings("tests/it/a.rs", "fn f() { println!(\"#[ignore] sleep(\"); }"));
}
