//! A keeper in one SQLite file, for one daemon on one folder.
//!
//! `DIR/lock` is held for the keeper's life. One connection writes, owned by one thread that groups concurrent writes into
//! one transaction (`writer.rs`); a few connections read. What happens when a transaction goes wrong is in `doubt.rs`.

mod doubt;
mod faults;
mod line;
pub mod lock;
mod open;
mod read;
mod sql;
mod writer;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use sqlx::Connection;
use sqlx::sqlite::SqlitePool;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use wilco_core::write::Decide;
use wilco_core::{Clock, Written};

#[cfg(feature = "suite")]
pub use faults::Fault;

use self::faults::Faults;
use self::line::WriteConnection;
use self::lock::FolderLock;
use self::writer::{Job, Writer};
use crate::StoreError;
use crate::clock::StoreClock;
use crate::port::{down, locked};
use crate::tally::Tally;

/// How a folder is opened.
#[derive(Clone)]
pub struct SqliteOptions {
    /// The folder; made if it is not there.
    pub dir: PathBuf,
    /// The clock writes are stamped by.
    pub clock: Arc<dyn Clock>,
    /// How many writes may wait before the next is answered `Busy`.
    pub queue: usize,
    /// How many connections read.
    pub readers: u32,
}

impl SqliteOptions {
    /// The folder `dir` on this clock, with 1024 writes waiting and 4 readers at most.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>, clock: Arc<dyn Clock>) -> SqliteOptions {
        SqliteOptions {
            dir: dir.into(),
            clock,
            queue: 1024,
            readers: 4,
        }
    }
}

/// Keeps acts in `DIR/wilco.sqlite`.
pub struct SqliteKeeper {
    shared: Arc<Shared>,
    readers: SqlitePool,
    queue: Mutex<Option<mpsc::Sender<Job>>>,
    /// Answers once the writer has ended.
    writer: Mutex<Option<oneshot::Receiver<()>>>,
    lock: Mutex<Option<Arc<FolderLock>>>,
}

/// What the writer and everybody else share.
struct Shared {
    dir: PathBuf,
    clock: StoreClock,
    counters: Tally,
    stopped: Mutex<Option<Stopped>>,
    faults: Faults,
}

/// Why no writes are taken.
struct Stopped {
    why: String,
    /// Whether it is so until the end of the process.
    for_good: bool,
}

impl SqliteKeeper {
    /// Takes the folder's lock, opens the file, brings its tables up to date and starts the writer. Must be called
    /// inside a tokio runtime.
    ///
    /// # Errors
    /// `Refuse` when another process has the folder, when a setting durability needs cannot be set, or when the file is
    /// from a newer version; each says what to do. `Row` when the file's clock is missing.
    pub async fn open(options: SqliteOptions) -> Result<SqliteKeeper, StoreError> {
        let SqliteOptions {
            dir,
            clock,
            queue,
            readers,
        } = options;
        open::folder(&dir)?;
        let lock = Arc::new(lock::take(&dir)?);
        open::file(&dir)?;
        let mut connection = WriteConnection::open(&dir)?;
        let mut first = open::first_connection(&dir).await?;
        open::migrate(&mut first, &dir).await?;
        let highest = open::highest(&mut first).await?;
        first.close().await.map_err(down)?;
        connection.guard().map_err(down)?;
        open::flush_folder(&dir)?;

        let shared = Arc::new(Shared {
            clock: StoreClock::new(clock, highest),
            counters: Tally::default(),
            stopped: Mutex::new(None),
            faults: Faults::default(),
            dir,
        });
        let readers = open::readers(&shared.dir, readers.max(1));
        let (sender, receiver) = mpsc::channel(queue.max(1));
        let writer = Writer {
            connection,
            queue: receiver,
            waiting: VecDeque::new(),
            look_again: None,
            shared: Arc::clone(&shared),
            lock: Arc::clone(&lock),
        };
        Ok(SqliteKeeper {
            writer: Mutex::new(Some(writer.start().map_err(down)?)),
            shared,
            readers,
            queue: Mutex::new(Some(sender)),
            lock: Mutex::new(Some(lock)),
        })
    }

    /// The folder's lock, for who must hold it longer than this keeper: it is given back with its last holder. `None` once
    /// the keeper was closed.
    #[must_use]
    pub fn lock(&self) -> Option<Arc<FolderLock>> {
        locked(&self.lock).clone()
    }

    /// Makes the next batch that writes anything go wrong.
    #[cfg(feature = "suite")]
    pub fn fail(&self, fault: Fault) {
        self.shared.faults.add(fault);
    }

    /// Whatever kept the file from being opened again is over.
    #[cfg(feature = "suite")]
    pub fn reopen_succeeds(&self) {
        self.shared.faults.reopen_succeeds();
    }

    async fn enqueue(&self, decide: Decide, erases: bool) -> Result<Written, StoreError> {
        let (answer, answered) = oneshot::channel();
        if let Some(why) = self.shared.stopped() {
            return Err(StoreError::Down(why));
        }
        let sent = match locked(&self.queue).as_ref() {
            Some(queue) => queue.try_send(Job {
                decide,
                erases,
                answer,
            }),
            None => return Err(StoreError::closed()),
        };
        match sent {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => return Err(StoreError::Busy),
            Err(TrySendError::Closed(_)) => return Err(StoreError::closed()),
        }
        let lost = || StoreError::Unknown("the writer ended before it answered".to_owned());
        answered.await.unwrap_or_else(|_| Err(lost()))
    }

    async fn shut(&self) {
        // Closing the queue lets the writer finish what it holds, and then end.
        drop(locked(&self.queue).take());
        let writer = locked(&self.writer).take();
        if let Some(writer) = writer
            && writer.await.is_err()
        {
            tracing::error!("the writer did not end well");
        }
        self.readers.close().await;
        drop(locked(&self.lock).take());
    }
}

impl Shared {
    /// Why no writes are taken, if they are not.
    fn stopped(&self) -> Option<String> {
        locked(&self.stopped).as_ref().map(|stopped| stopped.why.clone())
    }

    /// Takes no more writes; the first such reason stays.
    fn stop(&self, why: &str) {
        let mut stopped = locked(&self.stopped);
        if stopped.as_ref().is_none_or(|s| !s.for_good) {
            *stopped = Some(Stopped {
                why: why.to_owned(),
                for_good: true,
            });
        }
    }

    /// Takes no writes for now.
    fn pause(&self, why: &str) {
        locked(&self.stopped).get_or_insert_with(|| Stopped {
            why: why.to_owned(),
            for_good: false,
        });
    }

    /// Takes writes again, unless it was stopped for good.
    fn resume(&self) {
        locked(&self.stopped).take_if(|stopped| !stopped.for_good);
    }
}

/// The texts of the migrations, for the test that compares them with the other database's.
#[cfg(all(test, feature = "postgres-tests"))]
pub(crate) fn migrations() -> Vec<&'static str> {
    open::MIGRATIONS.iter().map(|(_, _, text)| *text).collect()
}

#[cfg(test)]
mod tests;
