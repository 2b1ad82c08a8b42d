//! Legal transitions, and that every journal keeps to them: one contract, two implementations.

use std::sync::Arc;

use holdfast::base::clock::SystemClock;
use holdfast::base::entropy::SeededEntropy;
use holdfast::catalog::journal::{MIGRATION, SqliteJournal};
use holdfast::record::Rung;
use holdfast::runbook::answer::{Answer, Writer};
use holdfast::runbook::facts::{Facts, ToolVersion};
use holdfast::runbook::journal::{Entry, Event, FailureText, Journal, MemoryJournal, ProcessMark, RunHead, RunResult, Word};
use holdfast::runbook::model::HandsKind;
use rusqlite::Connection;

use super::harness::{Life, four_steps, head};

fn sqlite(path: &std::path::Path) -> SqliteJournal {
    let connection = Connection::open(path).unwrap();
    let there: bool = connection.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'journal_run'").unwrap().exists([]).unwrap();
    if !there {
        connection.execute_batch(MIGRATION).unwrap();
    }
    SqliteJournal::new(connection).unwrap()
}

/// Each implementation in turn.
fn with_each(check: impl Fn(&dyn Journal)) {
    check(&MemoryJournal::default());
    let directory = tempfile::tempdir().unwrap();
    check(&sqlite(&directory.path().join("catalog.db")));
}

fn mark(seed: u64) -> ProcessMark {
    ProcessMark::new(&SeededEntropy::new(seed))
}

fn started(step: &str, attempt: u32) -> Entry {
    Entry::Started { step: step.into(), attempt }
}

fn succeeded(step: &str, attempt: u32) -> Entry {
    Entry::Succeeded { step: step.into(), attempt, summary: "done".into(), facts: Box::default() }
}

fn failed(step: &str, attempt: u32) -> Entry {
    let text = |text: &str| text.to_owned();
    let failure = FailureText { code: text("store.denied"), object: text("o"), cause: text("c"), next: text("n") };
    Entry::Failed { step: step.into(), attempt, failure, facts: Box::default() }
}

fn unknown(step: &str, attempt: u32) -> Entry {
    Entry::Unknown { step: step.into(), attempt, cause: "killed".into() }
}

fn finished() -> Entry {
    Entry::Finished { result: RunResult::Failed, reached: Some(Rung::Open) }
}

fn event(head: &RunHead, number: u64, process: u64, entry: Entry) -> Event {
    Event { run: head.run.clone(), number, at: head.started, uptime_ms: number * 10, process: mark(process), entry }
}

/// Appends all but the last, which must be refused and leave the journal as it was.
fn check_refused(entries: Vec<(u64, Entry)>, why: &str) {
    with_each(|journal| {
        let head = head(&four_steps(), &mark(1));
        journal.begin(&head).unwrap();
        let mut events: Vec<_> =
            entries.iter().cloned().zip(1..).map(|((process, entry), number)| event(&head, number, process, entry)).collect();
        let last = events.pop().unwrap();
        for event in &events {
            journal.append(event).unwrap();
        }
        let failure = journal.append(&last).unwrap_err();
        assert_eq!(failure.code().name, "run.journal");
        assert!(failure.cause().contains(why), "{failure} does not say {why:?}");
        assert_eq!(journal.events(&head.run).unwrap(), events);
    });
}

#[test]
fn an_illegal_transition_is_refused_and_leaves_the_journal_as_it_was() {
    check_refused(vec![(1, succeeded("a", 1))], "no step has begun");
    check_refused(vec![(1, started("a", 2))], "attempt 1 of a was expected");
    check_refused(vec![(1, started("a", 1)), (1, started("b", 1))], "attempt 1 of a has not ended");
    check_refused(vec![(1, started("a", 1)), (1, succeeded("b", 1))], "attempt 1 of a has not ended");
    check_refused(vec![(1, started("a", 1)), (1, failed("a", 2))], "attempt 1 of a has not ended");
    check_refused(vec![(1, started("a", 1)), (1, finished())], "attempt 1 of a has not ended");
    check_refused(vec![(1, started("a", 1)), (1, succeeded("a", 1)), (1, failed("a", 1))], "no step has begun");
    check_refused(vec![(1, started("a", 1)), (1, succeeded("a", 1)), (1, started("a", 1))], "attempt 2 of a was expected");
    check_refused(vec![(1, finished()), (1, started("a", 1))], "the run has finished");
    check_refused(vec![(1, finished()), (1, finished())], "the run has finished");
}

#[test]
fn a_step_can_be_called_done_only_by_the_process_that_ran_it() {
    check_refused(vec![(1, started("a", 1)), (2, succeeded("a", 1))], "begun by another process");
    check_refused(vec![(1, started("a", 1)), (2, failed("a", 1))], "begun by another process");
    with_each(|journal| {
        let head = head(&four_steps(), &mark(1));
        journal.begin(&head).unwrap();
        journal.append(&event(&head, 1, 1, started("a", 1))).unwrap();
        journal.append(&event(&head, 2, 2, unknown("a", 1))).unwrap();
        journal.append(&event(&head, 3, 2, started("a", 2))).unwrap();
    });
}

