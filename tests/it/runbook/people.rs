//! Steps that people do: asked, answered from anywhere, never done without a
//! word, and never in the way of a run that nobody attends.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use holdfast::base::clock::ManualClock;
use holdfast::base::entropy::SeededEntropy;
use holdfast::base::exit::Exit;
use holdfast::base::failure::Failure;
use holdfast::base::ids::RunId;
use holdfast::record::Rung;
use holdfast::runbook::answer::{Answer, Writer, waiting};
use holdfast::runbook::desk::{Desk, EmptyDesk, People, Said};
use holdfast::runbook::journal::{Carried, Entry, Event, Journal, MemoryJournal, ProcessMark, RunHead, RunResult, Word};
use holdfast::runbook::model::{OnFailure, Runbook, Step};

use super::harness::{Life, Mortal, check_invariants, head, runbook};

/// A person first, one in the middle, one before the end.
fn page() -> Runbook {
    runbook(&[
        ("ask-declare", Rung::Open, false),
        ("fetch", Rung::Open, true),
        ("approve", Rung::Open, false),
        ("boot", Rung::Boot, false),
        ("ask-check", Rung::Boot, false),
    ])
}

fn begun(runbook: &Runbook, life: &Life) -> (Arc<MemoryJournal>, RunHead) {
    let journal = Arc::new(MemoryJournal::default());
    let head = RunHead { attended: true, ..head(runbook, &life.process) };
    journal.begin(&head).unwrap();
    (journal, head)
}

/// Another process's hand on the journal.
fn elsewhere(journal: &Arc<MemoryJournal>, seed: u64) -> Writer {
    let clock = ManualClock::at("2026-12-01T13:30:00Z".parse().unwrap());
    Writer { journal: Arc::clone(journal) as _, clock, process: ProcessMark::new(&SeededEntropy::new(seed)) }
}

fn answer(word: Word) -> Answer {
    Answer { word, by: "alice".parse().unwrap(), note: Some("ticket 7".parse().unwrap()), hands_on: None }
}

/// What happens while a step waits.
enum Turn {
    /// Said at the desk, this many seconds after it was asked.
    Here(u64, Said),
    /// Done by somebody else, in another process.
    Elsewhere(Box<dyn FnOnce() + Send>),
}

/// A desk with a script.
struct Scripted {
    turns: Mutex<VecDeque<Turn>>,
    clock: Arc<ManualClock>,
    told: Mutex<Vec<String>>,
}

impl std::fmt::Debug for Scripted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scripted")
    }
}

impl Scripted {
    fn new(clock: &Arc<ManualClock>, turns: Vec<Turn>) -> Self {
        Self { turns: Mutex::new(turns.into()), clock: Arc::clone(clock), told: Mutex::default() }
    }
}

#[async_trait]
impl Desk for Scripted {
    fn opens(&self, _: &RunHead, step: &Step, begun: Option<&str>) {
        self.told.lock().unwrap().push(format!("opens {} {begun:?}", step.id));
    }

    async fn hear(&self, _: &Step) -> Said {
        let turn = self.turns.lock().unwrap().pop_front();
        match turn {
            Some(Turn::Here(after, said)) => {
                self.clock.advance(Duration::from_secs(after));
                said
            }
            Some(Turn::Elsewhere(act)) => {
                act();
                std::future::pending().await
            }
            None => std::future::pending().await,
        }
    }

    fn closes(&self, step: &Step, end: &Event) {
        let by = match &end.entry {
            Entry::Answered { by, .. } => by.clone(),
            other => format!("{other:?}").split(' ').next().unwrap().to_owned(),
        };
        self.told.lock().unwrap().push(format!("closes {} {by}", step.id));
    }
}

fn here(word: Word) -> Turn {
    Turn::Here(60, Said::Answered(answer(word)))
}

fn entries(journal: &MemoryJournal, head: &RunHead) -> Vec<Entry> {
    journal.events(&head.run).unwrap().into_iter().map(|event| event.entry).collect()
}

