//! The retry layer over stores that fail as they are told. The clock is paused:
//! waits pass at once and are measured all the same.

use std::sync::Arc;
use std::time::Duration;

use holdfast::base::digest::Sha256;
use holdfast::store::layers::retry::REPLAYED;
use holdfast::store::layers::{Fault, FaultStore, OperationKind, PutOnly, Retry};
use holdfast::store::mem::MemStore;
use holdfast::store::{ErrorKind, Prefix, PutOptions, Store};
use tokio::io::AsyncReadExt;
use tokio::time::Instant;

use super::{get, key, names, pattern, put, read, retry, shared};

const NO_ANSWER: Fault = Fault::Refused(ErrorKind::Transient);

fn over(faults: FaultStore) -> (Arc<FaultStore>, Retry) {
    let faults = Arc::new(faults);
    (faults.clone(), retry(faults))
}

fn memory() -> FaultStore {
    FaultStore::new(shared(MemStore::new("test")))
}

#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_is_made_again_until_it_has_one() {
    for failing in 1..=4 {
        let (faults, store) = over(memory().fail(1..=failing, NO_ANSWER));
        put(&store, "a", b"x").await.unwrap();
        assert_eq!(faults.operations().len(), failing + 1);

        let (faults, store) = over(memory().fail(2..=failing + 1, NO_ANSWER));
        put(&store, "a", b"x").await.unwrap();
        assert_eq!(get(&store, "a").await.unwrap(), b"x");
        assert_eq!(faults.operations().len(), failing + 2);

        let (faults, store) = over(memory().fail(2..=failing + 1, NO_ANSWER));
        put(&store, "a", b"x").await.unwrap();
        assert_eq!(names(&store).await, ["a"]);
        assert_eq!(faults.operations().len(), failing + 2);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_answered_is_not_asked_again() {
    use ErrorKind::{Body, Broken, Credential, Denied, Exists, Full, NotFound, Tls};
    for kind in [NotFound, Denied, Exists, Full, Body, Broken, Credential, Tls] {
        let (faults, store) = over(memory().fail(1.., Fault::Refused(kind)));
        assert_eq!(put(&store, "a", b"x").await.unwrap_err().kind, kind);
        assert_eq!(get(&store, "a").await.unwrap_err(), kind);
        assert_eq!(store.list(&Prefix::all()).await.unwrap_err().kind, kind);
        assert_eq!(faults.operations().len(), 3, "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn waits_grow_and_have_an_end() {
    let (faults, store) = over(memory().fail(1.., NO_ANSWER));
    let started = Instant::now();
    assert_eq!(put(&store, "a", b"x").await.unwrap_err().kind, ErrorKind::Transient);
    let (passed, tries) = (started.elapsed(), faults.operations().len());
    assert!(passed <= Duration::from_secs(20), "{passed:?}");
    // Without growth there would be twenty at least.
    assert!((4..=8).contains(&tries) && passed > Duration::from_secs(5), "{tries} tries in {passed:?}");
}

#[tokio::test(start_paused = true)]
async fn waits_vary() {
    let mut passed = Vec::new();
    for _ in 0..5 {
        let (_, store) = over(memory().fail(1..=3, NO_ANSWER));
        let started = Instant::now();
        put(&store, "a", b"x").await.unwrap();
        passed.push(started.elapsed());
    }
    assert!(passed.iter().any(|other| *other != passed[0]), "{passed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_put_whose_answer_was_lost_has_met_its_own_object() {
    for may_read in [true, false] {
        let inner = shared(MemStore::new("test"));
        let writer = if may_read { inner.clone() } else { shared(PutOnly::new(inner.clone())) };
        let (faults, store) = over(FaultStore::new(writer).fail(1..=1, Fault::AnswerLost));
        let stored = put(&store, "a", b"x").await.unwrap();
        assert_eq!((stored.bytes, stored.sha256, stored.version_id), (1, Sha256::of(b"x"), None));
        assert_eq!(faults.operations().iter().filter(|o| o.kind == OperationKind::Put).count(), 2);
        assert_eq!(get(&*inner, "a").await.unwrap(), b"x");
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_that_others_took_is_taken() {
    for others in [&b"y"[..], b"", b"longer than ours"] {
        let (_, store) = over(memory().fail(2..=2, NO_ANSWER));
        put(&store, "a", others).await.unwrap();
        assert_eq!(put(&store, "a", b"x").await.unwrap_err().kind, ErrorKind::Exists);
        assert_eq!(get(&store, "a").await.unwrap(), others);
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_memory_does_not_hold_passes_once_and_whole() {
    let long = pattern(REPLAYED as usize + 1);
    for expected in [None, Some(long.len() as u64), Some(1)] {
        let options = PutOptions { expected_bytes: expected };
        let (faults, store) = over(memory().fail(1..=1, NO_ANSWER));
        let error = store.put(&key("a"), &mut &long[..], &options).await.unwrap_err();
        assert_eq!((error.kind, faults.operations().len()), (ErrorKind::Transient, 1));
        let stored = store.put(&key("a"), &mut &long[..], &options).await.unwrap();
        assert_eq!((stored.bytes, stored.sha256), (long.len() as u64, Sha256::of(&long)));
    }
    let (faults, store) = over(memory().fail(1..=1, NO_ANSWER));
    put(&store, "a", &long[1..]).await.unwrap();
    assert_eq!(faults.operations().len(), 2, "one byte less is replayed");
}

#[tokio::test(start_paused = true)]
async fn a_read_goes_on_where_it_broke_off() {
    let bytes = pattern(100_000);
    for range in [None, Some(0..100_000), Some(7..99_993), Some(50_000..u64::MAX)] {
        for broken in 1..=4 {
            let (faults, store) = over(memory().fail(2..=broken + 1, Fault::CutAfter(10_007)));
            put(&store, "a", &bytes).await.unwrap();
            let expected = range.clone().map_or(&bytes[..], |r| &bytes[r.start as usize..(r.end as usize).min(bytes.len())]);
            let reader = store.open(&key("a"), None, range.clone()).await.unwrap();
            assert_eq!(Sha256::of(&read(reader).await), Sha256::of(expected), "{range:?}, {broken} breaks");
            assert_eq!(faults.operations().len(), broken + 2);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_that_gets_nowhere_ends_with_the_reason() {
    let (_, store) = over(memory().fail_on(OperationKind::Open, "a", Fault::CutAfter(0)));
    put(&store, "a", b"0123456789").await.unwrap();
    let mut reader = store.open(&key("a"), None, None).await.unwrap();
    let started = Instant::now();
    let error = reader.read_to_end(&mut Vec::new()).await.unwrap_err();
    assert!(error.to_string().contains("injected fault"), "{error}");
    assert!(started.elapsed() <= Duration::from_secs(20));
}

#[tokio::test(start_paused = true)]
async fn a_long_read_survives_more_breaks_than_one_call_has_tries() {
    let bytes = pattern(30 << 20);
    let (faults, store) = over(memory().fail_on(OperationKind::Open, "a", Fault::CutAfter((1 << 20) + 1)));
    put(&store, "a", &bytes).await.unwrap();
    let reader = store.open(&key("a"), None, None).await.unwrap();
    assert_eq!(Sha256::of(&read(reader).await), Sha256::of(&bytes));
    assert!(faults.operations().len() > 25);
}

#[tokio::test(start_paused = true)]
async fn a_read_does_not_go_on_in_an_object_that_is_gone() {
    let inner = Arc::new(MemStore::new("test"));
    let (_, store) = over(FaultStore::new(inner.clone()).fail(2..=2, Fault::CutAfter(3)));
    put(&store, "a", b"0123456789").await.unwrap();
    let mut reader = store.open(&key("a"), None, None).await.unwrap();
    inner.remove(&key("a"));
    let mut bytes = Vec::new();
    let error = reader.read_to_end(&mut bytes).await.unwrap_err();
    assert!(error.to_string().contains("not found") && bytes == b"012", "{error}");
}

/// Whichever single call has no answer, before or after it was done, the whole
/// ends as if nothing had been.
#[tokio::test(start_paused = true)]
async fn whichever_answer_is_lost_the_outcome_is_the_same() {
    for fault in [NO_ANSWER, Fault::AnswerLost, Fault::CutAfter(2)] {
        for failing in 1.. {
            let faults = memory().fail(failing..=failing, fault);
            let (faults, store) = over(if matches!(fault, Fault::CutAfter(_)) && failing <= 2 { memory() } else { faults });
            for name in ["a", "b"] {
                assert_eq!(put(&store, name, b"12345").await.unwrap().bytes, 5, "{fault:?} of call {failing}");
            }
            assert_eq!(get(&store, "a").await.unwrap(), b"12345");
            assert_eq!(get(&store, "absent").await.unwrap_err(), ErrorKind::NotFound);
            assert_eq!(names(&store).await, ["a", "b"]);
            if faults.operations().len() < failing {
                break;
            }
        }
    }
}
