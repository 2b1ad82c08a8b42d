//! A sandbox that stands for a host: what a kubelet, a container runtime and
//! `kubeadm` find where they expect a machine of their own.
//!
//! Directories of the host that they write are replaced by memory, or by
//! directories of the scratch directory where containers need a real file
//! system below them. Everything is mounted by a thread that entered the
//! fence, and goes with it. The values for the whole kernel that a kubelet
//! sets are covered: it reads what it wants and writes nothing.

use std::fs::{self, DirBuilder};
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fd::OwnedFd;
use rustix::fs::{CWD, XattrFlags, setxattr};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, mount_bind, mount_change,
    mount_remount, move_mount, open_tree, unmount,
};
use rustix::thread::LinkNameSpaceType;

use super::cgroup::{Entry, GROUPS, Groups, Layout, Limits, Version};
use super::process::SYSTEM_PATH;
use super::scratch::Scratch;
use super::spawner::enter;
use crate::base::failure::Failure;

/// What a host is to be like.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeWish {
    pub hostname: String,
    /// Of a network of 24 bits that leads nowhere.
    pub address: Ipv4Addr,
    pub limits: Limits,
}

/// What a host is like: facts for a report.
#[derive(Debug, Clone)]
pub struct Node {
    pub hostname: String,
    pub address: Ipv4Addr,
    pub limits: Limits,
    pub cgroups: Version,
    pub interfaces: Vec<String>,
}

/// Interfaces of a node, sorted: a bridge with its address, and a pair of
/// virtual cables, both ends inside, without which a bridge counts as unplugged.
pub(super) const INTERFACES: [&str; 4] = ["lo", "node0", "node0p", "node0q"];
/// Each end with the other.
pub(super) const CABLE: [(&str, &str); 2] = [("node0p", "node0q"), ("node0q", "node0p")];

/// Overlays with their upper layer in the fence's memory: readable as on the
/// host, written to nobody's disk.
const OVERLAYS: [&str; 2] = ["etc", "opt"];
/// Empty in the overlay of `/etc`, whatever the host has there: its secrets,
/// its cluster and its network are not this node's.
const HIDDEN: [&str; 4] = ["cni", "etcd", "holdfast", "kubernetes"];
/// In memory and empty, with their modes.
const EMPTY: [(&str, u32); 4] = [("/var", 0o755), ("/run", 0o755), ("/home", 0o755), ("/root", 0o700)];
/// Of the scratch directory: an overlay cannot be the upper layer of another,
/// and logs and images are not for memory.
const REAL: [(&str, &str); 5] = [
    ("containerd", "/var/lib/containerd"),
    ("kubelet", "/var/lib/kubelet"),
    ("etcd", "/var/lib/etcd"),
    ("cni", "/var/lib/cni"),
    ("log", "/var/log"),
];
/// Values of the whole kernel that a kubelet sets unless it reads what it wants.
const KERNEL_VALUES: [(&str, &str); 6] = [
    ("vm/overcommit_memory", "1"),
    ("vm/panic_on_oom", "0"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/keys/root_maxbytes", "25000000"),
];
const GROUP_TREES: &str = "/sys/fs/cgroup";

/// Controllers that a kubelet does not start without.
const CONTROLLERS: [&str; 4] = ["cpu", "cpuset", "memory", "pids"];

/// What a machine lacks that a node needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lack {
    /// The file system that lays one directory over another.
    Overlay,
    /// Names of controllers, or why no group can be made.
    Controllers(String),
    /// `ip` of iproute2.
    Ip,
    /// The kernel refuses a bridge or a pair of virtual cables, in its words.
    Bridge(String),
    /// Anything else.
    Other(String),
}

/// What this machine lacks, as far as it shows without making a node.
#[must_use]
pub fn lacks() -> Vec<Lack> {
    let file_systems = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let has_ip = SYSTEM_PATH.split(':').any(|directory| Path::new(directory).join("ip").exists());
    lacking(&file_systems, Layout::of_this_process(), has_ip)
}