#[tokio::test(start_paused = true)]
async fn a_run_that_nobody_attends_waits_for_nobody_and_carries_what_is_known() {
    let runbook = page();
    let mut life = Life::new(1, None);
    let (journal, head) = begun(&runbook, &life);
    let carried = Carried { run: head.run.clone(), at: "2026-11-01T00:00:00Z".into(), waiting_ms: 60_000, hands_on_ms: 120_000 };
    let people = People::Unattended(BTreeMap::from([("approve".to_owned(), carried.clone())]));
    let outcome = life.live_with(&people, &runbook, &head, Arc::clone(&journal) as _).await.unwrap();
    assert_eq!((outcome.result, outcome.reached), (RunResult::Passed, Some(Rung::Boot)));
    assert_eq!(life.actions.ran, ["fetch", "boot", "close"]);
    let unasked: Vec<_> = entries(&journal, &head)
        .into_iter()
        .filter_map(|entry| match entry {
            Entry::Unasked { step, carried } => Some((step, carried)),
            _ => None,
        })
        .collect();
    assert_eq!(
        unasked,
        [("ask-declare".to_owned(), None), ("approve".to_owned(), Some(carried)), ("ask-check".to_owned(), None)]
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_asks_and_goes_on_with_answers_from_here_and_from_elsewhere() {
    let runbook = page();
    let mut life = Life::new(1, None);
    let (journal, head) = begun(&runbook, &life);
    let (other, run) = (elsewhere(&journal, 50), head.run.clone());
    let turns = vec![
        Turn::Here(120, Said::Begun("bob".parse().unwrap())),
        here(Word::Done),
        Turn::Elsewhere(Box::new(move || drop(other.answer(&run, "approve", &answer(Word::Done)).unwrap()))),
        here(Word::Done),
    ];
    let desk = Scripted::new(&life.clock, turns);
    let outcome = life.live_with(&People::Attended(&desk), &runbook, &head, Arc::clone(&journal) as _).await.unwrap();
    assert_eq!((outcome.exit(), outcome.reached), (Exit::Good, Some(Rung::Boot)));
    assert_eq!(life.actions.ran, ["fetch", "boot", "close"]);
    let told = desk.told.lock().unwrap().clone();
    let expected = [
        "opens ask-declare None",
        "closes ask-declare alice",
        "opens approve None",
        "closes approve alice",
        "opens ask-check None",
        "closes ask-check alice",
    ];
    assert_eq!(told, expected);
    check_invariants(&runbook, &life, &journal.events(&head.run).unwrap(), &outcome);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_and_a_step_not_done_end_the_run_and_clean_up() {
    for (turns, step, code, ran) in [
        (vec![here(Word::Failed)], "ask-declare", "run.by-hand", vec!["close"]),
        (vec![here(Word::Done), here(Word::Refused)], "approve", "run.refused", vec!["fetch", "close"]),
    ] {
        let runbook = page();
        let mut life = Life::new(1, None);
        let (journal, head) = begun(&runbook, &life);
        let desk = Scripted::new(&life.clock, turns);
        let outcome = life.live_with(&People::Attended(&desk), &runbook, &head, Arc::clone(&journal) as _).await.unwrap();
        let (failed, failure) = outcome.failure.clone().unwrap();
        assert_eq!((failed.as_str(), failure.code.as_str(), outcome.exit()), (step, code, Exit::Bad));
        assert!(failure.cause.contains("alice") && failure.cause.contains("ticket 7"), "{failure:?}");
        assert_eq!(life.actions.ran, ran);
        check_invariants(&runbook, &life, &journal.events(&head.run).unwrap(), &outcome);
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_program_reached_stands_when_the_last_signature_is_refused() {
    let mut runbook = page();
    runbook.steps[4].on_failure = OnFailure::Continue;
    let mut life = Life::new(1, None);
    let (journal, head) = begun(&runbook, &life);
    let desk = Scripted::new(&life.clock, vec![here(Word::Done), here(Word::Done), here(Word::Failed)]);
    let outcome = life.live_with(&People::Attended(&desk), &runbook, &head, journal).await.unwrap();
    assert_eq!((outcome.result, outcome.reached), (RunResult::Failed, Some(Rung::Boot)));
}

#[tokio::test(start_paused = true)]
async fn nobody_who_answers_in_time_fails_the_step_whichever_process_looks() {
    let runbook = page();
    for killed in [false, true] {
        let mut life = Life::new(1, None);
        let (journal, head) = begun(&runbook, &life);
        if killed {
            let mortal = Arc::new(Mortal { inner: Arc::clone(&journal), left: Mutex::new(1) });
            let desk = Scripted::new(&life.clock, vec![here(Word::Done)]);
            life.live_with(&People::Attended(&desk), &runbook, &head, mortal).await.unwrap_err();
            assert_eq!(entries(&journal, &head).len(), 1, "it asked, and its answer was lost with it");
            life = Life::new(2, None);
            life.clock.advance(Duration::from_secs(3600));
        }
        let clock = Arc::clone(&life.clock);
        let desk = Scripted::new(
            &life.clock,
            vec![Turn::Elsewhere(Box::new(move || clock.advance(Duration::from_secs(if killed { 0 } else { 3600 }))))],
        );
        let outcome = life.live_with(&People::Attended(&desk), &runbook, &head, Arc::clone(&journal) as _).await.unwrap();
        let (step, failure) = outcome.failure.clone().unwrap();
        assert_eq!(
            (step.as_str(), failure.code.as_str(), outcome.exit()),
            ("ask-declare", "run.step-timeout", Exit::CouldNotRun)
        );
        assert!(failure.cause.contains("nobody answered within 1 h"), "{failure:?}");
        assert_eq!(life.actions.ran, ["close"]);
    }
}

/// Answers whatever waits, as soon as it waits.
fn willing(journal: &Arc<MemoryJournal>, head: &RunHead, clock: &Arc<ManualClock>) -> Scripted {
    let turns = ["ask-declare", "approve", "ask-check"].map(|_| {
        let (journal, head) = (Arc::clone(journal), head.clone());
        Turn::Elsewhere(Box::new(move || {
            let step = waiting(&journal.events(&head.run).unwrap()).unwrap().0.to_owned();
            elsewhere(&journal, 77 + step.len() as u64).answer(&head.run, &step, &answer(Word::Done)).unwrap();
        }))
    });
    Scripted::new(clock, turns.into())
}

#[tokio::test(start_paused = true)]
async fn a_run_killed_after_any_event_waits_on_or_goes_on_and_asks_nothing_twice() {
    let runbook = page();
    let whole = {
        let mut life = Life::new(1, None);
        let (journal, head) = begun(&runbook, &life);
        let desk = willing(&journal, &head, &life.clock);
        life.live_with(&People::Attended(&desk), &runbook, &head, Arc::clone(&journal) as _).await.unwrap();
        journal.events(&head.run).unwrap().len()
    };
    for n in 0..whole {
        let mut first = Life::new(1, None);
        let (journal, head) = begun(&runbook, &first);
        // Answers come from elsewhere, and need no journal of this process.
        let answers = entries_written_by_hand_before(n);
        let mortal = Arc::new(Mortal { inner: Arc::clone(&journal), left: Mutex::new(n - answers) });
        let desk = willing(&journal, &head, &first.clock);
        first.live_with(&People::Attended(&desk), &runbook, &head, mortal).await.unwrap_err();
        let before = journal.events(&head.run).unwrap();
        let waits = waiting(&before).map(|(step, _)| step.to_owned());

        let mut second = Life::new(2, None);
        let desk = willing(&journal, &head, &second.clock);
        let outcome = second.live_with(&People::Attended(&desk), &runbook, &head, Arc::clone(&journal) as _).await.unwrap();
        let events = journal.events(&head.run).unwrap();
        check_invariants(&runbook, &second, &events, &outcome);
        assert_eq!((outcome.result, outcome.reached), (RunResult::Passed, Some(Rung::Boot)), "killed after event {n}");
        for step in ["ask-declare", "approve", "ask-check"] {
            let count = |wanted: fn(&Entry) -> bool| {
                events.iter().filter(|event| event.step().is_some_and(|(id, _)| id == step) && wanted(&event.entry)).count()
            };
            assert_eq!(count(|entry| matches!(entry, Entry::Asked { .. })), 1, "{step}, killed after event {n}");
            assert_eq!(count(|entry| matches!(entry, Entry::Answered { .. })), 1, "{step}, killed after event {n}");
        }
        if let Some(step) = waits {
            let told = desk.told.lock().unwrap();
            assert_eq!(told[0], format!("opens {step} None"), "killed after event {n}");
        }
    }
}

/// The events of a whole run are: asked, answered, started, succeeded, asked,
/// answered, started, succeeded, asked, answered, started, succeeded, finished.
fn entries_written_by_hand_before(n: usize) -> usize {
    [2, 6, 10].into_iter().filter(|number| *number <= n).count()
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_stopped_while_it_waits_stays_open_and_gives_up_what_it_held() {
    let runbook = page();
    let mut first = Life::new(1, None);
    let (journal, head) = begun(&runbook, &first);
    let cancel = first.cancel.clone();
    let turns = vec![here(Word::Done), here(Word::Done), Turn::Elsewhere(Box::new(move || cancel.cancel()))];
    let desk = Scripted::new(&first.clock, turns);
    let failure = first.live_with(&People::Attended(&desk), &runbook, &head, Arc::clone(&journal) as _).await.unwrap_err();
    assert_eq!((failure.code().name, failure.exit()), ("interrupted", Exit::Interrupted));
    assert!(failure.cause().contains("ask-check"), "{failure}");
    assert!(failure.next_action().contains(&format!("holdfast runbook resume {}", head.run)), "{failure:?}");
    assert!(first.actions.left && first.actions.held.is_empty());
    let events = journal.events(&head.run).unwrap();
    assert_eq!(waiting(&events), Some(("ask-check", 1)));

    // Answered while no process has the run.
    elsewhere(&journal, 9).answer(&head.run, "ask-check", &answer(Word::Done)).unwrap();
    let mut second = Life::new(2, None);
    let outcome = second.live_with(&People::Attended(&EmptyDesk), &runbook, &head, Arc::clone(&journal) as _).await.unwrap();
    assert_eq!(outcome.result, RunResult::Passed);
    assert_eq!(second.actions.ran, ["close"], "nothing is left that needs what the first process held");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_waits_gives_way_to_one_that_goes_on_with_the_run() {
    let runbook = page();
    let mut first = Life::new(1, None);
    let (journal, head) = begun(&runbook, &first);
    let (taking, taken_head) = (Arc::clone(&journal), head.clone());
    let take_over = move || {
        let number = taking.events(&taken_head.run).unwrap().len() as u64 + 1;
        let process = ProcessMark::new(&SeededEntropy::new(2));
        let (run, at) = (taken_head.run.clone(), taken_head.started);
        taking.append(&Event { run, number, at, uptime_ms: 0, process, entry: Entry::Resumed {} }).unwrap();
    };
    let desk = Scripted::new(&first.clock, vec![Turn::Elsewhere(Box::new(take_over))]);
    let failure = first.live_with(&People::Attended(&desk), &runbook, &head, Arc::clone(&journal) as _).await.unwrap_err();
    assert_eq!(failure.code().name, "run.journal");
    assert!(failure.cause().contains("another process goes on with it") && first.actions.left, "{failure}");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_is_not_gone_on_with_by_one_that_asks_nobody() {
    let runbook = page();
    let mut first = Life::new(1, None);
    let (journal, head) = begun(&runbook, &first);
    let cancel = first.cancel.clone();
    let desk = Scripted::new(&first.clock, vec![Turn::Elsewhere(Box::new(move || cancel.cancel()))]);
    first.live_with(&People::Attended(&desk), &runbook, &head, Arc::clone(&journal) as _).await.unwrap_err();
    let mut second = Life::new(2, None);
    let failure = second.live(&runbook, &head, Arc::clone(&journal) as _).await.unwrap_err();
    assert_eq!(failure.code().name, "run.asks-people");
    assert_eq!(waiting(&journal.events(&head.run).unwrap()), Some(("ask-declare", 1)), "it waits still");
}

/// A journal in which another process is quicker: before an event that `when`
/// names is taken, `act` has written one of its own.
struct Raced {
    inner: Arc<MemoryJournal>,
    when: fn(&Entry) -> bool,
    act: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl std::fmt::Debug for Raced {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Raced")
    }
}

impl Journal for Raced {
    fn begin(&self, head: &RunHead) -> Result<(), Failure> {
        self.inner.begin(head)
    }

    fn append(&self, event: &Event) -> Result<(), Failure> {
        if (self.when)(&event.entry) {
            let act = self.act.lock().unwrap().take();
            act.into_iter().for_each(|act| act());
        }
        self.inner.append(event)
    }

    fn head(&self, run: &RunId) -> Result<RunHead, Failure> {
        self.inner.head(run)
    }

    fn events(&self, run: &RunId) -> Result<Vec<Event>, Failure> {
        self.inner.events(run)
    }

    fn runs(&self) -> Result<Vec<RunHead>, Failure> {
        self.inner.runs()
    }
}

#[tokio::test(start_paused = true)]
async fn notes_come_at_any_moment_and_stop_nothing() {
    let moments: [fn(&Entry) -> bool; 4] = [
        |entry| matches!(entry, Entry::Asked { .. }),
        |entry| matches!(entry, Entry::Started { .. }),
        |entry| matches!(entry, Entry::Succeeded { .. }),
        |entry| matches!(entry, Entry::Finished { .. }),
    ];
    for when in moments {
        let runbook = page();
        let mut life = Life::new(1, None);
        let (journal, head) = begun(&runbook, &life);
        let (noting, run) = (elsewhere(&journal, 5), head.run.clone());
        let note = move || {
            let hands_on = Some(Duration::from_secs(240));
            noting.note(&run, &"restarted the load balancer".parse().unwrap(), &"carol".parse().unwrap(), hands_on).unwrap();
        };
        let raced = Arc::new(Raced { inner: Arc::clone(&journal), when, act: Mutex::new(Some(Box::new(note))) });
        let desk = Scripted::new(&life.clock, vec![here(Word::Done), here(Word::Done), here(Word::Done)]);
        let outcome = life.live_with(&People::Attended(&desk), &runbook, &head, raced).await.unwrap();
        assert_eq!(outcome.result, RunResult::Passed);
        let notes = entries(&journal, &head).iter().filter(|entry| matches!(entry, Entry::Noted { .. })).count();
        assert_eq!(notes, 1);
        let late = elsewhere(&journal, 6).note(&head.run, &"too late".parse().unwrap(), &"carol".parse().unwrap(), None);
        assert_eq!(late.unwrap_err().code().name, "run.finished");
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_answers_at_the_same_moment_one_counts_and_the_other_is_told() {
    // The desk is late: somebody else's answer is in the journal when it writes.
    let runbook = page();
    let mut life = Life::new(1, None);
    let (journal, head) = begun(&runbook, &life);
    let (other, run) = (elsewhere(&journal, 5), head.run.clone());
    let act = move || drop(other.answer(&run, "ask-declare", &answer(Word::Failed)).unwrap());
    let when = |entry: &Entry| matches!(entry, Entry::Answered { .. });
    let raced = Arc::new(Raced { inner: Arc::clone(&journal), when, act: Mutex::new(Some(Box::new(act))) });
    let desk = Scripted::new(&life.clock, vec![here(Word::Done)]);
    let outcome = life.live_with(&People::Attended(&desk), &runbook, &head, raced).await.unwrap();
    assert_eq!(outcome.failure.unwrap().1.code, "run.by-hand");
    assert_eq!(desk.told.lock().unwrap().last().unwrap(), "closes ask-declare alice");

    // Nobody answered in time, and somebody did at the last moment: that counts.
    let mut life = Life::new(1, None);
    let (journal, head) = begun(&runbook, &life);
    let (other, run) = (elsewhere(&journal, 5), head.run.clone());
    let act = move || drop(other.answer(&run, "ask-declare", &answer(Word::Done)).unwrap());
    let when = |entry: &Entry| matches!(entry, Entry::Failed { .. });
    let raced = Arc::new(Raced { inner: Arc::clone(&journal), when, act: Mutex::new(Some(Box::new(act))) });
    let clock = Arc::clone(&life.clock);
    let overdue = Turn::Elsewhere(Box::new(move || clock.advance(Duration::from_secs(3600))));
    let desk = Scripted::new(&life.clock, vec![overdue, here(Word::Done), here(Word::Done)]);
    let outcome = life.live_with(&People::Attended(&desk), &runbook, &head, raced).await.unwrap();
    assert_eq!(outcome.result, RunResult::Passed);

    // Two processes that drive nothing.
    let (journal, head) = begun(&runbook, &life);
    let (run, at, process) = (head.run.clone(), head.started, head.process.clone());
    let ask = holdfast::runbook::model::HandsKind::Manual;
    let entry = Entry::Asked { step: "ask-declare".into(), attempt: 1, ask };
    journal.append(&Event { run, number: 1, at, uptime_ms: 0, process, entry }).unwrap();
    let (other, run) = (elsewhere(&journal, 5), head.run.clone());
    let act = move || drop(other.answer(&run, "ask-declare", &answer(Word::Done)).unwrap());
    let raced = Arc::new(Raced { inner: Arc::clone(&journal), when: |_| true, act: Mutex::new(Some(Box::new(act))) });
    let late = Writer { journal: raced, ..elsewhere(&journal, 6) };
    let failure = late.answer(&head.run, "ask-declare", &answer(Word::Failed)).unwrap_err();
    assert_eq!((failure.code().name, failure.exit()), ("run.answered", Exit::CouldNotRun));
}

#[test]
fn answers_out_of_order_are_refused_and_say_what_waits() {
    let runbook = page();
    let life = Life::new(1, None);
    let (journal, head) = begun(&runbook, &life);
    let writer = elsewhere(&journal, 3);
    let refused = |step: &str, word| {
        let before = journal.events(&head.run).unwrap();
        let failure = writer.answer(&head.run, step, &answer(word)).unwrap_err();
        assert_eq!(journal.events(&head.run).unwrap(), before, "{failure}");
        (failure.code().name, failure.cause().to_owned())
    };
    let write = |entry: Entry| {
        let number = journal.events(&head.run).unwrap().len() as u64 + 1;
        let (run, process) = (head.run.clone(), head.process.clone());
        journal.append(&Event { run, number, at: head.started, uptime_ms: number, process, entry }).unwrap();
    };
    let asked = |step: &str, ask| Entry::Asked { step: step.into(), attempt: 1, ask };
    use holdfast::runbook::model::HandsKind::{Approval, Manual};

    assert_eq!(refused("ask-declare", Word::Done), ("run.step-not-open", "the run has not come to it".into()));
    write(asked("ask-declare", Manual));
    assert_eq!(refused("approve", Word::Done), ("run.step-not-open", "the run waits for step ask-declare".into()));
    let (code, why) = refused("ask-declare", Word::Refused);
    assert!(code == "run.step-not-open" && why.contains("asks for no approval"), "{why}");
    writer.begin(&head.run, "ask-declare", &"bob".parse().unwrap()).unwrap();
    let twice = writer.begin(&head.run, "ask-declare", &"eve".parse().unwrap()).unwrap_err();
    assert!(twice.cause().contains("was begun by bob"), "{twice}");
    writer.answer(&head.run, "ask-declare", &answer(Word::Done)).unwrap();
    let (code, why) = refused("ask-declare", Word::Done);
    assert_eq!((code, why.as_str()), ("run.answered", "alice answered at 2026-12-01T13:30:00Z: done"));
    write(Entry::Started { step: "fetch".into(), attempt: 1 });
    let (code, why) = refused("fetch", Word::Done);
    assert!(code == "run.step-not-open" && why.contains("holdfast does it"), "{why}");
    write(Entry::Succeeded { step: "fetch".into(), attempt: 1, summary: String::new(), facts: Box::default() });
    write(asked("approve", Approval));
    let (code, why) = refused("approve", Word::Failed);
    assert!(code == "run.step-not-open" && why.contains("given or refused"), "{why}");
    let nowhere = writer.answer(&"20260101T000000Z-00000000".parse().unwrap(), "approve", &answer(Word::Done)).unwrap_err();
    assert_eq!((nowhere.code().name, nowhere.exit()), ("run.unknown", Exit::CouldNotRun));
    writer.answer(&head.run, "approve", &answer(Word::Refused)).unwrap();
    write(Entry::Finished { result: RunResult::Failed, reached: None });
    assert_eq!(refused("ask-check", Word::Done).0, "run.finished");
}

#[test]
fn names_and_notes_that_say_nothing_or_too_much_are_refused() {
    use holdfast::runbook::answer::{Name, Note};
    for bad in ["", "  ", &"x".repeat(201)] {
        assert!(bad.parse::<Name>().is_err(), "{bad:?}");
    }
    for bad in ["", "\n", &"x".repeat(4001)] {
        assert!(bad.parse::<Note>().is_err(), "{bad:?}");
    }
    assert_eq!(" Alice ".parse::<Name>().unwrap().as_str(), "Alice");
    assert!("y".repeat(4000).parse::<Note>().is_ok());
}
