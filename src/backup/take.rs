//! One snapshot, from the first byte of the stream to the signed manifest.

use std::time::Duration;

use jiff::Timestamp;

use super::assemble::{Assembled, Facts, assemble};
use super::clock_offset::ClockOffset;
use super::configuration::{self, ReadConfig, Readings};
use super::pipeline::{self, Pipeline};
use crate::base::clock::Clock;
use crate::base::codes;
use crate::base::digest::Sha256;
use crate::base::entropy::Entropy;
use crate::base::exit::Exit;
use crate::base::failure::Failure;
use crate::base::ids::{Fingerprint, Lineage, SnapshotId};
use crate::base::progress::{Progress, Stage};
use crate::base::units::human_duration;
use crate::config::Config;
use crate::escrow::deposit::Depositor;
use crate::escrow::seal::Recipients;
use crate::escrow::shape;
use crate::etcd::{Choice, Guard, MemberStatus, MessageStream, Source, StreamedImage, choose};
use crate::k8s::local_key::LocalKey;
use crate::ledger::{Outbox, Place, Stores};
use crate::record::host::HostRecord;
use crate::record::layout::Layout;
use crate::record::manifest::{Manifest, Quality};
use crate::record::receipt::Receipt;
use crate::record::signature::Signer;
use crate::record::{SCHEMA, canonical};
use crate::scan::{Captured, ImageSink};
use crate::store::{ErrorKind, Key, PutOptions, Store, StoreError, Stored};

/// A host's record is renewed at least this often, so that its absence tells.
const HOST_RECORD_INTERVAL: jiff::SignedDuration = jiff::SignedDuration::from_hours(24);

/// The configuration's defaults, for a source that is not configured (tests).
const STALL_TIMEOUT: Duration = Duration::from_secs(30);
const TOTAL_TIMEOUT: Duration = Duration::from_secs(1_800);

/// What a control-plane host needs to take a snapshot.
#[derive(Debug, Clone, Copy)]
pub struct BackupHost<'a> {
    pub config: &'a Config,
    pub source: &'a dyn Source,
    /// Makes the place that an image of at most so many bytes goes to.
    pub sink: fn(u64) -> Result<Box<dyn ImageSink>, Failure>,
    pub snapshots: &'a dyn Store,
    pub escrow: &'a dyn Store,
    /// Where the outbox delivers to: the same stores, and the ledger.
    pub stores: &'a Stores,
    pub signer: &'a Signer,
    pub outbox: &'a Outbox,
    /// What this host deposited and recorded before, from the catalog.
    pub known: &'a Known,
    pub clock: &'a dyn Clock,
    pub entropy: &'a dyn Entropy,
    pub progress: &'a dyn Progress,
}

/// Earlier records, so that the same deposit is not made twice.
#[derive(Debug, Clone, Default)]
pub struct Known {
    pub receipts: Vec<Receipt>,
    /// This host's newest record.
    pub host: Option<HostRecord>,
}

/// A snapshot that exists.
#[derive(Debug, Clone)]
pub struct Taken {
    pub manifest: Manifest,
    pub manifest_sha256: Sha256,
    /// What did not go well and did not stop the snapshot.
    pub warnings: Vec<Failure>,
}

impl Taken {
    /// 0 for `good`; 1 for a snapshot that cannot be counted on.
    #[must_use]
    pub fn exit(&self) -> Exit {
        if self.manifest.quality == Quality::Good { Exit::Good } else { Exit::Bad }
    }
}

/// Takes a snapshot. With `degraded`, a member that has no leader will do.
///
/// # Errors
/// Nothing is visible then. Sealed keys may lie in escrow, and an object that
/// no manifest names may lie in the snapshot store; when only the manifest
/// could not be put, it waits in the outbox and the next command delivers it.
pub async fn take(host: &BackupHost<'_>, degraded: Option<&str>) -> Result<Taken, Failure> {
    take_for(host, degraded, None).await
}

