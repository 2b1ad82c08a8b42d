//! Rows out of the database, and documents out of rows.

use rusqlite::{Params, Row};

use super::Catalog;
use crate::base::failure::Failure;
use crate::record::{Record, canonical};

impl Catalog {
    /// All rows of a query.
    pub(super) fn rows<T>(
        &self,
        sql: &str,
        parameters: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, Failure> {
        let rows = || self.connection.prepare_cached(sql)?.query_map(parameters, read)?.collect();
        let rows: rusqlite::Result<Vec<T>> = rows();
        rows.map_err(|e| self.failure(e))
    }

    /// The documents that a query selects as its one column, in its order.
    pub(super) fn documents<R: Record>(&self, sql: &str, parameters: impl Params) -> Result<Vec<R>, Failure> {
        let texts = self.rows(sql, parameters, |row| row.get::<_, String>(0))?;
        texts.iter().map(|text| canonical::from_bytes("catalog", text.as_bytes())).collect()
    }

    /// Text of a column as the type it was written from.
    pub(super) fn typed<T: std::str::FromStr<Err: std::fmt::Display>>(&self, text: &str) -> Result<T, Failure> {
        text.parse().map_err(|e| self.broken(e))
    }
}
