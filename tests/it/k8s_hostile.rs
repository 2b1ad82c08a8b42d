//! Hostile bytes: no reader of `k8s` panics, and no written configuration is misread.

use holdfast::base::secret::Secret;
use holdfast::k8s::encryption_config::{Provider, Rule};
use holdfast::k8s::reading::read;
use holdfast::k8s::resource::{PrefixVotes, locate};
use holdfast::k8s::{EncryptionConfig, LocalKey, LocalProvider, Stored, classify, object, object_fits, open};
use proptest::collection::vec;
use proptest::prelude::*;

/// Every reader of values, in the order in which a scan calls them.
fn read_all(value: &[u8], etcd_key: &[u8]) {
    let located = locate("/registry", etcd_key);
    let _ = located.stored_as();
    let _ = (object::identity(value), object::lease_renewed(value), object::secret_data(value));
    match classify(value) {
        Stored::Local(local) => {
            let _ = local.name_guess();
            let key = LocalKey::new(local.provider, "k", Secret::new(vec![1; 32])).unwrap();
            if let Ok(plaintext) = open(&local, &key, etcd_key) {
                let _ = object_fits(&plaintext, &located);
            }
        }
        Stored::KmsV1(kms) => {
            let _ = (kms.name_guess(), kms.envelope_under("k"));
        }
        Stored::KmsV2(_) | Stored::UnknownProvider | Stored::UnknownBody => {}
        Stored::Plain(identity) => {
            let _ = object::fits(&identity, &located);
        }
    }
}

fn starts() -> impl Strategy<Value = Vec<u8>> {
    prop::sample::select(vec![
        &b""[..],
        b"k8s\0",
        b"{\"apiVersion\":\"v1\",\"kind\":\"Secret\",",
        b"\xd9\xd9\xf7",
        b"\xd9\xd9\xf7\xbb",
        b"k8s:enc:",
        b"k8s:enc:aescbc:v1:k:",
        b"k8s:enc:aesgcm:v1:k:",
        b"k8s:enc:secretbox:v1:k:",
        b"k8s:enc:kms:v1:k:",
        b"k8s:enc:kms:v2:k:\x0a",
        b"k8s\0\x0a\x0c\x0a\x02v1\x12\x06Secret\x12",
        b"k8s\0\x0a\x1f\x0a\x16coordination.k8s.io/v1\x12\x05Lease\x12",
    ])
    .prop_map(<[u8]>::to_vec)
}

fn cases(count: u32) -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(count) }
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn no_value_panics_a_reader(start in starts(), rest in vec(any::<u8>(), 0..200), etcd_key in vec(any::<u8>(), 0..60)) {
        read_all(&[start, rest].concat(), &etcd_key);
    }

    #[test]
    fn no_key_panics_the_paths(key in "(/?[a-z./\\PC]{0,12}){0,6}", prefix in "(/[a-z]{0,8}){0,3}") {
        let _ = locate(&prefix, key.as_bytes());
        let mut votes = PrefixVotes::default();
        votes.count(key.as_bytes());
        let _ = votes.winner();
    }

}

// Reading YAML is slow in a debug build.
proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn no_text_panics_the_configuration(text in "[ -~\\n\\t]{0,300}") {
        let _ = EncryptionConfig::parse(text.as_bytes());
    }

    #[test]
    fn what_is_written_is_read_as_the_same(
        names in vec("\\PC{1,12}|[\\x00-\\x7f]{1,8}", 1..4),
        material in vec(any::<u8>(), 32),
        value in vec(any::<u8>(), 0..80),
    ) {
        let keys: Vec<_> = names
            .iter()
            .map(|name| LocalKey::new(LocalProvider::Aescbc, name, Secret::new(material.clone())).unwrap())
            .collect();
        let providers = vec![Provider::of_keys(keys).unwrap(), Provider::Identity];
        let config = EncryptionConfig { rules: vec![Rule { resources: vec!["secrets".to_owned()], providers }] };
        prop_assert_eq!(EncryptionConfig::parse(config.to_yaml().expose().as_bytes()).unwrap(), config.clone());
        let stored = [b"k8s:enc:aescbc:v1:".as_slice(), names[0].as_bytes(), b":", &value].concat();
        let _ = read(&config, "", "secrets", &stored, b"/registry/secrets/shop/db");
    }

    /// Whatever is altered in a working file, the outcome is a configuration or mistakes without the material.
    #[test]
    fn altered_files_are_read_or_refused(at in 0_usize..400, with in any::<u8>(), cut in 0_usize..4) {
        let secret = data_encoding::BASE64.encode(&[0x5a; 32]);
        let mut yaml = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources:\n  - secrets\n  - '*.apps'\n  providers:\n  - aesgcm:\n      keys:\n      - name: key1\n        secret: {secret}\n  - kms: {{apiVersion: v2, name: kek, endpoint: unix:///x, timeout: 3s}}\n  - identity: {{}}\n"
        )
        .into_bytes();
        let at = at % yaml.len();
        yaml.splice(at..(at + cut).min(yaml.len()), [with]);
        if let Err(mistakes) = EncryptionConfig::parse(&yaml) {
            prop_assert!(!mistakes.to_string().contains("WlpaWlpa"), "{}", mistakes);
        }
    }
}
