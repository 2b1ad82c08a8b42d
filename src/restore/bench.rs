//! What a restore works with: a host and its stores, or a file and nothing else.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::tz::TimeZone;
use tokio_util::sync::CancellationToken;

use super::{Tell, Told, find};
use crate::backup::configuration;
use crate::base::codes;
use crate::base::failure::Failure;
use crate::catalog::Catalog;
use crate::config::{self, Config};
use crate::escrow::seal::{Identities, OpenError};
use crate::k8s::encryption_config::{EncryptionConfig, NamedConfig};
use crate::ledger::Outbox;
use crate::record::signature::{AllowedSigners, Signer};
use crate::rehearsal::{FileSnapshot, RehearsalHost, Signing, Subject};
use crate::runbook::journal::{Journal, MemoryJournal};
use crate::sandbox::Places;
use crate::station::Station;
use crate::station::rehearsal::SIGNED_HERE;

/// A sealed key document has a few hundred bytes.
const RECORD_LIMIT: u64 = 1 << 20;

/// What is to be restored, and with what.
#[derive(Debug, Clone, Default)]
pub struct Given {
    /// A snapshot id, the start of one, or `latest`; unless there is a file.
    pub snapshot: String,
    pub file: Option<PathBuf>,
    /// Identity files; without them those of the configuration.
    pub identities: Vec<PathBuf>,
    /// With a file: EncryptionConfigurations in clear.
    pub encryption_configs: Vec<PathBuf>,
    /// With a file: key documents as they lie sealed in escrow.
    pub escrow_records: Vec<PathBuf>,
}

/// Everything that a restore needs, opened.
#[derive(Debug)]
pub struct Bench {
    pub station: Station,
    pub subject: Subject,
    pub journal: Arc<dyn Journal>,
    /// Is there a state directory in which steps and reports are kept?
    pub keeps_state: bool,
    allowed: AllowedSigners,
    snapshot_identity: Option<Arc<Identities>>,
    escrow_identity: Option<Arc<Identities>>,
    signing: Option<(Signer, Outbox)>,
    places: Places,
}

/// The configuration at `path`; on a machine that has none at the usual place,
/// what holds without one.
///
/// # Errors
/// `config.*`.
pub fn configuration(path: &Path, scratch_dir: Option<&Path>) -> Result<(Config, bool), Failure> {
    let has_none = path == Path::new(config::DEFAULT_PATH) && !path.exists();
    let mut config = if has_none { config::bare()? } else { config::load(path)? };
    if let Some(directory) = scratch_dir {
        config.rehearsal.scratch_dir = directory.to_owned();
    }
    Ok((config, !has_none))
}

impl Bench {
    /// Opens what there is and finds the snapshot. Nothing is restored yet.
    ///
    /// # Errors
    /// `config.*`, `identity.*`, `snapshot.*`, `restore.*`, those of the stores; `interrupted`.
    pub async fn prepare(
        (config, has_file): (Config, bool),
        given: &Given,
        cancel: &CancellationToken,
        tell: Tell<'_>,
    ) -> Result<Self, Failure> {
        let station = Station::of(config);
        let given_identity = join(&given.identities)?;
        match &given.file {
            Some(path) => {
                let subject = Subject::of_file(of_file(path, given, given_identity)?);
                Self::of_a_file(station, has_file, subject, tell)
            }
            None if !has_file => {
                let cause = "there is no configuration, and a snapshot by its id lies in the stores that one names";
                Err(Failure::new(&codes::CONFIG_UNREADABLE, config::DEFAULT_PATH, cause)
                    .next("name a configuration with --config, or a file with --from"))
            }
            None => {
                refuse_keys_without_file(given)?;
                let subject = tokio::select! {
                    subject = find::find(&station, &given.snapshot, tell) => subject?,
                    () = cancel.cancelled() => return Err(interrupted()),
                };
                Self::of_stores(station, subject, given_identity, tell)
            }
        }
    }

    fn of_stores(station: Station, subject: Subject, given: Option<Arc<Identities>>, tell: Tell<'_>) -> Result<Self, Failure> {
        let identity = |path: Option<&Path>| -> Result<_, Failure> {
            match (&given, path) {
                (Some(given), _) => Ok(Some(given.clone())),
                (None, Some(path)) => Ok(Some(Arc::new(Identities::load(path)?))),
                (None, None) => Ok(None),
            }
        };
        let config = &station.config;
        let (journal, keeps_state) = journal(&station, tell);
        Ok(Self {
            allowed: station.allowed_signers()?,
            snapshot_identity: identity(config.snapshots.identity_file.as_deref())?,
            escrow_identity: identity(config.escrow.identity_file.as_deref())?,
            signing: signing(&station, tell),
            places: places(config),
            journal,
            keeps_state,
            subject,
            station,
        })
    }

    fn of_a_file(station: Station, has_config: bool, subject: Subject, tell: Tell<'_>) -> Result<Self, Failure> {
        let told = "nobody signed for this file: it is believed as it is, and nothing of this restore is put on record";
        tell(Told::Note(told.to_owned()));
        let (journal, keeps_state) = if has_config { journal(&station, tell) } else { (in_memory(), false) };
        Ok(Self {
            allowed: AllowedSigners::parse("nobody", "", &TimeZone::UTC)?,
            snapshot_identity: None,
            escrow_identity: None,
            signing: None,
            places: places(&station.config),
            journal,
            keeps_state,
            subject,
            station,
        })
    }

