//! Records of a small cluster, and the stores they go to.

use std::path::Path;
use std::sync::Arc;

use holdfast::base::digest::Sha256;
use holdfast::base::ids::{Fingerprint, SnapshotId};
use holdfast::ledger::{Appended, Ledger, Outbox, Place, Stores};
use holdfast::record::Link;
use holdfast::record::attestation::{Attestation, Opening, ReportRecord};
use holdfast::record::host::{EncryptionShape, HostRecord, KeyShape, ProviderShape, RuleShape};
use holdfast::record::layout::Layout;
use holdfast::record::manifest::{Cluster, Image, KeyNeed, Manifest, Member, Object, Proof, Quality, RecordRef, Taken};
use holdfast::record::receipt::Receipt;
use holdfast::record::{Rung, signature::Signer};

use super::shelf::Shelf;
use crate::test_key;

pub const LINEAGE: &str = "2089a0106116e0fd";
pub const KEY1: &str = "hf1-11111111111111111111111111111111";
pub const KEY2: &str = "hf1-22222222222222222222222222222222";

pub fn layout() -> Layout {
    Layout::new("backup", &"prod".parse().unwrap())
}

/// `13:05` of the day on which all tests happen.
pub fn time(clock: &str) -> String {
    format!("2026-12-01T{clock}:00Z")
}

pub fn id(clock: &str) -> SnapshotId {
    format!("20261201T{}00Z-{:08x}", clock.replace(':', ""), clock.bytes().map(u32::from).product::<u32>()).parse().unwrap()
}

pub fn receipt(link: Link, fingerprint: &str, clock: &str) -> Receipt {
    let name = if fingerprint == KEY2 { "key2" } else { "key1" };
    let fingerprint: Fingerprint = fingerprint.parse().unwrap();
    let stem = format!("{}-cp-1-0a1b2c3d", id(clock).as_str().split_once('-').unwrap().0);
    Receipt {
        schema: 1,
        path: format!("backup/prod/receipts/{fingerprint}/{stem}.json"),
        signer: link,
        store: "fs /srv/escrow".to_owned(),
        escrow_record: RecordRef { key: format!("backup/prod/keys/{fingerprint}/{stem}.json"), sha256: Sha256::of(b"") },
        fingerprint,
        provider: "aescbc".into(),
        name: name.into(),
        sealed_to: vec![],
        deposited: time(clock),
        tool: "holdfast test".into(),
    }
}

pub fn host(link: Link, keys: &[(&str, &str)], clock: &str) -> HostRecord {
    let keys = keys.iter().map(|(name, key)| KeyShape { name: (*name).into(), fingerprint: key.parse().unwrap() }).collect();
    let providers = vec![ProviderShape::Aescbc { keys }, ProviderShape::Identity {}];
    let rules = vec![RuleShape { resources: vec!["secrets".into()], providers }];
    let utc = id(clock).as_str().split_once('-').unwrap().0.to_owned();
    HostRecord {
        schema: 1,
        path: layout().host(&link.name, &utc, "0a1b2c3d"),
        cluster: "prod".parse().unwrap(),
        host: link.name.clone(),
        signer: link,
        observed: time(clock),
        clock_offset_ms: None,
        encryption: Some(EncryptionShape { file_sha256: Sha256::of(b"file"), rules }),
        tool: "holdfast test".into(),
    }
}

pub fn need(name: &str, fingerprint: Option<&str>, live_objects: u64) -> KeyNeed {
    KeyNeed {
        provider: "aescbc".into(),
        name: name.into(),
        kms_key_id: None,
        fingerprint: fingerprint.map(Into::into),
        material: None,
        live_objects,
        resources: vec!["secrets".into()],
        proof: if fingerprint.is_some() { Proof::Opened } else { Proof::NoKey },
        escrow_record: None,
    }
}

