//! Scratch environments: programs, child processes, namespaces, an inward door
//! and a directory that is gone afterwards.
//!
//! Owns: finding tools by version, starting and ending child processes, the
//! fence around them, the forwarder through it, the scratch directory and what
//! a killed run left in one.
//! Must never: know etcd or Kubernetes, put a secret in an argument list or an
//! environment, open a way out of the fence, or touch a process that it did not
//! start.
//!
//! Invariants: a child never outlives holdfast, however that ends; key files
//! lie on a memory file system, mode 0600, for as long as the sandbox stands;
//! after [`Sandbox::down`] no process, mount, namespace or file is left.

pub mod cgroup;
pub mod detached;
pub mod fence;
pub mod forward;
pub mod identity;
pub mod node;
pub mod process;
pub mod scratch;
mod spawner;
pub mod tools;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::base::codes;
use crate::base::failure::Failure;
pub use cgroup::Limits;
use cgroup::{Entry, Groups, Layout};
use fence::Inside;
pub use fence::{Fence, Fencing};
pub use forward::Forwarder;
pub use node::{Node, NodeWish};
pub use process::{Command, Process};
pub use scratch::{Leftover, Scratch};
use spawner::Spawner;
pub use tools::{Found, Places, Program, Versions};

/// A running scratch environment. Dropping it ends all that it holds, as
/// [`Sandbox::down`] does, without saying what could not be removed.
#[derive(Debug)]
pub struct Sandbox {
    // Ended in this order: first whoever could start a process, then the fence,
    // which takes its memory file system with it, then the directory.
    spawner: Option<Spawner>,
    fence: Fence,
    node: Option<Node>,
    /// How children get into the groups of this sandbox, if it has any.
    entry: Entry,
    scratch: Option<Scratch>,
}

impl Sandbox {
    /// Makes a scratch directory named after `name` below `root`, and a fence
    /// where the machine allows one. Leftovers are not looked at: see
    /// [`scratch::sweep`].
    ///
    /// # Errors
    /// `sandbox.failed`; nothing is left behind.
    pub async fn up(root: &Path, name: &str, wish: Fencing) -> Result<Self, Failure> {
        Self::up_within(root, name, wish, Limits::default()).await
    }

    /// As [`Sandbox::up`], with limits for all that runs inside together.
    ///
    /// # Errors
    /// `sandbox.failed`, also where a limit cannot be set; nothing is left behind.
    pub async fn up_within(root: &Path, name: &str, wish: Fencing, limits: Limits) -> Result<Self, Failure> {
        let root = root.to_owned();
        let name = name.to_owned();
        blocking(move || {
            let scratch = Scratch::create(&root, &name)?;
            let raised = limited(&scratch, &limits).and_then(|groups| {
                // Processes inside enter the groups; the fence itself does not count.
                let (spawner, fence) = fence::raise(&scratch, wish, Inside { groups: None, node: None })?;
                let entry = groups.as_ref().map_or_else(|| Ok(Entry::default()), Groups::entry).map_err(no_groups)?;
                Ok((spawner, fence, entry))
            });
            match raised {
                Ok((spawner, fence, entry)) => {
                    Ok(Self { spawner: Some(spawner), fence, node: None, entry, scratch: Some(scratch) })
                }
                Err(failure) => {
                    scratch.remove()?;
                    Err(failure)
                }
            }
        })
        .await
    }

    /// Makes a sandbox that stands for a host, with a fence around it: see [`node`].
    ///
    /// # Errors
    /// `sandbox.failed`, also where the machine allows no fence; nothing is left behind.
    pub async fn up_node(root: &Path, name: &str, wish: &NodeWish) -> Result<Self, Failure> {
        let (root, name, wish) = (root.to_owned(), name.to_owned(), wish.clone());
        blocking(move || {
            let scratch = Scratch::create(&root, &name)?;
            match raise_node(&scratch, wish) {
                Ok((spawner, fence, node, entry)) => {
                    Ok(Self { spawner: Some(spawner), fence, node: Some(node), entry, scratch: Some(scratch) })
                }
                Err(failure) => {
                    scratch.remove()?;
                    Err(failure)
                }
            }
        })
        .await
    }

