//! EncryptionConfiguration: what the API server refuses is refused, with every
//! mistake at once and no key material in any text; what it accepts is looked
//! up and written as it would be.

use holdfast::base::secret::Secret;
use holdfast::k8s::encryption_config::{KmsProvider, Provider, Rule};
use holdfast::k8s::{EncryptionConfig, LocalKey, LocalProvider};

const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n";
/// 32 bytes that are no text.
const KEY: &str = "AQgPFh0kKzI5QEdOVVxjanF4f4aNlJuiqbC3vsXM09o=";

fn base64(bytes: &[u8]) -> String {
    data_encoding::BASE64.encode(bytes)
}

fn parse(yaml: &str) -> Result<EncryptionConfig, Vec<String>> {
    EncryptionConfig::parse(yaml.as_bytes()).map_err(|mistakes| mistakes.all().iter().map(ToString::to_string).collect())
}

/// A file with one rule for `secrets` and these providers in flow style.
fn with_providers(providers: &str) -> String {
    format!("{HEAD}resources:\n- resources: [secrets]\n  providers: {providers}\n")
}

/// A file with one key in flow style.
fn with_key(kind: &str, key: &str) -> String {
    with_providers(&format!("[{{{kind}: {{keys: [{key}]}}}}]"))
}

/// A file with one rule for each list, all stored in the clear.
fn with_resources(lists: &[&str]) -> String {
    let rules: Vec<_> = lists.iter().map(|list| format!("- resources: {list}\n  providers: [{{identity: {{}}}}]\n")).collect();
    format!("{HEAD}resources:\n{}", rules.concat())
}

fn check_good(yaml: &str) {
    let config = parse(yaml).unwrap_or_else(|mistakes| panic!("{mistakes:?}\n{yaml}"));
    let written = config.to_yaml();
    assert_eq!(parse(written.expose()).as_ref(), Ok(&config), "written and read again");
}

/// Every mistake, in the file's order, each holding the text expected.
fn check_bad(yaml: &str, expected: &[&str]) {
    let mistakes = parse(yaml).expect_err(yaml);
    assert_eq!(mistakes.len(), expected.len(), "{mistakes:?}\n{yaml}");
    for (mistake, expected) in mistakes.iter().zip(expected) {
        assert!(mistake.contains(expected), "{mistake:?} lacks {expected:?}\n{yaml}");
    }
}

