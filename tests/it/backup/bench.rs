//! A control-plane host on a bench: real pipeline, real signatures, a scripted
//! member, stores in memory behind a fault layer.

use std::path::PathBuf;
use std::sync::Arc;

use data_encoding::BASE64;
use holdfast::backup::take::Known;
use holdfast::backup::{BackupHost, Taken, take};
use holdfast::base::clock::ManualClock;
use holdfast::base::entropy::SeededEntropy;
use holdfast::base::failure::Failure;
use holdfast::config::{self, Config};
use holdfast::etcd::scripted::{ScriptedSource, Turn};
use holdfast::etcd::{MemberStatus, Source};
use holdfast::ledger::{Outbox, Stores};
use holdfast::record::signature::Signer;
use holdfast::scan::capture::MemfdSink;
use holdfast::store::layers::{FaultStore, PutOnly};
use holdfast::store::mem::MemStore;
use holdfast::store::{Prefix, Store};

use super::progress::Watcher;
use crate::{data, test_key};

pub const RECIPIENTS: [&str; 2] = [
    "age17xarfy80gcht4hjexgvmkueukv2v6gqfy7dh9rd6p9fhqg849vlqjhgyy9",
    "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p",
];

/// Which keys the EncryptionConfiguration has.
#[derive(Debug, Clone, Copy)]
pub enum Keys {
    /// Those that open everything but the lost and the moved value.
    All,
    /// All but the named one.
    AllBut(&'static str),
}

pub struct Bench {
    pub snapshots: Arc<FaultStore>,
    pub escrow: Arc<FaultStore>,
    pub ledger: Arc<FaultStore>,
    pub state: tempfile::TempDir,
    pub config: Config,
    pub known: Known,
    pub clock: Arc<ManualClock>,
    entropy: SeededEntropy,
    pub progress: Watcher,
    signer: Signer,
}

impl Bench {
    pub fn new(keys: Keys) -> Self {
        Self::with(keys, |store| store, |store| store, |store| store)
    }

    /// A bench whose stores were given their faults.
    pub fn with(
        keys: Keys,
        snapshots: impl FnOnce(FaultStore) -> FaultStore,
        escrow: impl FnOnce(FaultStore) -> FaultStore,
        ledger: impl FnOnce(FaultStore) -> FaultStore,
    ) -> Self {
        let state = tempfile::tempdir().unwrap();
        let store = |name: &str| FaultStore::new(Arc::new(MemStore::new(name)));
        let (_, signing_key) = test_key::copy("test-key");
        let encryption = state.path().join("encryption.yaml");
        std::fs::write(&encryption, encryption_yaml(keys)).unwrap();
        let config = config::parse("holdfast.toml", &config_text(state.path().to_owned(), &encryption, &signing_key)).unwrap();
        Self {
            snapshots: Arc::new(snapshots(store("snapshots"))),
            escrow: Arc::new(escrow(store("escrow"))),
            ledger: Arc::new(ledger(store("ledger"))),
            state,
            config,
            known: Known::default(),
            clock: ManualClock::at("2026-12-01T13:00:00Z".parse().unwrap()),
            entropy: SeededEntropy::new(7),
            progress: Watcher::default(),
            signer: test_key::signer("cp-1"),
        }
    }

    pub fn outbox(&self) -> Outbox {
        Outbox::open(self.state.path()).unwrap()
    }

    /// Takes a snapshot of `tiny.snap`, streamed by a healthy member.
    pub async fn take(&self) -> Result<Taken, Failure> {
        self.take_from(&healthy()).await
    }

    pub async fn take_from(&self, source: &dyn Source) -> Result<Taken, Failure> {
        // A writer's credentials: put on snapshots and escrow, nothing else.
        let snapshots: Arc<dyn Store> = Arc::new(PutOnly::new(self.snapshots.clone()));
        let escrow: Arc<dyn Store> = Arc::new(PutOnly::new(self.escrow.clone()));
        self.take_into(source, snapshots, escrow, self.ledger.clone()).await
    }

