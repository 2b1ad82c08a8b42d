//! A production cluster in miniature: etcd with TLS and client certificates,
//! kube-apiserver with encryption at rest. Real programs on loopback.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use crate::base::codes;
use crate::base::failure::Failure;
use crate::k8s::encryption_config::EncryptionConfig;
use crate::rehearsal::pki::{Authority, Leaf, TokenKey};
use crate::rehearsal::{apiserver, member};
use crate::sandbox::{Command, Fencing, Found, Places, Process, Program, Sandbox, Versions, tools};

/// A cold API server on two busy cores takes ten seconds or so.
const READY_LIMIT: Duration = Duration::from_secs(90);
/// Another process can take a free port before ours binds it.
const PORT_ATTEMPTS: u32 = 3;

/// The programs that the cluster is made of.
#[derive(Debug, Clone)]
pub struct Tools {
    pub etcd: Found,
    pub etcdutl: Found,
    pub apiserver: Found,
}

impl Tools {
    /// # Errors
    /// `tool.missing`, `tool.version`.
    pub async fn find(places: &Places) -> Result<Self, Failure> {
        let etcd = Program { name: "etcd", version_arguments: &["--version"] };
        let etcdutl = Program { name: "etcdutl", version_arguments: &["version"] };
        let apiserver = Program { name: "kube-apiserver", version_arguments: &["--version"] };
        let (of_etcd, of_kubernetes) = (Versions::of(&[(3, 6)]), Versions::of(&[(1, 34)]));
        Ok(Self {
            etcd: tools::find(etcd, &of_etcd, places).await?,
            etcdutl: tools::find(etcdutl, &of_etcd, places).await?,
            apiserver: tools::find(apiserver, &of_kubernetes, places).await?,
        })
    }
}

/// The running cluster. Dropping it ends its processes; its folder stays.
#[derive(Debug)]
pub struct Rig {
    folder: PathBuf,
    tools: Tools,
    sandbox: Sandbox,
    etcd_port: u16,
    etcd: Option<Process>,
    apiserver: Option<(Process, u16)>,
    authority: Authority,
    administrator: Leaf,
}

impl Rig {
    /// Makes the folder and its certificates, and starts etcd.
    ///
    /// # Errors
    /// Nothing runs then; files may lie in `folder`.
    pub async fn start(folder: &Path, tools: Tools, now: Timestamp) -> Result<Self, Failure> {
        make_folder(folder)?;
        make_folder(&folder.join("pki"))?;
        let sandbox = Sandbox::up(&folder.join("run"), "production", Fencing::Never).await?;
        let authority = Authority::new("production-ca", now)?;
        let administrator = authority.client("administrator", Some("system:masters"))?;
        let (etcd_port, apiserver) = (sandbox.free_port()?, None);
        let folder = folder.to_owned();
        let mut rig = Self { folder, tools, sandbox, etcd_port, etcd: None, apiserver, authority, administrator };
        rig.write_pki()?;
        rig.start_etcd().await?;
        Ok(rig)
    }

    fn write_pki(&self) -> Result<(), Failure> {
        write(&self.pki("ca.crt"), self.authority.certificate().as_bytes())?;
        for (name, leaf) in [
            ("etcd", self.authority.server("etcd")?),
            ("apiserver", self.authority.server("kube-apiserver")?),
            ("holdfast", self.authority.client("holdfast", None)?),
        ] {
            write(&self.pki(&format!("{name}.crt")), leaf.certificate.as_bytes())?;
            write(&self.pki(&format!("{name}.key")), leaf.key.expose().as_bytes())?;
        }
        let tokens = TokenKey::new()?;
        write(&self.pki("sa.key"), tokens.private.expose().as_bytes())?;
        write(&self.pki("sa.pub"), tokens.public.as_bytes())
    }

    async fn start_etcd(&mut self) -> Result<(), Failure> {
        for attempt in 1..=PORT_ATTEMPTS {
            let peer = self.sandbox.free_port()?;
            let process = self.sandbox.start(self.etcd_command(peer)).await?;
            match self.wait_for_etcd(&process).await {
                Ok(()) => {
                    self.etcd = Some(process);
                    return Ok(());
                }
                Err(_) if attempt < PORT_ATTEMPTS && process.log_tail(50).contains("address already in use") => {
                    self.etcd_port = self.sandbox.free_port()?;
                }
                Err(failure) => return Err(failure),
            }
        }
        Err(Failure::new(&codes::SANDBOX_FAILED, "etcd", "no free port"))
    }

    fn etcd_command(&self, peer: u16) -> Command {
        let pki = |name: &str| self.pki(name).display().to_string();
        let (client, peer) = (self.etcd_endpoint(), format!("http://127.0.0.1:{peer}"));
        Command::new("etcd", &self.tools.etcd.path).args([
            "--name=production".to_owned(),
            format!("--data-dir={}", self.folder.join("etcd").display()),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=production={peer}"),
            format!("--cert-file={}", pki("etcd.crt")),
            format!("--key-file={}", pki("etcd.key")),
            format!("--trusted-ca-file={}", pki("ca.crt")),
            "--client-cert-auth=true".to_owned(),
            "--logger=zap".to_owned(),
        ])
    }

