//! Every problem, each with its twin that has none.

use super::*;
use crate::etcd_image::{with_digest, with_high_water};
use holdfast::scan::inspection::{Trailer, Verdict};
use holdfast::scan::mapped::inspect;
use holdfast::scan::objects::read_objects;

#[test]
fn a_clean_snapshot_has_no_problem() {
    let inspection = inspect(&EtcdImage::new().object("configmaps/shop/a", "v1", "ConfigMap").snapshot(), &[]);
    assert_eq!(codes(&inspection), Vec::<&str>::new());
    assert_eq!((inspection.verdict, inspection.exit()), (Verdict::Restorable, Exit::Good));
}

#[test]
fn c_050_a_raw_copy_is_never_called_whole() {
    let inspection = inspect(&data::bytes("branchy.db"), &[]);
    assert_eq!(inspection.file.trailer, Trailer::Missing);
    assert_problem(&inspection, "trailer-missing", Severity::Error, 1);
    let mut tiny = data::bytes("tiny.snap");
    tiny.truncate(TINY);
    let inspection = inspect(&tiny, &[]);
    assert_problem(&inspection, "trailer-missing", Severity::Error, 1);
    assert_eq!(inspection.etcd.unwrap().revision, 28, "a raw copy is read all the same");
}

#[test]
fn c_070_an_empty_file_is_no_snapshot() {
    let inspection = inspect(b"", &[]);
    assert_eq!(codes(&inspection), ["trailer-missing", "structure-broken"]);
    assert_eq!((inspection.etcd, inspection.prefix, inspection.verdict), (None, None, Verdict::Unrestorable));
}

#[test]
fn a_flipped_byte_anywhere_is_a_trailer_mismatch() {
    let file = EtcdImage::new().object("configmaps/shop/a", "v1", "ConfigMap").snapshot();
    for at in (0..file.len()).step_by(97).chain([file.len() - 1]) {
        let mut flipped = file.clone();
        flipped[at] ^= 1;
        let inspection = inspect(&flipped, &[]);
        assert_problem(&inspection, "trailer-mismatch", Severity::Error, 1);
    }
}

#[test]
fn cut_snapshots_and_trailing_garbage_are_told() {
    let file = data::bytes("tiny.snap");
    // A cut that leaves 32 bytes over a sector looks complete by its length.
    let inspection = inspect(&file[..20 * 512 + 32], &[]);
    assert_eq!(codes(&inspection), ["trailer-mismatch", "structure-broken"]);
    let inspection = inspect(&[&file[..], &[0; 512]].concat(), &[]);
    assert_eq!(codes(&inspection)[0], "trailer-mismatch");
    let inspection = inspect(&[&file[..], b"x"].concat(), &[]);
    assert_eq!(codes(&inspection)[0], "trailer-missing");
}

#[test]
fn broken_structure_is_told_even_under_a_right_digest() {
    let mut image = data::bytes("tiny.snap");
    image.truncate(TINY);
    image[8 * 4096] ^= 1; // the id of a leaf of bucket `key`
    let inspection = inspect(&with_digest(&image), &[]);
    assert_eq!(inspection.file.trailer, Trailer::Ok);
    assert_problem(&inspection, "structure-broken", Severity::Error, 1);
    assert_eq!((inspection.etcd.is_none(), inspection.prefix, inspection.verdict), (true, None, Verdict::Unrestorable));
    let garbage = EtcdImage::new().pair("key", b"no revision", b"").snapshot();
    assert_problem(&inspect(&garbage, &[]), "structure-broken", Severity::Error, 1);
    let foreign = EtcdImage::default().pair("v1", b"sandboxes", b"").snapshot();
    assert!(problem(&inspect(&foreign, &[]), "structure-broken").message.contains("not of etcd"));
}

#[test]
fn a_damaged_meta_page_is_told_and_the_other_one_read() {
    let mut image = data::bytes("tiny.snap");
    image.truncate(TINY);
    image[20] ^= 1;
    let inspection = inspect(&with_digest(&image), &[]);
    assert_problem(&inspection, "meta-damaged", Severity::Warning, 1);
    assert_eq!(inspection.etcd.unwrap().status_hash, 3_261_820_160);
}

