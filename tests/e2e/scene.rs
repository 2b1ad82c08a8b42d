//! A production cluster that was, and all that is left of it: the stores, and a
//! rehearsal host with its two identities.
//!
//! Made once by a real etcd, a real API server and real takes; then the cluster
//! is stopped and removed with every copy of its keys but the sealed ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use holdfast::backup::{BackupHost, take::Known, take::take};
use holdfast::base::clock::{Clock, SystemClock};
use holdfast::base::entropy::{Entropy, OsEntropy};
use holdfast::base::failure::Failure;
use holdfast::base::ids::{Fingerprint, SnapshotId};
use holdfast::base::progress::Unwatched;
use holdfast::base::secret::Secret;
use holdfast::catalog::Catalog;
use holdfast::config::{self, Config, StoreConfig};
use holdfast::demo::rig::{Rig, Tools};
use holdfast::demo::site::{self, Site};
use holdfast::demo::workload;
use holdfast::escrow::seal::Identities;
use holdfast::etcd::EtcdClient;
use holdfast::k8s::encryption_config::{EncryptionConfig, Provider, Rule};
use holdfast::k8s::local_key::{LocalKey, LocalProvider};
use holdfast::ledger::{Ledger, Outbox, Stores};
use holdfast::record::Rung;
use holdfast::record::layout::Layout;
use holdfast::record::manifest::Manifest;
use holdfast::record::signature::{AllowedSigners, Signer};
use holdfast::rehearsal::{self, RehearsalHost, Rehearsed, Request, Signing, Subject};
use holdfast::runbook::desk::NOBODY;
use holdfast::runbook::journal::{Event, Journal};
use holdfast::runbook::model::Runbook;
use holdfast::sandbox::Places;
use holdfast::scan::capture::MemfdSink;
use holdfast::store;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// What was taken, in order.
#[derive(Debug, Clone)]
pub struct Source {
    folder: PathBuf,
    /// Everything under key1.
    pub first: Manifest,
    /// Half under key2.
    pub second: Manifest,
    pub key1: Fingerprint,
    pub key2: Fingerprint,
    /// Secrets that were written.
    pub secrets: usize,
    /// Their data as the API has it, by `namespace/name`.
    pub values: BTreeMap<String, Value>,
    /// The configuration with both keys, which no file has any more.
    pub encryption: EncryptionConfig,
}

/// The source, made by the first test that asks.
pub fn source() -> &'static Source {
    static SOURCE: OnceLock<Source> = OnceLock::new();
    SOURCE.get_or_init(|| {
        // A runtime of its own: it ends with what the cluster needed.
        std::thread::spawn(|| tokio::runtime::Runtime::new().unwrap().block_on(make())).join().unwrap()
    })
}

async fn make() -> Source {
    // `main` does this in the program; here nobody did.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("scene");
    let _ = fs::remove_dir_all(&folder);
    let (clock, places) = (SystemClock::new(), places());
    let tools = Tools::find(&places).await.unwrap();
    let mut rig = Rig::start(&folder.join("production"), tools, clock.now()).await.unwrap();
    let (key1, key2) = (key("key1"), key("key2"));
    rig.serve(&encryption(vec![key1.clone()])).await.unwrap();
    let written = workload::write(&rig.client().unwrap(), &OsEntropy).await.unwrap();
    define_resources(&rig.client().unwrap()).await;
    put_orphan(&rig).await;
    let site = Site::build(&folder, &rig, Path::new("/nowhere"), &OsEntropy).unwrap();
    let first = snapshot(&site).await;
    let both = encryption(vec![key2.clone(), key1.clone()]);
    rig.serve(&both).await.unwrap();
    workload::rewrite_half(&rig.client().unwrap()).await.unwrap();
    let second = snapshot(&site).await;
    rig.stop().await.unwrap();
    // Every copy of a key that is not sealed: the cluster's files and the
    // control-plane host's.
    fs::remove_dir_all(folder.join("production")).unwrap();
    fs::remove_dir_all(site.host(site::CONTROL_PLANE)).unwrap();
    let (key1, key2) = (key1.fingerprint().clone(), key2.fingerprint().clone());
    Source { folder, first, second, key1, key2, secrets: written.len(), values: values(&written), encryption: both }
}

