//! The key versions that the bytes name: one entry per provider, name, KMS key
//! id and fingerprint.

use std::collections::{BTreeMap, BTreeSet};

use super::examine::{Class, Examined, KeyRing, Trial};
use super::inspection::KeyEntry;
use crate::k8s::kms_envelope::V2Envelope;
use crate::k8s::stored::LocalValue;
use crate::record::manifest::Proof;

#[derive(Debug, Default)]
pub(super) struct KeyTable {
    entries: BTreeMap<Id, Entry>,
    /// Names cut at a colon although another followed, by provider and name.
    guesses: BTreeMap<(&'static str, String), Guesses>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Id {
    provider: &'static str,
    name: String,
    kms_key_id: Option<String>,
    fingerprint: Option<String>,
}

#[derive(Debug, Default)]
struct Entry {
    live: u64,
    history: u64,
    resources: BTreeSet<String>,
    /// A key of this name was given and did not open some live object.
    has_failed: bool,
}

impl KeyTable {
    /// Counts one encrypted value.
    pub fn count(&mut self, object: &Examined<'_, '_>, ring: &KeyRing<'_>, is_live: bool) {
        let Some((id, has_failed)) = self.identify(object, ring) else { return };
        let entry = self.entries.entry(id).or_default();
        if is_live {
            entry.live += 1;
            entry.has_failed |= has_failed;
        } else {
            entry.history += 1;
        }
        let resource = object.resource_name();
        if !entry.resources.contains(&resource) {
            entry.resources.insert(resource);
        }
    }

    fn identify(&mut self, object: &Examined<'_, '_>, ring: &KeyRing<'_>) -> Option<(Id, bool)> {
        let id = |provider, name: &str, fingerprint| Id { provider, name: name.to_owned(), kms_key_id: None, fingerprint };
        Some(match &object.class {
            Class::Local(value, Trial::Opened(key, _)) => {
                (id(value.provider.as_str(), key.name(), Some(key.fingerprint().to_string())), false)
            }
            Class::Local(value, Trial::Failed(key, _)) => (id(value.provider.as_str(), key.name(), None), true),
            Class::Local(value, Trial::NoKey) => (id(value.provider.as_str(), &self.guess(value), None), false),
            Class::KmsV1(value) => {
                let name = ring.kms_v1_name(value);
                (id("kmsv1", &name, Some(format!("kms1:{name}"))), false)
            }
            Class::KmsV2(value) => {
                let key_id = value.envelope.as_ref().ok().map(|envelope: &V2Envelope<'_>| envelope.key_id.to_owned());
                let fingerprint = key_id.as_ref().map(|key_id| format!("kms:{}:{key_id}", value.name));
                let id = id("kmsv2", &value.name, fingerprint);
                (Id { kms_key_id: key_id, ..id }, value.envelope.is_err())
            }
            Class::Plain | Class::UnknownProvider | Class::UnknownBody => return None,
        })
    }

    fn guess(&mut self, value: &LocalValue<'_>) -> String {
        let Some(guess) = value.name_guess() else { return String::new() };
        let name = guess.name.into_owned();
        let guesses = self.guesses.entry((value.provider.as_str(), name.clone())).or_default();
        guesses.count(value.rest.get(name.len() + 1..).filter(|_| guess.is_ambiguous));
        name
    }

    /// Names that more likely go on after their first colon.
    pub fn ambiguous_names(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.guesses.iter().filter(|(_, guesses)| guesses.look_cut()).map(|((provider, name), _)| (*provider, name.as_str()))
    }

    pub fn entries(&self) -> Vec<KeyEntry> {
        self.entries.iter().map(|(id, entry)| entry.under(id)).collect()
    }
}

impl Entry {
    fn under(&self, id: &Id) -> KeyEntry {
        let is_kms = id.provider.starts_with("kms");
        let proof = match (is_kms, &id.fingerprint) {
            (true, Some(_)) => Proof::NotTried,
            (false, Some(_)) => Proof::Opened,
            (_, None) if self.has_failed => Proof::Failed,
            (_, None) => Proof::NoKey,
        };
        KeyEntry {
            provider: id.provider.to_owned(),
            name: id.name.clone(),
            kms_key_id: id.kms_key_id.clone(),
            fingerprint: id.fingerprint.clone(),
            material: None,
            live_objects: self.live,
            history_objects: self.history,
            resources: self.resources.iter().cloned().collect(),
            proof,
        }
    }
}

/// What followed a name's first colon, up to a second one. A body is random
/// bytes, so such a text appears by chance once in some 170 values, and hardly
/// ever the same one twice; behind a name with a colon it is always the same.
#[derive(Debug, Default)]
struct Guesses {
    values: u64,
    continuations: BTreeMap<Vec<u8>, u64>,
}

impl Guesses {
    /// Chance makes few different ones; more are not needed to decide.
    const MAX_CONTINUATIONS: usize = 1024;
    /// A printable text of this length before a colon is rarely chance.
    const TELLING_LENGTH: usize = 3;

    fn count(&mut self, after_colon: Option<&[u8]>) {
        self.values += 1;
        let Some(after) = after_colon else { return };
        let Some(end) = after.iter().position(|byte| *byte == b':') else { return };
        let continuation = &after[..end];
        if let Some(count) = self.continuations.get_mut(continuation) {
            *count += 1;
        } else if self.continuations.len() < Self::MAX_CONTINUATIONS {
            self.continuations.insert(continuation.to_vec(), 1);
        }
    }

    fn look_cut(&self) -> bool {
        let most = self.continuations.iter().max_by_key(|(_, count)| **count);
        most.is_some_and(|(text, count)| count * 2 >= self.values && (*count > 1 || text.len() >= Self::TELLING_LENGTH))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_looks_cut_only_when_most_values_go_on_alike() {
        let guesses = |continuations: &[&[u8]], others: usize| {
            let mut guesses = Guesses::default();
            continuations.iter().for_each(|text| guesses.count(Some(text)));
            (0..others).for_each(|_| guesses.count(None));
            guesses.look_cut()
        };
        assert!(guesses(&[b"2024:x", b"2024:y"], 0));
        assert!(guesses(&[b"2024:x"], 0), "a single value");
        assert!(!guesses(&[b"q:x"], 0), "too short to be more than chance");
        assert!(!guesses(&[b"2024:x"], 2), "one value of three");
        assert!(!guesses(&[], 3));
    }
}
