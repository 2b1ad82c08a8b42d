//! Reads an etcd snapshot: bolt pages and Kubernetes byte formats together.
//!
//! Owns: revisions, the live set, resources, the key versions a snapshot needs,
//! the verdict. Must never: trust a key's name, write anything, or call damaged
//! bytes whole. Input is hostile: every reader is bounded and never panics.

pub mod capture;
pub mod contents;
pub mod data_clock;
pub mod etcd_state;
pub mod inspection;
pub mod mapped;
pub mod objects;
pub mod row;

mod census;
mod examine;
mod free_pages;
mod key_table;
mod problems;
mod verdict;

pub use capture::{Captured, ImageSink, MemfdSink};
pub use inspection::Inspection;
pub use mapped::Mapped;
