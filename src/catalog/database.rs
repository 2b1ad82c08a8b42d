//! The file: opening it, bringing it to the newest schema, replacing a broken one.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};
use rusqlite_migration::{M, Migrations};

use super::journal::{self, SqliteJournal};
use crate::base::codes;
use crate::base::failure::Failure;
use crate::ledger::{History, StateLock};

/// Forward only: a released migration is never edited, a new one follows it.
const STEPS: &[M<'static>] = &[
    M::up(include_str!("../../migrations/0001_init.sql")),
    M::up(journal::MIGRATION),
    M::up(include_str!("../../migrations/0003_losses.sql")),
];
const MIGRATIONS: Migrations<'static> = Migrations::from_slice(STEPS);

/// Writes are single small transactions; whoever waits longer is stuck.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// One connection to the catalog of a state directory. Writers of other
/// processes are waited for.
#[derive(Debug)]
pub struct Catalog {
    pub(super) connection: Connection,
    file: PathBuf,
}

/// A catalog that was made anew from the ledger.
#[derive(Debug)]
pub struct Rebuilt {
    pub catalog: Catalog,
    /// Where a file that could not be used was moved to.
    pub set_aside: Option<PathBuf>,
    /// There was no usable file: journals of runs that were in it are lost.
    pub journals_lost: bool,
}

impl Catalog {
    /// Opens the catalog, making or migrating it where needed. A file that
    /// cannot be used stays as it is.
    pub fn open(state: &Path) -> Result<Self, Failure> {
        Ok(Self { connection: connect(state)?, file: file(state) })
    }

    /// Makes the catalog say what `history` says, from nothing. A file that is
    /// whole keeps its journals; a broken one is moved aside, never removed.
    pub fn rebuild(state: &Path, history: &History) -> Result<Rebuilt, Failure> {
        let absent = !file(state).exists();
        let usable = Self::open(state).and_then(|catalog| catalog.check().map(|()| catalog));
        let (mut catalog, set_aside) = match usable {
            Ok(catalog) => (catalog, None),
            Err(failure) if failure.code() == &codes::CATALOG_BROKEN => {
                let aside = set_aside(state)?;
                (Self::open(state)?, Some(aside))
            }
            Err(failure) => return Err(failure),
        };
        catalog.fold(history)?;
        Ok(Rebuilt { catalog, journals_lost: absent || set_aside.is_some(), set_aside })
    }

    /// The journals of runs of a state directory, over a connection of their own.
    pub fn journal(state: &Path) -> Result<SqliteJournal, Failure> {
        SqliteJournal::new(connect(state)?)
    }

    /// Walks the whole file.
    fn check(&self) -> Result<(), Failure> {
        let answer: String =
            self.connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(|e| self.failure(e))?;
        if answer == "ok" { Ok(()) } else { Err(Failure::new(&codes::CATALOG_BROKEN, self.file.display(), answer)) }
    }

    pub(super) fn failure(&self, error: rusqlite::Error) -> Failure {
        failure(&self.file, error)
    }

    /// For content of the catalog that makes no sense.
    pub(super) fn broken(&self, cause: impl std::fmt::Display) -> Failure {
        Failure::new(&codes::CATALOG_BROKEN, self.file.display(), cause)
    }
}

/// A connection for one owner. Two processes that open a new catalog at the
/// same time must not both migrate it, hence the lock.
fn connect(state: &Path) -> Result<Connection, Failure> {
    // Journals and reports name objects of the cluster: they are nobody else's to read.
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(state);
    made.map_err(|e| Failure::because(&codes::STATE_UNUSABLE, state.display(), &e))?;
    let _lock = StateLock::acquire(&state.join("catalog.lock"))?;
    let path = file(state);
    let open = || -> rusqlite::Result<Connection> {
        let connection = Connection::open(&path)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        // A step of a run counts as written down only when it survives a power cut.
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        Ok(connection)
    };
    let mut connection = open().map_err(|e| failure(&path, e))?;
    MIGRATIONS.to_latest(&mut connection).map_err(|e| match e {
        rusqlite_migration::Error::RusqliteError { err, .. } => failure(&path, err),
        rusqlite_migration::Error::MigrationDefinition(_) => {
            Failure::new(&codes::STATE_UNUSABLE, path.display(), "made by a newer version of holdfast")
                .next("use the newer version, or another state directory")
        }
        other => Failure::because(&codes::CATALOG_BROKEN, path.display(), &other),
    })?;
    Ok(connection)
}

fn file(state: &Path) -> PathBuf {
    state.join("catalog.db")
}

/// Moves a broken file and what belongs to it out of the way, under a name
/// that is free.
fn set_aside(state: &Path) -> Result<PathBuf, Failure> {
    let path = file(state);
    let unusable = |e: std::io::Error| Failure::because(&codes::STATE_UNUSABLE, path.display(), &e);
    // Bounded: nobody keeps a thousand broken catalogs.
    let free = (1..1000).map(|n| state.join(format!("catalog.db.broken-{n}"))).find(|aside| !aside.exists());
    let aside = free.ok_or_else(|| unusable(std::io::ErrorKind::AlreadyExists.into()))?;
    fs::rename(&path, &aside).map_err(unusable)?;
    for suffix in ["-wal", "-shm"] {
        let name = |path: &Path| PathBuf::from(format!("{}{suffix}", path.display()));
        match fs::rename(name(&path), name(&aside)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(unusable(e)),
            _ => {}
        }
    }
    Ok(aside)
}

/// The disk and other processes are not the catalog's fault: only damage
/// counts as broken.
fn failure(path: &Path, error: rusqlite::Error) -> Failure {
    let code = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => &codes::STATE_LOCKED,
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::DiskFull | ErrorCode::PermissionDenied) => {
            &codes::STATE_UNUSABLE
        }
        Some(ErrorCode::SystemIoFailure) => &codes::STATE_UNUSABLE,
        _ => &codes::CATALOG_BROKEN,
    };
    Failure::because(code, path.display(), &error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_state_directory_is_its_owners_alone() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        let state = root.path().join("lib").join("holdfast");
        Catalog::open(&state).unwrap();
        assert_eq!(fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn all_migrations_apply_to_an_empty_file() {
        MIGRATIONS.validate().unwrap();
    }
}
