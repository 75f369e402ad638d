//! Settling: from what the outside said to the line that closes the act.
//!
//! The DN is built from the values as executed, never from what was planned. A slot the counterparty cannot know is
//! carried from the statement and named; a slot it should show and did not is left out, so that the check finds it.

use rw1::{Kind, Profiles};
use serde::{Deserialize, Serialize};

use crate::act::{Claim, Closed, Execution, StoredProblem};
use crate::journal::{Entry, OURSELVES};
use crate::lines::{self, Reply};
use crate::quiescence::{Absence, absence, last_byte_by};
use crate::write::{Change, Expect};
use crate::{Act, Contract, Refusal, Stage, Timestamp, Verdict};

mod audit;
mod evidence;
mod word;

pub use audit::audited;
pub use evidence::{Bearer, contradicts, evidence};
pub use word::{Word, kept_until, quiet_from, settled_by_operator};

/// What is known of an executed act, as the outside reported it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Executed {
    /// Slots and values the counterparty showed.
    pub values: Vec<(String, String)>,
    /// Its own id for it.
    pub receipt: Option<String>,
    /// Its status word.
    pub status: String,
    /// Whether the counterparty may still reject it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub provisional: bool,
}

/// What came of an execution, a lookup, or a person's word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// It was carried out.
    Executed(Executed),
    /// It was taken on and is not finished.
    Accepted(Executed),
    /// The counterparty refused it for good, in its words: it has it, and did not carry it out.
    Refused(String),
    /// It was certainly not carried out: it never left.
    NotDone {
        /// The FL's `why` code.
        why: &'static str,
        /// In the counterparty's words or ours.
        text: String,
    },
    /// The call ended without an answer we can read.
    CallUnknown(String),
    /// The process that owned the call is known to be dead.
    OwnerDead(String),
    /// A lookup was answered: no trace of it. What it saw is what stood at the counterparty when it was asked, however
    /// late the answer came.
    LookupAbsent {
        /// When the question left.
        asked_at: Timestamp,
        /// In the counterparty's words or ours.
        text: String,
    },
    /// A lookup was answered: it stands at the counterparty, but how it ended was not said.
    LookupExists(String),
    /// A lookup was not answered, or in words nobody listed.
    LookupUnknown(String),
}

/// How often to look, and when to call a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// The first pause, seconds; doubles with each lookup.
    pub first_s: i64,
    /// The longest pause, seconds.
    pub longest_s: i64,
    /// After how many lookups a person is called.
    pub escalate_after: u32,
}

/// The write that follows from news about a claimed act. `contract` is the narrower of the frozen and the current
/// one. `None` where the act is not claimed any more: the news is evidence only.
///
/// # Errors
/// A line that cannot be written.
pub fn settle(
    profiles: &Profiles,
    act: &Act,
    news: &News,
    contract: &Contract,
    pace: Pace,
    now: Timestamp,
) -> Result<Option<Change>, Refusal> {
    let Some(execution) = act.execution() else {
        return Ok(None);
    };
    let heard = Entry::event(news.name(), news.detail(), OURSELVES);
    let change = match news {
        News::Executed(executed) => {
            let mut change = done(profiles, act, execution, executed, heard, now)?;
            if executed.provisional
                && let Stage::Done(closed) = &mut change.act.stage
                && closed.verdict != Some(Verdict::Contradicted)
            {
                closed.audit = Some(audit::first(contract, pace, now));
                closed.notes.push(format!(
                    "the counterparty has it as {} and may still reject it; it is looked at until that is final",
                    executed.status
                ));
            }
            change
        }
        News::NotDone { why, text } => not_done(profiles, act, execution, why, text, heard, now)?,
        News::Refused(text) => {
            let mut change = not_done(profiles, act, execution, "ERR", text, heard, now)?;
            if let Stage::Failed(closed) = &mut change.act.stage {
                closed.refused_there = true;
            }
            change
        }
        News::Accepted(accepted) => accepted_so_far(act, execution, accepted, pace, heard, now),
        News::CallUnknown(_)
        | News::OwnerDead(_)
        | News::LookupAbsent { .. }
        | News::LookupExists(_)
        | News::LookupUnknown(_) => still_open(profiles, act, execution, news, contract, pace, heard, now)?,
    };
    Ok(Some(change))
}

