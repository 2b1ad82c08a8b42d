//! Completions and manual pages, as shells and `man` read them.

use std::fs;
use std::process::{Command, Stdio};

use crate::site::Site;
use crate::transcript::{Run, program};

fn run(arguments: &[&str]) -> Run {
    let nowhere = std::path::Path::new("/nowhere");
    Run::of(program().args(arguments).output().unwrap(), arguments, nowhere)
}

/// What bash says after it has read the completions.
#[allow(clippy::disallowed_methods)] // the shell that reads the script
fn bash(script: &str, then: &str) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("holdfast.bash");
    fs::write(&path, script).unwrap();
    let command = format!("set -eu; bash -n {0}; source {0}; {then}", path.display());
    let output = Command::new("bash").args(["--norc", "-c", &command]).stdin(Stdio::null()).output().unwrap();
    (output.status.success(), String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap())
}

#[test]
fn bash_reads_the_completions_and_completes_commands_and_options() {
    let script = run(&["completions", "bash"]).exits(0).stdout;
    let (good, registered) = bash(&script, "complete -p holdfast");
    assert!(good && registered.contains("-F _holdfast"), "{registered}");
    let complete = |words: &str| {
        let then = format!(
            "COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _holdfast holdfast \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\"; echo \"${{COMPREPLY[@]}}\""
        );
        bash(&script, &format!("set +eu; {then}")).1
    };
    assert_eq!(complete("holdfast reh").trim(), "rehearse");
    assert!(complete("holdfast rehearse --").contains("--resume"));
    assert_eq!(complete("holdfast rehearse --to se").trim(), "serve");
    let (good, complaint) = bash("_holdfast() { if; }", "true");
    assert!(!good && complaint.contains("syntax error"), "a script that bash cannot read is found: {complaint}");
}

#[test]
fn every_shell_has_completions_and_others_are_refused() {
    for (shell, sign) in [
        ("zsh", "#compdef holdfast"),
        ("fish", "complete -c holdfast"),
        ("elvish", "edit:completion"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        let script = run(&["completions", shell]).exits(0).stdout;
        assert!(script.contains(sign) && script.contains("catalog"), "{shell}: {script}");
    }
    run(&["completions", "tcsh", "--json"]).exits(3).refuses("usage");
    let document = run(&["completions", "bash", "--json"]).exits(0).document();
    assert_eq!(document["shell"], "bash");
    assert_eq!(document["script"], run(&["completions", "bash"]).stdout);
}

#[test]
fn the_manual_has_a_page_for_each_command_and_is_replaced_by_a_newer_one() {
    let site = Site::new();
    let folder = site.path("man/man1");
    let out = folder.to_str().unwrap();
    let written = site.ask(&["man", "--out", out]).exits(0).stdout;
    assert_eq!(written.lines().next(), Some("[ROOT]/man/man1/holdfast.1"));
    fs::write(folder.join("holdfast.1"), "of an earlier version").unwrap();
    let document = site.ask(&["man", "--out", out, "--json"]).exits(0).document();
    assert_eq!(document["written"].as_array().unwrap().len(), written.lines().count());
    let page = fs::read_to_string(folder.join("holdfast.1")).unwrap();
    assert_eq!(page, site.ask(&["man"]).exits(0).stdout);
    assert_eq!(site.ask(&["man", "--json"]).exits(0).document()["page"], page.as_str());
    assert!(page.starts_with(".ie") && page.contains(".TH holdfast 1") && page.contains("holdfast\\-rehearse(1)"), "{page}");
    let rehearse = fs::read_to_string(folder.join("holdfast-rehearse.1")).unwrap();
    assert!(rehearse.contains("\\-\\-resume") && rehearse.contains("Go on with a run that was cut off"), "{rehearse}");
}

#[test]
fn a_manual_that_cannot_be_written_is_an_error() {
    let site = Site::new();
    fs::write(site.path("file"), "").unwrap();
    let out = site.path("file/man1");
    site.ask(&["man", "--out", out.to_str().unwrap(), "--json"]).exits(2).refuses("output");
}
