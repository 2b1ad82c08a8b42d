//! Objects in a bucket of an S3 server.
//!
//! Owns: one request for a body that fits a part, a multipart upload for any
//! other, and what servers make of S3: what is asked conditionally is asked
//! again plainly where a server does not know conditions, and an answer that no
//! S3 server gives is an error, whatever its status.
//!
//! Invariants: a put needs `PutObject` (and `AbortMultipartUpload`, to clean up)
//! and no other right; an object appears with the last request, or not at all;
//! what was begun and fails or is dropped is aborted.
//!
//! What cannot be promised: a put that is dropped while its last request is on
//! the way may still appear, whole, under a name that nothing mentions. A server
//! that is gone when an upload is to be aborted, or a process that is killed,
//! leaves parts that nobody sees; a lifecycle rule of the bucket removes them.
//!
//! Names are never reused by holdfast, so a condition (`If-None-Match: *`) is a
//! second line. Where a request's answer was lost and the next try of the same
//! request finds the name taken, that was our own object.
//!
//! The length and digest of an object are those of the bytes that passed; the
//! server has checked each request's bytes against its signature. The ETag of
//! an answer says nothing more: it is an MD5 only for some objects of some servers.

mod connection;
mod list;
mod multipart;
mod put;
mod read;
mod rights;
mod trouble;
mod watch;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use tokio::io::AsyncRead;

use super::{ErrorKind, Key, Listed, Prefix, PutOptions, Reader, Store, StoreError, Stored, VersionId};
use crate::config::S3Config;
use connection::Connections;
use trouble::Trouble;

/// One bucket as a store.
#[derive(Debug)]
pub struct S3Store {
    bucket: Arc<Bucket>,
}

/// What requests need.
#[derive(Debug)]
struct Bucket {
    config: Arc<S3Config>,
    connections: Connections,
    /// Does the server know `If-None-Match`? Until it says that it does not.
    conditional: AtomicBool,
}

impl S3Store {
    /// Names the bucket and touches nothing, not even the credential.
    #[must_use]
    pub fn of(config: &S3Config) -> Self {
        let config = Arc::new(config.clone());
        let connections = Connections::new(config.clone());
        Self { bucket: Arc::new(Bucket { config, connections, conditional: AtomicBool::new(true) }) }
    }

    fn error(&self, operation: &'static str, object: &str, trouble: Trouble) -> StoreError {
        let object = match trouble.object {
            Some(object) => object,
            None => format!("{}: {object}", self.describe()),
        };
        StoreError { kind: trouble.kind, operation, object, source: Some(trouble.cause.into()) }
    }
}

/// Waits until what dropped puts left is removed, or cannot be.
pub async fn settled() {
    multipart::aborted().await;
}

impl Bucket {
    fn condition(&self) -> Option<String> {
        self.conditional.load(Ordering::Relaxed).then(|| "*".to_owned())
    }
}

#[async_trait]
impl Store for S3Store {
    fn describe(&self) -> String {
        let config = &self.bucket.config;
        let authority =
            |endpoint: &str| endpoint.split_once("://").map_or_else(|| endpoint.to_owned(), |(_, host)| host.to_owned());
        format!("s3 {}/{}", config.endpoint.as_deref().map_or_else(|| "aws".to_owned(), authority), config.bucket)
    }

    async fn put(
        &self,
        key: &Key,
        body: &mut (dyn AsyncRead + Send + Unpin),
        options: &PutOptions,
    ) -> Result<Stored, StoreError> {
        self.bucket.put_object(key, body, options).await.map_err(|trouble| self.error("put", key.as_str(), trouble))
    }

    async fn open(&self, key: &Key, version: Option<&VersionId>, range: Option<Range<u64>>) -> Result<Reader, StoreError> {
        self.bucket.read_object(key, version, range).await.map_err(|trouble| self.error("open", key.as_str(), trouble))
    }

    async fn list(&self, prefix: &Prefix) -> Result<Vec<Listed>, StoreError> {
        self.bucket.list_objects(prefix).await.map_err(|trouble| self.error("list", prefix.as_str(), trouble))
    }
}
