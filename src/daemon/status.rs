//! One line about the daemon, for `systemctl status`.

use jiff::Timestamp;

use super::schedule::next_slot;
use super::state::State;
use super::work::Plan;
use crate::base::job::Job;
use crate::base::units::count;

/// What runs, what comes next, and what is not well.
#[must_use]
pub fn line(plan: &Plan, state: &State, running: Option<Job>, refused: bool, stopping: bool, now: Timestamp) -> String {
    let mut parts: Vec<String> = plan
        .lines
        .iter()
        .map(|line| {
            let known = state.jobs.get(&line.job);
            let now_or_next = match next_slot(line, now) {
                _ if running == Some(line.job) && stopping => "being stopped".to_owned(),
                _ if running == Some(line.job) => "runs".to_owned(),
                Some(next) => format!("next {}", minute(next)),
                None => "never again".to_owned(),
            };
            let last = known.and_then(|known| known.last_success);
            let last = last.map_or_else(|| "never good".to_owned(), |last| format!("last good {}", minute(last)));
            let failures = known.map_or(0, |known| known.consecutive_failures);
            let failing = if failures > 0 { format!(", {}", self::failing(failures)) } else { String::new() };
            format!("{} {now_or_next}, {last}{failing}", line.job)
        })
        .collect();
    if stopping {
        parts.insert(0, "stopping".to_owned());
    }
    if refused {
        parts.push("CONFIGURATION FILE REFUSED, the one before it is in force".to_owned());
    }
    parts.join("; ")
}

/// How often in a row something went wrong.
#[must_use]
pub fn failing(times: u64) -> String {
    format!("{} in a row", count(times, "failure"))
}

fn minute(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M UTC").to_string()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use crate::daemon::schedule::{Backoff, Line};
    use crate::daemon::state::JobState;

    #[test]
    fn the_line_says_what_runs_what_comes_and_what_fails() {
        let line_of = |job, text: &str| Line { job, cron: text.parse().unwrap() };
        let plan = Plan {
            lines: vec![line_of(Job::Snapshot, "0 * * * *"), line_of(Job::Rehearsal, "30 3 * * *")],
            backoff: Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(1) },
            refresh: Duration::from_secs(1),
            deadlines: BTreeMap::new(),
            notes: Vec::new(),
        };
        let at = |text: &str| -> Timestamp { text.parse().unwrap() };
        let known = JobState { last_success: Some(at("2026-12-01T09:00:07Z")), consecutive_failures: 2, ..JobState::default() };
        let state = State { jobs: [(Job::Snapshot, known)].into() };
        let now = at("2026-12-01T10:20:00Z");
        assert_eq!(
            line(&plan, &state, Some(Job::Rehearsal), false, false, now),
            "snapshot next 2026-12-01 11:00 UTC, last good 2026-12-01 09:00 UTC, 2 failures in a row; rehearsal runs, never good"
        );
        let stopping = line(&plan, &state, Some(Job::Rehearsal), true, true, now);
        assert!(stopping.starts_with("stopping; snapshot") && stopping.contains("being stopped"), "{stopping}");
        assert!(stopping.ends_with("REFUSED, the one before it is in force"), "{stopping}");
    }
}
