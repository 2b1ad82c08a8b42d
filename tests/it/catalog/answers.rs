//! What the catalog answers.

use holdfast::ledger::{Ledger, Place};
use holdfast::record::attestation::Attestation;
use holdfast::record::manifest::Quality;
use holdfast::record::{Link, Rung};
use holdfast::station::going_on::refuse_recorded;

use super::{folded, history, site};
use crate::ledger::records::{KEY1, KEY2, LINEAGE, Site, attestation, host, id, layout, manifest, need};
use crate::test_key;

#[tokio::test]
async fn snapshots_come_newest_first_with_their_keys_and_proofs() {
    let (site, history) = site().await;
    let catalog = folded(&site, &history);
    let rows = catalog.snapshots().unwrap();
    assert_eq!(rows.iter().map(|row| row.id.clone()).collect::<Vec<_>>(), [id("13:35"), id("13:05")]);
    let [second, first] = rows.as_slice() else { panic!("{rows:?}") };
    assert_eq!((first.revision, first.live_keys, first.object_bytes), (10, 17, 4711));
    assert!(first.restorable);
    assert_eq!(first.proven.as_ref().unwrap().rung, Rung::Serve);
    assert_eq!(first.proven.as_ref().unwrap().at, "2026-12-01T14:00:00Z");
    // Keys with one name are told apart by their material, and a failed
    // rehearsal does not take back the rung, nor leave the snapshot restorable.
    assert_eq!(second.keys.iter().map(|key| key.fingerprint.as_deref().unwrap()).collect::<Vec<_>>(), [KEY1, KEY2]);
    assert!(second.keys.iter().all(|key| key.escrowed));
    assert_eq!(second.proven.as_ref().unwrap().rung, Rung::Boot);
    assert!(!second.last_attempt.as_ref().unwrap().passed);
    assert_eq!(second.obstacles, ["a rehearsal found it bad: rehearsal.undecryptable"]);
    assert_eq!(catalog.latest().unwrap().as_ref(), Some(second));
}

#[tokio::test]
async fn a_snapshot_is_restorable_only_with_every_key_in_escrow_and_of_good_quality() {
    let site = Site::new();
    site.receipt(KEY1, "13:00");
    site.manifest("13:05", 10, vec![need("key1", Some(KEY1), 4)]);
    site.manifest("13:06", 11, vec![need("key1", Some(KEY1), 4), need("key2", Some(KEY2), 1)]);
    site.manifest("13:07", 12, vec![need("key3", None, 1)]);
    site.manifest_but("13:08", |link| {
        let mut suspect = manifest(link, "13:08", 13, vec![]);
        suspect.quality = Quality::Suspect;
        suspect
    });
    site.manifest("13:09", 14, vec![]);
    let catalog = folded(&site, &history(&site).await);
    let obstacles: Vec<_> = catalog.snapshots().unwrap().into_iter().rev().map(|row| row.obstacles.join("; ")).collect();
    assert_eq!(
        obstacles,
        [
            "",
            "aescbc key key2 (hf1-22222222222222222222222222222222) is not in escrow",
            "no known key opens what aescbc key key3 encrypted",
            "its quality is suspect",
            "",
        ]
    );
    // The receipt arrives later: a new fold, and it counts.
    site.receipt(KEY2, "14:00");
    let catalog = folded(&site, &history(&site).await);
    assert!(catalog.snapshot(&id("13:06")).unwrap().unwrap().row.restorable);
}

#[tokio::test]
async fn a_kms_key_is_restorable_by_the_material_behind_it() {
    let site = Site::new();
    let mut kms = need("vault", Some("kms:vault:1"), 3);
    kms.provider = "kmsv2".into();
    let mut held = kms.clone();
    held.material = Some(KEY1.parse().unwrap());
    site.receipt(KEY1, "13:00");
    site.manifest("13:05", 10, vec![kms]);
    site.manifest("13:06", 11, vec![held]);
    let catalog = folded(&site, &history(&site).await);
    let restorable: Vec<_> = catalog.snapshots().unwrap().into_iter().map(|row| row.restorable).collect();
    assert_eq!(restorable, [true, false]);
}

