//! The directory store: modes, leftovers, links, and a root that is not there.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::time::Duration;

use holdfast::store::fs::FsStore;
use holdfast::store::{ErrorKind, Prefix, PutOptions, Store};
use tokio::io::{AsyncWriteExt, duplex};

use super::{get, key, names, pattern, put};

/// Any user but root.
const NOBODY: u32 = 65534;

/// All names in a directory, hidden ones too.
fn entries(path: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(path).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

#[tokio::test]
async fn objects_and_directories_are_for_their_owner_alone() {
    let root = tempfile::tempdir().unwrap();
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
    put(&FsStore::at(root.path()), "a/b/c", b"x").await.unwrap();
    assert_eq!(mode(&root.path().join("a/b/c")), 0o600);
    assert_eq!((mode(&root.path().join("a")), mode(&root.path().join("a/b"))), (0o700, 0o700));
    assert_eq!(mode(root.path()), 0o755, "the root is the operator's");
    assert_eq!(entries(root.path()), ["a"], "no temporary stays");
}

#[tokio::test]
async fn an_absent_root_is_unreachable_and_is_not_made() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("mount");
    let store = FsStore::at(&root);
    let put = put(&store, "a/b", b"x").await.unwrap_err();
    let list = store.list(&Prefix::all()).await.unwrap_err();
    assert_eq!((put.kind, list.kind), (ErrorKind::Transient, ErrorKind::Transient));
    assert_eq!(get(&store, "a/b").await.unwrap_err(), ErrorKind::Transient);
    assert_eq!(holdfast::base::failure::Failure::from(put).code().name, "store.unreachable");
    assert!(!root.exists());
    fs::create_dir(&root).unwrap();
    super::put(&store, "a/b", b"x").await.unwrap();
}

#[tokio::test]
async fn a_root_that_goes_away_during_a_put_is_unreachable() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("mount");
    fs::create_dir(&root).unwrap();
    let store = FsStore::at(&root);
    let (mut sender, mut body) = duplex(1024);
    let (name, options) = (key("a/b"), PutOptions::default());
    let vanish = async {
        sender.write_all(&pattern(2_000_000)).await.unwrap();
        fs::remove_dir_all(&root).unwrap();
        drop(sender);
    };
    let (stored, ()) = tokio::join!(store.put(&name, &mut body, &options), vanish);
    assert_eq!(stored.unwrap_err().kind, ErrorKind::Transient);
    assert!(!root.exists());
}

#[tokio::test]
async fn what_a_crash_left_is_invisible_and_the_next_put_removes_it() {
    let root = tempfile::tempdir().unwrap();
    let left = root.path().join(".holdfast-put-0123456789abcdef");
    fs::write(&left, "half an image").unwrap();
    fs::write(root.path().join(".other"), "not ours").unwrap();
    let store = FsStore::at(root.path());
    assert_eq!(names(&store).await, Vec::<String>::new());
    put(&store, "a", b"x").await.unwrap();
    assert_eq!(entries(root.path()), [".other", "a"]);
    assert_eq!(names(&store).await, ["a"]);
}

#[tokio::test]
async fn a_put_does_not_remove_the_temporary_of_another() {
    let root = tempfile::tempdir().unwrap();
    let store = FsStore::at(root.path());
    let (mut sender, mut body) = duplex(1024);
    let (name, options) = (key("slow"), PutOptions::default());
    let other = async {
        sender.write_all(&pattern(2_000_000)).await.unwrap();
        assert_eq!(entries(root.path()).len(), 1);
        put(&store, "fast", b"x").await.unwrap();
        drop(sender);
    };
    let (stored, ()) = tokio::join!(store.put(&name, &mut body, &options), other);
    assert_eq!(stored.unwrap().bytes, 2_000_000);
    assert_eq!(entries(root.path()), ["fast", "slow"]);
}

#[test]
fn a_put_that_fails_or_is_dropped_removes_its_temporary() {
    let root = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = FsStore::at(root.path());
        let (mut sender, mut body) = duplex(1024);
        let (name, options) = (key("a/b"), PutOptions::default());
        tokio::select! {
            stored = store.put(&name, &mut body, &options) => panic!("the body did not end: {stored:?}"),
            sent = async { sender.write_all(&pattern(2_000_000)).await } => sent.unwrap(),
        }
        put(&store, "taken", b"").await.unwrap();
        assert_eq!(put(&store, "taken", b"").await.unwrap_err().kind, ErrorKind::Exists);
    });
    // Ends after the threads that write.
    drop(runtime);
    assert_eq!(entries(root.path()), ["taken"]);
}

