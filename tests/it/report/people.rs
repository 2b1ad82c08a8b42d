//! What a report says of people: minutes to the millisecond, machine and people
//! apart, and what nobody was asked.

use holdfast::record::Rung;
use holdfast::rehearsal::ACTIONS;
use holdfast::report::manual::{ManualResult, ManualStep, Minutes};
use holdfast::report::model::{Report, ReportResult, StepResult};
use holdfast::report::{html, json, markdown};
use holdfast::runbook::journal::{Carried, Entry, Word};
use holdfast::runbook::model::Runbook;

use super::sample::Play;

const MINUTE: u64 = 60_000;

/// All that proves a rung, with three steps of people.
fn page() -> Runbook {
    let person = |id: &str, kind: &str, rung: &str| {
        format!(
            "## Title of {id}\nDo it.\n```step\nid = '{id}'\nkind = '{kind}'\nwho = 'role of {id}'\nexpect = '10m'\nrung = '{rung}'\n\
             acceptance.pass = 'It is so.'\ntimeout = '4h'\n```\n"
        )
    };
    let mut text =
        String::from("+++\nid = 'drill'\ntitle = 'Drill'\nowner = 'o'\nenvironment = 'scratch'\nobjectives.rto = '2h'\n+++\n");
    text.push_str(&person("declare", "manual", "open"));
    // What writes a member's data directory is another page's.
    for (index, action) in ACTIONS.iter().filter(|action| **action != "write-member").enumerate() {
        if *action == "open-keys" {
            text.push_str(&person("decide", "approval", "open"));
        }
        let rung = match index {
            0..5 => "rung = 'open'",
            5..8 => "rung = 'boot'",
            8..12 => "rung = 'serve'",
            _ => "always = true",
        };
        if *action == "tear-down" {
            text.push_str(&person("sign-off", "approval", "serve"));
        }
        text.push_str(&format!(
            "## {action}\nDo it.\n```step\nid = '{action}'\nkind = 'action'\naction = '{action}'\n{rung}\n\
             acceptance = {{ pass = 'p', check = 'c' }}\ntimeout = '1h'\n```\n"
        ));
    }
    Runbook::parse(text.as_bytes(), ACTIONS).unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}"))
}

fn attended() -> Play {
    let mut play = Play::of(page(), Rung::Serve);
    play.head.attended = true;
    play
}

fn begun(step: &str, by: &str) -> Entry {
    Entry::Begun { step: step.into(), attempt: 1, by: by.into() }
}

fn answered(step: &str, answer: Word, hands_on: Option<u64>) -> Entry {
    let hands_on_ms = hands_on.map(|minutes| minutes * MINUTE);
    Entry::Answered { step: step.into(), attempt: 1, answer, by: "alice".into(), note: Some("INC-7".into()), hands_on_ms }
}

fn line<'r>(report: &'r Report, step: &str) -> &'r ManualStep {
    report.manual.iter().find(|line| line.step == step).unwrap()
}

/// Waiting and hands on, in minutes.
fn minutes(report: &Report, step: &str) -> (Option<u64>, Option<u64>) {
    let line = line(report, step);
    let whole = |ms: Option<u64>| {
        assert_eq!(ms.unwrap_or(0) % MINUTE, 0, "{line:?}");
        ms.map(|ms| ms / MINUTE)
    };
    (whole(line.waiting_ms), whole(line.hands_on_ms))
}

/// Declared by the process that asks; holdfast is killed while the decision
/// waits, begun and decided from elsewhere; signed off with a stated time.
fn drill() -> Play {
    let mut play = attended();
    play.play(None, None);
    play.pass(4 * MINUTE);
    play.write(begun("declare", "alice"));
    play.pass(6 * MINUTE);
    play.write(answered("declare", Word::Done, None));
    play.play(None, None);
    play.pass(2 * MINUTE);
    play.killed(15 * MINUTE);
    play.write(Entry::Resumed {});
    play.pass(3 * MINUTE);
    play.write_elsewhere(begun("decide", "bob"));
    play.pass(5 * MINUTE);
    play.write_elsewhere(answered("decide", Word::Done, None));
    play.play(None, None);
    play.pass(20 * MINUTE);
    play.write_elsewhere(answered("sign-off", Word::Done, Some(12)));
    play.play(None, None);
    play
}

