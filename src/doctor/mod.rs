//! Does this host do what it promises? Every answer comes from a real request,
//! also from those that must be denied.
//!
//! Owns: the [`Check`] trait, one file per thing looked at, the codes of what
//! can be found ([`codes`]), and running all checks beside each other, each
//! with a deadline of its own. Must never: print, change anything that counts,
//! or call good what was not asked.
//!
//! What it writes, and nothing else:
//!
//! - a file in the state directory, and a directory below `rehearsal.scratch_dir` where rehearsals run: both are removed again;
//! - in each bucket that it may put to, an object `<prefix>/<cluster>/doctor/<host>-<day>` of some hundred bytes, one a day: a credential that
//!   may only put cannot take it away again, and whoever may delete may delete it; where this host may delete, it does;
//! - in the snapshots' bucket an upload in parts that it gives up at once;
//! - the catalog, which it folds from the ledger as every command does.

mod certificates;
mod clocks;
pub mod codes;
mod crossing;
mod encryption;
mod files;
pub mod finding;
mod history;
mod identities;
mod members;
mod node;
mod peek;
mod recorded;
mod roles;
mod signing;
mod space;
mod state;
mod stores;
mod tools;
mod x509;

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use tokio::sync::OnceCell;

pub use finding::{Area, Finding, Findings, Status, exit};

use recorded::Recorded;

use crate::base::units::human_duration;
use crate::ledger::Place;
use crate::sandbox::Places;
use crate::station::Station;

/// A store over a slow line answers in seconds; what takes longer than this
/// would hold up a person who waits for the whole answer.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// What is examined.
#[derive(Debug)]
pub struct Host {
    pub station: Station,
    /// Where its configuration lies.
    pub file: PathBuf,
    /// Where programs are looked for.
    pub places: Places,
    /// Read once for all checks.
    recorded: OnceCell<Recorded>,
}

impl Host {
    #[must_use]
    pub fn new(station: Station, file: PathBuf, places: Places) -> Self {
        Self { station, file, places, recorded: OnceCell::new() }
    }

    /// What the ledger says, or what this host last saw of it.
    async fn recorded(&self) -> &Recorded {
        self.recorded.get_or_init(|| Recorded::read(&self.station)).await
    }
}

/// One thing to look at.
#[async_trait]
pub trait Check: Send + Sync {
    fn area(&self) -> Area;

    /// What is looked at, in words that fit before "gave no answer".
    fn name(&self) -> String;

    /// Looks. What it finds out is an answer, good or bad; it never fails.
    async fn examine(&self, host: &Host, findings: &Findings);
}

/// All checks.
#[must_use]
pub fn checks() -> Vec<Box<dyn Check>> {
    vec![
        Box::new(roles::Roles),
        Box::new(files::Files),
        Box::new(state::StateDirectory),
        Box::new(members::Members),
        Box::new(certificates::ClientCertificates),
        Box::new(certificates::ServerCertificates),
        Box::new(stores::StoreRights(Place::Snapshots)),
        Box::new(stores::StoreRights(Place::Escrow)),
        Box::new(stores::StoreRights(Place::Ledger)),
        Box::new(crossing::Crossing),
        Box::new(encryption::Encryption),
        Box::new(signing::Signing),
        Box::new(identities::IdentityFiles),
        Box::new(history::History),
        Box::new(clocks::Kernel),
        Box::new(clocks::Records),
        Box::new(clocks::Members),
        Box::new(clocks::Stores),
        Box::new(tools::Programs),
        Box::new(tools::FenceCheck),
        Box::new(node::NodeCheck),
        Box::new(tools::Memory),
        Box::new(space::Scratch),
    ]
}

/// Runs `checks` beside each other and gives what they found, area by area, the
/// worst first: of areas and inside each. A check that does not end within
/// `deadline` is one finding more, and holds up nothing else.
pub async fn examine(host: &Host, checks: &[Box<dyn Check>], deadline: Duration) -> Vec<Finding> {
    let running = checks.iter().map(|check| async {
        let findings = Findings::of(check.area());
        if tokio::time::timeout(deadline, check.examine(host, &findings)).await.is_err() {
            findings.found(&codes::NO_ANSWER, check.name(), format!("gave no answer within {}", human_duration(deadline)));
        }
        findings.take()
    });
    let mut found: Vec<Finding> = join_all(running).await.into_iter().flatten().collect();
    let worst = |area: Area, found: &[Finding]| found.iter().filter(|f| f.area == area).map(|f| f.status).min();
    let order: Vec<_> = Area::ALL.iter().map(|area| worst(*area, &found)).collect();
    // Stable: checks of one area keep their order among equals.
    found.sort_by_key(|finding| (order[finding.area as usize], finding.area, finding.status));
    found
}

/// Runs blocking work where a hung file system holds up nobody else.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(answer) => answer,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
