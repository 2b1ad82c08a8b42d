//! The directory of one run, and what killed runs left in theirs.
//!
//! A directory's name ends in the identity of the process that owns it, so one
//! atomic `mkdir` says who lives there. Each child is recorded in it before it
//! can do anything worth ending. What a dead owner left is ended and removed by
//! the next run, and named.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::cgroup;
use super::identity::{ProcessIdentity, boot_id};
use crate::base::codes;
use crate::base::digest::Sha256;
use crate::base::failure::Failure;

/// Where memory file systems are found on every Linux.
const MEMORY: &str = "/dev/shm";
/// `f_type` of tmpfs and ramfs: what is written there never reaches a disk by itself.
const MEMORY_FILE_SYSTEMS: [u64; 2] = [0x0102_1994, 0x8584_58f6];
/// Marks our directories; nothing else below a scratch root is ever touched.
const MARK: &str = "holdfast-run-";
const PROCESSES: &str = "processes";
/// Far more than a run starts; bounds what a damaged file can cost.
const MAX_RECORDED: usize = 1_000;

/// A directory of mode 0700 for one run.
#[derive(Debug)]
pub struct Scratch {
    /// Without symbolic links: the shared memory's name is made from it.
    path: PathBuf,
    owner: ProcessIdentity,
}

/// What a run that was killed had left, removed by now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    pub directory: PathBuf,
    /// Programs that were still running.
    pub ended: Vec<String>,
}

impl Scratch {
    /// # Errors
    /// `sandbox.failed`; nothing is left behind.
    pub fn create(root: &Path, name: &str) -> Result<Self, Failure> {
        let owner = ProcessIdentity::own()
            .ok_or_else(|| Failure::new(&codes::SANDBOX_FAILED, "/proc", "does not tell this process's start time"))?;
        private_directory(root, true).map_err(|e| unusable(root, &e))?;
        let root = fs::canonicalize(root).map_err(|e| unusable(root, &e))?;
        let scratch = Self { path: root.join(format!("{MARK}{name}-{owner}")), owner };
        private_directory(&scratch.path, false).map_err(|e| unusable(&scratch.path, &e))?;
        for below in ["logs", "private", "tmp"] {
            let path = scratch.path.join(below);
            private_directory(&path, false).map_err(|e| {
                let _ = fs::remove_dir_all(&scratch.path);
                unusable(&path, &e)
            })?;
        }
        Ok(scratch)
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file in the directory of logs.
    #[must_use]
    pub fn log(&self, name: &str) -> PathBuf {
        self.path.join("logs").join(format!("{name}.log"))
    }

    /// The mount point for a memory file system of the fence's own.
    #[must_use]
    pub(super) fn mount_point(&self) -> PathBuf {
        self.path.join("private")
    }

    /// The directory for private files where there is no fence to hold them; it
    /// appears with the first of them. Its name tells the owner, too.
    #[must_use]
    pub fn shared_memory(&self) -> PathBuf {
        Path::new(MEMORY).join(self.short_name())
    }

    /// What this run's control groups are called, in every tree.
    pub(super) fn group_name(&self) -> String {
        self.short_name()
    }

    /// Tells the owner, and this directory from others of the same owner.
    fn short_name(&self) -> String {
        let path = Sha256::of(self.path.as_os_str().as_encoded_bytes()).to_string();
        format!("{MARK}{}-{}", &path[..16], self.owner)
    }

    /// Makes [`Self::shared_memory`] where it is missing, refusing a file system
    /// that is not memory.
    pub(super) fn create_shared_memory(&self) -> Result<(), Failure> {
        let failed = |e: &io::Error| Failure::because(&codes::SANDBOX_FAILED, MEMORY, e);
        let kind = rustix::fs::statfs(MEMORY).map_err(|e| failed(&e.into()))?.f_type;
        if !MEMORY_FILE_SYSTEMS.contains(&u64::try_from(kind).unwrap_or(0)) {
            return Err(Failure::new(&codes::SANDBOX_FAILED, MEMORY, "not a memory file system: keys would reach a disk")
                .next("mount a tmpfs at /dev/shm, or run as root, where the fence brings its own"));
        }
        let path = self.shared_memory();
        match private_directory(&path, false) {
            // Everybody may make directories there, and the name is no secret.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => is_private(&path).map_err(|e| failed(&e)),
            made => made.map_err(|e| failed(&e)),
        }
    }

    /// Notes a child, so that a later run can end it if this one is killed.
    pub(super) fn record(&self, process: ProcessIdentity, program: &str) -> io::Result<()> {
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(self.path.join(PROCESSES))?;
        writeln!(file, "{} {process} {program}", boot_id())
    }

    /// Kills all recorded children that still run; gives their programs.
    pub(super) fn end_processes(&self) -> Result<Vec<String>, Failure> {
        end_recorded(&self.path)
    }

    /// Removes the directory, its control groups and its part of the shared memory.
    ///
    /// # Errors
    /// `sandbox.failed` names the path; the next sweep tries again.
    pub fn remove(self) -> Result<(), Failure> {
        cgroup::remove_recorded(&self.path, &self.group_name())?;
        remove_tree(&self.shared_memory())?;
        remove_tree(&self.path)
    }
}

/// A directory of ours below a scratch root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inhabited {
    pub path: PathBuf,
    /// What its maker called it.
    pub name: String,
    pub owner: ProcessIdentity,
    /// Does its owner live?
    pub is_alive: bool,
    /// Children that were started in it.
    pub processes: Vec<Recorded>,
}