#[test]
fn waiting_and_hands_on_minutes_are_those_of_the_journal_whichever_process_wrote_them() {
    let report = drill().report();
    assert_eq!(report.verdict.result, ReportResult::Passed, "{}", report.verdict.sentence);
    assert_eq!(minutes(&report, "declare"), (Some(4), Some(6)));
    assert!(!line(&report, "declare").by_wall && !line(&report, "declare").stated);
    assert_eq!(minutes(&report, "decide"), (Some(20), Some(5)));
    assert!(line(&report, "decide").by_wall && !line(&report, "decide").stated);
    assert_eq!(minutes(&report, "sign-off"), (Some(8), Some(12)));
    assert!(line(&report, "sign-off").by_wall && line(&report, "sign-off").stated);
    let [asked, begun, answered] =
        [&line(&report, "sign-off").asked, &line(&report, "sign-off").begun, &line(&report, "sign-off").answered]
            .map(|at| at.as_deref().unwrap().parse::<jiff::Timestamp>().unwrap());
    assert_eq!((begun.duration_since(asked).as_mins(), answered.duration_since(begun).as_mins()), (8, 12));
    assert_eq!(
        (line(&report, "decide").begun_by.as_deref(), line(&report, "decide").by.as_deref()),
        (Some("bob"), Some("alice"))
    );
    assert_eq!(report.resumed.len(), 1, "answers from elsewhere are no restarts");
}

#[test]
fn the_rto_is_machine_and_people_and_each_is_told() {
    let report = drill().report();
    let people = Minutes { waiting_ms: 32 * MINUTE, hands_on_ms: 23 * MINUTE };
    assert_eq!(report.rto_parts.people, people);
    // All fourteen steps of the program; what was opened before the kill was done again.
    let machine = report.rto_parts.machine_ms.unwrap();
    assert_eq!(report.rto.measured_ms, Some(machine + people.total()));
    assert_eq!(machine, 14_062 - 35 + 58 + 1_840 + 212);
    assert_eq!((report.rto_parts.carried, report.rto_parts.unknown.len()), (Minutes::default(), 0));
    let phases: Vec<_> =
        report.phases.iter().map(|phase| (phase.people.waiting_ms / MINUTE, phase.people.hands_on_ms / MINUTE)).collect();
    assert_eq!(phases, [(24, 11), (0, 0), (8, 12)]);
    assert_eq!(report.phases.iter().filter_map(|phase| phase.duration_ms).sum::<u64>(), report.rto.measured_ms.unwrap());
    assert_eq!(report.rto.met, Some(true));
    assert!(report.rto.how.contains("people took 55 min of it (32 min waiting, 23 min hands on)"), "{}", report.rto.how);
    assert!(report.verdict.sentence.contains("of which people took 55 min"), "{}", report.verdict.sentence);
}

#[test]
fn a_stated_time_never_begins_before_the_asking_and_hands_that_were_quicker_delay_nobody() {
    let mut play = attended();
    play.play(None, None);
    play.pass(3 * MINUTE);
    play.write(answered("declare", Word::Done, Some(12)));
    let report = play.report();
    let declare = line(&report, "declare");
    assert_eq!((declare.waiting_ms, declare.hands_on_ms, declare.took_ms), (Some(0), Some(12 * MINUTE), Some(3 * MINUTE)));
    assert_eq!(declare.begun, declare.asked);
    assert_eq!(declare.minutes(), Minutes { waiting_ms: 0, hands_on_ms: 3 * MINUTE });
}

