//! Reads an etcd snapshot: bolt pages and Kubernetes byte formats together.
//!
//! Owns: revisions, the live set, resources, the key versions a snapshot needs,
//! the verdict. Must never: trust a key's name, write anything, or call damaged
//! bytes whole. Input is hostile: every reader is bounded and never panics.

pub mod capture;
pub mod inspection;
pub mod mapped;
pub mod objects;
pub mod verdict;

pub use capture::{Captured, ImageSink};
pub use inspection::Inspection;
