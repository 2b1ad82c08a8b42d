//! The configuration file: all its mistakes at once, then checked types.
//!
//! Owns: reading `holdfast.toml`, naming every mistake with line, column and
//! caret, refusing configurations in which snapshots and keys would share a
//! place or a recipient, and the checked [`Config`] that all other code gets.
//! Must never: print a value that could be a secret, follow a default that
//! `config.example.toml` does not show, or hand out a value that was not checked.
//!
//! Invariant: a [`Config`] exists only if nothing was wrong with the file.

mod bare;
mod check;
pub mod credential;
pub mod defaults;
pub mod load;
mod mistake;
pub mod s3;
mod section;
mod separation;
mod value;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::base::cron::CronLine;
use crate::base::ids::{ClusterName, Principal};
use crate::base::rung::Rung;

pub use bare::bare;
pub use load::{load, parse};
pub use s3::{Checksums, S3Config};

/// Where the configuration lies unless `--config` says otherwise.
pub const DEFAULT_PATH: &str = "/etc/holdfast/holdfast.toml";

/// A checked configuration of one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The operator's name for the cluster, part of every object's name.
    pub cluster: ClusterName,
    pub host: HostConfig,
    /// Only on hosts that take snapshots.
    pub etcd: Option<EtcdConfig>,
    pub backup: BackupConfig,
    pub snapshots: SealedStoreConfig,
    pub escrow: SealedStoreConfig,
    pub ledger: LedgerConfig,
    pub rehearsal: RehearsalConfig,
    pub schedule: ScheduleConfig,
    pub daemon: DaemonConfig,
}

/// `[host]`: who this host is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostConfig {
    /// The principal under which this host signs.
    pub name: Principal,
    /// Outbox, catalog and lock.
    pub state_dir: PathBuf,
    /// An OpenSSH ed25519 private key; absent on a host that only reads.
    pub signing_key: Option<PathBuf>,
    /// Whose signatures count, in the form of `ssh-keygen -Y verify`.
    pub allowed_signers: PathBuf,
}

/// `[etcd]`: the cluster to stream from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdConfig {
    /// `https://host:port`, or `http://` on loopback; at least one, no trailing slash.
    pub endpoints: Vec<String>,
    /// Always there when an endpoint is `https`.
    pub ca: Option<PathBuf>,
    /// There if and only if `key` is.
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// For one endpoint to answer at all.
    pub connect_timeout: Duration,
    /// Between two messages of the snapshot stream.
    pub stall_timeout: Duration,
    /// For the whole snapshot stream.
    pub total_timeout: Duration,
}

/// `[backup]`: how a snapshot is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupConfig {
    /// The API server's EncryptionConfiguration; absent where nothing is encrypted at rest.
    pub encryption_config: Option<PathBuf>,
    /// The largest image that is held in memory, in bytes.
    pub image_limit: u64,
    /// After so long without escrow the manifest goes out `incomplete`.
    pub escrow_deadline: Duration,
    /// zstd's level, 1 to 19.
    pub compression_level: i32,
}

/// `[snapshots]` and `[escrow]`: a store whose objects are sealed with age.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedStoreConfig {
    pub store: StoreConfig,
    /// Empty, or names joined by `/` without one at either end.
    pub prefix: String,
    /// Native age recipients (`age1…`); at least one on a host that takes snapshots.
    pub recipients: Vec<String>,
    /// Where the identity that opens them lies; only on a rehearsal host.
    pub identity_file: Option<PathBuf>,
}

/// `[ledger]`: the store of signed records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerConfig {
    pub store: StoreConfig,
    /// Empty, or names joined by `/` without one at either end.
    pub prefix: String,
}

/// What kind of store, and where. Swift joins here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreConfig {
    /// A directory.
    Fs { path: PathBuf },
    /// A bucket.
    S3(S3Config),
}

