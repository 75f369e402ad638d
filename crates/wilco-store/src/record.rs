//! An act and its journal as columns: what databases keep, and back.
//!
//! Reading back is strict. Whatever a row holds, it either is an act that could have been written, or the answer names
//! the table, the column and the row; nothing is guessed, and nothing panics.

use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use wilco_core::act::{TokenRecord, WaitingCancel};
use wilco_core::journal::{EntryKind, Row};
use wilco_core::write::TwinGuard;
use wilco_core::{Act, ActId, Contract, Handoff, Stage, State, Timestamp};

use crate::StoreError;

/// An act to be written, as JSON that the database takes apart column by column.
#[derive(Serialize)]
pub(crate) struct ActOut<'a> {
    act_id: ActId,
    /// The version it was made from; 0 for an act that is new.
    was: u64,
    /// The journal's head it was made from.
    was_head: &'a str,
    thread: &'a str,
    handoff_id: &'a str,
    version: u64,
    state: &'a str,
    principal: &'a str,
    attempt: u32,
    updated_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    due_at: Option<Timestamp>,
    limit_at: Timestamp,
    seq: u64,
    head: &'a str,
    lines: u32,
    #[serde(serialize_with = "as_number")]
    long_ids: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    undo_of: Option<ActId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    released_by: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile_digest: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    contract: Option<&'a Contract>,
    tokens: &'a [TokenRecord],
    waiting: &'a [WaitingCancel],
    stage: &'a Stage,
    /// Only in an act that is new: it is written with its handoff.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    handoff: Option<HandoffOut<'a>>,
}

/// The handoff of an act, as JSON: what does not change once it has come, but for the likeness, which is of the values
/// last stated.
#[derive(Serialize)]
pub(crate) struct HandoffOut<'a> {
    ho_line: &'a str,
    sender: &'a str,
    receiver: &'a str,
    item: &'a str,
    ask: &'a str,
    profile: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    likeness: Option<&'a str>,
    created_at: Timestamp,
}

/// A handoff for a tombstone that may have waited for it, and the likeness of the act's last statement.
#[derive(Serialize)]
pub(crate) struct ArrivalOut<'a> {
    act_id: ActId,
    #[serde(flatten)]
    handoff: HandoffOut<'a>,
}

/// How long a part of the likeness index is, in microseconds: sixteen days. It stands in the migrations and in the SQL.
pub(crate) const LIKENESS_SPAN_US: i64 = 16 * 86_400_000_000;

/// Which acts would be likely twins, as JSON, and in which parts of the index they are looked for.
#[derive(Serialize)]
pub(crate) struct GuardOut<'a> {
    place: usize,
    likeness: &'a str,
    since: Timestamp,
    first: i64,
    last: i64,
    states: Vec<&'static str>,
    except: &'a [ActId],
}

impl<'a> GuardOut<'a> {
    /// The guard of a write decided at `at`, which is in this `place` of a list. Another writer's clock may have read a little more: one part further is
    /// looked at.
    pub(crate) fn new(place: usize, guard: &'a TwinGuard, at: Timestamp) -> GuardOut<'a> {
        GuardOut {
            place,
            likeness: &guard.likeness,
            since: guard.since,
            first: guard.since.0 / LIKENESS_SPAN_US,
            last: at.0 / LIKENESS_SPAN_US + 1,
            states: guard.states.iter().map(|s| s.as_str()).collect(),
            except: &guard.except,
        }
    }
}

/// A journal row to be written, as JSON.
#[derive(Serialize)]
pub(crate) struct RowOut<'a> {
    act_id: ActId,
    seq: u64,
    kind: EntryKind,
    thread: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a str>,
    body_sha256: &'a str,
    principal: &'a str,
    at: Timestamp,
    hash: &'a str,
}

