//! What a snapshot stream must pass before its bytes count as an image.
//!
//! Pure: bytes in, image bytes out, a failure at the first doubt. etcd's own
//! client checks none of this: a member that cannot read its disk sends empty
//! messages without end, and a cut stream can look complete by its length.

use bytes::Bytes;

use super::Message;
use crate::base::codes;
use crate::base::digest::{Hasher, Sha256};
use crate::base::failure::Failure;

/// SHA-256 of the image follows the image, raw.
const DIGEST_BYTES: usize = 32;
/// No database comes near; what a member says may be anything.
const MOST_BYTES: u64 = 1 << 50;

/// An image that passed all guards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamedImage {
    /// Without the digest.
    pub bytes: u64,
    pub sha256: Sha256,
}

/// Checks a stream message by message.
#[derive(Debug)]
pub struct Guard {
    endpoint: String,
    /// Announced by the first message: its blob and what it says remains.
    announced: Option<u64>,
    image: Hasher,
    digest: Vec<u8>,
    /// What the message before said, if its blob was empty.
    empty_at: Option<u64>,
}

impl Guard {
    #[must_use]
    pub fn new(endpoint: &str) -> Self {
        Self {
            endpoint: endpoint.to_owned(),
            announced: None,
            image: Hasher::default(),
            digest: Vec::with_capacity(DIGEST_BYTES),
            empty_at: None,
        }
    }

    /// Takes a message and returns the part of it that is image.
    ///
    /// # Errors
    /// `etcd.stream.empty-messages`, or `etcd.stream.broken` when the numbers
    /// of the stream contradict each other. The stream must be dropped then.
    pub fn accept(&mut self, message: &Message) -> Result<Bytes, Failure> {
        self.refuse_empty_messages(message)?;
        let blob = message.blob.len() as u64;
        let announced = match self.announced {
            Some(announced) => announced,
            None => {
                let total = message.remaining.checked_add(blob).filter(|total| *total <= MOST_BYTES);
                *self.announced.insert(total.ok_or_else(|| self.broken("announces an impossible length"))?)
            }
        };
        let missing = announced - self.image.bytes();
        let part = message.blob.slice(..usize::try_from(missing.min(blob)).unwrap_or(message.blob.len()));
        let rest = &message.blob[part.len()..];
        self.image.update(&part);
        if self.image.bytes().checked_add(message.remaining) != Some(announced) {
            return Err(self.broken("its count of remaining bytes does not fit what it sent"));
        }
        if self.digest.len() + rest.len() > DIGEST_BYTES {
            return Err(self.broken("sends more than the image and its digest"));
        }
        self.digest.extend_from_slice(rest);
        Ok(part)
    }

    /// The length of the image, as the stream announced it; nothing before its first message.
    #[must_use]
    pub fn announced(&self) -> u64 {
        self.announced.unwrap_or(0)
    }

    /// The stream ended cleanly: is the image complete, and is it the one the
    /// member digested?
    ///
    /// # Errors
    /// `etcd.stream.short` or `etcd.stream.digest`.
    pub fn finish(self) -> Result<StreamedImage, Failure> {
        let received = self.image.bytes() + self.digest.len() as u64;
        let expected = self.announced.unwrap_or(0) + DIGEST_BYTES as u64;
        if self.announced.unwrap_or(0) == 0 || received != expected {
            let cause = format!("ended after {received} bytes of {expected}");
            return Err(Failure::new(&codes::ETCD_STREAM_SHORT, &self.endpoint, cause));
        }
        let (bytes, sha256) = (self.image.bytes(), self.image.finish());
        if sha256.as_bytes().as_slice() != self.digest {
            let sent = data_encoding::HEXLOWER.encode(&self.digest);
            let cause = format!("the image has sha256 {sha256}, the member sent {sent}");
            return Err(Failure::new(&codes::ETCD_STREAM_DIGEST, &self.endpoint, cause));
        }
        Ok(StreamedImage { bytes, sha256 })
    }

