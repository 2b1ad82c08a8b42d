//! The doctor and a real etcd: members that stop, certificates of every age.

use std::path::PathBuf;

use holdfast::base::clock::{Clock, ManualClock, SystemClock};
use holdfast::config::{self, EtcdConfig};
use holdfast::doctor::{self, Area, Finding, Host, Status};
use holdfast::sandbox::Places;
use holdfast::station::Station;
use jiff::SignedDuration;

use crate::rig::certificates::{Authority, Wanted};
use crate::rig::etcd::{EtcdRig, Pki, Wire};

/// A host with this etcd and nothing else that is looked at here.
fn host(folder: &tempfile::TempDir, etcd: EtcdConfig) -> Host {
    let example = include_str!("../../config.example.toml");
    let mut config = config::parse("config.example.toml", example).unwrap();
    config.etcd = Some(etcd);
    config.host.state_dir = folder.path().to_owned();
    let file = folder.path().join("holdfast.toml");
    std::fs::write(&file, example).unwrap();
    let station = Station { config, ..Station::open(&file).unwrap() };
    Host::new(station, file, Places::default())
}

async fn examine(host: &Host, area: Area) -> Vec<Finding> {
    let checks: Vec<_> = doctor::checks().into_iter().filter(|check| check.area() == area).collect();
    doctor::examine(host, &checks, doctor::DEADLINE).await
}

#[track_caller]
fn one<'a>(found: &'a [Finding], code: &str) -> &'a Finding {
    let with: Vec<_> = found.iter().filter(|finding| finding.code == Some(code)).collect();
    assert_eq!(with.len(), 1, "{code}: {found:#?}");
    with[0]
}

