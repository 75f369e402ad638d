//! Likely twins: a write that is not to be made beside one is refused while one stands, also among many at once.

use futures::future::join_all;
use wilco_core::write::{Taken, TwinGuard};
use wilco_core::{Act, Change, Stage, State, Timestamp, Verdict, Written};

use super::hand::HandClock;
use super::writes::in_state;
use super::{advance, answered, changed, fixed, inserted, inserted_as, read, sample};
use crate::Keeper;

const DAY_S: i64 = 86_400;

/// Every act of these cases is like every other, unless it says otherwise.
const LIKENESS: &str = "5f0c1e9a77b3d2485f0c1e9a77b3d2485f0c1e9a77b3d2485f0c1e9a77b3d248";

/// For every state an act can be in and every set of states a guard can ask for.
pub async fn a_twin_counts_in_the_states_asked_for(keeper: &dyn Keeper, _: &HandClock) {
    for (n, state) in (1..).zip(State::ALL) {
        let likeness = format!("{n:064}");
        let (alike, same) = (likeness.clone(), likeness.clone());
        let twin = advance(keeper, move |at| {
            let act = in_state(sample::prepared(n, at), state, at);
            vec![sample::insert(like(act, &alike))]
        })
        .await
        .remove(0);
        for asked in State::ALL {
            let guard = TwinGuard {
                likeness: same.clone(),
                ..guard(Timestamp(i64::MIN), &[asked])
            };
            let change = guarded(sample::prepared(100, twin.created_at), guard);
            // Not written for good where it may be: it stands in no later case's way.
            let standing = twin_of(keeper, change).await;
            let wanted = (asked == state).then_some(&twin);
            assert_eq!(standing.as_ref(), wanted, "{state:?}, asked for {asked:?}");
        }
        let guard = TwinGuard {
            likeness,
            ..guard(Timestamp(i64::MIN), &State::ALL)
        };
        let change = guarded(sample::prepared(100, twin.created_at), guard);
        assert_eq!(twin_of(keeper, change).await, Some(twin));
    }
}

/// What was closed as failed and turned out to be done counts wherever done acts do, and only there.
pub async fn a_failed_act_that_turned_out_done_is_a_twin(keeper: &dyn Keeper, _: &HandClock) {
    for (n, verdict) in [(1, Some(Verdict::Contradicted)), (2, None)] {
        let likeness = format!("{n:064}");
        let alike = likeness.clone();
        let failed = advance(keeper, move |at| {
            let mut act = in_state(sample::prepared(n, at), State::Failed, at);
            // A sender's words that look like a verdict are none.
            act.handoff.item = "\"verdict\":\"contradicted\"".to_owned();
            if let Stage::Failed(closed) = &mut act.stage {
                closed.verdict = verdict;
                closed.notes = vec!["\"verdict\":\"contradicted\"".to_owned()];
            }
            vec![sample::insert(like(act, &alike))]
        })
        .await
        .remove(0);
        for (asked, counts) in [(State::Done, true), (State::Executing, false)] {
            let guard = TwinGuard {
                likeness: likeness.clone(),
                ..guard(Timestamp(i64::MIN), &[asked])
            };
            let change = guarded(sample::prepared(100, failed.created_at), guard);
            let wanted = (verdict.is_some() && counts).then(|| failed.clone());
            assert_eq!(twin_of(keeper, change).await, wanted, "{verdict:?} {asked:?}");
        }
    }
}

/// From the first instant of the span on, however long it is, and whatever else lies in it.
pub async fn a_twin_counts_within_the_span(keeper: &dyn Keeper, clock: &HandClock) {
    let twin = inserted_as(keeper, 1, |act| like(act, LIKENESS)).await;
    for n in 0..12_u64 {
        clock.advance_s(10 * DAY_S);
        inserted(keeper, 10 + n).await;
        let at = keeper.now();
        let ask = |since: Timestamp| guarded(sample::prepared(100, at), guard(since, &State::ALL));
        for since in [
            twin.created_at,
            at.plus_seconds(-400 * DAY_S),
            Timestamp(i64::MIN),
        ] {
            let found = twin_of(keeper, ask(since)).await;
            assert_eq!(found.as_ref(), Some(&twin), "{n}, since {since:?}");
        }
        for since in [Timestamp(twin.created_at.0 + 1), at, Timestamp(at.0 + 1)] {
            assert_eq!(twin_of(keeper, ask(since)).await, None, "{n}, since {since:?}");
        }
    }
}

