//! `inspect` against snapshots of a real etcd, and against small ones that say
//! exactly what is in them.

mod command;
mod hostile;
mod places;
mod problems;
mod real;
mod verdict;

use holdfast::base::exit::Exit;
use holdfast::base::secret::Secret;
use holdfast::k8s::encryption_config::{EncryptionConfig, KmsProvider, NamedConfig, Provider, Rule};
use holdfast::k8s::local_key::{LocalKey, LocalProvider};
use holdfast::record::manifest::{Problem, Proof, Severity};
use holdfast::scan::inspection::{Inspection, KeyEntry};
use serde_json::Value;

use crate::data;
use crate::etcd_image::{EtcdImage, json_object};

/// Length of the image of each snapshot, without its digest.
pub(super) const TINY: usize = 36_864;
pub(super) const UNCOMPACTED: usize = 28_672;

pub(super) fn key(secret: &Value) -> Option<LocalKey> {
    let provider = LocalProvider::parse(secret["provider"].as_str().unwrap())?;
    let material = data_encoding::BASE64.decode(secret["key_b64"].as_str()?.as_bytes()).unwrap();
    Some(LocalKey::new(provider, secret["key_name"].as_str().unwrap(), Secret::new(material)).unwrap())
}

/// Every local key that `snapshot-secrets.json` holds, each once.
pub(super) fn local_keys() -> Vec<LocalKey> {
    let mut keys: Vec<LocalKey> = Vec::new();
    for key in data::json("snapshot-secrets.json").as_array().unwrap().iter().filter_map(key) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys
}

/// A configuration for Secrets with these keys in order, then what is in the clear.
pub(super) fn config(name: &str, keys: Vec<LocalKey>) -> NamedConfig {
    let one = |key: LocalKey| Provider::of_keys(vec![key]).unwrap();
    listed(name, "secrets", keys.into_iter().map(one).chain([Provider::Identity]).collect())
}

pub(super) fn listed(name: &str, resource: &str, providers: Vec<Provider>) -> NamedConfig {
    let config = EncryptionConfig { rules: vec![Rule { resources: vec![resource.to_owned()], providers }] };
    NamedConfig { name: name.to_owned(), config }
}

pub(super) fn gcm(name: &str, material: u8) -> LocalKey {
    // No test key may look like text, which would be a problem of its own.
    LocalKey::new(LocalProvider::Aesgcm, name, Secret::new(vec![material | 0x80; 32])).unwrap()
}

/// What an API server with this aesgcm key stores for the object at `path`.
pub(super) fn sealed(key: &LocalKey, path: &str, object: &[u8]) -> Vec<u8> {
    use aes_gcm::aead::{Aead, KeyInit, Payload};
    let cipher = aes_gcm::Aes256Gcm::new_from_slice(key.secret().expose()).unwrap();
    let nonce = [7_u8; 12];
    let aad = format!("/registry/{path}");
    let body = cipher.encrypt(&nonce.into(), Payload { msg: object, aad: aad.as_bytes() }).unwrap();
    [format!("k8s:enc:aesgcm:v1:{}:", key.name()).as_bytes(), &nonce, &body].concat()
}

/// Secrets `shop/<name>`, each under its key.
pub(super) fn secrets(keys: &[(&str, &LocalKey)]) -> EtcdImage {
    let mut image = EtcdImage::new();
    for (name, key) in keys {
        add_secret(&mut image, name, key);
    }
    image
}

pub(super) fn add_secret(image: &mut EtcdImage, name: &str, key: &LocalKey) {
    let path = format!("secrets/shop/{name}");
    image.put(&format!("/registry/{path}"), &sealed(key, &path, &json_object(&path, "v1", "Secret")));
}

pub(super) fn kms(api_version: &str, name: &str) -> Provider {
    Provider::Kms(KmsProvider {
        api_version: api_version.to_owned(),
        name: name.to_owned(),
        endpoint: "unix:///run/kms.sock".to_owned(),
        timeout: None,
        cachesize: None,
    })
}

pub(super) fn problem<'i>(inspection: &'i Inspection, code: &str) -> &'i Problem {
    let found = inspection.problems.iter().find(|problem| problem.code == code);
    found.unwrap_or_else(|| panic!("{code}: {:#?}", inspection.problems))
}

pub(super) fn entry<'i>(inspection: &'i Inspection, provider: &str, name: &str, is_opened: bool) -> &'i KeyEntry {
    let found =
        |entry: &&KeyEntry| entry.provider == provider && entry.name == name && (entry.proof == Proof::Opened) == is_opened;
    inspection.keys.iter().find(found).unwrap_or_else(|| panic!("{provider} {name}: {:#?}", inspection.keys))
}

pub(super) fn codes(inspection: &Inspection) -> Vec<&str> {
    inspection.problems.iter().map(|problem| problem.code.as_str()).collect()
}

/// A value as KMS v2 writes it, under this plugin name and key id.
pub(super) fn kms_v2(name: &str, key_id: &str) -> Vec<u8> {
    let field = |number: u8, bytes: &[u8]| [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat();
    let envelope = [field(1, &[1; 60]), field(2, key_id.as_bytes()), field(3, &[2; 64]), vec![0x28, 1]].concat();
    [format!("k8s:enc:kms:v2:{name}:").as_bytes(), &envelope].concat()
}

/// The problem is there, with this severity; the exit code follows it.
pub(super) fn assert_problem(inspection: &Inspection, code: &str, severity: Severity, count: u64) {
    let problem = problem(inspection, code);
    assert_eq!((problem.severity, problem.count), (severity, count), "{code}");
    if severity == Severity::Error {
        assert_eq!(inspection.exit(), Exit::Bad, "{code}");
    }
}
