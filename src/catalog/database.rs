//! The file: opening it, bringing it to the newest schema, replacing a broken one.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite_migration::{M, Migrations};

use crate::base::codes;
use crate::base::failure::Failure;
use crate::ledger::StateLock;

/// Forward only: a released migration is never edited, a new one follows it.
const STEPS: &[M<'static>] = &[M::up(include_str!("../../migrations/0001_init.sql"))];
const MIGRATIONS: Migrations<'static> = Migrations::from_slice(STEPS);

/// Writes are single small transactions; whoever waits longer is stuck.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// One connection to the catalog of a state directory. Writers of other
/// processes are waited for.
#[derive(Debug)]
pub struct Catalog {
    pub(super) connection: Connection,
}

impl Catalog {
    /// Opens the catalog, making or migrating it where needed. A file that
    /// cannot be used stays as it is.
    pub fn open(state: &Path) -> Result<Self, Failure> {
        Ok(Self { connection: connect(state)? })
    }
}

/// A connection for one owner. Two processes that open a new catalog at the
/// same time must not both migrate it, hence the lock.
pub(super) fn connect(state: &Path) -> Result<Connection, Failure> {
    fs::create_dir_all(state).map_err(|e| Failure::because(&codes::STATE_UNUSABLE, state.display(), &e))?;
    let _lock = StateLock::acquire(&state.join("catalog.lock"))?;
    let path = file(state);
    let open = || -> Result<Connection, Box<dyn std::error::Error>> {
        let mut connection = Connection::open(&path)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        // A step of a run counts as written down only when it survives a power cut.
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        MIGRATIONS.to_latest(&mut connection)?;
        Ok(connection)
    };
    open().map_err(|e| broken(&path, e.as_ref()))
}

pub(super) fn file(state: &Path) -> PathBuf {
    state.join("catalog.db")
}

pub(super) fn broken(object: &Path, error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure::because(&codes::CATALOG_BROKEN, object.display(), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_migrations_apply_to_an_empty_file() {
        MIGRATIONS.validate().unwrap();
    }
}
