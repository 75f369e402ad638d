//! A state of the model: everything that can differ between two moments, and what can happen next.

use crate::counterparty::{Counterparty, Word};
use crate::decisions::{Heard, How};
use crate::store::{EMPTY, Kept, Line};
use crate::words::{Messenger, Owner, Tick};

/// One moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Moment {
    /// The store's clock.
    pub now: Tick,
    /// What the store holds.
    pub kept: Kept,
    /// The counterparty's own book.
    pub counterparty: Counterparty,
    /// The daemons, each in a house of its own.
    pub daemons: [Daemon; 2],
    /// The callers.
    pub callers: [Caller; 2],
    /// How many more crashes there may be.
    pub crashes_left: u8,
    /// How many more writes may go through without their writer learning it.
    pub lost_commits_left: u8,
    /// How many more lookups may stay unanswered.
    pub lost_lookups_left: u8,
    /// What was seen on the way here.
    pub seen: Seen,
}

/// A daemon.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Daemon {
    /// Whether it runs.
    pub up: bool,
    /// Which run of its house this is.
    pub me: Owner,
    /// It has just started and has not yet looked at what is claimed.
    pub fresh: bool,
    /// What it does about the act.
    pub hand: Hand,
    /// Since when it has watched the row as it stands now, held by another.
    pub watching: Option<Tick>,
}

/// What a daemon does about the act: one thing at a time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Hand {
    /// Nothing.
    Free,
    /// A commit of this caller's is about to write its claim.
    Claiming { caller: u8, read: Kept, read_at: Tick },
    /// The claim is written; the call is under way.
    Call(Call),
    /// It asked the counterparty.
    Looking { from: Messenger, asked_at: Tick },
    /// It is about to write down what it heard.
    Recording { from: Messenger, heard: Heard },
    /// It is about to send the same bytes again.
    Again { from: Messenger },
}

/// A call under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Call {
    /// The row as it was claimed.
    pub claimed: Kept,
    /// The claim.
    pub from: Messenger,
    /// How far it is.
    pub step: CallStep,
}

/// How far a call is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CallStep {
    /// It has its permit.
    Permitted,
    /// The permit said that bytes may leave. They have not left.
    Checked,
    /// They have left.
    Sent { answer: Option<Word> },
}

/// A caller, working through its script.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Caller {
    /// How far it is.
    pub at: u8,
    /// The statement it was last told, and which one it is.
    pub knows: Option<(Line, u8)>,
    /// What is done for it.
    pub task: Task,
}

/// What is done for a caller.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Task {
    /// Nothing.
    Idle,
    /// Its commit is in its daemon's hand.
    Claiming,
    /// Its cancel was read and is about to be written.
    Cancelling { read: Kept },
    /// Its commit waits for the truth.
    Waiting,
    /// Its cancel waits for the truth.
    WaitingToCancel,
}

/// A request, and the daemon it goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ask {
    Prepare,
    Commit(How),
    Cancel,
}

/// What was seen on the way: what callers were told first, and rules that were broken in a step.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Seen {
    /// A claim was written.
    pub claimed: bool,
    /// Somebody was told that nothing was done.
    pub told_undone: bool,
    /// The readback first given, by attempt.
    pub readbacks: [Option<Line>; 4],
    /// The closing line first given.
    pub closing: Option<Line>,
    /// The answer to the cancel first given.
    pub acknowledged: Option<Line>,
    /// By house: a call ended with its daemon, or without its daemon having known of it, and nobody has said so yet.
    pub unvouched: [bool; 2],
    /// Since when every call of the act is over and that was said.
    pub quiet_from: Option<Tick>,
    /// When the first lookup after that was asked.
    pub first_absent: Option<Tick>,
    /// Two lookups were answered, spaced as the rule says.
    pub absence_due: bool,
    /// Rules broken in a step.
    pub broken: Broken,
}

/// Rules that only a step can break, one bit each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Broken(pub u8);

impl Broken {
    pub const TOLD_EARLY: Broken = Broken(1);
    pub const UNCONFIRMED: Broken = Broken(2);
    pub const LATE_YES: Broken = Broken(4);
    pub const OTHER_ANSWER: Broken = Broken(8);
    pub const STALE_EPOCH: Broken = Broken(16);
    pub const REOPENED: Broken = Broken(32);
    pub const SENT_LATE: Broken = Broken(64);
    pub const SENT_UNCLAIMED: Broken = Broken(128);

    pub fn note(&mut self, rule: Broken) {
        self.0 |= rule.0;
    }

    pub fn has(self, rule: Broken) -> bool {
        self.0 & rule.0 != 0
    }
}

/// What can happen next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// The clock moves.
    Tick,
    /// A caller's next request reaches its daemon. `lost`: the answer does not reach the caller.
    Ask { caller: u8, lost: bool },
    /// A caller's cancel is written.
    Write { caller: u8 },
    /// A waiting caller is told the truth.
    Answer { caller: u8 },
    /// A waiting caller is told that it is not known yet, or hangs up.
    GiveUp { caller: u8 },
    /// A daemon looks round for what is due.
    Look { daemon: u8 },
    /// A daemon does the next step of what it has in hand.
    Step { daemon: u8 },
    /// The same, and the store does not tell it that the write went through.
    StepUnheard { daemon: u8 },
    /// A call or lookup ends without an answer.
    Lose { daemon: u8 },
    /// Bytes land.
    Land { nth: u8, fresh: Word },
    /// The counterparty finishes what it took on.
    Finish(Word),
    /// A daemon dies.
    Crash { daemon: u8 },
    /// It starts again on its folder.
    Restart { daemon: u8 },
}

impl Moment {
    pub fn first(crashes: u8, lost_commits: u8, lost_lookups: u8) -> Moment {
        let daemon = |house| Daemon {
            up: true,
            me: Owner { house, boot: 1 },
            fresh: false,
            hand: Hand::Free,
            watching: None,
        };
        let caller = || Caller {
            at: 0,
            knows: None,
            task: Task::Idle,
        };
        Moment {
            now: 0,
            kept: EMPTY,
            counterparty: Counterparty::default(),
            daemons: [daemon(0), daemon(1)],
            callers: [caller(), caller()],
            crashes_left: crashes,
            lost_commits_left: lost_commits,
            lost_lookups_left: lost_lookups,
            seen: Seen::default(),
        }
    }

    /// The calls under way.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.daemons.iter().filter_map(|d| match &d.hand {
            Hand::Call(call) => Some(call),
            _ => None,
        })
    }
}
