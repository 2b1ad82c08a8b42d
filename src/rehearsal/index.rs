//! What the snapshot holds, object by object, to compare an API server's
//! answers with. Names, revisions and digests; no value.

use std::collections::BTreeMap;

use crate::base::digest::{Hasher, Sha256};
use crate::base::secret::Secret;

/// Every live object of the snapshot that is a resource.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Index {
    /// By (group, plural name).
    pub resources: BTreeMap<(String, String), Resource>,
}

/// The objects of one resource, by (namespace, name).
pub type Resource = BTreeMap<(String, String), Entry>;

/// One object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The revision of its last write: what the API calls its resource version.
    pub revision: i64,
    pub encrypted: bool,
    /// Of a Secret's type and data, as trial decryption or the clear text gave it.
    pub secret: Option<Sha256>,
}

/// One object as the API server returned it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub namespace: String,
    pub name: String,
    pub resource_version: String,
    pub secret: Option<Sha256>,
}

/// How the API server's answer differs from the snapshot.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Difference {
    /// In the snapshot and not in the answer.
    pub missing: Vec<String>,
    /// In the answer and not in the snapshot.
    pub extra: Vec<String>,
    /// Of another revision.
    pub changed: Vec<String>,
    /// Secrets whose data differs from what the stored value decrypts to.
    pub other_data: Vec<String>,
    /// Encrypted objects that the answer holds.
    pub encrypted_read: u64,
}

/// Names shown of each kind of difference.
const SHOWN: usize = 10;

impl Index {
    pub fn add(&mut self, group: &str, resource: &str, namespace: &str, name: &str, entry: Entry) {
        let objects = self.resources.entry((group.to_owned(), resource.to_owned())).or_default();
        objects.insert((namespace.to_owned(), name.to_owned()), entry);
    }

    /// Is there a definition of this custom resource?
    #[must_use]
    pub fn defines(&self, group: &str, resource: &str) -> bool {
        let definitions = ("apiextensions.k8s.io".to_owned(), "customresourcedefinitions".to_owned());
        let name = (String::new(), format!("{resource}.{group}"));
        self.resources.get(&definitions).is_some_and(|known| known.contains_key(&name))
    }
}

/// Compares all objects of a resource with what the API server returned.
#[must_use]
pub fn compare(snapshot: &Resource, answer: &[Seen]) -> Difference {
    let mut difference = Difference::default();
    let mut left: BTreeMap<(&str, &str), &Entry> =
        snapshot.iter().map(|((namespace, name), entry)| ((namespace.as_str(), name.as_str()), entry)).collect();
    for seen in answer {
        let named = || path(&seen.namespace, &seen.name);
        let Some(entry) = left.remove(&(seen.namespace.as_str(), seen.name.as_str())) else {
            difference.extra.push(named());
            continue;
        };
        difference.encrypted_read += u64::from(entry.encrypted);
        if seen.resource_version != entry.revision.to_string() {
            difference.changed.push(named());
        }
        if entry.secret != seen.secret {
            difference.other_data.push(named());
        }
    }
    difference.missing = left.into_keys().map(|(namespace, name)| path(namespace, name)).collect();
    difference
}

impl Difference {
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.missing.is_empty() && self.extra.is_empty() && self.changed.is_empty() && self.other_data.is_empty()
    }

    /// One line that names the first objects of each kind.
    #[must_use]
    pub fn describe(&self) -> String {
        let kinds = [
            ("not returned", &self.missing),
            ("not in the snapshot", &self.extra),
            ("of another revision", &self.changed),
            ("with other data", &self.other_data),
        ];
        let parts: Vec<_> = kinds
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(what, names)| {
                let shown = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
                let more = names.len().saturating_sub(SHOWN);
                if more == 0 { format!("{what}: {shown}") } else { format!("{what}: {shown} and {more} more") }
            })
            .collect();
        parts.join("; ")
    }
}

