//! Opening the file: settings that durability needs are set, read back, and refused otherwise.

use std::borrow::Cow;
use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions, SqlSafeStr, SqliteConnection};
use wilco_core::Timestamp;

use super::sql;
use crate::StoreError;
use crate::record::At;

/// How long to wait for a lock that somebody else's tool holds on the file.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The log is moved into the database every so many pages (16 MiB). A short log is written over in place, which is
/// faster than one that grows: every flush of a growing file is also a write to the file system's own journal.
pub(super) const CHECKPOINT_PAGES: &str = "4000";

/// Number, name and text of each migration, in order.
pub(super) const MIGRATIONS: [(i64, &str, &str); 3] = [
    (
        1,
        "acts and journal",
        include_str!("../../../../migrations/sqlite/0001_acts_and_journal.sql"),
    ),
    (
        2,
        "likely twins",
        include_str!("../../../../migrations/sqlite/0002_likely_twins.sql"),
    ),
    (
        3,
        "purge",
        include_str!("../../../../migrations/sqlite/0003_purge.sql"),
    ),
];

/// The database file of a folder.
pub(super) fn file_of(dir: &Path) -> PathBuf {
    dir.join("wilco.sqlite")
}

/// Makes sure the folder is there, its owner's alone where it is new.
pub(super) fn folder(dir: &Path) -> Result<(), StoreError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|e| StoreError::Refuse(format!("{}: the folder cannot be made: {e}", dir.display())))
}

/// Makes sure the file is there, its owner's alone where it is new: the log and its index take its mode.
pub(super) fn file(dir: &Path) -> Result<(), StoreError> {
    let file = file_of(dir);
    let made = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&file);
    made.map(drop)
        .map_err(|e| StoreError::Refuse(format!("{}: the file cannot be opened: {e}", file.display())))
}

/// Opens the file, which must be there, to look after its tables; [`WriteConnection`](super::line::WriteConnection) has
/// made sure before that what is written there is durable.
pub(super) async fn first_connection(dir: &Path) -> Result<SqliteConnection, StoreError> {
    let file = file_of(dir);
    let options = SqliteConnectOptions::new()
        .filename(&file)
        .create_if_missing(false)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(BUSY_TIMEOUT)
        .pragma("fullfsync", "1")
        .pragma("checkpoint_fullfsync", "1")
        .disable_statement_logging();
    let db = options.connect().await;
    db.map_err(|e| StoreError::Refuse(format!("{}: the database cannot be opened: {e}", file.display())))
}

/// Brings the tables up to date.
///
/// # Errors
/// `Refuse` naming the file, when it is from a newer version or its migrations are not ours.
pub(super) async fn migrate(db: &mut SqliteConnection, dir: &Path) -> Result<(), StoreError> {
    let migrations = MIGRATIONS.map(|(version, name, text)| {
        let kind = MigrationType::Simple;
        Migration::new(version, Cow::Borrowed(name), kind, text.into_sql_str(), false)
    });
    let newest = MIGRATIONS.len();
    let done = Migrator::with_migrations(migrations.into()).run(&mut *db).await;
    done.map_err(|error| {
        let what = match error {
            MigrateError::VersionMissing(version) => format!(
                "the database is from a newer version (its migration {version}, ours end at {newest}): start that \
                 version, or give this one another folder"
            ),
            MigrateError::VersionMismatch(version) => format!(
                "migration {version} of the database is not the one this version knows: it was made by a build that was \
                 never released; start that build, or give this one another folder"
            ),
            other => format!("the tables cannot be brought up to date: {other}"),
        };
        StoreError::Refuse(format!("{}: {what}", file_of(dir).display()))
    })
}

/// The highest instant the store has ever written.
pub(super) async fn highest(db: &mut SqliteConnection) -> Result<Timestamp, StoreError> {
    let found: Option<i64> = sqlx::query_scalar(sql::HIGHEST)
        .fetch_optional(db)
        .await
        .map_err(crate::port::down)?;
    let at = At {
        table: "clock",
        column: "highest",
        row: "1",
    };
    found.map(Timestamp).ok_or_else(|| at.wrong("the row is missing"))
}

/// Makes the new files' names durable: flushing a file does not flush its folder.
pub(super) fn flush_folder(dir: &Path) -> Result<(), StoreError> {
    File::open(dir)
        .and_then(|d| d.sync_all())
        .map_err(|e| StoreError::Refuse(format!("{}: the folder cannot be flushed: {e}", dir.display())))
}

/// Connections that can only read, opened as they are needed.
pub(super) fn readers(dir: &Path, most: u32) -> SqlitePool {
    let options = SqliteConnectOptions::new()
        .filename(file_of(dir))
        .busy_timeout(BUSY_TIMEOUT)
        .foreign_keys(true)
        .pragma("query_only", "1")
        .pragma("cache_size", "-4096")
        .pragma("temp_store", "memory")
        .disable_statement_logging();
    SqlitePoolOptions::new()
        .max_connections(most)
        .min_connections(0)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
        .acquire_timeout(BUSY_TIMEOUT)
        .connect_lazy_with(options)
}
