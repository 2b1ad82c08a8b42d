//! One sentence that a manager can read alone, and the exit code that goes with it.

use super::model::{Identity, Phase, ReportResult, Verdict};
use super::timing::human;
use crate::base::exit::Exit;
use crate::base::units::count;
use crate::record::Rung;
use crate::runbook::engine::Outcome;
use crate::runbook::facts::Facts;
use crate::runbook::journal::RunResult;
use crate::runbook::model::Runbook;

pub fn of(
    identity: &Identity,
    asked: Rung,
    outcome: &Outcome,
    finished: bool,
    phases: &[Phase],
    facts: &Facts,
    runbook: &Runbook,
) -> Verdict {
    let exit = outcome.exit();
    let result = match (finished, outcome.result) {
        (false, _) => ReportResult::Unfinished,
        (true, RunResult::Passed) => ReportResult::Passed,
        (true, RunResult::Interrupted) => ReportResult::Interrupted,
        (true, RunResult::Failed) if exit == Exit::Bad => ReportResult::Failed,
        (true, RunResult::Failed) => ReportResult::CouldNotTell,
    };
    let reached = outcome.reached.and_then(|reached| proven(facts, reached));
    let subject = format!("snapshot {} of cluster {}", identity.snapshot, identity.cluster);
    let sentence = match result {
        ReportResult::Passed if reached != Some(asked) => {
            let proves = reached.map_or("no rung of a restore".to_owned(), |rung| format!("a restore to rung {rung} only"));
            format!("Runbook \u{201c}{}\u{201d} was gone through for {subject}; its steps prove {proves}.", runbook.title)
        }
        ReportResult::Passed => passed(&subject, asked, phases, facts),
        ReportResult::Failed if is_by_hand(outcome) => {
            format!(
                "The run for {subject} was ended by a person: {}; it is no judgement of the snapshot.",
                failure(outcome, runbook)
            )
        }
        ReportResult::Failed | ReportResult::CouldNotTell if outcome.reached == Some(asked) => {
            format!("{} reached rung {asked}, but the run did not end cleanly: {}.", capital(&subject), failure(outcome, runbook))
        }
        ReportResult::Failed => format!("{} did not reach rung {asked}: {}.", capital(&subject), failure(outcome, runbook)),
        ReportResult::CouldNotTell => {
            format!(
                "Whether {subject} can be restored is not known: the rehearsal could not run to its end, {}.",
                failure(outcome, runbook)
            )
        }
        ReportResult::Interrupted => format!("The rehearsal of {subject} was interrupted; it says nothing about the snapshot."),
        ReportResult::Unfinished => format!("The rehearsal of {subject} has not ended; it can be gone on with."),
    };
    let exit = if result == ReportResult::Unfinished { Exit::CouldNotRun } else { exit };
    Verdict { result, sentence, asked, reached, exit: exit as u8 }
}

/// How far the facts go: a page without the steps of a rung proves nothing of
/// it, whatever rung its steps name.
fn proven(facts: &Facts, reached: Rung) -> Option<Rung> {
    let open = facts.snapshot.is_some()
        && facts.image.is_some()
        && facts.structure.is_some()
        && facts.keys.is_some()
        && facts.decryption.is_some();
    let boot = open && facts.restore.is_some() && facts.etcd.is_some() && facts.hash.is_some();
    let serve = boot && facts.encryption.is_some() && facts.apiserver.is_some() && facts.read.is_some();
    let proofs = [(Rung::Serve, serve), (Rung::Boot, boot), (Rung::Open, open)];
    proofs.into_iter().find(|(rung, shown)| *rung <= reached && *shown).map(|(rung, _)| rung)
}

/// Did a person end the run, and not what a step found?
fn is_by_hand(outcome: &Outcome) -> bool {
    outcome.failure.as_ref().is_some_and(|(_, failure)| failure.to_failure().code().is_of_people())
}

fn passed(subject: &str, asked: Rung, phases: &[Phase], facts: &Facts) -> String {
    let people: u64 = phases.iter().map(|phase| phase.people.total()).sum();
    let time = phases.last().and_then(|phase| phase.until_ms).map(|ms| match people {
        0 => format!(" in {}", human(ms)),
        people => format!(" in {}, of which people took {}", human(ms), human(people)),
    });
    let time = time.unwrap_or_default();
    let mut proof = Vec::new();
    if let Some(decryption) = &facts.decryption {
        proof.push(format!("{} decrypted with keys from escrow alone", count(decryption.opened, "encrypted object")));
    }
    if facts.hash.as_ref().is_some_and(|hash| hash.equal()) {
        proof.push("the running etcd holds exactly what the manifest says".to_owned());
    }
    if let Some(read) = &facts.read {
        let objects = read.resources.iter().filter_map(|resource| resource.api).sum();
        proof.push(format!("{} read back through the API server", count(objects, "object")));
    }
    let proof = match proof.split_last() {
        Some((last, [])) => format!(": {last}"),
        Some((last, others)) => format!(": {}, and {last}", others.join(", ")),
        None => String::new(),
    };
    format!("{} was restored to rung {asked}{time}{proof}.", capital(subject))
}

/// Which step failed and why, without the object's whole story.
fn failure(outcome: &Outcome, runbook: &Runbook) -> String {
    let Some((step, failure)) = &outcome.failure else { return "a step did not end".to_owned() };
    let title = runbook.step(step).map_or(step.as_str(), |step| step.title.as_str());
    format!("step \u{201c}{title}\u{201d} failed with {} ({}: {})", failure.code, failure.object, failure.cause)
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}
