//! What is due now: a pure function of cron lines, of what was done when, and of now.
//!
//! Invariants, whatever the past says and wherever the clock stands: something
//! is due, or there is a time in the future to look again; a slot that was
//! settled is not begun again while the clock goes forward; slots that were
//! missed count as one; snapshots come before rehearsals.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::base::cron::CronLine;
use crate::base::job::Job;

/// One job that the configuration has a line for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub job: Job,
    pub cron: CronLine,
}

/// How long to wait after failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    pub first: Duration,
    /// At least `first`.
    pub longest: Duration,
}

/// What is known of one job. It comes from a file and is believed as far as it makes sense.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Past {
    /// The newest slot that needs no more attempts: its answer was good, or bad for good.
    pub settled: Option<Timestamp>,
    /// Attempts at a slot that is not settled.
    pub failed: Option<Failed>,
    /// When the job came onto the schedule: it cannot be overdue since before.
    pub since: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    pub slot: Timestamp,
    /// The end of the last attempt.
    pub at: Timestamp,
    pub times: u32,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Run(Due),
    /// Nothing is due before then.
    Wait(Timestamp),
}

/// A slot whose time has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    pub job: Job,
    pub slot: Timestamp,
    /// From 1.
    pub attempt: u32,
}

/// Where no line comes round any more, at the end of the calendar, it is looked again this often.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_hours(24);

/// A job on a line of minutes waits for a rehearsal of half an hour without
/// anything being wrong.
const PATIENCE: SignedDuration = SignedDuration::from_hours(1);

/// Decides what comes next. Lines that `past` knows nothing of have never been done.
#[must_use]
pub fn next(lines: &[Line], past: impl Fn(Job) -> Past, backoff: Backoff, now: Timestamp) -> Next {
    let mut wait = saturating(now, LOOK_AGAIN);
    for job in Job::ALL {
        for line in lines.iter().filter(|line| line.job == job) {
            match of_line(line, past(job), backoff, now) {
                Next::Run(due) => return Next::Run(due),
                Next::Wait(until) => wait = wait.min(until),
            }
        }
    }
    Next::Wait(wait)
}

/// When a job that failed so often at one slot is tried again, after the last failure.
#[must_use]
pub fn pause(backoff: Backoff, times: u32) -> Duration {
    let factor = 1_u32.checked_shl(times.saturating_sub(1)).unwrap_or(u32::MAX);
    backoff.first.saturating_mul(factor).min(backoff.longest)
}

/// When a line comes round next after now; whether or not something is still to be done for the last time.
#[must_use]
pub fn next_slot(line: &Line, now: Timestamp) -> Option<Timestamp> {
    line.cron.next_after(now)
}

/// From when on a job is overdue: two slots passed since the last that was settled, and an hour.
#[must_use]
pub fn overdue(line: &Line, past: Past, now: Timestamp) -> Option<Timestamp> {
    let known = past.settled.filter(|settled| is_believable(line, *settled, now));
    let from = known.max(past.since.filter(|since| *since <= now)).unwrap_or(now);
    let first = line.cron.next_after(from)?;
    let second = line.cron.next_after(first)?;
    Some(second.max(saturating(first, PATIENCE)))
}

fn of_line(line: &Line, past: Past, backoff: Backoff, now: Timestamp) -> Next {
    let following = line.cron.next_after(now).unwrap_or_else(|| saturating(now, LOOK_AGAIN));
    let Some(slot) = line.cron.latest_at_or_before(now) else { return Next::Wait(following) };
    if past.settled.is_some_and(|settled| settled >= slot && is_believable(line, settled, now)) {
        return Next::Wait(following);
    }
    let failed = past.failed.filter(|failed| failed.slot == slot);
    let times = failed.map_or(0, |failed| failed.times);
    // A failure of the future was written under another clock: waiting for it could take forever.
    if let Some(at) = failed.map(|failed| failed.at).filter(|at| *at <= now) {
        let again = saturating(at, SignedDuration::try_from(pause(backoff, times)).unwrap_or(LOOK_AGAIN));
        if again > now {
            return Next::Wait(again.min(following));
        }
    }
    Next::Run(Due { job: line.job, slot, attempt: times.saturating_add(1) })
}

/// A slot that is further ahead than the next one was settled under a clock that
/// was wrong: to believe it would stop the schedule until then. A clock that was
/// set back by moments is believed: its next slot was done.
fn is_believable(line: &Line, settled: Timestamp, now: Timestamp) -> bool {
    settled <= now || line.cron.next_after(now).is_some_and(|next| settled <= next)
}

