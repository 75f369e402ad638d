//! Cancel, decided: abandoned, already done, or in doubt. Never a guess.

use rw1::{Kind, Profiles};

use crate::act::WaitingCancel;
use crate::journal::{Entry, EntryKind, OURSELVES};
use crate::lines::{self, Reply};
use crate::prepare::{closed, not_a_line, one_line, ours_to_take};
use crate::write::{Change, Expect};
use crate::{Act, Handoff, Reason, Refusal, Stage, Timestamp};

/// A cancel line, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancel {
    /// The exact line.
    pub line: String,
    /// Its message id.
    pub id: String,
    /// The handoff it withdraws.
    pub re: String,
    /// Who sends it.
    pub from: String,
    /// Whom it is addressed to.
    pub to: String,
    /// The item it names.
    pub item: String,
    /// The profile it is written in.
    pub profile: String,
}

/// Reads a cancel line.
///
/// # Errors
/// What is no CX line, comes from the wrong caller, or is for an agent we do not serve.
pub fn intake(
    profiles: &Profiles,
    text: &str,
    speaks_for: &dyn Fn(&str) -> bool,
    served: &[String],
) -> Result<Cancel, Refusal> {
    let line = one_line("cx", text)?;
    let message = rw1::parse_strict(profiles, None, line).map_err(|problems| not_a_line("cx", problems))?;
    ours_to_take("cx", Kind::Cx, &message, speaks_for, served)?;
    Ok(Cancel {
        line: line.to_owned(),
        id: message.id.to_owned(),
        re: message.re.unwrap_or("").to_owned(),
        from: message.from.to_owned(),
        to: message.to.to_owned(),
        item: message.item.unwrap_or("").to_owned(),
        profile: message.text("p").unwrap_or("").to_owned(),
    })
}

/// What a cancel does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Write this; the act is then cancelled, or its cancel is answered.
    Write(Box<Change>),
    /// Write this, then wait for the truth.
    WriteAndWait(Box<Change>),
}

/// Checks that a cancel fits the act it names, and that it is the same act's business.
///
/// # Errors
/// A cancel from another than the handoff's sender (answered like an unknown act), to another than its receiver, or
/// about another item.
pub fn fits(act: &Act, cancel: &Cancel) -> Result<(), Refusal> {
    if cancel.from != act.handoff.sender {
        return Err(unknown(cancel));
    }
    if act.is_tombstone() {
        return Ok(());
    }
    if cancel.to != act.handoff.receiver {
        let text = format!(
            "a cancel goes to the handoff's receiver, {}",
            act.handoff.receiver
        );
        return Err(Refusal::malformed("cx", text).at_slot("to"));
    }
    if cancel.item != act.handoff.item {
        let text = format!("the handoff is about item={}", act.handoff.item);
        return Err(Refusal::malformed("cx", text).at_slot("item"));
    }
    Ok(())
}

fn unknown(cancel: &Cancel) -> Refusal {
    Refusal::new(
        Reason::UnknownAct,
        format!("{} is not a handoff of {} in this thread", cancel.re, cancel.from),
    )
    .in_field("cx")
    .at_slot("re")
}

/// Decides what a cancel does to the act it names. `in_thread` says whether the act's handoff stands in the thread: one
/// that did not validate does not, and then neither does its cancel.
///
/// # Errors
/// A line that cannot be written.
pub fn decide(
    profiles: &Profiles,
    act: &Act,
    cancel: &Cancel,
    in_thread: bool,
    principal: &str,
    now: Timestamp,
) -> Result<Effect, Refusal> {
    let mut next = act.clone();
    let expect = Expect::Version(act.version);
    match &act.stage {
        Stage::Prepared(_) | Stage::Held(_) | Stage::Lapsed(..) => {
            let offer = act.offer().cloned();
            let (line, id, entries) = acknowledged(
                profiles,
                &mut next,
                cancel,
                "statement abandoned; nothing was done",
                principal,
            )?;
            next.undo_of = None;
            next.stage = Stage::Cancelled(closed(line, id, now, offer));
            Ok(Effect::Write(Box::new(Change {
                unless_twin: None,
                expect,
                act: next,
                entries,
            })))
        }
        Stage::Executing(_) | Stage::InDoubt(_) => {
            next.waiting.push(WaitingCancel {
                line: cancel.line.clone(),
                id: cancel.id.clone(),
            });
            let entries = vec![arrived(cancel, principal)];
            Ok(Effect::WriteAndWait(Box::new(Change {
                unless_twin: None,
                expect,
                act: next,
                entries,
            })))
        }
        Stage::Done(_) => {
            // It enters the thread after the DN it lost to. No AN: nothing may be said to have been abandoned.
            let entries = vec![Entry::line(&cancel.id, &cancel.line, principal)];
            Ok(Effect::Write(Box::new(Change {
                unless_twin: None,
                expect,
                act: next,
                entries,
            })))
        }
        Stage::Cancelled(_) if act.is_tombstone() => {
            // Answered by the agent this cancel names, which need not be the one the first cancel named.
            next.handoff.receiver.clone_from(&cancel.to);
            let (_, _, mut entries) = acknowledged(profiles, &mut next, cancel, NOT_SEEN, principal)?;
            next.handoff.receiver.clone_from(&act.handoff.receiver);
            for entry in &mut entries {
                keep_outside(entry);
            }
            Ok(Effect::Write(Box::new(Change {
                unless_twin: None,
                expect,
                act: next,
                entries,
            })))
        }
        Stage::Failed(_) | Stage::Cancelled(_) | Stage::Refused(_) => {
            let (_, _, mut entries) = acknowledged(
                profiles,
                &mut next,
                cancel,
                "it was closed before; nothing was done",
                principal,
            )?;
            if !in_thread {
                for entry in &mut entries {
                    keep_outside(entry);
                }
            }
            Ok(Effect::Write(Box::new(Change {
                unless_twin: None,
                expect,
                act: next,
                entries,
            })))
        }
    }
}

