//! Properties of the pure parts: the engine never sticks, any prefix resumes,
//! pages never panic, printing and parsing agree.

use std::time::Duration;

use holdfast::base::entropy::SeededEntropy;
use holdfast::record::Rung;
use holdfast::runbook::engine::{self, Decision};
use holdfast::runbook::journal::{Entry, Event, FailureText, History, ProcessMark, RunResult, Word};
use holdfast::runbook::model::{Acceptance, Hands, HandsKind, Objectives, OnFailure, Runbook, Step, Work};
use proptest::prelude::*;

use super::harness::{four_steps, head};

/// How a step ends in a made-up history, and which process writes it.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Succeed,
    Fail,
    /// The process dies while the step runs.
    DieInside,
    /// The process dies after the step succeeded.
    DieAfter,
    Interrupt,
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        6 => Just(Fate::Succeed),
        1 => Just(Fate::Fail),
        2 => Just(Fate::DieInside),
        2 => Just(Fate::DieAfter),
        1 => Just(Fate::Interrupt),
    ]
}

struct Play {
    runbook: Runbook,
    history: History,
    process: u64,
    attended: bool,
}

/// Two people's steps below the first rung, one above all.
fn with_people() -> Runbook {
    super::harness::runbook(&[
        ("ask-declare", Rung::Open, false),
        ("fetch", Rung::Open, true),
        ("approve", Rung::Open, false),
        ("open", Rung::Open, false),
        ("boot", Rung::Boot, false),
        ("serve", Rung::Serve, true),
        ("ask-check", Rung::Serve, false),
    ])
}

impl Play {
    fn mark(&self) -> ProcessMark {
        ProcessMark::new(&SeededEntropy::new(self.process))
    }

    fn write(&mut self, entry: Entry) {
        self.write_as(self.mark(), entry);
    }

    fn write_as(&mut self, process: ProcessMark, entry: Entry) {
        let head = head(&self.runbook, &process);
        let number = self.history.events().len() as u64 + 1;
        let event = Event { run: head.run, number, at: head.started, uptime_ms: number, process, entry };
        self.history.admit(event).expect("what the engine asks for is legal");
    }

    /// A process that drives nothing writes what a person said.
    fn answer(&mut self, step: String, attempt: u32, good: bool) {
        let elsewhere = ProcessMark::new(&SeededEntropy::new(1000 + self.history.events().len() as u64));
        let approval = self.runbook.step(&step).unwrap().hands().unwrap().kind == HandsKind::Approval;
        let answer = match (good, approval) {
            (true, _) => Word::Done,
            (false, true) => Word::Refused,
            (false, false) => Word::Failed,
        };
        let by = "somebody".to_owned();
        if !matches!(self.history.events().last().map(|event| &event.entry), Some(Entry::Begun { .. })) {
            self.write_as(elsewhere.clone(), Entry::Begun { step: step.clone(), attempt, by: by.clone() });
        }
        self.write_as(elsewhere, Entry::Answered { step, attempt, answer, by, note: None, hands_on_ms: None });
    }

    /// Follows the engine; `fates` decides steps until it is used up, then all succeed.
    fn play(&mut self, until: Rung, mut fates: impl Iterator<Item = Fate>, most: usize) -> RunResult {
        for _ in 0..most {
            match engine::next(&self.runbook, self.history.events(), until, &self.mark()) {
                Decision::Finish(outcome) => {
                    if !matches!(self.history.events().last().map(|event| &event.entry), Some(Entry::Finished { .. })) {
                        self.write(Entry::Finished { result: outcome.result, reached: outcome.reached });
                    }
                    return outcome.result;
                }
                Decision::Settle { step, attempt } => self.write(Entry::Unknown { step, attempt, cause: "died".into() }),
                Decision::Ask { step, attempt } => {
                    let (step, ask) = (step.id.clone(), step.hands().unwrap().kind);
                    let entry =
                        if self.attended { Entry::Asked { step, attempt, ask } } else { Entry::Unasked { step, carried: None } };
                    self.write(entry);
                }
                Decision::Wait { step, attempt } => match fates.next().unwrap_or(Fate::Succeed) {
                    Fate::Succeed => self.answer(step, attempt, true),
                    Fate::Fail => self.answer(step, attempt, false),
                    // It waits on, whoever looks next.
                    Fate::DieInside | Fate::Interrupt => self.process += 1,
                    Fate::DieAfter => {
                        self.answer(step, attempt, true);
                        self.process += 1;
                    }
                },
                Decision::Run { step, attempt } => {
                    let (id, always) = (step.id.clone(), step.always);
                    self.step(id, attempt, always, fates.next().unwrap_or(Fate::Succeed));
                }
            }
        }
        panic!("the engine did not end within {most} decisions");
    }

