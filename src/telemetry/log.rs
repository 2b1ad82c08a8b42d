//! The log: `tracing` events on standard error, readable or as JSON lines.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

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
    };
    let subscriber = subscriber(&look, || terminal::Lines(std::io::stderr()))?;
    // Fails only where a log exists already.
    let _kept = tracing::subscriber::set_global_default(subscriber);
    Ok(())
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
    Ok(if look.json { Box::new(builder.json().flatten_event(true).finish()) } else { Box::new(builder.compact().finish()) })
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
        let look = Look { filter: filter.to_owned(), json, colours: false };
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

    #[test]
    fn a_filter_that_is_none_is_a_mistake_of_usage() {
        let look = Look { filter: "holdfast=loud".to_owned(), json: false, colours: false };
        let failure = subscriber(&look, std::io::sink).err().unwrap();
        assert_eq!(failure.code().name, "usage");
    }
}
