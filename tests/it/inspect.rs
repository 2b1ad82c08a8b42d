//! `inspect` against snapshots of a real etcd, and what the real tools said of them.

use holdfast::base::exit::Exit;
use holdfast::base::secret::Secret;
use holdfast::k8s::encryption_config::{EncryptionConfig, NamedConfig, Provider, Rule};
use holdfast::k8s::local_key::{LocalKey, LocalProvider};
use holdfast::record::manifest::{Proof, Severity};
use holdfast::scan::contents::{Contents, NoHash};
use holdfast::scan::inspection::{Inspection, KeyEntry, Trailer, Verdict};
use holdfast::scan::mapped::inspect;
use holdfast::scan::objects::{ObjectClass, read_objects};
use serde_json::Value;

use crate::data;

/// Length of the image of each snapshot, without its digest.
const TINY: usize = 36_864;
const UNCOMPACTED: usize = 28_672;

fn key(secret: &Value) -> Option<LocalKey> {
    let provider = LocalProvider::parse(secret["provider"].as_str().unwrap())?;
    let material = data_encoding::BASE64.decode(secret["key_b64"].as_str()?.as_bytes()).unwrap();
    Some(LocalKey::new(provider, secret["key_name"].as_str().unwrap(), Secret::new(material)).unwrap())
}

/// Every local key that `snapshot-secrets.json` holds, each once.
fn local_keys() -> Vec<LocalKey> {
    let mut keys: Vec<LocalKey> = Vec::new();
    for key in data::json("snapshot-secrets.json").as_array().unwrap().iter().filter_map(key) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys
}

fn config(name: &str, keys: Vec<LocalKey>) -> NamedConfig {
    let one = |key: LocalKey| Provider::of_keys(vec![key]).unwrap();
    let providers = keys.into_iter().map(one).chain([Provider::Identity]).collect();
    let config = EncryptionConfig { rules: vec![Rule { resources: vec!["secrets".to_owned()], providers }] };
    NamedConfig { name: name.to_owned(), config }
}

fn entry<'i>(inspection: &'i Inspection, provider: &str, name: &str, is_opened: bool) -> &'i KeyEntry {
    let found =
        |entry: &&KeyEntry| entry.provider == provider && entry.name == name && (entry.proof == Proof::Opened) == is_opened;
    inspection.keys.iter().find(found).unwrap_or_else(|| panic!("{provider} {name}: {:#?}", inspection.keys))
}

fn codes(inspection: &Inspection) -> Vec<&str> {
    inspection.problems.iter().map(|problem| problem.code.as_str()).collect()
}

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
