//! Would an API server read every live object?

use super::*;
use holdfast::scan::contents::Contents;
use holdfast::scan::inspection::Verdict;
use holdfast::scan::mapped::inspect;

#[test]
fn the_verdict_is_that_of_the_api_server_with_exactly_one_of_the_files() {
    let (one, two, other_one) = (gcm("key1", 1), gcm("key2", 2), gcm("key1", 3));
    let both = secrets(&[("a", &one), ("b", &two)]).snapshot();
    let verdict = |configs: &[NamedConfig]| {
        let inspection = inspect(&both, configs);
        (inspection.verdict, inspection.union_opens, inspection.exit())
    };
    use Verdict::{Restorable, Unknown, Unrestorable};
    assert_eq!(verdict(&[]), (Unknown, false, Exit::Good));
    assert_eq!(verdict(&[config("x", vec![one.clone(), two.clone()])]), (Restorable, true, Exit::Good));
    assert_eq!(verdict(&[config("x", vec![one.clone()])]), (Unrestorable, false, Exit::Bad));
    let apart = [config("x", vec![one.clone()]), config("y", vec![two.clone()])];
    assert_eq!(verdict(&apart), (Unrestorable, true, Exit::Bad));
    let best = [config("x", vec![one.clone()]), config("y", vec![two.clone(), one.clone()])];
    assert_eq!(verdict(&best), (Restorable, true, Exit::Good));
    assert_eq!(verdict(&[config("x", vec![other_one.clone(), two.clone()])]), (Unrestorable, false, Exit::Bad));
    // A wrong key of the same name does not stop the walk.
    assert_eq!(verdict(&[config("x", vec![other_one, one.clone(), two.clone()])]), (Restorable, true, Exit::Good));
    let elsewhere = listed("x", "configmaps", vec![Provider::of_keys(vec![one, two]).unwrap(), Provider::Identity]);
    assert_eq!(verdict(&[elsewhere]), (Unrestorable, false, Exit::Bad));
}

#[test]
fn plaintext_under_a_list_without_identity_is_unreadable() {
    let key = gcm("key1", 1);
    let file = EtcdImage::new().object("secrets/shop/a", "v1", "Secret").snapshot();
    let with = inspect(&file, &[config("x", vec![key.clone()])]);
    assert_eq!(with.verdict, Verdict::Restorable);
    let without = inspect(&file, &[listed("x", "secrets", vec![Provider::of_keys(vec![key]).unwrap()])]);
    assert_eq!((without.verdict, without.exit()), (Verdict::Unrestorable, Exit::Bad));
    assert_eq!(problem(&without, "undecryptable").count, 1);
    let none = inspect(&file, &[]);
    assert_eq!((none.verdict, none.union_opens, none.exit()), (Verdict::Restorable, true, Exit::Good));
}

#[test]
fn a_kms_that_is_not_asked_leaves_the_verdict_unknown_and_an_absent_one_decides_it() {
    let file = EtcdImage::new().put("/registry/secrets/shop/a", &kms_v2("barbican", "id-a")).snapshot();
    let verdict = |providers| inspect(&file, &[listed("x", "secrets", providers)]).verdict;
    assert_eq!(verdict(vec![kms("v2", "barbican"), Provider::Identity]), Verdict::Unknown);
    assert_eq!(verdict(vec![kms("v2", "other"), Provider::Identity]), Verdict::Unrestorable);
    assert_eq!(verdict(vec![kms("v1", "barbican"), Provider::Identity]), Verdict::Unrestorable);
}

#[test]
fn c_026_one_kms_provider_with_several_key_ids_needs_each_of_them() {
    let mut image = EtcdImage::new();
    for n in 0..37 {
        image.put(&format!("/registry/secrets/shop/b{n}"), &kms_v2("barbican", "B"));
    }
    for n in 0..3 {
        image.put(&format!("/registry/secrets/shop/a{n}"), &kms_v2("barbican", "A"));
    }
    let inspection = inspect(&image.snapshot(), &[]);
    let needs: Vec<_> = inspection.keys.iter().map(|key| (key.kms_key_id.as_deref().unwrap(), key.live_objects)).collect();
    assert_eq!(needs, [("A", 3), ("B", 37)]);
}

