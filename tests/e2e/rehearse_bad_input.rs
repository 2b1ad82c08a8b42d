//! Bad input of every kind, at rung `open`: what it is called, how the command
//! ends, and that nothing stays behind.

use std::fs;
use std::path::{Path, PathBuf};

use holdfast::base::codes::{self, Code};
use holdfast::base::exit::Exit;
use holdfast::base::ids::SnapshotId;
use holdfast::record::Rung;
use holdfast::rehearsal::Rehearsed;
use holdfast::sandbox::Places;

use crate::scene::{Scene, files, source};

/// The run ended in `step` with `code`, proved nothing, left nothing, and is attested.
async fn failed(scene: &Scene, rehearsed: &Rehearsed, step: &str, code: &Code, exit: Exit) {
    let (at, failure) = rehearsed.outcome.failure.clone().unwrap();
    assert_eq!((at.as_str(), failure.code.as_str()), (step, code.name), "{}: {}", failure.object, failure.cause);
    assert_eq!((rehearsed.exit(), rehearsed.outcome.reached), (exit, None));
    scene.nothing_is_left();
    let attested = scene.catalog().await.attestations(&rehearsed.report.identity.snapshot).unwrap();
    let attestation = attested.iter().find(|attestation| attestation.run == rehearsed.run).unwrap();
    assert_eq!((attestation.passed, attestation.failure.as_deref()), (false, Some(code.name)));
}

/// A stored object of the second snapshot.
fn stored(scene: &Scene, name: &str) -> PathBuf {
    let ending = format!("{}/{name}", source().second.id);
    let mut found = files(&scene.store(&scene.config.snapshots.store));
    found.retain(|path| path.to_str().unwrap().ends_with(&ending));
    assert_eq!(found.len(), 1, "{name}");
    found.remove(0)
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::remove_file(path).unwrap();
    fs::write(path, bytes).unwrap();
}

async fn open(scene: &Scene) -> Rehearsed {
    scene.rehearse(&source().second.id, Rung::Open).await
}

#[tokio::test]
async fn an_untouched_snapshot_reaches_open() {
    let scene = Scene::new();
    let rehearsed = open(&scene).await;
    assert_eq!((rehearsed.exit(), rehearsed.outcome.reached), (Exit::Good, Some(Rung::Open)), "{:?}", rehearsed.outcome);
    scene.nothing_is_left();
}

#[tokio::test]
async fn an_object_that_differs_from_its_manifest_is_altered_whatever_the_difference() {
    type Change = fn(&mut Vec<u8>);
    let changes: [(&str, Change); 5] = [
        ("one bit flipped", |bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        }),
        ("a bit of the age header flipped", |bytes| bytes[40] ^= 1),
        ("cut short", |bytes| bytes.truncate(bytes.len() - 100)),
        ("made longer", |bytes| bytes.push(0)),
        ("c_070 of zero bytes", Vec::clear),
    ];
    for (what, apply) in changes {
        let scene = Scene::new();
        change(&stored(&scene, "etcd.db.zst.age"), apply);
        let rehearsed = open(&scene).await;
        failed(&scene, &rehearsed, "fetch-image", &codes::SNAPSHOT_ALTERED, Exit::Bad).await;
        let (_, failure) = rehearsed.outcome.failure.unwrap();
        assert_eq!(failure.cause.lines().count(), 1, "{what}: {}", failure.cause);
    }
}

#[tokio::test]
async fn a_restore_page_that_was_replaced_is_altered() {
    let scene = Scene::new();
    change(&stored(&scene, "RESTORE.md"), |page| page.extend_from_slice(b"one more step\n"));
    failed(&scene, &open(&scene).await, "fetch-manifest", &codes::SNAPSHOT_ALTERED, Exit::Bad).await;
}

#[tokio::test]
async fn an_object_that_is_gone_is_altered() {
    let scene = Scene::new();
    fs::remove_file(stored(&scene, "etcd.db.zst.age")).unwrap();
    let rehearsed = open(&scene).await;
    failed(&scene, &rehearsed, "fetch-image", &codes::SNAPSHOT_ALTERED, Exit::Bad).await;
}

