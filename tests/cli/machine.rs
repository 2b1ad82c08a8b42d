//! `--json`, of every command: one document or a stream of objects on standard
//! output, and what went wrong as one object on standard error.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use clap::CommandFactory;
use holdfast::cli::args::Arguments;
use serde_json::Value;

use crate::data;
use crate::site::{REHEARSER, Site, TAKER};
use crate::transcript::{Run, program};

/// How a command is called, as whom, and what comes of it.
struct Call {
    host: &'static str,
    arguments: Vec<String>,
    exit: i32,
}

/// What shows that a command's good answer is JSON.
enum Good {
    /// One document on standard output, and nothing else anywhere.
    Document(Call),
    /// It needs programs that this binary's tests do without: this test of another file shows it.
    Elsewhere(&'static str),
}

struct Case {
    good: Good,
    bad: Call,
    /// The code of the one error.
    code: &'static str,
}

fn call(host: &'static str, arguments: &[&str], exit: i32) -> Call {
    Call { host, arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(), exit }
}

fn case(good: Good, bad: Call, code: &'static str) -> Case {
    Case { good, bad, code }
}

/// Every command, down to the last word of its name.
fn cases(site: &Site) -> BTreeMap<&'static str, Case> {
    let good = |arguments: &[&str]| Good::Document(call(REHEARSER, arguments, 0));
    let bad = |arguments: &[&str], exit| call(REHEARSER, arguments, exit);
    let nowhere = "/nowhere/at/all";
    let nobody = "20990101T000000Z-00000000";
    // A run that waits for people is needed: `runbook.rs` has one.
    let answered = |_: &str| Good::Elsewhere("tests/cli/runbook.rs: --json");
    let file = data::path("tiny.snap");
    let file = file.to_str().unwrap();
    let man = site.path("man");
    let man = man.to_str().unwrap();
    BTreeMap::from([
        (
            "catalog rebuild",
            case(good(&["catalog", "rebuild"]), bad(&["catalog", "rebuild", "--config", nowhere], 3), "config.unreadable"),
        ),
        ("completions", case(good(&["completions", "fish"]), bad(&["completions", "tcsh"], 3), "usage")),
        (
            "daemon",
            case(Good::Elsewhere("tests/cli/daemon.rs: wait_for"), bad(&["daemon", "--config", nowhere], 3), "config.unreadable"),
        ),
        ("demo", case(Good::Elsewhere("tests/e2e/demo/interrupted.rs: is_event"), bad(&["demo"], 2), "tool.missing")),
        (
            "doctor",
            case(Good::Document(call(TAKER, &["doctor"], 1)), bad(&["doctor", "--config", nowhere], 3), "config.unreadable"),
        ),
        (
            "inspect",
            case(Good::Document(call(REHEARSER, &["inspect", file], 1)), bad(&["inspect", nowhere], 2), "inspect.unreadable"),
        ),
        ("list", case(good(&["list"]), bad(&["list", "--config", nowhere], 3), "config.unreadable")),
        ("man", case(good(&["man", "--out", man]), bad(&["man", "--out", "/dev/null/man"], 2), "output")),
        ("rehearse", case(good(&["rehearse", "latest", "--to", "open"]), bad(&["rehearse", "20990101"], 2), "snapshot.unknown")),
        ("report", case(good(&["report"]), bad(&["report", nobody], 2), "run.unknown")),
        (
            "restore",
            case(
                Good::Elsewhere("tests/e2e/restore/find.rs: --json"),
                bad(&["restore", "--into", "elsewhere"], 3),
                "restore.member",
            ),
        ),
        ("runbook begin", case(answered("begin"), bad(&["runbook", "begin", nobody, "decide"], 2), "run.unknown")),
        ("runbook done", case(answered("done"), bad(&["runbook", "done", nobody, "decide"], 2), "run.unknown")),
        (
            "runbook list",
            case(good(&["runbook", "list"]), bad(&["runbook", "list", "--config", nowhere], 3), "config.unreadable"),
        ),
        ("runbook note", case(answered("note"), bad(&["runbook", "note", nobody, "seen"], 2), "run.unknown")),
        ("runbook resume", case(answered("resume"), bad(&["runbook", "resume", nobody], 2), "run.unknown")),
        ("runbook run", case(answered("run"), bad(&["runbook", "run", "nothing"], 3), "runbook.unknown")),
        (
            "runbook show",
            case(good(&["runbook", "show", "etcd-restore"]), bad(&["runbook", "show", "nothing"], 3), "runbook.unknown"),
        ),
        ("scratch down", case(good(&["scratch", "down", "--all"]), bad(&["scratch", "down", "nobody"], 2), "scratch.unknown")),
        (
            "scratch list",
            case(good(&["scratch", "list"]), bad(&["scratch", "list", "--config", nowhere], 3), "config.unreadable"),
        ),
        ("show", case(good(&["show", "latest"]), bad(&["show", "20990101"], 2), "snapshot.unknown")),
        (
            "snapshot",
            case(Good::Elsewhere("tests/cli/snapshot.rs: print(taken, true"), call(TAKER, &["snapshot"], 2), "etcd.unreachable"),
        ),
        ("verify", case(good(&["verify"]), bad(&["verify", "20990101"], 2), "snapshot.unknown")),
    ])
}