fn troubles(found: &[Finding]) -> Vec<&str> {
    found.iter().filter(|finding| finding.status < Status::Ok).map(|finding| finding.code.unwrap_or_default()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn three_members_are_good_and_one_that_stopped_or_is_not_configured_is_named() {
    let mut rig = EtcdRig::start(3, Wire::Tls(Box::new(Pki::good()))).await;
    let folder = tempfile::tempdir().unwrap();
    let found = examine(&host(&folder, rig.config()), Area::Etcd).await;
    assert_eq!(troubles(&found), Vec::<&str>::new(), "{found:#?}");
    let leaders = found.iter().filter(|finding| finding.finding.starts_with("answers: leader"));
    assert_eq!(leaders.count(), 1, "{found:#?}");
    assert!(found.iter().any(|finding| finding.finding == "begins a snapshot for this host"), "{found:#?}");
    let valid = found.iter().filter(|finding| finding.finding.contains("is valid until"));
    assert_eq!(valid.count(), 5, "the authority's, the client's and three members': {found:#?}");
    let clocks = examine(&host(&folder, rig.config()), Area::Clocks).await;
    let agree = clocks.iter().filter(|finding| finding.object.starts_with("https://") && finding.status == Status::Ok);
    assert_eq!(agree.count(), 3, "{clocks:#?}");

    // Of one configured endpoint all members are found; none of the others must be missed.
    let one_endpoint = EtcdConfig { endpoints: vec![rig.endpoint(0)], ..rig.config() };
    let found = examine(&host(&folder, one_endpoint.clone()), Area::Etcd).await;
    let note = one(&found, "doctor.etcd.endpoints");
    assert!(note.finding.contains("m1") && note.finding.contains("m2"), "{found:#?}");
    assert_eq!(troubles(&found).len(), 1, "{found:#?}");

    rig.stop_member(2).await;
    rig.until_led().await;
    let found = examine(&host(&folder, rig.config()), Area::Etcd).await;
    let down = one(&found, "etcd.unreachable");
    assert_eq!((down.object.as_str(), down.status), (rig.endpoint(2).as_str(), Status::Error));
    let found = examine(&host(&folder, one_endpoint), Area::Etcd).await;
    assert!(one(&found, "doctor.etcd.member-unseen").object.contains("m2"), "{found:#?}");

    // Nobody leads the last of three.
    rig.stop_member(1).await;
    let alone = EtcdConfig { endpoints: vec![rig.endpoint(0)], ..rig.config() };
    let leaderless = async {
        loop {
            let found = examine(&host(&folder, alone.clone()), Area::Etcd).await;
            if found.iter().any(|finding| finding.code == Some("doctor.etcd.no-leader")) {
                return found;
            }
        }
    };
    let found = tokio::time::timeout(crate::rig::etcd::READY_LIMIT, leaderless).await.unwrap();
    assert_eq!(one(&found, "doctor.etcd.no-leader").object, rig.endpoint(0), "{found:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn alarms_learners_and_members_that_never_started_are_told() {
    let rig = EtcdRig::start(1, Wire::Plain).await;
    let folder = tempfile::tempdir().unwrap();
    let mut client = rig.client().await;
    client.alarm(etcd_client::AlarmAction::Activate, etcd_client::AlarmType::Nospace, None).await.unwrap();
    let found = examine(&host(&folder, rig.config()), Area::Etcd).await;
    assert!(one(&found, "doctor.etcd.alarm-nospace").finding.contains("NOSPACE"), "{found:#?}");
    let learner = etcd_client::MemberAddOptions::new().with_is_learner();
    client.member_add(["http://127.0.0.1:9"], Some(learner)).await.unwrap();
    let found = examine(&host(&folder, rig.config()), Area::Etcd).await;
    assert!(one(&found, "doctor.etcd.member-unstarted").object.contains("(unnamed)"), "{found:#?}");
    // A member that keeps its connections and says nothing is as good as gone.
    rig.pause_member(0);
    let found = examine(&host(&folder, rig.config()), Area::Etcd).await;
    assert!(one(&found, "etcd.unreachable").finding.contains("no answer within"), "{found:#?}");
    rig.resume_member(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_server_certificate_is_named_with_its_day_and_kubeadm() {
    let authority = Authority::new("etcd-ca");
    let server = authority.leaf(&Wanted { name: "etcd", to_day: -3, ..Wanted::default() });
    let client = authority.leaf(&Wanted { name: "holdfast", server: false, to_day: 10, ..Wanted::default() });
    let rig = EtcdRig::launch(1, Wire::Tls(Box::new(Pki { authority, server, client }))).await;
    let folder = tempfile::tempdir().unwrap();
    let found = until(&host(&folder, rig.config()), "doctor.etcd.certificate-expired").await;
    let expired = one(&found, "doctor.etcd.certificate-expired");
    assert_eq!(expired.object, format!("certificate of {}", rig.endpoint(0)));
    assert!(expired.finding.starts_with("(CN=etcd) expired "), "{expired:?}");
    assert!(expired.next.as_ref().unwrap().contains("kubeadm certs renew"), "{expired:?}");
    // And no snapshot can be taken, which its own code says.
    assert_eq!(one(&found, "etcd.tls").object, rig.endpoint(0), "{found:#?}");
    // This host's own certificate ends in ten days.
    let ends = one(&found, "doctor.etcd.certificate-ends");
    assert_eq!((ends.object.as_str(), ends.status), (rig.pki("client.crt").to_str().unwrap(), Status::Warning));
    assert!(!found.iter().any(|finding| finding.code == Some("doctor.etcd.certificate-wrong")), "said once: {found:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_certificate_that_a_member_refuses_is_named_from_both_sides() {
    let rig = EtcdRig::start(1, Wire::Tls(Box::new(Pki::good()))).await;
    let folder = tempfile::tempdir().unwrap();
    let stranger = Authority::new("somebody-else");
    // Signed by the right authority and expired; or by another; or not for clients.
    let files =
        |name: &str, wanted: Wanted<'_>, by: &Authority| -> (PathBuf, PathBuf) { by.leaf(&wanted).write(folder.path(), name) };
    let authority = rig.authority().unwrap();
    let expired = files("expired", Wanted { name: "old", to_day: -1, ..Wanted::default() }, authority);
    let foreign = files("foreign", Wanted { name: "foreign", ..Wanted::default() }, &stranger);
    let server_only = files("server-only", Wanted { name: "server-only", client: false, ..Wanted::default() }, authority);
    let with = |(cert, key): &(PathBuf, PathBuf)| EtcdConfig { cert: Some(cert.clone()), key: Some(key.clone()), ..rig.config() };
    for (pair, of_the_file) in [
        (&expired, Some("doctor.etcd.certificate-expired")),
        (&foreign, None),
        (&server_only, Some("doctor.etcd.certificate-usage")),
    ] {
        let found = examine(&host(&folder, with(pair)), Area::Etcd).await;
        let refused = one(&found, "doctor.etcd.certificate-refused");
        assert_eq!((refused.object.as_str(), refused.status), (rig.endpoint(0).as_str(), Status::Error), "{found:#?}");
        if let Some(code) = of_the_file {
            assert_eq!(one(&found, code).object, pair.0.to_str().unwrap(), "{found:#?}");
        }
    }
    // Without any certificate, too.
    let none = EtcdConfig { cert: None, key: None, ..rig.config() };
    one(&examine(&host(&folder, none), Area::Etcd).await, "doctor.etcd.certificate-refused");
    // A pair of two halves.
    let halves = with(&(rig.pki("client.crt"), foreign.1.clone()));
    assert_eq!(
        one(&examine(&host(&folder, halves), Area::Etcd).await, "doctor.etcd.key-mismatch").object,
        foreign.1.to_str().unwrap()
    );
    // Another authority than the member's.
    let other = folder.path().join("other-ca.crt");
    std::fs::write(&other, stranger.certificate()).unwrap();
    let found = examine(&host(&folder, EtcdConfig { ca: Some(other), ..rig.config() }), Area::Etcd).await;
    assert!(one(&found, "doctor.etcd.certificate-wrong").finding.contains("UnknownIssuer"), "{found:#?}");
    // A file that is none.
    let nonsense = folder.path().join("nonsense.crt");
    std::fs::write(&nonsense, "NONSENSE").unwrap();
    let found = examine(&host(&folder, EtcdConfig { ca: Some(nonsense.clone()), ..rig.config() }), Area::Etcd).await;
    assert_eq!(one(&found, "doctor.etcd.certificate-unreadable").object, nonsense.to_str().unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_the_certificate_does_not_have_an_old_authority_and_a_wrong_clock_are_told() {
    let authority = Authority::between("etcd-ca", -700, 20);
    let server = authority.leaf(&Wanted { name: "etcd", hosts: &["127.0.0.1"], ..Wanted::default() });
    let client = authority.leaf(&Wanted { name: "holdfast", server: false, ..Wanted::default() });
    let rig = EtcdRig::start(1, Wire::Tls(Box::new(Pki { authority, server, client }))).await;
    let folder = tempfile::tempdir().unwrap();
    let named = EtcdConfig { endpoints: vec![rig.endpoint(0).replace("127.0.0.1", "localhost")], ..rig.config() };
    let found = examine(&host(&folder, named), Area::Etcd).await;
    assert!(one(&found, "doctor.etcd.certificate-wrong").finding.contains("not valid for name"), "{found:#?}");
    assert_eq!(one(&found, "doctor.etcd.authority-ends").object, rig.pki("ca.crt").to_str().unwrap());

    for (minutes, code) in [(-5, "doctor.clocks.off"), (5, "doctor.clocks.off"), (20, "doctor.clocks.wrong")] {
        let mut host = host(&folder, rig.config());
        let wrong = SystemClock::new().now() + SignedDuration::from_mins(minutes);
        host.station.clock = ManualClock::at(wrong);
        let found = examine(&host, Area::Clocks).await;
        assert_eq!(one(&found, code).object, rig.endpoint(0), "{minutes}: {found:#?}");
    }
}

/// A member that was only launched opens its door a moment later.
async fn until(host: &Host, code: &str) -> Vec<Finding> {
    let found = async {
        loop {
            let found = examine(host, Area::Etcd).await;
            if found.iter().any(|finding| finding.code == Some(code)) {
                return found;
            }
        }
    };
    tokio::time::timeout(crate::rig::etcd::READY_LIMIT, found).await.expect("the member opens its door")
}
