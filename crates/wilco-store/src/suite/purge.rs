//! Purge: old texts go, in rounds, and whatever is asked later is answered as before.

use futures::future::{join, join_all};
use wilco_core::journal::{Entry, first_break, sha256_hex};
use wilco_core::write::{Taken, TwinGuard};
use wilco_core::{Act, Change, Stage, State, Timestamp, Verdict, Written};

use super::hand::HandClock;
use super::writes::{entries, in_state};
use super::{advance, answered, changed, fixed, read, sample};
use crate::{Keeper, Purged};

const DAY_S: i64 = 86_400;

/// An act brought into `state`, with its lines and a few rows more.
async fn act_in(keeper: &dyn Keeper, n: u64, state: State) -> Act {
    let act = advance(keeper, move |at| {
        let act = in_state(sample::prepared(n, at), state, at);
        vec![sample::insert(act)]
    })
    .await
    .remove(0);
    advance(keeper, move |_| vec![sample::update(act.clone(), entries(n))])
        .await
        .remove(0)
}

/// In every state, old and new: closed and old is erased, the rest is as it was.
pub async fn what_is_closed_and_old_loses_its_texts(keeper: &dyn Keeper, clock: &HandClock) {
    let mut acts = Vec::new();
    for (n, state) in (1..).zip(State::ALL) {
        acts.push(act_in(keeper, n, state).await);
    }
    clock.advance_s(91 * DAY_S);
    let young = act_in(keeper, 20, State::Done).await;
    let counts = keeper.counts().await;

    let older_than = keeper.now().plus_seconds(-90 * DAY_S);
    let done = keeper.purge(older_than, 0).await.expect("a purge");
    let wanted = Purged {
        acts: 4,
        bodies: acts.iter().filter(|a| a.state().is_final()).map(|a| a.seq).sum(),
        more: false,
    };
    assert_eq!(done, wanted);

    for before in &acts {
        let after = read(keeper, before.act_id).await;
        if before.state().is_final() {
            is_erased(keeper, before, &after).await;
        } else {
            assert_eq!(after, *before);
        }
    }
    assert_eq!(read(keeper, young.act_id).await, young);
    assert_eq!(keeper.counts().await, counts);

    let again = keeper.purge(older_than, 0).await;
    assert_eq!(again, Ok(Purged::default()));
}

/// Everything that leads to the act still does; the row and the journal hold hashes and the closing line.
async fn is_erased(keeper: &dyn Keeper, before: &Act, after: &Act) {
    let sha256 = sha256_hex(before.handoff.line.as_bytes());
    assert_eq!(after.erased_handoff(), Some(sha256.as_str()));
    assert!(after.handoff.line.is_empty() && !after.is_tombstone());
    assert_eq!(after.version, before.version + 1);
    assert_eq!(
        (after.state(), &after.tokens, &after.likeness, after.created_at),
        (
            before.state(),
            &before.tokens,
            &before.likeness,
            before.created_at
        )
    );
    let (was, is) = (before.closed().expect("closed"), after.closed().expect("closed"));
    assert_eq!((&is.line, &is.line_id), (&was.line, &was.line_id));
    assert_eq!(is.offer, None);

    let rows = keeper.journal(after.act_id).await.expect("a journal");
    assert_eq!(first_break(after, &rows), None);
    let (last, erased) = rows.split_last().expect("rows");
    assert!(erased.iter().all(|row| row.body.is_none()));
    assert!(last.body.as_ref().is_some_and(|body| body.contains("erased")));
    assert_eq!(erased[0].body_sha256, sha256);

    let by_handoff = keeper.act_by_handoff(&after.thread, &after.handoff.id).await;
    assert_eq!(by_handoff, Ok(Some(after.clone())));
    let by_message = keeper.act_by_message(&after.thread, &after.handoff.id).await;
    assert_eq!(by_message, Ok(Some((after.clone(), None))));
    let thread = keeper.thread(&after.thread, None, 0).await.expect("a thread");
    let lines = thread.items.iter().filter(|l| l.act_id == after.act_id);
    let lines: Vec<_> = lines.map(|l| l.line.clone()).collect();
    assert!(lines.len() >= 3 && lines.iter().all(Option::is_none), "{lines:?}");
}

