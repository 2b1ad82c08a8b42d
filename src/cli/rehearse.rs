//! `holdfast rehearse` and `holdfast verify`.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::{Args, ValueEnum};
use tokio_util::sync::CancellationToken;

use super::layout::{behind, parts_behind};
use super::render;
use super::waiting;
use crate::base::exit::Exit;
use crate::base::failure::Failure;
use crate::base::ids::RunId;
use crate::base::progress::{Progress, Stage};
use crate::base::units::{count, human_duration};
use crate::record::Rung;
use crate::rehearsal::Rehearsed;
use crate::report::json;
use crate::report::model::{Report, RtoParts};
use crate::runbook::journal::{Entry, Event, Word};
use crate::station::Station;
use crate::station::lock::Patience;
use crate::station::rehearsal::{Asked, Told};

#[derive(Debug, Args)]
pub struct Rehearse {
    /// A snapshot id, the start of one, or `latest`.
    #[arg(default_value = "latest")]
    pub id: String,

    /// The rung to climb to.
    #[arg(long, value_enum, default_value_t = RungArgument::Serve)]
    pub to: RungArgument,

    /// Go on with a run that was cut off, instead of beginning one.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["to", "id"])]
    pub resume: Option<RunId>,
}

/// The rungs that this version climbs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RungArgument {
    /// The stored bytes are whole and escrow opens them.
    Open,
    /// etcd runs it.
    Boot,
    /// Kubernetes reads it.
    Serve,
}

impl From<RungArgument> for Rung {
    fn from(argument: RungArgument) -> Self {
        match argument {
            RungArgument::Open => Self::Open,
            RungArgument::Boot => Self::Boot,
            RungArgument::Serve => Self::Serve,
        }
    }
}

/// Where it stands what came of a step.
const STEP_TEXT: usize = 35;

/// Climbs, and says at each step what came of it.
///
/// # Errors
/// When there is no answer to report. What a step found is an answer.
pub async fn run(
    station: &Station,
    arguments: &Rehearse,
    json: bool,
    out: &mut dyn Write,
    cancel: CancellationToken,
) -> Result<Exit, Failure> {
    let asked =
        Asked { snapshot: &arguments.id, until: arguments.to.into(), trigger: "person", resume: arguments.resume.as_ref() };
    let steps = Steps::new(station.progress.clone());
    let watch = |event: &Event| {
        steps.follow(event);
        show_event(event, json);
    };
    let told = |text: &Told<'_>| tell(text, json);
    let holder = |holder| waiting::note("rehearses", holder, json);
    let patience = Patience { limit: waiting::LIMIT, tell: &holder };
    let (rehearsed, page) = station.rehearse(&asked, cancel, &watch, &told, &patience).await?;
    answer(out, &rehearsed, &page, json)
}

/// Prints how a run ended, and gives its exit code.
pub(super) fn answer(out: &mut dyn Write, rehearsed: &Rehearsed, page: &Path, json: bool) -> Result<Exit, Failure> {
    warn(rehearsed, json)?;
    let printed = if json { print_json(out, rehearsed) } else { print(out, rehearsed, page) };
    printed.map_err(render::unprinted)?;
    Ok(rehearsed.exit())
}

/// What is worth knowing before the first step.
pub(super) fn tell(told: &Told<'_>, json: bool) {
    let err = &mut render::Output(io::stderr());
    // A terminal that went away does not stop a rehearsal.
    let _ = match told {
        Told::Stale(failure) => render::warning(err, failure, json),
        Told::CutOff(run) => {
            let text = format!("run {run} was cut off; to go on with it: holdfast rehearse --resume {run}");
            render::note(err, &text, json)
        }
        Told::Unrecorded(run) => {
            let text = format!(
                "run {run} has ended, and its report is not in the ledger; to write it: holdfast rehearse --resume {run}"
            );
            render::note(err, &text, json)
        }
    };
}

/// The step that is at work, for whoever watches.
pub(super) struct Steps {
    progress: Arc<dyn Progress>,
    at_work: Mutex<Option<Stage>>,
}

impl Steps {
    pub fn new(progress: Arc<dyn Progress>) -> Self {
        Self { progress, at_work: Mutex::default() }
    }

    pub fn follow(&self, event: &Event) {
        let stage = match &event.entry {
            Entry::Started { step, .. } => Some(self.progress.stage(step, None)),
            _ => None,
        };
        *self.at_work.lock().unwrap_or_else(PoisonError::into_inner) = stage;
    }
}

/// One line for each step that ended. With JSON it is for a person who watches,
/// on standard error: programs get nothing there that is no JSON.
pub(super) fn show_event(event: &Event, json: bool) {
    if json && !io::stderr().is_terminal() {
        return;
    }
    let Some(line) = line_of(event) else { return };
    // A terminal that went away does not stop a rehearsal.
    let _ =
        if json { writeln!(render::Output(io::stderr()), "{line}") } else { writeln!(render::Output(io::stdout()), "{line}") };
}

