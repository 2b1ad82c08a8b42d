//! Which snapshot is meant where the ledger, the state or the signing key is gone.

use std::fs;

use super::{Host, Up, text};
use crate::scene::source;

/// Removes lines from the host's configuration.
fn without(host: &Host, start: &str) {
    let config = host.config();
    let text = fs::read_to_string(&config).unwrap();
    let kept: Vec<_> = text.lines().filter(|line| !line.starts_with(start)).collect();
    assert!(kept.len() < text.lines().count(), "{start}");
    fs::write(&config, kept.join("\n")).unwrap();
}

#[test]
fn without_ledger_state_and_signing_key_the_store_alone_is_enough() {
    let host = Host::new();
    fs::remove_dir_all(host.scene.store(&host.scene.config.ledger.store)).unwrap();
    let state = &host.scene.config.host.state_dir;
    assert!(!state.exists() || fs::remove_dir_all(state).is_ok());
    fs::create_dir(state).unwrap();
    without(&host, "signing_key");
    // Any id, the start of one, and the newest.
    let id = source().first.id.as_str();
    for asked in [id, id.split_once('-').unwrap().1, "latest"] {
        let output = host.run(&["restore", asked, "--into", "scratch", "--to", "boot", "--json"], 0);
        let document = serde_json::from_slice(&output.stdout).unwrap();
        let up = Up::of(&document);
        let expected = if asked == "latest" { &source().second.id } else { &source().first.id };
        assert_eq!(document["up"]["snapshot"], expected.as_str(), "{asked}");
        assert_eq!(document["recorded"], false);
        let told = text(&output.stderr);
        for part in ["found in the snapshot store", "nothing of this restore is put on record", "\"warning\""] {
            assert!(told.contains(part), "{part}: {told}");
        }
        host.run(&["scratch", "down", &up.run], 0);
    }
    let failure = host.refuses(&["restore", "20200101T000000Z-00000000", "--into", "scratch"], 2, "snapshot.unknown");
    assert_eq!(failure["object"], "20200101T000000Z-00000000");
    host.refuses(&["restore", "2", "--into", "scratch"], 3, "snapshot.ambiguous");
    host.scene.nothing_is_left();
}

#[test]
fn what_the_store_alone_tells_is_believed_only_signed() {
    let host = Host::new();
    fs::remove_dir_all(host.scene.store(&host.scene.config.ledger.store)).unwrap();
    let signature = crate::scene::files(&host.scene.store(&host.scene.config.snapshots.store))
        .into_iter()
        .find(|path| path.to_str().unwrap().ends_with(&format!("{}/manifest.json.sig", source().second.id)))
        .unwrap();
    fs::remove_file(&signature).unwrap();
    host.refuses(&["restore", source().second.id.as_str(), "--into", "scratch"], 1, "record.unsigned");
    // The newest that is believed.
    let up = host.raise("latest", &["--to", "boot"]);
    assert_eq!(up.document["up"]["snapshot"], source().first.id.as_str());
}

#[test]
fn identities_may_be_brought_for_one_restore_and_without_any_there_is_none() {
    let host = Host::new();
    let identities: Vec<_> =
        ["snapshots", "escrow"].iter().map(|store| host.scene.identity(store).display().to_string()).collect();
    without(&host, "identity_file");
    let id = source().second.id.as_str();
    let error = host.refuses(&["restore", id, "--into", "scratch"], 3, "config.section-missing");
    assert_eq!(error["object"], "snapshots.identity_file");
    let mut brought = vec!["--to", "boot"];
    brought.extend(identities.iter().flat_map(|path| ["--identity", path.as_str()]));
    let up = host.raise(id, &brought);
    assert_eq!(up.document["report"]["decryption"]["opened"].as_u64(), Some(source().secrets as u64 + 1));
    host.run(&["scratch", "down"], 0);
}

#[test]
fn a_small_file_that_opens_to_more_than_the_limit_for_memory_is_refused() {
    let host = Host::new();
    let config = host.config();
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{text}\n[backup]\nimage_limit = \"1MiB\"\n")).unwrap();
    let file = host.scene.root.path().join("etcd.db.zst");
    fs::write(&file, zstd::encode_all(&vec![0; 4 << 20][..], 3).unwrap()).unwrap();
    assert!(fs::metadata(&file).unwrap().len() < 4096);
    let document = host.json(&["restore", "--into", "scratch", "--from", file.to_str().unwrap()], 2);
    let failure = &document["report"]["failures"][0];
    assert_eq!((&failure["step"], &failure["code"]), (&"fetch-image".into(), &"backup.image.too-large".into()), "{failure}");
    host.scene.nothing_is_left();
}

#[test]
fn a_restore_is_on_record_as_a_rehearsal_is() {
    let host = Host::new();
    let up = host.raise(source().first.id.as_str(), &["--to", "boot"]);
    let shown = host.json(&["show", source().first.id.as_str()], 0);
    let attested = &shown["attestations"][0];
    assert_eq!((&attested["run"], &attested["passed"]), (&up.run.as_str().into(), &true.into()), "{attested:#}");
    assert!(attested["rto_ms"].as_u64().unwrap() > 0);
    let report = text(&host.run(&["report", &up.run, "--format", "md"], 0).stdout);
    assert!(report.contains("Tear everything down"), "the report says what was not done: {report}");
    host.run(&["scratch", "down"], 0);
}
