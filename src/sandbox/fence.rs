//! The fence: namespaces with a loopback interface and nothing else; around a
//! node also a bridge that leads nowhere.
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

use super::cgroup::Groups;
use super::identity::ProcessIdentity;
use super::node::{self, NodeWish};
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
    pub shape: Shape,
    /// Sorted.
    pub interfaces: Vec<String>,
    /// Routes that lead to another interface than those of the shape.
    pub routes: usize,
    /// Cables of which one end is not inside.
    pub open_ends: Vec<String>,
    /// A listener outside answered a probe from outside.
    pub control_answered: bool,
    /// The same listener answered a probe from inside.
    pub reached_outside: bool,
    /// What a connection to a documentation address got from inside.
    pub unreachable: String,
}

/// What lies inside a fence, and so which interfaces it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Processes that need nothing but loopback.
    Bare,
    /// A host of its own.
    Node,
}

impl Shape {
    fn interfaces(self) -> &'static [&'static str] {
        match self {
            Self::Bare => &["lo"],
            Self::Node => &node::INTERFACES,
        }
    }
}

/// What to raise a fence around.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inside<'a> {
    /// Groups that everything inside belongs to.
    pub(super) groups: Option<&'a Groups>,
    pub(super) node: Option<&'a NodeWish>,
}

/// What the holder runs; `$1` is the mount point for key files, `$2` the host's
/// name, `$3` the size of the memory for key files and `$4` a node's address, if
/// it is one.
///
/// `/run` is where a host's daemons listen on sockets that no network namespace
/// closes, so an empty one lies over it, unless the sandbox itself lies there.
/// `noswap` (Linux 6.4) keeps keys out of swap; older kernels do without.
const HOLD: &str = r#"
ip link set lo up || exit 1
echo "$2" > /proc/sys/kernel/hostname
if [ -n "$4" ]; then
    ip link add node0 type bridge || { echo "the kernel makes no bridge"; exit 1; } >&2
    ip link add node0p type veth peer name node0q || { echo "the kernel makes no veth pair"; exit 1; } >&2
    ip address add "$4/24" dev node0 && ip link set node0 up && ip link set node0p master node0 up || exit 1
    ip link set node0q up && ip route add default dev node0 || exit 1
    echo 1 > /proc/sys/net/ipv4/ip_forward || exit 1
