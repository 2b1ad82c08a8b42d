//! Where a snapshot's image goes while it streams: into locked memory, never
//! into a plain file.
//!
//! `backup::take` pushes chunks and asks for the answer at the end. Today the
//! image is captured in a sealed `memfd` and read by the mapped reader; a
//! reader that works on pages as they pass can replace it behind [`ImageSink`].

use std::fs::File;
use std::io::Write;

use rustix::fs::{MemfdFlags, SealFlags};

use super::inspection::Inspection;
use super::mapped::Mapped;
use crate::base::codes::{BACKUP_IMAGE_BROKEN, BACKUP_IMAGE_TOO_LARGE, STATE_UNUSABLE};
use crate::base::failure::Failure;
use crate::base::units::human_bytes;
use crate::bolt::Mapping;
use crate::k8s::encryption_config::NamedConfig;

/// Takes an image, without its digest trailer, in order.
pub trait ImageSink: Send {
    /// The next bytes of the image.
    ///
    /// # Errors
    /// `backup.image.too-large` when the limit is passed; nothing is kept.
    fn chunk(&mut self, bytes: &[u8]) -> Result<(), Failure>;

    /// The image is complete, and the digest that etcd sent with it was
    /// compared; reads it with the keys of all `configs`.
    ///
    /// In the answer `file` is the image itself: its length, its digest, and
    /// `trailer: ok`, since the digest was compared before it was cut off.
    ///
    /// # Errors
    /// `backup.image.broken` when its structure is damaged.
    fn finish(self: Box<Self>, configs: &[NamedConfig]) -> Result<Captured, Failure>;
}

/// What a complete image said.
#[derive(Debug)]
pub struct Captured {
    pub inspection: Inspection,
    /// True, false with the reason (`active swap: /dev/sda2`), when memory could not be locked.
    pub memory: MemoryLock,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryLock {
    Locked,
    /// Not locked, and these swap devices are active (none: nothing can be swapped out).
    Unlocked {
        active_swap: Vec<String>,
    },
}

/// How much is written before it is locked: large enough that locking costs
/// nothing, small enough that little lies unlocked for a moment.
const EXTENT: u64 = 16 << 20;

/// Captures an image in memory that has no name in any file system.
///
/// When it is dropped the memory is gone, whatever happened before.
#[derive(Debug)]
pub struct MemfdSink {
    memory: File,
    limit: u64,
    written: u64,
    /// Locked extents from the start; they stay locked while this lives.
    locked: Vec<Mapping>,
    locked_bytes: u64,
    /// A lock was refused: the limit on locked memory is reached.
    is_refused: bool,
}

impl MemfdSink {
    /// An empty image that may grow to `limit` bytes.
    ///
    /// # Errors
    /// When the system gives no memory file.
    pub fn new(limit: u64) -> Result<Self, Failure> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let memory = rustix::fs::memfd_create("holdfast-image", flags)
            .map_err(|error| Failure::because(&STATE_UNUSABLE, "memory for the image", &error))?;
        let memory = File::from(memory);
        Ok(Self { memory, limit, written: 0, locked: Vec::new(), locked_bytes: 0, is_refused: false })
    }

    /// Locks what was written and is not locked yet.
    fn lock(&mut self) {
        let (offset, length) = (self.locked_bytes, self.written - self.locked_bytes);
        let Ok(length) = usize::try_from(length) else { return };
        if self.is_refused || length == 0 {
            return;
        }
        match Mapping::of_range(&self.memory, offset, length).and_then(|extent| extent.lock().map(|()| extent)) {
            Ok(extent) => {
                self.locked.push(extent);
                self.locked_bytes = self.written;
            }
            Err(_) => self.is_refused = true,
        }
    }

    fn memory_lock(&self) -> MemoryLock {
        if !self.is_refused && self.locked_bytes == self.written {
            return MemoryLock::Locked;
        }
        let swaps = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
        MemoryLock::Unlocked { active_swap: active_swap(&swaps) }
    }
}

impl ImageSink for MemfdSink {
    fn chunk(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let written = self.written.saturating_add(bytes.len() as u64);
        if written > self.limit {
            let cause = format!("larger than the limit of {}", human_bytes(self.limit));
            return Err(Failure::new(&BACKUP_IMAGE_TOO_LARGE, "the image", cause));
        }
        self.memory.write_all(bytes).map_err(|error| Failure::because(&STATE_UNUSABLE, "memory for the image", &error))?;
        self.written = written;
        if self.written - self.locked_bytes >= EXTENT {
            self.lock();
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, configs: &[NamedConfig]) -> Result<Captured, Failure> {
        self.lock();
        let failed = |error: std::io::Error| Failure::because(&STATE_UNUSABLE, "memory for the image", &error);
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&self.memory, seals).map_err(|error| failed(error.into()))?;
        let memory = self.memory_lock();
        let inspection = Mapped::checked_image(Mapping::of(&self.memory).map_err(failed)?).inspect(configs);
        if inspection.etcd.is_none() {
            let broken = inspection.problems.iter().find(|problem| problem.code == "structure-broken");
            let cause = broken.map_or("its structure is damaged", |problem| problem.message.as_str());
            return Err(Failure::new(&BACKUP_IMAGE_BROKEN, "the image", cause));
        }
        Ok(Captured { inspection, memory })
    }
}

/// The devices and files in the kernel's table of active swap.
pub fn active_swap(proc_swaps: &str) -> Vec<String> {
    proc_swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_table_of_swap_is_read() {
        let table = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/dev/sda2                               partition\t1\t0\t-2\n/swap file\tfile\t1\t0\t-3\n";
        assert_eq!(active_swap(table), ["/dev/sda2", "/swap"]);
        assert!(active_swap("Filename\tType\n").is_empty());
        assert!(active_swap("").is_empty());
    }
}
