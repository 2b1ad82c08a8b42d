//! The layer order of ARCHITECTURE.md: a module uses only lower layers, and
//! within a layer only along the edges listed there.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{Source, library};
use crate::{assert_none, assert_one, read};

/// Edges within a layer that the design allows. ARCHITECTURE.md lists those in
/// use; the list may shrink and must not grow.
const ALLOWED_EDGES: [(&str, &str); 4] =
    [("catalog", "ledger"), ("catalog", "runbook"), ("backup", "escrow"), ("rehearsal", "report")];

/// The layer table and the listed edges, as ARCHITECTURE.md states them.
struct Layers {
    layer_of: BTreeMap<String, u32>,
    edges: BTreeSet<(String, String)>,
}

impl Layers {
    fn read(page: &str) -> Self {
        let mut layer_of = BTreeMap::new();
        for row in page.lines().filter(|line| line.starts_with("| ")) {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            if let (Ok(layer), Some(module)) = (cells[1].parse(), cells.get(2).and_then(|cell| quoted(cell))) {
                layer_of.insert(module.to_string(), layer);
            }
        }
        let edges = page.split('`').filter_map(|text| text.split_once(" -> "));
        let edges = edges.filter(|(from, to)| layer_of.contains_key(*from) && layer_of.contains_key(*to));
        let edges = edges.map(|(from, to)| (from.to_string(), to.to_string())).collect();
        Self { layer_of, edges }
    }

    /// Why `from` must not use `to`, if it must not.
    fn objection(&self, from: &str, to: &str) -> Option<String> {
        let (Some(upper), Some(lower)) = (self.layer_of.get(from), self.layer_of.get(to)) else {
            return Some(format!("{from} uses {to}: ARCHITECTURE.md names no layer for one of them"));
        };
        let listed = upper == lower && self.edges.contains(&(from.to_string(), to.to_string()));
        let allowed = from == to || lower < upper || listed;
        (!allowed).then(|| format!("{from} (layer {upper}) uses {to} (layer {lower})"))
    }
}

fn quoted(cell: &str) -> Option<&str> {
    cell.strip_prefix('`')?.strip_suffix('`')
}

fn edge_findings(layers: &Layers, source: &Source) -> Vec<String> {
    let Some(from) = module_of(&source.path) else { return Vec::new() };
    let uses = root_uses(source).into_iter();
    uses.filter_map(|(at, to)| layers.objection(from, &to).map(|message| source.finding(at, &message))).collect()
}

/// `src/scan/mapped.rs` and `src/scan.rs` belong to `scan`; `lib.rs` and `main.rs` to none.
fn module_of(path: &str) -> Option<&str> {
    let inner = path.strip_prefix("src/")?;
    let module = inner.split('/').next()?.trim_end_matches(".rs");
    (module != "lib" && module != "main").then_some(module)
}

/// Every name that follows the crate's root in a path, with the place of the path.
fn root_uses(source: &Source) -> Vec<(usize, String)> {
    let mut uses = Vec::new();
    for at in source.places("crate : :") {
        uses.extend(first_names(source, at + 3).into_iter().map(|name| (at, name)));
    }
    for at in source.places("super") {
        if let Some(after) = climbs_to_root(source, at) {
            uses.extend(first_names(source, after).into_iter().map(|name| (at, name)));
        }
    }
    uses
}

/// The names that may stand first after `crate::`: one, or those of a brace list.
fn first_names(source: &Source, at: usize) -> Vec<String> {
    if source.text_at(at) != "{" {
        return vec![source.text_at(at).to_string()];
    }
    let (mut names, mut at, end) = (Vec::new(), at + 1, source.tokens[at].closes_at);
    let mut expected = true;
    while at < end {
        match source.text_at(at) {
            "," => expected = true,
            "{" => at = source.tokens[at].closes_at,
            name if expected => {
                names.push(name.to_string());
                expected = false;
            }
            _ => {}
        }
        at += 1;
    }
    names
}

/// Where a chain of `super::` that begins here and reaches the root goes on.
fn climbs_to_root(source: &Source, at: usize) -> Option<usize> {
    let continues_a_chain = at >= 3 && source.stands_at(at - 3, "super : : super");
    if continues_a_chain {
        return None;
    }
    let mut after = at;
    let mut climbed = 0;
    while source.stands_at(after, "super : :") {
        climbed += 1;
        after += 3;
    }
    (climbed > 0 && climbed == file_depth(&source.path) + source.tokens[at].inline_depth).then_some(after)
}

