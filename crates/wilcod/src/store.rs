//! Opening the store: the data folder's own, or a database that several daemons share.
//!
//! The folder's lock is held either way. In the folder it proves that nobody else has the store; on a database, that
//! every earlier owner of this folder's name is dead.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use wilco_core::Clock;
use wilco_store::sqlite::lock::FolderLock;
use wilco_store::{Keeper, PostgresKeeper, PostgresOptions, SqliteKeeper, SqliteOptions, StoreError};

use crate::config::Store;
use crate::database::DatabaseUrl;

/// A store that was opened.
pub struct Opened {
    /// The store.
    pub keeper: Arc<dyn Keeper>,
    /// Whether nobody else can have it.
    pub alone: bool,
    /// The folder's lock. Calls can go on after the store was closed: it is given back when none can.
    pub lock: Option<Arc<FolderLock>>,
}

/// Takes the folder's lock, and opens the store. `clock` is this machine's: a database has its own.
///
/// # Errors
/// Another daemon has the folder, the store cannot be reached, or it is set up so that a claim would not be durable.
pub async fn open(
    data: &Path,
    url: Option<&DatabaseUrl>,
    settings: &Store,
    clock: Arc<dyn Clock>,
) -> Result<Opened, StoreError> {
    match url {
        None => {
            let keeper = SqliteKeeper::open(SqliteOptions::new(data, clock)).await?;
            let lock = keeper.lock();
            Ok(Opened {
                keeper: Arc::new(keeper),
                alone: true,
                lock,
            })
        }
        Some(url) => {
            let lock = wilco_store::sqlite::lock::take(data)?;
            tracing::info!(database = ?url, "acts are kept in a database that other daemons may share");
            let keeper = PostgresKeeper::open(options(url, settings)).await?;
            Ok(Opened {
                keeper: Arc::new(keeper),
                alone: false,
                lock: Some(Arc::new(lock)),
            })
        }
    }
}

fn options(url: &DatabaseUrl, settings: &Store) -> PostgresOptions {
    let millis = |ms: u32| Duration::from_millis(u64::from(ms));
    let mut options = PostgresOptions::new(url.reveal());
    options.connections = settings.connections_max;
    options.wait = millis(settings.connection_wait_ms);
    options.statement_timeout = millis(settings.statement_timeout_ms);
    options.lock_timeout = options.lock_timeout.min(options.statement_timeout);
    options
}
