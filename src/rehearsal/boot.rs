//! Rung `boot`: a real etcd runs the restored data, and holds what the manifest says.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::base::codes;
use crate::base::failure::Failure;
use crate::base::ids::Lineage;
use crate::base::units::count;
use crate::record::manifest::Manifest;
use crate::rehearsal::ladder::{Ladder, StepResult, not_yet};
use crate::rehearsal::member::{self, ETCD, ETCDUTL, Member, MemberFiles, MemberPki};
use crate::rehearsal::serve::Serving;
use crate::runbook::facts::{Deviation, EtcdFacts, Facts, FenceFacts, HashFacts, RestoreFacts, TearDownFacts, ToolVersion};
use crate::runbook::run::{Done, StepFailure};
use crate::sandbox::{Found, Program, Sandbox, tools};

/// What runs, and where.
#[derive(Debug)]
pub struct ScratchCluster {
    // Dropped in this order: processes before the fence around them.
    pub(super) member: Option<Member>,
    pub(super) files: Option<MemberFiles>,
    /// Who may speak to the member.
    pub(super) pki: Option<MemberPki>,
    data: PathBuf,
    pub(super) sandbox: Sandbox,
}

impl ScratchCluster {
    /// Nothing runs in it yet.
    pub(super) fn of(sandbox: Sandbox) -> Self {
        Self { member: None, files: None, pki: None, data: PathBuf::new(), sandbox }
    }
}

