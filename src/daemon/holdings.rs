//! From the catalog's rows to the values that are shown. Pure, but for the
//! questions to the catalog.
//!
//! Labels come from closed lists, whatever a record of another version says.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::base::failure::Failure;
use crate::base::rung::Rung;
use crate::catalog::{Catalog, KeyRow, SnapshotRow};
use crate::record::manifest::{Problem, Quality, Severity};
use crate::telemetry::metrics::{Holdings, KeyState, KeyVersion, ProblemKind, Snapshot};

const PROVIDERS: [&str; 5] = ["aescbc", "aesgcm", "secretbox", "kmsv1", "kmsv2"];

/// The problems that this version knows; any other is `other`.
const PROBLEMS: [&str; 23] = [
    "alarm-corrupt",
    "alarm-nospace",
    "ambiguous-key-name",
    "auth-enabled",
    "clock-offset",
    "encryption-config-unreadable",
    "escrow-gap",
    "free-page-plaintext",
    "history-went-back",
    "member-lagging",
    "member-leaderless",
    "memory-swappable",
    "meta-damaged",
    "plaintext-secrets",
    "revision-moved",
    "stale-key",
    "structure-broken",
    "trailer-mismatch",
    "trailer-missing",
    "undecryptable",
    "unknown-body",
    "weak-key",
    "writes-plaintext",
];

/// What a reader of metrics calls anything that it need not know more of.
const OTHER: &str = "other";

/// `hf1-` and eight digits: what a person needs to find the key with `holdfast show`.
const SHORT: usize = 12;

/// Asks the catalog. Blocks its thread.
///
/// # Errors
/// `catalog.broken`.
pub fn observe(catalog: &Catalog) -> Result<Holdings, Failure> {
    let snapshots = catalog.snapshots()?;
    let keys = catalog.keys()?;
    let mut proven = BTreeMap::new();
    for rung in [Rung::Open, Rung::Boot, Rung::Serve] {
        if let Some(at) = catalog.last_proof(rung)?.and_then(|proof| time(&proof.at)) {
            proven.insert(rung, at);
        }
    }
    let newest = snapshots.first().map(|newest| catalog.snapshot(&newest.id)).transpose()?.flatten();
    let problems = newest.map(|newest| newest.manifest.problems).unwrap_or_default();
    let findings = catalog.findings()?.len() as u64;
    Ok(Holdings { proven, findings, ..holdings(&snapshots, &keys, &problems) })
}

/// What rows say; the newest snapshot is the first.
#[must_use]
pub fn holdings(snapshots: &[SnapshotRow], keys: &[KeyRow], problems: &[Problem]) -> Holdings {
    let newest_good = snapshots.iter().filter(|row| row.quality == Quality::Good).max_by_key(|row| time(&row.taken));
    let mut by_quality: BTreeMap<&'static str, u64> =
        [Quality::Good, Quality::Suspect, Quality::Incomplete].map(|quality| (quality.as_str(), 0)).into();
    for row in snapshots {
        *by_quality.entry(row.quality.as_str()).or_default() += 1;
    }
    let mut counted = BTreeMap::new();
    for problem in problems {
        *counted.entry(kind(problem)).or_default() += problem.count;
    }
    Holdings {
        newest_good: newest_good.map(|row| Snapshot {
            taken: time(&row.taken),
            image_bytes: row.image_bytes,
            object_bytes: row.object_bytes,
            revision: row.revision,
            live_keys: row.live_keys,
        }),
        newest_restorable: snapshots.iter().filter(|row| row.restorable).filter_map(|row| time(&row.taken)).max(),
        snapshots: by_quality,
        keys: keys.iter().map(|key| key_version(key, snapshots.first())).collect(),
        problems: counted,
        ..Holdings::default()
    }
}

fn kind(problem: &Problem) -> ProblemKind {
    let severity = match problem.severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Error => "error",
    };
    ProblemKind { code: known(&PROBLEMS, &problem.code), severity }
}

fn key_version(key: &KeyRow, newest: Option<&SnapshotRow>) -> KeyVersion {
    let fingerprint = key.fingerprint.as_deref().filter(|fingerprint| fingerprint.starts_with("hf1-"));
    let state = match fingerprint {
        _ if key.missing_since.is_some() => KeyState::Missing,
        _ if key.deposits > 0 => KeyState::Escrowed,
        Some(_) => KeyState::Absent,
        None => KeyState::Unknown,
    };
    KeyVersion {
        provider: known(&PROVIDERS, &key.provider),
        // That of a KMS is no digest of ours: it could be a name.
        fingerprint: fingerprint.map(|text| text.chars().take(SHORT).collect()).unwrap_or_default(),
        state,
        needed: newest.is_some_and(|newest| key.needed_by.iter().any(|need| need.snapshot == newest.id)),
    }
}