#[test]
fn alarms_and_auth_are_told() {
    let mut image = EtcdImage::new();
    image.pair("alarm", b"\x08\x0a\x10\x01", b"").pair("auth", b"authEnabled", &[1]);
    let inspection = inspect(&image.snapshot(), &[]);
    assert_problem(&inspection, "alarm-nospace", Severity::Warning, 1);
    assert_problem(&inspection, "auth-enabled", Severity::Warning, 1);
    assert_eq!(inspection.exit(), Exit::Good);
    let inspection = inspect(&image.pair("alarm", b"\x08\x0b\x10\x02", b"").snapshot(), &[]);
    assert_problem(&inspection, "alarm-corrupt", Severity::Error, 1);
    let off = EtcdImage::new().pair("auth", b"authEnabled", &[0]).snapshot();
    assert_eq!(codes(&inspect(&off, &[])), Vec::<&str>::new());
}

#[test]
fn c_002_objects_that_no_given_key_opens_are_counted_with_the_key_they_need() {
    let (one, two) = (gcm("key1", 1), gcm("key2", 2));
    let mut image = EtcdImage::new();
    for n in 0..37 {
        add_secret(&mut image, &format!("new{n}"), &two);
    }
    for n in 0..3 {
        add_secret(&mut image, &format!("old{n}"), &one);
    }
    let file = image.snapshot();
    let inspection = inspect(&file, &[config("x", vec![two.clone()])]);
    assert_problem(&inspection, "undecryptable", Severity::Error, 3);
    let message = &problem(&inspection, "undecryptable").message;
    assert!(message.contains("aesgcm \"key1\": 3 objects, no key of this name"), "{message}");
    assert!(!message.contains("old"), "a manifest must not name objects: {message}");
    let read = read_objects(&image.image(), &[config("x", vec![two.clone()])], &mut |_| ()).unwrap();
    assert_eq!(read.failures.iter().map(|failure| failure.name.as_str()).collect::<Vec<_>>(), ["old0", "old1", "old2"]);
    let whole = inspect(&file, &[config("x", vec![two, one])]);
    assert_eq!(codes(&whole), ["stale-key"]);
    assert_problem(&whole, "stale-key", Severity::Warning, 3);
}

#[test]
fn c_004_one_name_for_different_keys_is_told() {
    let (here, there) = (gcm("key1", 1), gcm("key1", 2));
    let file = secrets(&[("a", &here)]).snapshot();
    let inspection = inspect(&file, &[config("h1", vec![here.clone()]), config("h2", vec![there])]);
    assert_problem(&inspection, "ambiguous-key-name", Severity::Warning, 1);
    assert_eq!(inspection.verdict, Verdict::Restorable, "the host with the right material reads it");
    let agreed = inspect(&file, &[config("h1", vec![here.clone()]), config("h2", vec![here])]);
    assert_eq!(codes(&agreed), Vec::<&str>::new());
}

#[test]
fn a_name_with_a_colon_is_found_with_its_configuration_and_marked_without() {
    let key = gcm("rotation:2026", 1);
    let file = secrets(&[("a", &key), ("b", &key)]).snapshot();
    let with = inspect(&file, &[config("x", vec![key.clone()])]);
    assert_eq!((with.keys[0].name.as_str(), codes(&with)), ("rotation:2026", vec![]));
    let without = inspect(&file, &[]);
    assert_eq!(without.keys[0].name, "rotation");
    assert_problem(&without, "ambiguous-key-name", Severity::Warning, 1);
}

#[test]
fn c_010_a_key_that_is_text_is_weak() {
    let text = LocalKey::new(LocalProvider::Aesgcm, "k", Secret::new(b"thirty-one characters and a one\n".to_vec())).unwrap();
    let file = secrets(&[("a", &text)]).snapshot();
    assert_problem(&inspect(&file, &[config("x", vec![text])]), "weak-key", Severity::Warning, 1);
    let random = gcm("k", 1);
    let file = secrets(&[("a", &random)]).snapshot();
    assert_eq!(codes(&inspect(&file, &[config("x", vec![random])])), Vec::<&str>::new());
}

