//! The real `ssh-keygen` and holdfast agree on what a good signature is.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use holdfast::record::signature::{AllowedSigners, Signer};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::test_key;

const NAMESPACE: &str = "holdfast-manifest";
const BYTES: &[u8] = b"{\"a\":1}\n";

#[allow(clippy::disallowed_methods)] // a test compares with the real program
fn ssh_keygen(arguments: &[&str], input: &[u8]) -> (bool, String) {
    let child = Command::new("ssh-keygen")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("ssh-keygen is missing: run make tools");
    let mut child = child;
    // A program that refuses its arguments may close its input unread.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// Does `ssh-keygen -Y verify` accept? `at` as `YYYYMMDDhhmmssZ`.
pub fn accepts(allowed: &str, principal: &str, namespace: &str, bytes: &[u8], signature: &[u8], at: &str) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (list, signature) = (write("allowed_signers", allowed.as_bytes()), write("sig", signature));
    let time = format!("-Overify-time={at}");
    ssh_keygen(&["-Y", "verify", "-f", &list, "-I", principal, "-n", namespace, "-s", &signature, &time], bytes).0
}

fn sign_with_ssh_keygen(key: &Path, namespace: &str, bytes: &[u8]) -> String {
    let (ok, text) = ssh_keygen(&["-q", "-Y", "sign", "-f", key.to_str().unwrap(), "-n", namespace], bytes);
    assert!(ok, "{text}");
    text[text.find("-----BEGIN").unwrap()..].to_owned()
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[test]
fn ssh_keygen_accepts_our_signature_and_refuses_altered_bytes() {
    let signer = test_key::signer("cp-1");
    let signature = signer.sign(NAMESPACE, BYTES).unwrap();
    let accepts = |principal: &str, namespace: &str, bytes: &[u8]| {
        accepts(&signer.public_line(), principal, namespace, bytes, signature.as_bytes(), "20261201130000Z")
    };
    assert!(accepts("cp-1", NAMESPACE, BYTES));
    assert!(!accepts("cp-2", NAMESPACE, BYTES));
    assert!(!accepts("cp-1", "holdfast-receipt", BYTES));
    assert!(!accepts("cp-1", NAMESPACE, b"{\"a\":2}\n"));
}

#[test]
fn a_signature_of_ssh_keygen_is_believed_and_nothing_that_differs_is() {
    let (_dir, key) = test_key::copy("test-key");
    let signature = sign_with_ssh_keygen(&key, NAMESPACE, BYTES);
    let allowed = test_key::allowed(&[&test_key::signer("cp-1")]);
    let verify = |principal: &str, namespace: &str, bytes: &[u8], signature: &str| {
        let principal = principal.parse().unwrap();
        allowed.verify("r.json", &principal, namespace, bytes, signature.as_bytes(), at("2026-12-01T13:00:00Z"))
    };
    verify("cp-1", NAMESPACE, BYTES, &signature).unwrap();

    let by_other_key = test_key::stranger("cp-1").sign(NAMESPACE, BYTES).unwrap();
    let cut = &signature[..signature.len() / 2];
    for (principal, namespace, bytes, signature, cause) in [
        ("cp-2", NAMESPACE, BYTES, &*signature, "cp-2 is not in allowed_signers"),
        ("cp-1", "holdfast-receipt", BYTES, &signature, "signed for another namespace"),
        ("cp-1", NAMESPACE, &b"{\"a\":2}\n"[..], &signature, "not the bytes that cp-1 signed"),
        ("cp-1", NAMESPACE, b"", &signature, "not the bytes that cp-1 signed"),
        ("cp-1", NAMESPACE, BYTES, &by_other_key, "is not allowed to sign as cp-1"),
        ("cp-1", NAMESPACE, BYTES, cut, "no SSH signature"),
        ("cp-1", NAMESPACE, BYTES, "", "no SSH signature"),
        ("cp-1", NAMESPACE, BYTES, &"x".repeat(5000), "larger than"),
    ] {
        let failure = verify(principal, namespace, bytes, signature).unwrap_err();
        assert_eq!((failure.code().name, failure.object()), ("record.bad-signature", "r.json"));
        assert!(failure.cause().contains(cause), "{failure}, not {cause}");
    }
}

#[test]
fn every_line_of_a_list_means_to_us_what_it_means_to_ssh_keygen() {
    let signer = test_key::signer("cp-1");
    let signature = signer.sign(NAMESPACE, BYTES).unwrap();
    let line = signer.public_line();
    let key = line.strip_prefix("cp-1 ").unwrap();
    for (fields, believed) in [
        ("cp-1", true),
        ("cp-2", false),
        ("cp-2,cp-1", true),
        ("cp-?", true),
        ("cp-??", false),
        ("*", true),
        ("!cp-1,*", false),
        ("*,!cp-1", false),
        ("!cp-2,*", true),
        ("!cp-2", false),
        ("\"cp-1\"", true),
        ("cp-1 namespaces=\"holdfast-manifest\"", true),
        ("cp-1 namespaces=\"holdfast-receipt,holdfast-manifest\"", true),
        ("cp-1 namespaces=\"holdfast-*\"", true),
        ("cp-1 namespaces=\"holdfast-*,!holdfast-manifest\"", false),
        ("cp-1 NameSpaces=\"holdfast-receipt\"", false),
        ("cp-1 valid-after=\"20261201130000Z\"", true),
        ("cp-1 valid-after=\"20261201130001Z\"", false),
        ("cp-1 valid-after=\"202612011300Z\"", true),
        ("cp-1 valid-after=\"202612011301Z\"", false),
        ("cp-1 valid-after=\"20261201Z\"", true),
        ("cp-1 valid-after=\"20261202Z\"", false),
        ("cp-1 valid-before=\"20261201130000Z\"", true),
        ("cp-1 valid-before=\"20261201125959Z\"", false),
        ("cp-1 valid-before=\"20261201Z\"", false),
        ("cp-1 valid-after=\"20261130\",valid-before=\"20261203\"", true),
        ("cp-1 namespaces=\"holdfast-manifest\",valid-before=\"20250101Z\"", false),
        ("cp-1 namespaces=holdfast-manifest", false),
        ("cp-1 valid-before=\"20261201\",valid-before=\"20271201\"", false),
        ("cp-1 valid-before=\"20250101Z\",valid-after=\"20260101Z\"", false),
        ("cp-1 cert-authority", false),
        ("cp-1 no-such-option", false),
        ("cp-1 valid-before=\"soon\"", false),
    ] {
        let list = format!("# comment\n\n{fields} {key} comment\n");
        let theirs = accepts(&list, "cp-1", NAMESPACE, BYTES, signature.as_bytes(), "20261201130000Z");
        let ours = AllowedSigners::parse("list", &list, &TimeZone::system()).and_then(|allowed| {
            let principal = "cp-1".parse().unwrap();
            allowed.verify("r", &principal, NAMESPACE, BYTES, signature.as_bytes(), at("2026-12-01T13:00:00Z"))
        });
        assert_eq!((theirs, ours.is_ok()), (believed, believed), "{fields}: {ours:?}");
    }
}

#[test]
fn a_later_line_may_allow_what_an_earlier_one_does_not() {
    let signer = test_key::signer("cp-1");
    let signature = signer.sign(NAMESPACE, BYTES).unwrap();
    let line = signer.public_line();
    let key = line.strip_prefix("cp-1 ").unwrap();
    let list = format!("cp-1 valid-before=\"20250101Z\" {key}\ncp-1 valid-after=\"20260101Z\" {key}\n");
    assert!(accepts(&list, "cp-1", NAMESPACE, BYTES, signature.as_bytes(), "20261201130000Z"));
    let allowed = AllowedSigners::parse("list", &list, &TimeZone::UTC).unwrap();
    let verify = |time: &str| allowed.verify("r", signer.principal(), NAMESPACE, BYTES, signature.as_bytes(), at(time));
    verify("2026-12-01T13:00:00Z").unwrap();
    verify("2024-12-01T13:00:00Z").unwrap();
    assert!(verify("2025-06-01T00:00:00Z").unwrap_err().cause().contains("not valid at 2025-06-01T00:00:00Z"));
}

#[test]
fn keys_that_cannot_or_must_not_sign_are_refused_by_name() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let make = |name: &str, arguments: &[&str]| {
        let path = dir.path().join(name);
        let (ok, text) = ssh_keygen(&[arguments, &["-q", "-f", path.to_str().unwrap()]].concat(), b"");
        assert!(ok, "{text}");
        path
    };
    let load = |path: &Path| Signer::load(path, "cp-1".parse().unwrap());
    let good = make("good", &["-t", "ed25519", "-N", ""]);
    load(&good).unwrap();
    std::fs::set_permissions(&good, std::fs::Permissions::from_mode(0o640)).unwrap();
    let garbage = dir.path().join("garbage");
    std::fs::write(&garbage, b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n").unwrap();
    std::fs::set_permissions(&garbage, std::fs::Permissions::from_mode(0o600)).unwrap();
    for (path, cause) in [
        (good, "mode 0640 lets other users at the key"),
        (garbage, "not an OpenSSH ed25519 private key"),
        (make("locked", &["-t", "ed25519", "-N", "passphrase"]), "has a passphrase"),
        (make("ecdsa", &["-t", "ecdsa", "-N", ""]), "not an OpenSSH ed25519 private key"),
        (dir.path().join("absent"), "No such file"),
        (dir.path().to_owned(), "mode"),
    ] {
        let failure = load(&path).unwrap_err();
        assert_eq!(failure.code().name, "signing.key-unusable");
        assert!(failure.cause().contains(cause), "{failure}, not {cause}");
    }
}

#[test]
fn a_signer_never_prints_its_key() {
    let pem = std::fs::read_to_string(test_key::data("test-key")).unwrap();
    let printed = format!("{:?}", test_key::signer("cp-1"));
    assert!(pem.lines().skip(1).all(|line| !printed.contains(line)), "{printed}");
    assert!(printed.contains("cp-1"));
}
