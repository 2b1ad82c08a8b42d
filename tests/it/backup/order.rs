//! The order of writes, and what a snapshot says of itself.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use holdfast::base::digest::Sha256;
use holdfast::base::exit::Exit;
use holdfast::base::failure::Failure;
use holdfast::etcd::scripted::ScriptedSource;
use holdfast::etcd::{MemberStatus, MessageStream, Source};
use holdfast::record::manifest::{Proof, Quality};
use holdfast::store::layers::{FaultStore, OperationKind};
use holdfast::store::mem::MemStore;
use holdfast::store::{Store, read_small};

use super::bench::{Bench, Keys};

fn puts(store: &holdfast::store::layers::FaultStore) -> Vec<String> {
    let seen = store.operations();
    assert!(seen.iter().all(|operation| operation.kind == OperationKind::Put), "a writer may only put");
    seen.into_iter().map(|operation| operation.object).collect()
}

fn endings(names: &[String]) -> Vec<&str> {
    names.iter().map(|name| name.rsplit('/').next().unwrap()).collect()
}

#[tokio::test]
async fn the_manifest_is_put_last_and_after_its_signature() {
    let bench = Bench::new(Keys::All);
    bench.take().await.unwrap();
    let names = puts(&bench.snapshots);
    assert_eq!(endings(&names), ["etcd.db.zst.age", "RESTORE.md", "manifest.json.sig", "manifest.json"]);
}

#[tokio::test]
async fn keys_lie_in_escrow_before_the_manifest_names_them() {
    let bench = Bench::new(Keys::All);
    let taken = bench.take().await.unwrap();
    for key in taken.manifest.keys.iter().filter(|key| key.proof == Proof::Opened) {
        let record = key.escrow_record.as_ref().unwrap_or_else(|| panic!("{key:?} was not deposited"));
        let name = record.key.parse().unwrap();
        let bytes = read_small(bench.escrow.as_ref(), &name, 1 << 20).await.unwrap();
        assert_eq!(Sha256::of(&bytes), record.sha256);
    }
    assert!(bench.escrow.operations().iter().filter(|o| o.kind == OperationKind::Put).count() >= 9);
}

#[tokio::test]
async fn what_the_manifest_says_of_the_object_is_what_the_store_has() {
    let bench = Bench::new(Keys::All);
    let taken = bench.take().await.unwrap();
    let object = &taken.manifest.object;
    let bytes = read_small(bench.snapshots.as_ref(), &object.key.parse().unwrap(), 1 << 20).await.unwrap();
    assert_eq!((bytes.len() as u64, Sha256::of(&bytes)), (object.bytes, object.sha256));
    let page = object.key.replace("etcd.db.zst.age", "RESTORE.md").parse().unwrap();
    let page = read_small(bench.snapshots.as_ref(), &page, 1 << 20).await.unwrap();
    assert_eq!(Sha256::of(&page), taken.manifest.restore_md_sha256);
}

#[tokio::test]
async fn a_snapshot_with_values_that_no_key_opens_is_incomplete() {
    let bench = Bench::new(Keys::All);
    let taken = bench.take().await.unwrap();
    assert_eq!((taken.manifest.quality, taken.exit()), (Quality::Incomplete, Exit::Bad));
    let gap = taken.warnings.iter().find(|warning| warning.code().name == "escrow.gap").unwrap();
    assert!(gap.to_string().contains("live object"), "{gap}");
}

#[tokio::test]
async fn a_key_missing_from_the_configuration_is_named_with_what_hangs_on_it() {
    let bench = Bench::new(Keys::AllBut("key-2024"));
    let taken = bench.take().await.unwrap();
    let gap = taken.warnings.iter().map(ToString::to_string).find(|text| text.contains("key-2024")).unwrap();
    assert!(gap.contains("secrets") && gap.contains("aescbc"), "{gap}");
    let need = taken.manifest.keys.iter().find(|key| key.name == "key-2024").unwrap();
    assert_eq!((need.fingerprint.as_deref(), need.escrow_record.as_ref()), (None, None));
}