    fn step(&mut self, step: String, attempt: u32, always: bool, fate: Fate) {
        self.write(Entry::Started { step: step.clone(), attempt });
        let succeeded = Entry::Succeeded { step: step.clone(), attempt, summary: String::new(), facts: Box::default() };
        match fate {
            Fate::Succeed => self.write(succeeded),
            Fate::Fail => {
                let text = || "x".to_owned();
                let failure = FailureText { code: text(), object: text(), cause: text(), next: text() };
                self.write(Entry::Failed { step, attempt, failure, facts: Box::default() });
            }
            Fate::DieInside => self.process += 1,
            Fate::DieAfter => {
                self.write(succeeded);
                self.process += 1;
            }
            Fate::Interrupt if always => self.write(succeeded),
            Fate::Interrupt => {
                self.write(Entry::Unknown { step, attempt, cause: "^C".into() });
                self.write(Entry::Interrupted {});
            }
        }
    }
}

fn word() -> impl Strategy<Value = String> {
    "[a-z]([a-z0-9-]{0,10}[a-z0-9])?"
}

/// Text that Markdown leaves as it is.
fn sentence() -> impl Strategy<Value = String> {
    "[A-Z][a-z]{1,8}( [a-z0-9,\"$%é]{1,8}){0,5}\\."
}

prop_compose! {
    fn step()(
        title in sentence(), prose in sentence(), kind in 0..4_usize, command in sentence(), rung in 0..3_usize,
        pass in sentence(), check in sentence(), seconds in 1..86_400_u64, go_on in any::<bool>(), always in any::<bool>(), durable in any::<bool>(),
    ) -> Step {
        let hands = |kind| Work::Person(Hands { kind, who: command.clone(), expect: Duration::from_secs(seconds) });
        let (always, durable, check) = if kind > 1 { (false, false, None) } else { (always, durable, Some(check)) };
        Step {
            id: String::new(), title, prose,
            work: match kind {
                0 => Work::Action("a".into()),
                1 => Work::Command(command),
                2 => hands(HandsKind::Manual),
                _ => hands(HandsKind::Approval),
            },
            rung: (!always).then_some([Rung::Open, Rung::Boot, Rung::Serve][rung]),
            acceptance: Acceptance { pass, check },
            timeout: Duration::from_secs(seconds),
            on_failure: if go_on { OnFailure::Continue } else { OnFailure::Stop },
            always, durable, line: 0,
        }
    }
}

prop_compose! {
    fn runbook()(
        id in word(), title in sentence(), owner in sentence(), environment in sentence(), introduction in sentence(),
        rto in proptest::option::of(1..1_000_000_u64), mut steps in proptest::collection::vec(step(), 1..8),
    ) -> Runbook {
        steps[0].always = false;
        steps[0].rung.get_or_insert(Rung::Open);
        steps.sort_by_key(|step| (step.always, step.rung));
        for (number, step) in steps.iter_mut().enumerate() {
            step.id = format!("step-{number}");
        }
        let objectives = Objectives { rto: rto.map(Duration::from_secs), rpo: None };
        let digest = holdfast::base::digest::Sha256::of(b"");
        Runbook { id, title, owner, environment, objectives, introduction, steps, digest }
    }
}