/// A child as its owner noted it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    pub program: String,
    pub identity: ProcessIdentity,
}

/// All directories of ours below `root`, whether their owners live or not.
/// What somebody else made is not ours, whatever it is called.
///
/// # Errors
/// `sandbox.failed` when the root cannot be read.
pub fn inhabited(root: &Path) -> Result<Vec<Inhabited>, Failure> {
    let failed = |e: io::Error| unusable(root, &e);
    let root = match fs::canonicalize(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        path => path.map_err(failed)?,
    };
    let own = rustix::process::geteuid().as_raw();
    let mut found = Vec::new();
    for entry in fs::read_dir(&root).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let Some(owner) = owner_in(&name) else { continue };
        if !entry.metadata().is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == own) {
            continue;
        }
        let processes = recorded(&entry.path())?;
        let name = name.strip_prefix(MARK).and_then(|name| name.strip_suffix(&format!("-{owner}"))).unwrap_or(&name).to_owned();
        let is_alive = lives(&entry.path(), owner);
        found.push(Inhabited { path: entry.path(), name, owner, is_alive, processes });
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

impl Inhabited {
    /// Ends what a dead owner left running and removes the directory and its
    /// memory; gives the programs that were ended.
    ///
    /// # Errors
    /// `sandbox.failed` names what could not be removed, or that the owner lives.
    pub fn remove(self) -> Result<Vec<String>, Failure> {
        if lives(&self.path, self.owner) {
            return Err(Failure::new(&codes::SANDBOX_FAILED, self.path.display(), "its owner lives"));
        }
        let scratch = Scratch { path: self.path, owner: self.owner };
        let ended = scratch.end_processes()?;
        scratch.remove()?;
        Ok(ended)
    }
}

/// Ends and removes what runs below `root` left when they were killed, and says
/// what that was. Directories of living runs, and whatever is not ours, stay.
///
/// # Errors
/// `sandbox.failed` names the first path that could not be read or removed.
pub fn sweep(root: &Path) -> Result<Vec<Leftover>, Failure> {
    let mut leftovers = sweep_directories(root)?;
    leftovers.extend(sweep_memory()?);
    leftovers.sort_by(|a, b| a.directory.cmp(&b.directory));
    Ok(leftovers)
}

