//! A snapshot that lies in a file, with no store, ledger or manifest to speak
//! for it: what it is, is read from its own bytes.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use rustix::fs::MemfdFlags;

use crate::base::clock::rfc3339;
use crate::base::codes::{self, Code};
use crate::base::digest::{Hasher, Sha256};
use crate::base::failure::Failure;
use crate::base::ids::{Lineage, SnapshotId, compact};
use crate::base::progress::Stage;
use crate::base::units::human_bytes;
use crate::escrow::seal::{Identities, OpenError};
use crate::escrow::shape;
use crate::k8s::encryption_config::NamedConfig;
use crate::record::host::EncryptionShape;
use crate::record::manifest::{
    Cluster, Image as ImageSaid, KeyNeed, Manifest, Member, Object, Problem, Proof, Quality, RecordRef, Severity, Taken,
};
use crate::record::{Link, SCHEMA, TOOL};
use crate::rehearsal::fetch::{self, Image};
use crate::rehearsal::ladder::{Ladder, StepResult};
use crate::rehearsal::open::OpenedKeys;
use crate::runbook::facts::{Deviation, Facts, ImageFacts, KeyFacts, SnapshotFacts};
use crate::runbook::run::Done;
use crate::scan::inspection::{EtcdFacts, Inspection, KeyEntry, Trailer};

/// What etcd writes is a whole number of these, with a digest of 32 bytes behind it.
const SECTOR: u64 = 512;
const TRAILER_BYTES: u64 = 32;
const PIECE_BYTES: usize = 256 << 10;
/// How age and zstd begin.
const AGE: &[u8] = b"age-encryption.org/v1";
const AGE_ARMOR: &[u8] = b"-----BEGIN AGE ENCRYPTED FILE-----";
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// Who signed, where nobody did.
const NOBODY: &str = "nobody";

/// A file, and the keys that somebody gave with it.
#[derive(Debug)]
pub struct FileSnapshot {
    pub path: PathBuf,
    /// Made from the file's name, time and length: the same file has the same id.
    pub id: SnapshotId,
    /// When the file was last written, in place of the time of taking.
    pub written: Timestamp,
    /// What may open it, where it is sealed.
    pub identities: Option<Arc<Identities>>,
    pub keys: Vec<NamedConfig>,
    /// The order of providers, where a whole EncryptionConfiguration was given.
    pub shape: Option<EncryptionShape>,
}

/// A file's content in memory, whole and with a digest behind it.
pub(super) struct Loaded {
    pub image: Image,
    /// Did the file have a digest of its own?
    pub has_digest: bool,
    pub file_bytes: u64,
    pub file_sha256: Sha256,
}

impl FileSnapshot {
    /// Looks at the file and reads nothing of it yet.
    ///
    /// # Errors
    /// `inspect.unreadable`.
    pub fn at(path: &Path) -> Result<Self, Failure> {
        let unreadable = |e: io::Error| Failure::because(&codes::INSPECT_UNREADABLE, path.display(), &e);
        let metadata = std::fs::metadata(path).map_err(unreadable)?;
        if !metadata.is_file() {
            let what = if metadata.is_dir() { "is a directory" } else { "is not a regular file" };
            return Err(Failure::new(&codes::INSPECT_UNREADABLE, path.display(), what));
        }
        let path = std::fs::canonicalize(path).map_err(unreadable)?;
        let written = metadata.modified().ok().and_then(|at| Timestamp::try_from(at).ok()).unwrap_or(Timestamp::UNIX_EPOCH);
        let told = format!("{}\0{}\0{written}", path.display(), metadata.len());
        let digest = Sha256::of(told.as_bytes()).to_string();
        let text = format!("{}-{}", compact(written), &digest[..8]);
        let id = text.parse().map_err(|_| Failure::new(&codes::INSPECT_UNREADABLE, path.display(), "its time is no time"))?;
        Ok(Self { path, id, written, identities: None, keys: Vec::new(), shape: None })
    }

    /// Takes over the keys of an EncryptionConfiguration and, of the first, its order.
    #[must_use]
    pub fn with_configuration(mut self, named: NamedConfig, sha256: Sha256) -> Self {
        self.shape.get_or_insert_with(|| shape::of(&named.config, sha256));
        self.keys.push(named);
        self
    }
}