/// As [`take`], for a slot of a schedule.
///
/// # Errors
/// As [`take`].
pub async fn take_for(host: &BackupHost<'_>, degraded: Option<&str>, slot: Option<String>) -> Result<Taken, Failure> {
    let mut warnings = Vec::new();
    let started = host.clock.now();
    let mut readings = Readings::default();
    readings.add(host.config.backup.encryption_config.as_deref());
    let choice = choose_member(host, degraded.is_some(), &mut warnings).await?;
    let draft = Draft::new(host, started, slot, &choice);
    let streamed = stream_and_store(host, &draft, &choice, readings, degraded).await?;
    let after = status_of(host, &choice.member.endpoint).await;
    let receipts = deposit(host, &streamed.readings.configs, &mut warnings).await;
    match &streamed.readings.failure {
        None => append_host_record(host, streamed.readings.newest(), streamed.clock_offset)?,
        // What could not be read is not recorded as something else.
        Some(failure) => warnings.push(failure.clone()),
    }
    let facts = Facts {
        choice: &choice,
        after: after.as_ref(),
        degraded,
        captured: &streamed.captured,
        image: &streamed.image,
        object: &streamed.object,
        receipts: &receipts,
        readings: &streamed.readings,
        clock_offset: streamed.clock_offset,
    };
    let assembled = assemble(host, &draft, &facts)?;
    warnings.extend(assembled.warnings.iter().cloned());
    warnings.extend(streamed.clock_offset.and_then(|offset| offset.warning(&host.snapshots.describe())));
    publish(host, &draft, assembled, warnings).await
}

/// What is fixed before the first byte arrives.
#[derive(Debug)]
pub struct Draft {
    pub id: SnapshotId,
    pub lineage: Lineage,
    pub started: Timestamp,
    /// RFC 3339, UTC; none where a person asked.
    pub slot: Option<String>,
    pub snapshots: Layout,
    pub ledger: Layout,
}

impl Draft {
    fn new(host: &BackupHost<'_>, started: Timestamp, slot: Option<String>, choice: &Choice) -> Self {
        Self {
            id: SnapshotId::new(started, host.entropy),
            lineage: Lineage::of_cluster(choice.member.cluster_id),
            started,
            slot,
            snapshots: Layout::new(&host.config.snapshots.prefix, &host.config.cluster),
            ledger: Layout::new(&host.config.ledger.prefix, &host.config.cluster),
        }
    }
}

struct Streamed {
    image: StreamedImage,
    captured: Captured,
    object: Stored,
    readings: Readings,
    /// None where the store has no clock of its own.
    clock_offset: Option<ClockOffset>,
}

async fn choose_member(host: &BackupHost<'_>, degraded: bool, warnings: &mut Vec<Failure>) -> Result<Choice, Failure> {
    let mut members = Vec::new();
    let mut failures = Vec::new();
    for status in host.source.statuses().await {
        match status {
            Ok(status) => members.push(status),
            Err(failure) => failures.push(failure),
        }
    }
    if members.is_empty() {
        return Err(failures
            .into_iter()
            .next()
            .unwrap_or_else(|| Failure::new(&codes::ETCD_UNREACHABLE, "etcd.endpoints", "no endpoint is configured")));
    }
    warnings.extend(failures);
    choose(&members, degraded)
}

async fn status_of(host: &BackupHost<'_>, endpoint: &str) -> Option<MemberStatus> {
    host.source.statuses().await.into_iter().flatten().find(|status| status.endpoint == endpoint)
}

/// Streams, captures, seals and stores at once. The object is complete only if
/// every guard passed and the image's structure was walked.
async fn stream_and_store(
    host: &BackupHost<'_>,
    draft: &Draft,
    choice: &Choice,
    readings: Readings,
    degraded: Option<&str>,
) -> Result<Streamed, Failure> {
    let endpoint = &choice.member.endpoint;
    let recipients = Recipients::parse(&host.config.snapshots.recipients)?;
    let key: Key = parse(&draft.snapshots.snapshot_object(&draft.lineage, &draft.id))?;
    let sink = (host.sink)(host.config.backup.image_limit)?;
    let stream = host.source.stream(endpoint, degraded.is_none()).await?;
    let (pipeline, mut body) = pipeline::start(sink, recipients, host.config.backup.compression_level);
    let options = PutOptions { expected_bytes: Some(choice.member.db_bytes) };
    // Moved in, so that a put that fails drops the body and thereby ends the stream.
    let storing = async move {
        let stored = host.snapshots.put(&key, body.as_mut(), &options).await?;
        // At once: the answer is some moments old when the image was examined.
        let clock_offset = stored.server_time.map(|store| ClockOffset::between(host.clock.now(), store));
        Ok::<_, StoreError>((stored, clock_offset))
    };
    let streaming = host.progress.stage("streaming", Some(choice.member.db_bytes));
    let draining = async {
        let drained = drain(host, endpoint, stream, pipeline, readings, streaming).await;
        // What the store has not taken yet is all that is waited for.
        (drained, host.progress.stage("storing the rest", None))
    };
    let both = futures::future::join(draining, storing);
    let limit = total_timeout(host) * 2;
    let ended = tokio::time::timeout(limit, both).await.map(|((drained, _), stored)| (drained, stored));
    match ended {
        Ok((Ok((image, captured, readings)), Ok((object, clock_offset)))) => {
            Ok(Streamed { image, captured, object, readings, clock_offset })
        }
        // The put failed only because the stream did.
        Ok((Err(failure), Err(error))) if error.kind == ErrorKind::Body => Err(failure),
        Ok((_, Err(error))) => Err(error.into()),
        Ok((Err(failure), Ok(_))) => Err(failure),
        Err(_) => {
            let cause = format!("the object was not stored within {}", human_duration(limit));
            Err(Failure::new(&codes::STORE_UNREACHABLE, host.snapshots.describe(), cause))
        }
    }
}

