//! Going on with a run: what of it is done, and which of its records are in the
//! ledger, wait in the outbox, or are nowhere yet.
//!
//! A process can be killed after a run ended and before its records were
//! written. Whoever goes on with it then writes those that are missing, and
//! none twice: a second one would take a number in this host's chain and never
//! find a place in the ledger.

use super::rehearsal::{Climb, Told};
use super::{Current, Station};
use crate::base::codes;
use crate::base::failure::Failure;
use crate::base::ids::RunId;
use crate::catalog::Catalog;
use crate::ledger::{Outbox, Place};
use crate::record::layout::Layout;
use crate::record::manifest::RecordRef;
use crate::rehearsal::rehearse::is_finished;
use crate::runbook::journal::{Journal, RESTORE, RunHead};

/// A run that this command may go on with.
pub(super) struct GoingOn {
    pub head: RunHead,
    /// Its report, where the ledger has it and lacks the attestation.
    pub reported: Option<RecordRef>,
}

impl Station {
    /// # Errors
    /// `run.journal` for a run whose records are all in the ledger, `run.unknown`,
    /// `run.asks-people`; why the ledger gave no answer, where only it knows what is missing.
    pub(super) fn resumable(
        &self,
        current: &Current,
        outbox: &Outbox,
        journal: &dyn Journal,
        run: &RunId,
        climb: &Climb<'_>,
    ) -> Result<GoingOn, Failure> {
        refuse_recorded(&current.catalog, run)?;
        let head = journal.head(run)?;
        if head.attended && climb.desk.is_none() {
            return Err(Failure::new(
                &codes::RUN_ASKS_PEOPLE,
                format_args!("run {run}"),
                "it asks people, and a rehearsal asks nobody",
            )
            .next(format!("go on with it: holdfast runbook resume {run}")));
        }
        if let (Some(silent), true) = (&current.stale, is_finished(&journal.events(run)?)) {
            // What the ledger had before it fell silent may be more than the catalog has seen.
            if !self.report_waits(outbox, run)? {
                let cause =
                    format!("run {run} has ended, and whether its report is in the ledger is not known: {}", silent.cause());
                return Err(
                    Failure::new(silent.code(), silent.object(), cause).next("repair the ledger, then run the command again")
                );
            }
        }
        Ok(GoingOn { reported: current.catalog.report_ref(run)?, head })
    }

    fn report_waits(&self, outbox: &Outbox, run: &RunId) -> Result<bool, Failure> {
        let layout = Layout::new(&self.config.ledger.prefix, &self.config.cluster);
        outbox.waits_for(Place::Ledger, &layout.report(run))
    }

    /// What would make the newest run whole; nothing else names it.
    pub(super) fn tell_of_newest(
        &self,
        current: &Current,
        outbox: &Outbox,
        journal: &dyn Journal,
        tell: &(dyn Fn(&Told<'_>) + Send + Sync),
    ) -> Result<(), Failure> {
        // One that asks people may be waiting for them: `runbook list` shows it.
        // A restore may be up: `scratch list` does.
        let goes_on = |head: &RunHead| !head.attended && head.trigger != RESTORE;
        let Some(newest) = journal.runs()?.into_iter().next().filter(goes_on) else { return Ok(()) };
        if !is_finished(&journal.events(&newest.run)?) {
            tell(&Told::CutOff(&newest.run));
        } else if current.stale.is_none()
            && !is_recorded(&current.catalog, &newest.run)?
            && !self.report_waits(outbox, &newest.run)?
        {
            tell(&Told::Unrecorded(&newest.run));
        }
        Ok(())
    }
}

fn is_recorded(catalog: &Catalog, run: &RunId) -> Result<bool, Failure> {
    Ok(catalog.report_ref(run)?.is_some() && catalog.is_attested(run)?)
}

/// # Errors
/// `run.journal` for a run whose report and attestation are in the ledger.
pub fn refuse_recorded(catalog: &Catalog, run: &RunId) -> Result<(), Failure> {
    if !is_recorded(catalog, run)? {
        return Ok(());
    }
    let cause = "it has ended, and its report is in the ledger";
    Err(Failure::new(&codes::RUN_JOURNAL, format!("run {run}"), cause).next(format!("read it with holdfast report {run}")))
}