#[tokio::test]
async fn a_rehearsal_that_found_a_snapshot_bad_stands_until_another_gets_past_it() {
    let site = Site::new();
    let about = site.manifest("13:05", 10, vec![]);
    let could_not_run = |clock: &str| {
        let path = layout().attestation(&LINEAGE.parse().unwrap(), &id("13:05"), &id(clock).as_str().parse().unwrap());
        let failure = Some("tool.missing".to_owned());
        let make = |link| Attestation { failure, ..attestation(link, &about, "13:05", clock, None, false) };
        site.outbox.append(&site.rehearsal_host, make, &[(Place::Ledger, path)]).unwrap();
    };
    let restorable = async || folded(&site, &history(&site).await).snapshots().unwrap()[0].restorable;
    could_not_run("13:50");
    assert!(restorable().await, "it says nothing");
    site.attestation(&about, "13:05", "14:00", Some(Rung::Open), false);
    assert!(!restorable().await);
    could_not_run("14:10");
    assert!(!restorable().await, "it takes nothing back");
    site.attestation(&about, "13:05", "14:20", Some(Rung::Open), true);
    assert!(!restorable().await, "the rung that failed was not tried");
    site.attestation(&about, "13:05", "14:30", Some(Rung::Boot), false);
    assert!(!restorable().await, "it got past one and failed at the next");
    site.attestation(&about, "13:05", "14:40", Some(Rung::Serve), true);
    assert!(restorable().await);
}

#[tokio::test]
async fn an_attestation_of_another_manifest_proves_nothing() {
    let site = Site::new();
    let old = site.manifest("13:05", 10, vec![]);
    let new = site.manifest("13:06", 11, vec![]);
    // It names the second snapshot and believed the first one's manifest.
    site.attestation(&old, "13:06", "14:00", Some(Rung::Serve), true);
    let catalog = folded(&site, &history(&site).await);
    let detail = catalog.snapshot(&id("13:06")).unwrap().unwrap();
    assert_eq!((detail.row.proven, detail.attestations), (None, vec![]));
    assert_ne!(old.sha256, new.sha256);
}

#[tokio::test]
async fn c_108_the_headline_is_the_newest_rehearsal_that_passed_at_the_rung_asked() {
    let (site, history) = site().await;
    let catalog = folded(&site, &history);
    let at = |rung| catalog.last_proof(rung).unwrap().map(|proof| (proof.rung, proof.snapshot));
    assert_eq!(at(Rung::Open), Some((Rung::Boot, id("13:35"))));
    assert_eq!(at(Rung::Serve), Some((Rung::Serve, id("13:05"))));
    assert_eq!(at(Rung::Cluster), None);
}

#[tokio::test]
async fn keys_tell_where_they_are_and_what_still_hangs_on_them() {
    let (site, history) = site().await;
    let catalog = folded(&site, &history);
    let keys = catalog.keys().unwrap();
    assert_eq!(keys.iter().map(|key| key.fingerprint.as_deref().unwrap()).collect::<Vec<_>>(), [KEY1, KEY2]);
    let hanging =
        |index: usize| keys[index].needed_by.iter().map(|need| (need.snapshot.clone(), need.live_objects)).collect::<Vec<_>>();
    assert_eq!(hanging(0), [(id("13:35"), 2), (id("13:05"), 4)]);
    assert_eq!(hanging(1), [(id("13:35"), 2)]);
    assert_eq!((keys[0].deposits, keys[0].last_deposit.as_deref()), (1, Some("2026-12-01T13:00:00Z")));
    assert!(keys.iter().all(|key| key.configured_on.contains("cp-1")));
}

