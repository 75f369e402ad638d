//! What callers hand to the engine and what they get back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use wilco_adapter::{Adapter, Description};
use wilco_core::act::StoredProblem;
use wilco_core::token::TokenKey;
use wilco_core::{Act, ActId, State, Timestamp};
use wilco_store::{Keeper, StoreError};

/// What a principal may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Prepare, confirm and cancel for the agents it speaks for.
    Sender,
    /// Approve what policy asks approval for; never execute.
    Approver,
    /// See, settle, release, purge and stop; never confirm.
    Operator,
    /// See.
    Viewer,
}

/// Who is calling, as proved by a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The principal's name.
    pub name: String,
    /// What it may do.
    pub roles: Vec<Role>,
    /// The agents it speaks for.
    pub speaks_for: Vec<String>,
}

impl Caller {
    /// Whether it has a role.
    #[must_use]
    pub fn has(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }

    /// Whether it may send for `agent`.
    #[must_use]
    pub fn speaks_for(&self, agent: &str) -> bool {
        self.has(Role::Sender) && self.speaks_for.iter().any(|a| a == agent)
    }

    /// Whether it may see everybody's acts.
    #[must_use]
    pub fn sees_all(&self) -> bool {
        [Role::Operator, Role::Viewer, Role::Approver]
            .iter()
            .any(|r| self.has(*r))
    }
}

/// Randomness, handed in. Real: the operating system's; in tests: seeded.
pub trait Chance: Send + Sync {
    /// Fills the buffer with random bytes.
    fn fill(&self, buffer: &mut [u8]);
}

/// The engine's settings.
#[derive(Debug, Clone)]
pub struct Config {
    /// The agents we serve: a handoff `to` anyone else is an error.
    pub agents: Vec<String>,
    /// How long a statement can be confirmed, before rounding up to the minute.
    pub statement_ttl: Duration,
    /// How long a handoff without `exp` and `due` stays open.
    pub handoff_age: Duration,
    /// How long a commit or cancel waits for the outcome where the caller names no time.
    pub default_wait: Duration,
    /// The longest a caller may wait.
    pub max_wait: Duration,
    /// After how long an execution should be over: the claim's deadline, for people.
    pub execution_deadline: Duration,
    /// How often recovery looks round.
    pub recovery_interval: Duration,
    /// How often a counterparty is asked how it does, while it answers.
    pub health_interval: Duration,
    /// How often a waiting caller's act is read again, in case another daemon writes it.
    pub poll_interval: Duration,
    /// The first pause between two lookups; doubles up to `lookup_pause_max`.
    pub lookup_pause: Duration,
    /// The longest pause between two lookups.
    pub lookup_pause_max: Duration,
    /// After how many lookups without an answer a person is called.
    pub lookups_before_escalation: u32,
    /// How many acts may be prepared, executed or looked up at once over all adapters.
    pub concurrency: u32,
    /// Stands for the folder whose lock this process holds: an earlier owner of the same house is known to be dead.
    /// Empty where there is no such folder.
    pub house: String,
    /// How long this process must itself have watched another owner's claim unchanged before it takes it over, which it does
    /// when the claim is overdue.
    pub takeover_allowance: Duration,
    /// Whether this process alone can hold claims: it holds the lock that every earlier owner held until it died.
    pub sole_owner: bool,
    /// Serve although open acts name an adapter, agent or profile that is no longer configured; those stay in doubt.
    pub orphan: bool,
}

/// What the engine is made of.
pub struct Parts {
    /// The store.
    pub keeper: Arc<dyn Keeper>,
    /// The adapters, in the order in which they are asked.
    pub adapters: Vec<Arc<dyn Adapter>>,
    /// The profiles in force.
    pub profiles: rw1::Profiles,
    /// Server keys for tokens: the first derives new ones, all of them derive old ones again.
    pub token_keys: Vec<TokenKey>,
    /// Randomness.
    pub chance: Arc<dyn Chance>,
    /// Settings.
    pub config: Config,
}

/// Why the engine refuses to start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Open acts need something the configuration no longer has.
    #[error(
        "open acts need what is no longer configured: {0}. Configure it again, or start with --orphan to leave those \
         acts in doubt"
    )]
    Orphans(String),
    /// A setting makes no sense.
    #[error("{0}")]
    Config(String),
}

/// Prepare.
#[derive(Debug, Clone, Default)]
pub struct PrepareRequest {
    /// The conversation; empty for the HO's sender.
    pub thread: String,
    /// The HO line.
    pub ho: String,
    /// The approved record, if one is given.
    pub record: Option<rw1::Record>,
}

/// What prepare answers.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The line: an RB with `x_tok`, a UN, or the closing line.
    pub reply: String,
    /// The statement; empty where there is none.
    pub statement: String,
    /// Its hex SHA-256; empty where there is none.
    pub statement_sha256: String,
    /// The token; empty where nothing can be confirmed.
    pub token: String,
    /// Seconds until the statement cannot be confirmed.
    pub expires_in_s: u32,
    /// The act.
    pub act: Act,
    /// Why it is held.
    pub problems: Vec<StoredProblem>,
    /// Remarks.
    pub notes: Vec<String>,
    /// Whether this was answered before.
    pub replayed: bool,
}

