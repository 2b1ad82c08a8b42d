//! The command line: arguments, one file per subcommand, rendering.
//!
//! Owns: everything that is printed. Must never: decide. Each subcommand opens
//! what it needs, calls one entry of the library and renders the answer.

// Printing is what this module is for.
#![allow(clippy::print_stdout, clippy::print_stderr)]

pub mod args;
pub mod catalog;
mod columns;
pub mod completions;
pub mod daemon;
pub mod demo;
mod desk;
pub mod doctor;
pub mod inspect;
mod inspect_page;
pub mod layout;
pub mod list;
pub mod man;
mod progress;
pub mod rehearse;
pub mod render;
pub mod report;
pub mod report_page;
pub mod restore;
mod restore_member;
pub mod runbook;
pub mod runbook_page;
pub mod scratch;
pub mod show;
pub mod snapshot;
pub mod table;
pub mod waiting;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use tokio_util::sync::CancellationToken;

use crate::base::codes;
use crate::base::exit::Exit;
use crate::base::failure::Failure;
use crate::catalog::Catalog;
use crate::station::{Current, Station};
use crate::store;
use args::{Answer, Arguments, CatalogCommand, Command};

/// A put that was stopped removes its temporary in this time; a thread that
/// still reads a snapshot for an interrupted command is not waited for.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// An upload that was stopped is aborted in this time, or its parts stay.
const LAST_REQUESTS: Duration = Duration::from_secs(5);

/// Runs the program and maps its outcome to an exit code.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return misused(&error).into(),
    };
    let is_daemon = matches!(arguments.command, Command::Daemon);
    // What a daemon did is read in its log, and nowhere else.
    let verbosity = arguments.verbose.saturating_add(u8::from(is_daemon));
    if let Err(failure) = crate::telemetry::log::init(verbosity, arguments.json) {
        let _ = render::failure(&mut io::stderr(), &failure, arguments.json);
        return failure.exit().into();
    }
    // Before the first client is built: libraries look for the process's provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let json = arguments.json;
    if !is_daemon {
        progress::start(json);
    }
    let result = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::because(&codes::STATE_UNUSABLE, "threads", &error))
        .and_then(|runtime| {
            let outcome = runtime.block_on(run(arguments));
            let _too_late = runtime.block_on(async { tokio::time::timeout(LAST_REQUESTS, store::s3::settled()).await });
            runtime.shutdown_timeout(LAST_WORDS);
            outcome
        });
    progress::clear();
    match result {
        Ok(exit) => exit.into(),
        // A reader that has seen enough closes the pipe; that is no failure.
        Err(failure) if render::is_closed_pipe(&failure) => Exit::Good.into(),
        Err(failure) => {
            let _ = render::failure(&mut io::stderr(), &failure, json);
            failure.exit().into()
        }
    }
}

/// Help and version are answers; anything else is a wrong command line.
fn misused(error: &clap::Error) -> Exit {
    // The arguments were not understood, so that this one is looked for by hand.
    let json = std::env::args_os().any(|argument| argument == "--json");
    if !error.use_stderr() || !json {
        let _ = error.print();
        return if error.use_stderr() { Exit::Usage } else { Exit::Good };
    }
    let text = error.render().to_string();
    let cause = match error.kind() {
        // clap shows the whole help here.
        clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "it names no command".to_owned(),
        _ => text
            .trim_start_matches("error: ")
            .split("\n\n")
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" "),
    };
    let _ = render::failure(&mut io::stderr(), &Failure::new(&codes::USAGE, "command line", cause), true);
    Exit::Usage
}

async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    // Signals mean other things to a daemon.
    if let Command::Daemon = arguments.command {
        return daemon::run(&arguments.config).await;
    }
    let cancel = CancellationToken::new();
    let dispatch = dispatch(arguments, cancel.clone());
    tokio::pin!(dispatch);
    tokio::select! {
        // Somebody listens to signals before anything is started.
        biased;
        () = interrupted() => cancel.cancel(),
        outcome = &mut dispatch => return outcome,
    }
    // What was started cleans up after itself; a second signal ends it at once.
    tokio::select! {
        outcome = &mut dispatch => outcome,
        () = interrupted() => Err(Failure::new(&codes::INTERRUPTED, "holdfast", "interrupted twice")),
    }
}