fn sweep_directories(root: &Path) -> Result<Vec<Leftover>, Failure> {
    let failed = |e: io::Error| unusable(root, &e);
    let root = match fs::canonicalize(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        path => path.map_err(failed)?,
    };
    let entries = fs::read_dir(&root).map_err(failed)?;
    let mut leftovers = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let Some(owner) = owner_in(&name) else { continue };
        if lives(&entry.path(), owner) {
            continue;
        }
        let scratch = Scratch { path: entry.path(), owner };
        let ended = scratch.end_processes()?;
        let directory = scratch.path.clone();
        scratch.remove()?;
        leftovers.push(Leftover { directory, ended });
    }
    Ok(leftovers)
}

/// Removes memory of dead runs whose directory is gone already.
fn sweep_memory() -> Result<Vec<Leftover>, Failure> {
    let own = rustix::process::geteuid().as_raw();
    let mut leftovers = Vec::new();
    for entry in fs::read_dir(MEMORY).into_iter().flatten().flatten() {
        let dead = entry.file_name().to_str().and_then(owner_in).is_some_and(|owner| !owner.is_alive());
        // Somebody else's memory is somebody else's to sweep.
        if dead && entry.metadata().is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == own) {
            remove_tree(&entry.path())?;
            leftovers.push(Leftover { directory: entry.path(), ended: Vec::new() });
        }
    }
    Ok(leftovers)
}

/// Writes a new file of mode 0600; an existing name is an error.
pub(super) fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    new_file(path)?.write_all(content)
}

/// Opens a new file of mode 0600 for writing.
pub(super) fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// `holdfast-run-NAME-PID-START`.
fn owner_in(name: &str) -> Option<ProcessIdentity> {
    let rest = name.strip_prefix(MARK)?;
    let (rest, start) = rest.rsplit_once('-')?;
    let (_, pid) = rest.rsplit_once('-')?;
    format!("{pid}-{start}").parse().ok()
}

/// Does the owner of a directory live? After a restart of the machine another
/// process can have its pid and start time: what was noted in another boot tells.
fn lives(directory: &Path, owner: ProcessIdentity) -> bool {
    let noted = fs::read_to_string(directory.join(PROCESSES)).unwrap_or_default();
    let boot = boot_id();
    owner.is_alive() && (noted.is_empty() || boot.is_empty() || noted.lines().any(|line| line.starts_with(&boot)))
}

fn end_recorded(directory: &Path) -> Result<Vec<String>, Failure> {
    Ok(recorded(directory)?.into_iter().filter(|child| child.identity.kill()).map(|child| child.program).collect())
}

/// The children of this boot that were started in a directory; those of an
/// earlier one are gone.
fn recorded(directory: &Path) -> Result<Vec<Recorded>, Failure> {
    let path = directory.join(PROCESSES);
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text.map_err(|e| Failure::because(&codes::SANDBOX_FAILED, path.display(), &e))?,
    };
    let boot = boot_id();
    let child = |line: &str| {
        // A line cut short by a crash names nobody.
        let mut words = line.splitn(3, ' ');
        let (in_boot, identity, program) = (words.next()?, words.next()?.parse().ok()?, words.next()?.to_owned());
        (!boot.is_empty() && in_boot == boot).then_some(Recorded { program, identity })
    };
    Ok(text.lines().take(MAX_RECORDED).filter_map(child).collect())
}

/// The scratch root, or what is made in it, refuses: no matter of namespaces.
fn unusable(path: &Path, error: &io::Error) -> Failure {
    Failure::because(&codes::SANDBOX_FAILED, path.display(), error)
        .next("check that rehearsal.scratch_dir is a directory that this user can write to, with free space")
}

fn private_directory(path: &Path, parents: bool) -> io::Result<()> {
    DirBuilder::new().mode(0o700).recursive(parents).create(path)
}

/// A directory of our own that nobody else enters, and no link to one.
fn is_private(path: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    let own = metadata.uid() == rustix::process::geteuid().as_raw();
    if metadata.is_dir() && own && metadata.mode() & 0o077 == 0 {
        return Ok(());
    }
    Err(io::Error::other(format!("{} was made by somebody else", path.display())))
}

