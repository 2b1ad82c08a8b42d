//! Rung `open`: the bytes are whole, and escrow opens every encrypted object.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::rfc3339;
use crate::base::codes::{self, Code};
use crate::base::failure::Failure;
use crate::base::ids::Fingerprint;
use crate::base::units::count;
use crate::escrow::opener::Opener;
use crate::escrow::shape;
use crate::k8s::encryption_config::{EncryptionConfig, NamedConfig, Provider, Rule};
use crate::k8s::local_key::LocalKey;
use crate::k8s::object;
use crate::record::attestation::Opening;
use crate::record::layout::Layout;
use crate::record::manifest::{KeyNeed, Manifest, RecordRef};
use crate::rehearsal::index::{Entry, Index, secret_digest};
use crate::rehearsal::ladder::{Ladder, StepResult};
use crate::runbook::facts::{
    DataClockFacts, DecryptionFacts, Facts, KeyFacts, KeysFacts, LeftOut, OtherKeys, StructureFacts, UnreadableObject,
};
use crate::runbook::run::{Done, StepFailure};
use crate::scan::contents::Broken;
use crate::scan::inspection::{EtcdFacts, Inspection, Trailer};
use crate::scan::mapped::Mapped;
use crate::scan::objects::{LiveObject, ObjectClass, ObjectsRead};

/// One key's records: a listing and three small objects.
const OPEN_TIMEOUT: Duration = Duration::from_secs(60);
/// Objects that a failure names; the report holds as many, and the count of all.
const NAMED: usize = 10;

/// Why escrow does not give a key, the heaviest first: what is gone is gone
/// with every identity, and what another identity may open is no finding.
static REASONS: [&Code; 4] =
    [&codes::ESCROW_KEY_MISSING, &codes::ESCROW_NOT_OPENED, &codes::IDENTITY_NOT_A_RECIPIENT, &codes::RESTORE_KEY_MISSING];

/// Keys that escrow gave, by fingerprint.
#[derive(Debug, Default)]
pub struct OpenedKeys {
    pub keys: BTreeMap<Fingerprint, LocalKey>,
}

