//! A keeper in Postgres, for several daemons on one database.
//!
//! Every write is one statement, and so one round trip and a transaction of its own (`sql::WRITE`, `write.rs`): Postgres
//! puts the flushes of many such transactions together by itself, so what they need is enough connections (`conns.rs`),
//! not a queue. Instants are the database's (`clock.rs`). A connection that is lost in the middle of a write leaves a
//! doubt, which `doubt.rs` ends before anybody is answered.
//!
//! **Order.** What is decided from an act that was read has a later instant than that act, in whichever daemon. Two writes
//! that overlap stand in the order of their instants; so a thread's line may come to stand before one that was already read.
//! Who must see every line reads the thread from its beginning.

mod clock;
mod conns;
mod doubt;
mod faults;
mod hints;
mod open;
mod parcel;
mod read;
mod sql;
mod ticker;
mod write;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinHandle;
use wilco_core::Timestamp;
use wilco_core::write::Decide;

#[cfg(feature = "suite")]
pub use self::faults::Fault;

use self::clock::{Estimate, Source};
use self::conns::Conns;
use self::faults::Faults;
use self::hints::Hints;
use crate::StoreError;
use crate::clock::StoreClock;
use crate::judge::{Sealed, sealed};
use crate::port::locked;
use crate::tally::Tally;

/// How a database is opened.
#[derive(Clone)]
pub struct PostgresOptions {
    /// Where it is: `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, or with `?host=/FOLDER` for a Unix socket. The
    /// connection is not encrypted: it must stay on this machine, or on a network where nobody listens.
    pub url: String,
    /// How many connections may be open at once, besides one that listens and one that tells.
    pub connections: u32,
    /// How long a caller waits for a connection that is in use before it is answered `Busy`.
    pub wait: Duration,
    /// How long a statement may take before the server gives it up.
    pub statement_timeout: Duration,
    /// How long a statement may wait for a lock before the server gives it up.
    pub lock_timeout: Duration,
    /// How long to ask what became of a write whose connection was lost.
    pub doubt: Duration,
    /// Instants come from this clock, and are not compared with the database's.
    #[cfg(feature = "suite")]
    pub clock: Option<Arc<dyn wilco_core::Clock>>,
    /// Works as a build whose newest migration this is.
    #[cfg(feature = "suite")]
    pub newest_migration: Option<i64>,
}

impl PostgresOptions {
    /// The database at `url`: 32 connections, 2 s to wait for one, 10 s for a statement and 5 s for a lock in it, 30 s to
    /// end a doubt.
    #[must_use]
    pub fn new(url: impl Into<String>) -> PostgresOptions {
        PostgresOptions {
            url: url.into(),
            connections: 32,
            wait: Duration::from_secs(2),
            statement_timeout: Duration::from_secs(10),
            lock_timeout: Duration::from_secs(5),
            doubt: Duration::from_secs(30),
            #[cfg(feature = "suite")]
            clock: None,
            #[cfg(feature = "suite")]
            newest_migration: None,
        }
    }
}

/// Keeps acts in a Postgres database that other daemons may use too.
pub struct PostgresKeeper {
    shared: Arc<Shared>,
    ticker: Mutex<Option<JoinHandle<()>>>,
}

/// What every task shares.
struct Shared {
    conns: Arc<Conns>,
    clock: StoreClock,
    source: Arc<Source>,
    /// Held while an instant is given out and decided with, so that within this process decisions are made in the order of
    /// their instants.
    turn: Mutex<()>,
    counters: Tally,
    closed: AtomicBool,
    hints: Hints,
    faults: Faults,
    doubt: Duration,
}

impl PostgresKeeper {
    /// Connects, brings the tables up to date and starts to note the clock. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// `Refuse` when the address is none, the server is too old, a setting durability needs is off, or the tables are from a
    /// newer version that this one cannot work beside; each says what to do. `Down` when the server does not answer.
    pub async fn open(options: PostgresOptions) -> Result<PostgresKeeper, StoreError> {
        let conns = Arc::new(Conns::new(&options)?);
        let source = Arc::new(source(&options));
        let mut line = conns.connect(Some(&source)).await?;
        open::migrate(&mut line.db, newest(&options)).await?;
        let highest = open::highest(&mut line.db).await?;
        drop(sqlx::Connection::close(line.db).await);
        let shared = Arc::new(Shared {
            clock: StoreClock::new(Arc::clone(&source) as _, highest),
            hints: Hints::new(Arc::clone(&conns)),
            conns,
            source,
            turn: Mutex::new(()),
            counters: Tally::default(),
            closed: AtomicBool::new(false),
            faults: Faults::default(),
            doubt: options.doubt,
        });
        let ticker = tokio::spawn(ticker::run(Arc::clone(&shared)));
        Ok(PostgresKeeper {
            shared,
            ticker: Mutex::new(Some(ticker)),
        })
    }

    /// Makes the next write go wrong.
    #[cfg(feature = "suite")]
    pub fn fail(&self, fault: Fault) {
        self.shared.faults.add(fault);
    }

    async fn shut(&self) {
        self.shared.closed.store(true, Ordering::Release);
        let ticker = locked(&self.ticker).take();
        if let Some(ticker) = ticker {
            ticker.abort();
            drop(ticker.await);
        }
        ticker::note(&self.shared).await;
        self.shared.hints.close();
        self.shared.conns.close().await;
    }
}

impl Shared {
    /// Decides with the next instant, chosen so much ahead of the clock, and seals what was decided. Answers besides when
    /// that was, by this process's own clock.
    ///
    /// # Errors
    /// `Down` when the clock is too far behind; `Row` when the decision makes no sense.
    fn decide(&self, decide: &Decide, erases: bool, ahead: i64) -> Result<(Sealed, i64), StoreError> {
        let turn = locked(&self.turn);
        let sent = self.source.ours();
        let at = self.clock.next_ahead(ahead)?;
        // A decision that panics must not take the task with it.
        let changes = catch_unwind(AssertUnwindSafe(|| decide(at)));
        drop(turn);
        let changes = changes.map_err(|_| StoreError::Down("the decision panicked".to_owned()))?;
        Ok((sealed(changes, at, erases)?, sent))
    }

    fn is_open(&self) -> Result<(), StoreError> {
        if self.closed.load(Ordering::Acquire) {
            Err(StoreError::closed())
        } else {
            Ok(())
        }
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

#[cfg(feature = "suite")]
fn source(options: &PostgresOptions) -> Source {
    match &options.clock {
        Some(clock) => Source::Given(Arc::clone(clock)),
        None => Source::Database(Estimate::new()),
    }
}

#[cfg(not(feature = "suite"))]
fn source(_: &PostgresOptions) -> Source {
    Source::Database(Estimate::new())
}

#[cfg(feature = "suite")]
fn newest(options: &PostgresOptions) -> i64 {
    options.newest_migration.unwrap_or(open::NEWEST)
}

#[cfg(not(feature = "suite"))]
fn newest(_: &PostgresOptions) -> i64 {
    open::NEWEST
}

#[cfg(all(test, feature = "postgres-tests"))]
mod tests;
