//! `restore --into DIR`: a data directory for a named member. First a plan,
//! with everything that was checked; only what a plan says is written.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::Tell;
use super::bench::Bench;
use super::member::Membership;
use super::scratch::keep_report;
use crate::base::codes;
use crate::base::failure::Failure;
use crate::base::units::{count, human_bytes};
use crate::catalog::Proven;
use crate::record::Rung;
use crate::record::manifest::{Manifest, Quality};
use crate::rehearsal::member::{ETCDUTL, wanted_versions};
use crate::rehearsal::target::Target;
use crate::rehearsal::write::{KeysShown, MemberOrder, Planner, Seen};
use crate::rehearsal::{self, RehearsalHost, Rehearsed, Request};
use crate::runbook::desk::NOBODY;
use crate::runbook::journal::{Event, RESTORE};
use crate::sandbox::{Found, tools};
use crate::station::rehearsal::MEMBER_RUNBOOK_ID;

/// The write-ahead log that etcdutl lays out at full length, and some room to spare.
const LOG_BYTES: u64 = 64 << 20;
const SPARE_BYTES: u64 = 16 << 20;
/// The bump that etcd's own guide gives: more than a cluster writes in years.
pub const BUMP: u64 = 1_000_000_000;
/// Since when etcdutl 3.5 can bump revisions.
const BUMP_SINCE: (u32, u32, u32) = (3, 5, 10);

/// What somebody wants written.
#[derive(Debug, Clone)]
pub struct Order {
    pub into: PathBuf,
    pub member: Membership,
    /// None for a fresh one.
    pub token: Option<String>,
    /// Zero where revisions stay as they are.
    pub bump: u64,
    pub encryption_config: Option<PathBuf>,
    /// Show the plan and write nothing.
    pub only_plan: bool,
}

/// What will be done, and why it may be. No secret is in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Plan {
    pub into: PathBuf,
    /// `absent` or `empty`.
    pub place: String,
    pub snapshot: String,
    pub file: Option<PathBuf>,
    pub cluster: String,
    pub quality: String,
    pub taken: String,
    pub revision: i64,
    pub image_bytes: u64,
    /// The highest rung that a rehearsal of this snapshot has reached, as far as this host knows.
    pub proven: Option<String>,
    pub member: Membership,
    pub token: String,
    /// Null where revisions stay as they are.
    pub bump_revision: Option<u64>,
    pub etcdutl: String,
    pub etcdutl_path: PathBuf,
    /// Where keys will lie in clear; null unless that was asked for.
    pub encryption_config: Option<PathBuf>,
    pub checks: Vec<Check>,
    /// What makes the other members.
    pub others: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    pub is_good: bool,
    pub said: String,
}

/// What came of it.
#[derive(Debug)]
pub struct Written {
    pub plan: Option<Plan>,
    /// None where only the plan was wanted.
    pub rehearsed: Option<Rehearsed>,
    pub page: Option<PathBuf>,
    pub recorded: bool,
}

/// Everything about an order that can be refused before a snapshot is looked for.
///
/// # Errors
/// `restore.target`, `restore.member`.
pub fn look(order: &Order) -> Result<Target, Failure> {
    let target = Target::look(&order.into)?;
    if let Some(token) = &order.token
        && (token.is_empty() || !token.bytes().all(|b| b.is_ascii_graphic()))
    {
        let cause = "a token is one word of printable characters";
        return Err(Failure::new(&codes::RESTORE_MEMBER, "--initial-cluster-token", cause)
            .next("leave it out for a fresh one, or copy the one of the member made before"));
    }
    if let Some(path) = &order.encryption_config {
        check_clear(path, &target.path)?;
    }
    Ok(target)
}

