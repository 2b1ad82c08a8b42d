//! Three buckets, three credentials: who may do what, as the server decides it.

use aws_sdk_s3::error::ProvideErrorMetadata;
use holdfast::base::digest::Sha256;
use holdfast::base::failure::Failure;
use holdfast::config::Checksums;
use holdfast::store::layers::{Fault, FaultStore};
use holdfast::store::s3::S3Store;
use holdfast::store::{ErrorKind, Prefix, Store};

use super::super::{get, pattern, put, read, retry, shared};
use super::{PART, Site};
use crate::rig::s3::{Credential, Grant, S3Server};

/// Snapshots, escrow and ledger, as a control-plane and a rehearsal host see them.
struct Buckets {
    site: Site,
    writer: [Credential; 3],
    reader: [Credential; 3],
}

const NAMES: [&str; 3] = ["snapshots", "escrow", "ledger"];

impl Buckets {
    async fn make() -> Self {
        let mut site = Site::empty(S3Server::start_with_tls().await);
        let (mut writer, mut reader) = (Vec::new(), Vec::new());
        for name in NAMES {
            site.server.bucket(name, true).await;
            let [write, read] = if name == "ledger" { [Grant::Append; 2] } else { [Grant::Write, Grant::Read] };
            writer.push(site.user(name, &format!("{name}-writer"), write).await);
            reader.push(site.user(name, &format!("{name}-reader"), read).await);
        }
        Self { site, writer: writer.try_into().ok().unwrap(), reader: reader.try_into().ok().unwrap() }
    }

    fn store(&self, bucket: &str, user: &Credential) -> S3Store {
        S3Store::of(&self.site.config(bucket, &user.access))
    }
}

