//! The fence: namespaces with a loopback interface and nothing else.
//!
//! A holder process is the first process of the namespaces. It holds them, and
//! a memory file system for key files, until its standard input closes, which
//! the kernel does for us however holdfast ends. When it goes, every process
//! inside, every mount and the memory file system go with it.
//!
//! Where no fence can be raised the sandbox runs without one and says why: a
//! [`Fence`] is a value that every report prints.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

use rustix::fd::{AsFd, OwnedFd};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::identity::ProcessIdentity;
use super::scratch::{self, Scratch};
use super::spawner::{Spawner, bound_to_parent};
use crate::base::codes;
use crate::base::failure::Failure;

/// Whether to raise a fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fencing {
    /// Where the machine allows it; else the fence says why not.
    IfPossible,
    /// Without a fence there is no sandbox.
    Required,
    /// Never, as where the machine does not allow it.
    Never,
}

/// What keeps the processes of a sandbox from the world, or why nothing does.
#[derive(Debug)]
pub struct Fence {
    state: State,
}

#[derive(Debug)]
enum State {
    Raised { holder: Holder, network: File, proof: Proof },
    Absent { reason: String },
}

/// What was seen from inside, with a control from outside in the same second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    pub interfaces: Vec<String>,
    /// Routes that lead to another interface than loopback.
    pub routes: usize,
    /// A listener outside answered a probe from outside.
    pub control_answered: bool,
    /// The same listener answered a probe from inside.
    pub reached_outside: bool,
    /// What a connection to a documentation address got from inside.
    pub unreachable: String,
}

