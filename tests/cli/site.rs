//! Two hosts and three stores in one directory, as a small site has them: the
//! control-plane host took two snapshots in 2001, of scripted members; the
//! rehearsal host holds both identities.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use age::secrecy::ExposeSecret;
use holdfast::backup::take::Known;
use holdfast::backup::{BackupHost, Taken, take};
use holdfast::base::clock::ManualClock;
use holdfast::base::entropy::SeededEntropy;
use holdfast::base::ids::SnapshotId;
use holdfast::base::progress::Unwatched;
use holdfast::catalog::Catalog;
use holdfast::config::{self, Config};
use holdfast::ledger::{Ledger, Outbox, Stores};
use holdfast::record::layout::Layout;
use holdfast::record::manifest::Quality;
use holdfast::record::signature::{AllowedSigners, Signer};
use holdfast::scan::capture::MemfdSink;
use holdfast::store;

use crate::sources::{self, Source};
use crate::test_key;
use crate::transcript::{Run, program};

pub const TAKER: &str = "cp-1";
pub const REHEARSER: &str = "rehearsal-1";

pub struct Site {
    pub root: tempfile::TempDir,
    /// Of a store with lost and moved values: `incomplete`.
    pub doubtful: Option<Taken>,
    /// The newest, with all that it needs in escrow.
    pub good: Option<Taken>,
}

