//! A person's word on an act in doubt.

use rw1::Profiles;

use super::{Executed, done, not_done};
use crate::act::Execution;
use crate::journal::Entry;
use crate::quiescence::last_byte_by;
use crate::write::{Change, Expect};
use crate::{Act, Contract, Reason, Refusal, Stage, Timestamp};

/// An operator's word on an act in doubt.
#[derive(Debug, Clone, Copy)]
pub struct Word<'a> {
    /// Whether it was done.
    pub done: bool,
    /// What was seen, where, by whom.
    pub evidence: &'a str,
    /// Who says so.
    pub operator: &'a str,
    /// Whether the operator has made sure that every process that could still send it is gone.
    pub owner_dead: bool,
}

/// From when on no call of the act can land any more, as far as is known; `None` where one may still be going on.
#[must_use]
pub fn quiet_from(contract: &Contract, execution: &Execution) -> Option<Timestamp> {
    last_byte_by(contract, &execution.progress, execution.claim.claimed_at)
        .map(|last| last.plus_seconds(i64::from(contract.settle_window_s)))
}

/// The refusal of a word that comes while the call can still land.
fn not_before(from: Timestamp, now: Timestamp) -> Refusal {
    let text = format!(
        "the call can still land until {}; settle it after that",
        from.to_rfc3339()
    );
    let wait = u32::try_from(from.seconds_since(now) + 1).unwrap_or(u32::MAX);
    Refusal::new(Reason::Refused, text).retry_after(wait)
}

/// The answer to a word that every process is gone, which was kept; how it ended is taken later.
#[must_use]
pub fn kept_until(from: Timestamp, now: Timestamp) -> Refusal {
    let text = format!(
        "your word that no process can send it any more is kept; what was sent before can still land until {}: say how it \
         ended after that",
        from.to_rfc3339()
    );
    let wait = u32::try_from(from.seconds_since(now) + 1).unwrap_or(u32::MAX);
    Refusal::new(Reason::Refused, text).retry_after(wait)
}

/// Whose calls may still be going on.
fn open_owners(execution: &Execution) -> String {
    let mut owners: Vec<&str> = execution
        .progress
        .open_calls
        .iter()
        .map(|call| call.owner.as_str())
        .collect();
    if owners.is_empty() {
        owners.push(&execution.claim.owner);
    }
    format!("owner {}", owners.join(" and "))
}

/// The write of an operator's word that every process that could still send the act is gone. From here on its absence
/// can be proved by lookups, and a word on its outcome is taken once the window has passed. Who says besides that it was done
/// has seen it there: then no lookup concludes the opposite meanwhile.
fn vouched_for(act: &Act, execution: &Execution, word: &Word<'_>, now: Timestamp) -> Change {
    let mut execution = execution.clone();
    let progress = &mut execution.progress;
    progress.open_calls.clear();
    progress.others_open = false;
    progress.over_since.get_or_insert(now);
    progress.next_at = now;
    if word.done {
        progress.exists = true;
        progress.absent_at.clear();
        progress.reason = format!("{} says that it was done: {}", word.operator, word.evidence);
    }
    let mut next = act.clone();
    next.stage = Stage::InDoubt(execution);
    let detail = serde_json::json!({ "evidence": word.evidence, "done": word.done });
    Change {
        unless_twin: None,
        expect: Expect::Version(act.version),
        act: next,
        entries: vec![Entry::event("owner_dead_by_operator", detail, word.operator)],
    }
}

/// The write of an operator's word on an act in doubt.
///
/// Where a call may still be under way and the operator vouches for the end of every process that could make it, the
/// write keeps that word and leaves the act in doubt: its window counts from then.
///
/// # Errors
/// The act is not in doubt, or its call can still land.
pub fn settled_by_operator(
    profiles: &Profiles,
    act: &Act,
    contract: &Contract,
    word: &Word<'_>,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let Word {
        done: done_,
        evidence,
        operator,
        owner_dead,
    } = *word;
    let Stage::InDoubt(execution) = &act.stage else {
        let yet = act.execution().map(|e| {
            format!(
                ": its call may bring the outcome yet, and is overdue from {}",
                e.claim.deadline.to_rfc3339()
            )
        });
        let text = format!(
            "only an act in doubt is settled by a person; this one is {}{}",
            act.state().as_str(),
            yet.unwrap_or_default()
        );
        return Err(Refusal::new(Reason::Refused, text));
    };
    match quiet_from(contract, execution) {
        // With every process gone the last byte left before now, and its window begins.
        None if owner_dead && contract.settle_window_s > 0 => {
            return Ok(vouched_for(act, execution, word, now));
        }
        None if owner_dead => {}
        None => {
            let text = format!(
                "the call of {} is not known to be over: it can still land. Start that daemon again on its folder, or make \
                 sure its process is gone and say so",
                open_owners(execution)
            );
            return Err(Refusal::new(Reason::Refused, text));
        }
        Some(from) if now < from => return Err(not_before(from, now)),
        Some(_) => {}
    }
    // It may still have come to nothing there (an order that was refused later). Only who asked the counterparty
    // about this very order can know, and shows it by naming it.
    let heard = execution.progress.heard.as_ref();
    if let Some(heard) = heard.filter(|_| !done_) {
        let text = format!(
            "a daemon that made the call reported that it was carried out{}: it is settled as done",
            heard
                .receipt
                .as_ref()
                .map(|r| format!(", receipt {r}"))
                .unwrap_or_default()
        );
        return Err(Refusal::new(Reason::Refused, text));
    }
    let seen = execution.progress.seen_there();
    let name = execution
        .progress
        .receipt
        .clone()
        .or_else(|| execution.offer.frozen.placed.clone())
        .unwrap_or_else(|| act.act_id.to_string());
    if !done_ && seen && !evidence.contains(&name) {
        let text = format!(
            "the counterparty was seen to have it ({}): ask there how {name} ended; evidence that it was not done must \
             name it",
            execution.progress.reason
        );
        return Err(Refusal::new(Reason::Refused, text).in_field("evidence"));
    }
    let word = Entry::event(
        "settled_by_operator",
        serde_json::json!({ "done": done_, "evidence": evidence, "owner_dead": owner_dead }),
        operator,
    );
    let mut change = if done_ {
        // A person saw that it was done, not what the counterparty shows: every value is carried from the statement.
        // Unless a daemon that made the call said what it shows.
        let mut carried = execution.clone();
        if heard.is_none() {
            carried.offer.frozen.carried = carried
                .offer
                .frozen
                .values
                .iter()
                .map(|v| v.slot.clone())
                .collect();
        }
        let executed = heard.cloned().unwrap_or_else(|| Executed {
            receipt: execution.progress.receipt.clone(),
            ..Executed::default()
        });
        let mut change = done(profiles, act, &carried, &executed, word, now)?;
        if let Stage::Done(closed) = &mut change.act.stage {
            closed.offer = Some(execution.offer.clone());
            closed
                .notes
                .push(format!("settled as done by {operator}: {evidence}"));
        }
        change
    } else {
        let mut change = not_done(
            profiles,
            act,
            execution,
            "ERR",
            "settled as not done by an operator",
            word,
            now,
        )?;
        if let Stage::Failed(closed) = &mut change.act.stage {
            closed
                .notes
                .push(format!("settled as not done by {operator}: {evidence}"));
            closed.refused_there = seen;
        }
        change
    };
    change.expect = Expect::Version(act.version);
    Ok(change)
}
