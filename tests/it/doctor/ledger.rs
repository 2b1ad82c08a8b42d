//! The ledger and the outbox: whole, fresh, proven, delivered.

use std::time::Duration;

use holdfast::doctor::{self, Area, Status};
use holdfast::record::Rung;
use holdfast::store::ErrorKind;

use super::bench::{Bench, Role};
use crate::ledger::shelf::Rules;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A snapshot of 13:05 that a rehearsal proved at 14:00.
async fn proven() -> Bench {
    let bench = Bench::new(Role::ControlPlane);
    let taken = bench.site.manifest("13:05", 10, vec![]);
    bench.site.attestation(&taken, "13:05", "14:00", Some(Rung::Serve), true);
    bench.deliver().await;
    bench
}

#[tokio::test]
async fn a_fresh_proven_snapshot_in_a_whole_ledger_is_good() {
    let bench = proven().await;
    let found = bench.examine(Area::Ledger).await;
    assert_eq!(found.worse_than(Status::Ok), Vec::<&str>::new(), "{found}");
    assert!(found.good("snapshot").finding.contains("1 h 55 min ago"), "{found}");
    assert!(found.good("restore").finding.contains("1 h 0 min ago, to serve"), "{found}");
    found.good("outbox");
}

#[tokio::test]
async fn what_was_good_grows_old() {
    let bench = proven().await;
    bench.clock.advance(DAY + 2 * Duration::from_secs(3600));
    let found = bench.examine(Area::Ledger).await;
    assert_eq!(found.worse_than(Status::Ok), ["doctor.ledger.snapshot-old"], "{found}");
    bench.clock.advance(7 * DAY);
    let found = bench.examine(Area::Ledger).await;
    assert_eq!(found.worse_than(Status::Ok), ["doctor.ledger.snapshot-old", "doctor.ledger.proof-old"], "{found}");
    assert!(found.one("doctor.ledger.proof-old").finding.contains("8 d 3 h"), "{found}");
}

#[tokio::test]
async fn a_schedule_says_when_a_snapshot_is_late() {
    let bench = proven().await.edit("[rehearsal]", "[schedule]\nsnapshot = \"0 14 * * *\"\n[rehearsal]");
    // That of 13:05 would be fresh enough for a host without a schedule; here one was due at 14:00.
    bench.clock.advance(Duration::from_secs(2 * 3600));
    let found = bench.examine(Area::Ledger).await;
    let missed = found.one("doctor.ledger.slot-missed");
    assert!(missed.finding.contains("one was due at 2026-12-01T14:00:00Z"), "{found}");
    let patient = proven().await.edit("[rehearsal]", "[schedule]\nsnapshot = \"0 13 * * *\"\n[rehearsal]");
    assert_eq!(patient.examine(Area::Ledger).await.worse_than(Status::Ok), Vec::<&str>::new());
}

#[tokio::test]
async fn silence_of_rehearsals_and_of_snapshots_is_told() {
    let bench = Bench::new(Role::ControlPlane);
    let found = bench.examine(Area::Ledger).await;
    found.one("doctor.ledger.no-snapshot");
    bench.site.manifest("13:05", 10, vec![crate::ledger::records::need("gone", None, 1)]);
    bench.deliver().await;
    let found = bench.examine(Area::Ledger).await;
    found.one("doctor.ledger.never-proven");
    assert!(found.one("doctor.ledger.not-restorable").finding.contains("no known key"), "{found}");
    assert!(!found.has("doctor.ledger.no-snapshot"), "{found}");
}

#[tokio::test]
async fn records_that_wait_are_counted_with_the_store_that_lacks_them() {
    let bench = proven().await;
    bench.site.ledger.rule(Rules { down: Some(ErrorKind::Transient), ..Rules::default() });
    bench.site.receipt(crate::ledger::records::KEY1, "14:30");
    bench.site.receipt(crate::ledger::records::KEY2, "14:31");
    let found = bench.examine(Area::Ledger).await;
    let waiting = found.one("doctor.ledger.waiting");
    assert!(waiting.finding.contains("2 records for ledger"), "{found}");
    assert_eq!(waiting.status, Status::Warning);
    // And the ledger itself is down, while what was seen of it is still known.
    assert_eq!(found.one("ledger.unreachable").status, Status::Error, "{found}");
    bench.site.ledger.rule(Rules::default());
    bench.deliver().await;
    assert!(!bench.examine(Area::Ledger).await.has("doctor.ledger.waiting"));
}

#[tokio::test]
async fn an_overwritten_record_is_a_finding() {
    let bench = proven().await;
    let name = bench.site.ledger.names().into_iter().find(|name| name.contains("/manifests/")).unwrap();
    bench.site.ledger.plant(&name, b"{}");
    let found = bench.examine(Area::Ledger).await;
    assert!(found.0.iter().any(|f| f.code == Some("doctor.ledger.finding") && f.object == name), "{found}");
}

#[tokio::test(start_paused = true)]
async fn a_ledger_that_never_answers_is_told_and_what_was_seen_before_still_counts() {
    let bench = proven().await;
    bench.examine(Area::Ledger).await;
    bench.site.ledger.rule(Rules { silent: true, ..Rules::default() });
    let checks: Vec<_> = doctor::checks().into_iter().filter(|check| check.area() == Area::Ledger).collect();
    let found = super::bench::Diagnosis(doctor::examine(&bench.host(), &checks, doctor::DEADLINE).await);
    assert!(found.one("ledger.unreachable").finding.contains("no answer within"), "{found}");
    found.good("restore");
}
