//! The content of a whole image: proves the structure and reads what etcd
//! itself keeps in it, in one walk.

use std::collections::HashMap;
use std::fmt;

use super::etcd_state::EtcdState;
use super::row::{BadRow, Row};
use crate::bolt::{Bucket, Damage, Database, Found, Verified};

/// The bucket of all revisions of all keys.
const KEY_BUCKET: &[u8] = b"key";

/// Why an image cannot be read: its pages are damaged, or what they hold would
/// make an etcd server stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broken {
    Pages(Damage),
    Content { bucket: String, fault: String },
}

/// What a sound image holds.
#[derive(Debug)]
pub struct Contents<'a> {
    verified: Verified<'a>,
    status_hash: u32,
    state: EtcdState,
    live: LiveSet<'a>,
    rows: u64,
    last_main: i64,
}

/// The newest row of each key that is not deleted, as bolt key and value side
/// by side: sixteen bytes for each key, whatever its length.
type LiveSet<'a> = HashMap<&'a [u8], &'a [u8]>;

/// Why there is no HashKV of a revision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoHash {
    #[error("revision {0} has been compacted")]
    Compacted(i64),
    #[error("revision {0} is in the future")]
    Future(i64),
    #[error(transparent)]
    Broken(#[from] Broken),
}

impl<'a> Contents<'a> {
    /// Walks all of `image`, which has no digest trailer.
    ///
    /// # Errors
    /// At the first damage, of pages or of what etcd keeps in them.
    pub fn read(image: &'a [u8]) -> Result<Self, Broken> {
        let mut walk = Walk::default();
        let verified = Database::open(image).and_then(|database| database.verify(&mut |found| walk.meet(found)));
        let verified = verified.map_err(Broken::Pages)?;
        if let Some(broken) = walk.broken {
            return Err(broken);
        }
        if !walk.has_keys {
            return Err(Broken::content(KEY_BUCKET, "missing: a bbolt database, but not of etcd"));
        }
        Ok(Self {
            verified,
            status_hash: walk.status_hash,
            state: walk.state,
            live: walk.live,
            rows: walk.rows,
            last_main: walk.last_main,
        })
    }

    #[must_use]
    pub fn verified(&self) -> &Verified<'a> {
        &self.verified
    }

    #[must_use]
    pub fn state(&self) -> &EtcdState {
        &self.state
    }

    /// What `etcdutl snapshot status` prints as hash.
    #[must_use]
    pub fn status_hash(&self) -> u32 {
        self.status_hash
    }

    /// The store's current revision.
    #[must_use]
    pub fn revision(&self) -> i64 {
        self.last_main.max(self.state.compact_revision()).max(1)
    }

    /// The store is readable from this revision on; -1 when never compacted.
    #[must_use]
    pub fn compact_revision(&self) -> i64 {
        self.state.compact_revision()
    }

    /// What `etcdutl snapshot status` prints as total of keys.
    #[must_use]
    pub fn live_keys(&self) -> u64 {
        self.live.len() as u64
    }

    /// Rows that are not the newest of a live key, tombstones included.
    #[must_use]
    pub fn history_records(&self) -> u64 {
        self.rows - self.live_keys()
    }

    /// The keys of the live set, in no order.
    pub fn keys(&self) -> impl Iterator<Item = &'a [u8]> {
        self.live.keys().copied().filter(|key| !key.is_empty())
    }

    /// The live set in key order.
    pub fn live_rows(&self) -> impl Iterator<Item = Row<'a>> {
        let mut pairs: Vec<_> = self.live.iter().filter(|(key, _)| !key.is_empty()).collect();
        pairs.sort_unstable_by_key(|(key, _)| **key);
        // Each row was read once already; a file changed since shows fewer.
        pairs.into_iter().filter_map(|(_, pair)| Row::of_put(pair).ok())
    }

    /// Every row in order, and whether it belongs to the live set.
    pub fn rows(&self) -> impl Iterator<Item = Result<(Row<'a>, bool), Broken>> {
        self.pairs().map(|found| {
            let (pair, row) = found?;
            let is_live = !row.is_tombstone && is_newest(&self.live, &row, pair);
            Ok((row, is_live))
        })
    }

    /// HashKV at the current revision with the image's own compaction.
    ///
    /// # Errors
    /// When the bytes changed since they were verified.
    pub fn hash_kv(&self) -> Result<u32, Broken> {
        self.hash(self.revision(), self.compact_revision(), &self.live)
    }

    /// HashKV at `revision`, as a member answers it that has compacted at
    /// `compact_revision`: the image's own or a later one up to `revision`.
    ///
    /// # Errors
    /// When the image does not hold all of that revision.
    pub fn hash_kv_at(&self, revision: i64, compact_revision: i64) -> Result<u32, NoHash> {
        if revision > self.revision() {
            return Err(NoHash::Future(revision));
        }
        if revision < compact_revision || compact_revision < self.compact_revision() {
            return Err(NoHash::Compacted(revision));
        }
        let mut live = LiveSet::new();
        for found in self.pairs() {
            let (pair, row) = found?;
            if row.revision.main > revision {
                break;
            }
            fold(&mut live, &row, pair);
        }
        Ok(self.hash(revision, compact_revision, &live)?)
    }

    fn hash(&self, revision: i64, compact_revision: i64, live: &LiveSet<'_>) -> Result<u32, Broken> {
        let mut hash = crc32c::crc32c(KEY_BUCKET);
        for found in self.pairs() {
            let (pair, row) = found?;
            let main = row.revision.main;
            if main > revision {
                break;
            }
            // Servers differ in whether they keep a tombstone at the compacted revision.
            let is_compacted = main <= compact_revision && !live.is_empty() && !is_newest(live, &row, pair);
            let is_last_tombstone = main == compact_revision && row.is_tombstone;
            if !is_compacted && !is_last_tombstone {
                hash = crc32c::crc32c_append(hash, pair);
            }
        }
        Ok(hash)
    }

    /// Rows of bucket `key`, each with its bolt key and value side by side.
    fn pairs(&self) -> impl Iterator<Item = Result<(&'a [u8], Row<'a>), Broken>> {
        let bucket = self.verified.database().root().bucket(KEY_BUCKET);
        let (bucket, error) = match bucket {
            Ok(bucket) => (bucket, None),
            Err(damage) => (None, Some(Err(Broken::Pages(damage)))),
        };
        let items = bucket.into_iter().flat_map(|bucket: Bucket<'a>| bucket.items());
        error.into_iter().chain(items.map(|item| {
            let item = item.map_err(Broken::Pages)?;
            let row = Row::read(item.key, item.value).map_err(|BadRow(fault)| Broken::content(KEY_BUCKET, fault))?;
            Ok((item.pair, row))
        }))
    }
}

