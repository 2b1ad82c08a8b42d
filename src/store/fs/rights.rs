//! Rights on a directory, as far as the kernel tells them without a change.

use std::path::Path;

use async_trait::async_trait;
use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;

use super::{FsStore, Trouble};
use crate::store::rights::{Answer, Keeping, Right, Rights};
use crate::store::{ErrorKind, Store, StoreError};

#[async_trait]
impl Rights for FsStore {
    fn describe(&self) -> String {
        Store::describe(self)
    }

    /// Who may make a file in a directory may remove one.
    fn separates(&self) -> bool {
        false
    }

    async fn ask(&self, right: &Right) -> Result<Answer, StoreError> {
        let (operation, wanted) = match right {
            Right::Put(_) | Right::Multipart(_) => ("put", Access::WRITE_OK | Access::EXEC_OK),
            Right::Get(_) => ("open", Access::EXEC_OK),
            Right::List(_) => ("list", Access::READ_OK | Access::EXEC_OK),
            Right::Delete(_) | Right::DeleteVersion(_) => ("delete", Access::WRITE_OK | Access::EXEC_OK),
        };
        self.blocking(operation, "", move |root| may(root, wanted)).await
    }

    async fn keeping(&self) -> Keeping {
        Keeping { versions: Ok(false), lock: Ok(None) }
    }
}

/// Nothing is put to see whether it can be: a file in a directory stays.
fn may(root: &Path, wanted: Access) -> Result<Answer, Trouble> {
    match accessat(CWD, root, wanted, AtFlags::EACCESS) {
        Ok(()) if root.is_dir() => Ok(Answer::Allowed(None)),
        Ok(()) => Err(Trouble::new(ErrorKind::Broken, "not a directory")),
        Err(errno @ (Errno::ACCESS | Errno::PERM | Errno::ROFS)) => Ok(Answer::Denied(std::io::Error::from(errno).to_string())),
        Err(Errno::NOENT) => Err(Trouble::new(ErrorKind::Transient, "the directory is not there; is the file system mounted?")),
        Err(errno) => Err(errno.into()),
    }
}
