//! What the project depends on: licences, packages that must not come in, one
//! source, one TLS stack, and a reason for each direct dependency.
#![allow(clippy::disallowed_methods, reason = "cargo metadata is a process, and tests may start it")]

use std::process::Command;

use serde_json::Value;

use crate::licence::is_accepted;
use crate::source::{Source, library};
use crate::{assert_none, assert_one, read, repository};

/// A second TLS or crypto stack, or packages that are unsound or abandoned.
const BANNED: [&str; 9] =
    ["aws-lc-rs", "aws-lc-sys", "backoff", "native-tls", "openssl", "openssl-sys", "serde_yaml", "serde_yml", "sqlx"];

/// Two versions of these would mean two TLS stacks.
const ONE_VERSION: [&str; 2] = ["ring", "rustls"];

/// Declared and not used yet. The list only shrinks: an entry that is used, or not declared, fails.
const NOT_USED_YET: [&str; 0] = [];

const SOURCE: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Findings on Cargo.lock, which covers every platform.
fn lock_findings(lock: &toml::Table) -> Vec<String> {
    let packages: Vec<(&str, Option<&str>)> = lock["package"]
        .as_array()
        .unwrap()
        .iter()
        .map(|package| (package["name"].as_str().unwrap(), package.get("source").and_then(toml::Value::as_str)))
        .collect();
    let mut findings = Vec::new();
    for (name, source) in &packages {
        if BANNED.contains(name) {
            findings.push(format!("{name} must not be used"));
        }
        if *name != env!("CARGO_PKG_NAME") && *source != Some(SOURCE) {
            findings.push(format!("{name} comes from {source:?}, not from crates.io"));
        }
    }
    for name in ONE_VERSION {
        let versions = packages.iter().filter(|(known, _)| *known == name).count();
        if versions != 1 {
            findings.push(format!("there are {versions} versions of {name}, not one"));
        }
    }
    findings
}

fn licence_findings(metadata: &Value) -> Vec<String> {
    let packages = metadata["packages"].as_array().unwrap().iter();
    let named = packages.map(|package| (package["name"].as_str().unwrap(), package["license"].as_str().unwrap_or_default()));
    named.filter(|(_, licence)| !is_accepted(licence)).map(|(name, licence)| format!("{name} has licence {licence:?}")).collect()
}

/// Each dependency has a comment on the line above, or at the end of its own.
fn reason_findings(manifest: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let (mut in_dependencies, mut commented) = (false, false);
    for line in manifest.lines() {
        if line.starts_with('[') {
            in_dependencies = line.ends_with("dependencies]");
        } else if in_dependencies
            && line.contains(" = ")
            && !line.starts_with([' ', '#', ']'])
            && !commented
            && !line.contains(" # ")
        {
            findings.push(format!("Cargo.toml gives no reason for: {line}"));
        }
        commented = line.starts_with("# ");
    }
    findings
}

/// Dependencies that no file of the library names, and exceptions that say too much.
fn use_findings(manifest: &toml::Table, sources: &[Source], not_used_yet: &[&str]) -> Vec<String> {
    let declared: Vec<&String> = manifest["dependencies"].as_table().unwrap().keys().collect();
    let is_used = |name: &str| sources.iter().any(|source| source.places(&name.replace('-', "_")).next().is_some());
    let unused = declared.iter().filter(|name| !not_used_yet.contains(&name.as_str()) && !is_used(name));
    let mut findings: Vec<String> = unused.map(|name| format!("{name} is a dependency and nothing uses it")).collect();
    let stale = not_used_yet.iter().filter(|name| is_used(name) || !declared.iter().any(|known| known == *name));
    findings.extend(stale.map(|name| format!("{name} needs no exception: remove it from NOT_USED_YET")));
    findings
}

fn metadata() -> Value {
    let verbose = Command::new("rustc").arg("-vV").output().unwrap();
    let verbose = String::from_utf8(verbose.stdout).unwrap();
    let host = verbose.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let arguments = ["metadata", "--format-version=1", "--offline", "--locked", "--filter-platform", host];
    let output = Command::new(env!("CARGO")).args(arguments).current_dir(repository()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn dependencies_come_from_one_place_with_one_tls_stack() {
    assert_none(&lock_findings(&toml::from_str(&read("Cargo.lock")).unwrap()));
}

#[test]
fn dependencies_have_accepted_licences() {
    assert_none(&licence_findings(&metadata()));
}

#[test]
fn dependencies_have_reasons() {
    assert_none(&reason_findings(&read("Cargo.toml")));
}

#[test]
fn dependencies_are_used() {
    assert_none(&use_findings(&toml::from_str(&read("Cargo.toml")).unwrap(), library(), &NOT_USED_YET));
}

#[test]
fn unused_dependencies_and_stale_exceptions_are_found() {
    let manifest = toml::from_str("[dependencies]\na-b = \"1\"\nc = \"1\"\n").unwrap();
    let sources = [Source::parse("src/x.rs", "use a_b::D; // c")];
    assert_none(&use_findings(&manifest, &sources, &["c"]));
    assert_one(&use_findings(&manifest, &sources, &[]), "c is a dependency and nothing uses it");
    assert_one(&use_findings(&manifest, &sources, &["c", "a-b"]), "a-b needs no exception");
    assert_one(&use_findings(&manifest, &sources, &["c", "gone"]), "gone needs no exception");
}

#[test]
fn bad_locks_are_found() {
    let package = |name: &str, source: &str| format!("[[package]]\nname = \"{name}\"\nsource = \"{source}\"\n");
    let good = package("ring", SOURCE) + &package("rustls", SOURCE);
    let findings = |more: &str| lock_findings(&toml::from_str(&(good.clone() + more)).unwrap());
    assert_none(&findings("[[package]]\nname = \"holdfast\"\n"));
    assert_one(&findings(&package("openssl-sys", SOURCE)), "openssl-sys must not be used");
    assert_one(&findings(&package("tonic", "git+https://example.org/tonic")), "not from crates.io");
    assert_one(&findings("[[package]]\nname = \"tonic\"\n"), "not from crates.io");
    assert_one(&findings(&package("rustls", SOURCE)), "2 versions of rustls");
}

#[test]
fn bad_licences_and_missing_reasons_are_found() {
    let metadata =
        serde_json::json!({"packages": [{"name": "good", "license": "MIT"}, {"name": "bad", "license": "GPL-3.0-only"}]});
    assert_one(&licence_findings(&metadata), "bad has licence \"GPL-3.0-only\"");
    assert_one(&licence_findings(&serde_json::json!({"packages": [{"name": "silent", "license": null}]})), "silent has licence");
    assert_one(&reason_findings("[dependencies]\n# why\na = \"1\"\nb = \"1\"\n"), "no reason for: b");
    assert_one(&reason_findings("# far away\n[dev-dependencies]\na = \"1\"\n"), "no reason for: a");
    assert_none(&reason_findings(
        "[package]\nname = \"x\"\n[dependencies]\n# why\na = \"1\"\nb = \"1\" # why\n[profile.dev]\ndebug = true\n",
    ));
}
