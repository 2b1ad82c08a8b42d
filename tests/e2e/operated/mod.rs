//! Some minutes of two daemons: one snapshots three etcd members into three
//! buckets that it may only write to, one proves the snapshots on another host.

mod hosts;
mod metrics;
mod site;

use std::collections::BTreeSet;

use holdfast::base::entropy::OsEntropy;
use holdfast::demo::workload;
use serde_json::Value;

use crate::rig::apiserver::ApiServer;
use crate::rig::etcd::{EtcdRig, Pki, Wire};
use crate::rig::s3::S3Server;
use crate::scene;
use hosts::{Daemon, Hosts, until};
use metrics::Metrics;
use site::{CONTROL_PLANE, REHEARSAL, Site};

const SNAPSHOT_SUCCESS: &str = "holdfast_job_last_success_timestamp_seconds{kind=\"snapshot\"}";
const SNAPSHOT_FAILURES: &str = "holdfast_job_consecutive_failures{kind=\"snapshot\"}";
const REHEARSAL_SUCCESS: &str = "holdfast_job_last_success_timestamp_seconds{kind=\"rehearsal\"}";
const REHEARSAL_FAILURES: &str = "holdfast_job_consecutive_failures{kind=\"rehearsal\"}";
const PROVEN: &str = "holdfast_last_proven_restore_timestamp_seconds{rung=\"serve\"}";
const NEWEST_GOOD: &str = "holdfast_newest_good_snapshot_timestamp_seconds";
const GOOD: &str = "holdfast_snapshots{quality=\"good\"}";

#[tokio::test(flavor = "multi_thread")]
async fn daemons_keep_backing_up_and_proving_while_stores_and_members_come_and_go() {
    let mut etcd = EtcdRig::start(3, Wire::Tls(Box::new(Pki::good()))).await;
    let mut s3 = S3Server::start_with_tls().await;
    let encryption = scene::encryption(vec![scene::key("key1")]);
    let apiserver = ApiServer::start(&etcd, &encryption).await;
    workload::write(&apiserver.client, &OsEntropy).await.unwrap();
    let encryption_config = apiserver.encryption_config();
    let _files = apiserver.stop().await;
    let site = Site::build(&etcd, &mut s3, &encryption_config).await;
    let hosts = Hosts::up(&site).await;

    // Scheduled snapshots appear, and the other host proves one, told of it by the ledger alone.
    let backup = hosts.daemon(CONTROL_PLANE).await;
    until("a scheduled snapshot", || async { backup.metric(SNAPSHOT_SUCCESS).await > 0.0 }).await;
    assert_eq!(backup.metric(PROVEN).await, 0.0, "nobody has proven anything yet");
    let rehearsal = hosts.daemon(REHEARSAL).await;
    until("a proof", || async { rehearsal.metric(REHEARSAL_SUCCESS).await > 0.0 }).await;
    until("the proof is seen on the other host", || async { backup.metric(PROVEN).await > 0.0 }).await;
    assert_eq!(backup.health().await.0, 200);
    assert_eq!(rehearsal.health().await.0, 200);

    stores_come_and_go(&mut s3, &backup, &rehearsal).await;
    members_come_and_go(&mut etcd, &backup).await;

    // Clean stops, then an accounting that no daemon takes part in.
    backup.stop().await;
    rehearsal.stop().await;
    let listed: Value = hosts.json(REHEARSAL, &["list"]).await;
    account(&listed, &s3).await;
    assert_eq!(hosts.left_in_scratch(), Vec::<String>::new());

    // A daemon that has done nothing yet knows all the same.
    site.set(CONTROL_PLANE, "snapshot", "0 0 1 1 *");
    let idle = hosts.daemon(CONTROL_PLANE).await;
    until("the ledger is read", || async { idle.metric("holdfast_ledger_last_read_timestamp_seconds").await > 0.0 }).await;
    tell_the_truth(&idle.metrics().await, &listed);
    idle.stop().await;
}

