//! P9: a person follows `RESTORE.md` with stock tools and gets a data directory
//! and an EncryptionConfiguration.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use holdfast::k8s::encryption_config::EncryptionConfig;

use super::image;
use super::show::{Show, show, snapshots};

/// The shell blocks of the page, as one script.
fn script(page: &str) -> String {
    let mut script = String::from("set -euo pipefail\n");
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

fn copy_of(snapshot: &Path, show: &Show) -> (tempfile::TempDir, PathBuf, PathBuf) {
    let copy = tempfile::tempdir().unwrap();
    let store = show.folder.join("stores/snapshots");
    let target = copy.path().join(snapshot.strip_prefix(&store).unwrap());
    std::fs::create_dir_all(&target).unwrap();
    for file in ["etcd.db.zst.age", "RESTORE.md", "manifest.json", "manifest.json.sig"] {
        std::fs::copy(snapshot.join(file), target.join(file)).unwrap();
    }
    let root = copy.path().to_owned();
    (copy, root, target)
}

#[test]
fn restore_md_stops_at_an_altered_object_manifest_or_page() {
    let show = show();
    let original = &snapshots(show)[0];
    let script = script(&page(original));
    for file in ["etcd.db.zst.age", "manifest.json", "RESTORE.md"] {
        let (_copy, root, folder) = copy_of(original, show);
        let mut bytes = std::fs::read(folder.join(file)).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(folder.join(file), bytes).unwrap();
        let out = tempfile::tempdir().unwrap();
        let script = format!("SNAPSHOTS='{}'\n{script}", root.display());
        let output = follow(show, &folder, &script, &out.path().join("out"));
        assert!(!output.status.success(), "{file} was altered and nobody noticed");
        assert!(!out.path().join("out/etcd").exists(), "{file}");
    }
}