impl News {
    /// The event's name in the journal.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            News::Executed(_) => "executed",
            News::Accepted(_) => "accepted",
            News::NotDone { .. } | News::Refused(_) => "not_done",
            News::CallUnknown(_) => "call_unknown",
            News::OwnerDead(_) => "owner_dead",
            News::LookupAbsent { .. } => "lookup_absent",
            News::LookupExists(_) => "lookup_exists",
            News::LookupUnknown(_) => "lookup_unknown",
        }
    }

    /// What was heard, as the journal keeps it.
    #[must_use]
    pub fn detail(&self) -> serde_json::Value {
        match self {
            News::Executed(e) | News::Accepted(e) => serde_json::json!({
                "values": e.values.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>(),
                "receipt": e.receipt,
                "status": e.status,
            }),
            News::NotDone { why, text } => serde_json::json!({ "why": why, "text": text }),
            News::Refused(text) => serde_json::json!({ "why": "ERR", "text": text, "refused": true }),
            News::LookupAbsent { asked_at, text } => {
                serde_json::json!({ "asked_at": asked_at.to_rfc3339(), "text": text })
            }
            News::CallUnknown(text)
            | News::OwnerDead(text)
            | News::LookupExists(text)
            | News::LookupUnknown(text) => {
                serde_json::json!({ "text": text })
            }
        }
    }
}

fn done(
    profiles: &Profiles,
    act: &Act,
    execution: &Execution,
    executed: &Executed,
    heard: Entry,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut next = act.clone();
    let id = lines::next_id(&mut next);
    let offer = &execution.offer;
    let frozen = &offer.frozen;
    let mut notes = Vec::new();
    let mut values: Vec<(&str, &str)> = Vec::new();
    let mut carried = Vec::new();
    for value in &frozen.values {
        let slot = value.slot.as_str();
        match executed.values.iter().find(|(k, _)| k == slot) {
            Some((_, seen)) => values.push((slot, seen)),
            None if frozen.carried.iter().any(|c| c == slot) => {
                carried.push(slot);
                values.push((slot, &value.value));
            }
            None => {}
        }
    }
    // What the counterparty shows besides, where the profile has a slot for it (how a service does after a deployment).
    let profile = profiles.get(&act.handoff.profile);
    let stated = |slot: &str| frozen.values.iter().any(|v| v.slot == slot);
    for (slot, seen) in &executed.values {
        if !stated(slot) && profile.is_some_and(|p| p.reports(slot)) {
            values.push((slot, seen));
        }
    }
    if !carried.is_empty() {
        notes.push(format!(
            "carried from the statement, the counterparty cannot know them: {}",
            carried.join(" ")
        ));
    }
    let (line, left_out) = done_line(profiles, &next, &id, &values)?;
    for slot in left_out {
        notes.push(format!(
            "{slot}: the counterparty's value cannot stand on a line and was left out"
        ));
    }
    let at = execution.claim.claimed_at.to_rw1();
    let checked = rw1::check_dn(
        profiles,
        None,
        &act.handoff.line,
        &line,
        Some(&offer.statement),
        Some(&at),
    );
    notes.extend(checked.notes.iter().map(|n| n.text.clone()));
    let progress = &execution.progress;
    let others = [&progress.heard, &progress.heard_also].into_iter().flatten();
    let another = others
        .filter(|other| evidence::is_another(other, executed))
        .find_map(|other| other.receipt.as_deref());
    if let Some(another) = another {
        notes.push(format!(
            "it was carried out twice: another order stands under receipt {another}; a person must take one back"
        ));
    }
    let verdict = match another {
        Some(_) => Verdict::Contradicted,
        None if checked.problems.is_empty() => Verdict::Match,
        None => Verdict::Mismatch,
    };
    if verdict == Verdict::Mismatch {
        notes.push(format!(
            "what ran is not what was stated: {}",
            frozen.contract.way_back(&id)
        ));
    }
    let mut entries = vec![heard, Entry::line(&id, &line, OURSELVES)];
    // A cancel that lost enters the thread after the DN it lost to, and is answered by it.
    entries.extend(
        act.waiting
            .iter()
            .map(|cx| Entry::line_of_arrived(&cx.line, OURSELVES)),
    );
    next.waiting.clear();
    next.stage = Stage::Done(Closed {
        line,
        line_id: id,
        closed_at: now,
        offer: Some(offer.clone()),
        claim: Some(execution.claim.clone()),
        verdict: Some(verdict),
        problems: checked.problems.iter().map(StoredProblem::from).collect(),
        notes,
        receipt: executed.receipt.clone(),
        superseded: false,
        erased: None,
        audit: None,
        refused_there: false,
    });
    Ok(Change {
        unless_twin: None,
        expect: Expect::Version(act.version),
        act: next,
        entries,
    })
}

