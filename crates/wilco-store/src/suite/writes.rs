//! What is written is what is kept: whole, as answered, and together.

use wilco_core::act::{StoredProblem, WaitingCancel};
use wilco_core::journal::{Entry, EntryKind, OURSELVES};
use wilco_core::{Act, Handoff, Stage, State, Timestamp, Written};

use super::hand::HandClock;
use super::{advance, answered, changed, fixed, inserted, read, sample};
use crate::{Filter, Keeper, StoreError};

/// The answer, the row by id, and the row by handoff are the same act, with the store's marks on it.
pub async fn a_new_act_is_kept_as_it_was_answered(keeper: &dyn Keeper, _: &HandClock) {
    let written = answered(
        keeper
            .write(Box::new(|at| vec![sample::insert(sample::prepared(1, at))]))
            .await,
    );
    let Written::Advanced { at, acts, .. } = written else {
        panic!("the insert should have advanced: {written:?}");
    };
    let act = &acts[0];
    assert_eq!((act.version, act.seq), (1, 2));
    assert_eq!(act.updated_at, at);
    assert_eq!(act.head.len(), 64);
    assert_eq!(keeper.act(act.act_id).await, Ok(Some(act.clone())));
    let by_handoff = keeper.act_by_handoff(sample::THREAD, "scheduler-1").await;
    assert_eq!(by_handoff, Ok(Some(act.clone())));
    assert_eq!(keeper.act(sample::id(2)).await, Ok(None));
    assert_eq!(keeper.act_by_handoff("elsewhere", "scheduler-1").await, Ok(None));
    assert_eq!(keeper.counters().writes, 1);
}

/// Every state, with everything in it that makes JSON and SQL stumble, reads back equal.
pub async fn every_stage_survives_being_kept(keeper: &dyn Keeper, _: &HandClock) {
    let mut n = 10;
    for state in State::ALL {
        for odd in [false, true] {
            n += 1;
            let act = advance(keeper, move |at| {
                let act = in_state(sample::prepared(n, at), state, at);
                vec![sample::insert(if odd { oddly(act) } else { act })]
            })
            .await
            .remove(0);
            assert_eq!(act.state(), state);
            assert_eq!(read(keeper, act.act_id).await, act, "{state:?}, odd: {odd}");

            // And once more over an existing row.
            let act = changed(keeper, act, |mut act, _| {
                act.attempt += 1;
                act
            })
            .await;
            assert_eq!(read(keeper, act.act_id).await, act, "{state:?} again, odd: {odd}");
        }
    }
}

/// Each write moves the version on by one, the sequence by its rows, and the row with both.
pub async fn an_act_advances_from_its_version(keeper: &dyn Keeper, _: &HandClock) {
    let act = inserted(keeper, 1).await;
    let claimed = changed(keeper, act.clone(), sample::claimed).await;
    assert_eq!((claimed.version, claimed.seq), (2, 2));
    assert_eq!(claimed.head, act.head, "no journal row, no new head");

    let done = advance(keeper, move |at| {
        let entry = Entry::event("executed", serde_json::json!({}), OURSELVES);
        vec![sample::update(sample::done(claimed.clone(), at), vec![entry])]
    })
    .await
    .remove(0);
    assert_eq!((done.version, done.seq, done.state()), (3, 3, State::Done));
    assert!(done.updated_at > act.updated_at);
    assert_eq!(read(keeper, done.act_id).await, done);
}

/// The proof that lets an adapter act names the acts this write left claimed, and no others.
pub async fn a_claim_is_attested_and_nothing_else(keeper: &dyn Keeper, _: &HandClock) {
    let waiting = inserted(keeper, 1).await;
    let going = inserted(keeper, 2).await;
    let (one, two) = (waiting.clone(), going.clone());
    let written = answered(
        keeper
            .write(Box::new(move |at| {
                vec![
                    sample::update(sample::lapsed(one.clone()), Vec::new()),
                    sample::update(sample::claimed(two.clone(), at), Vec::new()),
                ]
            }))
            .await,
    );
    let Written::Advanced { durable, .. } = written else {
        panic!("the claim should have advanced: {written:?}");
    };
    assert!(durable.covers_claim_of(going.act_id));
    assert!(!durable.covers_claim_of(waiting.act_id));
}

/// Two acts and their journals in one write: both stand, at one instant.
pub async fn several_changes_stand_together(keeper: &dyn Keeper, _: &HandClock) {
    let old = inserted(keeper, 1).await;
    let acts = advance(keeper, move |at| {
        vec![
            sample::update(sample::lapsed(old.clone()), Vec::new()),
            sample::insert(sample::prepared(2, at)),
        ]
    })
    .await;
    assert_eq!(acts[0].state(), State::Lapsed);
    assert_eq!(acts[1].state(), State::Prepared);
    assert_eq!(acts[0].updated_at, acts[1].updated_at);
    for act in acts {
        assert_eq!(read(keeper, act.act_id).await, act);
    }
}

/// Deciding to do nothing is an answer, not a write.
pub async fn an_empty_list_advances_and_writes_nothing(keeper: &dyn Keeper, _: &HandClock) {
    let written = answered(keeper.write(fixed(Vec::new())).await);
    assert!(matches!(&written, Written::Advanced { acts, .. } if acts.is_empty()));
    let counters = keeper.counters();
    assert_eq!((counters.writes, counters.flushes), (0, 0));
    let all = keeper.acts(&Filter::default()).await.expect("a list");
    assert!(all.items.is_empty());
}

