//! Runbooks and open runs for a terminal and for programs.

use std::io::{self, Write};
use std::time::Duration;

use serde_json::{Value, json};

use super::layout::{behind, labelled};
use super::render;
use super::table::{about, keep_whole, lines, table};
use crate::base::exit::Exit;
use crate::base::failure::Failure;
use crate::base::units::round_duration;
use crate::runbook::model::{Objectives, Runbook, Step, Work};
use crate::station::Station;
use crate::station::people::OpenRun;

/// The digits of a digest by which two pages are told apart.
const SHORT_DIGEST: usize = 12;

/// Where a value stands.
const VALUE: usize = 15;

/// Prints the runbooks and the open runs. A page with mistakes makes the answer bad.
///
/// # Errors
/// `runbook.unknown` where the directory cannot be read; `catalog.broken`.
pub fn list(station: &Station, json: bool, out: &mut dyn Write) -> Result<Exit, Failure> {
    let (mut good, mut broken) = (Vec::new(), Vec::new());
    for page in station.runbooks()? {
        match page.runbook {
            Ok(runbook) => good.push(runbook),
            Err(failure) => broken.push(failure),
        }
    }
    let open = station.open_runs()?;
    let printed = if json {
        let document = json!({
            "runbooks": good.iter().map(document).collect::<Vec<_>>(),
            "broken": broken.iter().map(render::object).collect::<Vec<_>>(),
            "open_runs": open.iter().map(open_run).collect::<Vec<_>>(),
        });
        writeln!(out, "{document}")
    } else {
        as_text(&good, &broken, &open, station, out)
    };
    printed.map_err(render::unprinted)?;
    Ok(if broken.is_empty() { Exit::Good } else { Exit::Bad })
}

fn as_text(good: &[Runbook], broken: &[Failure], open: &[OpenRun], station: &Station, out: &mut dyn Write) -> io::Result<()> {
    let mut pages = table(&["RUNBOOK", "TITLE", "OWNER", "OBJECTIVES", "STEPS", "DIGEST"]);
    for runbook in good {
        let people = people(runbook).count() as u64;
        let steps = match people {
            0 => runbook.steps.len().to_string(),
            people => format!("{}, {people} by people", runbook.steps.len()),
        };
        let digest: String = runbook.digest.to_string().chars().take(SHORT_DIGEST).collect();
        let objectives = objectives(&runbook.objectives).join("\n");
        pages.add_row([runbook.id.clone(), runbook.title.clone(), runbook.owner.clone(), objectives, steps, digest]);
    }
    write!(out, "{}", if good.is_empty() { "no runbook\n".to_owned() } else { lines(&pages) })?;
    for failure in broken {
        writeln!(out)?;
        render::failure(out, failure, false)?;
    }
    if open.is_empty() {
        return Ok(());
    }
    let now = station.clock.now();
    let mut runs = table(&["OPEN RUN", "RUNBOOK", "WAITS FOR", "SINCE", "BEGUN BY"]);
    keep_whole(&mut runs, 0);
    for run in open {
        let head = &run.head;
        let (waits, since, by) = match &run.waits {
            Some(waits) => (waits.step.clone(), waits.since, waits.begun_by.clone().unwrap_or_else(|| "nobody".into())),
            None => ("at work, or cut off".to_owned(), head.started, "-".to_owned()),
        };
        runs.add_row([head.run.to_string(), head.runbook.clone(), waits, about(&since.to_string(), now), by]);
    }
    write!(out, "\n{}", lines(&runs))
}

fn people(runbook: &Runbook) -> impl Iterator<Item = &Step> {
    runbook.steps.iter().filter(|step| step.hands().is_some())
}

