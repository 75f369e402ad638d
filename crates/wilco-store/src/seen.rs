//! Looking closer: what stands in the way of a write that the database refused.

use std::collections::{HashMap, HashSet};

use serde::Serialize;
use wilco_core::write::TwinGuard;
use wilco_core::{Act, ActId, Expect, Timestamp};

use crate::StoreError;
use crate::decode::{self, Columns};
use crate::judge::{Sealed, Standing};
use crate::record::GuardOut;

/// What has to be looked up for some writes: the names they want, each list as JSON.
pub(crate) struct Wanted {
    /// Ids of acts, what they reverse, and handoffs: for `IN_THE_WAY`.
    pub(crate) ids: String,
    pub(crate) handoffs: String,
    pub(crate) undos: String,
    /// For `MESSAGES_TAKEN`.
    pub(crate) messages: String,
    /// For `TWINS`; `None` where no write asks.
    pub(crate) guards: Option<String>,
    asked: Vec<TwinGuard>,
}

/// Everything that bears on some writes, as it stands.
#[derive(Default)]
pub(crate) struct Seen {
    acts: HashMap<ActId, Result<Act, StoreError>>,
    handoffs: HashMap<(String, String), ActId>,
    undos: HashMap<ActId, ActId>,
    twins: Vec<(TwinGuard, Result<Act, StoreError>)>,
    messages: HashSet<(String, String)>,
}

#[derive(Serialize)]
struct Name<'a> {
    thread: &'a str,
    id: &'a str,
}

impl Wanted {
    /// What bears on these writes.
    ///
    /// # Errors
    /// `Down` where a name cannot be written as JSON.
    pub(crate) fn of<'a>(writes: impl Iterator<Item = &'a Sealed> + Clone) -> Result<Wanted, StoreError> {
        let changes = || writes.clone().flat_map(Sealed::changes);
        let ids: Vec<ActId> = changes().map(|(_, act, _)| act.act_id).collect();
        let undos: Vec<ActId> = changes().filter_map(|(_, act, _)| act.undo_of).collect();
        let handoffs: Vec<Name<'_>> = changes()
            .filter(|(before, ..)| before.expect == Expect::Absent)
            .map(|(_, act, _)| Name {
                thread: &act.thread,
                id: &act.handoff.id,
            })
            .collect();
        let messages: Vec<Name<'_>> = changes()
            .flat_map(|(_, act, rows)| {
                let ids = rows.iter().filter_map(|r| r.message_id.as_deref());
                ids.map(|id| Name {
                    thread: &act.thread,
                    id,
                })
            })
            .collect();
        let guards: Vec<_> = writes
            .flat_map(|write| write.guards().map(|guard| (guard, write.at)))
            .collect();
        let out: Vec<GuardOut<'_>> = guards
            .iter()
            .enumerate()
            .map(|(place, (guard, at))| GuardOut::new(place, guard, *at))
            .collect();
        Ok(Wanted {
            ids: json(&ids)?,
            handoffs: json(&handoffs)?,
            undos: json(&undos)?,
            messages: json(&messages)?,
            guards: if out.is_empty() { None } else { Some(json(&out)?) },
            asked: guards.into_iter().map(|(guard, _)| guard.clone()).collect(),
        })
    }
}

impl Seen {
    /// Takes in an act that is in the way.
    ///
    /// Names come from the row itself: they are taken even where the rest of it makes no sense. A column that cannot
    /// be read at all names nothing here; the row's own error tells whoever asks for the act.
    pub(crate) fn add_act(&mut self, row: &impl Columns) {
        let text = |column: &str| row.text(column).ok();
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

    /// The latest instant at which one of the acts in the way was written.
    pub(crate) fn latest(&self) -> Option<Timestamp> {
        let acts = self.acts.values().filter_map(|act| act.as_ref().ok());
        acts.map(|act| act.updated_at).max()
    }

    /// Takes in a twin of one of the guards.
    pub(crate) fn add_twin(&mut self, row: &impl Columns, wanted: &Wanted) {
        let place = row.number("place").ok().and_then(|n| usize::try_from(n).ok());
        if let Some(guard) = place.and_then(|i| wanted.asked.get(i)) {
            self.twins.push((guard.clone(), decode::act(row)));
        }
    }

    /// Takes in a message id that is taken.
    pub(crate) fn add_message(&mut self, row: &impl Columns) {
        if let (Ok(thread), Ok(id)) = (row.text("thread"), row.text("message_id")) {
            self.messages.insert((thread, id));
        }
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

    fn twin(&self, guard: &TwinGuard) -> Result<Option<Act>, StoreError> {
        let found = self.twins.iter().find(|(g, _)| g == guard);
        found.map(|(_, twin)| twin.clone()).transpose()
    }

    fn message_taken(&self, thread: &str, message_id: &str) -> bool {
        self.messages
            .contains(&(thread.to_owned(), message_id.to_owned()))
    }
}

fn json(names: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(names)
        .map_err(|e| StoreError::Down(format!("a name cannot be written as JSON: {e}")))
}
