//! What the ledger says of this cluster: is it whole, how old is the newest
//! good snapshot, how old the last proof, and what waits on this host.

use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};

use super::recorded::Recorded;
use super::{Area, Check, Findings, Host, blocking, codes};
use crate::base::cron::CronLine;
use crate::base::units::{count, human_duration};
use crate::record::manifest::Quality;

/// Where no schedule says otherwise: people snapshot daily or more often; two hours forgive a slow day.
const SNAPSHOT_AGE: SignedDuration = SignedDuration::from_hours(26);
/// Where no schedule says otherwise: people rehearse weekly or more often; a day forgives a holiday.
const PROOF_AGE: SignedDuration = SignedDuration::from_hours(8 * 24);
/// More are one finding that says how many.
const FINDINGS_SHOWN: usize = 10;

pub(super) struct History;

#[async_trait]
impl Check for History {
    fn area(&self) -> Area {
        Area::Ledger
    }

    fn name(&self) -> String {
        "the ledger".to_owned()
    }

    async fn examine(&self, host: &Host, findings: &Findings) {
        waiting(host, findings).await;
        let (recorded, now) = (host.recorded().await, host.station.clock.now());
        let ledger = host.station.ledger.describe();
        match &recorded.stale {
            Some(failure) => findings.failed(failure),
            None if recorded.findings.is_empty() => {
                findings.good(&ledger, "is whole: every record is signed, in its place and in its chain")
            }
            None => {}
        }
        for finding in recorded.findings.iter().take(FINDINGS_SHOWN) {
            findings.found(&codes::LEDGER_FINDING, &finding.object, format!("{} ({})", finding.message, finding.code));
        }
        if let Some(more @ 1..) = recorded.findings.len().checked_sub(FINDINGS_SHOWN) {
            findings.found(&codes::LEDGER_FINDING, &ledger, format!("has {} more", count(more as u64, "finding")));
        }
        if recorded.seen {
            snapshots(host, recorded, findings, now);
            proof(host, recorded, findings, now);
        }
    }
}

/// What waits in this host's outbox.
async fn waiting(host: &Host, findings: &Findings) {
    // Opening makes it where it is missing, which is not for a doctor to do.
    if !host.station.state_dir().join("outbox").is_dir() {
        return findings.not_applicable("outbox", "this host has written nothing yet");
    }
    let outbox = match host.station.outbox() {
        Ok(outbox) => outbox,
        Err(failure) => return findings.failed(&failure),
    };
    match blocking(move || outbox.backlog()).await {
        Ok(None) => findings.good("outbox", "is empty: every store has what this host wrote"),
        Ok(Some(backlog)) => {
            let places: Vec<_> = backlog.places.iter().map(|place| place.as_str()).collect();
            let since = age(backlog.oldest, host.station.clock.now());
            let text = format!(
                "holds {} for {}, the oldest since {since}",
                count(backlog.records as u64, "record"),
                places.join(" and ")
            );
            findings.found(&codes::LEDGER_WAITING, "outbox", text);
        }
        Err(failure) => findings.failed(&failure),
    }
}

fn snapshots(host: &Host, recorded: &Recorded, findings: &Findings, now: Timestamp) {
    let cluster = &host.station.config.cluster;
    let Some(newest) = recorded.snapshots.first() else {
        return findings.found(&codes::NO_SNAPSHOT, cluster, "has no snapshot in the ledger");
    };
    let object = format!("snapshot {}", newest.id);
    if let Some(obstacle) = newest.obstacles.first() {
        findings.found(&codes::NOT_RESTORABLE, &object, format!("is the newest and cannot be restored: {obstacle}"));
    }
    let good = recorded.snapshots.iter().filter(|row| row.quality == Quality::Good);
    let moments = good.filter_map(|row| Some((row.taken.parse::<Timestamp>().ok()?, row)));
    let Some((at, row)) = moments.max_by_key(|(at, _)| *at) else {
        return findings.found(&codes::NO_GOOD_SNAPSHOT, cluster, "has no snapshot of good quality in the ledger");
    };
    let (object, old) = (format!("snapshot {}", row.id), now.duration_since(at) > SNAPSHOT_AGE);
    let text = format!("is the newest good one, taken {} ago by {}", age(at, now), row.host);
    let config = &host.station.config;
    match (&config.schedule.snapshot, old) {
        (Some(line), _) => match missed(line, config.daemon.snapshot_deadline, at, now) {
            Some(due) => findings.found(&codes::SLOT_MISSED, object, format!("{text}, and one was due at {due}")),
            None => findings.good(object, text),
        },
        (None, true) => findings.found(&codes::SNAPSHOT_OLD, object, text),
        (None, false) => findings.good(object, text),
    }
}

fn proof(host: &Host, recorded: &Recorded, findings: &Findings, now: Timestamp) {
    if recorded.snapshots.is_empty() {
        return;
    }
    let Some((proof, at)) = recorded.proof.as_ref().and_then(|proof| Some((proof, proof.at.parse::<Timestamp>().ok()?))) else {
        return findings.found(&codes::NEVER_PROVEN, "restore", "has never been proven: no rehearsal passed");
    };
    let text = format!("was last proven {} ago, to {}, with {}", age(at, now), proof.rung, proof.snapshot);
    let config = &host.station.config;
    match &config.schedule.rehearsal {
        Some(line) => match missed(line, config.daemon.rehearsal_deadline, at, now) {
            Some(due) => findings.found(&codes::PROOF_OLD, "restore", format!("{text}, and a rehearsal was due at {due}")),
            None => findings.good("restore", text),
        },
        None if now.duration_since(at) > PROOF_AGE => findings.found(&codes::PROOF_OLD, "restore", text),
        None => findings.good("restore", text),
    }
}

/// The slot that passed without its work: the last one that had all the time
/// that work is given, if nothing was done since.
fn missed(line: &CronLine, given: Duration, done: Timestamp, now: Timestamp) -> Option<Timestamp> {
    let due = line.latest_at_or_before(now.checked_sub(given).ok()?)?;
    (done < due).then_some(due)
}

/// How long ago; nothing below zero, which the clocks' checks tell of.
fn age(at: Timestamp, now: Timestamp) -> String {
    human_duration(Duration::try_from(now.duration_since(at)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_missed_when_its_time_is_over_and_nothing_was_done_since() {
        let line: CronLine = "0 * * * *".parse().unwrap();
        let at = |text: &str| format!("2026-12-01T{text}:00Z").parse::<Timestamp>().unwrap();
        let given = Duration::from_secs(30 * 60);
        for (done, now, expected) in [
            ("12:05", "12:40", None),
            ("12:05", "13:20", None),
            ("12:05", "13:31", Some("13:00")),
            ("13:00", "13:31", None),
            ("10:05", "13:20", Some("12:00")),
        ] {
            assert_eq!(missed(&line, given, at(done), at(now)), expected.map(at), "{done} and {now}");
        }
    }
}
