//! Where output goes: pipes that close, disks that are full, terminals.

use std::fs::OpenOptions;
use std::process::Stdio;

use crate::site::{REHEARSER, Site};
use crate::transcript::{Run, program};

/// Runs with a standard output that nobody reads any more.
fn into_a_closed_pipe(site: &Site, arguments: &[&str]) -> Run {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = site.command(REHEARSER, arguments).stdout(writer).output().unwrap();
    Run::of(output, arguments, site.root.path())
}

#[test]
fn a_reader_that_has_enough_changes_no_exit_code() {
    let site = Site::with_snapshots();
    for (arguments, exit) in [
        (vec!["list"], 0),
        (vec!["list", "--json"], 0),
        (vec!["show", "latest"], 0),
        (vec!["catalog", "rebuild"], 0),
        (vec!["verify"], 0),
        (vec!["verify", site.doubtful().as_str()], 1),
        (vec!["report"], 0),
        (vec!["inspect", "tests/data/branchy.db"], 1),
    ] {
        let run = into_a_closed_pipe(&site, &arguments).exits(exit);
        assert_eq!(run.stderr, "", "{arguments:?}");
    }
}

#[test]
fn messages_that_nobody_reads_change_no_exit_code() {
    let site = Site::with_snapshots();
    // Seen once, so that the catalog can answer when the ledger does not.
    assert!(site.command(REHEARSER, &["list"]).output().unwrap().status.success());
    std::fs::rename(site.path("ledger"), site.path("away")).unwrap();
    for (arguments, exit) in [(vec!["list"], 0), (vec!["show", "1999"], 2), (vec!["lst"], 3)] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = site.command(REHEARSER, &arguments).stderr(writer).output().unwrap();
        Run::of(output, &arguments, site.root.path()).exits(exit);
    }
}

#[test]
fn a_full_disk_is_an_error() {
    let site = Site::with_snapshots();
    for arguments in [vec!["list"], vec!["show", "latest", "--json"], vec!["inspect", "tests/data/tiny.snap"]] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = site.command(REHEARSER, &arguments).stdout(full).output().unwrap();
        let run = Run::of(output, &arguments, site.root.path()).exits(2);
        assert!(run.stderr.contains("standard output") && run.stderr.contains("No space left on device"), "{run:#?}");
    }
}

/// What the program prints on a terminal, where it may use colours.
#[allow(clippy::disallowed_methods)] // `script` of util-linux makes the terminal
fn on_a_terminal(arguments: &str, variable: Option<(&str, &str)>) -> String {
    let mut command = std::process::Command::new("script");
    command.args(["--quiet", "--return", "--command"]);
    command.arg(format!("{} {arguments}", program().get_program().display())).arg("/dev/null").stdin(Stdio::null());
    command.env_remove("NO_COLOR").env("TERM", "xterm").envs(variable);
    let output = command.output().unwrap_or_else(|error| panic!("script (apt-get install bsdutils): {error}"));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_word_error_is_coloured_on_a_terminal_and_nowhere_else() {
    const ERROR: &str = "\u{1b}[1;31merror:\u{1b}[0m /nowhere: No such file or directory";
    let failure = on_a_terminal("--config /nowhere list", None);
    assert!(failure.starts_with(ERROR), "{failure:?}");
    assert_eq!(failure.matches('\u{1b}').count(), 2, "{failure:?}");
    for variable in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let plain = on_a_terminal("--config /nowhere list", Some(variable));
        assert!(plain.starts_with("error: /nowhere: ") && !plain.contains('\u{1b}'), "{plain:?}");
    }
    let json = on_a_terminal("--config /nowhere list --json", None);
    assert!(json.starts_with("{\"error\":") && !json.contains('\u{1b}'), "{json:?}");
}

#[test]
fn a_terminal_may_be_coloured_and_no_color_is_kept() {
    let usage = on_a_terminal("lst", None);
    assert!(usage.contains('\u{1b}') && usage.contains("lst"), "{usage:?}");
    for arguments in ["lst", "--help", "inspect tests/data/tiny.snap", "-vvv list"] {
        let plain = on_a_terminal(arguments, Some(("NO_COLOR", "1")));
        assert!(!plain.contains('\u{1b}') && !plain.is_empty(), "{arguments}: {plain:?}");
    }
}
