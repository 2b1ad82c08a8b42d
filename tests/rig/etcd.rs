//! A real etcd cluster of any number of members on loopback, plain or with TLS
//! and client certificates. Members are stopped, paused and started one by one;
//! all of it is gone when the value is dropped.

use std::path::{Path, PathBuf};
use std::time::Duration;

use holdfast::config::EtcdConfig;
use holdfast::etcd::{EtcdClient, MemberStatus, Source};
use holdfast::sandbox::{Command, Fencing, Found, Places, Process, Program, Sandbox, Versions, tools};
use rustix::process::{Pid, Signal, kill_process};

use super::certificates::{Authority, Leaf, Wanted, write};

/// Three members on two busy cores elect a leader in seconds; nothing waits for it when all is well.
pub const READY_LIMIT: Duration = Duration::from_secs(120);
/// Another process can take a free port before ours binds it.
const PORT_ATTEMPTS: u32 = 3;
/// The word of a member that lost its port.
const TAKEN: &str = "address already in use";

/// How clients speak to the members.
pub enum Wire {
    Plain,
    Tls(Box<Pki>),
}

/// The certificates of a cluster and of the client that a test is.
pub struct Pki {
    pub authority: Authority,
    /// Every member shows this one.
    pub server: Leaf,
    pub client: Leaf,
}

/// A running cluster.
pub struct EtcdRig {
    // Dropped in this order: members before the sandbox that started them, files last.
    members: Vec<Member>,
    sandbox: Sandbox,
    folder: tempfile::TempDir,
    etcd: Found,
    wire: Wire,
}

struct Member {
    process: Option<Process>,
    port: u16,
    peer_port: u16,
}

impl Pki {
    /// Good for two years around now.
    pub fn good() -> Self {
        let authority = Authority::new("etcd-ca");
        let server = authority.leaf(&Wanted { name: "etcd", ..Wanted::default() });
        let client = authority.leaf(&Wanted { name: "holdfast", server: false, ..Wanted::default() });
        Self { authority, server, client }
    }
}

impl EtcdRig {
    /// Starts `count` members and waits until all know one leader.
    pub async fn start(count: usize, wire: Wire) -> Self {
        let rig = Self::launch(count, wire).await;
        rig.until_led().await;
        rig
    }

