//! The layers fail as they are told, and no other way.

use futures::FutureExt;
use holdfast::base::exit::Exit;
use holdfast::base::failure::Failure;
use holdfast::store::layers::{Fault, FaultStore, OperationKind, PutOnly};
use holdfast::store::mem::MemStore;
use holdfast::store::{ErrorKind, Prefix, Store};
use tokio::io::AsyncReadExt;

use super::{get, key, names, pattern, put, shared};

#[tokio::test]
async fn the_nth_operation_fails_once_or_for_good() {
    let once = FaultStore::new(shared(MemStore::new("test"))).fail(2..=2, Fault::Refused(ErrorKind::Denied));
    assert!(put(&once, "a", b"").await.is_ok());
    assert_eq!(put(&once, "b", b"").await.unwrap_err().kind, ErrorKind::Denied);
    assert!(put(&once, "b", b"").await.is_ok());

    let sticky = FaultStore::new(shared(MemStore::new("test"))).fail(2.., Fault::Refused(ErrorKind::Transient));
    assert!(put(&sticky, "a", b"").await.is_ok());
    assert_eq!(get(&sticky, "a").await.unwrap_err(), ErrorKind::Transient);
    assert_eq!(sticky.list(&Prefix::all()).await.unwrap_err().kind, ErrorKind::Transient);
    sticky.heal();
    assert!(get(&sticky, "a").await.is_ok());
    let seen: Vec<_> = sticky.operations().into_iter().map(|o| (o.kind, o.object)).collect();
    let expected = [(OperationKind::Put, "a"), (OperationKind::Open, "a"), (OperationKind::List, ""), (OperationKind::Open, "a")];
    assert_eq!(seen, expected.map(|(kind, name)| (kind, name.to_owned())));
}

#[tokio::test]
async fn a_put_is_cut_after_so_many_bytes_and_nothing_is_visible() {
    for bytes in [0, 1, 70_000, 100_000] {
        let store = FaultStore::new(shared(MemStore::new("test"))).fail(1..=1, Fault::CutAfter(bytes));
        assert_eq!(put(&store, "a", &pattern(100_000)).await.unwrap_err().kind, ErrorKind::Body, "{bytes}");
        assert_eq!(names(&store).await, Vec::<String>::new());
    }
    let store = FaultStore::new(shared(MemStore::new("test"))).fail(1..=1, Fault::CutAfter(100_001));
    assert!(put(&store, "a", &pattern(100_000)).await.is_ok());
}

#[tokio::test]
async fn a_read_is_cut_after_so_many_bytes() {
    let store = FaultStore::new(shared(MemStore::new("test"))).fail_on(OperationKind::Open, "a", Fault::CutAfter(5));
    put(&store, "a", b"0123456789").await.unwrap();
    let mut reader = store.open(&key("a"), None, None).await.unwrap();
    let mut bytes = Vec::new();
    assert!(reader.read_to_end(&mut bytes).await.is_err());
    assert_eq!(bytes, b"01234");
}

#[tokio::test]
async fn a_lost_answer_hides_a_put_that_was_done() {
    let store = FaultStore::new(shared(MemStore::new("test"))).fail(1..=1, Fault::AnswerLost);
    assert_eq!(put(&store, "a", b"x").await.unwrap_err().kind, ErrorKind::Transient);
    assert_eq!(put(&store, "a", b"x").await.unwrap_err().kind, ErrorKind::Exists);
    assert_eq!(get(&store, "a").await.unwrap(), b"x");
}

#[tokio::test]
async fn an_operation_that_hangs_never_answers() {
    let store = FaultStore::new(shared(MemStore::new("test"))).fail(1..=1, Fault::Hangs);
    assert!(put(&store, "a", b"x").now_or_never().is_none());
    assert_eq!(names(&store).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_put_only_store_denies_open_and_list() {
    let store = PutOnly::new(shared(MemStore::new("test")));
    put(&store, "a", b"x").await.unwrap();
    assert_eq!(get(&store, "a").await.unwrap_err(), ErrorKind::Denied);
    let error = store.list(&Prefix::all()).await.unwrap_err();
    let failure = Failure::from(error);
    assert_eq!((failure.code().name, failure.exit()), ("store.denied", Exit::CouldNotRun));
}

#[tokio::test]
async fn memory_that_is_full_says_so() {
    let store = MemStore::with_room("small", 10);
    put(&store, "a", b"12345").await.unwrap();
    assert_eq!(put(&store, "b", b"123456").await.unwrap_err().kind, ErrorKind::Full);
    assert!(put(&store, "b", b"12345").await.is_ok());
    assert_eq!(names(&store).await, ["a", "b"]);
}
