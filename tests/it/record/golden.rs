//! One record of each kind, byte for byte, with its signature.

use holdfast::base::digest::Sha256;
use holdfast::record::attestation::{Attestation, Opening, ReportRecord};
use holdfast::record::escrow::EscrowRecord;
use holdfast::record::host::{EncryptionShape, HostRecord, KeyShape, ProviderShape, RuleShape};
use holdfast::record::layout::Layout;
use holdfast::record::manifest::{
    Bundle, Cluster, Image, KeyNeed, Manifest, Member, Object, Problem, Proof, Quality, RecordRef, Recovery, ResourceCount,
    Severity, Taken,
};
use holdfast::record::receipt::Receipt;
use holdfast::record::signature::{AllowedSigners, sign_record, verify_ledger_manifest, verify_record};
use holdfast::record::{Link, ObjectRef, Record, Rung, canonical};
use jiff::tz::TimeZone;

use super::ssh_keygen;
use crate::test_key;

const ESCROW_STEM: &str = "backup/prod/keys/hf1-00112233445566778899aabbccddeeff/20261201T130000Z-cp-1-0a1b2c3d";

fn digest(of: &str) -> Sha256 {
    Sha256::of(of.as_bytes())
}

fn link(name: &str, seq: u64) -> Link {
    Link { name: name.parse().unwrap(), seq, prev: (seq > 1).then(|| digest("the record before")) }
}

fn record_ref(key: &str) -> RecordRef {
    RecordRef { key: key.into(), sha256: digest(key) }
}

pub fn manifest() -> Manifest {
    let folder = "backup/prod/2089a0106116e0fd/20261201T130509Z-0a1b2c3d";
    Manifest {
        schema: 1,
        path: format!("{folder}/manifest.json"),
        signer: link("cp-1", 3),
        id: "20261201T130509Z-0a1b2c3d".parse().unwrap(),
        cluster: Cluster { name: "prod".parse().unwrap(), lineage: "2089a0106116e0fd".parse().unwrap() },
        quality: Quality::Good,
        taken: Taken {
            slot: None,
            started: "2026-12-01T13:05:09Z".into(),
            finished: "2026-12-01T13:05:11Z".into(),
            host: "cp-1".parse().unwrap(),
            clock_offset_ms: Some(-12),
            member: Member { id: "8e9e05c52164694d".into(), name: "cp-1".into(), version: "3.6.16".into(), leader: true, lag: 0 },
        },
        image: Image {
            bytes: 20_480,
            sha256: digest("image"),
            revision: 1234,
            compact_revision: -1,
            hash_kv: 4_000_000_000,
            status_hash: 1,
            storage_version: Some("3.6.0".into()),
            live_keys: 17,
            history_records: 3,
            free_page_bytes: 4096,
        },
        object: Object {
            key: format!("{folder}/etcd.db.zst.age"),
            version_id: None,
            bytes: 4711,
            sha256: digest("object"),
            parts: vec![ObjectRef { key: "part".into(), version_id: Some("v1".into()), bytes: 4711, sha256: digest("part") }],
            retention_asked: None,
        },
        sealed_to: vec!["age1qyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqs3290gq".into()],
        resources: vec![ResourceCount { group: String::new(), resource: "secrets".into(), live: 5, encrypted: 4, plaintext: 1 }],
        keys: vec![KeyNeed {
            provider: "aescbc".into(),
            name: "key1".into(),
            kms_key_id: None,
            fingerprint: Some("hf1-00112233445566778899aabbccddeeff".into()),
            material: None,
            live_objects: 4,
            resources: vec!["secrets".into()],
            proof: Proof::Opened,
            escrow_record: Some(record_ref(&format!("{ESCROW_STEM}.json"))),
        }],
        recovery: Some(Recovery { common: Some(Bundle { digest: digest("bundle") }), host: None }),
        restore_md_sha256: digest("restore"),
        problems: vec![Problem {
            code: "plaintext-secrets".into(),
            severity: Severity::Warning,
            message: "1 Secret is stored in clear".into(),
            count: 1,
        }],
        tool: "holdfast 0.1.0".into(),
    }
}

