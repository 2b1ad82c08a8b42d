//! Credentials that are missing, wrong, or changed under a running process.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use holdfast::base::exit::Exit;
use holdfast::base::failure::Failure;
use holdfast::config::credential::CredentialSource;
use holdfast::store::s3::S3Store;
use holdfast::store::{ErrorKind, Prefix, PutOptions};
use tokio::io::{AsyncWriteExt, duplex};

use super::super::{get, key, pattern, put};
use super::{PART, Site};
use crate::rig::s3::Credential;

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_that_is_missing_or_malformed_is_named_and_nothing_is_sent() {
    let site = Site::start().await;
    let file = site.file("plain-writer");
    let store = site.writer("plain");
    put(&*store, "a", b"x").await.unwrap();
    let secret = fs::read_to_string(&file).unwrap().lines().last().unwrap().split(" = ").nth(1).unwrap().to_owned();
    for (text, mode, cause) in [
        (None, 0o600, "No such file"),
        (Some(""), 0o600, "there is no [default] in it"),
        (Some("[default]\naws_access_key_id = x\n"), 0o600, "[default] has no aws_secret_access_key"),
        (Some("[default]\naws_access_key_id = x\naws_secret_access_key = y\n"), 0o644, "lets other users at the credential"),
    ] {
        fs::remove_file(&file).unwrap_or_default();
        if let Some(text) = text {
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        }
        let error = put(&*store, "b", b"x").await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Credential, "{error:?}");
        assert_eq!(get(&*store, "a").await.unwrap_err(), ErrorKind::Credential);
        assert_eq!(store.list(&Prefix::all()).await.unwrap_err().kind, ErrorKind::Credential);
        let failure = Failure::from(error);
        assert_eq!((failure.code().name, failure.exit()), ("store.credential", Exit::Usage));
        assert_eq!(failure.object(), file.display().to_string());
        assert!(failure.cause().contains(cause) && !format!("{failure:?}").contains(&secret), "{failure:?}");
    }
    // What comes back is read without a restart.
    Credential { access: "plain-writer".to_owned(), secret }.write(&file);
    put(&*store, "b", b"x").await.unwrap();
    assert_eq!(site.server.names("plain").await, ["a", "b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_credential_is_told_apart_from_missing_rights() {
    let site = Site::start().await;
    let cause = async |user: &str, credential: Credential| {
        credential.write(&site.file(user));
        let failure = Failure::from(put(&S3Store::of(&site.config("plain", user)), "a", b"x").await.unwrap_err());
        assert_eq!((failure.code().name, failure.exit()), ("store.denied", Exit::CouldNotRun));
        assert!(!format!("{failure:?}").contains(&credential.secret), "{failure:?}");
        format!("{}; {}", failure.cause(), failure.next_action())
    };
    let credential = |access: &str, secret: &str| Credential { access: access.to_owned(), secret: secret.to_owned() };
    let unknown = cause("unknown", credential("nobody", "hunter2hunter2")).await;
    assert!(unknown.contains("does not know this access key (InvalidAccessKeyId); correct the access key id"), "{unknown}");
    let wrong = cause("wrong", credential("plain-writer", "hunter2hunter2")).await;
    assert!(wrong.contains("the secret key is not that of the access key (SignatureDoesNotMatch)"), "{wrong}");
    let reader = fs::read_to_string(site.file("plain-reader")).unwrap();
    let secret = reader.lines().last().unwrap().split(" = ").nth(1).unwrap();
    let no_right = cause("no-right", credential("plain-reader", secret)).await;
    assert!(no_right.contains("AccessDenied") && no_right.contains("grant the operation named"), "{no_right}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_that_is_rotated_is_used_from_the_next_request_on() {
    let mut site = Site::start().await;
    let store = site.writer("plain");
    put(&*store, "before", b"x").await.unwrap();
    let next = site.server.user("plain-writer");
    assert_eq!(put(&*store, "between", b"x").await.unwrap_err().kind, ErrorKind::Denied);
    next.write(&site.file("plain-writer"));
    put(&*store, "after", b"x").await.unwrap();
    assert_eq!(site.server.names("plain").await, ["after", "before"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_in_the_middle_of_a_large_put_does_not_end_it() {
    let mut site = Site::start().await;
    let store = site.writer("plain");
    let bytes = pattern(4 * PART as usize);
    let (mut sender, mut body) = duplex(64 * 1024);
    let (half, rest) = bytes.split_at(bytes.len() / 2 + 1);
    let send = async {
        sender.write_all(half).await.unwrap();
        let next = site.server.user("plain-writer");
        next.write(&site.file("plain-writer"));
        // A put that fails drops the body.
        let _ = sender.write_all(rest).await;
        drop(sender);
    };
    let put_it = async move { store.put(&key("large"), &mut body, &PutOptions::default()).await };
    let (stored, ()) = tokio::join!(put_it, send);
    assert_eq!(stored.unwrap().bytes, bytes.len() as u64);
    assert_eq!(get(&*site.reader("plain"), "large").await.unwrap(), bytes);
}

/// A file that lies under the same name with the same length and time, as a
/// secret that a cluster mounts: the denial makes it read again.
#[tokio::test(flavor = "multi_thread")]
async fn a_denial_reads_the_credential_again_from_where_nothing_shows_a_change() {
    let mut site = Site::start().await;
    let mut config = site.config("plain", "plain-writer");
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["one", "two"].map(|name| folder.path().join(name));
    for path in [&first, &second] {
        fs::create_dir(path).unwrap();
    }
    fs::copy(site.file("plain-writer"), first.join("credential")).unwrap();
    let link = folder.path().join("current");
    std::os::unix::fs::symlink(&first, &link).unwrap();
    config.credentials = CredentialSource::File { path: link.join("credential"), profile: "default".to_owned() };
    let store = S3Store::of(&config);
    put(&store, "before", b"x").await.unwrap();
    site.server.user("plain-writer").write(&second.join("credential"));
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&second, &link).unwrap();
    put(&store, "after", b"x").await.unwrap();
}
