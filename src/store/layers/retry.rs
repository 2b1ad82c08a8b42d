//! Tries a call again when the store did not answer, for a while.
//!
//! What is tried again: a put whose body fits [`REPLAYED`], an open, a listing,
//! and the rest of a read that broke off. A longer body passes once; a store
//! whose requests carry parts of it tries those again itself, where their bytes
//! are at hand.
//!
//! A put that meets its own name on a second try has met its own object, whose
//! answer was lost: names are never reused. Where this host may read, it looks;
//! if others' bytes lie there, the name is taken after all. The version of such
//! an object is not known, so that [`Stored`] has none.
//!
//! A read goes on at the version that was asked for. Where none was, another
//! object could lie there by then: whoever must know compares digests.

use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::time::Instant;

use crate::base::digest::Sha256;
use crate::base::entropy::Entropy;
use crate::base::failure::chain;
use crate::store::{ErrorKind, Key, Listed, Prefix, PutOptions, Reader, Store, StoreError, Stored, VersionId, read_small};

/// Records are shorter by far; images are longer.
pub const REPLAYED: u64 = 1 << 20;

/// After so long no other try begins: a lost packet is forgotten and a server
/// that was restarted is back, and a person still waits. A job that must
/// outlast more is begun again by whoever began it.
const LONGEST: Duration = Duration::from_secs(20);

/// Half a second, a second, two, … each up to double, so that hosts which lost
/// a store together do not come back together.
const WAITS: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_millis(500))
    .with_max_delay(Duration::from_secs(10))
    .without_max_times()
    .with_jitter();

/// A read that moved so far has got over what broke it.
const PROGRESS: u64 = 1 << 20;

/// Passes calls on, and again where that can help.
#[derive(Debug)]
pub struct Retry {
    inner: Arc<dyn Store>,
    entropy: Arc<dyn Entropy>,
}

impl Retry {
    /// `entropy` is what waits vary by.
    pub fn new(inner: Arc<dyn Store>, entropy: Arc<dyn Entropy>) -> Self {
        Self { inner, entropy }
    }

    fn tries(&self, operation: &'static str, object: &str) -> Tries {
        Tries::of(operation, format!("{}: {object}", self.describe()), &self.entropy)
    }

    async fn replay(&self, key: &Key, bytes: &[u8], options: &PutOptions) -> Result<Stored, StoreError> {
        let mut tries = self.tries("put", key.as_str());
        loop {
            match self.inner.put(key, &mut &bytes[..], options).await {
                Err(error) if error.kind == ErrorKind::Transient => tries.wait_after(error).await?,
                Err(error) if error.kind == ErrorKind::Exists && tries.made > 0 => return self.own(key, bytes, error).await,
                answer => return answer,
            }
        }
    }

    /// The object whose answer was lost, unless it can be seen that it is another.
    async fn own(&self, key: &Key, bytes: &[u8], exists: StoreError) -> Result<Stored, StoreError> {
        match read_small(self.inner.as_ref(), key, bytes.len() as u64).await {
            Ok(found) if found != bytes => Err(exists),
            Err(error) if error.kind == ErrorKind::Broken => Err(exists),
            _ => Ok(Stored {
                key: key.clone(),
                version_id: None,
                bytes: bytes.len() as u64,
                sha256: Sha256::of(bytes),
                parts: Vec::new(),
                server_time: None,
            }),
        }
    }
}

#[async_trait]
impl Store for Retry {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    async fn put(
        &self,
        key: &Key,
        body: &mut (dyn AsyncRead + Send + Unpin),
        options: &PutOptions,
    ) -> Result<Stored, StoreError> {
        if options.expected_bytes.is_some_and(|bytes| bytes > REPLAYED) {
            return self.inner.put(key, body, options).await;
        }
        let mut head = Vec::new();
        let read = (&mut *body).take(REPLAYED + 1).read_to_end(&mut head).await;
        read.map_err(|source| StoreError {
            kind: ErrorKind::Body,
            operation: "put",
            object: format!("{}: {key}", self.describe()),
            source: Some(source.into()),
        })?;
        if head.len() as u64 <= REPLAYED {
            return self.replay(key, &head, options).await;
        }
        let mut whole = io::Cursor::new(Bytes::from(head)).chain(body);
        self.inner.put(key, &mut whole, options).await
    }

