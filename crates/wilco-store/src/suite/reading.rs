//! Lists, pages, threads and what is due.

use std::collections::HashMap;

use wilco_core::journal::{Entry, OURSELVES};
use wilco_core::{Act, ActId, State, Timestamp};

use super::hand::HandClock;
use super::writes::in_state;
use super::{advance, changed, inserted, inserted_as, read, sample};
use crate::{Filter, Keeper, StoreError};

/// Twelve acts of two threads, three senders, two asks and every state.
async fn twelve(keeper: &dyn Keeper) -> Vec<Act> {
    let mut acts = Vec::new();
    for n in 1..=12_u64 {
        let act = advance(keeper, move |at| {
            let mut act = sample::prepared(n, at);
            act.thread = format!("thread-{}", n % 2);
            act.handoff.sender = format!("sender-{}", n % 3);
            act.handoff.ask = if n % 4 == 0 { "UNDO" } else { "PAY" }.to_owned();
            let state = State::ALL[usize::try_from(n).unwrap_or(0) % State::ALL.len()];
            vec![sample::insert(in_state(act, state, at))]
        })
        .await
        .remove(0);
        acts.push(act);
    }
    acts.reverse();
    acts
}

/// Every filter, alone and together, answers what a look at all acts would, newest first.
pub async fn lists_are_newest_first_and_filtered(keeper: &dyn Keeper, _: &HandClock) {
    let all = twelve(keeper).await;
    let some = |words: &[&str]| Some(words.iter().map(|&w| w.to_owned()).collect::<Vec<_>>());
    let states = [
        vec![],
        vec![State::Done],
        vec![State::Executing, State::Prepared, State::InDoubt],
        vec![State::Done, State::Done],
        State::ALL.to_vec(),
    ];
    let asks = [None, Some("UNDO".to_owned()), Some("NONE".to_owned())];
    let threads = [None, Some("thread-1".to_owned())];
    let senders = [
        None,
        some(&[]),
        some(&["sender-1"]),
        some(&["sender-2", "sender-0", "sender-2", "nobody"]),
    ];
    for states in &states {
        for ask in &asks {
            for thread in &threads {
                for senders in &senders {
                    let filter = Filter {
                        states: states.clone(),
                        ask: ask.clone(),
                        thread: thread.clone(),
                        senders: senders.clone(),
                        page_token: None,
                        limit: 0,
                    };
                    let wanted: Vec<&Act> = all
                        .iter()
                        .filter(|a| states.is_empty() || states.contains(&a.state()))
                        .filter(|a| ask.as_ref().is_none_or(|ask| *ask == a.handoff.ask))
                        .filter(|a| thread.as_ref().is_none_or(|thread| *thread == a.thread))
                        .filter(|a| senders.as_ref().is_none_or(|s| s.contains(&a.handoff.sender)))
                        .collect();
                    let page = keeper.acts(&filter).await.expect("a page");
                    assert_eq!(page.items.iter().collect::<Vec<_>>(), wanted, "{filter:?}");
                    assert_eq!(page.next, None);
                }
            }
        }
    }
}

/// Page by page, of any size and through any filter, is the whole list.
pub async fn pages_neither_skip_nor_repeat(keeper: &dyn Keeper, _: &HandClock) {
    twelve(keeper).await;
    let filters = [
        Filter::default(),
        Filter {
            states: vec![State::Done, State::Prepared, State::Held],
            ..Filter::default()
        },
        Filter {
            senders: Some(vec!["sender-0".to_owned(), "sender-2".to_owned()]),
            ..Filter::default()
        },
        Filter {
            thread: Some("thread-0".to_owned()),
            ..Filter::default()
        },
    ];
    for filter in filters {
        let whole = keeper.acts(&filter).await.expect("a list").items;
        for limit in 1..=5 {
            let mut filter = Filter {
                limit,
                ..filter.clone()
            };
            let mut seen = Vec::new();
            loop {
                let page = keeper.acts(&filter).await.expect("a page");
                assert!(page.items.len() <= limit as usize);
                seen.extend(page.items);
                filter.page_token = page.next;
                if filter.page_token.is_none() {
                    break;
                }
                // A newer act does not move the pages that follow.
                assert!(seen.len() <= whole.len(), "the pages do not end");
            }
            assert_eq!(seen, whole);
        }
    }
}

/// A token nobody gave out is an error with a name, and never a guess.
pub async fn a_foreign_page_token_is_refused(keeper: &dyn Keeper, _: &HandClock) {
    inserted(keeper, 1).await;
    for token in ["", "x", "7", "' OR 1=1", "0000.1.2", "1.2.3.4"] {
        let filter = Filter {
            page_token: Some(token.to_owned()),
            ..Filter::default()
        };
        assert_eq!(
            keeper.acts(&filter).await,
            Err(StoreError::PageToken),
            "{token:?}"
        );
        let thread = keeper.thread(sample::THREAD, Some(token), 10).await;
        assert_eq!(thread, Err(StoreError::PageToken), "{token:?}");
    }
}