#[test]
fn an_answer_without_a_beginning_is_waiting_and_says_so() {
    let mut play = attended();
    play.play(None, None);
    play.pass(3 * MINUTE);
    play.write_elsewhere(answered("declare", Word::Done, None));
    let report = play.report();
    assert_eq!(minutes(&report, "declare"), (Some(3), None));
    assert!(markdown::render(&report).contains("nobody said when hands began"));
}

#[test]
fn clocks_of_two_processes_that_disagree_make_no_time_that_never_was() {
    let mut play = attended();
    play.play(None, None);
    play.pass(5 * MINUTE);
    play.write_elsewhere(begun("declare", "bob"));
    play.turn_back(10 * MINUTE);
    play.write_elsewhere(answered("declare", Word::Done, None));
    play.play(None, None);
    let declare = line(&play.report(), "declare").clone();
    assert_eq!((declare.took_ms, declare.waiting_ms, declare.hands_on_ms), (Some(0), Some(0), Some(0)));
    let offsets: Vec<_> =
        play.report().steps.iter().flat_map(|step| step.attempts.clone()).map(|attempt| attempt.start_ms).collect();
    assert!(offsets.is_sorted(), "{offsets:?}");
}

fn carried(waiting: u64, hands_on: u64) -> Carried {
    let run = "20261101T100000Z-00112233".parse().unwrap();
    Carried { run, at: "2026-11-01T11:00:00Z".into(), waiting_ms: waiting * MINUTE, hands_on_ms: hands_on * MINUTE }
}

fn unattended(known: &[(&str, Carried)]) -> Report {
    let mut play = Play::of(page(), Rung::Serve);
    play.carried = known.iter().map(|(step, carried)| ((*step).to_owned(), carried.clone())).collect();
    play.play(None, None);
    play.report()
}

#[test]
fn a_run_that_nobody_attends_carries_the_minutes_of_the_last_that_asked() {
    let known = [("declare", carried(4, 6)), ("decide", carried(20, 5)), ("sign-off", carried(8, 12))];
    let report = unattended(&known);
    assert_eq!((report.verdict.result, report.verdict.reached), (ReportResult::Passed, Some(Rung::Serve)));
    let parts = &report.rto_parts;
    assert_eq!((parts.people, parts.carried.total()), (Minutes::default(), 55 * MINUTE));
    assert_eq!(report.rto.measured_ms, Some(parts.machine_ms.unwrap() + 55 * MINUTE));
    assert_eq!(report.rto.met, Some(true));
    assert!(report.rto.how.contains("with 55 min of people, carried from run 20261101T100000Z-00112233"), "{}", report.rto.how);
    let carried: Vec<_> = report.phases.iter().map(|phase| phase.carried.total() / MINUTE).collect();
    assert_eq!(carried, [35, 0, 20]);
    assert!(
        report
            .manual
            .iter()
            .all(|line| line.result == ManualResult::NotExercised && line.measured(&report.identity.run).is_none())
    );
    assert!(report.steps.iter().filter(|step| step.result == StepResult::NotExercised).count() == 3);
    let covered = report.not_covered.iter().find(|left_out| left_out.what.starts_with("steps that people do")).unwrap();
    assert!(covered.what.contains("Title of decide") && covered.why.contains("nobody was asked"), "{covered:?}");
}

#[test]
fn minutes_that_nobody_knows_break_a_promise_and_keep_none() {
    let report = unattended(&[("decide", carried(20, 5))]);
    assert_eq!(report.rto_parts.unknown, ["declare", "sign-off"]);
    assert_eq!(report.rto.met, None, "less than the objective, and not whole");
    assert!(
        report.rto.how.contains("without the time that people take for 2 steps, which no run has measured"),
        "{}",
        report.rto.how
    );
    let report = unattended(&[("decide", carried(100, 50))]);
    assert_eq!(report.rto.met, Some(false), "more than the objective is more, whatever is missing");
}

