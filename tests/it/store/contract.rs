//! One suite for every store and every layer: what `Store` promises.
//!
//! `writer` and `reader` are two views of one empty store; the writer is asked
//! for `put` alone, so that a view which may do no more passes too.

use std::io;
use std::sync::Arc;

use holdfast::base::digest::Sha256;
use holdfast::store::fs::FsStore;
use holdfast::store::layers::{Fault, FaultStore, PutOnly};
use holdfast::store::mem::MemStore;
use holdfast::store::{ErrorKind, Listed, Prefix, PutOptions, Store, VersionId};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

use super::s3::Site;
use super::{get, key, names, pattern, put, read, retry, shared};

/// Longer than every buffer on the way, and no multiple of any.
const LONG: usize = 5 * 1024 * 1024 + 17;

#[tokio::test]
async fn a_directory_keeps_the_contract() {
    let root = tempfile::tempdir().unwrap();
    let store = shared(FsStore::at(root.path()));
    keeps(&store, &store, false).await;
}

#[tokio::test]
async fn memory_keeps_the_contract() {
    let store = shared(MemStore::new("test"));
    keeps(&store, &store, false).await;
}

#[tokio::test]
async fn the_put_only_layer_keeps_the_contract_for_put() {
    let root = tempfile::tempdir().unwrap();
    let reader = shared(FsStore::at(root.path()));
    keeps(&shared(PutOnly::new(reader.clone())), &reader, false).await;
}

#[tokio::test]
async fn the_fault_layer_without_faults_keeps_the_contract() {
    let store = shared(FaultStore::new(shared(MemStore::new("test"))));
    keeps(&store, &store, false).await;
}