fn asked(step: &str, ask: HandsKind) -> Entry {
    Entry::Asked { step: step.into(), attempt: 1, ask }
}

fn answered(step: &str, answer: Word) -> Entry {
    let (by, note) = ("alice".to_owned(), Some("a\u{1b}[2J\n<b>".to_owned()));
    Entry::Answered { step: step.into(), attempt: 1, answer, by, note, hands_on_ms: Some(60_000) }
}

fn begun(step: &str) -> Entry {
    Entry::Begun { step: step.into(), attempt: 1, by: "bob".into() }
}

fn noted() -> Entry {
    Entry::Noted { text: "t".into(), by: "b".into(), hands_on_ms: None }
}

fn unasked(step: &str) -> Entry {
    Entry::Unasked { step: step.into(), carried: None }
}

#[test]
fn a_persons_step_is_ended_by_a_persons_word_alone_from_any_process() {
    use HandsKind::{Approval, Manual};
    check_refused(vec![(1, asked("a", Manual)), (1, succeeded("a", 1))], "only a person can end a");
    check_refused(vec![(1, asked("a", Manual)), (2, unknown("a", 1))], "only a person can end a");
    check_refused(vec![(1, asked("a", Manual)), (2, started("b", 1))], "attempt 1 of a has not ended");
    check_refused(vec![(1, asked("a", Manual)), (2, answered("b", Word::Done))], "attempt 1 of a has not ended");
    check_refused(vec![(1, asked("a", Manual)), (1, finished())], "attempt 1 of a has not ended");
    check_refused(vec![(1, asked("a", Manual)), (2, answered("a", Word::Refused))], "asks for no approval");
    check_refused(vec![(1, asked("a", Approval)), (2, answered("a", Word::Failed))], "given or refused");
    check_refused(vec![(1, asked("a", Manual)), (2, begun("a")), (3, begun("a"))], "a was begun by bob");
    check_refused(vec![(1, asked("a", Manual)), (2, answered("a", Word::Done)), (3, begun("a"))], "no step has begun");
    let answer_again = vec![(1, asked("a", Manual)), (2, answered("a", Word::Done)), (3, answered("a", Word::Failed))];
    check_refused(answer_again, "no step has begun");
    check_refused(vec![(1, started("a", 1)), (1, answered("a", Word::Done))], "a is no person's step");
    check_refused(vec![(2, answered("a", Word::Done))], "no step has begun");
    check_refused(vec![(1, unasked("a")), (1, unasked("a"))], "went past a before");
    check_refused(vec![(1, asked("a", Manual)), (2, answered("a", Word::Done)), (1, unasked("a"))], "has been asked for");
    check_refused(vec![(1, finished()), (2, noted())], "the run has finished");
    check_refused(vec![(1, noted()), (1, Entry::Resumed {})], "this process has the run already");
    with_each(|journal| {
        let head = head(&four_steps(), &mark(1));
        journal.begin(&head).unwrap();
        let entries = [
            (1, asked("a", Manual)),
            (2, noted()),
            (3, begun("a")),
            (4, Entry::Resumed {}),
            (5, answered("a", Word::Done)),
            (4, started("b", 1)),
            (6, noted()),
            (4, succeeded("b", 1)),
            (4, asked("c", Approval)),
            (7, answered("c", Word::Refused)),
            (8, Entry::Resumed {}),
            (8, asked("d", Manual)),
            // That nobody answered, any process can tell.
            (9, failed("d", 1)),
            (8, unasked("e")),
            (8, finished()),
        ];
        let events: Vec<_> = entries.into_iter().zip(1..).map(|((by, entry), number)| event(&head, number, by, entry)).collect();
        for event in &events {
            journal.append(event).unwrap();
        }
        assert_eq!(journal.events(&head.run).unwrap(), events, "read back as it was said");
    });
}

#[test]
fn two_processes_that_answer_at_the_same_time_leave_one_answer() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("catalog.db");
    let head = head(&four_steps(), &mark(1));
    let journal = sqlite(&path);
    journal.begin(&head).unwrap();
    journal.append(&event(&head, 1, 1, asked("a", HandsKind::Manual))).unwrap();
    let threads: Vec<_> = (0..8)
        .map(|n: u64| {
            let (path, run) = (path.clone(), head.run.clone());
            std::thread::spawn(move || {
                let writer = Writer { journal: Arc::new(sqlite(&path)), clock: SystemClock::new(), process: mark(10 + n) };
                let by = format!("person {n}").parse().unwrap();
                let note = writer.note(&run, &"n".parse().unwrap(), &"carol".parse().unwrap(), None);
                let answer = writer.answer(&run, "a", &Answer { word: Word::Done, by, note: None, hands_on: None });
                (note.is_ok(), answer.map(|_| ()).map_err(|failure| failure.code().name))
            })
        })
        .collect();
    let results: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert!(results.iter().all(|(noted, _)| *noted), "{results:?}");
    assert_eq!(results.iter().filter(|(_, answer)| answer.is_ok()).count(), 1, "{results:?}");
    assert!(results.iter().all(|(_, answer)| matches!(answer, Ok(()) | Err("run.answered"))), "{results:?}");
    let events = journal.events(&head.run).unwrap();
    assert_eq!(events.iter().filter(|event| matches!(event.entry, Entry::Answered { .. })).count(), 1);
    assert_eq!(events.len(), 10);
}

