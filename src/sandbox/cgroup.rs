//! Control groups of a sandbox's own, below the group that holdfast runs in.
//!
//! Under version 1 every controller is a tree of its own and a group is made
//! in each; under version 2 there is one tree, a group with processes gives no
//! controllers to groups below it, and so the processes get a leaf. A hybrid
//! machine has its controllers in version 1 and is treated as that.
//!
//! Groups are not part of a namespace and outlive their last process: their
//! paths are noted in the scratch directory before they are made.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use super::scratch::Scratch;
use crate::base::codes;
use crate::base::failure::Failure;
use crate::base::units::human_bytes;

/// What a failure that comes from here is about.
pub(super) const GROUPS: &str = "control groups";
/// Paths of groups in a scratch directory, one a line.
const RECORD: &str = "cgroups";
/// `f_type` of cgroup file systems, version 1 and 2.
const GROUP_FILE_SYSTEMS: [u64; 2] = [0x0027_e0eb, 0x6367_7270];
/// Under version 2 processes live here.
const LEAF: &str = "leaf";
/// The kernel ends a namespace's processes within moments.
const REMOVAL_LIMIT: Duration = Duration::from_secs(10);
const REMOVAL_PAUSE: Duration = Duration::from_millis(20);
/// Controllers that a node hands on to what runs in it.
const HANDED_ON: [&str; 5] = ["cpu", "cpuset", "io", "memory", "pids"];
/// The kernel's default period of a CPU quota.
const PERIOD_MICROSECONDS: u32 = 100_000;

/// What a sandbox may use of its host; none means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Limits {
    /// Bytes of memory; what exceeds it is ended by the kernel.
    pub memory_bytes: Option<u64>,
    /// CPUs; `1.5` is one and a half.
    pub cpus: Option<f64>,
}

impl Limits {
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// How a machine's controllers are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    V1,
    V2,
    /// Controllers in version 1, with a tree of version 2 beside them.
    Hybrid,
}

impl Version {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V2 => "v2",
            Self::Hybrid => "v1 with v2 beside it",
        }
    }
}

/// One tree of groups with the group that this process is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// `cpu,cpuacct`, `name=systemd`; empty for version 2.
    pub controllers: String,
    /// The group that this process is in.
    pub own: PathBuf,
    /// Where the tree is mounted.
    pub mount: PathBuf,
}

/// The trees of a machine that hold controllers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    pub version: Version,
    pub trees: Vec<Tree>,
}

impl Layout {
    /// What this process sees.
    ///
    /// # Errors
    /// A cause: the files cannot be read, or no tree is mounted.
    pub fn of_this_process() -> Result<Self, String> {
        let read = |path: &str| fs::read_to_string(path).map_err(|e| format!("{path}: {e}"));
        Self::read(&read("/proc/self/cgroup")?, &read("/proc/self/mountinfo")?)
    }

    /// From the text of `/proc/self/cgroup` and `/proc/self/mountinfo`.
    ///
    /// # Errors
    /// A cause: no tree is mounted where this process could make a group.
    pub fn read(groups: &str, mountinfo: &str) -> Result<Self, String> {
        let mounts: Vec<Mount> = mountinfo.lines().filter_map(Mount::read).collect();
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for line in groups.lines() {
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
            let place = mounts.iter().find_map(|mount| Some((mount.group(controllers, path)?, &mount.point)));
            let Some((own, mount)) = place else { continue };
            let tree = Tree { controllers: controllers.to_owned(), own, mount: mount.clone() };
            if controllers.is_empty() { second.push(tree) } else { first.push(tree) }
        }
        // A tree with a name only, as systemd's, controls nothing.
        let controlled = first.iter().any(|tree| !tree.controllers.starts_with("name="));
        match (controlled, second.is_empty()) {
            (true, true) => Ok(Self { version: Version::V1, trees: first }),
            (true, false) => Ok(Self { version: Version::Hybrid, trees: first }),
            (false, false) => Ok(Self { version: Version::V2, trees: second }),
            (false, true) => Err("no tree of control groups is mounted".to_owned()),
        }
    }

