//! A real S3 server on loopback, with users and bucket policies: versitygw over
//! a temporary directory. It ends with the value that holds it.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region, RequestChecksumCalculation, ResponseChecksumValidation};
use aws_sdk_s3::types::{BucketVersioningStatus, VersioningConfiguration};
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::{self, TlsContext, TrustStore};
use holdfast::base::entropy::{Entropy, OsEntropy};
use holdfast::sandbox::{Command, Fencing, Places, Process, Program, Sandbox, Versions, tools};
use serde_json::{Value, json};

use super::certificates::{Authority, Wanted};

const VERSITYGW: Program = Program { name: "versitygw", version_arguments: &["--version"] };
const REGION: &str = "us-east-1";
const READY_LIMIT: Duration = Duration::from_secs(60);
/// Another process can take a free port before the server binds it.
const PORT_ATTEMPTS: u32 = 3;

/// Who may sign requests.
#[derive(Clone)]
pub struct Credential {
    pub access: String,
    pub secret: String,
}

/// What a policy lets a user do in one bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grant {
    /// Put, and abort what it put: the control-plane host at snapshots and escrow.
    Write,
    /// Get and list: the rehearsal host.
    Read,
    /// Put, get and list, but not delete: everybody at the ledger.
    Append,
    /// Everything, for tests of findings.
    All,
}

/// The server. Its data outlives [`S3Server::stop`] and ends with the value.
pub struct S3Server {
    process: Option<Process>,
    sandbox: Sandbox,
    program: PathBuf,
    port: u16,
    root: Credential,
    users: BTreeMap<String, Credential>,
    authority: Option<Authority>,
    certificate: Days,
    /// For objects, on a file system of their own.
    room: Option<u64>,
    policies: BTreeMap<String, Vec<Value>>,
    // Dropped last: what runs writes into it.
    folder: tempfile::TempDir,
}

/// From and to when the server's certificate is good, counted from now.
type Days = (i64, i64);

impl S3Server {
    /// Starts one without TLS.
    pub async fn start() -> Self {
        Self::start_with(None, (-1, 2), None).await
    }

    /// Starts one whose certificate a private authority signed.
    pub async fn start_with_tls() -> Self {
        Self::start_with(Some(Authority::new("object-store-ca")), (-1, 2), None).await
    }

    /// Starts one whose certificate was good until yesterday.
    pub async fn start_with_an_expired_certificate() -> Self {
        Self::start_with(Some(Authority::new("object-store-ca")), (-30, -1), None).await
    }

    /// Starts one whose disk holds so many bytes.
    pub async fn start_with_room(bytes: u64) -> Self {
        Self::start_with(None, (-1, 2), Some(bytes)).await
    }

    async fn start_with(authority: Option<Authority>, certificate: Days, room: Option<u64>) -> Self {
        // `main` does this in the program; here nobody did.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        for name in ["objects", "versions", "metadata", "iam", "pki"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let places = Places::usual(None, |name| std::env::var_os(name));
        let program = tools::find(VERSITYGW, &Versions::of(&[(1, 8)]), &places).await.expect("run make tools").path;
        let sandbox = Sandbox::up(&folder.path().join("run"), "s3", Fencing::Never).await.unwrap();
        let port = sandbox.free_port().unwrap();
        let root = Credential { access: "root".to_owned(), secret: OsEntropy.hex(32) };
        let (users, policies) = (BTreeMap::new(), BTreeMap::new());
        let mut server =
            Self { process: None, sandbox, program, port, root, users, authority, certificate, room, policies, folder };
        server.write_pki();
        server.write_users();
        for attempt in 1..=PORT_ATTEMPTS {
            match server.run().await {
                Ok(()) => return server,
                Err(cause) if attempt == PORT_ATTEMPTS => panic!("versitygw: {cause}"),
                Err(_) => server.port = server.sandbox.free_port().unwrap(),
            }
        }
        unreachable!("the last attempt returns or panics")
    }

    fn write_pki(&self) {
        let Some(authority) = &self.authority else { return };
        let (from_day, to_day) = self.certificate;
        let leaf = authority.leaf(&Wanted { from_day, to_day, ..Wanted::default() });
        fs::write(self.pki("ca.crt"), authority.certificate()).unwrap();
        fs::write(self.pki("server.crt"), &leaf.certificate).unwrap();
        fs::write(self.pki("server.key"), &leaf.key).unwrap();
    }

