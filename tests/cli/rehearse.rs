//! `rehearse` and `verify`, to rung `open`: no program but this one runs.

use std::fs;

use crate::data;
use crate::site::{REHEARSER, Site, files, write};
use crate::transcript::Run;

/// Nothing of a run is left where runs work.
fn nothing_is_left(site: &Site) {
    assert_eq!(files(&site.path("scratch")), Vec::<std::path::PathBuf>::new());
}

/// Verifies the good snapshot after it was spoilt; the answer is bad, and no proof is left behind.
#[track_caller]
fn spoilt(name: &str, code: &str, spoil: impl FnOnce(&Site)) -> Run {
    let site = Site::with_snapshots();
    spoil(&site);
    let run = site.ask(&["verify", site.good().as_str()]).exits(1).is(name);
    nothing_is_left(&site);
    let machine = site.ask(&["verify", site.good().as_str(), "--json"]).exits(1);
    assert_eq!(machine.stderr, "");
    assert!(machine.document().to_string().contains(code), "{machine:#?}");
    let list = site.ask(&["list", "--json"]).document();
    let row = &list["snapshots"][0];
    assert_eq!((row["proven"].is_null(), &row["restorable"]), (true, &false.into()), "{row:#}");
    assert_eq!(row["last_attempt"]["failure"], code);
    run
}

/// Verifies the good snapshot on a host that cannot: exit 2 or 3, and the list does not change.
#[track_caller]
fn hindered(name: &str, code: &str, exit: i32, hinder: impl FnOnce(&Site)) {
    let site = Site::with_snapshots();
    hinder(&site);
    site.ask(&["verify"]).exits(exit).is(name);
    nothing_is_left(&site);
    site.ask(&["verify", "--json"]).exits(exit).refuses(code);
    unjudged(&site);
}

/// The newest snapshot counts as restorable as before, and as not proven.
#[track_caller]
fn unjudged(site: &Site) {
    let row = site.ask(&["list", "--json"]).document()["snapshots"][0].clone();
    assert_eq!((row["proven"].is_null(), &row["restorable"]), (true, &true.into()), "{row:#}");
}

#[test]
fn a_good_snapshot_is_verified_and_the_list_says_so() {
    let site = Site::with_snapshots();
    site.ask(&["verify"]).exits(0).is("verify-good");
    nothing_is_left(&site);
    assert_eq!(site.files(REHEARSER).iter().filter(|path| path.to_str().unwrap().contains("/reports/")).count(), 3);
    let list = site.ask(&["list", "--json"]).document();
    assert_eq!(list["snapshots"][0]["proven"]["rung"], "open");
    let rehearsed = site.ask(&["rehearse", site.good().as_str(), "--to", "open", "--json"]).exits(0);
    rehearsed.document();
    assert_eq!(rehearsed.stderr, "", "programs get nothing that is no JSON");
}

#[test]
fn values_that_no_key_opens_fail_and_are_named() {
    let site = Site::with_snapshots();
    site.ask(&["verify", site.doubtful().as_str()]).exits(1).is("verify-doubtful");
}

#[test]
fn a_withheld_key_fails_and_is_named_with_its_objects() {
    let spoil = |site: &Site| {
        let key = site.good.as_ref().unwrap().manifest.keys.iter().find(|key| key.name == "key-2024").unwrap();
        let fingerprint = key.fingerprint.clone().unwrap();
        for file in site.files("escrow").iter().filter(|path| path.to_str().unwrap().contains(&fingerprint)) {
            fs::remove_file(file).unwrap();
        }
    };
    let run = spoilt("verify-withheld-key", "escrow.key-missing", spoil);
    assert!(run.stdout.contains("key-2024") && run.stdout.contains("/registry/secrets/shop/cbc-old"), "{run:#?}");
}

#[test]
fn an_identity_that_nothing_is_sealed_to_cannot_tell() {
    for (name, store) in [("verify-wrong-escrow-identity", "escrow"), ("verify-wrong-snapshot-identity", "snapshots")] {
        let site = Site::with_snapshots();
        site.make_identity(store);
        site.ask(&["verify"]).exits(2).is(name);
        nothing_is_left(&site);
        let machine = site.ask(&["verify", "--json"]).exits(2);
        assert_eq!(machine.stderr, "");
        assert!(machine.document().to_string().contains("identity.not-a-recipient"), "{machine:#?}");
        unjudged(&site);
    }
}

#[test]
fn a_truncated_object_fails() {
    spoilt("verify-truncated", "snapshot.altered", |site| {
        let object = site.file("snapshots", &[site.good().as_str(), "etcd.db.zst.age"]);
        let bytes = fs::read(&object).unwrap();
        fs::write(&object, &bytes[..1000]).unwrap();
    });
}

#[test]
fn an_altered_object_fails() {
    spoilt("verify-altered", "snapshot.altered", |site| {
        let object = site.file("snapshots", &[site.good().as_str(), "etcd.db.zst.age"]);
        let mut bytes = fs::read(&object).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&object, bytes).unwrap();
    });
}

#[test]
fn an_object_that_is_gone_fails() {
    spoilt("verify-object-gone", "snapshot.altered", |site| {
        fs::remove_file(site.file("snapshots", &[site.good().as_str(), "etcd.db.zst.age"])).unwrap();
    });
}

