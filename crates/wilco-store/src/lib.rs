//! Keeping acts and their journal.
//!
//! The port is [`Keeper`]: what must be true of any store once a method has returned. Three keepers stand behind it:
//! [`memory`] for tests and simulation, [`sqlite`] for one daemon on one folder, [`postgres`] for several on one database. No rule about acts lives here: what
//! to write is decided by `wilco-core`, inside the transaction, through [`wilco_core::write::Decide`].
//!
//! To add a keeper: implement the trait, and run [`suite`] on it.

#[macro_use]
mod sql;

mod clock;
mod decode;
mod erase;
mod judge;
pub mod memory;
mod page;
mod port;
pub mod postgres;
mod record;
mod seen;
pub mod sqlite;
#[cfg(feature = "suite")]
pub mod suite;
mod tally;
mod walk;

pub use memory::MemoryKeeper;
pub use port::{Counters, Filter, Keeper, Page, Purged, StoreError, ThreadLine};
pub use postgres::{PostgresKeeper, PostgresOptions};
pub use sqlite::{SqliteKeeper, SqliteOptions};
