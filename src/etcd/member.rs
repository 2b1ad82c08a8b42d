//! Which member to stream from, and how far to trust it. Pure.

use crate::base::codes;
use crate::base::failure::Failure;

/// Raft entries that a member may be behind the most advanced one and still
/// count as current: a busy cluster applies a few hundred between two answers.
const LAG_LIMIT: u64 = 1_000;

/// What `Maintenance.Status` said of one endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberStatus {
    pub endpoint: String,
    pub cluster_id: u64,
    pub member_id: u64,
    /// The server's version.
    pub version: String,
    pub revision: i64,
    /// 0 when the member knows no leader.
    pub leader: u64,
    pub raft_index: u64,
    pub raft_applied_index: u64,
    /// About the length of the coming image.
    pub db_bytes: u64,
    pub learner: bool,
    /// From local state: `etcdserver: no leader`, alarms as text.
    pub errors: Vec<String>,
}

/// Why a snapshot of a member is `suspect`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doubt {
    /// The member applies entries later than others.
    Lagging,
    /// The member knows no leader: its state may be old.
    Leaderless,
    /// A CORRUPT alarm is raised for some member.
    Corrupt,
}

impl Doubt {
    /// The problem code in the manifest.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Lagging => "member-lagging",
            Self::Leaderless => "member-leaderless",
            Self::Corrupt => "alarm-corrupt",
        }
    }
}

/// The member to stream from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    pub member: MemberStatus,
    /// Entries that the most advanced member has and this one has not applied.
    pub lag: u64,
    pub doubts: Vec<Doubt>,
}

/// Chooses the member with the fewest doubts, then the smallest lag, then a
/// follower before the leader: streaming costs its disk and cache.
///
/// # Errors
/// `etcd.no-member` when only learners answered, when members belong to
/// different clusters, or when the best one has no leader and `degraded` is not
/// set.
pub fn choose(members: &[MemberStatus], degraded: bool) -> Result<Choice, Failure> {
    let endpoints = || members.iter().map(|m| m.endpoint.as_str()).collect::<Vec<_>>().join(", ");
    if let Some(other) = members.iter().find(|m| m.cluster_id != members[0].cluster_id) {
        let cause =
            format!("belongs to cluster {:016x}, {} to {:016x}", other.cluster_id, members[0].endpoint, members[0].cluster_id);
        return Err(Failure::new(&codes::ETCD_NO_MEMBER, &other.endpoint, cause).next("list the endpoints of one cluster only"));
    }
    let newest = members.iter().map(|m| m.raft_index).max().unwrap_or(0);
    let best = members
        .iter()
        .filter(|m| !m.learner)
        .map(|m| assess(m, newest))
        .min_by_key(|c| (c.doubts.len(), c.lag, c.member.leader == c.member.member_id))
        .ok_or_else(|| Failure::new(&codes::ETCD_NO_MEMBER, endpoints(), "only learners answered, and they may be far behind"))?;
    if best.doubts.contains(&Doubt::Leaderless) && !degraded {
        return Err(Failure::new(&codes::ETCD_NO_MEMBER, &best.member.endpoint, "etcdserver: no leader"));
    }
    Ok(best)
}

/// One member beside the others, whose newest entry is `newest`.
#[must_use]
pub fn assess(member: &MemberStatus, newest: u64) -> Choice {
    let lag = newest.saturating_sub(member.raft_applied_index);
    let mut doubts = Vec::new();
    if lag > LAG_LIMIT {
        doubts.push(Doubt::Lagging);
    }
    if member.leader == 0 {
        doubts.push(Doubt::Leaderless);
    }
    if member.errors.iter().any(|error| error.contains("CORRUPT")) {
        doubts.push(Doubt::Corrupt);
    }
    Choice { member: member.clone(), lag, doubts }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: u64) -> MemberStatus {
        MemberStatus {
            endpoint: format!("https://m{id}:2379"),
            cluster_id: 7,
            member_id: id,
            version: "3.6.16".into(),
            revision: 100,
            leader: 1,
            raft_index: 5_000,
            raft_applied_index: 5_000,
            db_bytes: 1 << 20,
            learner: false,
            errors: vec![],
        }
    }

    #[test]
    fn a_healthy_follower_is_preferred() {
        let choice = choose(&[member(1), member(2)], false).unwrap();
        assert_eq!((choice.member.member_id, choice.lag, choice.doubts), (2, 0, vec![]));
    }

    #[test]
    fn learners_are_never_chosen() {
        let learner = MemberStatus { learner: true, ..member(2) };
        assert_eq!(choose(&[learner.clone(), member(1)], false).unwrap().member.member_id, 1);
        assert_eq!(choose(&[learner], true).unwrap_err().code().name, "etcd.no-member");
    }

    #[test]
    fn a_lagging_or_corrupt_member_is_taken_last_and_with_its_doubt() {
        let lagging = MemberStatus { raft_applied_index: 100, ..member(2) };
        assert_eq!(choose(&[lagging.clone(), member(1)], false).unwrap().member.member_id, 1);
        let lagging = MemberStatus { raft_applied_index: 100, raft_index: 5_000, ..member(2) };
        let corrupt = MemberStatus { errors: vec!["memberID:3 alarm:CORRUPT ".into()], ..member(1) };
        assert_eq!(choose(std::slice::from_ref(&corrupt), false).unwrap().doubts, [Doubt::Corrupt]);
        assert_eq!(choose(&[corrupt, lagging], false).unwrap().doubts.len(), 1);
    }

    #[test]
    fn without_a_leader_a_snapshot_needs_the_operators_word() {
        let alone = MemberStatus { leader: 0, errors: vec!["etcdserver: no leader".into()], ..member(1) };
        assert_eq!(choose(std::slice::from_ref(&alone), false).unwrap_err().code().name, "etcd.no-member");
        assert_eq!(choose(&[alone], true).unwrap().doubts, [Doubt::Leaderless]);
    }

    #[test]
    fn members_of_two_clusters_are_refused() {
        let stranger = MemberStatus { cluster_id: 8, ..member(2) };
        let failure = choose(&[member(1), stranger], false).unwrap_err();
        assert!(failure.to_string().contains("0000000000000008"), "{failure}");
    }
}
