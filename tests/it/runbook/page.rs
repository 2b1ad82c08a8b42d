//! Pages: what is read from a good one, and every mistake of a bad one with its line.

use std::time::Duration;

use holdfast::base::digest::Sha256;
use holdfast::record::Rung;
use holdfast::rehearsal::ACTIONS;
use holdfast::runbook::model::{Hands, HandsKind, OnFailure, Runbook, Work};

/// Every line of `expected` is a mistake, in this order, and there is no other.
fn check(page: &str, expected: &str) {
    let mistakes =
        Runbook::parse(page.as_bytes(), &["known"]).map(|_| String::new()).unwrap_or_else(|mistakes| mistakes.to_string());
    assert_eq!(mistakes.trim(), expected.trim(), "of the page\n{page}");
}

const GOOD: &str = include_str!("../../data/runbooks/good.md");

#[test]
fn a_good_page_is_read_whole() {
    let runbook = Runbook::parse(GOOD.as_bytes(), &["known"]).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    assert_eq!((runbook.id.as_str(), runbook.title.as_str(), runbook.owner.as_str()), ("good", "A good page", "platform"));
    assert_eq!(runbook.objectives.rto, Some(Duration::from_secs(90 * 60)));
    assert_eq!(runbook.objectives.rpo, None);
    assert_eq!(runbook.introduction, "Before you start.");
    assert_eq!(runbook.digest, Sha256::of(GOOD.as_bytes()));
    let [first, second, look, sign, last] = runbook.steps.as_slice() else { panic!("{:?}", runbook.steps) };
    assert_eq!(first.title, "Fetch it & look");
    assert_eq!(first.prose, "Why, and how:\n\n```sh\n# not a heading: ## nor this\nfetch it\n```\n\nAnd afterwards.");
    assert_eq!((first.work.clone(), first.rung, first.line), (Work::Action("known".into()), Some(Rung::Open), 20));
    assert_eq!((first.timeout, first.on_failure, first.durable), (Duration::from_secs(90), OnFailure::Stop, true));
    assert_eq!((second.work.clone(), second.on_failure), (Work::Command("true # \"yes\"".into()), OnFailure::Continue));
    assert!(last.always && last.rung.is_none());
    let hands = |kind, who: &str, minutes: u64| Hands { kind, who: who.into(), expect: Duration::from_secs(minutes * 60) };
    assert_eq!(look.hands(), Some(&hands(HandsKind::Manual, "application owner", 10)));
    assert_eq!(sign.hands(), Some(&hands(HandsKind::Approval, "service owner", 1)));
    assert_eq!((look.timeout, &look.acceptance.check), (Duration::from_secs(100 * 3600), &None), "it waits for a weekend");
    assert!(first.hands().is_none() && first.acceptance.check.is_some());
}

#[test]
fn all_mistakes_of_a_page_are_shown_at_once_with_their_lines() {
    check(include_str!("../../data/runbooks/broken.md"), include_str!("../../data/runbooks/broken.txt"));
}

#[test]
fn a_page_without_front_matter_or_steps_says_so() {
    check("", "line 1: the front matter is missing or has no closing line `+++`\nline 1: the runbook has no steps");
    check("# Title\n", "line 1: the page must begin with front matter between two lines `+++`\nline 1: the runbook has no steps");
    let open = "+++\nid = 'a'\n";
    check(open, "line 1: the front matter is missing or has no closing line `+++`\nline 1: the runbook has no steps");
    check(&GOOD[..GOOD.find("## ").unwrap()], "line 1: the runbook has no steps");
}

#[test]
fn a_block_that_is_never_closed_cannot_swallow_the_steps_after_it() {
    let page = GOOD.replacen("fetch it\n```\n", "fetch it\n", 1);
    let mistakes = Runbook::parse(page.as_bytes(), &["known"]).unwrap_err();
    assert!(!mistakes.is_empty());
    let page = format!("{GOOD}\n```sh\nno end\n");
    let line = GOOD.lines().count() + 2;
    check(&page, &format!("line {line}: the block that begins here is never closed"));
}

