//! A hidden file in the root that becomes an object, or vanishes.
//!
//! Its writer holds a lock on it for as long as it lives. A temporary that
//! nobody holds belongs to a process that is gone, and any later put removes it.

use std::fs::File;
use std::io::Write;
use std::sync::PoisonError;

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::tree::{Root, Way, entries, open_for_reading};
use super::{Dropped, Trouble};
use crate::base::digest::Hasher;
use crate::base::entropy::{Entropy, OsEntropy};
use crate::store::{ErrorKind, Key, Stored};

/// The dot keeps it out of listings: no object's name has one there.
const NAME_START: &str = ".holdfast-put-";

/// Random digits collide once in 2^64; a lost race with a put that cleans is
/// as rare. Both are over at the next try.
const TRIES: u32 = 8;

/// Its name goes when it is dropped, whether it became an object or not.
#[derive(Debug)]
pub(super) struct Temporary {
    root: Root,
    name: String,
    file: File,
    passed: Hasher,
}

impl Temporary {
    /// An empty temporary that this process holds.
    pub fn create(mut root: Root) -> Result<Self, Trouble> {
        for _ in 0..TRIES {
            match Self::create_once(root)? {
                Ok(temporary) => return Ok(temporary),
                Err(again) => root = again,
            }
        }
        Err(Trouble::new(ErrorKind::Transient, "no temporary could be held"))
    }

    /// Gives the root back where another put was faster.
    fn create_once(root: Root) -> Result<Result<Self, Root>, Trouble> {
        let name = format!("{NAME_START}{}", OsEntropy.hex(16));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(root.directory(), &name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => File::from(file),
            Err(Errno::EXIST) => return Ok(Err(root)),
            Err(errno) => return Err(errno.into()),
        };
        // Where locks do not work nobody can take it for abandoned either.
        let lost = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK);
        let removed = rustix::fs::fstat(&file)?.st_nlink == 0;
        Ok(if lost || removed { Err(root) } else { Ok(Self { root, name, file, passed: Hasher::default() }) })
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        self.file.write_all(bytes)?;
        self.passed.update(bytes);
        Ok(())
    }

    /// Makes the contents durable, then gives them their name, unless the put
    /// was dropped. After an error the name is not taken by this object.
    pub fn publish(self, key: &Key, dropped: &Dropped) -> Result<Stored, Trouble> {
        self.file.sync_all()?;
        let way = self.root.make_way(key)?;
        {
            let dropped = dropped.lock().unwrap_or_else(PoisonError::into_inner);
            if *dropped {
                return Err(Trouble::new(ErrorKind::Body, "nobody waits for it any more"));
            }
            self.give_name(&way)?;
        }
        if let Err(trouble) = self.make_name_durable(&way) {
            // Nobody was told that the object exists; its name is this put's own.
            let _kept = rustix::fs::unlinkat(way.innermost(), &way.name, AtFlags::empty());
            return Err(trouble);
        }
        let (bytes, sha256) = (self.passed.bytes(), self.passed.clone().finish());
        Ok(Stored { key: key.clone(), version_id: None, bytes, sha256, parts: Vec::new(), server_time: None })
    }

    /// One step, and an error if the name is taken.
    fn give_name(&self, way: &Way) -> Result<(), Errno> {
        let directory = way.innermost();
        match rustix::fs::renameat_with(self.root.directory(), &self.name, directory, &way.name, RenameFlags::NOREPLACE) {
            // File systems over a network know links only.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => self.link(way),
            answer => answer,
        }
    }

    fn link(&self, way: &Way) -> Result<(), Errno> {
        match rustix::fs::linkat(self.root.directory(), &self.name, way.innermost(), &way.name, AtFlags::empty()) {
            // A server may have made the link and lost its answer: then the file has two names.
            Err(Errno::EXIST) if rustix::fs::fstat(&self.file)?.st_nlink == 2 => Ok(()),
            answer => answer,
        }
    }

    /// All directories of the way: another put may have made them a moment ago.
    fn make_name_durable(&self, way: &Way) -> Result<(), Trouble> {
        for directory in way.inside_out() {
            match open_for_reading(directory).and_then(rustix::fs::fsync) {
                Ok(()) => {}
                // A directory that may not be read, or one that knows no fsync:
                // the whole file system then.
                Err(Errno::ACCESS | Errno::PERM | Errno::INVAL | Errno::OPNOTSUPP) => return Ok(rustix::fs::syncfs(&self.file)?),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // After a rename there is nothing left; after an error a later put removes it.
        let _gone = rustix::fs::unlinkat(self.root.directory(), &self.name, AtFlags::empty());
    }
}

/// Removes temporaries that nobody holds. A courtesy: where the root may not be
/// read, they stay, and nothing depends on it.
pub(super) fn remove_abandoned(root: &Root) {
    let Ok(entries) = entries(root.directory()) else { return };
    for (name, _) in entries.into_iter().filter(|(name, kind)| name.starts_with(NAME_START) && kind.is_file()) {
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(file) = rustix::fs::openat(root.directory(), &name, flags, Mode::empty()) else { continue };
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _gone = rustix::fs::unlinkat(root.directory(), &name, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        "a/b".parse().unwrap()
    }

    fn temporary(root: &std::path::Path, bytes: &[u8]) -> Temporary {
        let mut temporary = Temporary::create(Root::open(root).unwrap()).unwrap();
        temporary.write(bytes).unwrap();
        temporary
    }

    #[test]
    fn a_put_that_was_dropped_gets_no_name() {
        let root = tempfile::tempdir().unwrap();
        let dropped = Dropped::default();
        *dropped.lock().unwrap() = true;
        assert!(temporary(root.path(), b"x").publish(&key(), &dropped).is_err());
        assert!(!root.path().join("a/b").exists());
    }

    #[test]
    fn a_file_system_that_knows_links_only_never_overwrites() {
        let root = tempfile::tempdir().unwrap();
        let (first, second) = (temporary(root.path(), b"first"), temporary(root.path(), b"second"));
        let way = first.root.make_way(&key()).unwrap();
        first.link(&way).unwrap();
        first.link(&way).expect("a server that lost its answer is asked again");
        assert_eq!(second.link(&way), Err(Errno::EXIST));
        drop((first, second));
        assert_eq!(std::fs::read(root.path().join("a/b")).unwrap(), b"first");
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1);
    }
}