fn values(written: &workload::Written) -> BTreeMap<String, Value> {
    let base64 = |(key, value): (&String, &Vec<u8>)| (key.clone(), json!(data_encoding::BASE64.encode(value)));
    let data = |data: &BTreeMap<String, Vec<u8>>| Value::Object(data.iter().map(base64).collect());
    written.iter().map(|((namespace, name), of_secret)| (format!("{namespace}/{name}"), data(of_secret))).collect()
}

fn places() -> Places {
    Places::usual(None, |name| std::env::var_os(name))
}

pub fn key(name: &str) -> LocalKey {
    let mut material = vec![0; 32];
    OsEntropy.fill(&mut material);
    LocalKey::new(LocalProvider::Aescbc, name, Secret::new(material)).unwrap()
}

pub fn encryption(keys: Vec<LocalKey>) -> EncryptionConfig {
    let providers = vec![Provider::Aescbc(keys), Provider::Identity];
    let resources = vec!["secrets".to_owned(), "widgets.example.com".to_owned()];
    EncryptionConfig { rules: vec![Rule { resources, providers }] }
}

/// Widgets, encrypted too; gadgets, stored in a version that only a webhook
/// converts; and a group that another server serves.
async fn define_resources(client: &kube::Client) {
    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let definition = |plural: &str, kind: &str, versions: Value, conversion: Value| {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.example.com")},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
                "versions": versions, "conversion": conversion}})
    };
    let version = |name: &str, is_stored: bool| {
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        json!({"name": name, "served": true, "storage": is_stored, "schema": schema})
    };
    let webhook = json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://127.0.0.1:9/convert"}}});
    let widgets = definition("widgets", "Widget", json!([version("v1", true)]), json!({"strategy": "None"}));
    let gadgets = |old: bool| definition("gadgets", "Gadget", json!([version("v1", old), version("v2", !old)]), webhook.clone());
    for body in [widgets, gadgets(true)] {
        assert!(send(client, http::Method::POST, DEFINITIONS, &body).await);
    }
    for (plural, kind) in [("widgets", "Widget"), ("gadgets", "Gadget")] {
        let object = json!({"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": "one"}, "spec": {"size": 1}});
        let path = format!("/apis/example.com/v1/namespaces/shop/{plural}");
        // Served a moment after its definition is stored.
        let posting = async {
            while !send(client, http::Method::POST, &path, &object).await {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(60), posting).await.unwrap();
    }
    // What is stored stays in v1; who lists v2 from now on needs the webhook.
    let patch = json!({"spec": gadgets(false)["spec"]});
    assert!(send(client, http::Method::PATCH, &format!("{DEFINITIONS}/gadgets.example.com"), &patch).await);
    let aggregated = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": "v1.metrics.example.org"},
        "spec": {"group": "metrics.example.org", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100,
            "insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "nobody"}}});
    assert!(send(client, http::Method::POST, "/apis/apiregistration.k8s.io/v1/apiservices", &aggregated).await);
}

async fn send(client: &kube::Client, method: http::Method, path: &str, body: &Value) -> bool {
    let kind = if method == http::Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
    let request = request.body(serde_json::to_vec(body).unwrap()).unwrap();
    client.request::<Value>(request).await.is_ok()
}

/// An object whose definition is gone: nobody can list it, etcd still has it.
async fn put_orphan(rig: &Rig) {
    let pem = |name: &str| fs::read(rig.pki(name)).unwrap();
    let tls = etcd_client::TlsOptions::new()
        .ca_certificate(etcd_client::Certificate::from_pem(pem("ca.crt")))
        .identity(etcd_client::Identity::from_pem(pem("holdfast.crt"), pem("holdfast.key")));
    let options = etcd_client::ConnectOptions::new().with_tls(tls);
    let mut etcd = etcd_client::Client::connect([rig.etcd_endpoint()], Some(options)).await.unwrap();
    let object = json!({"apiVersion": "gone.example.com/v1", "kind": "Orphan", "metadata": {"name": "one", "namespace": "shop"}});
    etcd.put("/registry/gone.example.com/orphans/shop/one", object.to_string(), None).await.unwrap();
}

