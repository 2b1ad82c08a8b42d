//! A scratch API server over a restored member: its files, its process, a client.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use kube::config::AuthInfo;
use secrecy::SecretString;

use crate::base::clock::Clock;
use crate::base::codes;
use crate::base::failure::Failure;
use crate::rehearsal::member::MemberFiles;
use crate::rehearsal::pki::{Authority, Leaf, TokenKey};
use crate::rehearsal::symptom;
use crate::sandbox::process::TAIL_LINES;
use crate::sandbox::{Command, Forwarder, Found, Process, Program, Sandbox, Versions};

pub const KUBE_APISERVER: Program = Program { name: "kube-apiserver", version_arguments: &["--version"] };

/// The release that this holdfast knows the resources of.
#[must_use]
pub fn wanted_versions() -> Versions {
    Versions::of(&[(1, 34)])
}

/// Of TEST-NET-2 (RFC 5737): what is advertised to the cluster must lead nowhere.
const ADVERTISED: &str = "198.51.100.10";
/// Webhooks lead out of the scratch server, and policies may refuse what it must write to start.
const PLUGINS_OFF: &str = "MutatingAdmissionWebhook,ValidatingAdmissionWebhook,MutatingAdmissionPolicy,ValidatingAdmissionPolicy";
/// The group that may read everything, whatever roles the snapshot holds.
const ADMIN_GROUP: &str = "system:masters";
/// Port choice races with the rest of the host where there is no fence.
const START_ATTEMPTS: usize = 3;
/// Unreadable data is said again every second or so, and never mends itself;
/// a server that was only slow is ready before this.
const LOOK: Duration = Duration::from_secs(1);
const DOOMED_LOOKS: u32 = 15;
const POLL: Duration = Duration::from_millis(150);
/// For one answer; a list of many thousand objects comes in pages.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Throwaway authorities and keys of one scratch API server.
#[derive(Debug)]
pub struct ApiPki {
    pub authority: Authority,
    server: Leaf,
    /// May read and write everything.
    pub admin: Leaf,
    tokens: TokenKey,
}

impl ApiPki {
    /// Certificates signed by the authority.
    pub const LEAVES: u64 = 2;

    /// Good for `days` days from now.
    ///
    /// # Errors
    /// `sandbox.failed` when the crypto library refuses.
    pub fn new(clock: &dyn Clock, days: i64) -> Result<Self, Failure> {
        let authority = Authority::lasting("holdfast scratch", clock.now(), days)?;
        let server = authority.server("kube-apiserver")?;
        let admin = authority.client("holdfast-rehearsal", Some(ADMIN_GROUP))?;
        Ok(Self { authority, server, admin, tokens: TokenKey::new()? })
    }
}

/// What the API server is started with.
#[derive(Debug)]
pub struct ApiSetup<'a> {
    pub program: &'a Found,
    pub etcd_port: u16,
    pub etcd_files: &'a MemberFiles,
    /// `/registry`.
    pub prefix: &'a str,
    /// Where the EncryptionConfiguration lies; none where nothing is encrypted.
    pub encryption_config: Option<&'a PathBuf>,
    pub pki: &'a ApiPki,
}

/// A running API server that said it is ready.
pub struct ApiServer {
    process: Process,
    door: Forwarder,
    pub client: kube::Client,
    /// From the start of the process to readyz.
    pub ready: Duration,
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiServer").field("process", &self.process).finish_non_exhaustive()
    }
}

/// Starts an API server and waits for readyz: livez is good in seconds even
/// where not one Secret can be read.
///
/// # Errors
/// `rehearsal.not-ready` with the causes that its log names and its end; no process is left.
pub async fn start(sandbox: &Sandbox, setup: &ApiSetup<'_>, clock: &dyn Clock, limit: Duration) -> Result<ApiServer, Failure> {
    let files = ApiFiles::write(sandbox, setup.pki)?;
    let mut attempt = 1;
    loop {
        let port = sandbox.free_port()?;
        let began = clock.uptime();
        let process = sandbox.start(command(setup, &files, port)).await?;
        let door = sandbox.forward(port).await?;
        let client = client(door.address(), &setup.pki.authority, &setup.pki.admin)?;
        match wait_ready(&process, &client, limit).await {
            Ok(()) => return Ok(ApiServer { process, door, client, ready: clock.uptime().saturating_sub(began) }),
            Err(failure) if attempt < START_ATTEMPTS && failure.cause().contains("address already in use") => attempt += 1,
            Err(failure) => return Err(failure),
        }
    }
}

impl ApiServer {
    /// Where it answers outside the fence.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.door.address()
    }

    /// A failure to answer, with what the log says about keys and data.
    #[must_use]
    pub fn with_causes(&self, failure: Failure) -> Failure {
        let named = symptom::named(&self.process.log_tail(SYMPTOM_LINES));
        if named.is_empty() {
            return failure;
        }
        Failure::new(failure.code(), failure.object(), format!("{}{named}", failure.cause()))
    }

    /// Asks it to end.
    ///
    /// # Errors
    /// `sandbox.failed` when its end cannot be seen; it has been killed.
    pub async fn stop(self) -> Result<(), Failure> {
        self.process.stop().await.map(drop)
    }
}