fn objectives(objectives: &Objectives) -> Vec<String> {
    let said = |name: &str, time: Option<Duration>| time.map(|time| format!("{name} {}", round_duration(time)));
    let all: Vec<String> = [said("RTO", objectives.rto), said("RPO", objectives.rpo)].into_iter().flatten().collect();
    if all.is_empty() { vec!["none".to_owned()] } else { all }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn document(runbook: &Runbook) -> Value {
    json!({
        "id": runbook.id,
        "title": runbook.title,
        "owner": runbook.owner,
        "environment": runbook.environment,
        "objectives": { "rto_ms": runbook.objectives.rto.map(millis), "rpo_ms": runbook.objectives.rpo.map(millis) },
        "sha256": runbook.digest,
        "steps": runbook.steps.iter().map(step_document).collect::<Vec<_>>(),
    })
}

fn step_document(step: &Step) -> Value {
    let (kind, action, who, expect_ms) = match &step.work {
        Work::Action(action) => ("action", Some(action), None, None),
        Work::Command(command) => ("command", Some(command), None, None),
        Work::Person(hands) => (hands.kind.as_str(), None, Some(&hands.who), Some(millis(hands.expect))),
    };
    json!({
        "id": step.id,
        "title": step.title,
        "kind": kind,
        "does": action,
        "who": who,
        "expect_ms": expect_ms,
        "rung": step.rung,
        "always": step.always,
        "pass": step.acceptance.pass,
        "check": step.acceptance.check,
        "timeout_ms": millis(step.timeout),
        "on_failure": step.on_failure.as_str(),
    })
}

fn open_run(run: &OpenRun) -> Value {
    let waits = run.waits.as_ref().map(|waits| json!({ "step": waits.step, "since": waits.since, "begun_by": waits.begun_by }));
    json!({
        "run": run.head.run,
        "runbook": run.head.runbook,
        "snapshot": run.head.snapshot,
        "started": run.head.started,
        "attended": run.head.attended,
        "waits": waits,
    })
}

/// Prints a runbook's steps.
///
/// # Errors
/// Those of `out`.
pub fn show(runbook: &Runbook, json: bool, out: &mut dyn Write) -> Result<Exit, Failure> {
    let text = if json { format!("{}\n", document(runbook)) } else { page(runbook) };
    out.write_all(text.as_bytes()).map_err(render::unprinted)?;
    Ok(Exit::Good)
}

fn page(runbook: &Runbook) -> String {
    let expected: Duration = people(runbook).filter_map(|step| Some(step.hands()?.expect)).sum();
    let by_people = people(runbook).count() as u64;
    let steps = match by_people {
        0 => format!("{}, none of them by people", runbook.steps.len()),
        n => format!("{}, {n} of them by people, who are expected to need {}", runbook.steps.len(), round_duration(expected)),
    };
    let mut text = String::new();
    for (label, value) in [
        ("runbook", runbook.id.clone()),
        ("title", runbook.title.clone()),
        ("owner", runbook.owner.clone()),
        ("environment", runbook.environment.clone()),
        ("objectives", objectives(&runbook.objectives).join(", ")),
        ("digest", runbook.digest.to_string()),
        ("steps", steps),
    ] {
        text += &labelled(label, VALUE, &value);
    }
    for (number, step) in runbook.steps.iter().enumerate() {
        text += &format!("\n{}", behind(&format!("{:>2}  ", number + 1), 4, &step.title));
        text += &labelled("    step", VALUE, &step.id);
        text += &labelled("    done by", VALUE, &done_by(step));
        text += &labelled("    rung", VALUE, step.rung.map_or("none: it always runs", |rung| rung.as_str()));
        text += &labelled("    good when", VALUE, &step.acceptance.pass);
        if let Some(check) = &step.acceptance.check {
            text += &labelled("    tested", VALUE, check);
        }
    }
    text
}

fn done_by(step: &Step) -> String {
    let limit = round_duration(step.timeout);
    match &step.work {
        Work::Action(action) => format!("holdfast, action {action}, within {limit}"),
        Work::Command(command) => format!("holdfast, command {command}, within {limit}"),
        Work::Person(hands) => {
            let expect = round_duration(hands.expect);
            format!("{} ({}), in about {expect}; it waits {limit} for an answer", hands.who, hands.kind.as_str())
        }
    }
}

/// A step's prose at eighty columns: paragraphs are wrapped, blocks of commands stay.
#[must_use]
pub fn prose(text: &str) -> String {
    let (mut page, mut paragraph, mut fenced) = (String::new(), String::new(), false);
    let end = |page: &mut String, paragraph: &mut String| {
        if !paragraph.is_empty() {
            let indent = if paragraph.starts_with("- ") { 2 } else { 0 };
            page.push_str(&behind("", indent, paragraph.trim()));
            paragraph.clear();
        }
    };
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        if fenced || is_fence {
            end(&mut page, &mut paragraph);
            if !is_fence {
                page.push_str(&format!("    {}\n", render::printable(line)));
            }
            fenced ^= is_fence;
        } else if line.trim().is_empty() {
            end(&mut page, &mut paragraph);
            page.push('\n');
        } else {
            if line.starts_with("- ") {
                end(&mut page, &mut paragraph);
            }
            paragraph.push_str(line.trim());
            paragraph.push(' ');
        }
    }
    end(&mut page, &mut paragraph);
    page
}
