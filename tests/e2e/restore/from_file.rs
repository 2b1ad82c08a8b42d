//! `restore --from FILE`: a machine that has a file, and nothing else.

use std::fs;

use holdfast::k8s::encryption_config::{EncryptionConfig, Provider, Rule};
use serde_json::Value;

use super::{Bare, Up, kubectl, text};
use crate::scene::{Scene, files, source};

const TO_BOOT: [&str; 4] = ["--into", "scratch", "--to", "boot"];
const TO_SERVE: [&str; 2] = ["--into", "scratch"];

fn from<'a>(file: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["restore", "--from", file], more].concat()
}

/// The second snapshot as etcdctl writes it.
fn image() -> Vec<u8> {
    Scene::new().opened(&source().second.id)
}

fn with_keys(bare: &Bare) -> String {
    bare.file("encryption.yaml", source().encryption.to_yaml().expose().as_bytes())
}

#[test]
fn a_file_and_its_keys_are_enough_for_kubectl_to_read_a_secret() {
    let bare = Bare::new();
    let (file, keys) = (bare.file("etcd.snapshot", &image()), with_keys(&bare));
    let (document, told) = bare.json(&[from(&file, &TO_SERVE), vec!["--encryption-config", &keys]].concat(), 0);
    let up = Up::of(&document);
    assert!(told.contains("nobody signed for this file"), "{told}");
    assert_eq!((&document["recorded"], &document["page"]), (&false.into(), &Value::Null));
    assert_eq!(document["report"]["snapshot"]["quality"], "good", "{:#}", document["report"]["snapshot"]);
    let (name, data) = source().values.iter().next().unwrap();
    let (namespace, name) = name.split_once('/').unwrap();
    let read = kubectl(&up.kubeconfig, &["get", "secret", name, "-n", namespace, "-o", "json"]);
    let read: Value = serde_json::from_slice(&read.stdout).unwrap_or_else(|_| panic!("{}", text(&read.stderr)));
    assert_eq!(&read["data"], data);
    bare.json(&["scratch", "down"], 0);
    bare.nothing_is_left();
    assert!(!up.kubeconfig.exists());
}

#[test]
fn a_sealed_object_opens_with_identities_and_sealed_keys_alone() {
    let (bare, scene) = (Bare::new(), Scene::new());
    let sealed = scene.sealed(&source().second.id);
    let identities: Vec<_> = ["snapshots", "escrow"].iter().map(|store| scene.identity(store).display().to_string()).collect();
    let records: Vec<_> = files(&scene.store(&scene.config.escrow.store))
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "age"))
        .map(|path| path.display().to_string())
        .collect();
    let mut arguments = from(sealed.to_str().unwrap(), &TO_BOOT);
    arguments.extend(identities.iter().flat_map(|path| ["--identity", path.as_str()]));
    arguments.extend(records.iter().flat_map(|path| ["--escrow-record", path.as_str()]));
    let (document, _) = bare.json(&arguments, 0);
    let decryption = &document["report"]["decryption"];
    assert_eq!(
        (&decryption["opened"], decryption["encrypted"].as_u64()),
        (&decryption["encrypted"], Some(source().secrets as u64 + 1))
    );
    bare.json(&["scratch", "down"], 0);
}

#[test]
fn a_raw_copy_of_a_database_is_restored_and_called_suspect() {
    let bare = Bare::new();
    let mut image = image();
    image.truncate(image.len() - 32);
    let (file, keys) = (bare.file("db", &image), with_keys(&bare));
    let arguments = [from(&file, &TO_BOOT), vec!["--encryption-config", &keys]].concat();
    let (document, _) = bare.json(&arguments, 0);
    let report = &document["report"];
    assert_eq!(report["snapshot"]["quality"], "suspect");
    assert!(report["deviations"].to_string().contains("no digest"), "{:#}", report["deviations"]);
    bare.json(&["scratch", "down"], 0);
    // A person is told, too.
    let output = bare.command(&arguments).output().unwrap();
    assert!(text(&output.stdout).contains("SUSPECT"), "{}", text(&output.stdout));
    bare.json(&["scratch", "down"], 0);
}

