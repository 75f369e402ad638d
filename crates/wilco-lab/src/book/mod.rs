//! The bank's book: one SQLite file, one connection, one transaction for each thing decided.
//!
//! Every method answers only after its COMMIT returned (WAL, `synchronous=FULL`, both read back at the start),
//! so what the bank has said survives a kill. A refusal rolls back. Any other failure throws the connection
//! away and the next caller opens the file anew: what is on file is the truth, not what we think we wrote.

mod consents;
mod keys;
mod payees;
mod payments;
mod report;
mod status;
mod waiting;

use std::{
    fs::{File, TryLockError},
    path::{Path, PathBuf},
    time::Duration,
};

use sqlx::{
    Connection, Row, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteRow, SqliteSynchronous},
};
use thiserror::Error;
use tokio::sync::{Mutex, MutexGuard};

pub use consents::{Consent, ConsentOrder};
pub use keys::KeyUse;
pub use payees::{Holding, RegisteredPayee};
pub use payments::{Payment, PaymentOrder, Placed};
pub use report::PaymentLine;
pub use status::{ConsentStatus, Named, PaymentStatus};
pub use waiting::WaitingConsent;

use crate::{LabError, clock::Stamp, seed::World, values::AccountNo};

/// The book's file inside the lab's folder.
pub const BOOK_FILE: &str = "lab-bank.sqlite";
/// Locked for the life of the lab, so that two banks never share one book.
pub const LOCK_FILE: &str = "lab-bank.lock";

const SCHEMA: &str = include_str!("schema.sql");
const FROM_V1: &str = include_str!("from_v1.sql");
const SCHEMA_VERSION: i64 = 2;

/// How many days ahead a scheduled payment may be.
pub const SCHEDULE_DAYS_MAX: i64 = 366;

/// A rule of the bank that an order broke. Nothing was created.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The key was used for other bytes within its 24 hours.
    #[error("this idempotency key was used within 24 hours for another request body")]
    KeyReused,
    /// No such consent.
    #[error("there is no consent with this ConsentId")]
    ConsentUnknown,
    /// The consent has been used, or cannot be.
    #[error("the consent is {}, a payment needs one that is Authorised", .0.word())]
    ConsentStatus(ConsentStatus),
    /// The payment is not the one that was consented to.
    #[error("differs from the consent")]
    Differs {
        /// `Data.Initiation` or `Risk`.
        path: &'static str,
    },
    /// The consent's cut-off has passed.
    #[error("received after the consent's CutOffDateTime")]
    AfterCutOff,
    /// The debtor account is not one of the company's.
    #[error("is not an account of this customer")]
    DebtorUnknown,
    /// Debtor and creditor are the same account.
    #[error("is the account that pays")]
    PaysItself,
    /// No such payment.
    #[error("there is no payment with this DomesticPaymentId")]
    PaymentUnknown,
    /// A rejected payment has been reversed and stays so; a cancelled one was never made.
    #[error("the payment is Rejected or Cancelled, its entries are reversed or were never made; it stays so")]
    PaymentRejected,
    /// Only an order that waits for its day can be cancelled.
    #[error("only a scheduled payment whose day has not come can be cancelled")]
    NothingToCancel,
    /// A scheduled payment's day is not one of those this bank takes orders for.
    #[error("must be on one of the {SCHEDULE_DAYS_MAX} days after the bank's today, {today}")]
    Day {
        /// The bank's today.
        today: String,
    },
}

