//! Reading the ledger: every record verified, every chain checked.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{StreamExt, TryStreamExt};

use super::chain::{self, Head};
use super::entry::{Document, Entry, Finding};
use crate::base::codes;
use crate::base::digest::Sha256;
use crate::base::failure::Failure;
use crate::base::ids::Principal;
use crate::record::attestation::{Attestation, ReportRecord};
use crate::record::canonical;
use crate::record::host::HostRecord;
use crate::record::layout::Layout;
use crate::record::receipt::Receipt;
use crate::record::signature::{AllowedSigners, MAX_SIGNATURE_BYTES, verify_foreign, verify_ledger_manifest, verify_record};
use crate::store::{ErrorKind, Key, Listed, Prefix, Store, StoreError, read_small};

/// Objects that are read at the same time: enough to hide a store's latency,
/// few enough that their largest sizes together stay small. Every record is read
/// each time: what was read before may have been replaced.
pub const CONCURRENT_READS: usize = 16;

/// Records are small: a store that needs longer for one is down.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// The whole ledger is read into memory. A cluster that is backed up each hour
/// writes about 100 MiB a year; more than this was not written by holdfast.
const MAX_LEDGER_BYTES: u64 = 1 << 30;

/// A listing has a line for every record ever written.
const LIST_TIMEOUT: Duration = Duration::from_secs(120);

/// The ledger of one cluster.
#[derive(Debug, Clone)]
pub struct Ledger {
    store: Arc<dyn Store>,
    layout: Layout,
    allowed: AllowedSigners,
}

/// All that the ledger says, and what in it is not to be believed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    /// Sorted by path.
    pub entries: Vec<Entry>,
    /// Sorted.
    pub findings: Vec<Finding>,
}

impl History {
    /// The newest record of each signer.
    #[must_use]
    pub fn heads(&self) -> BTreeMap<Principal, Head> {
        chain::heads(&self.entries)
    }
}

impl Ledger {
    #[must_use]
    pub fn new(store: Arc<dyn Store>, layout: Layout, allowed: AllowedSigners) -> Self {
        Self { store, layout, allowed }
    }

    /// Reads and verifies everything below the cluster's folder. An error
    /// means that the store did not answer, and nothing can be told.
    pub async fn read(&self) -> Result<History, Failure> {
        let root: Key =
            self.layout.root().parse().map_err(|e| Failure::because(&codes::CONFIG_INVALID, self.layout.root(), &e))?;
        let below = Prefix::below(&root);
        let listed = self.in_time(&root, "list", LIST_TIMEOUT, self.store.list(&below)).await.map_err(failure)?;
        let total: u64 = listed.iter().map(|listed| listed.bytes.min(canonical::MAX_BYTES)).sum();
        if total > MAX_LEDGER_BYTES {
            let cause = format!("{total} bytes of records, more than the {MAX_LEDGER_BYTES} that are read");
            return Err(Failure::new(&codes::STORE_BROKEN, &root, cause));
        }
        let records = listed.into_iter().filter(|listed| listed.key.as_str().ends_with(".json"));
        // In whatever order they come: entries and findings are sorted below, and chains by their numbers.
        let reading = futures::stream::iter(records).map(|listed| self.read_one(listed)).buffer_unordered(CONCURRENT_READS);
        let read: Vec<Option<Result<Entry, Failure>>> = reading.try_collect().await?;
        let mut history = History::default();
        for outcome in read.into_iter().flatten() {
            match outcome {
                Ok(entry) => history.entries.push(entry),
                Err(failure) => history.findings.push(Finding::from(&failure)),
            }
        }
        history.findings.extend(chain::check(&history.entries));
        history.entries.sort_by(|a, b| a.path.cmp(&b.path));
        history.findings.sort();
        Ok(history)
    }

