//! Rung `serve`: a real API server reads every object back.

use std::path::PathBuf;

use crate::base::codes;
use crate::base::failure::Failure;
use crate::base::ids::SnapshotId;
use crate::base::units::{count, human_duration};
use crate::rehearsal::apiserver::{self, ApiPki, ApiServer, ApiSetup, KUBE_APISERVER};
use crate::rehearsal::boot::version;
use crate::rehearsal::encryption;
use crate::rehearsal::ladder::{Ladder, StepResult, not_yet};
use crate::rehearsal::reading::{self, Reading};
use crate::runbook::facts::{ApiServerFacts, CertificateFacts, Deviation, EncryptionFacts, Facts, LeftOut};
use crate::runbook::run::{Done, StepFailure};
use crate::sandbox::tools;

/// Resources that a failure names; the report holds all.
const NAMED: usize = 10;
/// Where Kubernetes keeps its objects unless told otherwise.
const USUAL_PREFIX: &str = "/registry";

/// What stands on the restored member.
#[derive(Debug, Default)]
pub struct Serving {
    pub(super) apiserver: Option<ApiServer>,
    pub(super) pki: Option<ApiPki>,
    /// None before it is built; none inside where nothing is encrypted.
    encryption_config: Option<Option<PathBuf>>,
}

impl Ladder<'_> {
    pub(super) async fn build_encryption_config(&mut self) -> StepResult {
        let manifest = self.manifest()?;
        let sandbox = &self.scratch.as_ref().ok_or_else(|| not_yet("restore-data"))?.sandbox;
        let record = self.subject.host_record.as_ref();
        let built = encryption::build(self.shape(), &manifest.keys, self.keys()?);
        let mut rules = Vec::new();
        let mut path = None;
        if let Some(config) = &built.config {
            rules = encryption::describe(config);
            path = Some(sandbox.write_private("encryption.yaml", config.to_yaml().expose().as_bytes())?);
        }
        let summary = match built.appended.len() as u64 {
            _ if path.is_none() => "nothing is encrypted at rest".to_owned(),
            0 => "the source's own order, no key appended".to_owned(),
            appended => format!("{} appended", count(appended, "key")),
        };
        let facts = EncryptionFacts {
            host: record.map(|(record, _)| record.host.to_string()),
            host_record: record.map(|(_, reference)| reference.clone()),
            rules,
            appended: built.appended,
        };
        self.serving.encryption_config = Some(path);
        let facts = Facts { encryption: Some(facts), deviations: built.deviations, ..Facts::default() };
        Ok(Done { summary, facts })
    }

    pub(super) async fn make_certificates(&mut self) -> StepResult {
        let pki = ApiPki::new(self.host.clock.as_ref(), self.days)?;
        let facts = CertificateFacts {
            authorities: vec![pki.authority.name().to_owned()],
            leaf_certificates: ApiPki::LEAVES,
            not_after: pki.authority.not_after(),
            production_authority: false,
        };
        self.serving.pki = Some(pki);
        let deviation = Deviation {
            what: "certificate authority and service account key are throwaway".to_owned(),
            why: "nothing made in a rehearsal may be accepted by production".to_owned(),
        };
        let summary = "one authority and one service account key, made now".to_owned();
        let facts = Facts { certificates: Some(facts), deviations: vec![deviation], ..Facts::default() };
        Ok(Done { summary, facts })
    }

    pub(super) async fn start_apiserver(&mut self) -> StepResult {
        let scratch = self.scratch.as_ref().ok_or_else(|| not_yet("restore-data"))?;
        let (Some(member), Some(etcd_files)) = (&scratch.member, &scratch.files) else {
            return Err(not_yet("start-etcd").into());
        };
        let pki = self.serving.pki.as_ref().ok_or_else(|| not_yet("make-certificates"))?;
        let config = self.serving.encryption_config.as_ref().ok_or_else(|| not_yet("build-encryption-config"))?;
        let program = tools::find(KUBE_APISERVER, &apiserver::wanted_versions(), self.host.places).await?;
        let prefix = self.prefix.clone().unwrap_or_else(|| USUAL_PREFIX.to_owned());
        let setup = ApiSetup {
            program: &program,
            etcd_port: member.port,
            etcd_files,
            prefix: &prefix,
            encryption_config: config.as_ref(),
            pki,
        };
        let limit = self.host.config.rehearsal.apiserver_ready_timeout;
        let tools = vec![version(KUBE_APISERVER, &program)];
        let started = apiserver::start(&scratch.sandbox, &setup, self.host.clock.as_ref(), limit).await;
        let server = started
            .map_err(|failure| StepFailure { failure, facts: Box::new(Facts { tools: tools.clone(), ..Facts::default() }) })?;
        let ready_ms = u64::try_from(server.ready.as_millis()).unwrap_or(u64::MAX);
        let facts = ApiServerFacts { version: program.version.to_string(), prefix, ready_ms };
        let summary = format!("kube-apiserver {} ready after {}", program.version, human_duration(server.ready));
        self.serving.apiserver = Some(server);
        let deviations = vec![Deviation {
            what: "webhook admission and admission policies are off".to_owned(),
            why: "webhooks lead out of the fence, and nothing is admitted here but reads".to_owned(),
        }];
        Ok(Done { summary, facts: Facts { apiserver: Some(facts), tools, deviations, ..Facts::default() } })
    }

    pub(super) async fn read_everything(&mut self) -> StepResult {
        let manifest = self.manifest()?;
        let server = self.serving.apiserver.as_ref().ok_or_else(|| not_yet("start-apiserver"))?;
        let index = self.index.as_ref().ok_or_else(|| not_yet("decrypt-objects"))?;
        let read = reading::read_everything(&server.client, index, manifest.image.revision).await;
        let mut reading = match read {
            Ok(reading) => reading,
            Err(failure) => return Err(server.with_causes(failure).into()),
        };
        reading.left_out.extend(self.other.iter().map(|(prefix, live)| LeftOut {
            what: format!("keys below {prefix}"),
            objects: Some(*live),
            why: "they have no REST endpoint: proven by rungs open and boot".to_owned(),
        }));
        judge(&manifest.id, reading)
    }
}

