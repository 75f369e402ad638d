//! What an adapter answers.
//!
//! Transport errors, timeouts, replies that do not parse and status words nobody listed are all *unknown*: an honest
//! answer, settled later by lookup.

/// What the outside reported of an act that was carried out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Execution slots the counterparty's answer shows, as written on a line. A slot it does not show is left out.
    pub values: Vec<(String, String)>,
    /// The counterparty's own id for it.
    pub receipt: Option<String>,
    /// The counterparty's status word.
    pub status: String,
    /// Carried out, but the counterparty may still reject it (a payment in settlement): the daemon goes on looking, and calls
    /// people if it does.
    pub provisional: bool,
}

/// What came of the one sending of an act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Carried out.
    Executed(Report),
    /// Taken on by the counterparty, not finished: it is polled.
    Accepted(Report),
    /// Certainly not carried out, in the counterparty's words.
    Rejected(String),
    /// Certainly not sent: no byte left, or it was too late to send.
    NotSent(String),
    /// Anything else.
    Unknown(String),
}

/// What a lookup found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Carried out.
    Executed(Report),
    /// Taken on, not finished.
    Accepted(Report),
    /// The counterparty says explicitly that it refused the act for good.
    Rejected(String),
    /// Answered: it stands at the counterparty, but how it ended was not said. From then on its absence is never
    /// concluded, whatever later lookups find.
    Exists(String),
    /// Answered, and there is no trace of it. One such answer proves nothing yet.
    Absent(String),
    /// Not answered, or in words nobody listed.
    Unknown(String),
}