    /// The outer error ends the reading, the inner one is a finding; `None`
    /// where the object is gone again.
    async fn read_one(&self, listed: Listed) -> Result<Option<Result<Entry, Failure>>, Failure> {
        let key = &listed.key;
        if listed.bytes > canonical::MAX_BYTES {
            let cause = format!("{} bytes, more than the {} of a record", listed.bytes, canonical::MAX_BYTES);
            return Ok(Some(Err(Failure::new(&codes::RECORD_INVALID, key, cause))));
        }
        let bytes = match self.fetch(key, canonical::MAX_BYTES).await {
            Ok(bytes) => bytes,
            Err(e) if e.kind == ErrorKind::NotFound => return Ok(None),
            Err(e) => return unreadable(key, e).map(|finding| Some(Err(finding))),
        };
        let signature = match self.fetch_signature(key).await {
            Ok(signature) => signature,
            Err(e) if e.kind == ErrorKind::NotFound => {
                return Ok(Some(Err(Failure::new(&codes::RECORD_UNSIGNED, key, "no signature lies beside it"))));
            }
            Err(e) => return unreadable(key, e).map(|finding| Some(Err(finding))),
        };
        // Parsing and verifying one record takes well under a millisecond.
        Ok(Some(self.verify(key.as_str(), bytes, &signature)))
    }

    fn verify(&self, path: &str, bytes: Vec<u8>, signature: &[u8]) -> Result<Entry, Failure> {
        let below = path.strip_prefix(self.layout.root()).and_then(|rest| rest.strip_prefix('/')).unwrap_or_default();
        let allowed = &self.allowed;
        let document = match below.split('/').next().unwrap_or_default() {
            "manifests" => Document::Manifest(verify_ledger_manifest(&self.layout, path, &bytes, signature, allowed)?.into()),
            "receipts" => Document::Receipt(Box::new(verify_record::<Receipt>(path, &bytes, signature, allowed)?)),
            "hosts" => Document::Host(Box::new(own_word(path, verify_record(path, &bytes, signature, allowed)?)?)),
            "attestations" => Document::Attestation(Box::new(verify_record::<Attestation>(path, &bytes, signature, allowed)?)),
            "runs" => Document::Report(Box::new(verify_record::<ReportRecord>(path, &bytes, signature, allowed)?)),
            // A newer holdfast has kinds that this one does not know. They count in the chains.
            _ => Document::Foreign(Box::new(verify_foreign(path, &bytes, signature, allowed)?)),
        };
        let signature = String::from_utf8_lossy(signature).into_owned();
        Ok(Entry { path: path.to_owned(), sha256: Sha256::of(&bytes), bytes, signature, document })
    }

    async fn fetch(&self, key: &Key, limit: u64) -> Result<Vec<u8>, StoreError> {
        self.in_time(key, "open", READ_TIMEOUT, read_small(self.store.as_ref(), key, limit)).await
    }

    async fn fetch_signature(&self, key: &Key) -> Result<Vec<u8>, StoreError> {
        let beside = key.with_suffix(".sig").map_err(|e| StoreError {
            kind: ErrorKind::NotFound,
            operation: "open",
            object: key.to_string(),
            source: Some(e.into()),
        })?;
        self.fetch(&beside, MAX_SIGNATURE_BYTES).await
    }

    async fn in_time<T>(
        &self,
        key: &Key,
        operation: &'static str,
        limit: Duration,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        tokio::time::timeout(limit, call).await.unwrap_or_else(|_| {
            let object = format!("{}: {key}", self.store.describe());
            let source = Some(format!("no answer within {} s", limit.as_secs()).into());
            Err(StoreError { kind: ErrorKind::Transient, operation, object, source })
        })
    }
}

/// A host speaks for itself alone: no other host's key vouches for its
/// configuration.
fn own_word(path: &str, record: HostRecord) -> Result<HostRecord, Failure> {
    if record.host == record.signer.name {
        return Ok(record);
    }
    let cause = format!("speaks of {} and is signed by {}", record.host, record.signer.name);
    Err(Failure::new(&codes::RECORD_MISPLACED, path, cause))
}

/// One object that cannot be read is a finding; a store that does not answer
/// or does not let us in must not look like an empty ledger.
fn unreadable(key: &Key, error: StoreError) -> Result<Failure, Failure> {
    match error.kind {
        ErrorKind::Transient | ErrorKind::Denied | ErrorKind::Credential | ErrorKind::Tls => Err(failure(error)),
        _ => Ok(Failure::because(&codes::RECORD_INVALID, key, &error)),
    }
}

fn failure(error: StoreError) -> Failure {
    let transient = error.kind == ErrorKind::Transient;
    let failure = Failure::from(error);
    if transient { Failure::new(&codes::LEDGER_UNREACHABLE, failure.object(), failure.cause()) } else { failure }
}
