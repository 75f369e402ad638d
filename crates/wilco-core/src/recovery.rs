//! Recovery, planned: what to do about acts whose time has come, as a value.
//!
//! The plan is made from everything known at once: the rows that are due, the executions running in this process, and
//! the instant. A dull loop carries it out, and operators can be shown the plan itself.

use std::collections::HashSet;

use rw1::Profiles;

use crate::act::{Lapse, OpenCall};
use crate::contract::{Identity, LateSend};
use crate::journal::{Entry, OURSELVES};
use crate::prepare::lapsed;
use crate::settle::{Bearer, fail};
use crate::write::{Change, Expect};
use crate::{Act, ActId, Contract, Refusal, Stage, Timestamp};

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Its time ran out: write [`expiry`].
    Expire(ActId),
    /// Take its claim over with [`take_over`], then look it up.
    TakeOver(ActId, Fate),
    /// Ask the counterparty what became of it.
    LookUp(ActId),
    /// It was closed because nobody found it, or by a report that is not final: ask the counterparty again whether that was
    /// right.
    Audit(ActId),
    /// It is in hand in this process already.
    Leave(ActId),
    /// Another daemon holds it and has time yet: watch whether anything moves.
    Watch(ActId),
}

/// What is known of the owner a claim is taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is dead, or it is this process, which runs the call no more: the call is over.
    Over,
    /// It has not moved for the full allowance. It may be paused: its call may still be going on.
    Silent,
}

/// What this daemon knows about the owners of claims.
#[derive(Clone, Copy)]
pub struct Owners<'a> {
    /// Its own name, `<house>.<boot>`: the house stands for the folder it holds the lock of, the boot for this run.
    pub me: &'a str,
    /// Acts in hand in this process.
    pub in_flight: &'a HashSet<ActId>,
    /// Whether every other owner is known to be dead (this process holds the lock they all held).
    pub others_are_dead: bool,
    /// When this run began, on the clock of claims: what another run on its folder claimed later, it claimed alive.
    pub since: Timestamp,
    /// Whether it is known by now that another daemon runs on a copy of this folder ([`proves_double`]): then the folder's
    /// lock proves nobody dead.
    pub doubled: bool,
    /// Whether this daemon has itself watched the act's owner, epoch and version unchanged for the full allowance, on
    /// its own monotonic clock.
    pub silent: &'a (dyn Fn(&Act) -> bool + Sync),
}

impl Owners<'_> {
    /// Whether the claim's owner is known to run its call no more.
    fn is_over(&self, act: &Act, owner: &str) -> bool {
        owner == self.me || self.others_are_dead || (same_house(owner, self.me) && !self.is_doubled(act))
    }

    fn is_doubled(&self, act: &Act) -> bool {
        !self.others_are_dead && (self.doubled || proves_double(act, self.me, self.since))
    }

    /// Whether a call is open that a takeover would say is over, although it may be a living double's.
    fn has_call_of_a_double(&self, act: &Act) -> bool {
        let of_this_folder = |call: &OpenCall| call.owner != self.me && same_house(&call.owner, self.me);
        self.is_doubled(act)
            && act
                .execution()
                .is_some_and(|e| e.progress.open_calls.iter().any(of_this_folder))
    }
}

/// Whether the act's claim proves that another daemon runs on a copy of this folder: a run under the folder's name
/// claimed it after this run, `me`, began at `since`. The folder's lock should make that impossible; in a clone of the
/// volume there is another lock.
#[must_use]
pub fn proves_double(act: &Act, me: &str, since: Timestamp) -> bool {
    act.execution()
        .is_some_and(|e| e.claim.owner != me && same_house(&e.claim.owner, me) && e.claim.claimed_at > since)
}

/// Whether two names belong to runs on the same folder. This process holds that folder's lock, so the other run is
/// dead.
fn same_house(owner: &str, me: &str) -> bool {
    let house = |name: &str| {
        name.split_once('.')
            .map(|(house, _)| house.to_owned())
            .filter(|h| !h.is_empty())
    };
    house(owner).is_some() && house(owner) == house(me)
}

/// Whether a call is known to be over, given that `me` runs none for its act: it was this process's own, or that of an
/// earlier run on its folder.
fn ended(call: &OpenCall, me: &str) -> bool {
    call.owner == me || same_house(&call.owner, me)
}

/// Plans for acts that are due.
#[must_use]
pub fn plan(due: &[Act], owners: &Owners<'_>, now: Timestamp) -> Vec<Step> {
    due.iter().filter_map(|act| step(act, owners, now)).collect()
}

