//! Opening key versions, where an escrow identity is.

use super::seal::{Identities, OpenError};
use crate::base::codes::{self, Code};
use crate::base::digest::Sha256;
use crate::base::failure::Failure;
use crate::base::ids::Fingerprint;
use crate::k8s::encryption_config::EncryptionConfig;
use crate::k8s::local_key::LocalKey;
use crate::record::escrow::EscrowRecord;
use crate::record::layout::Layout;
use crate::record::manifest::RecordRef;
use crate::record::signature::{AllowedSigners, verify_record};
use crate::store::{Key, Prefix, Store, read_small};

/// Records and sealed keys are a few KiB; a larger object is not one.
const RECORD_LIMIT: u64 = 1 << 20;

/// Everything an opening needs.
#[derive(Debug, Clone, Copy)]
pub struct Opener<'a> {
    pub store: &'a dyn Store,
    pub layout: &'a Layout,
    pub identities: &'a Identities,
    pub allowed: &'a AllowedSigners,
}

/// A key that came out of escrow, and the record it came from.
#[derive(Debug, Clone)]
pub struct Opened {
    pub key: LocalKey,
    pub record: RecordRef,
}

impl Opener<'_> {
    /// Opens a record of `fingerprint` that verifies, opens, and holds the very
    /// key it names: the one that is `named` by a manifest, else the newest.
    ///
    /// Whoever can write to escrow can put thousands of records beside the good
    /// one. Where a manifest names it, none of them is looked at.
    ///
    /// # Errors
    /// `escrow.key-missing` when there is no record. When none opens, with the
    /// reason of each: `identity.not-a-recipient` when no believed record is
    /// sealed to our identities, `escrow.not-opened` otherwise. Those of the store.
    pub async fn open(&self, fingerprint: &Fingerprint, named: Option<&RecordRef>) -> Result<Opened, Failure> {
        let folder = self.layout.escrow_key(fingerprint);
        let prefix = Prefix::below(&parse(&folder)?);
        let mut reasons = Vec::new();
        let named: Option<Key> = named.filter(|named| named.key.starts_with(prefix.as_str())).and_then(|n| n.key.parse().ok());
        if let Some(record) = &named {
            match self.open_record(fingerprint, record).await {
                Ok(opened) => return Ok(opened),
                Err(failure) if says_nothing(&failure) => return Err(failure),
                // The list tells whether there are others.
                Err(failure) if failure.code() == &codes::STORE_NOT_FOUND => {}
                Err(failure) => reasons.push(failure),
            }
        }
        let listed = self.store.list(&prefix).await?;
        let mut records: Vec<_> = listed.into_iter().map(|l| l.key).filter(|k| k.as_str().ends_with(".json")).collect();
        if records.is_empty() {
            return Err(Failure::new(&codes::ESCROW_KEY_MISSING, fingerprint, "escrow has no record of this key"));
        }
        // Names begin with the UTC time of the deposit.
        records.sort_by(|a, b| b.cmp(a));
        for record in records.iter().filter(|record| Some(*record) != named.as_ref()) {
            match self.open_record(fingerprint, record).await {
                Ok(opened) => return Ok(opened),
                Err(failure) if says_nothing(&failure) => return Err(failure),
                Err(failure) => reasons.push(failure),
            }
        }
        let texts: Vec<_> = reasons.iter().map(Failure::to_string).collect();
        Err(Failure::new(code_of(&reasons), fingerprint, some_of(&texts)))
    }

    async fn open_record(&self, fingerprint: &Fingerprint, path: &Key) -> Result<Opened, Failure> {
        let bytes = read_small(self.store, path, RECORD_LIMIT).await?;
        let signature = read_small(self.store, &parse(&format!("{path}.sig"))?, RECORD_LIMIT).await.map_err(|error| {
            let absent = error.kind == crate::store::ErrorKind::NotFound;
            if absent { Failure::new(&codes::RECORD_UNSIGNED, path, "it has no signature") } else { error.into() }
        })?;
        let record: EscrowRecord = verify_record(path.as_str(), &bytes, &signature, self.allowed)?;
        let refuse = |cause: &str| Failure::new(&codes::ESCROW_NOT_OPENED, &record.path, cause);
        if record.fingerprint != *fingerprint {
            return Err(refuse("it names another key than its path"));
        }
        let sealed = read_small(self.store, &parse(&record.sealed.key)?, RECORD_LIMIT).await?;
        if Sha256::of(&sealed) != record.sealed.sha256 {
            return Err(Failure::new(&codes::STORE_ALTERED, &record.sealed.key, "its digest differs from the signed record"));
        }
        let document = self.identities.open(&sealed).map_err(|error| match error {
            OpenError::NoMatchingIdentity if !self.identities.are_among(&record.sealed_to) => {
                self.identities.not_a_recipient(&record.path, &record.sealed_to)
            }
            error => refuse(&error.to_string()),
        })?;
        let config = EncryptionConfig::parse(document.expose()).map_err(|_| refuse("it holds no key document"))?;
        let key = config.keys().into_iter().find(|key| key.fingerprint() == fingerprint).cloned();
        let key = key.ok_or_else(|| refuse("it holds another key than it names"))?;
        Ok(Opened { key, record: RecordRef { key: record.path, sha256: Sha256::of(&bytes) } })
    }
}