/// Errors of keys are repeated every second or so; these lines hold the last of them.
const SYMPTOM_LINES: usize = 400;

struct ApiFiles {
    authority: PathBuf,
    server: PathBuf,
    server_key: PathBuf,
    token_key: PathBuf,
    token_public: PathBuf,
}

impl ApiFiles {
    fn write(sandbox: &Sandbox, pki: &ApiPki) -> Result<Self, Failure> {
        let write = |name: &str, text: &str| sandbox.write_private(name, text.as_bytes());
        Ok(Self {
            authority: write("api-ca.crt", &pki.authority.certificate())?,
            server: write("api-server.crt", &pki.server.certificate)?,
            server_key: write("api-server.key", pki.server.key.expose())?,
            token_key: write("sa.key", pki.tokens.private.expose())?,
            token_public: write("sa.pub", &pki.tokens.public)?,
        })
    }
}

fn command(setup: &ApiSetup<'_>, files: &ApiFiles, port: u16) -> Command {
    let flags = [
        format!("--etcd-servers=https://127.0.0.1:{}", setup.etcd_port),
        format!("--etcd-prefix={}", setup.prefix),
        // Else it compacts the snapshot's own revision away within minutes.
        "--etcd-compaction-interval=0".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--advertise-address={ADVERTISED}"),
        "--endpoint-reconciler-type=none".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        "--anonymous-auth=false".to_owned(),
        "--profiling=false".to_owned(),
        format!("--disable-admission-plugins={PLUGINS_OFF}"),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--service-cluster-ip-range=10.96.0.0/12".to_owned(),
    ];
    let paths = [
        ("--etcd-cafile", &setup.etcd_files.authority),
        ("--etcd-certfile", &setup.etcd_files.client),
        ("--etcd-keyfile", &setup.etcd_files.client_key),
        ("--client-ca-file", &files.authority),
        ("--tls-cert-file", &files.server),
        ("--tls-private-key-file", &files.server_key),
        ("--service-account-key-file", &files.token_public),
        ("--service-account-signing-key-file", &files.token_key),
    ];
    let encryption = setup.encryption_config.map(|path| ("--encryption-provider-config", path));
    Command::new("kube-apiserver", &setup.program.path)
        .args(flags)
        .args(paths.into_iter().chain(encryption).flat_map(|(flag, path)| [flag.into(), path.clone().into_os_string()]))
}

/// A client of the API server at `address`, with the rights of `admin`.
///
/// # Errors
/// `sandbox.failed` when the certificates are of no use.
pub fn client(address: SocketAddr, authority: &Authority, admin: &Leaf) -> Result<kube::Client, Failure> {
    let failed = |e: &(dyn std::error::Error + 'static)| Failure::because(&codes::SANDBOX_FAILED, "client of the API server", e);
    let address = format!("https://{address}").parse::<http::Uri>().map_err(|e| failed(&e))?;
    let mut config = kube::Config::new(address);
    let base64 = |text: &str| data_encoding::BASE64.encode(text.as_bytes());
    config.root_cert = Some(vec![authority.certificate_der()]);
    config.read_timeout = Some(ANSWER_TIMEOUT);
    config.auth_info = AuthInfo {
        client_certificate_data: Some(base64(&admin.certificate)),
        client_key_data: Some(SecretString::from(base64(admin.key.expose()))),
        ..AuthInfo::default()
    };
    kube::Client::try_from(config).map_err(|e| failed(&e))
}

async fn wait_ready(process: &Process, client: &kube::Client, limit: Duration) -> Result<(), Failure> {
    let cause = tokio::select! {
        ready = process.until(until_ready(client), limit) => match ready {
            Ok(()) => return Ok(()),
            Err(cause) => cause,
        },
        () = doomed(process) => "it will not be ready".to_owned(),
    };
    let text = format!("{cause}{}\n{}", symptom::named(&process.log_tail(SYMPTOM_LINES)), process.log_tail(TAIL_LINES));
    Err(Failure::new(&codes::REHEARSAL_NOT_READY, "scratch API server", text))
}

/// Ends when the API server says that it is ready.
pub async fn until_ready(client: &kube::Client) {
    while !is_ready(client).await {
        tokio::time::sleep(POLL).await;
    }
}

/// Ends when the log has named a cause for so long that waiting on is no use.
async fn doomed(process: &Process) {
    let mut seen = 0;
    while seen < DOOMED_LOOKS {
        tokio::time::sleep(LOOK).await;
        let named = !symptom::causes(&process.log_tail(SYMPTOM_LINES)).is_empty();
        seen = if named { seen + 1 } else { 0 };
    }
}

async fn is_ready(client: &kube::Client) -> bool {
    let Ok(request) = http::Request::get("/readyz").body(Vec::new()) else { return false };
    let asked = tokio::time::timeout(ANSWER_TIMEOUT, client.request_text(request)).await;
    matches!(asked, Ok(Ok(answer)) if answer == "ok")
}