    /// One empty message may be an accident of timing; a second that has not
    /// moved is a server that swallowed a read error and will send them forever.
    fn refuse_empty_messages(&mut self, message: &Message) -> Result<(), Failure> {
        if !message.blob.is_empty() {
            self.empty_at = None;
            return Ok(());
        }
        if self.empty_at == Some(message.remaining) {
            let cause = format!("sends empty messages with {} bytes still to come", message.remaining);
            return Err(Failure::new(&codes::ETCD_STREAM_EMPTY, &self.endpoint, cause));
        }
        self.empty_at = Some(message.remaining);
        Ok(())
    }

    fn broken(&self, cause: &str) -> Failure {
        Failure::new(&codes::ETCD_STREAM_BROKEN, &self.endpoint, format!("the stream {cause}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(remaining: u64, blob: &[u8]) -> Message {
        Message { remaining, blob: Bytes::copy_from_slice(blob) }
    }

    fn run(messages: &[Message]) -> Result<(Vec<u8>, StreamedImage), Failure> {
        let mut guard = Guard::new("https://member");
        let mut image = Vec::new();
        for message in messages {
            image.extend_from_slice(&guard.accept(message)?);
        }
        Ok((image, guard.finish()?))
    }

    fn code(messages: &[Message]) -> &'static str {
        run(messages).unwrap_err().code().name
    }

    fn digest(bytes: &[u8]) -> Vec<u8> {
        Sha256::of(bytes).as_bytes().to_vec()
    }

    #[test]
    fn a_whole_stream_gives_the_image_without_its_digest() {
        let (image, streamed) =
            run(&[message(4, b"abcdefgh"), message(0, b"ijkl"), message(0, &digest(b"abcdefghijkl"))]).unwrap();
        assert_eq!(image, b"abcdefghijkl");
        assert_eq!(streamed, StreamedImage { bytes: 12, sha256: Sha256::of(b"abcdefghijkl") });
    }

    #[test]
    fn the_digest_may_share_a_message_with_the_image() {
        let mut last = b"ef".to_vec();
        last.extend_from_slice(&digest(b"abcdef"));
        assert!(run(&[message(2, b"abcd"), message(0, &last)]).is_ok());
    }

    #[test]
    fn a_read_error_on_the_member_shows_as_repeated_empty_messages() {
        assert_eq!(code(&[message(4, b"abcd"), message(4, b""), message(4, b"")]), "etcd.stream.empty-messages");
        let one_empty = [message(4, b"abcd"), message(4, b""), message(0, b"efgh"), message(0, &digest(b"abcdefgh"))];
        assert!(run(&one_empty).is_ok(), "a single empty message is no proof");
    }

    #[test]
    fn a_stream_that_ends_early_is_short_even_at_a_tempting_length() {
        assert_eq!(code(&[]), "etcd.stream.short");
        assert_eq!(code(&[message(512, &[7; 512])]), "etcd.stream.short");
        assert_eq!(code(&[message(0, &[7; 512])]), "etcd.stream.short");
        assert_eq!(code(&[message(0, &[7; 512]), message(0, &digest(&[7; 512])[..31])]), "etcd.stream.short");
        assert_eq!(code(&[message(0, b"")]), "etcd.stream.short");
    }

    #[test]
    fn an_altered_byte_is_seen_by_the_digest() {
        assert_eq!(code(&[message(0, b"abcX"), message(0, &digest(b"abcd"))]), "etcd.stream.digest");
    }

    #[test]
    fn contradicting_numbers_are_refused() {
        assert_eq!(code(&[message(u64::MAX, b"a")]), "etcd.stream.broken");
        assert_eq!(code(&[message(u64::MAX, b"")]), "etcd.stream.broken");
        assert_eq!(code(&[message(4, b"abcd"), message(u64::MAX, b"e")]), "etcd.stream.broken");
        assert_eq!(code(&[message(8, b"abcd"), message(8, b"efgh")]), "etcd.stream.broken");
        let long = [message(0, b"abcd"), message(0, &digest(b"abcd")), message(0, b"more")];
        assert_eq!(code(&long), "etcd.stream.broken");
    }
}
