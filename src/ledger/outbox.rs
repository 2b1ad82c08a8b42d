//! The outbox: where a record gets its place in its signer's chain, and waits.

use std::collections::BTreeSet;
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::chain::Head;
use super::spool::{Destination, Locked, Spool, Waiting};
use crate::base::codes;
use crate::base::digest::Sha256;
use crate::base::failure::Failure;
use crate::base::ids::Principal;
use crate::record::signature::{Signer, sign_record};
use crate::record::{Link, Record, canonical};
use crate::store::Key;

/// One of the three stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    Snapshots,
    Escrow,
    Ledger,
}

impl Place {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Snapshots => "snapshots",
            Self::Escrow => "escrow",
            Self::Ledger => "ledger",
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// Records that are signed and fsynced on this host until the stores have
/// them. Shared by all processes that use one state directory.
#[derive(Debug, Clone)]
pub struct Outbox {
    pub(super) spool: Spool,
}

/// A record that is safe on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appended {
    pub link: Link,
    pub bytes: Vec<u8>,
    pub sha256: Sha256,
    pub signature: String,
}

/// Records that wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backlog {
    pub records: usize,
    /// When the oldest came in, or last got to one of its stores.
    pub oldest: Timestamp,
    /// Stores that lack at least one.
    pub places: BTreeSet<Place>,
}

impl Outbox {
    /// Opens the outbox of a state directory, making it where it is missing.
    pub fn open(state: &Path) -> Result<Self, Failure> {
        Ok(Self { spool: Spool::open(state)? })
    }

    /// Gives a record the next place in its signer's chain, signs it and keeps
    /// it for `destinations`: one is the path that it names, and one is in the
    /// ledger, where its chain is checked. Blocks its thread for a few small
    /// writes.
    ///
    /// On failure, or a crash at any point, the record is either whole in the
    /// outbox or not there at all; its number is never given to another.
    pub fn append<R: Record>(
        &self,
        signer: &Signer,
        make: impl FnOnce(Link) -> R,
        destinations: &[(Place, String)],
    ) -> Result<Appended, Failure> {
        let locked = self.spool.lock()?;
        Self::append_to(&locked, signer, make, destinations)
    }

    /// As [`Outbox::append`] for a record that has one destination, unless a record
    /// waits under that name already: then it is the one, and `make` is not asked.
    pub fn append_once<R: Record>(
        &self,
        signer: &Signer,
        make: impl FnOnce(Link) -> R,
        (place, key): (Place, String),
    ) -> Result<Appended, Failure> {
        let locked = self.spool.lock()?;
        let Some(waiting) = locked.waiting_for(&Destination { place, key: key.clone() })? else {
            return Self::append_to(&locked, signer, make, &[(place, key)]);
        };
        let Waiting { bytes, sha256, signature, .. } = waiting;
        let link = canonical::from_bytes::<R>(&key, bytes.as_bytes())?.signer().clone();
        Ok(Appended { link, bytes: bytes.into_bytes(), sha256, signature })
    }

    /// Does a record wait under this name of a store?
    pub fn waits_for(&self, place: Place, key: &str) -> Result<bool, Failure> {
        Ok(self.spool.lock()?.waiting_for(&Destination { place, key: key.to_owned() })?.is_some())
    }

    fn append_to<R: Record>(
        locked: &Locked<'_>,
        signer: &Signer,
        make: impl FnOnce(Link) -> R,
        destinations: &[(Place, String)],
    ) -> Result<Appended, Failure> {
        let link = next_link(signer.principal(), locked.head(signer.principal())?.as_ref());
        let record = make(link.clone());
        check(&record, &link, destinations)?;
        let signed = sign_record(signer, &record)?;
        let bytes = String::from_utf8(signed.bytes)
            .map_err(|_| Failure::new(&codes::RECORD_INVALID, record.path(), "canonical JSON that is no text"))?;
        let waiting = Waiting {
            signer: link.name.clone(),
            seq: link.seq,
            bytes,
            sha256: signed.sha256,
            signature: signed.signature,
            destinations: destinations.iter().map(|(place, key)| Destination { place: *place, key: key.clone() }).collect(),
        };
        locked.add(&waiting)?;
        let Waiting { bytes, sha256, signature, .. } = waiting;
        Ok(Appended { link, bytes: bytes.into_bytes(), sha256, signature })
    }

    /// Continues a signer's chain where the ledger says it ends, for a state
    /// directory that was lost or set back. A chain that is further stays.
    pub fn resume(&self, signer: &Principal, head: Head) -> Result<(), Failure> {
        self.spool.lock()?.raise(signer, head)
    }

    /// What waits, for whom and since when; none where every store has
    /// everything. Blocks its thread.
    ///
    /// # Errors
    /// `state.unusable`.
    pub fn backlog(&self) -> Result<Option<Backlog>, Failure> {
        let mut backlog: Option<Backlog> = None;
        for ordinal in self.spool.list()? {
            // Gone by now: it was delivered meanwhile.
            let (Some(waiting), Some(since)) = (self.spool.read(ordinal)?, self.spool.since(ordinal)) else { continue };
            let backlog = backlog.get_or_insert(Backlog { records: 0, oldest: since, places: BTreeSet::new() });
            backlog.records += 1;
            backlog.oldest = backlog.oldest.min(since);
            backlog.places.extend(waiting.destinations.iter().map(|destination| destination.place));
        }
        Ok(backlog)
    }

    /// How many records wait for at least one store.
    pub fn waiting(&self) -> Result<usize, Failure> {
        Ok(self.spool.list()?.len())
    }
}

fn next_link(signer: &Principal, head: Option<&Head>) -> Link {
    Link { name: signer.clone(), seq: head.map_or(1, |head| head.seq.saturating_add(1)), prev: head.map(|head| head.sha256) }
}

/// Refuses a record that could not be found again, before it takes a number.
fn check<R: Record>(record: &R, link: &Link, destinations: &[(Place, String)]) -> Result<(), Failure> {
    let refuse = |cause: String| Err(Failure::new(&codes::RECORD_INVALID, record.path(), cause));
    if record.signer() != link {
        return refuse("does not carry the place in the chain that it was given".into());
    }
    for (_, key) in destinations {
        if key.parse::<Key>().and_then(|key| key.with_suffix(".sig")).is_err() {
            return refuse(format!("its destination is no object name: {key:?}"));
        }
    }
    if destinations.iter().all(|(_, key)| key != record.path()) {
        return refuse("no destination is the path that it names".into());
    }
    if destinations.iter().all(|(place, _)| *place != Place::Ledger) {
        return refuse("does not go to the ledger, where its chain is checked".into());
    }
    Ok(())
}
