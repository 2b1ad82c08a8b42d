//! The outbox on disk: one file a record, and the newest number of each signer.
//!
//! ```text
//! <state>/outbox.lock                     held for every change, never for long
//! <state>/outbox/<20 digits>.json         one waiting record, in order of appending
//! <state>/outbox/heads.json               numbers of records that no longer wait
//! ```
//!
//! A record comes to be by one rename. Its file is the only place that holds
//! its number until `heads.json` does, and is not removed before.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::chain::Head;
use super::outbox::Place;
use super::state_lock::StateLock;
use crate::base::codes;
use crate::base::digest::Sha256;
use crate::base::failure::Failure;
use crate::base::ids::Principal;
use crate::record::canonical;

/// A record's bytes escaped inside JSON, its signature and its destinations.
const MAX_FILE_BYTES: u64 = 3 * canonical::MAX_BYTES;

/// A record that at least one store does not have yet.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Waiting {
    pub signer: Principal,
    pub seq: u64,
    /// Canonical JSON is text.
    pub bytes: String,
    pub sha256: Sha256,
    pub signature: String,
    pub destinations: Vec<Destination>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Destination {
    pub place: Place,
    pub key: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeadFile {
    signers: BTreeMap<Principal, HeadLine>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeadLine {
    seq: u64,
    sha256: Sha256,
}

#[derive(Debug, Clone)]
pub(super) struct Spool {
    lock: PathBuf,
    directory: PathBuf,
}

/// The spool while nobody else changes it.
#[derive(Debug)]
pub(super) struct Locked<'a> {
    spool: &'a Spool,
    _lock: StateLock,
}

impl Spool {
    /// Makes the directories where they are missing.
    pub fn open(state: &Path) -> Result<Self, Failure> {
        let directory = state.join("outbox");
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory);
        made.map_err(|e| unusable(&directory, &e))?;
        Ok(Self { lock: state.join("outbox.lock"), directory })
    }

    /// Waits for the lock, at most a few seconds. Blocks its thread.
    pub fn lock(&self) -> Result<Locked<'_>, Failure> {
        let locked = Locked { spool: self, _lock: StateLock::acquire(&self.lock)? };
        locked.sweep()?;
        Ok(locked)
    }

    /// The numbers of waiting files in order of appending. Needs no lock:
    /// files appear whole.
    pub fn list(&self) -> Result<Vec<u64>, Failure> {
        let mut ordinals = Vec::new();
        for item in fs::read_dir(&self.directory).map_err(|e| unusable(&self.directory, &e))? {
            let name = item.map_err(|e| unusable(&self.directory, &e))?.file_name();
            ordinals.extend(name.to_str().and_then(ordinal_of));
        }
        ordinals.sort_unstable();
        Ok(ordinals)
    }

    /// `None` where the file is gone: it was delivered by another process.
    pub fn read(&self, ordinal: u64) -> Result<Option<Waiting>, Failure> {
        let path = self.path(ordinal);
        let waiting: Option<Waiting> = read_json(&path)?;
        match waiting {
            Some(waiting) if Sha256::of(waiting.bytes.as_bytes()) != waiting.sha256 => {
                Err(Failure::new(&codes::STATE_UNUSABLE, path.display(), "the file is damaged"))
            }
            waiting => Ok(waiting),
        }
    }

    /// When a file was written last; `None` where it is gone.
    pub fn since(&self, ordinal: u64) -> Option<Timestamp> {
        Timestamp::try_from(fs::metadata(self.path(ordinal)).ok()?.modified().ok()?).ok()
    }

    fn path(&self, ordinal: u64) -> PathBuf {
        self.directory.join(format!("{ordinal:020}.json"))
    }

    fn heads_path(&self) -> PathBuf {
        self.directory.join("heads.json")
    }
}

