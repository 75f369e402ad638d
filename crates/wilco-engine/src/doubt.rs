//! An act in doubt, told to people: what is known, from whom, and what must happen before anybody may say more.
//!
//! Nothing is decided here. The instants come from the rules that decide ([`wilco_core::quiescence`],
//! [`wilco_core::settle::quiet_from`]), the happenings from the act's journal.

use std::time::Duration;

use serde_json::Value;
use wilco_core::act::Execution;
use wilco_core::journal::{EntryKind, Row};
use wilco_core::quiescence::{Absence, absence};
use wilco_core::settle::quiet_from;
use wilco_core::{Act, Contract, Stage, Timestamp};

use crate::api::{Doubt, Moment};
use crate::engine::Engine;

/// The most moments a view tells: the first of them and the newest.
const MOST_MOMENTS: usize = 200;

impl Engine {
    /// What is known of an act that is executing or in doubt; `None` for any other. `act` as [`Engine::act`] gave it to
    /// the caller.
    #[must_use]
    pub fn doubt(&self, act: &Act) -> Option<Doubt> {
        let execution = act.execution()?;
        let contract = self.contract_for(act, &execution.offer.frozen);
        let seen = Seen {
            me: &self.owner,
            house: &self.config.house,
            alone: self.config.sole_owner,
            running_here: self.running.contains(act.act_id),
            watched: self.watch.watched_for(act),
            allowance: self.config.takeover_allowance,
            now: self.keeper.now(),
        };
        Some(tell(act, execution, &contract, &seen))
    }
}

/// What this process can say about the owner of a claim.
struct Seen<'a> {
    me: &'a str,
    house: &'a str,
    alone: bool,
    running_here: bool,
    watched: Option<Duration>,
    allowance: Duration,
    now: Timestamp,
}

fn tell(act: &Act, execution: &Execution, contract: &Contract, seen: &Seen<'_>) -> Doubt {
    let (claim, progress) = (&execution.claim, &execution.progress);
    let (decides_from, decides) = decides(act, execution, contract, seen.now);
    let (settles_from, settles) = settles(act, execution, contract, seen.now);
    Doubt {
        why: match progress.reason.as_str() {
            "" => "no answer yet".to_owned(),
            reason => reason.to_owned(),
        },
        maybe_sent: progress.maybe_sent,
        owner: claim.owner.clone(),
        epoch: claim.epoch,
        owner_fate: fate(act, execution, seen),
        open_calls: progress
            .open_calls
            .iter()
            .map(|call| call.owner.clone())
            .collect(),
        claimed_at: claim.claimed_at,
        deadline: claim.deadline,
        not_after: claim.not_after,
        lookups: progress.lookups,
        resends: progress.resends,
        next_look_at: progress.next_at,
        decides_from,
        decides,
        settles_from,
        settles,
        escalated: progress.escalated,
    }
}

/// Who holds the claim, and what is known of it.
fn fate(act: &Act, execution: &Execution, seen: &Seen<'_>) -> String {
    let owner = execution.claim.owner.as_str();
    let house = owner.split_once('.').map_or("", |(house, _)| house);
    if owner == seen.me {
        return match execution.progress.over_since {
            _ if seen.running_here && act.holder_may_be_calling() => {
                "this daemon, which is calling now".to_owned()
            }
            Some(over) => format!("this daemon; its call is over since {}", over.to_rfc3339()),
            None if execution.progress.others_open => "this daemon, which only looks it up".to_owned(),
            None => "this daemon".to_owned(),
        };
    }
    if seen.alone {
        return "an earlier run on this folder, which has ended".to_owned();
    }
    if !house.is_empty() && house == seen.house {
        return "an earlier run of this daemon, which has ended".to_owned();
    }
    let moved = act.updated_at.to_rfc3339();
    match seen.watched {
        Some(watched) => format!(
            "another daemon; it last moved at {moved}, and this one has watched it unchanged for {} of {} s",
            watched.as_secs(),
            seen.allowance.as_secs()
        ),
        None => format!("another daemon; it last moved at {moved}"),
    }
}

/// From when the daemon may say by itself that nothing happened, and in words how it will be decided.
fn decides(
    act: &Act,
    execution: &Execution,
    contract: &Contract,
    now: Timestamp,
) -> (Option<Timestamp>, String) {
    let progress = &execution.progress;
    if progress.accepted {
        return (
            None,
            "the counterparty took it on: it is asked until it has finished".to_owned(),
        );
    }
    if act.holder_may_be_calling() && !progress.others_open {
        return (
            None,
            "the call's answer decides it; without one it is looked up".to_owned(),
        );
    }
    match absence(contract, progress, execution.claim.claimed_at) {
        Absence::Proved => (Some(now), "the next lookup decides it".to_owned()),
        Absence::NotBefore(from) => (
            Some(from.max(now)),
            "found by a lookup, it was done; absent in a lookup at or after this instant, it was not".to_owned(),
        ),
        Absence::NeverByLookup if !contract.absence_can_be_proved() => (
            None,
            "a lookup at this counterparty can show that it was done, never that it was not: a person must settle it"
                .to_owned(),
        ),
        Absence::NeverByLookup => (
            None,
            format!(
                "a lookup can show that it was done; that it was not only once the call of {} is known to be over: start \
                 that daemon again on its folder, or vouch for its end",
                open(execution)
            ),
        ),
    }
}

