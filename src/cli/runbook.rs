//! `holdfast runbook`: the pages of this host, runs with people in them, and
//! what people answer.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use clap::{Args, Subcommand};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::desk::TerminalDesk;
use super::rehearse::{self, RungArgument, Steps};
use super::render::{self, printable};
use super::{runbook_page, waiting};
use crate::base::codes;
use crate::base::exit::Exit;
use crate::base::failure::Failure;
use crate::runbook::answer::{Answer, Name, Note};
use crate::runbook::desk::Desk;
use crate::runbook::journal::{Entry, Event, RunHead, Word};
use crate::station::Station;
use crate::station::lock::Patience;
use crate::station::people::Drill;
use crate::station::rehearsal::Told;

/// Hands are not busy for longer without a pause.
const MAX_HANDS_ON: Duration = Duration::from_secs(7 * 24 * 3600);

#[derive(Debug, Subcommand)]
pub enum RunbookCommand {
    /// List the runbooks of this host, and the runs that have no end.
    List,
    /// Show a runbook's steps: who does them, and when each counts as done.
    Show {
        /// A runbook's id.
        id: String,
    },
    /// Run a runbook on a snapshot, with the people in it.
    ///
    /// A step that a person does waits until it is answered: at this terminal, or
    /// by `holdfast runbook done` in any other, also after this process was
    /// stopped or killed. ^C while a step waits leaves the run open.
    Run(Run),
    /// Go on with a run that was left or cut off.
    Resume {
        /// A run's id, the start of one, or `latest`.
        run: String,
    },
    /// Say that hands are on a step now: until here it waited.
    Begin {
        #[command(flatten)]
        step: StepOfRun,
    },
    /// Answer a step: done, approved, refused, or failed.
    Done(Done),
    /// Write down what hands did that the runbook does not foresee.
    Note {
        /// A run's id, the start of one, or `latest`.
        run: String,
        /// What was done.
        text: Note,
        #[command(flatten)]
        who: Who,
        /// How long hands were busy, such as `12m` or `1h 30m`.
        #[arg(long, value_name = "DURATION", value_parser = hands_on)]
        hands_on: Option<Duration>,
    },
}

#[derive(Debug, Args)]
pub struct Run {
    /// A runbook's id.
    pub id: String,
    /// A snapshot id, the start of one, or `latest`.
    #[arg(default_value = "latest")]
    pub snapshot: String,
    /// The rung to climb to; without it, the runbook's highest.
    #[arg(long, value_enum)]
    pub to: Option<RungArgument>,
    /// Ask nobody: the report says which steps were not exercised.
    #[arg(long)]
    pub unattended: bool,
    /// When the incident began, such as `2026-12-01T13:05:00Z`: data is counted as lost up to then.
    #[arg(long, value_name = "TIME")]
    pub incident: Option<Timestamp>,
}

#[derive(Debug, Args)]
pub struct Done {
    #[command(flatten)]
    pub step: StepOfRun,
    /// How long hands were busy, such as `12m`; without it, since `begin`.
    #[arg(long, value_name = "DURATION", value_parser = hands_on)]
    pub hands_on: Option<Duration>,
    /// What there is to say about it.
    #[arg(long, value_name = "TEXT")]
    pub note: Option<Note>,
    /// It is an approval, and it is not given.
    #[arg(long, conflicts_with = "failed")]
    pub refuse: bool,
    /// It was tried, and its criterion is not met.
    #[arg(long)]
    pub failed: bool,
}

#[derive(Debug, Args)]
pub struct StepOfRun {
    /// A run's id, the start of one, or `latest`.
    pub run: String,
    /// The step's id.
    pub step: String,
    #[command(flatten)]
    pub who: Who,
}

#[derive(Debug, Args)]
pub struct Who {
    /// Who does it; without it, whoever is logged in.
    #[arg(long, value_name = "NAME")]
    pub by: Option<Name>,
}

impl Who {
    /// The person named, or the one who logged in, also behind sudo.
    fn name(&self) -> Result<Name, Failure> {
        self.by.clone().or_else(logged_in).ok_or_else(|| {
            Failure::new(&codes::USAGE, "--by", "nobody is named, and nobody is logged in").next("say who did it with --by NAME")
        })
    }
}

/// Who sits here, as far as the environment tells.
fn logged_in() -> Option<Name> {
    ["SUDO_USER", "LOGNAME", "USER"].into_iter().find_map(|variable| std::env::var(variable).ok()?.parse().ok())
}

fn hands_on(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<SignedDuration>().ok().and_then(|duration| Duration::try_from(duration).ok());
    match parsed {
        Some(duration) if !duration.is_zero() && duration <= MAX_HANDS_ON => Ok(duration),
        Some(_) => Err("it must be above zero and at most 7 days".to_owned()),
        None => Err("it must be a time such as 90s, 12m or 1h 30m".to_owned()),
    }
}