    /// What the host is like that this sandbox stands for; none if it stands for none.
    #[must_use]
    pub fn node(&self) -> Option<&Node> {
        self.node.as_ref()
    }

    /// How holdfast, which is outside, reaches a path of the inside. Absolute
    /// symbolic links on the way lead outside.
    #[must_use]
    pub fn inside(&self, path: &Path) -> PathBuf {
        self.fence.seen_from_outside(path)
    }

    /// Shows a directory of the host, read-only, under its own path in a node,
    /// as that of programs which lies below the home that a node has not. Without
    /// a node everything is seen already.
    ///
    /// # Errors
    /// `sandbox.failed`.
    pub async fn show(&self, directory: &Path) -> Result<(), Failure> {
        if self.node.is_none() || self.inside(directory).exists() {
            return Ok(());
        }
        let failed = |cause: String| Failure::new(&codes::SANDBOX_FAILED, directory.display(), cause);
        let spaces = self.fence.spaces().map_err(failed)?;
        let path = directory.to_owned();
        blocking(move || Ok(node::show(spaces, &path))).await?.map_err(failed)
    }

    /// What keeps the processes inside from the world, or why nothing does.
    #[must_use]
    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    /// The scratch directory. Children see it under the same path.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.scratch.as_ref().map_or(Path::new(""), Scratch::path)
    }

    /// The directory itself, with the paths of what is in it.
    #[must_use]
    pub fn scratch(&self) -> Option<&Scratch> {
        self.scratch.as_ref()
    }

    /// Writes a file of secrets, mode 0600, on a memory file system that goes
    /// away with the sandbox, and gives the path under which children see it.
    ///
    /// # Errors
    /// `sandbox.failed`, also when the name is taken; an unfinished file goes with the sandbox.
    pub fn write_private(&self, name: &str, content: &[u8]) -> Result<PathBuf, Failure> {
        let scratch = self.scratch.as_ref().ok_or_else(gone)?;
        if !self.fence.is_raised() {
            scratch.create_shared_memory()?;
        }
        let outside = self.fence.private_outside(scratch).join(name);
        scratch::write_new(&outside, content)
            .map_err(|e| Failure::because(&codes::SANDBOX_FAILED, format!("private file {name}"), &e))?;
        Ok(self.fence.private_inside(scratch).join(name))
    }

    /// Writes a file of secrets, mode 0600, in memory, for a program outside the
    /// fence; it goes with the sandbox.
    ///
    /// # Errors
    /// As [`Sandbox::write_private`].
    pub fn write_outside(&self, name: &str, content: &[u8]) -> Result<PathBuf, Failure> {
        let scratch = self.scratch.as_ref().ok_or_else(gone)?;
        scratch.create_shared_memory()?;
        let path = scratch.shared_memory().join(name);
        scratch::write_new(&path, content)
            .map_err(|e| Failure::because(&codes::SANDBOX_FAILED, format!("private file {name}"), &e))?;
        Ok(path)
    }

    /// Starts a program inside the fence; its output goes to a log of its own.
    ///
    /// # Errors
    /// `sandbox.failed` when it cannot be started; no process is left.
    pub async fn start(&self, command: Command) -> Result<Process, Failure> {
        let (Some(spawner), Some(scratch)) = (&self.spawner, &self.scratch) else { return Err(gone()) };
        process::start(spawner, scratch, &self.entry, command).await
    }

    /// Runs a program inside the fence to its end.
    ///
    /// # Errors
    /// `tool.failed` with the end of its log when it fails or takes longer than `limit`; it is ended by then.
    pub async fn run(&self, command: Command, limit: Duration) -> Result<(), Failure> {
        let process = self.start(command).await?;
        let ended = tokio::time::timeout(limit, process.wait()).await;
        let cause = match ended {
            Ok(Ok(status)) if status.success() => return Ok(()),
            Ok(Ok(status)) => process.ending(status),
            Ok(Err(failure)) => return Err(failure),
            Err(_) => format!("did not end within {}", crate::base::units::human_duration(limit)),
        };
        let tail = process.log_tail(process::TAIL_LINES);
        Err(Failure::new(&codes::TOOL_FAILED, process.name(), format!("{cause}\n{tail}")))
    }

    /// Opens a door from a free loopback port outside to `port` inside.
    ///
    /// # Errors
    /// `sandbox.failed`; no listener is left.
    pub async fn forward(&self, port: u16) -> Result<Forwarder, Failure> {
        self.forward_to(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await
    }

    /// Opens a door from a free loopback port outside to an address as it is
    /// reached inside: of the node, its pods or its services.
    ///
    /// # Errors
    /// `sandbox.failed`; no listener is left. Without a fence only loopback is inside.
    pub async fn forward_to(&self, to: SocketAddr) -> Result<Forwarder, Failure> {
        let network = self.fence.network()?;
        if network.is_none() && !to.ip().is_loopback() {
            return Err(Failure::new(&codes::SANDBOX_FAILED, format!("door to {to}"), "without a fence it is not inside"));
        }
        blocking(move || Forwarder::open(to, network)).await
    }

    /// A port that was free on the loopback interface a moment ago. Inside a
    /// fence nothing else takes one; without it a caller must be ready to meet
    /// "address in use" and ask again.
    ///
    /// # Errors
    /// `sandbox.failed` when no port is free.
    pub fn free_port(&self) -> Result<u16, Failure> {
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|listener| listener.local_addr())
            .map(|address| address.port())
            .map_err(|e| Failure::because(&codes::SANDBOX_FAILED, "loopback port", &e))
    }

    /// Ends every process, takes down the fence and removes the directory.
    ///
    /// # Errors
    /// `sandbox.failed` names what could not be removed; the next run's sweep tries again.
    pub async fn down(mut self) -> Result<(), Failure> {
        blocking(move || self.take_down()).await
    }

    fn take_down(&mut self) -> Result<(), Failure> {
        let recorded = self.scratch.as_ref().map(Scratch::end_processes);
        drop(self.spawner.take());
        self.fence.lower();
        let removed = self.scratch.take().map(Scratch::remove);
        recorded.unwrap_or(Ok(Vec::new())).map(drop)?;
        removed.unwrap_or(Ok(()))
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if self.scratch.is_some() {
            // Whoever drops a sandbox without `down` has an error of its own to report.
            let _ = self.take_down();
        }
    }
}