/// Commit.
#[derive(Debug, Clone, Default)]
pub struct CommitRequest {
    /// The token.
    pub token: String,
    /// The digest of the statement the sender checked.
    pub statement_sha256: String,
    /// The confirmation line.
    pub confirmation: String,
    /// How long to wait; `None` for the default.
    pub wait: Option<Duration>,
}

/// What commit answers.
#[derive(Debug, Clone)]
pub struct Committed {
    /// DN or FL; empty while executing or in doubt, or after a decline.
    pub reply: String,
    /// The act.
    pub act: Act,
    /// What the comparison with the plan found.
    pub problems: Vec<StoredProblem>,
    /// Remarks.
    pub notes: Vec<String>,
    /// Whether this was answered before.
    pub replayed: bool,
}

/// Cancel.
#[derive(Debug, Clone, Default)]
pub struct CancelRequest {
    /// The conversation; empty for the CX's sender.
    pub thread: String,
    /// The CX line.
    pub cx: String,
    /// How long to wait for the truth; `None` for the default.
    pub wait: Option<Duration>,
}

/// What cancel answers.
#[derive(Debug, Clone)]
pub struct Cancelled {
    /// AN, DN, FL or UN; empty while in doubt.
    pub reply: String,
    /// The act.
    pub act: Act,
    /// Remarks.
    pub notes: Vec<String>,
    /// Whether this was answered before.
    pub replayed: bool,
}

/// How a caller names an act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActRef {
    /// By its id.
    Id(ActId),
    /// By thread and handoff id.
    Handoff {
        /// The thread.
        thread: String,
        /// The HO's id.
        handoff_id: String,
    },
    /// By a token.
    Token(String),
}

/// A thread, as it stands.
#[derive(Debug, Clone)]
pub struct ThreadView {
    /// The lines of this page, in order.
    pub lines: Vec<String>,
    /// What the thread check says of the whole thread; only with the last page.
    pub problems: Vec<StoredProblem>,
    /// What is open and in time.
    pub notes: Vec<StoredProblem>,
    /// Where the next page starts.
    pub next: Option<String>,
}

/// Settle.
#[derive(Debug, Clone)]
pub struct SettleRequest {
    /// The act.
    pub act_id: ActId,
    /// Whether it was done.
    pub done: bool,
    /// What was seen, where, by whom.
    pub evidence: String,
    /// Whether the operator has made sure that every process that could still send the act is gone.
    pub owner_dead: bool,
}

/// What settle answers.
#[derive(Debug, Clone)]
pub struct Settled {
    /// The closing line.
    pub reply: String,
    /// The act.
    pub act: Act,
}

/// What release answers.
#[derive(Debug, Clone)]
pub struct Released {
    /// The act: stated again, or open for its sender's next prepare.
    pub act: Act,
    /// Remarks.
    pub notes: Vec<String>,
}

/// What purge did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Purged {
    /// Acts whose texts are gone.
    pub acts: u64,
    /// Bodies erased from their journals.
    pub bodies: u64,
    /// Whether there is more: ask again.
    pub more: bool,
}

/// What is known of an act that is executing or in doubt, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubt {
    /// Why its outcome is not known.
    pub why: String,
    /// Whether bytes may have left.
    pub maybe_sent: bool,
    /// Who holds the claim, `<house>.<boot>`.
    pub owner: String,
    /// The claim's epoch.
    pub epoch: u64,
    /// What is known of that owner, in words.
    pub owner_fate: String,
    /// Earlier owners whose calls may still be going on.
    pub open_calls: Vec<String>,
    /// When it was claimed.
    pub claimed_at: Timestamp,
    /// When its call should have been over.
    pub deadline: Timestamp,
    /// No byte of it is sent at or after this instant.
    pub not_after: Timestamp,
    /// How many lookups were made.
    pub lookups: u32,
    /// How often the same bytes were sent again.
    pub resends: u32,
    /// When it is looked up next.
    pub next_look_at: Timestamp,
    /// The earliest instant at which the daemon can say by itself that it was not done; `None` where it never can, or
    /// where something else decides it first.
    pub decides_from: Option<Timestamp>,
    /// How it is decided, in words.
    pub decides: String,
    /// Until then a person's word is refused; `None` where that is not known yet.
    pub settles_from: Option<Timestamp>,
    /// Whether a person's word is taken, in words.
    pub settles: String,
    /// Whether a person was called.
    pub escalated: bool,
}

/// One happening of an act, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// When.
    pub at: Timestamp,
    /// What, in a word or two.
    pub what: String,
    /// The particulars.
    pub text: String,
}

/// An adapter as it stands.
#[derive(Debug, Clone)]
pub struct AdapterStatus {
    /// What it is.
    pub description: Description,
    /// Why it does not answer; `None` when it does, or was not asked yet.
    pub trouble: Option<String>,
    /// Whether it does not answer at all: nothing new is prepared or committed for it until it does.
    pub down: bool,
}

/// Figures for `/metrics`.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Acts in each state.
    pub states: BTreeMap<State, u64>,
    /// Verdicts other than a match since start.
    pub mismatches: u64,
    /// Closed acts that later evidence contradicted, since start.
    pub contradictions: u64,
    /// Claims taken over since start.
    pub takeovers: u64,
    /// Times the same bytes were sent again since start.
    pub resends: u64,
    /// Lookups since start.
    pub lookups: u64,
    /// Acts for which a person was called and that are still open.
    pub escalated: u64,
    /// Acts in hand in this process: executions, lookups, and other steps of recovery.
    pub running: u64,
}