    /// Does a tree hold this controller? Under version 2 the files of the tree tell.
    #[must_use]
    pub fn has(&self, controller: &str) -> bool {
        self.trees.iter().any(|tree| match self.version {
            Version::V2 => words(&tree.mount.join("cgroup.controllers")).iter().any(|word| word == controller),
            Version::V1 | Version::Hybrid => tree.controllers.split(',').any(|word| word == controller),
        })
    }
}

/// A line of `/proc/self/mountinfo` that mounts a tree of groups.
struct Mount {
    /// The group that is mounted.
    root: PathBuf,
    point: PathBuf,
    /// None for version 2.
    options: Option<String>,
}

impl Mount {
    fn read(line: &str) -> Option<Self> {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let (root, point) = (unescape(left.next()?), unescape(left.next()?));
        let mut right = right.split(' ');
        let options = match right.next()? {
            "cgroup" => Some(right.nth(1)?.to_owned()),
            "cgroup2" => None,
            _ => return None,
        };
        Some(Self { root, point, options })
    }

    /// Where the group `path` of the tree with these controllers is seen, if this is its mount.
    fn group(&self, controllers: &str, path: &str) -> Option<PathBuf> {
        let matches = match &self.options {
            None => controllers.is_empty(),
            Some(options) => {
                let all = options.split(',').collect::<Vec<_>>();
                !controllers.is_empty() && controllers.split(',').all(|word| all.contains(&word))
            }
        };
        let below = Path::new(path).strip_prefix(&self.root).ok()?;
        matches.then(|| if below.as_os_str().is_empty() { self.point.clone() } else { self.point.join(below) })
    }
}

/// Spaces and the like are written as three octal digits.
fn unescape(text: &str) -> PathBuf {
    let replaced = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    PathBuf::from(replaced.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to)))
}

/// The groups of one sandbox. They go with its scratch directory.
#[derive(Debug, Clone)]
pub struct Groups {
    pub version: Version,
    limits: Limits,
    /// The controllers of a tree, and our group in it.
    made: Vec<(String, PathBuf)>,
}

impl Groups {
    /// Makes a group in every tree and sets the limits there.
    ///
    /// # Errors
    /// A cause; what was made is noted in the scratch directory and goes with it.
    pub(super) fn make(scratch: &Scratch, layout: &Layout, limits: &Limits) -> Result<Self, String> {
        let mut made = Vec::new();
        for tree in &layout.trees {
            let parent = match layout.version {
                Version::V2 => giving_parent(tree)?,
                Version::V1 | Version::Hybrid => tree.own.clone(),
            };
            let group = parent.join(scratch.group_name());
            let failed = |e: io::Error| format!("{}: {e}", group.display());
            note(scratch, &group).map_err(failed)?;
            fs::create_dir(&group).map_err(failed)?;
            if layout.version == Version::V2 {
                fs::create_dir(group.join(LEAF)).map_err(failed)?;
            } else if tree.controllers.split(',').any(|word| word == "cpuset") {
                for file in ["cpuset.cpus", "cpuset.mems"] {
                    fs::read(parent.join(file)).and_then(|value| fs::write(group.join(file), value)).map_err(failed)?;
                }
            }
            made.push((tree.controllers.clone(), group));
        }
        let groups = Self { version: layout.version, limits: *limits, made };
        groups.limit(limits)?;
        Ok(groups)
    }

    fn limit(&self, limits: &Limits) -> Result<(), String> {
        if let Some(bytes) = limits.memory_bytes {
            let (file, swap, with_swap) = match self.version {
                Version::V2 => ("memory.max", "memory.swap.max", 0),
                Version::V1 | Version::Hybrid => ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", bytes),
            };
            let group = self.of("memory")?;
            write(&group.join(file), &bytes.to_string())?;
            // Absent where the kernel does not count swap.
            if group.join(swap).exists() {
                write(&group.join(swap), &with_swap.to_string())?;
            }
        }
        if let Some(cpus) = limits.cpus {
            let quota = (cpus * f64::from(PERIOD_MICROSECONDS)).round();
            let group = self.of("cpu")?;
            if self.version == Version::V2 {
                write(&group.join("cpu.max"), &format!("{quota} {PERIOD_MICROSECONDS}"))?;
            } else {
                write(&group.join("cpu.cfs_period_us"), &PERIOD_MICROSECONDS.to_string())?;
                write(&group.join("cpu.cfs_quota_us"), &quota.to_string())?;
            }
        }
        Ok(())
    }

