//! Names of objects, safe to join to a path.

use std::fmt;
use std::str::FromStr;

/// An object's name: segments of letters, digits, `.`, `_`, `-`, `@` and `+`,
/// joined by `/`; no segment starts with a dot, none is empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

/// The start of names: empty, or a key followed by `/`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prefix(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an object name: {0:?}")]
pub struct BadKey(String);

/// Longest name that every store takes (S3 allows 1,024 bytes).
const MAX_BYTES: usize = 900;

impl FromStr for Key {
    type Err = BadKey;

    fn from_str(text: &str) -> Result<Self, BadKey> {
        let segment = |s: &str| {
            !s.is_empty() && !s.starts_with('.') && s.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-@+".contains(&b))
        };
        if text.len() <= MAX_BYTES && text.split('/').all(segment) {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadKey(text.to_owned()))
        }
    }
}

impl Key {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name with `suffix` at its end: `manifest.json` and `.sig`.
    pub fn with_suffix(&self, suffix: &str) -> Result<Self, BadKey> {
        format!("{}{suffix}", self.0).parse()
    }
}

impl Prefix {
    /// Everything below `key`.
    #[must_use]
    pub fn below(key: &Key) -> Self {
        Self(format!("{key}/"))
    }

    /// The whole store.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A name below this prefix.
    pub fn key(&self, rest: &str) -> Result<Key, BadKey> {
        format!("{}{rest}", self.0).parse()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