fn escrow() -> EscrowRecord {
    EscrowRecord {
        schema: 1,
        path: format!("{ESCROW_STEM}.json"),
        signer: link("cp-1", 0),
        fingerprint: "hf1-00112233445566778899aabbccddeeff".parse().unwrap(),
        provider: "aescbc".into(),
        name: "key1".into(),
        host: "cp-1".parse().unwrap(),
        sealed: ObjectRef { key: format!("{ESCROW_STEM}.age"), version_id: None, bytes: 400, sha256: digest("sealed") },
        sealed_to: vec!["age1qyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqs3290gq".into()],
        deposited: "2026-12-01T13:00:00Z".into(),
        tool: "holdfast 0.1.0".into(),
    }
}

fn receipt() -> Receipt {
    Receipt {
        schema: 1,
        path: "backup/prod/receipts/hf1-00112233445566778899aabbccddeeff/20261201T130000Z-cp-1-0a1b2c3d.json".into(),
        signer: link("cp-1", 1),
        fingerprint: "hf1-00112233445566778899aabbccddeeff".parse().unwrap(),
        provider: "aescbc".into(),
        name: "key1".into(),
        store: "fs /srv/escrow".into(),
        escrow_record: record_ref(&format!("{ESCROW_STEM}.json")),
        sealed_to: vec!["age1qyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqs3290gq".into()],
        deposited: "2026-12-01T13:00:00Z".into(),
        tool: "holdfast 0.1.0".into(),
    }
}

fn host() -> HostRecord {
    let key = KeyShape { name: "key1".into(), fingerprint: "hf1-00112233445566778899aabbccddeeff".parse().unwrap() };
    let kms = ProviderShape::Kms {
        api_version: "v2".into(),
        name: "vault".into(),
        endpoint: "unix:///run/kms.sock".into(),
        timeout: Some("3s".into()),
        cachesize: None,
    };
    HostRecord {
        schema: 1,
        path: "backup/prod/hosts/cp-1/20261201T130000Z-0a1b2c3d.json".into(),
        signer: link("cp-1", 2),
        cluster: "prod".parse().unwrap(),
        host: "cp-1".parse().unwrap(),
        observed: "2026-12-01T13:00:00Z".into(),
        clock_offset_ms: None,
        encryption: Some(EncryptionShape {
            file_sha256: digest("file"),
            rules: vec![RuleShape {
                resources: vec!["secrets".into()],
                providers: vec![ProviderShape::Aescbc { keys: vec![key] }, kms, ProviderShape::Identity {}],
            }],
        }),
        tool: "holdfast 0.1.0".into(),
    }
}

fn attestation() -> Attestation {
    Attestation {
        schema: 1,
        path: "backup/prod/attestations/2089a0106116e0fd/20261201T130509Z-0a1b2c3d/20261201T140000Z-4e5f6a7b.json".into(),
        signer: link("rehearsal-1", 1),
        run: "20261201T140000Z-4e5f6a7b".parse().unwrap(),
        cluster: "prod".parse().unwrap(),
        lineage: "2089a0106116e0fd".parse().unwrap(),
        snapshot: "20261201T130509Z-0a1b2c3d".parse().unwrap(),
        manifest: record_ref("backup/prod/2089a0106116e0fd/20261201T130509Z-0a1b2c3d/manifest.json"),
        host: "rehearsal-1".parse().unwrap(),
        started: "2026-12-01T14:00:00Z".into(),
        finished: "2026-12-01T14:00:21Z".into(),
        asked: Rung::Serve,
        reached: Some(Rung::Boot),
        passed: false,
        failure: Some("rehearsal.not-ready".into()),
        escrow_opened: vec![Opening {
            fingerprint: "hf1-00112233445566778899aabbccddeeff".parse().unwrap(),
            escrow_record: record_ref(&format!("{ESCROW_STEM}.json")),
        }],
        rto_ms: 20_500,
        rpo_ms: Some(3_300_000),
        report: None,
        tool: "holdfast 0.1.0".into(),
    }
}

