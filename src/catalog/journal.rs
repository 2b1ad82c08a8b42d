//! Journals of runs in SQLite.
//!
//! Each append is one transaction, on the disk when the call returns
//! (`synchronous = FULL`), and checked inside that transaction against the
//! events that are there: two processes cannot both go on with a run.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};

use crate::base::codes;
use crate::base::failure::{Failure, chain};
use crate::base::ids::RunId;
use crate::runbook::journal::{Event, History, Journal, ProcessMark, RunHead, unknown};

/// The tables of this file.
pub const MIGRATION: &str = include_str!("../../migrations/0002_journal.sql");

/// A writer holds the lock for one small insert; whoever waits longer has met a stuck one.
const BUSY: Duration = Duration::from_secs(10);

/// [`Journal`] over a connection of its own.
#[derive(Debug)]
pub struct SqliteJournal {
    connection: Mutex<Connection>,
}

impl SqliteJournal {
    /// Takes a connection to a database that has [`MIGRATION`] applied.
    pub fn new(connection: Connection) -> Result<Self, Failure> {
        connection.busy_timeout(BUSY).map_err(broken)?;
        connection.pragma_update(None, "synchronous", "FULL").map_err(broken)?;
        connection.pragma_update(None, "foreign_keys", true).map_err(broken)?;
        Ok(Self { connection: Mutex::new(connection) })
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Journal for SqliteJournal {
    fn begin(&self, head: &RunHead) -> Result<(), Failure> {
        let text = serde_json::to_string(head).map_err(broken)?;
        let started = head.started.strftime("%Y-%m-%dT%H:%M:%S.%9fZ").to_string();
        let insert = "INSERT INTO journal_run (run, started, head) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
        match self.connection().execute(insert, params![head.run.as_str(), started, text]).map_err(broken)? {
            0 => Err(Failure::new(&codes::RUN_JOURNAL, format_args!("run {}", head.run), "the run exists already")),
            _ => Ok(()),
        }
    }

    fn append(&self, event: &Event) -> Result<(), Failure> {
        let mut connection = self.connection();
        // Immediate: what was read cannot change before the insert.
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(broken)?;
        let mut history = History::read(read_events(&transaction, &event.run)?)?;
        history.admit(event.clone())?;
        let entry = serde_json::to_string(&event.entry).map_err(broken)?;
        let values = params![
            event.run.as_str(),
            integer(event.number)?,
            event.at.to_string(),
            integer(event.uptime_ms)?,
            event.process.as_str(),
            entry
        ];
        let insert = "INSERT INTO journal_event (run, number, at, uptime_ms, process, entry) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        transaction.execute(insert, values).map_err(broken)?;
        transaction.commit().map_err(broken)
    }

    fn head(&self, run: &RunId) -> Result<RunHead, Failure> {
        read_head(&self.connection(), run)
    }

    fn events(&self, run: &RunId) -> Result<Vec<Event>, Failure> {
        read_events(&self.connection(), run)
    }

    fn runs(&self) -> Result<Vec<RunHead>, Failure> {
        let connection = self.connection();
        let mut select = connection.prepare("SELECT head FROM journal_run ORDER BY started DESC, run DESC").map_err(broken)?;
        let heads = select.query_map([], |row| row.get::<_, String>(0)).map_err(broken)?;
        heads.map(|head| serde_json::from_str(&head.map_err(broken)?).map_err(broken)).collect()
    }
}

fn read_head(connection: &Connection, run: &RunId) -> Result<RunHead, Failure> {
    let select = "SELECT head FROM journal_run WHERE run = ?1";
    let text: Option<String> = connection.query_row(select, [run.as_str()], |row| row.get(0)).optional().map_err(broken)?;
    serde_json::from_str(&text.ok_or_else(|| unknown(run))?).map_err(broken)
}

/// The events of a run that is known.
fn read_events(connection: &Connection, run: &RunId) -> Result<Vec<Event>, Failure> {
    read_head(connection, run)?;
    let select = "SELECT number, at, uptime_ms, process, entry FROM journal_event WHERE run = ?1 ORDER BY number";
    let mut select = connection.prepare_cached(select).map_err(broken)?;
    let rows = select.query_map([run.as_str()], Columns::of).map_err(broken)?;
    rows.map(|row| row.map_err(broken)?.event(run)).collect()
}

/// One row, before its texts are read.
struct Columns {
    number: i64,
    at: String,
    uptime_ms: i64,
    process: String,
    entry: String,
}

impl Columns {
    fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { number: row.get(0)?, at: row.get(1)?, uptime_ms: row.get(2)?, process: row.get(3)?, entry: row.get(4)? })
    }

    fn event(self, run: &RunId) -> Result<Event, Failure> {
        Ok(Event {
            run: run.clone(),
            number: u64::try_from(self.number).map_err(broken)?,
            at: self.at.parse().map_err(broken)?,
            uptime_ms: u64::try_from(self.uptime_ms).map_err(broken)?,
            process: ProcessMark::stored(self.process),
            entry: serde_json::from_str(&self.entry).map_err(broken)?,
        })
    }
}

fn integer(value: u64) -> Result<i64, Failure> {
    i64::try_from(value).map_err(broken)
}

/// The journal itself cannot be used: nothing was written.
#[allow(clippy::needless_pass_by_value)] // for `map_err`
fn broken(error: impl std::error::Error + 'static) -> Failure {
    Failure::new(&codes::CATALOG_BROKEN, "the journal of runs", chain(&error))
        .next("check that the catalog's file is whole and its disk has room; a run goes on from its last committed event")
}
