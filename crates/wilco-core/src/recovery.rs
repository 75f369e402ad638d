//! Recovery, planned: what to do about acts whose time has come, as a value.
//!
//! The plan is made from everything known at once: the rows that are due, the executions running in this process, and
//! the instant. A dull loop carries it out, and operators can be shown the plan itself.

use std::collections::HashSet;

use rw1::Profiles;

use crate::act::Lapse;
use crate::prepare::lapsed;
use crate::settle::fail;
use crate::write::{Change, Expect};
use crate::{Act, ActId, Refusal, Stage, Timestamp};

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Its time ran out: write [`expiry`].
    Expire(ActId),
    /// Its owner is dead, or this process forgot it: record that the call is over, then look it up.
    TakeOver(ActId),
    /// Ask the counterparty what became of it.
    LookUp(ActId),
    /// It was closed because nobody found it: ask the counterparty once more whether that was right.
    Audit(ActId),
    /// It is being executed here: its own task will settle it.
    Leave(ActId),
}

/// What this daemon knows about the owners of claims.
#[derive(Debug, Clone)]
pub struct Owners<'a> {
    /// Its own name.
    pub me: &'a str,
    /// Acts whose call runs in this process.
    pub in_flight: &'a HashSet<ActId>,
    /// Whether every other owner is known to be dead (this process holds the lock they held).
    pub others_are_dead: bool,
}

/// Plans for acts that are due.
#[must_use]
pub fn plan(due: &[Act], owners: &Owners<'_>, now: Timestamp) -> Vec<Step> {
    due.iter().filter_map(|act| step(act, owners, now)).collect()
}

fn step(act: &Act, owners: &Owners<'_>, now: Timestamp) -> Option<Step> {
    match &act.stage {
        Stage::Prepared(_) | Stage::Held(_) | Stage::Lapsed(..) => {
            expires(act, now).map(|_| Step::Expire(act.act_id))
        }
        Stage::Executing(e) | Stage::InDoubt(e) => {
            if owners.in_flight.contains(&act.act_id) {
                return Some(Step::Leave(act.act_id));
            }
            if e.progress.over_since.is_some() {
                return Some(Step::LookUp(act.act_id));
            }
            // Not running here and not known to be over. Ours: this process lost it, the call has returned. Another
            // owner's: only where that owner is known to be dead; a passed deadline proves nothing.
            if e.claim.owner == owners.me || owners.others_are_dead {
                return Some(Step::TakeOver(act.act_id));
            }
            Some(Step::LookUp(act.act_id))
        }
        Stage::Failed(closed) if closed.audit.is_some_and(|audit| now >= audit.next_at) => {
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