fn step(act: &Act, owners: &Owners<'_>, now: Timestamp) -> Option<Step> {
    let id = act.act_id;
    match &act.stage {
        Stage::Prepared(_) | Stage::Held(_) | Stage::Lapsed(..) => {
            expires(act, now).map(|_| Step::Expire(id))
        }
        Stage::Executing(e) | Stage::InDoubt(e) => {
            if owners.in_flight.contains(&id) {
                return Some(Step::Leave(id));
            }
            let mine = e.claim.owner == owners.me;
            let settled_over = e.progress.over_since.is_some() || e.progress.others_open;
            // Ours and its call has returned: look. Ours and this process lost the call: it is over, say so first.
            if mine && settled_over {
                return Some(Step::LookUp(id));
            }
            // A passed deadline proves nothing about another owner: only its death, or our own watching, lets us act.
            if owners.is_over(act, &e.claim.owner) {
                return Some(Step::TakeOver(id, Fate::Over));
            }
            if owners.has_call_of_a_double(act) {
                return Some(Step::Watch(id));
            }
            if (owners.silent)(act) {
                return Some(Step::TakeOver(id, Fate::Silent));
            }
            Some(Step::Watch(id))
        }
        Stage::Failed(closed) | Stage::Done(closed)
            if closed.audit.is_some_and(|audit| now >= audit.next_at) =>
        {
            let leave = owners.in_flight.contains(&act.act_id);
            Some(if leave {
                Step::Leave(act.act_id)
            } else {
                Step::Audit(act.act_id)
            })
        }
        Stage::Done(_) | Stage::Failed(_) | Stage::Cancelled(_) | Stage::Refused(_) => None,
    }
}

/// The write that takes a claim over: a new epoch, so that the earlier owner can no longer change the state, and what
/// is known of its call. `me` must run no call for the act, and keep from starting one meanwhile. `None` where the act is not claimed, or not by `from` any more.
#[must_use]
pub fn take_over(act: &Act, from: &Bearer, me: &str, fate: Fate, now: Timestamp) -> Option<Change> {
    if !from.holds(act) {
        return None;
    }
    let mut execution = act.execution()?.clone();
    let progress = &mut execution.progress;
    // Calls of earlier runs on this daemon's own folder ended with them. With the last of them the act is quiet only if
    // the holder makes none either: a silent one that had begun to send again may still be at it.
    let holder_calls = fate == Fate::Silent && act.holder_may_be_calling();
    progress.calls_ended(|call| ended(call, me), holder_calls, now);
    match fate {
        Fate::Over if !progress.others_open => {
            progress.over_since.get_or_insert(now);
            "the process that owned the call ended before it wrote an outcome"
                .clone_into(&mut progress.reason);
        }
        Fate::Over => {}
        // What was known to be over stays over; a silent owner's own call may still be going on.
        Fate::Silent if progress.over_since.is_some() => {}
        Fate::Silent => {
            progress.others_open = true;
            let call = OpenCall {
                owner: from.owner.clone(),
                epoch: from.epoch,
            };
            if !progress.open_calls.contains(&call) {
                progress.open_calls.push(call);
            }
            progress.reason = format!("owner {} went silent; its call may still be going on", from.owner);
        }
    }
    progress.next_at = now;
    execution.claim.owner = me.to_owned();
    execution.claim.epoch += 1;
    let detail = serde_json::json!({
        "from": from.owner, "epoch": execution.claim.epoch, "owner": me,
        "fate": match fate { Fate::Over => "over", Fate::Silent => "silent" },
    });
    let mut next = act.clone();
    let theirs = execution.progress.accepted && matches!(act.stage, Stage::Executing(_));
    next.stage = if theirs {
        Stage::Executing(execution)
    } else {
        Stage::InDoubt(execution)
    };
    let entries = vec![Entry::event("taken_over", detail, OURSELVES)];
    Some(Change {
        unless_twin: None,
        expect: Expect::Version(act.version),
        act: next,
        entries,
    })
}