fn large() -> Vec<u8> {
    pattern(2 * PART as usize + 1)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_puts_in_its_bucket_and_can_do_nothing_else_anywhere() {
    let buckets = Buckets::make().await;
    for (name, user) in NAMES.iter().zip(&buckets.writer).take(2) {
        let store = buckets.store(name, user);
        for (object, bytes) in [("small", b"x".to_vec()), ("large", large())] {
            let stored = put(&store, object, &bytes).await.unwrap();
            assert!(stored.version_id.is_some() && stored.server_time.is_some(), "{stored:?}");
            assert_eq!(get(&store, object).await.unwrap_err(), ErrorKind::Denied);
            let client = buckets.site.server.client(user);
            let denied = |code: Option<&str>| assert_eq!(code, Some("AccessDenied"), "{name}/{object}");
            denied(client.delete_object().bucket(*name).key(object).send().await.unwrap_err().code());
            let version = stored.version_id.map(|version| version.0);
            denied(client.delete_object().bucket(*name).key(object).set_version_id(version).send().await.unwrap_err().code());
            assert!(client.head_object().bucket(*name).key(object).send().await.is_err());
        }
        let error = store.list(&Prefix::all()).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Denied);
        let failure = Failure::from(error);
        assert!(failure.cause().contains("AccessDenied") && !failure.to_string().contains(&user.secret), "{failure}");
        for other in NAMES.iter().filter(|other| *other != name) {
            let store = buckets.store(other, user);
            assert_eq!(put(&store, "x", b"x").await.unwrap_err().kind, ErrorKind::Denied, "{name} in {other}");
            assert_eq!(put(&store, "x", &large()).await.unwrap_err().kind, ErrorKind::Denied, "{name} in {other}");
            assert_eq!(get(&store, "x").await.unwrap_err(), ErrorKind::Denied);
            assert_eq!(store.list(&Prefix::all()).await.unwrap_err().kind, ErrorKind::Denied);
        }
        assert_eq!(buckets.site.server.names(name).await, ["large", "small"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_gets_and_lists_and_can_change_nothing() {
    let buckets = Buckets::make().await;
    for ((name, writer), reader) in NAMES.iter().zip(&buckets.writer).zip(&buckets.reader).take(2) {
        put(&buckets.store(name, writer), "large", &large()).await.unwrap();
        let store = buckets.store(name, reader);
        assert_eq!(get(&store, "large").await.unwrap(), large());
        assert_eq!(store.list(&Prefix::all()).await.unwrap().len(), 1);
        assert_eq!(put(&store, "x", b"x").await.unwrap_err().kind, ErrorKind::Denied);
        assert_eq!(put(&store, "y", &large()).await.unwrap_err().kind, ErrorKind::Denied);
        let client = buckets.site.server.client(reader);
        let deleted = client.delete_object().bucket(*name).key("large").send().await;
        assert_eq!(deleted.unwrap_err().code(), Some("AccessDenied"));
        assert_eq!(buckets.site.server.names(name).await, ["large"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_appends_to_the_ledger_and_nobody_overwrites() {
    let buckets = Buckets::make().await;
    for (user, other, object) in
        [(&buckets.writer[2], &buckets.reader[2], "one"), (&buckets.reader[2], &buckets.writer[2], "two")]
    {
        put(&buckets.store("ledger", user), object, b"x").await.unwrap();
        let seen = buckets.store("ledger", other);
        assert_eq!(get(&seen, object).await.unwrap(), b"x");
        assert_eq!(put(&seen, object, b"y").await.unwrap_err().kind, ErrorKind::Exists);
        let client = buckets.site.server.client(other);
        let deleted = client.delete_object().bucket("ledger").key(object).send().await;
        assert_eq!(deleted.unwrap_err().code(), Some("AccessDenied"));
    }
}

/// A writer can put another version on top; who asks for the recorded one gets it.
#[tokio::test(flavor = "multi_thread")]
async fn the_version_recorded_is_the_one_that_is_read() {
    let buckets = Buckets::make().await;
    let (writer, reader) = (&buckets.writer[0], &buckets.reader[0]);
    let stored = put(&buckets.store("snapshots", writer), "a", b"first").await.unwrap();
    let body = aws_sdk_s3::primitives::ByteStream::from_static(b"planted");
    buckets.site.server.client(writer).put_object().bucket("snapshots").key("a").body(body).send().await.unwrap();
    let store = buckets.store("snapshots", reader);
    assert_eq!(get(&store, "a").await.unwrap(), b"planted");
    let version = stored.version_id.unwrap();
    let first = store.open(&stored.key, Some(&version), None).await.unwrap();
    assert_eq!(read(first).await, b"first");
    let part = store.open(&stored.key, Some(&version), Some(1..3)).await.unwrap();
    assert_eq!(read(part).await, b"ir");
}

/// A read that breaks off in the recorded version does not go on in a newer one.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_goes_on_at_the_version_that_was_asked_for() {
    let buckets = Buckets::make().await;
    let (writer, reader) = (&buckets.writer[0], &buckets.reader[0]);
    let stored = put(&buckets.store("snapshots", writer), "a", &large()).await.unwrap();
    let faults = FaultStore::new(shared(buckets.store("snapshots", reader))).fail(1..=2, Fault::CutAfter(1_000_003));
    let store = retry(shared(faults));
    let opened = store.open(&stored.key, stored.version_id.as_ref(), None).await.unwrap();
    let body = aws_sdk_s3::primitives::ByteStream::from(vec![0; large().len()]);
    buckets.site.server.client(writer).put_object().bucket("snapshots").key("a").body(body).send().await.unwrap();
    assert_eq!(Sha256::of(&read(opened).await), stored.sha256);
}

#[tokio::test(flavor = "multi_thread")]
async fn checksums_where_s3_knows_one_work_for_objects_of_any_length() {
    let site = Site::start_with_tls().await;
    let with_checksums = |user: &str| {
        let mut config = site.config("plain", user);
        config.checksums = Checksums::WhenSupported;
        S3Store::of(&config)
    };
    for (name, bytes) in [("small", b"x".to_vec()), ("large", large())] {
        put(&with_checksums("plain-writer"), name, &bytes).await.unwrap();
        assert_eq!(get(&with_checksums("plain-reader"), name).await.unwrap(), bytes);
    }
}
