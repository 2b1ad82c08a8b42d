//! The story is told as it should be, and nothing stays behind.

use super::show::{files, show, snapshots};

#[test]
fn the_demo_ends_well_and_its_failed_rehearsal_with_exit_code_1() {
    let show = show();
    assert_eq!(show.code, Some(0), "{}", show.output);
    assert_eq!(show.output.matches("(exit code 0)").count(), 7, "{}", show.output);
    assert_eq!(show.output.matches("(exit code 1)").count(), 1, "{}", show.output);
}

#[test]
fn the_failed_rehearsal_names_the_objects_and_the_key() {
    let show = show();
    let failed = show.output.split("key1's escrow record is gone").nth(1).unwrap_or_default();
    for expected in ["/registry/secrets/", "credential-", "key1"] {
        assert!(failed.contains(expected), "{expected} is not in:\n{failed}");
    }
}

#[test]
fn every_rehearsal_left_a_report_in_three_faces() {
    let reports = files(&show().folder.join("reports"));
    let of = |ending: &str| reports.iter().filter(|f| f.extension().is_some_and(|e| e == ending)).count();
    assert_eq!((of("html"), of("md"), of("json")), (3, 3, 3), "{reports:?}");
}

#[test]
fn the_second_snapshot_needs_both_keys_and_the_first_only_key1() {
    let needs: Vec<Vec<String>> = snapshots(show())
        .iter()
        .map(|folder| {
            let manifest: serde_json::Value =
                serde_json::from_slice(&std::fs::read(folder.join("manifest.json")).unwrap()).unwrap();
            assert_eq!(manifest["quality"], "good");
            manifest["keys"].as_array().unwrap().iter().map(|key| key["name"].as_str().unwrap().to_owned()).collect()
        })
        .collect();
    assert_eq!(needs, [vec!["key1".to_owned()], vec!["key1".to_owned(), "key2".to_owned()]]);
}

#[test]
fn no_process_of_the_demo_is_left() {
    assert_eq!(show().left, Vec::<String>::new());
}