/// A file of keys is never written over another, or where etcd's data goes.
fn check_clear(path: &Path, target: &Path) -> Result<(), Failure> {
    let unfit = |cause: String| Failure::new(&codes::RESTORE_TARGET, path.display(), cause);
    let next = "name a file that is not there yet, in a directory that is";
    if std::fs::symlink_metadata(path).is_ok() {
        return Err(unfit("it is there already".to_owned()).next(next));
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let parent = std::fs::canonicalize(parent).map_err(|e| unfit(format!("its directory: {e}")).next(next))?;
    if path.file_name().is_none() || !parent.is_dir() || parent.starts_with(target) {
        return Err(unfit("it cannot lie there".to_owned()).next(next));
    }
    Ok(())
}

/// Plans, shows the plan, and writes what it says.
///
/// # Errors
/// When there is no answer to report. What a step or a check refused is an answer.
pub async fn write(
    bench: &mut Bench,
    order: &Order,
    cancel: CancellationToken,
    watch: &(dyn Fn(&Event) + Send + Sync),
    tell: Tell<'_>,
    show: &(dyn Fn(&Plan) + Send + Sync),
) -> Result<Written, Failure> {
    let target = look(order)?;
    let needs_keys = order.encryption_config.is_some();
    bench.require_identities(needs_keys)?;
    if order.only_plan {
        bench.forget();
    }
    let runbook = &bench.station.runbook_or_shipped(MEMBER_RUNBOOK_ID)?;
    let host = bench.host();
    let mut desk = Desk { host: &host, bench, order, target, show, plan: None };
    let people = &NOBODY;
    let request = Request { until: Rung::Open, trigger: RESTORE, runbook, cancel, people, incident: None, watch };
    let journal = Arc::clone(&bench.journal);
    let rehearsed = rehearsal::write_member(&host, &bench.subject, journal, &request, needs_keys, &mut desk).await?;
    let plan = desk.plan;
    let page = rehearsed.as_ref().and_then(|rehearsed| keep_report(bench, rehearsed, tell));
    let keys_asked = rehearsed.as_ref().is_some_and(|rehearsed| rehearsed.report.facts.keys.is_some());
    Ok(Written { plan, rehearsed, page, recorded: bench.is_recorded() && keys_asked })
}

/// Whoever plans.
struct Desk<'a> {
    host: &'a RehearsalHost<'a>,
    bench: &'a Bench,
    order: &'a Order,
    target: Target,
    show: &'a (dyn Fn(&Plan) + Send + Sync),
    plan: Option<Plan>,
}

#[async_trait]
impl Planner for Desk<'_> {
    async fn plan(&mut self, seen: &Seen<'_>) -> Result<Option<MemberOrder>, Failure> {
        let manifest = seen.manifest;
        let wanted = wanted_versions(manifest.image.storage_version.as_deref(), &manifest.taken.member.version)?;
        let etcdutl = tools::find(ETCDUTL, &wanted, self.host.places).await?;
        let bump = self.bump(manifest, &etcdutl)?;
        let needed = manifest.image.bytes.saturating_add(LOG_BYTES + SPARE_BYTES);
        let free = self.target.require_room(needed)?;
        if let (Some(_), KeysShown::Doubted(doubt)) = (&self.order.encryption_config, seen.keys) {
            return Err(doubt.clone());
        }
        let token = self.order.token.clone().unwrap_or_else(|| format!("restore-{}", self.host.entropy.hex(32)));
        let mut checks = checks(manifest, seen.keys);
        if self.order.encryption_config.is_some() && !seen.is_order_known && !manifest.keys.is_empty() {
            let said =
                "the order of the source's keys is not known: see which key stands first before an API server writes with it";
            checks.push(warning(said.to_owned()));
        }
        checks.push(good(format!("{} are free there, {} are needed", human_bytes(free), human_bytes(needed))));
        checks.extend(
            self.target
                .leftovers
                .iter()
                .map(|path| warning(format!("a restore that was killed left {}; it will be removed", path.display()))),
        );
        let order = MemberOrder {
            target: self.target.clone(),
            name: self.order.member.name.clone(),
            initial_cluster: self.order.member.to_string(),
            peer_urls: self.order.member.peer_urls(),
            token: token.clone(),
            bump,
            etcdutl: etcdutl.clone(),
            encryption_config: self.order.encryption_config.clone(),
        };
        let plan = self.written_down(manifest, token, bump, &etcdutl, checks);
        (self.show)(&plan);
        self.plan = Some(plan);
        Ok((!self.order.only_plan).then_some(order))
    }
}

