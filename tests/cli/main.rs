//! The program as it is called: what it prints, where, and with which exit code.
//!
//! `cmd/` holds transcripts that need no state; the modules here prepare hosts
//! and stores through the library, run the program on them, and compare what it
//! says with transcripts in `snapshots/`.

#![allow(clippy::unwrap_used)] // fixtures are as free to unwrap as tests

mod answers;
mod daemon;
#[path = "../rig/daemon.rs"]
#[allow(dead_code)]
mod daemon_rig;
#[path = "../it/data.rs"]
#[allow(dead_code)] // shared with `it`, which uses more of it
mod data;
mod doctor;
#[path = "../it/etcd_image.rs"]
#[allow(dead_code)]
mod etcd_image;
mod forged;
mod machine;
mod progress;
mod rehearse;
mod restore;
mod resume;
mod runbook;
#[path = "../it/report/sample.rs"]
#[allow(dead_code)]
mod sample;
mod shells;
mod signals;
mod site;
mod snapshot;
mod sources;
mod streams;
#[path = "../it/test_key.rs"]
#[allow(dead_code)]
mod test_key;
mod transcript;
mod units;
mod widths;

/// Help, usage, and whatever needs nothing but files of the repository.
#[test]
fn commands_without_state_say_what_was_recorded() {
    trycmd::TestCases::new().default_bin_name("holdfast").env("NO_COLOR", "1").case("tests/cli/cmd/*.trycmd").run();
}