/// What the holder runs; `$1` is the mount point for key files.
///
/// `/run` is where a host's daemons listen on sockets that no network namespace
/// closes, so an empty one lies over it, unless the sandbox itself lies there.
/// `noswap` (Linux 6.4) keeps keys out of swap; older kernels do without.
const HOLD: &str = r#"
ip link set lo up || exit 1
echo holdfast-scratch > /proc/sys/kernel/hostname
case $1 in /run/*) ;; *) mount -t tmpfs -o size=1m,mode=0755,nosuid,nodev holdfast /run || exit 1 ;; esac
options=size=16m,mode=0700,nosuid,nodev,noexec
mount -t tmpfs -o "$options,noswap" holdfast "$1" 2>/dev/null || mount -t tmpfs -o "$options" holdfast "$1" || exit 1
echo ready
exec cat
"#;

const SPACES: [(&str, &str, LinkNameSpaceType); 6] = [
    ("network", "net", LinkNameSpaceType::Network),
    ("IPC", "ipc", LinkNameSpaceType::InterProcessCommunication),
    ("UTS", "uts", LinkNameSpaceType::HostNameAndNISDomainName),
    ("cgroup", "cgroup", LinkNameSpaceType::ControlGroup),
    // The holder's own is the outer one; its first child opened the inner one.
    ("PID", "pid_for_children", LinkNameSpaceType::ProcessID),
    ("mount", "mnt", LinkNameSpaceType::Mount),
];

/// The holder mounts and sets up one interface: seconds at most on any machine.
const HOLDER_LIMIT: Duration = Duration::from_secs(20);
/// A probe that gets no answer is a probe that did not get through.
const PROBE_LIMIT: Duration = Duration::from_secs(1);
/// Of TEST-NET-2 (RFC 5737): routed nowhere, so no packet troubles anybody.
const NOWHERE: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);

impl Fence {
    #[must_use]
    pub fn is_raised(&self) -> bool {
        matches!(self.state, State::Raised { .. })
    }

    /// What was seen from inside; none without a fence.
    #[must_use]
    pub fn proof(&self) -> Option<&Proof> {
        match &self.state {
            State::Raised { proof, .. } => Some(proof),
            State::Absent { .. } => None,
        }
    }

    /// `network`, `PID`, …; none without a fence.
    #[must_use]
    pub fn namespaces(&self) -> Vec<&'static str> {
        if self.is_raised() { SPACES.iter().map(|(name, ..)| *name).collect() } else { Vec::new() }
    }

    /// The network namespace, for a thread that enters it; none without a fence.
    pub(super) fn network(&self) -> Result<Option<OwnedFd>, Failure> {
        match &self.state {
            State::Raised { network, .. } => {
                let copy = network.try_clone().map_err(|e| Failure::because(&codes::SANDBOX_FAILED, "network namespace", &e))?;
                Ok(Some(copy.into()))
            }
            State::Absent { .. } => Ok(None),
        }
    }

    /// Where holdfast writes private files.
    pub(super) fn private_outside(&self, scratch: &Scratch) -> PathBuf {
        match &self.state {
            State::Raised { holder, .. } => holder.seen_from_outside(&scratch.mount_point()),
            State::Absent { .. } => scratch.shared_memory(),
        }
    }

    /// Where children read them.
    pub(super) fn private_inside(&self, scratch: &Scratch) -> PathBuf {
        if self.is_raised() { scratch.mount_point() } else { scratch.shared_memory() }
    }

    /// Ends the holder and with it all that is inside.
    pub(super) fn lower(&mut self) {
        let lowered = State::Absent { reason: "it is down".to_owned() };
        if let State::Raised { mut holder, .. } = std::mem::replace(&mut self.state, lowered) {
            holder.end();
        }
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.state {
            State::Raised { proof, .. } => {
                write!(f, "fenced: own {} namespaces; {proof}", self.namespaces().join(", "))
            }
            State::Absent { reason } => write!(f, "not fenced: {reason}"),
        }
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "interfaces: {}; routes out: {}; ", self.interfaces.join(", "), self.routes)?;
        match (self.control_answered, self.reached_outside) {
            (true, false) => write!(f, "a listener outside answers outside and not inside; ")?,
            (true, true) => write!(f, "a listener outside answers inside; ")?,
            (false, _) => write!(f, "no control answered outside; ")?,
        }
        write!(f, "outward: {}", self.unreachable)
    }
}

impl Proof {
    /// Only loopback, no route, and a control that shows that the probe would have seen a way out.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.interfaces == ["lo"] && self.routes == 0 && self.control_answered && !self.reached_outside
    }
}

/// Raises a fence and gives the thread that starts children inside it.
///
/// # Errors
/// `sandbox.failed` when not even an unfenced sandbox can be had, or a fence is
/// required and cannot be raised. Where it is not required, the fence says so.
pub(super) fn raise(scratch: &Scratch, wish: Fencing) -> Result<(Spawner, Fence), Failure> {
    let reason = match wish {
        Fencing::Never => "switched off".to_owned(),
        _ if !rustix::process::geteuid().is_root() => "not root".to_owned(),
        _ => match try_raise(scratch) {
            Ok(raised) => return Ok(raised),
            Err(reason) => reason,
        },
    };
    if wish == Fencing::Required {
        return Err(Failure::new(&codes::SANDBOX_FAILED, "fence", format!("required, and cannot be raised: {reason}")));
    }
    let spawner = Spawner::new().map_err(|e| Failure::because(&codes::SANDBOX_FAILED, "thread", &e))?;
    Ok((spawner, Fence { state: State::Absent { reason } }))
}

fn try_raise(scratch: &Scratch) -> Result<(Spawner, Fence), String> {
    let spawner = Spawner::new().map_err(|e| e.to_string())?;
    let holder = Holder::start(&spawner, scratch)?;
    let space = |file: &str| {
        let path = format!("/proc/{}/ns/{file}", holder.child.id());
        File::open(&path).map_err(|e| format!("{path}: {e}"))
    };
    let network = space("net")?;
    let mut spaces = Vec::new();
    for (_, file, kind) in SPACES {
        spaces.push((kind, OwnedFd::from(space(file)?)));
    }
    let proof = prove(&holder, &network).map_err(|e| format!("the fence could not be probed: {e}"))?;
    if !proof.holds() {
        return Err(format!("the fence does not hold: {proof}"));
    }
    probe_private(&holder, scratch).map_err(|e| format!("its memory file system cannot be written: {e}"))?;
    spawner.enter(spaces).map_err(|e| format!("its namespaces cannot be entered: {e}"))?;
    Ok((spawner, Fence { state: State::Raised { holder, network, proof } }))
}

/// The first process inside, with the process that watches it.
#[derive(Debug)]
struct Holder {
    child: Child,
    /// Its lines; closed when it and all that inherited its output have ended.
    lines: Mutex<mpsc::Receiver<String>>,
}

impl Holder {
    fn start(spawner: &Spawner, scratch: &Scratch) -> Result<Self, String> {
        let log_path = scratch.log("fence");
        let log = scratch::new_file(&log_path).map_err(|e| e.to_string())?;
        let mut command = bound_to_parent("unshare".as_ref());
        command.args(["--net", "--pid", "--mount", "--ipc", "--uts", "--cgroup", "--fork", "--kill-child", "--mount-proc"]);
        command.args(["sh", "-c", HOLD, "sh"]).arg(scratch.mount_point());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).current_dir("/");
        let mut child = spawner.start(command).map_err(|e| e.to_string())?;
        let output = child.stdout.take();
        let (send, lines) = mpsc::channel();
        // Ends by itself when the holder does.
        let reader = std::thread::Builder::new().name("fence".to_owned()).spawn(move || {
            for line in output.into_iter().flat_map(|output| BufReader::new(output).lines().map_while(Result::ok)) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        let mut holder = Self { child, lines: Mutex::new(lines) };
        let ready = reader.map_err(|e| e.to_string()).and_then(|_| {
            let process = ProcessIdentity::of(holder.child.id().cast_signed()).ok_or("the holder ended at once")?;
            scratch.record(process, "unshare").map_err(|e| e.to_string())?;
            match holder.next_line() {
                Some(line) if line == "ready" => Ok(()),
                _ => Err(fs::read_to_string(&log_path).unwrap_or_default().trim().to_owned()),
            }
        });
        match ready {
            Ok(()) => Ok(holder),
            Err(reason) => {
                holder.end();
                Err(if reason.is_empty() { "the namespaces cannot be made".to_owned() } else { reason })
            }
        }
    }

    /// None when its output is closed, or nothing came in time.
    fn next_line(&mut self) -> Option<String> {
        self.lines.get_mut().unwrap_or_else(PoisonError::into_inner).recv_timeout(HOLDER_LIMIT).ok()
    }

    /// A path of the holder's mount namespace, reachable from ours.
    fn seen_from_outside(&self, path: &Path) -> PathBuf {
        let inside = path.strip_prefix("/").unwrap_or(path);
        Path::new("/proc").join(self.child.id().to_string()).join("root").join(inside)
    }

    /// Closes its input and waits until it and all inside have ended.
    fn end(&mut self) {
        drop(self.child.stdin.take());
        // Its output closes when the kernel has ended every process inside and
        // the watcher has seen it. If that does not happen, kill both.
        while self.next_line().is_some() {}
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.end();
    }
}

fn probe_private(holder: &Holder, scratch: &Scratch) -> io::Result<()> {
    let probe = holder.seen_from_outside(&scratch.mount_point()).join(".probe");
    scratch::write_new(&probe, b"probe")?;
    // Seen here, it would be a file of the disk and not of the fence's memory.
    if scratch.mount_point().join(".probe").exists() {
        return Err(io::Error::other("it is not the fence's own"));
    }
    fs::remove_file(&probe)
}

fn prove(holder: &Holder, network: &File) -> io::Result<Proof> {
    let net = format!("/proc/{}/net", holder.child.id());
    let interfaces = fs::read_to_string(format!("{net}/dev"))?
        .lines()
        .filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned()))
        .collect();
    let routes = routes_out(&fs::read_to_string(format!("{net}/route"))?, 0)
        + fs::read_to_string(format!("{net}/ipv6_route")).map_or(0, |table| routes_out(&table, 9));
    let control = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = control.local_addr()?;
    let connect = |to: SocketAddr| TcpStream::connect_timeout(&to, PROBE_LIMIT);
    let control_answered = connect(address).is_ok();
    let network = network.try_clone()?;
    let inside = std::thread::Builder::new().name("probe".to_owned()).spawn(move || {
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))?;
        let nowhere = match connect(SocketAddr::new(IpAddr::V4(NOWHERE), 443)) {
            Ok(_) => "reached".to_owned(),
            Err(error) => error.to_string(),
        };
        io::Result::Ok((connect(address).is_ok(), nowhere))
    })?;
    let (reached_outside, unreachable) = inside.join().map_err(|_| io::Error::other("the probe ended early"))??;
    Ok(Proof { interfaces, routes, control_answered, reached_outside, unreachable })
}

/// Rows of a kernel route table whose interface column is not `lo`.
fn routes_out(table: &str, column: usize) -> usize {
    table
        .lines()
        .filter_map(|line| line.split_ascii_whitespace().nth(column))
        .filter(|interface| !matches!(*interface, "lo" | "Iface"))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proof() -> Proof {
        Proof {
            interfaces: vec!["lo".to_owned()],
            routes: 0,
            control_answered: true,
            reached_outside: false,
            unreachable: "Network is unreachable".to_owned(),
        }
    }

    #[test]
    fn a_proof_needs_every_part() {
        assert!(proof().holds());
        assert!(!Proof { interfaces: vec!["lo".to_owned(), "eth0".to_owned()], ..proof() }.holds());
        assert!(!Proof { interfaces: vec![], ..proof() }.holds());
        assert!(!Proof { routes: 1, ..proof() }.holds());
        assert!(!Proof { reached_outside: true, ..proof() }.holds());
        assert!(!Proof { control_answered: false, ..proof() }.holds(), "without a control nothing is proven");
    }

    #[test]
    fn routes_over_loopback_lead_nowhere() {
        let table = "Iface\tDestination\tGateway\neth0\t00000000\t0101A8C0\nlo\t0000007F\t00000000\n";
        assert_eq!(routes_out(table, 0), 1);
        let six = "00 00 00 00 00 ffffffff 00000001 00000000 00200200       lo\n00 00 00 00 00 1 1 0 3 eth0\n";
        assert_eq!(routes_out(six, 9), 1);
        assert_eq!(routes_out("", 0), 0);
    }
}
