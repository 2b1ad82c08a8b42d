//! What the daemon remembers from one life to the next: a small file in the
//! state directory, with what was done last of each job.
//!
//! It is written whole or not at all. It is no truth that anything depends on:
//! a file that is gone or makes no sense means at worst that a job is done
//! once more.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::schedule::Past;
use crate::base::codes;
use crate::base::failure::Failure;
use crate::base::job::Job;

const FILE: &str = "daemon.json";

/// A hundred times what is ever written.
const LARGEST_FILE: u64 = 64 << 10;

/// What is known of every job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    #[serde(default)]
    pub jobs: BTreeMap<Job, JobState>,
}

/// What is known of one job: for the schedule, and for metrics after a restart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobState {
    #[serde(flatten)]
    pub past: Past,
    pub last_attempt: Option<Timestamp>,
    pub last_success: Option<Timestamp>,
    pub last_failure: Option<Timestamp>,
    pub last_duration_ms: Option<u64>,
    pub consecutive_failures: u64,
}

impl State {
    #[must_use]
    pub fn past(&self, job: Job) -> Past {
        self.jobs.get(&job).map_or_else(Past::default, |known| known.past)
    }

    /// Reads the file of a state directory. What makes no sense is told, and
    /// counts as if it were not there.
    #[must_use]
    pub fn read(folder: &Path) -> (Self, Option<Failure>) {
        let path = folder.join(FILE);
        let mut bytes = Vec::new();
        let read = open_file(&path).and_then(|file| file.take(LARGEST_FILE + 1).read_to_end(&mut bytes));
        let senseless = |cause: &dyn std::fmt::Display| {
            let failure = Failure::new(&codes::STATE_UNUSABLE, path.display(), cause);
            (Self::default(), Some(failure.next("nothing: the daemon begins anew, and does at worst a job once more")))
        };
        match read {
            Err(error) if error.kind() == io::ErrorKind::NotFound => (Self::default(), None),
            Err(error) => senseless(&error),
            Ok(_) if bytes.len() as u64 > LARGEST_FILE => senseless(&"larger than the daemon's state can be"),
            Ok(_) => serde_json::from_slice(&bytes).map_or_else(|error| senseless(&error), |state| (state, None)),
        }
    }

    /// Replaces the file of a state directory. Blocks its thread for a small
    /// write that is on the disk when it returns.
    ///
    /// # Errors
    /// `state.unusable`; the file is as it was.
    pub fn write(&self, folder: &Path) -> Result<(), Failure> {
        let path = folder.join(FILE);
        let failed = |error: io::Error| Failure::because(&codes::STATE_UNUSABLE, path.display(), &error);
        let text = serde_json::to_string_pretty(self).map_err(|error| failed(error.into()))?;
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        file.write_all(text.as_bytes()).and_then(|()| file.write_all(b"\n")).map_err(failed)?;
        file.as_file().sync_all().map_err(failed)?;
        file.persist(&path).map_err(|error| failed(error.error))?;
        // The new name is on the disk, too.
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)
    }
}

/// Opens a file, and nothing that somebody put in its place: the other end of a
/// pipe would be waited for.
fn open_file(path: &Path) -> io::Result<File> {
    let at_once = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = File::options().read(true).custom_flags(at_once).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a file")) }
}

impl JobState {
    #[must_use]
    pub fn last_duration(&self) -> Option<Duration> {
        self.last_duration_ms.map(Duration::from_millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::schedule::Failed;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn sample() -> State {
        let past = Past {
            settled: Some(at("2026-12-01T10:00:00Z")),
            failed: Some(Failed { slot: at("2026-12-01T11:00:00Z"), at: at("2026-12-01T11:00:07.5Z"), times: 2 }),
            since: Some(at("2026-11-01T00:00:00Z")),
        };
        let snapshot = JobState {
            past,
            last_attempt: Some(at("2026-12-01T11:00:00Z")),
            last_success: Some(at("2026-12-01T10:00:09Z")),
            last_failure: None,
            last_duration_ms: Some(7_500),
            consecutive_failures: 2,
        };
        State { jobs: [(Job::Snapshot, snapshot)].into() }
    }

    #[test]
    fn what_was_written_is_read_again_and_nothing_lies_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        sample().write(folder.path()).unwrap();
        sample().write(folder.path()).unwrap();
        let (state, told) = State::read(folder.path());
        assert!(state == sample() && told.is_none(), "{state:?} {told:?}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_pipe_in_the_place_of_the_file_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, folder.path().join(FILE), rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
        let (state, told) = State::read(folder.path());
        assert_eq!((state, told.unwrap().code().name), (State::default(), "state.unusable"));
    }

    #[test]
    fn no_file_is_no_mistake_and_nonsense_is_told_and_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let (state, told) = State::read(folder.path());
        assert!(state == State::default() && told.is_none(), "{state:?} {told:?}");
        let path = folder.path().join(FILE);
        let deep = "[".repeat(60_000);
        let long = " ".repeat(70_000);
        for text in ["", "{", "[7]", "7", r#"{"jobs":7}"#, r#"{"jobs":{"snapshot":{"settled":"soon"}}}"#, &deep, &long] {
            std::fs::write(&path, text).unwrap();
            let (state, told) = State::read(folder.path());
            assert_eq!(state, State::default(), "{text:.40}");
            assert_eq!(told.unwrap().code().name, "state.unusable");
        }
        std::fs::write(&path, b"\xff\xfe").unwrap();
        assert!(State::read(folder.path()).1.is_some());
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(State::read(folder.path()).1.is_some());
    }

    #[test]
    fn what_a_newer_version_adds_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let text = r#"{"later":1,"jobs":{"snapshot":{"settled":"2026-12-01T10:00:00Z","colour":"blue"}}}"#;
        std::fs::write(folder.path().join(FILE), text).unwrap();
        let (state, told) = State::read(folder.path());
        assert!(told.is_none(), "{told:?}");
        assert_eq!(state.past(Job::Snapshot).settled, Some(at("2026-12-01T10:00:00Z")));
    }

    #[test]
    fn a_file_that_cannot_be_replaced_stays_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let gone = folder.path().join("gone");
        assert_eq!(sample().write(&gone).unwrap_err().code().name, "state.unusable");
        // A directory in its place: as for a disk that is full, the rename never happens.
        std::fs::create_dir(folder.path().join(FILE)).unwrap();
        assert!(sample().write(folder.path()).is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary is left");
    }
}
