//! A restored etcd member of one: its data directory, its process, its answers.

use std::path::PathBuf;
use std::time::Duration;

use etcd_client::{AlarmAction, AlarmOptions, AlarmType, Certificate, Client, ConnectOptions, Identity, TlsOptions};

use crate::base::clock::Clock;
use crate::base::codes;
use crate::base::failure::Failure;
use crate::base::secret::Secret;
use crate::etcd::{EtcdClient, MemberStatus, Source};
use crate::rehearsal::pki::{Authority, Leaf};
use crate::rehearsal::symptom;
use crate::sandbox::process::TAIL_LINES;
use crate::sandbox::{Command, Forwarder, Found, Process, Program, Sandbox, Versions};

pub const ETCD: Program = Program { name: "etcd", version_arguments: &["--version"] };
pub const ETCDUTL: Program = Program { name: "etcdutl", version_arguments: &["version"] };

/// etcd's own name for the member; it appears nowhere else.
const NAME: &str = "scratch";
/// Port choice races with the rest of the host where there is no fence.
const START_ATTEMPTS: usize = 3;
/// Between two questions whether a member is ready.
const POLL: Duration = Duration::from_millis(100);
/// A member on loopback accepts at once or not yet.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// An alarm is one small write.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// etcd refuses writes above its quota, and a restored database counts whole.
const MIN_QUOTA_BYTES: u64 = 8 << 30;

/// Certificates for everybody who speaks to the member.
#[derive(Debug)]
pub struct MemberPki {
    pub authority: Authority,
    pub server: Leaf,
    pub client: Leaf,
}

/// Where children find the files of a [`MemberPki`].
#[derive(Debug, Clone)]
pub struct MemberFiles {
    pub authority: PathBuf,
    server: PathBuf,
    server_key: PathBuf,
    pub client: PathBuf,
    pub client_key: PathBuf,
}

/// A running member.
#[derive(Debug)]
pub struct Member {
    process: Process,
    /// Open as long as the member is asked from outside.
    _door: Forwarder,
    client: EtcdClient,
    endpoint: String,
    /// Inside the fence.
    pub port: u16,
    pub status: MemberStatus,
}

/// Which releases may restore and run a snapshot: its own minor version, else the next.
///
/// The storage version is in the bytes since etcd 3.6; before, the member's own version counts.
///
/// # Errors
/// `tool.version` when neither is a version.
pub fn wanted_versions(storage_version: Option<&str>, member_version: &str) -> Result<Versions, Failure> {
    let text = storage_version.unwrap_or(member_version);
    let mut parts = text.split('.').map(str::parse::<u32>);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Ok(Versions::of(&[(major, minor), (major, minor.saturating_add(1))])),
        _ => Err(Failure::new(&codes::TOOL_VERSION, "etcd", format!("the snapshot's version {text:?} is none"))),
    }
}

impl MemberPki {
    /// Good for `days` days from now.
    ///
    /// # Errors
    /// `sandbox.failed` when the crypto library refuses.
    pub fn new(clock: &dyn Clock, days: i64) -> Result<Self, Failure> {
        let authority = Authority::lasting("holdfast scratch etcd", clock.now(), days)?;
        let server = authority.server("scratch etcd")?;
        // Where the snapshot has authentication switched on, etcd takes a
        // certificate's common name for the user: only root may read everything.
        let client = authority.client("root", None)?;
        Ok(Self { authority, server, client })
    }

    /// Puts the files where children read them.
    ///
    /// # Errors
    /// `sandbox.failed`.
    pub fn write(&self, sandbox: &Sandbox) -> Result<MemberFiles, Failure> {
        let write = |name: &str, text: &str| sandbox.write_private(name, text.as_bytes());
        Ok(MemberFiles {
            authority: write("etcd-ca.crt", &self.authority.certificate())?,
            server: write("etcd-server.crt", &self.server.certificate)?,
            server_key: write("etcd-server.key", self.server.key.expose())?,
            client: write("etcd-client.crt", &self.client.certificate)?,
            client_key: write("etcd-client.key", self.client.key.expose())?,
        })
    }
}