#[tokio::test]
async fn one_key_under_two_names_is_one_key_and_two_under_one_name_are_two() {
    let site = Site::new();
    site.receipt(KEY1, "13:00");
    site.manifest("13:05", 10, vec![need("new-name", Some(KEY1), 4), need("key1", Some(KEY2), 1), need("lost", None, 1)]);
    let keys = folded(&site, &history(&site).await).keys().unwrap();
    let seen: Vec<_> = keys
        .iter()
        .map(|key| {
            (key.fingerprint.as_deref().unwrap_or("-"), key.names.iter().cloned().collect::<Vec<_>>().join("+"), key.deposits)
        })
        .collect();
    assert_eq!(seen, [(KEY2, "key1".into(), 0), (KEY1, "key1+new-name".into(), 1), ("-", "lost".into(), 0)]);
}

#[tokio::test]
async fn c_004_a_host_with_other_material_under_the_same_name_is_named() {
    let site = Site::new();
    let hosts = ["cp-1", "cp-2", "cp-3"].map(test_key::signer);
    for (signer, key) in hosts.iter().zip([KEY1, KEY1, KEY2]) {
        let path = host(Link { name: signer.principal().clone(), seq: 0, prev: None }, &[], "13:00").path;
        site.outbox.append(signer, |link| host(link, &[("key1", key)], "13:00"), &[(Place::Ledger, path)]).unwrap();
    }
    site.outbox.deliver(&site.stores()).await.unwrap();
    let allowed = test_key::allowed(&hosts.each_ref());
    let history = Ledger::new(site.ledger.clone(), layout(), allowed).read().await.unwrap();
    let keys = folded(&site, &history).keys().unwrap();
    let seen: Vec<_> = keys
        .iter()
        .map(|key| (key.fingerprint.as_deref().unwrap(), key.configured_on.iter().map(String::as_str).collect::<Vec<_>>()))
        .collect();
    assert_eq!(seen, [(KEY1, vec!["cp-1", "cp-2"]), (KEY2, vec!["cp-3"])]);
}

#[tokio::test]
async fn c_026_two_key_ids_behind_one_kms_name_are_two_keys() {
    let site = Site::new();
    let kms = |id: &str, live_objects| {
        let mut need = need("barbican", Some(&format!("kms:barbican:{id}")), live_objects);
        (need.provider, need.kms_key_id) = ("kmsv2".into(), Some(id.into()));
        need
    };
    site.manifest("13:05", 10, vec![kms("A", 3), kms("B", 37)]);
    let keys = folded(&site, &history(&site).await).keys().unwrap();
    let seen: Vec<_> = keys.iter().map(|key| (key.fingerprint.as_deref().unwrap(), key.needed_by[0].live_objects)).collect();
    assert_eq!(seen, [("kms:barbican:A", 3), ("kms:barbican:B", 37)]);
}

#[tokio::test]
async fn the_configuration_of_a_snapshot_is_the_last_before_it() {
    let (site, history) = site().await;
    let catalog = folded(&site, &history);
    let names = |clock: &str| {
        let manifest = catalog.snapshot(&id(clock)).unwrap().unwrap().manifest;
        catalog.host_record_of(&manifest).unwrap().unwrap().observed
    };
    assert_eq!(names("13:05"), "2026-12-01T13:01:00Z");
    assert_eq!(names("13:35"), "2026-12-01T13:31:00Z");
    let host = site.backup_host.principal();
    assert_eq!(catalog.host_records(host).unwrap().len(), 2);
    assert_eq!(catalog.host_record(host).unwrap().unwrap().observed, "2026-12-01T13:31:00Z");
    assert_eq!(catalog.latest_host_records().unwrap().len(), 1);
    assert_eq!(catalog.receipts_of(host).unwrap().len(), 2);
    assert_eq!(catalog.host_record(site.rehearsal_host.principal()).unwrap(), None);
}