impl Site {
    /// Hosts and keys; nothing was taken.
    pub fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let site = Self { root, doubtful: None, good: None };
        let mut signers = String::new();
        for (host, key) in [(TAKER, "test-key"), (REHEARSER, "other-key")] {
            fs::create_dir_all(site.path(host).join("state")).unwrap();
            write(&site.path(host).join("signing.key"), &fs::read_to_string(test_key::data(key)).unwrap());
            signers.push_str(&site.signer(host).public_line());
            signers.push('\n');
        }
        write(&site.path("allowed_signers"), &signers);
        for store in ["snapshots", "escrow", "ledger"] {
            fs::create_dir_all(site.path(store)).unwrap();
        }
        write(&site.path("encryption.yaml"), &sources::encryption());
        let recipients = [site.make_identity("snapshots"), site.make_identity("escrow")];
        write(&site.config(TAKER), &site.taker(&recipients));
        write(&site.config(REHEARSER), &site.rehearser());
        site
    }

    /// With a doubtful snapshot of 13:00 and a good one of 14:00.
    pub fn with_snapshots() -> Self {
        let mut site = Self::new();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let doubtful = runtime.block_on(site.take(&sources::doubtful(), "2001-01-01T13:00:00Z", 7));
        let good = runtime.block_on(site.take(&sources::good(), "2001-01-01T14:00:00Z", 8));
        let (bad, whole) = (&doubtful.manifest, &good.manifest);
        assert_eq!((bad.quality, whole.quality), (Quality::Incomplete, Quality::Good), "{:#?}", whole.problems);
        (site.doubtful, site.good) = (Some(doubtful), Some(good));
        site
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub fn config(&self, host: &str) -> PathBuf {
        self.path(host).join("holdfast.toml")
    }

    pub fn good(&self) -> &SnapshotId {
        &self.good.as_ref().unwrap().manifest.id
    }

    pub fn doubtful(&self) -> &SnapshotId {
        &self.doubtful.as_ref().unwrap().manifest.id
    }

    /// Runs the program as `host`.
    pub fn run(&self, host: &str, arguments: &[&str]) -> Run {
        Run::of(self.command(host, arguments).output().unwrap(), arguments, self.root.path())
    }

    pub fn command(&self, host: &str, arguments: &[&str]) -> std::process::Command {
        let mut command = program();
        command.arg("--config").arg(self.config(host)).args(arguments);
        command
    }

    /// Runs the program on the rehearsal host.
    pub fn ask(&self, arguments: &[&str]) -> Run {
        self.run(REHEARSER, arguments)
    }

    /// Replaces a text of a host's configuration.
    pub fn edit(&self, host: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.config(host)).unwrap();
        assert!(text.contains(from), "{from}: {text}");
        write(&self.config(host), &text.replace(from, to));
    }

    /// The one file of a store whose path has all of `parts` in it.
    pub fn file(&self, store: &str, parts: &[&str]) -> PathBuf {
        let mut found = self.files(store);
        found.retain(|path| parts.iter().all(|part| path.to_str().unwrap().contains(part)));
        assert_eq!(found.len(), 1, "{parts:?}: {found:#?}");
        found.remove(0)
    }

    /// All files below a folder of the site.
    pub fn files(&self, folder: &str) -> Vec<PathBuf> {
        files(&self.path(folder))
    }

    pub fn signer(&self, host: &str) -> Signer {
        Signer::load(&self.path(host).join("signing.key"), host.parse().unwrap()).unwrap()
    }

    /// Makes another identity in place of the one that opens `store`, and gives its recipient.
    pub fn make_identity(&self, store: &str) -> String {
        let identity = age::x25519::Identity::generate();
        write(&self.path(&format!("{store}.identity")), identity.to_string().expose_secret());
        identity.to_public().to_string()
    }

    async fn take(&self, source: &Source, at: &str, seed: u64) -> Taken {
        let config = config::load(&self.config(TAKER)).unwrap();
        let stores = Stores {
            snapshots: Some(store::open(&config.snapshots.store)),
            escrow: Some(store::open(&config.escrow.store)),
            ledger: Some(store::open(&config.ledger.store)),
        };
        let clock = ManualClock::at(at.parse().unwrap());
        let host = BackupHost {
            config: &config,
            source: &source.member,
            sink: |limit| Ok(Box::new(MemfdSink::new(limit)?)),
            snapshots: stores.snapshots.as_deref().unwrap(),
            escrow: stores.escrow.as_deref().unwrap(),
            stores: &stores,
            signer: &self.signer(TAKER),
            outbox: &Outbox::open(&config.host.state_dir).unwrap(),
            known: &known(&config).await,
            clock: clock.as_ref(),
            entropy: &SeededEntropy::new(seed),
            progress: &Unwatched,
        };
        take(&host, None).await.unwrap()
    }

    fn taker(&self, [snapshots, escrow]: &[String; 2]) -> String {
        format!(
            "{}\n[etcd]\nendpoints = [\"http://127.0.0.1:1\"]\nconnect_timeout = \"5s\"\n\n[backup]\nencryption_config = {:?}\n\n\
             [snapshots]\nrecipients = [{snapshots:?}]\n\n[escrow]\nrecipients = [{escrow:?}]\n",
            self.shared(TAKER),
            self.path("encryption.yaml"),
        )
    }

    fn rehearser(&self) -> String {
        format!(
            "{}\n[snapshots]\nidentity_file = {:?}\n\n[escrow]\nidentity_file = {:?}\n\n[rehearsal]\nscratch_dir = {:?}\n",
            self.shared(REHEARSER),
            self.path("snapshots.identity"),
            self.path("escrow.identity"),
            self.path("scratch"),
        )
    }

    fn shared(&self, host: &str) -> String {
        let folder = self.path(host);
        let stores: String = ["snapshots", "escrow", "ledger"]
            .map(|store| format!("[{store}.store.fs]\npath = {:?}\n", self.path(store)))
            .concat();
        format!(
            "cluster = \"bench\"\n\n[host]\nname = {host:?}\nstate_dir = {:?}\nsigning_key = {:?}\nallowed_signers = {:?}\n\n{stores}",
            folder.join("state"),
            folder.join("signing.key"),
            self.path("allowed_signers"),
        )
    }
}

/// What the host deposited before, as the program learns it.
async fn known(config: &Config) -> Known {
    let layout = Layout::new(&config.ledger.prefix, &config.cluster);
    let allowed = AllowedSigners::load(&config.host.allowed_signers).unwrap();
    let history = Ledger::new(Arc::clone(&store::open(&config.ledger.store)), layout, allowed).read().await.unwrap();
    let mut catalog = Catalog::open(&config.host.state_dir).unwrap();
    catalog.fold(&history).unwrap();
    let receipts = catalog.receipts_of(&config.host.name).unwrap();
    Known { receipts, host: catalog.host_record(&config.host.name).unwrap() }
}

/// All files below a folder, sorted.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() { found.extend(files(&entry.path())) } else { found.push(entry.path()) }
    }
    found.sort();
    found
}

/// Writes a file that only its owner can read, as keys and identities must be.
pub fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}