/// No person's step is done without a person's word, none is ever unknown, and
/// where nobody is asked nothing waits.
fn check_people(play: &Play, until: Rung, result: RunResult) {
    for step in play.runbook.steps.iter().filter(|step| step.is_in(until) && step.hands().is_some()) {
        let own: Vec<_> =
            play.history.events().iter().filter(|event| event.step().is_some_and(|(id, _)| id == step.id)).collect();
        let asked = own.iter().filter(|event| matches!(event.entry, Entry::Asked { .. })).count();
        let done = own.iter().filter(|event| matches!(event.entry, Entry::Answered { answer: Word::Done, .. })).count();
        assert!(own.iter().all(|event| !matches!(event.entry, Entry::Succeeded { .. } | Entry::Unknown { .. })));
        assert!(asked <= 1 && done <= asked && (play.attended || asked == 0), "{}: {own:?}", step.id);
        if play.attended && result == RunResult::Passed {
            assert_eq!(done, 1, "{} counts as done and nobody said so", step.id);
        }
    }
}

/// Only what does not depend on the bytes of the page.
fn without_place(mut runbook: Runbook) -> Runbook {
    runbook.digest = holdfast::base::digest::Sha256::of(b"");
    for step in &mut runbook.steps {
        step.line = 0;
    }
    runbook
}

proptest! {
    #[test]
    fn any_prefix_of_any_history_resumes_and_the_engine_never_sticks(
        fates in proptest::collection::vec(fate(), 0..12), cut in 0..60_usize, rung in 0..3_usize, people in 0..3_usize,
    ) {
        let until = [Rung::Open, Rung::Boot, Rung::Serve][rung];
        let runbook = || if people == 0 { four_steps() } else { with_people() };
        let attended = people == 2;
        let mut play = Play { runbook: runbook(), history: History::default(), process: 1, attended };
        let result = play.play(until, fates.into_iter(), 400);
        let events = play.history.events().to_vec();
        prop_assert_eq!(matches!(events.last().unwrap().entry, Entry::Finished { result: written, .. } if written == result), true);

        check_people(&play, until, result);

        let prefix = events[..cut.min(events.len())].to_vec();
        let finished = prefix.len() == events.len();
        let failed = prefix.iter().any(|event| event.entry.failure().is_some());
        let interrupted = prefix.iter().any(|event| matches!(event.entry, Entry::Interrupted {}));
        let mut again = Play { runbook: runbook(), history: History::read(prefix).unwrap(), process: 99, attended };
        let result_again = again.play(until, std::iter::empty(), 60);
        check_people(&again, until, result_again);
        if finished {
            prop_assert_eq!(result_again, result);
        } else if interrupted {
            prop_assert_eq!(result_again, RunResult::Interrupted);
        } else if !failed {
            prop_assert_eq!(result_again, RunResult::Passed);
        } else {
            prop_assert_eq!(result_again, RunResult::Failed);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let _ = Runbook::parse(&bytes, &["a"]);
    }

    #[test]
    fn pages_cut_and_changed_anywhere_never_panic(at in 0..20_000_usize, length in 0..200_usize, with in "[`+#\n=\\[\\]\"' {}a-z~>-]{0,40}") {
        let mut page = include_str!("../../../runbooks/etcd-restore.md").as_bytes().to_vec();
        let at = at.min(page.len());
        let end = (at + length).min(page.len());
        page.splice(at..end, with.into_bytes());
        let _ = Runbook::parse(&page, &["a"]);
    }

    #[test]
    fn what_is_printed_is_read_back_the_same(runbook in runbook()) {
        let page = runbook.print();
        let read = Runbook::parse(page.as_bytes(), &["a"]).map_err(|mistakes| TestCaseError::fail(format!("{mistakes}\n{page}")))?;
        prop_assert_eq!(without_place(read), without_place(runbook));
    }
}