impl Ladder<'_> {
    pub(super) async fn restore_data(&mut self, limit: Duration) -> StepResult {
        let manifest = self.manifest()?;
        let wanted = member::wanted_versions(manifest.image.storage_version.as_deref(), &manifest.taken.member.version)?;
        let etcdutl = tools::find(ETCDUTL, &wanted, self.host.places).await?;
        let image = self.image()?.descriptor()?;
        let root = &self.host.config.rehearsal.scratch_dir;
        let sandbox = Sandbox::up_within(root, &self.run, self.host.fencing(), self.host.limits()).await?;
        let fence = sandbox.fence();
        let mut facts = Facts {
            fence: Some(FenceFacts {
                fenced: fence.is_raised(),
                statement: fence.to_string(),
                namespaces: fence.namespaces().into_iter().map(str::to_owned).collect(),
            }),
            tools: vec![version(ETCDUTL, &etcdutl)],
            ..Facts::default()
        };
        // Fresh: ids are derived from it, and no member of the source has them.
        let token = format!("rehearsal-{}", self.host.entropy.hex(32));
        let data = member::restore(&sandbox, &etcdutl, image, &token, limit).await;
        // The sandbox is kept whatever happened: tear-down ends it, and says so.
        let scratch = self.scratch.insert(ScratchCluster::of(sandbox));
        scratch.data = match data {
            Ok(data) => data,
            Err(failure) => return Err(StepFailure { failure, facts: Box::new(facts) }),
        };
        let data_bytes = size_of(scratch.data.join("member/snap/db")).await;
        let tool = format!("etcdutl {}", etcdutl.version);
        let summary = format!("written by {tool}");
        facts.restore = Some(RestoreFacts { token, data_bytes, tool });
        Ok(Done { summary, facts })
    }

    pub(super) async fn start_etcd(&mut self) -> StepResult {
        let manifest = self.manifest.as_ref().ok_or_else(|| not_yet("fetch-manifest"))?;
        let scratch = self.scratch.as_mut().ok_or_else(|| not_yet("restore-data"))?;
        let wanted = member::wanted_versions(manifest.image.storage_version.as_deref(), &manifest.taken.member.version)?;
        let etcd = tools::find(ETCD, &wanted, self.host.places).await?;
        let tools = vec![version(ETCD, &etcd)];
        let pki = MemberPki::new(self.host.clock.as_ref(), self.days)?;
        let files = pki.write(&scratch.sandbox)?;
        let limit = self.host.config.rehearsal.etcd_ready_timeout;
        let started = member::start(&scratch.sandbox, &etcd, &scratch.data, manifest.image.bytes, &pki, &files, limit).await;
        let member = match started {
            Ok(member) => member,
            Err(failure) => return Err(StepFailure { failure, facts: Box::new(Facts { tools, ..Facts::default() }) }),
        };
        let status = &member.status;
        let lineage = Lineage::of_cluster(status.cluster_id);
        if lineage == manifest.cluster.lineage {
            let cause = "the restored member has the cluster id of its source, and could join it";
            return Err(Failure::new(&codes::REHEARSAL_HASH, &lineage, cause).into());
        }
        let disarmed = member.disarm_nospace(&pki).await?;
        let deviations = (disarmed > 0).then(|| Deviation {
            what: format!("{} NOSPACE disarmed", count(disarmed, "alarm")),
            why: "alarms survive a restore, and with this one etcd refuses every write".to_owned(),
        });
        let summary = format!("etcd {} runs it as cluster {lineage}", status.version);
        let facts = EtcdFacts {
            version: status.version.clone(),
            cluster_id: lineage.to_string(),
            member_id: format!("{:016x}", status.member_id),
        };
        (scratch.member, scratch.files, scratch.pki) = (Some(member), Some(files), Some(pki));
        let deviations = deviations.into_iter().collect();
        Ok(Done { summary, facts: Facts { etcd: Some(facts), tools, deviations, ..Facts::default() } })
    }

    pub(super) async fn compare_hash(&mut self) -> StepResult {
        let manifest = self.manifest()?;
        let member = self.scratch.as_ref().and_then(|scratch| scratch.member.as_ref()).ok_or_else(|| not_yet("start-etcd"))?;
        let image = &manifest.image;
        let answer = member.hash_kv(image.revision).await?;
        let hash_expected = self.expected_hash(manifest, answer.compact_revision).await?;
        let facts = HashFacts {
            revision: image.revision,
            compact_revision: answer.compact_revision,
            hash_expected,
            hash_measured: answer.hash,
            count_expected: image.live_keys,
            count_measured: member.count(image.revision).await?,
        };
        let all = Facts { hash: Some(facts.clone()), ..Facts::default() };
        if facts.equal() {
            let summary =
                format!("hash {} and {} at revision {}", facts.hash_measured, count(facts.count_measured, "key"), image.revision);
            return Ok(Done { summary, facts: all });
        }
        let cause = format!(
            "hash {} where the manifest says {}; {} keys where it says {}",
            facts.hash_measured, facts.hash_expected, facts.count_measured, facts.count_expected
        );
        Err(StepFailure { failure: Failure::new(&codes::REHEARSAL_HASH, &manifest.id, cause), facts: Box::new(all) })
    }

    /// The manifest's hash where the member compacted nothing more; else the
    /// image's own at the member's compact revision: only equal ones compare.
    async fn expected_hash(&self, manifest: &Manifest, compact_revision: i64) -> Result<u32, Failure> {
        let image = &manifest.image;
        if compact_revision == image.compact_revision {
            return Ok(image.hash_kv);
        }
        let (mapped, revision) = (Arc::clone(&self.image()?.mapped), image.revision);
        let hash = tokio::task::spawn_blocking(move || {
            let contents = mapped.contents().map_err(|broken| broken.to_string())?;
            contents.hash_kv_at(revision, compact_revision).map_err(|none| none.to_string())
        });
        let hash = hash.await.map_err(|e| Failure::because(&codes::REHEARSAL_HASH, &manifest.id, &e))?;
        hash.map_err(|cause| Failure::new(&codes::REHEARSAL_HASH, &manifest.id, cause))
    }
}

/// Ends all processes, lowers the fence and removes the directory.
pub(super) async fn tear_down(serving: Serving, scratch: Option<ScratchCluster>) -> Result<TearDownFacts, Failure> {
    let mut facts = TearDownFacts::default();
    if let Some(apiserver) = serving.apiserver {
        apiserver.stop().await?;
        facts.processes_ended += 1;
    }
    let Some(ScratchCluster { member, sandbox, .. }) = scratch else { return Ok(facts) };
    if let Some(member) = member {
        member.stop().await?;
        facts.processes_ended += 1;
    }
    sandbox.down().await?;
    facts.directories_removed = 1;
    Ok(facts)
}

pub(super) fn version(program: Program, found: &Found) -> ToolVersion {
    ToolVersion { name: program.name.to_owned(), version: found.version.to_string() }
}

/// Zero when it cannot be read: the number is for the report alone.
async fn size_of(path: PathBuf) -> u64 {
    tokio::fs::metadata(path).await.map_or(0, |metadata| metadata.len())
}
