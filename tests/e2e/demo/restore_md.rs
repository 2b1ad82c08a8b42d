//! P9: a person follows `RESTORE.md` with stock tools and gets a data directory
//! and an EncryptionConfiguration.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use holdfast::k8s::encryption_config::EncryptionConfig;

use super::image;
use super::show::{Show, files, show, snapshots};

/// The shell blocks of the page, as one script.
fn script(page: &str) -> String {
    let mut script = String::new();
    for block in page.split("```sh\n").skip(1) {
        script.push_str(block.split("\n```").next().unwrap());
        script.push('\n');
    }
    script
}

/// A `PATH` with the tools that the page names, and no holdfast.
fn path() -> std::ffi::OsString {
    // The demo's own links to the tools that it found.
    format!("{}:/usr/bin:/bin", show().folder.join("tools").display()).into()
}

#[allow(clippy::disallowed_methods)] // the stock tools under test
fn follow(show: &Show, snapshot: &Path, script: &str, out: &Path) -> Output {
    let host = show.folder.join("hosts/rehearsal-1");
    Command::new("bash")
        .args(["-c", script])
        .env_clear()
        .env("PATH", path())
        .env("SNAPSHOTS", show.folder.join("stores/snapshots"))
        .env("ESCROW", show.folder.join("stores/escrow"))
        .env("SNAPSHOT_IDENTITY", host.join("snapshots-identity.txt"))
        .env("ESCROW_IDENTITY", host.join("escrow-identity.txt"))
        .env("ALLOWED_SIGNERS", show.folder.join("allowed_signers"))
        .env("OUT", out)
        .current_dir(snapshot)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn page(snapshot: &Path) -> String {
    std::fs::read_to_string(snapshot.join("RESTORE.md")).unwrap()
}

#[test]
fn following_restore_md_gives_a_data_directory_and_the_configuration() {
    let show = show();
    let made = tempfile::tempdir().unwrap();
    for (i, snapshot) in snapshots(show).iter().enumerate() {
        let out = made.path().join(i.to_string());
        let output = follow(show, snapshot, &script(&page(snapshot)), &out);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(out.join("etcd/member/snap/db").is_file());
        let rebuilt = std::fs::read(out.join("encryption-configuration.json")).unwrap();
        let rebuilt = EncryptionConfig::parse(&rebuilt).unwrap();
        assert_eq!(rebuilt.keys().len(), i + 1);
        let values = image::secret_values(&image::open(show, snapshot), rebuilt);
        assert_eq!(values.len(), 40, "every Secret opens with what a person rebuilt");
    }
}

/// A copy of one of the demo's stores.
fn copy_of(show: &Show, store: &str) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    let root = show.folder.join("stores").join(store);
    for file in files(&root) {
        let target = copy.path().join(file.strip_prefix(&root).unwrap());
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(&file, target).unwrap();
    }
    copy
}

fn flip_a_byte(file: &Path) {
    let mut bytes = std::fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn restore_md_stops_at_an_altered_object_manifest_page_or_key() {
    let show = show();
    let original = &snapshots(show)[0];
    let script = script(&page(original));
    let mut altered = 0;
    for (store, variable) in [("snapshots", "SNAPSHOTS"), ("escrow", "ESCROW")] {
        let root = show.folder.join("stores").join(store);
        // What this snapshot's page names: its own folder, and the key it needs.
        for file in files(&root).iter().filter(|f| f.starts_with(original) || page(original).contains(&stem(f, &root))) {
            let copy = copy_of(show, store);
            flip_a_byte(&copy.path().join(file.strip_prefix(&root).unwrap()));
            let out = tempfile::tempdir().unwrap();
            let script = format!("{variable}='{}'\n{script}", copy.path().display());
            let output = follow(show, original, &script, &out.path().join("out"));
            assert!(!output.status.success(), "{} was altered and nobody noticed", file.display());
            assert!(!out.path().join("out/etcd").exists(), "{}", file.display());
            altered += 1;
        }
    }
    assert_eq!(altered, 7, "object, page, manifest and its signature; sealed key, record and its signature");
}

/// A file's path in its store, without its ending.
fn stem(file: &Path, root: &Path) -> String {
    let path = file.strip_prefix(root).unwrap().to_str().unwrap();
    ["json.sig", "json", "age"]
        .iter()
        .find_map(|ending| path.strip_suffix(ending))
        .unwrap_or(path)
        .trim_end_matches('.')
        .to_owned()
}

#[test]
fn restore_md_names_a_missing_tool_before_it_opens_anything() {
    let show = show();
    let snapshot = &snapshots(show)[0];
    let out = tempfile::tempdir().unwrap();
    let script = format!("PATH=/usr/bin:/bin\n{}", script(&page(snapshot)));
    let output = follow(show, snapshot, &script, &out.path().join("out"));
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("etcdutl is missing"));
    assert!(!out.path().join("out").exists());
}
