//! This very program in a process of its own, which outlives the command that
//! starts it: the one child that is meant to.
//!
//! It begins tied to its starter by two pipes: what it prints comes back, and
//! the end of what it reads tells it that the starter is gone. What it logs
//! goes to memory that the starter holds, too: after its start nobody's
//! terminal is written to.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};

use rustix::fs::MemfdFlags;
use rustix::process::{getppid, setsid};
use tokio::process::{Child, ChildStdin, ChildStdout};

use crate::base::codes;
use crate::base::failure::Failure;

/// Names the starter, so that a variable that was merely inherited means nothing.
const VARIABLE: &str = "HOLDFAST_STARTED_BY";
/// The end of a log is what tells.
const LOG_LIMIT: u64 = 64 << 10;

/// The process, as long as its starter looks.
#[derive(Debug)]
pub struct Detached {
    child: Child,
    /// Closing it tells the process that nobody waits for it.
    pub input: Option<ChildStdin>,
    pub output: Option<ChildStdout>,
    log: File,
}

impl Detached {
    /// Starts this program with `arguments`.
    ///
    /// # Errors
    /// `sandbox.failed`; no process is left.
    #[allow(clippy::disallowed_methods)] // this module is where processes come from
    pub fn start(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, Failure> {
        let failed = |e: io::Error| Failure::because(&codes::SANDBOX_FAILED, "supervisor", &e);
        let log = rustix::fs::memfd_create("holdfast-log", MemfdFlags::CLOEXEC).map_err(|e| failed(e.into()))?;
        let log = File::from(log);
        let mut command = tokio::process::Command::new(own_program().map_err(failed)?);
        command.args(arguments).env(VARIABLE, std::process::id().to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log.try_clone().map_err(failed)?);
        let mut child = command.spawn().map_err(failed)?;
        Ok(Self { input: child.stdin.take(), output: child.stdout.take(), child, log })
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// `sandbox.failed` when the kernel does not tell.
    pub async fn wait(&mut self) -> Result<ExitStatus, Failure> {
        self.child.wait().await.map_err(|e| Failure::because(&codes::SANDBOX_FAILED, "supervisor", &e))
    }

    /// The end of what it logged.
    #[must_use]
    pub fn log(&mut self) -> String {
        let mut bytes = Vec::new();
        let length = self.log.metadata().map_or(0, |metadata| metadata.len());
        let read = self.log.seek(SeekFrom::Start(length.saturating_sub(LOG_LIMIT)));
        // A log that cannot be read is as good as an empty one.
        let _ = read.and_then(|_| (&mut self.log).take(LOG_LIMIT).read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// The file of this program, also where an upgrade has replaced it since.
fn own_program() -> io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    Ok(if path.exists() { path } else { PathBuf::from("/proc/self/exe") })
}

/// Was this process started by [`Detached::start`]?
#[must_use]
pub fn is_detached() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|starter| is_parent(&starter))
}

fn is_parent(starter: &OsStr) -> bool {
    let parent = getppid().map(|pid| pid.as_raw_nonzero().get().to_string());
    parent.is_some_and(|parent| starter == OsStr::new(&parent))
}

/// Leaves the terminal and its signals behind. A process that leads a session
/// already stays as it is.
pub fn leave_the_terminal() {
    let _ = setsid();
}
