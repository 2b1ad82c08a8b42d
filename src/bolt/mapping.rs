//! The one `mmap` of the program.

use std::fs::File;
use std::io;
use std::ops::Deref;

/// A file's bytes, mapped read only.
pub struct Mapping(memmap2::Mmap);

impl Mapping {
    /// Maps the whole of `file`.
    ///
    /// # Errors
    /// What the system says, for example about a directory. Nothing is left behind.
    pub fn of(file: &File) -> io::Result<Self> {
        Self::map(&memmap2::MmapOptions::new(), file)
    }

    /// Maps `len` bytes of `file` from `offset`.
    ///
    /// # Errors
    /// What the system says. Nothing is left behind.
    pub fn of_range(file: &File, offset: u64, len: usize) -> io::Result<Self> {
        Self::map(memmap2::MmapOptions::new().offset(offset).len(len), file)
    }

    // The argument for the only unsafe call here. A mapped slice is sound while
    // nobody changes the file. The image of a running backup is a sealed memfd,
    // which nobody can change. A file that an operator names could be changed
    // by another process: holdfast never writes to one, reads integers out of
    // copied bytes, follows no offset without a check, holds no reference into
    // the slice that depends on its content, and a second look never assumes
    // what the first one saw. A file that is cut short meanwhile ends the
    // process with SIGBUS, and nothing half done is left behind. The mapping is
    // private and read only, so nothing can be written through it.
    #[allow(unsafe_code)]
    fn map(options: &memmap2::MmapOptions, file: &File) -> io::Result<Self> {
        // SAFETY: see above.
        unsafe { options.map_copy_read_only(file) }.map(Self)
    }

    /// Keeps these bytes out of swap while the mapping lives.
    ///
    /// # Errors
    /// When the limit on locked memory is reached; the mapping stays usable.
    pub fn lock(&self) -> io::Result<()> {
        self.0.lock()
    }

    /// Says that all of it will be read soon.
    pub fn expect_reading(&self) {
        // Advice only: without it the reader is slower and just as right.
        let _ = self.0.advise(memmap2::Advice::WillNeed);
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Mapping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mapping({} bytes)", self.0.len())
    }
}
