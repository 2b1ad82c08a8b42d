//! Single stored values that the API server's own transformers wrote, and the
//! ones they refuse: each vector goes through one `check`.

use std::collections::BTreeMap;

use holdfast::base::secret::Secret;
use holdfast::k8s::kms_envelope::SourceType;
use holdfast::k8s::reading::{Reading, read};
use holdfast::k8s::resource::locate;
use holdfast::k8s::stored::LocalValue;
use holdfast::k8s::trial::Cause;
use holdfast::k8s::{
    EncryptionConfig, LocalKey, LocalProvider, OpenError, Plaintext, Stored, classify, object, object_fits, open,
};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
struct Vector {
    id: String,
    provider: String,
    #[serde(default)]
    note: String,
    #[serde(default)]
    key_name: String,
    key_b64: Option<String>,
    etcd_key: String,
    #[serde(default)]
    plaintext_b64: String,
    stored_b64: String,
    expect: String,
    kms_key_id: Option<String>,
    #[serde(default)]
    annotations_b64: BTreeMap<String, String>,
    #[serde(default)]
    parts_hex: BTreeMap<String, String>,
    encryption_configuration: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Envelope {
    #[serde(rename = "ID")]
    id: String,
    etcd_key: String,
    stored_b64: String,
    api_version: String,
    kind: String,
    namespace: String,
    name: String,
    #[serde(rename = "UID")]
    uid: String,
    encoding: String,
}

impl Vector {
    fn stored(&self) -> Vec<u8> {
        decode(&self.stored_b64)
    }

    fn key(&self) -> LocalKey {
        let provider = LocalProvider::parse(&self.provider).unwrap();
        let material = decode(self.key_b64.as_deref().unwrap());
        LocalKey::new(provider, &self.key_name, Secret::new(material)).unwrap()
    }

    fn part(&self, name: &str) -> Vec<u8> {
        let hex = self.parts_hex.get(name).unwrap_or_else(|| panic!("{}: part {name}", self.id));
        data_encoding::HEXLOWER.decode(hex.as_bytes()).unwrap()
    }
}

fn decode(text: &str) -> Vec<u8> {
    data_encoding::BASE64.decode(text.as_bytes()).unwrap()
}

fn vectors<T: serde::de::DeserializeOwned>(file: &str) -> Vec<T> {
    let path = format!("{}/tests/data/vectors/{file}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_slice(&std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))).unwrap()
}

fn local(stored: &[u8]) -> LocalValue<'_> {
    match classify(stored) {
        Stored::Local(value) => value,
        other => panic!("not a value of a local provider: {other:?}"),
    }
}

/// The text that the real API server gave, where the note has one.
fn server_text(vector: &Vector) -> Option<&str> {
    vector.note.strip_prefix("apiserver says: ")
}

fn check_local(vector: &Vector) {
    let id = &vector.id;
    let stored = vector.stored();
    let value = local(&stored);
    assert_eq!(value.provider.as_str(), vector.provider, "{id}");
    if vector.expect == "missing-key" {
        check_missing_key(vector, &value);
        return;
    }
    let opened = open(&value, &vector.key(), vector.etcd_key.as_bytes());
    match vector.expect.as_str() {
        "ok" | "garbage" => {
            assert_eq!(opened.as_ref().map(Plaintext::expose), Ok(&decode(&vector.plaintext_b64)[..]), "{id}");
            check_fit(vector, &opened.unwrap());
            check_elsewhere(vector, &value);
        }
        "error" => assert_eq!(opened.unwrap_err().to_string(), server_text(vector).unwrap(), "{id}"),
        other => panic!("{id}: unknown expectation {other}"),
    }
}

/// A missing key: another name with any material, and the text of the provider's kind.
fn check_missing_key(vector: &Vector, value: &LocalValue<'_>) {
    let key = LocalKey::new(value.provider, "another-name", Secret::new(vec![7; 32])).unwrap();
    let error = open(value, &key, vector.etcd_key.as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), server_text(vector).unwrap(), "{}", vector.id);
    assert_eq!(error.cause(), Cause::KeyNameMissing, "{}", vector.id);
}

/// An opened value is proof only when an object comes out that belongs where it lay.
fn check_fit(vector: &Vector, plaintext: &Plaintext) {
    let located = locate("/registry", vector.etcd_key.as_bytes());
    let is_object = plaintext.expose().starts_with(b"k8s\0");
    assert_eq!(object_fits(plaintext, &located), is_object && vector.expect == "ok", "{}", vector.id);
    let moved = locate("/registry", b"/registry/secrets/shop/moved-here");
    assert!(!object_fits(plaintext, &moved), "{}", vector.id);
}

