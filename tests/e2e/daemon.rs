//! `holdfast daemon` against a real etcd that comes and goes, and a ledger that does, too.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use holdfast::record::signature::Signer;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::rig::daemon::Daemon;
use crate::rig::etcd::{EtcdRig, Pki, Wire};
use crate::snapshot::stalling_proxy::StallingProxy;

/// A control-plane host with stores in directories, and a schedule whose slots
/// are far away: what is done is done because it never was.
struct Host {
    root: tempfile::TempDir,
}

impl Host {
    fn new(etcd: &str) -> Self {
        let host = Self { root: tempfile::tempdir().unwrap() };
        for folder in ["snapshots", "escrow", "ledger", "state"] {
            fs::create_dir(host.at(folder)).unwrap();
        }
        let key = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/records/test-key");
        private(&host.at("signing.key"), &fs::read_to_string(key).unwrap());
        let signer = Signer::load(&host.at("signing.key"), "cp-1".parse().unwrap()).unwrap();
        fs::write(host.at("allowed_signers"), signer.public_line() + "\n").unwrap();
        let recipient = || age::x25519::Identity::generate().to_public().to_string();
        let (images, keys) = (recipient(), recipient());
        let place = |name: &str| host.at(name).display().to_string();
        let text = format!(
            "cluster = \"bench\"\n\n[host]\nname = \"cp-1\"\nstate_dir = {:?}\nsigning_key = {:?}\nallowed_signers = {:?}\n\n{etcd}\n\
             [snapshots]\nrecipients = [{images:?}]\nstore.fs.path = {:?}\n\n[escrow]\nrecipients = [{keys:?}]\nstore.fs.path = {:?}\n\n\
             [ledger]\nstore.fs.path = {:?}\n\n[schedule]\nsnapshot = \"0 0 1 1 *\"\n\n\
             [daemon]\nlisten = \"127.0.0.1:0\"\nretry_first = \"1s\"\nretry_longest = \"2s\"\nrefresh_interval = \"2s\"\n",
            place("state"),
            place("signing.key"),
            place("allowed_signers"),
            place("snapshots"),
            place("escrow"),
            place("ledger"),
        );
        fs::write(host.config(), text).unwrap();
        host
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn config(&self) -> PathBuf {
        self.at("holdfast.toml")
    }

    /// The snapshot of its slot was never taken, as far as the daemon knows.
    fn forget(&self) {
        fs::remove_file(self.at("state/daemon.json")).unwrap();
    }

    fn manifests(&self, store: &str) -> Vec<Value> {
        let files = crate::scene::files(&self.at(store)).into_iter();
        let is_manifest = |file: &PathBuf| {
            let text = file.display().to_string();
            text.ends_with(".json") && (text.contains("/manifests/") || text.ends_with("/manifest.json"))
        };
        files.filter(is_manifest).map(|file| serde_json::from_slice(&fs::read(file).unwrap()).unwrap()).collect()
    }
}

fn private(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// Enough that a stream has a middle.
async fn fill(etcd: &EtcdRig) {
    let mut client = etcd.client().await;
    for n in 0..8 {
        let metadata = json!({"name": format!("c{n}"), "namespace": "default"});
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": "x".repeat(200_000)}});
        client.put(format!("/registry/configmaps/default/c{n}"), object.to_string(), None).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_outlast_an_etcd_that_stops_and_a_ledger_that_is_gone() {
    let mut etcd = EtcdRig::start(1, Wire::Plain).await;
    fill(&etcd).await;
    etcd.stop_member(0).await;
    let host = Host::new(&etcd.section());

    // etcd is down when the daemon begins, and comes back.
    let mut daemon = Daemon::start(&host.config());
    daemon.wait_for("job failed");
    daemon.wait_for("job failed");
    assert!(daemon.metric("holdfast_job_consecutive_failures{kind=\"snapshot\"}") >= 2.0);
    assert_eq!(daemon.metric("holdfast_newest_good_snapshot_timestamp_seconds"), 0.0);
    etcd.start_member(0).await;
    let done = daemon.wait_for("job done");
    assert!(done["attempt"].as_u64().unwrap() > 2, "{done}");
    assert_eq!(daemon.metric("holdfast_job_consecutive_failures{kind=\"snapshot\"}"), 0.0);
    daemon.until_metric("holdfast_newest_good_snapshot_timestamp_seconds", |at| at > 0.0);
    assert!(daemon.metric("holdfast_newest_good_snapshot_image_bytes") > 1_000_000.0);
    assert_eq!(daemon.metric("holdfast_snapshots{quality=\"good\"}"), 1.0);
    let taken = host.manifests("snapshots");
    assert_eq!((taken.len(), taken[0]["taken"]["slot"].as_str().map(|slot| slot.ends_with("-01-01T00:00:00Z"))), (1, Some(true)));
    assert_eq!(daemon.end(Signal::TERM).0, 0);

    // The ledger is gone: the snapshot is taken, and what it has to say waits.
    host.forget();
    fs::rename(host.at("ledger"), host.at("away")).unwrap();
    fs::write(host.at("ledger"), "no directory").unwrap();
    let mut daemon = Daemon::start(&host.config());
    daemon.wait_for("job done");
    daemon.until_metric("holdfast_outbox_records", |waiting| waiting > 0.0);
    assert_eq!(daemon.ask("/healthz"), (200, "ok\n".into()));
    assert_eq!((host.manifests("snapshots").len(), host.manifests("away").len()), (2, 1));
    fs::remove_file(host.at("ledger")).unwrap();
    fs::rename(host.at("away"), host.at("ledger")).unwrap();
    daemon.until_metric("holdfast_outbox_records", |waiting| waiting == 0.0);
    daemon.until_metric("holdfast_snapshots{quality=\"good\"}", |good| good == 2.0);
    assert_eq!(daemon.metric("holdfast_ledger_findings"), 0.0);
    assert_eq!(host.manifests("ledger").len(), 2);
    let told = ["records wait in the outbox", "all records are delivered", "the ledger cannot be read; snapshots go on"];
    for message in told {
        assert_eq!(daemon.count(message), 1, "{message}: {:#?}", daemon.log);
    }
    assert_eq!(daemon.end(Signal::TERM).0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_or_a_kill_in_the_middle_of_a_snapshot_leaves_nothing_visible_and_the_next_life_takes_it() {
    let etcd = EtcdRig::start(1, Wire::Tls(Box::new(Pki::good()))).await;
    fill(&etcd).await;
    let host = Host::new(&etcd.section());
    let direct = fs::read_to_string(host.config()).unwrap();
    for is_killed in [false, true] {
        let proxy = StallingProxy::start(&etcd.endpoint(0), 300_000);
        fs::write(host.config(), direct.replace(&etcd.endpoint(0), &proxy.endpoint())).unwrap();
        let daemon = Daemon::start(&host.config());
        proxy.wait_until_it_stalls();
        if is_killed {
            daemon.kill();
        } else {
            let (code, log) = daemon.end(Signal::TERM);
            assert_eq!(code, 0, "{log:#?}");
            assert!(log.iter().any(|line| line["message"] == "job interrupted"), "{log:#?}");
            assert_eq!(crate::scene::files(&host.at("snapshots")), Vec::<PathBuf>::new(), "no temporary is left");
        }
        assert!(host.manifests("snapshots").is_empty() && host.manifests("ledger").is_empty());
    }
    fs::write(host.config(), direct).unwrap();
    let mut daemon = Daemon::start(&host.config());
    daemon.wait_for("job done");
    daemon.until_metric("holdfast_snapshots{quality=\"good\"}", |good| good == 1.0);
    assert_eq!((host.manifests("snapshots").len(), host.manifests("ledger").len()), (1, 1));
    assert_eq!(daemon.metric("holdfast_ledger_findings"), 0.0);
    assert_eq!(daemon.end(Signal::TERM).0, 0);
}