/// A store that does not let us look is no answer about what lies there.
fn says_nothing(failure: &Failure) -> bool {
    failure.is_transient() || [&codes::STORE_DENIED, &codes::STORE_CREDENTIAL, &codes::STORE_TLS].contains(&failure.code())
}

/// What to call it when no record opened. A record that is ours to open and
/// does not is a finding. Where there is none such, a believed record that
/// another identity may open leaves it open; one that is not believed says nothing.
fn code_of(reasons: &[Failure]) -> &'static Code {
    let any = |code| reasons.iter().any(|reason| reason.code() == code);
    let found = any(&codes::ESCROW_NOT_OPENED) || any(&codes::STORE_ALTERED);
    if !found && any(&codes::IDENTITY_NOT_A_RECIPIENT) { &codes::IDENTITY_NOT_A_RECIPIENT } else { &codes::ESCROW_NOT_OPENED }
}

/// The first reasons, which are those of the newest records. Whoever can write
/// to escrow can put thousands there, and none of them may fill a report.
fn some_of(reasons: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = reasons.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join("; ");
    match reasons.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown}; and {more} more records that do not open"),
    }
}

fn parse(path: &str) -> Result<Key, Failure> {
    path.parse().map_err(|error| Failure::because(&codes::RECORD_INVALID, path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_identity_that_no_believed_record_names_leaves_it_open() {
        let of = |codes: &[&'static Code]| {
            let reasons: Vec<_> = codes.iter().map(|code| Failure::new(code, "record", "cause")).collect();
            code_of(&reasons).name
        };
        let (ours, theirs) = (&codes::ESCROW_NOT_OPENED, &codes::IDENTITY_NOT_A_RECIPIENT);
        assert_eq!(of(&[theirs, theirs]), theirs.name);
        assert_eq!(of(&[&codes::RECORD_UNSIGNED, theirs]), theirs.name, "a planted record changes nothing");
        assert_eq!(of(&[theirs, ours]), ours.name);
        assert_eq!(of(&[theirs, &codes::STORE_ALTERED]), ours.name);
        assert_eq!(of(&[&codes::RECORD_UNSIGNED]), ours.name);
    }

    #[test]
    fn thousands_of_planted_records_do_not_fill_a_report() {
        let reasons: Vec<_> = (0..10_000).map(|n| format!("record {n}: no signature")).collect();
        let text = some_of(&reasons);
        assert!(
            text.len() < 300 && text.starts_with("record 0: ") && text.ends_with("9995 more records that do not open"),
            "{text}"
        );
        assert_eq!(some_of(&reasons[..2]), "record 0: no signature; record 1: no signature");
    }
}