#[tokio::test]
async fn a_manifest_is_believed_only_signed_whole_and_in_its_place() {
    let manifest = |scene: &Scene| stored(scene, "manifest.json");
    type Attack = fn(&Scene, &Path);
    let attacks: [(&Code, Attack); 4] = [
        (&codes::RECORD_UNSIGNED, |_, path| fs::remove_file(path.with_extension("json.sig")).unwrap()),
        (&codes::RECORD_BAD_SIGNATURE, |_, path| {
            change(path, |bytes| {
                let at = bytes.windows(6).position(|window| window == b"\"good\"").unwrap();
                bytes[at + 1..at + 5].copy_from_slice(b"Good");
            });
        }),
        (&codes::RECORD_MISPLACED, |_, path| {
            // The other snapshot's manifest, with its good signature.
            let other = path.to_str().unwrap().replace(source().second.id.as_str(), source().first.id.as_str());
            for ending in ["", ".sig"] {
                let from = format!("{other}{ending}");
                let to = format!("{}{ending}", path.display());
                fs::remove_file(&to).unwrap();
                fs::copy(from, to).unwrap();
            }
        }),
        (&codes::SNAPSHOT_ALTERED, |_, path| fs::remove_file(path).unwrap()),
    ];
    for (code, attack) in attacks {
        let scene = Scene::new();
        attack(&scene, &manifest(&scene));
        let rehearsed = open(&scene).await;
        failed(&scene, &rehearsed, "fetch-manifest", code, Exit::Bad).await;
    }
}

