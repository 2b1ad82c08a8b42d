//! What a stream of this process may carry besides plain lines: colours, and a
//! line that moves. Both on a terminal only.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

/// May words be coloured on this stream? Not where `NO_COLOR` has a value
/// (no-color.org), nor on a terminal that calls itself dumb.
#[must_use]
pub fn has_colours(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && allows_colours(&variable)
}

/// May a line be drawn over and over on this stream?
#[must_use]
pub fn can_redraw(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && !is_dumb(&variable)
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn allows_colours(variable: &dyn Fn(&str) -> Option<OsString>) -> bool {
    variable("NO_COLOR").is_none() && !is_dumb(variable)
}

/// Without a word on what it is, a terminal is taken for a dumb one.
fn is_dumb(variable: &dyn Fn(&str) -> Option<OsString>) -> bool {
    variable("TERM").is_none_or(|term| term == "dumb")
}

type Aside = Box<dyn Fn(&mut dyn FnMut()) + Send + Sync>;

static ASIDE: OnceLock<Aside> = OnceLock::new();

/// Says how to take off the terminal what is drawn there, run something, and
/// draw it again. Once for a process.
pub fn draws(aside: impl Fn(&mut dyn FnMut()) + Send + Sync + 'static) {
    let _kept = ASIDE.set(Box::new(aside));
}

/// Does something that writes lines where something may be drawn.
pub fn aside<T>(write: impl FnOnce() -> T) -> Option<T> {
    let mut write = Some(write);
    let mut written = None;
    let mut run = || written = write.take().map(|write| write());
    match ASIDE.get() {
        Some(aside) => aside(&mut run),
        None => run(),
    }
    written
}

/// A stream of whole lines, such as the log's, on a terminal where something may be drawn.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lines<W>(pub W);

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        aside(|| self.0.write(bytes)).unwrap_or(Ok(bytes.len()))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<'v>(set: &'v [(&'v str, &'v str)]) -> impl Fn(&str) -> Option<OsString> + 'v {
        |name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into())
    }

    #[test]
    fn no_color_and_a_dumb_terminal_are_kept() {
        for (set, colours, redraws) in [
            (&[("TERM", "xterm")][..], true, true),
            (&[("TERM", "xterm"), ("NO_COLOR", "1")], false, true),
            (&[("TERM", "dumb")], false, false),
            (&[], false, false),
        ] {
            assert_eq!((allows_colours(&with(set)), !is_dumb(&with(set))), (colours, redraws), "{set:?}");
        }
    }

    #[test]
    fn what_is_written_aside_is_written_once() {
        let mut written = 0;
        assert_eq!(
            aside(|| {
                written += 1;
                written
            }),
            Some(1)
        );
    }
}
