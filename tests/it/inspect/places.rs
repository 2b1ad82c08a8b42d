//! Where keys lie, and what is live.

use super::*;
use crate::etcd_image::revision_bytes;
use holdfast::scan::contents::{Contents, NoHash};
use holdfast::scan::inspection::Verdict;
use holdfast::scan::mapped::inspect;

#[test]
fn c_047_what_has_no_endpoint_and_what_is_not_kubernetes_is_counted_apart() {
    let mut image = EtcdImage::new();
    image.object("configmaps/shop/a", "v1", "ConfigMap").object("minions/cp-1", "v1", "Node");
    image.object("services/specs/shop/web", "v1", "Service");
    image.put("/registry/masterleases/192.0.2.1", &json_object("masterleases/192.0.2.1", "v1", "Endpoints"));
    image.put("/registry/ranges/serviceips", &json_object("x", "v1", "RangeAllocation"));
    image.put("compact_rev_key", b"7").put("/calico/ipam/v2/host/a", b"{}").put("/calico/x", b"1");
    let inspection = inspect(&image.snapshot(), &[]);
    let other: Vec<_> = inspection.other.iter().map(|other| (other.prefix.as_str(), other.live)).collect();
    assert_eq!(other, [("/calico", 2), ("/registry/masterleases", 1), ("/registry/ranges", 1), ("compact_rev_key", 1)]);
    let resources: Vec<_> = inspection.resources.iter().map(|row| row.resource.as_str()).collect();
    assert_eq!(resources, ["configmaps", "nodes", "services"]);
    assert_eq!((inspection.verdict, codes(&inspection)), (Verdict::Restorable, vec![]));
}

#[test]
fn another_prefix_is_learnt_and_no_kubernetes_has_none() {
    let object = json_object("configmaps/shop/a", "v1", "ConfigMap");
    let file = EtcdImage::new().put("/other/prefix/configmaps/shop/a", &object).snapshot();
    assert_eq!(inspect(&file, &[]).prefix.as_deref(), Some("/other/prefix"));
    let inspection = inspect(&EtcdImage::new().put("/calico/x", b"1").snapshot(), &[]);
    assert_eq!((inspection.prefix, inspection.verdict), (None, Verdict::Restorable));
    assert_eq!(inspection.other[0].prefix, "/calico");
}

#[test]
fn keys_of_older_records_are_counted_apart_from_needed_ones() {
    let (old, new) = (gcm("key1", 1), gcm("key2", 2));
    let mut image = secrets(&[("a", &old), ("a", &new), ("b", &old)]);
    image.delete("/registry/secrets/shop/b");
    let inspection = inspect(&image.snapshot(), &[config("x", vec![new, old])]);
    let counts: Vec<_> = inspection.keys.iter().map(|key| (key.name.as_str(), key.live_objects, key.history_objects)).collect();
    assert_eq!(counts, [("key1", 0, 2), ("key2", 1, 0)]);
    let etcd = inspection.etcd.unwrap();
    assert_eq!((etcd.live_keys, etcd.history_records, etcd.revision), (1, 3, 5));
    assert_eq!(inspection.verdict, Verdict::Restorable);
}

#[test]
fn c_041_a_bumped_store_hashes_as_the_restored_member_does() {
    let file = data::bytes("tiny.snap");
    let image = EtcdImage::of(&file[..TINY]).pair("key", &revision_bytes(1028), b"").image();
    let contents = Contents::read(&image).unwrap();
    assert_eq!(contents.revision(), 1028);
    assert_eq!(contents.hash_kv_at(1028, 1028), Ok(2_488_594_744));
    assert_eq!(contents.live_rows().count(), 20, "the empty key is not shown");
    assert_eq!(contents.hash_kv_at(1029, 1028), Err(NoHash::Future(1029)));
    assert_eq!(contents.hash_kv_at(1000, 1028), Err(NoHash::Compacted(1000)));
}

#[test]
fn the_group_of_an_unlisted_resource_is_that_of_its_objects() {
    let key = gcm("key1", 1);
    let mut image = EtcdImage::new();
    image.object("configmaps/shop/a", "v1", "ConfigMap");
    image.object("podpresets/shop/plain", "settings.k8s.io/v1alpha1", "PodPreset");
    let path = "podpresets/shop/sealed";
    let object = json_object(path, "settings.k8s.io/v1alpha1", "PodPreset");
    image.put(&format!("/registry/{path}"), &sealed(&key, path, &object));
    let rows = |configs: &[NamedConfig]| {
        let inspection = inspect(&image.snapshot(), configs);
        inspection.resources.iter().map(|row| (row.group.clone(), row.live, row.encrypted)).collect::<Vec<_>>()
    };
    let settings = "settings.k8s.io".to_owned();
    assert_eq!(rows(&[config("x", vec![key.clone()])]), [(String::new(), 1, 0), (settings.clone(), 2, 1)]);
    // Without its key the object does not say its group.
    assert_eq!(rows(&[]), [(String::new(), 1, 0), (String::new(), 1, 1), (settings, 1, 0)]);
}
