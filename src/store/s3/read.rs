//! Reading an object, whole or a range of it, at the version asked for.

use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::operation::get_object::GetObjectOutput;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::put::must_be_s3;
use super::trouble::{Trouble, printable};
use super::watch::Watch;
use super::{Bucket, ErrorKind, Key, Reader, VersionId};
use crate::base::failure::chain;

/// Servers keep places in signed numbers; no object is as long.
const FARTHEST: u64 = 1 << 60;

impl Bucket {
    pub(super) async fn read_object(
        &self,
        key: &Key,
        version: Option<&VersionId>,
        range: Option<Range<u64>>,
    ) -> Result<Reader, Trouble> {
        let Some(range) = range else {
            let output = self.get(key, version, None).await?;
            return Ok(Box::new(self.body(output)));
        };
        let (start, end) = (range.start.min(FARTHEST), range.end.min(FARTHEST));
        let length = end.saturating_sub(start);
        // Of an empty range one byte is asked for, to know whether there is an object.
        let asked = if length == 0 { 0..1 } else { start..end };
        let output = match self.get(key, version, Some(&asked)).await {
            Err(trouble) if trouble.status == Some(416) => return Ok(Box::new(tokio::io::empty())),
            output => output?,
        };
        let from = output.content_range().map(first_byte);
        match from {
            Some(Some(from)) if from == asked.start => {}
            // The whole object, from a server that knows no ranges.
            None if asked.start == 0 => {}
            _ => return Err(Trouble::new(ErrorKind::Broken, "the answer is another range than was asked for")),
        }
        Ok(Box::new(self.body(output).take(length)))
    }

    async fn get(&self, key: &Key, version: Option<&VersionId>, range: Option<&Range<u64>>) -> Result<GetObjectOutput, Trouble> {
        let watch = Watch::over("GetObject", key.as_str());
        let range = range.map(|range| format!("bytes={}-{}", range.start, range.end - 1));
        let output = self.request(|client: Client| {
            let get = client.get_object().bucket(&self.config.bucket).key(key.as_str()).set_range(range.clone());
            let get = get.set_version_id(version.map(|version| version.0.clone()));
            get.customize().config_override(self.quick()).interceptor(watch.clone()).send()
        });
        let output = output.await.map_err(|trouble| absent_version(trouble, version))?;
        must_be_s3(output.e_tag())?;
        Ok(output)
    }

    fn body(&self, output: GetObjectOutput) -> Body {
        Body::new(output.body.into_async_read(), self.config.stall_timeout)
    }

    /// Of requests without data: an answer must begin before a stall would be one.
    pub(super) fn quick(&self) -> aws_sdk_s3::config::Builder {
        let timeouts = aws_sdk_s3::config::timeout::TimeoutConfig::builder().operation_attempt_timeout(self.config.stall_timeout);
        aws_sdk_s3::Config::builder().timeout_config(timeouts.build())
    }
}

/// `bytes 3-5/10`
fn first_byte(range: &str) -> Option<u64> {
    range.strip_prefix("bytes ")?.split_once('-')?.0.trim().parse().ok()
}

/// Servers call a version that they never gave malformed.
fn absent_version(trouble: Trouble, version: Option<&VersionId>) -> Trouble {
    let unknown = trouble.status == Some(400) && (trouble.is("InvalidArgument") || trouble.is("InvalidVersionId"));
    if version.is_some() && unknown { Trouble { kind: ErrorKind::NotFound, ..trouble } } else { trouble }
}

/// The bytes of an answer. A stall, an end before the end and a broken
/// connection are errors.
struct Body {
    inner: Pin<Box<dyn AsyncRead + Send>>,
    stall: Duration,
    deadline: Pin<Box<Sleep>>,
    is_waiting: bool,
}

impl Body {
    fn new(inner: impl AsyncRead + Send + 'static, stall: Duration) -> Self {
        Self { inner: Box::pin(inner), stall, deadline: Box::pin(tokio::time::sleep(stall)), is_waiting: false }
    }
}

impl AsyncRead for Body {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Poll::Ready(read) = self.inner.as_mut().poll_read(context, buffer) {
            self.is_waiting = false;
            return Poll::Ready(read.map_err(|e| io::Error::new(e.kind(), printable(&chain(&e)))));
        }
        // Only what the server does not send counts, not what nobody reads.
        if !self.is_waiting {
            let at = Instant::now() + self.stall;
            self.deadline.as_mut().reset(at);
            self.is_waiting = true;
        }
        match self.deadline.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => {
                let cause = format!("no byte came for {} s", self.stall.as_secs());
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, cause)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_of_a_range_is_read() {
        for (text, start) in
            [("bytes 3-5/10", Some(3)), ("bytes 0-0/*", Some(0)), ("bytes */10", None), ("3-5", None), ("", None)]
        {
            assert_eq!(first_byte(text), start, "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stops_is_an_error_and_a_reader_that_rests_is_not() {
        let stall = Duration::from_secs(30);
        let (mut sender, receiver) = tokio::io::duplex(16);
        let mut body = Body::new(receiver, stall);
        tokio::time::advance(stall * 3).await;
        tokio::io::AsyncWriteExt::write_all(&mut sender, b"12").await.unwrap();
        let mut two = [0; 2];
        body.read_exact(&mut two).await.unwrap();
        let error = body.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
    }
}
