//! The store's clock never runs backwards.

use std::sync::{Arc, Mutex, PoisonError};

use futures::future::join_all;
use wilco_core::{Clock, Timestamp, Written};

use super::hand::HandClock;
use super::{answered, inserted, sample};
use crate::{Keeper, StoreError};

/// Alone or among many, while the clock handed in stands still, moves or steps back a little.
pub async fn every_write_is_decided_at_a_later_instant(keeper: &dyn Keeper, clock: &HandClock) {
    let seen: Arc<Mutex<Vec<Timestamp>>> = Arc::default();
    let mut answers = Vec::new();
    for step in [0, 5, -30, 0] {
        clock.advance_s(step);
        let base = u64::try_from(answers.len()).unwrap_or(0);
        let writers = (1..=10).map(|n| {
            let seen = Arc::clone(&seen);
            keeper.write(Box::new(move |at| {
                seen.lock().unwrap_or_else(PoisonError::into_inner).push(at);
                vec![sample::insert(sample::prepared(base + n, at))]
            }))
        });
        for written in join_all(writers).await {
            match answered(written) {
                Written::Advanced { at, acts, .. } => {
                    assert_eq!(acts[0].updated_at, at);
                    answers.push(at);
                }
                other => panic!("it should have advanced: {other:?}"),
            }
        }
    }
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(seen.windows(2).all(|w| w[0] < w[1]), "{seen:?}");
    assert!(answers.iter().all(|at| seen.contains(at)));
    assert!(Some(&keeper.now()) >= seen.last());
}

/// More than a minute back: nothing is written, since a statement that ran out would be alive again.
pub async fn a_clock_set_back_stops_writes_until_acknowledged(keeper: &dyn Keeper, clock: &HandClock) {
    let act = inserted(keeper, 1).await;
    assert_eq!((keeper.healthy(), keeper.clock_behind_s()), (true, 0));

    clock.advance_s(-61);
    assert_eq!((keeper.healthy(), keeper.clock_behind_s()), (false, 61));
    assert!(keeper.now() >= act.updated_at);
    let refused = keeper
        .write(Box::new(|at| vec![sample::insert(sample::prepared(2, at))]))
        .await;
    assert!(
        matches!(&refused, Err(StoreError::Down(why)) if why.contains("61 s behind")),
        "{refused:?}"
    );
    assert_eq!(keeper.act(sample::id(2)).await, Ok(None));

    keeper.acknowledge_clock();
    assert!(keeper.healthy());
    let second = inserted(keeper, 2).await;
    assert!(second.updated_at > act.updated_at);
    assert!(
        clock.now() < second.updated_at,
        "it counts on from the highest instant"
    );
}
