//! Habit 6: every step fails once, is killed once, is interrupted once; after
//! each run the same invariants hold.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use holdfast::base::clock::{Clock, ManualClock};
use holdfast::base::codes;
use holdfast::base::entropy::SeededEntropy;
use holdfast::base::exit::Exit;
use holdfast::base::failure::Failure;
use holdfast::record::Rung;
use holdfast::runbook::desk::{NOBODY, People};
use holdfast::runbook::engine::Outcome;
use holdfast::runbook::facts::{Facts, ToolVersion};
use holdfast::runbook::journal::{Entry, Event, Journal, MemoryJournal, ProcessMark, RunHead, RunResult};
use holdfast::runbook::model::{Runbook, Step, Work};
use holdfast::runbook::run::{Actions, Done, Driver, StepFailure};
use tokio_util::sync::CancellationToken;

/// A small runbook: `(id, rung, durable)`, then one step that always runs. What
/// is called `ask` or `approve` is a person's.
pub fn runbook(steps: &[(&str, Rung, bool)]) -> Runbook {
    let mut page = String::from("+++\nid = 'r'\ntitle = 'R'\nowner = 'o'\nenvironment = 'e'\n+++\n");
    for (id, rung, durable) in steps {
        let kind = match id.split('-').next() {
            Some("ask") => "manual",
            Some("approve") => "approval",
            _ => "action",
        };
        if kind != "action" {
            let _ = write!(
                page,
                "## {id}\nDo {id}.\n```step\nid = '{id}'\nkind = '{kind}'\nwho = 'w'\nexpect = '5m'\nrung = '{rung}'\n\
                 timeout = '1h'\nacceptance.pass = 'p'\n```\n"
            );
            continue;
        }
        let _ = write!(
            page,
            "## {id}\nDo {id}.\n```step\nid = '{id}'\nkind = 'action'\naction = 'a'\nrung = '{rung}'\ndurable = {durable}\n\
             timeout = '1m'\nacceptance = {{ pass = 'p', check = 'c' }}\n```\n"
        );
    }
    page.push_str(
        "## Close\nAlways.\n```step\nid = 'close'\nkind = 'action'\naction = 'a'\nalways = true\ntimeout = '1m'\n\
         acceptance = { pass = 'p', check = 'c' }\n```\n",
    );
    Runbook::parse(page.as_bytes(), &["a"]).unwrap_or_else(|mistakes| panic!("{mistakes}\n{page}"))
}

pub fn four_steps() -> Runbook {
    runbook(&[
        ("fetch", Rung::Open, true),
        ("open", Rung::Open, false),
        ("boot", Rung::Boot, false),
        ("serve", Rung::Serve, true),
    ])
}

pub fn head(runbook: &Runbook, process: &ProcessMark) -> RunHead {
    RunHead {
        run: "20261201T130509Z-01234567".parse().unwrap(),
        runbook: runbook.id.clone(),
        runbook_digest: runbook.digest,
        until: Rung::Serve,
        cluster: "prod".parse().unwrap(),
        snapshot: "20261201T120000Z-89abcdef".parse().unwrap(),
        trigger: "person".into(),
        host: "rehearsal-1".parse().unwrap(),
        tool: "holdfast 0.1.0".into(),
        started: "2026-12-01T13:05:09Z".parse().unwrap(),
        uptime_ms: 0,
        process: process.clone(),
        attended: false,
        incident: None,
    }
}

/// What goes wrong at a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Fail,
    /// It never ends by itself.
    Hang,
    /// Somebody presses ^C while it runs.
    Interrupt,
}

/// Actions that do nothing but remember what is up, as a process would.
#[derive(Debug)]
pub struct Scripted {
    pub fault: Option<(String, Fault)>,
    pub ran: Vec<String>,
    /// Effects that end with the process.
    pub held: BTreeSet<String>,
    pub resumed_with: Option<Facts>,
    /// The process gave up a run that stays open.
    pub left: bool,
    clock: Arc<ManualClock>,
    cancel: CancellationToken,
}

