//! The bbolt reader against real files, damaged files and hostile files.

use holdfast::bolt::{Bucket, Damage, Database, Found};
use proptest::prelude::*;
use serde_json::Value;

use crate::data;

/// Of a bucket: path, sequence, root page, keys, and the digest over its pairs.
type Row = (Vec<String>, u64, u64, u64, String);

fn digests(bytes: &[u8]) -> Result<Vec<Row>, Damage> {
    Database::open(bytes)?.verify(&mut |_| ())?;
    let mut all = Vec::new();
    collect(&mut Vec::new(), Database::open(bytes)?.root(), &mut all)?;
    Ok(all)
}

fn collect(path: &mut Vec<String>, bucket: Bucket<'_>, all: &mut Vec<Row>) -> Result<(), Damage> {
    let (mut keys, mut hasher) = (0, holdfast::base::digest::Hasher::default());
    for item in bucket.items() {
        let item = item?;
        if let Some(inner) = item.bucket {
            path.push(String::from_utf8_lossy(item.key).into_owned());
            collect(path, inner, all)?;
            path.pop();
            continue;
        }
        keys += 1;
        for part in [item.key, item.value] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
    }
    if !path.is_empty() {
        all.push((path.clone(), bucket.sequence(), bucket.root_page(), keys, hasher.finish().to_string()));
    }
    Ok(())
}

