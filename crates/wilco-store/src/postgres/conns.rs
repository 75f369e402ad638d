//! Connections: how many there may be, what each must be, and who has one.
//!
//! No pool of the database library stands here, for two reasons. A connection is only ever used inside a task that nobody
//! can cancel, and only comes back when all that was asked on it was answered and no transaction is open: so none is ever
//! handed on in the middle of something, and a transaction that somebody left open cannot swallow another's write. (The
//! library's pool hands on a connection whose `begin` was cancelled.) And a pool that asks whether a connection is alive
//! before and after each use costs two round trips, where a write costs one.
//!
//! For the same reason nothing may stand between this keeper and the server that shares connections by the transaction.

use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnectOptions, PgRow};
use sqlx::{ConnectOptions, Connection, PgConnection};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::clock::Source;
use super::{PostgresOptions, sql};
use crate::StoreError;
use crate::decode::Columns;

/// The most to wait for a connection to be made.
const CONNECT: Duration = Duration::from_secs(5);

/// The oldest server, as it numbers itself.
const OLDEST_SERVER: i64 = 130_000;

/// The connections of one keeper.
pub(super) struct Conns {
    options: PgConnectOptions,
    idle: Mutex<Vec<Line>>,
    room: Arc<Semaphore>,
    most: u32,
    /// How long to wait for a connection that is in use.
    wait: Duration,
    /// How long an answer may take.
    patience: Duration,
    /// Whether the last that was heard of the server was good.
    well: AtomicBool,
    /// Why the server will not do, where it was found not to since it was connected to.
    unfit: Mutex<Option<String>>,
}

/// One connection, and how the server names it.
pub(super) struct Line {
    pub(super) db: PgConnection,
    pub(super) name: LineName,
}

/// The server's side of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LineName {
    pub(super) pid: i64,
    pub(super) started: i64,
}

/// A connection in use. Dropped, it is closed; only [`Lease::give_back`] keeps it.
pub(super) struct Lease {
    pub(super) line: Line,
    conns: Arc<Conns>,
    _place: OwnedSemaphorePermit,
}

impl Conns {
    /// Connections as these options say; none is made yet.
    ///
    /// # Errors
    /// `Refuse` when the address is none.
    pub(super) fn new(options: &PostgresOptions) -> Result<Conns, StoreError> {
        let address = PgConnectOptions::from_str(&options.url).map_err(|e| {
            StoreError::Refuse(format!(
                "the database's address is not one ({e}): write postgres://USER:PASSWORD@HOST:PORT/DATABASE"
            ))
        })?;
        let ms = |d: Duration| d.as_millis().to_string();
        let address = address
            .application_name("wilcod")
            .options([
                ("statement_timeout", ms(options.statement_timeout)),
                ("lock_timeout", ms(options.lock_timeout)),
                (
                    "idle_in_transaction_session_timeout",
                    ms(options.statement_timeout),
                ),
                ("default_transaction_isolation", "read committed".to_owned()),
                ("default_transaction_read_only", "off".to_owned()),
                // Statements are planned once, perhaps while the tables are empty, and must still walk an index, in its
                // order, when they are not.
                ("enable_seqscan", "off".to_owned()),
                ("enable_bitmapscan", "off".to_owned()),
                ("enable_sort", "off".to_owned()),
                ("enable_incremental_sort", "off".to_owned()),
                ("enable_hashjoin", "off".to_owned()),
                ("enable_mergejoin", "off".to_owned()),
                ("plan_cache_mode", "force_generic_plan".to_owned()),
                ("jit", "off".to_owned()),
            ])
            .disable_statement_logging();
        let most = options.connections.clamp(1, 1_000);
        Ok(Conns {
            options: address,
            idle: Mutex::new(Vec::new()),
            room: Arc::new(Semaphore::new(most as usize)),
            most,
            wait: options.wait,
            // Half as much again as the server allows itself; then the connection counts as lost.
            patience: options
                .statement_timeout
                .saturating_add(options.statement_timeout / 2),
            well: AtomicBool::new(true),
            unfit: Mutex::new(None),
        })
    }

    /// A connection to use, within the time to wait.
    ///
    /// # Errors
    /// `Busy` when all stay in use, `Down` when none can be made or the keeper was closed.
    pub(super) async fn lease(self: &Arc<Self>) -> Result<Lease, StoreError> {
        let place = tokio::time::timeout(self.wait, Arc::clone(&self.room).acquire_owned()).await;
        let place = place
            .map_err(|_| StoreError::Busy)?
            .map_err(|_| StoreError::closed())?;
        let idle = super::locked(&self.idle).pop();
        let line = match idle {
            Some(line) => line,
            None => self.connect(None).await?,
        };
        Ok(Lease {
            line,
            conns: Arc::clone(self),
            _place: place,
        })
    }

    /// A connection in place of one that was lost: the others are probably lost too.
    ///
    /// # Errors
    /// `Down` when none can be made.
    pub(super) async fn instead(&self, lease: &mut Lease) -> Result<(), StoreError> {
        self.forget_idle();
        lease.line = self.connect(None).await?;
        Ok(())
    }

