//! The log: `tracing` events on standard error, readable or as JSON lines.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{Format, Writer};
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::fmt::{MakeWriter, time::SystemTime};

use super::lines::Lines;
use super::terminal;
use crate::base::codes;
use crate::base::failure::Failure;

/// Overrides the verbosity: `HOLDFAST_LOG=holdfast::etcd=debug`.
const VARIABLE: &str = "HOLDFAST_LOG";

/// How the log looks, decided before anything is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// In the form of `HOLDFAST_LOG`.
    pub filter: String,
    /// One JSON object a line, for machines.
    pub json: bool,
    pub colours: bool,
    /// The journal has times and priorities of its own.
    pub journal: bool,
    /// Where each event comes from: for those who look closely.
    pub targets: bool,
}

/// Starts the log for this process, once; `verbosity` counts `-v`. A second
/// call changes nothing.
///
/// # Errors
/// `usage` if `HOLDFAST_LOG` is no filter; nothing is logged then.
pub fn init(verbosity: u8, json: bool) -> Result<(), Failure> {
    let variable = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
    let look = Look {
        filter: variable(VARIABLE).unwrap_or_else(|| filter(verbosity).to_owned()),
        json,
        colours: terminal::has_colours(&std::io::stderr()),
        journal: variable("JOURNAL_STREAM").is_some_and(|stream| is_stream(&stream, std::io::stderr())),
        targets: verbosity >= 2,
    };
    let subscriber = subscriber(&look, || terminal::Lines(std::io::stderr()))?;
    // Fails only where a log exists already.
    let _kept = tracing::subscriber::set_global_default(subscriber);
    Ok(())
}

/// Panics become lines of the log: a daemon's standard error is read by machines.
pub fn log_panics() {
    std::panic::set_hook(Box::new(|panic| tracing::error!(%panic, "a defect of holdfast")));
}

/// What each `-v` adds. Libraries speak only when they are in trouble, until
/// the last step. kube calls each answer while an API server starts an error;
/// what matters of them comes back to the caller.
fn filter(verbosity: u8) -> &'static str {
    match verbosity {
        0 => "warn,kube_client=off",
        1 => "warn,kube_client=off,holdfast=info",
        2 => "warn,kube_client=off,holdfast=debug",
        _ => "info,holdfast=trace",
    }
}

/// A subscriber that writes to `writer`.
///
/// # Errors
/// `usage` if the filter is none.
pub fn subscriber<W>(look: &Look, writer: W) -> Result<Box<dyn tracing::Subscriber + Send + Sync>, Failure>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let filter = EnvFilter::try_new(&look.filter).map_err(|e| {
        Failure::because(&codes::USAGE, VARIABLE, &e).next(format!("set {VARIABLE} to a level or to target=level, such as debug"))
    })?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_ansi(look.colours);
    if look.json {
        return Ok(Box::new(builder.json().flatten_event(true).finish()));
    }
    let form = Format::default().compact().with_timer(Stamp { silent: look.journal }).with_ansi(look.colours);
    let form = form.with_target(look.targets);
    Ok(Box::new(builder.event_format(Lines { form, priorities: look.journal }).finish()))
}

/// The time of an event; none in the journal.
struct Stamp {
    silent: bool,
}

impl FormatTime for Stamp {
    fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        if self.silent { Ok(()) } else { SystemTime.format_time(writer) }
    }
}

/// Is the descriptor the stream that `JOURNAL_STREAM` names, as `device:inode`?
/// The variable alone says nothing: children inherit it with other streams.
fn is_stream(stream: &str, descriptor: impl std::os::fd::AsFd) -> bool {
    rustix::fs::fstat(descriptor).is_ok_and(|stat| stream == format!("{}:{}", stat.st_dev, stat.st_ino))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// What is written of one info and one debug event.
    fn written(filter: &str, json: bool) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        let look = Look { filter: filter.to_owned(), json, colours: false, journal: false, targets: false };
        tracing::subscriber::with_default(subscriber(&look, move || writer.clone()).unwrap(), || {
            tracing::info!(store = "fs /backup", "object stored");
            tracing::debug!("chunk");
        });
        String::from_utf8(lines.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn verbosity_decides_what_is_written() {
        assert_eq!(written(filter(0), false), "");
        let one = written(filter(1), false);
        assert!(one.contains("object stored") && one.contains("fs /backup") && !one.contains("chunk"), "{one}");
        assert!(written(filter(2), false).contains("chunk"));
    }

    #[test]
    fn json_is_one_object_a_line_and_nothing_is_coloured() {
        let text = written("debug", true);
        let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!((&lines[0]["message"], &lines[0]["store"]), (&"object stored".into(), &"fs /backup".into()));
        assert!(!written("debug", false).contains('\u{1b}'));
    }

    /// What is written of events whose values have lines and signs of their own.
    fn written_of_hostile(journal: bool) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        let look = Look { filter: "debug".to_owned(), json: false, colours: false, journal, targets: !journal };
        tracing::subscriber::with_default(subscriber(&look, move || writer.clone()).unwrap(), || {
            tracing::error!(cause = %"2 mistakes\n<0>holdfast.toml:1:1: wrong\r\u{1b}[2J", "configuration refused");
            tracing::warn!("careful");
            tracing::info!("done");
            tracing::debug!("chunk");
        });
        String::from_utf8(lines.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn the_journal_gets_priorities_and_no_times_and_each_line_of_a_value_stays_below_its_event() {
        let text = written_of_hostile(true);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert!(lines[0].starts_with("<3>ERROR configuration refused cause=2 mistakes"), "{text}");
        assert!(lines[1].starts_with("<3>    <0>holdfast.toml:1:1: wrong"), "{text}");
        let starts = ["<4>WARN careful", "<6>INFO done", "<7>DEBUG chunk"];
        assert!(lines[2..].iter().zip(starts).all(|(line, start)| line.starts_with(start)), "{text}");
        assert!(!text.contains(['\r', '\u{1b}']), "{text}");
    }

    #[test]
    fn elsewhere_lines_begin_with_their_time_and_values_begin_none() {
        let text = written_of_hostile(false);
        assert!(text.starts_with("20") && text.contains("ERROR holdfast::telemetry::log"), "{text}");
        assert_eq!(text.lines().nth(1).map(|line| line.starts_with("    <0>holdfast.toml")), Some(true), "{text}");
    }

    #[test]
    fn only_the_stream_that_is_named_is_the_journal() {
        let file = tempfile::tempfile().unwrap();
        let stat = rustix::fs::fstat(&file).unwrap();
        assert!(is_stream(&format!("{}:{}", stat.st_dev, stat.st_ino), &file));
        for other in [format!("{}:{}", stat.st_dev, stat.st_ino + 1), String::new(), "8:".to_owned(), "nonsense".to_owned()] {
            assert!(!is_stream(&other, &file), "{other}");
        }
    }

    #[test]
    fn a_filter_that_is_none_is_a_mistake_of_usage() {
        let look = Look { filter: "holdfast=loud".to_owned(), json: false, colours: false, journal: false, targets: false };
        let failure = subscriber(&look, std::io::sink).err().unwrap();
        assert_eq!(failure.code().name, "usage");
    }
}
