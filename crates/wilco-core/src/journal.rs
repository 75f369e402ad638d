//! The journal: what happened to an act, append-only and hash-chained.
//!
//! Each act has a chain of its own: row n's hash covers the act, n, the kind, the instant, the principal, the SHA-256
//! of the body and the hash of row n-1. A body can be erased later without breaking the chain.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{Act, Timestamp};

/// What a journal row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A line that stands in the thread, in this order.
    Line,
    /// A cancel that arrived and waits for its answer; its id is taken from now on, it enters the thread when
    /// answered.
    CancelArrived,
    /// A line kept outside the thread: a handoff that does not validate, and the answer to it.
    Outside,
    /// Anything else that happened: a refusal, a lookup and its answer, an operator's word. The body is JSON.
    Event,
}

impl EntryKind {
    /// The word in the row.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            EntryKind::Line => "line",
            EntryKind::CancelArrived => "cancel_arrived",
            EntryKind::Outside => "outside",
            EntryKind::Event => "event",
        }
    }

    /// The kind a word names.
    #[must_use]
    pub fn from_word(word: &str) -> Option<EntryKind> {
        [
            EntryKind::Line,
            EntryKind::CancelArrived,
            EntryKind::Outside,
            EntryKind::Event,
        ]
        .into_iter()
        .find(|k| k.as_str() == word)
    }
}

/// A row to append. The store gives it its place in the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub kind: EntryKind,
    /// The message id it takes in the thread; `None` for rows that take none.
    pub message_id: Option<String>,
    /// The line, or the event as JSON. Never a token.
    pub body: String,
    /// The principal whose doing it is; `wilco` for our own.
    pub principal: String,
}

/// A row as it stands in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its number in the act's chain, from 1.
    pub seq: u64,
    /// What it is.
    pub kind: EntryKind,
    /// The message id it takes.
    pub message_id: Option<String>,
    /// The body; `None` once erased.
    pub body: Option<String>,
    /// Hex SHA-256 of the body.
    pub body_sha256: String,
    /// Whose doing.
    pub principal: String,
    /// When, by the store's clock.
    pub at: Timestamp,
    /// The chain's hash up to and including this row, hex.
    pub hash: String,
}

/// The name our own doings carry in the journal.
pub const OURSELVES: &str = "wilco";

impl Entry {
    /// A line that stands in the thread under its own id.
    pub fn line(
        message_id: impl Into<String>,
        line: impl Into<String>,
        principal: impl Into<String>,
    ) -> Entry {
        Entry {
            kind: EntryKind::Line,
            message_id: Some(message_id.into()),
            body: line.into(),
            principal: principal.into(),
        }
    }

    /// A line that enters the thread now although its id was taken earlier (an answered cancel).
    pub fn line_of_arrived(line: impl Into<String>, principal: impl Into<String>) -> Entry {
        Entry {
            kind: EntryKind::Line,
            message_id: None,
            body: line.into(),
            principal: principal.into(),
        }
    }

    /// Something that happened, as JSON.
    pub fn event(what: &str, detail: serde_json::Value, principal: impl Into<String>) -> Entry {
        let body = serde_json::json!({ "event": what, "detail": detail }).to_string();
        Entry {
            kind: EntryKind::Event,
            message_id: None,
            body,
            principal: principal.into(),
        }
    }
}

/// Gives each entry its place in the act's chain, and moves the act's version, sequence, head and time on.
/// Called by keepers, under the act's row lock.
#[must_use]
pub fn seal(act: &mut Act, entries: &[Entry], at: Timestamp) -> Vec<Row> {
    act.version += 1;
    act.updated_at = at;
    let mut rows = Vec::with_capacity(entries.len());
    for entry in entries {
        act.seq += 1;
        let body_sha256 = sha256_hex(entry.body.as_bytes());
        let hash = link(act, entry, at, &body_sha256);
        act.head.clone_from(&hash);
        rows.push(Row {
            seq: act.seq,
            kind: entry.kind,
            message_id: entry.message_id.clone(),
            body: Some(entry.body.clone()),
            body_sha256,
            principal: entry.principal.clone(),
            at,
            hash,
        });
    }
    rows
}

/// The first row of a chain that does not follow from the one before it, if any.
#[must_use]
pub fn first_break(act: &Act, rows: &[Row]) -> Option<u64> {
    let mut walker = act.clone();
    walker.seq = 0;
    walker.head = String::new();
    for row in rows {
        walker.seq += 1;
        let entry = Entry {
            kind: row.kind,
            message_id: row.message_id.clone(),
            body: String::new(),
            principal: row.principal.clone(),
        };
        let body_fits = row
            .body
            .as_ref()
            .is_none_or(|b| sha256_hex(b.as_bytes()) == row.body_sha256);
        if row.seq != walker.seq || !body_fits || row.hash != link(&walker, &entry, row.at, &row.body_sha256)
        {
            return Some(walker.seq);
        }
        walker.head.clone_from(&row.hash);
    }
    if walker.seq == act.seq && walker.head == act.head {
        None
    } else {
        Some(walker.seq + 1)
    }
}

/// Hex SHA-256.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(bytes))
}

// Fields are joined by a byte that cannot stand in them (a newline is refused in lines, principals and ids), so two
// different rows never hash the same text.
fn link(act: &Act, entry: &Entry, at: Timestamp, body_sha256: &str) -> String {
    let text = format!(
        "wilco journal 1\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}",
        act.act_id,
        act.seq,
        entry.kind.as_str(),
        entry.message_id.as_deref().unwrap_or(""),
        at.0,
        entry.principal,
        body_sha256,
        act.head
    );
    sha256_hex(text.as_bytes())
}
