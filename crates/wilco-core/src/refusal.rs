//! Refusals: every way a request can be turned down, by a stable name.
//!
//! The caller is often a program, so the name says what to do next: try again, ask again with something added, or
//! stop. What was turned down for a reason the protocol has a line for is answered with that line instead.

use crate::act::StoredProblem;

/// The stable name clients branch on (gRPC `ErrorInfo.reason`, JSON `reason`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// No key, or one nobody has.
    Unauthenticated,
    /// The caller does not speak for this line's `from`, or has not the role.
    NotYours,
    /// Not an RW1 line, or a bad field.
    Malformed,
    /// No such token, or it is not for you.
    UnknownToken,
    /// No such act, or it is not for you.
    UnknownAct,
    /// A commit without the statement's digest.
    DigestRequired,
    /// A commit without a confirmation line.
    ConfirmationRequired,
    /// The digest is not the current statement's.
    DigestStale,
    /// The same id with other bytes.
    HandoffConflict,
    /// Past its end.
    Expired,
    /// A cancel won.
    Cancelled,
    /// The handoff was refused.
    Refused,
    /// A newer handoff took its place.
    Superseded,
    /// The statement cannot be confirmed.
    Held,
    /// The statement is no longer live; prepare again.
    Lapsed,
    /// A configured limit forbids it.
    Limit,
    /// Somebody must approve first.
    NotApproved,
    /// An operator stopped this.
    Halted,
    /// The counterparty cannot be reached.
    AdapterDown,
    /// The store cannot be reached.
    StoreDown,
    /// Too much at once.
    Busy,
}

impl Reason {
    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Unauthenticated => "UNAUTHENTICATED",
            Reason::NotYours => "NOT_YOURS",
            Reason::Malformed => "MALFORMED",
            Reason::UnknownToken => "UNKNOWN_TOKEN",
            Reason::UnknownAct => "UNKNOWN_ACT",
            Reason::DigestRequired => "DIGEST_REQUIRED",
            Reason::ConfirmationRequired => "CONFIRMATION_REQUIRED",
            Reason::DigestStale => "DIGEST_STALE",
            Reason::HandoffConflict => "HANDOFF_CONFLICT",
            Reason::Expired => "EXPIRED",
            Reason::Cancelled => "CANCELLED",
            Reason::Refused => "REFUSED",
            Reason::Superseded => "SUPERSEDED",
            Reason::Held => "HELD",
            Reason::Lapsed => "LAPSED",
            Reason::Limit => "LIMIT",
            Reason::NotApproved => "NOT_APPROVED",
            Reason::Halted => "HALTED",
            Reason::AdapterDown => "ADAPTER_DOWN",
            Reason::StoreDown => "STORE_DOWN",
            Reason::Busy => "BUSY",
        }
    }
}

/// A request turned down.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    /// The stable name.
    pub reason: Reason,
    /// The sentence people read: what is wrong and what to do next.
    pub text: String,
    /// The field of the request it concerns (`ho`, `token`, `confirmation`, ...).
    pub field: Option<String>,
    /// The slot or part of a line it concerns.
    pub slot: Option<String>,
    /// The line that answers, where one exists (a closing line, the current RB).
    pub line: Option<String>,
    /// The current statement and its digest, for a stale or missing digest.
    pub statement: Option<(String, String)>,
    /// Problems found in what was sent.
    pub problems: Vec<StoredProblem>,
    /// Seconds after which trying again makes sense.
    pub retry_after_s: Option<u32>,
}

impl Refusal {
    /// A refusal with a name and a sentence.
    pub fn new(reason: Reason, text: impl Into<String>) -> Refusal {
        Refusal {
            reason,
            text: text.into(),
            field: None,
            slot: None,
            line: None,
            statement: None,
            problems: Vec::new(),
            retry_after_s: None,
        }
    }

    /// A malformed field.
    pub fn malformed(field: &str, text: impl Into<String>) -> Refusal {
        Refusal::new(Reason::Malformed, text).in_field(field)
    }

    /// Names the field.
    #[must_use]
    pub fn in_field(mut self, field: &str) -> Refusal {
        self.field = Some(field.to_owned());
        self
    }

    /// Names the slot.
    #[must_use]
    pub fn at_slot(mut self, slot: impl Into<String>) -> Refusal {
        self.slot = Some(slot.into());
        self
    }

    /// Carries the line that answers.
    #[must_use]
    pub fn with_line(mut self, line: impl Into<String>) -> Refusal {
        self.line = Some(line.into());
        self
    }

    /// Carries the current statement and its digest.
    #[must_use]
    pub fn with_statement(mut self, statement: &str, sha256: &str) -> Refusal {
        self.statement = Some((statement.to_owned(), sha256.to_owned()));
        self
    }

    /// Carries the problems found.
    #[must_use]
    pub fn with_problems(mut self, problems: Vec<StoredProblem>) -> Refusal {
        self.problems = problems;
        self
    }

    /// Says when to try again.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Refusal {
        self.retry_after_s = Some(seconds);
        self
    }
}
