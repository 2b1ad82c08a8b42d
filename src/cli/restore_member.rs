//! `holdfast restore --into DIR`: the plan, and what came of it.

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::layout::{behind, parts_behind};
use super::progress::watcher;
use super::rehearse::{Steps, line_of, print_answer, print_page, warn_to};
use super::render::{self, printable};
use super::restore::{Restore, progress};
use super::scratch::line;
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
    let steps = Steps::new(watcher());
    let watch = |event: &Event| {
        steps.follow(event);
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
            let _ = render::Output(io::stdout()).write_all(&text);
            text.clear();
        }
        *page.lock().unwrap_or_else(PoisonError::into_inner) = text;
    };
    let mut bench = Bench::prepare(settings, &arguments.given(), &cancel, &tell).await?;
    bench.station.progress = watcher();
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
        Some(page) => print_page(out, rehearsed, page),
        None => Ok(()),
    }
}

/// Whatever else the run says: did the step that writes succeed?
fn is_written(rehearsed: &Rehearsed) -> bool {
    rehearsed.report.steps.iter().any(|step| step.id == STEP && step.result == StepResult::Passed)
}

fn print_written(out: &mut dyn Write, order: &Order, plan: &Plan) -> io::Result<()> {
    write!(out, "{}", parts_behind("written: ", 2, &[&plan.into.display().to_string()]))?;
    if let Some(path) = &order.encryption_config {
        let path = path.display().to_string();
        let parts = ["EVERY", "KEY", "LIES", "IN", "CLEAR", "in", &path, "now: move it to where the API server reads it,"];
        let rest = ["and leave no copy"];
        write!(out, "{}", parts_behind("  ", 4, &[&parts[..], &rest].concat()))?;
    }
    let start = format!("start etcd with --name {} on it, as the user who owns it", plan.member.name);
    write!(out, "{}", behind("  ", 4, &start))
}

fn print_plan(out: &mut dyn Write, plan: &Plan) -> io::Result<()> {
    write!(out, "{}", behind("plan: ", 2, &format!("a data directory for etcd member {}", plan.member.name)))?;
    let path = |path: &Path| path.display().to_string();
    let source = match &plan.file {
        Some(file) => path(file),
        None => format!("{} of {}", plan.snapshot, plan.cluster),
    };
    let proven = match (&plan.proven, &plan.file) {
        (Some(proven), _) => proven.as_str(),
        (None, Some(_)) => "a file has no history of rehearsals",
        (None, None) => "never, as far as this host knows",
    };
    let bump = match plan.bump_revision {
        Some(bump) => format!("up by {bump}, all before marked compacted: watchers begin anew"),
        None => "as they are: watchers that know later ones may wait for ever".to_owned(),
    };
    line(out, "into", &[&path(&plan.into), &format!("({})", plan.place)])?;
    line(out, if plan.file.is_some() { "file" } else { "snapshot" }, &[&source])?;
    line(out, "taken", &[&format!("{}, quality {}", plan.taken, plan.quality)])?;
    line(out, "revision", &[&format!("{}, {}", plan.revision, human_bytes(plan.image_bytes))])?;
    line(out, "proven", &proven.split(' ').collect::<Vec<_>>())?;
    for peer in &plan.member.cluster {
        line(out, if peer.name == plan.member.name { "member" } else { "with" }, &[&peer.name, &peer.urls.join(", ")])?;
    }
    line(out, "token", &[&plan.token, "(all members have the same)"])?;
    line(out, "revisions", &bump.split(' ').collect::<Vec<_>>())?;
    line(out, "by", &["etcdutl", &plan.etcdutl, &path(&plan.etcdutl_path)])?;
    if let Some(clear) = &plan.encryption_config {
        line(out, "keys", &["IN CLEAR to", &path(clear)])?;
    }
    for check in &plan.checks {
        line(out, if check.is_good { "ok" } else { "WARNING" }, &check.said.split(' ').collect::<Vec<_>>())?;
    }
    for other in &plan.others {
        writeln!(out, "  for another member, with a DIR of its own:\n    {}", printable(other))?;
    }
    Ok(())
}
