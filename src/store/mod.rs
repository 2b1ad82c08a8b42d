//! Object stores behind one small trait.
//!
//! Owns: putting, opening and listing objects by name. Names are never reused:
//! a put over an existing object is [`ErrorKind::Exists`]. Must never: know
//! what an object means, repeat a whole call inside an adapter (that is a layer),
//! or show an object before its last byte is stored.

pub mod fs;
pub mod layers;
pub mod mem;
pub mod rights;
pub mod s3;

use std::fmt::{self, Debug};
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::base::codes;
use crate::base::digest::Sha256;
use crate::base::entropy::OsEntropy;
use crate::base::failure::{Failure, chain};
pub use crate::base::object_key::{BadKey, Key, Prefix};
use crate::config::StoreConfig;

/// What reading an object gives.
pub type Reader = Box<dyn AsyncRead + Send + Unpin>;

/// A place for objects.
#[async_trait]
pub trait Store: Debug + Send + Sync {
    /// Kind and address for messages, without credentials: `fs /backup`.
    fn describe(&self) -> String;

    /// Stores all of `body` under `key`. The object appears when the last byte
    /// is stored, and not at all if the body fails, this call fails, or its
    /// future is dropped. Needs no right but to put.
    async fn put(&self, key: &Key, body: &mut (dyn AsyncRead + Send + Unpin), options: &PutOptions)
    -> Result<Stored, StoreError>;

    /// Opens an object, or the half-open byte range of it, at `version` when
    /// one was recorded. Of a range only what the object has is read: beyond its
    /// end there is nothing, and that is no error.
    async fn open(&self, key: &Key, version: Option<&VersionId>, range: Option<Range<u64>>) -> Result<Reader, StoreError>;

    /// All objects whose name starts with `prefix`, sorted by name. Existence
    /// is decided by [`Store::open`], never by a listing: listings may lag.
    async fn list(&self, prefix: &Prefix) -> Result<Vec<Listed>, StoreError>;
}

/// The store that the configuration names. Touches nothing: a store that is
/// down says so when it is used.
#[must_use]
pub fn open(config: &StoreConfig) -> Arc<dyn Store> {
    match config {
        StoreConfig::Fs { path } => Arc::new(fs::FsStore::at(path)),
        StoreConfig::S3(config) => Arc::new(layers::Retry::new(Arc::new(s3::S3Store::of(config)), Arc::new(OsEntropy))),
    }
}

/// How to store an object.
#[derive(Debug, Clone, Default)]
pub struct PutOptions {
    /// About how many bytes will come: lets a store refuse early when it has no room.
    pub expected_bytes: Option<u64>,
}

/// What the store says it stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    pub key: Key,
    /// Where the store keeps versions.
    pub version_id: Option<VersionId>,
    pub bytes: u64,
    /// Of the bytes as they passed through, not as the store reports them.
    pub sha256: Sha256,
    /// More than one where the store keeps an object in parts.
    pub parts: Vec<Part>,
    /// The store's clock when it said so, where it has one of its own.
    pub server_time: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub key: Key,
    pub version_id: Option<VersionId>,
    pub bytes: u64,
    pub sha256: Sha256,
}

/// One line of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub key: Key,
    pub bytes: u64,
}

/// A store's own name for one version of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionId(pub String);

/// What went wrong, in the few kinds that callers tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    NotFound,
    Denied,
    /// The name is taken.
    Exists,
    /// The same call may succeed later.
    Transient,
    /// No room.
    Full,
    /// The body to store failed; the store is not to blame.
    Body,
    /// The credential for the store is missing or malformed on this host.
    Credential,
    /// The store's certificate is not accepted.
    Tls,
    /// Anything else.
    Broken,
}

/// An operation on a store that did not succeed. Nothing is visible of it.
#[derive(Debug, thiserror::Error)]
pub struct StoreError {
    pub kind: ErrorKind,
    /// `put`, `open` or `list`.
    pub operation: &'static str,
    /// The store and the object: `fs /backup: a/b`.
    pub object: String,
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            ErrorKind::NotFound => "not found",
            ErrorKind::Denied => "denied",
            ErrorKind::Exists => "exists already",
            ErrorKind::Transient => "no answer",
            ErrorKind::Full => "no room",
            ErrorKind::Body => "the data to store failed",
            ErrorKind::Credential => "no credential",
            ErrorKind::Tls => "no trusted connection",
            ErrorKind::Broken => "failed",
        };
        write!(f, "{}: {what}", self.operation)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let code = match error.kind {
            ErrorKind::NotFound => &codes::STORE_NOT_FOUND,
            ErrorKind::Denied => &codes::STORE_DENIED,
            ErrorKind::Exists => &codes::STORE_EXISTS,
            ErrorKind::Transient => &codes::STORE_UNREACHABLE,
            ErrorKind::Full => &codes::STORE_FULL,
            ErrorKind::Body | ErrorKind::Broken => &codes::STORE_BROKEN,
            ErrorKind::Credential => &codes::STORE_CREDENTIAL,
            ErrorKind::Tls => &codes::STORE_TLS,
        };
        let failure = Failure::new(code, &error.object, chain(&error));
        let cause = error.source.as_ref().and_then(|source| source.downcast_ref::<Cause>());
        match cause.and_then(|cause| cause.next.clone()) {
            Some(next) => failure.next(next),
            None => failure,
        }
    }
}

/// Why an operation failed, where a store knows a better next action than the
/// kind of the error has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Cause {
    text: String,
    next: Option<String>,
}

impl Cause {
    pub fn new(text: impl fmt::Display) -> Self {
        Self { text: text.to_string(), next: None }
    }

    /// The one thing to do about it.
    #[must_use]
    pub fn next(mut self, action: impl Into<String>) -> Self {
        self.next = Some(action.into());
        self
    }
}

/// Reads a whole object of at most `limit` bytes into memory: records, never images.
pub async fn read_small(store: &dyn Store, key: &Key, limit: u64) -> Result<Vec<u8>, StoreError> {
    let reader = store.open(key, None, None).await?;
    let mut bytes = Vec::new();
    let object = || format!("{}: {key}", store.describe());
    reader.take(limit + 1).read_to_end(&mut bytes).await.map_err(|e| StoreError {
        kind: ErrorKind::Transient,
        operation: "open",
        object: object(),
        source: Some(e.into()),
    })?;
    if bytes.len() as u64 > limit {
        let source = Some(format!("larger than {limit} bytes").into());
        return Err(StoreError { kind: ErrorKind::Broken, operation: "open", object: object(), source });
    }
    Ok(bytes)
}
