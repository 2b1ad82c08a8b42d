//! What is begun when, and what is told of it.

use std::time::Duration;

use holdfast::base::codes;
use holdfast::base::failure::Failure;
use holdfast::base::job::Job;
use holdfast::daemon::state::State;
use holdfast::daemon::work::Upkept;
use holdfast::daemon::{Order, Stop};
use holdfast::telemetry::metrics::Outcome;

use super::scripted::{Life, Play, at, elapse, minutes, plan};

#[tokio::test(start_paused = true)]
async fn each_slot_is_done_once_and_those_missed_before_count_as_one() {
    let mut life = Life::hourly("10:20:00", &[]);
    life.run_for(minutes(165)).await;
    let expected =
        ["10:20:00 snapshot 10:00 #1", "11:00:00 snapshot 11:00 #1", "12:00:00 snapshot 12:00 #1", "13:00:00 snapshot 13:00 #1"];
    assert_eq!(life.attempts(), expected);
    let shown = life.job(Job::Snapshot);
    assert_eq!((shown.last_success, shown.consecutive_failures), (Some(at("13:00:00")), 0));
    assert_eq!((shown.next, shown.overdue), (Some(at("14:00:00")), Some(at("15:00:00"))));
}

#[tokio::test(start_paused = true)]
async fn a_second_life_does_not_do_again_what_the_first_did() {
    let mut first = Life::hourly("10:20:00", &[]);
    first.run_for(minutes(1)).await;
    let state = first.state();
    let hourly = plan(&[(Job::Snapshot, "0 * * * *")]);
    let mut second = Life::new("10:40:00", hourly, state, &[]);
    let running = second.start();
    elapse(minutes(1)).await;
    // What happened before is shown before anything happens again.
    assert_eq!(second.job(Job::Snapshot).last_success, Some(at("10:20:00")));
    elapse(minutes(24)).await;
    second.orders.send(Order::Stop(Stop::Terminated)).await.unwrap();
    running.await.unwrap();
    assert_eq!(second.attempts(), ["11:00:00 snapshot 11:00 #1"]);
}

#[tokio::test(start_paused = true)]
async fn failures_are_told_and_tried_again_later_and_later_until_one_is_good() {
    let mut life = Life::hourly("10:00:00", &[Play::Fails, Play::Panics, Play::Fails]);
    let running = life.start();
    elapse(minutes(6)).await;
    let shown = life.job(Job::Snapshot);
    assert_eq!((shown.consecutive_failures, shown.last_success), (3, None));
    assert_eq!(shown.last_failure, Some(at("10:03:00")));
    assert_eq!(life.ended(Job::Snapshot, Outcome::Failed), 3);
    let status = life.told().pop().unwrap();
    assert!(life.told().iter().any(|told| told.contains("3 failures in a row")), "{status}");
    elapse(minutes(30)).await;
    life.orders.send(Order::Stop(Stop::Terminated)).await.unwrap();
    running.await.unwrap();
    let expected =
        ["10:00:00 snapshot 10:00 #1", "10:01:00 snapshot 10:00 #2", "10:03:00 snapshot 10:00 #3", "10:07:00 snapshot 10:00 #4"];
    assert_eq!(life.attempts(), expected);
    assert_eq!(life.job(Job::Snapshot).consecutive_failures, 0);
}

#[tokio::test(start_paused = true)]
async fn a_bad_answer_is_told_and_not_asked_for_again_before_the_next_slot() {
    let mut life = Life::hourly("10:00:00", &[Play::Bad]);
    life.run_for(minutes(61)).await;
    assert_eq!(life.attempts(), ["10:00:00 snapshot 10:00 #1", "11:00:00 snapshot 11:00 #1"]);
    assert_eq!((life.ended(Job::Snapshot, Outcome::Bad), life.ended(Job::Snapshot, Outcome::Good)), (1, 1));
    assert_eq!(life.job(Job::Snapshot).last_failure, Some(at("10:00:00")));
}

