//! Counts what lies in a store: resources, key versions, what is unreadable.

use std::collections::BTreeMap;

use super::examine::{Class, Examined, KeyRing};
use super::inspection::{OtherCount, Verdict};
use super::key_table::KeyTable;
use super::row::Row;
use super::verdict::{Judge, Outcome, decide};
use crate::k8s::encryption_config::NamedConfig;
use crate::k8s::resource::Located;
use crate::record::manifest::ResourceCount;

/// Other users of the etcd are named by their first path segment; a store whose
/// keys have no common segments is counted under one empty prefix beyond this.
const MAX_OTHER_PREFIXES: usize = 64;

/// The running counts over all rows.
#[derive(Debug)]
pub(super) struct Census<'c> {
    prefix: Option<String>,
    pub ring: KeyRing<'c>,
    pub judges: Vec<Judge<'c>>,
    resources: BTreeMap<String, BTreeMap<String, Counts>>,
    other: BTreeMap<String, u64>,
    pub keys: KeyTable,
    pub totals: Totals,
}

#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    live: u64,
    encrypted: u64,
    plaintext: u64,
}

/// Over all live objects that the API server reads.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub encrypted: u64,
    pub unknown_bodies: BTreeMap<String, u64>,
    /// Encrypted, and no given configuration reads it or leaves it to a KMS.
    pub undecryptable: BTreeMap<String, u64>,
    /// In the clear, under lists without `identity` in every given configuration.
    pub unreadable_plaintext: u64,
    /// Encrypted with a key that no given configuration writes with.
    pub stale: u64,
    /// Not read by any given configuration.
    unread: u64,
}

impl<'c> Census<'c> {
    pub fn new(prefix: Option<String>, configs: &'c [NamedConfig]) -> Self {
        Self {
            prefix,
            ring: KeyRing::of(configs),
            judges: configs.iter().map(Judge::new).collect(),
            resources: BTreeMap::new(),
            other: BTreeMap::new(),
            keys: KeyTable::default(),
            totals: Totals::default(),
        }
    }

    pub fn prefix(&self) -> Option<&str> {
        self.prefix.as_deref()
    }

    /// Counts one row. What is not live is not needed: of it only the keys count.
    pub fn count(&mut self, row: &Row<'_>, is_live: bool) {
        if row.is_tombstone || row.key.is_empty() {
            return;
        }
        let examined = self.ring.examine(self.prefix.as_deref(), row);
        if let Some(object) = &examined {
            self.keys.count(object, &self.ring, is_live);
        }
        match examined.filter(|_| is_live) {
            Some(object) => self.count_live(&object, row),
            None if is_live => count_capped(&mut self.other, outside_prefix(row.key)),
            None => {}
        }
    }

    fn count_live(&mut self, object: &Examined<'_, '_>, row: &Row<'_>) {
        match object.located {
            Located::Resource(_) => {
                let counts = counts_of(&mut self.resources, &object.group, object.resource);
                counts.live += 1;
                counts.encrypted += u64::from(object.class.is_encrypted());
                counts.plaintext += u64::from(matches!(object.class, Class::Plain));
            }
            Located::Internal(internal) => {
                let prefix = self.prefix.as_deref().unwrap_or_default();
                count_capped(&mut self.other, format!("{prefix}/{}", internal.segment));
            }
            Located::Outside => {}
        }
        if object.stored_as().is_some() {
            self.judge(object, row);
        }
    }

    fn judge(&mut self, object: &Examined<'_, '_>, row: &Row<'_>) {
        let totals = &mut self.totals;
        let outcomes: Vec<Outcome> = self.judges.iter_mut().map(|judge| judge.judge(object, row.key, row.value)).collect();
        let is_read = outcomes.iter().any(|outcome| matches!(outcome, Outcome::Read { .. }));
        let is_given_up = !outcomes.is_empty() && outcomes.iter().all(|outcome| *outcome == Outcome::Unreadable);
        let is_stale = is_read && !outcomes.contains(&Outcome::Read { is_stale: false });
        totals.unread += u64::from(!is_read);
        match &object.class {
            Class::UnknownBody => *totals.unknown_bodies.entry(object.resource_name()).or_default() += 1,
            Class::Plain => totals.unreadable_plaintext += u64::from(is_given_up),
            _ => {
                totals.encrypted += 1;
                totals.stale += u64::from(is_stale);
                if is_given_up {
                    *totals.undecryptable.entry(object.resource_name()).or_default() += 1;
                }
            }
        }
    }

    pub fn verdict(&self) -> Verdict {
        decide(&self.judges, self.totals.encrypted, self.totals.unknown_bodies.values().sum())
    }

    /// Would all given configurations together read every live object?
    pub fn union_opens(&self) -> bool {
        if self.judges.is_empty() { self.verdict() == Verdict::Restorable } else { self.totals.unread == 0 }
    }

    pub fn resources(&self) -> Vec<ResourceCount> {
        let groups = self.resources.iter();
        let rows =
            groups.flat_map(|(group, resources)| resources.iter().map(move |(resource, counts)| (group, resource, counts)));
        rows.map(|(group, resource, counts)| ResourceCount {
            group: group.clone(),
            resource: resource.clone(),
            live: counts.live,
            encrypted: counts.encrypted,
            plaintext: counts.plaintext,
        })
        .collect()
    }

    pub fn other(&self) -> Vec<OtherCount> {
        self.other.iter().map(|(prefix, live)| OtherCount { prefix: prefix.clone(), live: *live }).collect()
    }
}

/// Looks up without allocating, which matters for millions of objects of few resources.
fn counts_of<'m>(resources: &'m mut BTreeMap<String, BTreeMap<String, Counts>>, group: &str, resource: &str) -> &'m mut Counts {
    if !resources.contains_key(group) {
        resources.insert(group.to_owned(), BTreeMap::new());
    }
    let of_group = resources.get_mut(group).expect("the group, because it was inserted above");
    if !of_group.contains_key(resource) {
        of_group.insert(resource.to_owned(), Counts::default());
    }
    of_group.get_mut(resource).expect("the resource, because it was inserted above")
}

fn count_capped(other: &mut BTreeMap<String, u64>, prefix: String) {
    let is_full = other.len() >= MAX_OTHER_PREFIXES && !other.contains_key(&prefix);
    *other.entry(if is_full { String::new() } else { prefix }).or_default() += 1;
}

/// A key outside the API server's prefix by its first segment: `/calico`, `compact_rev_key`.
fn outside_prefix(key: &[u8]) -> String {
    let start = usize::from(key.first() == Some(&b'/'));
    let end = key.iter().skip(start).position(|byte| *byte == b'/').map_or(key.len(), |at| at + start);
    String::from_utf8_lossy(&key[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_users_are_named_by_their_first_segment() {
        for (key, prefix) in
            [("compact_rev_key", "compact_rev_key"), ("/calico/v1/x", "/calico"), ("a/b/c", "a"), ("/", "/"), ("//x", "/")]
        {
            assert_eq!(outside_prefix(key.as_bytes()), prefix, "{key}");
        }
    }

    #[test]
    fn keys_without_common_segments_do_not_fill_the_answer() {
        let mut other = BTreeMap::new();
        (0..1000).for_each(|n| count_capped(&mut other, format!("key{n}")));
        assert_eq!((other.len(), other[""]), (MAX_OTHER_PREFIXES + 1, 1000 - MAX_OTHER_PREFIXES as u64));
    }
}