fn remove_tree(path: &Path) -> Result<(), Failure> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Failure::because(&codes::SANDBOX_FAILED, path.display(), &error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_read_from_a_name_and_from_no_other() {
        assert_eq!(owner_in("holdfast-run-20261201T130509Z-0badcafe-12-345"), Some(ProcessIdentity { pid: 12, start: 345 }));
        for name in ["holdfast-run-", "holdfast-run-12-345", "other-x-12-345", "holdfast-run-x-y-12", "holdfast-run-x--1"] {
            assert_eq!(owner_in(name), None, "{name}");
        }
    }

    #[test]
    fn a_sweep_takes_the_dead_and_leaves_the_living_and_the_foreign() {
        let root = tempfile::tempdir().unwrap();
        let living = Scratch::create(root.path(), "living").unwrap();
        let dead = root.path().join("holdfast-run-dead-1-1");
        fs::create_dir_all(dead.join("private")).unwrap();
        fs::write(dead.join(PROCESSES), "another-boot 1-1 init\nnonsense\n").unwrap();
        fs::write(root.path().join("somebody-elses"), "x").unwrap();
        // As if the machine had started anew since, and this pid had come back.
        let owner = living.owner;
        let before = root.path().join(format!("holdfast-run-before-{owner}"));
        fs::create_dir(&before).unwrap();
        fs::write(before.join(PROCESSES), format!("another-boot {owner} etcd\n")).unwrap();
        let found = inhabited(root.path()).unwrap();
        let names: Vec<_> = found.iter().map(|found| (found.name.as_str(), found.is_alive)).collect();
        assert_eq!(names, [("before", false), ("dead", false), ("living", true)]);
        assert!(found.into_iter().all(|found| found.processes.is_empty() && (!found.is_alive || found.remove().is_err())));

        let swept = sweep_directories(root.path()).unwrap();
        let leftover = |directory: &PathBuf| Leftover { directory: directory.clone(), ended: vec![] };
        assert_eq!(swept.len(), 2);
        assert!(swept.contains(&leftover(&dead)) && swept.contains(&leftover(&before)), "{swept:?}");
        assert!(!dead.exists() && living.path().exists() && root.path().join("somebody-elses").exists());
        living.remove().unwrap();
    }

    #[test]
    fn key_files_go_to_no_directory_that_others_can_enter() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let root = tempfile::tempdir().unwrap();
        let scratch = Scratch::create(root.path(), "planted").unwrap();
        let memory = scratch.shared_memory();
        fs::create_dir(&memory).unwrap();
        fs::set_permissions(&memory, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(scratch.create_shared_memory().unwrap_err().code(), &codes::SANDBOX_FAILED);
        fs::remove_dir(&memory).unwrap();
        symlink(root.path(), &memory).unwrap();
        assert!(scratch.create_shared_memory().is_err(), "a link to a private directory");
        fs::remove_file(&memory).unwrap();
        scratch.create_shared_memory().unwrap();
        scratch.create_shared_memory().unwrap();
        scratch.remove().unwrap();
    }

    #[test]
    fn a_root_that_cannot_hold_a_run_is_named_with_its_setting() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        fs::write(&file, "x").unwrap();
        let below = file.join("below");
        let failures = [
            Scratch::create(&file, "run").unwrap_err(),
            Scratch::create(&below, "run").unwrap_err(),
            sweep_directories(&file).unwrap_err(),
            sweep_directories(&below).unwrap_err(),
        ];
        for failure in failures {
            assert_eq!(failure.code(), &codes::SANDBOX_FAILED);
            assert!(failure.object().starts_with(file.to_str().unwrap()), "{failure:?}");
            assert!(failure.next_action().contains("rehearsal.scratch_dir"), "{failure:?}");
        }
        assert_eq!(fs::read(&file).unwrap(), b"x", "it is left alone");
    }

    #[test]
    fn a_sweep_of_nothing_finds_nothing() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(sweep_directories(&root.path().join("absent")).unwrap(), []);
    }
}
