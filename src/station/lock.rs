//! Locks that name their holder: one daemon for a state directory, one piece of
//! work of a kind at a time, whoever asked for it.
//!
//! The kernel releases a lock when its process ends, in whatever way. The file
//! stays, and says nothing once nobody holds it.

use std::fs::{DirBuilder, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::base::codes::{self, Code};
use crate::base::failure::Failure;
use crate::base::job::Job;
use crate::base::units::human_duration;

/// How often a lock that another process holds is tried.
const PAUSE: Duration = Duration::from_millis(200);

/// A process id has fewer digits; whatever else stands there is no holder's name.
const LONGEST_PID: u64 = 20;

/// Of the one daemon of a state directory.
pub const DAEMON: &str = "daemon.lock";

/// A lock, held until dropped.
#[derive(Debug)]
pub struct NamedLock {
    _file: File,
}

/// Another process, as far as the file names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    pub pid: Option<u32>,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "process {pid}"),
            None => f.write_str("another process"),
        }
    }
}

impl NamedLock {
    /// Takes the lock on `path`, or says who has it. A state directory that is
    /// not there yet is made, for its owner alone.
    ///
    /// # Errors
    /// `state.unusable` where the file cannot be made or locked.
    pub fn attempt(path: &Path) -> Result<Result<Self, Holder>, Failure> {
        let unusable = |e: io::Error| Failure::because(&codes::STATE_UNUSABLE, path.display(), &e);
        if let Some(state) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(state).map_err(unusable)?;
        }
        let mut file = File::options().create(true).truncate(false).read(true).write(true).open(path).map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => {
                file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(unusable)?;
                Ok(Ok(Self { _file: file }))
            }
            Err(TryLockError::WouldBlock) => Ok(Err(holder(&mut file))),
            Err(TryLockError::Error(e)) => Err(unusable(e)),
        }
    }

    /// As [`NamedLock::attempt`], for a lock that is refused at once with `code`.
    ///
    /// # Errors
    /// `code`, naming the holder; `state.unusable`.
    pub fn now_or(path: &Path, code: &'static Code) -> Result<Self, Failure> {
        Self::attempt(path)?.map_err(|holder| Failure::new(code, path.display(), format!("{holder} holds the lock on it")))
    }
}

/// How long somebody waits for work of the same kind to end.
pub struct Patience<'a> {
    pub limit: Duration,
    /// Told once, when there is something to wait for.
    pub tell: &'a (dyn Fn(Holder) + Send + Sync),
}

impl std::fmt::Debug for Patience<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Patience").field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// Waits until no other process of this state directory does this kind of work.
///
/// # Errors
/// `work.running`, naming who does it, when it takes longer than `patience`; `state.unusable`.
pub async fn of_job(state: &Path, job: Job, patience: &Patience<'_>) -> Result<NamedLock, Failure> {
    let path: PathBuf = state.join(format!("{job}.lock"));
    let mut told = false;
    let waiting = async {
        loop {
            match NamedLock::attempt(&path)? {
                Ok(lock) => return Ok(lock),
                Err(holder) if !told => {
                    told = true;
                    (patience.tell)(holder);
                }
                Err(_) => {}
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    match tokio::time::timeout(patience.limit, waiting).await {
        Ok(taken) => taken,
        Err(_) => match NamedLock::attempt(&path)? {
            Ok(lock) => Ok(lock),
            Err(holder) => {
                let cause = format!("{holder} does it, and did not end within {}", human_duration(patience.limit));
                Err(Failure::new(&codes::WORK_RUNNING, format!("{job} on this host"), cause))
            }
        },
    }
}

/// Whatever the file says: it is only a hint.
fn holder(file: &mut File) -> Holder {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.take(LONGEST_PID).read_to_string(&mut text));
    Holder { pid: read.ok().and_then(|_| text.trim().parse().ok()) }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_lock_names_its_holder_and_ends_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daemon.lock");
        let first = NamedLock::now_or(&path, &codes::DAEMON_RUNNING).unwrap();
        let refused = NamedLock::now_or(&path, &codes::DAEMON_RUNNING).unwrap_err();
        let own = std::process::id();
        assert_eq!((refused.code().name, refused.cause()), ("daemon.running", &*format!("process {own} holds the lock on it")));
        drop(first);
        NamedLock::now_or(&path, &codes::DAEMON_RUNNING).unwrap();
    }

    #[test]
    fn what_a_lock_file_holds_does_not_matter() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daemon.lock");
        for content in [&b""[..], b"-1\n", b"nobody", b"\xff\xfe", &[b'9'; 4096]] {
            std::fs::write(&path, content).unwrap();
            let held = NamedLock::attempt(&path).unwrap().unwrap();
            std::fs::write(&path, content).unwrap();
            assert_eq!(NamedLock::attempt(&path).unwrap().unwrap_err(), Holder { pid: None });
            drop(held);
        }
        std::fs::write(folder.path().join("file"), "").unwrap();
        let nowhere = folder.path().join("file/daemon.lock");
        assert_eq!(NamedLock::attempt(&nowhere).unwrap_err().code().name, "state.unusable");
    }

    #[test]
    fn the_first_lock_of_a_host_makes_its_state_directory_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("var/holdfast");
        let _held = NamedLock::attempt(&state.join("snapshot.lock")).unwrap().unwrap();
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&state).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o700);
    }

    #[tokio::test(start_paused = true)]
    async fn work_of_one_kind_waits_and_then_says_who_does_it() {
        let folder = tempfile::tempdir().unwrap();
        let told = AtomicUsize::new(0);
        let tell = |_| {
            told.fetch_add(1, Ordering::SeqCst);
        };
        let patience = Patience { limit: Duration::from_secs(60), tell: &tell };
        let first = of_job(folder.path(), Job::Snapshot, &patience).await.unwrap();
        // Another kind is free.
        drop(of_job(folder.path(), Job::Rehearsal, &patience).await.unwrap());
        let refused = of_job(folder.path(), Job::Snapshot, &patience).await.unwrap_err();
        assert_eq!((refused.code().name, refused.object()), ("work.running", "snapshot on this host"));
        assert!(refused.cause().contains(&std::process::id().to_string()), "{refused}");
        assert_eq!(told.load(Ordering::SeqCst), 1);
        let waiting = of_job(folder.path(), Job::Snapshot, &patience);
        let freeing = async { drop(first) };
        let (second, ()) = tokio::join!(waiting, freeing);
        second.unwrap();
    }
}
