//! What the model says of a run.

use holdfast::base::exit::Exit;
use holdfast::record::Rung;
use holdfast::report::model::{Report, ReportResult, StepResult};
use holdfast::runbook::facts::{DataClockFacts, Facts};
use holdfast::runbook::journal::{Entry, FailureText};

use super::sample::{self, Play};

fn failure(code: &str) -> FailureText {
    FailureText { code: code.into(), object: "o".into(), cause: "c".into(), next: "n".into() }
}

fn failed_at(step: &str, code: &str) -> Report {
    let mut play = Play::new(Rung::Serve);
    play.play(None, Some((step, failure(code), Facts::default())));
    play.report()
}

#[test]
fn a_run_that_passed_measures_rto_by_phase_and_rpo_by_the_data() {
    let report = sample::passed();
    assert_eq!((report.verdict.result, report.verdict.exit), (ReportResult::Passed, 0));
    assert_eq!(report.verdict.reached, Some(Rung::Serve));
    let phases: Vec<_> = report.phases.iter().map(|phase| (phase.rung, phase.duration_ms, phase.until_ms)).collect();
    let expected = [
        (Rung::Open, Some(2_282), Some(2_282)),
        (Rung::Boot, Some(2_499), Some(4_781)),
        (Rung::Serve, Some(9_281), Some(14_062)),
    ];
    assert_eq!(phases, expected);
    assert_eq!(report.rto.measured_ms, Some(14_062), "the tear-down is not part of it");
    assert_eq!(report.rto.met, None, "how long the people of the page take was never measured");
    assert_eq!(report.rpo.measured_ms, Some((65 * 60 + 8) * 1000));
    assert_eq!(report.rpo.met, Some(true));
    assert!(report.rpo.how.contains("newest renew time of 3 node leases"));
    assert!(report.resumed.is_empty() && report.failures.is_empty());
}

#[test]
fn a_missing_key_is_named_with_its_objects_and_makes_the_answer_bad() {
    let report = sample::key_withheld();
    assert_eq!((report.verdict.result, report.verdict.exit), (ReportResult::Failed, 1));
    assert_eq!((report.verdict.reached, report.rto.measured_ms, report.rto.met), (None, None, None));
    for part in ["key1", "17 objects", "escrow.key-missing"] {
        assert!(report.verdict.sentence.contains(part), "{}", report.verdict.sentence);
    }
    assert_eq!(report.failures.len(), 1);
    let result = |id: &str| report.steps.iter().find(|step| step.id == id).unwrap().result;
    assert_eq!(
        (result("open-keys"), result("decrypt-objects"), result("tear-down")),
        (StepResult::Failed, StepResult::NotRun, StepResult::Passed)
    );
    assert!(report.not_covered[0].what.contains("Read everything back"));
}

#[test]
fn a_run_that_could_not_run_says_nothing_about_the_snapshot() {
    let report = failed_at("fetch-image", "store.unreachable");
    assert_eq!((report.verdict.result, report.verdict.exit), (ReportResult::CouldNotTell, Exit::CouldNotRun as u8));
    assert!(report.verdict.sentence.starts_with("Whether snapshot"), "{}", report.verdict.sentence);
}

#[test]
fn a_tear_down_that_fails_keeps_the_proof_and_fails_the_run() {
    let report = failed_at("tear-down", "sandbox.failed");
    assert_eq!((report.verdict.result, report.verdict.reached), (ReportResult::CouldNotTell, Some(Rung::Serve)));
    assert!(report.verdict.sentence.contains("did not end cleanly"));
    assert!(report.rto.measured_ms.is_some());
}

#[test]
fn a_run_gone_on_with_after_a_kill_says_so_and_counts_the_gap_by_the_wall() {
    let report = sample::killed_and_gone_on();
    assert_eq!(report.verdict.result, ReportResult::Passed);
    assert_eq!(report.resumed.len(), 1);
    // 700 ms were spent in the step that died with the process, and are part of the gap.
    assert_eq!(report.resumed[0].gap_ms, 95_700);
    let apiserver = report.steps.iter().find(|step| step.id == "start-apiserver").unwrap();
    assert_eq!(apiserver.attempts.len(), 2);
    assert_eq!((apiserver.attempts[0].result, apiserver.attempts[0].duration_ms), (StepResult::Unknown, None));
    // Ten steps before the kill, the gap, then all again.
    assert_eq!(report.rto.measured_ms, Some(4_797 + 95_700 + 14_027));
    assert!(report.rto.how.contains("1 restart"), "{}", report.rto.how);
}

