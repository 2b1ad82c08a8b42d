//! Key versions: where each is, and what still hangs on it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::Catalog;
use super::snapshots::count;
use crate::base::failure::Failure;
use crate::base::ids::SnapshotId;

/// One key version, by its material.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeyRow {
    pub provider: String,
    /// Every name that it was seen under.
    pub names: BTreeSet<String>,
    /// Null for objects that no key opened.
    pub fingerprint: Option<String>,
    /// Receipts in the ledger.
    pub deposits: u64,
    pub last_deposit: Option<String>,
    /// The last rehearsal that opened it from escrow.
    pub last_opened: Option<String>,
    /// A rehearsal since then did not get it from escrow, and nothing took that back.
    pub missing_since: Option<String>,
    /// Hosts whose newest record lists it.
    pub configured_on: BTreeSet<String>,
    /// Snapshots whose live objects need it, the newest first.
    pub needed_by: Vec<NeededBy>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NeededBy {
    pub snapshot: SnapshotId,
    pub live_objects: u64,
}

/// What makes two sightings one key version: the fingerprint, or where there
/// is none, provider and name.
type Identity = (Option<String>, String, String);

impl Catalog {
    /// Every key version that the ledger speaks of, by its first name.
    pub fn keys(&self) -> Result<Vec<KeyRow>, Failure> {
        let _reading = self.connection.unchecked_transaction().map_err(|e| self.failure(e))?;
        let mut keys = BTreeMap::new();
        let mut material = BTreeMap::new();
        self.add_needs(&mut keys, &mut material)?;
        self.add_hosts(&mut keys)?;
        self.add_receipts(&mut keys)?;
        let losses = self.losses()?;
        for (identity, row) in &mut keys {
            if let Some(fingerprint) = material.get(identity).or(row.fingerprint.as_ref()) {
                let fingerprint = fingerprint.clone();
                self.add_escrow(&fingerprint, row)?;
                row.missing_since = losses.get(&fingerprint).cloned();
            }
        }
        let mut keys: Vec<KeyRow> = keys.into_values().collect();
        keys.sort_by(|a, b| (&a.provider, &a.names, &a.fingerprint).cmp(&(&b.provider, &b.names, &b.fingerprint)));
        Ok(keys)
    }

    fn add_needs(&self, keys: &mut BTreeMap<Identity, KeyRow>, material: &mut BTreeMap<Identity, String>) -> Result<(), Failure> {
        let needs = self.rows(
            "SELECT k.provider, k.name, k.fingerprint, k.deposit, k.live_objects, s.id
             FROM snapshot_key k JOIN snapshot s ON s.path = k.snapshot
             ORDER BY s.finished DESC, s.revision DESC, s.id DESC, k.position",
            [],
            |row| {
                let sighting = (row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, Option<String>>(2)?);
                Ok((sighting, row.get::<_, Option<String>>(3)?, count(row, 4)?, row.get::<_, String>(5)?))
            },
        )?;
        for ((provider, name, fingerprint), deposit, live_objects, snapshot) in needs {
            let (identity, row) = sighted(keys, &provider, &name, fingerprint);
            row.needed_by.push(NeededBy { snapshot: self.typed(&snapshot)?, live_objects });
            if let Some(deposit) = deposit {
                material.insert(identity, deposit);
            }
        }
        Ok(())
    }

    fn add_hosts(&self, keys: &mut BTreeMap<Identity, KeyRow>) -> Result<(), Failure> {
        let configured = self.rows(
            "SELECT k.provider, k.name, k.fingerprint, h.host
             FROM host_key k JOIN host h ON h.path = k.host JOIN record r ON r.path = h.path
             WHERE (h.host, r.seq) IN (SELECT o.host, max(q.seq) FROM host o JOIN record q USING (path) GROUP BY o.host)",
            [],
            |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?, row.get::<_, String>(3)?)),
        )?;
        for (provider, name, fingerprint, host) in configured {
            sighted(keys, &provider, &name, Some(fingerprint)).1.configured_on.insert(host);
        }
        Ok(())
    }

    fn add_receipts(&self, keys: &mut BTreeMap<Identity, KeyRow>) -> Result<(), Failure> {
        let receipts = self.rows("SELECT DISTINCT provider, name, fingerprint FROM receipt", [], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?))
        })?;
        for (provider, name, fingerprint) in receipts {
            sighted(keys, &provider, &name, Some(fingerprint));
        }
        Ok(())
    }

    fn add_escrow(&self, fingerprint: &str, key: &mut KeyRow) -> Result<(), Failure> {
        let sql = "SELECT count(*), max(deposited),
                          (SELECT max(a.finished) FROM opening o JOIN attestation a ON a.path = o.attestation
                           WHERE o.fingerprint = ?1)
                   FROM receipt WHERE fingerprint = ?1";
        let read = |row: &rusqlite::Row<'_>| Ok((count(row, 0)?, row.get(1)?, row.get(2)?));
        let (deposits, last_deposit, last_opened) =
            self.connection.query_row(sql, [fingerprint], read).map_err(|e| self.failure(e))?;
        (key.deposits, key.last_deposit, key.last_opened) = (deposits, last_deposit, last_opened);
        Ok(())
    }
}

fn sighted<'a>(
    keys: &'a mut BTreeMap<Identity, KeyRow>,
    provider: &str,
    name: &str,
    fingerprint: Option<String>,
) -> (Identity, &'a mut KeyRow) {
    let identity = match &fingerprint {
        Some(known) => (Some(known.clone()), String::new(), String::new()),
        None => (None, provider.to_owned(), name.to_owned()),
    };
    let row = keys.entry(identity.clone()).or_insert_with(|| KeyRow {
        provider: provider.to_owned(),
        names: BTreeSet::new(),
        fingerprint,
        deposits: 0,
        last_deposit: None,
        last_opened: None,
        missing_since: None,
        configured_on: BTreeSet::new(),
        needed_by: Vec::new(),
    });
    row.names.insert(name.to_owned());
    (identity, row)
}
