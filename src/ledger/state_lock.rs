//! A lock between the processes that share a state directory.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::Duration;

use crate::base::codes;
use crate::base::failure::Failure;

/// What the lock guards takes milliseconds; a holder that needs ten seconds is
/// stuck, and a person must see that.
const TRIES: u32 = 500;
const PAUSE: Duration = Duration::from_millis(20);

/// Held until dropped, or until the process ends in whatever way.
#[derive(Debug)]
pub struct StateLock {
    _file: File,
}

impl StateLock {
    /// Waits for the lock on `path`, which is made where it is missing.
    /// Blocks its thread.
    pub fn acquire(path: &Path) -> Result<Self, Failure> {
        let unusable = |e: std::io::Error| Failure::because(&codes::STATE_UNUSABLE, path.display(), &e);
        let file = File::options().create(true).truncate(false).write(true).open(path).map_err(unusable)?;
        for _ in 0..TRIES {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
                Err(TryLockError::Error(e)) => return Err(unusable(e)),
            }
        }
        Err(Failure::new(&codes::STATE_LOCKED, path.display(), "another process does not give the lock up"))
    }
}
