//! Many at once: each is answered as if it had been alone, in some order.

use futures::future::join_all;
use wilco_core::journal::Entry;
use wilco_core::write::Taken;
use wilco_core::{Act, ActId, Change, Written};

use super::hand::HandClock;
use super::{answered, changed, fixed, inserted, read, sample};
use crate::Keeper;

/// Forty writers from one version: one advances, the others learn what it wrote.
pub async fn one_of_many_writers_of_a_version_wins(keeper: &dyn Keeper, _: &HandClock) {
    let act = inserted(keeper, 1).await;
    let writers = (0..40_u32).map(|n| {
        let mut mine = act.clone();
        mine.attempt = 100 + n;
        keeper.write(fixed(vec![sample::update(
            mine,
            super::writes::entries(n.into()),
        )]))
    });
    let mut winners = Vec::new();
    let mut told = Vec::new();
    for written in join_all(writers).await {
        match answered(written) {
            Written::Advanced { mut acts, .. } => winners.push(acts.remove(0)),
            Written::Stale { current, .. } => told.push(current.map(|c| *c)),
            other @ Written::Taken(_) => panic!("nothing else stands in the way: {other:?}"),
        }
    }
    assert_eq!(winners.len(), 1);
    assert_eq!(told.len(), 39);
    assert_eq!(read(keeper, act.act_id).await, winners[0]);
    assert!(told.iter().all(|t| t.as_ref() == Some(&winners[0])));
    let rows = keeper.journal(act.act_id).await.expect("a journal");
    assert_eq!(rows.len(), 2 + 5);
}

/// Forty acts for one handoff: one is kept, the others are told which.
pub async fn one_of_many_handoffs_with_an_id_wins(keeper: &dyn Keeper, _: &HandClock) {
    let writers = (1..=40_u64).map(|n| {
        let mut act = sample::prepared(n, keeper.now());
        act.handoff.id = "scheduler-1".to_owned();
        keeper.write(fixed(vec![sample::insert(act)]))
    });
    let mut winner: Option<Act> = None;
    let mut told = Vec::new();
    for written in join_all(writers).await {
        match answered(written) {
            Written::Advanced { mut acts, .. } => {
                assert_eq!(winner.replace(acts.remove(0)), None, "a second winner");
            }
            Written::Taken(Taken::Handoff(holder)) => told.push(*holder),
            other => panic!("nothing else stands in the way: {other:?}"),
        }
    }
    let winner = winner.expect("a winner");
    assert!(told.len() == 39 && told.iter().all(|t| *t == winner));
    let kept = keeper.act_by_handoff(sample::THREAD, "scheduler-1").await;
    assert_eq!(kept, Ok(Some(winner)));
}

/// Writers that are stale, taken or senseless, among writers that are not: each gets its own answer, and the answers
/// are what can then be read.
pub async fn refused_writers_touch_no_other(keeper: &dyn Keeper, _: &HandClock) {
    let old = inserted(keeper, 1).await;
    let current = changed(keeper, old.clone(), sample::claimed).await;
    let reversed = inserted(keeper, 2).await.act_id;
    let at = keeper.now();

    let good = |n: u64| vec![sample::insert(sample::prepared(n, at))];
    let stale = vec![sample::update(sample::lapsed(old.clone()), Vec::new())];
    let mut taken = sample::prepared(50, at);
    taken.handoff.id.clone_from(&old.handoff.id);
    let mut twice = sample::insert(sample::prepared(51, at));
    twice
        .entries
        .push(Entry::line("scheduler-2", "again", "scheduler"));
    let reversing = |n: u64| {
        let mut act = sample::prepared(n, at);
        act.undo_of = Some(reversed);
        vec![sample::insert(act)]
    };
    let both = || vec![sample::update(current.clone(), Vec::new()); 2];
    let jobs: Vec<Vec<Change>> = vec![
        good(10),
        stale.clone(),
        good(11),
        vec![sample::insert(taken)],
        good(12),
        vec![twice],
        reversing(13),
        good(14),
        reversing(52),
        both(),
        Vec::new(),
        stale,
        good(15),
    ];
    let answers = join_all(jobs.into_iter().map(|job| keeper.write(fixed(job)))).await;

    let mut words = Vec::new();
    let mut kept: Vec<Act> = Vec::new();
    for answer in answers {
        words.push(match answer {
            Ok(Written::Advanced { acts, .. }) => {
                let word = if acts.is_empty() { "nothing" } else { "advanced" };
                kept.extend(acts);
                word
            }
            Ok(Written::Stale { current: told, .. }) => {
                assert_eq!(told.as_deref(), Some(&current));
                "stale"
            }
            Ok(Written::Taken(Taken::Handoff(_))) => "handoff",
            Ok(Written::Taken(Taken::Message { .. })) => "message",
            Ok(Written::Taken(Taken::Undo { .. })) => "undo",
            Ok(Written::Taken(Taken::Twin(_))) => "twin",
            Err(_) => "senseless",
        });
    }
    // Which of the two reversals was first is nobody's promise; that it is one is.
    let mut reversals = [words[6], words[8]];
    reversals.sort_unstable();
    assert_eq!(reversals, ["advanced", "undo"]);
    words.remove(8);
    words.remove(6);
    assert_eq!(
        words,
        [
            "advanced",
            "stale",
            "advanced",
            "handoff",
            "advanced",
            "message",
            "advanced",
            "senseless",
            "nothing",
            "stale",
            "advanced"
        ]
    );
    assert_eq!(kept.len(), 6);
    for act in &kept {
        assert_eq!(read(keeper, act.act_id).await, *act);
    }
    for n in [50, 51, 52] {
        let reversal = keeper.act(sample::id(n)).await.expect("an answer");
        assert_eq!(reversal.is_some(), kept.iter().any(|a| a.act_id == sample::id(n)));
    }
    let standing = keeper.act_undoing(reversed).await.expect("an answer");
    let one: Vec<ActId> = kept
        .iter()
        .filter(|a| a.undo_of.is_some())
        .map(|a| a.act_id)
        .collect();
    assert_eq!(standing.map(|a| a.act_id), one.first().copied());
    let counters = keeper.counters();
    assert_eq!(counters.refused, 5);
    assert_eq!(counters.writes, 3 + 6);
}
