//! The place of a data directory: looked at before anything is written, and
//! filled at one stroke.
//!
//! What is written lies beside the target, or inside it where it is there and
//! empty, under a name that tells whose it is; it takes its place by one
//! rename. Until then the target is as it was.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, RenameFlags};

use crate::base::codes;
use crate::base::failure::Failure;
use crate::base::units::human_bytes;
use crate::sandbox::identity::ProcessIdentity;

/// What a restore of ours is called while it is written.
const MARK: &str = ".holdfast-";
/// mkfs puts it into every new ext4.
const NEW_DISK: &str = "lost+found";
/// What is named of a filled directory.
const NAMED: usize = 3;

/// A place that may be filled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Absolute, without symbolic links.
    pub path: PathBuf,
    /// The directory is there, and empty: its owner is that of what goes in. Else its parent is there.
    pub is_there: bool,
    /// What killed restores of ours left here.
    pub leftovers: Vec<PathBuf>,
}

/// A data directory that is being written. Dropping it removes it.
#[derive(Debug)]
pub struct Draft<'t> {
    target: &'t Target,
    /// Of mode 0700; what goes to the target lies in it.
    folder: PathBuf,
}

impl Target {
    /// Looks at a place; nothing is changed.
    ///
    /// # Errors
    /// `restore.target` with what is wrong with it.
    pub fn look(path: &Path) -> Result<Self, Failure> {
        let unfit = |cause: &dyn std::fmt::Display| Failure::new(&codes::RESTORE_TARGET, path.display(), cause);
        let metadata = match fs::symlink_metadata(path) {
            Ok(_) => Some(fs::metadata(path).map_err(|e| unfit(&format!("its link leads nowhere: {e}")))?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(unfit(&error)),
        };
        match metadata {
            Some(metadata) if !metadata.is_dir() => Err(unfit(&"it is there, and no directory")),
            Some(_) => Self::existing(fs::canonicalize(path).map_err(|e| unfit(&e))?),
            None => Self::absent(path),
        }
    }

    fn existing(path: PathBuf) -> Result<Self, Failure> {
        let unfit = |cause: &dyn std::fmt::Display| Failure::new(&codes::RESTORE_TARGET, path.display(), cause);
        let (mut others, mut leftovers) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(&path).map_err(|e| unfit(&e))? {
            let entry = entry.map_err(|e| unfit(&e))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            match owner_of(&name, MARK) {
                Some(owner) if owner.is_alive() => return Err(unfit(&format!("process {} is writing into it", owner.pid))),
                Some(_) => leftovers.push(entry.path()),
                None if name == NEW_DISK => {}
                None => others.push(name),
            }
        }
        if others.iter().any(|name| name == "member") {
            return Err(unfit(&"it holds a data directory of etcd").next("stop etcd and move it away, or name another place"));
        }
        if !others.is_empty() {
            others.sort();
            let (named, more) = (others[..others.len().min(NAMED)].join(", "), others.len() > NAMED);
            return Err(unfit(&format!("it is not empty: {named}{}", if more { ", …" } else { "" })));
        }
        writable(&path)?;
        Ok(Self { path, is_there: true, leftovers })
    }

    fn absent(path: &Path) -> Result<Self, Failure> {
        let unfit = |cause: &dyn std::fmt::Display| Failure::new(&codes::RESTORE_TARGET, path.display(), cause);
        let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(|| unfit(&"it has no name"))?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let parent = fs::canonicalize(parent).map_err(|e| unfit(&format!("its parent {}: {e}", parent.display())))?;
        if !parent.is_dir() {
            return Err(unfit(&format!("its parent {} is no directory", parent.display())));
        }
        writable(&parent)?;
        let mark = format!(".{name}{MARK}");
        let mut leftovers = Vec::new();
        for entry in fs::read_dir(&parent).map_err(|e| unfit(&e))?.flatten() {
            match owner_of(&entry.file_name().to_string_lossy(), &mark) {
                Some(owner) if owner.is_alive() => return Err(unfit(&format!("process {} is writing it", owner.pid))),
                Some(_) => leftovers.push(entry.path()),
                None => {}
            }
        }
        Ok(Self { path: parent.join(name), is_there: false, leftovers })
    }

    /// Bytes free for what goes in.
    ///
    /// # Errors
    /// `restore.target` when they are fewer than `needed`, or nobody tells.
    pub fn require_room(&self, needed: u64) -> Result<u64, Failure> {
        let unfit = |cause: String| Failure::new(&codes::RESTORE_TARGET, self.path.display(), cause);
        let place = if self.is_there { Some(self.path.as_path()) } else { self.path.parent() };
        let disk = rustix::fs::statvfs(place.unwrap_or(&self.path)).map_err(|e| unfit(e.to_string()))?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if free >= needed {
            return Ok(free);
        }
        Err(unfit(format!("{} are free there, and {} are needed", human_bytes(free), human_bytes(needed))))
    }

    /// Makes room to write in, after another look: the place may have changed.
    /// What killed restores left is removed.
    ///
    /// # Errors
    /// `restore.target`; the place is as it was.
    pub fn begin(&self) -> Result<Draft<'_>, Failure> {
        let now = Self::look(&self.path)?;
        let failed = |path: &Path, e: &io::Error| Failure::because(&codes::RESTORE_TARGET, path.display(), e);
        if now.is_there != self.is_there {
            return Err(Failure::new(&codes::RESTORE_TARGET, self.path.display(), "it came or went since the plan was made"));
        }
        for leftover in &now.leftovers {
            fs::remove_dir_all(leftover).map_err(|e| failed(leftover, &e))?;
        }
        let owner = ProcessIdentity::own()
            .ok_or_else(|| Failure::new(&codes::SANDBOX_FAILED, "/proc", "does not tell this process's start time"))?;
        let folder = match (self.is_there, self.path.parent(), self.path.file_name()) {
            (false, Some(parent), Some(name)) => parent.join(format!(".{}{MARK}{owner}", name.to_string_lossy())),
            _ => self.path.join(format!("{MARK}{owner}")),
        };
        DirBuilder::new().mode(0o700).create(&folder).map_err(|e| failed(&folder, &e))?;
        Ok(Draft { target: self, folder })
    }
}