/// The writer's credential may put and the reader's get and list.
#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_keeps_the_contract() {
    let site = Site::start().await;
    keeps(&site.writer("plain"), &site.reader("plain"), false).await;
    assert_eq!(site.server.open_uploads("plain").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_versioned_bucket_keeps_the_contract() {
    let site = Site::start_with_tls().await;
    keeps(&site.writer("versioned"), &site.reader("versioned"), true).await;
    assert_eq!(site.server.open_uploads("versioned").await, 0);
}

#[tokio::test(start_paused = true)]
async fn the_retry_layer_keeps_the_contract_over_lost_answers() {
    let faults = FaultStore::new(shared(MemStore::new("test")));
    let lost = Fault::Refused(ErrorKind::Transient);
    let faults = faults.fail(1..=1, lost).fail(3..=4, lost).fail(6..=6, lost).fail(8..=8, Fault::AnswerLost);
    let store = shared(retry(shared(faults)));
    keeps(&store, &store, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_behind_layers_keeps_the_contract() {
    let site = Site::start().await;
    let layered = |store| shared(retry(shared(FaultStore::new(store).fail(1..=1, Fault::Refused(ErrorKind::Transient)))));
    keeps(&layered(site.writer("versioned")), &layered(site.reader("versioned")), true).await;
}

async fn keeps(writer: &Arc<dyn Store>, reader: &Arc<dyn Store>, versions: bool) {
    an_object_is_what_was_put(&**writer, &**reader, versions).await;
    a_stream_of_unknown_length_arrives_whole(&**writer, &**reader).await;
    a_name_is_never_reused(&**writer, &**reader).await;
    what_is_not_there_is_not_found(&**reader).await;
    a_range_is_cut_at_the_end(&**writer, &**reader).await;
    a_failing_body_leaves_nothing(&**writer, &**reader).await;
    a_body_that_cannot_fit_leaves_nothing(&**writer, &**reader).await;
    an_object_appears_with_its_last_byte(&**writer, &**reader).await;
    a_dropped_put_leaves_nothing(&**writer, &**reader).await;
    of_two_puts_of_one_name_one_wins(writer, &**reader).await;
    a_listing_is_sorted_and_exact(&**writer, &**reader).await;
}

async fn an_object_is_what_was_put(writer: &dyn Store, reader: &dyn Store, versions: bool) {
    for (name, bytes) in [("whole/empty", pattern(0)), ("whole/one", pattern(1)), ("whole/chunk", pattern(256 * 1024))] {
        let stored = put(writer, name, &bytes).await.unwrap();
        assert_eq!((stored.key.as_str(), stored.bytes, stored.sha256), (name, bytes.len() as u64, Sha256::of(&bytes)));
        assert_eq!((stored.version_id.is_some(), stored.parts), (versions, vec![]));
        assert_eq!(get(reader, name).await.unwrap(), bytes, "{name}");
        if let Some(version) = stored.version_id {
            let reader = reader.open(&key(name), Some(&version), None).await.unwrap();
            assert_eq!(read(reader).await, bytes, "{name} {version:?}");
        }
    }
}

async fn a_stream_of_unknown_length_arrives_whole(writer: &dyn Store, reader: &dyn Store) {
    let bytes = pattern(LONG);
    let (mut sender, mut body) = duplex(4096);
    let send = async {
        // Odd lengths, so that no chunk of the stream is a chunk of the store.
        for chunk in bytes.chunks(7919) {
            sender.write_all(chunk).await.unwrap();
        }
        drop(sender);
    };
    let name = key("stream/long");
    let options = PutOptions::default();
    let (stored, ()) = tokio::join!(writer.put(&name, &mut body, &options), send);
    assert_eq!(stored.unwrap().sha256, Sha256::of(&bytes));
    assert_eq!(Sha256::of(&get(reader, "stream/long").await.unwrap()), Sha256::of(&bytes));
}

async fn a_name_is_never_reused(writer: &dyn Store, reader: &dyn Store) {
    put(writer, "taken/name", b"first").await.unwrap();
    for again in [&b"second"[..], b"first", b""] {
        let error = put(writer, "taken/name", again).await.unwrap_err();
        assert_eq!((error.kind, error.operation), (ErrorKind::Exists, "put"));
        assert!(error.object.ends_with(": taken/name"), "{}", error.object);
    }
    assert_eq!(get(reader, "taken/name").await.unwrap(), b"first");
}

async fn what_is_not_there_is_not_found(reader: &dyn Store) {
    for name in ["absent", "absent/below/absent", "taken", "taken/nam", "taken/name/below"] {
        assert_eq!(get(reader, name).await.unwrap_err(), ErrorKind::NotFound, "{name}");
    }
    let version = VersionId("none".to_owned());
    let error = reader.open(&key("taken/name"), Some(&version), None).await.err().unwrap();
    assert_eq!(error.kind, ErrorKind::NotFound);
}

async fn a_range_is_cut_at_the_end(writer: &dyn Store, reader: &dyn Store) {
    put(writer, "range/ten", b"0123456789").await.unwrap();
    #[allow(clippy::reversed_empty_ranges)] // the case itself
    for (range, part) in [
        (0..10, "0123456789"),
        (3..6, "345"),
        (4..4, ""),
        (6..3, ""),
        (8..99, "89"),
        (10..20, ""),
        (u64::MAX - 1..u64::MAX, ""),
        (0..u64::MAX, "0123456789"),
    ] {
        let bytes = read(reader.open(&key("range/ten"), None, Some(range.clone())).await.unwrap()).await;
        assert_eq!(String::from_utf8(bytes).unwrap(), part, "{range:?}");
    }
}

async fn a_failing_body_leaves_nothing(writer: &dyn Store, reader: &dyn Store) {
    for good in [0, 1, 300_000, LONG] {
        let bytes = pattern(good);
        let mut body = (&bytes[..]).chain(Failing);
        let error = writer.put(&key("failing/body"), &mut body, &PutOptions::default()).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Body, "{error:?}");
        assert!(format!("{:?}", error.source).contains("the body broke"), "{error:?}");
        assert_eq!(get(reader, "failing/body").await.unwrap_err(), ErrorKind::NotFound);
    }
    assert!(names(reader).await.iter().all(|name| !name.starts_with("failing/")));
    put(writer, "failing/body", b"the name is still free").await.unwrap();
}

async fn a_body_that_cannot_fit_leaves_nothing(writer: &dyn Store, reader: &dyn Store) {
    let options = PutOptions { expected_bytes: Some(u64::MAX) };
    let error = writer.put(&key("too/large"), &mut &b"x"[..], &options).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Full);
    assert_eq!(get(reader, "too/large").await.unwrap_err(), ErrorKind::NotFound);
}

async fn an_object_appears_with_its_last_byte(writer: &dyn Store, reader: &dyn Store) {
    let (mut sender, mut body) = duplex(16 * 1024);
    let (name, options) = (key("late/object"), PutOptions::default());
    let watch = async {
        // All but a buffer of it has passed when this returns.
        sender.write_all(&pattern(LONG)).await.unwrap();
        assert_eq!(get(reader, "late/object").await.unwrap_err(), ErrorKind::NotFound);
        assert!(!names(reader).await.contains(&"late/object".to_owned()));
        drop(sender);
    };
    let (stored, ()) = tokio::join!(writer.put(&name, &mut body, &options), watch);
    assert_eq!(stored.unwrap().bytes, LONG as u64);
    assert!(names(reader).await.contains(&"late/object".to_owned()));
}

async fn a_dropped_put_leaves_nothing(writer: &dyn Store, reader: &dyn Store) {
    let (mut sender, mut body) = duplex(16 * 1024);
    let (name, options) = (key("dropped/put"), PutOptions::default());
    tokio::select! {
        stored = writer.put(&name, &mut body, &options) => panic!("the body did not end: {stored:?}"),
        sent = async { sender.write_all(&pattern(LONG)).await } => sent.unwrap(),
    }
    drop(sender);
    assert_eq!(get(reader, "dropped/put").await.unwrap_err(), ErrorKind::NotFound);
    put(writer, "dropped/put", b"the name is still free").await.unwrap();
    assert_eq!(get(reader, "dropped/put").await.unwrap(), b"the name is still free");
}

async fn of_two_puts_of_one_name_one_wins(writer: &Arc<dyn Store>, reader: &dyn Store) {
    for round in 0..20 {
        let name = format!("race/{round}");
        let racers: Vec<_> = (0..4_u8)
            .map(|racer| {
                let (writer, name) = (writer.clone(), name.clone());
                tokio::spawn(async move { put(&*writer, &name, &[racer; 1000]).await.map_err(|e| e.kind) })
            })
            .collect();
        let mut won = Vec::new();
        for (racer, handle) in racers.into_iter().enumerate() {
            match handle.await.unwrap() {
                Ok(_) => won.push(racer as u8),
                Err(kind) => assert_eq!(kind, ErrorKind::Exists),
            }
        }
        assert_eq!(won.len(), 1, "{won:?}");
        assert_eq!(get(reader, &name).await.unwrap(), vec![won[0]; 1000]);
    }
}

async fn a_listing_is_sorted_and_exact(writer: &dyn Store, reader: &dyn Store) {
    for name in ["list/b/2", "list/a/2", "list/a/10", "list/ab/1", "list/a-b", "list/a.x/1", "list/B"] {
        put(writer, name, name.as_bytes()).await.unwrap();
    }
    let list = async |prefix: Prefix| reader.list(&prefix).await.unwrap();
    let all = list(Prefix::below(&key("list"))).await;
    let found: Vec<_> = all.iter().map(|object| object.key.as_str()).collect();
    assert_eq!(found, ["list/B", "list/a-b", "list/a.x/1", "list/a/10", "list/a/2", "list/ab/1", "list/b/2"]);
    assert!(all.iter().all(|object| object.bytes == object.key.as_str().len() as u64));

    let below_a = list(Prefix::below(&key("list/a"))).await;
    assert_eq!(below_a, [Listed { key: key("list/a/10"), bytes: 9 }, Listed { key: key("list/a/2"), bytes: 8 }]);
    for empty in ["lis", "list/a/2", "list/a-b", "list/c", "list/a/2/3"] {
        assert_eq!(list(Prefix::below(&key(empty))).await, [], "{empty}");
    }
    let everything = names(reader).await;
    assert!(everything.is_sorted() && everything.len() > all.len());
}

/// A body that fails at once.
struct Failing;

impl tokio::io::AsyncRead for Failing {
    fn poll_read(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        _: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        std::task::Poll::Ready(Err(io::Error::other("the body broke")))
    }
}
