//! An act: our record of one handoff, from its arrival to its close.
//!
//! | state | meaning | leaves by |
//! |---|---|---|
//! | `prepared` | a live statement waits for a confirmation | commit, cancel, expiry, decline, a newer handoff that names it |
//! | `held` | stated and shown, cannot be confirmed | cancel, handoff expiry, a newer handoff that names it; where only a likely twin stands, release |
//! | `lapsed` | the statement expired, was declined, or was released from a hold; the handoff is still open | prepare, cancel, handoff expiry, a newer handoff that names it |
//! | `executing` | claimed; the adapter may be acting, or the counterparty accepted and has not finished | outcome |
//! | `in_doubt` | the outcome is unknown | lookup, late answer, operator |
//! | `done`, `failed`, `cancelled`, `refused` | closed, with the line that closed it | final |
//!
//! Each stage carries only what is true at that stage, so a row that claims more does not load.

use serde::{Deserialize, Serialize};

use crate::{ActId, Frozen, Timestamp};

/// One handoff's record. A store keeps one row of it per handoff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Act {
    /// Our id, and the reference the counterparty sees.
    pub act_id: ActId,
    /// Counts writes to this act, from 1. Every state change is conditional on it.
    pub version: u64,
    /// The conversation: named by the caller, else the sending agent.
    pub thread: String,
    /// The job itself, as it arrived.
    pub handoff: Handoff,
    /// The principal that brought it (or cancelled it before it came).
    pub principal: String,
    /// When it arrived.
    pub created_at: Timestamp,
    /// When it was last written.
    pub updated_at: Timestamp,
    /// The last journal sequence number of this act.
    pub seq: u64,
    /// The hash of that journal row, hex; empty before the first.
    pub head: String,
    /// How many lines of ours this act has issued ids for.
    pub lines: u32,
    /// Whether our line ids are of the long kind, because a short one was taken in the thread.
    pub long_ids: bool,
    /// How many statements were made, live ones included.
    pub attempt: u32,
    /// Hashes of every token given out, newest last, so that an old one can be told from a foreign one.
    pub tokens: Vec<TokenRecord>,
    /// When the handoff ends unless it is claimed: its `exp`, the end of `due`, or its age limit.
    pub limit: Timestamp,
    /// The act this one reverses (`ask=UNDO`), while this one is open, in doubt or done.
    pub undo_of: Option<ActId>,
    /// SHA-256 (hex) over the slots that make two acts alike, where the profile names them.
    pub likeness: Option<String>,
    /// Cancels that wait for the truth; in a tombstone the first cancel, already answered, until its handoff comes.
    pub waiting: Vec<WaitingCancel>,
    /// The operator who let it go on although a likely twin stands. Belongs to the handoff, not to an attempt.
    pub released_by: Option<String>,
    /// Where it stands.
    pub stage: Stage,
}

/// The job as it arrived. A tombstone (a cancel that came before its handoff) has an empty `line`, and so has a closed
/// act whose texts were erased.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Handoff {
    /// The message id, unique within the thread.
    pub id: String,
    /// The exact line, one final line end removed. Its identity: never a digest, as long as the line is kept.
    pub line: String,
    /// Who sent it (`from`).
    pub sender: String,
    /// Who receives it (`to`).
    pub receiver: String,
    /// What it is about (`item`).
    pub item: String,
    /// What to do (`ask`).
    pub ask: String,
    /// The profile it is written in (`p`), empty for the core alone.
    pub profile: String,
}

/// A token given out for an attempt: its hash, and the id of the key it was derived with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRecord {
    /// Which attempt.
    pub attempt: u32,
    /// The hex SHA-256 of the token.
    pub hash: String,
    /// The server key's id.
    pub key_id: String,
}

/// A cancel that arrived while the act was executing or in doubt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingCancel {
    /// The CX line.
    pub line: String,
    /// Its message id.
    pub id: String,
}

/// The name of a stage, as rows, metrics and clients spell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// A live statement waits for a confirmation.
    Prepared,
    /// Stated, cannot be confirmed.
    Held,
    /// The statement expired, was declined, or was released from a hold.
    Lapsed,
    /// Claimed.
    Executing,
    /// The outcome is unknown.
    InDoubt,
    /// Executed.
    Done,
    /// Certainly not executed.
    Failed,
    /// A cancel won.
    Cancelled,
    /// Never prepared, or superseded.
    Refused,
}