    fn write_users(&self) {
        let account = |user: &Credential| json!({"access": user.access, "secret": user.secret, "role": "user", "userID": 0, "groupID": 0, "projectID": 0});
        let accounts: BTreeMap<&str, Value> = self.users.values().map(|user| (user.access.as_str(), account(user))).collect();
        let text = json!({ "accessAccounts": accounts }).to_string();
        fs::write(self.folder.path().join("iam/users.json"), text).unwrap();
    }

    async fn run(&mut self) -> Result<(), String> {
        let below = |name: &str| self.folder.path().join(name).display().to_string();
        let mut arguments = vec![
            // The secret of a server that lives for one test, on loopback.
            format!("--access={}", self.root.access),
            format!("--secret={}", self.root.secret),
            format!("--port=127.0.0.1:{}", self.port),
            format!("--iam-dir={}", below("iam")),
            "--iam-cache-disable".to_owned(),
            "--quiet".to_owned(),
        ];
        if self.authority.is_some() {
            arguments.push(format!("--cert={}", self.pki("server.crt").display()));
            arguments.push(format!("--key={}", self.pki("server.key").display()));
        }
        let beside = match self.room {
            None => format!("--versioning-dir={}", below("versions")),
            // What the server notes of objects is not what fills the disk.
            Some(_) => format!("--sidecar={}", below("metadata")),
        };
        arguments.extend(["posix".to_owned(), beside, below("objects")]);
        let command = match self.room {
            None => Command::new("versitygw", &self.program).args(arguments),
            // In a mount namespace of its own, so that nothing is left mounted.
            Some(bytes) => {
                let script = format!("mount -t tmpfs -o size={bytes} objects '{}' && exec \"$0\" \"$@\"", below("objects"));
                let unshare = ["--map-root-user", "--mount", "sh", "-c", &script].map(str::to_owned);
                Command::new("versitygw", "unshare").args(unshare).args([&self.program]).args(arguments)
            }
        };
        let process = self.sandbox.start(command).await.unwrap();
        let client = self.root_client();
        let is_expired = self.certificate.1 < 0;
        let answers = async {
            // Nobody trusts an expired certificate, and what listens will answer.
            while match is_expired {
                true => tokio::net::TcpStream::connect(self.address()).await.is_err(),
                false => client.list_buckets().send().await.is_err(),
            } {
                tokio::task::yield_now().await;
            }
        };
        match process.until(answers, READY_LIMIT).await {
            Ok(()) => {
                self.process = Some(process);
                Ok(())
            }
            Err(cause) => Err(format!("{cause}\n{}", process.log_tail(20))),
        }
    }

    /// Ends the server; data, users and policies stay.
    pub async fn stop(&mut self) {
        if let Some(process) = self.process.take() {
            process.stop().await.unwrap();
        }
    }

    /// Starts it again where it was.
    pub async fn restart(&mut self) {
        assert!(self.process.is_none(), "it runs");
        self.run().await.unwrap();
    }