/// Writes a data directory from `image`, a whole snapshot file with its digest.
///
/// # Errors
/// `tool.failed` with the program's words. A half-written directory goes with
/// the sandbox.
pub async fn restore(
    sandbox: &Sandbox,
    etcdutl: &Found,
    image: rustix::fd::OwnedFd,
    token: &str,
    limit: Duration,
) -> Result<PathBuf, Failure> {
    let data = sandbox.directory().join("etcd");
    // A member of one never speaks to its peer address; it must only be told one.
    let peer = "https://127.0.0.1:2380";
    // The image is never a file: etcdutl reads the sealed memory as its standard input.
    let command = Command::new("etcdutl", &etcdutl.path)
        .args(["snapshot", "restore", "/dev/stdin", "--name", NAME])
        .args(["--initial-cluster", &format!("{NAME}={peer}"), "--initial-advertise-peer-urls", peer])
        .args(["--initial-cluster-token", token, "--data-dir"])
        .args([&data])
        .input(image);
    sandbox.run(command, limit).await?;
    Ok(data)
}

/// Starts a member on `data` and waits until it has a leader: itself.
///
/// # Errors
/// `rehearsal.not-ready` with the end of its log when it ends, or is not ready
/// within `limit`; no process is left.
pub async fn start(
    sandbox: &Sandbox,
    etcd: &Found,
    data: &std::path::Path,
    image_bytes: u64,
    pki: &MemberPki,
    files: &MemberFiles,
    limit: Duration,
) -> Result<Member, Failure> {
    let mut attempt = 1;
    loop {
        let (port, peer_port) = (sandbox.free_port()?, sandbox.free_port()?);
        let command = command(etcd, data, image_bytes, files, port, peer_port);
        let process = sandbox.start(command).await?;
        let door = sandbox.forward(port).await?;
        let endpoint = format!("https://{}", door.address());
        let key: &Secret<String> = &pki.client.key;
        let client = EtcdClient::of_pem(
            endpoint.clone(),
            &pki.authority.certificate(),
            &pki.client.certificate,
            key.expose(),
            CONNECT_TIMEOUT,
        );
        match wait_ready(&process, &client, limit).await {
            Ok(status) => return Ok(Member { process, _door: door, client, endpoint, port, status }),
            Err(failure) if attempt < START_ATTEMPTS && failure.cause().contains("address already in use") => attempt += 1,
            Err(failure) => return Err(failure),
        }
    }
}

impl Member {
    /// Where it answers outside the fence.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The hash over all revisions up to `revision`, with its compact revision.
    ///
    /// # Errors
    /// `etcd.*` when it does not answer.
    pub async fn hash_kv(&self, revision: i64) -> Result<crate::etcd::HashKv, Failure> {
        self.client.hash_kv(&self.endpoint, revision).await
    }

    /// Keys alive at `revision`.
    ///
    /// # Errors
    /// `etcd.*` when it does not answer.
    pub async fn count(&self, revision: i64) -> Result<u64, Failure> {
        self.client.count(&self.endpoint, revision).await
    }