impl State {
    /// Every state, in the order of an act's life.
    pub const ALL: [State; 9] = [
        State::Prepared,
        State::Held,
        State::Lapsed,
        State::Executing,
        State::InDoubt,
        State::Done,
        State::Failed,
        State::Cancelled,
        State::Refused,
    ];

    /// The lower-case word rows and clients use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            State::Prepared => "prepared",
            State::Held => "held",
            State::Lapsed => "lapsed",
            State::Executing => "executing",
            State::InDoubt => "in_doubt",
            State::Done => "done",
            State::Failed => "failed",
            State::Cancelled => "cancelled",
            State::Refused => "refused",
        }
    }

    /// The state a word names.
    #[must_use]
    pub fn from_word(word: &str) -> Option<State> {
        State::ALL.into_iter().find(|s| s.as_str() == word)
    }

    /// Whether its closing line stands: nothing can happen to it but that evidence marks it.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(
            self,
            State::Done | State::Failed | State::Cancelled | State::Refused
        )
    }
}

/// Where an act stands, with what is true there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// A live statement.
    Prepared(Offer),
    /// A statement that fails our own check, which nobody can lift, or beside a likely twin, which an operator may release.
    Held(Offer),
    /// The last statement, no longer live.
    Lapsed(Offer, Lapse),
    /// Claimed.
    Executing(Execution),
    /// Claimed, outcome unknown.
    InDoubt(Execution),
    /// Executed; the line is a DN.
    Done(Closed),
    /// Certainly not executed; the line is an FL.
    Failed(Closed),
    /// A cancel won; the line is an AN.
    Cancelled(Closed),
    /// Never prepared, or superseded; the line is a UN.
    Refused(Closed),
}

/// Why a statement is no longer live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lapse {
    /// Its time ran out.
    Expired,
    /// The sender answered `val=N`.
    Declined,
    /// An operator let it go on although a likely twin stands: it may be stated again.
    Released,
}

/// A statement, and everything frozen under it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Which attempt it is, from 1.
    pub attempt: u32,
    /// The RB's message id.
    pub rb_id: String,
    /// The RB line without its `x_tok` slot.
    pub statement: String,
    /// The hex SHA-256 of the statement's bytes: what a confirmation quotes.
    pub statement_sha256: String,
    /// From this instant on it cannot be confirmed.
    pub expires_at: Timestamp,
    /// The values, request, rules.
    pub frozen: Frozen,
    /// What our own check said, and a likely twin; not empty exactly when the act is held.
    pub problems: Vec<StoredProblem>,
    /// Remarks that go with the statement.
    pub notes: Vec<String>,
}

/// The code of the problem that a likely twin stands.
pub const LIKELY_TWIN: &str = "likely_twin";

/// A problem as it was found, kept with the act.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredProblem {
    /// Stable code.
    pub code: String,
    /// The slot it concerns.
    pub slot: Option<String>,
    /// What was wanted.
    pub want: Option<String>,
    /// What was there.
    pub got: Option<String>,
    /// The sentence people read.
    pub text: String,
}

impl From<&rw1::Problem> for StoredProblem {
    fn from(p: &rw1::Problem) -> Self {
        StoredProblem {
            code: p.code.as_str().to_owned(),
            slot: p.slot.clone(),
            want: p.want.clone(),
            got: p.got.clone(),
            text: p.text.clone(),
        }
    }
}

/// The durable record that an act is being executed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Which running daemon holds it (a random name made at start).
    pub owner: String,
    /// Counts claims and takeovers of this act, from 1; an older epoch cannot change the state.
    pub epoch: u64,
    /// When the claim was written: the confirmation instant, by the store's clock.
    pub claimed_at: Timestamp,
    /// When the owner should be done; a hint for people, never proof of anything.
    pub deadline: Timestamp,
    /// No byte is sent at or after this instant.
    pub not_after: Timestamp,
}

