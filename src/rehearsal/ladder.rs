//! The actions of the restore runbook: what is known and what runs between steps.

use std::sync::Arc;

use async_trait::async_trait;

use crate::base::clock::Clock;
use crate::base::codes;
use crate::base::entropy::Entropy;
use crate::base::failure::Failure;
use crate::base::progress::Progress;
use crate::base::units::count;
use crate::config::{Config, FencePolicy};
use crate::escrow::seal::Identities;
use crate::ledger::{Outbox, Stores};
use crate::record::host::EncryptionShape;
use crate::record::manifest::Manifest;
use crate::record::signature::{AllowedSigners, Signer};
use crate::rehearsal::boot::ScratchCluster;
use crate::rehearsal::fetch::Image;
use crate::rehearsal::index::Index;
use crate::rehearsal::open::OpenedKeys;
use crate::rehearsal::pki::DAYS_OF_A_RUN;
use crate::rehearsal::serve::Serving;
use crate::rehearsal::subject::Subject;
use crate::rehearsal::write::MemberOrder;
use crate::runbook::facts::Facts;
use crate::runbook::model::{Step, Work};
use crate::runbook::run::{Actions, Done, StepFailure};
use crate::sandbox::{Fencing, Limits, Places};
use crate::store::Store;

/// What a rehearsal host has. Both identities are here: whoever has this host
/// while it rehearses can read everything.
#[derive(Debug, Clone)]
pub struct RehearsalHost<'a> {
    pub config: &'a Config,
    pub stores: &'a Stores,
    pub allowed: &'a AllowedSigners,
    pub snapshot_identity: Option<Arc<Identities>>,
    pub escrow_identity: Option<Arc<Identities>>,
    /// Absent where this host signs nothing: then a run leaves no record.
    pub signing: Option<Signing<'a>>,
    /// Where etcd, etcdutl and kube-apiserver are looked for.
    pub places: &'a Places,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub progress: Arc<dyn Progress>,
}

/// How a host puts what it found on record.
#[derive(Debug, Clone, Copy)]
pub struct Signing<'a> {
    pub signer: &'a Signer,
    pub outbox: &'a Outbox,
}

impl RehearsalHost<'_> {
    pub(super) fn snapshots(&self) -> Result<&Arc<dyn Store>, Failure> {
        self.stores.snapshots.as_ref().ok_or_else(|| missing("[snapshots]"))
    }

    pub(super) fn escrow(&self) -> Result<&Arc<dyn Store>, Failure> {
        self.stores.escrow.as_ref().ok_or_else(|| missing("[escrow]"))
    }

    pub(super) fn snapshot_identity(&self) -> Result<Arc<Identities>, Failure> {
        self.snapshot_identity.clone().ok_or_else(|| no_identity("snapshots.identity_file"))
    }

    pub(super) fn escrow_identity(&self) -> Result<Arc<Identities>, Failure> {
        self.escrow_identity.clone().ok_or_else(|| no_identity("escrow.identity_file"))
    }

    /// Can keys be had at all?
    pub(super) fn has_keys(&self, subject: &Subject) -> bool {
        subject.file.as_ref().map_or(self.escrow_identity.is_some(), |file| !file.keys.is_empty())
    }

    /// What a scratch environment may use of this host.
    pub(super) fn limits(&self) -> Limits {
        let rehearsal = &self.config.rehearsal;
        Limits {
            memory_bytes: rehearsal.memory_limit,
            cpus: rehearsal.cpu_limit.map(|thousandths| f64::from(thousandths) / 1000.0),
        }
    }

    pub(super) fn fencing(&self) -> Fencing {
        match self.config.rehearsal.fence {
            FencePolicy::Auto => Fencing::IfPossible,
            FencePolicy::Required => Fencing::Required,
            FencePolicy::Off => Fencing::Never,
        }
    }
}

fn missing(section: &str) -> Failure {
    Failure::new(&codes::CONFIG_SECTION_MISSING, section, "a rehearsal reads this store")
}

fn no_identity(key: &str) -> Failure {
    Failure::new(&codes::CONFIG_SECTION_MISSING, key, "it is not set, and a rehearsal opens what is sealed")
}

/// Climbs: each action leaves here what the ones above it need.
#[derive(Debug)]
pub struct Ladder<'a> {
    pub(super) host: &'a RehearsalHost<'a>,
    pub(super) subject: &'a Subject,
    pub(super) run: String,
    /// How long certificates are good for.
    pub(super) days: i64,
    pub(super) manifest: Option<Manifest>,
    pub(super) image: Option<Image>,
    /// Where the API server keeps its objects, learnt from the bytes.
    pub(super) prefix: Option<String>,
    /// Live keys with no REST endpoint, by prefix.
    pub(super) other: Vec<(String, u64)>,
    pub(super) keys: Option<OpenedKeys>,
    pub(super) index: Option<Arc<Index>>,
    pub(super) scratch: Option<ScratchCluster>,
    pub(super) serving: Serving,
    /// Are keys opened and tried? Only a data directory is made without.
    pub(super) asks_keys: bool,
    /// Why keys are not shown to be right.
    pub(super) keys_doubt: Option<Failure>,
    /// Encrypted objects that all opened.
    pub(super) decrypted: Option<u64>,
    /// What `write-member` writes, or why nothing.
    pub(super) order: Option<Result<Option<Box<MemberOrder>>, Failure>>,
}

