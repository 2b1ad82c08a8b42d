//! Keys: in the configuration, in escrow, for signing, and for opening.

use holdfast::doctor::{Area, Status};

use super::bench::{Bench, Role, identity, key};
use crate::ledger::records::{KEY2, need};

#[tokio::test]
async fn keys_that_lie_in_escrow_and_a_signer_that_is_believed_are_good() {
    let bench = Bench::new(Role::ControlPlane);
    let fingerprint = bench.key().fingerprint().to_string();
    bench.deposit("13:00", |_| ());
    bench.site.manifest("13:05", 10, vec![need("key1", Some(&fingerprint), 4)]);
    bench.deliver().await;
    let found = bench.examine(Area::Keys).await;
    assert_eq!(found.worse_than(Status::Ok), Vec::<&str>::new(), "{found}");
    assert!(found.good("aescbc key key1").object.contains(&fingerprint), "{found}");
    let signer = found.good(bench.path("signing.key").to_str().unwrap());
    assert!(signer.finding.contains("holdfast-manifest, holdfast-receipt"), "{found}");
    assert!(found.good("escrow").finding.contains("1 key that snapshots need"), "{found}");
}

#[tokio::test]
async fn a_key_without_a_receipt_is_an_error_and_so_is_one_that_a_rehearsal_missed() {
    let bench = Bench::new(Role::ControlPlane);
    let fingerprint = bench.key().fingerprint().to_string();
    let found = bench.examine(Area::Keys).await;
    assert!(found.one("doctor.keys.not-in-escrow").object.contains(&fingerprint), "{found}");

    bench.deposit("13:00", |_| ());
    let taken = bench.site.manifest("13:05", 10, vec![need("key1", Some(&fingerprint), 4)]);
    bench.site.failed(&taken, "13:05", "14:00", "escrow.key-missing", &[]);
    bench.deliver().await;
    let found = bench.examine(Area::Keys).await;
    for code in ["doctor.keys.lost", "doctor.keys.needed"] {
        assert!(found.one(code).finding.contains("missing from escrow at 2026-12-01T14:00:00Z"), "{found}");
    }
}

#[tokio::test]
async fn a_deposit_for_other_people_or_in_another_place_does_not_count_as_present() {
    let bench = Bench::new(Role::ControlPlane);
    bench.deposit("13:00", |receipt| receipt.sealed_to = vec!["age1other".to_owned()]);
    bench.deliver().await;
    let found = bench.examine(Area::Keys).await;
    assert!(found.one("doctor.keys.other-recipients").finding.contains("age1other"), "{found}");

    let bench = Bench::new(Role::ControlPlane);
    bench.deposit("13:00", |receipt| receipt.store = "s3 old.example/escrow".to_owned());
    bench.deliver().await;
    let found = bench.examine(Area::Keys).await;
    assert!(found.one("doctor.keys.other-store").finding.contains("s3 old.example/escrow"), "{found}");
}

#[tokio::test]
async fn keys_that_snapshots_need_and_escrow_lacks_are_named() {
    let bench = Bench::new(Role::Reader);
    bench.site.manifest("13:05", 10, vec![need("key2", Some(KEY2), 4), need("gone", None, 1)]);
    bench.deliver().await;
    let found = bench.examine(Area::Keys).await;
    let needed: Vec<_> = found.0.iter().filter(|finding| finding.code == Some("doctor.keys.needed")).collect();
    assert_eq!(needed.len(), 2, "{found}");
    assert!(needed[0].object.contains("gone") && needed[0].finding.contains("no known key"), "{found}");
    assert!(needed[1].object.contains(KEY2) && needed[1].finding.contains("the newest snapshot"), "{found}");
    // By and by they are history.
    bench.site.manifest("14:05", 11, vec![]);
    bench.deliver().await;
    let found = bench.examine(Area::Keys).await;
    assert!(!found.has("doctor.keys.needed"), "{found}");
    let before: Vec<_> = found.0.iter().filter(|finding| finding.code == Some("doctor.keys.needed-before")).collect();
    assert!(before.len() == 2 && before.iter().all(|finding| finding.finding.contains("1 older snapshot")), "{found}");
}

#[tokio::test]
async fn weak_keys_external_keys_and_unreadable_configurations_are_told_apart() {
    let bench = Bench::new(Role::ControlPlane);
    bench.write("encryption.yaml", &key("text", b'x'), 0o600);
    let found = bench.examine(Area::Keys).await;
    assert_eq!(found.one("doctor.keys.weak").object, "aescbc key text", "{found}");

    let kms = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  \
               providers:\n  - kms:\n      apiVersion: v2\n      name: vault\n      endpoint: unix:///run/kms.sock\n  - identity: {}\n";
    bench.write("encryption.yaml", kms, 0o600);
    let found = bench.examine(Area::Keys).await;
    assert!(found.one("doctor.keys.external").finding.contains("unix:///run/kms.sock"), "{found}");
    assert!(!found.has("doctor.keys.weak"), "{found}");

    bench.write("encryption.yaml", "kind: Nonsense\n", 0o600);
    let found = bench.examine(Area::Keys).await;
    found.one("backup.encryption-config.unreadable");

    let line = format!("encryption_config = {:?}\n", bench.path("encryption.yaml"));
    let found = bench.edit(&line, "").examine(Area::Keys).await;
    found.one("doctor.keys.no-encryption");
}

