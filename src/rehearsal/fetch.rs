//! Fetching: the manifest, believed; the image, opened into sealed memory.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags};
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;

use crate::base::codes;
use crate::base::digest::{Hasher, Sha256};
use crate::base::failure::Failure;
use crate::base::progress::Stage;
use crate::base::units::human_bytes;
use crate::bolt::Mapping;
use crate::escrow::seal::{Identities, OpenError};
use crate::record::canonical;
use crate::record::layout::Layout;
use crate::record::manifest::{Manifest, RecordRef};
use crate::record::signature::{MAX_SIGNATURE_BYTES, verify_record};
use crate::rehearsal::ladder::{Ladder, StepResult};
use crate::runbook::facts::{Deviation, Facts, ImageFacts, SnapshotFacts};
use crate::runbook::run::Done;
use crate::scan::capture::active_swap;
use crate::scan::mapped::Mapped;
use crate::store::{ErrorKind, Key, Store, StoreError, VersionId, read_small};

/// A small object comes at once, or the store is down.
const RECORD_TIMEOUT: Duration = Duration::from_secs(30);
/// A store that gives no byte for so long has stopped.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);
/// One read of the store, and how many wait for the thread that opens them: 2 MiB.
const PIECE_BYTES: usize = 256 << 10;
const PIECES_WAITING: usize = 8;
/// The digest that etcd appends to a snapshot.
const TRAILER_BYTES: u64 = 32;

/// A snapshot file, digest included, in memory that nobody can change.
#[derive(Debug)]
pub struct Image {
    memory: File,
    pub mapped: Arc<Mapped>,
    /// Keeps the memory out of swap; none where the system refused.
    lock: Option<Mapping>,
}

impl Image {
    /// A descriptor of the memory, for a program that reads it by path.
    ///
    /// # Errors
    /// `sandbox.failed` when the process has no descriptor left.
    pub fn descriptor(&self) -> Result<OwnedFd, Failure> {
        let copy = self.memory.try_clone();
        copy.map(OwnedFd::from).map_err(|e| Failure::because(&codes::SANDBOX_FAILED, "the image", &e))
    }
}

impl Image {
    /// Memory that is not locked can reach a disk where swap is active.
    pub(super) fn could_be_swapped(&self) -> Option<Deviation> {
        let swap = active_swap(&std::fs::read_to_string("/proc/swaps").unwrap_or_default());
        (self.lock.is_none() && !swap.is_empty()).then(|| Deviation {
            what: format!("the opened image could be swapped to {}", swap.join(", ")),
            why: "the limit on locked memory is lower than the image".to_owned(),
        })
    }
}

impl Ladder<'_> {
    pub(super) async fn fetch_manifest(&mut self) -> StepResult {
        if let Some(file) = &self.subject.file {
            return self.no_manifest(file);
        }
        let (config, subject) = (self.host.config, self.subject);
        let layout = Layout::new(&config.snapshots.prefix, &config.cluster);
        let path = layout.snapshot_manifest(&subject.lineage, &subject.id);
        let key: Key = path.parse().map_err(|e| Failure::because(&codes::RECORD_INVALID, &path, &e))?;
        let store = self.host.snapshots()?.as_ref();
        let bytes = read_record(store, &key, canonical::MAX_BYTES).await?;
        let signature = signature_of(store, &key).await?;
        let manifest: Manifest = verify_record(&path, &bytes, &signature, self.host.allowed)?;
        let sha256 = Sha256::of(&bytes);
        if sha256 != subject.manifest_sha256 {
            let cause = "its bytes differ from the ledger's copy";
            return Err(Failure::new(&codes::SNAPSHOT_ALTERED, &path, cause).into());
        }
        if (&manifest.id, &manifest.cluster.lineage) != (&subject.id, &subject.lineage) {
            return Err(Failure::new(&codes::RECORD_MISPLACED, &path, "it names another snapshot than its place").into());
        }
        check_page(store, &layout.snapshot_restore_md(&subject.lineage, &subject.id), &manifest).await?;
        let facts = SnapshotFacts::of(&manifest, RecordRef { key: path, sha256 });
        let summary = format!("signed by {}, quality {}", facts.signer, facts.quality);
        self.manifest = Some(manifest);
        Ok(Done { summary, facts: Facts { snapshot: Some(facts), ..Facts::default() } })
    }

    pub(super) async fn fetch_image(&mut self) -> StepResult {
        if let Some(file) = &self.subject.file {
            return self.load_file(Arc::clone(file)).await;
        }
        let manifest = self.manifest()?;
        let limit = self.host.config.backup.image_limit;
        if manifest.image.bytes > limit {
            let cause = format!("{}, more than the limit of {}", human_bytes(manifest.image.bytes), human_bytes(limit));
            return Err(Failure::new(&codes::BACKUP_IMAGE_TOO_LARGE, &manifest.id, cause).into());
        }
        let store = self.host.snapshots()?;
        let progress = self.host.progress.stage("fetching", Some(manifest.object.bytes));
        let image = fetch(store.as_ref(), manifest, self.host.snapshot_identity()?, &progress).await?;
        drop(progress);
        let facts = ImageFacts {
            store: store.describe(),
            object_bytes: manifest.object.bytes,
            object_sha256: manifest.object.sha256,
            image_bytes: manifest.image.bytes,
            image_sha256: manifest.image.sha256,
        };
        let summary = format!("{} read back, {} opened", human_bytes(facts.object_bytes), human_bytes(facts.image_bytes));
        let deviations = image.could_be_swapped().into_iter().collect();
        self.image = Some(image);
        Ok(Done { summary, facts: Facts { image: Some(facts), deviations, ..Facts::default() } })
    }
}

