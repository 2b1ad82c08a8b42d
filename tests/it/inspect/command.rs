//! The command itself: arguments, exit codes, both faces of the answer.

use std::path::{Path, PathBuf};

use holdfast::base::exit::Exit;
use holdfast::base::failure::Failure;
use holdfast::cli::inspect::{Inspect, run};
use holdfast::scan::Inspection;

use crate::data;

/// `inspect FILE`, its exit code and what it printed.
fn inspect(file: impl AsRef<Path>, configs: &[PathBuf], json: bool) -> Result<(Exit, String), Failure> {
    let arguments = Inspect { file: file.as_ref().to_owned(), encryption_configs: configs.to_vec() };
    let mut out = Vec::new();
    run(&arguments, json, &mut out).map(|exit| (exit, String::from_utf8(out).unwrap()))
}

/// An EncryptionConfiguration with every local key of `snapshot-secrets.json`.
fn all_keys(directory: &Path) -> PathBuf {
    let named = super::config("all", super::local_keys());
    let path = directory.join("encryption.yaml");
    std::fs::write(&path, named.config.to_yaml().expose()).unwrap();
    path
}

#[test]
fn json_is_the_contract() {
    let (exit, text) = inspect(data::path("tiny.snap"), &[], true).unwrap();
    assert_eq!(exit, Exit::Bad);
    let inspection: Inspection = serde_json::from_str(&text).unwrap();
    assert_eq!(inspection, holdfast::scan::mapped::inspect(&data::bytes("tiny.snap"), &[]));
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let names = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(
        names(&value),
        ["etcd", "file", "keys", "other", "prefix", "problems", "resources", "union_opens", "verdict"],
        "serde_json sorts here; all fields are there"
    );
    assert_eq!(value["file"]["trailer"], "ok");
}

#[test]
fn the_page_fits_a_terminal_and_holds_no_key_material() {
    let directory = tempfile::tempdir().unwrap();
    let config = all_keys(directory.path());
    let (exit, page) = inspect(data::path("tiny.snap"), &[config], false).unwrap();
    assert_eq!(exit, Exit::Bad);
    // The path of the file may be long; everything else fits.
    let page: String = page.lines().skip_while(|line| !line.starts_with("whole")).map(|line| format!("{line}\n")).collect();
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
    insta::assert_snapshot!("page", page);
    for secret in data::json("snapshot-secrets.json").as_array().unwrap() {
        for field in ["key_b64", "plaintext_b64"] {
            let Some(base64) = secret[field].as_str() else { continue };
            let raw = data_encoding::BASE64.decode(base64.as_bytes()).unwrap();
            let hex = data_encoding::HEXLOWER.encode(&raw);
            assert!(!page.contains(base64) && !page.contains(&hex), "{field} of {}", secret["etcd_key"]);
        }
    }
}

#[test]
fn branchy_is_read_and_exits_bad_for_want_of_a_digest() {
    let (exit, text) = inspect(data::path("branchy.db"), &[], true).unwrap();
    assert_eq!(exit, Exit::Bad);
    assert!(text.contains("\"trailer-missing\""), "{text}");
}

#[test]
fn paths_that_are_no_readable_file_could_not_run() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    for (path, cause) in [
        (directory.path().join("absent"), "No such file"),
        (directory.path().to_owned(), "is a directory"),
        (pipe, "is not a regular file"),
        (data::path("tiny.snap").join("below"), "Not a directory"),
    ] {
        let failure = inspect(&path, &[], false).unwrap_err();
        assert_eq!((failure.code().name, failure.exit()), ("inspect.unreadable", Exit::CouldNotRun), "{failure}");
        assert!(failure.cause().contains(cause), "{failure}");
    }
}

#[test]
fn an_empty_file_and_a_text_file_are_answers() {
    let directory = tempfile::tempdir().unwrap();
    for (name, content) in [("empty", String::new()), ("text", "not a snapshot\n".repeat(1000))] {
        let path = directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        let (exit, page) = inspect(&path, &[], false).unwrap();
        assert_eq!(exit, Exit::Bad, "{name}");
        assert!(page.contains("structure-broken") && page.contains("UNRESTORABLE: it cannot be read"), "{page}");
    }
}

#[test]
fn a_bad_configuration_is_a_usage_error_that_names_the_file_and_shows_no_secret() {
    let directory = tempfile::tempdir().unwrap();
    let material = "c2VjcmV0LW1hdGVyaWFsLXRoYXQtaXMtdG9vLWxvbmctZm9yLWEta2V5";
    let header = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n";
    let wrong_length = format!(
        "{header}resources:\n- resources: [secrets]\n  providers:\n  - aescbc:\n      keys:\n      - name: k\n        secret: {material}\n"
    );
    for (name, content) in [("length", wrong_length.as_str()), ("empty", ""), ("no-yaml", "{"), ("other", "kind: Pod\n")] {
        let path = directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        let failure = inspect(data::path("tiny.snap"), std::slice::from_ref(&path), false).unwrap_err();
        assert_eq!((failure.code().name, failure.exit()), ("inspect.encryption-config", Exit::Usage), "{failure}");
        assert!(failure.object().ends_with(name), "{failure}");
        assert!(!format!("{failure:?}").contains(material), "{failure}");
    }
    let absent = directory.path().join("absent");
    let failure = inspect(data::path("tiny.snap"), &[absent], false).unwrap_err();
    assert_eq!(failure.code().name, "inspect.encryption-config");
    assert!(inspect(data::path("tiny.snap"), &[all_keys(directory.path())], true).is_ok());
}

/// Keys from a pipe that never ends stand for a snapshot that takes minutes to read.
#[test]
#[allow(clippy::disallowed_methods)] // the process is what is tested
fn a_signal_ends_it_while_it_reads() {
    use rustix::process::{Pid, Signal, kill_process};
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("keys");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let mut inspecting = std::process::Command::new(env!("CARGO_BIN_EXE_holdfast"))
        .args(["inspect", "--encryption-config"])
        .args([&pipe, &data::path("tiny.snap")])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // Opens when the other side does: it is reading then.
    let _never_closed = std::fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    kill_process(Pid::from_child(&inspecting), Signal::INT).unwrap();
    let mut said = String::new();
    std::io::Read::read_to_string(&mut inspecting.stderr.take().unwrap(), &mut said).unwrap();
    assert_eq!(inspecting.wait().unwrap().code(), Some(130), "{said}");
    assert!(said.contains("code: interrupted"), "{said}");
}