impl Ladder<'_> {
    pub(super) async fn check_structure(&mut self) -> StepResult {
        let manifest = self.manifest()?;
        let mapped = self.image()?.mapped.clone();
        let inspection = on_a_blocking_thread(move || mapped.inspect(&[])).await?;
        let facts = structure(&inspection);
        let differences = differences(manifest, &inspection);
        if !differences.is_empty() {
            let failure = Failure::new(&codes::REHEARSAL_STRUCTURE, &manifest.id, differences.join("; "));
            let facts = Facts { structure: facts, ..Facts::default() };
            return Err(StepFailure { failure, facts: Box::new(facts) });
        }
        let summary = format!("revision {}, {}", manifest.image.revision, count(manifest.image.live_keys, "live key"));
        self.prefix = inspection.prefix;
        self.other = inspection.other.into_iter().map(|other| (other.prefix, other.live)).collect();
        Ok(Done { summary, facts: Facts { structure: facts, ..Facts::default() } })
    }

    pub(super) async fn open_keys(&mut self) -> StepResult {
        let manifest = self.manifest()?.clone();
        let mut opened = OpenedKeys::default();
        let mut facts = KeysFacts::default();
        let (mut missing, mut reasons) = (Vec::new(), Vec::new());
        for need in &manifest.keys {
            let (outcome, reason) = match &self.subject.file {
                Some(file) => Self::give(file, need, &mut opened),
                None => self.open_needed(need, &mut opened, &mut facts.openings).await?,
            };
            if let Some(cause) = &outcome.cause {
                missing.push(format!("{} {} ({}): {cause}", need.provider, need.name, name_of(need)));
            }
            reasons.extend(reason);
            facts.keys.push(outcome);
        }
        // The source's own order may name keys that nothing needs yet: without
        // them the configuration would not be the source's.
        for fingerprint in self.host_fingerprints() {
            if !opened.keys.contains_key(&fingerprint) {
                // One that is not there becomes a deviation where the configuration is built.
                let _ = self.open_one(&fingerprint, None, &mut opened, &mut facts.openings).await;
            }
        }
        let summary = format!("{} opened", count(opened.keys.len() as u64, "key"));
        let mut facts = Facts { keys: Some(facts), ..Facts::default() };
        if missing.is_empty() {
            self.keys = Some(opened);
            return Ok(Done { summary, facts });
        }
        let code = code_of(&reasons);
        if code == &codes::IDENTITY_NOT_A_RECIPIENT {
            // What the right identity would open is not known, so no object is called unreadable.
            let cause = format!("escrow opens to another identity: {}", missing.join("; "));
            return Err(StepFailure { failure: Failure::new(code, &manifest.id, cause), facts: Box::new(facts) });
        }
        let read = self.try_objects(&manifest, &opened, None).await?;
        let unreadable = unreadable(&read);
        let first = unreadable.first().map_or_else(String::new, |object| format!(", the first is {}", object.object));
        let objects = count(read.failed, "live object");
        let lacks = match code {
            _ if code == &codes::ESCROW_NOT_OPENED => "escrow does not open ",
            _ if code == &codes::RESTORE_KEY_MISSING => "",
            _ => "escrow lacks ",
        };
        let cause = format!("{lacks}{}; {objects} cannot be read{first}", missing.join("; "));
        (facts.decryption, facts.data_clock) = (Some(decryption(&read)), data_clock(&read));
        Err(StepFailure { failure: Failure::new(code, &manifest.id, cause), facts: Box::new(facts) })
    }

    pub(super) async fn decrypt_objects(&mut self) -> StepResult {
        let manifest = self.manifest()?;
        let index = Arc::new(std::sync::Mutex::new(Index::default()));
        let read = self.try_objects(manifest, self.keys()?, Some(index.clone())).await?;
        let index = std::mem::take(&mut *index.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        let facts = Facts {
            decryption: Some(decryption(&read)),
            data_clock: data_clock(&read),
            left_out: untried(&read),
            ..Facts::default()
        };
        if read.failed > 0 {
            let named: Vec<String> = unreadable(&read)
                .iter()
                .map(|object| format!("{} ({} {}: {})", object.object, object.provider, object.key_name, object.cause))
                .collect();
            let cause = format!("{} cannot be read: {}", count(read.failed, "live object"), named.join(", "));
            return Err(StepFailure {
                failure: Failure::new(&codes::REHEARSAL_UNDECRYPTABLE, &manifest.id, cause),
                facts: Box::new(facts),
            });
        }
        if read.untried > 0 {
            let cause =
                format!("{} are encrypted through a KMS, and this version opens none", count(read.untried, "live object"));
            return Err(StepFailure {
                failure: Failure::new(&codes::REHEARSAL_KMS, &manifest.id, cause),
                facts: Box::new(facts),
            });
        }
        let summary = format!("{} opened, {} in the clear", count(read.opened, "encrypted object"), read.plain);
        (self.index, self.decrypted) = (Some(Arc::new(index)), Some(read.opened));
        Ok(Done { summary, facts })
    }

    /// Opens one key of the manifest. A key that escrow does not give is a
    /// cause in the answer, with its code; a store that does not answer is an error.
    async fn open_needed(
        &self,
        need: &KeyNeed,
        opened: &mut OpenedKeys,
        openings: &mut Vec<Opening>,
    ) -> Result<(KeyFacts, Option<&'static Code>), Failure> {
        let mut facts = KeyFacts {
            provider: need.provider.clone(),
            name: need.name.clone(),
            fingerprint: need.fingerprint.clone(),
            live_objects: need.live_objects,
            resources: need.resources.clone(),
            escrow_record: None,
            opened: false,
            cause: None,
        };
        let material = need.material.clone().or_else(|| need.fingerprint.as_ref()?.parse().ok());
        let Some(fingerprint) = material else {
            facts.cause = Some("no key opened its objects when the snapshot was taken".to_owned());
            return Ok((facts, Some(&codes::ESCROW_KEY_MISSING)));
        };
        let mut reason = None;
        match self.open_one(&fingerprint, need.escrow_record.as_ref(), opened, openings).await {
            Ok(()) => {
                facts.opened = true;
                facts.escrow_record = openings
                    .iter()
                    .find(|opening| opening.fingerprint == fingerprint)
                    .map(|opening| opening.escrow_record.clone());
            }
            Err(failure) if REASONS.contains(&failure.code()) => {
                reason = Some(failure.code());
                facts.cause = Some(failure.cause().to_owned());
            }
            Err(failure) => return Err(failure),
        }
        Ok((facts, reason))
    }

    async fn open_one(
        &self,
        fingerprint: &Fingerprint,
        named: Option<&RecordRef>,
        opened: &mut OpenedKeys,
        openings: &mut Vec<Opening>,
    ) -> Result<(), Failure> {
        let config = self.host.config;
        let layout = Layout::new(&config.escrow.prefix, &config.cluster);
        let store = self.host.escrow()?;
        let identities = self.host.escrow_identity()?;
        let opener = Opener { store: store.as_ref(), layout: &layout, identities: &identities, allowed: self.host.allowed };
        let key = match tokio::time::timeout(OPEN_TIMEOUT, opener.open(fingerprint, named)).await {
            Ok(key) => key?,
            Err(_) => return Err(Failure::new(&codes::STORE_UNREACHABLE, store.describe(), "no answer in time")),
        };
        openings.push(Opening { fingerprint: fingerprint.clone(), escrow_record: key.record });
        opened.keys.insert(fingerprint.clone(), key.key);
        Ok(())
    }

    fn host_fingerprints(&self) -> Vec<Fingerprint> {
        let record = self.subject.host_record.as_ref();
        let shape = record.and_then(|(record, _)| record.encryption.as_ref());
        shape.map(|shape| shape::fingerprints(shape).into_iter().cloned().collect()).unwrap_or_default()
    }

    /// Tries every live object with keys from escrow alone.
    async fn try_objects(
        &self,
        manifest: &Manifest,
        keys: &OpenedKeys,
        index: Option<Arc<std::sync::Mutex<Index>>>,
    ) -> Result<ObjectsRead, Failure> {
        let mapped = self.image()?.mapped.clone();
        let configs = [trial_config(manifest, keys)];
        let id = manifest.id.clone();
        let read = on_a_blocking_thread(move || read_objects(&mapped, &configs, index)).await?;
        read.map_err(|broken| Failure::new(&codes::REHEARSAL_STRUCTURE, id, broken))
    }
}

