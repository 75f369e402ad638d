//! The port: what every keeper promises.

use async_trait::async_trait;
use tokio::sync::broadcast;
use wilco_core::journal::Row;
use wilco_core::write::{Decide, Written};
use wilco_core::{Act, ActId, State, Timestamp};

/// Keeps acts and their journal.
#[async_trait]
pub trait Keeper: Send + Sync {
    /// Carries out one write, decided inside the transaction.
    ///
    /// `decide` is called with the store's clock, read after the write lock is held and never earlier than any
    /// instant written before. Once this returns `Advanced`, every change and its journal rows are on stable storage
    /// together; `Stale` and `Taken` mean that nothing of it was written. An empty list of changes is `Advanced` with
    /// no acts, and writes nothing. After [`StoreError::Unknown`] the caller must read the acts back.
    async fn write(&self, decide: Decide) -> Result<Written, StoreError>;

    /// The act with this id.
    async fn act(&self, id: ActId) -> Result<Option<Act>, StoreError>;

    /// The act that holds this handoff id in this thread (a tombstone included).
    async fn act_by_handoff(&self, thread: &str, handoff_id: &str) -> Result<Option<Act>, StoreError>;

    /// The act whose journal holds this message id in this thread, and the body of that row if it was not erased.
    async fn act_by_message(
        &self,
        thread: &str,
        message_id: &str,
    ) -> Result<Option<(Act, Option<String>)>, StoreError>;

    /// The act that reverses `of` and is open, in doubt or done.
    async fn act_undoing(&self, of: ActId) -> Result<Option<Act>, StoreError>;

    /// Acts, newest first.
    async fn acts(&self, filter: &Filter) -> Result<Page<Act>, StoreError>;

    /// Acts whose `due_at` is not after `now`, the most overdue first, at most `limit`.
    async fn due(&self, now: Timestamp, limit: u32) -> Result<Vec<Act>, StoreError>;

    /// Every act that is executing or in doubt, oldest first.
    async fn claimed(&self) -> Result<Vec<Act>, StoreError>;

    /// Acts of one thread whose `due_at` is not after `now`.
    async fn due_in_thread(&self, thread: &str, now: Timestamp) -> Result<Vec<Act>, StoreError>;

    /// The lines of a thread in the order they entered it, after `after` (exclusive), at most `limit` (zero, like
    /// anything above 500, means 500). Lines of one write stand in the order of their acts.
    async fn thread(
        &self,
        thread: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<ThreadLine>, StoreError>;

    /// The journal of an act, from its first row.
    async fn journal(&self, id: ActId) -> Result<Vec<Row>, StoreError>;

    /// How many acts stand in each state.
    async fn counts(&self) -> Result<Vec<(State, u64)>, StoreError>;

    /// Erases the texts of closed acts that were last written before `older_than`, the oldest first, at most `limit` acts
    /// (zero, like anything above 500, means 500). What may be erased and what stays is
    /// [`wilco_core::purge`]'s to say. Each act is a write of its own, so that nobody waits for the whole; one that is
    /// changed meanwhile is left for the next call.
    async fn purge(&self, older_than: Timestamp, limit: u32) -> Result<Purged, StoreError>;

    /// Hints that other daemons changed an act, where they can: for promptness only, since any of them may be lost. `None`
    /// where nobody else writes.
    fn changes(&self) -> Option<broadcast::Receiver<ActId>> {
        None
    }

    /// The store's clock: never earlier than any instant it has written.
    fn now(&self) -> Timestamp;

    /// How far the clock handed in is behind the highest instant ever written; zero when it is not.
    fn clock_behind_s(&self) -> i64;

    /// An operator has seen that the clock stepped back: from here on `now` counts on from the highest instant.
    fn acknowledge_clock(&self);

    /// What the store has done since it was opened.
    fn counters(&self) -> Counters;

    /// Whether writes can be taken now.
    fn healthy(&self) -> bool;

    /// Why they cannot, in words for operators that say what to do; `None` where the keeper knows no more than that.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// Finishes what was accepted and closes. Later calls answer [`StoreError::Down`].
    async fn close(&self);
}

/// Which acts to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only these states; empty for all.
    pub states: Vec<State>,
    /// Only this ask.
    pub ask: Option<String>,
    /// Only this thread.
    pub thread: Option<String>,
    /// Only acts sent by one of these agents; `None` for everyone's.
    pub senders: Option<Vec<String>>,
    /// Where the page before ended.
    pub page_token: Option<String>,
    /// At most so many; zero, like anything above 500, means 500.
    pub limit: u32,
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The rows.
    pub items: Vec<T>,
    /// Where the next page starts; `None` on the last.
    pub next: Option<String>,
}

/// A line in a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadLine {
    /// When it entered.
    pub at: Timestamp,
    /// The act it belongs to.
    pub act_id: ActId,
    /// Its number in that act's journal.
    pub seq: u64,
    /// The line; `None` once erased.
    pub line: Option<String>,
}

/// What one round of a purge did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Purged {
    /// Acts whose texts are gone.
    pub acts: u64,
    /// Bodies erased from their journals.
    pub bodies: u64,
    /// Whether there was more to erase: another round finds it.
    pub more: bool,
}

/// What a store has done since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Writes answered as advanced.
    pub writes: u64,
    /// Transactions made durable for them.
    pub flushes: u64,
    /// Writes answered as stale or taken.
    pub refused: u64,
    /// Writes whose COMMIT had to be read back.
    pub unknown: u64,
}

/// Why a store could not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached, or has stopped taking writes.
    #[error("the store does not answer: {0}")]
    Down(String),
    /// A write's COMMIT failed and reading it back failed too: it may stand or not.
    #[error("whether the write stands is not known: {0}")]
    Unknown(String),
    /// The queue of writes is full.
    #[error("too many writes are waiting")]
    Busy,
    /// A row makes no sense.
    #[error("table {table}, column {column}, row {row}: {problem}")]
    Row {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// The row's key.
        row: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A page token is not one of ours.
    #[error("the page token is not one of ours: start the list again without it")]
    PageToken,
    /// The folder is in use, or settings that durability needs could not be set.
    #[error("{0}")]
    Refuse(String),
}

impl StoreError {
    pub(crate) fn closed() -> StoreError {
        StoreError::Down("it was closed".to_owned())
    }
}

pub(crate) fn down(error: impl std::fmt::Display) -> StoreError {
    StoreError::Down(error.to_string())
}

// Nothing panics while it holds one of these locks, and what they guard is replaced whole.
pub(crate) fn locked<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