type Drained = (StreamedImage, Captured, Readings);

async fn drain(
    host: &BackupHost<'_>,
    endpoint: &str,
    stream: Box<dyn MessageStream>,
    mut pipeline: Pipeline,
    mut readings: Readings,
    progress: Stage,
) -> Result<Drained, Failure> {
    let stall = host.config.etcd.as_ref().map_or(STALL_TIMEOUT, |etcd| etcd.stall_timeout);
    let total = total_timeout(host);
    let pulling = pull(endpoint, stream, &mut pipeline, stall, &progress);
    let image = tokio::time::timeout(total, pulling).await.map_err(|_| stalled(endpoint, "took longer than", total))??;
    readings.add(host.config.backup.encryption_config.as_deref());
    let captured = pipeline.finish(image.sha256, configuration::distinct(&readings.configs)).await?;
    Ok((image, captured, readings))
}

fn total_timeout(host: &BackupHost<'_>) -> Duration {
    host.config.etcd.as_ref().map_or(TOTAL_TIMEOUT, |etcd| etcd.total_timeout)
}

async fn pull(
    endpoint: &str,
    mut stream: Box<dyn MessageStream>,
    pipeline: &mut Pipeline,
    stall: Duration,
    progress: &Stage,
) -> Result<StreamedImage, Failure> {
    let mut guard = Guard::new(endpoint);
    loop {
        let next = tokio::time::timeout(stall, stream.next());
        match next.await.map_err(|_| stalled(endpoint, "sent nothing for", stall))?? {
            Some(message) => {
                let image = guard.accept(&message)?;
                progress.advance(image.len() as u64);
                // The member's status said how large its file is; the stream says how much comes.
                progress.expect(guard.announced());
                if !image.is_empty() {
                    pipeline.chunk(image).await?;
                }
            }
            None => return guard.finish(),
        }
    }
}

fn stalled(endpoint: &str, what: &str, limit: Duration) -> Failure {
    Failure::new(&codes::ETCD_STREAM_STALLED, endpoint, format!("the stream {what} {}", human_duration(limit)))
}

/// Deposits each key of the configurations that no receipt covers. What fails
/// or is late is a warning here and a gap in the manifest.
async fn deposit(host: &BackupHost<'_>, configs: &[Option<ReadConfig>], warnings: &mut Vec<Failure>) -> Vec<Receipt> {
    let mut receipts = Vec::new();
    let recipients = match Recipients::parse(&host.config.escrow.recipients) {
        Ok(recipients) => recipients,
        Err(failure) => {
            warnings.push(failure);
            return receipts;
        }
    };
    let keys: Vec<&LocalKey> = configs.iter().flatten().flat_map(|read| read.named.config.keys()).collect();
    let deadline = host.config.backup.escrow_deadline;
    let deposits = deposit_each(host, &recipients, &keys, &mut receipts, warnings);
    if tokio::time::timeout(deadline, deposits).await.is_err() {
        let cause = format!("not all keys were deposited within {}", human_duration(deadline));
        warnings.push(Failure::new(&codes::ESCROW_UNREACHABLE, host.escrow.describe(), cause));
    }
    receipts
}

