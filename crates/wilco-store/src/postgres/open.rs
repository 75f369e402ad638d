//! Bringing the tables up to date, beside daemons of neighbouring versions.
//!
//! Each migration notes which one a build must know at least to work on the database after it. One that only adds
//! (a table, an index, a column that may be null) needs none that the one before did not: a build that lacks it goes on
//! working, so that several daemons can be upgraded one after the other. A build refuses a database that needs more than
//! it knows.

use sqlx::PgConnection;
use wilco_core::Timestamp;
use wilco_core::journal::sha256_hex;

use super::sql;
use crate::StoreError;
use crate::decode::{self, Columns};
use crate::port::down;
use crate::record::At;

/// A migration.
pub(super) struct Migration {
    pub(super) version: i64,
    name: &'static str,
    pub(super) text: &'static str,
    /// The newest migration a build must know to work on the database after this one.
    needs: i64,
}

/// All migrations, in order.
pub(super) const MIGRATIONS: [Migration; 3] = [
    Migration {
        version: 1,
        name: "acts and journal",
        text: include_str!("../../../../migrations/postgres/0001_acts_and_journal.sql"),
        needs: 1,
    },
    Migration {
        version: 2,
        name: "likely twins",
        text: include_str!("../../../../migrations/postgres/0002_likely_twins.sql"),
        // A build that does not count its writes in likeness_parts would let twins pass.
        needs: 2,
    },
    Migration {
        version: 3,
        name: "purge",
        text: include_str!("../../../../migrations/postgres/0003_purge.sql"),
        needs: 2,
    },
];

/// The newest of them.
pub(super) const NEWEST: i64 = MIGRATIONS[MIGRATIONS.len() - 1].version;

/// How often to begin anew where two daemons make the first table at once.
const TRIES: u32 = 5;

struct Noted {
    version: i64,
    sha256: String,
    needs: i64,
}

/// Brings the tables up to date, as a build whose newest migration is `newest`.
///
/// # Errors
/// `Refuse` when the database needs a newer build, or its migrations are not ours; `Down` when it does not answer.
pub(super) async fn migrate(db: &mut PgConnection, newest: i64) -> Result<(), StoreError> {
    let mut tries = 0;
    loop {
        tries += 1;
        let noted = read(db).await.map_err(down)?;
        if up_to_date(&noted, newest)? {
            return Ok(());
        }
        match bring_up(db, newest).await {
            Ok(()) => return Ok(()),
            Err(Stop::Refused(why)) => {
                drop(sqlx::query(sql::ROLLBACK).execute(&mut *db).await);
                return Err(why);
            }
            Err(Stop::Database(error)) => {
                sqlx::query(sql::ROLLBACK).execute(&mut *db).await.map_err(down)?;
                if tries == TRIES {
                    return Err(StoreError::Refuse(format!(
                        "the database's tables cannot be brought up to date: {error}"
                    )));
                }
            }
        }
    }
}

enum Stop {
    Refused(StoreError),
    Database(sqlx::Error),
}

impl From<sqlx::Error> for Stop {
    fn from(error: sqlx::Error) -> Stop {
        Stop::Database(error)
    }
}

async fn bring_up(db: &mut PgConnection, newest: i64) -> Result<(), Stop> {
    for statement in [
        sql::BEGIN,
        sql::TAKE_TIME,
        sql::MIGRATIONS_TABLE,
        sql::LOCK_MIGRATIONS,
    ] {
        sqlx::query(statement).execute(&mut *db).await?;
    }
    // Again, now that nobody else is at it.
    let noted = read(db).await?;
    if !up_to_date(&noted, newest).map_err(Stop::Refused)? {
        for migration in MIGRATIONS.iter().filter(|m| m.version <= newest) {
            if noted.iter().any(|n| n.version == migration.version) {
                continue;
            }
            sqlx::raw_sql(migration.text).execute(&mut *db).await?;
            sqlx::query(sql::MIGRATION_DONE)
                .bind(migration.version)
                .bind(migration.name)
                .bind(sha256_hex(migration.text.as_bytes()))
                .bind(migration.needs)
                .execute(&mut *db)
                .await?;
        }
    }
    sqlx::query(sql::COMMIT).execute(&mut *db).await?;
    Ok(())
}

async fn read(db: &mut PgConnection) -> Result<Vec<Noted>, sqlx::Error> {
    let wrong = |problem: String| sqlx::Error::Protocol(format!("table wilco_migrations: {problem}"));
    let there = sqlx::query(sql::MIGRATIONS_ARE_NOTED).fetch_one(&mut *db).await?;
    if there.number("noted").map_err(wrong)? == 0 {
        return Ok(Vec::new());
    }
    let rows = sqlx::query(sql::MIGRATED).fetch_all(db).await?;
    rows.iter()
        .map(|row| {
            Ok(Noted {
                version: row.number("version").map_err(wrong)?,
                sha256: row.text("sha256").map_err(wrong)?,
                needs: row.number("needs").map_err(wrong)?,
            })
        })
        .collect()
}

/// Whether nothing is left to do.
fn up_to_date(noted: &[Noted], newest: i64) -> Result<bool, StoreError> {
    let refuse = |what: String| Err(StoreError::Refuse(format!("the database {what}")));
    let needs = noted.iter().map(|n| n.needs).max().unwrap_or(0);
    if needs > newest {
        return refuse(format!(
            "is from a newer version (it needs a build that knows migration {needs}, ours end at {newest}): start that \
             version, or give this one another database"
        ));
    }
    let ours = MIGRATIONS.iter().filter(|m| m.version <= newest);
    let mut missing = false;
    for migration in ours {
        match noted.iter().find(|n| n.version == migration.version) {
            None => missing = true,
            Some(n) if n.sha256 == sha256_hex(migration.text.as_bytes()) => {}
            Some(_) => {
                return refuse(format!(
                    "was made by a build that was never released (its migration {} is not the one this version knows): \
                     start that build, or give this one another database",
                    migration.version
                ));
            }
        }
    }
    Ok(!missing)
}

/// The highest instant noted.
pub(super) async fn highest(db: &mut PgConnection) -> Result<Timestamp, StoreError> {
    let row = sqlx::query(sql::HIGHEST).fetch_optional(db).await.map_err(down)?;
    let at = At {
        table: "clock",
        column: "highest",
        row: "1",
    };
    let row = row.ok_or_else(|| at.wrong("the row is missing"))?;
    decode::number(&row, at).map(Timestamp)
}
