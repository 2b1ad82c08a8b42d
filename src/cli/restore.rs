//! `holdfast restore`.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use clap::{Args, ValueEnum};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::progress::watcher;
use super::rehearse::{Steps, line_of, print_answer, print_page, warn_to};
use super::render;
use super::restore_member;
use super::scratch::{End, Place, print_access};
use crate::base::codes;
use crate::base::exit::Exit;
use crate::base::failure::Failure;
use crate::base::progress::Progress;
use crate::record::Rung;
use crate::report::json as report_json;
use crate::restore::Told;
use crate::restore::bench::{Bench, Given, configuration};
use crate::restore::data_dir::{BUMP, Order};
use crate::restore::member::Membership;
use crate::restore::relayed::{Followed, Relayed};
use crate::restore::scratch::{Raised, raise};
use crate::restore::supervisor::{Frame, Supervisor, Tie, framed, send};
use crate::restore::up::Note;
use crate::runbook::journal::Event;

#[derive(Debug, Args)]
pub struct Restore {
    /// A snapshot id, the start of one, or `latest`.
    #[arg(default_value = "latest", conflicts_with = "from")]
    pub id: String,

    /// A file instead: as `etcdctl snapshot save` writes it, a raw `db`, or a
    /// sealed `etcd.db.zst.age`. It needs no store, ledger or configuration.
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,

    /// An age identity file, instead of those of the configuration; repeat it for several.
    #[arg(long = "identity", value_name = "FILE")]
    pub identities: Vec<PathBuf>,

    /// With --from: an EncryptionConfiguration in clear that has the keys; repeat it for several.
    #[arg(long = "encryption-config", value_name = "FILE")]
    pub encryption_configs: Vec<PathBuf>,

    /// With --from: a sealed key document (.age) out of escrow; repeat it for several.
    #[arg(long = "escrow-record", value_name = "FILE")]
    pub escrow_records: Vec<PathBuf>,

    /// `scratch`: a cluster of its own on this host. Else a directory, absent or
    /// empty: the data directory of an etcd member.
    #[arg(long, value_name = "scratch|DIR")]
    pub into: PathBuf,

    #[command(flatten)]
    pub place: Place,

    #[command(flatten)]
    pub scratch: ScratchOptions,

    #[command(flatten)]
    pub member: MemberOptions,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Options of --into scratch")]
pub struct ScratchOptions {
    /// How far to climb: `boot` is etcd alone, `serve` has an API server. [default: serve]
    #[arg(long, value_enum, hide_possible_values = true)]
    pub to: Option<RungArgument>,

    /// Keep the cluster up in this process, until a signal, and not in one of its own.
    #[arg(long)]
    pub foreground: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Options of --into DIR")]
pub struct MemberOptions {
    /// The member that the directory is for.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    /// Where other members reach it, as https://HOST:2380; repeat it for several.
    #[arg(long = "peer-url", value_name = "URL")]
    pub peer_urls: Vec<String>,

    /// All members of the new cluster, as etcd takes it: NAME=URL,NAME=URL.
    #[arg(long, value_name = "LIST")]
    pub initial_cluster: Option<String>,

    /// The token that the first member of the new cluster was made with. Without it, a fresh one.
    #[arg(long, value_name = "TOKEN")]
    pub initial_cluster_token: Option<String>,

    /// By how much revisions go up, all before marked compacted, so that watchers
    /// begin anew: right for every restore of production. 0 leaves them. [default: 1000000000]
    #[arg(long, value_name = "N")]
    pub bump_revision: Option<u64>,

    /// Also write the EncryptionConfiguration that reads the data, IN CLEAR, mode 0600.
    #[arg(long, value_name = "FILE")]
    pub write_encryption_config: Option<PathBuf>,

    /// Show the plan with all its checks, and write nothing.
    #[arg(long, visible_alias = "dry-run")]
    pub plan: bool,
}

impl Restore {
    /// What is asked for; none where it is a scratch cluster.
    ///
    /// # Errors
    /// `usage` for an option of the other kind, `restore.member`.
    fn order(&self) -> Result<Option<Order>, Failure> {
        let (scratch, member) = (&self.scratch, &self.member);
        let into_scratch = self.into == Path::new(SCRATCH);
        let astray = if into_scratch {
            [
                (member.name.is_some(), "--name"),
                (!member.peer_urls.is_empty(), "--peer-url"),
                (member.initial_cluster.is_some(), "--initial-cluster"),
                (member.initial_cluster_token.is_some(), "--initial-cluster-token"),
                (member.bump_revision.is_some(), "--bump-revision"),
                (member.write_encryption_config.is_some(), "--write-encryption-config"),
                (member.plan, "--plan"),
            ]
            .to_vec()
        } else {
            [(scratch.to.is_some(), "--to"), (scratch.foreground, "--foreground")].to_vec()
        };
        if let Some((_, option)) = astray.into_iter().find(|(is_given, _)| *is_given) {
            let cause = if into_scratch { "it belongs to --into DIR" } else { "it belongs to --into scratch" };
            return Err(Failure::new(&codes::USAGE, option, cause).next("see holdfast restore --help"));
        }
        if into_scratch {
            return Ok(None);
        }
        let membership = Membership::of(member.name.as_deref(), &member.peer_urls, member.initial_cluster.as_deref())?;
        Ok(Some(Order {
            into: self.into.clone(),
            member: membership,
            token: member.initial_cluster_token.clone(),
            bump: member.bump_revision.unwrap_or(BUMP),
            encryption_config: member.write_encryption_config.clone(),
            only_plan: member.plan,
        }))
    }