#[test]
fn an_event_with_a_wrong_number_run_or_time_is_refused() {
    with_each(|journal| {
        let head = head(&four_steps(), &mark(1));
        let mut first = event(&head, 1, 1, started("a", 1));
        assert_eq!(journal.append(&first).unwrap_err().code().name, "run.unknown");
        assert_eq!(journal.events(&head.run).unwrap_err().code().name, "run.unknown");
        assert_eq!(journal.head(&head.run).unwrap_err().code().name, "run.unknown");
        journal.begin(&head).unwrap();
        assert_eq!(journal.begin(&head).unwrap_err().code().name, "run.journal");
        first.number = 2;
        assert_eq!(journal.append(&first).unwrap_err().code().name, "run.journal");
        first.number = 1;
        journal.append(&first).unwrap();
        let mut back = event(&head, 2, 1, succeeded("a", 1));
        back.uptime_ms = first.uptime_ms - 1;
        assert!(journal.append(&back).unwrap_err().cause().contains("went back"));
        back.uptime_ms = first.uptime_ms;
        journal.append(&back).unwrap();
    });
}

#[test]
fn what_was_appended_is_read_back_whole_and_runs_are_listed_newest_first() {
    with_each(|journal| {
        let first = head(&four_steps(), &mark(1));
        let second = RunHead {
            run: "20261202T130509Z-01234567".parse().unwrap(),
            started: "2026-12-02T13:05:09.5Z".parse().unwrap(),
            ..first.clone()
        };
        journal.begin(&first).unwrap();
        journal.begin(&second).unwrap();
        let tools = vec![ToolVersion { name: "etcd".into(), version: "3.6.16".into() }];
        let facts = Box::new(Facts { tools, ..Facts::default() });
        let done = Entry::Succeeded { step: "a".into(), attempt: 1, summary: "was \"done\"\n<b>".into(), facts };
        let entries = [started("a", 1), done, started("b", 1), failed("b", 1), Entry::Interrupted {}, finished()];
        let events: Vec<_> = entries.into_iter().zip(1..).map(|(entry, number)| event(&first, number, 1, entry)).collect();
        for event in &events {
            journal.append(event).unwrap();
        }
        assert_eq!(journal.events(&first.run).unwrap(), events);
        assert!(journal.events(&second.run).unwrap().is_empty());
        assert_eq!(journal.head(&second.run).unwrap(), second);
        assert_eq!(journal.runs().unwrap(), [second, first]);
    });
}

#[tokio::test(start_paused = true)]
async fn a_run_goes_on_over_a_journal_that_was_closed_and_opened_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("catalog.db");
    let runbook = four_steps();
    let mut first = Life::new(1, None);
    let head = head(&runbook, &first.process);
    {
        let journal = sqlite(&path);
        journal.begin(&head).unwrap();
        journal
            .append(&Event { uptime_ms: 0, process: first.process.clone(), ..event(&head, 1, 1, started("fetch", 1)) })
            .unwrap();
    }
    let mut second = Life::new(2, None);
    let outcome = second.live(&runbook, &head, Arc::new(sqlite(&path))).await.unwrap();
    assert_eq!(outcome.result, RunResult::Passed);
    let events = sqlite(&path).events(&head.run).unwrap();
    assert!(matches!(&events[1].entry, Entry::Resumed {}), "{:?}", events[1]);
    assert!(matches!(&events[2].entry, Entry::Unknown { attempt: 1, .. }), "{:?}", events[2]);
    assert!(matches!(&events[3].entry, Entry::Started { attempt: 2, .. }), "{:?}", events[3]);
    first.actions.ran.clear();
}

#[test]
fn two_connections_cannot_both_go_on_with_a_run() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("catalog.db");
    let (one, other) = (sqlite(&path), sqlite(&path));
    let head = head(&four_steps(), &mark(1));
    one.begin(&head).unwrap();
    one.append(&event(&head, 1, 1, started("a", 1))).unwrap();
    let failure = other.append(&event(&head, 1, 2, started("a", 1))).unwrap_err();
    assert_eq!(failure.code().name, "run.journal");
}

#[test]
fn events_in_sqlite_can_be_neither_changed_nor_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("catalog.db");
    let journal = sqlite(&path);
    let head = head(&four_steps(), &mark(1));
    journal.begin(&head).unwrap();
    journal.append(&event(&head, 1, 1, started("a", 1))).unwrap();
    let connection = Connection::open(&path).unwrap();
    for change in ["UPDATE journal_event SET entry = ''", "DELETE FROM journal_event"] {
        assert!(connection.execute(change, []).unwrap_err().to_string().contains("never"), "{change}");
    }
}