fn lacking(file_systems: &str, layout: Result<Layout, String>, has_ip: bool) -> Vec<Lack> {
    let mut found = Vec::new();
    if !file_systems.lines().any(|line| line.split_ascii_whitespace().last() == Some("overlay")) {
        found.push(Lack::Overlay);
    }
    match layout {
        Err(cause) => found.push(Lack::Controllers(cause)),
        Ok(layout) => {
            let absent: Vec<_> = CONTROLLERS.into_iter().filter(|name| !layout.has(name)).collect();
            if !absent.is_empty() {
                found.push(Lack::Controllers(format!("{} ({})", absent.join(", "), layout.version.as_str())));
            }
        }
    }
    if !has_ip {
        found.push(Lack::Ip);
    }
    found
}

/// What a failure to make a node says about the machine.
#[must_use]
pub fn lack_in(failure: &Failure) -> Lack {
    let cause = failure.cause().to_owned();
    if failure.object() == GROUPS {
        Lack::Controllers(cause)
    } else if ["bridge", "veth pair"].iter().any(|kind| cause.contains(&format!("the kernel makes no {kind}"))) {
        Lack::Bridge(cause)
    } else {
        Lack::Other(cause)
    }
}

/// What the furnishing thread needs.
struct Plan {
    scratch: PathBuf,
    /// Directory on the fence's memory file system.
    memory: PathBuf,
    wish: NodeWish,
    groups: Groups,
}

/// Mounts all that makes a host, on a thread that enters `spaces` for it.
///
/// # Errors
/// A cause; what was mounted goes with the namespaces.
pub(super) fn furnish(
    spaces: Vec<(LinkNameSpaceType, OwnedFd)>,
    scratch: &Scratch,
    wish: &NodeWish,
    groups: &Groups,
) -> Result<(), String> {
    let plan = Plan {
        scratch: scratch.path().to_owned(),
        memory: scratch.mount_point().join(".node"),
        wish: wish.clone(),
        groups: groups.clone(),
    };
    let thread = std::thread::Builder::new().name("furnisher".to_owned()).spawn(move || {
        enter(&spaces).map_err(|e| format!("its namespaces cannot be entered: {e}"))?;
        plan.mount_all()
    });
    let thread = thread.map_err(|e| e.to_string())?;
    thread.join().map_err(|_| "the thread that mounts ended early".to_owned())?
}

/// Shows a directory of the host, read-only, at its own path in a node where
/// something else lies over it.
///
/// # Errors
/// A cause; what was mounted goes with the namespaces.
pub(super) fn show(spaces: Vec<(LinkNameSpaceType, OwnedFd)>, path: &Path) -> Result<(), String> {
    let path = path.to_owned();
    // Cloned here, where it is seen, and moved to there.
    let cloned = told(&path, open_tree(CWD, &path, OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC))?;
    let thread = std::thread::Builder::new().name("furnisher".to_owned()).spawn(move || {
        enter(&spaces).map_err(|e| format!("its namespaces cannot be entered: {e}"))?;
        directory(&path, 0o755)?;
        told(&path, move_mount(&cloned, "", CWD, &path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH))?;
        told(&path, mount_remount(&path, MountFlags::BIND | MountFlags::RDONLY, ""))
    });
    let thread = thread.map_err(|e| e.to_string())?;
    thread.join().map_err(|_| "the thread that mounts ended early".to_owned())?
}

impl Plan {
    fn mount_all(&self) -> Result<(), String> {
        directory(&self.memory, 0o700)?;
        for (name, _) in REAL {
            directory(&self.scratch.join("node").join(name), 0o755)?;
        }
        self.overlays()?;
        self.own_files()?;
        self.empty_directories()?;
        for (name, target) in REAL {
            directory(Path::new(target), 0o755)?;
            let source = self.scratch.join("node").join(name);
            told(target, mount_bind(&source, target))?;
        }
        self.system_files()?;
        self.kernel_values()?;
        // A kubelet passes mounts on to containers.
        told("/", mount_change("/", MountPropagationFlags::SHARED | MountPropagationFlags::REC))
    }

