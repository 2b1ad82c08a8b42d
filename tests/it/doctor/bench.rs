//! A host to examine: its files in a directory of its own, its stores in memory.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use age::secrecy::ExposeSecret;
use holdfast::base::clock::ManualClock;
use holdfast::doctor::{self, Area, Finding, Host, Status};
use holdfast::k8s::encryption_config::EncryptionConfig;
use holdfast::k8s::local_key::{LocalKey, LocalProvider};
use holdfast::ledger::Stores;
use holdfast::record::receipt::Receipt;
use holdfast::sandbox::Places;
use holdfast::station::Station;
use holdfast::store::Store;

use crate::ledger::records::{self, Site};
use crate::test_key;

/// An hour after the last record of a day on which all tests happen.
pub const NOW: &str = "2026-12-01T15:00:00Z";

pub struct Bench {
    pub site: Site,
    pub folder: tempfile::TempDir,
    pub clock: Arc<ManualClock>,
    pub places: Places,
    pub snapshot_recipient: String,
    pub escrow_recipient: String,
    text: String,
}

/// What the host does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    ControlPlane,
    Rehearsal,
    Both,
    Reader,
}

/// What was found.
pub struct Diagnosis(pub Vec<Finding>);

impl Bench {
    pub fn new(role: Role) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (snapshot_recipient, escrow_recipient) = (identity(folder.path(), "snapshots"), identity(folder.path(), "escrow"));
        let mut bench = Self {
            site: Site::new(),
            folder,
            clock: ManualClock::at(NOW.parse().unwrap()),
            places: Places::default(),
            snapshot_recipient,
            escrow_recipient,
            text: String::new(),
        };
        bench.write("signing.key", &fs::read_to_string(test_key::data("test-key")).unwrap(), 0o600);
        let allowed = format!("{}\n{}\n", bench.site.backup_host.public_line(), bench.site.rehearsal_host.public_line());
        bench.write("allowed_signers", &allowed, 0o644);
        bench.write("encryption.yaml", key("key1", 7).as_str(), 0o600);
        bench.text = bench.configuration(role);
        bench
    }

    /// Replaces a text of the configuration.
    pub fn edit(mut self, from: &str, to: &str) -> Self {
        assert!(self.text.contains(from), "{from} is not in {}", self.text);
        self.text = self.text.replace(from, to);
        self
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str, mode: u32) {
        fs::write(self.path(name), text).unwrap();
        self.chmod(name, mode);
    }

    pub fn chmod(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// The key that the host's EncryptionConfiguration has unless a test writes another.
    pub fn key(&self) -> LocalKey {
        let yaml = fs::read(self.path("encryption.yaml")).unwrap();
        EncryptionConfig::parse(&yaml).unwrap().keys()[0].clone()
    }

    /// A receipt for that key, with what a test changes.
    pub fn deposit(&self, clock: &str, change: impl FnOnce(&mut Receipt)) {
        let fingerprint = self.key().fingerprint().to_string();
        let path = records::receipt(link(), &fingerprint, clock).path;
        let make = |link| {
            let mut receipt = records::receipt(link, &fingerprint, clock);
            receipt.store = self.site.escrow.describe();
            receipt.sealed_to = vec![self.escrow_recipient.clone()];
            change(&mut receipt);
            receipt
        };
        self.site.outbox.append(&self.site.backup_host, make, &[(holdfast::ledger::Place::Ledger, path)]).unwrap();
    }

    /// Delivers what the hosts wrote.
    pub async fn deliver(&self) {
        let delivery = self.site.outbox.deliver(&self.site.stores()).await.unwrap();
        assert!(delivery.waiting.is_empty(), "{delivery:?}");
    }

    pub fn host(&self) -> Host {
        let file = self.path("holdfast.toml");
        fs::write(&file, &self.text).unwrap();
        let station = Station::open(&file).unwrap_or_else(|failure| panic!("{failure:?}"));
        let Stores { snapshots, escrow, ledger } = self.site.stores();
        let station = Station {
            clock: self.clock.clone(),
            snapshots: snapshots.unwrap(),
            escrow: escrow.unwrap(),
            ledger: ledger.unwrap(),
            stores: self.site.stores(),
            ..station
        };
        Host::new(station, file, self.places.clone())
    }

    /// Examines one area.
    pub async fn examine(&self, area: Area) -> Diagnosis {
        let checks: Vec<_> = doctor::checks().into_iter().filter(|check| check.area() == area).collect();
        Diagnosis(doctor::examine(&self.host(), &checks, doctor::DEADLINE).await)
    }

    fn configuration(&self, role: Role) -> String {
        let at = |name: &str| self.path(name).display().to_string();
        let takes = matches!(role, Role::ControlPlane | Role::Both);
        let rehearses = matches!(role, Role::Rehearsal | Role::Both);
        let mut text = format!(
            "cluster = \"prod\"\n[host]\nname = \"cp-1\"\nstate_dir = {:?}\nsigning_key = {:?}\nallowed_signers = {:?}\n",
            self.site.state.path(),
            at("signing.key"),
            at("allowed_signers"),
        );
        if takes {
            text += &format!(
                "[etcd]\nendpoints = [\"http://127.0.0.1:1\"]\n[backup]\nencryption_config = {:?}\n",
                at("encryption.yaml")
            );
        }
        for (section, recipient) in [("snapshots", &self.snapshot_recipient), ("escrow", &self.escrow_recipient)] {
            text += &format!("[{section}]\nprefix = \"backup\"\n");
            if takes {
                text += &format!("recipients = [{recipient:?}]\n");
            }
            if rehearses {
                text += &format!("identity_file = {:?}\n", at(&format!("{section}.identity")));
            }
            text += &format!("[{section}.store.fs]\npath = {:?}\n", at(section));
        }
        let ledger = format!("[ledger]\nprefix = \"backup\"\n[ledger.store.fs]\npath = {:?}\n", at("ledger"));
        text + &ledger + &format!("[rehearsal]\nscratch_dir = {:?}\n", at("scratch"))
    }
}