    /// Takes back alarms that the snapshot brought along and that stop all
    /// writes; gives how many.
    ///
    /// # Errors
    /// `rehearsal.structure` when the source had found its own data damaged,
    /// `etcd.*` when the member does not answer.
    pub async fn disarm_nospace(&self, pki: &MemberPki) -> Result<u64, Failure> {
        let failed = |e: &etcd_client::Error| Failure::because(&codes::ETCD_UNREACHABLE, "restored etcd", e);
        let tls = TlsOptions::new()
            .ca_certificate(Certificate::from_pem(pki.authority.certificate()))
            .identity(Identity::from_pem(&pki.client.certificate, pki.client.key.expose()));
        let options = ConnectOptions::new().with_tls(tls).with_connect_timeout(CONNECT_TIMEOUT).with_timeout(ANSWER_TIMEOUT);
        let mut client = Client::connect([&self.endpoint], Some(options)).await.map_err(|e| failed(&e))?;
        let found = client.alarm(AlarmAction::Get, AlarmType::None, None).await.map_err(|e| failed(&e))?;
        let mut disarmed = 0;
        for alarm in found.alarms() {
            match alarm.alarm() {
                AlarmType::None => {}
                AlarmType::Corrupt => {
                    let cause = "an alarm CORRUPT came with the snapshot: its source had found its own data damaged";
                    return Err(Failure::new(&codes::REHEARSAL_STRUCTURE, "restored etcd", cause));
                }
                AlarmType::Nospace => {
                    let mut of = AlarmOptions::new();
                    of.with_member(alarm.member_id());
                    client.alarm(AlarmAction::Deactivate, AlarmType::Nospace, Some(of)).await.map_err(|e| failed(&e))?;
                    disarmed += 1;
                }
            }
        }
        Ok(disarmed)
    }

    /// Asks it to end.
    ///
    /// # Errors
    /// `sandbox.failed` when its end cannot be seen; it has been killed.
    pub async fn stop(self) -> Result<(), Failure> {
        self.process.stop().await.map(drop)
    }
}

fn command(etcd: &Found, data: &std::path::Path, image_bytes: u64, files: &MemberFiles, port: u16, peer_port: u16) -> Command {
    let (client, peer) = (format!("https://127.0.0.1:{port}"), format!("https://127.0.0.1:{peer_port}"));
    let quota = MIN_QUOTA_BYTES.max(image_bytes.saturating_mul(2));
    let files = [
        ("--cert-file", &files.server),
        ("--key-file", &files.server_key),
        ("--trusted-ca-file", &files.authority),
        ("--peer-cert-file", &files.server),
        ("--peer-key-file", &files.server_key),
        ("--peer-trusted-ca-file", &files.authority),
    ];
    Command::new("etcd", &etcd.path)
        .args(["--name", NAME, "--client-cert-auth", "--peer-client-cert-auth"])
        .args([format!("--quota-backend-bytes={quota}")])
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client, "--listen-peer-urls", &peer])
        .args(files.into_iter().flat_map(|(flag, path)| [flag.into(), path.clone().into_os_string()]))
        .args(["--data-dir"])
        .args([data])
}

async fn wait_ready(process: &Process, client: &EtcdClient, limit: Duration) -> Result<MemberStatus, Failure> {
    process.until(until_led(client), limit).await.map_err(|cause| {
        let tail = process.log_tail(TAIL_LINES);
        let text = format!("{cause}{}\n{tail}", symptom::named(&tail));
        Failure::new(&codes::REHEARSAL_NOT_READY, "restored etcd", text)
    })
}

/// The status of the first endpoint, once its member has a leader.
pub async fn until_led(client: &EtcdClient) -> MemberStatus {
    loop {
        if let Some(Ok(status)) = client.statuses().await.into_iter().next()
            && status.leader != 0
        {
            return status;
        }
        tokio::time::sleep(POLL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_073_the_bytes_say_which_etcd_may_run_them() {
        assert_eq!(wanted_versions(Some("3.6.0"), "3.6.16").unwrap().to_string(), "3.6.x or 3.7.x");
        assert_eq!(wanted_versions(Some("3.7.0"), "3.6.16").unwrap().to_string(), "3.7.x or 3.8.x");
        assert_eq!(wanted_versions(None, "3.5.35").unwrap().to_string(), "3.5.x or 3.6.x");
        assert_eq!(wanted_versions(None, "unknown").unwrap_err().code(), &codes::TOOL_VERSION);
    }
}
