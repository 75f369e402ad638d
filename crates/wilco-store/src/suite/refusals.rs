//! Each refusal has its name, and leaves everything as it was.

use wilco_core::write::Taken;
use wilco_core::{Act, Change, Expect, Written};

use super::hand::HandClock;
use super::{advance, answered, changed, fixed, inserted, inserted_as, read, sample};
use crate::{Keeper, StoreError};

/// A write from an old version, of an act that is not there, or of one that already is.
pub async fn a_stale_write_is_answered_with_the_row(keeper: &dyn Keeper, _: &HandClock) {
    let first = inserted(keeper, 1).await;
    let second = changed(keeper, first.clone(), sample::claimed).await;

    for change in [
        sample::update(sample::lapsed(first.clone()), Vec::new()),
        sample::insert(first.clone()),
    ] {
        match answered(keeper.write(fixed(vec![change])).await) {
            Written::Stale { act_id, current } => {
                assert_eq!(act_id, second.act_id);
                assert_eq!(current.as_deref(), Some(&second));
            }
            other => panic!("it should be stale: {other:?}"),
        }
    }

    let mut never = sample::prepared(9, first.created_at);
    never.version = 1;
    match answered(keeper.write(fixed(vec![sample::update(never, Vec::new())])).await) {
        Written::Stale { act_id, current } => assert_eq!((act_id, current), (sample::id(9), None)),
        other => panic!("it should be stale: {other:?}"),
    }
    assert_eq!(read(keeper, first.act_id).await, second);
    assert_eq!(keeper.counters().refused, 3);
}

/// The same id in the same thread is answered with the act that has it; another thread is another conversation.
pub async fn a_handoff_id_is_taken_once_in_a_thread(keeper: &dyn Keeper, _: &HandClock) {
    let first = inserted(keeper, 1).await;
    let twin = |thread: &str| {
        let mut act = sample::prepared(2, first.created_at);
        act.handoff.id.clone_from(&first.handoff.id);
        thread.clone_into(&mut act.thread);
        Change {
            unless_twin: None,
            expect: Expect::Absent,
            act,
            entries: Vec::new(),
        }
    };
    match answered(keeper.write(fixed(vec![twin(sample::THREAD)])).await) {
        Written::Taken(Taken::Handoff(holder)) => assert_eq!(*holder, first),
        other => panic!("the handoff should be taken: {other:?}"),
    }
    assert_eq!(keeper.act(sample::id(2)).await, Ok(None));

    let elsewhere = twin("another thread");
    advance(keeper, move |_| vec![elsewhere.clone()]).await;
    assert_eq!(read(keeper, sample::id(2)).await.thread, "another thread");
}

/// Over all acts of a thread, and over all kinds of rows that take one.
pub async fn a_message_id_is_taken_once_in_a_thread(keeper: &dyn Keeper, _: &HandClock) {
    let first = inserted(keeper, 1).await;
    let other = inserted(keeper, 2).await;
    for entry in super::writes::entries(1) {
        let act = read(keeper, first.act_id).await;
        advance(keeper, move |_| {
            vec![sample::update(act.clone(), vec![entry.clone()])]
        })
        .await;
    }
    for taken in ["scheduler-1", "payer-101", "scheduler-e1", "scheduler-x1"] {
        let entry = wilco_core::journal::Entry::line(taken, "again", "scheduler");
        let change = sample::update(other.clone(), vec![entry]);
        match answered(keeper.write(fixed(vec![change])).await) {
            Written::Taken(Taken::Message { message_id }) => assert_eq!(message_id, taken),
            answer => panic!("{taken} should be taken: {answer:?}"),
        }
    }
    assert_eq!(read(keeper, other.act_id).await, other);

    let entry = wilco_core::journal::Entry::line("scheduler-e1", "elsewhere", "scheduler");
    let elsewhere = inserted_as(keeper, 3, |mut act| {
        "another thread".clone_into(&mut act.thread);
        act
    })
    .await;
    advance(keeper, move |_| {
        vec![sample::update(elsewhere.clone(), vec![entry.clone()])]
    })
    .await;
}

/// While one act reverses another, no second one may; once it lets go, one may again.
pub async fn an_act_is_reversed_once_at_a_time(keeper: &dyn Keeper, _: &HandClock) {
    let of = inserted(keeper, 1).await.act_id;
    let reversing = move |mut act: Act| {
        act.undo_of = Some(of);
        act
    };
    let first = inserted_as(keeper, 2, reversing).await;
    assert_eq!(keeper.act_undoing(of).await, Ok(Some(first.clone())));

    let second = sample::insert(reversing(sample::prepared(3, first.created_at)));
    match answered(keeper.write(fixed(vec![second.clone()])).await) {
        Written::Taken(Taken::Undo { of: held }) => assert_eq!(held, of),
        other => panic!("the reversal should be taken: {other:?}"),
    }

    // What holds it may be written again, holding it.
    let first = changed(keeper, first, sample::claimed).await;
    changed(keeper, first, |mut act, _| {
        act.undo_of = None;
        act
    })
    .await;
    assert_eq!(keeper.act_undoing(of).await, Ok(None));
    let second = advance(keeper, move |_| vec![second.clone()]).await.remove(0);
    assert_eq!(keeper.act_undoing(of).await, Ok(Some(second)));
}