    async fn open(&self, key: &Key, version: Option<&VersionId>, range: Option<Range<u64>>) -> Result<Reader, StoreError> {
        let mut tries = self.tries("open", key.as_str());
        let reader = loop {
            match self.inner.open(key, version, range.clone()).await {
                Err(error) if error.kind == ErrorKind::Transient => tries.wait_after(error).await?,
                answer => break answer?,
            }
        };
        Ok(Box::new(Resuming {
            store: self.inner.clone(),
            key: key.clone(),
            version: version.cloned(),
            rest: range.unwrap_or(0..u64::MAX),
            state: State::Reading(reader),
            tries: self.tries("read", key.as_str()),
            entropy: self.entropy.clone(),
            moved: 0,
        }))
    }

    async fn list(&self, prefix: &Prefix) -> Result<Vec<Listed>, StoreError> {
        let mut tries = self.tries("list", prefix.as_str());
        loop {
            match self.inner.list(prefix).await {
                Err(error) if error.kind == ErrorKind::Transient => tries.wait_after(error).await?,
                answer => return answer,
            }
        }
    }
}

/// The tries of one call.
#[derive(Debug)]
struct Tries {
    operation: &'static str,
    /// With its store.
    object: String,
    /// Those that had no answer.
    made: u32,
    waits: ExponentialBackoff,
    /// No try begins later.
    end: Instant,
}

impl Tries {
    fn of(operation: &'static str, object: String, entropy: &Arc<dyn Entropy>) -> Self {
        // Without a seed, waits of all processes are the same.
        let waits = WAITS.with_jitter_seed(u64::from(entropy.u32())).build();
        Self { operation, object, made: 0, waits, end: Instant::now() + LONGEST }
    }

    /// How long to wait before the next try, if there is one.
    fn next(&mut self, cause: &str) -> Option<Duration> {
        let wait = self.waits.next().filter(|wait| Instant::now() + *wait <= self.end);
        self.made += 1;
        let (operation, object, attempt) = (self.operation, self.object.as_str(), self.made);
        let wait_ms = wait.map(|wait| wait.as_millis() as u64);
        tracing::debug!(operation, object, attempt, wait_ms, cause, "the store did not answer");
        wait
    }

    async fn wait_after(&mut self, error: StoreError) -> Result<(), StoreError> {
        let Some(wait) = self.next(&chain(&error)) else { return Err(error) };
        tokio::time::sleep(wait).await;
        Ok(())
    }
}

/// An object that is opened again where its reading broke off.
struct Resuming {
    store: Arc<dyn Store>,
    key: Key,
    version: Option<VersionId>,
    /// What was not read yet.
    rest: Range<u64>,
    state: State,
    tries: Tries,
    entropy: Arc<dyn Entropy>,
    /// Since the last break.
    moved: u64,
}

enum State {
    Reading(Reader),
    Opening(BoxFuture<'static, Result<Reader, StoreError>>),
}

impl Resuming {
    /// The next state after a read broke off, or the error that ends it.
    fn broken(&mut self, error: io::Error) -> Result<State, io::Error> {
        if self.moved >= PROGRESS {
            self.tries = Tries::of("read", std::mem::take(&mut self.tries.object), &self.entropy);
        }
        self.moved = 0;
        let Some(wait) = self.tries.next(&chain(&error)) else { return Err(error) };
        let (store, key, version, rest) = (self.store.clone(), self.key.clone(), self.version.clone(), self.rest.clone());
        Ok(State::Opening(Box::pin(async move {
            tokio::time::sleep(wait).await;
            store.open(&key, version.as_ref(), Some(rest)).await
        })))
    }
}

impl AsyncRead for Resuming {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let this = &mut *self;
            let error = match &mut this.state {
                State::Reading(reader) => {
                    let before = buffer.filled().len();
                    match ready!(Pin::new(reader).poll_read(context, buffer)) {
                        Ok(()) => {
                            let read = (buffer.filled().len() - before) as u64;
                            this.rest.start += read;
                            this.moved += read;
                            return Poll::Ready(Ok(()));
                        }
                        Err(error) => error,
                    }
                }
                State::Opening(opening) => match ready!(opening.as_mut().poll(context)) {
                    Ok(reader) => {
                        this.state = State::Reading(reader);
                        continue;
                    }
                    Err(error) if error.kind == ErrorKind::Transient => io::Error::other(error),
                    Err(error) => return Poll::Ready(Err(io::Error::other(error))),
                },
            };
            this.state = this.broken(error)?;
        }
    }
}
