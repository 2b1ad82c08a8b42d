//! A real API server over a cluster of etcd, with encryption at rest: what
//! writes the objects that a snapshot holds.

use std::path::PathBuf;
use std::time::Duration;

use holdfast::base::clock::{Clock, SystemClock};
use holdfast::k8s::encryption_config::EncryptionConfig;
use holdfast::rehearsal::apiserver;
use holdfast::rehearsal::pki::{Authority, Leaf, TokenKey};
use holdfast::sandbox::{Command, Fencing, Found, Places, Process, Program, Sandbox, Versions, tools};

use super::certificates::write;
use super::etcd::EtcdRig;

const READY_LIMIT: Duration = Duration::from_secs(180);
/// Another process can take a free port before the server binds it.
const PORT_ATTEMPTS: u32 = 3;

/// The server. Dropping it ends it.
pub struct ApiServer {
    process: Process,
    pub client: kube::Client,
    sandbox: Sandbox,
    folder: tempfile::TempDir,
}

impl ApiServer {
    /// Starts one over all members of `etcd`, which must speak TLS, and waits until it is ready.
    pub async fn start(etcd: &EtcdRig, encryption: &EncryptionConfig) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let places = Places::usual(None, |name| std::env::var_os(name));
        let program = Program { name: "kube-apiserver", version_arguments: &["--version"] };
        let found =
            tools::find(program, &Versions::of(&[(1, 34)]), &places).await.unwrap_or_else(|e| panic!("{e}; run make tools"));
        let sandbox = Sandbox::up(&folder.path().join("run"), "apiserver", Fencing::Never).await.unwrap();
        let files = Files::write(&folder, encryption);
        for attempt in 1..=PORT_ATTEMPTS {
            let port = sandbox.free_port().unwrap();
            let process = sandbox.start(files.command(&found, etcd, port)).await.unwrap();
            let client = apiserver::client(([127, 0, 0, 1], port).into(), &files.authority, &files.administrator).unwrap();
            match process.until(apiserver::until_ready(&client), READY_LIMIT).await {
                Ok(()) => return Self { process, client, sandbox, folder },
                Err(_) if attempt < PORT_ATTEMPTS && process.log_tail(50).contains("address already in use") => {}
                Err(cause) => panic!("kube-apiserver: {cause}\n{}", process.log_tail(20)),
            }
        }
        unreachable!("the last attempt returns or panics")
    }

    /// The EncryptionConfiguration that it runs with, as a file.
    pub fn encryption_config(&self) -> PathBuf {
        self.folder.path().join("encryption.yaml")
    }

    /// Ends it; the file stays as long as the folder given back.
    pub async fn stop(self) -> tempfile::TempDir {
        self.process.stop().await.unwrap();
        self.sandbox.down().await.unwrap();
        self.folder
    }
}

struct Files {
    folder: PathBuf,
    authority: Authority,
    administrator: Leaf,
}

impl Files {
    fn write(folder: &tempfile::TempDir, encryption: &EncryptionConfig) -> Self {
        let authority = Authority::new("production-ca", SystemClock::new().now()).unwrap();
        let administrator = authority.client("administrator", Some("system:masters")).unwrap();
        let server = authority.server("kube-apiserver").unwrap();
        let tokens = TokenKey::new().unwrap();
        let files = Self { folder: folder.path().to_owned(), authority, administrator };
        write(&files.at("ca.crt"), &files.authority.certificate());
        write(&files.at("server.crt"), &server.certificate);
        write(&files.at("server.key"), server.key.expose());
        write(&files.at("sa.key"), tokens.private.expose());
        write(&files.at("sa.pub"), &tokens.public);
        write(&files.at("encryption.yaml"), encryption.to_yaml().expose());
        files
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn command(&self, found: &Found, etcd: &EtcdRig, port: u16) -> Command {
        let path = |name: &str| self.at(name).display().to_string();
        let etcd_path = |name: &str| etcd.pki(name).display().to_string();
        Command::new("kube-apiserver", &found.path).args([
            format!("--etcd-servers={}", etcd.endpoints().join(",")),
            format!("--etcd-cafile={}", etcd_path("ca.crt")),
            format!("--etcd-certfile={}", etcd_path("client.crt")),
            format!("--etcd-keyfile={}", etcd_path("client.key")),
            format!("--encryption-provider-config={}", path("encryption.yaml")),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            "--advertise-address=192.0.2.10".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            format!("--tls-cert-file={}", path("server.crt")),
            format!("--tls-private-key-file={}", path("server.key")),
            format!("--client-ca-file={}", path("ca.crt")),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", path("sa.pub")),
            format!("--service-account-signing-key-file={}", path("sa.key")),
            "--service-cluster-ip-range=198.51.100.0/24".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            // No controller makes service accounts here, and no pod runs.
            "--disable-admission-plugins=ServiceAccount".to_owned(),
        ])
    }
}
