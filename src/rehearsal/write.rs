//! A data directory for a member that somebody named: planned with all that
//! the climb has shown, then written.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::base::codes;
use crate::base::failure::Failure;
use crate::base::secret::Secret;
use crate::base::units::human_bytes;
use crate::record::manifest::Manifest;
use crate::rehearsal::boot::{ScratchCluster, version};
use crate::rehearsal::encryption;
use crate::rehearsal::ladder::{Ladder, RehearsalHost, StepResult};
use crate::rehearsal::member::ETCDUTL;
use crate::rehearsal::rehearse::{self, Rehearsed, Request};
use crate::rehearsal::standing::concluded;
use crate::rehearsal::subject::Subject;
use crate::rehearsal::target::Target;
use crate::runbook::facts::{Deviation, Facts, LeftOut, RestoreFacts};
use crate::runbook::journal::Journal;
use crate::runbook::run::{Done, Driver, StepFailure};
use crate::sandbox::{Command, Fencing, Found, Sandbox};

/// The step before which the plan is shown.
pub use super::WRITE_MEMBER as STEP;

/// What is written, where, and with what.
#[derive(Debug, Clone)]
pub struct MemberOrder {
    pub target: Target,
    pub name: String,
    /// As etcd takes it: `name=url,name=url`.
    pub initial_cluster: String,
    /// Of this member, separated by commas.
    pub peer_urls: String,
    pub token: String,
    /// None where revisions stay as they are.
    pub bump: Option<u64>,
    pub etcdutl: Found,
    /// Where the EncryptionConfiguration is written in clear, where somebody asked for that.
    pub encryption_config: Option<PathBuf>,
}

/// What the climb has shown, for whoever plans.
#[derive(Debug)]
pub struct Seen<'l> {
    pub manifest: &'l Manifest,
    pub keys: KeysShown<'l>,
    /// Has somebody written down in which order the source tried its keys?
    pub is_order_known: bool,
}

/// What is known of the keys.
#[derive(Debug, Clone, Copy)]
pub enum KeysShown<'l> {
    /// Every encrypted object opened; so many there are.
    Right(u64),
    NotAsked,
    Doubted(&'l Failure),
}

/// Whoever makes the order; none where it was only to be shown.
#[async_trait::async_trait]
pub trait Planner: Send {
    async fn plan(&mut self, seen: &Seen<'_>) -> Result<Option<MemberOrder>, Failure>;
}

/// Climbs to rung `open`, has `planner` look at it, and writes what it orders.
/// None where nothing was ordered: then nothing was touched. Keys that are not
/// here are not asked for, unless `needs_keys`: a data directory is made without.
/// Then nothing is put on record, since rung `open` was not shown.
///
/// # Errors
/// As [`rehearse::rehearse`]; what a step or the planner refused is an outcome.
pub async fn write_member(
    host: &RehearsalHost<'_>,
    subject: &Subject,
    journal: Arc<dyn Journal>,
    request: &Request<'_>,
    needs_keys: bool,
    planner: &mut dyn Planner,
) -> Result<Option<Rehearsed>, Failure> {
    let asks_keys = needs_keys || host.has_keys(subject);
    let host = &RehearsalHost { signing: host.signing.filter(|_| asks_keys), ..host.clone() };
    let leftovers = rehearse::sweep(&host.config.rehearsal.scratch_dir).await?;
    let head = rehearse::begin(host, subject, &journal, request).await?;
    let mut ladder = Ladder::new(host, subject, format!("member-{}", head.run));
    ladder.asks_keys = asks_keys;
    let driver = Driver {
        runbook: request.runbook,
        head: &head,
        journal: Arc::clone(&journal),
        clock: Arc::clone(&host.clock),
        process: head.process.clone(),
        cancel: request.cancel.clone(),
        people: request.people,
        watch: request.watch,
    };
    let outcome = match driver.drive_to(&mut ladder, &|step, _| step.id == STEP).await? {
        Some(outcome) => outcome,
        None => {
            let seen = Seen { manifest: ladder.manifest()?, keys: ladder.keys_shown(), is_order_known: ladder.shape().is_some() };
            match planner.plan(&seen).await {
                Ok(None) => return Ok(None),
                // The step says what was refused, and the run ends in order.
                order => ladder.order = Some(order.map(|order| order.map(Box::new))),
            }
            driver.drive(&mut ladder).await?
        }
    };
    concluded(host, subject, journal, request.runbook, head, outcome, leftovers).await.map(Some)
}

impl Ladder<'_> {
    pub(super) async fn write_member(&mut self, limit: Duration) -> StepResult {
        let order = match self.order.take() {
            Some(Ok(Some(order))) => order,
            Some(Err(refused)) => return Err(refused.into()),
            Some(Ok(None)) | None => {
                let cause = "nobody said for which member, and where to";
                return Err(Failure::new(&codes::RUN_JOURNAL, format!("step {STEP}"), cause)
                    .next("run this page with holdfast restore --into DIR --name NAME")
                    .into());
            }
        };
        let image = self.image()?.descriptor()?;
        let configuration = match &order.encryption_config {
            Some(path) => Some((path, self.configuration()?)),
            None => None,
        };
        let draft = order.target.begin()?;
        // Nothing is served: what runs is one program that reads memory and writes one directory.
        let root = &self.host.config.rehearsal.scratch_dir;
        let sandbox = Sandbox::up(root, &self.run, Fencing::Never).await?;
        let sandbox = &self.scratch.insert(ScratchCluster::of(sandbox)).sandbox;
        sandbox.run(command(&order, &draft.data(), image), limit).await?;
        let data_bytes = std::fs::metadata(draft.data().join("member/snap/db")).map_or(0, |metadata| metadata.len());
        let tool = format!("etcdutl {}", order.etcdutl.version);
        let facts = Facts {
            restore: Some(RestoreFacts { token: order.token.clone(), data_bytes, tool }),
            tools: vec![version(ETCDUTL, &order.etcdutl)],
            ..Facts::default()
        };
        let with_facts = |failure: Failure, facts: &Facts| StepFailure { failure, facts: Box::new(facts.clone()) };
        if data_bytes == 0 {
            let cause = "etcdutl ended well and wrote no database";
            return Err(with_facts(Failure::new(&codes::TOOL_FAILED, "etcdutl", cause), &facts));
        }
        let clear = configuration.map(|(path, text)| Clear::write(path, &text)).transpose();
        let clear = clear.map_err(|failure| with_facts(failure, &facts))?;
        draft.appear().map_err(|failure| with_facts(failure, &facts))?;
        let mut facts = facts;
        if let Some(clear) = clear {
            facts.deviations.push(Deviation {
                what: format!("the EncryptionConfiguration lies in clear in {}", clear.path.display()),
                why: "it was asked for; every key of the snapshot is in it".to_owned(),
            });
            clear.keep();
        }
        let summary = format!("{} for {} in {}", human_bytes(data_bytes), order.name, order.target.path.display());
        Ok(Done { summary, facts })
    }

