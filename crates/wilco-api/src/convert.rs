//! From the core's values to the messages clients see.
//!
//! A client's act is made here and nowhere else, so that gRPC, JSON and the terminal agree. It is built field by field
//! from what may be shown; a token, its hash and the frozen request are not among it.

use wilco_core::act::{LIKELY_TWIN, Offer, Progress, StoredProblem};
use wilco_core::contract::{Contract, Identity, LateSend, LookupBy, Reversal};
use wilco_core::journal;
use wilco_core::{Act, Stage, State, Verdict, frozen};

use crate::v1;

/// One kind of act an adapter serves, with its contract, as clients and operators see it.
#[must_use]
pub fn service(profile: &str, ask: &str, carried: &[String], contract: &Contract) -> v1::Service {
    let (identity, window_s) = match contract.identity {
        Identity::Enforced => ("enforced", 0),
        Identity::Window(s) => ("window", s),
        Identity::None => ("none", 0),
    };
    let lookup = match contract.lookup {
        LookupBy::Reference => "by_reference",
        LookupBy::NaturalKey => "by_natural_key",
        LookupBy::Evidence => "evidence",
        LookupBy::None => "none",
    };
    let (late_send, late_after_s) = match contract.late_send {
        LateSend::Accepted => ("accepted", 0),
        LateSend::RefusedAfter(s) => ("refused_after", s),
    };
    let reversal = match contract.reversal {
        Reversal::NewAct => "new_act",
        Reversal::None => "none",
    };
    v1::Service {
        profile: profile.to_owned(),
        ask: ask.to_owned(),
        guarantee: contract.guarantee().as_str().to_owned(),
        identity: identity.to_owned(),
        window_s,
        lookup: lookup.to_owned(),
        point_of_no_return: contract.point_of_no_return.clone(),
        not_found_means: contract.not_found_means.clone(),
        settle_window_s: contract.settle_window_s,
        late_send: late_send.to_owned(),
        late_after_s,
        reversal: reversal.to_owned(),
        reversal_until_s: contract.reversal_until_s.unwrap_or_default(),
        cut_off: contract.cut_off.clone(),
        carried: carried.to_vec(),
    }
}

/// An act as clients and operators see it.
#[must_use]
pub fn act(act: &Act) -> v1::Act {
    let offer = act.offer();
    let frozen = offer.map(|o| &o.frozen);
    let closed = act.closed();
    let progress = act.execution().map(|e| &e.progress);
    v1::Act {
        act_id: act.act_id.to_string(),
        thread: act.thread.clone(),
        handoff_id: act.handoff.id.clone(),
        item: act.handoff.item.clone(),
        ask: act.handoff.ask.clone(),
        profile: act.handoff.profile.clone(),
        sender: act.handoff.sender.clone(),
        receiver: act.handoff.receiver.clone(),
        state: state(act.state()).into(),
        attempt: act.attempt,
        statement: offer.map(|o| o.statement.clone()).unwrap_or_default(),
        statement_sha256: offer.map(|o| o.statement_sha256.clone()).unwrap_or_default(),
        expires_at: offer.map(|o| o.expires_at.to_rfc3339()).unwrap_or_default(),
        close: closed.map(|c| c.line.clone()).unwrap_or_default(),
        verdict: closed
            .and_then(|c| c.verdict)
            .map(|v| v.as_str().to_owned())
            .unwrap_or_default(),
        problems: problems(match closed {
            Some(closed) => &closed.problems,
            None => offer.map(|o| o.problems.as_slice()).unwrap_or_default(),
        }),
        adapter: frozen.map(|f| f.adapter.clone()).unwrap_or_default(),
        guarantee: frozen
            .map(|f| f.contract.guarantee().as_str().to_owned())
            .unwrap_or_default(),
        reference: offer.map(|_| act.act_id.to_string()).unwrap_or_default(),
        receipt: closed
            .map(|c| c.receipt.clone())
            .or(progress.map(|p| p.receipt.clone()))
            .flatten()
            .unwrap_or_default(),
        version: act.version,
        created_at: act.created_at.to_rfc3339(),
        updated_at: act.updated_at.to_rfc3339(),
        ends_at: act.limit.to_rfc3339(),
        values: frozen
            .map(|f| f.values.iter().map(value).collect())
            .unwrap_or_default(),
        notes: notes(offer, closed.map(|c| c.notes.as_slice()).unwrap_or_default()),
        carried: match (act.state(), frozen) {
            (State::Done, Some(frozen)) => frozen.carried.clone(),
            _ => Vec::new(),
        },
        principal: act.principal.clone(),
        ho: act.handoff.line.clone(),
        waits_for: waits_for(act),
        doubt: doubt(act),
        authorise_at: frozen.and_then(|f| f.authorise_at.clone()).unwrap_or_default(),
        twins: twins(act),
        released_by: act.released_by.clone().unwrap_or_default(),
    }
}

/// The likely twins an act is held for, by act id.
fn twins(act: &Act) -> Vec<String> {
    let Stage::Held(offer) = &act.stage else {
        return Vec::new();
    };
    let named = offer.problems.iter().filter(|p| p.code == LIKELY_TWIN);
    named.filter_map(|p| p.got.clone()).collect()
}