/// What an action gives: its line and facts, or why not.
pub(super) type StepResult = Result<Done, StepFailure>;

impl<'a> Ladder<'a> {
    /// A ladder on whose first rung nothing has happened. `run` names its scratch directory.
    #[must_use]
    pub fn new(host: &'a RehearsalHost<'a>, subject: &'a Subject, run: impl Into<String>) -> Self {
        Self {
            host,
            subject,
            run: run.into(),
            days: DAYS_OF_A_RUN,
            manifest: None,
            image: None,
            prefix: None,
            other: Vec::new(),
            keys: None,
            index: None,
            scratch: None,
            serving: Serving::default(),
            asks_keys: true,
            keys_doubt: None,
            decrypted: None,
            order: None,
        }
    }

    /// What it makes is good for `days` days: for a cluster that stays up.
    #[must_use]
    pub fn lasting(mut self, days: i64) -> Self {
        self.days = days;
        self
    }

    pub(super) fn manifest(&self) -> Result<&Manifest, Failure> {
        self.manifest.as_ref().ok_or_else(|| not_yet("fetch-manifest"))
    }

    pub(super) fn image(&self) -> Result<&Image, Failure> {
        self.image.as_ref().ok_or_else(|| not_yet("fetch-image"))
    }

    /// The order of providers as somebody wrote it down.
    pub(super) fn shape(&self) -> Option<&EncryptionShape> {
        let record = self.subject.host_record.as_ref().and_then(|(record, _)| record.encryption.as_ref());
        record.or_else(|| self.subject.file.as_ref()?.shape.as_ref())
    }

    pub(super) fn keys(&self) -> Result<&OpenedKeys, Failure> {
        if let (None, Some(doubt)) = (&self.keys, &self.keys_doubt) {
            return Err(doubt.clone());
        }
        self.keys.as_ref().ok_or_else(|| not_yet("open-keys"))
    }

    /// Ends all that runs and forgets all that was opened.
    async fn tear_down(&mut self) -> StepResult {
        let serving = std::mem::take(&mut self.serving);
        let scratch = self.scratch.take();
        (self.image, self.keys, self.index) = (None, None, None);
        let facts = crate::rehearsal::boot::tear_down(serving, scratch).await?;
        let summary = match (facts.processes_ended, facts.directories_removed) {
            (0, 0) => "nothing was running".to_owned(),
            (processes, _) => format!("{} ended, the scratch directory is gone", count(processes, "process")),
        };
        Ok(Done { summary, facts: Facts { tear_down: Some(facts), ..Facts::default() } })
    }
}

/// A step that needs what no step of this process made.
pub(super) fn not_yet(step: &str) -> Failure {
    Failure::new(&codes::RUN_JOURNAL, format!("step {step}"), "it was not done in this process, and this step needs its result")
        .next("start a new run")
}

#[async_trait]
impl Actions for Ladder<'_> {
    async fn run(&mut self, step: &Step) -> StepResult {
        let action = match &step.work {
            Work::Action(action) => action.as_str(),
            Work::Command(_) => return Err(unknown(step, "commands are not run by a rehearsal").into()),
            Work::Person(_) => return Err(unknown(step, "only a person can do it").into()),
        };
        let result = match action {
            "fetch-manifest" => self.fetch_manifest().await,
            "fetch-image" => self.fetch_image().await,
            "check-structure" => self.check_structure().await,
            "open-keys" | "decrypt-objects" if !self.asks_keys => Ok(Self::keys_not_asked()),
            "open-keys" => self.open_keys().await,
            "decrypt-objects" => self.decrypt_objects().await,
            "write-member" => self.write_member(step.timeout).await,
            "restore-data" => self.restore_data(step.timeout).await,
            "start-etcd" => self.start_etcd().await,
            "compare-hash" => self.compare_hash().await,
            "build-encryption-config" => self.build_encryption_config().await,
            "make-certificates" => self.make_certificates().await,
            "start-apiserver" => self.start_apiserver().await,
            "read-everything" => self.read_everything().await,
            "tear-down" => self.tear_down().await,
            other => Err(unknown(step, format!("no action is called {other}")).into()),
        };
        if let ("open-keys" | "decrypt-objects", Err(failed)) = (action, &result) {
            self.keys_doubt.get_or_insert_with(|| failed.failure.clone());
        }
        result
    }

    async fn give_up(&mut self) -> Result<(), Failure> {
        self.tear_down().await.map(drop).map_err(|failed| failed.failure)
    }
}

fn unknown(step: &Step, cause: impl std::fmt::Display) -> Failure {
    Failure::new(&codes::RUNBOOK_INVALID, format!("step {}", step.id), cause)
}
