//! `holdfast scratch list` and `holdfast scratch down`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::json;

use super::layout::{behind, padded, parts_behind};
use super::render::{self, printable};
use super::table::ago;
use crate::base::clock::{Clock, SystemClock};
use crate::base::exit::Exit;
use crate::base::failure::Failure;
use crate::base::units::human_bytes;
use crate::config;
use crate::restore::bench::configuration;
use crate::restore::up::{self, Ended, Note, Scratch, State};

/// Where values stand.
const COLUMN: usize = 14;

#[derive(Debug, Subcommand)]
pub enum ScratchCommand {
    /// Show what is up, how to use it, and what a crash left.
    List {
        #[command(flatten)]
        place: Place,
    },
    /// End a restored cluster, or remove what a crash left.
    Down {
        #[command(flatten)]
        place: Place,
        /// The name that `list` shows, or the start of it; not needed where there is one.
        #[arg(conflicts_with = "all")]
        name: Option<String>,
        /// All of them. Runs at work are left alone.
        #[arg(long)]
        all: bool,
    },
}

/// Where scratch environments are made.
#[derive(Debug, Clone, Args)]
pub struct Place {
    /// Below this directory, instead of the configuration's rehearsal.scratch_dir.
    #[arg(long, value_name = "DIR")]
    pub scratch_dir: Option<PathBuf>,
}

/// # Errors
/// `scratch.*`, `sandbox.failed`, `config.*`.
pub async fn run(config: &Path, command: ScratchCommand, json: bool, out: &mut dyn Write) -> Result<Exit, Failure> {
    let (ScratchCommand::List { place } | ScratchCommand::Down { place, .. }) = &command;
    let root = configuration(config, place.scratch_dir.as_deref())?.0.rehearsal.scratch_dir;
    let all = up::list(&root)?;
    let ended = match &command {
        ScratchCommand::List { place } => {
            let now = SystemClock::new().now();
            print_list(out, &End { config, place }, &all, json, now).map_err(render::unprinted)?;
            return Ok(Exit::Good);
        }
        ScratchCommand::Down { all: true, .. } => {
            let mut ended = Vec::new();
            for scratch in all.iter().filter(|scratch| scratch.state != State::Busy) {
                ended.push(up::down(&root, scratch).await?);
            }
            ended
        }
        ScratchCommand::Down { name, .. } => vec![up::down(&root, &up::choose(&all, name.as_deref())?).await?],
    };
    print_ended(out, &ended, json).map_err(render::unprinted)?;
    Ok(Exit::Good)
}

/// How the command that ends something is written.
pub(super) struct End<'a> {
    pub config: &'a Path,
    pub place: &'a Place,
}

impl End<'_> {
    /// As it can be copied.
    pub fn of(&self, name: &str) -> String {
        let mut line = format!("holdfast scratch down {name}");
        if self.config != Path::new(config::DEFAULT_PATH) {
            line.push_str(&format!(" --config {}", quoted(self.config)));
        }
        if let Some(directory) = &self.place.scratch_dir {
            line.push_str(&format!(" --scratch-dir {}", quoted(directory)));
        }
        line
    }
}

fn print_list(out: &mut dyn Write, end: &End<'_>, all: &[Scratch], json: bool, now: Timestamp) -> io::Result<()> {
    if json {
        return writeln!(out, "{}", json!({ "scratch": all }));
    }
    if all.is_empty() {
        return writeln!(out, "nothing is up, and nothing is left of anything");
    }
    for scratch in all {
        print_one(out, end, scratch, now)?;
    }
    Ok(())
}