fn report() -> ReportRecord {
    ReportRecord {
        schema: 1,
        path: "backup/prod/runs/20261201T140000Z-4e5f6a7b/report.json".into(),
        signer: link("rehearsal-1", 2),
        run: "20261201T140000Z-4e5f6a7b".parse().unwrap(),
        snapshot: "20261201T130509Z-0a1b2c3d".parse().unwrap(),
        written: "2026-12-01T14:00:22Z".into(),
        previous_report: None,
        report: serde_json::json!({"verdict": "failed", "steps": [], "a": {"z": 1, "b": null}}),
        tool: "holdfast 0.1.0".into(),
    }
}

/// Compares with the checked-in bytes, verifies the checked-in signature with
/// the real program and ours, and sees both refuse an altered byte.
fn check<R: Record + PartialEq + std::fmt::Debug>(kind: &str, record: &R, at: &str) {
    let (json, sig) = (test_key::data(&format!("{kind}.json")), test_key::data(&format!("{kind}.json.sig")));
    if std::env::var_os("BLESS").is_some() {
        let signed = sign_record(&test_key::signer(record.signer().name.as_str()), record).unwrap();
        std::fs::write(&json, signed.bytes).unwrap();
        std::fs::write(&sig, signed.signature).unwrap();
    }
    let (bytes, signature) = (std::fs::read(json).unwrap(), std::fs::read(sig).unwrap());
    assert_eq!(String::from_utf8_lossy(&bytes), String::from_utf8_lossy(&canonical::to_bytes(record).unwrap()), "{kind}");

    let list = std::fs::read_to_string(test_key::data("allowed_signers")).unwrap();
    let accepts = |bytes: &[u8]| ssh_keygen::accepts(&list, record.signer().name.as_str(), R::NAMESPACE, bytes, &signature, at);
    let allowed = AllowedSigners::parse("allowed_signers", &list, &TimeZone::UTC).unwrap();
    let ours = |bytes: &[u8]| verify_record::<R>(record.path(), bytes, &signature, &allowed);
    assert!(accepts(&bytes), "{kind}");
    assert_eq!(&ours(&bytes).unwrap(), record);

    let altered = String::from_utf8(bytes).unwrap().replace("0.1.0", "0.1.1").into_bytes();
    assert!(!accepts(&altered), "{kind}");
    assert_eq!(ours(&altered).unwrap_err().code().name, "record.bad-signature");
}

#[test]
fn every_kind_of_record_has_the_bytes_and_signature_it_always_had() {
    check("manifest", &manifest(), "20261201130511Z");
    check("escrow", &escrow(), "20261201130000Z");
    check("receipt", &receipt(), "20261201130000Z");
    check("host", &host(), "20261201130000Z");
    check("attestation", &attestation(), "20261201140021Z");
    check("report", &report(), "20261201140022Z");
}

#[test]
fn a_record_moved_to_another_path_is_refused() {
    let signer = test_key::signer("cp-1");
    let signed = sign_record(&signer, &receipt()).unwrap();
    let elsewhere = receipt().path.replace("0a1b2c3d", "ffffffff");
    let failure =
        verify_record::<Receipt>(&elsewhere, &signed.bytes, signed.signature.as_bytes(), &test_key::allowed(&[&signer]));
    assert_eq!(failure.unwrap_err().code().name, "record.misplaced");
}

#[test]
fn a_record_of_one_kind_is_never_read_as_another() {
    let signer = test_key::signer("cp-1");
    let signed = sign_record(&signer, &receipt()).unwrap();
    let read = verify_record::<EscrowRecord>(
        &receipt().path,
        &signed.bytes,
        signed.signature.as_bytes(),
        &test_key::allowed(&[&signer]),
    );
    assert_eq!(read.unwrap_err().code().name, "record.bad-signature");
}