fn read_objects(
    mapped: &Mapped,
    configs: &[NamedConfig],
    index: Option<Arc<std::sync::Mutex<Index>>>,
) -> Result<ObjectsRead, Broken> {
    let contents = mapped.contents()?;
    let Some(index) = index else { return Ok(contents.read_objects(configs, &mut |_| ())) };
    // Nobody else holds it while this thread fills it.
    let mut index = index.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok(contents.read_objects(configs, &mut |object| note(&mut index, object)))
}

fn note(index: &mut Index, object: &LiveObject<'_>) {
    if !object.has_endpoint {
        return;
    }
    let is_secret = object.group.is_empty() && object.resource == "secrets";
    let secret = object
        .body
        .filter(|_| is_secret)
        .and_then(|body| Some(secret_digest(&object::secret_type(body)?, &object::secret_data(body)?)));
    let encrypted = matches!(object.class, ObjectClass::Local | ObjectClass::Kms);
    let entry = Entry { revision: object.revision, encrypted, secret };
    index.add(object.group, object.resource, object.namespace, object.name, entry);
}

/// Every opened key, under its own name and under each name that the snapshot
/// knows its material by.
fn trial_config(manifest: &Manifest, keys: &OpenedKeys) -> NamedConfig {
    let mut all: Vec<LocalKey> = keys.keys.values().cloned().collect();
    for need in &manifest.keys {
        all.extend(needed_key(need, keys).filter(|key| !all.contains(key)));
    }
    let providers = all.into_iter().filter_map(|key| Provider::of_keys(vec![key])).collect();
    let rules = vec![Rule { resources: vec!["*.*".to_owned()], providers }];
    NamedConfig { name: "escrow".to_owned(), config: EncryptionConfig { rules } }
}

/// The key that a need speaks of, under the name that stored values carry.
pub(super) fn needed_key(need: &KeyNeed, keys: &OpenedKeys) -> Option<LocalKey> {
    let fingerprint: Fingerprint = need.fingerprint.as_ref()?.parse().ok()?;
    let key = keys.keys.get(&fingerprint)?;
    LocalKey::new(key.provider(), need.name.as_str(), key.secret().clone()).ok()
}

