//! The one error an operator sees: a stable code, the object, the cause, one
//! next action and the exit code.
//!
//! Modules below may have error types of their own; they become a [`Failure`]
//! where the code and the next action are known. A cause never repeats the
//! object and never holds a secret.

use std::error::Error;
use std::fmt;

use super::codes::Code;
use super::exit::Exit;

/// Why something could not be done, in an operator's terms.
#[derive(Clone)]
pub struct Failure {
    code: &'static Code,
    object: String,
    cause: String,
    next: Option<String>,
}

impl Failure {
    /// A failure of `code` about `object` (a path, key, endpoint or id).
    pub fn new(code: &'static Code, object: impl fmt::Display, cause: impl fmt::Display) -> Self {
        Self { code, object: object.to_string(), cause: cause.to_string(), next: None }
    }

    /// The cause is the whole chain of `error`, each text once.
    pub fn because(code: &'static Code, object: impl fmt::Display, error: &(dyn Error + 'static)) -> Self {
        Self::new(code, object, chain(error))
    }

    /// Replaces the code's usual next action by a better one.
    #[must_use]
    pub fn next(mut self, action: impl Into<String>) -> Self {
        self.next = Some(action.into());
        self
    }

    #[must_use]
    pub fn code(&self) -> &'static Code {
        self.code
    }

    #[must_use]
    pub fn object(&self) -> &str {
        &self.object
    }

    #[must_use]
    pub fn cause(&self) -> &str {
        &self.cause
    }

    #[must_use]
    pub fn next_action(&self) -> &str {
        self.next.as_deref().unwrap_or(self.code.next)
    }

    #[must_use]
    pub fn exit(&self) -> Exit {
        self.code.exit
    }

    /// May the same call succeed later without anyone changing anything?
    #[must_use]
    pub fn is_transient(&self) -> bool {
        self.code.transient
    }
}

/// All texts of an error's chain, each once, joined by colons.
#[must_use]
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let part = error.to_string();
        if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        source = error.source();
    }
    text
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} [{}]", self.object, self.cause, self.code.name)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}; next: {}", self.next_action())
    }
}

impl Error for Failure {}