impl<'a> ActOut<'a> {
    /// An act that is new.
    pub(crate) fn fresh(act: &'a Act) -> ActOut<'a> {
        ActOut {
            handoff: Some(HandoffOut::new(act)),
            ..ActOut::changed(act, 0, "")
        }
    }

    /// An act as it will stand, made from version `was` and journal head `was_head`.
    pub(crate) fn changed(act: &'a Act, was: u64, was_head: &'a str) -> ActOut<'a> {
        let frozen = act.offer().map(|o| &o.frozen);
        ActOut {
            act_id: act.act_id,
            was,
            was_head,
            thread: &act.thread,
            handoff_id: &act.handoff.id,
            version: act.version,
            state: act.state().as_str(),
            principal: &act.principal,
            attempt: act.attempt,
            updated_at: act.updated_at,
            due_at: act.due_at(),
            limit_at: act.limit,
            seq: act.seq,
            head: &act.head,
            lines: act.lines,
            long_ids: act.long_ids,
            undo_of: act.undo_of,
            released_by: act.released_by.as_deref(),
            profile_digest: frozen.map(|f| f.profile_digest.as_str()),
            contract: frozen.map(|f| &f.contract),
            tokens: &act.tokens,
            waiting: &act.waiting,
            stage: &act.stage,
            handoff: None,
        }
    }
}

impl<'a> HandoffOut<'a> {
    fn new(act: &'a Act) -> HandoffOut<'a> {
        HandoffOut {
            ho_line: &act.handoff.line,
            sender: &act.handoff.sender,
            receiver: &act.handoff.receiver,
            item: &act.handoff.item,
            ask: &act.handoff.ask,
            profile: &act.handoff.profile,
            likeness: act.likeness.as_deref(),
            created_at: act.created_at,
        }
    }
}

impl<'a> ArrivalOut<'a> {
    /// The handoff this act holds.
    pub(crate) fn new(act: &'a Act) -> ArrivalOut<'a> {
        ArrivalOut {
            act_id: act.act_id,
            handoff: HandoffOut::new(act),
        }
    }
}

impl<'a> RowOut<'a> {
    /// A row of this act's journal.
    pub(crate) fn new(act: &'a Act, row: &'a Row) -> RowOut<'a> {
        RowOut {
            act_id: act.act_id,
            seq: row.seq,
            kind: row.kind,
            thread: &act.thread,
            message_id: row.message_id.as_deref(),
            body: row.body.as_deref(),
            body_sha256: &row.body_sha256,
            principal: &row.principal,
            at: row.at,
            hash: &row.hash,
        }
    }
}

/// The columns of an act's row as the database holds them.
pub(crate) struct ActIn {
    pub(crate) act_id: String,
    pub(crate) thread: String,
    pub(crate) handoff_id: String,
    pub(crate) version: i64,
    pub(crate) state: String,
    pub(crate) ho_line: String,
    pub(crate) sender: String,
    pub(crate) receiver: String,
    pub(crate) item: String,
    pub(crate) ask: String,
    pub(crate) profile: String,
    pub(crate) principal: String,
    pub(crate) attempt: i64,
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
    pub(crate) due_at: Option<i64>,
    pub(crate) limit_at: i64,
    pub(crate) seq: i64,
    pub(crate) head: String,
    pub(crate) lines: i64,
    pub(crate) long_ids: i64,
    pub(crate) undo_of: Option<String>,
    pub(crate) likeness: Option<String>,
    pub(crate) released_by: Option<String>,
    pub(crate) profile_digest: Option<String>,
    pub(crate) contract: Option<String>,
    pub(crate) tokens: String,
    pub(crate) waiting: String,
    pub(crate) stage: String,
}

impl ActIn {
    /// The act this row is.
    ///
    /// # Errors
    /// `Row` naming the first column that could not have been written by a keeper.
    pub(crate) fn into_act(self) -> Result<Act, StoreError> {
        let key = self.act_id.clone();
        let at = |column: &'static str| At {
            table: "acts",
            column,
            row: &key,
        };
        let act = Act {
            act_id: at("act_id").parsed(&self.act_id)?,
            version: at("version").number(self.version, 1)?,
            thread: self.thread,
            handoff: Handoff {
                id: self.handoff_id,
                line: self.ho_line,
                sender: self.sender,
                receiver: self.receiver,
                item: self.item,
                ask: self.ask,
                profile: self.profile,
            },
            principal: self.principal,
            created_at: Timestamp(self.created_at),
            updated_at: Timestamp(self.updated_at),
            seq: at("seq").number(self.seq, 0)?,
            head: self.head,
            lines: at("lines").number(self.lines, 0)?,
            long_ids: match self.long_ids {
                0 => false,
                1 => true,
                n => return Err(at("long_ids").wrong(format!("{n} is neither 0 nor 1"))),
            },
            attempt: at("attempt").number(self.attempt, 0)?,
            tokens: at("tokens").json(&self.tokens)?,
            limit: Timestamp(self.limit_at),
            undo_of: self.undo_of.map(|id| at("undo_of").parsed(&id)).transpose()?,
            likeness: self.likeness,
            released_by: self.released_by,
            waiting: at("waiting").json(&self.waiting)?,
            stage: at("stage").json(&self.stage)?,
        };
        if act.seq == 0 && !act.head.is_empty() {
            return Err(at("head").wrong("there is a hash before the first journal row"));
        }
        if act.seq > 0 {
            at("head").hash(&act.head)?;
        }
        match State::from_word(&self.state) {
            None => return Err(at("state").wrong(format!("{:?} is not a state", self.state))),
            Some(state) if state != act.state() => {
                let stage = act.state().as_str();
                return Err(at("state").wrong(format!("it says {}, the stage is {stage}", state.as_str())));
            }
            Some(_) => {}
        }
        if self.due_at.map(Timestamp) != act.due_at() {
            return Err(at("due_at").wrong("it is not the instant that follows from the stage"));
        }
        let frozen = act.offer().map(|o| &o.frozen);
        if self.profile_digest.as_ref() != frozen.map(|f| &f.profile_digest) {
            return Err(at("profile_digest").wrong("it is not the one the stage was stated under"));
        }
        let contract = self.contract.as_deref().map(|text| at("contract").json(text));
        if contract.transpose()?.as_ref() != frozen.map(|f| &f.contract) {
            return Err(at("contract").wrong("it is not the one the stage was stated under"));
        }
        Ok(act)
    }
}