#[tokio::test(start_paused = true)]
async fn one_job_runs_at_a_time_and_snapshots_come_first() {
    let lines = [(Job::Rehearsal, "30 * * * *"), (Job::Snapshot, "*/15 * * * *")];
    let long: &[Play] = &[Play::Good(minutes(50))];
    let mut life = Life::new("10:30:00", plan(&lines), State::default(), &[(Job::Rehearsal, long)]);
    life.run_for(minutes(55)).await;
    let expected = ["10:30:00 snapshot 10:30 #1", "10:30:00 rehearsal 10:30 #1", "11:20:00 snapshot 11:15 #1"];
    assert_eq!(life.attempts(), expected);
    assert_eq!(life.most_at_once(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_takes_too_long_is_ended_and_counts_as_failed() {
    // One that cleans up when it is told to, and one that never listens.
    for hangs in [Duration::from_secs(30), minutes(100_000)] {
        let mut hourly = plan(&[(Job::Snapshot, "0 * * * *")]);
        hourly.deadlines.insert(Job::Snapshot, minutes(10));
        let mut life = Life::new("10:00:00", hourly, State::default(), &[(Job::Snapshot, &[Play::Hangs(hangs)])]);
        let running = life.start();
        elapse(minutes(9)).await;
        assert!(life.job(Job::Snapshot).running);
        elapse(minutes(4)).await;
        assert_eq!(life.ended(Job::Snapshot, Outcome::Failed), 1);
        elapse(minutes(2)).await;
        assert_eq!((life.ended(Job::Snapshot, Outcome::Good), life.most_at_once()), (1, 1));
        life.orders.send(Order::Stop(Stop::Terminated)).await.unwrap();
        running.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_took_the_process_with_it_is_not_the_first_thing_that_the_next_one_does() {
    let mut life = Life::hourly("10:00:00", &[Play::Hangs(Duration::ZERO)]);
    let running = life.start();
    elapse(minutes(1)).await;
    running.abort();
    let _ = running.await;
    let state = life.state();
    let mut next = Life::new("10:00:30", plan(&[(Job::Snapshot, "0 * * * *")]), state, &[]);
    next.run_for(minutes(5)).await;
    assert_eq!(next.attempts(), ["10:01:00 snapshot 10:00 #2"]);
}

#[tokio::test(start_paused = true)]
async fn a_state_file_that_cannot_be_written_stops_no_job_and_is_told() {
    let mut life = Life::hourly("10:00:00", &[]);
    *life.work.disk_is_full.lock().unwrap() = true;
    let running = life.start();
    elapse(minutes(61)).await;
    assert_eq!(life.attempts().len(), 2);
    assert!(life.metrics.read().daemon.state_unwritten);
    assert!(life.health().is_good && life.health().text.contains("the state file cannot be written"), "{:?}", life.health());
    *life.work.disk_is_full.lock().unwrap() = false;
    elapse(minutes(60)).await;
    assert!(!life.metrics.read().daemon.state_unwritten);
    assert_eq!(life.health().text, "ok\n");
    life.orders.send(Order::Stop(Stop::Terminated)).await.unwrap();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_never_done_becomes_overdue_and_health_says_why() {
    let mut life = Life::hourly("10:20:00", &[Play::Fails; 40]);
    let running = life.start();
    elapse(minutes(99)).await;
    assert!(life.health().is_good, "{:?}", life.health());
    elapse(minutes(1)).await;
    let health = life.health();
    assert!(!health.is_good && health.text.starts_with("snapshot overdue since 2026-12-01T12:00:00Z: "), "{health:?}");
    assert!(health.text.contains("failures in a row"), "{health:?}");
    life.orders.send(Order::Stop(Stop::Terminated)).await.unwrap();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn records_that_wait_are_sent_again_soon_and_then_less_often() {
    let mut life = Life::hourly("10:00:00", &[]);
    let down = || Failure::new(&codes::LEDGER_UNREACHABLE, "ledger", "scripted");
    let waits = || Upkept { waiting: Some(3), why: Some(down()), ledger: Some(Err(down())), ..Upkept::default() };
    life.work.upkept.lock().unwrap().extend([waits(), waits(), waits(), waits()]);
    let running = life.start();
    elapse(Duration::from_secs(65)).await;
    assert_eq!(life.metrics.read().stores.waiting, 3);
    assert_eq!(life.metrics.read().stores.ledger_read, None);
    elapse(minutes(12)).await;
    assert_eq!(life.metrics.read().stores.waiting, 0);
    assert!(life.metrics.read().stores.ledger_read.is_some());
    life.orders.send(Order::Stop(Stop::Terminated)).await.unwrap();
    running.await.unwrap();
    let rounds = life.work.upkeeps.lock().unwrap().clone();
    let times: Vec<String> = rounds.iter().map(|(at, _)| at.strftime("%H:%M:%S").to_string()).collect();
    // The first round, and the one after the snapshot, at once; then 10, 40 and 80 seconds apart, and at last as usual.
    assert_eq!(times, ["10:00:00", "10:00:00", "10:00:10", "10:00:50", "10:02:10", "10:07:10", "10:12:10"]);
}