#[tokio::test]
async fn an_unknown_snapshot_is_named_and_no_run_begins() {
    let scene = Scene::new();
    let id: SnapshotId = "20200101T000000Z-00000000".parse().unwrap();
    let failure = scene.subject(&id).await.unwrap_err();
    assert_eq!((failure.code(), failure.exit()), (&codes::SNAPSHOT_UNKNOWN, Exit::CouldNotRun));
    assert_eq!(failure.object(), id.as_str());
    assert_eq!(scene.journal().runs().unwrap().len(), 0);
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_no_verdict_on_the_snapshot() {
    for (store, step) in [("snapshots", "fetch-manifest"), ("escrow", "open-keys")] {
        let scene = Scene::new();
        let path = scene.root.path().join("stores").join(store);
        fs::remove_dir_all(&path).unwrap();
        let rehearsed = open(&scene).await;
        failed(&scene, &rehearsed, step, &codes::STORE_UNREACHABLE, Exit::CouldNotRun).await;
    }
}

#[tokio::test]
async fn a_ledger_that_does_not_answer_delays_the_records_and_changes_no_verdict() {
    let scene = Scene::new();
    let subject = scene.subject(&source().second.id).await.unwrap();
    let (ledger, aside) = (scene.store(&scene.config.ledger.store), scene.root.path().join("ledger-aside"));
    fs::rename(&ledger, &aside).unwrap();
    let rehearsed = scene
        .with_host(
            async |host, request| holdfast::rehearsal::rehearse(host, &subject, scene.journal(), request).await.unwrap(),
            Rung::Open,
            &|_| (),
        )
        .await;
    assert_eq!(rehearsed.exit(), Exit::Good);
    assert_eq!(rehearsed.warnings.iter().map(|warning| warning.code().name).collect::<Vec<_>>(), ["ledger.unreachable"]);
    fs::rename(&aside, &ledger).unwrap();
    let again = open(&scene).await;
    assert!(again.warnings.is_empty());
    let runs: Vec<_> = scene.catalog().await.attestations(&source().second.id).unwrap().into_iter().map(|a| a.run).collect();
    assert!(runs.contains(&rehearsed.run) && runs.contains(&again.run), "what waited was delivered: {runs:?}");
}

#[tokio::test]
async fn an_identity_that_nothing_is_sealed_to_is_no_verdict_on_the_snapshot() {
    let scene = Scene::new();
    let strange = age::x25519::Identity::generate();
    let text = age::secrecy::ExposeSecret::expose_secret(&strange.to_string()).to_owned();
    let (snapshots, escrow) = (&scene.config.snapshots.identity_file, &scene.config.escrow.identity_file);
    let (snapshots, escrow) = (snapshots.as_ref().unwrap(), escrow.as_ref().unwrap());
    let (snapshot_identity, escrow_identity) = (fs::read(snapshots).unwrap(), fs::read(escrow).unwrap());
    // Another one, or that of the other section.
    for wrong in [text.as_bytes(), &escrow_identity] {
        fs::write(snapshots, wrong).unwrap();
        let rehearsed = open(&scene).await;
        failed(&scene, &rehearsed, "fetch-image", &codes::IDENTITY_NOT_A_RECIPIENT, Exit::CouldNotRun).await;
        fs::write(snapshots, &snapshot_identity).unwrap();
    }
    for wrong in [text.as_bytes(), &snapshot_identity] {
        fs::write(escrow, wrong).unwrap();
        let rehearsed = open(&scene).await;
        failed(&scene, &rehearsed, "open-keys", &codes::IDENTITY_NOT_A_RECIPIENT, Exit::CouldNotRun).await;
        let (_, failure) = rehearsed.outcome.failure.unwrap();
        assert!(failure.cause.contains(&strange.to_public().to_string()) || wrong != text.as_bytes(), "{}", failure.cause);
        assert!(rehearsed.report.facts.decryption.is_none(), "no object is called unreadable");
        fs::write(escrow, &escrow_identity).unwrap();
    }
    assert_eq!(open(&scene).await.exit(), Exit::Good);
}

#[tokio::test]
async fn a_sealed_key_that_was_replaced_is_a_finding() {
    let scene = Scene::new();
    let other = age::x25519::Identity::generate().to_public();
    let sealed = age::encrypt(&other, b"anything").unwrap();
    let mut keys = files(&scene.store(&scene.config.escrow.store));
    keys.retain(|path| path.extension().is_some_and(|end| end == "age"));
    for path in keys {
        change(&path, |bytes| bytes.clone_from(&sealed));
    }
    let rehearsed = open(&scene).await;
    failed(&scene, &rehearsed, "open-keys", &codes::ESCROW_NOT_OPENED, Exit::Bad).await;
}

#[tokio::test]
async fn an_escrow_record_that_holds_another_key_is_not_taken_for_it() {
    let scene = Scene::new();
    let sealed = |fingerprint: &str| {
        let mut found = files(&scene.store(&scene.config.escrow.store));
        found.retain(|path| path.to_str().unwrap().contains(fingerprint) && path.extension().is_some_and(|end| end == "age"));
        found.remove(0)
    };
    let (one, two) = (sealed(source().key1.as_str()), sealed(source().key2.as_str()));
    fs::remove_file(&one).unwrap();
    fs::copy(two, &one).unwrap();
    let rehearsed = open(&scene).await;
    failed(&scene, &rehearsed, "open-keys", &codes::ESCROW_NOT_OPENED, Exit::Bad).await;
    let (_, failure) = rehearsed.outcome.failure.unwrap();
    assert!(
        failure.cause.contains(source().key1.as_str()) && !failure.cause.contains(source().key2.as_str()),
        "{}",
        failure.cause
    );
}

#[tokio::test]
async fn an_image_larger_than_the_limit_for_memory_is_refused() {
    let mut scene = Scene::new();
    scene.config.backup.image_limit = 4096;
    let rehearsed = open(&scene).await;
    failed(&scene, &rehearsed, "fetch-image", &codes::BACKUP_IMAGE_TOO_LARGE, Exit::CouldNotRun).await;
}

#[tokio::test]
async fn a_missing_program_is_named_with_make_tools_and_open_stays_proven() {
    let mut scene = Scene::new();
    scene.places = Places::default();
    let rehearsed = scene.rehearse(&source().second.id, Rung::Boot).await;
    let (step, failure) = rehearsed.outcome.failure.clone().unwrap();
    assert_eq!((step.as_str(), failure.code.as_str()), ("restore-data", codes::TOOL_MISSING.name));
    assert!(failure.object.contains("etcdutl") && failure.next.contains("make tools"), "{failure:?}");
    assert_eq!((rehearsed.exit(), rehearsed.outcome.reached), (Exit::CouldNotRun, Some(Rung::Open)));
    scene.nothing_is_left();
}