async fn snapshot(site: &Site) -> Manifest {
    let config = config::load(&site.config(site::CONTROL_PLANE)).unwrap();
    let source = EtcdClient::new(config.etcd.as_ref().unwrap()).unwrap();
    let stores = stores(&config);
    let signer = signer(&config);
    let outbox = Outbox::open(&config.host.state_dir).unwrap();
    let catalog = catalog(&config).await;
    let receipts = catalog.receipts_of(&config.host.name).unwrap();
    let known = Known { receipts, host: catalog.host_record(&config.host.name).unwrap() };
    let clock = SystemClock::new();
    let host = BackupHost {
        config: &config,
        source: &source,
        sink: |limit| Ok(Box::new(MemfdSink::new(limit)?)),
        snapshots: stores.snapshots.as_deref().unwrap(),
        escrow: stores.escrow.as_deref().unwrap(),
        stores: &stores,
        signer: &signer,
        outbox: &outbox,
        known: &known,
        clock: clock.as_ref(),
        entropy: &OsEntropy,
        progress: &Unwatched,
    };
    let taken = take(&host, None).await.unwrap();
    assert!(taken.warnings.is_empty(), "{:?}", taken.warnings);
    taken.manifest
}

fn stores(config: &Config) -> Stores {
    Stores {
        snapshots: Some(store::open(&config.snapshots.store)),
        escrow: Some(store::open(&config.escrow.store)),
        ledger: Some(store::open(&config.ledger.store)),
    }
}

fn signer(config: &Config) -> Signer {
    Signer::load(config.host.signing_key.as_ref().unwrap(), config.host.name.clone()).unwrap()
}

/// The catalog as the ledger has it now.
async fn catalog(config: &Config) -> Catalog {
    let layout = Layout::new(&config.ledger.prefix, &config.cluster);
    let allowed = AllowedSigners::load(&config.host.allowed_signers).unwrap();
    let ledger = Ledger::new(store::open(&config.ledger.store), layout, allowed);
    let history = ledger.read().await.unwrap();
    assert_eq!(history.findings, []);
    let mut catalog = Catalog::open(&config.host.state_dir).unwrap();
    catalog.fold(&history).unwrap();
    catalog
}

/// The configuration of the rehearsal host below `root`.
pub fn host_config(root: &Path) -> PathBuf {
    root.join("hosts").join(site::REHEARSAL).join("holdfast.toml")
}

/// Where a scene lies.
pub enum Root {
    Own(tempfile::TempDir),
    Lent(PathBuf),
}

impl Root {
    pub fn path(&self) -> &Path {
        match self {
            Self::Own(root) => root.path(),
            Self::Lent(root) => root,
        }
    }
}

/// A rehearsal host of a test's own, over copies of the three stores.
pub struct Scene {
    pub root: Root,
    pub config: Config,
    pub runbook: Runbook,
    pub clock: Arc<dyn Clock>,
    pub places: Places,
}