/// Read at another etcd key, only values bound to their key fail.
fn check_elsewhere(vector: &Vector, value: &LocalValue<'_>) {
    let elsewhere = open(value, &vector.key(), b"/registry/secrets/shop/elsewhere").map(|_| ());
    let expected = if value.provider == LocalProvider::Aesgcm { Err(OpenError::Authentication) } else { Ok(()) };
    assert_eq!(elsewhere, expected, "{}", vector.id);
}

#[test]
fn values_of_local_providers_open_or_fail_as_the_api_server_says() {
    let mut seen = 0;
    for file in ["aescbc.json", "aesgcm.json", "secretbox.json"] {
        for vector in vectors::<Vector>(file) {
            check_local(&vector);
            seen += 1;
        }
    }
    assert_eq!(seen, 26, "vectors");
}

#[test]
fn parts_of_local_values_lie_where_the_formats_say() {
    for file in ["aescbc.json", "aesgcm.json", "secretbox.json"] {
        for vector in vectors::<Vector>(file).iter().filter(|vector| !vector.parts_hex.is_empty()) {
            let stored = vector.stored();
            let body = local(&stored).body_under(&vector.key_name).unwrap();
            let order: &[&str] = match vector.provider.as_str() {
                "aescbc" => &["iv", "ciphertext"],
                "aesgcm" => &["nonce", "ciphertext", "tag"],
                _ => &["nonce", "poly1305_tag", "ciphertext"],
            };
            let joined: Vec<u8> = order.iter().flat_map(|part| vector.part(part)).collect();
            assert_eq!(body, joined, "{}", vector.id);
        }
    }
}

/// Every right key's twin: the same name with other bytes must not open to a fitting object.
#[test]
fn the_right_name_with_other_material_never_proves_a_key() {
    for file in ["aescbc.json", "aesgcm.json", "secretbox.json"] {
        for vector in vectors::<Vector>(file).iter().filter(|vector| vector.expect == "ok") {
            let stored = vector.stored();
            let value = local(&stored);
            let located = locate("/registry", vector.etcd_key.as_bytes());
            let mut garbage = 0;
            for flip in 0..=255_u8 {
                let mut material = decode(vector.key_b64.as_deref().unwrap());
                material[0] ^= flip.max(1);
                material[1] ^= flip / 2;
                let wrong = LocalKey::new(value.provider, &vector.key_name, Secret::new(material)).unwrap();
                match open(&value, &wrong, vector.etcd_key.as_bytes()) {
                    Ok(plaintext) => {
                        garbage += 1;
                        assert!(!object_fits(&plaintext, &located), "{}: flip {flip}", vector.id);
                    }
                    Err(error) => assert_eq!(error.cause(), Cause::MaterialDiffers, "{}: flip {flip}", vector.id),
                }
            }
            assert!(vector.provider == "aescbc" || garbage == 0, "{}: authenticated, yet {garbage} opened", vector.id);
        }
    }
}

/// The configuration's walk: same name twice, identity first, missing provider, colon in a name.
fn check_order(vector: &Vector) {
    let id = &vector.id;
    let stored = vector.stored();
    let config = EncryptionConfig::parse(vector.encryption_configuration.as_deref().unwrap().as_bytes()).unwrap();
    let reading = read(&config, "", "secrets", &stored, vector.etcd_key.as_bytes());
    match (vector.expect.as_str(), reading) {
        ("ok", Reading::Opened { key, plaintext, is_stale }) => {
            assert_eq!(plaintext.expose(), decode(&vector.plaintext_b64), "{id}");
            assert_eq!(key, &vector.key(), "{id}");
            assert_eq!(is_stale, vector.note.contains("stale=true"), "{id}");
        }
        ("missing-key" | "no-provider", Reading::Failed(errors)) => {
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(texts, [server_text(vector).unwrap()], "{id}");
        }
        (expected, reading) => panic!("{id}: expected {expected}, got {reading:?}"),
    }
}

#[test]
fn providers_and_keys_are_walked_in_the_api_servers_order() {
    let all = vectors::<Vector>("provider-order.json");
    assert_eq!(all.len(), 5, "vectors");
    all.iter().for_each(check_order);
}