#[test]
fn a_run_without_an_end_is_unfinished_whatever_it_has_shown() {
    let mut play = Play::new(Rung::Serve);
    assert_eq!(play.report().verdict.result, ReportResult::Unfinished);
    play.play(Some("tear-down"), None);
    let report = play.report();
    assert_eq!((report.verdict.result, report.verdict.exit), (ReportResult::Unfinished, 2));
    assert_eq!(report.steps.last().unwrap().result, StepResult::Unknown);
}

#[test]
fn an_interrupted_run_blames_nothing() {
    let mut play = Play::new(Rung::Serve);
    play.play(Some("fetch-image"), None);
    play.write(Entry::Unknown { step: "fetch-image".into(), attempt: 1, cause: "the run was interrupted".into() });
    play.write(Entry::Interrupted {});
    play.play(None, None);
    let report = play.report();
    assert_eq!((report.verdict.result, report.verdict.exit), (ReportResult::Interrupted, 130));
    assert!(report.failures.is_empty());
}

#[test]
fn a_run_to_a_lower_rung_is_not_held_against_the_objective() {
    let mut play = Play::new(Rung::Open);
    play.play(None, None);
    let report = play.report();
    assert_eq!((report.verdict.result, report.verdict.reached), (ReportResult::Passed, Some(Rung::Open)));
    assert_eq!((report.rto.measured_ms, report.rto.met), (None, None));
    assert_eq!(report.rto.how, "not measured: a restore is measured at rung serve only");
    assert!(report.phases[0].until_ms.is_some() && report.verdict.sentence.contains(" to rung open in "), "its time is told");
    let page = holdfast::report::markdown::render(&report);
    assert!(page.contains("| RTO, measured | **not measured** | objective 30 min: not shown |"), "{page}");
    assert_eq!(report.steps.iter().find(|step| step.id == "start-etcd").unwrap().result, StepResult::NotAsked);
    assert!(report.not_covered.iter().any(|left_out| left_out.what == "rung serve"));
}

#[test]
fn an_objective_that_was_missed_is_not_met() {
    let mut play = Play::new(Rung::Serve);
    play.pass(31 * 60 * 1000);
    play.play(None, None);
    let report = play.report();
    assert_eq!((report.verdict.result, report.rto.met), (ReportResult::Passed, Some(false)));
}

#[test]
fn data_from_the_future_is_no_rpo_of_zero_that_was_met() {
    let facts = Facts {
        data_clock: Some(DataClockFacts { newest: "2026-12-01T14:00:00Z".into(), rule: "newest time stamp of an object".into() }),
        ..Facts::default()
    };
    let mut play = Play::new(Rung::Serve);
    play.play(None, Some(("decrypt-objects", failure("rehearsal.undecryptable"), facts)));
    let report = play.report();
    assert_eq!((report.rpo.measured_ms, report.rpo.met), (Some(0), None));
    assert!(report.rpo.how.contains("one of the two clocks is wrong"));
}

#[test]
fn c_107_every_opening_of_escrow_is_in_the_report_also_when_the_run_fails() {
    for (report, opened) in [(sample::passed(), 2), (sample::key_withheld(), 1)] {
        assert_eq!(report.facts.keys.as_ref().unwrap().openings.len(), opened);
        let page = holdfast::report::markdown::render(&report);
        let records = if opened == 1 { "1 escrow record" } else { "2 escrow records" };
        assert!(page.contains(&format!("{records} lay open in memory on host rehearsal-1.example.org")), "{page}");
    }
}

#[test]
fn c_111_each_phase_is_timed_apart_and_waiting_for_readiness_is_in_its_own_step() {
    let report = sample::passed();
    assert_eq!(report.phases.iter().filter_map(|phase| phase.duration_ms).sum::<u64>(), report.rto.measured_ms.unwrap());
    let took = |id: &str| report.steps.iter().find(|step| step.id == id).unwrap().attempts[0].duration_ms.unwrap();
    assert_eq!((took("start-etcd"), took("start-apiserver"), took("read-everything")), (1_105, 6_920, 2_310));
}
