//! The tie between `restore` and the process that keeps its cluster up.
//!
//! The supervisor speaks in frames, one JSON value a line; `restore` shows
//! them. A cluster is kept only when `restore` has shown how to use it and said
//! so: whoever goes before that, by a signal or by being killed, leaves nothing.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, LineWriter, Write};
use std::os::fd::AsFd;
use std::process::ExitStatus;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::unix::pipe::Receiver;
use tokio::process::ChildStdout;

use crate::base::codes;
use crate::base::failure::Failure;
use crate::sandbox::detached::{self, Detached};

/// `restore` writes it when it has shown everything.
const SHOWN: u8 = b'.';

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Frame {
    /// For standard output.
    Out(String),
    /// For standard error.
    Err(String),
    /// For somebody who watches.
    Progress(String),
    /// How far work has come.
    Work { name: String, done: u64, total: Option<u64> },
    /// No work is told of any more.
    Rest,
    /// The cluster answers, and everything about it has been said.
    Up,
    /// It has ended, with this exit code.
    Done(u8),
}

/// The supervisor, as `restore` sees it.
#[derive(Debug)]
pub struct Supervisor {
    process: Detached,
    frames: Option<Lines<BufReader<ChildStdout>>>,
}

impl Supervisor {
    /// Starts this program again with `arguments`.
    ///
    /// # Errors
    /// `sandbox.failed`; no process is left.
    pub fn start(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, Failure> {
        let mut process = Detached::start(arguments)?;
        let frames = process.output.take().map(|output| BufReader::new(output).lines());
        Ok(Self { process, frames })
    }

    /// What it says next; none when it has ended. Cancelling loses nothing.
    ///
    /// # Errors
    /// `sandbox.failed` for something that is no frame.
    pub async fn next(&mut self) -> Result<Option<Frame>, Failure> {
        let failed = |e: &(dyn std::error::Error + 'static)| Failure::because(&codes::SANDBOX_FAILED, "supervisor", e);
        let Some(frames) = &mut self.frames else { return Ok(None) };
        let Some(line) = frames.next_line().await.map_err(|e| failed(&e))? else { return Ok(None) };
        serde_json::from_str(&line).map(Some).map_err(|e| failed(&e))
    }

    /// Everything was shown: from here on it keeps the cluster by itself.
    ///
    /// # Errors
    /// `sandbox.failed` when it is gone.
    pub async fn leave(&mut self) -> Result<(), Failure> {
        let input = self.process.input.as_mut().ok_or_else(|| lost("it was told to end"))?;
        input.write_all(&[SHOWN]).await.map_err(|e| Failure::because(&codes::SANDBOX_FAILED, "supervisor", &e))
    }

    /// Has it tear down what it made.
    pub fn let_go(&mut self) {
        drop(self.process.input.take());
    }

    /// How it ended.
    ///
    /// # Errors
    /// `sandbox.failed` when the kernel does not tell.
    pub async fn end(&mut self) -> Result<ExitStatus, Failure> {
        self.process.wait().await
    }

    /// The end of what it logged.
    #[must_use]
    pub fn log(&mut self) -> String {
        self.process.log()
    }
}

fn lost(cause: &str) -> Failure {
    Failure::new(&codes::SANDBOX_FAILED, "supervisor", cause)
}

/// The other end, in the supervisor.
#[derive(Debug)]
pub struct Tie {
    starter: Receiver,
}

impl Tie {
    /// Takes it up, if this process was started as a supervisor; it leaves the terminal then.
    ///
    /// # Errors
    /// `sandbox.failed` when standard input is no pipe.
    pub fn of_this_process() -> Result<Option<Self>, Failure> {
        if !detached::is_detached() {
            return Ok(None);
        }
        detached::leave_the_terminal();
        let input = io::stdin().as_fd().try_clone_to_owned().and_then(|input| Receiver::from_file(File::from(input)));
        input.map(|starter| Some(Self { starter })).map_err(|e| Failure::because(&codes::SANDBOX_FAILED, "standard input", &e))
    }

    /// Ends when the starter is gone, or wants no more.
    pub async fn cut(&mut self) {
        let mut byte = [0];
        while matches!(self.starter.read(&mut byte).await, Ok(1)) {}
    }

    /// Says that all was said; true when the starter has shown it.
    pub async fn hand_over(&mut self, out: &mut dyn Write) -> bool {
        if send(out, &Frame::Up).is_err() {
            return false;
        }
        let mut byte = [0];
        matches!(self.starter.read(&mut byte).await, Ok(1)) && byte == [SHOWN]
    }
}

/// Writes one frame to `out`.
///
/// # Errors
/// Those of `out`.
pub fn send(out: &mut dyn Write, frame: &Frame) -> io::Result<()> {
    let mut line = serde_json::to_vec(frame).map_err(io::Error::other)?;
    line.push(b'\n');
    out.write_all(&line)?;
    out.flush()
}

/// A stream whose lines go out as frames.
pub struct Framed<W: Write> {
    out: W,
    frame: fn(String) -> Frame,
}

/// Lines written to it go out as frames of this kind.
pub fn framed<W: Write>(out: W, frame: fn(String) -> Frame) -> LineWriter<Framed<W>> {
    LineWriter::new(Framed { out, frame })
}

impl<W: Write> std::fmt::Debug for Framed<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Framed").finish_non_exhaustive()
    }
}

impl<W: Write> Write for Framed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        send(&mut self.out, &(self.frame)(String::from_utf8_lossy(bytes).into_owned()))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_out_whole_and_in_order() {
        let mut sent = Vec::new();
        let mut out = framed(&mut sent, Frame::Out);
        write!(out, "a {}\nb", 1).unwrap();
        writeln!(out, " and the rest").unwrap();
        drop(out);
        send(&mut sent, &Frame::Done(130)).unwrap();
        let frames: Vec<Frame> =
            sent.split(|b| *b == b'\n').filter(|l| !l.is_empty()).map(|l| serde_json::from_slice(l).unwrap()).collect();
        let text: String = frames
            .iter()
            .filter_map(|frame| match frame {
                Frame::Out(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(text, "a 1\nb and the rest\n");
        assert_eq!(frames.last(), Some(&Frame::Done(130)));
    }
}
