//! The blocking half of a take: one thread that captures the image and
//! compresses and seals it, between two bounded queues.
//!
//! The queue of ciphertext is the only spool: etcd is drained at the speed of
//! this thread until the queue is full, then at the store's.

use std::io::{self, Write};

use bytes::{Bytes, BytesMut};
use futures::stream;
use tokio::io::AsyncRead;
use tokio::sync::{mpsc, oneshot};
use tokio_util::io::StreamReader;

use crate::base::codes;
use crate::base::digest::Sha256;
use crate::base::failure::Failure;
use crate::escrow::seal::Recipients;
use crate::k8s::encryption_config::NamedConfig;
use crate::scan::{Captured, ImageSink};

/// Messages of etcd carry 32 KiB: 4 MiB may wait for this thread.
const IMAGE_QUEUE: usize = 128;
/// One piece of ciphertext, large enough that queueing costs nothing.
const PIECE_BYTES: usize = 256 * 1024;
/// 64 MiB of ciphertext may wait for the store.
const SEALED_QUEUE: usize = 256;

/// The sealed object as it is made. It ends in an error unless the pipeline
/// finished: a store never takes a cut stream for a whole object.
pub type SealedBody = Box<dyn AsyncRead + Send + Unpin>;

enum Input {
    Chunk(Bytes),
    Finish { digest: Sha256, configs: Vec<NamedConfig> },
}

/// The way in: image bytes, then the end.
#[derive(Debug)]
pub struct Pipeline {
    input: mpsc::Sender<Input>,
    answer: oneshot::Receiver<Result<Captured, Failure>>,
}

/// Starts the thread. Dropping the pipeline before [`Pipeline::finish`] makes
/// the body fail.
#[must_use]
pub fn start(sink: Box<dyn ImageSink>, recipients: Recipients, level: i32) -> (Pipeline, SealedBody) {
    let (input, chunks) = mpsc::channel(IMAGE_QUEUE);
    let (pieces, sealed) = mpsc::channel(SEALED_QUEUE);
    let (answer, captured) = oneshot::channel();
    tokio::task::spawn_blocking(move || {
        // Nobody waits for the answer of an aborted take.
        let _ = answer.send(run(sink, &recipients, level, chunks, pieces));
    });
    let body = stream::unfold(Some(sealed), |receiver| async {
        let mut receiver = receiver?;
        match receiver.recv().await {
            Some(Piece::Data(bytes)) => Some((Ok(bytes), Some(receiver))),
            Some(Piece::End) => None,
            None => Some((Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the take was aborted")), None)),
        }
    });
    (Pipeline { input, answer: captured }, Box::new(StreamReader::new(Box::pin(body))))
}

impl Pipeline {
    /// The next bytes of the image.
    ///
    /// # Errors
    /// What stopped the thread, such as `backup.image.too-large`.
    pub async fn chunk(&mut self, bytes: Bytes) -> Result<(), Failure> {
        if self.input.send(Input::Chunk(bytes)).await.is_ok() {
            return Ok(());
        }
        Err(self.stopped().await)
    }

    /// The image is complete and its digest was compared; it is read with the
    /// keys of `configs`, and only a whole one lets the sealed body end.
    ///
    /// # Errors
    /// `backup.image.broken`, `backup.image.too-large`.
    pub async fn finish(self, digest: Sha256, configs: Vec<NamedConfig>) -> Result<Captured, Failure> {
        // A thread that stopped early says why in its answer.
        let _ = self.input.send(Input::Finish { digest, configs }).await;
        self.answer.await.unwrap_or_else(|_| Err(gone()))
    }

    async fn stopped(&mut self) -> Failure {
        match (&mut self.answer).await {
            Ok(Err(failure)) => failure,
            Ok(Ok(_)) | Err(_) => gone(),
        }
    }
}

enum Piece {
    Data(Bytes),
    End,
}

fn run(
    mut sink: Box<dyn ImageSink>,
    recipients: &Recipients,
    level: i32,
    mut chunks: mpsc::Receiver<Input>,
    pieces: mpsc::Sender<Piece>,
) -> Result<Captured, Failure> {
    let sealing = |error: io::Error| Failure::because(&codes::STORE_BROKEN, "sealing", &error);
    let output = PieceWriter { pieces: pieces.clone(), buffer: BytesMut::with_capacity(PIECE_BYTES) };
    let age = recipients.writer(output).map_err(sealing)?;
    let mut zstd = zstd::Encoder::new(age, level).map_err(sealing)?;
    loop {
        match chunks.blocking_recv() {
            Some(Input::Chunk(bytes)) => {
                sink.chunk(&bytes)?;
                zstd.write_all(&bytes).map_err(sealing)?;
            }
            Some(Input::Finish { digest, configs }) => {
                // The object holds what `etcdctl snapshot save` would write:
                // the image and its digest, so that stock tools restore it.
                zstd.write_all(digest.as_bytes()).map_err(sealing)?;
                let captured = sink.finish(&configs)?;
                zstd.finish().and_then(age::stream::StreamWriter::finish).and_then(PieceWriter::end).map_err(sealing)?;
                return Ok(captured);
            }
            None => return Err(gone()),
        }
    }
}

fn gone() -> Failure {
    Failure::new(&codes::INTERRUPTED, "snapshot", "the take was aborted")
}

/// Cuts what is written into pieces for the store.
struct PieceWriter {
    pieces: mpsc::Sender<Piece>,
    buffer: BytesMut,
}

impl PieceWriter {
    fn send(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.buffer, BytesMut::with_capacity(PIECE_BYTES)).freeze();
        self.pieces.blocking_send(Piece::Data(piece)).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    }

    fn end(mut self) -> io::Result<()> {
        self.send()?;
        self.pieces.blocking_send(Piece::End).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    }
}

impl Write for PieceWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= PIECE_BYTES {
            self.send()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