/// From when a person's word is taken, and in words until when it is not.
fn settles(
    act: &Act,
    execution: &Execution,
    contract: &Contract,
    now: Timestamp,
) -> (Option<Timestamp>, String) {
    if !matches!(act.stage, Stage::InDoubt(_)) {
        return (None, "only an act in doubt is settled by a person".to_owned());
    }
    match quiet_from(contract, execution) {
        Some(from) if now < from => (
            Some(from),
            "until then the call can still land, and no word is taken".to_owned(),
        ),
        Some(from) => (Some(from), "a word with evidence is taken now".to_owned()),
        None => (
            None,
            format!(
                "no word is taken while the call of {} may be going on; with its end vouched for, {} s after that",
                open(execution),
                contract.settle_window_s
            ),
        ),
    }
}

fn open(execution: &Execution) -> String {
    let calls = &execution.progress.open_calls;
    let owners: Vec<&str> = calls.iter().map(|call| call.owner.as_str()).collect();
    match owners.is_empty() {
        true => execution.claim.owner.clone(),
        false => owners.join(" and "),
    }
}

/// What happened to an act's outcome, in order and in words.
#[must_use]
pub fn timeline(journal: &[Row]) -> Vec<Moment> {
    let mut moments: Vec<Moment> = journal.iter().filter_map(moment).collect();
    if moments.len() > MOST_MOMENTS {
        let cut = moments.len() - MOST_MOMENTS;
        let at = moments[1].at;
        moments.drain(1..=cut);
        moments.insert(
            1,
            Moment {
                at,
                what: "left out".to_owned(),
                text: format!("{cut} happenings; the journal has them all"),
            },
        );
    }
    moments
}

/// A journal row as a moment of the timeline; `None` for what says nothing about the outcome.
fn moment(row: &Row) -> Option<Moment> {
    if row.kind != EntryKind::Event {
        return None;
    }
    let body: Value = serde_json::from_str(row.body.as_deref()?).ok()?;
    let event = body.get("event")?.as_str()?;
    let detail = body.get("detail").unwrap_or(&Value::Null);
    let text = |field: &str| detail.get(field).and_then(Value::as_str).unwrap_or_default();
    let number = |field: &str| detail.get(field).and_then(Value::as_u64).unwrap_or_default();
    let (what, text) = match event {
        "claimed" => (
            "claimed",
            format!("by {}; from here on its bytes may leave", text("owner")),
        ),
        "call_unknown" => (
            "call ended",
            format!("no answer that decides it: {}", text("text")),
        ),
        "owner_dead" => ("owner ended", text("text").to_owned()),
        "taken_over" if text("fate") == "over" => (
            "taken over",
            format!("by {} from {}, whose call is over", text("owner"), text("from")),
        ),
        "taken_over" => (
            "taken over",
            format!(
                "by {} from {}, which was silent and may still be calling",
                text("owner"),
                text("from")
            ),
        ),
        "calls_over" => ("calls over", format!("vouched for by {}", text("by"))),
        "owner_dead_by_operator" => (
            "calls over",
            format!("vouched for by {}: {}", row.principal, text("evidence")),
        ),
        "sent_again" => (
            "sent again",
            format!("the same bytes, for the {} time", ordinal(number("resends"))),
        ),
        "lookup_absent" => (
            "lookup",
            format!("not found, asked at {}: {}", text("asked_at"), text("text")),
        ),
        "lookup_unknown" => ("lookup", format!("not answered: {}", text("text"))),
        "accepted" | "executed" => (
            if event == "accepted" {
                "accepted"
            } else {
                "executed"
            },
            report(detail),
        ),
        "not_done" => ("not done", text("text").to_owned()),
        "late_evidence" => {
            let heard = detail.get("heard").unwrap_or(&Value::Null);
            let said = match text("news") {
                "executed" | "accepted" => report(heard),
                _ => heard
                    .get("text")
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned(),
            };
            (
                "late evidence",
                format!(
                    "{} from {} under epoch {}: {said}",
                    text("news").replace('_', " "),
                    text("owner"),
                    number("epoch")
                ),
            )
        }
        "escalated" => ("person called", format!("after {} lookups", number("lookups"))),
        "settled_by_operator" => (
            "settled",
            format!(
                "as {} by {}: {}",
                if detail.get("done") == Some(&Value::Bool(true)) {
                    "done"
                } else {
                    "not done"
                },
                row.principal,
                text("evidence")
            ),
        ),
        "held_as_twin" => ("held", format!("a likely twin stands: act {}", text("twin"))),
        "released" => ("released", format!("by {}", row.principal)),
        "confirmation_late" => (
            "too late",
            format!("confirmed after the statement's end at {}", text("expired_at")),
        ),
        _ => return None,
    };
    Some(Moment {
        at: row.at,
        what: what.to_owned(),
        text,
    })
}

/// A counterparty's report in one line.
fn report(detail: &Value) -> String {
    let mut parts: Vec<String> = Vec::new();
    if let Some(status) = detail
        .get("status")
        .and_then(Value::as_str)
        .filter(|s| !s.is_empty())
    {
        parts.push(status.to_owned());
    }
    if let Some(receipt) = detail.get("receipt").and_then(Value::as_str) {
        parts.push(format!("receipt {receipt}"));
    }
    let values = detail.get("values").and_then(Value::as_array);
    let values: Vec<&str> = values.into_iter().flatten().filter_map(Value::as_str).collect();
    if !values.is_empty() {
        parts.push(values.join(" "));
    }
    parts.join("; ")
}

fn ordinal(n: u64) -> String {
    match n {
        1 => "first".to_owned(),
        2 => "second".to_owned(),
        3 => "third".to_owned(),
        n => format!("{n}th"),
    }
}