/// Equal to the snapshot, different, or nothing to tell by.
fn judge(snapshot: &SnapshotId, reading: Reading) -> StepResult {
    let Reading { facts, left_out, bad, undecryptable } = reading;
    let objects: u64 = facts.resources.iter().filter_map(|resource| resource.api).sum();
    let listed = facts.resources.iter().filter(|resource| resource.api.is_some()).count() as u64;
    let (objects_read, of) = (count(objects, "object"), count(listed, "resource"));
    let summary = format!("{objects_read} of {of} equal to the snapshot, {} decrypted by the API server", facts.encrypted_read);
    let failure = if !bad.is_empty() {
        let code = if undecryptable { &codes::REHEARSAL_UNDECRYPTABLE } else { &codes::REHEARSAL_COUNT };
        let named = bad.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join("; ");
        Some(Failure::new(code, snapshot, format!("{} differ: {named}", count(bad.len() as u64, "resource"))))
    } else if objects == 0 {
        // Nothing differs where nothing is: that proves no restore.
        Some(Failure::new(&codes::REHEARSAL_NO_OBJECTS, snapshot, "it holds no object that the API server could return"))
    } else {
        None
    };
    let facts = Facts { read: Some(facts), left_out, ..Facts::default() };
    match failure {
        None => Ok(Done { summary, facts }),
        Some(failure) => Err(StepFailure { failure, facts: Box::new(facts) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runbook::facts::{ReadFacts, ResourceRead};

    fn judged(resources: &[(&str, Option<u64>)], bad: &[&str]) -> Result<String, &'static str> {
        let read = |(resource, api): &(&str, Option<u64>)| ResourceRead {
            group: String::new(),
            resource: (*resource).to_owned(),
            snapshot: api.unwrap_or(1),
            api: *api,
            note: None,
        };
        let facts = ReadFacts { revision: 7, resources: resources.iter().map(read).collect(), encrypted_read: 0 };
        let bad = bad.iter().map(|what| (*what).to_owned()).collect();
        let id = "20260101T000000Z-00000000".parse().unwrap();
        let result = judge(&id, Reading { facts, bad, ..Reading::default() });
        result.map(|done| done.summary).map_err(|failed| {
            assert!(failed.facts.read.is_some(), "the report shows what was read all the same");
            failed.failure.code().name
        })
    }

    #[test]
    fn objects_that_are_equal_pass_and_those_that_differ_do_not() {
        let summary = judged(&[("pods", Some(2)), ("secrets", Some(1)), ("widgets", None)], &[]).unwrap();
        assert_eq!(summary, "3 objects of 2 resources equal to the snapshot, 0 decrypted by the API server");
        assert_eq!(judged(&[("pods", Some(2))], &["pods: 1 is gone"]), Err("rehearsal.count"));
        assert_eq!(judged(&[("pods", Some(0))], &["pods: 1 is gone"]), Err("rehearsal.count"));
    }

    #[test]
    fn a_snapshot_without_objects_is_not_called_equal() {
        assert_eq!(judged(&[], &[]), Err("rehearsal.no-objects"));
        assert_eq!(judged(&[("widgets", None)], &[]), Err("rehearsal.no-objects"), "all of it was left out");
        assert_eq!(codes::REHEARSAL_NO_OBJECTS.exit, crate::base::exit::Exit::CouldNotRun);
    }
}
