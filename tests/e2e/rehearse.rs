//! Rehearsals on real programs, with keys from escrow alone.

use holdfast::base::codes;
use holdfast::base::exit::Exit;
use holdfast::record::Rung;
use holdfast::runbook::journal::RunResult;

use crate::scene::{Scene, source};

#[tokio::test]
async fn a_snapshot_climbs_to_serve_with_keys_from_escrow_alone() {
    let scene = Scene::new();
    let rehearsed = scene.rehearse(&source().second.id, Rung::Serve).await;
    let report = serde_json::to_string_pretty(&rehearsed.report).unwrap();
    assert_eq!(rehearsed.outcome.result, RunResult::Passed, "{report}");
    assert_eq!((rehearsed.exit(), rehearsed.outcome.reached), (Exit::Good, Some(Rung::Serve)));
    let facts = &rehearsed.report.facts;

    let hash = facts.hash.as_ref().unwrap();
    assert!(hash.equal(), "{hash:?}");
    let read = facts.read.as_ref().unwrap();
    assert!(read.resources.iter().all(|resource| resource.equal()), "{:#?}", read.resources);
    assert!(read.resources.iter().any(|resource| resource.resource == "widgets" && resource.group == "example.com"));
    let decryption = facts.decryption.as_ref().unwrap();
    assert_eq!(decryption.encrypted, source().secrets as u64 + 1, "every Secret and the widget");
    assert_eq!((decryption.opened, read.encrypted_read), (decryption.encrypted, decryption.encrypted));
    assert!(facts.encryption.as_ref().unwrap().appended.is_empty());
    assert_eq!(facts.keys.as_ref().unwrap().openings.len(), 2);
    assert_eq!(facts.fence.as_ref().unwrap().fenced, rustix::process::geteuid().is_root());
    assert!(rehearsed.report.rto.measured_ms.is_some() && rehearsed.report.rpo.measured_ms.is_some(), "{report}");

    scene.nothing_is_left();
    let catalog = scene.catalog().await;
    let proven = catalog.last_proof(Rung::Serve).unwrap().unwrap();
    assert_eq!(proven.snapshot, source().second.id);
    let attestation = catalog.attestations(&source().second.id).unwrap().remove(0);
    assert!(attestation.passed && attestation.rto_ms > 0 && attestation.escrow_opened.len() == 2, "{attestation:?}");
    assert!(catalog.report(&rehearsed.run).unwrap().is_some());
}

#[tokio::test]
async fn a_withheld_escrow_record_fails_and_names_objects_and_key() {
    let scene = Scene::new();
    let key1 = &source().key1;
    for part in [".age", ".json", ".json.sig"] {
        for file in crate::scene::files(&scene.store(&scene.config.escrow.store)) {
            let path = file.to_str().unwrap();
            if path.contains(key1.as_str()) && path.ends_with(part) {
                std::fs::remove_file(&file).unwrap();
            }
        }
    }
    let rehearsed = scene.rehearse(&source().second.id, Rung::Serve).await;
    let (step, failure) = rehearsed.outcome.failure.clone().unwrap();
    assert_eq!((step.as_str(), rehearsed.exit()), ("open-keys", Exit::Bad));
    assert_eq!(failure.code, codes::ESCROW_KEY_MISSING.name);
    for part in [key1.as_str(), "key1", "/registry/secrets/"] {
        assert!(failure.cause.contains(part), "{part}: {}", failure.cause);
    }
    let decryption = rehearsed.report.facts.decryption.as_ref().unwrap();
    assert!(decryption.failures.len() <= 10 && decryption.opened > 0 && decryption.opened < decryption.encrypted);
    assert_eq!(rehearsed.outcome.reached, None);
    scene.nothing_is_left();
    let attestation = scene.catalog().await.attestations(&source().second.id).unwrap().remove(0);
    assert_eq!((attestation.passed, attestation.failure.as_deref()), (false, Some("escrow.key-missing")));
}
