//! Child processes: started inside the fence, logged to a file, ended by us or
//! by the kernel, whichever comes first.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::sync::watch;

use super::cgroup::{Entry, Groups};
use super::identity::ProcessIdentity;
use super::scratch::{self, Scratch};
use super::spawner::{Spawner, bound_to_parent};
use crate::base::codes;
use crate::base::failure::Failure;
use crate::base::units::human_duration;

/// Lines of a log that a failure shows: a screen, not a flood.
pub const TAIL_LINES: usize = 12;
/// What of a log is read for its tail.
const TAIL_BYTES: u64 = 64 << 10;
/// Longest line shown; some programs log stack traces in one.
const TAIL_LINE_BYTES: usize = 400;
/// Where util-linux lies; the programs themselves are started by their full path.
pub(super) const SYSTEM_PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
/// How long a process has after SIGTERM before it is killed.
pub const GRACE: Duration = Duration::from_secs(10);

/// A program to start. Its environment is empty but for a path, a home and a
/// temporary directory in the scratch directory: nothing of the operator's
/// environment changes what it does.
pub struct Command {
    /// Names the log; a second process of this name gets a log of its own.
    pub name: String,
    pub program: PathBuf,
    /// Never a secret: every user can read a process's arguments.
    pub arguments: Vec<OsString>,
    /// What it reads as its standard input; nothing if none.
    pub input: Option<OwnedFd>,
    /// Directories in which it looks for programs before those of the system.
    pub search: Vec<PathBuf>,
}

/// A running child. Dropping it kills it.
pub struct Process {
    name: String,
    pid: u32,
    /// Means this very child, whatever becomes of its pid.
    descriptor: OwnedFd,
    log: PathBuf,
    memory: Option<Memory>,
    ended: watch::Receiver<Option<Ended>>,
    waiter: Option<JoinHandle<()>>,
}

/// A limit of memory that a child has, with others.
struct Memory {
    groups: Groups,
    limit: String,
    /// How many had been ended for it when the child started.
    before: u64,
}

impl Memory {
    fn of(groups: &Groups) -> Option<Self> {
        let limit = groups.memory_limit()?;
        Some(Self { before: groups.ended_for_memory(), groups: groups.clone(), limit })
    }
}

/// How a child ended, or why the kernel does not tell.
type Ended = Result<ExitStatus, String>;

impl Command {
    pub fn new(name: impl Into<String>, program: impl Into<PathBuf>) -> Self {
        Self { name: name.into(), program: program.into(), arguments: Vec::new(), input: None, search: Vec::new() }
    }

    #[must_use]
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    #[must_use]
    pub fn input(mut self, input: OwnedFd) -> Self {
        self.input = Some(input);
        self
    }

    /// Puts directories before the system's own in the program's `PATH`.
    #[must_use]
    pub fn search(mut self, directories: impl IntoIterator<Item = PathBuf>) -> Self {
        self.search.extend(directories);
        self
    }
}

impl Process {
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Waits for its end. Cancelling the wait leaves it running.
    ///
    /// # Errors
    /// `sandbox.failed` when the kernel does not tell; it is killed when dropped.
    pub async fn wait(&self) -> Result<ExitStatus, Failure> {
        let mut watched = self.ended.clone();
        let ended = match watched.wait_for(Option::is_some).await {
            Ok(ended) => ended.clone(),
            Err(_) => None,
        };
        ended.unwrap_or_else(|| Err("its end was not seen".to_owned())).map_err(|cause| self.lost(&cause))
    }

    /// Waits for `ready`, which looks at the process from outside; or says why
    /// nothing comes of it: the process ended, or the time is up. It is left as it is.
    ///
    /// # Errors
    /// A cause that has the process as its subject.
    pub async fn until<T>(&self, ready: impl Future<Output = T>, limit: Duration) -> Result<T, String> {
        tokio::select! {
            answer = ready => Ok(answer),
            ended = self.wait() => Err(match ended {
                Ok(status) => format!("it {}", self.ending(status)),
                Err(failure) => failure.cause().to_owned(),
            }),
            () = tokio::time::sleep(limit) => Err(format!("it was not ready within {}", human_duration(limit))),
        }
    }

