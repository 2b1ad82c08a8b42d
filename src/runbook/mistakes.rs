//! Mistakes of a page, all at once, each with its line.

use std::fmt;

use crate::base::codes;
use crate::base::failure::Failure;

/// More than this many lines of mistakes help nobody.
const SHOWN: usize = 50;

/// What is wrong with a page. Never empty when it is an error.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mistakes(Vec<Mistake>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mistake {
    pub line: usize,
    pub message: String,
}

impl Mistakes {
    pub fn add(&mut self, line: usize, message: impl Into<String>) {
        self.0.push(Mistake { line, message: message.into() });
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In the order of lines.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.0.sort();
        self
    }

    #[must_use]
    pub fn all(&self) -> &[Mistake] {
        &self.0
    }

    /// `runbook.invalid` about the file `path`.
    #[must_use]
    pub fn into_failure(self, path: impl fmt::Display) -> Failure {
        Failure::new(&codes::RUNBOOK_INVALID, path, self)
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.0.iter().take(SHOWN).enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}line {}: {}", mistake.line, mistake.message)?;
        }
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

impl std::error::Error for Mistakes {}