#[test]
fn c_025_objects_of_a_kms_provider_that_was_renamed_have_none() {
    let mut image = EtcdImage::new();
    let value = [&b"k8s:enc:kms:v1:kms-old:\x00\x40"[..], &[1; 64], &[2; 60]].concat();
    for n in 0..12 {
        image.put(&format!("/registry/secrets/shop/s{n}"), &value);
    }
    let file = image.snapshot();
    let inspection = inspect(&file, &[listed("x", "secrets", vec![kms("v2", "kms-new"), Provider::Identity])]);
    assert_eq!(inspection.verdict, Verdict::Unrestorable);
    let missing = problem(&inspection, "undecryptable");
    assert_eq!(missing.count, 12);
    assert!(missing.message.contains("kmsv1 \"kms-old\": 12 objects"), "{}", missing.message);
    let order = vec![kms("v2", "kms-new"), kms("v1", "kms-old"), Provider::Identity];
    assert_eq!(inspect(&file, &[listed("x", "secrets", order)]).verdict, Verdict::Unknown);
}

#[test]
fn a_value_moved_to_another_name_is_not_proof_of_its_key() {
    // secretbox and aescbc do not notice that a value was moved; here the object's own name tells.
    let file = data::bytes("tiny.snap");
    let contents = Contents::read(&file[..TINY]).unwrap();
    let value = contents.live_rows().find(|row| row.key.ends_with(b"/box")).unwrap().value.to_vec();
    let moved = EtcdImage::new().put("/registry/secrets/shop/other", &value).snapshot();
    let kept = EtcdImage::new().put("/registry/secrets/shop/box", &value).snapshot();
    let configs = [config("all", local_keys())];
    assert_eq!(inspect(&kept, &configs).verdict, Verdict::Restorable);
    let inspection = inspect(&moved, &configs);
    assert_eq!(inspection.verdict, Verdict::Unrestorable);
    assert_eq!(entry(&inspection, "secretbox", "key-2026", false).proof, Proof::Failed);
}

#[test]
fn c_014_each_resource_is_read_through_its_effective_list() {
    let key = gcm("key1", 1);
    let encrypting = || Provider::of_keys(vec![key.clone()]).unwrap();
    let rule = |resource: &str, providers| Rule { resources: vec![resource.to_owned()], providers };
    let config = |rules| [NamedConfig { name: "x".to_owned(), config: EncryptionConfig { rules } }];
    let mut image = EtcdImage::new();
    image.object("events/shop/e", "v1", "Event").object("services/specs/shop/web", "v1", "Service");
    add_secret(&mut image, "a", &key);
    // What has no endpoint is stored through lists too: `ranges` through that of services.
    for (path, kind) in [("ranges/serviceips", "RangeAllocation"), ("masterleases/192.0.2.1", "Endpoints")] {
        image.put(&format!("/registry/{path}"), &sealed(&key, path, &json_object(path, "v1", kind)));
    }
    let file = image.snapshot();
    let verdict = |rules| inspect(&file, &config(rules)).verdict;
    let all = || rule("*.*", vec![encrypting(), Provider::Identity]);
    assert_eq!(verdict(vec![rule("events", vec![Provider::Identity]), all()]), Verdict::Restorable);
    assert_eq!(verdict(vec![rule("events", vec![encrypting()]), all()]), Verdict::Unrestorable, "events in the clear");
    assert_eq!(verdict(vec![rule("services", vec![Provider::Identity]), all()]), Verdict::Unrestorable, "ranges");
    assert_eq!(verdict(vec![rule("secrets", vec![encrypting()])]), Verdict::Unrestorable, "masterleases");
    let needs = &inspect(&file, &config(vec![all()])).keys[0];
    assert_eq!((needs.live_objects, &needs.resources[..]), (3, &["masterleases", "ranges", "secrets"].map(str::to_owned)[..]));
}
