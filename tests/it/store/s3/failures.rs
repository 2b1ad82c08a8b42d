//! A store that goes away, fills up, or is not the one it should be: no half
//! object is visible, and no upload stays that could be removed.

use std::net::TcpListener;
use std::time::Duration;

use holdfast::base::exit::Exit;
use holdfast::base::failure::Failure;
use holdfast::store::s3::S3Store;
use holdfast::store::{ErrorKind, Prefix, PutOptions, Store, StoreError};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

use super::super::{get, key, pattern, put};
use super::{PART, Site, config};
use crate::rig::certificates::Authority;
use crate::rig::s3::{Grant, S3Server};

/// Until a thread has sent one request on loopback, however busy the machine is.
const SOON: Duration = Duration::from_secs(60);

fn told(error: StoreError) -> (&'static str, Exit, String) {
    let failure = Failure::from(error);
    (failure.code().name, failure.exit(), format!("{}; {}", failure.cause(), failure.next_action()))
}

async fn no_upload_stays(server: &S3Server, bucket: &str) {
    let gone = async {
        while server.open_uploads(bucket).await > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, gone).await.expect("the upload is aborted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_goes_away_in_the_middle_of_a_put_shows_nothing_when_it_is_back() {
    let mut site = Site::start().await;
    let (store, writer) = (site.writer("versioned"), site.writer("versioned"));
    let bytes = pattern(4 * PART as usize);
    let (mut sender, mut body) = duplex(64 * 1024);
    let (half, rest) = bytes.split_at(bytes.len() / 2 + 1);
    let send = async {
        sender.write_all(half).await.unwrap();
        site.server.stop().await;
        // The put may give up before the body ends, and drop it.
        let _ = sender.write_all(rest).await;
        drop(sender);
    };
    let put_it = async move { writer.put(&key("large"), &mut body, &PutOptions::default()).await.map_err(told) };
    let (stored, ()) = tokio::join!(put_it, send);
    let (code, _, cause) = stored.unwrap_err();
    assert_eq!(code, "store.unreachable", "{cause}");
    assert!(cause.contains("refused") || cause.contains("connection"), "{cause}");
    site.server.restart().await;
    assert_eq!(site.server.names("versioned").await, Vec::<String>::new());
    put(&*store, "large", &bytes).await.unwrap();
    assert_eq!(get(&*site.reader("versioned"), "large").await.unwrap(), bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_breaks_leaves_no_upload() {
    let site = Site::start().await;
    let (mut sender, body) = duplex(64 * 1024);
    let mut body = body.chain(tokio_util::io::StreamReader::new(futures::stream::iter([Err::<bytes::Bytes, _>(
        std::io::Error::other("the body broke"),
    )])));
    let (store, name, options) = (site.writer("plain"), key("large"), PutOptions::default());
    let send = async {
        sender.write_all(&pattern(3 * PART as usize)).await.unwrap();
        drop(sender);
    };
    let (stored, ()) = tokio::join!(store.put(&name, &mut body, &options), send);
    assert_eq!(stored.unwrap_err().kind, ErrorKind::Body);
    assert_eq!(site.server.open_uploads("plain").await, 0);
    assert_eq!(site.server.names("plain").await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_put_that_is_dropped_leaves_no_upload() {
    let site = Site::start().await;
    let (mut sender, mut body) = duplex(64 * 1024);
    let (store, name, options) = (site.writer("plain"), key("large"), PutOptions::default());
    tokio::select! {
        stored = store.put(&name, &mut body, &options) => panic!("the body did not end: {stored:?}"),
        () = async {
            sender.write_all(&pattern(PART as usize + 1)).await.unwrap();
            // A part that is still on its way can outlive an abort.
            while site.server.open_parts("plain").await == 0 {
                tokio::task::yield_now().await;
            }
        } => {}
    }
    no_upload_stays(&site.server, "plain").await;
    assert_eq!(site.server.names("plain").await, Vec::<String>::new());
}

/// As a program that is stopped drops what it does, and then its runtime.
#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_that_ends_with_a_put_sends_the_abort_first() {
    let site = Site::start().await;
    let store = site.writer("plain");
    let (begun, has_begun) = std::sync::mpsc::channel();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let program = std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let (mut sender, mut body) = duplex(64 * 1024);
            let (name, options) = (key("large"), PutOptions::default());
            tokio::select! {
                stored = store.put(&name, &mut body, &options) => panic!("the body did not end: {stored:?}"),
                _ = async {
                    sender.write_all(&pattern(PART as usize + 1)).await.unwrap();
                    begun.send(()).unwrap();
                    stopped.await
                } => {}
            }
        });
        drop(runtime);
    });
    tokio::task::spawn_blocking(move || has_begun.recv().unwrap()).await.unwrap();
    while site.server.open_parts("plain").await == 0 {
        tokio::task::yield_now().await;
    }
    stop.send(()).unwrap();
    tokio::task::spawn_blocking(move || program.join().unwrap()).await.unwrap();
    assert_eq!(site.server.open_uploads("plain").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_at_the_store_is_told_and_shows_nothing() {
    let mut site = Site::empty(S3Server::start_with_room(3 * PART).await);
    site.server.bucket("small", false).await;
    site.user("small", "writer", Grant::Write).await;
    site.user("small", "reader", Grant::Read).await;
    let store = S3Store::of(&site.config("small", "writer"));
    for length in [PART as usize, 4 * PART as usize] {
        // One request, then parts: what fits beside the first object differs.
        put(&store, &format!("fits-{length}"), &pattern(PART as usize / 2)).await.unwrap();
        let full = async {
            let mut put_before = 0;
            loop {
                if let Err(error) = put(&store, &format!("more-{length}-{put_before}"), &pattern(length)).await {
                    return error;
                }
                put_before += 1;
                assert!(put_before < 4, "the disk is full by now");
            }
        };
        let error = full.await;
        assert_eq!(error.kind, ErrorKind::Full, "{error:?}");
        let (code, exit, cause) = told(error);
        assert_eq!((code, exit), ("store.full", Exit::CouldNotRun));
        assert!(cause.contains("InsufficientStorage") && cause.contains("free space in the store"), "{cause}");
        no_upload_stays(&site.server, "small").await;
        for listed in S3Store::of(&site.config("small", "reader")).list(&Prefix::all()).await.unwrap() {
            let whole = listed.bytes == length as u64 || listed.bytes == PART / 2;
            assert!(whole, "{listed:?}");
        }
        let names = site.server.names("small").await;
        let root = site.server.root_client();
        for name in names {
            root.delete_object().bucket("small").key(name).send().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_does_not_exist_is_no_missing_object() {
    let site = Site::start().await;
    let mut config = site.config("plain", "plain-writer");
    config.bucket = "nowhere".to_owned();
    let store = S3Store::of(&config);
    for error in [put(&store, "a", b"x").await.unwrap_err(), store.open(&key("a"), None, None).await.err().unwrap()] {
        let (code, exit, cause) = told(error);
        assert_eq!((code, exit), ("store.broken", Exit::CouldNotRun));
        assert!(cause.contains("there is no such bucket (NoSuchBucket); make the bucket, or correct bucket"), "{cause}");
    }
    assert_eq!(store.list(&Prefix::all()).await.unwrap_err().kind, ErrorKind::Broken);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_is_not_trusted_is_named_with_the_file_that_decides() {
    let site = Site::start_with_tls().await;
    let other = site.file("other-ca.crt");
    std::fs::write(&other, Authority::new("another").certificate()).unwrap();
    let tried = async |ca: &std::path::Path| {
        let mut config = site.config("plain", "plain-writer");
        config.ca = Some(ca.to_owned());
        put(&S3Store::of(&config), "a", b"x").await.map_err(told)
    };
    let (code, exit, cause) = tried(&other).await.unwrap_err();
    assert_eq!((code, exit), ("store.tls", Exit::CouldNotRun), "{cause}");
    let trusted = format!("trusted are the authorities in {}", other.display());
    assert!(cause.contains("UnknownIssuer") && cause.contains(&trusted), "{cause}");

    for (text, expected) in [("", "there is no certificate in it"), ("-----BEGIN CERTIFICATE-----\n!\n", "not PEM")] {
        std::fs::write(&other, text).unwrap();
        let (code, _, cause) = tried(&other).await.unwrap_err();
        assert!(code == "store.tls" && cause.contains(expected), "{cause}");
    }
    let (code, _, cause) = tried(&site.file("absent.crt")).await.unwrap_err();
    assert!(code == "store.tls" && cause.contains("No such file"), "{cause}");
    tried(&site.server.ca().unwrap()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_certificate_of_the_endpoint_is_named() {
    let mut site = Site::empty(S3Server::start_with_an_expired_certificate().await);
    let user = site.server.user("writer");
    user.write(&site.file("writer"));
    let store = S3Store::of(&site.config("plain", "writer"));
    for error in [put(&store, "a", b"x").await.unwrap_err(), put(&store, "a", &pattern(2 * PART as usize)).await.unwrap_err()] {
        assert_eq!(error.kind, ErrorKind::Tls, "{error:?}");
        let (_, _, cause) = told(error);
        assert!(cause.contains("the endpoint's certificate is not accepted") && cause.contains("expired"), "{cause}");
    }
}

#[tokio::test]
async fn where_nothing_listens_the_connection_is_refused() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let site = tempfile::tempdir().unwrap();
    let file = site.path().join("credential");
    crate::rig::s3::Credential { access: "x".to_owned(), secret: "y".to_owned() }.write(&file);
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for scheme in ["http", "https"] {
        let store = S3Store::of(&config(&format!("{scheme}://127.0.0.1:{port}"), "plain", file.clone(), None));
        let (code, _, cause) = told(put(&store, "a", b"x").await.unwrap_err());
        assert_eq!(code, "store.unreachable");
        assert!(cause.contains("the connection was refused: nothing listens there"), "{cause}");
    }
}
