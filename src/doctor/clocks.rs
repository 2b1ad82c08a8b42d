//! The clock of this host, against everything else that has one.

use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};

use super::certificates::look_at_members;
use super::peek::{Door, Seen, Tls};
use super::stores::store;
use super::x509::Facts;
use super::{Area, Check, Findings, Host, blocking, codes};
use crate::base::units::human_duration;
use crate::config::StoreConfig;
use crate::ledger::Place;

/// Records have whole seconds, and packets travel: below this nothing is said.
const WARNING: SignedDuration = SignedDuration::from_secs(60);
/// From here on snapshots count as suspect.
const ERROR: SignedDuration = SignedDuration::from_secs(600);

/// Before a certificate of a store ends.
const WEEK: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Written by systemd-timesyncd once it has set the clock.
const TIMESYNCD: &str = "/run/systemd/timesync/synchronized";

/// Does anything keep the clock right?
pub(super) struct Kernel;

/// Is the clock behind what other hosts have written?
pub(super) struct Records;

#[async_trait]
impl Check for Kernel {
    fn area(&self) -> Area {
        Area::Clocks
    }

    fn name(&self) -> String {
        "the state of NTP".to_owned()
    }

    async fn examine(&self, _: &Host, findings: &Findings) {
        // The kernel's own answer (adjtimex) has no safe binding here; chrony tells only whom it trusts.
        if blocking(|| std::path::Path::new(TIMESYNCD).exists()).await {
            findings.good("clock", "is synchronised, by systemd-timesyncd");
        } else {
            findings.found(
                &codes::CLOCK_NOT_TOLD,
                "clock",
                "nothing here tells whether it is synchronised (systemd-timesyncd would)",
            );
        }
    }
}

/// Do the stores have the same time?
pub(super) struct Stores;

/// A server on the other side of the world answers in a second.
const STORE_LIMIT: Duration = Duration::from_secs(10);

#[async_trait]
impl Check for Stores {
    fn area(&self) -> Area {
        Area::Clocks
    }

    fn name(&self) -> String {
        "the clocks of the stores".to_owned()
    }

    async fn examine(&self, host: &Host, findings: &Findings) {
        let mut endpoints: Vec<String> = Vec::new();
        for place in [Place::Snapshots, Place::Escrow, Place::Ledger] {
            if let StoreConfig::S3(s3) = store(&host.station.config, place) {
                endpoints.push(s3.endpoint.clone().unwrap_or_else(|| format!("https://s3.{}.amazonaws.com", s3.region)));
            }
        }
        endpoints.sort();
        endpoints.dedup();
        let looks = endpoints.into_iter().map(|endpoint| {
            let (clock, now) = (host.station.clock.clone(), host.station.clock.now());
            async move {
                let at = endpoint.clone();
                let door = move || Some(Door::of(&at, Tls::default, "/", STORE_LIMIT)?.look(clock.as_ref()));
                match blocking(door).await {
                    Some(Ok(seen)) => tell_store(findings, &endpoint, &seen, now),
                    // The store's own check says why.
                    _ => findings.not_applicable(endpoint, "does not tell its time"),
                }
            }
        });
        join_all(looks).await;
    }
}

fn tell_store(findings: &Findings, endpoint: &str, seen: &Seen, now: Timestamp) {
    match seen.clocks {
        Ok(Some((theirs, ours))) => tell(findings, endpoint, "its own", theirs, ours),
        _ => findings.not_applicable(endpoint, "does not tell its time"),
    }
    // Certificates of a week ahead: those of public authorities are renewed late.
    if let Some(facts) = seen.chain.first().and_then(Facts::of)
        && facts.to > now
        && facts.to.duration_since(now) < WEEK
    {
        findings.found(&codes::STORE_CERTIFICATE_ENDS, endpoint, format!("shows a certificate that ends {}", facts.to));
    }
}

/// Do the members of etcd have the same time?
pub(super) struct Members;

#[async_trait]
impl Check for Members {
    fn area(&self) -> Area {
        Area::Clocks
    }

    fn name(&self) -> String {
        "the clocks of etcd's members".to_owned()
    }

    async fn examine(&self, host: &Host, findings: &Findings) {
        let Some(etcd) = &host.station.config.etcd else { return };
        for (endpoint, seen) in look_at_members(host, etcd).await {
            match seen.map(|seen| seen.clocks) {
                Ok(Ok(Some((theirs, ours)))) => tell(findings, &endpoint, "its own", theirs, ours),
                _ => findings.not_applicable(endpoint, "does not tell its time"),
            }
        }
    }
}

#[async_trait]
impl Check for Records {
    fn area(&self) -> Area {
        Area::Clocks
    }

    fn name(&self) -> String {
        "the times of records".to_owned()
    }

    async fn examine(&self, host: &Host, findings: &Findings) {
        let now = host.station.clock.now();
        let Some((newest, what)) = host.recorded().await.newest_moment() else {
            return findings.not_applicable("records", "there are none whose time could be compared");
        };
        match now.duration_since(newest) {
            behind if behind < SignedDuration::ZERO => tell(findings, &what, "the newest record", newest, now),
            _ => findings.good("clock", "is not behind the newest record"),
        }
    }
}

/// Judges this host's clock by another: `theirs` was read when it was `ours` here.
pub(super) fn tell(findings: &Findings, object: &str, whose: &str, theirs: Timestamp, ours: Timestamp) {
    let offset = ours.duration_since(theirs);
    let size = human_duration(Duration::try_from(offset.abs()).unwrap_or_default());
    let direction = if offset.is_negative() { "behind" } else { "ahead of" };
    let text = format!("says that this host's clock is {size} {direction} {whose}");
    match offset.abs() {
        size if size > ERROR => findings.found(&codes::CLOCK_WRONG, object, text),
        size if size > WARNING => findings.found(&codes::CLOCK_OFF, object, text),
        _ => findings.good(object, format!("and this host agree on the time within {}", human_duration(Duration::from_secs(60)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Status;

    #[test]
    fn a_minute_is_a_warning_and_ten_are_an_error_in_both_directions() {
        let ours: Timestamp = "2026-12-01T12:00:00Z".parse().unwrap();
        for (offset, status, words) in [
            (0, Status::Ok, "agree"),
            (60, Status::Ok, "agree"),
            (-61, Status::Warning, "ahead of"),
            (61, Status::Warning, "behind"),
            (600, Status::Warning, "behind"),
            (601, Status::Error, "behind"),
            (-90_000, Status::Error, "ahead of"),
        ] {
            let findings = Findings::of(Area::Clocks);
            tell(&findings, "store", "the store's", ours + SignedDuration::from_secs(offset), ours);
            let found = findings.take();
            assert_eq!(found[0].status, status, "{offset}");
            assert!(found[0].finding.contains(words), "{offset}: {}", found[0].finding);
        }
    }
}