    pub fn endpoint(&self) -> String {
        let scheme = if self.authority.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address())
    }

    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    pub fn region(&self) -> &'static str {
        REGION
    }

    /// The authority of its certificate, where it has one.
    pub fn ca(&self) -> Option<PathBuf> {
        self.authority.is_some().then(|| self.pki("ca.crt"))
    }

    fn pki(&self, name: &str) -> PathBuf {
        self.folder.path().join("pki").join(name)
    }

    /// Where the objects of a bucket lie as files: to look, or to damage them.
    pub fn objects(&self, bucket: &str) -> PathBuf {
        self.folder.path().join("objects").join(bucket)
    }

    /// Makes a user, or gives one of this name a new secret.
    pub fn user(&mut self, name: &str) -> Credential {
        let user = Credential { access: name.to_owned(), secret: OsEntropy.hex(32) };
        self.users.insert(name.to_owned(), user.clone());
        self.write_users();
        user
    }

    /// The credential of a user who may do nothing any more.
    pub fn remove_user(&mut self, name: &str) {
        self.users.remove(name);
        self.write_users();
    }

    /// Makes a bucket that belongs to root.
    pub async fn bucket(&self, name: &str, versioned: bool) {
        let client = self.root_client();
        client.create_bucket().bucket(name).send().await.unwrap();
        if versioned {
            let enabled = VersioningConfiguration::builder().status(BucketVersioningStatus::Enabled).build();
            client.put_bucket_versioning().bucket(name).versioning_configuration(enabled).send().await.unwrap();
        }
    }

    /// Lets a user do this in the bucket, besides what was granted before.
    pub async fn grant(&mut self, bucket: &str, user: &Credential, grant: Grant) {
        let statements = self.policies.entry(bucket.to_owned()).or_default();
        statements.extend(grant.statements(bucket, &user.access));
        let policy = json!({"Version": "2012-10-17", "Statement": statements}).to_string();
        self.root_client().put_bucket_policy().bucket(bucket).policy(policy).send().await.unwrap();
    }

    /// Takes back all that was granted in the bucket.
    pub async fn revoke(&mut self, bucket: &str) {
        self.policies.remove(bucket);
        self.root_client().delete_bucket_policy().bucket(bucket).send().await.unwrap();
    }

    /// Multipart uploads that were begun and have no end.
    pub async fn open_uploads(&self, bucket: &str) -> usize {
        let uploads = self.root_client().list_multipart_uploads().bucket(bucket).send().await.unwrap();
        uploads.uploads().len()
    }

    /// The parts of those uploads.
    pub async fn open_parts(&self, bucket: &str) -> usize {
        let client = self.root_client();
        let uploads = client.list_multipart_uploads().bucket(bucket).send().await.unwrap();
        let mut parts = 0;
        for upload in uploads.uploads() {
            let list = client.list_parts().bucket(bucket).set_key(upload.key.clone()).set_upload_id(upload.upload_id.clone());
            parts += list.send().await.map_or(0, |listed| listed.parts().len());
        }
        parts
    }

    /// The names of all objects in a bucket, as root sees them.
    pub async fn names(&self, bucket: &str) -> Vec<String> {
        let client = self.root_client();
        let mut pages = client.list_objects_v2().bucket(bucket).into_paginator().send();
        let mut names = Vec::new();
        while let Some(page) = pages.next().await {
            names.extend(page.unwrap().contents().iter().filter_map(|object| object.key().map(str::to_owned)));
        }
        names
    }

    pub fn root(&self) -> &Credential {
        &self.root
    }

    pub fn root_client(&self) -> Client {
        self.client(&self.root)
    }

    /// A client of this server for tests, apart from the product's own.
    pub fn client(&self, user: &Credential) -> Client {
        let mut roots = TrustStore::empty();
        if let Some(authority) = &self.authority {
            roots.add_pem_certificate(authority.certificate().as_bytes());
        }
        let context = TlsContext::builder().with_trust_store(roots).build().unwrap();
        let provider = tls::Provider::Rustls(tls::rustls_provider::CryptoMode::Ring);
        let config = aws_sdk_s3::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .endpoint_url(self.endpoint())
            .region(Region::from_static(REGION))
            .force_path_style(true)
            .credentials_provider(Credentials::new(&user.access, &user.secret, None, None, "test"))
            .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
            .response_checksum_validation(ResponseChecksumValidation::WhenRequired)
            .http_client(Builder::new().tls_provider(provider).tls_context(context).build_https())
            .build();
        Client::from_conf(config)
    }
}

/// What operators are told to set: the policies that the product ships.
const SEALED_POLICY: &str = include_str!("../../deploy/s3/sealed-bucket.json");
const LEDGER_POLICY: &str = include_str!("../../deploy/s3/ledger-bucket.json");

impl Grant {
    fn statements(self, bucket: &str, user: &str) -> Vec<Value> {
        let (policy, who) = match self {
            Self::Write => (SEALED_POLICY, "WRITER"),
            Self::Read => (SEALED_POLICY, "READER"),
            Self::Append => (LEDGER_POLICY, "HOST"),
            Self::All => return everything(bucket, user),
        };
        let policy: Value = serde_json::from_str(&policy.replace("BUCKET", bucket)).unwrap();
        let mut statements = policy["Statement"].as_array().unwrap().clone();
        statements.retain(|statement| statement["Principal"]["AWS"][0] == who);
        for statement in &mut statements {
            statement["Principal"]["AWS"][0] = user.into();
            // Several users of one kind: a policy names each statement once.
            statement["Sid"] = format!("{}{user}", statement["Sid"].as_str().unwrap()).replace('-', "").into();
        }
        statements
    }
}

fn everything(bucket: &str, user: &str) -> Vec<Value> {
    let allow =
        |resource: String| json!({"Effect": "Allow", "Principal": {"AWS": [user]}, "Action": ["s3:*"], "Resource": resource});
    vec![allow(format!("arn:aws:s3:::{bucket}")), allow(format!("arn:aws:s3:::{bucket}/*"))]
}

impl Credential {
    /// Writes it as the AWS tools write theirs, readable by its owner alone.
    pub fn write(&self, path: &Path) {
        let text = format!("[default]\naws_access_key_id = {}\naws_secret_access_key = {}\n", self.access, self.secret);
        let _ = fs::remove_file(path);
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).unwrap();
        std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    }
}
