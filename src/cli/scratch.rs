//! `holdfast scratch list` and `holdfast scratch down`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::json;

use super::render::{self, printable};
use super::table::ago;
use crate::base::clock::{Clock, SystemClock};
use crate::base::exit::Exit;
use crate::base::failure::Failure;
use crate::base::units::human_bytes;
use crate::config;
use crate::restore::bench::configuration;
use crate::restore::up::{self, Ended, Note, Scratch, State};

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
            line.push_str(&format!(" --config {}", self.config.display()));
        }
        if let Some(directory) = &self.place.scratch_dir {
            line.push_str(&format!(" --scratch-dir {}", directory.display()));
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
    writeln!(out, "{}  {state}", printable(&scratch.name))?;
    if let (Some(note), true) = (&scratch.up, scratch.supervisor.is_some()) {
        match &note.file {
            Some(file) => writeln!(out, "  {:<12}{}", "file", printable(&file.display().to_string()))?,
            None => writeln!(out, "  {:<12}{} of {}", "snapshot", printable(&note.snapshot), printable(&note.cluster))?,
        }
        for (name, value) in access(note) {
            writeln!(out, "  {name:<12}{}", printable(&value))?;
        }
    }
    writeln!(out, "  {:<12}{}", "directory", printable(&scratch.directory.display().to_string()))?;
    let memory =
        if scratch.memory_bytes == 0 { String::new() } else { format!("{} of memory, ", human_bytes(scratch.memory_bytes)) };
    writeln!(out, "  {:<12}{memory}{} of disk", "uses", human_bytes(scratch.disk_bytes))?;
    if let Some(pid) = scratch.supervisor {
        writeln!(out, "  {:<12}process {pid}", "kept by")?;
    }
    match scratch.state {
        State::Busy => Ok(()),
        State::Leftover => writeln!(out, "  {:<12}{}", "remove it", end.of(&scratch.name)),
        _ => writeln!(out, "  {:<12}{}", "end it", end.of(&scratch.name)),
    }
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

/// How to use it, a name and a line each.
pub(super) fn access(note: &Note) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let Some(kubeconfig) = &note.kubeconfig {
        lines.push(("API server", note.address.clone()));
        lines.push(("KUBECONFIG", kubeconfig.display().to_string()));
        lines.push(("use it", format!("kubectl --kubeconfig {} get all -A", kubeconfig.display())));
    }
    if let Some([authority, certificate, key]) = &note.etcdctl {
        let (authority, certificate, key) = (authority.display(), certificate.display(), key.display());
        lines.push(("etcd", note.address.clone()));
        lines.push(("use it", format!("etcdctl --endpoints {} --cacert {authority}", note.address)));
        lines.push(("", format!("--cert {certificate} --key {key} get / --prefix --keys-only")));
    }
    lines.push(("until", note.not_after.clone()));
    lines
}