impl Ladder<'_> {
    pub(super) fn no_manifest(&self, file: &FileSnapshot) -> StepResult {
        let deviations = vec![Deviation {
            what: "no signed manifest".to_owned(),
            why: format!("the snapshot came from the file {}, and is believed as it is", file.path.display()),
        }];
        let summary = "none: nobody signed for this file".to_owned();
        Ok(Done { summary, facts: Facts { deviations, ..Facts::default() } })
    }

    pub(super) async fn load_file(&mut self, file: Arc<FileSnapshot>) -> StepResult {
        let (limit, copy) = (self.host.config.backup.image_limit, Arc::clone(&file));
        let length = std::fs::metadata(&file.path).ok().map(|metadata| metadata.len());
        let progress = self.host.progress.stage("reading", length);
        let loading = tokio::task::spawn_blocking(move || {
            let loaded = load(&copy.path, copy.identities.as_deref(), limit, progress)?;
            let inspection = loaded.image.mapped.inspect(&copy.keys);
            let version = loaded.image.mapped.contents().ok().and_then(|contents| contents.state().cluster_version.clone());
            Ok::<_, Failure>((loaded, inspection, version))
        });
        let lost = |e| Failure::because(&codes::SANDBOX_FAILED, "the image", &e);
        let (loaded, inspection, version) = loading.await.map_err(lost)??;
        let etcd = whole(&file, &inspection)?;
        let manifest = describe(self.host.config, &file, &loaded, &inspection, etcd, version);
        let path = file.path.display().to_string();
        let snapshot = SnapshotFacts::of(&manifest, RecordRef { key: path.clone(), sha256: loaded.file_sha256 });
        let facts = ImageFacts {
            store: "a file".to_owned(),
            object_bytes: loaded.file_bytes,
            object_sha256: loaded.file_sha256,
            image_bytes: manifest.image.bytes,
            image_sha256: manifest.image.sha256,
        };
        let mut deviations: Vec<_> = loaded.image.could_be_swapped().into_iter().collect();
        let mut summary = format!("{} read", human_bytes(loaded.file_bytes));
        if !loaded.has_digest {
            summary.push_str("; SUSPECT: no digest behind it, so nothing shows that it is what etcd wrote");
            deviations.push(Deviation {
                what: "the file has no digest: it is a raw copy of a database, and suspect".to_owned(),
                why: "only etcdctl snapshot save appends one; the structure was walked, and no more can be shown".to_owned(),
            });
        }
        (self.manifest, self.image) = (Some(manifest), Some(loaded.image));
        let facts = Facts { snapshot: Some(snapshot), image: Some(facts), deviations, ..Facts::default() };
        Ok(Done { summary, facts })
    }

    /// What the given keys make of one that the bytes need.
    pub(super) fn give(file: &FileSnapshot, need: &KeyNeed, opened: &mut OpenedKeys) -> (KeyFacts, Option<&'static Code>) {
        for key in file.keys.iter().flat_map(|named| named.config.keys()) {
            opened.keys.entry(key.fingerprint().clone()).or_insert_with(|| key.clone());
        }
        let given = file.keys.len();
        let cause = match need.proof {
            Proof::Opened | Proof::NotTried => None,
            Proof::Failed => Some("a key of this name was given, and does not open its objects".to_owned()),
            Proof::NoKey if given == 0 => Some("no key was given".to_owned()),
            Proof::NoKey => Some("none of the keys given has this provider and name".to_owned()),
        };
        let facts = KeyFacts {
            provider: need.provider.clone(),
            name: need.name.clone(),
            fingerprint: need.fingerprint.clone(),
            live_objects: need.live_objects,
            resources: need.resources.clone(),
            escrow_record: None,
            opened: need.proof == Proof::Opened,
            cause: cause.clone(),
        };
        (facts, cause.map(|_| &codes::RESTORE_KEY_MISSING))
    }
}