fn print_one(out: &mut dyn Write, end: &End<'_>, scratch: &Scratch, now: Timestamp) -> io::Result<()> {
    let state = match (scratch.state, &scratch.up) {
        (State::Up, Some(note)) => format!("up at rung {}, {}", note.rung, ago(&note.since, now)),
        (State::Broken, _) => format!("BROKEN: ended by itself: {}", scratch.ended.join(", ")),
        (State::Up | State::Climbing, _) => "a restore that is not up yet".to_owned(),
        (State::Busy, _) => "a run at work; it tears itself down".to_owned(),
        (State::Leftover, _) => "LEFTOVER of a process that was killed".to_owned(),
    };
    write!(out, "{}", behind(&format!("{}  ", scratch.name), 2, &state))?;
    if let (Some(note), true) = (&scratch.up, scratch.supervisor.is_some()) {
        let source = match &note.file {
            Some(file) => file.display().to_string(),
            None => format!("{} of {}", note.snapshot, note.cluster),
        };
        line(out, if note.file.is_some() { "file" } else { "snapshot" }, &[&source])?;
        print_access(out, note)?;
    }
    line(out, "directory", &[&scratch.directory.display().to_string()])?;
    let memory =
        if scratch.memory_bytes == 0 { String::new() } else { format!("{} of memory, ", human_bytes(scratch.memory_bytes)) };
    line(out, "uses", &[&format!("{memory}{} of disk", human_bytes(scratch.disk_bytes))])?;
    if let Some(pid) = scratch.supervisor {
        line(out, "kept by", &[&format!("process {pid}")])?;
    }
    match scratch.state {
        State::Busy => Ok(()),
        State::Leftover => writeln!(out, "  to remove it:\n    {}", end.of(&scratch.name)),
        _ => writeln!(out, "  to end it:\n    {}", end.of(&scratch.name)),
    }
}

/// A label and what is said of it, inside a block.
pub(super) fn line(out: &mut dyn Write, label: &str, parts: &[&str]) -> io::Result<()> {
    write!(out, "{}", parts_behind(&padded(&format!("  {label}"), COLUMN), COLUMN, parts))
}

fn print_ended(out: &mut dyn Write, ended: &[Ended], json: bool) -> io::Result<()> {
    if json {
        return writeln!(out, "{}", json!({ "ended": ended }));
    }
    if ended.is_empty() {
        return writeln!(out, "nothing was up, and nothing was left of anything");
    }
    for one in ended {
        let (name, what) = (printable(&one.name), if one.state == State::Leftover { "removed" } else { "ended" });
        let how = if one.killed { ", by force" } else { "" };
        writeln!(out, "{name}  {what}{how}; nothing of it is left")?;
    }
    Ok(())
}

/// Where it answers, until when, and the commands that use it: each on a line
/// of its own, to be copied.
pub(super) fn print_access(out: &mut dyn Write, note: &Note) -> io::Result<()> {
    line(out, if note.kubeconfig.is_some() { "API server" } else { "etcd" }, &[&note.address])?;
    line(out, "until", &[&note.not_after])?;
    writeln!(out, "  to use it:")?;
    if let Some(kubeconfig) = &note.kubeconfig {
        writeln!(out, "    export KUBECONFIG={}", kubeconfig.display())?;
        writeln!(out, "    kubectl get secrets -A")?;
    }
    if let Some([authority, certificate, key]) = &note.etcdctl {
        writeln!(out, "    export ETCDCTL_ENDPOINTS={}", note.address)?;
        writeln!(out, "    export ETCDCTL_CACERT={}", authority.display())?;
        writeln!(out, "    export ETCDCTL_CERT={}", certificate.display())?;
        writeln!(out, "    export ETCDCTL_KEY={}", key.display())?;
        writeln!(out, "    etcdctl get / --prefix --keys-only")?;
    }
    Ok(())
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = printable(&path.display().to_string());
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+@:".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_that_ends_it_can_be_copied() {
        let place = Place { scratch_dir: Some("/srv/my scratch".into()) };
        let end = End { config: Path::new("/etc/o'hare.toml"), place: &place };
        assert_eq!(end.of("2026"), r"holdfast scratch down 2026 --config '/etc/o'\''hare.toml' --scratch-dir '/srv/my scratch'");
        let end = End { config: Path::new(config::DEFAULT_PATH), place: &Place { scratch_dir: None } };
        assert_eq!(end.of("2026"), "holdfast scratch down 2026");
    }
}
