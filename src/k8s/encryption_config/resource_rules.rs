//! The API server's rules for the names of resources: refused names, doubled
//! and overlapping ones within a list, and lists masked by earlier ones.

use super::mistakes::ConfigMistakes;
use super::resource_and_group;

/// What earlier lists have covered.
#[derive(Debug, Default)]
pub(super) struct ResourceRules {
    /// Groups of earlier `*.group`, `*.` and `*.*`.
    wildcards: Vec<String>,
}

impl ResourceRules {
    /// Checks one list of `(line, name)` against itself and the earlier ones.
    pub fn check(&mut self, line: u64, path: &str, names: &[(u64, String)], mistakes: &mut ConfigMistakes) {
        if names.is_empty() {
            mistakes.add(line, path, format!("at least one {path} is required"));
        }
        let parsed: Vec<(&str, &str)> = names.iter().map(|(_, name)| resource_and_group(name)).collect();
        if has_duplicate(&parsed) {
            mistakes.add(line, path, "the same resource cannot be specified multiple times");
        }
        if has_overlap(&parsed) {
            let what = "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will be masked";
            mistakes.add(line, path, what);
        }
        for (i, ((line, name), parsed)) in names.iter().zip(&parsed).enumerate() {
            let path = format!("{path}[{i}]");
            if let Some(why) = refused(name) {
                mistakes.add(*line, path, why);
            } else if let Some(mask) = self.masking(parsed.1) {
                mistakes.add(*line, path, format!("resource {name:?} is masked by earlier rule \"*.{mask}\""));
            }
        }
        let wildcards = parsed.iter().filter(|(resource, _)| *resource == "*").map(|(_, group)| (*group).to_owned());
        self.wildcards.extend(wildcards);
    }

    fn masking(&self, group: &str) -> Option<&str> {
        self.wildcards.iter().map(String::as_str).find(|wildcard| *wildcard == group || *wildcard == "*")
    }
}

fn has_duplicate(names: &[(&str, &str)]) -> bool {
    let mut sorted = names.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).any(|pair| pair[0] == pair[1])
}

/// Does a wildcard of the list cover another of its names?
fn has_overlap(names: &[(&str, &str)]) -> bool {
    let mut distinct = names.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    distinct
        .iter()
        .filter(|(resource, _)| *resource == "*")
        .any(|wildcard| distinct.iter().any(|other| other != wildcard && (wildcard.1 == "*" || other.1 == wildcard.1)))
}

fn refused(name: &str) -> Option<&'static str> {
    if name.to_lowercase() != name {
        return Some("resource name should not contain capital letters");
    }
    match name {
        "*" => return Some("use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources"),
        "apiserveripinfo" | "serviceipallocations" | "servicenodeportallocations" => {
            return Some("resources which do not have REST API/s cannot be encrypted");
        }
        _ => {}
    }
    match resource_and_group(name) {
        (_, "events.k8s.io") => Some(
            "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the config file",
        ),
        (_, "extensions") => Some("'extensions' group has been removed and cannot be used for encryption"),
        (resource, "*") if resource != "*" => Some("encrypting the same resource across groups is not supported"),
        _ => None,
    }
}
