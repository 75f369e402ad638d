//! The vocabulary between the decisions and the store: what to write, under which condition, and what came of it.

use crate::journal::Entry;
use crate::{Act, ActId, Stage, State, Timestamp, Verdict};

/// What must be true of a row for a change to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// No act with this id, and none for this handoff in this thread.
    Absent,
    /// The act is there, at exactly this version.
    Version(u64),
}

/// One act's new value and the journal rows that go with it. `version`, `seq`, `head` and `updated_at` are the
/// store's to set; what they hold here is the value before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The condition.
    pub expect: Expect,
    /// The new value.
    pub act: Act,
    /// What to append to the act's journal, in order.
    pub entries: Vec<Entry>,
    /// Write it only if no likely twin stands. Looked at in the same transaction, under a lock on the likeness, so
    /// that two twins cannot both be written.
    pub unless_twin: Option<TwinGuard>,
}

/// Which acts count as likely twins of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TwinGuard {
    /// The likeness hash they share with it.
    pub likeness: String,
    /// Only acts that arrived at or after this instant.
    pub since: Timestamp,
    /// Only acts in one of these states. A done act that was undone never counts; where done acts count, one that was
    /// closed as failed and turned out to be done counts as well.
    pub states: Vec<State>,
    /// Acts that do not count: itself, and the one it supersedes in the same write.
    pub except: Vec<ActId>,
}

impl TwinGuard {
    /// Whether an act is in a state that counts.
    #[must_use]
    pub fn counts(&self, act: &Act) -> bool {
        let turned_out_done = act.state() == State::Failed
            && act
                .closed()
                .is_some_and(|c| c.verdict == Some(Verdict::Contradicted));
        self.states.contains(&act.state()) || turned_out_done && self.states.contains(&State::Done)
    }
}

/// A write: decided inside the transaction, once the instant is known.
///
/// The store calls it with its own clock's reading, taken after the write lock is held, and may call it again with a
/// later reading if the first try had to be undone. All changes it returns are written, or none.
pub type Decide = Box<dyn Fn(Timestamp) -> Vec<Change> + Send + Sync>;

/// What came of a write.
#[derive(Debug)]
pub enum Written {
    /// Every change is on stable storage.
    Advanced {
        /// The instant the store decided with.
        at: Timestamp,
        /// The acts as they now stand, in the order of the changes.
        acts: Vec<Act>,
        /// Proof that COMMIT returned.
        durable: Durable,
    },
    /// An act was not at the expected version; nothing was written.
    Stale {
        /// Which.
        act_id: ActId,
        /// As it stands; `None` if there is none.
        current: Option<Box<Act>>,
    },
    /// A name was taken; nothing was written.
    Taken(Taken),
}

/// Which unique name was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// The handoff's id in its thread. The act that has it is in the row.
    Handoff(Box<Act>),
    /// A message id in a thread.
    Message {
        /// The id.
        message_id: String,
    },
    /// A likely twin stands: the act that is one.
    Twin(Box<Act>),
    /// Another act already reverses the same one.
    Undo {
        /// The act that would be reversed twice.
        of: ActId,
    },
}

/// Proof that a write is on stable storage: a keeper makes one after COMMIT returned, and nothing else may.
#[derive(Debug)]
pub struct Durable {
    claimed: Vec<ActId>,
}

impl Durable {
    /// For keepers alone, after COMMIT returned: attests that `acts` are stored as they stand here.
    #[must_use]
    pub fn attest(acts: &[Act]) -> Durable {
        let claimed = acts
            .iter()
            .filter(|a| matches!(a.stage, Stage::Executing(_)))
            .map(|a| a.act_id);
        Durable {
            claimed: claimed.collect(),
        }
    }

    /// Whether the durable write left `act` claimed.
    #[must_use]
    pub fn covers_claim_of(&self, act: ActId) -> bool {
        self.claimed.contains(&act)
    }
}