#[test]
fn keys_that_are_missing_are_named_with_what_hangs_on_them_and_no_server_waits_for_them() {
    let bare = Bare::new();
    let file = bare.file("etcd.snapshot", &image());
    let failure = bare.fails(&from(&file, &TO_SERVE), 1, "open-keys", "restore.key-missing");
    let cause = failure["cause"].as_str().unwrap();
    for part in ["aescbc key1", "aescbc key2", "no key was given", "the first is /registry/", "cannot be read"] {
        assert!(cause.contains(part), "{part}: {cause}");
    }
    // One of two keys, and another key under the right name.
    let Provider::Aescbc(keys) = &source().encryption.rules[0].providers[0] else { panic!("the scene uses aescbc") };
    let of = |keys: Vec<_>| EncryptionConfig {
        rules: vec![Rule { resources: vec!["*.*".into()], providers: vec![Provider::Aescbc(keys)] }],
    };
    let one = bare.file("one.yaml", of(vec![keys[0].clone()]).to_yaml().expose().as_bytes());
    let failure =
        bare.fails(&[from(&file, &TO_SERVE), vec!["--encryption-config", &one]].concat(), 1, "open-keys", "restore.key-missing");
    let cause = failure["cause"].as_str().unwrap();
    assert!(cause.contains("aescbc key1") && !cause.contains("aescbc key2"), "{cause}");
    let renamed =
        |from: usize, name: &str| holdfast::k8s::LocalKey::new(keys[from].provider(), name, keys[from].secret().clone()).unwrap();
    let crossed = of(vec![renamed(0, keys[1].name()), renamed(1, keys[0].name())]);
    let crossed = bare.file("crossed.yaml", crossed.to_yaml().expose().as_bytes());
    let failure = bare.fails(
        &[from(&file, &TO_SERVE), vec!["--encryption-config", &crossed]].concat(),
        1,
        "open-keys",
        "restore.key-missing",
    );
    assert!(failure["cause"].as_str().unwrap().contains("does not open its objects"), "{failure}");
}

#[test]
fn a_file_that_is_damaged_or_something_else_is_not_restored() {
    let bare = Bare::new();
    let whole = image();
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = whole.clone();
        change(&mut bytes);
        bytes
    };
    let cases: [(&str, Vec<u8>); 6] = [
        (
            "a flipped bit",
            changed(&|bytes| {
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
            }),
        ),
        ("cut inside a page", changed(&|bytes| bytes.truncate(bytes.len() / 2 + 7))),
        ("cut between pages", changed(&|bytes| bytes.truncate(bytes.len() / 2 / 4096 * 4096))),
        (
            "a raw copy with zeros in its middle",
            changed(&|bytes| {
                let length = bytes.len() - 32;
                bytes.truncate(length);
                bytes[8192..length - 8192].fill(0);
            }),
        ),
        ("nothing", Vec::new()),
        ("some text", b"not a snapshot at all\n".repeat(100)),
    ];
    for (what, bytes) in cases {
        let file = bare.file("damaged", &bytes);
        let failure = bare.fails(&from(&file, &TO_BOOT), 1, "fetch-image", "rehearsal.structure");
        assert_eq!(failure["object"], file, "{what}");
    }
    let sealed = fs::read(Scene::new().sealed(&source().second.id)).unwrap();
    let scene = Scene::new();
    let identity = scene.identity("snapshots").display().to_string();
    for cut in [sealed.len() / 2, 100] {
        let file = bare.file("cut.age", &sealed[..cut]);
        bare.fails(&[from(&file, &TO_BOOT), vec!["--identity", &identity]].concat(), 1, "fetch-image", "rehearsal.structure");
    }
    let folder = bare.folder.path().to_str().unwrap().to_owned();
    for path in [folder.as_str(), "/nonexistent/file"] {
        bare.refuses(&from(path, &TO_BOOT), 2, "inspect.unreadable");
    }
}