/// `[rehearsal]`: how restores are rehearsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RehearsalConfig {
    /// Below it each run makes and removes a directory of its own.
    pub scratch_dir: PathBuf,
    /// Where etcd, etcdutl and kube-apiserver lie; without it `HOLDFAST_TOOLS`, PATH and the cache.
    pub tools: Option<PathBuf>,
    /// A directory of runbooks; without it those in the binary.
    pub runbooks: Option<PathBuf>,
    /// Bytes of memory for what runs in a scratch environment; without it all of the host's.
    pub memory_limit: Option<u64>,
    /// Thousandths of a CPU for it; without it all of the host's.
    pub cpu_limit: Option<u32>,
    pub fence: FencePolicy,
    /// For a restored etcd to answer.
    pub etcd_ready_timeout: Duration,
    /// For a scratch API server to be ready.
    pub apiserver_ready_timeout: Duration,
}

/// `[schedule]`: what the daemon does, and when. Cron lines are in UTC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleConfig {
    /// There only on a host that has `[etcd]`.
    pub snapshot: Option<CronLine>,
    /// There only on a host that has both identities.
    pub rehearsal: Option<CronLine>,
    /// How far a scheduled rehearsal climbs.
    pub rehearsal_rung: Rung,
}

/// `[daemon]`: how `holdfast daemon` works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonConfig {
    /// Where `/healthz` and `/metrics` are served.
    pub listen: SocketAddr,
    /// From the first failure of a job to the next attempt; doubled from one to the next.
    pub retry_first: Duration,
    /// The longest wait between two attempts; at least `retry_first`.
    pub retry_longest: Duration,
    /// Between two looks at the ledger.
    pub refresh_interval: Duration,
    /// For one snapshot from its beginning to its end; longer than its stream may take.
    pub snapshot_deadline: Duration,
    /// For one rehearsal.
    pub rehearsal_deadline: Duration,
}

/// Whether a rehearsal runs in namespaces of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FencePolicy {
    /// Where the machine allows it; the report says which it was.
    Auto,
    /// Without a fence the rehearsal does not run.
    Required,
    /// Never; the report says so.
    Off,
}

/// Something that is allowed and weakens a promise; shown to the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The key it is about: `snapshots.store.fs`.
    pub about: &'static str,
    pub text: String,
}

impl Config {
    /// What this configuration cannot promise.
    #[must_use]
    pub fn notes(&self) -> Vec<Note> {
        let stores = [
            ("snapshots.store.fs", &self.snapshots.store),
            ("escrow.store.fs", &self.escrow.store),
            ("ledger.store.fs", &self.ledger.store),
        ];
        let unseparated = stores.into_iter().filter_map(|(about, store)| match store {
            StoreConfig::Fs { path } => Some(Note {
                about,
                text: format!("no credential separation: whoever is root on this host can read and destroy {}", path.display()),
            }),
            StoreConfig::S3(_) => None,
        });
        let unreadable = self.sealed_to_the_example().into_iter().map(|about| Note {
            about,
            text: "a recipient is still that of config.example.toml: nobody can open what is sealed to it".to_owned(),
        });
        let seen = (!self.daemon.listen.ip().is_loopback()).then(|| Note {
            about: "daemon.listen",
            text: format!("whoever reaches {} reads /metrics: it asks for no password and speaks no TLS", self.daemon.listen),
        });
        unseparated.chain(unreadable).chain(seen).collect()
    }

    /// The lists of recipients that still name one of `config.example.toml`,
    /// whose identity nobody has. A snapshot is refused then.
    #[must_use]
    pub fn sealed_to_the_example(&self) -> Vec<&'static str> {
        let of_the_example = |store: &SealedStoreConfig| {
            store.recipients.iter().any(|recipient| defaults::EXAMPLE_RECIPIENTS.contains(&recipient.as_str()))
        };
        [("snapshots.recipients", &self.snapshots), ("escrow.recipients", &self.escrow)]
            .into_iter()
            .filter(|(_, store)| of_the_example(store))
            .map(|(about, _)| about)
            .collect()
    }
}