/// Is this the row that the live set holds for its key?
fn is_newest(live: &LiveSet<'_>, row: &Row<'_>, pair: &[u8]) -> bool {
    live.get(row.key).is_some_and(|newest| std::ptr::eq(*newest, pair))
}

/// Moves the live set forward by one row.
fn fold<'a>(live: &mut LiveSet<'a>, row: &Row<'a>, pair: &'a [u8]) {
    if row.is_tombstone {
        live.remove(row.key);
    } else {
        live.insert(row.key, pair);
    }
}

/// What the walk that proves the structure gathers on its way.
#[derive(Default)]
struct Walk<'a> {
    bucket: Option<&'a [u8]>,
    /// How many buckets are open.
    depth: usize,
    status_hash: u32,
    state: EtcdState,
    /// There is a bucket `key`, empty or not.
    has_keys: bool,
    live: LiveSet<'a>,
    rows: u64,
    last_main: i64,
    /// The first fault; the walk goes on, since pages come before content.
    broken: Option<Broken>,
}

impl<'a> Walk<'a> {
    fn meet(&mut self, found: Found<'a>) {
        match found {
            Found::Bucket(name, _) => {
                // etcd hashes the name of a bucket inside a bucket, not what is in it.
                if self.depth <= 1 {
                    self.status_hash = crc32c::crc32c_append(self.status_hash, name);
                }
                if self.depth == 0 {
                    self.bucket = Some(name);
                    self.has_keys |= name == KEY_BUCKET;
                }
                self.depth += 1;
            }
            Found::BucketEnd => self.depth = self.depth.saturating_sub(1),
            Found::Pair(item) if self.depth == 1 => {
                self.status_hash = crc32c::crc32c_append(self.status_hash, item.pair);
                let bucket = self.bucket.unwrap_or_default();
                if let Err(fault) = self.pair(bucket, item.key, item.value, item.pair) {
                    self.broken.get_or_insert_with(|| Broken::content(bucket, fault));
                }
            }
            Found::Pair(_) if self.depth == 0 => {
                self.broken.get_or_insert_with(|| Broken::content(b"", "a pair outside every bucket"));
            }
            Found::Pair(_) => {}
        }
    }

    fn pair(&mut self, bucket: &[u8], key: &'a [u8], value: &'a [u8], pair: &'a [u8]) -> Result<(), String> {
        if bucket != KEY_BUCKET {
            return self.state.learn(bucket, key, value);
        }
        let row = Row::read(key, value).map_err(|BadRow(fault)| fault.to_owned())?;
        self.rows += 1;
        self.last_main = row.revision.main;
        fold(&mut self.live, &row, pair);
        Ok(())
    }
}

impl Broken {
    fn content(bucket: &[u8], fault: impl Into<String>) -> Self {
        Self::Content { bucket: String::from_utf8_lossy(bucket).into_owned(), fault: fault.into() }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pages(damage) => damage.fmt(f),
            Self::Content { bucket, fault } => write!(f, "bucket {bucket:?}: {fault}"),
        }
    }
}

impl std::error::Error for Broken {}