#[test]
fn c_011_identity_first_is_told_and_counts_come_from_the_bytes() {
    let key = gcm("key1", 1);
    let mut image = secrets(&[("e0", &key), ("e1", &key), ("e2", &key), ("e3", &key), ("e4", &key)]);
    for n in 0..10 {
        image.object(&format!("secrets/shop/p{n}"), "v1", "Secret");
    }
    let file = image.snapshot();
    let first = listed("x", "secrets", vec![Provider::Identity, Provider::of_keys(vec![key.clone()]).unwrap()]);
    let inspection = inspect(&file, &[first]);
    assert_problem(&inspection, "writes-plaintext", Severity::Warning, 1);
    assert_problem(&inspection, "plaintext-secrets", Severity::Warning, 10);
    let row = &inspection.resources[0];
    assert_eq!((row.live, row.encrypted, row.plaintext), (15, 5, 10));
    let last = inspect(&file, &[config("x", vec![key])]);
    assert!(!codes(&last).contains(&"writes-plaintext"));
}

#[test]
fn c_013_custom_resources_that_should_be_encrypted_are_scanned() {
    let key = gcm("key1", 1);
    let mut image = EtcdImage::new();
    image.object("configmaps/shop/a", "v1", "ConfigMap").object("nodes/x", "v1", "Node");
    let group = "management.cattle.io";
    for n in 0..6 {
        image.object(&format!("{group}/tokens/p{n}"), "management.cattle.io/v3", "Token");
    }
    for n in 0..2 {
        let path = format!("{group}/tokens/e{n}");
        let token =
            serde_json::json!({"apiVersion": "management.cattle.io/v3", "kind": "Token", "metadata": {"name": format!("e{n}")}});
        image.put(&format!("/registry/{path}"), &sealed(&key, &path, token.to_string().as_bytes()));
    }
    let providers = vec![Provider::of_keys(vec![key]).unwrap(), Provider::Identity];
    let inspection = inspect(&image.snapshot(), &[listed("x", "tokens.management.cattle.io", providers)]);
    assert_eq!(inspection.verdict, Verdict::Restorable);
    let told = problem(&inspection, "plaintext-secrets");
    assert_eq!(told.count, 6);
    assert!(told.message.contains("6 of 8 tokens.management.cattle.io"), "{}", told.message);
    assert_eq!(inspection.keys[0].resources, ["tokens.management.cattle.io"]);
}

#[test]
fn c_017_encrypted_data_without_a_configuration_is_unknown_not_corrupt() {
    let file = secrets(&[("a", &gcm("key1", 1))]).snapshot();
    let inspection = inspect(&file, &[]);
    assert_eq!((inspection.verdict, inspection.exit(), codes(&inspection)), (Verdict::Unknown, Exit::Good, vec![]));
    assert_eq!(inspection.keys[0].proof, Proof::NoKey);
}

#[test]
fn old_plaintext_in_free_pages_is_told_and_not_counted() {
    let inspection = inspect(&data::bytes("tiny.snap"), &[]);
    assert_problem(&inspection, "free-page-plaintext", Severity::Info, 1);
    // A whole leaf of rows with a plain Secret, in a page that nothing reaches.
    let mut old = EtcdImage::new().object("secrets/shop/old", "v1", "Secret").image();
    let leaf = old.chunks(4096).position(|page| page.windows(7).any(|text| text == b"\"Secret")).unwrap();
    let mut page = old.drain(leaf * 4096..(leaf + 1) * 4096).collect::<Vec<u8>>();
    let mut image = EtcdImage::new().object("configmaps/shop/a", "v1", "ConfigMap").image();
    let pages = (image.len() / 4096) as u64;
    page[..8].copy_from_slice(&pages.to_le_bytes());
    image.extend(page);
    let grown = with_high_water(&image, pages + 1);
    let inspection = inspect(&with_digest(&grown), &[]);
    assert_problem(&inspection, "free-page-plaintext", Severity::Info, 1);
    assert!(problem(&inspection, "free-page-plaintext").message.contains("1 Secret among them"));
    assert_eq!(inspection.resources.len(), 1, "free pages are not live data");
    assert_eq!(inspection.exit(), Exit::Good);
}