#[test]
fn a_newer_schema_is_named_only_once_its_signature_is_good() {
    let signer = test_key::signer("cp-1");
    let newer = Receipt { schema: 2, ..receipt() };
    let signed = sign_record(&signer, &newer).unwrap();
    let verify = |signature: &str| {
        verify_record::<Receipt>(&newer.path, &signed.bytes, signature.as_bytes(), &test_key::allowed(&[&signer])).unwrap_err()
    };
    assert!(verify(&signed.signature).cause().contains("schema 2"));
    let forged = test_key::stranger("cp-1").sign(Receipt::NAMESPACE, &signed.bytes).unwrap();
    assert_eq!(verify(&forged).code().name, "record.bad-signature");
}

#[test]
fn the_ledgers_copy_of_a_manifest_lies_under_the_lineage_and_id_of_its_home() {
    let signer = test_key::signer("cp-1");
    let allowed = test_key::allowed(&[&signer]);
    let layout = |prefix: &str, cluster: &str| Layout::new(prefix, &cluster.parse().unwrap());
    let verify = |layout: &Layout, path: &str, manifest: &Manifest| {
        let signed = sign_record(&signer, manifest).unwrap();
        verify_ledger_manifest(layout, path, &signed.bytes, signed.signature.as_bytes(), &allowed)
    };
    // The ledger may have another prefix than the snapshot store.
    for prefix in ["", "ledger", "a/b"] {
        let layout = layout(prefix, "prod");
        let path = layout.ledger_manifest(&manifest().cluster.lineage, &manifest().id);
        assert_eq!(verify(&layout, &path, &manifest()).unwrap(), manifest());
    }
    let prod = layout("ledger", "prod");
    let path = "ledger/prod/manifests/2089a0106116e0fd/20261201T130509Z-0a1b2c3d.json";
    let other_home = Manifest { path: manifest().path.replace("0a1b2c3d", "ffffffff"), ..manifest() };
    let other_id = Manifest { id: "20261201T130509Z-ffffffff".parse().unwrap(), ..manifest() };
    for (layout, path, manifest) in [
        (&prod, path.replace("0a1b2c3d", "ffffffff"), manifest()),
        (&prod, path.replace("2089a0106116e0fd", "0000000000000001"), manifest()),
        (&layout("ledger", "test"), path.replace("prod", "test"), manifest()),
        (&prod, path.to_owned(), other_home),
        (&prod, path.to_owned(), other_id),
    ] {
        assert_eq!(verify(layout, &path, &manifest).unwrap_err().code().name, "record.misplaced", "{path}");
    }
}

#[test]
fn a_signer_signs_in_no_other_name() {
    let failure = sign_record(&test_key::signer("cp-2"), &receipt()).unwrap_err();
    assert_eq!(failure.code().name, "record.invalid");
}

#[test]
fn hostile_bytes_are_refused_without_a_panic() {
    let allowed = test_key::allowed(&[&test_key::signer("cp-1")]);
    let good = canonical::to_bytes(&receipt()).unwrap();
    let deep = format!("{{\"schema\":{}", "[".repeat(100_000));
    let mut inputs: Vec<Vec<u8>> = vec![vec![], b"{}".to_vec(), b"null".to_vec(), vec![0xff; 64], deep.into_bytes()];
    inputs.push(b"{\"schema\":1,\"signer\":{\"name\":\"../x\"},\"deposited\":\"2026-12-01T13:00:00Z\"}".to_vec());
    inputs.push(b"{\"schema\":1,\"signer\":{\"name\":\"cp-1\"},\"deposited\":\"never\"}".to_vec());
    // What lacks the last newline alone still parses, and its signature is wrong.
    inputs.extend((0..good.len() - 1).step_by(7).map(|cut| good[..cut].to_vec()));
    for bytes in inputs {
        let failure = verify_record::<Receipt>("r.json", &bytes, b"", &allowed).unwrap_err();
        assert_eq!(failure.code().name, "record.invalid", "{}", String::from_utf8_lossy(&bytes));
    }
}