impl Locked<'_> {
    /// A signer's newest record, waiting or not.
    pub fn head(&self, signer: &Principal) -> Result<Option<Head>, Failure> {
        let mut heads = self.heads()?;
        // Numbers rise with the order of appending: the last one is the newest.
        for ordinal in self.spool.list()?.into_iter().rev() {
            if let Some(waiting) = self.spool.read(ordinal)?
                && &waiting.signer == signer
            {
                raise(&mut heads, waiting.signer, Head { seq: waiting.seq, sha256: waiting.sha256 });
                break;
            }
        }
        Ok(heads.remove(signer))
    }

    /// The newest of the records that no longer wait.
    fn heads(&self) -> Result<BTreeMap<Principal, Head>, Failure> {
        let file: HeadFile = read_json(&self.spool.heads_path())?.unwrap_or_default();
        Ok(file.signers.into_iter().map(|(name, line)| (name, Head { seq: line.seq, sha256: line.sha256 })).collect())
    }

    /// The record that waits to be put under this name of a store.
    pub fn waiting_for(&self, destination: &Destination) -> Result<Option<Waiting>, Failure> {
        for ordinal in self.spool.list()? {
            let waiting = self.spool.read(ordinal)?;
            if let Some(waiting) = waiting.filter(|waiting| waiting.destinations.contains(destination)) {
                return Ok(Some(waiting));
            }
        }
        Ok(None)
    }

    /// Adds a record. On failure it is either not there, or whole.
    pub fn add(&self, waiting: &Waiting) -> Result<(), Failure> {
        let ordinal = self.spool.list()?.last().map_or(1, |last| last.saturating_add(1));
        self.write(&self.spool.path(ordinal), waiting)
    }

    /// Notes that `destination` has the record; the last one removes it.
    pub fn settle(&self, ordinal: u64, destination: &Destination) -> Result<(), Failure> {
        let Some(mut waiting) = self.spool.read(ordinal)? else { return Ok(()) };
        waiting.destinations.retain(|other| other != destination);
        let path = self.spool.path(ordinal);
        if !waiting.destinations.is_empty() {
            return self.write(&path, &waiting);
        }
        self.raise(&waiting.signer, Head { seq: waiting.seq, sha256: waiting.sha256 })?;
        fs::remove_file(&path).map_err(|e| unusable(&path, &e))?;
        self.sync()
    }

    /// Continues a chain at `head` unless it is further already.
    pub fn raise(&self, signer: &Principal, head: Head) -> Result<(), Failure> {
        let mut heads = self.heads()?;
        raise(&mut heads, signer.clone(), head);
        self.write_heads(&heads)
    }

    fn write_heads(&self, heads: &BTreeMap<Principal, Head>) -> Result<(), Failure> {
        let line = |head: &Head| HeadLine { seq: head.seq, sha256: head.sha256 };
        let signers = heads.iter().map(|(name, head)| (name.clone(), line(head))).collect();
        self.write(&self.spool.heads_path(), &HeadFile { signers })
    }

    /// Replaces a file in one step that survives a power cut.
    fn write<T: Serialize>(&self, path: &Path, content: &T) -> Result<(), Failure> {
        let directory = &self.spool.directory;
        let written = || -> io::Result<()> {
            let mut file = tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(directory)?;
            file.write_all(&canonical::encode(content)?)?;
            file.as_file().sync_all()?;
            file.persist(path)?;
            Ok(())
        };
        written().map_err(|e| unusable(path, &e))?;
        self.sync()
    }

    fn sync(&self) -> Result<(), Failure> {
        let directory = &self.spool.directory;
        File::open(directory).and_then(|file| file.sync_all()).map_err(|e| unusable(directory, &e))
    }

    /// Removes what a killed process left half written: temporary files are
    /// made under the lock only, so none is in use.
    fn sweep(&self) -> Result<(), Failure> {
        let directory = &self.spool.directory;
        for item in fs::read_dir(directory).map_err(|e| unusable(directory, &e))? {
            let item = item.map_err(|e| unusable(directory, &e))?;
            if item.file_name().to_str().is_some_and(|name| name.starts_with(TEMPORARY)) {
                fs::remove_file(item.path()).map_err(|e| unusable(&item.path(), &e))?;
            }
        }
        Ok(())
    }
}

const TEMPORARY: &str = ".writing-";

fn raise(heads: &mut BTreeMap<Principal, Head>, signer: Principal, head: Head) {
    if heads.get(&signer).is_none_or(|known| known.seq < head.seq) {
        heads.insert(signer, head);
    }
}

fn ordinal_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".json")?;
    (digits.len() == 20).then(|| digits.parse().ok())?
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Failure> {
    let file = match File::open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|e| unusable(path, &e))?,
    };
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).map_err(|e| unusable(path, &e))?;
    serde_json::from_slice(&bytes).map(Some).map_err(|e| unusable(path, &e))
}

fn unusable(path: &Path, error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure::because(&codes::STATE_UNUSABLE, path.display(), error)
}