/// What the book may answer instead of what was asked for.
#[derive(Debug, Error)]
pub enum BookError {
    /// A rule of the bank; nothing changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The database failed; what is on file is what counts.
    #[error("the bank's book could not be read or written")]
    Database(#[from] sqlx::Error),
    /// A stored value that makes no sense.
    #[error("the bank's book holds a value that makes no sense: table {table}, column {column}, row {row}")]
    Corrupt {
        /// Where.
        table: &'static str,
        /// Which column.
        column: &'static str,
        /// Which row, by its key.
        row: String,
    },
    /// The lab has been stopped.
    #[error("the lab has been stopped")]
    Closed,
}

/// The book. Cheap to share behind an `Arc`; callers queue for its one connection.
#[derive(Debug)]
pub struct Book {
    file: PathBuf,
    seat: Mutex<Seat>,
}

#[derive(Debug)]
struct Seat {
    /// Absent after a failure, until the next caller reopens the file.
    connection: Option<SqliteConnection>,
    /// Absent once closed.
    lock: Option<File>,
}

impl Book {
    /// Opens the book in `folder`, creating folder, file and the seeded world where there is none.
    pub async fn open(folder: &Path, world: &World, booked_at: &str) -> Result<Self, LabError> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |source| LabError::Folder { path, source }
        };
        std::fs::create_dir_all(folder).map_err(io(folder))?;
        let lock_path = folder.join(LOCK_FILE);
        let lock = File::create(&lock_path).map_err(io(&lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(LabError::InUse {
                    path: folder.to_owned(),
                });
            }
            Err(TryLockError::Error(source)) => {
                return Err(LabError::Folder {
                    path: lock_path,
                    source,
                });
            }
        }
        let file = folder.join(BOOK_FILE);
        let mut connection = connect(&file).await.map_err(BookError::from)?;
        check_durable(&mut connection).await?;
        prepare_schema(&mut connection, &file).await?;
        let seat = Mutex::new(Seat {
            connection: Some(connection),
            lock: Some(lock),
        });
        let book = Self { file, seat };
        book.seed(world, booked_at).await?;
        Ok(book)
    }

    /// Ends the book: waits for the running transaction, closes the file and gives up the lock. Later calls
    /// answer [`BookError::Closed`].
    pub async fn close(&self) {
        let mut seat = self.seat.lock().await;
        let lock = seat.lock.take();
        if let Some(connection) = seat.connection.take()
            && let Err(error) = connection.close().await
        {
            tracing::warn!(%error, "the lab's book did not close cleanly; it is recovered at the next start");
        }
        drop(lock);
    }

    /// Seconds the clock was moved ahead, as last stored.
    pub async fn clock_offset_s(&self) -> Result<i64, BookError> {
        let mut desk = self.desk().await?;
        let found = clock_offset(desk.conn()).await;
        desk.finish(found).await
    }

    /// Moves the stored clock ahead by `advance_s` and returns the new offset.
    pub async fn clock_advance(&self, advance_s: i64) -> Result<i64, BookError> {
        let mut desk = self.desk().await?;
        let moved = clock_store(desk.conn(), advance_s).await;
        desk.finish(moved).await
    }

    async fn seed(&self, world: &World, booked_at: &str) -> Result<(), BookError> {
        let mut desk = self.desk().await?;
        let seeded = seed(desk.conn(), world, booked_at).await;
        desk.finish(seeded).await
    }

    /// Sits down at the one connection, inside a fresh transaction.
    async fn desk(&self) -> Result<Desk<'_>, BookError> {
        let mut seat = self.seat.lock().await;
        if seat.lock.is_none() {
            return Err(BookError::Closed);
        }
        let mut connection = match seat.connection.take() {
            Some(connection) => connection,
            None => connect(&self.file).await?,
        };
        // IMMEDIATE: whoever reads in order to decide already holds the right to write.
        sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut connection).await?;
        Ok(Desk { seat, connection })
    }

    /// The same, after payments whose time has come have settled and scheduled ones have been carried out.
    async fn desk_at(&self, now: &Stamp) -> Result<Desk<'_>, BookError> {
        let mut desk = self.desk().await?;
        payments::due(desk.conn(), now).await?;
        Ok(desk)
    }
}

/// One transaction. Dropping it without [`Desk::finish`] throws the connection away, and SQLite rolls back.
struct Desk<'a> {
    seat: MutexGuard<'a, Seat>,
    connection: SqliteConnection,
}

impl Desk<'_> {
    fn conn(&mut self) -> &mut SqliteConnection {
        &mut self.connection
    }

    /// Commits a success, rolls back a refusal, and gives the connection back only if that worked.
    async fn finish<T>(self, result: Result<T, BookError>) -> Result<T, BookError> {
        let Self {
            mut seat,
            mut connection,
        } = self;
        match &result {
            Ok(_) => sqlx::raw_sql("COMMIT").execute(&mut connection).await?,
            Err(BookError::Refused(_)) => sqlx::raw_sql("ROLLBACK").execute(&mut connection).await?,
            Err(_) => return result,
        };
        seat.connection = Some(connection);
        result
    }
}