fn known(list: &[&'static str], text: &str) -> &'static str {
    list.iter().find(|known| **known == text).copied().unwrap_or(OTHER)
}

fn time(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::catalog::keys::NeededBy;

    fn row(id: &str, taken: &str, quality: Quality, restorable: bool) -> SnapshotRow {
        SnapshotRow {
            id: id.parse().unwrap(),
            lineage: "00000000000000aa".parse().unwrap(),
            taken: taken.into(),
            host: "cp-1".parse().unwrap(),
            quality,
            revision: 7,
            live_keys: 5,
            image_bytes: 4096,
            object_bytes: 512,
            keys: Vec::new(),
            restorable,
            obstacles: Vec::new(),
            proven: None,
            last_attempt: None,
            last_judged: None,
        }
    }

    fn key(provider: &str, fingerprint: Option<&str>, deposits: u64, missing: bool, needed_by: &[&SnapshotRow]) -> KeyRow {
        KeyRow {
            provider: provider.into(),
            names: BTreeSet::from(["secret-name".to_owned()]),
            fingerprint: fingerprint.map(str::to_owned),
            deposits,
            last_deposit: None,
            last_opened: None,
            missing_since: missing.then(|| "2026-12-01T10:00:00Z".to_owned()),
            configured_on: BTreeSet::new(),
            needed_by: needed_by.iter().map(|row| NeededBy { snapshot: row.id.clone(), live_objects: 1 }).collect(),
        }
    }

    fn at(text: &str) -> Option<Timestamp> {
        text.parse().ok()
    }

    #[test]
    fn the_newest_good_and_the_newest_restorable_need_not_be_the_newest() {
        let rows = [
            row("20261201T120000Z-00000003", "2026-12-01T12:00:09Z", Quality::Suspect, false),
            row("20261201T110000Z-00000002", "2026-12-01T11:00:09Z", Quality::Good, false),
            row("20261201T100000Z-00000001", "2026-12-01T10:00:09Z", Quality::Good, true),
        ];
        let shown = holdings(&rows, &[], &[]);
        assert_eq!(shown.newest_good.unwrap().taken, at("2026-12-01T11:00:09Z"));
        assert_eq!(shown.newest_restorable, at("2026-12-01T10:00:09Z"));
        assert_eq!(shown.snapshots, [("good", 2), ("suspect", 1), ("incomplete", 0)].into());
        let nothing = holdings(&[], &[], &[]);
        assert_eq!((nothing.newest_good, nothing.newest_restorable, nothing.snapshots["good"]), (None, None, 0));
    }

    #[test]
    fn each_key_has_the_state_that_a_person_must_know_and_no_name() {
        let newest = row("20261201T120000Z-00000003", "2026-12-01T12:00:09Z", Quality::Good, true);
        let older = row("20261201T110000Z-00000002", "2026-12-01T11:00:09Z", Quality::Good, true);
        let hf = Some("hf1-0123456789abcdef0123456789abcdef");
        let shown = |key: KeyRow| holdings(&[newest.clone(), older.clone()], &[key], &[]).keys.remove(0);
        for (key, state, needed) in [
            (key("aescbc", hf, 1, false, &[&newest, &older]), KeyState::Escrowed, true),
            (key("aescbc", hf, 1, true, &[&older]), KeyState::Missing, false),
            (key("aesgcm", hf, 0, false, &[&newest]), KeyState::Absent, true),
            (key("secretbox", None, 0, false, &[&newest]), KeyState::Unknown, true),
            (key("kmsv2", Some("kms:name-of-a-key"), 0, false, &[]), KeyState::Unknown, false),
        ] {
            let version = shown(key);
            assert_eq!((version.state, version.needed), (state, needed));
            assert!(["", "hf1-01234567"].contains(&version.fingerprint.as_str()), "{version:?}");
            assert!(!format!("{version:?}").contains("name"), "{version:?}");
        }
        assert_eq!(shown(key("invented\nby somebody", hf, 0, false, &[])).provider, "other");
    }

    #[test]
    fn problems_are_counted_by_codes_of_a_closed_list() {
        let problem = |code: &str, severity, count| Problem { code: code.into(), severity, message: "m".into(), count };
        let problems = [
            problem("escrow-gap", Severity::Error, 3),
            problem("escrow-gap", Severity::Error, 2),
            problem("a-code-of-the-future", Severity::Warning, 1),
        ];
        let expected =
            [(ProblemKind { code: "escrow-gap", severity: "error" }, 5), (ProblemKind { code: "other", severity: "warning" }, 1)];
        assert_eq!(holdings(&[], &[], &problems).problems, expected.into());
    }
}
