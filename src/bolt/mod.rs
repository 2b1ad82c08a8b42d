//! The bbolt file format, read only.
//!
//! Owns: metas, pages, buckets, the strict walk over everything reachable, the
//! pages that nothing reaches, and the one `mmap` of the program.
//! Must never: write, know anything of etcd, or trust the file. Input is
//! hostile: every offset is checked before it is followed, every page is
//! reached once at most, elements of a page never overlap (so that the work is
//! bounded by the length of the file), and damage is an error, never a panic.

mod mapping;
mod meta;
mod page;
mod tree;
mod unreached;
mod verify;

use std::fmt;

pub use mapping::Mapping;
pub use meta::Database;
pub use tree::{Bucket, Item, Items};
pub use unreached::UnreachedLeaves;
pub use verify::{Found, PageSet, Verified};

/// Why bytes are not a whole bbolt database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Damage {
    /// Shorter than two pages, or than its metas say.
    TooShort {
        bytes: u64,
        needed: u64,
    },
    /// Neither meta page has the magic number.
    NotADatabase,
    /// The magic number is byte-swapped: the format of another machine.
    BigEndian,
    Version(u32),
    MetaChecksum,
    /// A field of the chosen meta makes no sense.
    Meta(&'static str),
    Page {
        page: u64,
        fault: &'static str,
    },
    Freelist {
        page: u64,
        fault: &'static str,
    },
}

impl Damage {
    pub(crate) fn page(page: u64, fault: &'static str) -> Self {
        Self::Page { page, fault }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { bytes, needed } => write!(f, "{bytes} bytes where at least {needed} are needed"),
            Self::NotADatabase => f.write_str("not a bbolt database"),
            Self::BigEndian => f.write_str("written on a big-endian host, whose byte order is not supported"),
            Self::Version(version) => write!(f, "bbolt format version {version}, only 2 is known"),
            Self::MetaChecksum => f.write_str("both meta pages are damaged: wrong checksum"),
            Self::Meta(fault) => write!(f, "meta page: {fault}"),
            Self::Page { page, fault } => write!(f, "page {page}: {fault}"),
            Self::Freelist { page, fault } => write!(f, "freelist, page {page}: {fault}"),
        }
    }
}

impl std::error::Error for Damage {}