#[async_trait]
impl Actions for Scripted {
    async fn run(&mut self, step: &Step) -> Result<Done, StepFailure> {
        assert_eq!(step.work, Work::Action("a".into()));
        self.ran.push(step.id.clone());
        self.clock.advance(Duration::from_secs(1));
        match self.fault.take_if(|(at, _)| *at == step.id) {
            Some((_, Fault::Fail)) => return Err(Failure::new(&codes::REHEARSAL_HASH, "etcd", "hashes differ").into()),
            Some((_, Fault::Hang)) => std::future::pending().await,
            Some((_, Fault::Interrupt)) => {
                self.cancel.cancel();
                std::future::pending().await
            }
            None => {}
        }
        if step.always {
            self.held.clear();
        } else {
            self.held.insert(step.id.clone());
        }
        let tool = ToolVersion { name: step.id.clone(), version: "1".into() };
        Ok(Done { summary: format!("{} done", step.id), facts: Facts { tools: vec![tool], ..Facts::default() } })
    }

    async fn resume(&mut self, stated: &Facts) -> Result<(), Failure> {
        self.resumed_with = Some(stated.clone());
        Ok(())
    }

    async fn give_up(&mut self) -> Result<(), Failure> {
        self.left = true;
        self.held.clear();
        Ok(())
    }
}

/// One life of a process over a journal that outlives it.
pub struct Life {
    pub actions: Scripted,
    pub process: ProcessMark,
    pub clock: Arc<ManualClock>,
    pub cancel: CancellationToken,
}

impl Life {
    pub fn new(seed: u64, fault: Option<(&str, Fault)>) -> Self {
        let clock = ManualClock::at("2026-12-01T13:05:09Z".parse().unwrap());
        let cancel = CancellationToken::new();
        let actions = Scripted {
            fault: fault.map(|(step, fault)| (step.to_owned(), fault)),
            ran: Vec::new(),
            held: BTreeSet::new(),
            resumed_with: None,
            left: false,
            clock: Arc::clone(&clock),
            cancel: cancel.clone(),
        };
        Self { actions, process: ProcessMark::new(&SeededEntropy::new(seed)), clock, cancel }
    }

    pub async fn live(&mut self, runbook: &Runbook, head: &RunHead, journal: Arc<dyn Journal>) -> Result<Outcome, Failure> {
        let driver = self.driver(runbook, head, journal);
        driver.drive(&mut self.actions).await
    }

    pub async fn live_with(
        &mut self,
        people: &People<'_>,
        runbook: &Runbook,
        head: &RunHead,
        journal: Arc<dyn Journal>,
    ) -> Result<Outcome, Failure> {
        let driver = Driver { people, ..self.driver(runbook, head, journal) };
        driver.drive(&mut self.actions).await
    }

    pub fn driver<'a>(&self, runbook: &'a Runbook, head: &'a RunHead, journal: Arc<dyn Journal>) -> Driver<'a> {
        let clock: Arc<dyn Clock> = Arc::clone(&self.clock) as _;
        let (process, cancel) = (self.process.clone(), self.cancel.clone());
        Driver { runbook, head, journal, clock, process, cancel, people: &NOBODY, watch: &|_| {} }
    }

    /// As somebody does who presses ^C between two steps.
    pub fn interrupt(&self) {
        self.cancel.cancel();
    }
}

/// A journal that takes `left` more events and then is gone, as with kill -9:
/// what the process did after its last event nobody will know.
#[derive(Debug)]
pub struct Mortal {
    pub inner: Arc<MemoryJournal>,
    pub left: Mutex<usize>,
}

impl Journal for Mortal {
    fn begin(&self, head: &RunHead) -> Result<(), Failure> {
        self.inner.begin(head)
    }

    fn append(&self, event: &Event) -> Result<(), Failure> {
        let mut left = self.left.lock().unwrap();
        if *left == 0 {
            return Err(Failure::new(&codes::CATALOG_BROKEN, "journal", "killed"));
        }
        *left -= 1;
        self.inner.append(event)
    }

    fn head(&self, run: &holdfast::base::ids::RunId) -> Result<RunHead, Failure> {
        self.inner.head(run)
    }

    fn events(&self, run: &holdfast::base::ids::RunId) -> Result<Vec<Event>, Failure> {
        self.inner.events(run)
    }

    fn runs(&self) -> Result<Vec<RunHead>, Failure> {
        self.inner.runs()
    }
}

