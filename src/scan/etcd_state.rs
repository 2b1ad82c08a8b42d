//! What etcd keeps of itself: compaction, members, alarms, auth, versions.

use serde::Deserialize;

use super::inspection::{Alarm, MemberFacts};
use super::row::{BadRow, Revision};
use crate::k8s::wire;

/// Everything outside bucket `key` that an operator should know.
#[derive(Debug, Clone, Default)]
pub struct EtcdState {
    pub members: Vec<MemberFacts>,
    pub alarms: Vec<Alarm>,
    pub is_auth_enabled: bool,
    pub storage_version: Option<String>,
    /// Such as `3.6.0`; kept by a restore.
    pub cluster_version: Option<String>,
    scheduled_compaction: Option<i64>,
    finished_compaction: Option<i64>,
}

impl EtcdState {
    /// -1 when never compacted.
    #[must_use]
    pub fn compact_revision(&self) -> i64 {
        self.scheduled_compaction.max(self.finished_compaction).unwrap_or(-1)
    }

    /// Takes in one pair of a top-level bucket. Buckets of other versions and
    /// users are left alone.
    pub(super) fn learn(&mut self, bucket: &[u8], key: &[u8], value: &[u8]) -> Result<(), String> {
        match (bucket, key) {
            (b"meta", b"scheduledCompactRev") => self.scheduled_compaction = Some(revision(value)?),
            (b"meta", b"finishedCompactRev") => self.finished_compaction = Some(revision(value)?),
            (b"meta", b"storageVersion") => self.storage_version = Some(text(value)),
            (b"cluster", b"clusterVersion") => self.cluster_version = Some(text(value)),
            (b"auth", b"authEnabled") => self.is_auth_enabled = value == [1],
            (b"members", id) => self.members.push(member(id, value)?),
            (b"alarm", alarm) => self.alarms.push(read_alarm(alarm)?),
            _ => {}
        }
        Ok(())
    }
}

fn revision(bytes: &[u8]) -> Result<i64, String> {
    Revision::read(bytes).map(|revision| revision.main).map_err(|BadRow(fault)| fault.to_owned())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The JSON that etcd keeps of a member; ids are beyond what a float can hold.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredMember {
    id: u64,
    #[serde(rename = "peerURLs", default)]
    peer_urls: Option<Vec<String>>,
    #[serde(default)]
    is_learner: bool,
    #[serde(default)]
    name: String,
    #[serde(rename = "clientURLs", default)]
    client_urls: Option<Vec<String>>,
}

fn member(key: &[u8], value: &[u8]) -> Result<MemberFacts, String> {
    let stored: StoredMember = serde_json::from_slice(value).map_err(|_| format!("member {} cannot be read", text(key)))?;
    Ok(MemberFacts {
        id: format!("{:016x}", stored.id),
        name: stored.name,
        peer_urls: stored.peer_urls.unwrap_or_default(),
        client_urls: stored.client_urls.unwrap_or_default(),
        learner: stored.is_learner,
    })
}

/// An alarm is a key without a value: `AlarmMember{memberID = 1, alarm = 2}`.
fn read_alarm(key: &[u8]) -> Result<Alarm, String> {
    let (mut member, mut kind) = (0, 0);
    for field in wire::fields(key) {
        let field = field.map_err(|_| "an alarm cannot be read".to_owned())?;
        match field.number {
            1 => member = field.varint().map_err(|_| "an alarm cannot be read".to_owned())?,
            2 => kind = field.varint().map_err(|_| "an alarm cannot be read".to_owned())?,
            _ => {}
        }
    }
    let kind = match kind {
        1 => "NOSPACE".to_owned(),
        2 => "CORRUPT".to_owned(),
        other => other.to_string(),
    };
    Ok(Alarm { member: format!("{member:016x}"), kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_ids_that_no_float_can_hold() {
        let mut state = EtcdState::default();
        let json = br#"{"id":18446744073709551615,"peerURLs":["http://a:2380"],"name":"m1","isLearner":true}"#;
        state.learn(b"members", b"ffffffffffffffff", json).unwrap();
        assert_eq!((state.members[0].id.as_str(), state.members[0].learner), ("ffffffffffffffff", true));
        state.learn(b"members", b"1", br#"{"id":1,"peerURLs":null,"name":"","clientURLs":null}"#).unwrap();
        assert_eq!(state.members[1].id, "0000000000000001");
        assert!(state.learn(b"members", b"1", b"{").is_err());
        assert!(state.learn(b"members", b"1", br#"{"id":1.5}"#).is_err());
    }

    #[test]
    fn alarms_name_member_and_kind() {
        let mut state = EtcdState::default();
        for (key, kind) in [(&b"\x08\x0a\x10\x01"[..], "NOSPACE"), (b"\x08\x0a\x10\x02", "CORRUPT"), (b"\x08\x0a\x10\x09", "9")] {
            state.learn(b"alarm", key, b"").unwrap();
            let alarm = state.alarms.last().unwrap();
            assert_eq!((alarm.member.as_str(), alarm.kind.as_str()), ("000000000000000a", kind));
        }
        assert!(state.learn(b"alarm", b"\x08", b"").is_err());
    }

    #[test]
    fn compaction_is_the_later_of_scheduled_and_finished() {
        let row = |main: i64| [&main.to_be_bytes()[..], b"_", &[0; 8]].concat();
        let mut state = EtcdState::default();
        assert_eq!(state.compact_revision(), -1);
        state.learn(b"meta", b"finishedCompactRev", &row(5)).unwrap();
        assert_eq!(state.compact_revision(), 5);
        state.learn(b"meta", b"scheduledCompactRev", &row(9)).unwrap();
        assert_eq!(state.compact_revision(), 9);
        assert!(state.learn(b"meta", b"scheduledCompactRev", b"short").is_err());
    }
}
