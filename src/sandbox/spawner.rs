//! The thread that starts children.
//!
//! The kernel's "signal when the parent dies" is tied to the parent's
//! *thread*, so children are started by one thread that lives as long as the
//! sandbox, never by a thread of a pool. It is also the thread that enters the
//! fence: what it starts is inside, and stays its direct child.

use std::io;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::mpsc;
use std::thread::JoinHandle;

use rustix::fd::{AsFd, OwnedFd};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Starts children from one long-lived thread. Dropping it ends the thread,
/// and with it, by the kernel, every child that is still running.
#[derive(Debug)]
pub(super) struct Spawner {
    requests: Option<mpsc::Sender<Request>>,
    thread: Option<JoinHandle<()>>,
}

enum Request {
    Start(Command, mpsc::SyncSender<io::Result<Child>>),
    Enter(Vec<(LinkNameSpaceType, OwnedFd)>, mpsc::SyncSender<io::Result<()>>),
}

impl Spawner {
    pub(super) fn new() -> io::Result<Self> {
        let (requests, inbox) = mpsc::channel();
        let thread = std::thread::Builder::new().name("spawner".to_owned()).spawn(move || serve(&inbox))?;
        Ok(Self { requests: Some(requests), thread: Some(thread) })
    }

    /// Starts `program` so that the kernel kills it when this thread ends.
    pub(super) fn start(&self, command: Command) -> io::Result<Child> {
        // What is started is `setpriv`: that a program behind it cannot be
        // started is in that program's log.
        let started = self.ask(|reply| Request::Start(command, reply));
        started.map_err(|e| io::Error::new(e.kind(), format!("setpriv of util-linux cannot be started: {e}")))
    }

    /// Moves the thread, and all that it starts from now on, into namespaces.
    pub(super) fn enter(&self, spaces: Vec<(LinkNameSpaceType, OwnedFd)>) -> io::Result<()> {
        self.ask(|reply| Request::Enter(spaces, reply))
    }

    fn ask<T>(&self, request: impl FnOnce(mpsc::SyncSender<io::Result<T>>) -> Request) -> io::Result<T> {
        let ended = || io::Error::other("the spawning thread has ended");
        let (reply, answer) = mpsc::sync_channel(1);
        let requests = self.requests.as_ref().ok_or_else(ended)?;
        requests.send(request(reply)).map_err(|_| ended())?;
        answer.recv().map_err(|_| ended())?
    }
}

impl Drop for Spawner {
    fn drop(&mut self) {
        drop(self.requests.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A parent that died before the signal was asked for sends none: then `$PPID`
/// is another process. Inside the fence it is 0, as the parent lies outside,
/// and the holder's end ends every process there.
///
/// What follows up to `--` are control groups to enter: 0 is who writes it. For
/// `-` standard error is such a group's file, and becomes a log only then.
const UNLESS_ORPHANED: &str = r#"
[ "$PPID" = "$1" ] || [ "$PPID" = 0 ] || exit 125
shift
while [ "$1" != -- ]; do
    if [ "$1" = - ]; then
        echo 0 >&2 || { echo "its control group cannot be entered"; exit 125; }
        exec 2>&1
    else
        echo 0 > "$1/cgroup.procs" || exit 125
    fi
    shift
done
shift
exec "$@"
"#;

/// A command that dies with the thread that starts it: `setpriv` asks for the
/// signal and becomes a shell, which looks whether its parent is still there,
/// enters `groups` and becomes the program, all under one pid.
#[allow(clippy::disallowed_methods)] // this module is where processes come from
pub(super) fn bound_to_parent(groups: &[PathBuf], program: &std::ffi::OsStr) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", "/bin/sh", "-c", UNLESS_ORPHANED, "sh"]);
    command.arg(std::process::id().to_string()).args(groups).arg("--").arg(program);
    command
}

fn serve(inbox: &mpsc::Receiver<Request>) {
    while let Ok(request) = inbox.recv() {
        // A caller that no longer waits has dropped its end; a child that
        // nobody takes is ended at once.
        match request {
            Request::Start(mut command, reply) => {
                if let Err(mpsc::SendError(Ok(mut orphan))) = reply.send(command.spawn()) {
                    let _ = orphan.kill();
                    let _ = orphan.wait();
                }
            }
            Request::Enter(spaces, reply) => {
                let _ = reply.send(enter(&spaces));
            }
        }
    }
}

/// Moves the calling thread, which must not be one of a pool, into namespaces.
pub(super) fn enter(spaces: &[(LinkNameSpaceType, OwnedFd)]) -> io::Result<()> {
    // A mount namespace can be entered only by a thread with a root and working
    // directory of its own. The deprecation is about `FILES`, which would part
    // this thread from the process's descriptors; `FS` does not.
    #[allow(deprecated)]
    rustix::thread::unshare(rustix::thread::UnshareFlags::FS)?;
    for (kind, space) in spaces {
        move_into_link_name_space(space.as_fd(), Some(*kind))?;
    }
    Ok(())
}