    async fn wait_for_etcd(&self, process: &Process) -> Result<(), Failure> {
        let source = crate::etcd::EtcdClient::new(&self.etcd_config())?;
        process.until(member::until_led(&source), READY_LIMIT).await.map(drop).map_err(|cause| not_ready(process, &cause))
    }

    /// Starts the API server with this EncryptionConfiguration, after the one
    /// that runs, if any, has ended.
    ///
    /// # Errors
    /// `rehearsal.not-ready` with the end of its log.
    pub async fn serve(&mut self, encryption: &EncryptionConfig) -> Result<(), Failure> {
        if let Some((process, _)) = self.apiserver.take() {
            process.stop().await?;
        }
        write(&self.encryption_config(), encryption.to_yaml().expose().as_bytes())?;
        for attempt in 1..=PORT_ATTEMPTS {
            let port = self.sandbox.free_port()?;
            let process = self.sandbox.start(self.apiserver_command(port)).await?;
            let client = self.client_at(port)?;
            match process.until(apiserver::until_ready(&client), READY_LIMIT).await.map_err(|cause| not_ready(&process, &cause)) {
                Ok(()) => {
                    self.apiserver = Some((process, port));
                    return Ok(());
                }
                Err(_) if attempt < PORT_ATTEMPTS && process.log_tail(50).contains("address already in use") => {}
                Err(failure) => return Err(failure),
            }
        }
        Err(Failure::new(&codes::SANDBOX_FAILED, "kube-apiserver", "no free port"))
    }

    fn apiserver_command(&self, port: u16) -> Command {
        let pki = |name: &str| self.pki(name).display().to_string();
        Command::new("kube-apiserver", &self.tools.apiserver.path).args([
            format!("--etcd-servers={}", self.etcd_endpoint()),
            format!("--etcd-cafile={}", pki("ca.crt")),
            format!("--etcd-certfile={}", pki("holdfast.crt")),
            format!("--etcd-keyfile={}", pki("holdfast.key")),
            format!("--encryption-provider-config={}", self.encryption_config().display()),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            "--advertise-address=192.0.2.10".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            format!("--tls-cert-file={}", pki("apiserver.crt")),
            format!("--tls-private-key-file={}", pki("apiserver.key")),
            format!("--client-ca-file={}", pki("ca.crt")),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", pki("sa.pub")),
            format!("--service-account-signing-key-file={}", pki("sa.key")),
            "--service-cluster-ip-range=198.51.100.0/24".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            // No controller makes service accounts here, and no pod runs.
            "--disable-admission-plugins=ServiceAccount".to_owned(),
        ])
    }

    /// A client of the API server with all rights.
    ///
    /// # Errors
    /// `sandbox.failed` when none runs.
    pub fn client(&self) -> Result<kube::Client, Failure> {
        let running = self.apiserver.as_ref();
        let (_, port) = running.ok_or_else(|| Failure::new(&codes::SANDBOX_FAILED, "kube-apiserver", "it is not running"))?;
        self.client_at(*port)
    }

    fn client_at(&self, port: u16) -> Result<kube::Client, Failure> {
        apiserver::client(([127, 0, 0, 1], port).into(), &self.authority, &self.administrator)
    }

    #[must_use]
    pub fn etcd_endpoint(&self) -> String {
        format!("https://127.0.0.1:{}", self.etcd_port)
    }

    /// How holdfast reaches this etcd.
    #[must_use]
    pub fn etcd_config(&self) -> crate::config::EtcdConfig {
        crate::config::EtcdConfig {
            endpoints: vec![self.etcd_endpoint()],
            ca: Some(self.pki("ca.crt")),
            cert: Some(self.pki("holdfast.crt")),
            key: Some(self.pki("holdfast.key")),
            connect_timeout: Duration::from_secs(5),
            stall_timeout: Duration::from_secs(30),
            total_timeout: Duration::from_secs(300),
        }
    }

    /// The file that the API server reads its keys from.
    #[must_use]
    pub fn encryption_config(&self) -> PathBuf {
        self.folder.join("encryption.yaml")
    }

    #[must_use]
    pub fn pki(&self, name: &str) -> PathBuf {
        self.folder.join("pki").join(name)
    }

    /// Ends both programs, API server first.
    ///
    /// # Errors
    /// `sandbox.failed` names what could not be ended or removed.
    pub async fn stop(mut self) -> Result<(), Failure> {
        if let Some((process, _)) = self.apiserver.take() {
            process.stop().await?;
        }
        if let Some(process) = self.etcd.take() {
            process.stop().await?;
        }
        self.sandbox.down().await
    }
}

fn not_ready(process: &Process, cause: &str) -> Failure {
    let tail = process.log_tail(crate::sandbox::process::TAIL_LINES);
    Failure::new(&codes::REHEARSAL_NOT_READY, process.name(), format!("{cause}\n{tail}"))
}

/// Makes a folder that only its owner enters.
pub(super) fn make_folder(path: &Path) -> Result<(), Failure> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| Failure::because(&codes::DEMO_DIRECTORY, path.display(), &error))
}

/// Writes a file that only its owner reads.
pub(super) fn write(path: &Path, content: &[u8]) -> Result<(), Failure> {
    let open = fs::OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(path);
    open.and_then(|mut file| std::io::Write::write_all(&mut file, content))
        .map_err(|error| Failure::because(&codes::DEMO_DIRECTORY, path.display(), &error))
}