#[test]
fn a_colon_in_a_name_is_told_by_the_configuration_and_flagged_without_one() {
    let all = vectors::<Vector>("provider-order.json");
    let vector = all.iter().find(|vector| vector.id == "colon-in-name-ambiguous").unwrap();
    let stored = vector.stored();
    let guess = local(&stored).name_guess().unwrap();
    assert_eq!((&*guess.name, guess.is_ambiguous), ("k", true));
    assert!(local(&stored).body_under("k").is_some() && local(&stored).body_under("k:x").is_some());

    let plain = all.iter().find(|vector| vector.id == "same-name-twice-second-key-decrypts").unwrap().stored();
    let guess = local(&plain).name_guess().unwrap();
    assert_eq!((&*guess.name, guess.is_ambiguous), ("k", false));
}

#[test]
fn every_configuration_of_the_vectors_holds_the_vectors_key() {
    for file in ["aescbc.json", "aesgcm.json", "secretbox.json"] {
        for vector in vectors::<Vector>(file) {
            let Some(yaml) = &vector.encryption_configuration else { continue };
            let config = EncryptionConfig::parse(yaml.as_bytes()).unwrap();
            assert_eq!(config.keys(), [&vector.key()], "{}", vector.id);
            assert!(!config.writes_plaintext("", "secrets") && config.writes_plaintext("", "configmaps"), "{}", vector.id);
        }
    }
}

fn check_kms_v1(vector: &Vector) {
    let id = &vector.id;
    let stored = vector.stored();
    let Stored::KmsV1(value) = classify(&stored) else { panic!("{id}: not KMS v1") };
    assert_eq!(value.name_guess().unwrap().name, vector.key_name, "{id}");
    let envelope = value.envelope_under(&vector.key_name).unwrap().unwrap();
    assert!(value.envelope_under("other").is_none(), "{id}");
    assert_eq!(envelope.encrypted_dek.len(), 64, "{id}");
    if vector.parts_hex.is_empty() {
        // Written up to 1.24: IV and AES-CBC, so a multiple of the block size.
        assert_eq!(envelope.data.len() % 16, 0, "{id}");
        return;
    }
    assert_eq!(envelope.encrypted_dek, vector.part("encrypted_dek"), "{id}");
    assert_eq!(vector.part("dek_len_be16"), [0, 64], "{id}");
    let data: Vec<u8> = [vector.part("gcm_nonce"), vector.part("gcm_ciphertext_and_tag")].concat();
    assert_eq!(envelope.data, data, "{id}");
}

fn check_kms_v2(vector: &Vector) {
    let id = &vector.id;
    let stored = vector.stored();
    let Stored::KmsV2(value) = classify(&stored) else { panic!("{id}: not KMS v2") };
    assert_eq!(value.name, vector.key_name, "{id}");
    let envelope = value.envelope.unwrap();
    assert_eq!(Some(envelope.key_id), vector.kms_key_id.as_deref(), "{id}");
    assert_eq!(envelope.encrypted_dek_source, vector.part("encrypted_dek_source"), "{id}");
    assert_eq!(envelope.encrypted_data, vector.part("encrypted_data"), "{id}");
    let is_seed = vector.parts_hex.get("source_type").is_some_and(|kind| kind == "1");
    assert_eq!(envelope.source_type, if is_seed { SourceType::HkdfSeed } else { SourceType::AesGcmKey }, "{id}");
    let annotations: BTreeMap<String, String> =
        envelope.annotations.iter().map(|(key, value)| ((*key).to_owned(), data_encoding::BASE64.encode(value))).collect();
    assert_eq!(annotations, vector.annotations_b64, "{id}");
    let data = if is_seed { [vector.part("info"), vector.part("gcm_nonce")].concat() } else { vector.part("gcm_nonce") };
    assert!(envelope.encrypted_data.starts_with(&data), "{id}");
}

#[test]
fn kms_values_tell_their_service_and_key_without_any_key() {
    let (v1, v2) = (vectors::<Vector>("kms-v1.json"), vectors::<Vector>("kms-v2.json"));
    assert_eq!((v1.len(), v2.len()), (2, 6), "vectors");
    v1.iter().for_each(check_kms_v1);
    v2.iter().for_each(check_kms_v2);
}

