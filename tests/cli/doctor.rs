//! `doctor`: what it says of a host, where all is well and where it is not.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::site::{REHEARSER, Site, TAKER};
use crate::transcript::{Run, recorded};

/// What the machine decides and not the host's files: findings about these.
const OF_THE_MACHINE: [&str; 5] = ["clock:", "memory:", "locked memory:", "fence:", "node:"];

/// The answer without what differs from machine to machine: what is of the
/// machine is left out, and a text with a path is one line, wherever it broke.
fn without_the_machine(run: &Run) -> String {
    let mut blocks: Vec<Vec<&str>> = Vec::new();
    for line in run.stdout.lines() {
        match blocks.last_mut() {
            // A path that is wider than its column has a line for itself.
            Some(block) if line.starts_with("    ") || line.starts_with("  [ROOT]") => block.push(line),
            _ => blocks.push(vec![line]),
        }
    }
    let of_the_machine = |block: &[&str]| {
        let object = block[0].get(11..).unwrap_or_default();
        // The last line counts what is left out, too.
        OF_THE_MACHINE.iter().any(|of| object.starts_with(of)) || block[0].contains(" of cluster ")
    };
    let kept = blocks.iter().filter(|block| !of_the_machine(block));
    kept.map(|block| if block.concat().contains("[ROOT]") { joined(block) } else { block.join("\n") + "\n" }).collect()
}

/// A finding with its text in one line.
fn joined(block: &[&str]) -> String {
    let is_label = |line: &&&str| line.trim_start().starts_with("code: ");
    let labels = block.iter().position(|line| is_label(&line)).unwrap_or(block.len());
    let words: Vec<&str> = block[..labels].iter().flat_map(|line| line.split_whitespace()).collect();
    let rest: String = block[labels..].iter().map(|line| format!("{line}\n")).collect();
    format!("  {:<9}{}\n{rest}", words[0], words[1..].join(" "))
}

#[test]
fn a_host_that_lacks_its_etcd_is_told_so_and_all_else_is_looked_at() {
    let site = Site::with_snapshots();
    let run = site.run(TAKER, &["doctor"]).exits(1).fits();
    recorded("doctor", without_the_machine(&run));
    assert_eq!(run.stderr, "");
    let summary = run.stdout.lines().last().unwrap();
    assert!(summary.starts_with("cp-1 of cluster bench: "), "{summary}");
}

#[test]
fn the_same_is_one_document_for_machines() {
    let site = Site::with_snapshots();
    let run = site.run(TAKER, &["doctor", "--json"]).exits(1);
    let document = run.document();
    assert_eq!((document["host"].as_str(), document["cluster"].as_str()), (Some(TAKER), Some("bench")));
    assert_eq!(document["exit"], 1);
    let findings = document["findings"].as_array().unwrap();
    assert!(findings.len() > 20, "{document:#}");
    for finding in findings {
        let is_trouble = matches!(finding["status"].as_str(), Some("error" | "unknown" | "warning"));
        for field in ["area", "status", "object", "finding"] {
            assert!(finding[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {finding:#}");
        }
        assert!(!is_trouble || (finding["code"].is_string() && finding["next"].is_string()), "{finding:#}");
    }
    let refused = findings.iter().find(|finding| finding["code"] == "etcd.unreachable").unwrap();
    assert_eq!((refused["area"].as_str(), refused["object"].as_str()), (Some("etcd"), Some("http://127.0.0.1:1")));
}

#[test]
fn nothing_worse_than_a_warning_is_exit_0_and_a_mistake_is_exit_3() {
    let site = Site::with_snapshots();
    for section in ["snapshots", "escrow"] {
        let identity = site.path(&format!("{section}.identity"));
        site.edit(REHEARSER, &format!("identity_file = {identity:?}\n"), "");
    }
    // A host that only reads, whose newest snapshot is of 2001: that is told, and is no error of this host.
    let run = site.run(REHEARSER, &["doctor", "--json"]).exits(0);
    let findings = run.document()["findings"].clone();
    assert!(findings.as_array().unwrap().iter().any(|finding| finding["status"] == "warning"), "{findings:#}");

    site.edit(TAKER, "[etcd]", "[etcd]\nnonsense = 1");
    site.run(TAKER, &["doctor", "--json"]).exits(3).refuses("config.invalid");
}

#[test]
fn no_secret_of_a_host_is_in_the_answer() {
    let site = Site::with_snapshots();
    // Secrets that are wrong are looked at most.
    fs::set_permissions(site.path(TAKER).join("signing.key"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(site.path("escrow.identity"), fs::Permissions::from_mode(0o644)).unwrap();
    for (host, flag) in [(TAKER, "--json"), (TAKER, "-v"), (REHEARSER, "--json"), (REHEARSER, "-v")] {
        let run = site.run(host, &["doctor", flag]);
        for stream in [&run.stdout, &run.stderr] {
            for secret in ["AGE-SECRET-KEY", "PRIVATE KEY", "secret:"] {
                assert!(!stream.contains(secret), "{secret}: {stream}");
            }
        }
    }
}
