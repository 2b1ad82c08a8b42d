//! A store as a control-plane host sees it: it may put, and nothing else.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::io::AsyncRead;

use crate::store::{ErrorKind, Key, Listed, Prefix, PutOptions, Reader, Store, StoreError, Stored, VersionId};

/// Denies `open` and `list`, as the credential of a writer should.
#[derive(Debug)]
pub struct PutOnly {
    inner: Arc<dyn Store>,
}

impl PutOnly {
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner }
    }

    fn denied(&self, operation: &'static str, object: &str) -> StoreError {
        let object = format!("{}: {object}", self.describe());
        StoreError { kind: ErrorKind::Denied, operation, object, source: None }
    }
}

#[async_trait]
impl Store for PutOnly {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    async fn put(
        &self,
        key: &Key,
        body: &mut (dyn AsyncRead + Send + Unpin),
        options: &PutOptions,
    ) -> Result<Stored, StoreError> {
        self.inner.put(key, body, options).await
    }

    async fn open(&self, key: &Key, _: Option<&VersionId>, _: Option<Range<u64>>) -> Result<Reader, StoreError> {
        Err(self.denied("open", key.as_str()))
    }

    async fn list(&self, prefix: &Prefix) -> Result<Vec<Listed>, StoreError> {
        Err(self.denied("list", prefix.as_str()))
    }
}
