//! Rights at stores: what must be granted is, and what must be denied is asked for.

use std::sync::Arc;

use holdfast::base::clock::{Clock, ManualClock, SystemClock};
use holdfast::doctor::{self, Area, Host, Status};
use holdfast::sandbox::Places;
use holdfast::station::Station;
use jiff::SignedDuration;

use super::bench::{Bench, Diagnosis, Role};
use crate::rig::s3::{Credential, Grant, S3Server};

/// Three buckets, and a host whose credentials a test grants things to.
struct Site {
    server: S3Server,
    bench: Bench,
    /// In the order of [`PLACES`].
    users: Vec<Credential>,
    clock: Arc<dyn Clock>,
}

const PLACES: [&str; 3] = ["snapshots", "escrow", "ledger"];

impl Site {
    async fn new(role: Role, versioned: bool) -> Self {
        Self::with(S3Server::start().await, role, versioned).await
    }

    async fn with(mut server: S3Server, role: Role, versioned: bool) -> Self {
        let mut bench = Bench::new(role);
        let mut users = Vec::new();
        for place in PLACES {
            server.bucket(place, versioned).await;
            let user = server.user(&format!("user-{place}"));
            user.write(&bench.path(&format!("{place}.credentials")));
            users.push(user);
            let fs = format!("[{place}.store.fs]\npath = {:?}\n", bench.path(place));
            let mut s3 = format!(
                "[{place}.store.s3]\nbucket = {place:?}\nendpoint = {:?}\nregion = {:?}\n",
                server.endpoint(),
                server.region()
            );
            if let Some(ca) = server.ca() {
                s3 += &format!("ca = {ca:?}\n");
            }
            s3 += &format!("[{place}.store.s3.credentials]\nfile = {:?}\n", bench.path(&format!("{place}.credentials")));
            bench = bench.edit(&fs, &s3);
        }
        Self { server, bench, users, clock: SystemClock::new() }
    }

    async fn grant(&mut self, place: &str, grant: Grant) {
        let user = self.user_of(place);
        self.server.grant(place, &user, grant).await;
    }

    fn user_of(&self, place: &str) -> Credential {
        self.users[PLACES.iter().position(|name| *name == place).unwrap()].clone()
    }

    /// What the operator of a control-plane host is told to grant.
    async fn control_plane(versioned: bool) -> Self {
        let mut site = Self::new(Role::ControlPlane, versioned).await;
        for (place, grant) in [("snapshots", Grant::Write), ("escrow", Grant::Write), ("ledger", Grant::Append)] {
            site.grant(place, grant).await;
        }
        site
    }

