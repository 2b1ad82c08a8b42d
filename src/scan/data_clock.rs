//! The data's own clock: how new a snapshot is by what it holds.
//!
//! Kubelets and API servers renew their Leases every few seconds, so the newest
//! renew time is close to the moment of the snapshot, whatever the clock of the
//! host that took it said.

use jiff::Timestamp;

use crate::k8s::object;

/// What the time was read from, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClockSource {
    /// Leases of kubelets, in namespace `kube-node-lease`.
    NodeLease,
    /// Leases of API servers, `apiserver-…` in namespace `kube-system`.
    ApiServerLease,
    /// Any other Lease.
    Lease,
    /// No Lease was ever renewed: the newest creation of any object.
    Creation,
}

impl ClockSource {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NodeLease => "newest renew time of a node's Lease",
            Self::ApiServerLease => "newest renew time of an API server's Lease",
            Self::Lease => "newest renew time of a Lease",
            Self::Creation => "newest creation time of an object",
        }
    }
}

impl std::fmt::Display for ClockSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// A time and where it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataClock {
    pub at: Timestamp,
    pub source: ClockSource,
}

/// Looks at objects one by one.
#[derive(Debug, Default)]
pub(super) struct ClockReader {
    best: Option<DataClock>,
}

impl ClockReader {
    pub fn look_at(&mut self, group: &str, resource: &str, namespace: &str, name: &str, body: &[u8]) {
        let is_lease = group == "coordination.k8s.io" && resource == "leases";
        let renewed = if is_lease { object::lease_renewed(body) } else { None };
        if let Some(at) = renewed {
            let source = match namespace {
                "kube-node-lease" => ClockSource::NodeLease,
                "kube-system" if name.starts_with("apiserver-") => ClockSource::ApiServerLease,
                _ => ClockSource::Lease,
            };
            self.offer(DataClock { at, source });
            return;
        }
        let has_lease = self.best.is_some_and(|best| best.source != ClockSource::Creation);
        let created = if has_lease { None } else { object::identity(body).and_then(|identity| identity.created) };
        if let Some(at) = created {
            self.offer(DataClock { at, source: ClockSource::Creation });
        }
    }

    pub fn newest(&self) -> Option<DataClock> {
        self.best
    }

    fn offer(&mut self, found: DataClock) {
        let is_better = match self.best {
            None => true,
            Some(best) if best.source == found.source => found.at > best.at,
            Some(best) => found.source < best.source,
        };
        if is_better {
            self.best = Some(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(renewed: &str) -> Vec<u8> {
        format!(
            r#"{{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{{"name":"x","namespace":"y","creationTimestamp":"2026-01-01T00:00:00Z"}},"spec":{{"renewTime":"{renewed}"}}}}"#
        )
        .into_bytes()
    }

    #[test]
    fn a_better_source_wins_over_a_newer_time() {
        let mut clock = ClockReader::default();
        assert_eq!(clock.newest(), None);
        let steps = [
            ("configmaps", "shop", "x", "2026-12-01T00:00:00.000000Z", "2026-01-01T00:00:00Z", ClockSource::Creation),
            ("leases", "shop", "x", "2026-12-01T09:00:00.000000Z", "2026-12-01T09:00:00Z", ClockSource::Lease),
            (
                "leases",
                "kube-system",
                "apiserver-a",
                "2026-12-01T08:00:00.000000Z",
                "2026-12-01T08:00:00Z",
                ClockSource::ApiServerLease,
            ),
            ("leases", "kube-node-lease", "cp-1", "2026-12-01T07:00:00.000000Z", "2026-12-01T07:00:00Z", ClockSource::NodeLease),
            ("leases", "kube-node-lease", "cp-2", "2026-12-01T07:30:00.000000Z", "2026-12-01T07:30:00Z", ClockSource::NodeLease),
            (
                "leases",
                "kube-system",
                "apiserver-a",
                "2026-12-02T00:00:00.000000Z",
                "2026-12-01T07:30:00Z",
                ClockSource::NodeLease,
            ),
        ];
        for (resource, namespace, name, renewed, at, source) in steps {
            clock.look_at("coordination.k8s.io", resource, namespace, name, &lease(renewed));
            assert_eq!(clock.newest(), Some(DataClock { at: at.parse().unwrap(), source }), "{namespace}/{name}");
        }
    }
}
