//! Identifiers, each a type of its own, checked where they enter.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::entropy::Entropy;

/// Why a text is not an identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} must be {form}")]
pub struct BadId {
    what: &'static str,
    form: &'static str,
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $form:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = BadId;
            fn from_str(text: &str) -> Result<Self, BadId> {
                let check: fn(&str) -> bool = $check;
                if check(text) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(BadId { what: $what, form: $form })
                }
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadId;
            fn try_from(text: String) -> Result<Self, BadId> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id!(
    /// A snapshot: UTC start and eight random hex digits.
    SnapshotId, "a snapshot id", "YYYYMMDDThhmmssZ-xxxxxxxx (UTC start, eight hex digits)", is_stamped
);
id!(
    /// A run of a rehearsal: the same form as a snapshot id.
    RunId, "a run id", "YYYYMMDDThhmmssZ-xxxxxxxx (UTC start, eight hex digits)", is_stamped
);
id!(
    /// An etcd cluster id: a restored cluster has a new one, so it names a history.
    Lineage, "a lineage", "16 lower-case hex digits", |t| is_hex(t, 16)
);
id!(
    /// The operator's name for a cluster.
    ClusterName, "a cluster name", "1 to 63 of a-z, 0-9 and '-', starting and ending with a letter or digit", is_label
);
id!(
    /// The name under which a host or person signs.
    Principal, "a signer's name", "1 to 253 of letters, digits, '.', '_', '@' and '-'", is_principal
);
id!(
    /// Identity of key material that we hold: `hf1-` and 32 hex digits.
    Fingerprint, "a fingerprint", "hf1- and 32 lower-case hex digits", |t| {
        t.strip_prefix("hf1-").is_some_and(|hex| is_hex(hex, 32))
    }
);

fn stamped(at: Timestamp, entropy: &dyn Entropy) -> String {
    format!("{}-{}", compact(at), entropy.hex(8))
}

impl SnapshotId {
    #[must_use]
    pub fn new(at: Timestamp, entropy: &dyn Entropy) -> Self {
        Self(stamped(at, entropy))
    }
}

impl RunId {
    #[must_use]
    pub fn new(at: Timestamp, entropy: &dyn Entropy) -> Self {
        Self(stamped(at, entropy))
    }
}

impl Lineage {
    /// etcd prints its ids without leading zeros; records always have 16 digits.
    #[must_use]
    pub fn of_cluster(cluster_id: u64) -> Self {
        Self(format!("{cluster_id:016x}"))
    }
}

impl Fingerprint {
    /// The first 32 hex digits of a digest of key material.
    #[must_use]
    pub fn of_digest(digest: &[u8; 32]) -> Self {
        Self(format!("hf1-{}", data_encoding::HEXLOWER.encode(&digest[..16])))
    }
}

/// UTC in the form that names use: `20261201T130000Z`.
#[must_use]
pub fn compact(at: Timestamp) -> String {
    at.strftime("%Y%m%dT%H%M%SZ").to_string()
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_stamped(text: &str) -> bool {
    let Some((stamp, tail)) = text.split_once('-') else { return false };
    let shape = stamp.len() == 16
        && stamp.bytes().enumerate().all(|(i, b)| match i {
            8 => b == b'T',
            15 => b == b'Z',
            _ => b.is_ascii_digit(),
        });
    shape && is_hex(tail, 8)
}

fn is_label(text: &str) -> bool {
    let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    (1..=63).contains(&bytes.len())
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

fn is_principal(text: &str) -> bool {
    (1..=253).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._@-".contains(&b))
        && !text.starts_with('-')
        && !text.contains("..")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::entropy::SeededEntropy;

    #[test]
    fn a_new_id_parses_and_names_its_time() {
        let id = SnapshotId::new("2026-12-01T13:05:09Z".parse().unwrap(), &SeededEntropy::new(7));
        assert!(id.as_str().starts_with("20261201T130509Z-"), "{id}");
        assert_eq!(id.as_str().parse::<SnapshotId>().unwrap(), id);
    }

    #[test]
    fn ids_that_could_walk_a_path_are_refused() {
        for text in ["", "..", "../x", "20261201T130509Z-0123456", "20261201T130509Z-0123456G", "20261201T130509Z-0123456/"] {
            assert!(text.parse::<SnapshotId>().is_err(), "{text:?}");
        }
        for text in ["", "..", "-x", "a/b", "a..b", "a\nb"] {
            assert!(text.parse::<Principal>().is_err(), "{text:?}");
        }
        for text in ["", "Prod", "prod-", "-prod", "a/b", "a.b"] {
            assert!(text.parse::<ClusterName>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_lineage_keeps_leading_zeros() {
        assert_eq!(Lineage::of_cluster(0x2089_a010_6116_e0fd).as_str(), "2089a0106116e0fd");
        assert_eq!(Lineage::of_cluster(1).as_str(), "0000000000000001");
    }
}