/// An act between its claim and its close.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    /// The statement that was confirmed.
    pub offer: Offer,
    /// The sender's confirmation line.
    pub confirmation: String,
    /// Who holds it.
    pub claim: Claim,
    /// What is known so far.
    pub progress: Progress,
}

/// What is known of an execution so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Progress {
    /// Since when the call that owned the claim is known to be over (it returned, or its process is known dead).
    pub over_since: Option<Timestamp>,
    /// Whether bytes may have left; `false` only when that is certain.
    pub maybe_sent: bool,
    /// The counterparty's own id for it, once it said one.
    pub receipt: Option<String>,
    /// Whether the counterparty said it accepted and has not finished.
    pub accepted: bool,
    /// Whether a lookup ever showed that it stands at the counterparty, however it ended there.
    #[serde(default)]
    pub exists: bool,
    /// Instants of answered lookups that found nothing, oldest first, since the call was over.
    pub absent_at: Vec<Timestamp>,
    /// How many lookups were made.
    pub lookups: u32,
    /// When to look next.
    pub next_at: Timestamp,
    /// Why the outcome is unknown, in words for operators.
    pub reason: String,
    /// Whether a person has been called.
    pub escalated: bool,
    /// Whether a call of an earlier owner may still be going on: it was taken over without proof of its death. Then
    /// nothing this owner's own call did or did not do proves absence.
    #[serde(default)]
    pub others_open: bool,
    /// Which calls those are. Each leaves the list once it is known to be over; with the last one `others_open` ends.
    #[serde(default)]
    pub open_calls: Vec<OpenCall>,
    /// How often the same bytes were sent again.
    #[serde(default)]
    pub resends: u32,
    /// What somebody who no longer holds the claim reported as carried out; the holder settles with it.
    #[serde(default)]
    pub heard: Option<crate::settle::Executed>,
    /// What another of them reported under another receipt: it was carried out twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard_also: Option<crate::settle::Executed>,
}

/// A call that may still be going on, although somebody else holds the claim by now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenCall {
    /// Whose call.
    pub owner: String,
    /// The epoch it was made under.
    pub epoch: u64,
}

impl Progress {
    /// Whether it was ever seen or said to stand at the counterparty, however it ended there.
    pub(crate) fn seen_there(&self) -> bool {
        self.exists || self.accepted || self.heard.is_some()
    }

    /// Notes that the calls `is_over` names have ended. With the last of them nothing but the holder's own call can be
    /// under way: `holder_calls` says whether that one may be.
    pub(crate) fn calls_ended(
        &mut self,
        is_over: impl Fn(&OpenCall) -> bool,
        holder_calls: bool,
        now: Timestamp,
    ) -> bool {
        let before = self.open_calls.len();
        self.open_calls.retain(|call| !is_over(call));
        let ended = self.open_calls.len() < before;
        if ended && self.open_calls.is_empty() {
            self.others_open = false;
            if !holder_calls {
                self.over_since.get_or_insert(now);
            }
        }
        ended
    }
}

/// How the report compares with the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// What ran is what was stated.
    Match,
    /// Something else ran: alert, and reverse it.
    Mismatch,
    /// Evidence that came later contradicts the closing line.
    Contradicted,
}

impl Verdict {
    /// The lower-case word clients see.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Match => "match",
            Verdict::Mismatch => "mismatch",
            Verdict::Contradicted => "contradicted",
        }
    }
}

/// How an act ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// The line that closed it: DN, FL, AN or UN.
    pub line: String,
    /// That line's message id.
    pub line_id: String,
    /// When.
    pub closed_at: Timestamp,
    /// The last statement, if one was made.
    pub offer: Option<Offer>,
    /// The claim, if one was made.
    pub claim: Option<Claim>,
    /// For a done act: how the report compares with the plan.
    pub verdict: Option<Verdict>,
    /// What the comparison found.
    pub problems: Vec<StoredProblem>,
    /// Remarks that go with the closing line.
    pub notes: Vec<String>,
    /// The counterparty's own id for what it did.
    pub receipt: Option<String>,
    /// Whether a newer handoff took its place: a commit then hears `SUPERSEDED`, not `REFUSED`.
    pub superseded: bool,
    /// What is known of its texts, once they were erased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erased: Option<Erased>,
    /// When to look again whether the close was right: for a failed act whose absence was concluded from lookups, and for a
    /// done one that the counterparty may still reject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<Audit>,
    /// For a failed act: whether the counterparty had it and refused it. That it was once seen there is no contradiction.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refused_there: bool,
}