    fn keys_shown(&self) -> KeysShown<'_> {
        match (&self.keys_doubt, self.decrypted) {
            (Some(doubt), _) => KeysShown::Doubted(doubt),
            (None, Some(opened)) => KeysShown::Right(opened),
            (None, None) => KeysShown::NotAsked,
        }
    }

    /// What the two steps about keys say where there are none and none are needed.
    pub(super) fn keys_not_asked() -> Done {
        let why = "no escrow identity and no keys are here; a data directory is made without".to_owned();
        let left_out = vec![LeftOut { what: "keys, and every encrypted object".to_owned(), objects: None, why }];
        Done { summary: "not asked: no keys are here".to_owned(), facts: Facts { left_out, ..Facts::default() } }
    }

    fn configuration(&self) -> Result<Secret<String>, Failure> {
        let manifest = self.manifest()?;
        let built = encryption::build(self.shape(), &manifest.keys, self.keys()?);
        let nothing = || {
            Failure::new(&codes::RESTORE_TARGET, "--write-encryption-config", "nothing in this snapshot is encrypted at rest")
                .next("leave the flag out")
        };
        built.config.map(|config| config.to_yaml()).ok_or_else(nothing)
    }
}

fn command(order: &MemberOrder, data: &Path, image: rustix::fd::OwnedFd) -> Command {
    let mut command = Command::new("etcdutl", &order.etcdutl.path)
        .args(["snapshot", "restore", "/dev/stdin", "--name", &order.name])
        .args(["--initial-cluster", &order.initial_cluster, "--initial-advertise-peer-urls", &order.peer_urls])
        .args(["--initial-cluster-token", &order.token]);
    if let Some(bump) = order.bump {
        command = command.args(["--bump-revision", &bump.to_string(), "--mark-compacted"]);
    }
    command.args(["--data-dir"]).args([data]).input(image)
}

/// A file of keys in clear, which somebody asked for. Dropping it removes it.
struct Clear {
    path: PathBuf,
    is_kept: bool,
}

impl Clear {
    /// Whole or not at all, mode 0600, and never over another file.
    fn write(path: &Path, text: &Secret<String>) -> Result<Self, Failure> {
        let failed = |e: &io::Error| Failure::because(&codes::RESTORE_TARGET, path.display(), e);
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let beside = path.with_file_name(name);
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&beside).map_err(|e| failed(&e))?;
        let written = file.write_all(text.expose().as_bytes()).and_then(|()| file.sync_all());
        // A second name is refused where there is one already, on every file system.
        let named = written.and_then(|()| std::fs::hard_link(&beside, path));
        let _ = std::fs::remove_file(&beside);
        named.map_err(|e| failed(&e))?;
        Ok(Self { path: path.to_owned(), is_kept: false })
    }

    fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Clear {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