    fn of(&self, controller: &str) -> Result<&Path, String> {
        let found = self
            .made
            .iter()
            .find(|(controllers, _)| self.version == Version::V2 || controllers.split(',').any(|word| word == controller));
        found.map(|(_, path)| path.as_path()).ok_or_else(|| format!("no control group for {controller}"))
    }

    /// The memory limit, where there is one, in words.
    #[must_use]
    pub fn memory_limit(&self) -> Option<String> {
        self.limits.memory_bytes.map(human_bytes)
    }

    /// How many processes the kernel ended because the memory limit was reached.
    #[must_use]
    pub fn ended_for_memory(&self) -> u64 {
        let file = if self.version == Version::V2 { "memory.events" } else { "memory.oom_control" };
        let text = self.of("memory").ok().and_then(|group| fs::read_to_string(group.join(file)).ok()).unwrap_or_default();
        text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok()).unwrap_or(0)
    }

    /// How a process gets into the groups, where it sees them as this process does.
    pub(super) fn entry(&self) -> Result<Entry, String> {
        let watch = Some(self.clone());
        if self.version != Version::V2 {
            return Ok(Entry { paths: self.roots(), procs: None, watch });
        }
        let procs = self.of("")?.join(LEAF).join("cgroup.procs");
        let opened = OpenOptions::new().write(true).open(&procs).map_err(|e| format!("{}: {e}", procs.display()))?;
        Ok(Entry { paths: Vec::new(), procs: Some(opened), watch })
    }

    /// The groups that the first process enters before it opens its namespaces:
    /// what is seen from there as the root of every tree.
    pub(super) fn roots(&self) -> Vec<PathBuf> {
        self.made.iter().map(|(_, group)| group.clone()).collect()
    }

    /// Under version 2: moves whoever is in the group to its leaf, then gives
    /// the group's controllers to those below it.
    pub(super) fn settle(&self) -> Result<(), String> {
        if self.version != Version::V2 {
            return Ok(());
        }
        for (_, group) in &self.made {
            for process in words(&group.join("cgroup.procs")) {
                write(&group.join(LEAF).join("cgroup.procs"), &process)?;
            }
            let given: Vec<String> = words(&group.join("cgroup.controllers"))
                .into_iter()
                .filter(|word| HANDED_ON.contains(&word.as_str()))
                .map(|word| format!("+{word}"))
                .collect();
            write(&group.join("cgroup.subtree_control"), &given.join(" "))?;
        }
        Ok(())
    }

    /// What to mount for each tree: its controllers, and the mount's options.
    pub(super) fn mounts(&self) -> Vec<(String, String)> {
        let mount = |(controllers, _): &(String, PathBuf)| match controllers.strip_prefix("name=") {
            Some(name) => (name.to_owned(), format!("none,name={name}")),
            None => (controllers.clone(), controllers.clone()),
        };
        self.made.iter().map(mount).collect()
    }
}

/// How a process gets into the groups of its sandbox: into none by default.
#[derive(Debug, Default)]
pub(super) struct Entry {
    /// Groups as the process sees them.
    pub(super) paths: Vec<PathBuf>,
    /// Under version 2: opened outside, as whoever is in a cgroup namespace may
    /// not bring in a process from beyond it.
    pub(super) procs: Option<File>,
    /// Tells who was ended for memory.
    pub(super) watch: Option<Groups>,
}

/// The nearest group, from this process's own upwards, that gives memory, CPU
/// and process controllers to the groups below it.
fn giving_parent(tree: &Tree) -> Result<PathBuf, String> {
    let gives = |group: &&Path| {
        let given = words(&group.join("cgroup.subtree_control"));
        ["cpu", "memory", "pids"].iter().all(|wanted| given.iter().any(|word| word == wanted))
    };
    let found = tree.own.ancestors().take_while(|group| group.starts_with(&tree.mount)).find(gives);
    found.map(Path::to_owned).ok_or_else(|| {
        format!("{}: neither it nor a group above it gives cpu, memory and pids to the groups below", tree.own.display())
    })
}