pub fn manifest(link: Link, clock: &str, revision: i64, keys: Vec<KeyNeed>) -> Manifest {
    let (lineage, id) = (LINEAGE.parse().unwrap(), id(clock));
    let layout = layout();
    Manifest {
        schema: 1,
        path: layout.snapshot_manifest(&lineage, &id),
        quality: Quality::Good,
        taken: Taken {
            slot: None,
            started: time(clock),
            finished: time(clock),
            host: link.name.clone(),
            clock_offset_ms: None,
            member: Member { id: "8e9e05c52164694d".into(), name: "m".into(), version: "3.6.16".into(), leader: true, lag: 0 },
        },
        image: Image {
            bytes: 20_480,
            sha256: Sha256::of(b"image"),
            revision,
            compact_revision: -1,
            hash_kv: 1,
            status_hash: 1,
            storage_version: None,
            live_keys: 17,
            history_records: 0,
            free_page_bytes: 0,
        },
        object: Object {
            key: layout.snapshot_object(&lineage, &id),
            version_id: None,
            bytes: 4711,
            sha256: Sha256::of(b"object"),
            parts: vec![],
            retention_asked: None,
        },
        cluster: Cluster { name: "prod".parse().unwrap(), lineage },
        signer: link,
        id,
        sealed_to: vec![],
        resources: vec![],
        keys,
        recovery: None,
        restore_md_sha256: Sha256::of(b"restore"),
        problems: vec![],
        tool: "holdfast test".into(),
    }
}

pub fn attestation(
    link: Link,
    about: &Appended,
    snapshot: &str,
    clock: &str,
    reached: Option<Rung>,
    passed: bool,
) -> Attestation {
    let (lineage, snapshot) = (LINEAGE.parse().unwrap(), id(snapshot));
    let run = id(clock).as_str().parse().unwrap();
    Attestation {
        schema: 1,
        path: layout().attestation(&lineage, &snapshot, &run),
        cluster: "prod".parse().unwrap(),
        manifest: RecordRef { key: layout().snapshot_manifest(&lineage, &snapshot), sha256: about.sha256 },
        lineage,
        snapshot,
        run,
        host: link.name.clone(),
        signer: link,
        started: time(clock),
        finished: time(clock),
        asked: Rung::Serve,
        reached,
        passed,
        failure: (!passed).then(|| "rehearsal.undecryptable".into()),
        escrow_opened: vec![],
        rto_ms: 20_000,
        rpo_ms: None,
        report: None,
        tool: "holdfast test".into(),
    }
}

pub fn failed(link: Link, about: &Appended, snapshot: &str, clock: &str, failure: &str, opened: &[&str]) -> Attestation {
    let escrow_record = RecordRef { key: "backup/prod/keys/x.json".into(), sha256: Sha256::of(b"") };
    Attestation {
        failure: Some(failure.into()),
        escrow_opened: opened
            .iter()
            .map(|key| Opening { fingerprint: key.parse().unwrap(), escrow_record: escrow_record.clone() })
            .collect(),
        ..attestation(link, about, snapshot, clock, None, false)
    }
}

pub fn report(link: Link, snapshot: &str, clock: &str) -> ReportRecord {
    let run = id(clock).as_str().parse().unwrap();
    ReportRecord {
        schema: 1,
        path: layout().report(&run),
        signer: link,
        run,
        snapshot: id(snapshot),
        written: time(clock),
        previous_report: None,
        report: serde_json::json!({"verdict": "passed"}),
        tool: "holdfast test".into(),
    }
}

/// Three stores, a state directory, and the two hosts that write.
pub struct Site {
    pub state: tempfile::TempDir,
    pub outbox: Outbox,
    pub snapshots: Arc<Shelf>,
    pub escrow: Arc<Shelf>,
    pub ledger: Arc<Shelf>,
    pub backup_host: Signer,
    pub rehearsal_host: Signer,
}

impl Site {
    pub fn new() -> Self {
        let state = tempfile::tempdir().unwrap();
        Self {
            outbox: Outbox::open(state.path()).unwrap(),
            state,
            snapshots: Shelf::new(),
            escrow: Shelf::new(),
            ledger: Shelf::new(),
            backup_host: test_key::signer("cp-1"),
            rehearsal_host: test_key::signer("rehearsal-1"),
        }
    }

