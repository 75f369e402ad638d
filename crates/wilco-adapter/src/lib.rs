//! The adapter contract: what the daemon asks of the code that speaks to one kind of counterparty.
//!
//! An adapter reports what the outside told it, word for word; it never judges whether that is what was planned. It
//! never retries, follows a redirect or uses a proxy from the environment: each sending is one explicit call, made
//! after [`Permit::may_send`] said yes. No method has a default body, so that no adapter forgets one.
//!
//! To add an adapter: implement [`Adapter`] in a crate of its own under `adapters/`, with `config.rs`, `wire.rs` (pure
//! translation), `client.rs` (the only IO), `lib.rs`, `README.md` and `tests/`. Its first test is the kit (feature `kit`).
//! `dial`, `tls`, `secret` and `zone` are what adapters share.

pub mod dial;
pub mod field;
#[cfg(feature = "kit")]
pub mod kit;
mod permit;
mod report;
pub mod secret;
pub mod tls;
pub mod zone;

pub use permit::{Permit, TooLate};
pub use report::{Found, Outcome, Report};

use async_trait::async_trait;
use wilco_core::{ActId, Contract, Frozen, Resolved, Timestamp};

/// The code that speaks to one kind of counterparty.
#[async_trait]
pub trait Adapter: Send + Sync {
    /// What it is, which asks it serves, and its contract. Data only: no IO.
    fn describe(&self) -> Description;

    /// Resolves every execution slot of the job. Moves nothing; may put an unapproved object in place at the
    /// counterparty. Values come from the counterparty or our own register even where the handoff carries the slot:
    /// echoing the handoff would prove nothing.
    async fn resolve(&self, job: &Job) -> Result<Resolved, ResolveError>;

    /// Whether the counterparty's own object may be executed now. Asked before the claim.
    async fn ready(&self, act: ActId, frozen: &Frozen) -> Ready;

    /// Sends the frozen request, once. Takes the permit that only a durable claim yields, and asks it right before
    /// the first byte. Returns when the call is over.
    async fn execute(&self, permit: Permit, frozen: &Frozen) -> Outcome;

    /// What became of the act, by our reference or its natural key; `receipt` is the counterparty's own id for it, where
    /// it gave one. Must not be able to cause the act.
    async fn lookup(
        &self,
        act: ActId,
        frozen: &Frozen,
        first_sent_at: Timestamp,
        receipt: Option<&str>,
    ) -> Found;

    /// Withdraws what `resolve` put in place, as well as it can.
    async fn release(&self, act: ActId, frozen: &Frozen);

    /// Whether the counterparty answers.
    async fn health(&self) -> Result<(), String>;
}

/// What an adapter is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Its name in the configuration, in rows and in `/metrics`.
    pub name: String,
    /// Which counterparty it speaks to, in words for operators (never with credentials).
    pub counterparty: String,
    /// What it serves.
    pub serves: Vec<Served>,
    /// How many of its acts may be under way at once.
    pub concurrency: u32,
}

/// One kind of act an adapter serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// The profile.
    pub profile: String,
    /// The ask.
    pub ask: String,
    /// Execution slots the counterparty cannot know: the done report carries them from the statement.
    pub carried: Vec<String>,
    /// The contract.
    pub contract: Contract,
}

/// The job to resolve.
#[derive(Debug, Clone)]
pub struct Job {
    /// Our reference for it.
    pub act_id: ActId,
    /// Which statement this will be, from 1.
    pub attempt: u32,
    /// The profile.
    pub profile: String,
    /// The ask.
    pub ask: String,
    /// The `item`.
    pub item: String,
    /// Every slot of the handoff as written on the line, `item` excluded.
    pub slots: Vec<(String, String)>,
    /// The execution slots the profile names for the ask, in its order; for an `UNDO`, those of what it reverses.
    pub exec: Vec<String>,
    /// For an `UNDO`: the act to reverse, as it was executed.
    pub undo: Option<Undone>,
    /// The instant prepare decided with.
    pub now: Timestamp,
}

impl Job {
    /// The value of a slot as written on the line.
    #[must_use]
    pub fn slot(&self, key: &str) -> Option<&str> {
        self.slots.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }
}

/// The act an `UNDO` reverses.
#[derive(Debug, Clone)]
pub struct Undone {
    /// Its id.
    pub act_id: ActId,
    /// What it was asked to do (`CHGBANK`).
    pub ask: String,
    /// What was frozen for it.
    pub frozen: Frozen,
    /// The values as executed, from its DN.
    pub executed: Vec<(String, String)>,
    /// The counterparty's own id for what it did.
    pub receipt: Option<String>,
}

/// Why a job could not be resolved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The job asks something this counterparty does not do or allow: the handoff is answered with a stored UN.
    #[error("{text}")]
    Refused {
        /// The `why` code: `NOCAP`, `SCOPE`, `PERM`, `NOCTX`, `CONFLICT` or `EXPIRED`.
        why: &'static str,
        /// One sentence for the tail, naming slot and rule.
        text: String,
    },
    /// A passing trouble: nothing is stored, so that it may be tried again.
    #[error("{0}")]
    Passing(String),
}

/// Whether the counterparty's own object may be executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ready {
    /// It may.
    Yes,
    /// A person has not authorised it yet.
    Awaiting {
        /// Where they can.
        link: Option<String>,
        /// Who has to do what, in one clause for the caller ("the account holder must authorise the consent").
        text: String,
    },
    /// It may be later: a change window has not opened.
    NotYet {
        /// From when.
        from: Timestamp,
        /// What is waited for, in one clause for the caller.
        text: String,
    },
    /// It was refused for good: the act is closed with an FL.
    Refused {
        /// In the counterparty's words.
        text: String,
    },
    /// It could not be asked.
    Unknown(String),
}
