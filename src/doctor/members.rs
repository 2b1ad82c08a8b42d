//! The members of etcd: all that the cluster lists, each asked itself.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;

use super::{Area, Check, Findings, Host, codes};
use crate::base::codes as failures;
use crate::base::failure::Failure;
use crate::base::units::human_bytes;
use crate::config::{Config, EtcdConfig};
use crate::etcd::member::{Doubt, assess, choose};
use crate::etcd::{EtcdClient, ListedMember, MemberStatus, Source};

/// Parts of a hundred: above this a limit is near.
const NEAR: u64 = 80;

/// Members answer Status from memory, and a stream begins at once.
const STREAM_LIMIT: Duration = Duration::from_secs(15);

pub(super) struct Members;

/// One member's answer.
type Answer = (MemberStatus, Option<u64>);

#[async_trait]
impl Check for Members {
    fn area(&self) -> Area {
        Area::Etcd
    }

    fn name(&self) -> String {
        "the members of etcd".to_owned()
    }

    async fn examine(&self, host: &Host, findings: &Findings) {
        let config = &host.station.config;
        let Some(etcd) = &config.etcd else {
            return findings.not_applicable("etcd", "no snapshot is taken here");
        };
        let client = match EtcdClient::new(etcd) {
            Ok(client) => client,
            Err(failure) => return findings.failed(&failure),
        };
        let (answers, listed) = tokio::join!(ask_all(&client, &etcd.endpoints), client.members());
        let mut answered: Vec<Answer> = Vec::new();
        for answer in answers {
            match answer {
                Ok(answer) => answered.push(answer),
                Err(failure) => findings.failed(&failure),
            }
        }
        // Without an answer to either nobody knows of other members.
        let listed = listed.unwrap_or_default();
        answered.extend(ask_others(&client, etcd, &listed, &answered, findings).await);
        if answered.is_empty() {
            return;
        }
        judge(findings, config, &answered);
        try_stream(findings, &client, answered.iter().map(|(status, _)| status.clone()).collect()).await;
    }
}

async fn ask_all(client: &EtcdClient, endpoints: &[String]) -> Vec<Result<Answer, Failure>> {
    join_all(endpoints.iter().map(|endpoint| client.status(endpoint))).await
}

/// Members that no configured endpoint leads to.
async fn ask_others(
    client: &EtcdClient,
    etcd: &EtcdConfig,
    listed: &[ListedMember],
    answered: &[Answer],
    findings: &Findings,
) -> Vec<Answer> {
    let known: BTreeSet<u64> = answered.iter().map(|(status, _)| status.member_id).collect();
    let mut others = Vec::new();
    for member in listed.iter().filter(|member| !known.contains(&member.id)) {
        match member.client_urls.iter().map(|url| url.trim_end_matches('/')).collect::<Vec<_>>().as_slice() {
            [] => findings.found(&codes::MEMBER_UNSTARTED, named(member), "was added to the cluster and has never started"),
            // One of the configured endpoints, which was asked already.
            urls if urls.iter().any(|url| etcd.endpoints.iter().any(|endpoint| endpoint == url)) => {}
            [url, ..] => others.push((member, (*url).to_owned())),
        }
    }
    if !others.is_empty() && !answered.is_empty() {
        let names: Vec<_> = others.iter().map(|(member, _)| named(member)).collect();
        findings.found(&codes::ENDPOINTS_FEW, "etcd.endpoints", format!("lacks {}", names.join(", ")));
    }
    let asked = join_all(others.iter().map(|(_, url)| client.status(url))).await;
    let mut found = Vec::new();
    for ((member, _), answer) in others.iter().zip(asked) {
        match answer {
            Ok(answer) => found.push(answer),
            Err(failure) => {
                let text = format!("({}) does not answer from here: {}", failure.object(), failure.cause());
                findings.found(&codes::MEMBER_UNSEEN, named(member), text);
            }
        }
    }
    found
}

/// What the answers mean, beside each other.
fn judge(findings: &Findings, config: &Config, answered: &[Answer]) {
    let newest = answered.iter().map(|(status, _)| status.raft_index).max().unwrap_or(0);
    let (first, _) = &answered[0];
    for (status, quota) in answered {
        let bad_before = findings.troubles();
        if status.cluster_id != first.cluster_id {
            let text = format!("belongs to cluster {:016x}, {} to {:016x}", status.cluster_id, first.endpoint, first.cluster_id);
            findings.found(&codes::TWO_CLUSTERS, &status.endpoint, text);
            continue;
        }
        let choice = assess(status, newest);
        for doubt in &choice.doubts {
            match doubt {
                Doubt::Lagging => {
                    findings.found(&codes::MEMBER_LAGS, &status.endpoint, format!("is {} entries behind the newest", choice.lag));
                }
                Doubt::Leaderless => findings.found(&codes::NO_LEADER, &status.endpoint, "knows no leader"),
                Doubt::Corrupt => {}
            }
        }
        if status.learner {
            findings.found(&codes::MEMBER_LEARNS, &status.endpoint, "is a learner: no snapshot is taken of it");
        }
        sizes(findings, config, status, *quota);
        if findings.troubles() == bad_before {
            let role = if status.leader == status.member_id { "leader" } else { "follower" };
            let size = human_bytes(status.db_bytes);
            let text = format!("answers: {role}, etcd {}, revision {}, {size}", status.version, status.revision);
            findings.good(&status.endpoint, text);
        }
    }
    alarms(findings, answered);
    let versions: BTreeSet<_> = answered.iter().map(|(status, _)| status.version.as_str()).collect();
    if versions.len() > 1 {
        let versions: Vec<_> = versions.into_iter().collect();
        findings.found(&codes::VERSIONS_DIFFER, "etcd", format!("runs in versions {}", versions.join(", ")));
    }
}