fn words(file: &Path) -> Vec<String> {
    fs::read_to_string(file).unwrap_or_default().split_ascii_whitespace().map(str::to_owned).collect()
}

fn write(file: &Path, value: &str) -> Result<(), String> {
    fs::write(file, value).map_err(|e| format!("{}: {e}", file.display()))
}

fn note(scratch: &Scratch, group: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(scratch.path().join(RECORD))?;
    writeln!(file, "{}", group.display())
}

/// Removes the groups that are noted in a scratch directory, deepest first. A
/// path that is not called `name`, or no group, is not ours and stays.
pub(super) fn remove_recorded(directory: &Path, name: &str) -> Result<(), Failure> {
    let path = directory.join(RECORD);
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        text => text.map_err(|e| Failure::because(&codes::SANDBOX_FAILED, path.display(), &e))?,
    };
    for group in text.lines().map(Path::new).filter(|group| is_ours(group, name)) {
        remove(group).map_err(|e| Failure::because(&codes::SANDBOX_FAILED, group.display(), &e))?;
    }
    Ok(())
}

fn is_ours(group: &Path, name: &str) -> bool {
    let plain = group.is_absolute() && group.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    let kind = rustix::fs::statfs(group).map_or(0, |answer| u64::try_from(answer.f_type).unwrap_or(0));
    plain && group.file_name().is_some_and(|last| last == name) && GROUP_FILE_SYSTEMS.contains(&kind)
}

fn remove(group: &Path) -> io::Result<()> {
    let mut waited = Duration::ZERO;
    loop {
        match remove_once(group) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            // Somebody in it is about to end.
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && waited < REMOVAL_LIMIT => {
                std::thread::sleep(REMOVAL_PAUSE);
                waited += REMOVAL_PAUSE;
            }
            done => return done,
        }
    }
}