/// The columns of a journal row as the database holds them.
pub(crate) struct RowIn {
    pub(crate) act_id: String,
    pub(crate) seq: i64,
    pub(crate) kind: String,
    pub(crate) message_id: Option<String>,
    pub(crate) body: Option<String>,
    pub(crate) body_sha256: String,
    pub(crate) principal: String,
    pub(crate) at: i64,
    pub(crate) hash: String,
}

impl RowIn {
    /// The row this is.
    ///
    /// # Errors
    /// `Row` naming the first column that could not have been written by a keeper.
    pub(crate) fn into_row(self) -> Result<Row, StoreError> {
        let key = format!("{}/{}", self.act_id, self.seq);
        let at = |column: &'static str| At {
            table: "journal",
            column,
            row: &key,
        };
        let kind = EntryKind::from_word(&self.kind);
        at("hash").hash(&self.hash)?;
        at("body_sha256").hash(&self.body_sha256)?;
        Ok(Row {
            seq: at("seq").number(self.seq, 1)?,
            kind: kind.ok_or_else(|| at("kind").wrong(format!("{:?} is not a kind", self.kind)))?,
            message_id: self.message_id,
            body: self.body,
            body_sha256: self.body_sha256,
            principal: self.principal,
            at: Timestamp(self.at),
            hash: self.hash,
        })
    }
}

/// A place in the database, for naming what is wrong with it.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) table: &'static str,
    pub(crate) column: &'static str,
    pub(crate) row: &'a str,
}

impl At<'_> {
    pub(crate) fn wrong(self, problem: impl Into<String>) -> StoreError {
        StoreError::Row {
            table: self.table,
            column: self.column,
            row: self.row.to_owned(),
            problem: problem.into(),
        }
    }

    pub(crate) fn parsed(self, text: &str) -> Result<ActId, StoreError> {
        text.parse().map_err(|e| self.wrong(format!("{text:?}: {e}")))
    }

    pub(crate) fn number<N: TryFrom<i64>>(self, value: i64, least: i64) -> Result<N, StoreError> {
        let in_range = if value < least {
            None
        } else {
            N::try_from(value).ok()
        };
        in_range.ok_or_else(|| self.wrong(format!("{value} is out of range")))
    }

    fn json<T: DeserializeOwned>(self, text: &str) -> Result<T, StoreError> {
        serde_json::from_str(text).map_err(|e| self.wrong(e.to_string()))
    }

    fn hash(self, text: &str) -> Result<(), StoreError> {
        let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if text.len() == 64 && text.bytes().all(hex) {
            Ok(())
        } else {
            Err(self.wrong("it is not 64 lower-case hex digits"))
        }
    }
}

// serde hands the field over by reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn as_number<S: Serializer>(flag: &bool, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_u8(u8::from(*flag))
}
