//! Opening a key where many others lie beside its record.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use age::secrecy::ExposeSecret;
use holdfast::base::clock::ManualClock;
use holdfast::base::digest::Sha256;
use holdfast::base::entropy::SeededEntropy;
use holdfast::base::failure::Failure;
use holdfast::base::secret::Secret;
use holdfast::escrow::deposit::Depositor;
use holdfast::escrow::opener::{Opened, Opener};
use holdfast::escrow::seal::{Identities, Recipients};
use holdfast::k8s::local_key::{LocalKey, LocalProvider};
use holdfast::ledger::Outbox;
use holdfast::record::layout::Layout;
use holdfast::record::manifest::RecordRef;
use holdfast::store::layers::{FaultStore, OperationKind};
use holdfast::store::mem::MemStore;
use holdfast::store::{PutOptions, Store};

use crate::test_key;

struct Site {
    escrow: FaultStore,
    layout: Layout,
    identities: Identities,
    key: LocalKey,
    /// As a manifest names it.
    record: RecordRef,
}

impl Site {
    /// One key, deposited once.
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let identity = age::x25519::Identity::generate();
        let file = folder.path().join("identity");
        std::fs::write(&file, identity.to_string().expose_secret()).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let escrow = FaultStore::new(Arc::new(MemStore::new("escrow")));
        let layout = Layout::new("holdfast", &"bench".parse().unwrap());
        let key = LocalKey::new(LocalProvider::Aescbc, "key1", Secret::new(vec![7; 32])).unwrap();
        let clock = ManualClock::at("2026-12-01T13:00:00Z".parse().unwrap());
        let outbox = Outbox::open(folder.path()).unwrap();
        let depositor = Depositor {
            store: &escrow,
            escrow: &layout,
            ledger: &layout,
            recipients: &Recipients::parse(&[identity.to_public().to_string()]).unwrap(),
            signer: &test_key::signer("cp-1"),
            outbox: &outbox,
            host: &"cp-1".parse().unwrap(),
            clock: clock.as_ref(),
            entropy: &SeededEntropy::new(7),
            tool: "holdfast test",
        };
        let record = depositor.deposit(&key).await.unwrap().escrow_record;
        Self { escrow, layout, identities: Identities::load(&file).unwrap(), key, record }
    }

    async fn put(&self, name: &str, bytes: &[u8]) {
        let body = &mut std::io::Cursor::new(bytes.to_vec());
        let options = PutOptions { expected_bytes: Some(bytes.len() as u64) };
        self.escrow.put(&name.parse().unwrap(), body, &options).await.unwrap();
    }

    /// Records that look newer than the good one, and are none.
    async fn plant(&self, junk: usize) {
        let folder = self.layout.escrow_key(self.key.fingerprint());
        for number in 0..junk {
            self.put(&format!("{folder}/20270101T000000Z-cp-1-{number:08x}.json"), b"{}").await;
        }
    }

    /// Opens the key, and counts the calls that it took, by lists and reads.
    async fn open(&self, named: Option<&RecordRef>) -> (Result<Opened, Failure>, usize, usize) {
        let before = self.escrow.operations().len();
        let allowed = test_key::allowed(&[&test_key::signer("cp-1")]);
        let opener = Opener { store: &self.escrow, layout: &self.layout, identities: &self.identities, allowed: &allowed };
        let opened = opener.open(self.key.fingerprint(), named).await;
        let calls = self.escrow.operations().split_off(before);
        let of = |kind| calls.iter().filter(|operation| operation.kind == kind).count();
        (opened, of(OperationKind::List), of(OperationKind::Open))
    }
}

#[tokio::test]
async fn the_record_that_the_manifest_names_is_opened_past_any_number_of_others() {
    let site = Site::new().await;
    site.plant(500).await;
    let (opened, lists, reads) = site.open(Some(&site.record)).await;
    assert_eq!(opened.unwrap().record, site.record);
    assert_eq!((lists, reads), (0, 3), "the record, its signature, and what it seals");
    // Without a name, each of the others is looked at.
    let (opened, lists, reads) = site.open(None).await;
    assert_eq!((opened.unwrap().record, lists), (site.record.clone(), 1));
    assert!(reads > 500, "{reads}");
}

#[tokio::test]
async fn a_named_record_that_is_gone_elsewhere_or_worthless_is_no_end() {
    let site = Site::new().await;
    let folder = site.layout.escrow_key(site.key.fingerprint());
    let worthless = format!("{folder}/20261130T000000Z-cp-1-0000000a.json");
    site.put(&worthless, b"{}").await;
    for key in [
        worthless.clone(),
        format!("{folder}/20261130T000000Z-cp-1-0000000b.json"),
        "holdfast/other/keys/x.json".to_owned(),
        "not//a key".to_owned(),
    ] {
        let (opened, lists, _) = site.open(Some(&RecordRef { key: key.clone(), sha256: Sha256::of(b"") })).await;
        assert_eq!((opened.unwrap().record, lists), (site.record.clone(), 1), "{key}");
    }
}

#[tokio::test]
async fn where_no_record_opens_the_named_one_is_told_with_the_others() {
    let site = Site::new().await;
    let mut other = Site::new().await;
    // Another cluster's escrow, where nothing but junk has this key's name.
    other.key = LocalKey::new(LocalProvider::Aescbc, "key2", Secret::new(vec![9; 32])).unwrap();
    let folder = other.layout.escrow_key(other.key.fingerprint());
    for number in 0..2 {
        other.put(&format!("{folder}/20261130T000000Z-cp-1-0000000{number}.json"), b"{}").await;
    }
    let named = RecordRef { key: format!("{folder}/20261130T000000Z-cp-1-00000000.json"), sha256: Sha256::of(b"") };
    let failure = other.open(Some(&named)).await.0.unwrap_err();
    assert_eq!(failure.code().name, "escrow.not-opened");
    assert_eq!(failure.cause().matches("00000000.json").count(), 1, "{failure:?}");
    assert!(failure.cause().contains("00000001.json"), "{failure:?}");
    let nowhere = RecordRef { key: named.key.replace("00000000.json", "00000009.json"), ..named };
    let empty = LocalKey::new(LocalProvider::Aescbc, "key3", Secret::new(vec![3; 32])).unwrap();
    let missing = Site { key: empty, ..site }.open(Some(&nowhere)).await.0.unwrap_err();
    assert_eq!(missing.code().name, "escrow.key-missing");
}