    fn overlays(&self) -> Result<(), String> {
        for name in OVERLAYS {
            let target = Path::new("/").join(name);
            if !target.is_dir() {
                continue;
            }
            let (upper, work) = (self.memory.join(name).join("upper"), self.memory.join(name).join("work"));
            directory(&upper, 0o755)?;
            directory(&work, 0o755)?;
            for hidden in HIDDEN.iter().filter(|_| name == "etc") {
                let path = upper.join(hidden);
                directory(&path, 0o755)?;
                // Nothing of the lower layer is seen through it.
                told(&path, setxattr(&path, "trusted.overlay.opaque", b"y", XattrFlags::empty()))?;
            }
            let options = format!("lowerdir={},upperdir={},workdir={}", target.display(), upper.display(), work.display());
            told(&target, mount("overlay", &target, "overlay", MountFlags::empty(), Some(text(&options)?.as_c_str())))?;
        }
        Ok(())
    }

    /// Names of this node; nothing answers for others.
    fn own_files(&self) -> Result<(), String> {
        let NodeWish { hostname, address, .. } = &self.wish;
        let files = [
            ("/etc/hostname", format!("{hostname}\n")),
            ("/etc/hosts", format!("127.0.0.1 localhost\n::1 localhost\n{address} {hostname}\n")),
            ("/etc/resolv.conf", String::new()),
        ];
        for (path, content) in files {
            // It may be a link to a file that is not there any more.
            let removed = match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
            removed.and_then(|()| fs::write(path, content)).map_err(|e| format!("{path}: {e}"))?;
        }
        Ok(())
    }

    /// The scratch directory lies below one of them as a rule, and stays where it is.
    fn empty_directories(&self) -> Result<(), String> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
        let kept = told(&self.scratch, open_tree(CWD, &self.scratch, flags))?;
        for (target, mode) in EMPTY {
            directory(Path::new(target), mode)?;
            memory(target, &format!("mode={mode:o},size=512m"))?;
        }
        let covers = OVERLAYS.iter().map(|name| Path::new("/").join(name)).chain(EMPTY.iter().map(|(path, _)| path.into()));
        if covers.into_iter().any(|cover| self.scratch.starts_with(cover)) {
            directory(&self.scratch, 0o755)?;
            let moved = move_mount(&kept, "", CWD, &self.scratch, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH);
            told(&self.scratch, moved)?;
        }
        directory(Path::new("/var/lib"), 0o755)?;
        directory(Path::new("/var/tmp"), 0o1777)?;
        // Relative, so that they mean the same when they are followed from outside.
        for (link, to) in [("/var/run", "../run"), ("/var/lock", "../run/lock")] {
            symlink(to, link).map_err(|e| format!("{link}: {e}"))?;
        }
        directory(Path::new("/run/lock"), 0o1777)
    }

    /// Of this network's devices and this node's groups, instead of the host's.
    fn system_files(&self) -> Result<(), String> {
        // Whoever looks for groups takes the first mount that is listed.
        match unmount("/sys", UnmountFlags::DETACH) {
            Err(rustix::io::Errno::INVAL) => {}
            done => told("/sys", done)?,
        }
        told("/sys", mount("sysfs", "/sys", "sysfs", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, None))?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        if self.groups.version == Version::V2 {
            return told(GROUP_TREES, mount("cgroup2", GROUP_TREES, "cgroup2", flags, None));
        }
        memory(GROUP_TREES, "mode=755,size=1m")?;
        for (name, options) in self.groups.mounts() {
            let target = Path::new(GROUP_TREES).join(&name);
            directory(&target, 0o755)?;
            told(&target, mount("cgroup", &target, "cgroup", flags, Some(text(&options)?.as_c_str())))?;
            for part in name.split(',').filter(|part| *part != name) {
                let link = Path::new(GROUP_TREES).join(part);
                symlink(&name, &link).map_err(|e| format!("{}: {e}", link.display()))?;
            }
        }
        Ok(())
    }

    fn kernel_values(&self) -> Result<(), String> {
        let covers = self.memory.join("kernel");
        directory(&covers, 0o700)?;
        for (name, value) in KERNEL_VALUES {
            let target = Path::new("/proc/sys").join(name);
            if !target.exists() {
                continue; // not in every kernel
            }
            let cover = covers.join(name.replace('/', "."));
            fs::write(&cover, format!("{value}\n")).map_err(|e| format!("{}: {e}", cover.display()))?;
            told(&target, mount_bind(&cover, &target))?;
            told(&target, mount_remount(&target, MountFlags::BIND | MountFlags::RDONLY, ""))?;
        }
        Ok(())
    }
}

