//! What an operator should know of a snapshot, worst first. Codes and
//! severities are a contract.
//!
//! Messages go into manifests, which a holder of the snapshot store can read:
//! they name kinds, counts and keys, never objects.

use std::collections::{BTreeMap, BTreeSet};

use super::census::Census;
use super::contents::{Broken, Contents};
use super::free_pages::FreePlaintext;
use super::inspection::{KeyEntry, Trailer};
use crate::base::units::count;
use crate::record::manifest::{Problem, Proof, ResourceCount, Severity};

/// Lists longer than this are cut in messages.
const MOST_NAMED: usize = 8;

#[derive(Debug, Default)]
pub(super) struct Problems(Vec<Problem>);

impl Problems {
    /// Worst first; of one severity in the order of discovery.
    pub fn into_sorted(self) -> Vec<Problem> {
        let mut problems = self.0;
        problems.sort_by_key(|problem| std::cmp::Reverse(problem.severity));
        problems
    }

    pub fn append(&mut self, found: Self) {
        self.0.extend(found.0);
    }

    fn add(&mut self, severity: Severity, code: &str, count: u64, message: impl Into<String>) {
        if count > 0 {
            self.0.push(Problem { code: code.to_owned(), severity, message: message.into(), count });
        }
    }

    pub fn of_trailer(&mut self, trailer: Trailer) {
        let (code, message) = match trailer {
            Trailer::Ok => return,
            Trailer::Missing => (
                "trailer-missing",
                "no SHA-256 digest at the end: a raw copy of a db file or a cut snapshot, whose wholeness nothing proves",
            ),
            Trailer::Mismatch => ("trailer-mismatch", "the bytes differ from the SHA-256 digest at their end"),
        };
        self.add(Severity::Error, code, 1, message);
    }

    pub fn of_broken(&mut self, broken: &Broken) {
        self.add(Severity::Error, "structure-broken", 1, broken.to_string());
    }

    pub fn of_contents(&mut self, contents: &Contents<'_>) {
        if let Some(meta) = contents.verified().database().damaged_meta() {
            let message = format!("meta page {meta} is damaged; what the other one names was read, which may be older");
            self.add(Severity::Warning, "meta-damaged", 1, message);
        }
        let state = contents.state();
        let alarms = |kind: &str| state.alarms.iter().filter(|alarm| alarm.kind == kind).count() as u64;
        let corrupt = "a CORRUPT alarm is raised: the data of some member differs from the others";
        self.add(Severity::Error, "alarm-corrupt", alarms("CORRUPT"), corrupt);
        let no_space = "a NOSPACE alarm is raised: a restored cluster refuses writes until it is disarmed";
        self.add(Severity::Warning, "alarm-nospace", alarms("NOSPACE"), no_space);
        let auth = "etcd users and passwords are on: a restored cluster asks for them";
        self.add(Severity::Warning, "auth-enabled", u64::from(state.is_auth_enabled), auth);
    }

    pub fn of_free_pages(&mut self, free: &FreePlaintext) {
        let secrets = if free.secrets > 0 { format!(", {} among them", count(free.secrets, "Secret")) } else { String::new() };
        let objects = count(free.objects, "object");
        let message = format!("free pages still hold {objects} in the clear{secrets}; defragment etcd to drop old pages");
        self.add(Severity::Info, "free-page-plaintext", free.objects, message);
    }

    pub fn of_census(&mut self, census: &Census<'_>, resources: &[ResourceCount], keys: &[KeyEntry]) {
        self.undecryptable(census, keys);
        let unknown: u64 = census.totals.unknown_bodies.values().sum();
        let message = format!(
            "{} neither encrypted nor a Kubernetes object, which an API server cannot read: {}",
            if unknown == 1 { "1 value is".to_owned() } else { format!("{unknown} values are") },
            listed(&census.totals.unknown_bodies)
        );
        self.add(Severity::Error, "unknown-body", unknown, message);
        self.plaintext(census, resources);
        self.of_configs(census);
    }

