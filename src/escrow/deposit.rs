//! Depositing key versions: sealed record, its open half, then the receipt.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::seal::Recipients;
use crate::base::clock::{Clock, rfc3339};
use crate::base::codes;
use crate::base::digest::Sha256;
use crate::base::entropy::Entropy;
use crate::base::failure::Failure;
use crate::base::ids::{Principal, compact};
use crate::base::secret::Secret;
use crate::k8s::encryption_config::EncryptionConfig;
use crate::k8s::local_key::LocalKey;
use crate::ledger::{Outbox, Place};
use crate::record::escrow::EscrowRecord;
use crate::record::layout::Layout;
use crate::record::manifest::RecordRef;
use crate::record::receipt::Receipt;
use crate::record::signature::Signer;
use crate::record::{Link, ObjectRef, Record, SCHEMA, canonical};
use crate::store::{Key, PutOptions, Store, Stored};

/// A host that may only put cannot look whether a record is still there, so it
/// deposits each key again after this time: a loss is mended within a day.
const RENEWAL: SignedDuration = SignedDuration::from_hours(24);

/// Everything a deposit needs. Only `put` is used of the store.
#[derive(Debug, Clone, Copy)]
pub struct Depositor<'a> {
    pub store: &'a dyn Store,
    /// Names in the escrow store.
    pub escrow: &'a Layout,
    /// Names in the ledger.
    pub ledger: &'a Layout,
    pub recipients: &'a Recipients,
    pub signer: &'a Signer,
    pub outbox: &'a Outbox,
    pub host: &'a Principal,
    pub clock: &'a dyn Clock,
    pub entropy: &'a dyn Entropy,
    pub tool: &'a str,
}

impl Depositor<'_> {
    /// Does a receipt still stand for a key: the same material, sealed to the
    /// same people, in this store, under the names where readers look, and not
    /// long ago?
    #[must_use]
    pub fn is_covered(&self, key: &LocalKey, receipt: &Receipt) -> bool {
        let set = |names: &[String]| names.iter().cloned().collect::<BTreeSet<_>>();
        let folder = format!("{}/", self.escrow.escrow_key(key.fingerprint()));
        let deposited: Option<Timestamp> = receipt.deposited.parse().ok();
        receipt.fingerprint == *key.fingerprint()
            && receipt.store == self.store.describe()
            && receipt.escrow_record.key.starts_with(&folder)
            && set(&receipt.sealed_to) == set(self.recipients.names())
            && deposited.is_some_and(|deposited| self.clock.now().duration_since(deposited) < RENEWAL)
    }

    /// Seals `key` into escrow and appends the receipt to the outbox.
    ///
    /// # Errors
    /// Those of the store. The sealed object is put first, then the signature,
    /// then the record: what fails half-way leaves objects that nothing names.
    pub async fn deposit(&self, key: &LocalKey) -> Result<Receipt, Failure> {
        let now = self.clock.now();
        let stem = self.stem(key, now);
        let document = key_document(key);
        let sealed = self
            .recipients
            .seal(document.expose().as_bytes())
            .map_err(|error| Failure::because(&codes::ESCROW_UNREACHABLE, key.fingerprint(), &error))?;
        let object = self.put(&format!("{stem}.age"), &sealed).await?;
        let record = self.record(key, &stem, object, now);
        let bytes = canonical::to_bytes(&record)?;
        let signature = self.signer.sign(EscrowRecord::NAMESPACE, &bytes)?;
        self.put(&format!("{}.sig", record.path), signature.as_bytes()).await?;
        self.put(&record.path, &bytes).await?;
        self.receipt(key, &record.path, Sha256::of(&bytes), now)
    }

    fn stem(&self, key: &LocalKey, now: Timestamp) -> String {
        self.escrow.escrow_record(key.fingerprint(), &compact(now), self.host, &self.entropy.hex(8))
    }

    async fn put(&self, path: &str, bytes: &[u8]) -> Result<Stored, Failure> {
        let name: Key = path.parse().map_err(|error| Failure::because(&codes::STORE_BROKEN, path, &error))?;
        let options = PutOptions { expected_bytes: Some(bytes.len() as u64) };
        Ok(self.store.put(&name, &mut std::io::Cursor::new(bytes.to_vec()), &options).await?)
    }

    fn record(&self, key: &LocalKey, stem: &str, sealed: Stored, now: Timestamp) -> EscrowRecord {
        EscrowRecord {
            schema: SCHEMA,
            path: format!("{stem}.json"),
            // The chain runs over the ledger, where the receipt has its place.
            signer: Link { name: self.signer.principal().clone(), seq: 0, prev: None },
            fingerprint: key.fingerprint().clone(),
            provider: key.provider().as_str().to_owned(),
            name: key.name().to_owned(),
            host: self.host.clone(),
            sealed: ObjectRef {
                key: sealed.key.to_string(),
                version_id: sealed.version_id.map(|version| version.0),
                bytes: sealed.bytes,
                sha256: sealed.sha256,
            },
            sealed_to: self.recipients.names().to_vec(),
            deposited: rfc3339(now),
            tool: self.tool.to_owned(),
        }
    }

    fn receipt(&self, key: &LocalKey, record_path: &str, sha256: Sha256, now: Timestamp) -> Result<Receipt, Failure> {
        let path = self.ledger.receipt(key.fingerprint(), &compact(now), self.host, &self.entropy.hex(8));
        let appended = self.outbox.append(
            self.signer,
            |signer| Receipt {
                schema: SCHEMA,
                path: path.clone(),
                signer,
                fingerprint: key.fingerprint().clone(),
                provider: key.provider().as_str().to_owned(),
                name: key.name().to_owned(),
                store: self.store.describe(),
                escrow_record: RecordRef { key: record_path.to_owned(), sha256 },
                sealed_to: self.recipients.names().to_vec(),
                deposited: rfc3339(now),
                tool: self.tool.to_owned(),
            },
            &[(Place::Ledger, path.clone())],
        )?;
        canonical::from_bytes(&path, &appended.bytes)
    }
}

/// What is sealed: a configuration with this one key under its own name, which
/// an API server reads as it is.
#[must_use]
pub fn key_document(key: &LocalKey) -> Secret<String> {
    EncryptionConfig::of_key(key.clone()).to_yaml()
}