/// Due is what is not final and whose time has come; the most overdue first, at most as many as asked for.
pub async fn what_is_due_comes_most_overdue_first(keeper: &dyn Keeper, clock: &HandClock) {
    let late = |by: i64| {
        move |mut act: Act| {
            act.limit = act.created_at.plus_seconds(by);
            act
        }
    };
    let third = inserted_as(keeper, 1, late(30)).await;
    let first = inserted_as(keeper, 2, late(10)).await;
    let second = inserted_as(keeper, 3, late(20)).await;
    let not_yet = inserted_as(keeper, 4, late(900)).await;
    let over = inserted_as(keeper, 5, late(1)).await;
    changed(keeper, over, sample::done).await;
    let elsewhere = inserted_as(keeper, 6, move |act| {
        let mut act = late(15)(act);
        act.thread = "another thread".to_owned();
        act
    })
    .await;

    assert_eq!(keeper.due(keeper.now(), 10).await, Ok(Vec::new()));
    clock.advance_s(60);
    let now = keeper.now();
    let ids = |acts: Vec<Act>| acts.into_iter().map(|a| a.act_id).collect::<Vec<ActId>>();
    let due = ids(keeper.due(now, 10).await.expect("what is due"));
    assert_eq!(
        due,
        [first.act_id, elsewhere.act_id, second.act_id, third.act_id],
        "not {}",
        not_yet.act_id
    );
    assert_eq!(ids(keeper.due(now, 2).await.expect("what is due")), due[..2]);
    assert_eq!(keeper.due(now, 0).await, Ok(Vec::new()));

    let here = keeper.due_in_thread(sample::THREAD, now).await;
    let here = ids(here.expect("what is due here"));
    assert_eq!(here, [first.act_id, second.act_id, third.act_id]);
    let nowhere = keeper.due_in_thread("no such thread", now).await;
    assert_eq!(nowhere, Ok(Vec::new()));

    // Exactly at its time it is due.
    let instant = first.due_at().expect("a time");
    assert_eq!(ids(keeper.due(instant, 10).await.expect("due")), [first.act_id]);
    assert_eq!(keeper.due(Timestamp(instant.0 - 1), 10).await, Ok(Vec::new()));
}

/// Executing and in doubt, and nothing else.
pub async fn what_is_claimed_comes_oldest_first(keeper: &dyn Keeper, _: &HandClock) {
    let all = twelve(keeper).await;
    let mut claimed: Vec<Act> = all.into_iter().filter(|a| a.execution().is_some()).collect();
    claimed.reverse();
    assert!(claimed.len() >= 2);
    assert_eq!(keeper.claimed().await, Ok(claimed));
}

/// Lines of several acts, interleaved, stand in the order they were written; rows that are not lines are not in it.
pub async fn a_thread_is_read_in_the_order_it_was_written(keeper: &dyn Keeper, _: &HandClock) {
    let mut wanted = Vec::new();
    let mut ids = Vec::new();
    for n in 1..=3_u64 {
        let act = inserted(keeper, n).await;
        wanted.push(act.handoff.line.clone());
        wanted.push(act.offer().map(|o| o.statement.clone()).unwrap_or_default());
        ids.push(act.act_id);
    }
    for (n, id) in ids.iter().rev().chain(&ids).enumerate() {
        let act = read(keeper, *id).await;
        let text = format!("line {n}");
        let line = Entry::line(format!("scheduler-l{n}"), &text, "scheduler");
        let event = Entry::event("no line", serde_json::json!({}), OURSELVES);
        advance(keeper, move |_| {
            vec![sample::update(act.clone(), vec![event.clone(), line.clone()])]
        })
        .await;
        wanted.push(text);
    }
    inserted_as(keeper, 9, |mut act| {
        act.thread = "another thread".to_owned();
        act
    })
    .await;

    let whole = keeper.thread(sample::THREAD, None, 0).await.expect("a thread");
    assert_eq!(whole.next, None);
    let lines = |items: &[crate::ThreadLine]| {
        let lines = items.iter().map(|l| l.line.clone().unwrap_or_default());
        lines.collect::<Vec<_>>()
    };
    assert_eq!(lines(&whole.items), wanted);
    assert!(whole.items.windows(2).all(|w| w[0].at <= w[1].at));

    for size in 1..=5 {
        let mut seen = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let page = keeper.thread(sample::THREAD, after.as_deref(), size).await;
            let page = page.expect("a page");
            assert!(page.items.len() <= size as usize);
            seen.extend(lines(&page.items));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen, wanted, "{size} a page");
    }
    let none = keeper.thread("no such thread", None, 10).await.expect("a page");
    assert!(none.items.is_empty());
}

/// By an id that was given out, the act and the words; by any other, nothing.
pub async fn a_message_leads_to_its_act(keeper: &dyn Keeper, _: &HandClock) {
    let act = inserted(keeper, 1).await;
    let statement = act.offer().map(|o| o.statement.clone());
    let found = keeper.act_by_message(sample::THREAD, "payer-101").await;
    assert_eq!(found, Ok(Some((act, statement))));
    for (thread, id) in [("another thread", "payer-101"), (sample::THREAD, "payer-102")] {
        assert_eq!(keeper.act_by_message(thread, id).await, Ok(None));
    }
}

/// Every state is in the answer, those without acts too.
pub async fn states_are_counted(keeper: &dyn Keeper, _: &HandClock) {
    let zero: Vec<(State, u64)> = State::ALL.into_iter().map(|s| (s, 0)).collect();
    assert_eq!(keeper.counts().await, Ok(zero));
    let mut wanted: HashMap<State, u64> = HashMap::new();
    for act in twelve(keeper).await {
        *wanted.entry(act.state()).or_default() += 1;
    }
    let counts = keeper.counts().await.expect("counts");
    assert_eq!(counts.len(), State::ALL.len());
    for (state, count) in counts {
        assert_eq!(count, wanted.get(&state).copied().unwrap_or(0), "{state:?}");
    }
}