impl Scene {
    pub fn new() -> Self {
        let source = source();
        let root = tempfile::tempdir().unwrap();
        copy(&source.folder, root.path());
        // Configurations name their place.
        let file = host_config(root.path());
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.replace(source.folder.to_str().unwrap(), root.path().to_str().unwrap())).unwrap();
        Self::at(Root::Own(root))
    }

    /// A scene that another process made and will remove.
    pub fn existing(root: PathBuf) -> Self {
        Self::at(Root::Lent(root))
    }

    fn at(root: Root) -> Self {
        let config = config::load(&host_config(root.path())).unwrap();
        let runbook = Runbook::parse(include_bytes!("../../runbooks/etcd-restore.md"), rehearsal::ACTIONS).unwrap();
        Self { root, config, runbook, clock: SystemClock::new(), places: places() }
    }

    /// A folder of a store.
    pub fn store(&self, store: &StoreConfig) -> PathBuf {
        let StoreConfig::Fs { path } = store else { panic!("{store:?} is no directory") };
        path.clone()
    }

    pub async fn subject(&self, id: &SnapshotId) -> Result<Subject, Failure> {
        Subject::find(&catalog(&self.config).await, id, &self.config.host.name)
    }

    pub fn journal(&self) -> Arc<dyn Journal> {
        Arc::new(Catalog::journal(&self.config.host.state_dir).unwrap())
    }

    pub async fn rehearse(&self, id: &SnapshotId, until: Rung) -> Rehearsed {
        let subject = self.subject(id).await.unwrap();
        self.with_host(
            async |host, request| rehearsal::rehearse(host, &subject, self.journal(), request).await.unwrap(),
            until,
            &|_| (),
        )
        .await
    }

    pub async fn with_host<T>(
        &self,
        work: impl AsyncFnOnce(&RehearsalHost<'_>, &Request<'_>) -> T,
        until: Rung,
        watch: &(dyn Fn(&Event) + Send + Sync),
    ) -> T {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let config = &self.config;
        let (stores, signer) = (stores(config), signer(config));
        let allowed = AllowedSigners::load(&config.host.allowed_signers).unwrap();
        let outbox = Outbox::open(&config.host.state_dir).unwrap();
        let identity = |path: &Option<PathBuf>| Some(Arc::new(Identities::load(path.as_ref().unwrap()).unwrap()));
        let host = RehearsalHost {
            config,
            stores: &stores,
            allowed: &allowed,
            snapshot_identity: identity(&config.snapshots.identity_file),
            escrow_identity: identity(&config.escrow.identity_file),
            signing: Some(Signing { signer: &signer, outbox: &outbox }),
            places: &self.places,
            clock: Arc::clone(&self.clock),
            entropy: Arc::new(OsEntropy),
            progress: Arc::new(Unwatched),
        };
        let request = Request {
            until,
            trigger: "person",
            runbook: &self.runbook,
            cancel: CancellationToken::new(),
            people: &NOBODY,
            incident: None,
            watch,
        };
        work(&host, &request).await
    }

    /// The identity of a store, in a file.
    pub fn identity(&self, store: &str) -> PathBuf {
        let config = if store == "escrow" { &self.config.escrow } else { &self.config.snapshots };
        config.identity_file.clone().unwrap()
    }

    /// The sealed object of a snapshot.
    pub fn sealed(&self, id: &SnapshotId) -> PathBuf {
        let ending = format!("{id}/etcd.db.zst.age");
        let mut found = files(&self.store(&self.config.snapshots.store));
        found.retain(|path| path.to_str().unwrap().ends_with(&ending));
        found.remove(0)
    }

    /// A snapshot as `etcdctl snapshot save` would have written it.
    pub fn opened(&self, id: &SnapshotId) -> Vec<u8> {
        let sealed = std::io::BufReader::new(fs::File::open(self.sealed(id)).unwrap());
        let identities = Identities::load(&self.identity("snapshots")).unwrap();
        let mut image = Vec::new();
        let mut reader = zstd::Decoder::new(identities.reader(sealed).unwrap()).unwrap();
        std::io::Read::read_to_end(&mut reader, &mut image).unwrap();
        image
    }

    pub async fn catalog(&self) -> Catalog {
        catalog(&self.config).await
    }

    /// No process of a run is left, no directory, no memory.
    pub fn nothing_is_left(&self) {
        let scratch = &self.config.rehearsal.scratch_dir;
        assert_eq!(files(scratch), Vec::<PathBuf>::new());
        let marker = scratch.to_str().unwrap();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            assert!(!line.contains(marker), "still running: {line}");
        }
    }
}

/// All files below a folder.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() { found.extend(files(&entry.path())) } else { found.push(entry.path()) }
    }
    found
}

fn copy(from: &Path, to: &Path) {
    for file in files(from) {
        let copied = to.join(file.strip_prefix(from).unwrap());
        fs::create_dir_all(copied.parent().unwrap()).unwrap();
        fs::copy(&file, &copied).unwrap();
    }
}