    pub(super) fn given(&self) -> Given {
        Given {
            snapshot: self.id.clone(),
            file: self.from.clone(),
            identities: self.identities.clone(),
            encryption_configs: self.encryption_configs.clone(),
            escrow_records: self.escrow_records.clone(),
        }
    }
}

/// What can stay up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RungArgument {
    /// etcd alone.
    Boot,
    /// etcd and an API server.
    Serve,
}

impl From<RungArgument> for Rung {
    fn from(argument: RungArgument) -> Self {
        match argument {
            RungArgument::Boot => Self::Boot,
            RungArgument::Serve => Self::Serve,
        }
    }
}

/// The word that stands for a scratch cluster; a directory of this name is `./scratch`.
const SCRATCH: &str = "scratch";

/// Restores, in a process of its own where the result is to outlive this one.
///
/// # Errors
/// When there is no answer to report; nothing is left running.
pub async fn run(
    config: &Path,
    arguments: &Restore,
    json: bool,
    out: &mut dyn Write,
    cancel: CancellationToken,
) -> Result<Exit, Failure> {
    if let Some(order) = arguments.order()? {
        return restore_member::run(config, arguments, &order, json, out, cancel).await;
    }
    if let Some(mut tie) = Tie::of_this_process()? {
        return supervise(config, arguments, json, &mut tie, cancel).await;
    }
    if arguments.scratch.foreground {
        let mut err = render::Output(io::stderr());
        let screen = Screen { out: Mutex::new(out), err: Mutex::new(&mut err), watch: &progress_here, json };
        return keep(config, arguments, &screen, None, cancel).await;
    }
    let supervisor = Supervisor::start(std::env::args_os().skip(1))?;
    relay(supervisor, json, out, &cancel).await
}

/// Shows what the supervisor says, until the cluster is up or nothing is left of it.
async fn relay(mut supervisor: Supervisor, json: bool, out: &mut dyn Write, cancel: &CancellationToken) -> Result<Exit, Failure> {
    let (mut wanted, mut followed, progress_of_work) = (true, Followed::default(), watcher());
    let exit = loop {
        let frame = tokio::select! {
            biased;
            () = cancel.cancelled(), if wanted => {
                wanted = false;
                supervisor.let_go();
                continue;
            }
            frame = supervisor.next() => frame?,
        };
        if frame.as_ref().is_some_and(|frame| followed.follow(frame, progress_of_work.as_ref())) {
            continue;
        }
        match frame {
            Some(Frame::Out(text)) => out.write_all(text.as_bytes()).map_err(render::unprinted)?,
            Some(Frame::Err(text)) => {
                // A terminal that went away does not stop a restore.
                let _ = render::Output(io::stderr()).write_all(text.as_bytes());
            }
            Some(Frame::Progress(line)) => progress(&line, json),
            Some(Frame::Up) if wanted => {
                out.flush().map_err(render::unprinted)?;
                supervisor.leave().await?;
                break Some(Exit::Good);
            }
            Some(Frame::Up | Frame::Work { .. } | Frame::Rest) => {}
            Some(Frame::Done(code)) => break Exit::of_code(code),
            None => break None,
        }
    };
    let log = supervisor.log();
    match exit {
        Some(exit) => {
            let _ = render::Output(io::stderr()).write_all(log.as_bytes());
            Ok(exit)
        }
        None => {
            let status = supervisor.end().await?;
            Err(Failure::new(&codes::SANDBOX_FAILED, "supervisor", format!("it ended with {status}\n{}", log.trim_end())))
        }
    }
}

/// The other side: everything that is said goes to the one who started this.
async fn supervise(
    config: &Path,
    arguments: &Restore,
    json: bool,
    tie: &mut Tie,
    cancel: CancellationToken,
) -> Result<Exit, Failure> {
    let (mut out, mut err) = (framed(io::stdout(), Frame::Out), framed(io::stdout(), Frame::Err));
    let watch = |line: &str, _: bool| {
        // Whoever no longer listens is known to be gone by the tie.
        let _ = send(&mut io::stdout(), &Frame::Progress(line.to_owned()));
    };
    let screen = Screen { out: Mutex::new(&mut out), err: Mutex::new(&mut err), watch: &watch, json };
    let exit = match keep(config, arguments, &screen, Some(tie), cancel).await {
        Ok(exit) => exit,
        Err(failure) => {
            let _ = render::failure(&mut **lock(&screen.err), &failure, json);
            failure.exit()
        }
    };
    let _ = lock(&screen.out).flush();
    let _ = lock(&screen.err).flush();
    let _ = send(&mut io::stdout(), &Frame::Done(exit as u8));
    Ok(exit)
}

/// Work in the supervisor is told to the one who started it.
fn relayed() -> Arc<Relayed> {
    Relayed::to(|frame| {
        // Whoever no longer listens is known to be gone by the tie.
        let _ = send(&mut io::stdout(), &frame);
    })
}

/// Where the words go.
struct Screen<'a> {
    out: Mutex<&'a mut dyn Write>,
    err: Mutex<&'a mut (dyn Write + Send)>,
    watch: &'a (dyn Fn(&str, bool) + Send + Sync),
    json: bool,
}