/// How a process that starts inside a node gets into its groups.
pub(super) fn entry(groups: &Groups) -> Result<Entry, String> {
    let seen = |(name, _): (String, String)| Path::new(GROUP_TREES).join(name);
    Ok(match groups.version {
        Version::V2 => groups.entry()?,
        Version::V1 | Version::Hybrid => Entry { paths: groups.mounts().into_iter().map(seen).collect(), ..groups.entry()? },
    })
}

fn memory(target: &str, options: &str) -> Result<(), String> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    told(target, mount("holdfast", target, "tmpfs", flags, Some(text(options)?.as_c_str())))
}

fn directory(path: &Path, mode: u32) -> Result<(), String> {
    let made = DirBuilder::new().mode(mode).recursive(true).create(path);
    made.map_err(|e| format!("{}: {e}", path.display()))
}

fn text(options: &str) -> Result<std::ffi::CString, String> {
    std::ffi::CString::new(options).map_err(|_| "a path with a zero byte".to_owned())
}

/// Names what could not be mounted.
fn told<T>(target: impl AsRef<Path>, done: rustix::io::Result<T>) -> Result<T, String> {
    done.map_err(|e| format!("{} cannot be mounted: {e}", target.as_ref().display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::codes;

    const FILE_SYSTEMS: &str = "nodev\ttmpfs\n\text4\nnodev\toverlay\n";

    fn layout(controllers: &[&str]) -> Result<Layout, String> {
        let groups: String = controllers.iter().map(|name| format!("1:{name}:/\n")).collect();
        let mount = |name: &&str| format!("3 2 0:1 / /sys/fs/cgroup/{name} rw - cgroup cgroup rw,{name}\n");
        Layout::read(&groups, &controllers.iter().map(mount).collect::<String>())
    }

    #[test]
    fn what_a_machine_lacks_is_named_one_by_one() {
        let all = || layout(&["cpu", "cpuset", "memory", "pids"]);
        assert_eq!(lacking(FILE_SYSTEMS, all(), true), []);
        assert_eq!(lacking("nodev\toverlayfs2\n", all(), true), [Lack::Overlay]);
        assert_eq!(lacking(FILE_SYSTEMS, all(), false), [Lack::Ip]);
        let few = lacking(FILE_SYSTEMS, layout(&["cpu", "memory"]), true);
        assert_eq!(few, [Lack::Controllers("cpuset, pids (v1)".to_owned())]);
        let none = lacking("", layout(&[]), false);
        assert_eq!(none.len(), 3, "{none:?}");
    }

    #[test]
    fn a_failure_tells_what_was_lacking() {
        let failure = |object: &str, cause: &str| Failure::new(&codes::SANDBOX_FAILED, object, cause);
        assert!(matches!(lack_in(&failure(GROUPS, "no control group for memory")), Lack::Controllers(_)));
        for kind in ["bridge", "veth pair"] {
            let cause = format!("required, and cannot be raised: Unknown device type\nthe kernel makes no {kind}");
            assert!(matches!(lack_in(&failure("fence", &cause)), Lack::Bridge(_)));
        }
        assert_eq!(lack_in(&failure("fence", "not root")), Lack::Other("not root".to_owned()));
    }
}