/// Neither an act whose likeness begins the same, nor one that has none, nor one that is left out by name.
pub async fn only_what_is_alike_is_a_twin(keeper: &dyn Keeper, _: &HandClock) {
    let begins_the_same = format!("{}{}", &LIKENESS[..48], "0".repeat(16));
    inserted_as(keeper, 1, move |act| like(act, &begins_the_same)).await;
    inserted_as(keeper, 2, |mut act| {
        act.likeness = None;
        act
    })
    .await;
    let at = keeper.now();
    let ask = |except: Vec<_>| {
        let guard = TwinGuard {
            except,
            ..guard(at.plus_seconds(-DAY_S), &State::ALL)
        };
        guarded(sample::prepared(100, at), guard)
    };
    assert_eq!(twin_of(keeper, ask(Vec::new())).await, None);

    let first = inserted_as(keeper, 4, |act| like(act, LIKENESS)).await;
    let second = inserted_as(keeper, 3, |act| like(act, LIKENESS)).await;
    assert_eq!(
        twin_of(keeper, ask(vec![second.act_id])).await,
        Some(first.clone())
    );
    assert_eq!(
        twin_of(keeper, ask(vec![first.act_id])).await,
        Some(second.clone())
    );
    assert_eq!(
        twin_of(keeper, ask(vec![first.act_id, second.act_id])).await,
        None
    );
    // Of several, the one with the earliest id is named.
    assert_eq!(twin_of(keeper, ask(Vec::new())).await, Some(second));
}

/// The reversal has to be done: one that waits or is being carried out changes nothing.
pub async fn a_twin_that_was_undone_does_not_count(keeper: &dyn Keeper, _: &HandClock) {
    let twin = inserted_as(keeper, 1, |act| like(act, LIKENESS)).await;
    let twin = changed(keeper, twin, |act, at| sample::done(sample::claimed(act, at), at)).await;
    let of = twin.act_id;
    let ask = |act: &Act| {
        guarded(
            sample::prepared(100, act.updated_at),
            guard(Timestamp(i64::MIN), &State::ALL),
        )
    };
    let undo = inserted_as(keeper, 2, move |mut act| {
        act.undo_of = Some(of);
        act.handoff.ask = "UNDO".to_owned();
        act
    })
    .await;
    assert_eq!(twin_of(keeper, ask(&undo)).await.as_ref(), Some(&twin));
    let undo = changed(keeper, undo, sample::claimed).await;
    assert_eq!(twin_of(keeper, ask(&undo)).await.as_ref(), Some(&twin));
    let undo = changed(keeper, undo, move |act, at| {
        let mut act = sample::done(act, at);
        act.undo_of = Some(of);
        act
    })
    .await;
    assert_eq!(twin_of(keeper, ask(&undo)).await, None);
}

/// A handoff that takes another's place is not held because of it: it is left out by name, and closed in the same write.
pub async fn what_is_superseded_in_the_same_write_is_no_twin(keeper: &dyn Keeper, _: &HandClock) {
    let old = inserted_as(keeper, 1, |act| like(act, LIKENESS)).await;
    let acts = advance(keeper, move |at| {
        let close = sample::update(in_state(old.clone(), State::Refused, at), Vec::new());
        let guard = TwinGuard {
            except: vec![old.act_id, sample::id(2)],
            ..guard(Timestamp(i64::MIN), &[State::Prepared, State::Done])
        };
        vec![close, guarded(sample::prepared(2, at), guard)]
    })
    .await;
    assert_eq!(
        (acts[0].state(), acts[1].state()),
        (State::Refused, State::Prepared)
    );

    // The new one is a twin to a third, and the closed one is not.
    let third = guarded(
        sample::prepared(3, acts[1].created_at),
        guard(Timestamp(i64::MIN), &[State::Prepared]),
    );
    assert_eq!(twin_of(keeper, third).await.as_ref(), Some(&acts[1]));
}

/// Nothing of a write that is refused for one member's twin stands.
pub async fn nothing_of_a_write_with_a_twin_stands(keeper: &dyn Keeper, _: &HandClock) {
    let twin = inserted_as(keeper, 1, |act| like(act, LIKENESS)).await;
    let other = inserted(keeper, 2).await;
    let at = keeper.now();
    let changes = vec![
        sample::update(sample::lapsed(other.clone()), super::writes::entries(1)),
        guarded(
            sample::prepared(3, at),
            guard(Timestamp(i64::MIN), &[State::Prepared]),
        ),
    ];
    match answered(keeper.write(fixed(changes.clone())).await) {
        Written::Taken(Taken::Twin(found)) => assert_eq!(*found, twin),
        answer => panic!("the twin stands: {answer:?}"),
    }
    assert_eq!(read(keeper, other.act_id).await, other);
    assert_eq!(keeper.act(sample::id(3)).await, Ok(None));
    assert_eq!(keeper.counters().refused, 1);

    // Released, it carries no guard, and stands beside its twin; who released it is kept.
    let released = advance(keeper, move |_| {
        let mut changes = changes.clone();
        changes[1].unless_twin = None;
        changes[1].act.released_by = Some("duty".to_owned());
        changes
    })
    .await
    .remove(1);
    assert_eq!(released.released_by.as_deref(), Some("duty"));
    assert_eq!(read(keeper, released.act_id).await, released);
}

