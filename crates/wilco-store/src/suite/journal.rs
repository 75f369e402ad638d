//! The chain: it holds as written, and any change to a row shows.

use wilco_core::journal::first_break;

use super::hand::HandClock;
use super::writes::entries;
use super::{advance, inserted, read, sample};
use crate::Keeper;

/// Over several writes and every kind of row, and per act.
pub async fn every_chain_holds(keeper: &dyn Keeper, _: &HandClock) {
    let ids = [inserted(keeper, 1).await.act_id, inserted(keeper, 2).await.act_id];
    for n in 1..=6 {
        let act = read(keeper, ids[n % 2]).await;
        advance(keeper, move |_| {
            vec![sample::update(act.clone(), entries(n as u64))]
        })
        .await;
    }
    for id in ids {
        let act = read(keeper, id).await;
        let rows = keeper.journal(id).await.expect("a journal");
        assert_eq!(rows.len(), 17);
        assert_eq!(
            rows.iter().map(|r| r.seq).collect::<Vec<_>>(),
            (1..=17).collect::<Vec<_>>()
        );
        assert_eq!(first_break(&act, &rows), None);
        assert_eq!(rows.last().map(|r| &r.hash), Some(&act.head));
    }
    assert_eq!(keeper.journal(sample::id(9)).await, Ok(Vec::new()));
}

/// Whatever is changed in a row read back, the first break is there.
pub async fn a_changed_row_breaks_the_chain(keeper: &dyn Keeper, _: &HandClock) {
    let act = inserted(keeper, 1).await;
    let act = advance(keeper, move |_| vec![sample::update(act.clone(), entries(1))])
        .await
        .remove(0);
    let rows = keeper.journal(act.act_id).await.expect("a journal");
    let changes: [fn(&mut wilco_core::journal::Row); 5] = [
        |r| r.body = Some("another line".to_owned()),
        |r| r.principal.push('x'),
        |r| r.at.0 += 1,
        |r| r.message_id = Some("scheduler-77".to_owned()),
        |r| r.hash = "0".repeat(64),
    ];
    for change in changes {
        let mut rows = rows.clone();
        change(&mut rows[2]);
        assert_eq!(first_break(&act, &rows), Some(3));
    }
    let mut short = rows.clone();
    short.pop();
    assert_eq!(first_break(&act, &short), Some(7), "the last row is missing");
    let mut erased = rows;
    erased[2].body = None;
    assert_eq!(first_break(&act, &erased), None, "a body may go");
}
