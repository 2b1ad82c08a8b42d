//! Runs with people in them: asked at a terminal, answered from another, killed
//! and gone on with in between.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use holdfast::base::ids::RunId;
use holdfast::catalog::Catalog;
use holdfast::runbook::answer::waiting;
use holdfast::runbook::journal::{Entry, Event, Journal};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::data;
use crate::site::{REHEARSER, Site};
use crate::transcript::{Run, program};

/// A site whose rehearsal host has the drill, and no other page.
fn site() -> Site {
    let site = Site::with_snapshots();
    site.edit(REHEARSER, "[rehearsal]\n", &format!("[rehearsal]\nrunbooks = {:?}\n", site.path("runbooks")));
    fs::create_dir(site.path("runbooks")).unwrap();
    fs::copy(data::path("runbooks/drill.md"), site.path("runbooks/drill.md")).unwrap();
    site
}

fn journal(site: &Site) -> impl Journal + use<> {
    Catalog::journal(&site.path(REHEARSER).join("state")).unwrap()
}

fn newest_run(site: &Site) -> RunId {
    journal(site).runs().unwrap()[0].run.clone()
}

fn events(site: &Site, run: &RunId) -> Vec<Event> {
    journal(site).events(run).unwrap()
}

/// The report that was kept on the host.
fn report(site: &Site, run: &RunId) -> Value {
    let path = site.path(REHEARSER).join("state/reports").join(format!("{run}.json"));
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// A run that waits for people, and what it prints.
struct Attended {
    child: Child,
    out: BufReader<ChildStdout>,
    typing: Option<ChildStdin>,
    seen: String,
}

impl Attended {
    /// Without a terminal: answers come from elsewhere.
    fn apart(site: &Site, arguments: &[&str]) -> Self {
        Self::of(site.command(REHEARSER, arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// On a terminal of its own, at which the test types.
    #[allow(clippy::disallowed_methods)] // `script` of util-linux makes the terminal
    fn seated(site: &Site, arguments: &str) -> Self {
        let mut script = std::process::Command::new("script");
        let line = format!("{} --config {} {arguments}", program().get_program().display(), site.config(REHEARSER).display());
        script.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
        script.env("NO_COLOR", "1").env("LOGNAME", "alice").env_remove("SUDO_USER");
        script.stdin(Stdio::piped()).stdout(Stdio::piped());
        Self::of(script.spawn().unwrap_or_else(|error| panic!("script (apt-get install bsdutils): {error}")))
    }

    fn of(mut child: Child) -> Self {
        let (out, typing) = (BufReader::new(child.stdout.take().unwrap()), child.stdin.take());
        Self { child, out, typing, seen: String::new() }
    }

    /// Reads on until `text` is printed.
    #[track_caller]
    fn until(&mut self, text: &str) {
        let mut byte = [0];
        while !self.seen.ends_with(text) {
            assert_ne!(self.out.read(&mut byte).unwrap(), 0, "{text:?} never came after:\n{}", self.seen);
            self.seen.push(char::from(byte[0]));
        }
    }

    fn types(&mut self, line: &str) {
        writeln!(self.typing.as_mut().unwrap(), "{line}").unwrap();
    }

    fn ends(mut self, site: &Site, arguments: &[&str]) -> Run {
        self.out.read_to_string(&mut self.seen).unwrap();
        let mut output = self.child.wait_with_output().unwrap();
        output.stdout = self.seen.into_bytes();
        Run::of(output, arguments, site.root.path())
    }
}

/// The processes of the program that work with this site.
fn processes(site: &Site) -> Vec<Pid> {
    let root = site.config(REHEARSER).display().to_string();
    let is_ours = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        words.first().is_some_and(|word| word.ends_with("/holdfast")) && words.iter().any(|word| *word == root)
    };
    let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(is_ours).filter_map(Pid::from_raw).collect()
}

fn asked_of<'e>(events: &'e [Event], step: &str) -> &'e Event {
    events.iter().find(|event| matches!(&event.entry, Entry::Asked { step: asked, .. } if asked == step)).unwrap()
}

fn answer_of<'e>(events: &'e [Event], step: &str) -> &'e Event {
    events.iter().find(|event| matches!(&event.entry, Entry::Answered { step: answered, .. } if answered == step)).unwrap()
}