/// A later attempt may resolve other values: the act is then a twin of others, and no longer of those before.
pub async fn a_later_attempt_can_be_like_others(keeper: &dyn Keeper, _: &HandClock) {
    let act = inserted(keeper, 1).await;
    let before = act.likeness.clone().expect("a likeness");
    let act = changed(keeper, act, |act, _| like(act, LIKENESS)).await;
    assert_eq!(read(keeper, act.act_id).await, act);

    let at = keeper.now();
    let ask = |likeness: &str| {
        let guard = TwinGuard {
            likeness: likeness.to_owned(),
            ..guard(at.plus_seconds(-DAY_S), &State::ALL)
        };
        guarded(sample::prepared(100, at), guard)
    };
    assert_eq!(twin_of(keeper, ask(&before)).await, None);
    assert_eq!(twin_of(keeper, ask(LIKENESS)).await.as_ref(), Some(&act));

    let act = changed(keeper, act, |mut act, _| {
        act.likeness = None;
        act
    })
    .await;
    assert_eq!(read(keeper, act.act_id).await, act);
    assert_eq!(twin_of(keeper, ask(LIKENESS)).await, None);
}

/// Forty alike, at once and among others that are not: one stands, and the others are told which.
pub async fn one_of_many_twins_stands(keeper: &dyn Keeper, _: &HandClock) {
    let at = keeper.now();
    let writers = (1..=80_u64).map(|n| {
        let act = sample::prepared(n, at);
        let guard = guard(at.plus_seconds(-90 * DAY_S), &[State::Prepared, State::Done]);
        let change = match n % 2 {
            0 => guarded(act, guard),
            _ => {
                let likeness = act.likeness.clone().unwrap_or_default();
                let guard = TwinGuard { likeness, ..guard };
                Change {
                    unless_twin: Some(guard),
                    ..sample::insert(act)
                }
            }
        };
        keeper.write(fixed(vec![change]))
    });
    let mut standing = Vec::new();
    let mut told = Vec::new();
    let mut others = 0;
    for written in join_all(writers).await {
        match answered(written) {
            Written::Advanced { mut acts, .. } => match acts.remove(0) {
                act if act.likeness.as_deref() == Some(LIKENESS) => standing.push(act),
                _ => others += 1,
            },
            Written::Taken(Taken::Twin(twin)) => told.push(*twin),
            answer => panic!("nothing else stands in the way: {answer:?}"),
        }
    }
    assert_eq!((standing.len(), told.len(), others), (1, 39, 40));
    assert!(told.iter().all(|twin| *twin == standing[0]));
}

/// Two that stand, because one was released, are claimed at once: whichever is first goes on.
pub async fn one_of_two_twins_is_claimed(keeper: &dyn Keeper, _: &HandClock) {
    for round in 0..10_u64 {
        let mut acts = Vec::new();
        for n in 1..=2 {
            let likeness = format!("{round:064}");
            acts.push(inserted_as(keeper, 10 * round + n, move |act| like(act, &likeness)).await);
        }
        let claims = acts.iter().map(|act| {
            let act = act.clone();
            let guard = TwinGuard {
                likeness: act.likeness.clone().unwrap_or_default(),
                since: Timestamp(i64::MIN),
                states: vec![State::Executing, State::InDoubt, State::Done],
                except: vec![act.act_id],
            };
            keeper.write(Box::new(move |at| {
                vec![Change {
                    unless_twin: Some(guard.clone()),
                    ..sample::update(sample::claimed(act.clone(), at), Vec::new())
                }]
            }))
        });
        let mut answers = join_all(claims).await.into_iter().map(answered);
        let answers = (answers.next(), answers.next());
        let (claimed, twin) = match answers {
            (Some(Written::Advanced { mut acts, .. }), Some(Written::Taken(Taken::Twin(twin))))
            | (Some(Written::Taken(Taken::Twin(twin))), Some(Written::Advanced { mut acts, .. })) => {
                (acts.remove(0), twin)
            }
            other => panic!("one is claimed, the other is not: {other:?}"),
        };
        assert_eq!(*twin, claimed);
    }
}

fn like(mut act: Act, likeness: &str) -> Act {
    act.likeness = Some(likeness.to_owned());
    act
}

fn guard(since: Timestamp, states: &[State]) -> TwinGuard {
    TwinGuard {
        likeness: LIKENESS.to_owned(),
        since,
        states: states.to_vec(),
        except: Vec::new(),
    }
}

/// A new act, to be written only if no twin stands.
fn guarded(act: Act, guard: TwinGuard) -> Change {
    Change {
        unless_twin: Some(guard.clone()),
        ..sample::insert(like(act, &guard.likeness))
    }
}

/// The twin that stands in the way of this change, which is never made.
async fn twin_of(keeper: &dyn Keeper, change: Change) -> Option<Act> {
    let id = change.act.act_id;
    // A second change that cannot be made: where no twin is in the way, this is.
    let stale = Change {
        expect: wilco_core::Expect::Version(7),
        act: Act {
            version: 7,
            ..sample::prepared(9_999, change.act.created_at)
        },
        entries: Vec::new(),
        unless_twin: None,
    };
    let written = answered(keeper.write(fixed(vec![change, stale])).await);
    assert_eq!(keeper.act(id).await, Ok(None));
    match written {
        Written::Taken(Taken::Twin(twin)) => Some(*twin),
        Written::Stale { act_id, .. } if act_id == sample::id(9_999) => None,
        other => panic!("neither a twin nor what follows it: {other:?}"),
    }
}