/// The heaviest reason, which is the reason where all agree.
fn code_of(reasons: &[&'static Code]) -> &'static Code {
    REASONS.into_iter().find(|code| reasons.contains(code)).unwrap_or(&codes::ESCROW_KEY_MISSING)
}

fn name_of(need: &KeyNeed) -> &str {
    need.fingerprint.as_deref().unwrap_or("unknown material")
}

fn structure(inspection: &Inspection) -> Option<StructureFacts> {
    let etcd = inspection.etcd.as_ref()?;
    let other = inspection.other.iter().map(|other| OtherKeys { prefix: other.prefix.clone(), live: other.live });
    Some(StructureFacts {
        trailer: trailer(inspection.file.trailer).to_owned(),
        revision: etcd.revision,
        live_keys: etcd.live_keys,
        hash_kv: etcd.hash_kv,
        resources: inspection.resources.clone(),
        other: other.collect(),
        alarms: etcd.alarms.iter().map(|alarm| format!("{} on {}", alarm.kind, alarm.member)).collect(),
    })
}

fn trailer(trailer: Trailer) -> &'static str {
    match trailer {
        Trailer::Ok => "ok",
        Trailer::Missing => "missing",
        Trailer::Mismatch => "mismatch",
    }
}

/// What of the image is not as the manifest says; empty when it is whole.
fn differences(manifest: &Manifest, inspection: &Inspection) -> Vec<String> {
    let mut found = Vec::new();
    if inspection.file.trailer != Trailer::Ok {
        found.push(format!("the digest that etcd appended: {}", trailer(inspection.file.trailer)));
    }
    let Some(etcd) = &inspection.etcd else {
        found.extend(inspection.problems.iter().filter(|problem| problem.code == "structure-broken").map(|p| p.message.clone()));
        return found;
    };
    let EtcdFacts { revision, compact_revision, hash_kv, status_hash, live_keys, .. } = etcd;
    let image = &manifest.image;
    let numbers: [(&str, String, String); 5] = [
        ("revision", revision.to_string(), image.revision.to_string()),
        ("compact revision", compact_revision.to_string(), image.compact_revision.to_string()),
        ("live keys", live_keys.to_string(), image.live_keys.to_string()),
        ("hash of the history", hash_kv.to_string(), image.hash_kv.to_string()),
        ("status hash", status_hash.to_string(), image.status_hash.to_string()),
    ];
    let unequal = numbers.into_iter().filter(|(_, found, said)| found != said);
    found.extend(unequal.map(|(what, found, said)| format!("{what} {found} where the manifest says {said}")));
    found
}

fn decryption(read: &ObjectsRead) -> DecryptionFacts {
    DecryptionFacts {
        encrypted: read.opened + read.untried + read.failed,
        opened: read.opened,
        plaintext: read.plain,
        failures: unreadable(read),
    }
}

fn data_clock(read: &ObjectsRead) -> Option<DataClockFacts> {
    read.clock.map(|clock| DataClockFacts { newest: rfc3339(clock.at), rule: clock.source.as_str().to_owned() })
}

fn unreadable(read: &ObjectsRead) -> Vec<UnreadableObject> {
    // Those that lack a key first: a key can be found, a foreign value cannot be mended.
    let mut first: Vec<_> = read.failures.iter().collect();
    first.sort_by_key(|failure| failure.provider.is_empty());
    first
        .into_iter()
        .take(NAMED)
        .map(|failure| UnreadableObject {
            object: failure.etcd_key.clone(),
            provider: failure.provider.clone(),
            key_name: failure.key_name.clone(),
            cause: failure.reason.clone(),
        })
        .collect()
}

fn untried(read: &ObjectsRead) -> Vec<LeftOut> {
    if read.untried == 0 {
        return Vec::new();
    }
    let why = "their keys lie in a KMS that a rehearsal does not reach".to_owned();
    vec![LeftOut { what: "objects encrypted through a KMS".to_owned(), objects: Some(read.untried), why }]
}

async fn on_a_blocking_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work).await.map_err(|e| Failure::because(&codes::REHEARSAL_STRUCTURE, "the image", &e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_escrow_does_not_give_are_called_by_their_common_reason() {
        let [missing, not_opened, other_identity, _] = REASONS;
        for reason in REASONS {
            assert_eq!(code_of(&[reason, reason]), reason);
        }
        assert_eq!(code_of(&[not_opened, missing]), missing);
        assert_eq!(code_of(&[other_identity, not_opened]), not_opened);
        assert_eq!(code_of(&[other_identity, missing]), missing);
    }
}
