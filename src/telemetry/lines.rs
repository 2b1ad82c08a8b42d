//! The readable form of the log: one line for an event, for a person or a journal.
//!
//! Values come from stores, snapshots and other machines: none may begin a line
//! of its own that looks like one of ours, or steer a terminal.

use std::fmt;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Where a value has lines of its own, as a list of mistakes has, they are set in.
const CONTINUED: &str = "    ";

/// Lines of another form, made safe.
#[derive(Debug)]
pub struct Lines<F> {
    pub form: F,
    /// Each line begins with its priority, as sd-daemon(3) has it: `journalctl -p err` works.
    pub priorities: bool,
}

impl<S, N, F> FormatEvent<S, N> for Lines<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let coloured = writer.has_ansi_escapes();
        let mut text = String::new();
        self.form.format_event(context, Writer::new(&mut text), event)?;
        let priority = if self.priorities { priority(*event.metadata().level()) } else { "" };
        for (number, line) in text.trim().split('\n').enumerate() {
            let indent = if number == 0 { "" } else { CONTINUED };
            // Colours are ours: what a value has of them was written out before.
            let safe = line.chars().map(|c| if c.is_control() && !(coloured && c == '\u{1b}') { ' ' } else { c });
            writeln!(writer, "{priority}{indent}{}", safe.collect::<String>().trim_end())?;
        }
        Ok(())
    }
}

fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => "<3>",
        Level::WARN => "<4>",
        Level::INFO => "<6>",
        _ => "<7>",
    }
}
