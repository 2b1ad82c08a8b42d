//! Runs that pause before a step, and go on, or are left as they stand.

use std::sync::Arc;

use holdfast::base::exit::Exit;
use holdfast::record::Rung;
use holdfast::runbook::journal::{Journal, MemoryJournal, RunHead, RunResult};
use holdfast::runbook::model::{Runbook, Step};

use super::harness::{Fault, Life, four_steps, head};

fn begun(runbook: &Runbook, life: &Life) -> (RunHead, Arc<dyn Journal>) {
    let journal = Arc::new(MemoryJournal::default());
    let head = head(runbook, &life.process);
    journal.begin(&head).unwrap();
    (head, journal)
}

fn closing(step: &Step, is_well: bool) -> bool {
    step.always && is_well
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_left_has_climbed_and_keeps_what_it_made() {
    let (runbook, mut life) = (four_steps(), Life::new(1, None));
    let (head, journal) = begun(&runbook, &life);
    let driver = life.driver(&runbook, &head, Arc::clone(&journal));
    assert_eq!(driver.drive_to(&mut life.actions, &closing).await.unwrap(), None);
    let outcome = driver.leave().await.unwrap();
    assert_eq!((outcome.result, outcome.reached, outcome.exit()), (RunResult::Passed, Some(Rung::Serve), Exit::Good));
    assert_eq!(life.actions.ran, ["fetch", "open", "boot", "serve"]);
    assert!(!life.actions.held.is_empty(), "nothing was closed");
    assert!(driver.leave().await.is_err(), "a run ends once");
    let mut later = Life::new(2, None);
    assert_eq!(later.live(&runbook, &head, journal).await.unwrap(), outcome, "and says so whoever asks");
    assert!(later.actions.ran.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_paused_run_goes_on_to_its_end() {
    let (runbook, mut life) = (four_steps(), Life::new(1, None));
    let (head, journal) = begun(&runbook, &life);
    let driver = life.driver(&runbook, &head, journal);
    assert_eq!(driver.drive_to(&mut life.actions, &|step, _| step.id == "boot").await.unwrap(), None);
    assert_eq!(life.actions.ran, ["fetch", "open"]);
    let outcome = driver.drive(&mut life.actions).await.unwrap();
    assert_eq!((outcome.result, life.actions.ran.len()), (RunResult::Passed, 5));
    assert!(life.actions.held.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_run_that_fails_or_is_interrupted_does_not_pause_and_closes() {
    for (fault, exit) in [(Fault::Fail, Exit::Bad), (Fault::Interrupt, Exit::Interrupted)] {
        let (runbook, mut life) = (four_steps(), Life::new(1, Some(("boot", fault))));
        let (head, journal) = begun(&runbook, &life);
        let driver = life.driver(&runbook, &head, journal);
        let outcome = driver.drive_to(&mut life.actions, &closing).await.unwrap().unwrap();
        assert_eq!(outcome.exit(), exit);
        assert!(life.actions.held.is_empty(), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_interrupted_at_its_pause_closes() {
    let (runbook, mut life) = (four_steps(), Life::new(1, None));
    let (head, journal) = begun(&runbook, &life);
    let driver = life.driver(&runbook, &head, journal);
    assert_eq!(driver.drive_to(&mut life.actions, &closing).await.unwrap(), None);
    life.interrupt();
    let outcome = driver.drive_to(&mut life.actions, &closing).await.unwrap().unwrap();
    assert_eq!((outcome.exit(), outcome.reached), (Exit::Interrupted, Some(Rung::Serve)));
    assert!(life.actions.held.is_empty());
}
