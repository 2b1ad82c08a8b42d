//! Losses: keys that a rehearsal showed to be in escrow no more.
//!
//! A receipt says that a key was deposited once. What a rehearsal found later
//! counts for every snapshot that needs the key, until the key is deposited or
//! opened again.

use std::collections::BTreeMap;

use super::Catalog;
use crate::base::failure::Failure;
use crate::base::ids::Principal;
use crate::record::receipt::Receipt;

/// Since when each lost key has been known to be lost, by fingerprint.
pub(super) type Losses = BTreeMap<String, String>;

impl Catalog {
    /// Receipts of one host that no rehearsal has refuted since, the newest
    /// first: keys that need no new deposit.
    pub fn receipts_standing(&self, host: &Principal) -> Result<Vec<Receipt>, Failure> {
        // A deposit by another host takes a loss back and does not repair what
        // this host's receipt names; an opening shows that the key is there.
        self.documents(
            "SELECT r.document FROM receipt t JOIN record r USING (path)
             WHERE r.signer = ?1 AND NOT EXISTS (
                SELECT 1 FROM loss l
                WHERE l.fingerprint = t.fingerprint
                  AND CASE WHEN l.signer = r.signer THEN l.seq > r.seq ELSE l.at >= t.deposited END
                  AND NOT EXISTS (
                    SELECT 1 FROM opening o
                    JOIN attestation a ON a.path = o.attestation JOIN record q ON q.path = a.path
                    WHERE o.fingerprint = l.fingerprint
                      AND CASE WHEN q.signer = l.signer THEN q.seq > l.seq ELSE a.finished > l.at END))
             ORDER BY r.seq DESC",
            [host.as_str()],
        )
    }

    pub(super) fn losses(&self) -> Result<Losses, Failure> {
        let sql = "SELECT fingerprint, min(at) FROM standing_loss GROUP BY fingerprint";
        Ok(self.rows(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?.into_iter().collect())
    }
}