    /// `ended with exit status: 1`, with the memory limit where that was the reason.
    #[must_use]
    pub fn ending(&self, status: ExitStatus) -> String {
        let exceeded = self.memory.as_ref().filter(|memory| memory.groups.ended_for_memory() > memory.before);
        exceeded.map_or_else(
            || format!("ended with {status}"),
            |Memory { limit, .. }| {
                format!("ended with {status}: the kernel ended a process that exceeded rehearsal.memory_limit, which is {limit}")
            },
        )
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// As [`Process::wait`].
    pub fn exited(&self) -> Result<Option<ExitStatus>, Failure> {
        self.ended.borrow().clone().transpose().map_err(|cause| self.lost(&cause))
    }

    /// Asks it to end, and kills it when it has not after [`GRACE`].
    ///
    /// # Errors
    /// `sandbox.failed` when its end cannot be seen; it has been killed.
    pub async fn stop(self) -> Result<ExitStatus, Failure> {
        // A signal to a child that has ended is an error of no interest.
        let _ = pidfd_send_signal(&self.descriptor, Signal::TERM);
        match tokio::time::timeout(GRACE, self.wait()).await {
            Ok(status) => status,
            Err(_) => {
                let _ = pidfd_send_signal(&self.descriptor, Signal::KILL);
                self.wait().await
            }
        }
    }

    /// The last `lines` lines of its log, long ones shortened.
    #[must_use]
    pub fn log_tail(&self, lines: usize) -> String {
        tail(&self.log, lines).unwrap_or_else(|e| format!("({}: {e})", self.log.display()))
    }

    fn lost(&self, cause: &str) -> Failure {
        Failure::new(&codes::SANDBOX_FAILED, &self.name, cause)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = pidfd_send_signal(&self.descriptor, Signal::KILL);
        if let Some(waiter) = self.waiter.take() {
            let _ = waiter.join();
        }
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command").field("program", &self.program).field("arguments", &self.arguments).finish_non_exhaustive()
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("name", &self.name).field("pid", &self.pid).finish_non_exhaustive()
    }
}

pub(super) async fn start(spawner: &Spawner, scratch: &Scratch, entry: &Entry, command: Command) -> Result<Process, Failure> {
    let failed = |e: &io::Error| Failure::because(&codes::SANDBOX_FAILED, command.program.display(), e);
    let (log_path, log) = new_log(scratch, &command.name).map_err(|e| failed(&e))?;
    let path = search_path(&command.search).map_err(|e| failed(&e))?;
    let mut groups = entry.paths.clone();
    groups.extend(entry.procs.as_ref().map(|_| PathBuf::from("-")));
    let mut child = bound_to_parent(&groups, command.program.as_os_str());
    child.args(&command.arguments).env_clear().current_dir(scratch.path());
    child.env("PATH", path);
    child.env("HOME", scratch.path()).env("TMPDIR", scratch.path().join("tmp"));
    child.stdin(command.input.map_or_else(Stdio::null, Stdio::from));
    let copied = |file: &File| file.try_clone().map_err(|e| Failure::because(&codes::SANDBOX_FAILED, log_path.display(), &e));
    child.stderr(copied(entry.procs.as_ref().unwrap_or(&log))?);
    child.stdout(log);
    let failed = |e: &io::Error| Failure::because(&codes::SANDBOX_FAILED, command.program.display(), e);
    let child = spawner.start(child).map_err(|e| failed(&e))?;
    let memory = entry.watch.as_ref().and_then(Memory::of);
    watch_over(scratch, child, command.name, log_path, memory)
}

fn search_path(directories: &[PathBuf]) -> io::Result<OsString> {
    let all = directories.iter().map(PathBuf::as_path).chain(SYSTEM_PATH.split(':').map(Path::new));
    std::env::join_paths(all).map_err(|_| io::Error::other("a directory to search has a colon in its path"))
}

/// Notes the child in the scratch directory and waits for its end on a thread.
fn watch_over(
    scratch: &Scratch,
    mut child: Child,
    name: String,
    log: PathBuf,
    memory: Option<Memory>,
) -> Result<Process, Failure> {
    let pid = child.id();
    let descriptor = match adopt(scratch, pid, &name) {
        Ok(descriptor) => descriptor,
        Err(error) => {
            let _ = child.kill();
            let _ = child.wait();
            return Err(Failure::because(&codes::SANDBOX_FAILED, name, &error));
        }
    };
    let (tell, ended) = watch::channel(None);
    let mut process = Process { name, pid, descriptor, log, memory, ended, waiter: None };
    let waiter = std::thread::Builder::new().name(format!("wait-{pid}")).spawn(move || {
        let _ = tell.send(Some(child.wait().map_err(|e| e.to_string())));
    });
    // Without a thread the child is killed as `process` is dropped.
    process.waiter = Some(waiter.map_err(|e| process.lost(&e.to_string()))?);
    Ok(process)
}

fn adopt(scratch: &Scratch, pid: u32, name: &str) -> io::Result<OwnedFd> {
    let pid = pid.cast_signed();
    // Until we wait for it the child keeps its pid, dead or alive.
    if let Some(identity) = ProcessIdentity::of(pid) {
        scratch.record(identity, name)?;
    }
    let pid = Pid::from_raw(pid).ok_or_else(|| io::Error::other("a child without a pid"))?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// `NAME.log`, or `NAME-2.log` and so on when a process of the name ran before.
fn new_log(scratch: &Scratch, name: &str) -> io::Result<(PathBuf, File)> {
    /// A run restarts a program a few times at most.
    const MAX: usize = 100;
    for n in 1..=MAX {
        let path = if n == 1 { scratch.log(name) } else { scratch.log(&format!("{name}-{n}")) };
        match scratch::new_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            file => return Ok((path, file?)),
        }
    }
    Err(io::Error::other("too many logs of one name"))
}

fn tail(log: &Path, lines: usize) -> io::Result<String> {
    let mut file = File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let shown: Vec<String> = all[all.len().saturating_sub(lines)..].iter().map(|line| shorten(line)).collect();
    Ok(shown.join("\n"))
}

fn shorten(line: &str) -> String {
    let clean: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match clean.char_indices().find(|(at, _)| *at >= TAIL_LINE_BYTES) {
        Some((at, _)) => format!("{}…", &clean[..at]),
        None => clean,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn under_version_2_a_process_enters_its_group_before_it_says_anything() {
        let root = tempfile::tempdir().unwrap();
        let scratch = Scratch::create(root.path(), "entering").unwrap();
        let spawner = Spawner::new().unwrap();
        let shell = || Command::new("shell", "/bin/sh").args(["-c", "echo out; echo err >&2"]);
        let written = root.path().join("cgroup.procs");
        let entry = Entry { procs: Some(File::create(&written).unwrap()), ..Entry::default() };
        let process = start(&spawner, &scratch, &entry, shell()).await.unwrap();
        assert!(process.wait().await.unwrap().success());
        assert_eq!(std::fs::read_to_string(&written).unwrap(), "0\n", "0 is who writes it");
        assert_eq!(process.log_tail(5), "out\nerr");
        // A group that takes nobody: nothing runs outside it.
        let refusing = Entry { procs: Some(File::open(&written).unwrap()), ..Entry::default() };
        let process = start(&spawner, &scratch, &refusing, shell()).await.unwrap();
        assert_eq!(process.wait().await.unwrap().code(), Some(125));
        assert_eq!(process.log_tail(5), "its control group cannot be entered");
        let absent = Entry { paths: vec![root.path().join("absent")], ..Entry::default() };
        let process = start(&spawner, &scratch, &absent, shell()).await.unwrap();
        assert!(!process.wait().await.unwrap().success());
        assert!(!process.log_tail(5).contains("out"), "{}", process.log_tail(5));
        drop(process);
        scratch.remove().unwrap();
    }

    #[test]
    fn a_tail_is_short_whatever_the_log_holds() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let long = "é".repeat(TAIL_LINE_BYTES);
        std::fs::write(file.path(), format!("first\n\n\x1b[31mred\n{long}\n")).unwrap();
        let shown = tail(file.path(), 2).unwrap();
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(lines[0], " [31mred");
        assert!(lines[1].ends_with('…') && lines[1].len() <= TAIL_LINE_BYTES + 8, "{}", lines[1].len());
        assert_eq!(tail(file.path(), 0).unwrap(), "");
    }
}