fn lock<'m, T>(mutex: &'m Mutex<T>) -> std::sync::MutexGuard<'m, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One line for each step that ended; with JSON only for a person who watches.
pub(super) fn progress(line: &str, json: bool) {
    // A terminal that went away does not stop a restore.
    let _ = match json {
        false => writeln!(render::Output(io::stdout()), "{line}"),
        true if io::stderr().is_terminal() => writeln!(render::Output(io::stderr()), "{line}"),
        true => Ok(()),
    };
}

fn progress_here(line: &str, json: bool) {
    progress(line, json);
}

/// Climbs, says what is up, and keeps it until it is told to end.
async fn keep(
    config: &Path,
    arguments: &Restore,
    screen: &Screen<'_>,
    mut tie: Option<&mut Tie>,
    cancel: CancellationToken,
) -> Result<Exit, Failure> {
    let settings = configuration(config, arguments.place.scratch_dir.as_deref())?;
    let (err, show, json) = (&screen.err, screen.watch, screen.json);
    let work: Arc<dyn Progress> = if tie.is_some() { relayed() } else { watcher() };
    let steps = Steps::new(Arc::clone(&work));
    let watch = |event: &Event| {
        steps.follow(event);
        if let Some(line) = line_of(event) {
            show(&line, json);
        }
    };
    let tell = |told: Told| {
        let mut err = lock(err);
        // A terminal that went away does not stop a restore.
        let _ = match told {
            Told::Warning(failure) => render::warning(&mut **err, &failure, json),
            Told::Note(text) => render::note(&mut **err, &text, json),
        };
    };
    let until = arguments.scratch.to.unwrap_or(RungArgument::Serve).into();
    let raising = async {
        let mut bench = Bench::prepare(settings, &arguments.given(), &cancel, &tell).await?;
        bench.station.progress = work;
        raise(&bench, until, cancel.clone(), &watch, &tell).await
    };
    tokio::pin!(raising);
    let raised = match &mut tie {
        Some(tie) => tokio::select! {
            biased;
            raised = &mut raising => raised?,
            () = tie.cut() => {
                cancel.cancel();
                raising.await?
            }
        },
        None => raising.await?,
    };
    warn_to(&mut **lock(&screen.err), &raised.rehearsed, screen.json)?;
    let end = End { config, place: &arguments.place };
    print(&mut **lock(&screen.out), &end, &raised, screen.json).map_err(render::unprinted)?;
    let exit = raised.rehearsed.exit();
    let Some((standing, _)) = raised.up else { return Ok(exit) };
    let is_kept = match tie {
        Some(tie) => {
            // The starter may be a terminal's, and the terminal's directory unmounted some day.
            let _ = std::env::set_current_dir("/");
            tokio::select! {
                is_shown = hand_over(tie, screen) => is_shown,
                () = cancel.cancelled() => false,
            }
        }
        None => true,
    };
    if is_kept {
        cancel.cancelled().await;
    }
    standing.down().await?;
    Ok(if is_kept { Exit::Good } else { Exit::Interrupted })
}

async fn hand_over(tie: &mut Tie, screen: &Screen<'_>) -> bool {
    let flushed = lock(&screen.out).flush().and_then(|()| lock(&screen.err).flush());
    flushed.is_ok() && tie.hand_over(&mut io::stdout()).await
}

fn print(out: &mut dyn Write, end: &End<'_>, raised: &Raised, json: bool) -> io::Result<()> {
    let Raised { rehearsed, page, recorded, up } = raised;
    let note = up.as_ref().map(|(_, note)| note);
    if json {
        let directory = up.as_ref().map(|(standing, _)| standing.directory());
        let document = json!({
            "up": note, "directory": directory, "recorded": recorded, "page": page,
            "report": report_json::value(&rehearsed.report).map_err(io::Error::other)?,
        });
        return writeln!(out, "{document}");
    }
    print_answer(out, rehearsed)?;
    if let Some(note) = note {
        print_up(out, end, note)?;
    }
    match page {
        Some(page) => print_page(out, rehearsed, page),
        None => Ok(()),
    }
}

fn print_up(out: &mut dyn Write, end: &End<'_>, note: &Note) -> io::Result<()> {
    writeln!(out, "up: {}", note.run)?;
    print_access(out, note)?;
    writeln!(out, "  to end it:\n    {}", end.of(&note.run))
}