#[test]
fn what_a_run_measured_is_what_a_later_one_carries() {
    let play = drill();
    let report = play.report();
    let measured = line(&report, "decide").measured(&play.head.run).unwrap();
    assert_eq!((measured.waiting_ms, measured.hands_on_ms, measured.run), (20 * MINUTE, 5 * MINUTE, play.head.run.clone()));
    let mut play = attended();
    play.play(None, None);
    play.pass(MINUTE);
    play.write(answered("declare", Word::Failed, None));
    assert!(line(&play.report(), "declare").measured(&play.head.run).is_none(), "what was not done measured nothing");
}

#[test]
fn a_person_who_ends_a_run_judges_no_snapshot() {
    let mut play = attended();
    play.play(None, None);
    play.write(answered("declare", Word::Done, None));
    play.play(None, None);
    play.pass(MINUTE);
    play.write(answered("decide", Word::Refused, None));
    play.play(None, None);
    let report = play.report();
    assert_eq!((report.verdict.result, report.verdict.exit), (ReportResult::Failed, 1));
    assert!(
        report.verdict.sentence.contains("ended by a person") && report.verdict.sentence.contains("no judgement"),
        "{}",
        report.verdict.sentence
    );
    assert_eq!((report.rto.measured_ms, report.rto.met), (None, None));
    assert_eq!(line(&report, "decide").result, ManualResult::Refused);
    assert_eq!(line(&report, "sign-off").result, ManualResult::NotAsked);
    assert_eq!(report.failures[0].failure.code, "run.refused");
}

#[test]
fn a_signature_that_is_refused_leaves_the_rung_and_measures_no_restore() {
    let mut play = drill();
    let events = play.history.events().to_vec();
    let cut = events.iter().position(|event| matches!(&event.entry, Entry::Answered { step, .. } if step == "sign-off")).unwrap();
    play.history = holdfast::runbook::journal::History::read(events[..cut].to_vec()).unwrap();
    assert_eq!(play.report().verdict.result, ReportResult::Unfinished);
    assert_eq!(line(&play.report(), "sign-off").result, ManualResult::Waiting);
    play.write_elsewhere(answered("sign-off", Word::Refused, None));
    play.play(None, None);
    let report = play.report();
    assert_eq!((report.verdict.reached, report.verdict.exit), (Some(Rung::Serve), 1));
    assert!(report.rto.measured_ms.is_none() && report.rto.how.contains("was not done"), "{}", report.rto.how);
}

#[test]
fn what_was_not_foreseen_is_a_finding_against_the_runbook_and_adds_no_time() {
    let mut play = attended();
    play.play(None, None);
    play.write(answered("declare", Word::Done, None));
    let hands_on_ms = Some(9 * MINUTE);
    play.write_elsewhere(Entry::Noted { text: "restarted the jump host".into(), by: "carol".into(), hands_on_ms });
    play.play(None, None);
    play.write(answered("decide", Word::Done, None));
    play.play(None, None);
    play.write(answered("sign-off", Word::Done, None));
    play.play(None, None);
    let report = play.report();
    let [found] = report.unforeseen.as_slice() else { panic!("{:?}", report.unforeseen) };
    assert_eq!((found.by.as_str(), found.hands_on_ms, found.during.as_deref()), ("carol", hands_on_ms, Some("declare")));
    assert_eq!((report.rto_parts.people.total(), report.verdict.result), (0, ReportResult::Passed));
    for page in [markdown::render(&report), html::render(&report).unwrap()] {
        assert!(
            page.contains("Findings against the runbook") && page.contains("restarted the jump host") && page.contains("9 min")
        );
    }
    assert!(!markdown::render(&drill().report()).contains("Findings against"));
}