/// The DN, leaving out a value that cannot stand on a line.
fn done_line<'v>(
    profiles: &Profiles,
    act: &Act,
    id: &str,
    values: &[(&'v str, &'v str)],
) -> Result<(String, Vec<&'v str>), Refusal> {
    let write = |values: &[(&str, &str)]| {
        let mut reply = Reply::new(Kind::Dn, &act.handoff.id).slot("out", "OK");
        for (slot, value) in values {
            reply = reply.slot(slot, *value);
        }
        reply.write(profiles, act, id)
    };
    if let Ok(line) = write(values) {
        return Ok((line, Vec::new()));
    }
    type Pairs<'p> = Vec<(&'p str, &'p str)>;
    let (fit, unfit): (Pairs<'_>, Pairs<'_>) = values
        .iter()
        .copied()
        .partition(|pair| write(std::slice::from_ref(pair)).is_ok());
    let mut reply = Reply::new(Kind::Dn, &act.handoff.id).slot("out", "OK");
    for (slot, value) in &fit {
        reply = reply.slot(slot, *value);
    }
    let line = reply.write_ours(profiles, act, id)?;
    Ok((line, unfit.into_iter().map(|(slot, _)| slot).collect()))
}

fn not_done(
    profiles: &Profiles,
    act: &Act,
    execution: &Execution,
    why: &str,
    text: &str,
    heard: Entry,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut next = act.clone();
    let mut entries = vec![heard];
    let closed = fail(
        profiles,
        &mut next,
        why,
        text,
        Some(&execution.claim),
        &mut entries,
        now,
    )?;
    next.stage = Stage::Failed(closed);
    Ok(Change {
        unless_twin: None,
        expect: Expect::Version(act.version),
        act: next,
        entries,
    })
}

/// Closes an act with an FL: certainly not executed. Each waiting cancel is acknowledged.
///
/// # Errors
/// A line that cannot be written.
pub fn fail(
    profiles: &Profiles,
    act: &mut Act,
    why: &str,
    text: &str,
    claim: Option<&Claim>,
    entries: &mut Vec<Entry>,
    now: Timestamp,
) -> Result<Closed, Refusal> {
    let id = lines::next_id(act);
    let line = Reply::new(Kind::Fl, &act.handoff.id)
        .slot("why", why)
        .slot("retry", "N")
        .tail(text)
        .write_ours(profiles, act, &id)?;
    entries.push(Entry::line(&id, &line, OURSELVES));
    for cx in std::mem::take(&mut act.waiting) {
        let id = lines::next_id(act);
        let answer = Reply::new(Kind::An, &cx.id)
            .without_item()
            .slot("val", "Y")
            .tail("nothing was done")
            .write_ours(profiles, act, &id)?;
        entries.push(Entry::line_of_arrived(&cx.line, OURSELVES));
        entries.push(Entry::line(&id, &answer, OURSELVES));
    }
    let offer = act.offer().cloned();
    act.undo_of = None;
    Ok(Closed {
        line,
        line_id: id,
        closed_at: now,
        offer,
        claim: claim.cloned(),
        verdict: None,
        problems: Vec::new(),
        notes: Vec::new(),
        receipt: None,
        superseded: false,
        erased: None,
        audit: None,
        refused_there: false,
    })
}

