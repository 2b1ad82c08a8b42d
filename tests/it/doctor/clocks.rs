//! The clock against the times that others have written.

use std::time::Duration;

use holdfast::base::clock::ManualClock;
use holdfast::doctor::{Area, Status};

use super::bench::{Bench, Role};

#[tokio::test]
async fn a_clock_behind_the_newest_record_is_a_warning_and_then_an_error() {
    let mut bench = Bench::new(Role::ControlPlane);
    bench.site.manifest("13:05", 10, vec![]);
    bench.deliver().await;
    for (now, code) in [
        ("2026-12-01T13:05:30Z", None),
        ("2026-12-01T13:04:30Z", None),
        ("2026-12-01T13:03:30Z", Some("doctor.clocks.off")),
        ("2026-12-01T12:50:00Z", Some("doctor.clocks.wrong")),
    ] {
        bench.clock = ManualClock::at(now.parse().unwrap());
        let found = bench.examine(Area::Clocks).await;
        let told: Vec<_> = found.worse_than(Status::Note);
        assert_eq!(told, code.into_iter().collect::<Vec<_>>(), "{now}: {found}");
    }
    bench.clock.advance(Duration::from_secs(3600));
    assert_eq!(bench.examine(Area::Clocks).await.worse_than(Status::Note), Vec::<&str>::new());
}
