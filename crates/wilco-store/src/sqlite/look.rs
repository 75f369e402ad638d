//! Looking closer: what stands in the way of a batch that the database refused.

use std::collections::{HashMap, HashSet};

use serde::Serialize;
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
        // Names first, and from the row itself: they are taken even where the rest makes no sense.
        let Ok(id) = row.try_get::<String, _>("act_id")?.parse::<ActId>() else {
            continue;
        };
        seen.handoffs
            .insert((row.try_get("thread")?, row.try_get("handoff_id")?), id);
        let undo_of: Option<String> = row.try_get("undo_of")?;
        if let Some(of) = undo_of.and_then(|of| of.parse().ok()) {
            seen.undos.insert(of, id);
        }
        seen.acts.insert(id, decode::act(row));
    }
    let rows = sqlx::query(sql::MESSAGES_TAKEN)
        .bind(json(&messages)?)
        .fetch_all(db)
        .await?;
    for row in &rows {
        seen.messages.insert((row.try_get(0)?, row.try_get(1)?));
    }
    Ok(seen)
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
