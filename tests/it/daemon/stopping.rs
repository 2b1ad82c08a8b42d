//! Orders to a running loop, and what the service manager hears.

use std::time::Duration;

use holdfast::base::codes;
use holdfast::base::failure::Failure;
use holdfast::base::job::Job;
use holdfast::daemon::health::STUCK;
use holdfast::daemon::state::State;
use holdfast::daemon::{Order, Stop};
use holdfast::telemetry::metrics::Outcome;

use super::scripted::{Life, Play, elapse, minutes, plan};

#[tokio::test(start_paused = true)]
async fn a_stop_ends_what_runs_and_begins_nothing_new() {
    let mut life = Life::hourly("10:59:00", &[Play::Hangs(Duration::from_secs(90))]);
    let running = life.start();
    elapse(Duration::from_secs(10)).await;
    life.orders.send(Order::Stop(Stop::Interrupted)).await.unwrap();
    // A slot passes while it cleans up.
    assert_eq!(running.await.unwrap(), Stop::Interrupted);
    assert_eq!(life.attempts(), ["10:59:00 snapshot 10:00 #1"]);
    assert_eq!((life.at_work(), life.ended(Job::Snapshot, Outcome::Interrupted)), (0, 1));
    let told = life.told();
    assert!(told.iter().any(|told| told.starts_with("STOPPING=1\nSTATUS=stopping; snapshot being stopped")), "{told:?}");
    // The next life begins it again at once.
    let mut next = Life::new("11:01:00", plan(&[(Job::Snapshot, "0 * * * *")]), life.state(), &[]);
    next.run_for(minutes(1)).await;
    assert_eq!(next.attempts(), ["11:01:00 snapshot 11:00 #1"]);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_does_not_end_is_dropped_after_a_while_or_at_the_second_signal() {
    for (asks_twice, longest) in [(false, Duration::from_secs(121)), (true, Duration::from_secs(1))] {
        let mut life = Life::hourly("10:00:00", &[Play::Hangs(minutes(100_000))]);
        let running = life.start();
        elapse(Duration::from_secs(10)).await;
        let begin = tokio::time::Instant::now();
        life.orders.send(Order::Stop(Stop::Terminated)).await.unwrap();
        if asks_twice {
            life.orders.send(Order::Stop(Stop::Terminated)).await.unwrap();
        }
        running.await.unwrap();
        assert!(begin.elapsed() <= longest, "{:?}", begin.elapsed());
        assert_eq!(life.at_work(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_good_reload_is_in_force_at_once_and_what_runs_goes_on() {
    let mut life = Life::hourly("10:10:00", &[Play::Good(minutes(10))]);
    life.work.reloaded.lock().unwrap().push_back(Ok(plan(&[(Job::Snapshot, "*/15 * * * *"), (Job::Rehearsal, "0 5 * * *")])));
    let running = life.start();
    elapse(minutes(1)).await;
    life.orders.send(Order::Reload).await.unwrap();
    elapse(minutes(20)).await;
    life.orders.send(Order::Stop(Stop::Terminated)).await.unwrap();
    running.await.unwrap();
    let expected =
        ["10:10:00 snapshot 10:00 #1", "10:20:00 snapshot 10:15 #1", "10:20:00 rehearsal 05:00 #1", "10:30:00 snapshot 10:30 #1"];
    assert_eq!(life.attempts(), expected);
    let told = life.told();
    let reloading = told.iter().position(|told| told.starts_with("RELOADING=1\nMONOTONIC_USEC=")).unwrap();
    assert!(told[reloading..].iter().any(|told| told.starts_with("READY=1\nSTATUS=")), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refused_reload_changes_nothing_and_is_told_until_a_good_one() {
    let mut life = Life::hourly("10:10:00", &[]);
    let hourly = plan(&[(Job::Snapshot, "0 * * * *")]);
    let nonsense = Failure::new(&codes::CONFIG_INVALID, "holdfast.toml", "2 mistakes");
    life.work.reloaded.lock().unwrap().extend([Err(nonsense), Ok(hourly)]);
    let running = life.start();
    elapse(minutes(1)).await;
    life.orders.send(Order::Reload).await.unwrap();
    elapse(minutes(50)).await;
    assert!(life.metrics.read().daemon.config_refused);
    let health = life.health();
    assert!(health.is_good && health.text.contains("note: the configuration file was refused (config.invalid)"), "{health:?}");
    assert!(life.told().iter().any(|told| told.starts_with("READY=1\n") && told.contains("REFUSED")), "{:?}", life.told());
    assert_eq!(life.attempts(), ["10:10:00 snapshot 10:00 #1", "11:00:00 snapshot 11:00 #1"]);
    life.orders.send(Order::Reload).await.unwrap();
    elapse(minutes(1)).await;
    assert!(!life.metrics.read().daemon.config_refused);
    assert_eq!(life.health().text, "ok\n");
    life.orders.send(Order::Stop(Stop::Terminated)).await.unwrap();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_job_that_leaves_the_schedule_is_shown_no_more() {
    let both = plan(&[(Job::Snapshot, "0 * * * *"), (Job::Rehearsal, "0 5 * * *")]);
    let mut life = Life::new("10:10:00", both, State::default(), &[]);
    life.work.reloaded.lock().unwrap().push_back(Ok(plan(&[(Job::Snapshot, "0 * * * *")])));
    let running = life.start();
    elapse(minutes(1)).await;
    assert!(life.metrics.read().jobs.contains_key(&Job::Rehearsal));
    life.orders.send(Order::Reload).await.unwrap();
    elapse(minutes(1)).await;
    assert!(!life.metrics.read().jobs.contains_key(&Job::Rehearsal));
    life.orders.send(Order::Stop(Stop::Terminated)).await.unwrap();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn signs_of_life_come_from_a_loop_that_turns_and_from_nothing_else() {
    let mut life = Life::hourly("10:10:00", &[Play::Hangs(Duration::ZERO)]);
    let pings = |life: &Life| life.told().iter().filter(|told| *told == "WATCHDOG=1").count();
    let running = life.start();
    elapse(minutes(5)).await;
    // Half of the twenty seconds that the manager allows, also while a job runs.
    let before = pings(&life);
    assert!(before >= 30, "{before}");
    assert!(life.told()[0].starts_with("READY=1\nSTATUS=snapshot next 2026-12-01 11:00 UTC, never good"), "{:?}", life.told());
    assert!(life.health().is_good);
    // Nothing turns the loop any more.
    running.abort();
    let _ = running.await;
    elapse(STUCK + Duration::from_secs(11)).await;
    assert_eq!(pings(&life), before);
    let health = life.health();
    assert!(!health.is_good && health.text.contains("loop has not turned"), "{health:?}");
}