    /// Into other stores than those of the bench.
    pub async fn take_into(
        &self,
        source: &dyn Source,
        snapshots: Arc<dyn Store>,
        escrow: Arc<dyn Store>,
        ledger: Arc<dyn Store>,
    ) -> Result<Taken, Failure> {
        let stores = Stores { snapshots: Some(snapshots.clone()), escrow: Some(escrow.clone()), ledger: Some(ledger) };
        let host = BackupHost {
            config: &self.config,
            source,
            sink: |limit| Ok(Box::new(MemfdSink::new(limit)?)),
            snapshots: snapshots.as_ref(),
            escrow: escrow.as_ref(),
            stores: &stores,
            signer: &self.signer,
            outbox: &self.outbox(),
            known: &self.known,
            clock: self.clock.as_ref(),
            entropy: &self.entropy,
            progress: &self.progress,
        };
        take(&host, None).await
    }

    /// The names in a store, and whether a manifest is among them.
    pub async fn names(store: &FaultStore) -> Vec<String> {
        store.heal();
        store.list(&Prefix::all()).await.unwrap().into_iter().map(|listed| listed.key.to_string()).collect()
    }

    pub async fn shows_a_snapshot(&self) -> bool {
        Self::names(&self.snapshots).await.iter().any(|name| name.ends_with("manifest.json"))
    }
}

pub fn image() -> Vec<u8> {
    let mut file = data::bytes("tiny.snap");
    file.truncate(file.len() - 32);
    file
}

pub fn member() -> MemberStatus {
    MemberStatus {
        endpoint: "https://127.0.0.1:2379".into(),
        cluster_id: 0xfeed,
        member_id: 0xbeef,
        version: "3.7.3".into(),
        revision: 28,
        leader: 0xbeef,
        raft_index: 40,
        raft_applied_index: 40,
        db_bytes: 36_864,
        learner: false,
        errors: vec![],
    }
}

pub fn healthy() -> ScriptedSource {
    scripted(ScriptedSource::healthy(&image()))
}

pub fn scripted(turns: Vec<Turn>) -> ScriptedSource {
    ScriptedSource::new(vec![member()], turns)
}

fn config_text(state: PathBuf, encryption: &std::path::Path, signing_key: &std::path::Path) -> String {
    let (state, encryption, signing_key) = (state.display(), encryption.display(), signing_key.display());
    format!(
        r#"
cluster = "bench"
[host]
name = "cp-1"
state_dir = "{state}"
signing_key = "{signing_key}"
allowed_signers = "{state}/allowed_signers"
[etcd]
endpoints = ["https://127.0.0.1:2379"]
ca = "/ca.crt"
stall_timeout = "1s"
[backup]
encryption_config = "{encryption}"
escrow_deadline = "1s"
[snapshots]
recipients = ["{}"]
[snapshots.store.fs]
path = "/stores/snapshots"
[escrow]
recipients = ["{}"]
[escrow.store.fs]
path = "/stores/escrow"
[ledger.store.fs]
path = "/stores/ledger"
"#,
        RECIPIENTS[0], RECIPIENTS[1],
    )
}

/// The local keys of `tiny.snap`, all under one rule.
pub fn encryption_yaml(keys: Keys) -> String {
    let secrets = data::json("snapshot-secrets.json");
    let mut providers = String::new();
    let mut seen = Vec::new();
    for secret in secrets.as_array().unwrap() {
        let (Some(provider), Some(name), Some(key)) =
            (secret["provider"].as_str(), secret["key_name"].as_str(), secret["key_b64"].as_str())
        else {
            continue;
        };
        let left_out = matches!(keys, Keys::AllBut(wanted) if wanted == name);
        let local = ["aescbc", "aesgcm", "secretbox"].contains(&provider);
        if local && !left_out && !seen.contains(&(provider, name, key)) {
            assert!(BASE64.decode(key.as_bytes()).is_ok());
            providers.push_str(&format!("  - {provider}: {{keys: [{{name: {name:?}, secret: {key:?}}}]}}\n"));
            seen.push((provider, name, key));
        }
    }
    format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: ['*.*']\n  providers:\n{providers}  - identity: {{}}\n"
    )
}
