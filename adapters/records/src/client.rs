//! The only IO of this crate: one exchange with the database at a time, each on a connection of its own.
//!
//! The change is one transaction. What makes it stand is COMMIT, and nothing before it:
//!
//! ```text
//! connect, BEGIN, check          a failure here: certainly nothing changed
//! permit.may_send()              no: certainly nothing changed
//! compare-and-swap, our reference, the rows read back, the call-back
//!                                a failure here: rolled back, certainly nothing changed
//! permit.may_send()              no: rolled back
//! ---------------------------------------------------------------------------------
//! COMMIT                         a failure here: nobody knows
//! ```
//!
//! Nothing here retries or keeps a connection.

mod postgres;
mod sqlite;

use std::sync::Arc;

use wilco_adapter::Permit;
use wilco_core::{ActId, Clock};

use crate::callback::{Called, Calls};
use crate::config::{Checked, Whereabouts};
use crate::tables::{ACTS_TABLE, CALLBACKS_TABLE};
use crate::wire::{Recorded, Row, Swap};
use postgres::Postgres;
use sqlite::Sqlite;

/// Speaks to the database with the vendor table.
pub(crate) enum Client {
    Sqlite(Sqlite),
    Postgres(Postgres),
}

/// What a vendor's row looks like now, and in which database.
#[derive(Debug)]
pub(crate) struct Seen {
    /// At most two: more than one is too many.
    pub rows: Vec<Row>,
    /// Where they were asked for.
    pub calls: Option<Calls>,
    /// Which database it is: the same words for the same one, whatever address leads to it.
    pub database: String,
}

/// What was found under our reference.
#[derive(Debug)]
pub(crate) struct Looked {
    pub recorded: Option<Recorded>,
    /// Where a call-back was required, and they could be read.
    pub calls: Option<Calls>,
    pub database: String,
}

/// A change to make.
pub(crate) struct Order {
    pub permit: Permit,
    pub swap: Swap,
    /// Whether a call-back has to stand beside it.
    pub callback: bool,
    pub clock: Arc<dyn Clock>,
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum Changed {
    /// It was made, with this row, and, where one was required, on this call-back.
    Done(Recorded, Option<Called>),
    /// It had been made before.
    Before(Recorded),
    /// The database says that it cannot be made; nothing changed.
    Refused(String),
    /// Nothing changed, for a reason of the line or the time.
    NotSent(String),
    /// It may stand or not.
    Unknown(String),
}

/// Why a step before COMMIT was not taken, or failed: nothing stands.
enum Stop {
    /// The database refuses the change for what it would do.
    Refused(String),
    /// Everything else.
    Trouble(String),
}

impl Stop {
    fn words(self) -> String {
        match self {
            Stop::Refused(text) | Stop::Trouble(text) => text,
        }
    }
}

impl Client {
    pub fn new(config: &Arc<Checked>) -> Client {
        match &config.whereabouts {
            Whereabouts::Sqlite(path) => Client::Sqlite(Sqlite::new(path.clone(), config.clone())),
            Whereabouts::Postgres { .. } => Client::Postgres(Postgres::new(config.clone())),
        }
    }

    /// The vendor's row, for prepare.
    pub async fn read(&self, sup: &str) -> Result<Seen, String> {
        match self {
            Client::Sqlite(db) => db.read(sup, None).await,
            Client::Postgres(db) => db.read(sup).await,
        }
    }

    /// The vendor's row and the call-backs for this change, where it will be made.
    pub async fn standing(&self, act: ActId, swap: &Swap) -> Result<Seen, String> {
        match self {
            Client::Sqlite(db) => db.read(&swap.sup, Some((act, swap.clone()))).await,
            Client::Postgres(db) => db.standing(act, swap).await,
        }
    }

    /// The row with our reference. Cannot change anything.
    pub async fn find(&self, act: ActId, swap: &Swap) -> Result<Looked, String> {
        match self {
            Client::Sqlite(db) => db.find(act, swap.clone()).await,
            Client::Postgres(db) => db.find(act, swap).await,
        }
    }

    /// Makes the change, once.
    pub async fn change(&self, order: Order) -> Changed {
        match self {
            Client::Sqlite(db) => db.change(order).await,
            Client::Postgres(db) => db.change(order).await,
        }
    }

    /// Whether everything is there that a change needs.
    pub async fn check(&self) -> Result<(), String> {
        match self {
            Client::Sqlite(db) => db.check().await,
            Client::Postgres(db) => db.check().await,
        }
    }

    /// As operators read it.
    pub fn shown(&self) -> String {
        match self {
            Client::Sqlite(db) => db.shown(),
            Client::Postgres(db) => db.shown(),
        }
    }
}

/// Words for a table that lacks the key which keeps a change from being made twice.
fn no_key(table: &str) -> String {
    format!(
        "table {table} has no primary key or unique index on ref alone, without which a change could be made twice; add one: \
         ALTER TABLE {table} ADD PRIMARY KEY (ref), or in SQLite CREATE UNIQUE INDEX {table}_ref ON {table} (ref)"
    )
}

/// What to do about a table of ours that is missing, where that is what the database's words are about.
fn missing(config: &Checked, text: &str) -> String {
    let ours = [(&config.acts, ACTS_TABLE), (&config.callbacks, CALLBACKS_TABLE)];
    let hint = ours.into_iter().find_map(|(name, create)| {
        let name = name.shown();
        let said = [
            format!("no such table: {name}"),
            format!("relation \"{name}\" does not exist"),
        ];
        said.iter().any(|s| text.contains(s)).then(|| {
            let usual = if create == ACTS_TABLE {
                "wilco_acts"
            } else {
                "wilco_callbacks"
            };
            // On one line, a comment would go on to the end.
            let lines = create
                .lines()
                .map(|l| l.split("--").next().unwrap_or_default().trim());
            let sql: Vec<&str> = lines.filter(|l| !l.is_empty()).collect();
            let sql = sql.join(" ").replacen(usual, &name, 1);
            // Without its end: the sentence goes on with a semicolon of its own.
            format!("; create it: {}", sql.trim_end_matches(';'))
        })
    });
    hint.unwrap_or_default()
}

/// Words for a change that was stated from another database.
fn elsewhere(stated: &str, here: &str) -> String {
    format!("it was stated from the database {stated}, and the configuration now leads to {here}")
}
