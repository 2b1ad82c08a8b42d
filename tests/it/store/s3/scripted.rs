//! Answers that a real S3 server does not give on demand, or never.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use holdfast::base::exit::Exit;
use holdfast::base::failure::Failure;
use holdfast::config::{Checksums, S3Config};
use holdfast::store::s3::S3Store;
use holdfast::store::{ErrorKind, Prefix, PutOptions, Store, StoreError, VersionId};
use tokio::io::AsyncReadExt;

use super::super::{get, key, pattern, put, read};
use super::script::{Answer, Request, Script, answer, error, stored};
use super::{PART, config};

const SECRET: &str = "hunter2hunter2hunter2";

/// A store that talks to the script, with short limits.
struct Scene {
    script: Script,
    config: S3Config,
    _folder: tempfile::TempDir,
}

impl Scene {
    async fn answering(script: impl Fn(&Request, usize) -> Answer + Send + Sync + 'static) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let script = Script::answering(script).await;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("credential");
        std::fs::write(&file, format!("[default]\naws_access_key_id = AKIAONE\naws_secret_access_key = {SECRET}\n")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let config = config(&script.endpoint(), "bucket", file, None);
        Self { script, config, _folder: folder }
    }

    fn store(&self) -> S3Store {
        S3Store::of(&self.config)
    }
}

fn two_parts() -> Vec<u8> {
    pattern(PART as usize + 17)
}

fn cause(error: StoreError) -> String {
    let failure = Failure::from(error);
    assert!(!format!("{failure:?}").contains(SECRET) && !format!("{failure:?}").contains("AKIAONE"), "{failure:?}");
    failure.cause().to_owned()
}

const PAGE: &str = "<!DOCTYPE html><html><body>Sign in to the guest network</body></html>";

#[tokio::test]
async fn a_page_with_status_200_is_no_answer_of_s3() {
    let scene = Scene::answering(|_, _| answer(200, "content-type: text/html\r\n", PAGE)).await;
    let store = scene.store();
    let (small, large) = (put(&store, "a", b"x").await.unwrap_err(), put(&store, "a", &two_parts()).await.unwrap_err());
    assert_eq!((small.kind, large.kind), (ErrorKind::Broken, ErrorKind::Broken));
    assert!(cause(small).contains("this is no S3 server"));
    assert_eq!(get(&store, "a").await.unwrap_err(), ErrorKind::Broken);
    assert_eq!(store.list(&Prefix::all()).await.unwrap_err().kind, ErrorKind::Broken);
}

#[tokio::test]
async fn an_error_with_status_200_is_an_error() {
    const DENIED: &str = "<Error><Code>AccessDenied</Code><Message>no</Message></Error>";
    let scene = Scene::answering(|request, _| match request.kind() {
        "CreateMultipartUpload" | "UploadPart" | "AbortMultipartUpload" => stored(request),
        _ => answer(200, "", DENIED),
    });
    let scene = scene.await;
    let store = scene.store();
    let error = put(&store, "a", &two_parts()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Denied, "{error:?}");
    assert_eq!(scene.script.kinds().last(), Some(&"AbortMultipartUpload"));
    assert_eq!(put(&store, "a", b"x").await.unwrap_err().kind, ErrorKind::Denied);
    assert_eq!(store.list(&Prefix::all()).await.unwrap_err().kind, ErrorKind::Denied);
    // Of an object only the head is read before it is handed on.
    assert_eq!(get(&store, "a").await.unwrap_err(), ErrorKind::Broken);
}

#[tokio::test]
async fn a_completion_that_fails_inside_a_good_status_is_tried_again() {
    let scene = Scene::answering(|request, before| match request.kind() {
        "CompleteMultipartUpload" if before < 2 => {
            answer(200, "", "<?xml version=\"1.0\"?>\n<Error><Code>InternalError</Code><Message>x</Message></Error>")
        }
        _ => stored(request),
    });
    let scene = scene.await;
    put(&scene.store(), "a", &two_parts()).await.unwrap();
    let kinds = scene.script.kinds();
    assert_eq!(kinds.iter().filter(|kind| **kind == "CompleteMultipartUpload").count(), 3);
    assert!(!kinds.contains(&"AbortMultipartUpload"));
}

#[tokio::test]
async fn a_server_that_knows_no_condition_is_asked_without_it_from_then_on() {
    for (status, code) in [(501, "NotImplemented"), (400, "NotImplemented")] {
        for large in [false, true] {
            let scene = Scene::answering(move |request, _| match request.header("if-none-match") {
                Some(_) => error(status, code),
                None => stored(request),
            });
            let (scene, body) = (scene.await, if large { two_parts() } else { b"x".to_vec() });
            let store = scene.store();
            put(&store, "a", &body).await.unwrap();
            put(&store, "b", &body).await.unwrap();
            let conditions = scene.script.seen().iter().filter(|request| request.header("if-none-match").is_some()).count();
            assert_eq!(conditions, 1, "{:?}", scene.script.kinds());
        }
    }
}

#[tokio::test]
async fn a_name_that_is_taken_after_a_lost_answer_is_our_own_object() {
    for large in [false, true] {
        let body = if large { two_parts() } else { b"x".to_vec() };
        for (lost, outcome) in [(true, Ok(body.len() as u64)), (false, Err(ErrorKind::Exists))] {
            let scene = Scene::answering(move |request, before| match (request.kind(), before) {
                ("PutObject" | "CompleteMultipartUpload", 0) if lost => Answer::Close,
                ("PutObject" | "CompleteMultipartUpload", _) => error(412, "PreconditionFailed"),
                _ => stored(request),
            });
            let stored = put(&scene.await.store(), "a", &body).await;
            assert_eq!(stored.map(|stored| stored.bytes).map_err(|e| e.kind), outcome, "large: {large}, lost: {lost}");
        }
    }
}

#[tokio::test]
async fn an_upload_that_is_gone_after_a_lost_answer_is_looked_for() {
    let length = two_parts().len();
    for (head, outcome) in [
        (format!("HTTP/1.1 200 x\r\nconnection: close\r\ncontent-length: {length}\r\nx-amz-version-id: v1\r\n\r\n"), Ok(())),
        ("HTTP/1.1 200 x\r\nconnection: close\r\ncontent-length: 1\r\n\r\n".to_owned(), Err(ErrorKind::Transient)),
        ("HTTP/1.1 403 x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".to_owned(), Err(ErrorKind::Transient)),
        ("HTTP/1.1 404 x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".to_owned(), Err(ErrorKind::Transient)),
    ] {
        let scene = Scene::answering(move |request, before| match (request.kind(), before) {
            ("CompleteMultipartUpload", 0) => Answer::Close,
            ("CompleteMultipartUpload", _) => error(404, "NoSuchUpload"),
            ("HeadObject", _) => Answer::Bytes(head.clone().into_bytes()),
            _ => stored(request),
        });
        let stored = put(&scene.await.store(), "a", &two_parts()).await;
        let version = |stored: holdfast::store::Stored| assert_eq!(stored.version_id, Some(VersionId("v1".to_owned())));
        assert_eq!(stored.map(version).map_err(|e| e.kind), outcome);
    }
}

#[tokio::test]
async fn whatever_request_of_a_large_put_is_denied_it_is_aborted() {
    for kind in ["CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload"] {
        let scene = Scene::answering(move |request, _| match request.kind() {
            denied if denied == kind => error(403, "AccessDenied"),
            _ => stored(request),
        });
        let scene = scene.await;
        let failed = put(&scene.store(), "a", &two_parts()).await.unwrap_err();
        assert_eq!(failed.kind, ErrorKind::Denied, "{kind}");
        let aborted = scene.script.kinds().contains(&"AbortMultipartUpload");
        assert_eq!(aborted, kind != "CreateMultipartUpload", "{:?}", scene.script.kinds());
    }
}

#[tokio::test]
async fn codes_of_s3_become_kinds_with_a_cause_and_a_next_action() {
    for (status, code, kind, name, text) in [
        (403, "AccessDenied", ErrorKind::Denied, "store.denied", "AccessDenied: said so"),
        (403, "InvalidAccessKeyId", ErrorKind::Denied, "store.denied", "does not know this access key"),
        (403, "SignatureDoesNotMatch", ErrorKind::Denied, "store.denied", "the secret key is not that of the access key"),
        (400, "ExpiredToken", ErrorKind::Denied, "store.denied", "the session token is not valid any more"),
        (404, "NoSuchBucket", ErrorKind::Broken, "store.broken", "there is no such bucket"),
        (400, "AuthorizationHeaderMalformed", ErrorKind::Broken, "store.broken", "lies in another region"),
        (507, "InsufficientStorage", ErrorKind::Full, "store.full", "InsufficientStorage: said so"),
        (403, "QuotaExceeded", ErrorKind::Full, "store.full", "QuotaExceeded: said so"),
        (409, "OperationAborted", ErrorKind::Transient, "store.unreachable", "OperationAborted"),
        (503, "SlowDown", ErrorKind::Transient, "store.unreachable", "SlowDown"),
        (400, "Odd", ErrorKind::Broken, "store.broken", "Odd: said so"),
    ] {
        let scene = Scene::answering(move |_, _| error(status, code)).await;
        let store = scene.store();
        for error in [put(&store, "a", b"x").await.unwrap_err(), store.open(&key("a"), None, None).await.err().unwrap()] {
            assert_eq!(error.kind, kind, "{code}");
            let failure = Failure::from(error);
            assert_eq!((failure.code().name, failure.exit()), (name, Exit::CouldNotRun));
            assert!(failure.cause().contains(text), "{failure:?}");
            assert_eq!(failure.object(), format!("s3 {}/bucket: a", scene.script.address));
        }
    }
}

#[tokio::test]
async fn a_clock_that_is_far_off_is_named_or_corrected() {
    let scene = Scene::answering(|_, _| error(403, "RequestTimeTooSkewed")).await;
    let failed = Failure::from(put(&scene.store(), "a", b"x").await.unwrap_err());
    assert!(failed.cause().contains("clocks") && failed.next_action().contains("set this host's clock"), "{failed:?}");

    // A server that says what time it is gets the next request signed for it.
    const DATE: &str = "date: Tue, 01 Jan 2030 12:00:00 GMT\r\n";
    let scene = Scene::answering(|request, before| match before {
        0 => answer(403, DATE, "<Error><Code>RequestTimeTooSkewed</Code></Error>"),
        _ => {
            assert!(request.header("x-amz-date").unwrap().starts_with("20300101T"), "{request:?}");
            answer(200, &format!("{DATE}etag: \"x\"\r\n"), "")
        }
    });
    let stored = put(&scene.await.store(), "a", b"x").await.unwrap();
    assert_eq!(stored.server_time, Some("2030-01-01T12:00:00Z".parse().unwrap()));
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up() {
    let mut scene = Scene::answering(|_, _| Answer::Silence).await;
    scene.config.request_timeout = Duration::from_millis(200);
    scene.config.stall_timeout = Duration::from_millis(200);
    let store = scene.store();
    let error = put(&store, "a", b"x").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Transient);
    assert!(cause(error).contains("no answer in time"));
    assert_eq!(get(&store, "a").await.unwrap_err(), ErrorKind::Transient);
    assert_eq!(store.list(&Prefix::all()).await.unwrap_err().kind, ErrorKind::Transient);
}

#[tokio::test]
async fn an_object_that_breaks_off_is_an_error_and_never_shorter() {
    for (promised, sent) in [(10, "01234"), (10, "")] {
        let scene = Scene::answering(move |_, _| {
            let head = format!("HTTP/1.1 200 x\r\nconnection: close\r\ncontent-length: {promised}\r\netag: \"x\"\r\n\r\n{sent}");
            Answer::Bytes(head.into_bytes())
        });
        let mut reader = scene.await.store().open(&key("a"), None, None).await.unwrap();
        let mut bytes = Vec::new();
        assert!(reader.read_to_end(&mut bytes).await.is_err());
        assert_eq!(bytes, sent.as_bytes());
    }
}

#[tokio::test]
async fn a_range_is_what_was_asked_for_or_an_error() {
    let part = |status: u16, range: &'static str, body: &'static str| {
        Scene::answering(move |_, _| answer(status, &format!("etag: \"x\"\r\n{range}"), body))
    };
    let scene = part(200, "", "0123456789").await;
    let reader = scene.store().open(&key("a"), None, Some(0..4)).await.unwrap();
    assert_eq!(read(reader).await, b"0123", "a server that knows no ranges gave all");
    assert_eq!(scene.script.seen()[0].header("range"), Some("bytes=0-3"));
    assert!(scene.store().open(&key("a"), None, Some(4..6)).await.is_err());
    let scene = part(206, "content-range: bytes 3-5/10\r\n", "345").await;
    assert!(scene.store().open(&key("a"), None, Some(4..6)).await.is_err());
    let reader = scene.store().open(&key("a"), None, Some(3..5)).await.unwrap();
    assert_eq!(read(reader).await, b"34");
}

#[tokio::test]
async fn requests_name_holdfast_and_carry_no_secret_and_only_the_checksums_asked_for() {
    for (checksums, expected) in [(Checksums::WhenRequired, false), (Checksums::WhenSupported, true)] {
        let scene = Scene::answering(|request, _| match request.kind() {
            "GetObject" => answer(200, "etag: \"x\"\r\n", "x"),
            _ => stored(request),
        });
        let mut scene = scene.await;
        scene.config.checksums = checksums;
        let store = scene.store();
        put(&store, "a", b"x").await.unwrap();
        put(&store, "b", &two_parts()).await.unwrap();
        get(&store, "a").await.unwrap();
        let seen = scene.script.seen();
        assert_eq!(seen.len(), 6, "{:?}", scene.script.kinds());
        for request in &seen {
            let agent = request.header("user-agent").unwrap();
            assert!(agent.contains("holdfast-"), "{agent}");
            let text = format!("{:?} {}", request.headers, request.target);
            assert!(!text.contains(SECRET), "{text}");
            let has_checksum = text.to_ascii_lowercase().contains("checksum") || text.contains("aws-chunked");
            let may_have = ["PutObject", "CreateMultipartUpload", "UploadPart", "GetObject"].contains(&request.kind());
            assert_eq!(has_checksum, expected && may_have, "{}: {text}", request.kind());
        }
    }
}

#[tokio::test]
async fn listings_that_make_no_sense_are_errors() {
    let page = |inner: &'static str| {
        Scene::answering(move |_, _| answer(200, "", &format!("<ListBucketResult><Name>bucket</Name>{inner}</ListBucketResult>")))
    };
    for (inner, good) in [
        ("<IsTruncated>false</IsTruncated><Contents><Key>a</Key><Size>1</Size></Contents>", true),
        ("<IsTruncated>false</IsTruncated><Contents><Key>a b</Key><Size>1</Size></Contents>", true),
        ("<IsTruncated>true</IsTruncated>", false),
        ("<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>", false),
        ("<IsTruncated>false</IsTruncated><Contents><Key>a</Key></Contents>", false),
        ("<IsTruncated>false</IsTruncated><Contents><Key>a</Key><Size>-1</Size></Contents>", false),
        ("<Contents><Key>a</Key><Size>", false),
    ] {
        let listed = page(inner).await.store().list(&Prefix::all()).await;
        assert_eq!(listed.is_ok(), good, "{inner}: {listed:?}");
        if let Err(error) = listed {
            assert_eq!(error.kind, ErrorKind::Broken, "{inner}");
        }
    }
    let other = Scene::answering(|_, _| answer(200, "", "<ListBucketResult><Name>other</Name></ListBucketResult>")).await;
    assert!(other.store().list(&Prefix::all()).await.is_err());
}

#[tokio::test]
async fn parts_are_as_large_as_the_expected_length_needs_and_few_at_once() {
    let scene = Scene::answering(|request, _| stored(request)).await;
    let options = PutOptions { expected_bytes: Some(6 * PART * 10_000 / 2) };
    let body = pattern(PART as usize * 13);
    scene.store().put(&key("a"), &mut &body[..], &options).await.unwrap();
    let parts: Vec<_> = scene.script.seen().into_iter().filter(|request| request.kind() == "UploadPart").collect();
    let mut lengths: Vec<_> = parts.iter().map(|request| request.body.len() as u64).collect();
    lengths.sort_unstable();
    assert_eq!(lengths, [PART, 6 * PART, 6 * PART]);
}