/// The digest of a Secret: two are equal if and only if type, keys and values are.
#[must_use]
pub fn secret_digest(kind: &str, data: &BTreeMap<String, Secret<Vec<u8>>>) -> Sha256 {
    let mut hasher = Hasher::default();
    // Lengths keep ("ab", "c") and ("a", "bc") apart.
    let mut add = |part: &[u8]| {
        hasher.update(&(part.len() as u64).to_be_bytes());
        hasher.update(part);
    };
    // The API server fills this type in where none is stored.
    add(if kind.is_empty() { b"Opaque" } else { kind.as_bytes() });
    for (key, value) in data {
        add(key.as_bytes());
        add(value.expose());
    }
    hasher.finish()
}

fn path(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(revision: i64) -> Entry {
        Entry { revision, encrypted: true, secret: None }
    }

    fn seen(name: &str, resource_version: &str) -> Seen {
        Seen { namespace: "shop".into(), name: name.into(), resource_version: resource_version.into(), secret: None }
    }

    fn snapshot(names: &[&str]) -> Resource {
        names.iter().zip(1..).map(|(name, revision)| (("shop".to_owned(), (*name).to_owned()), entry(revision))).collect()
    }

    #[test]
    fn equal_answers_differ_in_nothing() {
        let difference = compare(&snapshot(&["a", "b"]), &[seen("b", "2"), seen("a", "1")]);
        assert!(difference.is_none(), "{}", difference.describe());
        assert_eq!(difference.encrypted_read, 2);
    }

    #[test]
    fn equal_counts_hide_nothing() {
        let difference = compare(&snapshot(&["a", "b"]), &[seen("a", "7"), seen("c", "2")]);
        assert_eq!(difference.describe(), "not returned: shop/b; not in the snapshot: shop/c; of another revision: shop/a");
    }

    #[test]
    fn a_secret_with_other_data_is_named_and_its_data_is_not() {
        let secret = |value: &str| {
            let data = BTreeMap::from([("password".to_owned(), Secret::new(value.as_bytes().to_vec()))]);
            Some(secret_digest("Opaque", &data))
        };
        let objects = Resource::from([(("shop".into(), "db".into()), Entry { secret: secret("hunter2"), ..entry(1) })]);
        let answer = |value| [Seen { secret: secret(value), ..seen("db", "1") }];
        assert!(compare(&objects, &answer("hunter2")).is_none());
        let difference = compare(&objects, &answer("hunter3"));
        assert_eq!(difference.describe(), "with other data: shop/db");
    }

    #[test]
    fn digests_of_secrets_keep_keys_and_values_apart() {
        let of = |pairs: &[(&str, &str)]| {
            let data = pairs.iter().map(|(key, value)| ((*key).to_owned(), Secret::new(value.as_bytes().to_vec())));
            secret_digest("Opaque", &data.collect())
        };
        assert_ne!(of(&[("ab", "c")]), of(&[("a", "bc")]));
        assert_ne!(of(&[("a", "")]), of(&[]));
        assert_ne!(secret_digest("kubernetes.io/tls", &BTreeMap::new()), of(&[]));
        assert_eq!(secret_digest("", &BTreeMap::new()), of(&[]), "the API server fills Opaque in");
        assert_eq!(of(&[("a", "1"), ("b", "2")]), of(&[("b", "2"), ("a", "1")]));
    }

    #[test]
    fn long_lists_of_names_are_cut() {
        let names: Vec<String> = (0..13).map(|n| format!("n{n:02}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let text = compare(&snapshot(&names), &[]).describe();
        assert!(text.ends_with("shop/n09 and 3 more"), "{text}");
    }

    #[test]
    fn a_definition_is_known_by_its_name() {
        let mut index = Index::default();
        index.add("apiextensions.k8s.io", "customresourcedefinitions", "", "widgets.example.com", entry(1));
        assert!(index.defines("example.com", "widgets"));
        assert!(!index.defines("example.com", "gadgets"));
    }
}