/// What holds after every finished run, however it went.
pub fn check_invariants(runbook: &Runbook, life: &Life, events: &[Event], outcome: &Outcome) {
    assert!(life.actions.held.is_empty(), "left behind: {:?}", life.actions.held);
    let finished = events.iter().filter(|event| matches!(event.entry, Entry::Finished { .. })).count();
    assert_eq!(finished, 1);
    for step in &runbook.steps {
        let own = events.iter().filter(|event| event.step().is_some_and(|(id, _)| id == step.id));
        let ends = own.filter(|event| !matches!(event.entry, Entry::Begun { .. })).count();
        assert_eq!(ends % 2, 0, "every attempt of {} has an end", step.id);
    }
    assert_eq!(outcome.result == RunResult::Passed, outcome.exit() == Exit::Good);
}

async fn run(runbook: &Runbook, fault: Option<(&str, Fault)>) -> (Life, Outcome, Vec<Event>) {
    let mut life = Life::new(1, fault);
    let journal = Arc::new(MemoryJournal::default());
    let head = head(runbook, &life.process);
    journal.begin(&head).unwrap();
    let outcome = life.live(runbook, &head, Arc::clone(&journal) as _).await.unwrap();
    let events = journal.events(&head.run).unwrap();
    check_invariants(runbook, &life, &events, &outcome);
    (life, outcome, events)
}

