//! Configuration, files and the state directory.

use holdfast::doctor::{Area, Status};

use super::bench::{Bench, Role};

#[tokio::test]
async fn a_host_that_only_takes_snapshots_has_nothing_worse_than_notes_in_its_configuration() {
    let bench = Bench::new(Role::ControlPlane);
    let found = bench.examine(Area::Config).await;
    assert_eq!(found.worse_than(Status::Note), Vec::<&str>::new(), "{found}");
    assert!(found.good("cp-1").finding.contains("can open none"), "{found}");
    assert!(found.good("files").finding.starts_with("4 files"), "{found}");
    found.good(bench.site.state.path().to_str().unwrap());
}

#[tokio::test]
async fn a_host_with_both_roles_is_told_what_that_weakens() {
    let both = Bench::new(Role::Both).examine(Area::Config).await;
    assert!(both.one("doctor.config.both-roles").finding.contains("every snapshot and every key"), "{both}");
    let rehearsal = Bench::new(Role::Rehearsal).examine(Area::Config).await;
    assert!(rehearsal.one("doctor.config.reads-everything").finding.contains("while the identity files are here"), "{rehearsal}");
    assert!(!rehearsal.has("doctor.config.both-roles"), "{rehearsal}");
    let reader = Bench::new(Role::Reader).examine(Area::Config).await;
    reader.one("doctor.config.reader");
}

#[tokio::test]
async fn one_identity_alone_rehearses_nothing() {
    let bench = Bench::new(Role::Rehearsal);
    let line = format!("identity_file = {:?}\n", bench.path("escrow.identity"));
    let found = bench.edit(&line, "").examine(Area::Config).await;
    assert_eq!(found.one("doctor.config.half-rehearsal").object, "snapshots.identity_file", "{found}");
}

#[tokio::test]
async fn recipients_of_the_example_are_an_error() {
    let bench = Bench::new(Role::ControlPlane);
    let recipient = bench.escrow_recipient.clone();
    let example = holdfast::config::defaults::EXAMPLE_RECIPIENTS[1];
    let found = bench.edit(&recipient, example).examine(Area::Config).await;
    assert_eq!(found.one("doctor.config.example-recipient").object, "escrow.recipients", "{found}");
}

#[tokio::test]
async fn files_that_are_missing_or_open_to_others_are_named_with_the_key_that_names_them() {
    let bench = Bench::new(Role::ControlPlane);
    bench.chmod("encryption.yaml", 0o640);
    bench.chmod("allowed_signers", 0o666);
    std::fs::remove_file(bench.path("signing.key")).unwrap();
    let found = bench.examine(Area::Config).await;
    let readable = found.one("doctor.config.secret-readable");
    assert_eq!(readable.object, bench.path("encryption.yaml").to_str().unwrap());
    assert!(readable.finding.contains("0640") && readable.next.as_ref().unwrap().contains("chmod 600"), "{found}");
    let writable = found.one("doctor.config.trust-writable");
    assert_eq!(writable.object, bench.path("allowed_signers").to_str().unwrap());
    assert_eq!(writable.status, Status::Error);
    assert!(found.one("doctor.config.file-missing").finding.contains("host.signing_key"), "{found}");
}

#[tokio::test]
async fn a_state_directory_that_takes_no_file_is_an_error() {
    let bench = Bench::new(Role::ControlPlane);
    let state = bench.site.state.path().display().to_string();
    // The kernel lets nobody make a file there, not even root.
    let found = bench.edit(&state, "/proc/sys").examine(Area::Config).await;
    assert_eq!(found.one("doctor.state.unwritable").object, "/proc/sys", "{found}");
}

#[tokio::test]
async fn a_state_directory_that_is_not_there_is_not_made_by_looking() {
    let bench = Bench::new(Role::ControlPlane);
    let absent = bench.path("absent");
    let state = bench.site.state.path().display().to_string();
    let bench = bench.edit(&state, absent.to_str().unwrap());
    let found = bench.examine(Area::Config).await;
    found.one("doctor.state.missing");
    let ledger = bench.examine(Area::Ledger).await;
    assert!(ledger.has("state.unusable"), "{ledger}");
    assert!(!absent.exists());
}

#[tokio::test]
async fn a_schedule_without_a_daemon_is_a_warning_and_one_with_it_is_not() {
    let bench = Bench::new(Role::ControlPlane).edit("[rehearsal]", "[schedule]\nsnapshot = \"0 * * * *\"\n[rehearsal]");
    bench.examine(Area::Config).await.one("doctor.state.no-daemon");
    let lock = std::fs::File::create(bench.site.state.path().join("daemon.lock")).unwrap();
    lock.lock().unwrap();
    let found = bench.examine(Area::Config).await;
    assert!(!found.has("doctor.state.no-daemon"), "{found}");
    assert!(found.one("doctor.state.held").object.ends_with("/daemon.lock"), "{found}");
}

#[tokio::test]
async fn other_writers_and_holders_of_locks_in_the_state_directory_are_named() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new(Role::ControlPlane);
    let state = bench.site.state.path();
    std::fs::set_permissions(state, std::fs::Permissions::from_mode(0o770)).unwrap();
    let lock = std::fs::File::create(state.join("some.lock")).unwrap();
    lock.lock().unwrap();
    let found = bench.examine(Area::Config).await;
    assert!(found.one("doctor.state.open-to-others").finding.contains("0770"), "{found}");
    let held = found.one("doctor.state.held");
    assert!(held.object.ends_with("/some.lock") && held.finding.contains(&std::process::id().to_string()), "{found}");
    let left: Vec<_> = std::fs::read_dir(state).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("doctor")), "{left:?}");
}