#[test]
fn a_run_asked_at_a_terminal_is_killed_gone_on_with_and_answered_from_elsewhere() {
    let site = site();
    let mut first = Attended::seated(&site, "runbook run drill");
    first.until("good when: A ticket names the lead and the time.");
    first.until("Enter when you begin: ");
    first.types("");
    first.until("Enter when it is done, f if it failed: ");
    first.types("");
    first.until("Who did it? Enter for alice: ");
    first.types("");
    first.until("Anything to note? Enter for nothing: ");
    first.types("INC-4711 <b>");
    first.until("Enter when you begin: ");
    let run = newest_run(&site);
    let [holdfast] = processes(&site).try_into().unwrap();
    kill_process(holdfast, Signal::KILL).unwrap();
    first.child.wait().unwrap();
    assert_eq!(waiting(&events(&site, &run)), Some(("decide", 1)), "a kill answers nothing");
    let open = site.ask(&["runbook", "list", "--json"]).exits(0).document();
    assert_eq!((&open["open_runs"][0]["run"], &open["open_runs"][0]["waits"]["step"]), (&run.as_str().into(), &"decide".into()));

    let arguments = ["runbook", "resume", run.as_str()];
    let mut second = Attended::apart(&site, &arguments);
    second.until(&format!("runbook done {run} decide\n"));
    let done = ["runbook", "done", run.as_str(), "decide", "--by", "bob", "--hands-on", "12m", "--note", "we lose an hour"];
    site.ask(&done).exits(0).is("runbook-done");
    let ended = second.ends(&site, &arguments).exits(0);
    assert!(ended.stdout.contains("done    decide                   by bob"), "{ended:#?}");
    ended.is("runbook-resumed");

    let (events, report) = (events(&site, &run), report(&site, &run));
    let begun = events.iter().find(|event| matches!(event.entry, Entry::Begun { .. })).unwrap();
    let (asked, answered) = (asked_of(&events, "declare"), answer_of(&events, "declare"));
    let declare = &report["manual"][0];
    assert_eq!((&declare["by"], &declare["note"]), (&"alice".into(), &"INC-4711 <b>".into()));
    assert_eq!(declare["waiting_ms"], begun.uptime_ms - asked.uptime_ms);
    assert_eq!(declare["hands_on_ms"], answered.uptime_ms - begun.uptime_ms);
    let (asked, answered) = (asked_of(&events, "decide"), answer_of(&events, "decide"));
    assert!(asked.process != answered.process && answered.process != events.last().unwrap().process);
    let took = u64::try_from(answered.at.duration_since(asked.at).as_millis()).unwrap();
    let decide = &report["manual"][1];
    assert_eq!((&decide["by"], &decide["stated"], &decide["by_wall"]), (&"bob".into(), &true.into(), &true.into()));
    assert_eq!((&decide["took_ms"], &decide["hands_on_ms"]), (&took.into(), &(12 * 60_000).into()));
    // Hands that were busy for longer than it was asked kept nobody waiting.
    assert_eq!((&decide["waiting_ms"], &decide["begun"]), (&0.into(), &decide["asked"]));
    assert_eq!(report["resumed"].as_array().unwrap().len(), 1);
    let people = &report["rto_parts"]["people"];
    let sum = |part: &str| people[part].as_u64().unwrap();
    assert_eq!(sum("waiting_ms") + sum("hands_on_ms"), declare["took_ms"].as_u64().unwrap() + took);
    let machine = report["rto_parts"]["machine_ms"].as_u64().unwrap();
    assert_eq!(report["rto"]["measured_ms"], machine + sum("waiting_ms") + sum("hands_on_ms"));
    assert_eq!((&report["verdict"]["result"], &report["verdict"]["reached"]), (&"passed".into(), &"open".into()));
    site.ask(&["report", run.as_str(), "--format", "text"]).exits(0);
}

