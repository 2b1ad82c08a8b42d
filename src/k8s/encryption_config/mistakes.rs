//! What is wrong with a file, all of it at once, without any key material.

use std::fmt;

/// One thing that the API server would refuse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigMistake {
    /// Such as `resources[0].providers[1].aescbc.keys[0].secret`; empty for the file as a whole.
    pub path: String,
    /// Where it starts in the file, counted from 1; 0 when unknown.
    pub line: u64,
    pub what: String,
}

/// Everything that the API server would refuse in a file, in the file's order. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigMistakes(pub(super) Vec<ConfigMistake>);

/// A file with more mistakes is another kind of file.
const MAX_MISTAKES: usize = 100;

impl ConfigMistake {
    pub(super) fn whole_file(what: impl Into<String>) -> Self {
        Self { path: String::new(), line: 0, what: what.into() }
    }
}

impl ConfigMistakes {
    #[must_use]
    pub fn all(&self) -> &[ConfigMistake] {
        &self.0
    }

    pub(super) fn none_yet() -> Self {
        Self(Vec::new())
    }

    pub(super) fn add(&mut self, line: u64, path: impl Into<String>, what: impl Into<String>) {
        if self.0.len() < MAX_MISTAKES {
            self.0.push(ConfigMistake { path: path.into(), line, what: what.into() });
        }
    }

    /// In the file's order, in whichever they were found. What is about the file as a whole comes first.
    pub(super) fn by_line(mut self) -> Self {
        self.0.sort_by_key(|mistake| mistake.line);
        self
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for ConfigMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.what)
    }
}

impl fmt::Display for ConfigMistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, mistake) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("; ")?;
            }
            mistake.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigMistakes {}