/// A person who follows `RESTORE.md` runs what it says: it must be the page
/// that was signed for.
async fn check_page(store: &dyn Store, path: &str, manifest: &Manifest) -> Result<(), Failure> {
    let key: Key = path.parse().map_err(|e| Failure::because(&codes::RECORD_INVALID, path, &e))?;
    let page = read_record(store, &key, canonical::MAX_BYTES).await?;
    if Sha256::of(&page) == manifest.restore_md_sha256 {
        return Ok(());
    }
    Err(Failure::new(&codes::SNAPSHOT_ALTERED, path, "its digest differs from the signed manifest")
        .next("do not follow this page; find out who replaced it"))
}

async fn read_record(store: &dyn Store, key: &Key, limit: u64) -> Result<Vec<u8>, Failure> {
    match tokio::time::timeout(RECORD_TIMEOUT, read_small(store, key, limit)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) if error.kind == ErrorKind::NotFound => {
            Err(Failure::new(&codes::SNAPSHOT_ALTERED, key, "the ledger knows this snapshot, and the store does not have it"))
        }
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(silent(store, key)),
    }
}

async fn signature_of(store: &dyn Store, key: &Key) -> Result<Vec<u8>, Failure> {
    let path = key.with_suffix(".sig").map_err(|e| Failure::because(&codes::RECORD_INVALID, key, &e))?;
    match tokio::time::timeout(RECORD_TIMEOUT, read_small(store, &path, MAX_SIGNATURE_BYTES)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(StoreError { kind: ErrorKind::NotFound, .. })) => {
            Err(Failure::new(&codes::RECORD_UNSIGNED, key, "no signature lies beside it"))
        }
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(silent(store, &path)),
    }
}

fn silent(store: &dyn Store, key: &Key) -> Failure {
    Failure::new(&codes::STORE_UNREACHABLE, format!("{}: {key}", store.describe()), "no answer in time")
}

/// Reads the object at its recorded version and opens it as it comes. Its
/// length and digest are compared whether it opens or not.
async fn fetch(store: &dyn Store, manifest: &Manifest, identities: Arc<Identities>, progress: &Stage) -> Result<Image, Failure> {
    let object = &manifest.object;
    let altered = |cause: String| Failure::new(&codes::SNAPSHOT_ALTERED, &object.key, cause);
    let key: Key = object.key.parse().map_err(|e| Failure::because(&codes::RECORD_INVALID, &object.key, &e))?;
    let version = object.version_id.clone().map(VersionId);
    let mut reader = match tokio::time::timeout(RECORD_TIMEOUT, store.open(&key, version.as_ref(), None)).await {
        Ok(Ok(reader)) => reader,
        Ok(Err(error)) if error.kind == ErrorKind::NotFound => {
            return Err(altered("the manifest names it, and the store does not have it".to_owned()));
        }
        Ok(Err(error)) => return Err(error.into()),
        Err(_) => return Err(silent(store, &key)),
    };
    let (pieces, waiting) = mpsc::channel(PIECES_WAITING);
    let image_bytes = manifest.image.bytes;
    let opener = Arc::clone(&identities);
    let opening = tokio::task::spawn_blocking(move || open_into_memory(Pieces::new(waiting), &opener, image_bytes));
    let mut hasher = Hasher::default();
    // One byte more than expected is enough to know that the object is another.
    while hasher.bytes() <= object.bytes {
        let mut piece = vec![0; PIECE_BYTES];
        let read = match tokio::time::timeout(STALL_TIMEOUT, reader.read(&mut piece)).await {
            Ok(Ok(read)) => read,
            Ok(Err(error)) => return Err(Failure::because(&codes::STORE_UNREACHABLE, &object.key, &error)),
            Err(_) => return Err(silent(store, &key)),
        };
        if read == 0 {
            break;
        }
        piece.truncate(read);
        hasher.update(&piece);
        progress.advance(read as u64);
        // An opener that gave up says why below; the digest is wanted all the same.
        let _ = pieces.send(Bytes::from(piece)).await;
    }
    drop(pieces);
    let opened = opening.await.map_err(|e| Failure::because(&codes::SANDBOX_FAILED, "the image", &e))?;
    if hasher.bytes() != object.bytes {
        let found = if hasher.bytes() > object.bytes { "more".to_owned() } else { hasher.bytes().to_string() };
        return Err(altered(format!("{found} bytes where the manifest says {}", object.bytes)));
    }
    if hasher.finish() != object.sha256 {
        return Err(altered("its digest is not the one in the manifest".to_owned()));
    }
    match opened {
        Ok((memory, sha256)) if sha256 == manifest.image.sha256 => seal(memory),
        Ok(_) => Err(altered("what it opens to has another digest than the manifest says".to_owned())),
        Err(Unopened::Identity) => Err(not_for(&identities, &object.key, &manifest.sealed_to)),
        Err(Unopened::Damaged(cause)) => Err(altered(cause)),
        Err(Unopened::NoMemory(error)) => Err(Failure::because(&codes::SANDBOX_FAILED, "memory for the image", &error)),
    }
}