fi
case $1 in /run/*) ;; *) mount -t tmpfs -o size=1m,mode=0755,nosuid,nodev holdfast /run || exit 1 ;; esac
options=size=$3,mode=0700,nosuid,nodev,noexec
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

    /// How a path of the inside is reached from outside; the same without a fence.
    pub(super) fn seen_from_outside(&self, path: &Path) -> PathBuf {
        match &self.state {
            State::Raised { holder, .. } => holder.seen_from_outside(path),
            State::Absent { .. } => path.to_owned(),
        }
    }

    /// All namespaces of the inside; none without a fence.
    pub(super) fn spaces(&self) -> Result<Vec<(LinkNameSpaceType, OwnedFd)>, String> {
        match &self.state {
            State::Raised { holder, .. } => holder.spaces(),
            State::Absent { .. } => Ok(Vec::new()),
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
        if !self.open_ends.is_empty() {
            write!(f, "with an end outside: {}; ", self.open_ends.join(", "))?;
        }
        match (self.control_answered, self.reached_outside) {
            (true, false) => write!(f, "a listener outside answers outside and not inside; ")?,
            (true, true) => write!(f, "a listener outside answers inside; ")?,
            (false, _) => write!(f, "no control answered outside; ")?,
        }
        write!(f, "outward: {}", self.unreachable)
    }
}

impl Proof {
    /// Only the shape's interfaces, no route or cable out, and a control that shows that the probe would have seen a way out.
    #[must_use]
    pub fn holds(&self) -> bool {
        let closed = self.interfaces == self.shape.interfaces() && self.routes == 0 && self.open_ends.is_empty();
        closed && self.control_answered && !self.reached_outside
    }
}

/// Raises a fence and gives the thread that starts children inside it.
///
/// # Errors
/// `sandbox.failed` when not even an unfenced sandbox can be had, or a fence is
/// required and cannot be raised. Where it is not required, the fence says so.
pub(super) fn raise(scratch: &Scratch, wish: Fencing, inside: Inside<'_>) -> Result<(Spawner, Fence), Failure> {
    let reason = match wish {
        Fencing::Never => "switched off".to_owned(),
        _ if !rustix::process::geteuid().is_root() => "not root".to_owned(),
        _ => match try_raise(scratch, inside) {
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

fn try_raise(scratch: &Scratch, inside: Inside<'_>) -> Result<(Spawner, Fence), String> {
    let spawner = Spawner::new().map_err(|e| e.to_string())?;
    let holder = Holder::start(&spawner, scratch, inside)?;
    let network = holder.space("net")?;
    if let (Some(wish), Some(groups)) = (inside.node, inside.groups) {
        groups.settle()?;
        node::furnish(holder.spaces()?, scratch, wish, groups)?;
    }
    let shape = if inside.node.is_some() { Shape::Node } else { Shape::Bare };
    let proof = prove(&holder, &network, shape).map_err(|e| format!("the fence could not be probed: {e}"))?;
    if !proof.holds() {
        return Err(format!("the fence does not hold: {proof}"));
    }
    probe_private(&holder, scratch).map_err(|e| format!("its memory file system cannot be written: {e}"))?;
    spawner.enter(holder.spaces()?).map_err(|e| format!("its namespaces cannot be entered: {e}"))?;
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
    fn start(spawner: &Spawner, scratch: &Scratch, inside: Inside<'_>) -> Result<Self, String> {
        let log_path = scratch.log("fence");
        let log = scratch::new_file(&log_path).map_err(|e| e.to_string())?;
        let mut command = bound_to_parent(&inside.groups.map(Groups::roots).unwrap_or_default(), "unshare".as_ref());
        command.args(["--net", "--pid", "--mount", "--ipc", "--uts", "--cgroup", "--fork", "--kill-child", "--mount-proc"]);
        command.args(["sh", "-c", HOLD, "sh"]).arg(scratch.mount_point());
        match inside.node {
            Some(wish) => command.args([wish.hostname.as_str(), "64m", &wish.address.to_string()]),
            None => command.args(["holdfast-scratch", "16m", ""]),
        };
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

    fn space(&self, file: &str) -> Result<File, String> {
        let path = format!("/proc/{}/ns/{file}", self.child.id());
        File::open(&path).map_err(|e| format!("{path}: {e}"))
    }

    /// All its namespaces, in the order in which they can be entered.
    fn spaces(&self) -> Result<Vec<(LinkNameSpaceType, OwnedFd)>, String> {
        SPACES.iter().map(|(_, file, kind)| Ok((*kind, self.space(file)?.into()))).collect()
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

fn prove(holder: &Holder, network: &File, shape: Shape) -> io::Result<Proof> {
    let net = format!("/proc/{}/net", holder.child.id());
    let mut interfaces: Vec<String> = fs::read_to_string(format!("{net}/dev"))?
        .lines()
        .filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned()))
        .collect();
    interfaces.sort();
    let own = shape.interfaces();
    let routes = routes_out(&fs::read_to_string(format!("{net}/route"))?, 0, own)
        + fs::read_to_string(format!("{net}/ipv6_route")).map_or(0, |table| routes_out(&table, 9, own));
    let open_ends = match shape {
        Shape::Bare => Vec::new(),
        Shape::Node => open_ends(&holder.seen_from_outside(Path::new("/sys/class/net"))),
    };
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
    Ok(Proof { shape, interfaces, routes, open_ends, control_answered, reached_outside, unreachable })
}

/// Ends of a node's cable whose other end is not the one it was made with.
fn open_ends(devices: &Path) -> Vec<String> {
    let number = |device: &str, file: &str| fs::read_to_string(devices.join(device).join(file)).ok()?.trim().parse::<u32>().ok();
    let is_open = |(end, other): &&(&str, &str)| {
        let peer = number(end, "iflink");
        peer.is_none() || peer != number(other, "ifindex")
    };
    node::CABLE.iter().filter(is_open).map(|(end, _)| (*end).to_owned()).collect()
}

/// Rows of a kernel route table whose interface is none of `own`.
fn routes_out(table: &str, column: usize, own: &[&str]) -> usize {
    table
        .lines()
        .filter_map(|line| line.split_ascii_whitespace().nth(column))
        .filter(|interface| *interface != "Iface" && !own.contains(interface))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proof() -> Proof {
        Proof {
            shape: Shape::Bare,
            interfaces: vec!["lo".to_owned()],
            routes: 0,
            open_ends: Vec::new(),
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
    fn a_node_s_proof_knows_its_own_interfaces_and_no_others() {
        let interfaces: Vec<String> = node::INTERFACES.iter().map(|&name| name.to_owned()).collect();
        let node = Proof { shape: Shape::Node, interfaces: interfaces.clone(), ..proof() };
        assert!(node.holds());
        assert!(!Proof { shape: Shape::Node, ..proof() }.holds(), "a node without its bridge");
        assert!(!Proof { interfaces: interfaces.clone(), ..proof() }.holds(), "a bridge where none belongs");
        let more = interfaces.into_iter().chain(["tap0".to_owned()]).collect();
        assert!(!Proof { interfaces: more, ..node.clone() }.holds());
        let open = Proof { open_ends: vec!["node0p".to_owned()], ..node };
        assert!(!open.holds() && open.to_string().contains("with an end outside: node0p"), "{open}");
    }

    #[test]
    fn a_cable_whose_other_end_is_elsewhere_is_open() {
        let devices = tempfile::tempdir().unwrap();
        let device = |name: &str, own: &str, peer: &str| {
            fs::create_dir_all(devices.path().join(name)).unwrap();
            fs::write(devices.path().join(name).join("ifindex"), format!("{own}\n")).unwrap();
            fs::write(devices.path().join(name).join("iflink"), format!("{peer}\n")).unwrap();
        };
        assert_eq!(open_ends(devices.path()), ["node0p", "node0q"], "absent devices");
        device("node0p", "4", "3");
        device("node0q", "3", "4");
        assert_eq!(open_ends(devices.path()), [""; 0]);
        device("node0p", "4", "17");
        assert_eq!(open_ends(devices.path()), ["node0p"]);
    }

    #[test]
    fn routes_over_loopback_lead_nowhere() {
        let table = "Iface\tDestination\tGateway\neth0\t00000000\t0101A8C0\nlo\t0000007F\t00000000\n";
        assert_eq!(routes_out(table, 0, &["lo"]), 1);
        let six = "00 00 00 00 00 ffffffff 00000001 00000000 00200200       lo\n00 00 00 00 00 1 1 0 3 eth0\n";
        assert_eq!(routes_out(six, 9, &["lo"]), 1);
        assert_eq!(routes_out("", 0, &["lo"]), 0);
    }
}