#[test]
fn the_worked_example_of_all_providers_is_read_in_order() {
    let yaml = format!(
        "{HEAD}resources:
- resources: [secrets, configmaps, pandas.awesome.bears.example]
  providers:
  - aescbc: {{keys: [{{name: new, secret: {KEY}}}, {{name: old, secret: {}}}]}}
  - aesgcm: {{keys: [{{name: new, secret: {KEY}}}]}}
  - secretbox: {{keys: [{{name: 'a:b', secret: {KEY}}}]}}
  - kms: {{apiVersion: v2, name: kek, endpoint: unix:///run/kms.sock, timeout: 5s}}
  - identity: {{}}
",
        base64(&[9; 16])
    );
    check_good(&yaml);
    let config = parse(&yaml).unwrap();
    let names: Vec<_> = config.keys().iter().map(|key| format!("{}/{}", key.provider(), key.name())).collect();
    assert_eq!(names, ["aescbc/new", "aescbc/old", "aesgcm/new", "secretbox/a:b"]);
    let kms = KmsProvider {
        api_version: "v2".to_owned(),
        name: "kek".to_owned(),
        endpoint: "unix:///run/kms.sock".to_owned(),
        timeout: Some("5s".to_owned()),
        cachesize: None,
    };
    assert_eq!(config.rules[0].providers[3..], [Provider::Kms(kms), Provider::Identity]);
}

#[test]
fn two_kinds_and_versions_are_read_and_no_others() {
    let body =
        format!("resources: [{{resources: [secrets], providers: [{{aescbc: {{keys: [{{name: k, secret: {KEY}}}]}}}}]}}]\n");
    check_good(&format!("{HEAD}{body}"));
    check_good(&format!("apiVersion: v1\nkind: EncryptionConfig\n{body}"));
    check_good(&format!("# comment\n---\n{HEAD}{body}---\nanother: document\n"));
    check_bad(&format!("apiVersion: v1\nkind: EncryptionConfiguration\n{body}"), &["apiVersion: no such kind"]);
    check_bad(&format!("apiVersion: apiserver.config.k8s.io/v1beta1\nkind: EncryptionConfiguration\n{body}"), &["no such kind"]);
    check_bad(&format!("kind: EncryptionConfiguration\n{body}"), &["apiVersion: missing"]);
    check_bad(&format!("apiVersion: apiserver.config.k8s.io/v1\n{body}"), &["kind: missing"]);
}

#[test]
fn decoding_is_strict_and_shows_all_mistakes_at_once() {
    let yaml = format!(
        "{HEAD}metadata: {{}}
resources:
- resources: [secrets]
  resource: [configmaps]
  providers:
  - aescbc:
      keys:
      - name: k
        secret: {KEY}
        secret: {KEY}
      - name: on
        secret: AAAA
  - identity: {{}}
    aesgcm:
      keys: []
- resources: []
  providers: []
"
    );
    check_bad(
        &yaml,
        &[
            "line 3: unknown field \"metadata\"",
            "line 6: resources[0]: unknown field \"resource\"",
            "line 12: resources[0].providers[0].aescbc.keys[0]: field secret is given twice",
            "line 13: resources[0].providers[0].aescbc.keys[1].name: must be text, is true or false; put it in quotes",
            "line 14: resources[0].providers[0].aescbc.keys[1].secret: secret is not of the expected length, got 3",
            "line 15: resources[0].providers[1]: more than one provider specified in a single element",
            "line 17: resources[0].providers[1].aesgcm.keys: at least one keys is required",
            "resources[1].resources: at least one",
            "resources[1].providers: at least one provider is required",
        ],
    );
}

#[test]
fn an_element_names_exactly_one_provider() {
    check_good(&with_providers("[{identity: {}}]"));
    check_good(&with_providers("[{identity: {}, aescbc: ~}]"));
    check_bad(&with_providers("[{}]"), &["does not contain any of the expected providers"]);
    check_bad(&with_providers("[{identity: ~}]"), &["does not contain any of the expected providers"]);
    check_bad(&with_providers("[{aesctr: {}}]"), &["unknown field \"aesctr\"", "does not contain any"]);
    check_bad(&with_providers("[{identity: {a: 1}}]"), &["providers[0].identity: unknown field \"a\""]);
    check_bad(&with_providers("[{identity: {}, identity: {}}]"), &["field identity is given twice"]);
}

#[test]
fn key_lengths_are_those_of_each_provider() {
    for kind in LocalProvider::ALL {
        for length in 1..=64_usize {
            let yaml = with_key(kind.as_str(), &format!("{{name: k, secret: '{}'}}", base64(&vec![7; length])));
            if kind.key_lengths().contains(&length) {
                check_good(&yaml);
            } else {
                check_bad(&yaml, &[&format!("expected length, got {length}")]);
            }
        }
    }
    check_bad(&with_key("aescbc", "{name: k, secret: ''}"), &["secret is a mandatory field for a key"]);
    check_bad(&with_key("aescbc", &format!("{{name: '', secret: {KEY}}}")), &["name is a mandatory field for a key"]);
    check_bad(&with_key("aescbc", "{}"), &["name is a mandatory", "secret is a mandatory"]);
}

#[test]
fn base64_has_the_quirks_of_the_api_server() {
    let (start, end) = KEY.split_at(20);
    let spare_bits = KEY.replace("9o=", "9p=");
    for good in [KEY, &format!("{start}\\n{end}"), &format!("{KEY}\\r\\n"), &format!("\\n{KEY}"), &spare_bits] {
        check_good(&with_key("aescbc", &format!("{{name: k, secret: \"{good}\"}}")));
    }
    let no_padding = KEY.trim_end_matches('=');
    for bad in [no_padding, &format!("{KEY} "), &format!("{KEY}="), &format!("{KEY}AAAA"), "=", "A===", &KEY.replace('x', "-")] {
        check_bad(&with_key("aescbc", &format!("{{name: k, secret: \"{bad}\"}}")), &["secrets must be base64 encoded"]);
    }
}

#[test]
fn c_010_a_newline_in_the_material_is_refused_or_called_weak() {
    let phrase = |length: usize| format!("{}\n", "correct horse battery staple 123".get(..length - 1).unwrap());
    let yaml = with_key("aescbc", &format!("{{name: k, secret: '{}'}}", base64(phrase(33).as_bytes())));
    check_bad(&yaml, &["secret is not of the expected length, got 33, expected one of [16, 24, 32]"]);

    let yaml = with_key("aescbc", &format!("{{name: k, secret: '{}'}}", base64(phrase(32).as_bytes())));
    assert!(parse(&yaml).unwrap().keys()[0].is_weak());
    let yaml = with_key("aescbc", &format!("{{name: k, secret: {KEY}}}"));
    assert!(!parse(&yaml).unwrap().keys()[0].is_weak());
    let almost_text = [b"thirty-one characters of a text".as_slice(), &[0x80]].concat();
    let key = LocalKey::new(LocalProvider::Aescbc, "k", Secret::new(almost_text)).unwrap();
    assert!(!key.is_weak());
}

#[test]
fn c_011_identity_first_writes_plaintext() {
    let key = format!("{{aescbc: {{keys: [{{name: k, secret: {KEY}}}]}}}}");
    let first = parse(&with_providers(&format!("[{{identity: {{}}}}, {key}]"))).unwrap();
    let last = parse(&with_providers(&format!("[{key}, {{identity: {{}}}}]"))).unwrap();
    assert!(first.writes_plaintext("", "secrets"));
    assert!(!last.writes_plaintext("", "secrets"));
    assert!(last.writes_plaintext("", "configmaps"), "no rule covers it");
}

#[test]
fn c_014_names_masks_and_overlaps_follow_the_api_server() {
    check_good(&with_resources(&["[events]", "['*.*']"]));
    check_good(&with_resources(&["[secrets]", "['*.apps']", "['*.']"]));
    check_good(&with_resources(&["[secrets]", "[secrets]"]));
    for (list, why) in [
        ("[secrets, '*.']", "resources[0].resources: using overlapping resources"),
        ("[deployments.apps, '*.*']", "using overlapping resources"),
        ("[secrets, secrets]", "the same resource cannot be specified multiple times"),
        ("[secrets, secrets.]", "the same resource cannot be specified multiple times"),
        ("['*']", "resources[0].resources[0]: use '*.'"),
        ("['secrets.*']", "encrypting the same resource across groups"),
        ("[Secrets]", "should not contain capital letters"),
        ("[events.events.k8s.io]", "Use 'events' instead"),
        ("['*.events.k8s.io']", "Use 'events' instead"),
        ("['*.extensions']", "'extensions' group has been removed"),
        ("[apiserveripinfo]", "do not have REST API"),
        ("[serviceipallocations]", "do not have REST API"),
        ("[servicenodeportallocations]", "do not have REST API"),
    ] {
        check_bad(&with_resources(&[list]), &[why]);
    }
    check_bad(&with_resources(&["['*.*']", "[secrets]"]), &["resource \"secrets\" is masked by earlier rule \"*.*\""]);
    check_bad(&with_resources(&["['*.apps']", "[deployments.apps, secrets]"]), &["masked by earlier rule \"*.apps\""]);
    check_bad(&with_resources(&["['*.']", "[secrets]"]), &["masked by earlier rule \"*.\""]);
    check_bad(&with_resources(&["['*.*']", "['*.*']"]), &["masked by earlier rule \"*.*\""]);
}

#[test]
fn look_up_is_exact_then_group_then_all_then_identity() {
    let key = |name: &str| format!("{{aesgcm: {{keys: [{{name: {name}, secret: {KEY}}}]}}}}");
    let rules =
        [("[secrets]", "a"), ("[deployments.apps, secrets]", "b"), ("['*.apps']", "c"), ("['*.']", "d"), ("['*.*']", "e")];
    let body: String =
        rules.iter().map(|(names, name)| format!("- resources: {names}\n  providers: [{}]\n", key(name))).collect();
    let config = parse(&format!("{HEAD}resources:\n{body}")).unwrap();
    let found = |group: &str, resource: &str| -> String {
        config.providers_for(group, resource).iter().flat_map(|provider| provider.keys()).map(LocalKey::name).collect()
    };
    assert_eq!(found("", "secrets"), "ab", "two lists of the same resource are joined");
    assert_eq!(found("apps", "deployments"), "b");
    assert_eq!(found("apps", "daemonsets"), "c");
    assert_eq!(found("", "configmaps"), "d");
    assert_eq!(found("example.com", "pandas"), "e");
    let narrow = parse(&with_resources(&["[events]"])).unwrap();
    assert_eq!(narrow.providers_for("", "secrets"), [&Provider::Identity]);
}

#[test]
fn kms_providers_follow_the_api_server() {
    let kms = |fields: &str| with_providers(&format!("[{{kms: {{{fields}}}}}]"));
    check_good(&kms("name: 'old:v1', endpoint: 'unix:///x'"));
    check_good(&kms("apiVersion: v1, name: old, endpoint: 'unix:///x', cachesize: -1"));
    check_good(&kms("apiVersion: v2, name: new, endpoint: 'unix:///@abstract', timeout: 500ms"));
    for (fields, why) in [
        ("apiVersion: v3, name: a, endpoint: 'unix:///x'", "kms.apiVersion: unsupported apiVersion"),
        ("apiVersion: v2, name: 'a:b', endpoint: 'unix:///x'", "kms.name: invalid KMS provider name a:b"),
        ("apiVersion: v2, endpoint: 'unix:///x'", "kms.name: name is a mandatory field for a provider"),
        ("apiVersion: v2, name: a", "kms.endpoint: endpoint is a mandatory field for a kms"),
        ("apiVersion: v2, name: a, endpoint: 'http://x'", "kms.endpoint: unsupported scheme \"http\""),
        ("apiVersion: v2, name: a, endpoint: 'unix:///x', timeout: 0s", "kms.timeout: timeout should be a positive"),
        ("apiVersion: v2, name: a, endpoint: 'unix:///x', timeout: 3", "kms.timeout: must be text, is a number"),
        ("apiVersion: v2, name: a, endpoint: 'unix:///x', cachesize: 10", "kms.cachesize: cachesize is not supported in v2"),
        ("apiVersion: v1, name: a, endpoint: 'unix:///x', cachesize: 0", "kms.cachesize: cachesize should be a positive"),
    ] {
        check_bad(&kms(fields), &[why]);
    }
    let two = |first: &str, second: &str| {
        with_providers(&format!(
            "[{{kms: {{apiVersion: {first}, name: a, endpoint: 'unix:///x'}}}}, {{kms: {{apiVersion: {second}, name: a, endpoint: 'unix:///y'}}}}]"
        ))
    };
    check_good(&two("v1", "v1"));
    check_bad(&two("v1", "v2"), &["duplicate KMS provider name a"]);
    check_bad(&two("v2", "v2"), &["duplicate KMS provider name a"]);
}

#[test]
fn no_mistake_ever_shows_key_material() {
    let (material, spelled) = ([0x5a_u8; 20], base64(&[0x5a; 20]));
    let broken = [
        with_key("aescbc", &format!("{{name: k, secret: {spelled}}}")),
        with_key("aescbc", &format!("{{name: k, secret: {spelled}@}}")),
        with_key("aescbc", &format!("{{name: k, {spelled}: ~}}")),
        with_key("aescbc", &format!("{{name: k, secret: [{spelled}]}}")),
        with_key("aescbc", &format!("{{name: k, secret: {{{spelled}: 1}}}}")),
        with_key("aescbc", &format!("{{name: k, secret: {spelled}")),
        with_key("aescbc", &format!("{{name: k, secret: \"{spelled}")),
        with_key("aescbc", &format!("{{name: k, secret: !!int {spelled}}}")),
        with_key("aescbc", &format!("{{name: k, secret: *{spelled}}}")),
        with_key("aescbc", &format!("{{name: k, ? {{{spelled}: x}} : y}}")),
        with_providers(&format!("[{spelled}]")),
        with_providers(&format!("[{{aescbc: {spelled}}}]")),
        with_providers(&format!("[{{{spelled}: {{}}}}]")),
        format!("{spelled}\n"),
        format!("{HEAD}resources: {spelled}\n"),
    ];
    for yaml in &broken {
        let mistakes = EncryptionConfig::parse(yaml.as_bytes()).expect_err(yaml);
        for text in [mistakes.to_string(), format!("{mistakes:?}")] {
            assert!(!text.contains(&spelled[..12]), "{text}\n{yaml}");
        }
    }
    let key = LocalKey::new(LocalProvider::Secretbox, "k", Secret::new(material.to_vec())).unwrap_err();
    assert_eq!(key.to_string(), "secret is not of the expected length, got 20, expected one of [32]");
    let config = parse(&with_key("aescbc", &format!("{{name: k, secret: {KEY}}}"))).unwrap();
    assert!(!format!("{config:?}").contains(&KEY[..12]) && !format!("{config:?}").contains("1, 8, 15"), "{config:?}");
}

#[test]
fn names_that_yaml_would_take_for_something_else_survive_writing() {
    for name in [
        "k",
        "a:b",
        "on",
        "1e3",
        "null",
        "~",
        " k ",
        "\"",
        "\\",
        "'",
        "#",
        "- x",
        "é",
        "\u{1F600}",
        "\u{2028}",
        "a\nb",
        "\u{85}",
        "\0",
    ] {
        let key = |material: u8| LocalKey::new(LocalProvider::Aesgcm, name, Secret::new(vec![material; 32])).unwrap();
        let providers = vec![Provider::of_keys(vec![key(1), key(2)]).unwrap(), Provider::Identity];
        let config = EncryptionConfig { rules: vec![Rule { resources: vec!["*.*".to_owned()], providers }] };
        assert_eq!(parse(config.to_yaml().expose()).as_ref(), Ok(&config), "{name:?}");
    }
}

#[test]
fn one_key_makes_a_configuration_that_reads_everything_under_it() {
    let key = LocalKey::new(LocalProvider::Secretbox, "a: b", Secret::new(vec![0xff; 32])).unwrap();
    let config = EncryptionConfig::of_key(key.clone());
    let read = parse(config.to_yaml().expose()).unwrap();
    assert_eq!(read.keys(), [&key]);
    assert_eq!(read.rules[0].resources, ["*.*"]);
    assert_eq!(read.rules[0].providers.last(), Some(&Provider::Identity));
}

#[test]
fn absurd_files_are_refused_without_effort() {
    let bomb: String = (1..30).map(|n| format!("a{n}: &a{n} [*a{0},*a{0},*a{0},*a{0}]\n", n - 1)).collect();
    for (yaml, why) in [
        (String::new(), "the file is empty"),
        (" ".repeat((1 << 20) + 1), "allowed are 1048576"),
        ("[".repeat(100_000), "not YAML that can be read"),
        ("a: ".repeat(10_000), "not YAML that can be read"),
        (format!("a0: &a0 x\n{bomb}"), "not YAML that can be read"),
        (format!("- {}", "- ".repeat(50_000)), "not YAML that can be read"),
        ("x: y\n".repeat(60_000), "not YAML that can be read"),
    ] {
        check_bad(&yaml, &[why]);
    }
    let mistakes = EncryptionConfig::parse(b"\xff\xfe").unwrap_err();
    assert!(mistakes.to_string().contains("not UTF-8"));
    let many = format!("{HEAD}{}", (0..5_000).map(|n| format!("x{n}: 1\n")).collect::<String>());
    assert_eq!(EncryptionConfig::parse(many.as_bytes()).unwrap_err().all().len(), 100);
}

#[test]
fn anchors_and_merge_keys_are_read_without_overriding() {
    let file = |keys: &str| format!("{HEAD}resources:\n- resources: [secrets]\n  providers:\n  - aescbc:\n      keys:\n{keys}");
    let anchored = format!("      - &k\n        name: k\n        secret: {KEY}\n");
    let twice = parse(&file(&format!("{anchored}      - *k\n      - <<: *k\n"))).unwrap();
    assert_eq!(twice.keys().len(), 3);
    check_bad(&file(&format!("{anchored}      - <<: *k\n        name: other\n")), &["field name is given twice"]);
}

#[test]
fn mistakes_are_in_the_order_of_their_lines_however_the_file_is_arranged() {
    let yaml =
        format!("{HEAD}resources:\n- providers:\n  - aescbc: {{keys: [{{name: k, secret: '!!!'}}]}}\n  resources: [Secrets]\n");
    let mistakes = EncryptionConfig::parse(yaml.as_bytes()).unwrap_err();
    let lines: Vec<u64> = mistakes.all().iter().map(|mistake| mistake.line).collect();
    assert_eq!(lines, [5, 6], "{mistakes}");
}