#[tokio::test]
async fn links_below_the_root_are_not_followed() {
    let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(outside.path().join("secret"), "secret").unwrap();
    symlink(outside.path(), root.path().join("way")).unwrap();
    symlink(outside.path().join("secret"), root.path().join("object")).unwrap();
    symlink(outside.path().join("new"), root.path().join("dangling")).unwrap();
    let store = FsStore::at(root.path());
    for name in ["way/secret", "object"] {
        assert_eq!(get(&store, name).await.unwrap_err(), ErrorKind::Broken, "{name}");
    }
    assert_eq!(put(&store, "way/new", b"x").await.unwrap_err().kind, ErrorKind::Broken);
    for name in ["object", "dangling"] {
        assert_eq!(put(&store, name, b"x").await.unwrap_err().kind, ErrorKind::Exists, "{name}");
    }
    assert_eq!(names(&store).await, Vec::<String>::new());
    assert_eq!(store.list(&Prefix::below(&key("way"))).await.unwrap_err().kind, ErrorKind::Broken);
    assert_eq!(entries(outside.path()), ["secret"]);
}

#[tokio::test]
async fn the_root_itself_may_be_a_link() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("real")).unwrap();
    symlink("real", dir.path().join("link")).unwrap();
    put(&FsStore::at(dir.path().join("link")), "a/b", b"x").await.unwrap();
    assert_eq!(get(&FsStore::at(dir.path().join("real")), "a/b").await.unwrap(), b"x");
}

#[tokio::test]
async fn what_is_no_regular_file_is_no_object() {
    let root = tempfile::tempdir().unwrap();
    let directory = fs::File::open(root.path()).unwrap();
    rustix::fs::mkfifoat(&directory, "fifo", rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    let store = FsStore::at(root.path());
    put(&store, "a", b"x").await.unwrap();
    assert_eq!(get(&store, "fifo").await.unwrap_err(), ErrorKind::Broken);
    assert_eq!(put(&store, "fifo", b"").await.unwrap_err().kind, ErrorKind::Exists);
    assert_eq!(put(&store, "a/b", b"").await.unwrap_err().kind, ErrorKind::Broken, "a file lies there");
    assert_eq!(names(&store).await, ["a"]);
}

#[tokio::test]
async fn a_root_that_is_a_file_is_broken() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let store = FsStore::at(dir.path().join("file"));
    assert_eq!(put(&store, "a", b"x").await.unwrap_err().kind, ErrorKind::Broken);
}

#[test]
fn a_writer_needs_no_permission_to_read_or_list() {
    let dir = tempfile::tempdir().unwrap();
    let root = unreadable(dir.path(), 0o300);
    as_nobody(async {
        let store = FsStore::at(&root);
        for name in ["a/b", "a/c", "d"] {
            put(&store, name, &pattern(600_000)).await.unwrap();
        }
        assert_eq!(put(&store, "d", b"").await.unwrap_err().kind, ErrorKind::Exists);
        assert_eq!(store.list(&Prefix::all()).await.unwrap_err().kind, ErrorKind::Denied);
    });
    assert_eq!(fs::read(root.join("a/b")).unwrap(), pattern(600_000));
    assert_eq!(entries(&root), ["a", "d"]);
}

#[test]
fn a_writer_without_permission_to_write_is_denied() {
    let dir = tempfile::tempdir().unwrap();
    let root = unreadable(dir.path(), 0o500);
    as_nobody(async {
        let store = FsStore::at(&root);
        assert_eq!(put(&store, "a/b", b"x").await.unwrap_err().kind, ErrorKind::Denied);
        assert_eq!(names(&store).await, Vec::<String>::new());
    });
    assert_eq!(entries(&root), Vec::<String>::new());
}

/// A store's root with the given mode, owned by whoever [`as_nobody`] is.
fn unreadable(dir: &Path, mode: u32) -> std::path::PathBuf {
    let root = dir.join("root");
    fs::create_dir(&root).unwrap();
    if rustix::process::getuid().is_root() {
        chown(&root, Some(NOBODY), Some(NOBODY)).unwrap();
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::set_permissions(&root, fs::Permissions::from_mode(mode)).unwrap();
    root
}

/// Runs with all blocking work on threads that have no privilege. Whoever is
/// not root has none anyway.
fn as_nobody(work: impl Future<Output = ()>) {
    let is_root = rustix::process::getuid().is_root();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .on_thread_start(move || {
            if is_root {
                let uid = rustix::process::Uid::from_raw(NOBODY);
                rustix::thread::set_thread_uid(uid).unwrap();
            }
        })
        .build()
        .unwrap();
    runtime.block_on(work);
    runtime.shutdown_timeout(Duration::from_secs(10));
}
