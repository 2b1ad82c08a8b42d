//! Taking a snapshot stream from etcd.
//!
//! Owns: asking every member for its status, choosing one, opening its snapshot
//! stream, and the guards that the stream must pass (formats: `guard`). Must
//! never: write to etcd, balance one attempt over several members, or believe a
//! stream because it ended without an error.

pub mod client;
pub mod guard;
pub mod member;
pub mod scripted;

use std::fmt::Debug;

use async_trait::async_trait;
use bytes::Bytes;

use crate::base::failure::Failure;
pub use client::{EtcdClient, HashKv, ListedMember};
pub use guard::{Guard, StreamedImage};
pub use member::{Choice, MemberStatus, choose};

/// A cluster that a snapshot can be streamed from.
#[async_trait]
pub trait Source: Debug + Send + Sync {
    /// The status of each configured endpoint, or why it gave none.
    async fn statuses(&self) -> Vec<Result<MemberStatus, Failure>>;

    /// Opens the snapshot stream of exactly this endpoint. With
    /// `require_leader` a member that has lost its leader refuses, and ends a
    /// running stream.
    async fn stream(&self, endpoint: &str, require_leader: bool) -> Result<Box<dyn MessageStream>, Failure>;
}

/// A snapshot as it arrives.
#[async_trait]
pub trait MessageStream: Send {
    /// The next message, or `None` at a clean end. The caller sets the deadline:
    /// a stream that stops moving never ends by itself.
    async fn next(&mut self) -> Result<Option<Message>, Failure>;
}

/// One `SnapshotResponse`: the fields that etcd really fills.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Image bytes still to come after this message, without the digest.
    pub remaining: u64,
    pub blob: Bytes,
}
