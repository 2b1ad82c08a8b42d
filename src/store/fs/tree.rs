//! The tree of directories below a store's root, walked one name at a time
//! from an open directory, so that no symbolic link leads out of it.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::Trouble;
use crate::store::{ErrorKind, Key, Listed, Prefix};

/// Directories are for the user who runs holdfast, whatever the umask says.
const DIRECTORY_MODE: Mode = Mode::RWXU;

/// More objects than a century of hourly snapshots makes; a listing is held in memory.
const MOST_LISTED: usize = 5_000_000;

/// A store's root, open.
#[derive(Debug)]
pub(super) struct Root {
    directory: OwnedFd,
}

/// The open directories from the root to an object, and its last name.
#[derive(Debug)]
pub(super) struct Way {
    root: OwnedFd,
    inner: Vec<OwnedFd>,
    pub name: String,
}

impl Root {
    /// An absent root is a store that does not answer: it is never made.
    pub fn open(path: &Path) -> Result<Self, Trouble> {
        // The root itself may be a link: the operator chose it. A directory open
        // as a path needs no read permission.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| match errno {
            Errno::NOENT => Trouble::new(ErrorKind::Transient, "the directory is not there; is the file system mounted?"),
            other => other.into(),
        })?;
        Ok(Self { directory })
    }

    pub fn directory(&self) -> &OwnedFd {
        &self.directory
    }

    /// Refuses a body that cannot fit.
    pub fn check_room(&self, bytes: u64) -> Result<(), Trouble> {
        let Ok(file_system) = rustix::fs::fstatvfs(&self.directory) else { return Ok(()) };
        if file_system.f_bavail.saturating_mul(file_system.f_frsize) < bytes {
            return Err(Trouble::new(ErrorKind::Full, format!("{bytes} bytes do not fit")));
        }
        Ok(())
    }

    /// Opens an object for reading.
    pub fn open_object(&self, key: &Key) -> Result<File, Trouble> {
        let (above, name) = parent(key);
        let Some(directory) = self.directory_below(above)? else { return Err(Errno::NOENT.into()) };
        // NONBLOCK: a FIFO under an object's name must not hold this thread.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&directory, name, flags, Mode::empty()).map_err(|errno| match errno {
            Errno::LOOP => symbolic_link(),
            other => other.into(),
        })?;
        match FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) {
            FileType::RegularFile => Ok(file.into()),
            FileType::Directory => Err(Errno::NOENT.into()),
            _ => Err(Trouble::new(ErrorKind::Broken, "not a regular file")),
        }
    }

    /// The way to an object that is to be made, its directories made.
    pub fn make_way(&self, key: &Key) -> Result<Way, Trouble> {
        let (above, name) = parent(key);
        let mut way = Way { root: self.directory.try_clone()?, inner: Vec::new(), name: name.to_owned() };
        for name in names(above) {
            let outer = way.innermost();
            let inner = match step(outer, name) {
                Err(Step::Absent) => {
                    match rustix::fs::mkdirat(outer, name, DIRECTORY_MODE) {
                        // Another put made it at the same time.
                        Ok(()) | Err(Errno::EXIST) => step(outer, name)?,
                        Err(errno) => return Err(errno.into()),
                    }
                }
                other => other?,
            };
            way.inner.push(inner);
        }
        Ok(way)
    }

    /// All objects below `prefix`. Hidden files, and files whose name no object
    /// can have, are not objects.
    pub fn list(&self, prefix: &Prefix) -> Result<Vec<Listed>, Trouble> {
        let mut listed = Vec::new();
        let mut pending = vec![prefix.clone()];
        while let Some(below) = pending.pop() {
            // One directory is open at a time, however wide the tree is.
            let Some(directory) = self.directory_below(below.as_str())? else { continue };
            for (name, kind) in entries(&directory)? {
                let Ok(key) = below.key(&name) else { continue };
                match kind {
                    FileType::Directory => pending.push(Prefix::below(&key)),
                    FileType::RegularFile => listed.extend(size(&directory, &name)?.map(|bytes| Listed { key, bytes })),
                    _ => {}
                }
                if listed.len() + pending.len() > MOST_LISTED {
                    return Err(Trouble::new(ErrorKind::Broken, format!("more than {MOST_LISTED} objects")));
                }
            }
        }
        listed.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(listed)
    }

    /// None where there is no such directory: nothing lies below such a name.
    fn directory_below(&self, path: &str) -> Result<Option<OwnedFd>, Trouble> {
        let mut directory = self.directory.try_clone()?;
        for name in names(path) {
            directory = match step(&directory, name) {
                Ok(directory) => directory,
                Err(Step::Absent | Step::NotDirectory) => return Ok(None),
                Err(other) => return Err(other.into()),
            };
        }
        Ok(Some(directory))
    }
}

impl Way {
    /// The directory in which the object lies.
    pub fn innermost(&self) -> &OwnedFd {
        self.inner.last().unwrap_or(&self.root)
    }

    /// All directories, the innermost first.
    pub fn inside_out(&self) -> impl Iterator<Item = &OwnedFd> {
        self.inner.iter().rev().chain([&self.root])
    }
}

/// What stands before an object's last name, and that name.
fn parent(key: &Key) -> (&str, &str) {
    key.as_str().rsplit_once('/').unwrap_or(("", key.as_str()))
}

fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|name| !name.is_empty())
}

/// Why one step down the tree was not taken.
#[derive(Debug)]
enum Step {
    Absent,
    NotDirectory,
    Link,
    Failed(Errno),
}

impl From<Step> for Trouble {
    fn from(step: Step) -> Self {
        match step {
            Step::Absent => Errno::NOENT.into(),
            Step::NotDirectory => Self::new(ErrorKind::Broken, "a file lies where a directory must be"),
            Step::Link => symbolic_link(),
            Step::Failed(errno) => errno.into(),
        }
    }
}

fn symbolic_link() -> Trouble {
    Trouble::new(ErrorKind::Broken, "a symbolic link below the root; links are not followed")
}

/// Opens the directory `name` in `parent`, and nothing else that has this name.
fn step(parent: &OwnedFd, name: &str) -> Result<OwnedFd, Step> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = rustix::fs::openat(parent, name, flags, Mode::empty()).map_err(|errno| match errno {
        Errno::NOENT => Step::Absent,
        other => Step::Failed(other),
    })?;
    match FileType::from_raw_mode(rustix::fs::fstat(&found).map_err(Step::Failed)?.st_mode) {
        FileType::Directory => Ok(found),
        FileType::Symlink => Err(Step::Link),
        _ => Err(Step::NotDirectory),
    }
}

/// The names in a directory that can be part of an object's name, with what they are.
pub(super) fn entries(directory: &OwnedFd) -> Result<Vec<(String, FileType)>, Trouble> {
    let readable = open_for_reading(directory)?;
    let mut entries = Vec::new();
    for entry in Dir::new(readable)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        let kind = match entry.file_type() {
            // Some file systems do not tell; `.` and `..` are of no interest.
            FileType::Unknown => match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(errno.into()),
            },
            kind => kind,
        };
        entries.push((name.to_owned(), kind));
        if entries.len() > MOST_LISTED {
            return Err(Trouble::new(ErrorKind::Broken, format!("more than {MOST_LISTED} names in one directory")));
        }
    }
    Ok(entries)
}

/// A directory that was opened as a path, opened again for reading it.
pub(super) fn open_for_reading(directory: &OwnedFd) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(directory, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// None when the file is gone.
fn size(directory: &OwnedFd, name: &str) -> Result<Option<u64>, Trouble> {
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(u64::try_from(stat.st_size).ok()),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}
