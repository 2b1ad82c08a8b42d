//! Putting an object: one request where the body fits a part.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use sha2::Digest as _;
use tokio::io::{AsyncRead, AsyncReadExt};

use aws_sdk_s3::Client;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::primitives::ByteStream;

use super::trouble::Trouble;
use super::watch::Watch;
use super::{Bucket, ErrorKind, Key, PutOptions, Stored, VersionId};
use crate::base::digest::Sha256;

/// What S3 knows.
pub(super) const MOST_PARTS: u64 = 10_000;
const LARGEST_OBJECT: u64 = 5 << 40;

/// The first read of a body: records fit in it, and a put of one takes no more memory.
const SMALL: usize = 64 * 1024;

/// The object did get its name, and what the server said of it.
pub(super) struct Placed {
    pub version_id: Option<VersionId>,
    pub watch: Watch,
}

impl Bucket {
    pub(super) async fn put_object(
        self: &Arc<Self>,
        key: &Key,
        body: &mut (dyn AsyncRead + Send + Unpin),
        options: &PutOptions,
    ) -> Result<Stored, Trouble> {
        // Before the body is drawn: who has no credential need not stream an image.
        self.connections.current().await?;
        let mut body = Body::new(body, part_size(self.config.part_size, options)?);
        let (first, is_last) = body.next_part().await?;
        let placed = match is_last {
            true => self.put_whole(key, first).await?,
            false => self.put_parts(key, first, &mut body).await?,
        };
        let server_time = placed.watch.server_time();
        let (bytes, sha256) = body.finish();
        Ok(Stored { key: key.clone(), version_id: placed.version_id, bytes, sha256, parts: Vec::new(), server_time })
    }

    async fn put_whole(&self, key: &Key, bytes: Bytes) -> Result<Placed, Trouble> {
        let watch = Watch::over("PutObject", key.as_str());
        let put = |condition: Option<String>| {
            let (bytes, watch) = (bytes.clone(), watch.clone());
            self.request(move |client: Client| {
                let put = client.put_object().bucket(&self.config.bucket).key(key.as_str()).set_if_none_match(condition.clone());
                put.body(ByteStream::from(bytes.clone())).customize().interceptor(watch.clone()).send()
            })
        };
        let answer = match put(self.condition()).await {
            Err(trouble) if self.knows_no_condition(&trouble) => put(None).await,
            answer => answer,
        };
        match answer {
            Ok(output) => {
                must_be_s3(output.e_tag())?;
                Ok(Placed { version_id: version(output.version_id()), watch })
            }
            Err(trouble) if trouble.kind == ErrorKind::Exists && watch.lost() => Ok(Placed { version_id: None, watch }),
            // What is put cannot be missing: this is no S3 server, or not this bucket's.
            Err(trouble) if trouble.kind == ErrorKind::NotFound => Err(Trouble { kind: ErrorKind::Broken, ..trouble }),
            Err(trouble) => Err(trouble),
        }
    }

    /// Sends a request, and once more with another credential if the first is
    /// denied and there is a new one.
    pub(super) async fn request<T, E, F>(&self, call: impl Fn(Client) -> F + Send) -> Result<T, Trouble>
    where
        F: Future<Output = Result<T, SdkError<E>>> + Send,
        T: Send,
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        let connection = self.connections.current().await?;
        let trouble = match call(connection.client.clone()).await {
            Ok(output) => return Ok(output),
            Err(error) => Trouble::from(error),
        };
        if trouble.kind == ErrorKind::Denied
            && let Some(other) = self.connections.after_denial(&connection).await
        {
            return call(other.client).await.map_err(|error| self.explained(error.into()));
        }
        Err(self.explained(trouble))
    }

    /// Is this the answer of a server that does not know `If-None-Match`? It is
    /// not asked again.
    pub(super) fn knows_no_condition(&self, trouble: &Trouble) -> bool {
        let unknown = trouble.status == Some(501) || trouble.is("NotImplemented");
        unknown && self.conditional.swap(false, std::sync::atomic::Ordering::Relaxed)
    }

    /// Says which file decided about the endpoint's certificate.
    fn explained(&self, trouble: Trouble) -> Trouble {
        if trouble.kind != ErrorKind::Tls || trouble.object.is_some() {
            return trouble;
        }
        let trusted = match &self.config.ca {
            Some(path) => format!("trusted are the authorities in {}", path.display()),
            None => "trusted are the authorities of this system".to_owned(),
        };
        Trouble { cause: super::super::Cause::new(format!("{} ({trusted})", trouble.cause)), ..trouble }
    }
}