#[test]
fn a_page_too_large_or_not_text_is_refused_by_its_size_and_line() {
    let large = vec![b'a'; (1 << 20) + 1];
    assert!(Runbook::parse(&large, &[]).unwrap_err().to_string().contains("at most 1048576"));
    assert_eq!(Runbook::parse(b"+++\n\xff", &[]).unwrap_err().to_string(), "line 2: the file is not UTF-8");
}

#[test]
fn the_failure_of_a_broken_page_names_the_file_and_has_its_code() {
    let failure = Runbook::parse(b"x", &[]).unwrap_err().into_failure("runbooks/x.md");
    assert_eq!((failure.code().name, failure.object()), ("runbook.invalid", "runbooks/x.md"));
    assert!(failure.cause().starts_with("line 1: "));
}

#[test]
fn a_page_with_windows_line_ends_reads_the_same() {
    let runbook =
        Runbook::parse(GOOD.replace('\n', "\r\n").as_bytes(), &["known"]).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    assert_eq!(runbook.steps.len(), 5);
    assert_eq!(runbook.steps[0].line, 20);
}

#[test]
fn the_shipped_runbook_has_no_mistakes_and_climbs_to_serve() {
    let page = include_bytes!("../../../runbooks/etcd-restore.md");
    let runbook = Runbook::parse(page, ACTIONS).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let (people, machine): (Vec<_>, Vec<_>) = runbook.steps.iter().partition(|step| step.hands().is_some());
    let actions: Vec<_> = machine.iter().map(|step| step.id.as_str()).collect();
    let expected: Vec<_> = ACTIONS.iter().filter(|action| **action != "write-member").copied().collect();
    assert_eq!(actions, expected, "ids are the names of the actions");
    let kinds: Vec<_> = people.iter().filter_map(|step| Some((step.id.as_str(), step.hands()?.kind))).collect();
    let (manual, approval) = (HandsKind::Manual, HandsKind::Approval);
    assert_eq!(kinds, [("declare", manual), ("decide", approval), ("open-escrow", manual), ("sign-off", approval)]);
    let rungs = |rung| machine.iter().filter(|step| step.rung == Some(rung)).count();
    assert_eq!((rungs(Rung::Open), rungs(Rung::Boot), rungs(Rung::Serve)), (5, 3, 4));
    assert!(runbook.steps.last().is_some_and(|step| step.always && step.id == "tear-down"));
    for step in &runbook.steps {
        assert!(step.prose.len() > 200, "{}: a person must be able to follow it", step.id);
    }
    assert!(machine.iter().all(|step| step.work == Work::Action(step.id.clone())));
}

#[test]
fn the_page_of_a_member_writes_last_and_claims_no_rung_above_open() {
    let page = include_bytes!("../../../runbooks/etcd-member.md");
    let runbook = Runbook::parse(page, ACTIONS).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let actions: Vec<_> = runbook.steps.iter().map(|step| step.id.as_str()).collect();
    assert_eq!(actions[..5], ACTIONS[..5]);
    assert_eq!(actions[5..], ["write-member", "tear-down"]);
    for step in runbook.steps.iter().filter(|step| !step.always) {
        assert_eq!((step.rung, &step.work), (Some(Rung::Open), &Work::Action(step.id.clone())));
        let is_about_keys = ["open-keys", "decrypt-objects"].contains(&step.id.as_str());
        assert_eq!(step.on_failure == OnFailure::Continue, is_about_keys, "{}: API servers have keys of their own", step.id);
    }
    let written = runbook.step("write-member").unwrap();
    for part in ["--bump-revision 1000000000 --mark-compacted", "--initial-cluster-token", "mv -T DIR.new DIR"] {
        assert!(written.prose.contains(part), "{part}");
    }
}