    fn undecryptable(&mut self, census: &Census<'_>, keys: &[KeyEntry]) {
        let totals = &census.totals;
        let encrypted: u64 = totals.undecryptable.values().sum();
        let mut parts = Vec::new();
        if encrypted > 0 {
            let is_lacking = |key: &&KeyEntry| match key.proof {
                Proof::Opened => false,
                Proof::NotTried => !census.ring.has_kms(&key.provider, &key.name),
                Proof::Failed | Proof::NoKey => true,
            };
            let lacking = keys.iter().filter(|key| key.live_objects > 0).filter(is_lacking);
            let needs: Vec<String> = lacking.map(describe_need).collect();
            parts.push(format!(
                "no given configuration reads {}: {}; {}",
                count(encrypted, "encrypted object"),
                listed(&totals.undecryptable),
                if needs.is_empty() { "keys given for other resources would".to_owned() } else { cut(needs) }
            ));
        }
        if totals.unreadable_plaintext > 0 {
            let objects = count(totals.unreadable_plaintext, "object");
            parts.push(format!("{objects} in the clear under a list without identity"));
        }
        self.add(Severity::Error, "undecryptable", encrypted + totals.unreadable_plaintext, parts.join("; "));
    }

    /// Objects in the clear that should not be: Secrets always, others when a
    /// configuration says that new writes of their kind are encrypted.
    fn plaintext(&mut self, census: &Census<'_>, resources: &[ResourceCount]) {
        let is_meant_encrypted = |row: &&ResourceCount| {
            let is_secret = row.group.is_empty() && row.resource == "secrets";
            let mut configs = census.judges.iter().map(|judge| &judge.named.config);
            row.plaintext > 0 && (is_secret || configs.any(|config| !config.writes_plaintext(&row.group, &row.resource)))
        };
        let found: Vec<&ResourceCount> = resources.iter().filter(is_meant_encrypted).collect();
        let total = found.iter().map(|row| row.plaintext).sum();
        let name = |row: &ResourceCount| match row.group.as_str() {
            "" => row.resource.clone(),
            group => format!("{}.{group}", row.resource),
        };
        let parts = found.iter().map(|row| format!("{} of {} {}", row.plaintext, row.live, name(row))).collect();
        self.add(Severity::Warning, "plaintext-secrets", total, format!("stored in the clear: {}", cut(parts)));
    }

    fn of_configs(&mut self, census: &Census<'_>) {
        let mut weak = BTreeSet::new();
        let mut materials: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
        for key in census.ring.keys() {
            if key.is_weak() {
                weak.insert(format!("{} {:?}", key.provider().as_str(), key.name()));
            }
            materials.entry((key.provider().as_str(), key.name())).or_default().insert(key.fingerprint().as_str());
        }
        let message = format!("the key is text and can be guessed: {}", cut(weak.iter().cloned().collect()));
        self.add(Severity::Warning, "weak-key", weak.len() as u64, message);

        let plain: Vec<String> = census
            .judges
            .iter()
            .map(|judge| (judge.writes_plaintext(), &judge.named.name))
            .filter(|(resources, _)| !resources.is_empty())
            .map(|(resources, name)| format!("{name}: {}", cut(resources)))
            .collect();
        let files = plain.len() as u64;
        self.add(Severity::Warning, "writes-plaintext", files, format!("new writes are in the clear in {}", cut(plain)));

        let reused = materials.iter().filter(|(_, materials)| materials.len() > 1);
        let mut ambiguous: Vec<String> = reused
            .map(|((provider, name), materials)| format!("{provider} {name:?} names {} different keys", materials.len()))
            .collect();
        let cut_names = census.keys.ambiguous_names();
        ambiguous.extend(cut_names.map(|(provider, name)| format!("{provider} {name:?} may go on after its colon")));
        let names = ambiguous.len() as u64;
        self.add(Severity::Warning, "ambiguous-key-name", names, cut(ambiguous));

        let objects = count(census.totals.stale, "object");
        let message = format!("{objects} encrypted with a key that new writes no longer use; rewrite them before it is removed");
        self.add(Severity::Warning, "stale-key", census.totals.stale, message);
    }
}

/// `aescbc "key-2019": 1 object, no key of this name`.
fn describe_need(key: &KeyEntry) -> String {
    let why = match key.proof {
        Proof::NoKey => "no key of this name",
        Proof::Failed => "the key of this name does not open",
        Proof::NotTried => "no provider of this name",
        Proof::Opened => "opened",
    };
    format!("{} {:?}: {}, {why}", key.provider, key.name, count(key.live_objects, "object"))
}

fn listed(counts: &BTreeMap<String, u64>) -> String {
    cut(counts.iter().map(|(resource, count)| format!("{count} {resource}")).collect())
}

fn cut(mut parts: Vec<String>) -> String {
    let more = parts.len().saturating_sub(MOST_NAMED);
    parts.truncate(MOST_NAMED);
    let listed = parts.join(", ");
    if more == 0 { listed } else { format!("{listed} and {more} more") }
}