fn saturating(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BACKOFF: Backoff = Backoff { first: Duration::from_secs(60), longest: Duration::from_secs(1_800) };

    fn line(job: Job, text: &str) -> Line {
        Line { job, cron: text.parse().unwrap() }
    }

    fn at(text: &str) -> Timestamp {
        format!("2026-12-01T{text}Z").parse().unwrap()
    }

    fn hourly() -> Vec<Line> {
        vec![line(Job::Snapshot, "0 * * * *")]
    }

    fn settled(text: &str) -> Past {
        Past { settled: Some(at(text)), ..Past::default() }
    }

    fn decide(lines: &[Line], past: Past, now: &str) -> Next {
        next(lines, |_| past, BACKOFF, at(now))
    }

    fn run(job: Job, slot: &str, attempt: u32) -> Next {
        Next::Run(Due { job, slot: at(slot), attempt })
    }

    #[test]
    fn a_slot_is_done_once_and_the_next_is_waited_for() {
        assert_eq!(decide(&hourly(), settled("09:00:00"), "10:00:00"), run(Job::Snapshot, "10:00:00", 1));
        assert_eq!(decide(&hourly(), settled("10:00:00"), "10:00:00"), Next::Wait(at("11:00:00")));
        assert_eq!(decide(&hourly(), settled("10:00:00"), "10:59:59.9"), Next::Wait(at("11:00:00")));
    }

    #[test]
    fn slots_that_passed_while_nobody_was_there_count_as_one() {
        assert_eq!(decide(&hourly(), settled("01:00:00"), "10:20:00"), run(Job::Snapshot, "10:00:00", 1));
        assert_eq!(decide(&hourly(), settled("10:00:00"), "10:20:01"), Next::Wait(at("11:00:00")));
        // A new daemon begins with what it can do at once.
        assert_eq!(decide(&hourly(), Past::default(), "10:20:00"), run(Job::Snapshot, "10:00:00", 1));
    }

    #[test]
    fn a_failure_is_tried_again_later_and_later_until_the_next_slot() {
        let failed = |text: &str, times| Past {
            failed: Some(Failed { slot: at("10:00:00"), at: at(text), times }),
            ..settled("09:00:00")
        };
        assert_eq!(decide(&hourly(), failed("10:00:05", 1), "10:01:04"), Next::Wait(at("10:01:05")));
        assert_eq!(decide(&hourly(), failed("10:00:05", 1), "10:01:05"), run(Job::Snapshot, "10:00:00", 2));
        assert_eq!(decide(&hourly(), failed("10:10:00", 4), "10:10:01"), Next::Wait(at("10:18:00")));
        assert_eq!(decide(&hourly(), failed("10:50:00", 9), "10:50:01"), Next::Wait(at("11:00:00")));
        assert_eq!(decide(&hourly(), failed("10:50:00", 9), "11:00:00"), run(Job::Snapshot, "11:00:00", 1));
    }

    #[test]
    fn snapshots_come_before_rehearsals_and_a_failing_snapshot_holds_none_up() {
        let lines = vec![line(Job::Rehearsal, "30 3 * * *"), line(Job::Snapshot, "0 * * * *")];
        assert_eq!(decide(&lines, Past::default(), "10:20:00"), run(Job::Snapshot, "10:00:00", 1));
        let failing = Past { failed: Some(Failed { slot: at("10:00:00"), at: at("10:19:30"), times: 3 }), ..Past::default() };
        let past = |job| if job == Job::Snapshot { failing } else { Past::default() };
        assert_eq!(next(&lines, past, BACKOFF, at("10:20:00")), run(Job::Rehearsal, "03:30:00", 1));
    }

    #[test]
    fn a_clock_that_was_wrong_stops_nothing() {
        let wrong = Past { settled: Some("2099-01-01T00:00:00Z".parse().unwrap()), ..Past::default() };
        assert_eq!(decide(&hourly(), wrong, "10:20:00"), run(Job::Snapshot, "10:00:00", 1));
        // Set back by a moment across a slot: not again.
        assert_eq!(decide(&hourly(), settled("10:00:00"), "09:59:59"), Next::Wait(at("10:00:00")));
        let ahead = Past { failed: Some(Failed { slot: at("10:00:00"), at: at("23:00:00"), times: 1 }), ..Past::default() };
        assert_eq!(decide(&hourly(), ahead, "10:20:00"), run(Job::Snapshot, "10:00:00", 2));
    }

    #[test]
    fn two_slots_and_an_hour_make_a_job_overdue() {
        let since = |text: &str, past: Past| Past { since: Some(at(text)), ..past };
        let overdue_at = |text: &str, past| overdue(&line(Job::Snapshot, text), past, at("10:20:00"));
        assert_eq!(overdue_at("0 * * * *", settled("10:00:00")), Some(at("12:00:00")));
        assert_eq!(overdue_at("0 * * * *", settled("05:00:00")), Some(at("07:00:00")));
        assert_eq!(overdue_at("* * * * *", settled("10:20:00")), Some(at("11:21:00")));
        assert_eq!(overdue_at("0 * * * *", since("10:10:00", Past::default())), Some(at("12:00:00")));
        // A job that came back onto the schedule is not overdue since it left.
        assert_eq!(overdue_at("0 * * * *", since("10:10:00", settled("01:00:00"))), Some(at("12:00:00")));
        let wrong = Past { settled: Some("2099-01-01T00:00:00Z".parse().unwrap()), ..Past::default() };
        assert_eq!(overdue_at("0 * * * *", wrong), Some(at("12:00:00")));
    }

    #[test]
    fn pauses_grow_to_the_longest() {
        let seconds = |times| pause(BACKOFF, times).as_secs();
        assert_eq!([0, 1, 2, 3, 5, 6, 40, u32::MAX].map(seconds), [60, 60, 120, 240, 960, 1_800, 1_800, 1_800]);
    }

    fn any_time() -> impl Strategy<Value = Timestamp> {
        (-4_000_000_000_i64..8_000_000_000, 0_i32..1_000_000_000).prop_map(|(s, n)| Timestamp::new(s, n).unwrap())
    }

    fn any_past() -> impl Strategy<Value = Past> {
        let failed = (any_time(), any_time(), any::<u32>()).prop_map(|(slot, at, times)| Failed { slot, at, times });
        (proptest::option::of(any_time()), proptest::option::of(failed), proptest::option::of(any_time()))
            .prop_map(|(settled, failed, since)| Past { settled, failed, since })
    }

    fn any_line() -> impl Strategy<Value = CronLine> {
        const TEXTS: [&str; 8] =
            ["* * * * *", "0 * * * *", "*/7 3-5 * * *", "30 3 * * *", "0 0 * * 0", "0 0 31 * *", "0 0 29 2 *", "0 0 13 * 5"];
        proptest::sample::select(&TEXTS[..]).prop_map(|text| text.parse().unwrap())
    }

    proptest! {
        #[test]
        fn whatever_the_past_says_something_is_due_or_there_is_a_time_to_look_again(
            crons in proptest::collection::vec(any_line(), 0..3), past in any_past(), now in any_time()
        ) {
            let lines: Vec<Line> = crons.into_iter().zip(Job::ALL).map(|(cron, job)| Line { job, cron }).collect();
            match next(&lines, |_| past, BACKOFF, now) {
                Next::Wait(until) => {
                    prop_assert!(until > now);
                    for line in &lines {
                        prop_assert!(line.cron.next_after(now).is_none_or(|next| until <= next), "no slot is slept through");
                    }
                }
                Next::Run(due) => {
                    prop_assert!(due.slot <= now && due.attempt > 0);
                    // Settled, it is not begun again.
                    let done = Past { settled: Some(due.slot), failed: None, since: None };
                    let again = next(&lines, |job| if job == due.job { done } else { past }, BACKOFF, now);
                    let same = matches!(again, Next::Run(other) if other.job == due.job);
                    prop_assert!(!same, "{again:?}");
                    // Failed, it waits.
                    let failed = Failed { slot: due.slot, at: now, times: due.attempt };
                    let failed = Past { settled: None, failed: Some(failed), since: None };
                    let again = next(&lines, |job| if job == due.job { failed } else { past }, BACKOFF, now);
                    prop_assert!(!matches!(again, Next::Run(other) if other.job == due.job), "{again:?}");
                }
            }
        }

        #[test]
        fn over_any_time_each_slot_is_settled_once_in_order(
            cron in any_line(), steps in proptest::collection::vec((1_u64..100_000, any::<bool>()), 1..60), start in 0_i64..4_000_000_000
        ) {
            let lines = [Line { job: Job::Snapshot, cron }];
            let (mut now, mut past, mut runs) = (Timestamp::from_second(start).unwrap(), Past::default(), Vec::new());
            for (seconds, succeeds) in steps {
                match next(&lines, |_| past, BACKOFF, now) {
                    Next::Wait(until) => now = until,
                    Next::Run(due) => {
                        now += Duration::from_secs(seconds);
                        past = if succeeds {
                            runs.push(due.slot);
                            Past { settled: Some(due.slot), ..Past::default() }
                        } else {
                            Past { failed: Some(Failed { slot: due.slot, at: now, times: due.attempt }), ..past }
                        };
                    }
                }
            }
            prop_assert!(runs.is_sorted_by(|a, b| a < b), "{runs:?}");
        }
    }
}