/// Only a file whose structure is whole and whose digest, if it has one, is right is restored.
fn whole<'i>(file: &FileSnapshot, inspection: &'i Inspection) -> Result<&'i EtcdFacts, Failure> {
    let damaged = |cause: &str| {
        Failure::new(&codes::REHEARSAL_STRUCTURE, file.path.display(), cause).next("restore another copy, or another snapshot")
    };
    if inspection.file.trailer == Trailer::Mismatch {
        return Err(damaged("its bytes do not match the digest behind them: it was changed or damaged"));
    }
    inspection.etcd.as_ref().ok_or_else(|| {
        let broken = inspection.problems.iter().find(|problem| problem.code == "structure-broken");
        damaged(broken.map_or("its structure is damaged", |problem| problem.message.as_str()))
    })
}

/// What a manifest would say, from the bytes alone.
fn describe(
    config: &crate::config::Config,
    file: &FileSnapshot,
    loaded: &Loaded,
    inspection: &Inspection,
    etcd: &EtcdFacts,
    version: Option<String>,
) -> Manifest {
    let path = file.path.display().to_string();
    let time = rfc3339(file.written);
    let member_version = version.or_else(|| etcd.storage_version.clone()).unwrap_or_else(|| "unknown".to_owned());
    let keys = inspection.keys.iter().filter(|key| key.live_objects > 0).map(need).collect();
    let is_doubted = !loaded.has_digest || inspection.problems.iter().any(|problem| problem.severity == Severity::Error);
    Manifest {
        schema: SCHEMA,
        path: path.clone(),
        signer: Link { name: nobody(&config.host.name), seq: 0, prev: None },
        id: file.id.clone(),
        cluster: Cluster { name: config.cluster.clone(), lineage: Lineage::of_cluster(0) },
        quality: if is_doubted { Quality::Suspect } else { Quality::Good },
        taken: Taken {
            slot: None,
            started: time.clone(),
            finished: time,
            host: config.host.name.clone(),
            clock_offset_ms: None,
            member: Member { id: format!("{:016x}", 0), name: String::new(), version: member_version, leader: false, lag: 0 },
        },
        image: ImageSaid {
            bytes: loaded.image.mapped.image().len() as u64,
            sha256: Sha256::of(loaded.image.mapped.image()),
            revision: etcd.revision,
            compact_revision: etcd.compact_revision,
            hash_kv: etcd.hash_kv,
            status_hash: etcd.status_hash,
            storage_version: etcd.storage_version.clone(),
            live_keys: etcd.live_keys,
            history_records: etcd.history_records,
            free_page_bytes: etcd.free_bytes,
        },
        object: Object {
            key: path,
            version_id: None,
            bytes: loaded.file_bytes,
            sha256: loaded.file_sha256,
            parts: Vec::new(),
            retention_asked: None,
        },
        sealed_to: Vec::new(),
        resources: inspection.resources.clone(),
        keys,
        recovery: None,
        restore_md_sha256: Sha256::of(b""),
        problems: problems(loaded, inspection),
        tool: TOOL.to_owned(),
    }
}

/// A name that signs nothing.
fn nobody(otherwise: &crate::base::ids::Principal) -> crate::base::ids::Principal {
    NOBODY.parse().unwrap_or_else(|_| otherwise.clone())
}

fn problems(loaded: &Loaded, inspection: &Inspection) -> Vec<Problem> {
    let mut problems = inspection.problems.clone();
    if !loaded.has_digest {
        let message = "no digest follows the database: a raw copy".to_owned();
        problems.push(Problem { code: "trailer-missing".to_owned(), severity: Severity::Error, message, count: 1 });
    }
    problems
}

fn need(key: &KeyEntry) -> KeyNeed {
    KeyNeed {
        provider: key.provider.clone(),
        name: key.name.clone(),
        kms_key_id: key.kms_key_id.clone(),
        fingerprint: key.fingerprint.clone(),
        material: key.material.clone(),
        live_objects: key.live_objects,
        resources: key.resources.clone(),
        proof: key.proof,
        escrow_record: None,
    }
}