fn no_groups(cause: String) -> Failure {
    Failure::new(&codes::SANDBOX_FAILED, cgroup::GROUPS, cause)
        .next("run as root where control groups can be made below the own one, or leave out rehearsal.memory_limit and cpu_limit")
}

/// Groups where there is something to limit.
fn limited(scratch: &Scratch, limits: &Limits) -> Result<Option<Groups>, Failure> {
    if limits.is_none() {
        return Ok(None);
    }
    let groups = Layout::of_this_process().and_then(|layout| Groups::make(scratch, &layout, limits));
    groups.map(Some).map_err(no_groups)
}

fn raise_node(scratch: &Scratch, wish: NodeWish) -> Result<(Spawner, Fence, Node, Entry), Failure> {
    let layout = Layout::of_this_process().map_err(no_groups)?;
    let groups = Groups::make(scratch, &layout, &wish.limits).map_err(no_groups)?;
    let (spawner, fence) = fence::raise(scratch, Fencing::Required, Inside { groups: Some(&groups), node: Some(&wish) })?;
    let interfaces = fence.proof().map(|proof| proof.interfaces.clone()).unwrap_or_default();
    let NodeWish { hostname, address, limits } = wish;
    let entry = node::entry(&groups).map_err(no_groups)?;
    Ok((spawner, fence, Node { hostname, address, limits, cgroups: groups.version, interfaces }, entry))
}

fn gone() -> Failure {
    Failure::new(&codes::SANDBOX_FAILED, "sandbox", "it is down already")
}

/// Runs blocking work on a blocking thread.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Failure> + Send + 'static) -> Result<T, Failure> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(Failure::because(&codes::SANDBOX_FAILED, "sandbox", &error)),
    }
}
