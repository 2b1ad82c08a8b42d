//! A store that answers only to a crowd, and in an order of its own.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use holdfast::ledger::Ledger;
use holdfast::ledger::read::CONCURRENT_READS;
use holdfast::store::{Key, Listed, Prefix, PutOptions, Reader, Store, StoreError, Stored, VersionId};
use tokio::io::AsyncRead;
use tokio::sync::Barrier;

use super::records::{KEY1, Site, layout};
use super::shelf::Shelf;
use crate::test_key;

/// Answers an open when so many others wait for theirs.
#[derive(Debug)]
struct Crowd {
    inner: Arc<Shelf>,
    barrier: Barrier,
    waiting: AtomicUsize,
    most: AtomicUsize,
}

#[async_trait]
impl Store for Crowd {
    fn describe(&self) -> String {
        "crowd".into()
    }

    async fn put(
        &self,
        key: &Key,
        body: &mut (dyn AsyncRead + Send + Unpin),
        options: &PutOptions,
    ) -> Result<Stored, StoreError> {
        self.inner.put(key, body, options).await
    }

    async fn open(&self, key: &Key, version: Option<&VersionId>, range: Option<Range<u64>>) -> Result<Reader, StoreError> {
        self.most.fetch_max(self.waiting.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        self.barrier.wait().await;
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        self.inner.open(key, version, range).await
    }

    async fn list(&self, prefix: &Prefix) -> Result<Vec<Listed>, StoreError> {
        self.inner.list(prefix).await
    }
}

#[tokio::test]
async fn records_are_read_sixteen_at_a_time_and_their_order_changes_nothing() {
    let site = Site::new();
    // Twice as many as are read at once, so that the crowd is always complete.
    for minute in 0..2 * CONCURRENT_READS {
        site.receipt(KEY1, &format!("13:{minute:02}"));
    }
    site.outbox.deliver(&site.stores()).await.unwrap();
    let expected = site.reader().read().await.unwrap();
    assert_eq!((expected.entries.len(), expected.findings.len()), (2 * CONCURRENT_READS, 0));
    let crowd = Arc::new(Crowd {
        inner: site.ledger.clone(),
        barrier: Barrier::new(CONCURRENT_READS),
        waiting: AtomicUsize::new(0),
        most: AtomicUsize::new(0),
    });
    let allowed = test_key::allowed(&[&site.backup_host, &site.rehearsal_host]);
    let history = Ledger::new(crowd.clone(), layout(), allowed).read().await.unwrap();
    assert_eq!(history, expected);
    assert_eq!(crowd.most.load(Ordering::SeqCst), 16);
}