/// The length of a part: never more of them than S3 takes, and twice as much
/// room as was expected.
fn part_size(usual: u64, options: &PutOptions) -> Result<usize, Trouble> {
    let expected = options.expected_bytes.unwrap_or(0);
    if expected > LARGEST_OBJECT {
        return Err(Trouble::new(ErrorKind::Full, format!("S3 takes objects of at most {LARGEST_OBJECT} bytes")));
    }
    let size = usual.max(expected.saturating_mul(2).div_ceil(MOST_PARTS));
    usize::try_from(size).map_err(|_| Trouble::new(ErrorKind::Full, "a part does not fit this machine's memory"))
}

/// Every answer to a put has an ETag; what has none came from something else.
pub(super) fn must_be_s3(e_tag: Option<&str>) -> Result<(), Trouble> {
    match e_tag {
        Some(_) => Ok(()),
        None => {
            Err(Trouble::new(ErrorKind::Broken, "an answer without an ETag: this is no S3 server, or something stands between"))
        }
    }
}

/// `null` is what a bucket without versions calls its one version.
pub(super) fn version(id: Option<&str>) -> Option<VersionId> {
    id.filter(|id| !id.is_empty() && *id != "null").map(|id| VersionId(id.to_owned()))
}

/// A body, cut into parts as it passes.
pub(super) struct Body<'b> {
    body: &'b mut (dyn AsyncRead + Send + Unpin),
    part_size: usize,
    /// At most one byte more than a part: so the last part is known to be it.
    read: BytesMut,
    digest: sha2::Sha256,
    bytes: u64,
}

impl<'b> Body<'b> {
    fn new(body: &'b mut (dyn AsyncRead + Send + Unpin), part_size: usize) -> Self {
        Self { body, part_size, read: BytesMut::new(), digest: sha2::Sha256::new(), bytes: 0 }
    }

    /// The next part, and whether it is the last. Dropped before it is ready, it
    /// loses nothing.
    pub async fn next_part(&mut self) -> Result<(Bytes, bool), Trouble> {
        while self.read.len() <= self.part_size {
            let missing = self.part_size + 1 - self.read.len();
            if self.read.capacity() == self.read.len() {
                self.read.reserve(if self.bytes == 0 { missing.min(SMALL) } else { missing });
            }
            let before = self.read.len();
            let read = self.body.read_buf(&mut (&mut self.read).limit(missing)).await;
            if read.map_err(|e| Trouble::new(ErrorKind::Body, crate::base::failure::chain(&e)))? == 0 {
                return Ok((self.read.split().freeze(), true));
            }
            self.digest.update(&self.read[before..]);
            self.bytes += (self.read.len() - before) as u64;
        }
        Ok((self.read.split_to(self.part_size).freeze(), false))
    }

    fn finish(self) -> (u64, Sha256) {
        (self.bytes, Sha256::from_bytes(self.digest.finalize().into()))
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_body_is_cut_at_parts_and_its_last_part_is_known() {
        for (length, parts) in [(0, vec![0]), (1, vec![1]), (10, vec![10]), (11, vec![10, 1]), (30, vec![10, 10, 10])] {
            let bytes: Vec<u8> = (0..length).collect();
            let mut source = &bytes[..];
            let mut body = Body::new(&mut source, 10);
            let (mut lengths, mut all) = (Vec::new(), Vec::new());
            loop {
                let (part, is_last) = body.next_part().await.unwrap();
                lengths.push(part.len());
                all.extend_from_slice(&part);
                if is_last {
                    break;
                }
            }
            assert_eq!((lengths, all), (parts, bytes.clone()));
            assert_eq!(body.finish(), (bytes.len() as u64, Sha256::of(&bytes)));
        }
    }

    #[test]
    fn parts_grow_with_what_is_expected_and_an_impossible_object_is_refused() {
        let size = |expected| part_size(8 << 20, &PutOptions { expected_bytes: expected }).map_err(|t| t.kind);
        assert_eq!((size(None), size(Some(1))), (Ok(8 << 20), Ok(8 << 20)));
        let large = size(Some(1 << 40)).unwrap() as u64;
        assert!(large * MOST_PARTS >= 2 << 40, "{large}");
        assert_eq!(size(Some(u64::MAX)), Err(ErrorKind::Full));
    }
}