    /// As the steps see it.
    #[must_use]
    pub fn host(&self) -> RehearsalHost<'_> {
        RehearsalHost {
            config: &self.station.config,
            stores: &self.station.stores,
            allowed: &self.allowed,
            snapshot_identity: self.snapshot_identity.clone(),
            escrow_identity: self.escrow_identity.clone(),
            signing: self.signing.as_ref().map(|(signer, outbox)| Signing { signer, outbox }),
            places: &self.places,
            clock: self.station.clock.clone(),
            entropy: self.station.entropy.clone(),
            progress: self.station.progress.clone(),
        }
    }

    /// Refuses at once what a step would refuse later: an identity that is not there.
    ///
    /// # Errors
    /// `config.section-missing`.
    pub fn require_identities(&self, escrow: bool) -> Result<(), Failure> {
        if self.subject.file.is_some() {
            return Ok(());
        }
        for (is_there, key) in [
            (self.snapshot_identity.is_some(), "snapshots.identity_file"),
            (self.escrow_identity.is_some() || !escrow, "escrow.identity_file"),
        ] {
            if !is_there {
                let cause = "it is not set, and a restore opens what is sealed";
                return Err(Failure::new(&codes::CONFIG_SECTION_MISSING, key, cause)
                    .next("name the identity file with --identity, or set it in the configuration"));
            }
        }
        Ok(())
    }

    /// Is there a signed record of what this restore shows?
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.signing.is_some()
    }

    /// Nothing of what follows is written down.
    pub fn forget(&mut self) {
        (self.signing, self.journal, self.keeps_state) = (None, in_memory(), false);
    }
}

pub(super) fn interrupted() -> Failure {
    Failure::new(&codes::INTERRUPTED, "holdfast", "interrupted")
}

fn places(config: &Config) -> Places {
    Places::usual(config.rehearsal.tools.as_deref(), |variable| std::env::var_os(variable))
}

fn in_memory() -> Arc<dyn Journal> {
    Arc::new(MemoryJournal::default())
}

/// How this host signs; none where it does not, which stops no restore.
fn signing(station: &Station, tell: Tell<'_>) -> Option<(Signer, Outbox)> {
    if station.config.host.signing_key.is_none() {
        tell(Told::Note("this host has no signing key: nothing of this restore is put on record".to_owned()));
        return None;
    }
    let both = station.signer_of(&SIGNED_HERE).and_then(|signer| Ok((signer, station.outbox()?)));
    let next = "repair it when there is time; nothing of this restore is put on record";
    both.map_err(|failure| tell(Told::Warning(failure.next(next)))).ok()
}

/// Where steps are written down, and whether that is on a disk.
fn journal(station: &Station, tell: Tell<'_>) -> (Arc<dyn Journal>, bool) {
    match Catalog::journal(station.state_dir()) {
        Ok(journal) => (Arc::new(journal), true),
        Err(failure) => {
            let next = "repair it when there is time; the steps of this restore are not journaled on disk";
            tell(Told::Warning(failure.next(next)));
            (in_memory(), false)
        }
    }
}

fn join(paths: &[PathBuf]) -> Result<Option<Arc<Identities>>, Failure> {
    let all: Vec<_> = paths.iter().map(|path| Identities::load(path)).collect::<Result<_, _>>()?;
    Ok((!all.is_empty()).then(|| Arc::new(Identities::join(all))))
}

/// Keys of a snapshot in a store come from escrow and from nowhere else.
fn refuse_keys_without_file(given: &Given) -> Result<(), Failure> {
    let flags = [("--encryption-config", &given.encryption_configs), ("--escrow-record", &given.escrow_records)];
    match flags.into_iter().find(|(_, paths)| !paths.is_empty()) {
        None => Ok(()),
        Some((flag, _)) => {
            let cause = "keys are given with a file; those of a snapshot in a store come from escrow";
            Err(Failure::new(&codes::USAGE, flag, cause).next("leave it out, or name the file with --from"))
        }
    }
}

fn of_file(path: &Path, given: &Given, identities: Option<Arc<Identities>>) -> Result<FileSnapshot, Failure> {
    let mut file = FileSnapshot::at(path)?;
    for path in &given.encryption_configs {
        let read = configuration::read(Some(path)).map_err(|failure| {
            Failure::new(&codes::INSPECT_CONFIG, failure.object(), failure.cause())
                .next("correct the file given with --encryption-config")
        })?;
        if let Some(read) = read {
            file = file.with_configuration(read.named, read.sha256);
        }
    }
    for path in &given.escrow_records {
        file.keys.push(open_record(path, identities.as_deref())?);
    }
    file.identities = identities;
    Ok(file)
}

/// One key version as it lies in escrow: a sealed EncryptionConfiguration with one key.
fn open_record(path: &Path, identities: Option<&Identities>) -> Result<NamedConfig, Failure> {
    let unreadable = |e: &dyn std::fmt::Display| Failure::new(&codes::INSPECT_UNREADABLE, path.display(), e);
    let identities = identities.ok_or_else(|| {
        Failure::new(&codes::RESTORE_FILE_SEALED, path.display(), "an escrow record is sealed, and no identity was given")
    })?;
    let length = std::fs::metadata(path).map_err(|e| unreadable(&e))?.len();
    if length > RECORD_LIMIT {
        return Err(unreadable(&"larger than an escrow record can be"));
    }
    let sealed = std::fs::read(path).map_err(|e| unreadable(&e))?;
    let refuse = |cause: &str| {
        Failure::new(&codes::ESCROW_NOT_OPENED, path.display(), cause)
            .next("name the record's .age file, whole, as it lies in escrow")
    };
    let document = identities.open(&sealed).map_err(|error| match error {
        OpenError::NoMatchingIdentity => identities.opens_nothing_of(&path.display().to_string()),
        OpenError::Altered(cause) => refuse(&cause),
    })?;
    let config = EncryptionConfig::parse(document.expose()).map_err(|_| refuse("it holds no key document"))?;
    Ok(NamedConfig { name: path.display().to_string(), config })
}
