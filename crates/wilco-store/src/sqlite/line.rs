//! The one connection that writes, and the guard over its commits.
//!
//! It does not go through the database library that reads: there every statement is a message to another thread, and every
//! answer one back, which costs more than most statements do. Here a statement is a call, on the writer's own thread.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::{Connection, Error, OpenFlags, Row, Statement, ToSql};

use super::open::{BUSY_TIMEOUT, CHECKPOINT_PAGES, file_of};
use crate::StoreError;
use crate::decode::Columns;

/// How many statements stay prepared: all there are.
const PREPARED: usize = 64;

/// The connection.
pub(super) struct WriteConnection {
    db: Connection,
    /// Whether the transaction that was begun is still open. SQLite rolls a transaction back by itself when the disk is
    /// full, and would then commit each later statement on its own: hooks on commit and rollback keep this true to what
    /// happens, and turn every commit but the one the transaction has coming into an error.
    pub(super) in_transaction: Arc<AtomicBool>,
}

impl WriteConnection {
    /// Opens the file, which must be there, with every setting read back.
    ///
    /// # Errors
    /// `Refuse` naming the file and the setting.
    pub(super) fn open(dir: &Path) -> Result<WriteConnection, StoreError> {
        let file = file_of(dir);
        let refuse = |what: String| StoreError::Refuse(format!("{}: {what}", file.display()));
        let opened = || -> Result<Connection, Error> {
            // A file that vanished under the running store must not be taken for an empty one. One thread at a time uses
            // it, which the compiler sees to.
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let db = Connection::open_with_flags(&file, flags)?;
            db.busy_timeout(BUSY_TIMEOUT)?;
            db.set_prepared_statement_cache_capacity(PREPARED);
            for (setting, value) in [
                ("journal_mode", "wal"),
                ("synchronous", "full"),
                ("foreign_keys", "on"),
                ("wal_autocheckpoint", CHECKPOINT_PAGES),
                ("journal_size_limit", "67108864"),
                ("cache_size", "-32768"),
                ("temp_store", "memory"),
                // Without it, macOS calls data durable that is still in the drive's cache.
                ("fullfsync", "1"),
                ("checkpoint_fullfsync", "1"),
            ] {
                let set = format!("PRAGMA {setting} = {value}");
                ask(&mut db.prepare(&set)?, &[], |_| Ok(()))?;
            }
            Ok(db)
        };
        let db = opened().map_err(|e| refuse(format!("the database cannot be opened: {e}")))?;
        let mode: String = read_back(&db, "journal_mode").map_err(refuse)?;
        if mode != "wal" {
            return Err(refuse(format!(
                "journal_mode is {mode} and cannot be set to wal: put the folder on a local file system"
            )));
        }
        for (name, wanted) in [("synchronous", 2), ("foreign_keys", 1)] {
            let value: i64 = read_back(&db, name).map_err(refuse)?;
            if value != wanted {
                return Err(refuse(format!("{name} is {value} and cannot be set to {wanted}")));
            }
        }
        Ok(WriteConnection {
            db,
            in_transaction: Arc::new(AtomicBool::new(false)),
        })
    }

    /// From here on, nothing is committed but what was begun with [`Self::in_transaction`] set.
    pub(super) fn guard(&mut self) -> Result<(), Error> {
        let open = Arc::clone(&self.in_transaction);
        // True turns a commit into a rollback.
        self.db
            .commit_hook(Some(move || !open.swap(false, Ordering::AcqRel)))?;
        let open = Arc::clone(&self.in_transaction);
        self.db
            .rollback_hook(Some(move || open.store(false, Ordering::Release)))
    }

    /// Runs a statement to its end. `values` are its `$1`, `$2` and so on.
    pub(super) fn run(&mut self, statement: &str, values: &[&dyn ToSql]) -> Result<(), Error> {
        self.rows(statement, values, |_| Ok(()))
    }

    /// Runs a statement, and hands each of its rows over.
    pub(super) fn rows(
        &mut self,
        statement: &str,
        values: &[&dyn ToSql],
        each: impl FnMut(&Row<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        ask(&mut *self.db.prepare_cached(statement)?, values, each)
    }

    /// Closes it; the file is let go, and a transaction that is open is rolled back.
    pub(super) fn close(self) {
        if let Err((_, error)) = self.db.close() {
            tracing::warn!(%error, "the connection to the database did not close cleanly");
        }
    }
}

impl Columns for Row<'_> {
    fn text(&self, column: &str) -> Result<String, String> {
        self.get(column).map_err(|e| e.to_string())
    }

    fn text_or_null(&self, column: &str) -> Result<Option<String>, String> {
        self.get(column).map_err(|e| e.to_string())
    }

    fn number(&self, column: &str) -> Result<i64, String> {
        self.get(column).map_err(|e| e.to_string())
    }

    fn number_or_null(&self, column: &str) -> Result<Option<i64>, String> {
        self.get(column).map_err(|e| e.to_string())
    }
}

fn ask(
    statement: &mut Statement<'_>,
    values: &[&dyn ToSql],
    mut each: impl FnMut(&Row<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    for place in 1..=statement.parameter_count() {
        let number = statement
            .parameter_name(place)
            .and_then(|n| n.get(1..)?.parse().ok());
        let value = number.and_then(|n: usize| values.get(n.checked_sub(1)?));
        let value = value.ok_or(Error::InvalidParameterCount(place, values.len()))?;
        statement.raw_bind_parameter(place, value)?;
    }
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        each(row)?;
    }
    Ok(())
}

fn read_back<T: rusqlite::types::FromSql>(db: &Connection, setting: &str) -> Result<T, String> {
    db.query_row(&format!("PRAGMA {setting}"), [], |row| row.get(0))
        .map_err(|e| format!("PRAGMA {setting} cannot be read back: {e}"))
}