const NOT_SEEN: &str = "no such handoff was seen in this thread; it is refused should it come";

/// A tombstone: the record of a cancel whose handoff has not come, made so that the handoff is refused when it does.
/// The act's `lines`, `act_id` and instants are the caller's to set in `blank`.
///
/// # Errors
/// A cancel whose `re` is not exactly `<from>-<digits>`: it could never name a handoff of this sender.
pub fn tombstone(
    profiles: &Profiles,
    mut blank: Act,
    cancel: &Cancel,
    principal: &str,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let number = cancel
        .re
        .strip_prefix(cancel.from.as_str())
        .and_then(|rest| rest.strip_prefix('-'));
    if !number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit())) {
        return Err(unknown(cancel));
    }
    blank.handoff = Handoff {
        id: cancel.re.clone(),
        line: String::new(),
        sender: cancel.from.clone(),
        receiver: cancel.to.clone(),
        item: cancel.item.clone(),
        ask: String::new(),
        profile: cancel.profile.clone(),
    };
    let (line, id, mut entries) = acknowledged(profiles, &mut blank, cancel, NOT_SEEN, principal)?;
    // Neither line can stand in a thread that does not have the handoff: they enter with it.
    for entry in &mut entries {
        keep_outside(entry);
    }
    blank.waiting.push(WaitingCancel {
        line: cancel.line.clone(),
        id: cancel.id.clone(),
    });
    blank.stage = Stage::Cancelled(closed(line, id, now, None));
    Ok(Change {
        unless_twin: None,
        expect: Expect::Absent,
        act: blank,
        entries,
    })
}

fn keep_outside(entry: &mut Entry) {
    if entry.kind == EntryKind::Line {
        entry.kind = EntryKind::Outside;
    }
}

/// The write for a handoff that comes after its cancel: the UN, and, where the cancel was addressed to the handoff's
/// receiver, the cancel and its answer enter the thread with it. A handoff that does not validate (`outside`) stays
/// outside the thread, and with it everything about it.
///
/// # Errors
/// A line that cannot be written.
pub fn handoff_after_tombstone(
    profiles: &Profiles,
    grave: &Act,
    handoff: &Handoff,
    outside: bool,
    principal: &str,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut act = grave.clone();
    act.handoff = handoff.clone();
    // The AN was issued by the agent the cancel named; the UN must come from the one the handoff names.
    let same_receiver = grave.handoff.receiver == handoff.receiver;
    let mut entries = vec![Entry::line(&handoff.id, &handoff.line, principal)];
    if same_receiver
        && !outside
        && let (Stage::Cancelled(closed), Some(cx)) = (&grave.stage, grave.waiting.first())
    {
        entries.push(Entry::line_of_arrived(&cx.line, principal));
        entries.push(Entry::line_of_arrived(&closed.line, OURSELVES));
    }
    let id = lines::next_id(&mut act);
    let line = Reply::new(Kind::Un, &handoff.id)
        .slot("why", "REVOKED")
        .tail("cancelled before it came; nothing was done")
        .write_ours(profiles, &act, &id)?;
    entries.push(Entry::line(&id, &line, OURSELVES));
    if outside {
        for entry in &mut entries {
            keep_outside(entry);
            entry.message_id = None;
        }
    }
    act.waiting.clear();
    act.stage = Stage::Refused(closed(line, id, now, None));
    Ok(Change {
        unless_twin: None,
        expect: Expect::Version(grave.version),
        act,
        entries,
    })
}

/// The rows of an acknowledged cancel, with the AN's line and id.
fn acknowledged(
    profiles: &Profiles,
    act: &mut Act,
    cancel: &Cancel,
    tail: &str,
    principal: &str,
) -> Result<(String, String, Vec<Entry>), Refusal> {
    let id = lines::next_id(act);
    let line = Reply::new(Kind::An, &cancel.id)
        .without_item()
        .slot("val", "Y")
        .tail(tail)
        .write_ours(profiles, act, &id)?;
    let entries = vec![
        Entry::line(&cancel.id, &cancel.line, principal),
        Entry::line(&id, &line, OURSELVES),
    ];
    Ok((line, id, entries))
}

fn arrived(cancel: &Cancel, principal: &str) -> Entry {
    Entry {
        kind: EntryKind::CancelArrived,
        message_id: Some(cancel.id.clone()),
        body: cancel.line.clone(),
        principal: principal.to_owned(),
    }
}

#[cfg(test)]
mod tests;