#[test]
fn a_sealed_file_wants_its_identity_and_a_clear_one_no_store() {
    let (bare, scene) = (Bare::new(), Scene::new());
    let sealed = scene.sealed(&source().second.id).display().to_string();
    bare.fails(&from(&sealed, &TO_BOOT), 2, "fetch-image", "restore.file-sealed");
    let other = scene.identity("escrow").display().to_string();
    let failure =
        bare.fails(&[from(&sealed, &TO_BOOT), vec!["--identity", &other]].concat(), 2, "fetch-image", "identity.not-a-recipient");
    assert!(!failure.to_string().contains("AGE-SECRET-KEY"), "{failure}");
    let file = bare.file("etcd.snapshot", &image());
    bare.refuses(&[from(&file, &TO_BOOT), vec!["--identity", "/nonexistent/identity"]].concat(), 2, "identity.unreadable");
    bare.refuses(&[from(&file, &TO_BOOT), vec!["--escrow-record", &sealed]].concat(), 2, "restore.file-sealed");
    bare.refuses(&[from(&file, &TO_BOOT), vec!["--encryption-config", &file]].concat(), 3, "inspect.encryption-config");
    // Without a file there must be a configuration that says where snapshots lie.
    bare.refuses(&["restore", "latest", "--into", "scratch"], 3, "config.unreadable");
    bare.refuses(&[from(&file, &TO_BOOT), vec!["--config", "/nonexistent/holdfast.toml"]].concat(), 3, "config.unreadable");
}

#[test]
fn programs_that_are_missing_are_named() {
    let bare = Bare::new();
    let (file, keys) = (bare.file("etcd.snapshot", &image()), with_keys(&bare));
    let arguments = [from(&file, &TO_BOOT), vec!["--encryption-config", &keys, "--json"]].concat();
    let mut command = bare.command(&arguments);
    command.env("PATH", "").env("HOME", bare.folder.path()).env_remove("XDG_CACHE_HOME").env_remove("HOLDFAST_TOOLS");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let failure = &document["report"]["failures"][0];
    assert_eq!((&failure["step"], &failure["code"]), (&"restore-data".into(), &"tool.missing".into()));
    bare.nothing_is_left();
}

#[test]
fn a_disk_that_fills_up_is_named_and_nothing_is_left_on_it() {
    if !rustix::process::geteuid().is_root() {
        // Only root can make a small disk; the sandbox without a fence has no part in this.
        return;
    }
    let bare = Bare::new();
    let (file, keys) = (bare.file("etcd.snapshot", &image()), with_keys(&bare));
    fs::create_dir(bare.scratch()).unwrap();
    let inner = bare.command(&[from(&file, &TO_BOOT), vec!["--encryption-config", &keys, "--json"]].concat());
    // A disk of its own, seen by this one command: 4 MiB hold no write-ahead log.
    let script = r#"mount -t tmpfs -o size=4m small "$0" && "$@"; code=$?; ls -A "$0" >&3; exit $code"#;
    let mut command = super::program("unshare");
    command
        .args(["--mount", "sh", "-c", &script.replace(">&3", "> \"$0.left\"")])
        .arg(bare.scratch())
        .arg(inner.get_program())
        .args(inner.get_args());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let failure = &document["report"]["failures"][0];
    assert_eq!((&failure["step"], &failure["code"]), (&"restore-data".into(), &"tool.failed".into()), "{failure}");
    assert!(failure["cause"].as_str().unwrap().contains("no space left on device"), "{failure}");
    assert_eq!(fs::read_to_string(bare.folder.path().join("scratch.left")).unwrap(), "");
}
