//! What these are after: what is an error and what is a stored UN, how a handoff stands to what is known, and that a
//! statement says exactly what was resolved, for no longer than it may.

use super::*;
use crate::frozen::{FrozenValue, Request, Source};
use crate::journal::EntryKind;
use crate::testing::{
    HO, NOON, a_contract, a_frozen, a_prepared_act, an_act, an_executing_act, an_offer, profiles,
    thread_lines, thread_problems,
};
use crate::{Act, Verdict};

mod intake;
mod refusing;
mod standing;
mod stating;

fn take(line: &str) -> Result<Intake, Refusal> {
    let served = ["payer".to_owned(), "deployer".to_owned()];
    intake(&profiles(), line, &|agent| agent == "scheduler", &served)
}

/// [`HO`] with one piece of it replaced.
fn ho(old: &str, new: &str) -> String {
    assert!(HO.contains(old), "{old}");
    HO.replace(old, new)
}

fn un(line: &str) -> (&'static str, String, bool) {
    match take(line) {
        Ok(Intake::Refuse {
            why, text, outside, ..
        }) => (why, text, outside),
        other => panic!("{line}: expected a UN, got {other:?}"),
    }
}

fn stage_of(state: State) -> Stage {
    let close = || closed("line".into(), "payer-102".into(), NOON, Some(an_offer()));
    let Stage::Executing(e) = an_executing_act().stage else {
        panic!("executing")
    };
    match state {
        State::Prepared => Stage::Prepared(an_offer()),
        State::Held => Stage::Held(an_offer()),
        State::Lapsed => Stage::Lapsed(an_offer(), Lapse::Expired),
        State::Executing => Stage::Executing(e),
        State::InDoubt => Stage::InDoubt(e),
        State::Done => Stage::Done(Closed {
            verdict: Some(Verdict::Match),
            ..close()
        }),
        State::Failed => Stage::Failed(close()),
        State::Cancelled => Stage::Cancelled(close()),
        State::Refused => Stage::Refused(close()),
    }
}

fn resolved() -> Resolved {
    let frozen = a_frozen();
    Resolved {
        values: frozen.values,
        extra: frozen.extra,
        request: Request {
            method: "POST".into(),
            path: "/p".into(),
            body: "{}".into(),
            key: "k".into(),
        },
        placed: Some("consent-1".into()),
        cut_off: None,
        authorise_at: None,
        notes: vec![],
    }
}

fn exec() -> Vec<String> {
    ["sup", "amt", "cur", "kind", "acct", "paid", "ref", "apref"]
        .map(str::to_owned)
        .to_vec()
}

/// The statement made of `line` with what [`a_frozen`] holds, after `change`.
fn stated_with(line: &str, change: impl FnOnce(&mut Frozen)) -> Result<Offer, Refusal> {
    let mut act = an_act();
    act.handoff.line = line.to_owned();
    let mut frozen = a_frozen();
    change(&mut frozen);
    state(
        &profiles(),
        &act,
        "payer-101",
        frozen,
        NOON,
        NOON.plus_seconds(300),
        vec!["a note".into()],
    )
}

fn statement_of(line: &str) -> Offer {
    stated_with(line, |_| {}).expect("stated")
}
