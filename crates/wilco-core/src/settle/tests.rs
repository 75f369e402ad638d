//! What these are after: the done line says what the outside showed and nothing else, doubt stays doubt until it is
//! proved away, and every cancel that waited is answered with the truth.

use super::*;
use crate::act::OpenCall;
use crate::act::WaitingCancel;
use crate::contract::{Identity, LateSend, LookupBy};
use crate::testing::{
    CONFIRMATION, HO, NOON, a_contract, an_executing_act, an_offer, profiles, thread_lines, thread_problems,
};
use crate::{Reason, State};

mod absence;
mod audits;
mod bearers;
mod cancels;
mod done;
mod word;

const CX: &str = "RW1 CX scheduler-3 re=scheduler-1 from=scheduler to=payer item=inv:MD-2026-057 p=pay";

const PACE: Pace = Pace {
    first_s: 2,
    longest_s: 60,
    escalate_after: 3,
};

/// What a bank shows of the seed's payment.
fn shown() -> Executed {
    let values = [
        ("amt", "5400.00"),
        ("cur", "GBP"),
        ("acct", "40-12-88/61102938"),
        ("paid", "20261002"),
        ("ref", "MD-2026-057"),
    ];
    Executed {
        values: values.map(|(k, v)| (k.to_owned(), v.to_owned())).to_vec(),
        receipt: Some("bank-1".into()),
        status: "AcceptedSettlementCompleted".into(),
        provisional: false,
    }
}

fn with(slot: &str, value: Option<&str>) -> Executed {
    let mut executed = shown();
    executed.values.retain(|(k, _)| k != slot);
    executed
        .values
        .extend(value.map(|value| (slot.to_owned(), value.to_owned())));
    executed
}

fn at(seconds: i64) -> Timestamp {
    NOON.plus_seconds(seconds)
}

fn in_doubt(act: Act) -> Act {
    let Stage::Executing(e) = act.stage else {
        panic!("executing")
    };
    Act {
        stage: Stage::InDoubt(e),
        ..act
    }
}

/// One that a cancel waits for.
fn awaited(act: Act) -> Act {
    let waiting = vec![WaitingCancel {
        line: CX.into(),
        id: "scheduler-3".into(),
    }];
    Act { waiting, ..act }
}

/// An act whose call is over since second 20.
fn over() -> Act {
    apply(
        &an_executing_act(),
        &News::CallUnknown("the line went dead".into()),
        20,
    )
}

fn change_by(act: &Act, news: &News, contract: &Contract, now: Timestamp) -> Change {
    settle(&profiles(), act, news, contract, PACE, now)
        .expect("a line")
        .expect("claimed")
}

fn news_at(act: &Act, news: &News, second: i64) -> Change {
    change_by(act, news, &a_contract(), at(second))
}

/// The act after the news, as the store would hand it back.
fn apply(act: &Act, news: &News, second: i64) -> Act {
    let mut next = news_at(act, news, second).act;
    next.version += 1;
    next
}

fn absent(second: i64) -> News {
    News::LookupAbsent {
        asked_at: at(second),
        text: "no such reference".into(),
    }
}

fn closed_of(change: &Change) -> &Closed {
    change.act.closed().expect("closed")
}

fn progress(act: &Act) -> &crate::act::Progress {
    &act.execution().expect("claimed").progress
}

fn word(act: &Act, done: bool, second: i64) -> Result<Change, Refusal> {
    settled_by_operator(
        &profiles(),
        act,
        &a_contract(),
        &Word {
            done,
            evidence: "seen in the bank's own screen by duty",
            operator: "duty",
            owner_dead: false,
        },
        at(second),
    )
}

fn held_by(owner: &str, epoch: u64) -> Act {
    let mut act = in_doubt(an_executing_act());
    if let Stage::InDoubt(e) = &mut act.stage {
        owner.clone_into(&mut e.claim.owner);
        e.claim.epoch = epoch;
    }
    act
}

fn stale() -> Bearer {
    Bearer {
        owner: "there.1".into(),
        epoch: 1,
    }
}

/// The holder of the claim [`an_executing_act`] was made with.
fn mine() -> Bearer {
    Bearer {
        owner: "me".into(),
        epoch: 1,
    }
}

fn kept(act: &Act, news: &News) -> Change {
    evidence(act, news, &stale(), at(99))
}

fn no() -> News {
    News::NotDone {
        why: "ERR",
        text: "insufficient funds".into(),
    }
}

/// Taken from `there.1`, which had claimed it under epoch 1.
fn taken_from_there() -> Act {
    let mut act = held_by("here.1", 2);
    if let Stage::InDoubt(e) = &mut act.stage {
        e.progress.others_open = true;
        e.progress.open_calls = vec![OpenCall {
            owner: "there.1".into(),
            epoch: 1,
        }];
    }
    act.updated_at = at(50);
    act
}

fn without_receipt(done: &Act) -> Act {
    let mut done = done.clone();
    if let Stage::Done(closed) = &mut done.stage {
        closed.receipt = None;
    }
    done
}

fn word_on(act: &Act, owner_dead: bool, second: i64) -> Result<Change, Refusal> {
    let word = Word {
        done: false,
        evidence: "the host was switched off, and the bank shows nothing",
        operator: "duty",
        owner_dead,
    };
    settled_by_operator(&profiles(), act, &a_contract(), &word, at(second))
}

/// Reported as done by `there.1`, after `here.1` took the act over.
fn reported() -> Act {
    let act = kept(&taken_from_there(), &News::Executed(shown())).act;
    assert_eq!(progress(&act).heard, Some(shown()));
    Act { version: 9, ..act }
}

fn another() -> Executed {
    Executed {
        receipt: Some("bank-2".into()),
        ..shown()
    }
}

fn nothing(asked_at: Timestamp) -> News {
    News::LookupAbsent {
        asked_at,
        text: "no trace".into(),
    }
}

fn unanswered() -> News {
    News::LookupUnknown("?".into())
}

fn provisional() -> News {
    News::Executed(Executed {
        provisional: true,
        status: "AcceptedSettlementInProcess".into(),
        ..shown()
    })
}
