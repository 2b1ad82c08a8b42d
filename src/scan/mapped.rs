//! The random-access face: an inspection of a mapped snapshot.

use std::fs::File;
use std::path::Path;

use super::census::Census;
use super::contents::{Broken, Contents};
use super::free_pages::FreePlaintext;
use super::inspection::{EtcdFacts, FileFacts, Inspection, KeyEntry, OtherCount, Trailer, Verdict};
use super::problems::Problems;
use crate::base::codes::INSPECT_UNREADABLE;
use crate::base::digest::{Hasher, Sha256};
use crate::base::failure::Failure;
use crate::base::progress::{Progress, Stage, Unwatched};
use crate::bolt::Mapping;
use crate::k8s::encryption_config::NamedConfig;
use crate::k8s::resource::PrefixVotes;
use crate::record::manifest::ResourceCount;

/// The digest that etcd appends to a snapshot.
const TRAILER: usize = 32;
/// Pages are multiples of a sector, so a file of pages and a digest has this
/// remainder: etcd's own rule for whether a digest is there.
const SECTOR: usize = 512;
/// How much is digested before a watcher sees it.
const PIECE: usize = 1 << 20;

/// A snapshot file, or an image without its digest, mapped.
#[derive(Debug)]
pub struct Mapped {
    bytes: Mapping,
    /// The digest was compared with the image while it streamed, and cut off.
    is_checked_image: bool,
}

impl Mapped {
    /// Maps the file at `path`.
    ///
    /// # Errors
    /// `inspect.unreadable` when it is no readable regular file.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let unreadable = |error: std::io::Error| Failure::because(&INSPECT_UNREADABLE, path.display(), &error);
        // Asked first: opening a pipe would wait for its other end.
        let metadata = std::fs::metadata(path).map_err(unreadable)?;
        if !metadata.is_file() {
            let what = if metadata.is_dir() { "is a directory" } else { "is not a regular file" };
            return Err(Failure::new(&INSPECT_UNREADABLE, path.display(), what));
        }
        let bytes = File::open(path).and_then(|file| Mapping::of(&file)).map_err(unreadable)?;
        Ok(Self { bytes, is_checked_image: false })
    }

    /// An image without a digest, which whoever received it has compared.
    #[must_use]
    pub fn checked_image(bytes: Mapping) -> Self {
        Self { bytes, is_checked_image: true }
    }

    /// The bytes without the digest.
    #[must_use]
    pub fn image(&self) -> &[u8] {
        if self.is_checked_image { &self.bytes } else { split_trailer(&self.bytes).0 }
    }

    /// What the image holds, once its structure is proven.
    ///
    /// # Errors
    /// At the first damage.
    pub fn contents(&self) -> Result<Contents<'_>, Broken> {
        Contents::read(self.image())
    }

    /// Everything that the bytes say; damage is part of the answer.
    #[must_use]
    pub fn inspect(&self, configs: &[NamedConfig]) -> Inspection {
        self.inspect_watched(configs, &Unwatched)
    }

    /// As [`Mapped::inspect`], with a watcher who sees how much was read.
    #[must_use]
    pub fn inspect_watched(&self, configs: &[NamedConfig], progress: &dyn Progress) -> Inspection {
        self.bytes.expect_reading();
        if self.is_checked_image {
            return inspect_checked_image(&self.bytes, configs);
        }
        let stage = progress.stage("reading", Some(self.bytes.len() as u64));
        inspect_file(&self.bytes, configs, &stage)
    }
}

/// Inspects the bytes of a whole file.
#[must_use]
pub fn inspect(file: &[u8], configs: &[NamedConfig]) -> Inspection {
    inspect_file(file, configs, &Unwatched.stage("reading", None))
}

fn inspect_file(file: &[u8], configs: &[NamedConfig], progress: &Stage) -> Inspection {
    let (image, _) = split_trailer(file);
    digest_while_reading(|| digest_file(file, progress), image, configs)
}

/// Inspects an image whose digest was compared when it arrived. The file is
/// then the image itself: its length and digest are those of the image.
fn inspect_checked_image(image: &[u8], configs: &[NamedConfig]) -> Inspection {
    let facts = || FileFacts { bytes: image.len() as u64, sha256: Sha256::of(image), trailer: Trailer::Ok };
    digest_while_reading(facts, image, configs)
}

