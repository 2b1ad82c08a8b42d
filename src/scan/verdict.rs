//! Would an API server read every live object?
//!
//! Each given configuration is judged by itself, as the API server that has
//! exactly this file would read: per resource, providers and keys in order.

use super::examine::{Class, Examined, Trial};
use super::inspection::Verdict;
use crate::k8s::encryption_config::{NamedConfig, Provider};
use crate::k8s::object_fits;
use crate::k8s::reading::{Reading, read};

/// What an API server makes of one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Read {
        /// Not what the first provider's first key would write.
        is_stale: bool,
    },
    Unreadable,
    /// A KMS whose key we do not hold would have to answer.
    Untried,
}

/// One configuration and how it fared.
#[derive(Debug)]
pub(super) struct Judge<'c> {
    pub named: &'c NamedConfig,
    pub unreadable: u64,
    pub untried: u64,
}

impl<'c> Judge<'c> {
    pub fn new(named: &'c NamedConfig) -> Self {
        Self { named, unreadable: 0, untried: 0 }
    }

    /// Counts one live object.
    pub fn judge(&mut self, object: &Examined<'_, '_>, etcd_key: &[u8], value: &[u8]) -> Outcome {
        let outcome = self.outcome(object, etcd_key, value);
        match outcome {
            Outcome::Read { .. } => {}
            Outcome::Unreadable => self.unreadable += 1,
            Outcome::Untried => self.untried += 1,
        }
        outcome
    }

    fn outcome(&self, object: &Examined<'_, '_>, etcd_key: &[u8], value: &[u8]) -> Outcome {
        let Some((group, resource)) = object.stored_as() else { return Outcome::Read { is_stale: false } };
        match &object.class {
            Class::UnknownBody | Class::UnknownProvider | Class::Local(_, Trial::Failed(..) | Trial::NoKey) => {
                return Outcome::Unreadable;
            }
            Class::KmsV2(value) if value.envelope.is_err() => return Outcome::Unreadable,
            Class::Local(..) => {
                if let Some(is_stale) = self.read_without_trial(object, group, resource) {
                    return Outcome::Read { is_stale };
                }
            }
            Class::Plain | Class::KmsV1(_) | Class::KmsV2(_) => {}
        }
        match read(&self.named.config, group, resource, value, etcd_key) {
            Reading::Plain { is_stale } => Outcome::Read { is_stale },
            Reading::Opened { plaintext, is_stale, .. } if object_fits(&plaintext, &object.located) => Outcome::Read { is_stale },
            Reading::Opened { .. } | Reading::Failed(_) => Outcome::Unreadable,
            Reading::NotTried { provider } => match &object.class {
                Class::KmsV1(value) if !matches!(value.envelope_under(&provider.name), Some(Ok(_))) => Outcome::Unreadable,
                _ => Outcome::Untried,
            },
        }
    }

    /// The key that opened the value is known: when it is the first of this
    /// name that the API server would try, nothing need be decrypted again.
    fn read_without_trial(&self, object: &Examined<'_, '_>, group: &str, resource: &str) -> Option<bool> {
        let Class::Local(value, Trial::Opened(opener, _)) = &object.class else { return None };
        let providers = self.named.config.providers_for(group, resource);
        let tried = providers
            .iter()
            .enumerate()
            .flat_map(|(at, provider)| provider.keys().iter().enumerate().map(move |(nth, key)| (at == 0 && nth == 0, key)));
        let mut fitting = tried.filter(|(_, key)| key.provider() == value.provider && value.body_under(key.name()).is_some());
        let (is_writer, key) = fitting.next()?;
        (key.fingerprint() == opener.fingerprint()).then_some(!is_writer)
    }

    fn verdict(&self) -> Verdict {
        match (self.unreadable, self.untried) {
            (0, 0) => Verdict::Restorable,
            (0, _) => Verdict::Unknown,
            _ => Verdict::Unrestorable,
        }
    }

    /// Does this file write some resource in the clear though it knows how to
    /// encrypt it, or Secrets at all? Names the resources.
    pub fn writes_plaintext(&self) -> Vec<String> {
        let config = &self.named.config;
        let first_is_identity = |providers: &[Provider]| matches!(providers, [Provider::Identity, _, ..]);
        let rules = config.rules.iter().filter(|rule| first_is_identity(&rule.providers));
        let mut names: Vec<String> = rules.flat_map(|rule| rule.resources.iter().cloned()).collect();
        let secrets = "secrets".to_owned();
        if config.writes_plaintext("", "secrets") && !names.contains(&secrets) {
            names.push(secrets);
        }
        names
    }
}

/// The verdict over all configurations: the best of them. Without any, only
/// what needs none can be judged; what no configuration could read is judged.
pub(super) fn decide(judges: &[Judge<'_>], encrypted: u64, unknown_bodies: u64) -> Verdict {
    if judges.is_empty() {
        return match (unknown_bodies, encrypted) {
            (0, 0) => Verdict::Restorable,
            (0, _) => Verdict::Unknown,
            _ => Verdict::Unrestorable,
        };
    }
    let rank = |verdict: &Verdict| match verdict {
        Verdict::Restorable => 2,
        Verdict::Unknown => 1,
        Verdict::Unrestorable => 0,
    };
    judges.iter().map(Judge::verdict).max_by_key(rank).unwrap_or(Verdict::Unrestorable)
}