fn expected(branchy: &Value) -> Vec<Row> {
    let buckets = branchy["buckets"].as_array().unwrap();
    let row = |bucket: &Value| {
        let path = bucket["path"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect();
        let number = |name: &str| bucket[name].as_u64().unwrap();
        let digest = bucket["sha256_of_len_prefixed_pairs"].as_str().unwrap().to_owned();
        (path, number("sequence"), number("root_page"), number("keys"), digest)
    };
    buckets.iter().map(row).collect()
}

fn sorted<T: Ord>(mut rows: Vec<T>) -> Vec<T> {
    rows.sort();
    rows
}

/// The file with the damage that `corruption` describes.
fn damaged(file: &[u8], corruption: &Value) -> Vec<u8> {
    let mut bytes = file.to_vec();
    match corruption["id"].as_str().unwrap() {
        "both-metas-magic" => {
            bytes[16..20].fill(0);
            bytes[1040..1044].fill(0);
        }
        "both-metas-version-3" => {
            for meta in [16, 1040] {
                bytes[meta + 4] = 3;
                let sum = fnv1a(&bytes[meta..meta + 56]);
                bytes[meta + 56..meta + 64].copy_from_slice(&sum.to_le_bytes());
            }
        }
        "truncated-half" => bytes.truncate(bytes.len() / 2),
        "truncated-1500" => bytes.truncate(1500),
        _ => {
            let offset = usize::try_from(corruption["offset"].as_u64().unwrap()).unwrap();
            let change = data_encoding::HEXLOWER.decode(corruption["bytes_hex"].as_str().unwrap().as_bytes()).unwrap();
            bytes[offset..offset + change.len()].copy_from_slice(&change);
        }
    }
    bytes
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[test]
fn every_bucket_of_branchy_reads_as_the_real_library_reads_it() {
    let file = data::bytes("branchy.db");
    let branchy = data::json("branchy-expected.json");
    assert_eq!(sorted(digests(&file).unwrap()), sorted(expected(&branchy)));
    let database = Database::open(&file).unwrap();
    assert_eq!(u64::from(database.page_size()), branchy["page_size"].as_u64().unwrap());
    assert_eq!(database.size(), branchy["info"]["size_by_high_water_mark"].as_u64().unwrap());
    assert_eq!(database.txid(), branchy["info"]["txid"].as_u64().unwrap());
    let verified = database.verify(&mut |_| ()).unwrap();
    let free = branchy["info"]["page_types"]["free"].as_u64().unwrap();
    assert_eq!((verified.free_bytes(), verified.lost_pages()), (free * 1024, 0));
}

#[test]
fn reachable_damage_to_branchy_is_an_error_and_invisible_damage_changes_nothing() {
    let file = data::bytes("branchy.db");
    let branchy = data::json("branchy-expected.json");
    let corruptions = branchy["corruptions"].as_array().unwrap();
    assert_eq!(corruptions.len(), 11);
    for corruption in corruptions {
        let id = corruption["id"].as_str().unwrap();
        let read = digests(&damaged(&file, corruption));
        match id {
            "none" | "older-meta-magic" => assert_eq!(sorted(read.unwrap()), sorted(expected(&branchy)), "{id}"),
            // The older meta shows the state of the transaction before; whatever it is, it is whole and the loss is told.
            "newest-meta-checksum" => {
                read.unwrap();
                assert_eq!(Database::open(&damaged(&file, corruption)).unwrap().damaged_meta(), Some(1));
            }
            "both-metas-magic" => assert_eq!(read.unwrap_err(), Damage::NotADatabase),
            "both-metas-version-3" => assert_eq!(read.unwrap_err(), Damage::Version(3)),
            "truncated-half" | "truncated-1500" => assert!(matches!(read, Err(Damage::TooShort { .. })), "{id}: {read:?}"),
            _ => assert!(matches!(read, Err(Damage::Page { page: 55, .. })), "{id}: {read:?}"),
        }
    }
}

#[test]
fn a_damaged_first_meta_of_a_snapshot_shows_the_same_tree() {
    let mut file = data::bytes("tiny.snap");
    file.truncate(36_864);
    let whole = digests(&file).unwrap();
    file[20] ^= 1;
    assert_eq!(digests(&file).unwrap(), whole);
    file[4096 + 20] ^= 1;
    assert!(digests(&file).is_err(), "both metas damaged");
}

#[test]
fn every_bucket_of_tiny_reads_as_the_real_library_dumps_it() {
    let file = data::bytes("tiny.snap");
    let expected = data::json("tiny-expected.json");
    let database = Database::open(&file[..36_864]).unwrap();
    for (name, pairs) in expected["buckets"].as_object().unwrap() {
        let bucket = database.root().bucket(name.as_bytes()).unwrap().unwrap_or_else(|| panic!("bucket {name}"));
        let read: Vec<_> = bucket
            .items()
            .map(|item| item.map(|item| [item.key, item.value].map(|part| data_encoding::HEXLOWER.encode(part))).unwrap())
            .collect();
        let pairs: Vec<[String; 2]> = serde_json::from_value(pairs.clone()).unwrap();
        assert_eq!(read, pairs, "{name}");
    }
    assert!(database.root().bucket(b"absent").unwrap().is_none());
}

#[test]
fn free_pages_of_tiny_still_hold_old_pairs_and_are_counted_apart() {
    let file = data::bytes("tiny.snap");
    let verified = Database::open(&file[..36_864]).unwrap().verify(&mut |_| ()).unwrap();
    // Pages 5, 6 and 7: an old root leaf, an old leaf of bucket `key`, an old branch.
    assert_eq!(verified.free_bytes(), 3 * 4096);
    let old = verified.unreached_leaves().filter(|item| matches!(item.key.len(), 17 | 18)).count();
    assert_eq!(old, 8);
}

#[test]
fn each_reached_page_header_matters() {
    let file = data::bytes("branchy.db");
    let database = Database::open(&file).unwrap();
    let verified = database.verify(&mut |_| ()).unwrap();
    let overflow_run = 38..44;
    for page in (2..database.high_water()).filter(|page| verified.reached().contains(*page) && !overflow_run.contains(page)) {
        for (offset, change) in [(0, 0xFF_u8), (8, 0x40), (13, 0xFF)] {
            let mut bytes = file.clone();
            bytes[usize::try_from(page).unwrap() * 1024 + offset] ^= change;
            assert!(digests(&bytes).is_err(), "page {page}, header byte {offset}");
        }
    }
}

#[test]
fn a_page_reached_twice_or_by_itself_is_an_error() {
    let file = data::bytes("branchy.db");
    // Page 54 is the root branch of bucket `key`; its first child is made to be itself, then its second child.
    let child = |n: usize| 54 * 1024 + 16 + 16 * n + 8;
    let mut bytes = file.clone();
    bytes[child(0)..child(0) + 8].copy_from_slice(&54_u64.to_le_bytes());
    assert_eq!(digests(&bytes).unwrap_err(), Damage::Page { page: 54, fault: "is reached twice" });
    let mut bytes = file;
    let second: [u8; 8] = bytes[child(1)..child(1) + 8].try_into().unwrap();
    bytes[child(0)..child(0) + 8].copy_from_slice(&second);
    assert!(digests(&bytes).is_err());
}

/// Reads everything there is to read; only that it ends matters.
fn devour(bytes: &[u8]) -> bool {
    let Ok(database) = Database::open(bytes) else { return false };
    let mut pairs = 0_u64;
    let verified = database.verify(&mut |found| pairs += u64::from(matches!(found, Found::Pair(_))));
    let _ = database.root().items().take_while(Result::is_ok).count();
    verified.is_ok_and(|verified| {
        let _ = verified.unreached_leaves().count();
        let _ = verified.free_bytes();
        true
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn mutated_files_never_panic_or_hang(
        which in 0..2_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..24),
    ) {
        let mut bytes = data::bytes(["branchy.db", "tiny.snap"][which]);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        devour(&bytes);
    }

    #[test]
    fn mutated_structures_never_panic_or_hang(
        changes in prop::collection::vec((2..57_usize, 0..128_usize, prop_oneof![Just(0_u8), Just(0xFF), Just(1), any::<u8>()]), 1..12),
    ) {
        let mut bytes = data::bytes("branchy.db");
        for (page, at, byte) in changes {
            bytes[page * 1024 + at] = byte;
        }
        devour(&bytes);
    }

    #[test]
    fn truncated_files_are_never_whole(cut in 0..58_368_usize) {
        let mut bytes = data::bytes("branchy.db");
        bytes.truncate(cut);
        prop_assert!(!devour(&bytes));
    }

    #[test]
    fn noise_is_never_a_database(bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
        prop_assert!(!devour(&bytes));
    }
}
