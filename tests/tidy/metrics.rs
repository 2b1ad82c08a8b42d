//! `docs/metrics.md` is the table of metric families, and the alert rules name
//! families and labels that exist.

use std::collections::BTreeSet;
use std::fmt::Write;

use holdfast::telemetry::families::{FAMILIES, Family, Kind};
use serde_json::Value;

use crate::{assert_none, assert_one, read, repository};

const PAGE: &str = "docs/metrics.md";
const RULES: &str = "deploy/prometheus/holdfast.rules.yml";

const OPENING: &str = "# Metrics

`holdfast daemon` serves them at `daemon.listen`, path `/metrics`, in the text format of Prometheus. This page is written from
`src/telemetry/families.rs`, and a test keeps the two equal. `deploy/prometheus/holdfast.rules.yml` has alerts on them.

Times are shown, never ages: a reader that gets no answer any more still knows how old the last one is. A time of 0 means \"never\".
Snapshots, keys, proofs and findings are those of the whole ledger as this host last read it, also right after a restart; jobs are
this host's own. `kind` is `snapshot` or `rehearsal`. No metric holds a key's name or an object's.

`/healthz` beside it answers 200 and `ok` while the daemon's loop turns and no job is overdue, else 503 and the reasons. What stops no
job, such as a configuration file that was refused, is a line `note: …` below `ok`: a probe that restarts on 503 helps with a stuck
daemon, and would make a typing mistake worse.

The headline of every dashboard is the age of the last proven restore:

```
time() - holdfast_last_proven_restore_timestamp_seconds{rung=\"serve\"}
```

| Metric | Labels | Meaning |
| --- | --- | --- |
";

fn page(families: &[Family]) -> String {
    let mut page = OPENING.to_string();
    for family in families {
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let kind = if family.kind == Kind::Counter { " (counter)" } else { "" };
        writeln!(page, "| `{}`{kind} | {} | {} |", family.shown_name(), labels.join(", "), family.help).unwrap();
    }
    page
}

/// Every alert, and what is wrong with it.
fn rule_findings(text: &str) -> Vec<String> {
    let rules: Value = match serde_saphyr::from_str(text) {
        Ok(rules) => rules,
        Err(error) => return vec![format!("no YAML: {error}")],
    };
    let mut findings = Vec::new();
    let mut names = BTreeSet::new();
    let groups = rules["groups"].as_array().cloned().unwrap_or_default();
    for rule in groups.iter().flat_map(|group| group["rules"].as_array().cloned().unwrap_or_default()) {
        let text = |pointer: &str| rule.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let name = text("/alert").to_owned();
        let needed = ["/alert", "/expr", "/for", "/labels/severity", "/annotations/summary", "/annotations/description"];
        findings.extend(needed.into_iter().filter(|part| text(part).is_empty()).map(|part| format!("{name} has no {part}")));
        findings.extend(expression_objections(text("/expr")).into_iter().map(|what| format!("{name}: {what}")));
        if !names.insert(name.clone()) {
            findings.push(format!("{name} is there twice"));
        }
    }
    if names.is_empty() {
        findings.push("there are no rules".to_owned());
    }
    findings
}

/// Families and labels that do not exist, and none at all.
fn expression_objections(expression: &str) -> Vec<String> {
    let mut objections = Vec::new();
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut used = 0;
    for (at, _) in expression.match_indices("holdfast_") {
        used += 1;
        let name: String = expression[at..].chars().take_while(|c| is_word(*c)).collect();
        let Some(family) = FAMILIES.iter().find(|family| family.shown_name() == name) else {
            objections.push(format!("there is no metric {name}"));
            continue;
        };
        let Some(matchers) = expression[at + name.len()..].strip_prefix('{').and_then(|rest| rest.split('}').next()) else {
            continue;
        };
        for matcher in matchers.split(',') {
            let label: String = matcher.trim().chars().take_while(|c| is_word(*c)).collect();
            if !family.labels.contains(&label.as_str()) {
                objections.push(format!("{name} has no label {label}"));
            }
        }
    }
    let balance = |open, close| expression.matches(open).count() == expression.matches(close).count();
    if used == 0 || !balance('(', ')') || !balance('{', '}') || expression.matches('"').count() % 2 == 1 {
        objections.push(format!("no expression: {expression}"));
    }
    objections
}

#[test]
fn the_page_of_metrics_is_the_table_in_the_code() {
    let wanted = page(FAMILIES);
    if std::fs::read_to_string(repository().join(PAGE)).unwrap_or_default() != wanted {
        let new = format!("{PAGE}.new");
        std::fs::write(repository().join(&new), wanted).unwrap();
        panic!("{PAGE} is not the table in telemetry::families: look at {new} and move it over {PAGE}");
    }
}

#[test]
fn alert_rules_are_whole_and_name_metrics_that_exist() {
    assert_none(&rule_findings(&read(RULES)));
}

#[test]
fn bad_rules_are_found() {
    let rule = |expr: &str| {
        format!(
            "groups:\n  - name: x\n    rules:\n      - alert: A\n        expr: {expr}\n        for: 5m\n        labels: {{severity: warning}}\n        \
             annotations: {{summary: s, description: d}}\n"
        )
    };
    assert_none(&rule_findings(&rule("holdfast_key_versions{needed=\"yes\",state!=\"escrowed\"} > 0")));
    assert_one(&rule_findings(&rule("holdfast_snapshot_age_seconds > 0")), "there is no metric holdfast_snapshot_age_seconds");
    assert_one(&rule_findings(&rule("holdfast_key_versions{name=\"key1\"} > 0")), "has no label name");
    assert_one(&rule_findings(&rule("max(holdfast_outbox_records > 0")), "no expression");
    assert_one(&rule_findings(&rule("up == 0")), "no expression");
    assert_one(&rule_findings(&rule("holdfast_outbox_records > 0").replace("for: 5m", "keep: 5m")), "A has no /for");
    assert_one(&rule_findings("groups: []"), "there are no rules");
    assert_one(&rule_findings("groups: ["), "no YAML");
}
