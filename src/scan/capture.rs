//! Where a snapshot's image goes while it streams: into locked memory, never
//! into a plain file.
//!
//! `backup::take` pushes chunks and asks for the answer at the end. Today the
//! image is captured in a sealed `memfd` and read by the mapped reader; a
//! reader that works on pages as they pass can replace it behind [`ImageSink`].

use super::inspection::Inspection;
use crate::base::failure::Failure;
use crate::k8s::encryption_config::NamedConfig;

/// Takes an image, without its digest trailer, in order.
pub trait ImageSink: Send {
    /// The next bytes of the image.
    ///
    /// # Errors
    /// `backup.image.too-large` when the limit is passed; nothing is kept.
    fn chunk(&mut self, bytes: &[u8]) -> Result<(), Failure>;

    /// The image is complete; reads it with the keys of all `configs`.
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