/// # Errors
/// `runbook.*`, `run.*`, and when there is no answer to report.
pub async fn run(
    station: &Station,
    config: &Path,
    command: RunbookCommand,
    json: bool,
    out: &mut dyn Write,
    cancel: CancellationToken,
) -> Result<Exit, Failure> {
    match command {
        RunbookCommand::List => runbook_page::list(station, json, out),
        RunbookCommand::Show { id } => runbook_page::show(&station.runbook(&id)?, json, out),
        RunbookCommand::Run(arguments) => climb(station, config, Way::New(&arguments), json, out, cancel).await,
        RunbookCommand::Resume { run } => {
            let head = station.resolve_journal(&run)?;
            climb(station, config, Way::Resumed(&head), json, out, cancel).await
        }
        RunbookCommand::Begin { step } => begin(station, &step, json, out),
        RunbookCommand::Done(arguments) => done(station, &arguments, json, out),
        RunbookCommand::Note { run, text, who, hands_on } => {
            let head = station.resolve_journal(&run)?;
            let event = station.writer()?.note(&head.run, &text, &who.name()?, hands_on)?;
            told(&head, &event, json, out)
        }
    }
}

#[derive(Clone, Copy)]
enum Way<'a> {
    New(&'a Run),
    Resumed(&'a RunHead),
}

async fn climb(
    station: &Station,
    config: &Path,
    way: Way<'_>,
    json: bool,
    out: &mut dyn Write,
    cancel: CancellationToken,
) -> Result<Exit, Failure> {
    let attended = match way {
        Way::New(arguments) => !arguments.unattended,
        Way::Resumed(head) => head.attended,
    };
    // Both ends: somebody must see the question and be able to answer it.
    let sees = if json { io::stderr().is_terminal() } else { io::stdout().is_terminal() };
    let desk = TerminalDesk::open(config, logged_in(), json, attended && sees && io::stdin().is_terminal());
    let steps = Steps::new(station.progress.clone());
    let watch = |event: &Event| {
        steps.follow(event);
        desk.clear_prompt();
        rehearse::show_event(event, json);
    };
    let tell = |told: &Told<'_>| rehearse::tell(told, json);
    let holder = |holder| waiting::note("rehearses", holder, json);
    let patience = Patience { limit: waiting::LIMIT, tell: &holder };
    let (rehearsed, page) = match way {
        Way::New(arguments) => {
            let drill = Drill {
                runbook: &arguments.id,
                snapshot: &arguments.snapshot,
                until: arguments.to.map(Into::into),
                desk: attended.then_some(&desk as &dyn Desk),
                incident: arguments.incident,
            };
            station.run_runbook(&drill, cancel, &watch, &tell, &patience).await?
        }
        Way::Resumed(head) => {
            let desk = attended.then_some(&desk as &dyn Desk);
            station.resume_run(&head.run, desk, cancel, &watch, &tell, &patience).await?
        }
    };
    rehearse::answer(out, &rehearsed, &page, json)
}

fn begin(station: &Station, arguments: &StepOfRun, json: bool, out: &mut dyn Write) -> Result<Exit, Failure> {
    let head = station.resolve_journal(&arguments.run)?;
    station.refuse_unknown_step(&head, &arguments.step)?;
    let event = station.writer()?.begin(&head.run, &arguments.step, &arguments.who.name()?)?;
    told(&head, &event, json, out)
}

fn done(station: &Station, arguments: &Done, json: bool, out: &mut dyn Write) -> Result<Exit, Failure> {
    let StepOfRun { run, step, who } = &arguments.step;
    let head = station.resolve_journal(run)?;
    station.refuse_unknown_step(&head, step)?;
    let word = match (arguments.refuse, arguments.failed) {
        (true, _) => Word::Refused,
        (_, true) => Word::Failed,
        _ => Word::Done,
    };
    let answer = Answer { word, by: who.name()?, note: arguments.note.clone(), hands_on: arguments.hands_on };
    let event = station.writer()?.answer(&head.run, step, &answer)?;
    told(&head, &event, json, out)
}

/// What was written down.
fn told(head: &RunHead, event: &Event, json: bool, out: &mut dyn Write) -> Result<Exit, Failure> {
    let printed = if json {
        writeln!(out, "{}", json!({ "run": head.run, "event": event.number, "at": event.at, "entry": event.entry }))
    } else {
        let (what, by) = match &event.entry {
            Entry::Begun { step, by, .. } => (format!("step {step} begun"), by),
            Entry::Answered { step, by, answer: Word::Done, .. } => (format!("step {step} done"), by),
            Entry::Answered { step, by, answer: Word::Refused, .. } => (format!("step {step} refused"), by),
            Entry::Answered { step, by, answer: Word::Failed, .. } => (format!("step {step} not done"), by),
            Entry::Noted { by, .. } => ("noted".to_owned(), by),
            _ => return Ok(Exit::Good),
        };
        writeln!(out, "run {}: {} by {}", head.run, printable(&what), printable(by))
    };
    printed.map_err(render::unprinted)?;
    Ok(Exit::Good)
}