#[test]
fn what_people_took_is_carried_by_the_next_run_that_asks_nobody() {
    let site = site();
    site.ask(&["runbook", "run", "drill", "--unattended"]).exits(0).is("runbook-unattended");
    let before = report(&site, &newest_run(&site));
    assert_eq!(before["rto_parts"]["unknown"], serde_json::json!(["declare", "decide"]));
    assert!(before["rto"]["met"].is_null(), "{:#}", before["rto"]);

    let arguments = ["runbook", "run", "drill"];
    let mut attended = Attended::apart(&site, &arguments);
    attended.until("declare\n");
    let run = newest_run(&site).to_string();
    site.ask(&["runbook", "begin", &run, "declare", "--by", "alice"]).exits(0).is("runbook-begin");
    site.ask(&["runbook", "done", &run, "declare", "--by", "alice"]).exits(0);
    attended.until("decide\n");
    site.ask(&["runbook", "note", &run, "restarted the jump host", "--by", "carol", "--hands-on", "9m"])
        .exits(0)
        .is("runbook-note");
    site.ask(&["runbook", "done", &run, "decide", "--by", "bob", "--json"]).exits(0).document();
    attended.ends(&site, &arguments).exits(0);
    let measured = report(&site, &newest_run(&site));
    assert_eq!(measured["unforeseen"][0]["hands_on_ms"], 9 * 60_000);
    site.ask(&["runbook", "note", &run, "too late", "--by", "carol", "--json"]).exits(2).refuses("run.finished");

    site.ask(&["runbook", "run", "drill", "--unattended"]).exits(0);
    let after = report(&site, &newest_run(&site));
    let taken = |step: usize| measured["manual"][step]["took_ms"].as_u64().unwrap();
    let carried = |step: usize| {
        let carried = &after["manual"][step]["carried"];
        assert_eq!(carried["run"], run.as_str());
        carried["waiting_ms"].as_u64().unwrap() + carried["hands_on_ms"].as_u64().unwrap()
    };
    assert_eq!((carried(0), carried(1)), (taken(0), taken(1)));
    let machine = after["rto_parts"]["machine_ms"].as_u64().unwrap();
    assert_eq!(after["rto"]["measured_ms"], machine + taken(0) + taken(1));
    assert_eq!(after["rto"]["met"], true);
    // A second unattended run carries what was measured, and not what was carried.
    site.ask(&["runbook", "run", "drill", "--unattended"]).exits(0);
    assert_eq!(report(&site, &newest_run(&site))["manual"][1]["carried"]["run"], run.as_str());
}

#[test]
fn a_rehearsal_waits_for_nobody_and_says_what_was_not_exercised() {
    let site = site();
    let page = fs::read_to_string(site.path("runbooks/drill.md")).unwrap().replace("id = \"drill\"", "id = \"etcd-restore\"");
    fs::write(site.path("runbooks/etcd-restore.md"), page).unwrap();
    let run = site.ask(&["verify"]).exits(0);
    assert!(run.stdout.contains("skipped declare") && run.stdout.contains("skipped decide"), "{run:#?}");
    let report = report(&site, &newest_run(&site));
    assert_eq!((&report["attended"], &report["identity"]["attended"]), (&Value::Null, &false.into()));
    assert!(report["manual"].as_array().unwrap().iter().all(|line| line["result"] == "not-exercised"));
}

#[test]
fn a_refusal_ends_the_run_with_exit_1_and_judges_no_snapshot() {
    let site = site();
    site.ask(&["verify"]).exits(3);
    let arguments = ["runbook", "run", "drill"];
    let mut attended = Attended::apart(&site, &arguments);
    attended.until("declare\n");
    let run = newest_run(&site).to_string();
    site.ask(&["runbook", "done", &run, "declare", "--by", "alice"]).exits(0);
    attended.until("decide\n");
    site.ask(&["runbook", "done", &run, "decide", "--by", "bob", "--failed", "--json"]).exits(2).refuses("run.step-not-open");
    site.ask(&["runbook", "done", &run, "decide", "--by", "bob", "--refuse", "--note", "too old"]).exits(0);
    let ended = attended.ends(&site, &arguments).exits(1);
    assert!(ended.stdout.contains("run.refused") && ended.stdout.contains("too old"), "{ended:#?}");
    let row = site.ask(&["list", "--json"]).exits(0).document()["snapshots"][0].clone();
    assert_eq!((&row["restorable"], &row["last_attempt"]["outcome"]), (&true.into(), &"not-judged".into()), "{row:#}");
    assert!(row["last_judged"].is_null());
    site.ask(&["list"]).exits(0).fits();
}

