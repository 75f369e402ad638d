//! What prepare resolves and freezes: the values, the request's bytes, and the rules in force.
//!
//! From the statement on, the act can be carried out with these values and no others. Credentials, signatures and
//! interaction ids are not frozen: they are made anew for each sending.

use serde::{Deserialize, Serialize};

use crate::{Contract, Timestamp};

/// Where a value in the statement came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Taken from the handoff as the sender wrote it.
    Handoff,
    /// Looked up: what the counterparty or our own register says, stated even where the handoff carries the slot.
    Resolved,
}

/// One value as it will be executed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrozenValue {
    /// The slot it stands in.
    pub slot: String,
    /// The value as written on a line.
    pub value: String,
    /// Where it came from.
    pub source: Source,
    /// Who said so, in words for operators ("payee register, entry marlow").
    pub evidence: String,
}

/// The request commit will send, complete but for what is made per sending.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The verb of the protocol (`POST`), or the adapter's own word for the call.
    pub method: String,
    /// Where it goes, relative to the counterparty's base.
    pub path: String,
    /// The exact bytes of the body.
    pub body: String,
    /// The idempotency key sent with it; empty where the protocol has none.
    pub key: String,
}

/// What an adapter's `resolve` answers: nothing has moved yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// One value for every execution slot of the ask.
    pub values: Vec<FrozenValue>,
    /// What pays or is changed, as extra slots of the statement (`x_dbtr`); each key starts with `x_`.
    pub extra: Vec<(String, String)>,
    /// What commit will send.
    pub request: Request,
    /// The counterparty's own unapproved object, if one was put in place (an Open Banking consent's id).
    pub placed: Option<String>,
    /// When the counterparty's day or cut-off ends for this act; the act is not sent at or after it.
    pub cut_off: Option<Timestamp>,
    /// Where a person must authorise the counterparty's object: a link for them.
    pub authorise_at: Option<String>,
    /// Words for operators.
    pub notes: Vec<String>,
}

/// Everything an act was stated with. Never changes for an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frozen {
    /// The adapter that resolved it and will execute it.
    pub adapter: String,
    /// The values, in the profile's order of execution slots.
    pub values: Vec<FrozenValue>,
    /// Extra slots of the statement.
    pub extra: Vec<(String, String)>,
    /// Execution slots the counterparty cannot know; the done report carries them from the statement.
    pub carried: Vec<String>,
    /// What commit will send.
    pub request: Request,
    /// The counterparty's unapproved object.
    pub placed: Option<String>,
    /// A link for the person who must authorise it.
    pub authorise_at: Option<String>,
    /// The hex SHA-256 of the profile in force.
    pub profile_digest: String,
    /// The adapter's contract in force.
    pub contract: Contract,
    /// No byte of the act is sent at or after this instant: the earliest of the handoff's end, the counterparty's
    /// cut-off, and the key's window.
    pub not_after: Timestamp,
}

impl Frozen {
    /// The value stated for `slot`, if it is one of the execution slots.
    #[must_use]
    pub fn value(&self, slot: &str) -> Option<&str> {
        self.values
            .iter()
            .find(|v| v.slot == slot)
            .map(|v| v.value.as_str())
    }
}