/// Reads a file into sealed memory: as it is, or opened with age and zstd.
fn load(path: &Path, identities: Option<&Identities>, limit: u64, progress: Stage) -> Result<Loaded, Failure> {
    let unreadable = |e: io::Error| Failure::because(&codes::INSPECT_UNREADABLE, path.display(), &e);
    let mut source = Hashed { file: File::open(path).map_err(unreadable)?, hasher: Hasher::default(), progress };
    let copied = copy_opened(path, &mut source, identities, limit)?;
    // What follows the last byte that an opener wanted is part of the file, too.
    io::copy(&mut source, &mut io::sink()).map_err(unreadable)?;
    let Copied { mut memory, written, sha256 } = copied;
    let has_digest = written % SECTOR == TRAILER_BYTES;
    if written == 0 || (!has_digest && written % SECTOR != 0) {
        let cause = format!("{written} bytes are no database, with or without a digest: it is cut, or something else");
        return Err(Failure::new(&codes::REHEARSAL_STRUCTURE, path.display(), cause).next("restore another copy of the file"));
    }
    if !has_digest {
        // etcdutl takes nothing without one; what it can still show is that memory kept the bytes.
        memory.write_all(sha256.as_bytes()).map_err(|e| Failure::because(&codes::SANDBOX_FAILED, "memory for the image", &e))?;
    }
    let image = fetch::seal(memory)?;
    Ok(Loaded { image, has_digest, file_bytes: source.hasher.bytes(), file_sha256: source.hasher.finish() })
}

struct Copied {
    memory: File,
    written: u64,
    /// Of all that was written.
    sha256: Sha256,
}

fn copy_opened(path: &Path, source: &mut Hashed, identities: Option<&Identities>, limit: u64) -> Result<Copied, Failure> {
    let damaged = |cause: String| {
        Failure::new(&codes::REHEARSAL_STRUCTURE, path.display(), cause).next("restore another copy, or another snapshot")
    };
    let unreadable = |e: io::Error| Failure::because(&codes::INSPECT_UNREADABLE, path.display(), &e);
    let mut outer = BufReader::with_capacity(PIECE_BYTES, source);
    let start = outer.fill_buf().map_err(unreadable)?;
    let opened: Box<dyn Read + '_> = if start.starts_with(AGE) || start.starts_with(AGE_ARMOR) {
        let identities = identities.ok_or_else(|| {
            Failure::new(&codes::RESTORE_FILE_SEALED, path.display(), "it is sealed with age, and no identity was given")
        })?;
        let plain = age::armor::ArmoredReader::new(outer);
        let reader = identities.reader(BufReader::new(plain)).map_err(|error| match error {
            OpenError::NoMatchingIdentity => identities.opens_nothing_of(&path.display().to_string()),
            OpenError::Altered(cause) => damaged(format!("it does not open: {cause}")),
        })?;
        Box::new(reader)
    } else {
        Box::new(outer)
    };
    let mut opened = BufReader::with_capacity(PIECE_BYTES, opened);
    let start = opened.fill_buf().map_err(|e| damaged(format!("it does not open: {e}")))?;
    let mut image: Box<dyn Read + '_> = if start.starts_with(ZSTD) {
        Box::new(zstd::Decoder::with_buffer(opened).map_err(|e| damaged(e.to_string()))?)
    } else {
        Box::new(opened)
    };
    let no_memory = |e: io::Error| Failure::because(&codes::SANDBOX_FAILED, "memory for the image", &e);
    let memory = rustix::fs::memfd_create("holdfast-image", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING);
    let mut memory = File::from(memory.map_err(|e| no_memory(e.into()))?);
    let (mut hasher, mut buffer) = (Hasher::default(), vec![0; PIECE_BYTES]);
    loop {
        let read = image.read(&mut buffer).map_err(|e| damaged(format!("it cannot be read to its end: {e}")))?;
        if read == 0 {
            return Ok(Copied { memory, written: hasher.bytes(), sha256: hasher.finish() });
        }
        hasher.update(&buffer[..read]);
        if hasher.bytes() > limit.saturating_add(TRAILER_BYTES) {
            let cause = format!("more than the limit of {}", human_bytes(limit));
            return Err(Failure::new(&codes::BACKUP_IMAGE_TOO_LARGE, path.display(), cause));
        }
        memory.write_all(&buffer[..read]).map_err(no_memory)?;
    }
}

/// The file, and the digest of all that was read of it.
struct Hashed {
    file: File,
    hasher: Hasher,
    progress: Stage,
}

impl Read for Hashed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.hasher.update(&buffer[..read]);
        self.progress.advance(read as u64);
        Ok(read)
    }
}