async fn connect(file: &Path) -> Result<SqliteConnection, sqlx::Error> {
    let options = SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(true)
        .foreign_keys(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(Duration::from_secs(5));
    SqliteConnection::connect_with(&options).await
}

async fn check_durable(connection: &mut SqliteConnection) -> Result<(), LabError> {
    let journal: String = sqlx::query_scalar("PRAGMA journal_mode")
        .fetch_one(&mut *connection)
        .await
        .map_err(BookError::from)?;
    let synchronous: i64 = sqlx::query_scalar("PRAGMA synchronous")
        .fetch_one(connection)
        .await
        .map_err(BookError::from)?;
    if journal.eq_ignore_ascii_case("wal") && synchronous == 2 {
        Ok(())
    } else {
        Err(LabError::NotDurable { journal, synchronous })
    }
}

async fn prepare_schema(connection: &mut SqliteConnection, file: &Path) -> Result<(), LabError> {
    let version: i64 = sqlx::query_scalar("PRAGMA user_version")
        .fetch_one(&mut *connection)
        .await
        .map_err(BookError::from)?;
    let steps: &[&'static str] = match version {
        0 => &[SCHEMA, "PRAGMA user_version = 2"],
        1 => &["PRAGMA foreign_keys = OFF", FROM_V1, "PRAGMA foreign_keys = ON"],
        SCHEMA_VERSION => &[],
        found => {
            return Err(LabError::BookVersion {
                path: file.to_owned(),
                found,
                known: SCHEMA_VERSION,
            });
        }
    };
    for step in steps {
        let step = sqlx::raw_sql(*step).execute(&mut *connection).await;
        step.map_err(BookError::from)?;
    }
    Ok(())
}

async fn clock_offset(conn: &mut SqliteConnection) -> Result<i64, BookError> {
    let stored: Option<String> = sqlx::query_scalar("SELECT value FROM meta WHERE name = 'clock_offset_s'")
        .fetch_optional(conn)
        .await?;
    stored.map_or(Ok(0), |text| {
        text.parse()
            .map_err(|_| corrupt("meta", "value", "clock_offset_s"))
    })
}

async fn clock_store(conn: &mut SqliteConnection, advance_s: i64) -> Result<i64, BookError> {
    let offset_s = clock_offset(conn).await?.saturating_add(advance_s);
    sqlx::query("INSERT INTO meta (name, value) VALUES ('clock_offset_s', ?1) ON CONFLICT (name) DO UPDATE SET value = ?1")
        .bind(offset_s.to_string())
        .execute(conn)
        .await?;
    Ok(offset_s)
}

async fn seed(conn: &mut SqliteConnection, world: &World, booked_at: &str) -> Result<(), BookError> {
    let accounts: i64 = sqlx::query_scalar("SELECT count(*) FROM account")
        .fetch_one(&mut *conn)
        .await?;
    if accounts > 0 {
        return Ok(());
    }
    account_open(conn, "opening", "Opening balances", false).await?;
    for own in &world.own {
        account_open(conn, &own.account, &own.name, true).await?;
        payees::holder_known(conn, &own.account, &own.name).await?;
        if own.opening_minor != 0 {
            transfer(
                conn,
                "opening",
                None,
                ("opening", &own.account),
                own.opening_minor,
                booked_at,
            )
            .await?;
        }
    }
    for payee in &world.payees {
        payees::payee_put(conn, &payee.sup, &payee.name, &payee.account).await?;
    }
    for (name, account) in &world.strangers {
        payees::holder_known(conn, account, name).await?;
    }
    Ok(())
}

/// Opens an account unless it is open already.
async fn account_open(
    conn: &mut SqliteConnection,
    account: &str,
    name: &str,
    own: bool,
) -> Result<(), BookError> {
    sqlx::query("INSERT INTO account (account, name, currency, own) VALUES (?, ?, 'GBP', ?) ON CONFLICT (account) DO NOTHING")
        .bind(account)
        .bind(name)
        .bind(own)
        .execute(conn)
        .await?;
    Ok(())
}

/// Moves `amount_minor` from one account to another: two legs, one statement.
async fn transfer(
    conn: &mut SqliteConnection,
    kind: &'static str,
    payment_id: Option<&str>,
    (from, to): (&str, &str),
    amount_minor: i64,
    booked_at: &str,
) -> Result<(), BookError> {
    sqlx::query(
        "INSERT INTO entry (kind, payment_id, account, amount_minor, booked_at) \
         VALUES (?1, ?2, ?3, -?5, ?6), (?1, ?2, ?4, ?5, ?6)",
    )
    .bind(kind)
    .bind(payment_id)
    .bind(from)
    .bind(to)
    .bind(amount_minor)
    .bind(booked_at)
    .execute(conn)
    .await?;
    Ok(())
}

fn corrupt(table: &'static str, column: &'static str, row: impl Into<String>) -> BookError {
    BookError::Corrupt {
        table,
        column,
        row: row.into(),
    }
}

/// A stored JSON document.
fn json_column(
    row: &SqliteRow,
    table: &'static str,
    column: &'static str,
    key: &str,
) -> Result<serde_json::Value, BookError> {
    let text: String = row.try_get(column)?;
    serde_json::from_str(&text).map_err(|_| corrupt(table, column, key))
}

/// A stored account number, in the form people write.
fn account_column(
    text: &str,
    table: &'static str,
    column: &'static str,
    key: &str,
) -> Result<AccountNo, BookError> {
    AccountNo::from_text(text).map_err(|_| corrupt(table, column, key))
}