impl Diagnosis {
    /// The one finding with this code.
    #[track_caller]
    pub fn one(&self, code: &str) -> &Finding {
        let found: Vec<_> = self.0.iter().filter(|finding| finding.code == Some(code)).collect();
        assert_eq!(found.len(), 1, "{code}: {self}");
        assert!(found[0].next.as_ref().is_none_or(|next| !next.is_empty()));
        found[0]
    }

    /// The one finding that says that all is well with `object`.
    #[track_caller]
    pub fn good(&self, object: &str) -> &Finding {
        let found: Vec<_> = self.0.iter().filter(|f| f.status == Status::Ok && f.object.starts_with(object)).collect();
        assert_eq!(found.len(), 1, "{object}: {self}");
        found[0]
    }

    /// The codes of all findings of this status or a worse one.
    pub fn worse_than(&self, status: Status) -> Vec<&str> {
        self.0.iter().filter(|finding| finding.status < status).map(|finding| finding.code.unwrap_or("no code")).collect()
    }

    pub fn has(&self, code: &str) -> bool {
        self.0.iter().any(|finding| finding.code == Some(code))
    }
}

impl std::fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#?}", self.0)
    }
}

/// An EncryptionConfiguration with one key of that byte.
pub fn key(name: &str, byte: u8) -> String {
    let secret = holdfast::base::secret::Secret::new(vec![byte; 32]);
    let key = LocalKey::new(LocalProvider::Aescbc, name, secret).unwrap();
    EncryptionConfig::of_key(key).to_yaml().expose().clone()
}

/// Writes an age identity and gives its recipient.
pub fn identity(folder: &Path, name: &str) -> String {
    let identity = age::x25519::Identity::generate();
    let path = folder.join(format!("{name}.identity"));
    fs::write(&path, identity.to_string().expose_secret()).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    identity.to_public().to_string()
}

fn link() -> holdfast::record::Link {
    holdfast::record::Link { name: "cp-1".parse().unwrap(), seq: 0, prev: None }
}
