//! Objects in memory: the twin of a real store, for tests and experiments.
//!
//! Keeps the promises of [`Store`] to the letter; the same contract suite runs
//! against it. What a store must not do, [`MemStore::replace`] and
//! [`MemStore::remove`] do, as an attacker who holds the store would.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::{ErrorKind, Key, Listed, Prefix, PutOptions, Reader, Store, StoreError, Stored, VersionId};
use crate::base::digest::Sha256;

/// Far above what a test stores, far below what a machine has.
const ROOM: u64 = 1 << 30;

/// A store that lives as long as the value.
#[derive(Debug)]
pub struct MemStore {
    name: String,
    room: u64,
    objects: Mutex<BTreeMap<Key, Bytes>>,
}

impl MemStore {
    /// An empty store; `name` appears in messages.
    pub fn new(name: impl Into<String>) -> Self {
        Self::with_room(name, ROOM)
    }

    /// An empty store that holds at most `room` bytes.
    pub fn with_room(name: impl Into<String>, room: u64) -> Self {
        Self { name: name.into(), room, objects: Mutex::default() }
    }

    /// Puts other bytes under a name, whether it is taken or not.
    pub fn replace(&self, key: &Key, bytes: impl Into<Bytes>) {
        self.objects().insert(key.clone(), bytes.into());
    }

    /// Takes an object away. The answer is what it was.
    pub fn remove(&self, key: &Key) -> Option<Bytes> {
        self.objects().remove(key)
    }

    /// An object's bytes.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Bytes> {
        self.objects().get(key).cloned()
    }

    fn objects(&self) -> MutexGuard<'_, BTreeMap<Key, Bytes>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn room_left(&self) -> u64 {
        let used: u64 = self.objects().values().map(|bytes| bytes.len() as u64).sum();
        self.room.saturating_sub(used)
    }

    fn error(&self, operation: &'static str, key: &Key, kind: ErrorKind, source: Option<std::io::Error>) -> StoreError {
        let object = format!("{}: {key}", self.describe());
        StoreError { kind, operation, object, source: source.map(Into::into) }
    }
}

#[async_trait]
impl Store for MemStore {
    fn describe(&self) -> String {
        format!("mem {}", self.name)
    }

    async fn put(
        &self,
        key: &Key,
        body: &mut (dyn AsyncRead + Send + Unpin),
        options: &PutOptions,
    ) -> Result<Stored, StoreError> {
        let room = self.room_left();
        if options.expected_bytes.is_some_and(|expected| expected > room) {
            return Err(self.error("put", key, ErrorKind::Full, None));
        }
        let mut bytes = Vec::new();
        let read = body.take(room.saturating_add(1)).read_to_end(&mut bytes).await;
        read.map_err(|e| self.error("put", key, ErrorKind::Body, Some(e)))?;
        if bytes.len() as u64 > room {
            return Err(self.error("put", key, ErrorKind::Full, None));
        }
        let (sha256, length) = (Sha256::of(&bytes), bytes.len() as u64);
        let mut objects = self.objects();
        if objects.contains_key(key) {
            return Err(self.error("put", key, ErrorKind::Exists, None));
        }
        objects.insert(key.clone(), bytes.into());
        Ok(Stored { key: key.clone(), version_id: None, bytes: length, sha256, parts: Vec::new(), server_time: None })
    }

    async fn open(&self, key: &Key, version: Option<&VersionId>, range: Option<Range<u64>>) -> Result<Reader, StoreError> {
        let bytes = self.get(key).filter(|_| version.is_none());
        let bytes = bytes.ok_or_else(|| self.error("open", key, ErrorKind::NotFound, None))?;
        let Some(range) = range else { return Ok(Box::new(Cursor::new(bytes))) };
        let cut = |at: u64| usize::try_from(at).map_or(bytes.len(), |at| at.min(bytes.len()));
        let (start, end) = (cut(range.start), cut(range.end));
        Ok(Box::new(Cursor::new(bytes.slice(start..end.max(start)))))
    }

    async fn list(&self, prefix: &Prefix) -> Result<Vec<Listed>, StoreError> {
        let objects = self.objects();
        let below = objects.iter().filter(|(key, _)| key.as_str().starts_with(prefix.as_str()));
        Ok(below.map(|(key, bytes)| Listed { key: key.clone(), bytes: bytes.len() as u64 }).collect())
    }
}
