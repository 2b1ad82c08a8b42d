//! `holdfast restore --into DIR`: the plan, and what came of it.

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::rehearse::{line_of, print_answer, warn_to};
use super::render::{self, printable};
use super::restore::{Restore, progress};
use crate::base::exit::Exit;
use crate::base::failure::Failure;
use crate::base::units::human_bytes;
use crate::rehearsal::Rehearsed;
use crate::rehearsal::write::STEP;
use crate::report::json as report_json;
use crate::report::model::StepResult;
use crate::restore::Told;
use crate::restore::bench::{Bench, configuration};
use crate::restore::data_dir::{self, Order, Plan, Written};
use crate::runbook::journal::Event;

/// Plans, shows the plan, and writes what it says.
///
/// # Errors
/// When there is no answer to report; nothing was touched then.
pub(super) async fn run(
    config: &Path,
    arguments: &Restore,
    order: &Order,
    json: bool,
    out: &mut dyn Write,
    cancel: CancellationToken,
) -> Result<Exit, Failure> {
    // What can be refused without a snapshot is refused before one is looked for.
    data_dir::look(order)?;
    let settings = configuration(config, arguments.place.scratch_dir.as_deref())?;
    let watch = |event: &Event| {
        if let Some(line) = line_of(event) {
            progress(&line, json);
        }
    };
    let tell = |told: Told| {
        let err = &mut render::Output(io::stderr());
        // A terminal that went away does not stop a restore.
        let _ = match told {
            Told::Warning(failure) => render::warning(err, &failure, json),
            Told::Note(text) => render::note(err, &text, json),
        };
    };
    let page = Mutex::new(Vec::new());
    let show = |plan: &Plan| {
        let mut text = Vec::new();
        let printed = if json { Ok(()) } else { print_plan(&mut text, plan) };
        if printed.is_ok() && !order.only_plan {
            // Before the step that writes, also where nobody waits for a buffer.
            let _ = io::stdout().write_all(&text);
            text.clear();
        }
        *page.lock().unwrap_or_else(PoisonError::into_inner) = text;
    };
    let mut bench = Bench::prepare(settings, &arguments.given(), &cancel, &tell).await?;
    let written = data_dir::write(&mut bench, order, cancel, &watch, &tell, &show).await?;
    out.write_all(&page.into_inner().unwrap_or_else(PoisonError::into_inner)).map_err(render::unprinted)?;
    if let Some(rehearsed) = &written.rehearsed {
        warn_to(&mut render::Output(io::stderr()), rehearsed, json)?;
    }
    print(out, order, &written, json).map_err(render::unprinted)?;
    Ok(written.rehearsed.as_ref().map_or(Exit::Good, |rehearsed| rehearsed.exit()))
}

fn print(out: &mut dyn Write, order: &Order, written: &Written, json: bool) -> io::Result<()> {
    let Written { plan, rehearsed, page, recorded } = written;
    let is_written = rehearsed.as_ref().is_some_and(is_written);
    if json {
        let report = rehearsed.as_ref().map(|rehearsed| report_json::value(&rehearsed.report)).transpose();
        let report = report.map_err(io::Error::other)?;
        let document = json!({ "plan": plan, "written": is_written, "recorded": recorded, "page": page, "report": report });
        return writeln!(out, "{document}");
    }
    let Some(rehearsed) = rehearsed else {
        return writeln!(out, "nothing was written: this was the plan alone");
    };
    print_answer(out, rehearsed)?;
    if let (true, Some(plan)) = (is_written, plan) {
        print_written(out, order, plan)?;
    } else {
        writeln!(out, "nothing was written")?;
    }
    match page {
        Some(page) => writeln!(out, "report {}: {}", rehearsed.run, page.display()),
        None => Ok(()),
    }
}

/// Whatever else the run says: did the step that writes succeed?
fn is_written(rehearsed: &Rehearsed) -> bool {
    rehearsed.report.steps.iter().any(|step| step.id == STEP && step.result == StepResult::Passed)
}

fn print_written(out: &mut dyn Write, order: &Order, plan: &Plan) -> io::Result<()> {
    writeln!(out, "written: {}", printable(&plan.into.display().to_string()))?;
    if let Some(path) = &order.encryption_config {
        let path = printable(&path.display().to_string());
        writeln!(out, "  EVERY KEY LIES IN CLEAR in {path}: move it to where the")?;
        writeln!(out, "  API server reads it, and leave no copy")?;
    }
    writeln!(out, "  start etcd with --name {} on it, as the user who owns it", plan.member.name)
}

fn print_plan(out: &mut dyn Write, plan: &Plan) -> io::Result<()> {
    let path = |path: &Path| printable(&path.display().to_string());
    writeln!(out, "plan: a data directory for etcd member {}", plan.member.name)?;
    let source = match &plan.file {
        Some(file) => path(file),
        None => format!("{} of {}", plan.snapshot, plan.cluster),
    };
    let proven = match (&plan.proven, &plan.file) {
        (Some(proven), _) => proven.clone(),
        (None, Some(_)) => "a file has no history of rehearsals".to_owned(),
        (None, None) => "never, as far as this host knows".to_owned(),
    };
    let bump = match plan.bump_revision {
        Some(bump) => format!("bumped by {bump}, all before marked compacted: watchers begin anew"),
        None => "as they are: watchers that know later ones may wait for ever".to_owned(),
    };
    let mut lines = vec![
        ("into", format!("{} ({})", path(&plan.into), plan.place)),
        ("snapshot", source),
        ("taken", format!("{}, quality {}", plan.taken, plan.quality)),
        ("revision", format!("{}, {}", plan.revision, human_bytes(plan.image_bytes))),
        ("proven", proven),
        ("members", plan.member.to_string()),
        ("token", format!("{}, the same for all members", plan.token)),
        ("revisions", bump),
        ("by", format!("etcdutl {} {}", plan.etcdutl, path(&plan.etcdutl_path))),
    ];
    if let Some(clear) = &plan.encryption_config {
        lines.push(("keys", format!("IN CLEAR to {}", path(clear))));
    }
    for (name, value) in lines {
        writeln!(out, "  {name:<11}{value}")?;
    }
    for check in &plan.checks {
        writeln!(out, "  {:<8} {}", if check.is_good { "ok" } else { "WARNING" }, printable(&check.said))?;
    }
    for other in &plan.others {
        writeln!(out, "for another member:\n  {}", printable(other))?;
    }
    Ok(())
}
