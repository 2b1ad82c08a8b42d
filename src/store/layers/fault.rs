//! A store that fails when it is told to, and remembers what it was asked.
//!
//! Tests fail operation 1, then 2, and so on until a whole run succeeds; what
//! must hold after a success must hold after each of the failures.

use std::io;
use std::ops::{Bound, Range, RangeBounds};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use async_trait::async_trait;
use tokio::io::{AsyncRead, ReadBuf};

use crate::store::{ErrorKind, Key, Listed, Prefix, PutOptions, Reader, Store, StoreError, Stored, VersionId};

/// Passes every operation on to the store inside, except those that are to fail.
#[derive(Debug)]
pub struct FaultStore {
    inner: Arc<dyn Store>,
    state: Mutex<State>,
}

/// How an operation fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing happens, and the answer is of this kind.
    Refused(ErrorKind),
    /// After so many bytes the data of a put, or of an opened object, breaks off.
    CutAfter(u64),
    /// It is done, and its answer is lost: the caller is told [`ErrorKind::Transient`].
    AnswerLost,
    /// Nothing happens and no answer comes, ever.
    Hangs,
}

/// An operation that the store was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    pub kind: OperationKind,
    /// The object's name, or the prefix of a listing.
    pub object: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationKind {
    Put,
    Open,
    List,
}

#[derive(Debug, Default)]
struct State {
    seen: Vec<Operation>,
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    on: On,
    fault: Fault,
}

#[derive(Debug)]
enum On {
    /// Operations by their number, from 1, counted over all kinds.
    Numbers(Bound<usize>, Bound<usize>),
    /// One kind of operation on objects whose name ends so.
    Names(OperationKind, String),
}

impl FaultStore {
    /// Remembers operations; none fails yet.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, state: Mutex::default() }
    }

    /// Operations with these numbers fail: `3..=3` once, `3..` from then on.
    #[must_use]
    pub fn fail(self, numbers: impl RangeBounds<usize>, fault: Fault) -> Self {
        let on = On::Numbers(numbers.start_bound().cloned(), numbers.end_bound().cloned());
        self.state().rules.push(Rule { on, fault });
        self
    }

    /// Operations of one kind fail on each object whose name ends with `suffix`.
    #[must_use]
    pub fn fail_on(self, kind: OperationKind, suffix: &str, fault: Fault) -> Self {
        self.state().rules.push(Rule { on: On::Names(kind, suffix.to_owned()), fault });
        self
    }

    /// From now on nothing fails any more.
    pub fn heal(&self) {
        self.state().rules.clear();
    }

    /// What was asked so far, in order, failures included.
    #[must_use]
    pub fn operations(&self) -> Vec<Operation> {
        self.state().seen.clone()
    }

    /// Remembers an operation and says how it is to fail.
    fn begin(&self, kind: OperationKind, object: &str) -> Option<Fault> {
        let mut state = self.state();
        state.seen.push(Operation { kind, object: object.to_owned() });
        let number = state.seen.len();
        let hit = |on: &On| match on {
            On::Numbers(start, end) => (*start, *end).contains(&number),
            On::Names(of, suffix) => *of == kind && object.ends_with(suffix),
        };
        state.rules.iter().find(|rule| hit(&rule.on)).map(|rule| rule.fault)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(&self, kind: ErrorKind, operation: &'static str, object: &str) -> StoreError {
        let object = format!("{}: {object}", self.describe());
        StoreError { kind, operation, object, source: Some("injected fault".into()) }
    }
}

#[async_trait]
impl Store for FaultStore {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    async fn put(
        &self,
        key: &Key,
        body: &mut (dyn AsyncRead + Send + Unpin),
        options: &PutOptions,
    ) -> Result<Stored, StoreError> {
        match self.begin(OperationKind::Put, key.as_str()) {
            None => self.inner.put(key, body, options).await,
            Some(Fault::Refused(kind)) => Err(self.error(kind, "put", key.as_str())),
            Some(Fault::CutAfter(bytes)) => self.inner.put(key, &mut CutReader { inner: body, left: bytes }, options).await,
            Some(Fault::AnswerLost) => {
                self.inner.put(key, body, options).await?;
                Err(self.error(ErrorKind::Transient, "put", key.as_str()))
            }
            Some(Fault::Hangs) => std::future::pending().await,
        }
    }

    async fn open(&self, key: &Key, version: Option<&VersionId>, range: Option<Range<u64>>) -> Result<Reader, StoreError> {
        match self.begin(OperationKind::Open, key.as_str()) {
            None => self.inner.open(key, version, range).await,
            Some(Fault::Refused(kind)) => Err(self.error(kind, "open", key.as_str())),
            Some(Fault::CutAfter(bytes)) => {
                let reader = self.inner.open(key, version, range).await?;
                Ok(Box::new(CutReader { inner: reader, left: bytes }))
            }
            Some(Fault::AnswerLost) => Err(self.error(ErrorKind::Transient, "open", key.as_str())),
            Some(Fault::Hangs) => std::future::pending().await,
        }
    }

    async fn list(&self, prefix: &Prefix) -> Result<Vec<Listed>, StoreError> {
        match self.begin(OperationKind::List, prefix.as_str()) {
            None => self.inner.list(prefix).await,
            Some(Fault::Refused(kind)) => Err(self.error(kind, "list", prefix.as_str())),
            Some(Fault::CutAfter(_) | Fault::AnswerLost) => Err(self.error(ErrorKind::Transient, "list", prefix.as_str())),
            Some(Fault::Hangs) => std::future::pending().await,
        }
    }
}

/// Reads `left` bytes and then fails.
struct CutReader<R> {
    inner: R,
    left: u64,
}

impl<R: AsyncRead + Unpin> AsyncRead for CutReader<R> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.left == 0 {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionReset, "injected fault")));
        }
        let room = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.remaining());
        let mut part = buffer.take(room);
        let answer = Pin::new(&mut self.inner).poll_read(context, &mut part);
        let read = part.filled().len();
        // The inner reader wrote into the same memory, `read` bytes of it.
        let bytes = part.filled().to_vec();
        buffer.put_slice(&bytes);
        self.left -= read as u64;
        answer
    }
}
