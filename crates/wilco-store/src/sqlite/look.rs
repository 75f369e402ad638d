//! Looking closer: what stands in the way of a batch that the database refused.

use std::collections::{HashMap, HashSet};

use serde::Serialize;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};
use wilco_core::{Act, ActId, Expect};

use super::{decode, sql};
use crate::StoreError;
use crate::judge::{Sealed, Standing};

/// Everything that bears on a batch, as it stands inside the transaction.
#[derive(Default)]
pub(super) struct Seen {
    acts: HashMap<ActId, Result<Act, StoreError>>,
    handoffs: HashMap<(String, String), ActId>,
    undos: HashMap<ActId, ActId>,
    messages: HashSet<(String, String)>,
}

#[derive(Serialize)]
struct Name<'a> {
    thread: &'a str,
    id: &'a str,
}

/// Reads what bears on these writes.
pub(super) async fn look(
    db: &mut SqliteConnection,
    decided: &[Result<Sealed, StoreError>],
) -> Result<Seen, sqlx::Error> {
    let changes: Vec<_> = decided
        .iter()
        .filter_map(|d| d.as_ref().ok())
        .flat_map(|w| &w.changes)
        .collect();
    let ids: Vec<ActId> = changes.iter().map(|c| c.act.act_id).collect();
    let undos: Vec<ActId> = changes.iter().filter_map(|c| c.act.undo_of).collect();
    let handoffs: Vec<Name<'_>> = changes
        .iter()
        .filter(|c| c.expect == Expect::Absent)
        .map(|c| Name {
            thread: &c.act.thread,
            id: &c.act.handoff.id,
        })
        .collect();
    let messages: Vec<Name<'_>> = changes
        .iter()
        .flat_map(|c| {
            let ids = c.entries.iter().filter_map(|e| e.message_id.as_deref());
            ids.map(|id| Name {
                thread: &c.act.thread,
                id,
            })
        })
        .collect();

    let mut seen = Seen::default();
    let rows = sqlx::query(sql::IN_THE_WAY)
        .bind(json(&ids)?)
        .bind(json(&handoffs)?)
        .bind(json(&undos)?)
        .fetch_all(&mut *db)
        .await?;
    for row in &rows {
        seen.add(row);
    }
    let rows = sqlx::query(sql::MESSAGES_TAKEN)
        .bind(json(&messages)?)
        .fetch_all(db)
        .await?;
    for row in &rows {
        if let (Ok(thread), Ok(id)) = (row.try_get(0), row.try_get(1)) {
            seen.messages.insert((thread, id));
        }
    }
    Ok(seen)
}

impl Seen {
    /// Names come from the row itself: they are taken even where the rest of it makes no sense. A column that cannot
    /// be read at all names nothing here; the row's own error tells whoever asks for the act.
    fn add(&mut self, row: &SqliteRow) {
        let text = |column: &str| row.try_get::<String, _>(column).ok();
        let Some(id) = text("act_id").and_then(|id| id.parse::<ActId>().ok()) else {
            return;
        };
        if let (Some(thread), Some(handoff_id)) = (text("thread"), text("handoff_id")) {
            self.handoffs.insert((thread, handoff_id), id);
        }
        if let Some(of) = text("undo_of").and_then(|of| of.parse().ok()) {
            self.undos.insert(of, id);
        }
        self.acts.insert(id, decode::act(row));
    }
}

impl Standing for Seen {
    fn act(&self, id: ActId) -> Result<Option<Act>, StoreError> {
        self.acts.get(&id).cloned().transpose()
    }

    fn handoff(&self, thread: &str, handoff_id: &str) -> Result<Option<Act>, StoreError> {
        match self.handoffs.get(&(thread.to_owned(), handoff_id.to_owned())) {
            Some(id) => self.act(*id),
            None => Ok(None),
        }
    }

    fn undoing(&self, of: ActId) -> Option<ActId> {
        self.undos.get(&of).copied()
    }

    fn message_taken(&self, thread: &str, message_id: &str) -> bool {
        self.messages
            .contains(&(thread.to_owned(), message_id.to_owned()))
    }
}

fn json(names: &impl Serialize) -> Result<String, sqlx::Error> {
    serde_json::to_string(names).map_err(|e| sqlx::Error::Encode(Box::new(e)))
}