#[test]
fn answers_to_what_does_not_wait_are_refused_each_with_its_code() {
    let site = site();
    let refused =
        |arguments: &[&str], exit: i32, code: &str| site.ask(&[arguments, &["--json"]].concat()).exits(exit).refuses(code);
    refused(&["runbook", "done", "latest", "declare", "--by", "a"], 2, "run.unknown");
    let arguments = ["runbook", "run", "drill"];
    let mut attended = Attended::apart(&site, &arguments);
    attended.until("declare\n");
    let run = newest_run(&site).to_string();
    let tail = run.split_once('-').unwrap().1.to_owned();
    refused(&["runbook", "done", "20010101T000000Z-00000000", "declare", "--by", "a"], 2, "run.unknown");
    refused(&["runbook", "done", &run, "decide", "--by", "a"], 2, "run.step-not-open");
    refused(&["runbook", "done", &run, "tear-down", "--by", "a"], 2, "run.step-not-open");
    refused(&["runbook", "done", &run, "sign", "--by", "a"], 3, "run.step-unknown");
    refused(&["runbook", "done", &run, "declare", "--by", "a", "--refuse"], 2, "run.step-not-open");
    refused(&["runbook", "done", &run, "declare", "--by", ""], 3, "usage");
    refused(&["runbook", "done", &run, "declare", "--hands-on", "soon"], 3, "usage");
    refused(&["runbook", "done", &run, "declare", "--refuse", "--failed"], 3, "usage");
    refused(&["runbook", "note", &run, " "], 3, "usage");
    refused(&["rehearse", "--resume", &run], 3, "run.asks-people");
    let nobody = site
        .command(REHEARSER, &["runbook", "done", &run, "declare", "--json"])
        .env_remove("SUDO_USER")
        .env_remove("LOGNAME")
        .env_remove("USER")
        .output()
        .unwrap();
    Run::of(nobody, &[], site.root.path()).exits(3).refuses("usage");
    let known =
        site.command(REHEARSER, &["runbook", "done", &tail, "declare", "--json"]).env("SUDO_USER", "dora").output().unwrap();
    let known = Run::of(known, &[], site.root.path()).exits(0).document();
    assert_eq!((&known["entry"]["by"], &known["run"]), (&"dora".into(), &run.as_str().into()));
    refused(&["runbook", "done", &run, "declare", "--by", "a"], 2, "run.answered");
    attended.until("decide\n");
    site.ask(&["runbook", "done", &run, "decide", "--by", "b"]).exits(0);
    attended.ends(&site, &arguments).exits(0);
    refused(&["runbook", "done", &run, "decide", "--by", "b"], 2, "run.finished");
    refused(&["runbook", "resume", &run], 2, "run.journal");
}

#[test]
fn a_run_that_is_stopped_while_it_waits_stays_open_for_an_answer_of_any_later_day() {
    let site = site();
    for signal in [Signal::INT, Signal::HUP] {
        let arguments = ["runbook", "run", "drill"];
        let mut attended = Attended::apart(&site, &arguments);
        attended.until("declare\n");
        kill_process(Pid::from_child(&attended.child), signal).unwrap();
        let ended = attended.ends(&site, &arguments).exits(130);
        assert!(ended.stderr.contains("holdfast runbook resume"), "{ended:#?}");
    }
    let run = newest_run(&site).to_string();
    // No process of holdfast runs now.
    assert_eq!(processes(&site), []);
    site.ask(&["runbook", "done", &run, "declare", "--by", "alice"]).exits(0);
    site.ask(&["runbook", "list"]).exits(0).fits().is("runbook-list-open");
    let arguments = ["runbook", "resume", &run, "--json"];
    let attended = Attended::apart(&site, &arguments);
    let mut lines = BufReader::new(attended.child.stderr.as_ref().unwrap().try_clone_reader()).lines();
    let waits: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!((&waits["waits"]["run"], &waits["waits"]["step"]), (&run.as_str().into(), &"decide".into()));
    site.ask(&["runbook", "done", &run, "decide", "--by", "bob"]).exits(0);
    let ended = attended.ends(&site, &arguments).exits(0);
    assert_eq!(ended.document()["verdict"]["result"], "passed");
}

