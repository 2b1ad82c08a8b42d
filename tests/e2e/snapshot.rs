//! `holdfast snapshot` against a real etcd behind a real API server: a member
//! that cannot be reached or believed, and a kill in the middle.

pub mod stalling_proxy;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use holdfast::base::clock::{Clock, SystemClock};
use holdfast::base::entropy::{Entropy, OsEntropy};
use holdfast::base::secret::Secret;
use holdfast::demo::rig::{Rig, Tools};
use holdfast::demo::site::{self, Site};
use holdfast::demo::workload;
use holdfast::k8s::encryption_config::EncryptionConfig;
use holdfast::k8s::local_key::{LocalKey, LocalProvider};
use holdfast::sandbox::Places;

use stalling_proxy::StallingProxy;

/// A running cluster with a few Secrets, and the hosts around it.
struct Cluster {
    rig: Rig,
    site: Site,
    folder: tempfile::TempDir,
}

impl Cluster {
    async fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        let places = Places::usual(None, |name| std::env::var_os(name));
        let tools = Tools::find(&places).await.unwrap_or_else(|failure| panic!("{failure}; run make tools"));
        let mut rig = Rig::start(&folder.path().join("production"), tools, SystemClock::new().now()).await.unwrap();
        let mut material = vec![0; 32];
        OsEntropy.fill(&mut material);
        let key = LocalKey::new(LocalProvider::Aescbc, "key1", Secret::new(material)).unwrap();
        rig.serve(&EncryptionConfig::of_key(key)).await.unwrap();
        workload::write(&rig.client().unwrap(), &OsEntropy).await.unwrap();
        let site = Site::build(folder.path(), &rig, Path::new("/nowhere"), &OsEntropy).unwrap();
        Self { rig, site, folder }
    }

    /// The control-plane host's configuration with one text changed.
    fn config_with(&self, from: &str, to: &str) -> PathBuf {
        let text = std::fs::read_to_string(self.site.config(site::CONTROL_PLANE)).unwrap();
        assert!(text.contains(from), "{from} is not in {text}");
        let path = self.folder.path().join("changed.toml");
        std::fs::write(&path, text.replace(from, to)).unwrap();
        path
    }

    /// Every file in a store; what is hidden is no object.
    fn objects(&self, store: &str) -> Vec<PathBuf> {
        let root = self.site.store(store);
        let all = crate::demo::files(&root).into_iter().map(|file| file.strip_prefix(&root).unwrap().to_owned());
        let hidden = |file: &PathBuf| file.iter().any(|part| part.to_string_lossy().starts_with('.'));
        all.filter(|file| !hidden(file)).collect()
    }

    fn manifests(&self) -> usize {
        self.objects("snapshots").iter().filter(|file| file.ends_with("manifest.json")).count()
    }
}

#[allow(clippy::disallowed_methods)] // the program under test
fn holdfast(config: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    command.arg("--config").arg(config).args(arguments).stdin(Stdio::null());
    command
}

fn run(config: &Path, arguments: &[&str]) -> Output {
    holdfast(config, arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_in_the_middle_of_a_snapshot_leaves_all_consistent_and_the_next_succeeds() {
    let cluster = Cluster::start().await;
    let proxy = StallingProxy::start(&cluster.rig.etcd_endpoint(), 100_000);
    let through = cluster.config_with(&cluster.rig.etcd_endpoint(), &proxy.endpoint());
    let mut child: Child = holdfast(&through, &["snapshot"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    proxy.wait_until_it_stalls();
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success());

    assert_eq!(cluster.objects("snapshots"), Vec::<PathBuf>::new());
    assert_eq!(cluster.objects("ledger"), Vec::<PathBuf>::new());
    let config = cluster.site.config(site::CONTROL_PLANE);
    let listed = run(&config, &["list", "--json"]);
    assert_eq!(listed.status.code(), Some(0), "{}", text(&listed));

    let next = run(&config, &["snapshot"]);
    assert_eq!(next.status.code(), Some(0), "{}", text(&next));
    assert_eq!(cluster.manifests(), 1);
    let hidden = crate::demo::files(&cluster.site.store("snapshots")).len() - cluster.objects("snapshots").len();
    assert_eq!(hidden, 0, "what the killed run had begun to store is gone");
    let rebuilt = run(&config, &["catalog", "rebuild"]);
    assert_eq!(rebuilt.status.code(), Some(0), "no finding: {}", text(&rebuilt));
    cluster.rig.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_cannot_be_reached_or_believed_stores_nothing() {
    let cluster = Cluster::start().await;
    let ca = cluster.rig.pki("ca.crt").display().to_string();
    let other = holdfast::rehearsal::pki::Authority::new("somebody-else", SystemClock::new().now()).unwrap();
    let other_ca = cluster.folder.path().join("other-ca.crt");
    std::fs::write(&other_ca, other.certificate()).unwrap();
    let stranger = other.client("stranger", None).unwrap();
    let stranger_cert = cluster.folder.path().join("stranger.crt");
    let stranger_key = cluster.folder.path().join("stranger.key");
    std::fs::write(&stranger_cert, &stranger.certificate).unwrap();
    std::fs::write(&stranger_key, stranger.key.expose()).unwrap();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (from, to, code) in [
        (ca, other_ca.display().to_string(), "etcd.tls"),
        (cluster.rig.etcd_endpoint(), format!("https://{closed}"), "etcd.unreachable"),
    ] {
        let output = run(&cluster.config_with(&from, &to), &["snapshot"]);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert!(text(&output).contains(&format!("code: {code}")), "{}", text(&output));
    }
    let path = cluster.config_with(&cluster.rig.pki("holdfast.crt").display().to_string(), &stranger_cert.display().to_string());
    let changed = std::fs::read_to_string(&path).unwrap();
    let key = cluster.rig.pki("holdfast.key").display().to_string();
    std::fs::write(&path, changed.replace(&key, &stranger_key.display().to_string())).unwrap();
    let output = run(&path, &["snapshot"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    for store in ["snapshots", "escrow", "ledger"] {
        assert_eq!(cluster.objects(store), Vec::<PathBuf>::new());
    }
    let good = run(&cluster.site.config(site::CONTROL_PLANE), &["snapshot"]);
    assert_eq!(good.status.code(), Some(0), "{}", text(&good));
    cluster.rig.stop().await.unwrap();
}