fn sizes(findings: &Findings, config: &Config, status: &MemberStatus, quota: Option<u64>) {
    let size = human_bytes(status.db_bytes);
    let limit = config.backup.image_limit;
    match status.db_bytes {
        bytes if bytes > limit => {
            let text = format!("has a database of {size}, and backup.image_limit is {}", human_bytes(limit));
            findings.found(&codes::IMAGE_LIMIT, &status.endpoint, text);
        }
        bytes if is_near(bytes, limit) => {
            let text = format!("has a database of {size}, and backup.image_limit is {}", human_bytes(limit));
            findings.found(&codes::IMAGE_LIMIT_NEAR, &status.endpoint, text);
        }
        _ => {}
    }
    if let Some(quota) = quota.filter(|quota| is_near(status.db_bytes, *quota)) {
        let text = format!("has a database of {size}, and its quota is {}", human_bytes(quota));
        findings.found(&codes::QUOTA_NEAR, &status.endpoint, text);
    }
}

fn is_near(bytes: u64, limit: u64) -> bool {
    u128::from(bytes) * 100 >= u128::from(limit) * u128::from(NEAR)
}

/// Every member tells the alarms of all, as text. The call that lists them goes
/// through the cluster's log, and nothing here writes to etcd.
fn alarms(findings: &Findings, answered: &[Answer]) {
    let raised: BTreeSet<&str> = answered.iter().flat_map(|(status, _)| &status.errors).map(|text| text.trim()).collect();
    for text in raised {
        match () {
            () if text.contains("CORRUPT") => findings.found(&codes::ALARM_CORRUPT, "etcd", format!("raised an alarm: {text}")),
            () if text.contains("NOSPACE") => findings.found(&codes::ALARM_NOSPACE, "etcd", format!("raised an alarm: {text}")),
            // "no leader" is told of its member.
            () => {}
        }
    }
}

/// Opens a snapshot stream of the member that a snapshot would be taken from,
/// and gives it up after its first message: may this host take one?
async fn try_stream(findings: &Findings, client: &EtcdClient, members: Vec<MemberStatus>) {
    let Ok(choice) = choose(&members, true) else { return };
    let endpoint = &choice.member.endpoint;
    let first = async {
        let mut stream = client.stream(endpoint, !choice.doubts.contains(&Doubt::Leaderless)).await?;
        stream.next().await
    };
    match tokio::time::timeout(STREAM_LIMIT, first).await {
        Ok(Ok(Some(_))) => findings.good(endpoint, "begins a snapshot for this host"),
        Ok(Ok(None)) => {
            findings.failed(&Failure::new(&failures::ETCD_STREAM_BROKEN, endpoint, "it begins a snapshot and sends nothing"))
        }
        Ok(Err(failure)) => findings.failed(&failure),
        Err(_) => findings.failed(&Failure::new(
            &failures::ETCD_STREAM_BROKEN,
            endpoint,
            "it begins a snapshot and sends nothing in time",
        )),
    }
}

fn named(member: &ListedMember) -> String {
    let name = if member.name.is_empty() { "(unnamed)" } else { &member.name };
    format!("member {name} ({:016x})", member.id)
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

    fn judged(answered: &[Answer]) -> Vec<&'static str> {
        let example = include_str!("../../config.example.toml");
        let config = crate::config::parse("config.example.toml", example).unwrap();
        let findings = Findings::of(Area::Etcd);
        judge(&findings, &config, answered);
        findings.take().into_iter().filter_map(|finding| finding.code).collect()
    }

    #[test]
    fn each_trouble_of_a_member_has_its_code_and_a_good_one_has_none() {
        assert_eq!(judged(&[(member(1), Some(2 << 30)), (member(2), None)]), Vec::<&str>::new());
        let cases: [(MemberStatus, Option<u64>, &str); 9] = [
            (MemberStatus { leader: 0, ..member(2) }, None, "doctor.etcd.no-leader"),
            (MemberStatus { raft_applied_index: 100, ..member(2) }, None, "doctor.etcd.lagging"),
            (MemberStatus { learner: true, ..member(2) }, None, "doctor.etcd.learner"),
            (MemberStatus { cluster_id: 8, ..member(2) }, None, "doctor.etcd.two-clusters"),
            (MemberStatus { version: "3.5.9".into(), ..member(2) }, None, "doctor.etcd.versions"),
            (MemberStatus { errors: vec!["memberID:3 alarm:CORRUPT ".into()], ..member(2) }, None, "doctor.etcd.alarm-corrupt"),
            (member(2), Some(1 << 20), "doctor.etcd.quota-near"),
            (MemberStatus { db_bytes: 3 << 30, ..member(2) }, Some(8 << 30), "doctor.etcd.image-limit"),
            (MemberStatus { db_bytes: 1900 << 20, ..member(2) }, Some(8 << 30), "doctor.etcd.image-limit-near"),
        ];
        for (trouble, quota, code) in cases {
            assert_eq!(judged(&[(member(1), None), (trouble, quota)]), [code]);
        }
    }
}