/// The digest and the content need every byte each: two threads share the work.
fn digest_while_reading(digest: impl FnOnce() -> FileFacts + Send, image: &[u8], configs: &[NamedConfig]) -> Inspection {
    std::thread::scope(|scope| {
        let digest = scope.spawn(digest);
        let reading = Reading::of(image, configs);
        let file = digest.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        reading.in_file(file)
    })
}

fn split_trailer(file: &[u8]) -> (&[u8], Option<&[u8]>) {
    match file.len().checked_sub(TRAILER) {
        Some(length) if file.len() % SECTOR == TRAILER => {
            let (image, trailer) = file.split_at(length);
            (image, Some(trailer))
        }
        _ => (file, None),
    }
}

fn digest_file(file: &[u8], progress: &Stage) -> FileFacts {
    let (image, trailer) = split_trailer(file);
    let mut hasher = Hasher::default();
    for piece in image.chunks(PIECE) {
        hasher.update(piece);
        progress.advance(piece.len() as u64);
    }
    let of_image = hasher.clone().finish();
    let state = match trailer {
        None => Trailer::Missing,
        Some(trailer) if trailer == of_image.as_bytes() => Trailer::Ok,
        Some(_) => Trailer::Mismatch,
    };
    hasher.update(trailer.unwrap_or_default());
    FileFacts { bytes: hasher.bytes(), sha256: hasher.finish(), trailer: state }
}

/// What an image says, apart from the file around it.
struct Reading {
    etcd: Option<EtcdFacts>,
    prefix: Option<String>,
    resources: Vec<ResourceCount>,
    other: Vec<OtherCount>,
    keys: Vec<KeyEntry>,
    problems: Problems,
    verdict: Verdict,
    union_opens: bool,
}

impl Reading {
    fn of(image: &[u8], configs: &[NamedConfig]) -> Self {
        Self::whole(image, configs).unwrap_or_else(|broken| Self::broken(&broken))
    }

    fn whole(image: &[u8], configs: &[NamedConfig]) -> Result<Self, Broken> {
        let contents = Contents::read(image)?;
        let mut census = Census::new(learn_prefix(&contents), configs);
        for row in contents.rows() {
            let (row, is_live) = row?;
            census.count(&row, is_live);
        }
        let (resources, keys) = (census.resources(), census.keys.entries());
        let mut problems = Problems::default();
        problems.of_contents(&contents);
        problems.of_census(&census, &resources, &keys);
        problems.of_free_pages(&FreePlaintext::find(&contents, census.prefix()));
        Ok(Self {
            etcd: Some(facts(&contents)?),
            prefix: census.prefix().map(str::to_owned),
            resources,
            other: census.other(),
            keys,
            problems,
            verdict: census.verdict(),
            union_opens: census.union_opens(),
        })
    }

    fn broken(broken: &Broken) -> Self {
        let mut problems = Problems::default();
        problems.of_broken(broken);
        Self {
            etcd: None,
            prefix: None,
            resources: Vec::new(),
            other: Vec::new(),
            keys: Vec::new(),
            problems,
            verdict: Verdict::Unrestorable,
            union_opens: false,
        }
    }

    fn in_file(self, file: FileFacts) -> Inspection {
        let mut problems = Problems::default();
        problems.of_trailer(file.trailer);
        problems.append(self.problems);
        Inspection {
            file,
            etcd: self.etcd,
            prefix: self.prefix,
            resources: self.resources,
            other: self.other,
            keys: self.keys,
            problems: problems.into_sorted(),
            verdict: self.verdict,
            union_opens: self.union_opens,
        }
    }
}

/// The path before known resource segments that most live keys share.
pub(super) fn learn_prefix(contents: &Contents<'_>) -> Option<String> {
    let mut votes = PrefixVotes::default();
    contents.keys().for_each(|key| votes.count(key));
    votes.winner()
}

fn facts(contents: &Contents<'_>) -> Result<EtcdFacts, Broken> {
    let (database, state) = (contents.verified().database(), contents.state());
    Ok(EtcdFacts {
        revision: contents.revision(),
        compact_revision: contents.compact_revision(),
        status_hash: contents.status_hash(),
        hash_kv: contents.hash_kv()?,
        storage_version: state.storage_version.clone(),
        live_keys: contents.live_keys(),
        history_records: contents.history_records(),
        page_size: database.page_size(),
        db_bytes: database.size(),
        free_bytes: contents.verified().free_bytes(),
        members: state.members.clone(),
        alarms: state.alarms.clone(),
        auth_enabled: state.is_auth_enabled,
    })
}