#[tokio::test]
async fn a_run_that_has_its_report_is_not_gone_on_with() {
    let (site, history) = site().await;
    let catalog = folded(&site, &history);
    let reported = catalog.reports().unwrap().remove(0).run;
    let failure = refuse_recorded(&catalog, &reported).unwrap_err();
    assert_eq!(failure.code().name, "run.journal");
    assert!(failure.next_action().contains(&format!("holdfast report {reported}")), "{failure:?}");
    refuse_recorded(&catalog, &id("09:00").as_str().parse().unwrap()).unwrap();
    // An attestation without a report, and the other way round, is half of what is to be there.
    let half = Site::new();
    half.report("13:05", "14:00");
    let catalog = folded(&half, &crate::catalog::history(&half).await);
    refuse_recorded(&catalog, &reported).unwrap();
}

#[tokio::test]
async fn reports_are_found_by_run() {
    let (site, history) = site().await;
    let catalog = folded(&site, &history);
    let rows = catalog.reports().unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(catalog.report(&rows[0].run).unwrap().unwrap().report["verdict"], "passed");
    assert_eq!(catalog.report(&id("09:00").as_str().parse().unwrap()).unwrap(), None);
}

#[tokio::test]
async fn runs_are_found_as_people_type_them() {
    let (site, _) = site().await;
    site.report("13:35", "14:10");
    let catalog = folded(&site, &history(&site).await);
    let (first, second) = (id("14:00"), id("14:10"));
    let tail = &first.as_str()[17..];
    for (text, expected) in [
        ("latest", Ok(second.as_str())),
        (first.as_str(), Ok(first.as_str())),
        ("20261201T1400", Ok(first.as_str())),
        (tail, Ok(first.as_str())),
        ("2026", Err("run.ambiguous")),
        ("", Err("run.unknown")),
        ("2025", Err("run.unknown")),
    ] {
        let resolved = catalog.resolve_run(text);
        assert_eq!(resolved.as_ref().map(|run| run.as_str()).map_err(|failure| failure.code().name), expected, "{text:?}");
    }
    let empty = holdfast::catalog::Catalog::open(tempfile::tempdir().unwrap().path()).unwrap();
    assert_eq!(empty.resolve_run("latest").unwrap_err().code().name, "run.unknown");
}

#[tokio::test]
async fn ids_are_found_as_people_type_them() {
    let (site, history) = site().await;
    let catalog = folded(&site, &history);
    let (first, second) = (id("13:05"), id("13:35"));
    let tail = |id: &holdfast::base::ids::SnapshotId| id.as_str()[17..21].to_owned();
    assert_ne!(tail(&first), tail(&second));
    for (text, expected) in [
        ("latest", Ok(&second)),
        (first.as_str(), Ok(&first)),
        ("20261201T1305", Ok(&first)),
        (&tail(&second), Ok(&second)),
        ("20261201", Err("snapshot.ambiguous")),
        ("2", Err("snapshot.ambiguous")),
        ("", Err("snapshot.unknown")),
        ("2025", Err("snapshot.unknown")),
        ("%", Err("snapshot.unknown")),
        ("../etc", Err("snapshot.unknown")),
    ] {
        let resolved = catalog.resolve(text);
        assert_eq!(resolved.as_ref().map_err(|failure| failure.code().name), expected, "{text:?}");
    }
    let empty = holdfast::catalog::Catalog::open(tempfile::tempdir().unwrap().path()).unwrap();
    assert_eq!(empty.resolve("latest").unwrap_err().code().name, "snapshot.none");
}

#[tokio::test]
async fn order_is_by_revision_inside_a_lineage_whatever_the_clocks_say() {
    let site = Site::new();
    site.manifest("13:50", 10, vec![]);
    site.manifest("13:05", 20, vec![]);
    let catalog = folded(&site, &history(&site).await);
    assert_eq!(catalog.latest().unwrap().unwrap().revision, 20);
}