    async fn examine(&self, area: Area) -> Diagnosis {
        let file = self.bench.host().file;
        let station = Station { clock: self.clock.clone(), ..Station::open(&file).unwrap() };
        let host = Host::new(station, file, Places::default());
        let checks: Vec<_> = doctor::checks().into_iter().filter(|check| check.area() == area).collect();
        Diagnosis(doctor::examine(&host, &checks, doctor::DEADLINE).await)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_may_only_put_is_good_and_leaves_one_probe_a_day() {
    let site = Site::control_plane(true).await;
    for _ in 0..2 {
        let found = site.examine(Area::Stores).await;
        assert_eq!(found.worse_than(Status::Note), Vec::<&str>::new(), "{found}");
        for place in ["snapshots", "escrow"] {
            assert_eq!(found.good(place).finding, "grants put, and denies get, list, delete", "{found}");
        }
        assert_eq!(found.good("ledger").finding, "grants put, get, list, and denies delete", "{found}");
        assert!(found.good("credentials").finding.contains("no other"), "{found}");
        // The writer may not ask, and nothing is claimed.
        assert_eq!(found.0.iter().filter(|f| f.code == Some("doctor.store.versions-untold")).count(), 3, "{found}");
    }
    for place in PLACES {
        let names = site.server.names(place).await;
        assert!(names.len() == 1 && names[0].starts_with("backup/prod/doctor/cp-1-"), "{place}: {names:?}");
        assert_eq!(site.server.open_uploads(place).await, 0, "{place}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_may_read_or_delete_is_a_finding_and_destroys_nothing_that_counts() {
    let mut site = Site::control_plane(false).await;
    site.grant("snapshots", Grant::Read).await;
    site.grant("escrow", Grant::All).await;
    let root = site.server.root_client();
    let real = "backup/prod/keys/hf1-0/real.age";
    root.put_object().bucket("escrow").key(real).body(b"sealed".to_vec().into()).send().await.unwrap();
    let found = site.examine(Area::Stores).await;
    let read: Vec<_> = found.0.iter().filter(|f| f.code == Some("doctor.store.read-allowed")).collect();
    assert_eq!(read.len(), 2, "{found}");
    assert!(read[0].object.starts_with("snapshots (s3 ") && read[0].status == Status::Warning, "{found}");
    let delete = found.one("doctor.store.delete-allowed");
    assert!(delete.object.starts_with("escrow (s3 ") && delete.status == Status::Error, "{found}");
    // Who may ask is told: this bucket keeps no versions.
    assert!(found.one("doctor.store.versions-off").object.starts_with("escrow"), "{found}");
    assert_eq!(site.server.names("escrow").await, [real], "the probe is gone, and nothing else");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_denies_what_this_host_must_do_is_an_error() {
    let mut site = Site::new(Role::ControlPlane, true).await;
    site.grant("escrow", Grant::Write).await;
    site.grant("ledger", Grant::Read).await;
    let found = site.examine(Area::Stores).await;
    let denied: Vec<_> =
        found.0.iter().filter(|f| f.code == Some("doctor.store.put-denied")).map(|f| f.object.as_str()).collect();
    assert!(denied.len() == 2 && denied[0].starts_with("snapshots") && denied[1].starts_with("ledger"), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_may_put_is_a_finding_and_one_that_may_not_read_is_an_error() {
    let mut site = Site::new(Role::Rehearsal, true).await;
    for (place, grant) in [("snapshots", Grant::Read), ("escrow", Grant::Read), ("ledger", Grant::Append)] {
        site.grant(place, grant).await;
    }
    let found = site.examine(Area::Stores).await;
    assert_eq!(found.worse_than(Status::Note), Vec::<&str>::new(), "{found}");
    assert_eq!(found.good("snapshots").finding, "grants list, and denies put, delete", "{found}");
    assert_eq!(site.server.names("snapshots").await, Vec::<String>::new());

    site.grant("snapshots", Grant::Write).await;
    site.server.revoke("escrow").await;
    let found = site.examine(Area::Stores).await;
    assert!(found.one("doctor.store.put-allowed").object.starts_with("snapshots"), "{found}");
    assert!(found.one("doctor.store.list-denied").object.starts_with("escrow"), "{found}");

    // What may only put there is asked to read what it put.
    site.server.revoke("snapshots").await;
    site.grant("snapshots", Grant::Write).await;
    let found = site.examine(Area::Stores).await;
    let denied = found.one("doctor.store.read-denied");
    assert!(denied.object.starts_with("snapshots") && denied.status == Status::Error, "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_that_opens_another_store_is_an_error() {
    let mut site = Site::control_plane(true).await;
    let (snapshots, ledger) = (site.user_of("snapshots"), site.user_of("ledger"));
    site.server.grant("escrow", &snapshots, Grant::Read).await;
    site.server.grant("snapshots", &ledger, Grant::Write).await;
    let found = site.examine(Area::Stores).await;
    let crossed: Vec<_> = found.0.iter().filter(|f| f.code == Some("doctor.store.crossed")).collect();
    assert_eq!(crossed.len(), 2, "{found}");
    assert!(crossed.iter().all(|finding| finding.status == Status::Error));
    assert_eq!(crossed[0].object, "credential of snapshots");
    assert!(crossed[0].finding.starts_with("may list, get at escrow (s3 "), "{found}");
    assert_eq!(crossed[1].object, "credential of ledger");
    assert!(crossed[1].finding.starts_with("may put at snapshots (s3 "), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_down_does_not_hide_the_others_and_a_wrong_secret_is_named() {
    let mut site = Site::control_plane(true).await;
    site.server.user("user-escrow");
    let found = site.examine(Area::Stores).await;
    let refused = found.one("store.denied");
    assert!(refused.finding.contains("SignatureDoesNotMatch") && refused.object.contains("/escrow"), "{found}");
    found.good("snapshots");
    site.server.stop().await;
    let found = site.examine(Area::Stores).await;
    assert_eq!(found.0.iter().filter(|f| f.code == Some("store.unreachable") && f.status == Status::Error).count(), 3, "{found}");
    assert!(!found.has("doctor.no-answer"), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clock_is_held_against_the_store_s_own() {
    let mut site = Site::with(S3Server::start_with_tls().await, Role::ControlPlane, true).await;
    let endpoint = site.server.endpoint();
    assert!(site.examine(Area::Clocks).await.good(&endpoint).finding.contains("agree"));
    for (minutes, code) in [(-3, "doctor.clocks.off"), (30, "doctor.clocks.wrong")] {
        site.clock = ManualClock::at(SystemClock::new().now() + SignedDuration::from_mins(minutes));
        let found = site.examine(Area::Clocks).await;
        assert_eq!(found.one(code).object, endpoint, "{found}");
        // Its certificate is one of a day, from an authority of the test's own.
        found.one("doctor.store.certificate-ends");
    }
}

#[tokio::test]
async fn a_directory_is_told_what_it_cannot_keep_apart_and_one_that_is_gone_is_an_error() {
    let bench = Bench::new(Role::ControlPlane);
    for place in ["snapshots", "ledger"] {
        std::fs::create_dir(bench.path(place)).unwrap();
    }
    let found = bench.examine(Area::Stores).await;
    let told: Vec<_> = found.0.iter().filter(|f| f.code == Some("doctor.store.not-separated")).collect();
    assert!(told.len() == 2 && told[0].finding.contains("may also destroy"), "{found}");
    let gone = found.one("store.unreachable");
    assert!(gone.object.contains("/escrow") && gone.finding.contains("is the file system mounted"), "{found}");
    assert!(std::fs::read_dir(bench.path("snapshots")).unwrap().next().is_none(), "nothing is put into a directory");
    let reader = Bench::new(Role::Reader).examine(Area::Stores).await;
    assert!(reader.0.iter().any(|f| f.status == Status::NotApplicable && f.object.starts_with("escrow")), "{reader}");
}