    /// Makes a connection, and checks that what is committed on it is durable and stays so.
    ///
    /// # Errors
    /// `Down` when it cannot be made, `Refuse` when the server or its settings will not do.
    pub(super) async fn connect(&self, clock: Option<&Source>) -> Result<Line, StoreError> {
        let lost = |why: String| {
            self.well.store(false, Ordering::Release);
            StoreError::Down(format!("the database cannot be reached: {why}"))
        };
        let most = CONNECT.min(self.patience);
        let connected = tokio::time::timeout(most, async {
            let mut db = self.options.connect().await?;
            let row = match sqlx::query(sql::CHECK).fetch_one(&mut db).await {
                Err(e) if is_forbidden(&e) => return Ok(Err(hidden(&e.to_string()))),
                row => row?,
            };
            let name = match check(&row) {
                Ok(name) => name,
                Err(refused) => return Ok(Err(refused)),
            };
            // Only now: what is set for the server is checked first.
            sqlx::query(sql::PIN).fetch_one(&mut db).await?;
            let sent = clock.map(Source::ours);
            let now = sqlx::query(sql::NOW).fetch_one(&mut db).await?;
            Ok::<_, sqlx::Error>(Ok((db, name, sent, now)))
        });
        let (db, name, sent, now) = match connected.await {
            Ok(Ok(connected)) => connected?,
            Ok(Err(e)) => return Err(lost(e.to_string())),
            Err(_) => return Err(lost(format!("no answer in {most:?}"))),
        };
        if let (Some(clock), Some(sent)) = (clock, sent) {
            clock.read(sent, now.number("now").map_err(lost)?);
        }
        self.well.store(true, Ordering::Release);
        Ok(Line { db, name })
    }

    /// What the answer to a question may take.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    /// The address, for a listener.
    pub(super) fn options(&self) -> PgConnectOptions {
        self.options.clone()
    }

    /// Whether the last that was heard of the server was good.
    pub(super) fn well(&self) -> bool {
        self.well.load(Ordering::Acquire)
    }

    /// Says how the server was last heard of.
    pub(super) fn heard(&self, well: bool) {
        self.well.store(well, Ordering::Release);
    }

    /// Why no write may be made on this server now, as far as is known.
    pub(super) fn unfit(&self) -> Option<String> {
        super::locked(&self.unfit).clone()
    }

    /// Says why the server will not do, or that it does.
    pub(super) fn found(&self, unfit: Option<String>) {
        let mut before = super::locked(&self.unfit);
        match (before.is_some(), &unfit) {
            (false, Some(why)) => tracing::error!(why, "no writes are taken"),
            (true, None) => tracing::info!("the database will do again: writes are taken"),
            _ => {}
        }
        *before = unfit;
    }

    /// Closes what is idle.
    pub(super) fn forget_idle(&self) {
        super::locked(&self.idle).clear();
    }

    /// Waits until everything in use came back, and closes all. Leases that are asked for later are refused.
    pub(super) async fn close(&self) {
        // What is in use ends by itself within the server's patience and ours.
        let most = Instant::now() + self.patience * 4;
        while Instant::now() < most && self.room.available_permits() < self.most as usize {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.room.close();
        let idle = std::mem::take(&mut *super::locked(&self.idle));
        for line in idle {
            drop(line.db.close().await);
        }
    }
}

impl Lease {
    /// Gives the connection back: all that was asked on it was answered, and no transaction is open.
    pub(super) fn give_back(self) {
        let Lease { line, conns, _place } = self;
        super::locked(&conns.idle).push(line);
    }
}

/// Names what will not do, and the setting to change.
fn check(row: &PgRow) -> Result<LineName, StoreError> {
    let wrong = |what: String| StoreError::Refuse(format!("the database {what}"));
    let number = |column| {
        row.number(column)
            .map_err(|e| wrong(format!("does not tell its {column}: {e}")))
    };
    let text = |column| {
        row.text(column)
            .map_err(|e| wrong(format!("does not tell its {column}: {e}")))
    };
    let server = number("server")?;
    if server < OLDEST_SERVER {
        return Err(wrong(format!(
            "is PostgreSQL {}; it must be {} or newer",
            server / 10_000,
            OLDEST_SERVER / 10_000
        )));
    }
    if text("standby")? == "on" {
        return Err(wrong(
            "is a standby and takes no writes: give the address of the primary".to_owned(),
        ));
    }
    for setting in ["fsync", "full_page_writes", "synchronous_commit"] {
        let value = text(setting)?;
        if value == "off" {
            return Err(StoreError::Refuse(forgets(setting)));
        }
    }
    let started = row.number_or_null("started").map_err(|e| hidden(&e))?;
    Ok(LineName {
        pid: number("pid")?,
        started: started.ok_or_else(|| hidden("its row, or when it was started, is missing"))?,
    })
}

/// What to tell where a setting is off that durability needs.
pub(super) fn forgets(setting: &str) -> String {
    format!(
        "the database has {setting} = off: a claim could be lost after it was answered, and its act be carried out a second time. Set \
         {setting} = on"
    )
}

/// Who cannot see connections cannot tell whether a lost one has ended, and would take every doubt for over.
fn hidden(why: &str) -> StoreError {
    StoreError::Refuse(format!(
        "the database does not show its user's own connection in pg_stat_activity ({why}): it could not be told whether a \
         write whose connection was lost is still under way. Let that user read pg_stat_activity, and connect as itself, not \
         with the role of another"
    ))
}

fn is_forbidden(error: &sqlx::Error) -> bool {
    let sqlx::Error::Database(said) = error else {
        return false;
    };
    // No privilege, and no such table.
    matches!(said.code().as_deref(), Some("42501" | "42P01"))
}
