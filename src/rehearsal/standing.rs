//! A restored cluster that stays up: the same climb, without the tear-down.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::base::codes;
use crate::base::failure::Failure;
use crate::rehearsal::boot::{self, ScratchCluster};
use crate::rehearsal::kubeconfig;
use crate::rehearsal::ladder::{Ladder, RehearsalHost, Signing};
use crate::rehearsal::pki::DAYS_UP;
use crate::rehearsal::rehearse::{self, Rehearsed, Request};
use crate::rehearsal::serve::Serving;
use crate::rehearsal::subject::Subject;
use crate::report::model::Report;
use crate::runbook::engine::Outcome;
use crate::runbook::facts::TearDownFacts;
use crate::runbook::journal::{Journal, RunHead};
use crate::runbook::model::Runbook;
use crate::runbook::run::Driver;
use crate::sandbox::Leftover;

/// How the scratch directory of a cluster that stays up is told from a
/// rehearsal's: the run's id follows.
pub const NAME: &str = "restore-";

/// Whoever waits for a cluster does not wait for the ledger.
const PATIENCE: Duration = Duration::from_secs(10);

/// What runs, and everything that keeps it running. Dropping it ends it all.
#[derive(Debug)]
pub struct Standing {
    // Dropped in this order: the API server before the member below it.
    serving: Serving,
    scratch: ScratchCluster,
    pub access: Access,
}

/// How somebody outside the fence gets in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// To the API server.
    Kubernetes { address: String, kubeconfig: PathBuf, not_after: String },
    /// To etcd alone: certificates for etcdctl.
    Etcd { address: String, authority: PathBuf, certificate: PathBuf, key: PathBuf, not_after: String },
}

/// Climbs as a rehearsal does and leaves up what stands then. Where a step
/// failed, or somebody stopped the run, all is torn down and nothing stands.
///
/// # Errors
/// As [`rehearse::rehearse`]; nothing is left running.
pub async fn raise(
    host: &RehearsalHost<'_>,
    subject: &Subject,
    journal: Arc<dyn Journal>,
    request: &Request<'_>,
) -> Result<(Rehearsed, Option<Standing>), Failure> {
    let leftovers = rehearse::sweep(&host.config.rehearsal.scratch_dir).await?;
    let head = rehearse::begin(host, subject, &journal, request).await?;
    let mut ladder = Ladder::new(host, subject, format!("{NAME}{}", head.run)).lasting(DAYS_UP);
    let driver = Driver {
        runbook: request.runbook,
        head: &head,
        journal: Arc::clone(&journal),
        clock: Arc::clone(&host.clock),
        process: head.process.clone(),
        cancel: request.cancel.clone(),
        people: request.people,
        watch: request.watch,
    };
    let (outcome, standing) = match driver.drive_to(&mut ladder, &|step, is_well| step.always && is_well).await? {
        Some(outcome) => (outcome, None),
        None => {
            let standing = ladder.stand(head.run.as_str())?;
            (driver.leave().await?, standing)
        }
    };
    let rehearsed = concluded(host, subject, journal, request.runbook, head, outcome, leftovers).await?;
    Ok((rehearsed, standing))
}

/// The report of a run whose result somebody waits for: a record that cannot be
/// written takes it from nobody.
pub(super) async fn concluded(
    host: &RehearsalHost<'_>,
    subject: &Subject,
    journal: Arc<dyn Journal>,
    runbook: &Runbook,
    head: RunHead,
    outcome: Outcome,
    leftovers: Vec<Leftover>,
) -> Result<Rehearsed, Failure> {
    let run = head.run.clone();
    let events = rehearse::on_a_blocking_thread(move || journal.events(&run)).await?;
    let report = Report::build(&head, runbook, &events);
    let mut warnings = Vec::new();
    if let Some(signing) = &host.signing {
        let written = rehearse::append(host, signing, subject, &head, &report, &outcome, &events);
        warnings.extend(match written {
            Ok(()) => delivered(host, signing).await,
            Err(failure) => Some(failure),
        });
    }
    Ok(Rehearsed { run: head.run, outcome, report, leftovers, warnings })
}

/// Why the records are still in the outbox, if they are.
async fn delivered(host: &RehearsalHost<'_>, signing: &Signing<'_>) -> Option<Failure> {
    match tokio::time::timeout(PATIENCE, rehearse::deliver(host, signing)).await {
        Ok(answer) => answer.unwrap_or_else(Some),
        Err(_) => Some(Failure::new(&codes::LEDGER_UNREACHABLE, "the ledger", "no answer in time")),
    }
}

impl Ladder<'_> {
    /// Takes what runs out of the ladder, with a way in. The opened image and
    /// the keys are forgotten: what runs has its own.
    fn stand(mut self, run: &str) -> Result<Option<Standing>, Failure> {
        let serving = std::mem::take(&mut self.serving);
        let Some(scratch) = self.scratch.take() else { return Ok(None) };
        let name = format!("holdfast-{run}");
        let sandbox = &scratch.sandbox;
        let access = match (&serving.apiserver, &serving.pki, &scratch.member, &scratch.pki) {
            (Some(server), Some(pki), ..) => {
                let text = kubeconfig::of(&name, server.address(), pki);
                Access::Kubernetes {
                    address: format!("https://{}", server.address()),
                    kubeconfig: sandbox.write_outside("kubeconfig", text.expose().as_bytes())?,
                    not_after: pki.authority.not_after(),
                }
            }
            (_, _, Some(member), Some(pki)) => Access::Etcd {
                address: member.endpoint().to_owned(),
                authority: sandbox.write_outside("etcdctl-ca.crt", pki.authority.certificate().as_bytes())?,
                certificate: sandbox.write_outside("etcdctl.crt", pki.client.certificate.as_bytes())?,
                key: sandbox.write_outside("etcdctl.key", pki.client.key.expose().as_bytes())?,
                not_after: pki.authority.not_after(),
            },
            _ => return Ok(None),
        };
        Ok(Some(Standing { serving, scratch, access }))
    }
}

impl Standing {
    /// Its scratch directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.scratch.sandbox.directory()
    }

    /// What keeps it from the world, as a sentence.
    #[must_use]
    pub fn fence(&self) -> String {
        self.scratch.sandbox.fence().to_string()
    }

    /// Ends all processes, lowers the fence and removes the directory.
    ///
    /// # Errors
    /// `sandbox.failed` names what could not be ended or removed.
    pub async fn down(self) -> Result<TearDownFacts, Failure> {
        boot::tear_down(self.serving, Some(self.scratch)).await
    }
}
