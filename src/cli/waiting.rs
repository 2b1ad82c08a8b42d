//! Waiting for the daemon, or another command, that does the same work.

use std::io;
use std::time::Duration;

use super::render;
use crate::station::lock::Holder;

/// A snapshot of most clusters is done in this time; a person is told who is at
/// it, and can come back.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Says who is waited for.
pub fn note(what: &str, holder: Holder, json: bool) {
    let text = format!("{holder} {what}; waiting for it to end, for a minute at most");
    // A terminal that went away stops nothing.
    let _ = render::note(&mut render::Output(io::stderr()), &text, json);
}