/// What a daemon shows is what the ledger says.
fn tell_the_truth(shown: &Metrics, listed: &Value) {
    let seconds = |value: &Value| value.as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_second() as f64;
    let rows = listed["snapshots"].as_array().unwrap();
    let good: Vec<&Value> = rows.iter().filter(|row| row["quality"] == "good").collect();
    let newest = good.iter().map(|row| seconds(&row["taken"])).fold(0.0, f64::max);
    assert_eq!((shown.get(GOOD), shown.get(NEWEST_GOOD)), (good.len() as f64, newest), "{shown:?}");
    assert_eq!(shown.get(PROVEN), seconds(&listed["last_proven_restore"]["at"]), "{shown:?}");
    assert_eq!((shown.get("holdfast_ledger_findings"), shown.get("holdfast_outbox_records")), (0.0, 0.0));
    let keys = shown.family("holdfast_key_versions");
    let known: Vec<(&str, f64)> = keys.into_iter().filter(|(_, count)| *count > 0.0).collect();
    assert_eq!(known, [("holdfast_key_versions{state=\"escrowed\",needed=\"yes\"}", 1.0)]);
}

/// Without stores no snapshot is called good; once they are back, all goes on.
async fn stores_come_and_go(s3: &mut S3Server, backup: &Daemon, rehearsal: &Daemon) {
    let before = backup.metrics().await;
    s3.stop().await;
    until("a snapshot that fails for want of stores", || async { backup.metric(SNAPSHOT_FAILURES).await > 0.0 }).await;
    until("a rehearsal that fails for want of stores", || async { rehearsal.metric(REHEARSAL_FAILURES).await > 0.0 }).await;
    let during = backup.metrics().await;
    assert!(during.get(NEWEST_GOOD) >= before.get(NEWEST_GOOD), "what is known is not forgotten");
    s3.restart().await;
    let last = during.get(SNAPSHOT_SUCCESS);
    until("a snapshot after the stores are back", || async { backup.metric(SNAPSHOT_SUCCESS).await > last }).await;
    until("no snapshot failure is left", || async { backup.metric(SNAPSHOT_FAILURES).await == 0.0 }).await;
    until("all records are delivered", || async { backup.metric("holdfast_outbox_records").await == 0.0 }).await;
    let newest = backup.metric(NEWEST_GOOD).await;
    until("a proof after the stores are back", || async {
        let now = backup.metrics().await;
        now.get(PROVEN) > newest
    })
    .await;
}

/// One member less is nothing; two less is no quorum, and that is told.
async fn members_come_and_go(etcd: &mut EtcdRig, backup: &Daemon) {
    etcd.stop_member(0).await;
    etcd.until_led().await;
    let last = backup.metric(SNAPSHOT_SUCCESS).await;
    until("a snapshot of two members", || async { backup.metric(SNAPSHOT_SUCCESS).await > last }).await;
    etcd.stop_member(1).await;
    until("a snapshot that fails for want of a leader", || async { backup.metric(SNAPSHOT_FAILURES).await > 0.0 }).await;
    let last = backup.metric(SNAPSHOT_SUCCESS).await;
    etcd.start_member(0).await;
    etcd.start_member(1).await;
    etcd.until_led().await;
    until("a snapshot of three members", || async { backup.metric(SNAPSHOT_SUCCESS).await > last }).await;
    until("no failure is left", || async { backup.metric(SNAPSHOT_FAILURES).await == 0.0 }).await;
}

/// Every manifest in the bucket is in the ledger, every one that is listed is
/// restorable and has its objects, and no chain has a gap.
async fn account(listed: &Value, s3: &S3Server) {
    assert_eq!(listed["findings"].as_array().map(Vec::len), Some(0), "{listed}");
    let rows = listed["snapshots"].as_array().unwrap();
    let ids: BTreeSet<&str> = rows.iter().map(|row| row["id"].as_str().unwrap()).collect();
    let good: Vec<&Value> = rows.iter().filter(|row| row["quality"] == "good").collect();
    assert!(good.len() >= 4, "{listed}");
    assert!(good.iter().all(|row| row["restorable"] == true), "{listed}");
    let names = s3.names("snapshots").await;
    let stored: BTreeSet<&str> = names.iter().filter_map(|name| name.strip_suffix("/manifest.json")).collect();
    let stored: BTreeSet<&str> = stored.into_iter().filter_map(|folder| folder.rsplit('/').next()).collect();
    assert_eq!(stored, ids, "the ledger and the store tell of the same snapshots");
    for id in &stored {
        for part in ["etcd.db.zst.age", "manifest.json.sig", "RESTORE.md"] {
            assert!(names.iter().any(|name| name.ends_with(&format!("{id}/{part}"))), "{id} has no {part}");
        }
    }
    assert_eq!(s3.open_uploads("snapshots").await, 0, "no upload is left half way");
}