fn remove_once(group: &Path) -> io::Result<()> {
    for entry in fs::read_dir(group)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            match remove_once(&entry.path()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
    }
    fs::remove_dir(group)
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1_GROUPS: &str = "9:name=systemd:/\n4:memory:/jobs/one\n3:cpu,cpuacct:/\n2:net_cls:/\n0::/\n";
    const V1_MOUNTS: &str = "\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd
";
    const UNIFIED: &str = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
    const V2_MOUNTS: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n";

    fn tree(controllers: &str, own: &str, mount: &str) -> Tree {
        Tree { controllers: controllers.to_owned(), own: own.into(), mount: mount.into() }
    }

    #[test]
    fn the_trees_of_version_1_are_found_each_where_it_is_mounted() {
        let layout = Layout::read(V1_GROUPS, V1_MOUNTS).unwrap();
        assert_eq!(layout.version, Version::V1);
        let expected = [
            tree("name=systemd", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/systemd"),
            tree("memory", "/sys/fs/cgroup/memory/jobs/one", "/sys/fs/cgroup/memory"),
            tree("cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct"),
        ];
        assert_eq!(layout.trees, expected, "a tree that is not mounted is none");
        assert!(layout.has("memory") && layout.has("cpu") && !layout.has("pids"));
    }

    #[test]
    fn a_hybrid_machine_has_its_controllers_in_version_1() {
        let layout = Layout::read(V1_GROUPS, &format!("{V1_MOUNTS}{UNIFIED}")).unwrap();
        assert_eq!(layout.version, Version::Hybrid);
        assert!(layout.trees.iter().all(|tree| !tree.controllers.is_empty()));
    }

    #[test]
    fn version_2_is_one_tree() {
        let layout = Layout::read("0::/system.slice/holdfast.service\n", V2_MOUNTS).unwrap();
        assert_eq!(layout.version, Version::V2);
        assert_eq!(layout.trees, [tree("", "/sys/fs/cgroup/system.slice/holdfast.service", "/sys/fs/cgroup")]);
        // systemd's tree of names beside it controls nothing.
        let named = "5 2 0:9 / /run/systemd/names rw - cgroup cgroup rw,name=systemd\n";
        let layout = Layout::read("1:name=systemd:/\n0::/\n", &format!("{named}{V2_MOUNTS}")).unwrap();
        assert_eq!(layout.version, Version::V2);
    }

    #[test]
    fn a_mount_of_a_part_shows_the_groups_below_that_part_alone() {
        let part = "30 23 0:26 /box /mnt/with\\040space rw - cgroup2 cgroup2 rw\n";
        let layout = Layout::read("0::/box/inner\n", part).unwrap();
        assert_eq!(layout.trees, [tree("", "/mnt/with space/inner", "/mnt/with space")]);
        assert!(Layout::read("0::/elsewhere\n", part).is_err());
    }

    #[test]
    fn without_a_tree_there_is_a_cause_and_no_layout() {
        for (groups, mounts) in
            [("", ""), (V1_GROUPS, ""), ("", V1_MOUNTS), ("nonsense", "more - nonsense"), ("0::", "1 - cgroup2")]
        {
            assert!(Layout::read(groups, mounts).unwrap_err().contains("no tree"), "{groups:?}");
        }
    }

    #[test]
    fn under_version_2_a_group_is_made_below_the_nearest_that_gives_its_controllers() {
        let root = tempfile::tempdir().unwrap();
        let slice = root.path().join("system.slice");
        let own = slice.join("holdfast.service");
        fs::create_dir_all(&own).unwrap();
        let of = |own: &Path| giving_parent(&Tree { controllers: String::new(), own: own.to_owned(), mount: root.path().into() });
        fs::write(root.path().join("cgroup.subtree_control"), "cpu\n").unwrap();
        assert!(of(&own).unwrap_err().contains("holdfast.service"));
        fs::write(root.path().join("cgroup.subtree_control"), "cpuset cpu io memory pids\n").unwrap();
        assert_eq!(of(&own).unwrap(), root.path());
        fs::write(slice.join("cgroup.subtree_control"), "cpu memory pids\n").unwrap();
        assert_eq!(of(&own).unwrap(), slice);
    }

    #[test]
    fn limits_are_written_in_the_words_of_each_version() {
        let root = tempfile::tempdir().unwrap();
        let group = |name: &str| {
            let path = root.path().join(name);
            fs::create_dir(&path).unwrap();
            path
        };
        let limits = Limits { memory_bytes: Some(64 << 20), cpus: Some(1.5) };
        let read = |path: PathBuf| fs::read_to_string(path).unwrap();
        let one = group("one");
        fs::write(one.join("memory.swap.max"), "max").unwrap();
        let groups = Groups { version: Version::V2, limits, made: vec![(String::new(), one.clone())] };
        groups.limit(&limits).unwrap();
        assert_eq!(read(one.join("memory.max")), "67108864");
        assert_eq!(read(one.join("memory.swap.max")), "0");
        assert_eq!(read(one.join("cpu.max")), "150000 100000");
        fs::write(one.join("memory.events"), "low 0\noom 3\noom_kill 2\n").unwrap();
        assert_eq!(groups.ended_for_memory(), 2);

        let (cpu, memory) = (group("cpu"), group("memory"));
        let made = vec![("cpu,cpuacct".to_owned(), cpu.clone()), ("memory".to_owned(), memory.clone())];
        let groups = Groups { version: Version::V1, limits, made };
        groups.limit(&limits).unwrap();
        assert_eq!(read(memory.join("memory.limit_in_bytes")), "67108864");
        assert_eq!((read(cpu.join("cpu.cfs_quota_us")), read(cpu.join("cpu.cfs_period_us"))), ("150000".into(), "100000".into()));
        assert_eq!(groups.ended_for_memory(), 0, "a kernel that does not count");
        let none = Groups { version: Version::V1, limits, made: Vec::new() };
        assert!(none.limit(&limits).unwrap_err().contains("memory"));
        none.limit(&Limits::default()).unwrap();
    }

    #[test]
    fn nothing_but_a_group_of_the_run_s_own_name_is_ours() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("name")).unwrap();
        assert!(!is_ours(&root.path().join("name"), "name"), "a directory that is no group");
        assert!(!is_ours(Path::new("name"), "name"));
        fs::write(root.path().join(RECORD), format!("{}\n/\n\nname\n", root.path().join("name").display())).unwrap();
        remove_recorded(root.path(), "name").unwrap();
        assert!(root.path().join("name").is_dir());
    }
}