/// The object is whole and opens to none of `identities`: a finding only where
/// the signed manifest says that it would.
fn not_for(identities: &Identities, object: &str, sealed_to: &[String]) -> Failure {
    if identities.are_among(sealed_to) {
        return Failure::new(&codes::SNAPSHOT_NOT_OPENED, object, "the manifest names our recipient, and it is sealed to others");
    }
    identities.not_a_recipient(object, sealed_to)
}

enum Unopened {
    Identity,
    Damaged(String),
    NoMemory(io::Error),
}

/// Opens age, then zstd, into memory; gives the digest of the image without its trailer.
fn open_into_memory(sealed: Pieces, identities: &Identities, image_bytes: u64) -> Result<(File, Sha256), Unopened> {
    let damaged = |e: io::Error| Unopened::Damaged(format!("it does not open: {e}"));
    let opened = identities.reader(BufReader::new(sealed)).map_err(|error| match error {
        OpenError::NoMatchingIdentity => Unopened::Identity,
        OpenError::Altered(cause) => Unopened::Damaged(format!("it does not open: {cause}")),
    })?;
    let mut image = zstd::Decoder::new(opened).map_err(damaged)?;
    let memory = rustix::fs::memfd_create("holdfast-image", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        .map_err(|e| Unopened::NoMemory(e.into()))?;
    let mut memory = File::from(memory);
    let whole = image_bytes.saturating_add(TRAILER_BYTES);
    let mut hasher = Hasher::default();
    let mut written = 0_u64;
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        let read = image.read(&mut buffer).map_err(damaged)?;
        if read == 0 {
            break;
        }
        let room = usize::try_from(image_bytes.saturating_sub(written)).unwrap_or(usize::MAX);
        hasher.update(&buffer[..read.min(room)]);
        written += read as u64;
        // However small the object, it opens to what the manifest says and not to a disk full of zeros.
        if written > whole {
            return Err(Unopened::Damaged(format!("it opens to more than the {whole} bytes of the manifest")));
        }
        memory.write_all(&buffer[..read]).map_err(Unopened::NoMemory)?;
    }
    if written != whole {
        return Err(Unopened::Damaged(format!("it opens to {written} bytes where the manifest says {whole}")));
    }
    Ok((memory, hasher.finish()))
}

/// Nobody can change it from here on, and it is read where it lies.
pub(super) fn seal(memory: File) -> Result<Image, Failure> {
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&memory, seals)
        .map_err(|e| Failure::because(&codes::SANDBOX_FAILED, "memory for the image", &io::Error::from(e)))?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", memory.as_raw_fd()));
    let mapped = Arc::new(Mapped::open(&path)?);
    let lock = Mapping::of(&memory).and_then(|mapping| mapping.lock().map(|()| mapping)).ok();
    Ok(Image { memory, mapped, lock })
}

/// A blocking reader of what arrives in pieces; at its end when nothing more can come.
struct Pieces {
    waiting: mpsc::Receiver<Bytes>,
    current: Bytes,
}

impl Pieces {
    fn new(waiting: mpsc::Receiver<Bytes>) -> Self {
        Self { waiting, current: Bytes::new() }
    }
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.current.is_empty() {
            match self.waiting.blocking_recv() {
                Some(piece) => self.current = piece,
                None => return Ok(0),
            }
        }
        let read = buffer.len().min(self.current.len());
        self.current.copy_to_slice(&mut buffer[..read]);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use age::secrecy::ExposeSecret;
    use std::os::unix::fs::OpenOptionsExt;

    #[test]
    fn an_object_that_does_not_open_is_a_finding_only_where_we_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let (own, other) = (age::x25519::Identity::generate(), age::x25519::Identity::generate());
        let path = dir.path().join("identity");
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&path).unwrap();
        file.write_all(own.to_string().expose_secret().as_bytes()).unwrap();
        let identities = Identities::load(&path).unwrap();
        let (own, other) = (own.to_public().to_string(), other.to_public().to_string());
        let named = not_for(&identities, "object", &[other.clone(), own]);
        assert_eq!(named.code(), &codes::SNAPSHOT_NOT_OPENED);
        assert_eq!(not_for(&identities, "object", &[other]).code(), &codes::IDENTITY_NOT_A_RECIPIENT);
    }
}
