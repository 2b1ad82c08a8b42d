//! Two hosts around three etcd members and three buckets: a control-plane host
//! that may only put into two of them, a rehearsal host that may only read them.
//! They share the ledger and nothing else.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use age::secrecy::ExposeSecret;
use holdfast::base::entropy::{Entropy, OsEntropy};
use holdfast::sandbox::{Places, Program, Versions, tools};

use crate::rig::certificates::write;
use crate::rig::etcd::EtcdRig;
use crate::rig::s3::{Grant, S3Server};

pub const CONTROL_PLANE: &str = "cp-1";
pub const REHEARSAL: &str = "rehearsal-1";
/// The buckets, by what lies in them.
pub const BUCKETS: [&str; 3] = ["snapshots", "escrow", "ledger"];

/// The folders, keys and configurations of both hosts.
pub struct Site {
    folder: tempfile::TempDir,
}

impl Site {
    /// Makes buckets, users, keys and both configurations.
    pub async fn build(etcd: &EtcdRig, s3: &mut S3Server, encryption_config: &Path) -> Self {
        let site = Self { folder: tempfile::tempdir().unwrap() };
        for bucket in BUCKETS {
            s3.bucket(bucket, true).await;
        }
        let mut signers = String::new();
        for (host, sealed, kinds) in [
            (CONTROL_PLANE, Grant::Write, "holdfast-manifest,holdfast-receipt,holdfast-host,holdfast-escrow"),
            (REHEARSAL, Grant::Read, "holdfast-attestation,holdfast-report"),
        ] {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(site.host(host).join("state")).unwrap();
            signers.push_str(&site.make_signing_key(host, kinds));
            for bucket in BUCKETS {
                // A user for each bucket: no credential reaches two of them.
                let user = s3.user(&format!("{host}-{bucket}"));
                s3.grant(bucket, &user, if bucket == "ledger" { Grant::Append } else { sealed }).await;
                user.write(&site.credentials(host, bucket));
            }
        }
        write(&site.at("allowed_signers"), &signers);
        let recipients = ["snapshots", "escrow"].map(|store| (store, site.make_identity(store)));
        site.write_control_plane(etcd, s3, encryption_config, &recipients);
        site.write_rehearsal(s3).await;
        site
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn host(&self, host: &str) -> PathBuf {
        self.at(host)
    }

    pub fn config(&self, host: &str) -> PathBuf {
        self.host(host).join("holdfast.toml")
    }

    /// Changes a line of a configuration.
    pub fn set(&self, host: &str, key: &str, value: &str) {
        let (path, start) = (self.config(host), format!("{key} = "));
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().filter(|line| line.starts_with(&start)).count(), 1, "{key}: {text}");
        let change = |line: &str| if line.starts_with(&start) { format!("{start}{value:?}\n") } else { format!("{line}\n") };
        write(&path, &text.lines().map(change).collect::<String>());
    }

    fn credentials(&self, host: &str, bucket: &str) -> PathBuf {
        self.host(host).join(format!("{bucket}.credentials"))
    }

    fn make_signing_key(&self, host: &str, kinds: &str) -> String {
        let mut seed = [0; 32];
        OsEntropy.fill(&mut seed);
        let key = ssh_key::PrivateKey::from(ssh_key::private::Ed25519Keypair::from_seed(&seed));
        write(&self.host(host).join("signing.key"), &key.to_openssh(ssh_key::LineEnding::LF).unwrap());
        format!("{host} namespaces=\"{kinds}\" {}\n", key.public_key().to_openssh().unwrap())
    }

    fn make_identity(&self, store: &str) -> String {
        let identity = age::x25519::Identity::generate();
        write(&self.host(REHEARSAL).join(format!("{store}.identity")), identity.to_string().expose_secret());
        identity.to_public().to_string()
    }

    fn write_control_plane(&self, etcd: &EtcdRig, s3: &S3Server, encryption_config: &Path, recipients: &[(&str, String)]) {
        let mut text = self.shared(CONTROL_PLANE, s3);
        text.push_str(&format!("\n{}\n[backup]\nencryption_config = {encryption_config:?}\n", etcd.section()));
        for (store, recipient) in recipients {
            text.push_str(&format!("\n[{store}]\nrecipients = [{recipient:?}]\n{}", self.store(CONTROL_PLANE, store, s3)));
        }
        text.push_str("\n[schedule]\nsnapshot = \"* * * * *\"\n");
        write(&self.config(CONTROL_PLANE), &text);
    }

    async fn write_rehearsal(&self, s3: &S3Server) {
        let mut text = self.shared(REHEARSAL, s3);
        for store in ["snapshots", "escrow"] {
            let identity = self.host(REHEARSAL).join(format!("{store}.identity"));
            text.push_str(&format!("\n[{store}]\nidentity_file = {identity:?}\n{}", self.store(REHEARSAL, store, s3)));
        }
        let (scratch, tools) = (self.host(REHEARSAL).join("scratch"), self.link_tools().await);
        text.push_str(&format!("\n[rehearsal]\nscratch_dir = {scratch:?}\ntools = {tools:?}\n"));
        text.push_str("\n[schedule]\nrehearsal = \"* * * * *\"\nrehearsal_rung = \"serve\"\n");
        write(&self.config(REHEARSAL), &text);
    }

    /// A daemon gets an empty environment: its tools lie in one directory.
    async fn link_tools(&self) -> PathBuf {
        let folder = self.at("tools");
        std::fs::create_dir(&folder).unwrap();
        let places = Places::usual(None, |name| std::env::var_os(name));
        for (name, argument, version) in
            [("etcd", "--version", (3, 6)), ("etcdutl", "version", (3, 6)), ("kube-apiserver", "--version", (1, 34))]
        {
            let arguments: &'static [&'static str] = if argument == "version" { &["version"] } else { &["--version"] };
            let program = Program { name, version_arguments: arguments };
            let found = tools::find(program, &Versions::of(&[version]), &places).await;
            std::os::unix::fs::symlink(found.unwrap_or_else(|e| panic!("{e}; run make tools")).path, folder.join(name)).unwrap();
        }
        folder
    }

    fn shared(&self, host: &str, s3: &S3Server) -> String {
        let folder = self.host(host);
        format!(
            "cluster = \"operated\"\n\n[host]\nname = {host:?}\nstate_dir = {:?}\nsigning_key = {:?}\nallowed_signers = {:?}\n\n\
             [daemon]\nlisten = \"127.0.0.1:0\"\nretry_first = \"1s\"\nretry_longest = \"5s\"\nrefresh_interval = \"2s\"\n\n\
             [ledger]\n{}",
            folder.join("state"),
            folder.join("signing.key"),
            self.at("allowed_signers"),
            self.store(host, "ledger", s3),
        )
    }

    fn store(&self, host: &str, bucket: &str, s3: &S3Server) -> String {
        let ca = s3.ca().map(|ca| format!("ca = {ca:?}\n")).unwrap_or_default();
        format!(
            "\n[{bucket}.store.s3]\nendpoint = {:?}\nregion = {:?}\nbucket = {bucket:?}\n{ca}credentials.file = {:?}\n",
            s3.endpoint(),
            s3.region(),
            self.credentials(host, bucket),
        )
    }
}