/// A cancel that came first holds the id; its handoff comes later and fills the same row.
pub async fn a_tombstone_takes_its_handoff(keeper: &dyn Keeper, _: &HandClock) {
    let tombstone = advance(keeper, |at| {
        let mut act = sample::prepared(1, at);
        act.handoff = Handoff {
            id: act.handoff.id,
            ..Handoff::default()
        };
        act.likeness = None;
        vec![sample::insert(in_state(act, State::Cancelled, at))]
    })
    .await
    .remove(0);
    assert!(tombstone.is_tombstone());
    assert_eq!(read(keeper, tombstone.act_id).await, tombstone);

    let arrived = changed(keeper, tombstone, |mut act, at| {
        let handed = sample::prepared(1, at);
        act.handoff = handed.handoff;
        act.likeness = handed.likeness;
        act.created_at = at;
        act.stage = in_state(sample::prepared(1, at), State::Refused, at).stage;
        act
    })
    .await;
    assert!(!arrived.is_tombstone());
    assert_eq!(read(keeper, arrived.act_id).await, arrived);
}

/// After `close` every question and every write is answered with `Down`.
pub async fn a_closed_keeper_takes_nothing(keeper: &dyn Keeper, _: &HandClock) {
    let act = inserted(keeper, 1).await;
    assert!(keeper.healthy());
    keeper.close().await;
    assert!(!keeper.healthy());
    let written = keeper.write(fixed(Vec::new())).await;
    assert!(matches!(written, Err(StoreError::Down(_))), "{written:?}");
    let read = keeper.act(act.act_id).await;
    assert!(matches!(read, Err(StoreError::Down(_))), "{read:?}");
}

/// The act brought into `state` with what is true there.
pub fn in_state(act: Act, state: State, at: Timestamp) -> Act {
    let closed = |act: Act| match sample::done(act.clone(), at).stage {
        Stage::Done(closed) => (act, closed),
        _ => unreachable!("sample::done closes"),
    };
    match state {
        State::Prepared => act,
        State::Held => match act.offer().cloned() {
            Some(mut offer) => {
                offer.problems = vec![problem()];
                with(act, Stage::Held(offer))
            }
            None => act,
        },
        State::Lapsed => sample::lapsed(act),
        State::Executing => sample::claimed(act, at),
        State::InDoubt => match sample::claimed(act.clone(), at).execution().cloned() {
            Some(execution) => with(act, Stage::InDoubt(execution)),
            None => act,
        },
        State::Done => sample::done(sample::claimed(act, at), at),
        State::Failed => {
            let (act, closed) = closed(sample::claimed(act, at));
            with(act, Stage::Failed(closed))
        }
        State::Cancelled => {
            let (act, mut closed) = closed(act);
            closed.offer = None;
            with(act, Stage::Cancelled(closed))
        }
        State::Refused => {
            let (act, mut closed) = closed(act);
            closed.superseded = true;
            with(act, Stage::Refused(closed))
        }
    }
}

fn with(mut act: Act, stage: Stage) -> Act {
    act.stage = stage;
    act
}

fn problem() -> StoredProblem {
    StoredProblem {
        code: "acct".to_owned(),
        slot: Some("acct".to_owned()),
        want: None,
        got: Some(String::new()),
        text: "another \"account\"".to_owned(),
    }
}

/// Quotes, backslashes, escapes, other scripts, empty text and the ends of numbers, in every kind of column.
fn oddly(mut act: Act) -> Act {
    let odd = "' \" \\ \\u0000 \u{1f4b6} \u{202e} \t ç } ] ; -- $1";
    act.thread = format!("thread {odd}");
    act.handoff.item = odd.to_owned();
    act.handoff.profile = String::new();
    act.handoff.line.push_str(odd);
    act.principal = odd.to_owned();
    act.limit = Timestamp::MAX;
    act.created_at = Timestamp(i64::MIN);
    act.lines = u32::MAX;
    act.long_ids = true;
    act.likeness = None;
    act.released_by = Some(odd.to_owned());
    act.undo_of = Some(act.act_id);
    act.tokens.clear();
    act.waiting = vec![WaitingCancel {
        line: odd.to_owned(),
        id: "scheduler-7".to_owned(),
    }];
    let offer = match &mut act.stage {
        Stage::Prepared(o) | Stage::Held(o) | Stage::Lapsed(o, _) => Some(o),
        Stage::Executing(e) | Stage::InDoubt(e) => {
            e.claim.epoch = u64::MAX;
            e.progress.absent_at = vec![Timestamp(i64::MIN), Timestamp::MAX];
            Some(&mut e.offer)
        }
        Stage::Done(c) | Stage::Failed(c) | Stage::Cancelled(c) | Stage::Refused(c) => {
            c.problems = vec![problem()];
            c.notes = vec![odd.to_owned()];
            c.offer.as_mut()
        }
    };
    if let Some(offer) = offer {
        offer.frozen.request.body = format!("{{\"a\":\"{odd}\u{1}\u{7f}\"}}\r\n");
        offer.frozen.contract.not_found_means = odd.to_owned();
        offer.notes.push(String::new());
    }
    act
}

/// A row of each kind, for journals.
pub fn entries(n: u64) -> Vec<Entry> {
    let mut entries = vec![
        Entry::line(
            format!("scheduler-e{n}"),
            format!("line {n} ' \" \\ ç"),
            "scheduler",
        ),
        Entry::line_of_arrived("a line whose id was taken before", "scheduler"),
        Entry::event(
            "looked",
            serde_json::json!({ "n": n, "text": "\" \\" }),
            OURSELVES,
        ),
    ];
    entries.push(Entry {
        kind: EntryKind::CancelArrived,
        message_id: Some(format!("scheduler-x{n}")),
        body: "RW1 k=CX".to_owned(),
        principal: "scheduler".to_owned(),
    });
    entries.push(Entry {
        kind: EntryKind::Outside,
        message_id: None,
        body: String::new(),
        principal: String::new(),
    });
    entries
}
