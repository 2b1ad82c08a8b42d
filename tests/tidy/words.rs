//! Words that must not be in any file: paths of the machine it was written on,
//! and numbers of work items that a reader cannot look up.

use std::fs;

use crate::source::{all_files, relative};
use crate::{assert_none, assert_one};

/// Split, so that this file does not hold them itself.
const MACHINE_PATHS: [[&str; 2]; 3] = [["/wo", "rk/"], ["/ro", "ot/"], ["/home/", "user"]];

fn findings(path: &str, text: &str) -> Vec<String> {
    let lines = text.lines().enumerate();
    let named = lines.flat_map(|(number, line)| line_objections(line).into_iter().map(move |what| (number + 1, what)));
    named.map(|(number, what)| format!("{path}:{number}: {what}")).collect()
}

fn line_objections(line: &str) -> Vec<String> {
    let paths = MACHINE_PATHS.iter().map(|halves| halves.concat()).filter(|path| begins_a_path(line, path));
    let mut objections: Vec<String> = paths.map(|path| format!("names {path}, a path of one machine")).collect();
    objections.extend(work_item(line).map(|item| format!("names {item:?}, which a reader cannot look up")));
    objections
}

/// Inside a longer path, as in `/registry/work/x`, the words mean something else.
fn begins_a_path(line: &str, path: &str) -> bool {
    line.match_indices(path)
        .any(|(at, _)| !line[..at].ends_with(|before: char| before.is_alphanumeric() || "-_.}".contains(before)))
}

/// A work item's word with one or two digits. Numbers of other projects' records are longer.
fn work_item(line: &str) -> Option<String> {
    let lower = line.to_lowercase();
    let word = ["iss", "ue "].concat();
    let places = lower.match_indices(&word).map(|(at, _)| &lower[at..]);
    places.map(|rest| rest[word.len()..].trim_start_matches('#')).find_map(|number| {
        let digits = number.chars().take_while(char::is_ascii_digit).count();
        (1..=2).contains(&digits).then(|| format!("{word}{}", &number[..digits]))
    })
}

#[test]
fn no_file_names_a_machine_path_or_a_work_item() {
    let mut checked = 0;
    let mut found = Vec::new();
    for path in all_files() {
        // Snapshots and other binary data are not text.
        let Ok(text) = fs::read_to_string(&path) else { continue };
        found.extend(findings(&relative(&path), &text));
        checked += 1;
    }
    assert!(checked > 50, "the repository's files are found");
    assert_none(&found);
}

#[test]
fn machine_paths_and_work_items_are_found() {
    let path = MACHINE_PATHS[0].concat();
    assert_one(&findings("a.md", &format!("fine\nsee {path}x\n")), "a.md:2: names");
    assert_none(&findings("a.md", &format!("/registry{path}x")));
    let item = ["Iss", "ue #3"].concat();
    assert_one(&findings("a.md", &format!("as {item} says")), "cannot look up");
    assert_none(&findings("a.md", "the cluster's work/ folder; issue a warning; bbolt's issue 1044\n"));
}