#[tokio::test]
async fn a_second_snapshot_does_not_deposit_again_what_a_receipt_covers() {
    let mut bench = Bench::new(Keys::All);
    bench.take().await.unwrap();
    let first = bench.escrow.operations().len();
    let history = super::faults::history(&bench).await;
    bench.known = super::faults::known(&history);
    bench.take().await.unwrap();
    assert_eq!(bench.escrow.operations().len(), first);
    bench.clock.advance(std::time::Duration::from_secs(25 * 3600));
    bench.take().await.unwrap();
    assert_eq!(bench.escrow.operations().len(), 2 * first, "a day later nobody knows whether it is still there");
    bench.config.escrow.recipients = vec![super::bench::RECIPIENTS[0].to_owned()];
    bench.take().await.unwrap();
    assert_eq!(bench.escrow.operations().len(), 3 * first, "other recipients ask for new deposits");
    bench.config.escrow.recipients = vec![super::bench::RECIPIENTS[1].to_owned()];
    let history = super::faults::history(&bench).await;
    bench.known = super::faults::known(&history);
    "elsewhere".clone_into(&mut bench.config.escrow.prefix);
    bench.take().await.unwrap();
    assert_eq!(bench.escrow.operations().len(), 4 * first, "another prefix asks for new deposits");
}

#[tokio::test]
async fn a_receipt_says_nothing_about_another_escrow_store() {
    let mut bench = Bench::new(Keys::All);
    bench.take().await.unwrap();
    bench.known = super::faults::known(&super::faults::history(&bench).await);
    bench.escrow = Arc::new(FaultStore::new(Arc::new(MemStore::new("escrow after a move"))));
    let taken = bench.take().await.unwrap();
    assert!(bench.escrow.operations().len() >= 9, "every key is deposited in the new store");
    for record in taken.manifest.keys.iter().filter_map(|key| key.escrow_record.as_ref()) {
        read_small(bench.escrow.as_ref(), &record.key.parse().unwrap(), 1 << 20).await.unwrap();
    }
}

#[tokio::test]
async fn restore_md_names_this_snapshot_and_holds_no_key() {
    let bench = Bench::new(Keys::All);
    let taken = bench.take().await.unwrap();
    let name = taken.manifest.object.key.replace("etcd.db.zst.age", "RESTORE.md");
    let page = read_small(bench.snapshots.as_ref(), &name.parse().unwrap(), 1 << 20).await.unwrap();
    let page = String::from_utf8(page).unwrap();
    for expected in [
        taken.manifest.id.as_str(),
        &taken.manifest.object.sha256.to_string(),
        &taken.manifest.image.sha256.to_string(),
        // Whoever reads it may have never seen the configuration.
        &bench.snapshots.describe(),
        &bench.escrow.describe(),
    ] {
        assert!(page.contains(expected), "{expected}");
    }
    let secrets = crate::data::json("snapshot-secrets.json");
    for secret in secrets.as_array().unwrap() {
        if let Some(key) = secret["key_b64"].as_str() {
            assert!(!page.contains(key.trim_end_matches('=')));
        }
    }
    assert!(bench.snapshots.describe().contains("snapshots"));
}

/// A healthy member whose control-plane host rotates its keys meanwhile.
#[derive(Debug)]
struct RotatedMeanwhile {
    member: ScriptedSource,
    encryption: PathBuf,
    after: String,
}

#[async_trait]
impl Source for RotatedMeanwhile {
    async fn statuses(&self) -> Vec<Result<MemberStatus, Failure>> {
        self.member.statuses().await
    }

    async fn stream(&self, endpoint: &str, require_leader: bool) -> Result<Box<dyn MessageStream>, Failure> {
        std::fs::write(&self.encryption, &self.after).unwrap();
        self.member.stream(endpoint, require_leader).await
    }
}

#[tokio::test]
async fn keys_are_taken_from_the_configuration_as_it_was_before_and_after_the_stream() {
    let bench = Bench::new(Keys::AllBut("key-2024"));
    let encryption = bench.config.backup.encryption_config.clone().unwrap();
    let after = super::bench::encryption_yaml(Keys::All);
    let source = RotatedMeanwhile { member: super::bench::healthy(), encryption, after };
    let taken = bench.take_from(&source).await.unwrap();
    let need = taken.manifest.keys.iter().find(|key| key.name == "key-2024").unwrap();
    assert!(need.fingerprint.is_some() && need.escrow_record.is_some(), "{need:?}");
}
