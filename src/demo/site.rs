//! Two hosts around the cluster: one that takes snapshots and cannot read them
//! back, one that rehearses and has no way to etcd. They know each other by the
//! ledger alone.

use std::path::{Path, PathBuf};

use age::secrecy::ExposeSecret;
use zeroize::Zeroizing;

use super::rig::{Rig, make_folder, write};
use crate::base::codes;
use crate::base::entropy::Entropy;
use crate::base::failure::Failure;

/// The name of the demo's cluster.
pub const CLUSTER: &str = "demo";
pub const CONTROL_PLANE: &str = "cp-1";
pub const REHEARSAL: &str = "rehearsal-1";

/// The folders and files of both hosts.
#[derive(Debug, Clone)]
pub struct Site {
    root: PathBuf,
}

impl Site {
    /// Makes stores, keys and both configurations below `root`.
    ///
    /// # Errors
    /// `demo.directory` when something cannot be written.
    pub fn build(root: &Path, rig: &Rig, tools: &Path, entropy: &dyn Entropy) -> Result<Self, Failure> {
        let site = Self::at(root);
        for folder in ["snapshots", "escrow", "ledger"] {
            make_folder(&site.store(folder))?;
        }
        let mut signers = String::new();
        for (host, kinds) in [
            (CONTROL_PLANE, "holdfast-manifest,holdfast-receipt,holdfast-host,holdfast-escrow"),
            (REHEARSAL, "holdfast-attestation,holdfast-report"),
        ] {
            make_folder(&site.host(host))?;
            make_folder(&site.host(host).join("state"))?;
            signers.push_str(&site.make_signing_key(host, kinds, entropy)?);
        }
        write(&site.root.join("allowed_signers"), signers.as_bytes())?;
        let snapshots = site.make_identity("snapshots")?;
        let escrow = site.make_identity("escrow")?;
        write(&site.config(CONTROL_PLANE), site.control_plane(rig, &snapshots, &escrow).as_bytes())?;
        write(&site.config(REHEARSAL), site.rehearsal(tools).as_bytes())?;
        Ok(site)
    }

    /// The site that was built below `root`.
    #[must_use]
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The configuration file of a host.
    #[must_use]
    pub fn config(&self, host: &str) -> PathBuf {
        self.host(host).join("holdfast.toml")
    }

    /// `snapshots`, `escrow` or `ledger`.
    #[must_use]
    pub fn store(&self, name: &str) -> PathBuf {
        self.root.join("stores").join(name)
    }

    #[must_use]
    pub fn host(&self, host: &str) -> PathBuf {
        self.root.join("hosts").join(host)
    }

    #[must_use]
    pub fn allowed_signers(&self) -> PathBuf {
        self.root.join("allowed_signers")
    }

    /// The age identity that opens what the store of this name holds.
    #[must_use]
    pub fn identity(&self, store: &str) -> PathBuf {
        self.host(REHEARSAL).join(format!("{store}-identity.txt"))
    }

    /// Makes an ed25519 key in OpenSSH form and returns its line for
    /// `allowed_signers`: each host signs its own kinds of record and no others.
    fn make_signing_key(&self, host: &str, kinds: &str, entropy: &dyn Entropy) -> Result<String, Failure> {
        let path = self.host(host).join("signing.key");
        let failed = |error: ssh_key::Error| Failure::because(&codes::DEMO_DIRECTORY, path.display(), &error);
        let mut seed = Zeroizing::new([0; 32]);
        entropy.fill(seed.as_mut_slice());
        let pair = ssh_key::private::Ed25519Keypair::from_seed(&seed);
        let key = ssh_key::PrivateKey::from(pair);
        let text = key.to_openssh(ssh_key::LineEnding::LF).map_err(failed)?;
        write(&path, text.as_bytes())?;
        let public = key.public_key().to_openssh().map_err(failed)?;
        Ok(format!("{host} namespaces=\"{kinds}\" {public}\n"))
    }

    /// Makes an age identity on the rehearsal host and returns its recipient.
    fn make_identity(&self, store: &str) -> Result<String, Failure> {
        let identity = age::x25519::Identity::generate();
        let text = identity.to_string();
        write(&self.identity(store), text.expose_secret().as_bytes())?;
        Ok(identity.to_public().to_string())
    }

    fn control_plane(&self, rig: &Rig, snapshots: &str, escrow: &str) -> String {
        let mut text = self.shared(CONTROL_PLANE);
        let pki = |name| quoted(&rig.pki(name));
        text.push_str(&format!(
            "\n[etcd]\nendpoints = [{:?}]\nca = {}\ncert = {}\nkey = {}\n",
            rig.etcd_endpoint(),
            pki("ca.crt"),
            pki("holdfast.crt"),
            pki("holdfast.key"),
        ));
        text.push_str(&format!("\n[backup]\nencryption_config = {}\n", quoted(&rig.encryption_config())));
        for (store, recipient) in [("snapshots", snapshots), ("escrow", escrow)] {
            text.push_str(&format!("\n[{store}]\nrecipients = [{recipient:?}]\n{}", self.store_table(store)));
        }
        text
    }

    fn rehearsal(&self, tools: &Path) -> String {
        let mut text = self.shared(REHEARSAL);
        for store in ["snapshots", "escrow"] {
            let identity = quoted(&self.identity(store));
            text.push_str(&format!("\n[{store}]\nidentity_file = {identity}\n{}", self.store_table(store)));
        }
        let scratch = quoted(&self.host(REHEARSAL).join("scratch"));
        text.push_str(&format!("\n[rehearsal]\nscratch_dir = {scratch}\ntools = {}\n", quoted(tools)));
        text
    }

    fn shared(&self, host: &str) -> String {
        let (folder, signers) = (self.host(host), quoted(&self.allowed_signers()));
        format!(
            "cluster = {CLUSTER:?}\n\n[host]\nname = {host:?}\nstate_dir = {}\nsigning_key = {}\nallowed_signers = {signers}\n\n\
             [ledger]\n{}",
            quoted(&folder.join("state")),
            quoted(&folder.join("signing.key")),
            self.store_table("ledger"),
        )
    }

    fn store_table(&self, store: &str) -> String {
        format!("\n[{store}.store.fs]\npath = {}\n", quoted(&self.store(store)))
    }
}

/// A path as a TOML string; the demo's folder is chosen by whoever runs it.
fn quoted(path: &Path) -> String {
    toml::Value::String(path.display().to_string()).to_string()
}