/// A reversal that supersedes another takes its place in the same write, from a new act or an old one.
pub async fn a_write_can_pass_a_reversal_on(keeper: &dyn Keeper, _: &HandClock) {
    let of = inserted(keeper, 1).await.act_id;
    let holding = move |mut act: Act| {
        act.undo_of = Some(of);
        act
    };
    let letting_go = |mut act: Act| {
        act.undo_of = None;
        act
    };
    let first = inserted_as(keeper, 2, holding).await;
    let idle = inserted(keeper, 3).await;

    let acts = advance(keeper, move |at| {
        vec![
            sample::insert(holding(sample::prepared(4, at))),
            sample::update(letting_go(first.clone()), Vec::new()),
        ]
    })
    .await;
    assert_eq!(keeper.act_undoing(of).await, Ok(Some(acts[0].clone())));

    let second = acts[0].clone();
    let acts = advance(keeper, move |_| {
        vec![
            sample::update(holding(idle.clone()), Vec::new()),
            sample::update(letting_go(second.clone()), Vec::new()),
        ]
    })
    .await;
    assert_eq!(keeper.act_undoing(of).await, Ok(Some(acts[0].clone())));
    assert_eq!(read(keeper, acts[1].act_id).await, acts[1]);
}

/// The first change of a write is in order, the last is not: neither stands, nor any of their rows.
pub async fn nothing_of_a_refused_write_stands(keeper: &dyn Keeper, _: &HandClock) {
    let first = inserted(keeper, 1).await;
    let second = inserted(keeper, 2).await;
    let newer = changed(keeper, second.clone(), sample::claimed).await;
    let journal = keeper.journal(first.act_id).await;

    let in_order = || sample::update(sample::lapsed(first.clone()), super::writes::entries(1));
    let fresh = || sample::insert(sample::prepared(3, first.created_at));
    let taken = wilco_core::journal::Entry::line("scheduler-2", "again", "scheduler");
    let bad = [
        sample::update(sample::lapsed(second), Vec::new()),
        sample::insert(newer.clone()),
        sample::update(newer.clone(), vec![taken]),
    ];
    for change in bad {
        let written = answered(keeper.write(fixed(vec![in_order(), fresh(), change])).await);
        assert!(
            !matches!(written, Written::Advanced { .. }),
            "it should be refused: {written:?}"
        );
        assert_eq!(read(keeper, first.act_id).await, first);
        assert_eq!(read(keeper, newer.act_id).await, newer);
        assert_eq!(keeper.act(sample::id(3)).await, Ok(None));
        assert_eq!(keeper.journal(first.act_id).await, journal);
        assert_eq!(
            keeper.act_by_message(sample::THREAD, "scheduler-e1").await,
            Ok(None)
        );
    }
    // And the same write without the bad change goes through.
    let changes = vec![in_order(), fresh()];
    advance(keeper, move |_| changes.clone()).await;
}

/// A caller's mistakes are errors that name the place, not damage.
pub async fn a_write_that_makes_no_sense_is_named(keeper: &dyn Keeper, _: &HandClock) {
    let act = inserted(keeper, 1).await;
    let other = inserted(keeper, 2).await;
    let update = |with: &dyn Fn(&mut Act)| {
        let mut act = act.clone();
        with(&mut act);
        sample::update(act, Vec::new())
    };
    let mut elsewhere = act.clone();
    elsewhere.handoff.id = "scheduler-77".to_owned();
    let nul = wilco_core::journal::Entry::line("m\0", "x", "scheduler");
    let cases: Vec<(&str, &str, Vec<Change>)> = vec![
        ("acts", "act_id", vec![update(&|_| ()), update(&|_| ())]),
        ("acts", "head", vec![update(&|a| a.head = other.head.clone())]),
        (
            "acts",
            "thread",
            vec![update(&|a| a.thread = "another".to_owned())],
        ),
        ("acts", "handoff_id", vec![sample::update(elsewhere, Vec::new())]),
        (
            "acts",
            "item",
            vec![update(&|a| a.handoff.item = "a\0b".to_owned())],
        ),
        (
            "journal",
            "message_id",
            vec![sample::update(act.clone(), vec![nul])],
        ),
        (
            "acts",
            "version",
            vec![Change {
                unless_twin: None,
                expect: Expect::Version(7),
                act: act.clone(),
                entries: Vec::new(),
            }],
        ),
    ];
    for (table, column, changes) in cases {
        match keeper.write(fixed(changes)).await {
            Err(StoreError::Row {
                table: t, column: c, ..
            }) => assert_eq!((t, c), (table, column)),
            other => panic!("{table}.{column} should be named: {other:?}"),
        }
        assert_eq!(read(keeper, act.act_id).await, act);
    }
    assert!(keeper.healthy());
}