impl Draft<'_> {
    /// Where the data directory is written; it is not there yet.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Puts it in its place, on the disk with all that is in it.
    ///
    /// # Errors
    /// `restore.target`; then the place is as it was.
    pub fn appear(self) -> Result<(), Failure> {
        let failed = |e: io::Error| Failure::because(&codes::RESTORE_TARGET, self.target.path.display(), &e);
        let data = self.data();
        let owner = self.target.is_there.then(|| fs::metadata(&self.target.path)).transpose().map_err(failed)?;
        settle(&data, owner.map(|metadata| (metadata.uid(), metadata.gid()))).map_err(failed)?;
        let (from, to) = match self.target.is_there {
            true => (data.join("member"), self.target.path.join("member")),
            false => (data, self.target.path.clone()),
        };
        // Refused where something has taken the place meanwhile. Some network file
        // systems do not know the flag; there at most an empty directory is replaced.
        match rustix::fs::renameat_with(CWD, &from, CWD, &to, RenameFlags::NOREPLACE) {
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => fs::rename(&from, &to).map_err(failed)?,
            renamed => renamed.map_err(|e| failed(e.into()))?,
        }
        let holder = to.parent().unwrap_or(Path::new("/"));
        File::open(holder).and_then(|holder| holder.sync_all()).map_err(failed)
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        // A restore that failed has an error of its own to report; the next one removes what is left.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Everything below a directory on the disk, with the owner that it is to have.
fn settle(path: &Path, owner: Option<(u32, u32)>) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            settle(&entry.path(), owner)?;
        } else {
            give(&entry.path(), owner)?;
            File::open(entry.path())?.sync_all()?;
        }
    }
    give(path, owner)?;
    File::open(path)?.sync_all()
}

fn give(path: &Path, owner: Option<(u32, u32)>) -> io::Result<()> {
    let Some((user, group)) = owner else { return Ok(()) };
    std::os::unix::fs::lchown(path, Some(user), Some(group))
}

