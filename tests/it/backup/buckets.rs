//! The whole backup side against three real buckets: put alone on snapshots and
//! escrow, as the server's policies grant it.

use std::sync::Arc;

use holdfast::backup::Taken;
use holdfast::base::clock::{Clock, ManualClock, SystemClock};
use holdfast::base::digest::Sha256;
use holdfast::base::entropy::OsEntropy;
use holdfast::base::exit::Exit;
use holdfast::base::failure::Failure;
use holdfast::record::manifest::Proof;
use holdfast::store::layers::Retry;
use holdfast::store::s3::S3Store;
use holdfast::store::{ErrorKind, Prefix, Store, VersionId, read_small};

use super::bench::{Bench, Keys, healthy};
use crate::rig::s3::{Grant, S3Server};
use crate::store::s3::Site;

const BUCKETS: [&str; 3] = ["snapshots", "escrow", "ledger"];

/// A control-plane host, and a reader of each bucket.
struct Host {
    site: Site,
    bench: Bench,
}

impl Host {
    async fn make() -> Self {
        let mut site = Site::empty(S3Server::start().await);
        for bucket in BUCKETS {
            site.server.bucket(bucket, true).await;
            let grant = if bucket == "ledger" { Grant::Append } else { Grant::Write };
            site.user(bucket, &format!("{bucket}-writer"), grant).await;
            site.user(bucket, &format!("{bucket}-reader"), Grant::Read).await;
        }
        let mut bench = Bench::new(Keys::All);
        bench.clock = ManualClock::at(SystemClock::new().now());
        Self { site, bench }
    }

    fn store(&self, bucket: &str, who: &str) -> Arc<dyn Store> {
        let store = S3Store::of(&self.site.config(bucket, &format!("{bucket}-{who}")));
        Arc::new(Retry::new(Arc::new(store), Arc::new(OsEntropy)))
    }

    async fn take(&self) -> Result<Taken, Failure> {
        let [snapshots, escrow, ledger] = BUCKETS.map(|bucket| self.store(bucket, "writer"));
        self.bench.take_into(&healthy(), snapshots, escrow, ledger).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_taken_with_credentials_that_may_only_put() {
    let host = Host::make().await;
    let taken = host.take().await.unwrap();
    // The image holds values whose keys are lost: that is all that is wrong.
    assert!(taken.warnings.iter().all(|warning| warning.code().name == "escrow.gap"), "{:?}", taken.warnings);
    let opened = taken.manifest.keys.iter().filter(|key| key.proof == Proof::Opened);
    let deposited: Vec<_> = opened.map(|key| key.escrow_record.as_ref().expect("it was deposited")).collect();
    assert!(deposited.len() >= 3, "{deposited:?}");

    assert!(taken.manifest.taken.clock_offset_ms.is_some_and(|ms| ms.abs() < 60_000), "{:?}", taken.manifest.taken);

    let reader = host.store("snapshots", "reader");
    let object = &taken.manifest.object;
    let version = VersionId(object.version_id.clone().expect("the bucket keeps versions"));
    let mut bytes = Vec::new();
    let mut opened = reader.open(&object.key.parse().unwrap(), Some(&version), None).await.unwrap();
    tokio::io::AsyncReadExt::read_to_end(&mut opened, &mut bytes).await.unwrap();
    assert_eq!((bytes.len() as u64, Sha256::of(&bytes)), (object.bytes, object.sha256));
    let manifest = read_small(&*reader, &taken.manifest.path.parse().unwrap(), 1 << 20).await.unwrap();
    assert_eq!(Sha256::of(&manifest), taken.manifest_sha256);
    let escrow = host.store("escrow", "reader");
    for record in deposited {
        let bytes = read_small(&*escrow, &record.key.parse().unwrap(), 1 << 20).await.unwrap();
        assert_eq!(Sha256::of(&bytes), record.sha256);
    }
    let ledger = host.site.server.names("ledger").await;
    assert!(ledger.iter().any(|name| name.contains("/manifests/")) && ledger.iter().any(|name| name.contains("/receipts/")));

    for bucket in ["snapshots", "escrow"] {
        let writer = host.store(bucket, "writer");
        assert_eq!(writer.list(&Prefix::all()).await.unwrap_err().kind, ErrorKind::Denied);
        for name in host.site.server.names(bucket).await {
            let opened = writer.open(&name.parse().unwrap(), None, None).await;
            assert_eq!(opened.err().map(|error| error.kind), Some(ErrorKind::Denied), "{bucket}/{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_right_to_put_nothing_is_visible_and_the_store_is_named() {
    let mut host = Host::make().await;
    host.site.server.revoke("snapshots").await;
    let failure = host.take().await.unwrap_err();
    assert_eq!((failure.code().name, failure.exit()), ("store.denied", Exit::CouldNotRun));
    assert!(failure.object().starts_with("s3 127.0.0.1:") && failure.object().contains("/snapshots: "), "{failure:?}");
    assert_eq!(host.site.server.names("snapshots").await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_that_is_missing_ends_a_snapshot_before_the_stream() {
    let host = Host::make().await;
    std::fs::remove_file(host.site.file("snapshots-writer")).unwrap();
    let failure = host.take().await.unwrap_err();
    assert_eq!((failure.code().name, failure.exit()), ("store.credential", Exit::Usage));
    assert_eq!(failure.object(), host.site.file("snapshots-writer").display().to_string());
    assert_eq!(host.site.server.names("snapshots").await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_off_is_told_in_the_manifest_and_in_the_host_record() {
    for (minutes, doubtful) in [(5, false), (-120, true)] {
        let mut host = Host::make().await;
        let off = jiff::SignedDuration::from_mins(minutes);
        host.bench.clock = ManualClock::at(SystemClock::new().now() + off);
        let taken = host.take().await.unwrap();
        let told = taken.manifest.taken.clock_offset_ms.unwrap();
        // The rest is how long the snapshot took.
        assert!((off.as_millis() - i128::from(told)).abs() < 240_000, "{told}");
        assert!(taken.manifest.problems.iter().any(|problem| problem.code == "clock-offset"));
        let warning = taken.warnings.iter().find(|warning| warning.code().name == "backup.clock").unwrap();
        assert_eq!(warning.cause().contains("behind"), doubtful, "{warning}");
        let ledger = host.store("ledger", "reader");
        let names = host.site.server.names("ledger").await;
        let record = names.iter().find(|name| name.contains("/hosts/") && name.ends_with(".json")).unwrap();
        let record: serde_json::Value =
            serde_json::from_slice(&read_small(&*ledger, &record.parse().unwrap(), 1 << 20).await.unwrap()).unwrap();
        assert_eq!(record["clock_offset_ms"].as_i64(), Some(told));
    }
}