/// How far below the root a file's module lies.
fn file_depth(path: &str) -> usize {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    parts.len() - usize::from(parts.last() == Some(&"mod.rs"))
}

/// The modules that lib.rs declares, in its order.
fn declared(library: &Source) -> Vec<String> {
    library.places("pub mod").map(|at| library.text_at(at + 2).to_string()).collect()
}

#[test]
fn modules_use_only_lower_layers() {
    let layers = Layers::read(&read("ARCHITECTURE.md"));
    let findings: Vec<String> = library().iter().flat_map(|source| edge_findings(&layers, source)).collect();
    assert_none(&findings);
}

#[test]
fn the_table_lists_exactly_the_modules_in_layer_order() {
    let layers = Layers::read(&read("ARCHITECTURE.md"));
    let modules = declared(&Source::parse("src/lib.rs", &read("src/lib.rs")));
    let in_table: BTreeSet<&String> = layers.layer_of.keys().collect();
    assert_eq!(modules.iter().collect::<BTreeSet<_>>(), in_table);
    let order: Vec<u32> = modules.iter().map(|module| layers.layer_of[module]).collect();
    assert!(order.is_sorted(), "lib.rs does not declare its modules in layer order: {modules:?}");
}

#[test]
fn listed_edges_are_those_that_the_design_allows() {
    let layers = Layers::read(&read("ARCHITECTURE.md"));
    assert!(!layers.edges.is_empty());
    for (from, to) in &layers.edges {
        assert!(ALLOWED_EDGES.contains(&(from, to)), "{from} -> {to} is new: move a type down instead");
        assert_eq!(layers.layer_of[from], layers.layer_of[to], "{from} -> {to} is not within a layer");
    }
}

const SAMPLE_PAGE: &str = "| 0 | `base` | x | y |\n| 1 | `bolt` | x | y |\n| 1 | `k8s` | x | y |\n| 1 | `record` | x | y |\n\
                           | 2 | `scan` | x | y |\nEdges: `record -> k8s`.\n";

fn sample(path: &str, text: &str) -> Vec<String> {
    edge_findings(&Layers::read(SAMPLE_PAGE), &Source::parse(path, text))
}

#[test]
fn upward_and_unlisted_edges_are_found_wherever_they_are_written() {
    assert_one(&sample("src/bolt/page.rs", "use crate::scan::Inspection;"), "bolt (layer 1) uses scan (layer 2)");
    assert_one(&sample("src/bolt/page.rs", "use crate::k8s::Key;"), "bolt (layer 1) uses k8s (layer 1)");
    assert_one(&sample("src/k8s/mod.rs", "use crate::record::Host;"), "k8s (layer 1) uses record");
    assert_one(
        &sample("src/bolt/page.rs", "use crate::{base::{ids, clock}, scan::{self, Inspection}};"),
        "src/bolt/page.rs:1: bolt",
    );
    assert_one(&sample("src/bolt/page.rs", "fn f() {\n    let x = crate::scan::new();\n}"), "src/bolt/page.rs:2: bolt");
    assert_one(&sample("src/bolt/page.rs", "fn f() { format!(\"{}\", crate::scan::new()) }"), "uses scan");
    assert_one(&sample("src/bolt/page.rs", "use super::super::scan::Inspection;"), "uses scan");
    assert_one(&sample("src/bolt/mod.rs", "#[cfg(test)] mod tests { use super::super::scan; }"), "uses scan");
    assert_one(&sample("src/bolt/mod.rs", "use crate::nowhere::X;"), "names no layer");
    assert_one(&sample("src/bolt/mod.rs", "use crate::*;"), "names no layer");
}

#[test]
fn downward_own_and_listed_edges_comments_and_strings_pass() {
    for text in [
        "use crate::base::ids;",
        "use crate::{base::{self, clock}, k8s};",
        "use crate::record::manifest::Manifest;",
        "pub(crate) fn f() { \"crate::scan\" }",
        "// crate::scan\n/* use crate::scan; */\nuse super::manifest;",
        "mod inner { use super::super::manifest; }",
    ] {
        assert_none(&sample("src/record/host.rs", text));
    }
}