impl Desk<'_> {
    fn bump(&self, manifest: &Manifest, etcdutl: &Found) -> Result<Option<u64>, Failure> {
        let Some(bump) = Some(self.order.bump).filter(|bump| *bump > 0) else { return Ok(None) };
        let sum = i64::try_from(bump).ok().and_then(|bump| manifest.image.revision.checked_add(bump));
        if sum.is_none() {
            let cause = format!("{bump} more than revision {} is no revision", manifest.image.revision);
            return Err(Failure::new(&codes::RESTORE_MEMBER, "--bump-revision", cause).next(format!("take {BUMP}")));
        }
        let version = etcdutl.version;
        if (version.major, version.minor, version.patch) < BUMP_SINCE {
            let cause = format!("{version} cannot bump revisions, 3.5.10 can");
            return Err(Failure::new(&codes::TOOL_VERSION, "etcdutl", cause)
                .next("provide a newer etcdutl; --bump-revision 0 only where nothing has ever talked to the cluster"));
        }
        Ok(Some(bump))
    }

    fn written_down(&self, manifest: &Manifest, token: String, bump: Option<u64>, etcdutl: &Found, checks: Vec<Check>) -> Plan {
        let subject = &self.bench.subject;
        let others = self.order.member.others().map(|peer| {
            let from = match &subject.file {
                Some(file) => format!("--from {}", file.path.display()),
                None => subject.id.to_string(),
            };
            let bump = if bump == Some(BUMP) { String::new() } else { format!(" --bump-revision {}", self.order.bump) };
            format!(
                "holdfast restore {from} --into DIR --name {} --initial-cluster {} --initial-cluster-token {token}{bump}",
                peer.name, self.order.member
            )
        });
        Plan {
            into: self.target.path.clone(),
            place: if self.target.is_there { "empty" } else { "absent" }.to_owned(),
            snapshot: subject.id.to_string(),
            file: subject.file.as_ref().map(|file| file.path.clone()),
            cluster: manifest.cluster.name.to_string(),
            quality: manifest.quality.as_str().to_owned(),
            taken: manifest.taken.finished.clone(),
            revision: manifest.image.revision,
            image_bytes: manifest.image.bytes,
            proven: self.proven().map(|proven| format!("to {}, at {} (run {})", proven.rung, proven.at, proven.run)),
            others: others.collect(),
            member: self.order.member.clone(),
            token,
            bump_revision: bump,
            etcdutl: etcdutl.version.to_string(),
            etcdutl_path: etcdutl.path.clone(),
            encryption_config: self.order.encryption_config.clone(),
            checks,
        }
    }

    /// As far as this host's catalog knows; a file has no history.
    fn proven(&self) -> Option<Proven> {
        if self.bench.subject.file.is_some() {
            return None;
        }
        let catalog = self.bench.station.catalog().ok()?;
        catalog.snapshot(&self.bench.subject.id).ok()??.row.proven
    }
}

fn good(said: String) -> Check {
    Check { is_good: true, said }
}

fn warning(said: String) -> Check {
    Check { is_good: false, said }
}

/// What the climb has shown, and what survives a restore without being wanted.
fn checks(manifest: &Manifest, keys: KeysShown<'_>) -> Vec<Check> {
    let mut all = Vec::new();
    let is_doubted = |code: &str| manifest.problems.iter().any(|problem| problem.code == code);
    all.push(match (manifest.sealed_to.is_empty(), is_doubted("trailer-missing")) {
        (_, true) => warning("SUSPECT: a raw copy without digest; its structure is whole, and no more can be shown".to_owned()),
        (true, false) => warning("digest and structure are whole; nobody signed for this file".to_owned()),
        (false, false) => good("signature, digest, structure and counts are right".to_owned()),
    });
    let quality = manifest.quality;
    if quality != Quality::Good && !is_doubted("trailer-missing") {
        all.push(warning(format!("its quality is {}: holdfast show says why", quality.as_str())));
    }
    all.push(match keys {
        KeysShown::Right(0) => good("nothing in it is encrypted at rest".to_owned()),
        KeysShown::Right(opened) => good(format!("{} opened with the keys at hand", count(opened, "encrypted object"))),
        KeysShown::NotAsked => {
            warning("keys were not tried: none are here. The API servers need theirs to read the data".to_owned())
        }
        KeysShown::Doubted(doubt) => warning(format!("keys are NOT shown to be right: {}: {}", doubt.object(), doubt.cause())),
    });
    for (code, said) in [
        ("alarm-nospace", "an alarm NOSPACE survives: raise the quota, then etcdctl alarm disarm"),
        ("alarm-corrupt", "an alarm CORRUPT survives: its source found its own data damaged; prefer another snapshot"),
        ("auth-enabled", "users and roles survive: the root user of the source is needed"),
    ] {
        all.extend(is_doubted(code).then(|| warning(said.to_owned())));
    }
    all
}