fn writable(directory: &Path) -> Result<(), Failure> {
    rustix::fs::accessat(CWD, directory, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)
        .map_err(|e| Failure::new(&codes::RESTORE_TARGET, directory.display(), format!("it cannot be written to: {e}")))
}

/// Whose draft a name is, if it is one.
fn owner_of(name: &str, mark: &str) -> Option<ProcessIdentity> {
    name.strip_prefix(mark)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(result: Result<Target, Failure>) -> String {
        let failure = result.unwrap_err();
        assert_eq!(failure.code(), &codes::RESTORE_TARGET);
        failure.cause().to_owned()
    }

    fn entries(path: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(path).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn only_what_is_absent_or_empty_may_be_filled() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::write(at("file"), "x").unwrap();
        fs::create_dir_all(at("filled/other")).unwrap();
        fs::create_dir_all(at("etcd/member/wal")).unwrap();
        fs::create_dir_all(at("new-disk/lost+found")).unwrap();
        std::os::unix::fs::symlink(at("nowhere"), at("link")).unwrap();
        assert!(code(Target::look(&at("file"))).contains("no directory"));
        assert!(code(Target::look(&at("filled"))).contains("not empty: other"));
        assert!(code(Target::look(&at("etcd"))).contains("holds a data directory"));
        assert!(code(Target::look(&at("link"))).contains("leads nowhere"));
        assert!(code(Target::look(&at("absent/below"))).contains("its parent"));
        assert!(code(Target::look(&at("file/below"))).contains("file/below") || root.path().exists());
        assert!(Target::look(&at("new-disk")).unwrap().is_there);
        assert!(!Target::look(&at("absent")).unwrap().is_there);
        assert!(code(Target::look(&at("absent")).unwrap().require_room(u64::MAX).map(|_| unreachable!())).contains("are needed"));
    }

    #[test]
    fn a_draft_appears_whole_or_leaves_no_trace() {
        for is_there in [false, true] {
            let root = tempfile::tempdir().unwrap();
            let path = root.path().join("etcd");
            if is_there {
                fs::create_dir(&path).unwrap();
            }
            let before = entries(root.path());
            let target = Target::look(&path).unwrap();
            let draft = target.begin().unwrap();
            fs::create_dir_all(draft.data().join("member/snap")).unwrap();
            assert!(Target::look(&path).unwrap_err().cause().contains("is writing"), "two at once");
            drop(draft);
            assert_eq!(entries(root.path()), before);
            let draft = target.begin().unwrap();
            fs::create_dir_all(draft.data().join("member/snap")).unwrap();
            fs::write(draft.data().join("member/snap/db"), "data").unwrap();
            draft.appear().unwrap();
            assert_eq!(fs::read(path.join("member/snap/db")).unwrap(), b"data");
            assert_eq!((entries(root.path()), entries(&path)), (vec!["etcd".into()], vec!["member".to_owned()]));
        }
    }

    #[test]
    fn a_place_that_was_taken_meanwhile_is_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("etcd");
        let target = Target::look(&path).unwrap();
        let draft = target.begin().unwrap();
        fs::create_dir_all(draft.data().join("member")).unwrap();
        fs::create_dir(&path).unwrap();
        fs::write(path.join("theirs"), "x").unwrap();
        assert_eq!(draft.appear().unwrap_err().code(), &codes::RESTORE_TARGET);
        assert_eq!((entries(root.path()), entries(&path)), (vec!["etcd".into()], vec!["theirs".to_owned()]));
        assert!(target.begin().is_err(), "and the plan no longer holds");
    }

    #[test]
    fn what_a_killed_restore_left_is_removed_by_the_next() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("etcd");
        fs::create_dir_all(root.path().join(".etcd.holdfast-1-1/data/member")).unwrap();
        fs::create_dir_all(root.path().join(".other.holdfast-1-1")).unwrap();
        let target = Target::look(&path).unwrap();
        assert_eq!(target.leftovers.len(), 1);
        drop(target.begin().unwrap());
        assert_eq!(entries(root.path()), [".other.holdfast-1-1"]);
    }
}
