//! A cluster that does what a test says: the twin of [`super::EtcdClient`] for
//! failures that a real member cannot be made to show on demand.

use std::collections::VecDeque;
use std::sync::Mutex;

use async_trait::async_trait;

use super::{MemberStatus, Message, MessageStream, Source};
use crate::base::failure::Failure;

/// One step of a scripted stream.
#[derive(Debug, Clone)]
pub enum Turn {
    Message(Message),
    Fail(Failure),
    /// Never answers again.
    Hang,
}

/// A source with fixed statuses and one stream.
#[derive(Debug, Default)]
pub struct ScriptedSource {
    pub members: Vec<MemberStatus>,
    pub unreachable: Vec<Failure>,
    turns: Mutex<VecDeque<Turn>>,
}

impl ScriptedSource {
    #[must_use]
    pub fn new(members: Vec<MemberStatus>, turns: impl IntoIterator<Item = Turn>) -> Self {
        Self { members, unreachable: Vec::new(), turns: Mutex::new(turns.into_iter().collect()) }
    }

    /// The turns of a healthy member that streams `image`: 32 KiB blobs, then
    /// the digest in a message of its own, as etcd sends them.
    #[must_use]
    pub fn healthy(image: &[u8]) -> Vec<Turn> {
        let mut sent = 0;
        let mut turns: Vec<_> = image
            .chunks(32 * 1024)
            .map(|blob| {
                sent += blob.len();
                let remaining = (image.len() - sent) as u64;
                Turn::Message(Message { remaining, blob: bytes::Bytes::copy_from_slice(blob) })
            })
            .collect();
        let digest = crate::base::digest::Sha256::of(image);
        turns.push(Turn::Message(Message { remaining: 0, blob: bytes::Bytes::copy_from_slice(digest.as_bytes()) }));
        turns
    }
}

#[async_trait]
impl Source for ScriptedSource {
    async fn statuses(&self) -> Vec<Result<MemberStatus, Failure>> {
        let failed = self.unreachable.iter().cloned().map(Err);
        self.members.iter().cloned().map(Ok).chain(failed).collect()
    }

    async fn stream(&self, _endpoint: &str, _require_leader: bool) -> Result<Box<dyn MessageStream>, Failure> {
        let turns = std::mem::take(&mut *self.turns.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        Ok(Box::new(ScriptedStream(turns)))
    }
}

struct ScriptedStream(VecDeque<Turn>);

#[async_trait]
impl MessageStream for ScriptedStream {
    async fn next(&mut self) -> Result<Option<Message>, Failure> {
        match self.0.pop_front() {
            None => Ok(None),
            Some(Turn::Message(message)) => Ok(Some(message)),
            Some(Turn::Fail(failure)) => Err(failure),
            Some(Turn::Hang) => std::future::pending().await,
        }
    }
}