async fn deposit_each(
    host: &BackupHost<'_>,
    recipients: &Recipients,
    keys: &[&LocalKey],
    receipts: &mut Vec<Receipt>,
    warnings: &mut Vec<Failure>,
) {
    let escrow = Layout::new(&host.config.escrow.prefix, &host.config.cluster);
    let ledger = Layout::new(&host.config.ledger.prefix, &host.config.cluster);
    let depositor = Depositor {
        store: host.escrow,
        escrow: &escrow,
        ledger: &ledger,
        recipients,
        signer: host.signer,
        outbox: host.outbox,
        host: &host.config.host.name,
        clock: host.clock,
        entropy: host.entropy,
        tool: crate::record::TOOL,
    };
    let mut seen: Vec<&Fingerprint> = Vec::new();
    for key in keys {
        if seen.contains(&key.fingerprint()) {
            continue;
        }
        seen.push(key.fingerprint());
        if let Some(receipt) = host.known.receipts.iter().find(|receipt| depositor.is_covered(key, receipt)) {
            receipts.push(receipt.clone());
            continue;
        }
        match depositor.deposit(key).await {
            Ok(receipt) => receipts.push(receipt),
            Err(failure) => warnings.push(failure),
        }
    }
}

/// Records the configuration's shape, when it changed or the last record is old.
fn append_host_record(
    host: &BackupHost<'_>,
    config: Option<&ReadConfig>,
    clock_offset: Option<ClockOffset>,
) -> Result<(), Failure> {
    let now = host.clock.now();
    let encryption = config.map(|read| shape::of(&read.named.config, read.sha256));
    let fresh = host.known.host.as_ref().is_some_and(|known| {
        let observed: Option<Timestamp> = known.observed.parse().ok();
        let age = observed.map(|observed| now.duration_since(observed));
        known.encryption == encryption && age.is_some_and(|age| age < HOST_RECORD_INTERVAL)
    });
    if fresh {
        return Ok(());
    }
    let name = &host.config.host.name;
    let ledger = Layout::new(&host.config.ledger.prefix, &host.config.cluster);
    let path = ledger.host(name, &crate::base::ids::compact(now), &host.entropy.hex(8));
    let record = |signer| HostRecord {
        schema: SCHEMA,
        path: path.clone(),
        signer,
        cluster: host.config.cluster.clone(),
        host: name.clone(),
        observed: crate::base::clock::rfc3339(now),
        clock_offset_ms: clock_offset.map(ClockOffset::milliseconds),
        encryption,
        tool: crate::record::TOOL.to_owned(),
    };
    host.outbox.append(host.signer, record, &[(Place::Ledger, path.clone())])?;
    Ok(())
}

/// `RESTORE.md`, then the manifest: the snapshot exists from here on.
async fn publish(
    host: &BackupHost<'_>,
    draft: &Draft,
    assembled: Assembled,
    mut warnings: Vec<Failure>,
) -> Result<Taken, Failure> {
    let restore_md = assembled.restore_md.as_bytes();
    let page: Key = parse(&draft.snapshots.snapshot_restore_md(&draft.lineage, &draft.id))?;
    let options = PutOptions { expected_bytes: Some(restore_md.len() as u64) };
    host.snapshots.put(&page, &mut std::io::Cursor::new(restore_md.to_vec()), &options).await?;
    let destinations = [
        (Place::Snapshots, assembled.manifest.path.clone()),
        (Place::Ledger, draft.ledger.ledger_manifest(&draft.lineage, &draft.id)),
    ];
    let path = assembled.manifest.path.clone();
    let appended = host.outbox.append(host.signer, |signer| Manifest { signer, ..assembled.manifest }, &destinations)?;
    let delivery = host.outbox.deliver(host.stores).await?;
    for waiting in delivery.waiting {
        if waiting.place == Place::Snapshots && waiting.object == path {
            return Err(waiting.why.next("the manifest waits in the outbox; the next command delivers it"));
        }
        warnings.push(waiting.why);
    }
    let manifest = canonical::from_bytes(&path, &appended.bytes)?;
    Ok(Taken { manifest, manifest_sha256: appended.sha256, warnings })
}

fn parse(path: &str) -> Result<Key, Failure> {
    path.parse().map_err(|error| Failure::because(&codes::STORE_BROKEN, path, &error))
}
