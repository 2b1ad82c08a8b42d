//! Objects as files below one directory.
//!
//! An object is written to a hidden temporary in the root, made durable, and
//! gets its name in one step that fails if the name is taken. Directories that
//! lead to it are made as needed (0700, files 0600).
//!
//! Invariants: nothing is overwritten; a file that has an object's name is
//! whole; a put needs write and search permission on the root, and no read
//! permission; no symbolic link below the root is followed; the root itself is
//! never made, because an absent root is a mount that is gone.
//!
//! Names map to paths, so `a` and `a/b` cannot both be objects. Calls last as
//! long as the file system makes them: callers set deadlines.

mod rights;
mod temporary;
mod tree;

use std::io::{Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;

use super::{ErrorKind, Key, Listed, Prefix, PutOptions, Reader, Store, StoreError, Stored, VersionId};
use temporary::Temporary;
use tree::Root;

/// Large enough that system calls do not count, small enough that the chunks
/// in flight stay near a MiB.
const CHUNK: usize = 256 * 1024;

/// Chunks that may wait for the disk while the body goes on.
const CHUNKS_IN_FLIGHT: usize = 3;

/// A directory that holds objects.
#[derive(Debug, Clone)]
pub struct FsStore {
    root: PathBuf,
}

impl FsStore {
    /// Names the directory and touches nothing: whether it is there is asked
    /// by each operation, so that a store which is down is an answer of `put`,
    /// `open` and `list` like any other.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Runs `work` on a blocking thread and gives its error the object's name.
    async fn blocking<T: Send + 'static>(
        &self,
        operation: &'static str,
        object: &str,
        work: impl FnOnce(&Path) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, StoreError> {
        let root = self.root.clone();
        let done = tokio::task::spawn_blocking(move || work(&root)).await;
        done.unwrap_or_else(|e| Err(Trouble::new(ErrorKind::Broken, e))).map_err(|trouble| self.error(operation, object, trouble))
    }

    fn error(&self, operation: &'static str, object: &str, trouble: Trouble) -> StoreError {
        StoreError { kind: trouble.kind, operation, object: format!("{}: {object}", self.describe()), source: trouble.source }
    }
}

#[async_trait]
impl Store for FsStore {
    fn describe(&self) -> String {
        format!("fs {}", self.root.display())
    }

    async fn put(
        &self,
        key: &Key,
        body: &mut (dyn AsyncRead + Send + Unpin),
        options: &PutOptions,
    ) -> Result<Stored, StoreError> {
        let dropped = Dropped::default();
        let _tells_the_writer = TellWhenDropped(dropped.clone());
        let (chunks, received) = mpsc::channel(CHUNKS_IN_FLIGHT);
        let (name, expected) = (key.clone(), options.expected_bytes);
        let writer = self.blocking("put", key.as_str(), move |root| {
            let written = write(root, &name, expected, received, &dropped);
            // What vanished under a put comes back, or the next try finds the reason.
            written.map_err(|trouble| match trouble.kind {
                ErrorKind::NotFound => Trouble { kind: ErrorKind::Transient, ..trouble },
                _ => trouble,
            })
        });
        tokio::pin!(writer);
        // A writer that is done first has failed, or took the end of the body.
        let fed = tokio::select! {
            written = &mut writer => return written,
            fed = feed(body, chunks) => fed,
        };
        let written = writer.await;
        fed.map_err(|source| self.error("put", key.as_str(), Trouble::new(ErrorKind::Body, source)))?;
        written
    }

    async fn open(&self, key: &Key, version: Option<&VersionId>, range: Option<Range<u64>>) -> Result<Reader, StoreError> {
        if version.is_some() {
            let trouble = Trouble::new(ErrorKind::NotFound, "a directory keeps no versions");
            return Err(self.error("open", key.as_str(), trouble));
        }
        let name = key.clone();
        let start = range.as_ref().map_or(0, |range| range.start);
        let file = self.blocking("open", key.as_str(), move |root| {
            let mut file = Root::open(root)?.open_object(&name)?;
            // No place beyond the end: the kernel refuses the farthest ones.
            file.seek(SeekFrom::Start(start.min(file.metadata()?.len())))?;
            Ok(file)
        });
        let file = tokio::fs::File::from_std(file.await?);
        match range {
            None => Ok(Box::new(file)),
            Some(range) => Ok(Box::new(file.take(range.end.saturating_sub(range.start)))),
        }
    }

    async fn list(&self, prefix: &Prefix) -> Result<Vec<Listed>, StoreError> {
        let below = prefix.clone();
        self.blocking("list", prefix.as_str(), move |root| Root::open(root)?.list(&below)).await
    }
}

/// What passes from the body to the thread that writes.
enum Message {
    Chunk(Vec<u8>),
    /// The body ended well. A channel that closes without it was abandoned.
    End,
}

/// Was the put dropped? Locked while an object gets its name, so that a put
/// which was dropped before has no effect after.
type Dropped = Arc<Mutex<bool>>;

struct TellWhenDropped(Dropped);

impl Drop for TellWhenDropped {
    fn drop(&mut self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }
}

/// Sends the body in whole chunks, then its end. A writer that is gone is no
/// error here: its own answer says why.
async fn feed(body: &mut (dyn AsyncRead + Send + Unpin), chunks: mpsc::Sender<Message>) -> std::io::Result<()> {
    loop {
        let mut chunk = Vec::with_capacity(CHUNK);
        while chunk.len() < CHUNK && (&mut *body).take((CHUNK - chunk.len()) as u64).read_buf(&mut chunk).await? > 0 {}
        let is_last = chunk.len() < CHUNK;
        if !chunk.is_empty() && chunks.send(Message::Chunk(chunk)).await.is_err() {
            return Ok(());
        }
        if is_last {
            let _gone = chunks.send(Message::End).await;
            return Ok(());
        }
    }
}

/// The blocking half of a put.
fn write(
    root: &Path,
    key: &Key,
    expected: Option<u64>,
    mut chunks: mpsc::Receiver<Message>,
    dropped: &Dropped,
) -> Result<Stored, Trouble> {
    let root = Root::open(root)?;
    if let Some(expected) = expected {
        root.check_room(expected)?;
    }
    temporary::remove_abandoned(&root);
    let mut temporary = Temporary::create(root)?;
    loop {
        match chunks.blocking_recv() {
            Some(Message::Chunk(bytes)) => temporary.write(&bytes)?,
            Some(Message::End) => break,
            None => return Err(Trouble::new(ErrorKind::Body, "the data ended early")),
        }
    }
    temporary.publish(key, dropped)
}

/// What went wrong, before it is known to which object.
#[derive(Debug)]
struct Trouble {
    kind: ErrorKind,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Trouble {
    fn new(kind: ErrorKind, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { kind, source: Some(source.into()) }
    }
}

impl From<Errno> for Trouble {
    fn from(errno: Errno) -> Self {
        Self::new(kind_of(errno), std::io::Error::from(errno))
    }
}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Self {
        Self::new(Errno::from_io_error(&error).map_or(ErrorKind::Broken, kind_of), error)
    }
}

/// What the kernel's answer means to a caller.
fn kind_of(errno: Errno) -> ErrorKind {
    match errno {
        Errno::NOENT => ErrorKind::NotFound,
        Errno::ACCESS | Errno::PERM | Errno::ROFS => ErrorKind::Denied,
        Errno::EXIST => ErrorKind::Exists,
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => ErrorKind::Full,
        // A disk or a server that does not answer now.
        Errno::IO | Errno::TIMEDOUT | Errno::STALE | Errno::NODEV | Errno::NXIO | Errno::REMOTEIO => ErrorKind::Transient,
        Errno::HOSTDOWN | Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::CONNRESET | Errno::CONNREFUSED | Errno::NOTCONN => {
            ErrorKind::Transient
        }
        // This host, at this moment.
        Errno::INTR | Errno::AGAIN | Errno::BUSY | Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOLCK => {
            ErrorKind::Transient
        }
        _ => ErrorKind::Broken,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_the_kernel_are_told_apart() {
        for (errno, kind) in [
            (Errno::NOENT, ErrorKind::NotFound),
            (Errno::ACCESS, ErrorKind::Denied),
            (Errno::PERM, ErrorKind::Denied),
            (Errno::ROFS, ErrorKind::Denied),
            (Errno::EXIST, ErrorKind::Exists),
            (Errno::NOSPC, ErrorKind::Full),
            (Errno::DQUOT, ErrorKind::Full),
            (Errno::IO, ErrorKind::Transient),
            (Errno::STALE, ErrorKind::Transient),
            (Errno::TIMEDOUT, ErrorKind::Transient),
            (Errno::ISDIR, ErrorKind::Broken),
        ] {
            assert_eq!(Trouble::from(errno).kind, kind, "{errno:?}");
            assert_eq!(Trouble::from(std::io::Error::from(errno)).kind, kind, "{errno:?}");
        }
        assert_eq!(Trouble::from(std::io::Error::other("no number")).kind, ErrorKind::Broken);
    }
}