/// The write with which a daemon vouches for the end of calls that earlier runs on its own folder left open: it holds
/// the lock they held until they died. Anybody may say so, whoever holds the claim. `me` must run no call for the act,
/// and keep from starting one meanwhile. `None` where there is none to vouch for.
#[must_use]
pub fn vouch(act: &Act, me: &str, now: Timestamp) -> Option<Change> {
    let holder_calls = act.holder_may_be_calling();
    let mut next = act.clone();
    let (Stage::Executing(execution) | Stage::InDoubt(execution)) = &mut next.stage else {
        return None;
    };
    let dead: Vec<String> = execution
        .progress
        .open_calls
        .iter()
        .filter(|call| ended(call, me))
        .map(|call| call.owner.clone())
        .collect();
    if !execution
        .progress
        .calls_ended(|call| ended(call, me), holder_calls, now)
    {
        return None;
    }
    let detail = serde_json::json!({ "owners": dead, "by": me });
    let entries = vec![Entry::event("calls_over", detail, OURSELVES)];
    Some(Change {
        unless_twin: None,
        expect: Expect::Version(act.version),
        act: next,
        entries,
    })
}

/// Whether the same bytes may be sent again now: the counterparty enforces their identity, and has not been seen to
/// have them; no call is known to be over, so that looking alone can never settle it; and it is before the last moment
/// for this act.
///
/// A key that the counterparty forgets protects only where late bytes are refused before that: a call that was paused
/// past the window would be taken as a new one, beside the one that was sent again.
#[must_use]
pub fn may_resend(act: &Act, contract: &Contract, now: Timestamp) -> bool {
    let Some(e) = act.execution() else { return false };
    let inside = match (contract.identity, contract.late_send) {
        (Identity::Enforced, _) => true,
        (Identity::Window(key_s), LateSend::RefusedAfter(refused_s)) => {
            refused_s <= key_s && now < e.claim.claimed_at.plus_seconds(i64::from(key_s))
        }
        (Identity::Window(_), LateSend::Accepted) | (Identity::None, _) => false,
    };
    inside
        && e.progress.others_open
        && e.progress.over_since.is_none()
        && !e.progress.accepted
        && !e.progress.exists
        && e.progress.heard.is_none()
        && e.progress.resends < MOST_RESENDS
        && now < e.claim.not_after
}

/// How often the same bytes are sent again before a person is called.
const MOST_RESENDS: u32 = 5;

/// The claiming write of a resend: a new epoch under the same last moment, so that a permit can be made for it.
/// `None` where it may not be sent again at `now`.
#[must_use]
pub fn reclaim(
    act: &Act,
    contract: &Contract,
    from: &Bearer,
    deadline_s: i64,
    now: Timestamp,
) -> Option<Change> {
    if !from.holds(act) || !may_resend(act, contract, now) {
        return None;
    }
    let mut execution = act.execution()?.clone();
    execution.claim.epoch += 1;
    execution.claim.deadline = now.plus_seconds(deadline_s);
    execution.progress.resends += 1;
    execution.progress.next_at = execution.claim.deadline;
    let detail = serde_json::json!({ "epoch": execution.claim.epoch, "resends": execution.progress.resends });
    let mut next = act.clone();
    next.stage = Stage::Executing(execution);
    let entries = vec![Entry::event("sent_again", detail, OURSELVES)];
    Some(Change {
        unless_twin: None,
        expect: Expect::Version(act.version),
        act: next,
        entries,
    })
}

/// What an unclaimed act's time running out means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// The handoff's end: it is closed with an FL.
    Handoff,
    /// The statement's end: it lapses, the handoff stays open.
    Statement,
}

/// Whether an unclaimed act's time has run out at `now`, to the instant.
#[must_use]
pub fn expires(act: &Act, now: Timestamp) -> Option<Expiry> {
    match &act.stage {
        Stage::Prepared(_) | Stage::Held(_) | Stage::Lapsed(..) if now >= act.limit => Some(Expiry::Handoff),
        Stage::Prepared(offer) if now >= offer.expires_at => Some(Expiry::Statement),
        _ => None,
    }
}

/// The write for an act whose time has run out; `None` where it has not.
///
/// # Errors
/// A line that cannot be written.
pub fn expiry(profiles: &Profiles, act: &Act, now: Timestamp) -> Result<Option<Change>, Refusal> {
    match (expires(act, now), &act.stage) {
        (Some(Expiry::Statement), Stage::Prepared(offer)) => {
            Ok(Some(lapsed(act, offer, Lapse::Expired, Vec::new())))
        }
        (Some(Expiry::Handoff), _) => {
            let mut next = act.clone();
            let mut entries = Vec::new();
            let text = "its time ran out before it was confirmed; nothing was done";
            let closed = fail(profiles, &mut next, "EXPIRED", text, None, &mut entries, now)?;
            next.stage = Stage::Failed(closed);
            Ok(Some(Change {
                unless_twin: None,
                expect: Expect::Version(act.version),
                act: next,
                entries,
            }))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests;