fn accepted_so_far(
    act: &Act,
    execution: &Execution,
    accepted: &Executed,
    pace: Pace,
    heard: Entry,
    now: Timestamp,
) -> Change {
    let mut next = act.clone();
    let mut execution = execution.clone();
    let progress = &mut execution.progress;
    // The first answer is kept in the journal; a poll that says the same again only moves the next look.
    let first = !progress.accepted;
    progress.accepted = true;
    if !progress.others_open {
        progress.over_since.get_or_insert(now);
    }
    progress.absent_at.clear();
    progress.lookups += u32::from(!first);
    progress.receipt = accepted.receipt.clone().or(progress.receipt.take());
    progress.reason = format!("accepted, not finished: {}", accepted.status);
    progress.next_at = now.plus_seconds(pause_s(pace, progress.lookups));
    next.stage = Stage::Executing(execution);
    let entries = if first { vec![heard] } else { Vec::new() };
    Change {
        unless_twin: None,
        expect: Expect::Version(act.version),
        act: next,
        entries,
    }
}

#[allow(clippy::too_many_arguments)]
fn still_open(
    profiles: &Profiles,
    act: &Act,
    execution: &Execution,
    news: &News,
    contract: &Contract,
    pace: Pace,
    heard: Entry,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut next = act.clone();
    let mut execution = execution.clone();
    let last_byte_by = last_byte_by(contract, &execution.progress, execution.claim.claimed_at);
    let progress = &mut execution.progress;
    match news {
        News::CallUnknown(text) | News::OwnerDead(text) => {
            if !progress.others_open {
                progress.over_since.get_or_insert(now);
            }
            progress.reason.clone_from(text);
            progress.next_at = now.plus_seconds(pace.first_s);
        }
        News::LookupAbsent { asked_at, text } => {
            progress.lookups += 1;
            progress.absent_at.push(*asked_at);
            progress
                .absent_at
                .retain(|at| last_byte_by.is_some_and(|last| *at >= last));
            // The first and the newest are enough to prove it; a long list would only grow the row.
            if progress.absent_at.len() > MAX_ABSENT_KEPT {
                progress.absent_at.remove(1);
            }
            progress.reason = format!("not found yet: {text}");
        }
        News::LookupExists(text) => {
            progress.lookups += 1;
            progress.exists = true;
            progress.absent_at.clear();
            progress.reason.clone_from(text);
        }
        News::LookupUnknown(text) => {
            progress.lookups += 1;
            progress.reason = format!("lookup not answered: {text}");
        }
        News::Executed(_) | News::Accepted(_) | News::NotDone { .. } | News::Refused(_) => {}
    }
    let looked = matches!(
        news,
        News::LookupAbsent { .. } | News::LookupExists(_) | News::LookupUnknown(_)
    );
    if looked {
        let judged = absence(contract, progress, execution.claim.claimed_at);
        let pause = now.plus_seconds(pause_s(pace, progress.lookups));
        match judged {
            Absence::Proved => {
                let text = "no trace of it at the counterparty";
                let mut change = not_done(profiles, act, &execution, "ERR", text, heard, now)?;
                if let Stage::Failed(closed) = &mut change.act.stage {
                    closed.audit = Some(audit::first(contract, pace, now));
                }
                return Ok(change);
            }
            // Looked at as soon as a lookup could prove it, if that is sooner; an instant that has passed hurries
            // nothing, or a counterparty that does not answer would be asked every second.
            Absence::NotBefore(instant) if instant > now => progress.next_at = pause.min(instant),
            Absence::NotBefore(_) | Absence::NeverByLookup => progress.next_at = pause,
        }
    }
    let mut entries = vec![heard];
    if progress.lookups >= pace.escalate_after && !progress.escalated {
        progress.escalated = true;
        entries.push(Entry::event(
            "escalated",
            serde_json::json!({ "lookups": progress.lookups }),
            OURSELVES,
        ));
    }
    // What the counterparty said it has is not in doubt because one poll went unanswered.
    let still_theirs = matches!(act.stage, Stage::Executing(_))
        && execution.progress.accepted
        && matches!(news, News::LookupUnknown(_));
    next.stage = if still_theirs {
        Stage::Executing(execution)
    } else {
        Stage::InDoubt(execution)
    };
    Ok(Change {
        unless_twin: None,
        expect: Expect::Version(act.version),
        act: next,
        entries,
    })
}

const MAX_ABSENT_KEPT: usize = 8;

fn pause_s(pace: Pace, lookups: u32) -> i64 {
    let doublings = lookups.min(16);
    pace.first_s
        .max(1)
        .saturating_mul(1 << doublings)
        .min(pace.longest_s.max(1))
}

#[cfg(test)]
mod tests;
