//! What a check found, in an operator's terms.

use std::fmt::Display;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use super::codes::Code;
use crate::base::exit::Exit;
use crate::base::failure::Failure;

/// What is looked at. Findings are grouped by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Area {
    Config,
    Etcd,
    Stores,
    Keys,
    Ledger,
    Clocks,
    Tools,
}

/// How good or bad it is, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Something that holdfast promises does not hold.
    Error,
    /// No answer: it may be good or bad.
    Unknown,
    /// It holds today and will not, or holds less than it could.
    Warning,
    /// Worth knowing, and as somebody chose it.
    Note,
    Ok,
    /// This host does not do what is looked at.
    NotApplicable,
}

/// One line of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub area: Area,
    pub status: Status,
    /// Stable; none where all is well.
    pub code: Option<&'static str>,
    /// What it is about: a path, an endpoint, a store, a key.
    pub object: String,
    /// A sentence with the object as its subject.
    pub finding: String,
    /// None where there is nothing to do.
    pub next: Option<String>,
}

/// Where a check puts what it finds. What was found before a deadline stays.
#[derive(Debug)]
pub struct Findings {
    area: Area,
    found: Mutex<Vec<Finding>>,
}

impl Area {
    pub const ALL: [Self; 7] = [Self::Config, Self::Etcd, Self::Stores, Self::Keys, Self::Ledger, Self::Clocks, Self::Tools];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::Etcd => "etcd",
            Self::Stores => "stores",
            Self::Keys => "keys",
            Self::Ledger => "ledger",
            Self::Clocks => "clocks",
            Self::Tools => "tools",
        }
    }
}

impl Status {
    pub const ALL: [Self; 6] = [Self::Error, Self::Unknown, Self::Warning, Self::Note, Self::Ok, Self::NotApplicable];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Unknown => "unknown",
            Self::Warning => "warning",
            Self::Note => "note",
            Self::Ok => "ok",
            Self::NotApplicable => "not-applicable",
        }
    }
}

impl Findings {
    #[must_use]
    pub fn of(area: Area) -> Self {
        Self { area, found: Mutex::default() }
    }

    /// All is well.
    pub fn good(&self, object: impl Display, finding: impl Display) {
        self.add(Status::Ok, None, &object, &finding, None);
    }

    /// This host does not do what would be looked at.
    pub fn not_applicable(&self, object: impl Display, finding: impl Display) {
        self.add(Status::NotApplicable, None, &object, &finding, None);
    }

    /// What a code of the table says, with its usual next action.
    pub fn found(&self, code: &'static Code, object: impl Display, finding: impl Display) {
        self.found_next(code, object, finding, code.next);
    }

    /// What a code of the table says, with a better next action.
    pub fn found_next(&self, code: &'static Code, object: impl Display, finding: impl Display, next: impl Display) {
        self.add(code.status, Some(code.name), &object, &finding, Some(next.to_string()).filter(|next| !next.is_empty()));
    }

    /// What every other command would fail with, too.
    pub fn failed(&self, failure: &Failure) {
        self.add(
            Status::Error,
            Some(failure.code().name),
            &failure.object(),
            &failure.cause(),
            Some(failure.next_action().into()),
        );
    }

    /// A failure that leaves the question open.
    pub fn unknown(&self, failure: &Failure) {
        self.add(
            Status::Unknown,
            Some(failure.code().name),
            &failure.object(),
            &failure.cause(),
            Some(failure.next_action().into()),
        );
    }

    /// All that was found so far.
    #[must_use]
    pub fn take(self) -> Vec<Finding> {
        self.found.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many of these are no good news.
    #[must_use]
    pub fn troubles(&self) -> usize {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.iter().filter(|finding| finding.status < Status::Ok).count()
    }

    fn add(&self, status: Status, code: Option<&'static str>, object: &dyn Display, finding: &dyn Display, next: Option<String>) {
        let finding = Finding { area: self.area, status, code, object: object.to_string(), finding: finding.to_string(), next };
        self.found.lock().unwrap_or_else(PoisonError::into_inner).push(finding);
    }
}

/// The exit code of an answer: nothing worse than a warning is good.
#[must_use]
pub fn exit(findings: &[Finding]) -> Exit {
    match findings.iter().map(|finding| finding.status).min() {
        Some(Status::Error) => Exit::Bad,
        Some(Status::Unknown) => Exit::CouldNotRun,
        _ => Exit::Good,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::codes;

    #[test]
    fn the_exit_code_is_that_of_the_worst_finding() {
        let finding =
            |status| Finding { area: Area::Etcd, status, code: None, object: String::new(), finding: String::new(), next: None };
        for (statuses, expected) in [
            (vec![], Exit::Good),
            (vec![Status::Ok, Status::NotApplicable, Status::Note, Status::Warning], Exit::Good),
            (vec![Status::Ok, Status::Unknown], Exit::CouldNotRun),
            (vec![Status::Unknown, Status::Error, Status::Ok], Exit::Bad),
        ] {
            assert_eq!(exit(&statuses.iter().copied().map(finding).collect::<Vec<_>>()), expected, "{statuses:?}");
        }
    }

    #[test]
    fn a_failure_keeps_its_code_and_next_action() {
        let findings = Findings::of(Area::Stores);
        let failure = Failure::new(&codes::STORE_DENIED, "fs /x", "list: denied").next("open the door");
        findings.failed(&failure);
        findings.unknown(&failure);
        let found = findings.take();
        assert_eq!(found.iter().map(|finding| finding.status).collect::<Vec<_>>(), [Status::Error, Status::Unknown]);
        assert!(
            found.iter().all(|finding| finding.code == Some("store.denied") && finding.next.as_deref() == Some("open the door"))
        );
    }
}