#[test]
fn c_024_a_kms_value_is_not_tried_and_a_missing_plugin_is_named_missing() {
    for (file, other_api) in [("kms-v1.json", "v2"), ("kms-v2.json", "v1")] {
        let vector = vectors::<Vector>(file).remove(0);
        let yaml = vector.encryption_configuration.as_deref().unwrap();
        let own = EncryptionConfig::parse(yaml.as_bytes()).unwrap();
        let reading = read(&own, "", "secrets", &vector.stored(), vector.etcd_key.as_bytes());
        assert!(matches!(reading, Reading::NotTried { provider } if provider.name == "barbican"), "{file}: {reading:?}");

        let own_api = if other_api == "v2" { "apiVersion: v1\n      name" } else { "apiVersion: v2\n      name" };
        let swapped = yaml.replace(own_api, &format!("apiVersion: {other_api}\n      name"));
        assert_ne!(swapped, yaml);
        let other = EncryptionConfig::parse(swapped.as_bytes()).unwrap();
        let reading = read(&other, "", "secrets", &vector.stored(), vector.etcd_key.as_bytes());
        assert_eq!(reading, Reading::Failed(vec![OpenError::NoMatchingPrefix]), "{file}");
    }
}

fn check_envelope(envelope: &Envelope) {
    let id = &envelope.id;
    let stored = decode(&envelope.stored_b64);
    let Stored::Plain(identity) = classify(&stored) else { panic!("{id}: not an object") };
    assert_eq!(identity.api_version, envelope.api_version, "{id}");
    assert_eq!(identity.kind, envelope.kind, "{id}");
    assert_eq!(identity.namespace, envelope.namespace, "{id}");
    assert_eq!(identity.name, envelope.name, "{id}");
    assert_eq!(identity.uid, envelope.uid, "{id}");
    assert_eq!(format!("{:?}", identity.encoding).to_lowercase(), envelope.encoding, "{id}");

    let located = locate("/registry", envelope.etcd_key.as_bytes());
    assert!(object::fits(&identity, &located), "{id}: {located:?}");
    let renamed = format!("{}-2", envelope.etcd_key);
    assert!(!object::fits(&identity, &locate("/registry", renamed.as_bytes())), "{id}: fits another name");
    for cut in 0..stored.len() - 1 {
        let fits = object::identity(&stored[..cut]).is_some_and(|identity| object::fits(&identity, &located));
        assert!(!fits || stored[..cut].starts_with(b"k8s\0"), "{id}: JSON cut at {cut} is no object");
    }
}

#[test]
fn objects_say_who_they_are_in_protobuf_and_json() {
    let all = vectors::<Envelope>("identity-envelopes.json");
    assert_eq!(all.len(), 6, "vectors");
    all.iter().for_each(check_envelope);
}

#[test]
fn a_value_in_the_clear_is_read_only_where_identity_is_listed() {
    let envelope = vectors::<Envelope>("identity-envelopes.json").remove(0);
    let stored = decode(&envelope.stored_b64);
    let file = |providers: &str| {
        let yaml = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources: [{{resources: [secrets], providers: [{providers}]}}]"
        );
        EncryptionConfig::parse(yaml.as_bytes()).unwrap()
    };
    let key = "{aescbc: {keys: [{name: k, secret: AAAAAAAAAAAAAAAAAAAAAA==}]}}";
    let with = file(&format!("{key}, {{identity: {{}}}}"));
    let without = file(key);
    let place = envelope.etcd_key.as_bytes();
    assert_eq!(read(&with, "", "secrets", &stored, place), Reading::Plain { is_stale: true });
    assert_eq!(read(&with, "", "configmaps", &stored, place), Reading::Plain { is_stale: false });
    assert_eq!(read(&without, "", "secrets", &stored, place), Reading::Failed(vec![OpenError::NoMatchingPrefix]));
}

#[test]
fn c_017_encrypted_data_without_any_rule_says_that_the_configuration_is_missing() {
    let vector = vectors::<Vector>("aescbc.json").remove(0);
    let config = EncryptionConfig::parse(vector.encryption_configuration.as_deref().unwrap().as_bytes()).unwrap();
    let reading = read(&config, "", "configmaps", &vector.stored(), vector.etcd_key.as_bytes());
    assert_eq!(reading, Reading::Failed(vec![OpenError::IdentityOnEncrypted]));
    assert_eq!(OpenError::IdentityOnEncrypted.cause(), Cause::ConfigMissing);
}

#[test]
fn a_joined_message_of_the_api_server_lists_every_candidate() {
    let joined = "[invalid padding on input, no matching key was found for the provided AES transformer]";
    assert_eq!(OpenError::all_in(joined), [OpenError::NoMatchingAesKey, OpenError::Padding]);
    assert_eq!(OpenError::all_in("etcdserver: request timed out"), []);
}