#[tokio::test(start_paused = true)]
async fn a_run_without_faults_climbs_all_rungs_and_closes() {
    let (life, outcome, _) = run(&four_steps(), None).await;
    assert_eq!(outcome, Outcome { result: RunResult::Passed, reached: Some(Rung::Serve), failure: None });
    assert_eq!(life.actions.ran, ["fetch", "open", "boot", "serve", "close"]);
    assert!(life.actions.resumed_with.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_run_climbs_only_as_far_as_asked() {
    let runbook = four_steps();
    let mut life = Life::new(1, None);
    let journal = Arc::new(MemoryJournal::default());
    let head = RunHead { until: Rung::Open, ..head(&runbook, &life.process) };
    journal.begin(&head).unwrap();
    let outcome = life.live(&runbook, &head, journal).await.unwrap();
    assert_eq!(life.actions.ran, ["fetch", "open", "close"]);
    assert_eq!(outcome.reached, Some(Rung::Open));
}

#[tokio::test(start_paused = true)]
async fn every_step_that_fails_or_hangs_ends_the_climb_and_is_cleaned_up_after() {
    let runbook = four_steps();
    for (index, step) in runbook.steps.iter().enumerate() {
        for (fault, code) in [(Fault::Fail, "rehearsal.hash"), (Fault::Hang, "run.step-timeout")] {
            let (mut life, outcome, _) = {
                // A closing step that fails cannot clean up: the invariant is for the others.
                let mut life = Life::new(1, Some((&step.id, fault)));
                let journal = Arc::new(MemoryJournal::default());
                let head = head(&runbook, &life.process);
                journal.begin(&head).unwrap();
                let outcome = life.live(&runbook, &head, Arc::clone(&journal) as _).await.unwrap();
                let events = journal.events(&head.run).unwrap();
                (life, outcome, events)
            };
            assert_eq!(outcome.result, RunResult::Failed, "{} {fault:?}", step.id);
            let (failed, failure) = outcome.failure.clone().unwrap();
            assert_eq!((failed.as_str(), failure.code.as_str()), (step.id.as_str(), code));
            let expected = [None, None, Some(Rung::Open), Some(Rung::Boot), Some(Rung::Serve)][index];
            assert_eq!(outcome.reached, expected, "{} {fault:?}", step.id);
            assert_eq!(life.actions.ran.pop().as_deref(), Some("close"));
            if !step.always {
                assert!(life.actions.held.is_empty());
                assert_eq!(life.actions.ran.last(), Some(&step.id), "nothing is run after a step that stops the run");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_step_that_is_interrupted_is_unknown_and_only_closing_steps_follow() {
    let runbook = four_steps();
    for step in runbook.steps.iter().filter(|step| !step.always) {
        let (life, outcome, events) = run(&runbook, Some((&step.id, Fault::Interrupt))).await;
        assert_eq!(outcome.exit(), Exit::Interrupted, "{}", step.id);
        assert!(outcome.failure.is_none());
        assert_eq!(life.actions.ran[life.actions.ran.len() - 2..], [step.id.clone(), "close".into()]);
        let unknown = events.iter().find_map(|event| match &event.entry {
            Entry::Unknown { step, cause, .. } => Some((step.clone(), cause.clone())),
            _ => None,
        });
        assert_eq!(unknown, Some((step.id.clone(), "the run was interrupted".into())));
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_killed_after_any_event_is_gone_on_with_and_passes() {
    let runbook = four_steps();
    let whole = run(&runbook, None).await.2.len();
    for n in 0..whole {
        let journal = Arc::new(MemoryJournal::default());
        let mut first = Life::new(1, None);
        let head = head(&runbook, &first.process);
        journal.begin(&head).unwrap();
        let mortal = Arc::new(Mortal { inner: Arc::clone(&journal), left: Mutex::new(n) });
        first.live(&runbook, &head, mortal).await.unwrap_err();
        let before = journal.events(&head.run).unwrap();
        assert_eq!(before.len(), n);

        let mut second = Life::new(2, None);
        let outcome = second.live(&runbook, &head, Arc::clone(&journal) as _).await.unwrap();
        let events = journal.events(&head.run).unwrap();
        check_invariants(&runbook, &second, &events, &outcome);
        assert_eq!((outcome.result, outcome.reached), (RunResult::Passed, Some(Rung::Serve)), "killed after event {n}");
        check_resumed(&before, &second, n);
    }
}

/// A durable success is not done again; what the dead process held is, while work that needs it is left.
fn check_resumed(before: &[Event], second: &Life, n: usize) {
    let succeeded = |id: &str| before.iter().any(|event| matches!(&event.entry, Entry::Succeeded { step, .. } if step == id));
    let again = |id: &str| second.actions.ran.iter().any(|ran| ran == id);
    assert_eq!(again("fetch"), !succeeded("fetch"), "killed after event {n}");
    assert_eq!(again("serve"), !succeeded("serve"), "killed after event {n}");
    assert_eq!(again("open"), !succeeded("serve"), "killed after event {n}");
    assert_eq!(again("boot"), !succeeded("serve"), "killed after event {n}");
    assert_eq!(again("close"), !succeeded("close"), "killed after event {n}");
    if let Some(stated) = &second.actions.resumed_with {
        assert_eq!(stated.tools.iter().any(|tool| tool.name == "fetch"), succeeded("fetch"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_run_killed_before_it_closed_is_closed_and_nothing_else_is_done() {
    let runbook = four_steps();
    let journal = Arc::new(MemoryJournal::default());
    let mut first = Life::new(1, Some(("boot", Fault::Fail)));
    let head = head(&runbook, &first.process);
    journal.begin(&head).unwrap();
    // fetch, open, boot: three steps of two events each.
    let mortal = Arc::new(Mortal { inner: Arc::clone(&journal), left: Mutex::new(6) });
    first.live(&runbook, &head, mortal).await.unwrap_err();
    let mut second = Life::new(2, None);
    let outcome = second.live(&runbook, &head, journal).await.unwrap();
    assert_eq!(second.actions.ran, ["close"]);
    assert_eq!((outcome.result, outcome.exit()), (RunResult::Failed, Exit::Bad));
}

#[tokio::test(start_paused = true)]
async fn a_finished_run_gone_on_with_says_its_outcome_again_and_does_nothing() {
    let runbook = four_steps();
    let journal = Arc::new(MemoryJournal::default());
    let mut first = Life::new(1, None);
    let head = head(&runbook, &first.process);
    journal.begin(&head).unwrap();
    let outcome = first.live(&runbook, &head, Arc::clone(&journal) as _).await.unwrap();
    let mut second = Life::new(2, None);
    assert_eq!(second.live(&runbook, &head, journal).await.unwrap(), outcome);
    assert!(second.actions.ran.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_run_is_refused_when_its_runbook_has_changed() {
    let runbook = four_steps();
    let mut life = Life::new(1, None);
    let head = head(&runbook, &life.process);
    let journal = Arc::new(MemoryJournal::default());
    journal.begin(&head).unwrap();
    let other = self::runbook(&[("fetch", Rung::Open, true)]);
    let failure = life.live(&other, &head, journal).await.unwrap_err();
    assert_eq!(failure.code().name, "run.journal");
    assert!(life.actions.ran.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_step_told_to_continue_fails_the_run_and_lets_it_climb() {
    let mut runbook = four_steps();
    runbook.steps[1].on_failure = holdfast::runbook::model::OnFailure::Continue;
    let (life, outcome, _) = run(&runbook, Some(("open", Fault::Fail))).await;
    assert_eq!(life.actions.ran, ["fetch", "open", "boot", "serve", "close"]);
    assert_eq!((outcome.result, outcome.reached, outcome.exit()), (RunResult::Failed, None, Exit::Bad));
}
