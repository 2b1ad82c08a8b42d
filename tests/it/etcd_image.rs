//! Writes small etcd snapshots, so that a test can say exactly what is in one.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

const PAGE: usize = 4096;

/// A store, one pair at a time. Each bucket becomes one leaf, however long.
#[derive(Default)]
pub struct EtcdImage {
    buckets: BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, Vec<u8>>>,
    revision: i64,
}

impl EtcdImage {
    /// An empty store at revision 1, as etcd 3.6 makes it.
    pub fn new() -> Self {
        let mut image = Self { revision: 1, ..Self::default() };
        image.pair("meta", b"storageVersion", b"3.6.0");
        image.buckets.insert(b"key".to_vec(), BTreeMap::new());
        image
    }

    /// The store that a snapshot holds, to add to it.
    pub fn of(image: &[u8]) -> Self {
        let mut copy = Self::default();
        for bucket in holdfast::bolt::Database::open(image).unwrap().root().items() {
            let bucket = bucket.unwrap();
            let pairs = bucket.bucket.unwrap().items().map(|item| item.map(|item| (item.key.to_vec(), item.value.to_vec())));
            copy.buckets.insert(bucket.key.to_vec(), pairs.map(Result::unwrap).collect());
        }
        copy.revision = holdfast::scan::contents::Contents::read(image).unwrap().revision();
        copy
    }

    pub fn pair(&mut self, bucket: &str, key: &[u8], value: &[u8]) -> &mut Self {
        self.buckets.entry(bucket.as_bytes().to_vec()).or_default().insert(key.to_vec(), value.to_vec());
        self
    }

    pub fn put(&mut self, key: &str, value: &[u8]) -> &mut Self {
        self.revision += 1;
        let record = [field(1, key.as_bytes()), field(5, value)].concat();
        let revision = revision_bytes(self.revision);
        self.pair("key", &revision, &record)
    }

    pub fn delete(&mut self, key: &str) -> &mut Self {
        self.revision += 1;
        let revision = [&revision_bytes(self.revision)[..], b"t"].concat();
        self.pair("key", &revision, &field(1, key.as_bytes()))
    }

    /// A JSON object of `kind` under `/registry/<path>`; the path ends in namespace and name, or in a name.
    pub fn object(&mut self, path: &str, api_version: &str, kind: &str) -> &mut Self {
        let object = json_object(path, api_version, kind);
        self.put(&format!("/registry/{path}"), &object)
    }

    /// Without the digest.
    pub fn image(&self) -> Vec<u8> {
        let mut pages = vec![vec![0; PAGE]; 2];
        let mut root = Vec::new();
        for (name, pairs) in &self.buckets {
            let elements: Vec<_> = pairs.iter().map(|(key, value)| (0, key.clone(), value.clone())).collect();
            let id = write_leaf(&mut pages, &elements);
            root.push((1, name.clone(), [id.to_le_bytes(), [0; 8]].concat()));
        }
        let root = write_leaf(&mut pages, &root);
        let high_water = pages.len() as u64;
        pages.splice(0..2, [meta(0, root, high_water), meta(1, root, high_water)]);
        pages.concat()
    }

    /// With the digest, as etcd streams it.
    pub fn snapshot(&self) -> Vec<u8> {
        with_digest(&self.image())
    }
}

/// Appends the digest that etcd would send.
pub fn with_digest(image: &[u8]) -> Vec<u8> {
    [image, &Sha256::digest(image)[..]].concat()
}

/// The image with another high-water mark in both metas.
pub fn with_high_water(image: &[u8], high_water: u64) -> Vec<u8> {
    let root = u64::from_le_bytes(image[32..40].try_into().unwrap());
    [meta(0, root, high_water), meta(1, root, high_water), image[2 * PAGE..].to_vec()].concat()
}

pub fn json_object(path: &str, api_version: &str, kind: &str) -> Vec<u8> {
    let mut segments = path.rsplit('/');
    let name = segments.next().unwrap();
    let namespace = if path.matches('/').count() > 1 { segments.next().unwrap() } else { "" };
    serde_json::json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace}})
        .to_string()
        .into_bytes()
}

pub fn revision_bytes(main: i64) -> [u8; 17] {
    let mut bytes = [0; 17];
    bytes[..8].copy_from_slice(&main.to_be_bytes());
    bytes[8] = b'_';
    bytes
}

/// A protobuf field of bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    [out, bytes.to_vec()].concat()
}

/// Appends a leaf with as many overflow pages as it needs; returns its number.
fn write_leaf(pages: &mut Vec<Vec<u8>>, elements: &[(u32, Vec<u8>, Vec<u8>)]) -> u64 {
    let id = pages.len() as u64;
    let mut header = Vec::new();
    let mut data: Vec<u8> = Vec::new();
    for (index, (flags, key, value)) in elements.iter().enumerate() {
        let position = 16 * (elements.len() - index) + data.len();
        let words = [*flags, position as u32, key.len() as u32, value.len() as u32];
        header.extend(words.map(u32::to_le_bytes).concat());
        data.extend_from_slice(key);
        data.extend_from_slice(value);
    }
    let count = (16 + header.len() + data.len()).div_ceil(PAGE);
    let mut bytes =
        [&id.to_le_bytes()[..], &[2, 0], &(elements.len() as u16).to_le_bytes(), &(count as u32 - 1).to_le_bytes()].concat();
    bytes.extend(header);
    bytes.extend(data);
    bytes.resize(count * PAGE, 0);
    pages.extend(bytes.chunks(PAGE).map(<[u8]>::to_vec));
    id
}

fn meta(id: u64, root: u64, high_water: u64) -> Vec<u8> {
    let mut page = [&id.to_le_bytes()[..], &[4, 0, 0, 0, 0, 0, 0, 0]].concat();
    let numbers = [0xED0C_DAED_u32, 2, PAGE as u32, 0].map(u32::to_le_bytes).concat();
    let ids = [root, 0, u64::MAX, high_water, 9 - id].map(u64::to_le_bytes).concat();
    let body = [numbers, ids].concat();
    let sum = body.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    page.extend(body);
    page.extend(sum.to_le_bytes());
    page.resize(PAGE, 0);
    page
}
