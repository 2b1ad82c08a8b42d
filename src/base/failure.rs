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

/// All texts of an error's chain, joined by colons, each part once: libraries
/// repeat the text of their source in their own.
#[must_use]
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    each_part_once(&text)
}

/// `a: b: a: c` as `a: b: c`.
#[must_use]
pub fn each_part_once(text: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in text.split(": ") {
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    parts.join(": ")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_libraries_repeat_is_said_once() {
        let text = "tcp connect error: transport error: tcp connect error: Connection refused (os error 111)";
        assert_eq!(each_part_once(text), "tcp connect error: transport error: Connection refused (os error 111)");
        assert_eq!(each_part_once("one cause"), "one cause");
    }
}