/// The full names of all commands that do something.
fn commands() -> BTreeSet<String> {
    fn add(command: &clap::Command, name: &str, found: &mut BTreeSet<String>) {
        let below: Vec<_> = command.get_subcommands().filter(|command| command.get_name() != "help").collect();
        if below.is_empty() {
            found.insert(name.to_owned());
        }
        for command in below {
            add(command, format!("{name} {}", command.get_name()).trim_start(), found);
        }
    }
    let mut found = BTreeSet::new();
    add(&Arguments::command(), "", &mut found);
    found
}

fn run(site: &Site, call: &Call) -> Run {
    let mut arguments: Vec<&str> = call.arguments.iter().map(String::as_str).collect();
    arguments.push("--json");
    let mut command = program();
    if !arguments.contains(&"--config") {
        command.arg("--config").arg(site.config(call.host));
    }
    // No program of this machine takes part.
    command.args(&arguments).env("PATH", "").env("HOME", site.root.path()).env_remove("XDG_CACHE_HOME");
    Run::of(command.output().unwrap(), &arguments, site.root.path()).exits(call.exit)
}

#[test]
fn every_command_is_in_the_table() {
    let site = Site::new();
    let known: BTreeSet<String> = cases(&site).into_keys().map(str::to_owned).collect();
    assert_eq!(commands(), known, "each command says what it prints with --json, in a good and in a bad case");
}

#[test]
fn every_good_answer_is_one_document() {
    let site = Site::with_snapshots();
    // Something to report.
    site.ask(&["verify"]).exits(0);
    for (name, case) in cases(&site) {
        match case.good {
            Good::Document(call) => {
                let run = run(&site, &call);
                assert!(run.document().is_object(), "{name}: {run:#?}");
                assert_eq!(run.stderr, "", "{name}");
            }
            Good::Elsewhere(place) => {
                let (file, text) = place.split_once(": ").unwrap();
                let source = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
                assert!(source.contains(text), "{name}: {place}");
            }
        }
    }
}

#[test]
fn every_failure_is_one_object_on_standard_error() {
    let site = Site::with_snapshots();
    for (name, case) in cases(&site) {
        let run = run(&site, &case.bad);
        let value: Value = serde_json::from_str(&run.stderr).unwrap_or_else(|error| panic!("{name}: {error}: {run:#?}"));
        assert_eq!(value["error"]["code"], case.code, "{name}: {run:#?}");
        run.refuses(case.code);
    }
}

#[test]
fn the_log_of_a_command_is_json_too() {
    let site = Site::with_snapshots();
    // Where nobody listens the client has something to log, whichever of its parts does.
    let log = |arguments: &[&str]| {
        let output = site.command(TAKER, arguments).env("HOLDFAST_LOG", "trace").output().unwrap();
        Run::of(output, arguments, site.root.path()).exits(2).stderr
    };
    let json = log(&["snapshot", "--json"]);
    let lines: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.len() > 1 && lines.last().unwrap()["error"]["code"] == "etcd.unreachable", "{json}");
    assert!(lines[..lines.len() - 1].iter().all(|line| line["level"].is_string()), "{json}");
    let text = log(&["snapshot"]);
    assert!(text.lines().count() > 3 && text.lines().all(|line| !line.starts_with('{')), "{text}");
}