/// What is said of a step that ended, or of what a person did, if the event is such.
#[must_use]
pub fn line_of(event: &Event) -> Option<String> {
    let (word, step, text) = match &event.entry {
        Entry::Succeeded { step, summary, .. } => ("ok", step.as_str(), summary.clone()),
        Entry::Failed { step, failure, .. } => ("FAILED", step.as_str(), failure.code.clone()),
        Entry::Unknown { step, .. } => ("unknown", step.as_str(), "it was cut off".to_owned()),
        Entry::Unasked { step, .. } => ("skipped", step.as_str(), "it is a person's, and nobody is asked".to_owned()),
        Entry::Begun { step, by, .. } => ("begun", step.as_str(), format!("by {by}")),
        Entry::Answered { step, by, answer, .. } => {
            let word = match answer {
                Word::Done => "done",
                Word::Refused => "REFUSED",
                Word::Failed => "FAILED",
            };
            (word, step.as_str(), format!("by {by}"))
        }
        Entry::Noted { text, by, .. } => ("noted", "", format!("by {by}: {text}")),
        Entry::Started { .. } | Entry::Asked { .. } | Entry::Resumed {} | Entry::Interrupted {} | Entry::Finished { .. } => {
            return None;
        }
    };
    Some(behind(&format!("  {word:<7} {step:<24} "), STEP_TEXT, &text).trim_end().to_owned())
}

fn warn(rehearsed: &Rehearsed, json: bool) -> Result<(), Failure> {
    warn_to(&mut render::Output(io::stderr()), rehearsed, json)
}

/// What did not go well and does not change the answer.
pub(super) fn warn_to(err: &mut (impl render::Sink + ?Sized), rehearsed: &Rehearsed, json: bool) -> Result<(), Failure> {
    for leftover in &rehearsed.leftovers {
        let text = format!("removed what a killed run had left: {}", leftover.directory.display());
        render::note(err, &text, json).map_err(render::unprinted)?;
    }
    for warning in &rehearsed.warnings {
        render::warning(err, warning, json).map_err(render::unprinted)?;
    }
    Ok(())
}

/// Says how a rehearsal ended.
///
/// # Errors
/// Those of `out`.
pub fn print(out: &mut dyn Write, rehearsed: &Rehearsed, page: &Path) -> io::Result<()> {
    print_answer(out, rehearsed)?;
    print_page(out, rehearsed, page)
}

/// The place of the report.
pub(super) fn print_page(out: &mut dyn Write, rehearsed: &Rehearsed, page: &Path) -> io::Result<()> {
    write!(out, "report {}:\n{}", rehearsed.run, parts_behind("  ", 2, &[&page.display().to_string()]))
}

/// The answer, without the place of its report.
pub(super) fn print_answer(out: &mut dyn Write, rehearsed: &Rehearsed) -> io::Result<()> {
    let report = &rehearsed.report;
    match &rehearsed.outcome.failure {
        None => write!(out, "{}", behind("", 2, &report.verdict.sentence))?,
        Some((_, failure)) => render::failure(out, &failure.to_failure(), false)?,
    }
    for object in report.facts.decryption.iter().flat_map(|decryption| &decryption.failures) {
        // What is not encrypted has no key.
        let key =
            if object.provider.is_empty() { String::new() } else { format!(" ({} key {})", object.provider, object.key_name) };
        let text = format!("{}{key}: {}", object.object, object.cause);
        write!(out, "{}", behind("  unreadable: ", 4, &text))?;
    }
    let time = |ms: u64| human_duration(Duration::from_millis(ms));
    if let Some(ms) = report.rto.measured_ms {
        writeln!(out, "  restored in: {}", time(ms))?;
        write!(out, "{}", people(report))?;
    }
    if let Some(ms) = report.rpo.measured_ms {
        writeln!(out, "  age of the data at the start: {}", time(ms))?;
    }
    if let Some(fence) = &report.facts.fence {
        write!(out, "{}", behind("  ", 4, &fence.statement))?;
    }
    Ok(())
}

/// Machine and people apart, where the runbook has people in it.
fn people(report: &Report) -> String {
    let (Some(machine), false) = (report.rto_parts.machine_ms, report.manual.is_empty()) else { return String::new() };
    let time = |ms: u64| human_duration(Duration::from_millis(ms));
    let RtoParts { people, carried, unknown, .. } = &report.rto_parts;
    let mut text = format!("machine {}, people {}", time(machine), time(people.total()));
    if carried.total() > 0 {
        text += &format!(", and {} of people carried from an earlier run", time(carried.total()));
    }
    if !unknown.is_empty() {
        text += &format!("; without {} of people that no run has measured", count(unknown.len() as u64, "step"));
    }
    behind("    ", 4, &text)
}

fn print_json(out: &mut dyn Write, rehearsed: &Rehearsed) -> io::Result<()> {
    let text = json::render(&rehearsed.report).map_err(io::Error::other)?;
    out.write_all(text.as_bytes())
}