#[tokio::test]
async fn a_signer_is_asked_for_each_kind_of_record_that_this_host_writes() {
    let bench = Bench::new(Role::ControlPlane);
    let line = bench.site.backup_host.public_line();
    let (name, public) = line.split_once(' ').unwrap();
    bench.write("allowed_signers", &format!("{name} namespaces=\"holdfast-manifest,holdfast-host\" {public}\n"), 0o644);
    let found = bench.examine(Area::Keys).await;
    let refused: Vec<_> = found.0.iter().filter(|finding| finding.code == Some("signing.not-allowed")).collect();
    assert_eq!(refused.len(), 2, "{found}");
    let good = found.good(bench.path("signing.key").to_str().unwrap());
    assert_eq!(good.finding, "is believed for holdfast-manifest, holdfast-host");

    bench.write("allowed_signers", "nonsense\n", 0o644);
    assert!(bench.examine(Area::Keys).await.has("signing.allowed-signers"));
}

#[tokio::test]
async fn a_signing_key_that_others_read_or_that_is_not_there_is_an_error() {
    let bench = Bench::new(Role::ControlPlane);
    bench.chmod("signing.key", 0o644);
    let found = bench.examine(Area::Keys).await;
    assert_eq!(found.one("signing.key-unusable").status, Status::Error, "{found}");
    assert!(!format!("{found}").contains("PRIVATE KEY"));

    let line = format!("signing_key = {:?}\n", bench.path("signing.key"));
    let found = bench.edit(&line, "").examine(Area::Keys).await;
    assert_eq!(found.one("doctor.keys.signs-nothing").object, "host.signing_key", "{found}");
    let reader = Bench::new(Role::Reader).examine(Area::Keys).await;
    assert!(!reader.has("doctor.keys.signs-nothing"), "{reader}");
}

#[tokio::test]
async fn identities_open_what_is_sealed_or_are_called_foreign() {
    let bench = Bench::new(Role::Rehearsal);
    bench.deposit("13:00", |_| ());
    let recipient = bench.snapshot_recipient.clone();
    let sealed = |bench: &Bench, clock: &str, sealed_to: String| {
        let manifest = |link| holdfast::record::manifest::Manifest {
            sealed_to: vec![sealed_to],
            ..crate::ledger::records::manifest(link, clock, 10, vec![])
        };
        bench.site.manifest_but(clock, manifest);
    };
    sealed(&bench, "13:05", recipient);
    bench.deliver().await;
    let found = bench.examine(Area::Keys).await;
    assert_eq!(found.worse_than(Status::Ok), Vec::<&str>::new(), "{found}");
    found.good(bench.path("snapshots.identity").to_str().unwrap());
    found.good("recipients");

    // The host that takes snapshots was given other recipients.
    let other = identity(bench.folder.path(), "other");
    let newer = |link| holdfast::record::manifest::Manifest {
        sealed_to: vec![other],
        ..crate::ledger::records::manifest(link, "14:05", 11, vec![])
    };
    bench.site.manifest_but("14:05", newer);
    bench.deliver().await;
    let found = bench.examine(Area::Keys).await;
    assert_eq!(found.one("doctor.keys.identity-foreign").object, bench.path("snapshots.identity").to_str().unwrap(), "{found}");

    // And then the one that escrow has.
    let shared = bench.escrow_recipient.clone();
    let newest = |link| holdfast::record::manifest::Manifest {
        sealed_to: vec![shared],
        ..crate::ledger::records::manifest(link, "14:35", 12, vec![])
    };
    bench.site.manifest_but("14:35", newest);
    bench.deliver().await;
    let found = bench.examine(Area::Keys).await;
    assert_eq!(found.one("doctor.keys.recipient-shared").object, bench.escrow_recipient, "{found}");
}

#[tokio::test]
async fn one_identity_for_both_and_one_that_others_read_are_errors() {
    let bench = Bench::new(Role::Rehearsal);
    std::fs::copy(bench.path("escrow.identity"), bench.path("snapshots.identity")).unwrap();
    let found = bench.examine(Area::Keys).await;
    found.one("doctor.keys.identity-shared");
    bench.chmod("escrow.identity", 0o644);
    let found = bench.examine(Area::Keys).await;
    assert_eq!(found.one("identity.unreadable").object, bench.path("escrow.identity").to_str().unwrap(), "{found}");
    assert!(!format!("{found}").contains("AGE-SECRET-KEY"));
}