/// A reader of a stream that the child keeps.
trait CloneReader {
    fn try_clone_reader(&self) -> fs::File;
}

impl CloneReader for std::process::ChildStderr {
    fn try_clone_reader(&self) -> fs::File {
        use std::os::fd::AsFd;
        self.as_fd().try_clone_to_owned().unwrap().into()
    }
}

#[test]
fn runbooks_are_listed_and_shown_and_broken_ones_named() {
    let site = site();
    site.ask(&["runbook", "list"]).exits(0).fits().is("runbook-list");
    site.ask(&["runbook", "show", "drill"]).exits(0).fits().is("runbook-show");
    let document = site.ask(&["runbook", "show", "drill", "--json"]).exits(0).document();
    assert_eq!(document["steps"][0]["who"], "incident lead");
    for (arguments, code) in [
        (["runbook", "show", "none"], "runbook.unknown"),
        (["runbook", "show", "../drill"], "runbook.unknown"),
        (["runbook", "run", "none"], "runbook.unknown"),
    ] {
        site.ask(&[&arguments[..], &["--json"]].concat()).exits(3).refuses(code);
    }
    site.ask(&["runbook", "run", "drill", "--to", "serve", "--json"]).exits(3).refuses("usage");
    fs::copy(data::path("runbooks/broken.md"), site.path("runbooks/broken.md")).unwrap();
    fs::write(site.path("runbooks/README.md"), "no runbook").unwrap();
    fs::copy(site.path("runbooks/drill.md"), site.path("runbooks/other.md")).unwrap();
    let list = site.ask(&["runbook", "list", "--json"]).exits(1).document();
    assert_eq!((list["runbooks"].as_array().unwrap().len(), list["broken"].as_array().unwrap().len()), (1, 2), "{list:#}");
    site.ask(&["runbook", "show", "other", "--json"]).exits(3).refuses("runbook.invalid");
    let shipped = Site::new();
    let list = shipped.ask(&["runbook", "list", "--json"]).exits(0).document();
    assert_eq!((&list["runbooks"][0]["id"], &list["runbooks"][1]["id"]), (&"etcd-restore".into(), &"etcd-member".into()));
    shipped.ask(&["runbook", "run", "etcd-member", "--json"]).exits(3).refuses("usage");
    shipped.ask(&["runbook", "list"]).exits(0).fits();
    shipped.ask(&["runbook", "show", "etcd-restore"]).exits(0).fits();
}

#[test]
fn names_and_notes_do_not_steer_a_terminal() {
    let site = site();
    let arguments = ["runbook", "run", "drill"];
    let mut attended = Attended::apart(&site, &arguments);
    attended.until("declare\n");
    let run = newest_run(&site).to_string();
    let hostile = "e\u{1b}[2Jve\u{202e}<script>";
    let told = site.ask(&["runbook", "begin", &run, "declare", "--by", hostile]).exits(0);
    assert!(told.stdout.contains('\u{fffd}') && !told.stdout.contains('\u{202e}'), "{told:#?}");
    site.ask(&["runbook", "note", &run, hostile, "--by", hostile]).exits(0);
    site.ask(&["runbook", "list"]).exits(0);
    site.ask(&["runbook", "done", &run, "declare", "--by", hostile, "--failed", "--note", hostile]).exits(0);
    let ended = attended.ends(&site, &arguments).exits(1);
    assert!(!ended.stdout.contains('\u{202e}') && ended.stdout.contains('\u{fffd}'), "{ended:#?}");
    let page = fs::read_to_string(site.path(REHEARSER).join("state/reports").join(format!("{run}.html"))).unwrap();
    assert!(!page.contains("<script") && !page.contains('\u{1b}') && !page.contains('\u{202e}'));
    site.ask(&["report", &run]).exits(0);
}