async fn dispatch(arguments: Arguments, cancel: CancellationToken) -> Result<Exit, Failure> {
    let Arguments { config, json, command, .. } = arguments;
    let out = &mut render::Output(io::stdout());
    let result = match command {
        Command::Inspect(arguments) => unless(&cancel, inspect_apart(arguments, json, out)).await,
        // Cancelled by hand, so that a run journals its end and tears down.
        Command::Rehearse(arguments) => rehearse::run(&station(&config)?, &arguments, json, out, cancel.clone()).await,
        Command::Verify { id } => {
            let arguments = rehearse::Rehearse { id, to: rehearse::RungArgument::Open, resume: None };
            rehearse::run(&station(&config)?, &arguments, json, out, cancel.clone()).await
        }
        // As a rehearsal; while a person is waited for, the run is left open.
        Command::Runbook { command } => runbook::run(&station(&config)?, &config, command, json, out, cancel.clone()).await,
        // Cancelled by hand, too: what is up is torn down.
        Command::Restore(arguments) => restore::run(&config, &arguments, json, out, cancel.clone()).await,
        Command::Scratch { command } => unless(&cancel, scratch::run(&config, command, json, out)).await,
        Command::Completions(arguments) => completions::print(&arguments, json, out),
        Command::Man(arguments) => man::run(&arguments, json, out),
        Command::Daemon => daemon::run(&config).await,
        Command::Demo => demo::run(json, out, cancel.clone()).await,
        Command::Answer(command) => unless(&cancel, answer(station(&config)?, &config, command, json, out)).await,
    };
    let flushed = out.flush();
    result.and_then(|exit| flushed.map(|()| exit).map_err(render::unprinted))
}

/// The host of a configuration, whose long work this process's terminal shows.
fn station(config: &Path) -> Result<Station, Failure> {
    Ok(Station::open(config)?.watched(progress::watcher()))
}

/// Reads on a thread of its own: a signal must find somebody who listens.
async fn inspect_apart(arguments: inspect::Inspect, json: bool, out: &mut dyn Write) -> Result<Exit, Failure> {
    let object = arguments.file.display().to_string();
    let reading = tokio::task::spawn_blocking(move || {
        let mut page = Vec::new();
        inspect::run(&arguments, json, &mut page).map(|exit| (exit, page))
    });
    let (exit, page) = reading.await.map_err(|e| Failure::because(&codes::INSPECT_UNREADABLE, object, &e))??;
    out.write_all(&page).map_err(render::unprinted)?;
    Ok(exit)
}

/// The commands that may be stopped at any await.
async fn answer(station: Station, file: &Path, command: Answer, json: bool, out: &mut dyn Write) -> Result<Exit, Failure> {
    let now = station.clock.now();
    match command {
        Answer::Snapshot(arguments) => snapshot::run(&station, &arguments, json, out).await,
        Answer::Doctor => doctor::run(station, file, json, out).await,
        Answer::List => list::print(&current(&station, json).await?, json, out, now),
        Answer::Show { id } => show::print(&current(&station, json).await?, &id, json, out, now),
        Answer::Report(arguments) => report::run(&current(&station, json).await?, &arguments, json, out),
        Answer::Catalog { command: CatalogCommand::Rebuild } => {
            let history = station.read_ledger().await?;
            let rebuilt = Catalog::rebuild(station.state_dir(), &history)?;
            catalog::print_rebuilt(&rebuilt, &history, json, out)
        }
    }
}

/// The catalog; where the ledger does not answer, with a warning.
async fn current(station: &Station, json: bool) -> Result<Catalog, Failure> {
    let Current { catalog, stale } = station.current_catalog().await?;
    if let Some(failure) = stale {
        render::warning(&mut render::Output(io::stderr()), &failure, json).map_err(render::unprinted)?;
    }
    Ok(catalog)
}

/// Stops at the next await when a signal came. Whatever was being stored is
/// aborted with the future that stored it.
async fn unless(cancel: &CancellationToken, work: impl Future<Output = Result<Exit, Failure>>) -> Result<Exit, Failure> {
    tokio::select! {
        outcome = work => outcome,
        () = cancel.cancelled() => Err(Failure::new(&codes::INTERRUPTED, "holdfast", "interrupted")),
    }
}

/// Waits for SIGINT, SIGTERM or SIGHUP.
async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let wait = |kind| async move {
        match signal(kind) {
            Ok(mut signal) => {
                signal.recv().await;
            }
            // Without a handler the default action ends the process, which is as good.
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = wait(SignalKind::interrupt()) => {}
        () = wait(SignalKind::terminate()) => {}
        () = wait(SignalKind::hangup()) => {}
    }
}