#[test]
fn a_page_without_the_steps_of_a_rung_proves_nothing_of_it() {
    let text = "+++\nid = 'r'\ntitle = 'R'\nowner = 'o'\nenvironment = 'e'\n+++\n## fetch-manifest\nDo it.\n```step\nid = 'fetch-manifest'\n\
                kind = 'action'\naction = 'fetch-manifest'\nrung = 'serve'\nacceptance = { pass = 'p', check = 'c' }\ntimeout = '1h'\n```\n";
    let mut play = Play::of(Runbook::parse(text.as_bytes(), ACTIONS).unwrap(), Rung::Serve);
    play.play(None, None);
    let report = play.report();
    assert_eq!((report.verdict.result, report.verdict.reached), (ReportResult::Passed, None));
    assert!(report.verdict.sentence.contains("prove no rung of a restore"), "{}", report.verdict.sentence);
}

#[test]
fn the_incident_that_was_declared_is_where_the_loss_is_counted_to() {
    let mut play = Play::of(page(), Rung::Serve);
    play.head.incident = Some("2026-12-01T12:40:01Z".parse().unwrap());
    play.play(None, None);
    let report = play.report();
    assert_eq!(report.rpo.measured_ms, Some(40 * MINUTE), "the data is of 12:00:01");
    assert!(report.rpo.how.contains("declared beginning of the incident (2026-12-01T12:40:01Z)"), "{}", report.rpo.how);
    play.head.incident = Some("2026-12-01T11:00:00Z".parse().unwrap());
    let report = play.report();
    assert_eq!((report.rpo.measured_ms, report.rpo.met), (Some(0), None));
    assert!(report.rpo.how.contains("may hold what the incident did"), "{}", report.rpo.how);
}

#[test]
fn golden_people() {
    insta::assert_snapshot!("people.md", markdown::render(&drill().report()));
    insta::assert_snapshot!("people_unattended.md", markdown::render(&unattended(&[("decide", carried(20, 5))])));
}

#[test]
fn waiting_and_hands_on_are_apart_in_the_timeline() {
    let page = html::render(&drill().report()).unwrap();
    assert_eq!((page.matches("<rect class=\"waiting\"").count(), page.matches("<rect class=\"hands\"").count()), (3, 3));
    assert_eq!(page.matches("class=\"legend\"").count(), 1);
    let page = html::render(&unattended(&[])).unwrap();
    assert_eq!((page.matches("<rect class=\"waiting\"").count(), page.matches("class=\"legend\"").count()), (0, 0));
}

#[test]
fn names_and_notes_of_people_stay_text_in_every_face() {
    const TEXT: &str = "</td></svg><script>alert(1)</script>\u{1b}[2J\u{202e}|`x`\n## *b* [l](javascript:x)";
    let mut play = attended();
    play.play(None, None);
    play.write_elsewhere(Entry::Begun { step: "declare".into(), attempt: 1, by: TEXT.into() });
    play.write_elsewhere(Entry::Noted { text: TEXT.into(), by: TEXT.into(), hands_on_ms: None });
    let (by, note) = (format!("{TEXT}!"), Some(TEXT.to_owned()));
    play.write_elsewhere(Entry::Answered {
        step: "declare".into(),
        attempt: 1,
        answer: Word::Failed,
        by,
        note,
        hands_on_ms: None,
    });
    play.play(None, None);
    let report = play.report();
    let page = html::render(&report).unwrap();
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;"));
    assert_eq!(page.matches("</svg>").count(), 1);
    let text = markdown::render(&report);
    for line in text.replace("\\]", "").lines() {
        assert!(!line.contains("<script") && !line.contains("](javascript") && !line.starts_with("## *b*"), "{line}");
    }
    for face in [&page, &text] {
        assert!(!face.contains('\u{1b}') && !face.contains('\u{202e}'));
    }
    let stored = json::render(&report).unwrap();
    assert!(!stored.contains('\u{1b}'), "JSON escapes what steers a terminal");
    assert_eq!(json::read(&serde_json::from_str(&stored).unwrap()).unwrap(), report);
}
