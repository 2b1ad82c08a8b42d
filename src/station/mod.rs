//! One host at work: what its configuration opens, and the two things it does.
//!
//! Owns: opening the stores, keys, outbox and catalog of a configuration, and
//! the whole way of a snapshot ([`snapshot`]) and of a rehearsal
//! ([`rehearsal`]), the same for a person at the command line and for the
//! daemon. Must never: print, or decide when something is due.

pub mod going_on;
pub mod lock;
pub mod people;
pub mod rehearsal;
pub mod runbooks;
pub mod snapshot;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::backup::take::Known;
use crate::base::clock::{Clock, SystemClock};
use crate::base::codes;
use crate::base::entropy::{Entropy, OsEntropy};
use crate::base::exit::Exit;
use crate::base::failure::Failure;
use crate::base::progress::{Progress, Unwatched};
use crate::catalog::Catalog;
use crate::config::{self, Config};
use crate::ledger::{Delivery, History, Ledger, Outbox, Stores};
use crate::record::layout::Layout;
use crate::record::signature::{AllowedSigners, Signer};
use crate::store::{self, Store};

/// What a snapshot waits for the ledger to tell what was deposited before.
const LEDGER_PATIENCE: Duration = Duration::from_secs(10);

/// One host, as its configuration describes it.
#[derive(Debug)]
pub struct Station {
    pub config: Config,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub snapshots: Arc<dyn Store>,
    pub escrow: Arc<dyn Store>,
    pub ledger: Arc<dyn Store>,
    /// The same three, as the outbox delivers to them.
    pub stores: Stores,
    /// Whoever watches what may take long.
    pub progress: Arc<dyn Progress>,
}

impl Station {
    /// Reads the configuration; opens nothing that could hang.
    ///
    /// # Errors
    /// `config.*`, with all mistakes at once.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        Ok(Self::of(config::load(path)?))
    }

    /// The station of a configuration that was read already.
    #[must_use]
    pub fn of(config: Config) -> Self {
        let snapshots = store::open(&config.snapshots.store);
        let escrow = store::open(&config.escrow.store);
        let ledger = store::open(&config.ledger.store);
        let stores = Stores { snapshots: Some(snapshots.clone()), escrow: Some(escrow.clone()), ledger: Some(ledger.clone()) };
        let (clock, entropy, progress) = (SystemClock::new(), Arc::new(OsEntropy), Arc::new(Unwatched));
        Self { config, clock, entropy, snapshots, escrow, ledger, stores, progress }
    }

    /// Tells `progress` of what may take long.
    #[must_use]
    pub fn watched(self, progress: Arc<dyn Progress>) -> Self {
        Self { progress, ..self }
    }

    #[must_use]
    pub fn state_dir(&self) -> &Path {
        &self.config.host.state_dir
    }

    /// The key of this host, if its signatures of these kinds will be believed:
    /// a record that nobody believes is no record.
    ///
    /// # Errors
    /// `config.section-missing` where this host signs nothing,
    /// `signing.key-unusable`, `signing.not-allowed`.
    pub fn signer_of(&self, namespaces: &[&str]) -> Result<Signer, Failure> {
        let path: &PathBuf = self.config.host.signing_key.as_ref().ok_or_else(|| {
            Failure::new(&codes::CONFIG_SECTION_MISSING, "host.signing_key", "it is not set, and this command signs records")
        })?;
        let signer = Signer::load(path, self.config.host.name.clone())?;
        let allowed = self.allowed_signers()?;
        for namespace in namespaces {
            let probe = signer.sign(namespace, b"probe")?;
            let object = self.config.host.allowed_signers.display().to_string();
            allowed
                .verify(&object, signer.principal(), namespace, b"probe", probe.as_bytes(), self.clock.now())
                .map_err(|failure| Failure::new(&codes::SIGNING_NOT_ALLOWED, failure.object(), failure.cause()))?;
        }
        Ok(signer)
    }

    /// # Errors
    /// Those of reading the file.
    pub fn allowed_signers(&self) -> Result<AllowedSigners, Failure> {
        AllowedSigners::load(&self.config.host.allowed_signers)
    }

    /// # Errors
    /// `state.unusable`.
    pub fn outbox(&self) -> Result<Outbox, Failure> {
        Outbox::open(self.state_dir())
    }

    /// # Errors
    /// `catalog.broken`.
    pub fn catalog(&self) -> Result<Catalog, Failure> {
        Catalog::open(self.state_dir())
    }

    /// # Errors
    /// Those of reading `allowed_signers`.
    pub fn reader(&self) -> Result<Ledger, Failure> {
        let layout = Layout::new(&self.config.ledger.prefix, &self.config.cluster);
        Ok(Ledger::new(self.ledger.clone(), layout, self.allowed_signers()?))
    }

    /// Sends what waits in the outbox.
    ///
    /// # Errors
    /// `state.unusable`; a store that does not answer is in the delivery.
    pub async fn deliver(&self) -> Result<Delivery, Failure> {
        self.outbox()?.deliver(&self.stores).await
    }

    /// All that the ledger says.
    ///
    /// # Errors
    /// Those of [`Ledger::read`], and of reading `allowed_signers`.
    pub async fn read_ledger(&self) -> Result<History, Failure> {
        let _stage = self.progress.stage("reading the ledger", None);
        self.reader()?.read().await
    }

    /// Reads the ledger and folds it into the catalog. This host's chain goes on
    /// where the ledger ends, should its state directory have been lost.
    ///
    /// # Errors
    /// Those of the ledger; the catalog then stays as it was.
    pub async fn refresh(&self) -> Result<Catalog, Failure> {
        let history = self.read_ledger().await?;
        let name = &self.config.host.name;
        if let Some(head) = history.heads().remove(name) {
            self.outbox()?.resume(name, head)?;
        }
        let mut catalog = self.catalog()?;
        catalog.fold(&history)?;
        Ok(catalog)
    }

    /// The catalog as the ledger has it now; as it was last seen when the ledger
    /// does not answer, with the reason.
    ///
    /// # Errors
    /// `catalog.broken`; why the ledger gave no answer, where the catalog has
    /// never seen it or the configuration is to blame.
    pub async fn current_catalog(&self) -> Result<Current, Failure> {
        // What cannot be opened cannot answer, whatever the ledger says.
        let catalog = self.catalog()?;
        let failure = match self.refresh().await {
            Ok(catalog) => return Ok(Current { catalog, stale: None }),
            Err(failure) => failure,
        };
        if failure.exit() == Exit::Usage || catalog.latest()?.is_none() {
            return Err(failure);
        }
        let failure = failure.next("repair the ledger; until then this host answers by what it last saw of it");
        Ok(Current { catalog, stale: Some(failure) })
    }

    /// What this host deposited and recorded before.
    ///
    /// # Errors
    /// `catalog.broken`.
    pub async fn known(&self) -> Result<Known, Failure> {
        // A ledger that is slow or down delays records, never a snapshot.
        let catalog = match tokio::time::timeout(LEDGER_PATIENCE, self.refresh()).await {
            Ok(Ok(catalog)) => catalog,
            Ok(Err(_)) | Err(_) => self.catalog()?,
        };
        let name = &self.config.host.name;
        let receipts = catalog.receipts_standing(name)?;
        Ok(Known { receipts, host: catalog.host_record(name)? })
    }
}

/// The catalog, and why it may be behind the ledger.
#[derive(Debug)]
pub struct Current {
    pub catalog: Catalog,
    pub stale: Option<Failure>,
}