    /// Starts `count` members and waits for nothing but that none has ended.
    pub async fn launch(count: usize, wire: Wire) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        if let Wire::Tls(pki) = &wire {
            write(&folder.path().join("ca.crt"), &pki.authority.certificate());
            pki.server.write(folder.path(), "server");
            pki.client.write(folder.path(), "client");
        }
        let places = Places::usual(None, |name| std::env::var_os(name));
        let program = Program { name: "etcd", version_arguments: &["--version"] };
        let etcd =
            tools::find(program, &Versions::of(&[(3, 6)]), &places).await.unwrap_or_else(|e| panic!("{e}; run make tools"));
        let sandbox = Sandbox::up(&folder.path().join("run"), "etcd", Fencing::Never).await.unwrap();
        let mut rig = Self { members: Vec::new(), sandbox, folder, etcd, wire };
        for attempt in 1..=PORT_ATTEMPTS {
            rig.members.clear();
            for index in 0..count {
                let _ = std::fs::remove_dir_all(rig.data(index));
                let (port, peer_port) = (rig.sandbox.free_port().unwrap(), rig.sandbox.free_port().unwrap());
                rig.members.push(Member { process: None, port, peer_port });
            }
            for index in 0..count {
                rig.run(index).await;
            }
            match rig.listening().await {
                Ok(()) => return rig,
                Err(log) if attempt < PORT_ATTEMPTS && log.contains(TAKEN) => {}
                Err(log) => panic!("etcd does not start: {log}"),
            }
        }
        unreachable!("the last attempt returns or panics")
    }

    /// Where clients find member `index`.
    pub fn endpoint(&self, index: usize) -> String {
        let scheme = if matches!(self.wire, Wire::Tls(_)) { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.members[index].port)
    }

    pub fn endpoints(&self) -> Vec<String> {
        (0..self.members.len()).map(|index| self.endpoint(index)).collect()
    }

    /// `ca.crt`, `server.crt`, `server.key`, `client.crt` or `client.key`; only with TLS.
    pub fn pki(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Who signed all of these; only with TLS.
    pub fn authority(&self) -> Option<&Authority> {
        match &self.wire {
            Wire::Plain => None,
            Wire::Tls(pki) => Some(&pki.authority),
        }
    }

    /// A folder that goes with the rig.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn data(&self, index: usize) -> PathBuf {
        self.folder.path().join(format!("m{index}"))
    }

    /// How holdfast reaches the cluster, with every endpoint.
    pub fn config(&self) -> EtcdConfig {
        let tls = matches!(self.wire, Wire::Tls(_));
        let file = |name: &str| tls.then(|| self.pki(name));
        EtcdConfig {
            endpoints: self.endpoints(),
            ca: file("ca.crt"),
            cert: file("client.crt"),
            key: file("client.key"),
            connect_timeout: Duration::from_secs(5),
            stall_timeout: Duration::from_secs(30),
            total_timeout: Duration::from_secs(300),
        }
    }

    /// The `[etcd]` section of a configuration file.
    pub fn section(&self) -> String {
        let mut text = format!("[etcd]\nendpoints = {:?}\n", self.endpoints());
        if matches!(self.wire, Wire::Tls(_)) {
            for (key, file) in [("ca", "ca.crt"), ("cert", "client.crt"), ("key", "client.key")] {
                text.push_str(&format!("{key} = {:?}\n", self.pki(file)));
            }
        }
        text
    }

    /// The process of a member, while it runs.
    pub fn pid(&self, index: usize) -> Option<u32> {
        self.members[index].process.as_ref().map(Process::pid)
    }

    /// The end of a member's log.
    pub fn log_tail(&self, index: usize) -> String {
        self.members[index].process.as_ref().map(|process| process.log_tail(20)).unwrap_or_default()
    }

    /// Ends a member as systemd would; its data stays.
    pub async fn stop_member(&mut self, index: usize) {
        let process = self.members[index].process.take().expect("the member runs");
        signal(&process, Signal::CONT);
        process.stop().await.unwrap();
    }

    /// Starts a member that was stopped, on its own ports and data.
    pub async fn start_member(&mut self, index: usize) {
        assert!(self.members[index].process.is_none(), "the member runs already");
        let attempts = async {
            loop {
                self.run(index).await;
                // Its port may be somebody's for a moment.
                match self.member_listening(index).await {
                    Ok(()) => return,
                    Err(log) => assert!(log.contains(TAKEN), "etcd does not start: {log}"),
                }
            }
        };
        tokio::time::timeout(READY_LIMIT, attempts).await.expect("the member starts");
    }

    /// The member keeps its connections and answers nothing.
    pub fn pause_member(&self, index: usize) {
        signal(self.members[index].process.as_ref().expect("the member runs"), Signal::STOP);
    }

    pub fn resume_member(&self, index: usize) {
        signal(self.members[index].process.as_ref().expect("the member runs"), Signal::CONT);
    }

    /// Waits until every running member knows one leader.
    pub async fn until_led(&self) -> Vec<MemberStatus> {
        let running = (0..self.members.len()).filter(|index| self.members[*index].process.is_some());
        let endpoints: Vec<_> = running.map(|index| self.endpoint(index)).collect();
        let client = EtcdClient::new(&EtcdConfig { endpoints, ..self.config() }).unwrap();
        let led = async {
            loop {
                let statuses: Result<Vec<_>, _> = client.statuses().await.into_iter().collect();
                if let Ok(statuses) = statuses
                    && statuses.iter().all(|status| status.leader != 0 && status.leader == statuses[0].leader)
                {
                    return statuses;
                }
                tokio::task::yield_now().await;
            }
        };
        let logs = || (0..self.members.len()).map(|index| self.log_tail(index)).collect::<Vec<_>>().join("\n--\n");
        tokio::time::timeout(READY_LIMIT, led).await.unwrap_or_else(|_| panic!("no leader: {}", logs()))
    }

    /// A client with all rights, of the members that run: the library spreads
    /// requests over all endpoints that it is given, dead ones too.
    pub async fn client(&self) -> etcd_client::Client {
        let mut options = etcd_client::ConnectOptions::new();
        if let Wire::Tls(pki) = &self.wire {
            let authority = etcd_client::Certificate::from_pem(pki.authority.certificate());
            let identity = etcd_client::Identity::from_pem(&pki.client.certificate, &pki.client.key);
            options = options.with_tls(etcd_client::TlsOptions::new().ca_certificate(authority).identity(identity));
        }
        let running: Vec<_> =
            (0..self.members.len()).filter(|index| self.pid(*index).is_some()).map(|index| self.endpoint(index)).collect();
        etcd_client::Client::connect(running, Some(options)).await.unwrap()
    }

    async fn run(&mut self, index: usize) {
        let process = self.sandbox.start(self.command(index)).await.unwrap();
        self.members[index].process = Some(process);
    }

    fn command(&self, index: usize) -> Command {
        let peer = |index: usize| format!("http://127.0.0.1:{}", self.members[index].peer_port);
        let cluster: Vec<_> = (0..self.members.len()).map(|index| format!("m{index}={}", peer(index))).collect();
        let (client, own_peer) = (self.endpoint(index), peer(index));
        let mut arguments = vec![
            format!("--name=m{index}"),
            format!("--data-dir={}", self.data(index).display()),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={own_peer}"),
            format!("--initial-advertise-peer-urls={own_peer}"),
            format!("--initial-cluster={}", cluster.join(",")),
            "--initial-cluster-token=rig".to_owned(),
            // A machine that is busy with other tests must not look like a dead leader.
            "--heartbeat-interval=300".to_owned(),
            "--election-timeout=3000".to_owned(),
            "--unsafe-no-fsync".to_owned(),
            "--logger=zap".to_owned(),
        ];
        if matches!(self.wire, Wire::Tls(_)) {
            let file = |name: &str| self.pki(name).display().to_string();
            arguments.extend([
                format!("--cert-file={}", file("server.crt")),
                format!("--key-file={}", file("server.key")),
                format!("--trusted-ca-file={}", file("ca.crt")),
                "--client-cert-auth=true".to_owned(),
            ]);
        }
        Command::new(format!("m{index}"), &self.etcd.path).args(arguments)
    }

    /// Waits until every member accepts connections; the log of one that ended otherwise.
    async fn listening(&self) -> Result<(), String> {
        for index in 0..self.members.len() {
            self.member_listening(index).await?;
        }
        Ok(())
    }

    async fn member_listening(&self, index: usize) -> Result<(), String> {
        let member = &self.members[index];
        let process = member.process.as_ref().expect("the member runs");
        let accepts = async {
            // Both are ours only while the process lives, which is looked at beside it.
            while tokio::net::TcpStream::connect(("127.0.0.1", member.peer_port)).await.is_err() {
                tokio::task::yield_now().await;
            }
        };
        process.until(accepts, READY_LIMIT).await.map_err(|cause| format!("{cause}: {}", process.log_tail(20)))
    }
}

fn signal(process: &Process, signal: Signal) {
    let pid = Pid::from_raw(process.pid().cast_signed()).expect("a process has a pid");
    kill_process(pid, signal).unwrap();
}
