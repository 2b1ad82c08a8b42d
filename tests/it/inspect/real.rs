//! Snapshots of a real etcd, and what the real tools and the real API server's transformers said of them.

use super::*;
use holdfast::scan::contents::{Contents, NoHash};
use holdfast::scan::data_clock::ClockSource;
use holdfast::scan::inspection::{Trailer, Verdict};
use holdfast::scan::mapped::inspect;
use holdfast::scan::objects::{ObjectClass, read_objects};

#[test]
fn status_agrees_with_etcdutl() {
    let expected = data::json("tiny-expected.json");
    for name in ["tiny.snap", "tiny-uncompacted.snap"] {
        let inspection = inspect(&data::bytes(name), &[]);
        let (etcd, status) = (inspection.etcd.unwrap(), &expected[format!("etcdutl_status_{name}")]);
        assert_eq!(inspection.file.trailer, Trailer::Ok, "{name}");
        assert_eq!(etcd.status_hash, status["hash"], "{name}");
        assert_eq!(etcd.revision, status["revision"], "{name}");
        assert_eq!(etcd.live_keys, status["totalKey"], "{name}");
        assert_eq!(etcd.db_bytes, status["totalSize"], "{name}");
        assert_eq!(etcd.storage_version.as_deref(), status["version"].as_str(), "{name}");
    }
}

#[test]
fn hash_kv_agrees_with_the_member_at_every_revision_it_answered() {
    let expected = data::json("tiny-expected.json");
    let mut compared = 0;
    for (name, image, list) in
        [("tiny-uncompacted.snap", UNCOMPACTED, "hashkv_before_compaction"), ("tiny.snap", TINY, "hashkv_after_compaction")]
    {
        let file = data::bytes(name);
        let contents = Contents::read(&file[..image]).unwrap();
        for answer in expected[list].as_array().unwrap() {
            let compacted = answer["compact_revision"].as_i64().unwrap();
            let asked = answer["asked_revision"].as_i64().unwrap();
            if answer["error"].is_string() {
                let error = contents.hash_kv_at(asked, contents.compact_revision()).unwrap_err();
                let expected = if asked < contents.compact_revision() { NoHash::Compacted(asked) } else { NoHash::Future(asked) };
                assert_eq!(error, expected, "{name}: {answer}");
            } else if compacted == contents.compact_revision() {
                let revision = answer["hash_revision"].as_i64().unwrap();
                assert_eq!(contents.hash_kv_at(revision, compacted).unwrap(), answer["hash"], "{name}: {answer}");
                compared += 1;
            }
        }
        assert_eq!(contents.hash_kv_at(contents.revision(), contents.compact_revision()), Ok(contents.hash_kv().unwrap()));
    }
    assert!(compared >= 8, "compared {compared} answers");
}

#[test]
fn the_live_set_is_that_of_the_real_server() {
    let file = data::bytes("tiny.snap");
    let contents = Contents::read(&file[..TINY]).unwrap();
    let live: Vec<_> = contents
        .live_rows()
        .map(|row| {
            let key = String::from_utf8(row.key.to_vec()).unwrap();
            (key, row.revision.main, holdfast::base::digest::Sha256::of(row.value).to_string())
        })
        .collect();
    let expected = data::json("tiny-expected.json");
    let text = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
    let row = |row: &Value| (text(row, "Key"), row["ModRev"].as_i64().unwrap(), text(row, "ValueSHA256"));
    assert_eq!(live, expected["live"].as_array().unwrap().iter().map(row).collect::<Vec<_>>());
    assert_eq!(contents.history_records(), 4);
}

#[test]
fn tiny_is_read_as_what_it_holds() {
    let inspection = inspect(&data::bytes("tiny.snap"), &[]);
    insta::assert_json_snapshot!("tiny", inspection);
}

#[test]
fn every_secret_of_tiny_opens_or_fails_as_expected() {
    let file = data::bytes("tiny.snap");
    let secrets = data::json("snapshot-secrets.json");
    let mut plaintexts = std::collections::HashMap::new();
    let configs = [config("all", local_keys())];
    let read = read_objects(&file[..TINY], &configs, &mut |object| {
        plaintexts.insert(object.etcd_key.to_vec(), (object.class, object.body.map(<[u8]>::to_vec)));
    });
    let read = read.unwrap();
    for secret in secrets.as_array().unwrap() {
        let etcd_key = secret["etcd_key"].as_str().unwrap();
        let (class, body) = &plaintexts[etcd_key.as_bytes()];
        let expected = data_encoding::BASE64.decode(secret["plaintext_b64"].as_str().unwrap().as_bytes()).unwrap();
        match (secret["expect"].as_str().unwrap(), secret["provider"].as_str().unwrap()) {
            ("ok", "kms-v1" | "kms-v2") => assert_eq!((*class, body), (ObjectClass::Kms, &None), "{etcd_key}"),
            ("ok", _) => assert_eq!(body.as_ref(), Some(&expected), "{etcd_key}"),
            _ => {
                assert_eq!(body, &None, "{etcd_key}");
                assert!(read.failures.iter().any(|failure| failure.etcd_key == etcd_key), "{etcd_key}");
            }
        }
    }
    assert_eq!((read.plain, read.opened, read.untried, read.failed), (6, 4, 3, 6));
    let clock = read.clock.unwrap();
    assert_eq!(clock.source, ClockSource::Creation, "its one Lease was never renewed");
    assert_eq!(clock.at, "2025-11-24T16:00:00Z".parse().unwrap());
    let lost = read.failures.iter().find(|failure| failure.name == "lost").unwrap();
    assert_eq!((lost.provider.as_str(), lost.key_name.as_str()), ("aescbc", "key-2019"));
    let moved = read.failures.iter().find(|failure| failure.name == "gcm-moved").unwrap();
    assert_eq!(moved.key_name, "key-2026");
    assert!(moved.reason.contains("message authentication failed"), "{}", moved.reason);
}

#[test]
fn tiny_with_all_its_local_keys_is_unrestorable_since_it_holds_lost_and_moved_values() {
    let keys = local_keys();
    let inspection = inspect(&data::bytes("tiny.snap"), &[config("all", keys.clone())]);
    assert_eq!((inspection.verdict, inspection.union_opens, inspection.exit()), (Verdict::Unrestorable, false, Exit::Bad));
    assert_eq!(problem(&inspection, "undecryptable").count, 2 + 3, "lost, moved, and three under a KMS that no list has");
    for key in &keys {
        let entry = entry(&inspection, key.provider().as_str(), key.name(), true);
        assert_eq!((entry.fingerprint.as_deref(), entry.live_objects), (Some(key.fingerprint().as_str()), 1));
    }
    assert_eq!(entry(&inspection, "aesgcm", "key-2026", false).proof, Proof::Failed);
    assert_eq!(entry(&inspection, "aescbc", "key-2019", false).proof, Proof::NoKey);
    let kms = entry(&inspection, "kmsv2", "barbican", false);
    assert_eq!((kms.proof, kms.live_objects), (Proof::NotTried, 2));
    assert_eq!(kms.fingerprint.as_deref(), Some("kms:barbican:b5309dfb-b326-4148-b0ad-e9cd1ec223a8"));
    assert_eq!(entry(&inspection, "kmsv1", "barbican", false).fingerprint.as_deref(), Some("kms1:barbican"));
}