    pub fn stores(&self) -> Stores {
        Stores { snapshots: Some(self.snapshots.clone()), escrow: Some(self.escrow.clone()), ledger: Some(self.ledger.clone()) }
    }

    pub fn reader(&self) -> Ledger {
        Ledger::new(self.ledger.clone(), layout(), test_key::allowed(&[&self.backup_host, &self.rehearsal_host]))
    }

    pub fn receipt(&self, fingerprint: &str, clock: &str) -> Appended {
        receipt_in(&self.outbox, &self.backup_host, fingerprint, clock)
    }

    pub fn host(&self, keys: &[(&str, &str)], clock: &str) -> Appended {
        let utc = id(clock).as_str().split_once('-').unwrap().0.to_owned();
        let path = layout().host(self.backup_host.principal(), &utc, "0a1b2c3d");
        self.outbox.append(&self.backup_host, |link| host(link, keys, clock), &[(Place::Ledger, path)]).unwrap()
    }

    pub fn manifest(&self, clock: &str, revision: i64, keys: Vec<KeyNeed>) -> Appended {
        self.manifest_but(clock, |link| manifest(link, clock, revision, keys))
    }

    pub fn manifest_but(&self, clock: &str, make: impl FnOnce(Link) -> Manifest) -> Appended {
        let (lineage, id) = (LINEAGE.parse().unwrap(), id(clock));
        let places = [
            (Place::Snapshots, layout().snapshot_manifest(&lineage, &id)),
            (Place::Ledger, layout().ledger_manifest(&lineage, &id)),
        ];
        self.outbox.append(&self.backup_host, make, &places).unwrap()
    }

    pub fn attestation(&self, about: &Appended, snapshot: &str, clock: &str, reached: Option<Rung>, passed: bool) -> Appended {
        self.attestation_by(&self.rehearsal_host, |link| attestation(link, about, snapshot, clock, reached, passed))
    }

    /// A rehearsal of `snapshot` at `clock` that failed with `failure` after it opened the keys named.
    pub fn failed(&self, about: &Appended, snapshot: &str, clock: &str, failure: &str, opened: &[&str]) -> Appended {
        self.attestation_by(&self.rehearsal_host, |link| failed(link, about, snapshot, clock, failure, opened))
    }

    pub fn attestation_by(&self, signer: &Signer, make: impl Fn(Link) -> Attestation) -> Appended {
        let path = make(Link { name: signer.principal().clone(), seq: 0, prev: None }).path;
        self.outbox.append(signer, make, &[(Place::Ledger, path)]).unwrap()
    }

    pub fn report(&self, snapshot: &str, clock: &str) -> Appended {
        let path = layout().report(&id(clock).as_str().parse().unwrap());
        self.outbox.append(&self.rehearsal_host, |link| report(link, snapshot, clock), &[(Place::Ledger, path)]).unwrap()
    }
}

/// Appends a receipt to whatever outbox; its only destination is the ledger.
pub fn receipt_in(outbox: &Outbox, signer: &Signer, fingerprint: &str, clock: &str) -> Appended {
    let path = receipt(Link { name: signer.principal().clone(), seq: 0, prev: None }, fingerprint, clock).path;
    outbox.append(signer, |link| receipt(link, fingerprint, clock), &[(Place::Ledger, path)]).unwrap()
}

/// Copies a directory as it is at this moment, as a crash would leave it.
pub fn copy_of(state: &Path) -> tempfile::TempDir {
    fn copy(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).unwrap();
        for item in std::fs::read_dir(from).unwrap() {
            let item = item.unwrap();
            let target = to.join(item.file_name());
            if item.file_type().unwrap().is_dir() {
                copy(&item.path(), &target);
            } else {
                std::fs::copy(item.path(), target).unwrap();
            }
        }
    }
    let dir = tempfile::tempdir().unwrap();
    copy(state, dir.path());
    dir
}