/// A handoff's id, a message's id and a likeness are taken as before; a change made from before the erasure is stale.
pub async fn what_was_erased_still_stands_in_the_way(keeper: &dyn Keeper, clock: &HandClock) {
    let before = act_in(keeper, 1, State::Done).await;
    clock.advance_s(DAY_S);
    let done = keeper.purge(keeper.now(), 0).await.expect("a purge");
    assert_eq!(done.acts, 1);
    let after = read(keeper, before.act_id).await;

    let mut same_id = sample::prepared(2, after.updated_at);
    same_id.handoff.id.clone_from(&after.handoff.id);
    let alike = Act {
        likeness: before.likeness.clone(),
        ..sample::prepared(3, after.updated_at)
    };
    let guard = TwinGuard {
        likeness: before.likeness.clone().unwrap_or_default(),
        since: Timestamp(i64::MIN),
        states: vec![State::Done],
        except: Vec::new(),
    };
    let twin = Change {
        unless_twin: Some(guard),
        ..sample::insert(alike)
    };
    let message = Entry::line("scheduler-e1", "again", "scheduler");
    let other = super::inserted(keeper, 4).await;
    let refused = [
        sample::insert(same_id),
        twin,
        sample::update(other, vec![message]),
        sample::update(before.clone(), entries(9)),
    ];
    for (i, change) in refused.into_iter().enumerate() {
        match (i, answered(keeper.write(fixed(vec![change])).await)) {
            (0, Written::Taken(Taken::Handoff(holder))) | (1, Written::Taken(Taken::Twin(holder))) => {
                assert_eq!(*holder, after)
            }
            (2, Written::Taken(Taken::Message { message_id })) => assert_eq!(message_id, "scheduler-e1"),
            (3, Written::Stale { current, .. }) => assert_eq!(current.as_deref(), Some(&after)),
            (_, other) => panic!("{i}: {other:?}"),
        }
    }

    // And it can be written on, as by a cancel that comes too late, without its texts coming back.
    let late = after.clone();
    let late = advance(keeper, move |_| vec![sample::update(late.clone(), entries(9))])
        .await
        .remove(0);
    assert_eq!(read(keeper, late.act_id).await, late);
    assert_eq!(late.erased_handoff(), after.erased_handoff());
    let rows = keeper.journal(late.act_id).await.expect("a journal");
    assert_eq!(first_break(&late, &rows), None);
}

/// Round by round, the oldest first; what is kept for a person is passed over and stops nothing.
pub async fn a_purge_goes_in_rounds_past_what_is_kept(keeper: &dyn Keeper, clock: &HandClock) {
    let mut kept = Vec::new();
    for n in 1..=5_u64 {
        let verdict = if n % 2 == 0 {
            Verdict::Mismatch
        } else {
            Verdict::Contradicted
        };
        let act = act_in(keeper, n, State::Done).await;
        let act = changed(keeper, act, move |mut act, _| {
            if let Stage::Done(closed) = &mut act.stage {
                closed.verdict = Some(verdict);
            }
            act
        })
        .await;
        kept.push(act);
    }
    let mut old = Vec::new();
    for n in (11..=17_u64).rev() {
        clock.advance_s(1);
        old.push(act_in(keeper, n, State::Failed).await);
    }
    clock.advance_s(DAY_S);
    let older_than = keeper.now();
    let mut rounds = Vec::new();
    loop {
        let done = keeper.purge(older_than, 3).await.expect("a purge");
        rounds.push(done.acts);
        let gone: usize = rounds.iter().sum::<u64>().try_into().unwrap_or(0);
        for (i, act) in old.iter().enumerate() {
            let now = read(keeper, act.act_id).await;
            assert_eq!(now.erased_handoff().is_some(), i < gone, "act {i}, {rounds:?}");
        }
        if !done.more {
            break;
        }
    }
    assert_eq!(rounds, [3, 3, 1]);
    for act in kept {
        assert_eq!(read(keeper, act.act_id).await, act);
    }
}

/// While it runs, everybody else writes; a closed act that is changed meanwhile is erased whole or not at all.
pub async fn a_purge_is_in_nobodys_way(keeper: &dyn Keeper, clock: &HandClock) {
    let mut old = Vec::new();
    for n in 1..=60_u64 {
        old.push(act_in(keeper, n, State::Done).await);
    }
    clock.advance_s(DAY_S);
    let older_than = keeper.now();
    let purge = async {
        let mut acts = 0;
        for _ in 0..30 {
            let done = keeper.purge(older_than, 7).await.expect("a purge");
            acts += done.acts;
            if !done.more {
                break;
            }
        }
        acts
    };
    let late = old
        .iter()
        .filter(|a| a.act_id.as_bytes()[15] % 3 == 0)
        .map(|act| {
            let change = sample::update(act.clone(), entries(100 + u64::from(act.act_id.as_bytes()[15])));
            keeper.write(fixed(vec![change]))
        });
    let fresh = (101..=160_u64).map(|n| async move { sample::cycle(keeper, n).await });
    let (purged, (late, fresh)) = join(purge, join(join_all(late), join_all(fresh))).await;
    assert!(fresh.iter().all(Result::is_ok), "{fresh:?}");
    let late = late.into_iter().map(answered);
    let late = late.filter(|w| matches!(w, Written::Advanced { .. })).count() as u64;

    let mut erased = 0;
    for before in &old {
        let after = read(keeper, before.act_id).await;
        let rows = keeper.journal(before.act_id).await.expect("a journal");
        assert_eq!(first_break(&after, &rows), None);
        if after.erased_handoff().is_some() {
            erased += 1;
            assert_eq!(after.version, before.version + 1);
            assert_eq!(rows.iter().filter(|row| row.body.is_some()).count(), 1);
        } else {
            assert!(rows.iter().all(|row| row.body.is_some()));
            assert_eq!(after.handoff.line, before.handoff.line);
            assert_eq!(after.version, before.version + 1, "the late line was first");
        }
    }
    // A late line made its act young again.
    assert_eq!((purged, erased + late), (erased, 60));
}