/// Who must act next, in a few words; empty when nobody must.
#[must_use]
pub fn waits_for(act: &Act) -> String {
    let sender = &act.handoff.sender;
    match &act.stage {
        Stage::Prepared(offer) if offer.frozen.authorise_at.is_some() => {
            format!("a person: authorise; {sender}: confirm or cancel")
        }
        Stage::Prepared(_) => format!("{sender}: confirm or cancel"),
        Stage::Held(_) if act.is_held_as_twin() => {
            format!(
                "operator: release, likely twin of {}; {sender}: cancel",
                twins(act).join(" and ")
            )
        }
        Stage::Held(_) => format!("{sender}: cancel, and hand off anew"),
        Stage::Lapsed(..) => format!("{sender}: prepare again or cancel"),
        Stage::Executing(e) if e.progress.accepted => format!("{}: finish", e.offer.frozen.adapter),
        Stage::Executing(e) => format!("{}: answer", e.offer.frozen.adapter),
        Stage::InDoubt(e) if e.progress.escalated => "operator: settle".to_owned(),
        Stage::InDoubt(e) => format!("wilco: look up at {}", e.offer.frozen.adapter),
        Stage::Done(closed) => match closed.verdict {
            Some(Verdict::Mismatch) => "operator: look into the mismatch".to_owned(),
            Some(Verdict::Contradicted) => "operator: look into the contradiction".to_owned(),
            Some(Verdict::Match) | None => String::new(),
        },
        Stage::Failed(closed) if closed.verdict == Some(Verdict::Contradicted) => {
            "operator: look into the contradiction".to_owned()
        }
        Stage::Failed(_) | Stage::Cancelled(_) | Stage::Refused(_) => String::new(),
    }
}

/// A core state as the wire spells it.
#[must_use]
pub fn state(state: State) -> v1::State {
    match state {
        State::Prepared => v1::State::Prepared,
        State::Held => v1::State::Held,
        State::Lapsed => v1::State::Lapsed,
        State::Executing => v1::State::Executing,
        State::InDoubt => v1::State::InDoubt,
        State::Done => v1::State::Done,
        State::Failed => v1::State::Failed,
        State::Cancelled => v1::State::Cancelled,
        State::Refused => v1::State::Refused,
    }
}

/// The core state a wire state names; `None` for the unspecified one.
#[must_use]
pub fn state_to_core(state: v1::State) -> Option<State> {
    State::from_word(state_word(state))
}

/// A wire state as a lower-case word; empty for the unspecified one.
#[must_use]
pub fn state_word(wire: v1::State) -> &'static str {
    State::ALL
        .into_iter()
        .find(|s| state(*s) == wire)
        .map_or("", State::as_str)
}

/// The wire state a lower-case word names.
#[must_use]
pub fn state_from_word(word: &str) -> Option<v1::State> {
    if word.is_empty() {
        return Some(v1::State::Unspecified);
    }
    State::from_word(word).map(state)
}

/// A problem as clients see it.
#[must_use]
pub fn problem(problem: &StoredProblem) -> v1::Problem {
    v1::Problem {
        code: problem.code.clone(),
        slot: problem.slot.clone().unwrap_or_default(),
        want: problem.want.clone().unwrap_or_default(),
        got: problem.got.clone().unwrap_or_default(),
        text: problem.text.clone(),
    }
}

/// Problems as clients see them.
#[must_use]
pub fn problems(stored: &[StoredProblem]) -> Vec<v1::Problem> {
    stored.iter().map(problem).collect()
}

/// A journal row as people read it.
#[must_use]
pub fn happening(row: &journal::Row) -> v1::Happening {
    v1::Happening {
        at: row.at.to_rfc3339(),
        kind: row.kind.as_str().to_owned(),
        body: row.body.clone().unwrap_or_default(),
        principal: row.principal.clone(),
    }
}

/// The digest a confirmation quotes: hex SHA-256 of the statement's bytes.
#[must_use]
pub fn statement_sha256(statement: &str) -> String {
    journal::sha256_hex(statement.as_bytes())
}

fn value(value: &frozen::FrozenValue) -> v1::FrozenValue {
    v1::FrozenValue {
        slot: value.slot.clone(),
        value: value.value.clone(),
        source: match value.source {
            frozen::Source::Handoff => "handoff",
            frozen::Source::Resolved => "resolved",
        }
        .to_owned(),
        evidence: value.evidence.clone(),
    }
}

fn notes(offer: Option<&Offer>, closing: &[String]) -> Vec<String> {
    let mut all: Vec<String> = offer.map(|o| o.notes.clone()).unwrap_or_default();
    for note in closing {
        if !all.contains(note) {
            all.push(note.clone());
        }
    }
    all
}

fn doubt(act: &Act) -> String {
    let Some(execution) = act.execution() else {
        return String::new();
    };
    let Progress {
        reason,
        accepted,
        lookups,
        ..
    } = &execution.progress;
    let why = match (reason.is_empty(), accepted) {
        (false, _) => reason.as_str(),
        (true, true) => "accepted, not finished",
        (true, false) => "no answer yet",
    };
    let since = execution.claim.claimed_at.to_rfc3339();
    match lookups {
        0 => format!("{why}; claimed {since}"),
        n => format!("{why}; claimed {since}, looked up {n} times"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_one_word_and_one_number() {
        for core in State::ALL {
            let wire = state(core);
            assert_eq!(state_to_core(wire), Some(core));
            assert_eq!(state_word(wire), core.as_str());
            assert_eq!(state_from_word(core.as_str()), Some(wire));
        }
        assert_eq!(state_to_core(v1::State::Unspecified), None);
        assert_eq!(state_from_word("DONE"), None);
    }
}