#[test]
fn a_manifest_with_a_wrong_signature_fails() {
    spoilt("verify-wrong-signature", "record.bad-signature", |site| {
        let signature = site.file("snapshots", &[site.good().as_str(), "manifest.json.sig"]);
        let bytes = fs::read(signature.with_extension("")).unwrap();
        fs::write(&signature, site.signer(REHEARSER).sign("holdfast-manifest", &bytes).unwrap()).unwrap();
    });
}

#[test]
fn a_manifest_without_a_signature_fails() {
    spoilt("verify-unsigned", "record.unsigned", |site| {
        fs::remove_file(site.file("snapshots", &[site.good().as_str(), "manifest.json.sig"])).unwrap();
    });
}

#[test]
fn a_manifest_under_another_snapshots_path_fails() {
    spoilt("verify-moved", "record.misplaced", |site| {
        for ending in ["manifest.json.sig", "/manifest.json"] {
            let place = |id: &str| {
                let mut found = site.files("snapshots");
                found.retain(|path| path.to_str().unwrap().contains(id) && path.to_str().unwrap().ends_with(ending));
                found.remove(0)
            };
            fs::copy(place(site.doubtful().as_str()), place(site.good().as_str())).unwrap();
        }
    });
}

#[test]
fn an_identity_file_that_is_missing_or_open_to_all_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    hindered("verify-no-identity", "identity.unreadable", 2, |site| {
        fs::remove_file(site.path("escrow.identity")).unwrap();
    });
    hindered("verify-open-identity", "identity.unreadable", 2, |site| {
        fs::set_permissions(site.path("snapshots.identity"), fs::Permissions::from_mode(0o644)).unwrap();
    });
    hindered("verify-no-identity-configured", "config.section-missing", 3, |site| {
        let line = format!("identity_file = {:?}\n", site.path("escrow.identity"));
        site.edit(REHEARSER, &line, "");
    });
}

#[test]
fn a_runbook_with_broken_steps_is_refused_with_all_its_mistakes() {
    let set =
        |site: &Site| site.edit(REHEARSER, "[rehearsal]\n", &format!("[rehearsal]\nrunbooks = {:?}\n", site.path("runbooks")));
    hindered("verify-broken-runbook", "runbook.invalid", 3, |site| {
        set(site);
        fs::create_dir(site.path("runbooks")).unwrap();
        fs::copy(data::path("runbooks/broken.md"), site.path("runbooks/etcd-restore.md")).unwrap();
    });
    hindered("verify-no-runbook", "runbook.unknown", 3, set);
}

#[test]
fn an_unknown_snapshot_and_an_empty_ledger_are_no_answers() {
    let site = Site::with_snapshots();
    site.ask(&["verify", "20990101T000000Z-00000000"]).exits(2).is("verify-unknown");
    site.ask(&["verify", "20990101T000000Z-00000000", "--json"]).exits(2).refuses("snapshot.unknown");
    site.ask(&["rehearse", "2001", "--to", "open", "--json"]).exits(3).refuses("snapshot.ambiguous");
    site.ask(&["rehearse", "--resume", "20990101T000000Z-00000000"]).exits(2).is("resume-unknown");
    site.ask(&["rehearse", "--to", "cluster", "--json"]).exits(3).refuses("usage");
    Site::new().ask(&["verify"]).exits(2).is("verify-none-yet");
}

#[test]
fn stores_that_do_not_answer_leave_the_snapshot_unjudged() {
    for store in ["snapshots", "escrow"] {
        let site = Site::with_snapshots();
        fs::rename(site.path(store), site.path("away")).unwrap();
        site.ask(&["verify"]).exits(2).is(&format!("verify-without-{store}"));
        nothing_is_left(&site);
        unjudged(&site);
    }
}

#[test]
fn without_the_ledger_a_rehearsal_goes_by_the_catalog_and_its_records_wait() {
    let site = Site::with_snapshots();
    site.ask(&["list"]).exits(0);
    fs::rename(site.path("ledger"), site.path("ledger-away")).unwrap();
    site.ask(&["verify"]).exits(0).is("verify-without-ledger");
    fs::rename(site.path("ledger-away"), site.path("ledger")).unwrap();
    // The next run delivers them, in order.
    site.ask(&["verify"]).exits(0);
    let list = site.ask(&["list", "--json"]).document();
    assert_eq!(list["findings"], serde_json::json!([]));
    let reports = site.files("ledger").into_iter().filter(|path| path.to_str().unwrap().ends_with("report.json")).count();
    assert_eq!(reports, 2);
}

#[test]
fn a_program_that_is_missing_is_named_with_what_to_do() {
    let site = Site::with_snapshots();
    let arguments = ["rehearse", "--to", "boot"];
    let output =
        site.command(REHEARSER, &arguments).env("PATH", "").env("HOME", site.root.path()).env_remove("XDG_CACHE_HOME").output();
    Run::of(output.unwrap(), &arguments, site.root.path()).exits(2).is("rehearse-no-tools");
    nothing_is_left(&site);
}

#[test]
fn a_host_that_only_reads_cannot_rehearse() {
    hindered("verify-no-signing-key", "config.section-missing", 3, |site| {
        let line = format!("signing_key = {:?}\n", site.path(REHEARSER).join("signing.key"));
        site.edit(REHEARSER, &line, "");
    });
    hindered("verify-bad-signing-key", "signing.key-unusable", 2, |site| {
        write(&site.path(REHEARSER).join("signing.key"), "-----BEGIN OPENSSH PRIVATE KEY-----\nnone\n");
    });
}
