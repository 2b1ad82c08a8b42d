//! The rules of this code base that a machine can check. Each rule is a
//! function from text to findings; one test holds the repository to it, and a
//! twin shows on a bad sample that it can fail.
#![allow(clippy::unwrap_used)] // a rule that cannot read its subject has failed

#[path = "tidy/architecture.rs"]
mod architecture;
#[path = "tidy/dependencies.rs"]
mod dependencies;
#[path = "tidy/doctor_page.rs"]
mod doctor_page;
#[path = "tidy/error_page.rs"]
mod error_page;
#[path = "tidy/habits.rs"]
mod habits;
#[path = "tidy/layers.rs"]
mod layers;
#[path = "tidy/licence.rs"]
mod licence;
#[path = "tidy/metrics.rs"]
mod metrics;
#[path = "tidy/names.rs"]
mod names;
#[path = "tidy/sizes.rs"]
mod sizes;
#[path = "tidy/source.rs"]
mod source;
#[path = "tidy/words.rs"]
mod words;

use std::path::Path;

/// The directory that holds Cargo.toml.
fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Fails with one finding a line.
#[track_caller]
fn assert_none(findings: &[String]) {
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

/// Fails unless there is exactly one finding and it holds `text`.
#[track_caller]
fn assert_one(findings: &[String], text: &str) {
    assert!(findings.len() == 1 && findings[0].contains(text), "expected one finding with {text:?}, not {findings:#?}");
}