/// The mark an erasure leaves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Erased {
    /// When.
    pub at: Timestamp,
    /// The hex SHA-256 of the handoff's line: its identity from then on.
    pub handoff_sha256: String,
}

/// A close that is looked at again: lookups said that nothing happened, and a counterparty whose reads lag further
/// than its contract says would have made that wrong; or it was carried out and is not final yet. Evidence that contradicts the close marks it and calls people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// When to look next.
    pub next_at: Timestamp,
    /// How often it was looked at.
    pub looks: u32,
}

impl Act {
    /// The name of the act's stage.
    #[must_use]
    pub fn state(&self) -> State {
        match &self.stage {
            Stage::Prepared(_) => State::Prepared,
            Stage::Held(_) => State::Held,
            Stage::Lapsed(..) => State::Lapsed,
            Stage::Executing(_) => State::Executing,
            Stage::InDoubt(_) => State::InDoubt,
            Stage::Done(_) => State::Done,
            Stage::Failed(_) => State::Failed,
            Stage::Cancelled(_) => State::Cancelled,
            Stage::Refused(_) => State::Refused,
        }
    }

    /// The current or last statement.
    #[must_use]
    pub fn offer(&self) -> Option<&Offer> {
        match &self.stage {
            Stage::Prepared(o) | Stage::Held(o) | Stage::Lapsed(o, _) => Some(o),
            Stage::Executing(e) | Stage::InDoubt(e) => Some(&e.offer),
            Stage::Done(c) | Stage::Failed(c) | Stage::Cancelled(c) | Stage::Refused(c) => c.offer.as_ref(),
        }
    }

    /// Whether the holder of the claim may have a call of its own under way. What the counterparty accepted, and what is
    /// in doubt, is only looked up.
    #[must_use]
    pub fn holder_may_be_calling(&self) -> bool {
        matches!(&self.stage, Stage::Executing(e) if !e.progress.accepted)
    }

    /// The running execution, if claimed and not closed.
    #[must_use]
    pub fn execution(&self) -> Option<&Execution> {
        match &self.stage {
            Stage::Executing(e) | Stage::InDoubt(e) => Some(e),
            _ => None,
        }
    }

    /// How it ended, if it did.
    #[must_use]
    pub fn closed(&self) -> Option<&Closed> {
        match &self.stage {
            Stage::Done(c) | Stage::Failed(c) | Stage::Cancelled(c) | Stage::Refused(c) => Some(c),
            _ => None,
        }
    }

    /// When recovery must look at it next; `None` once nothing is left to look at. A close under audit still has that.
    #[must_use]
    pub fn due_at(&self) -> Option<Timestamp> {
        match &self.stage {
            Stage::Prepared(o) => Some(o.expires_at.min(self.limit)),
            Stage::Held(_) | Stage::Lapsed(..) => Some(self.limit),
            Stage::Executing(e) | Stage::InDoubt(e) => Some(e.progress.next_at),
            Stage::Failed(closed) | Stage::Done(closed) => closed.audit.map(|audit| audit.next_at),
            _ => None,
        }
    }

    /// Whether it is held only because a likely twin stands, so that an operator may release it.
    #[must_use]
    pub fn is_held_as_twin(&self) -> bool {
        matches!(&self.stage, Stage::Held(o) if o.problems.iter().all(|p| p.code == LIKELY_TWIN))
    }

    /// Whether this is a tombstone whose handoff has not come.
    #[must_use]
    pub fn is_tombstone(&self) -> bool {
        self.handoff.line.is_empty() && self.erased_handoff().is_none()
    }

    /// The hex SHA-256 of the handoff's line, where the line itself was erased.
    #[must_use]
    pub fn erased_handoff(&self) -> Option<&str> {
        let erased = self.closed()?.erased.as_ref()?;
        Some(&erased.handoff_sha256)
    }
}
