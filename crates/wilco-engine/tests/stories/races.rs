//! Many at once: whatever the order, the counterparty is asked once and everybody hears the same.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use wilco_core::{Reason, State};
use wilco_engine::{CancelRequest, CommitRequest, PrepareRequest};
use wilco_store::Keeper;

use crate::common::*;

const MANY: usize = 50;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fifty_commits_of_one_token_execute_once_and_hear_the_same() {
    for slow_ms in [0, 30] {
        let house = Arc::new(house().await);
        let prepared = house.prepare(&ho(1)).await;
        house.keeper().slow_ms.store(slow_ms, Ordering::SeqCst);
        house.bank().shut();
        let callers: Vec<_> = (0..MANY)
            .map(|_| {
                let (house, request) = (Arc::clone(&house), yes(&prepared, 2));
                tokio::spawn(async move { house.try_commit(request).await })
            })
            .collect();
        house.until(prepared.act.act_id, State::Executing).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        house.bank().open();
        let mut heard = HashSet::new();
        let mut first = 0;
        for caller in callers {
            let committed = caller.await.expect("no panic").expect("answered");
            first += usize::from(!committed.replayed);
            heard.insert(committed.reply);
        }
        assert_eq!(heard.len(), 1, "{heard:?}");
        assert!(heard.iter().all(|l| l.starts_with("RW1 DN ")), "{heard:?}");
        assert_eq!(first, 1);
        assert_eq!(locked(&house.bank().executes).len(), 1);
        assert_eq!(house.bank().landed(prepared.act.act_id), 1);
        house.assert_thread_is_sound().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fifty_commits_with_confirmations_of_their_own_execute_once_too() {
    let house = Arc::new(house().await);
    let prepared = house.prepare(&ho(1)).await;
    let callers: Vec<_> = (0..MANY)
        .map(|n| {
            let request = yes(&prepared, 2 + u32::try_from(n).expect("small"));
            let house = Arc::clone(&house);
            tokio::spawn(async move { house.try_commit(request).await })
        })
        .collect();
    for caller in callers {
        let committed = caller.await.expect("no panic").expect("answered");
        assert!(committed.reply.starts_with("RW1 DN "), "{}", committed.reply);
    }
    assert_eq!(locked(&house.bank().executes).len(), 1);
    assert_eq!(
        house.lines().await.len(),
        4,
        "one confirmation stands in the thread"
    );
    house.assert_thread_is_sound().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fifty_prepares_of_one_handoff_are_one_act_with_one_statement() {
    let house = Arc::new(house().await);
    let callers: Vec<_> = (0..MANY)
        .map(|_| {
            let house = Arc::clone(&house);
            tokio::spawn(async move { house.try_prepare(&ho(1)).await })
        })
        .collect();
    let mut heard = HashSet::new();
    let mut first = 0;
    for caller in callers {
        let prepared = caller.await.expect("no panic").expect("answered");
        first += usize::from(!prepared.replayed);
        heard.insert((prepared.act.act_id, prepared.reply));
    }
    assert_eq!((heard.len(), first), (1, 1));
    assert_eq!(house.lines().await.len(), 2);
    // What the losers placed at the bank is withdrawn; what stands is not.
    let act = heard.into_iter().next().map(|(id, _)| id).expect("one");
    let stands = house.act(act).await.offer().and_then(|o| o.frozen.placed.clone());
    let resolved = house.bank().resolved.load(Ordering::SeqCst) as usize;
    let withdrawn = eventually(async || (locked(&house.bank().released).len() == resolved - 1).then_some(()));
    assert!(withdrawn.await.is_some());
    assert!(
        locked(&house.bank().released)
            .iter()
            .all(|(_, placed)| *placed != stands)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fifty_next_attempts_of_one_lapsed_handoff_are_one_statement() {
    let house = Arc::new(house().await);
    house.prepare(&ho(1)).await;
    house.clock().advance(301);
    let callers: Vec<_> = (0..MANY)
        .map(|_| {
            let house = Arc::clone(&house);
            tokio::spawn(async move { house.try_prepare(&ho(1)).await })
        })
        .collect();
    let mut heard = HashSet::new();
    for caller in callers {
        let prepared = caller.await.expect("no panic").expect("answered");
        assert_eq!(prepared.act.attempt, 2);
        heard.insert(prepared.reply);
    }
    assert_eq!(heard.len(), 1);
    assert_eq!(house.lines().await.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_commit_racing_a_cancel_is_done_and_told_or_abandoned_and_never_sent() {
    let (mut done, mut abandoned) = (0, 0);
    for round in 0..120_u64 {
        let house = Arc::new(house().await);
        let prepared = house.prepare(&ho(1)).await;
        let act_id = prepared.act.act_id;
        let chance = Seeded::new(round);
        let pauses = [chance.draw() % 120, chance.draw() % 120];
        let commit = {
            let (house, request) = (Arc::clone(&house), yes(&prepared, 2));
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_micros(pauses[0])).await;
                house.try_commit(request).await
            })
        };
        let cancel = {
            let house = Arc::clone(&house);
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_micros(pauses[1])).await;
                house.try_cancel(&cx(3, "scheduler-1")).await
            })
        };
        let committed = commit.await.expect("no panic");
        let cancelled = cancel.await.expect("no panic").expect("answered");
        match house.state(act_id).await {
            State::Done => {
                done += 1;
                let dn = committed.expect("done").reply;
                assert!(dn.starts_with("RW1 DN "));
                assert_eq!(cancelled.reply, dn, "the cancel is told of what was done");
                assert_eq!(house.bank().landed(act_id), 1);
                assert!(
                    house.lines().await.iter().all(|l| !l.contains("re=scheduler-3 ")),
                    "no AN"
                );
            }
            State::Cancelled => {
                abandoned += 1;
                assert!(cancelled.reply.starts_with("RW1 AN "), "{}", cancelled.reply);
                assert_eq!(locked(&house.bank().executes).len(), 0, "never executed");
                let refused = committed.expect_err("cancelled");
                assert_eq!(refused.reason, Reason::Cancelled);
                assert_eq!(refused.line, Some(cancelled.reply));
            }
            other => panic!("{other:?}"),
        }
        house.assert_thread_is_sound().await;
    }
    assert!(
        done > 0 && abandoned > 0,
        "both orders were seen: {done} done, {abandoned} abandoned"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_caller_that_hangs_up_changes_nothing() {
    for polls in 0..12 {
        let house = house().await;
        let prepared = house.prepare(&ho(1)).await;
        let request = yes(&prepared, 2);
        {
            let caller = scheduler();
            let mut commit = Box::pin(house.engine.commit(&caller, request.clone()));
            for _ in 0..=polls {
                let polled = std::future::poll_fn(|cx| {
                    std::task::Poll::Ready(std::future::Future::poll(commit.as_mut(), cx).is_ready())
                });
                if polled.await {
                    break;
                }
                tokio::task::yield_now().await;
            }
        } // the connection is gone
        let done = house.until(prepared.act.act_id, State::Done).await;
        let asked_again = house.commit(request).await;
        assert_eq!(Some(asked_again.reply), done.closed().map(|c| c.line.clone()));
        assert_eq!(house.bank().sendings(prepared.act.act_id), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_prepare_and_a_cancel_whose_callers_hang_up_are_finished_too() {
    let house = house().await;
    let caller = scheduler();
    drop_after_one_poll(house.engine.prepare(
        &caller,
        PrepareRequest {
            ho: ho(1),
            ..Default::default()
        },
    ))
    .await;
    let stated = eventually(async || (house.keeper().counters().writes == 1).then_some(()));
    assert!(stated.await.is_some());
    assert_eq!(house.lines().await.len(), 2);
    drop_after_one_poll(house.engine.cancel(
        &caller,
        CancelRequest {
            cx: cx(3, "scheduler-1"),
            ..Default::default()
        },
    ))
    .await;
    let act = house.prepare(&ho(1)).await.act;
    house.until(act.act_id, State::Cancelled).await;
}

async fn drop_after_one_poll<T>(verb: impl Future<Output = T>) {
    let mut verb = Box::pin(verb);
    std::future::poll_fn(|cx| std::task::Poll::Ready(verb.as_mut().poll(cx).is_ready())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_cancels_that_wait_do_not_cost_the_outcome() {
    let house = Arc::new(house().await);
    let prepared = house.prepare(&ho(1)).await;
    house.bank().shut();
    let wait = Some(Duration::ZERO);
    house
        .commit(CommitRequest {
            wait,
            ..yes(&prepared, 2)
        })
        .await;
    let callers: Vec<_> = (0..24)
        .map(|n| {
            let house = Arc::clone(&house);
            tokio::spawn(async move { house.try_cancel(&cx(10 + n, "scheduler-1")).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(5)).await;
    house.bank().open();
    let (mut told, mut full) = (0, 0);
    for caller in callers {
        match caller.await.expect("no panic") {
            Ok(cancelled) => {
                assert!(cancelled.reply.starts_with("RW1 DN "), "{}", cancelled.reply);
                told += 1;
            }
            Err(refused) => {
                assert!(
                    matches!(refused.reason, Reason::Limit | Reason::Busy),
                    "{refused:?}"
                );
                full += 1;
            }
        }
    }
    assert!(told >= 8, "{told} told, {full} refused");
    assert_eq!(house.until(prepared.act.act_id, State::Done).await.waiting, []);
    house.assert_thread_is_sound().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twenty_times_the_same_cancel_is_one_cancel_with_one_answer() {
    for first_comes in ["the handoff", "the cancel"] {
        let house = Arc::new(house().await);
        if first_comes == "the handoff" {
            house.prepare(&ho(1)).await;
        }
        let callers: Vec<_> = (0..20)
            .map(|_| {
                let house = Arc::clone(&house);
                tokio::spawn(async move { house.try_cancel(&cx(2, "scheduler-1")).await })
            })
            .collect();
        let mut heard = HashSet::new();
        let mut first = 0;
        for caller in callers {
            let cancelled = caller.await.expect("no panic").expect("answered");
            first += usize::from(!cancelled.replayed);
            heard.insert((cancelled.act.act_id, cancelled.reply));
        }
        assert_eq!((heard.len(), first), (1, 1), "{first_comes}: {heard:?}");
        let cancels = house
            .lines()
            .await
            .iter()
            .filter(|l| l.starts_with("RW1 CX "))
            .count();
        assert_eq!(cancels, usize::from(first_comes == "the handoff"));
        house.assert_thread_is_sound().await;
    }
}

/// The counterparty's trouble is about a statement that has been replaced meanwhile: the act is the answer, not the trouble.
#[tokio::test(start_paused = true)]
async fn trouble_with_a_handoff_that_moved_on_meanwhile_is_nobodys_answer() {
    for lapsed in [false, true] {
        let house = house().await;
        if lapsed {
            let prepared = house.prepare(&ho(1)).await;
            house.clock().advance(i64::from(prepared.expires_in_s) + 1);
        }
        house.bank().next_resolve(Resolve::DownLate);
        let line = ho(1);
        let (late, done) = tokio::join!(house.try_prepare(&line), async {
            eventually(async || {
                (house.bank().resolved.load(Ordering::SeqCst) > u32::from(lapsed)).then_some(())
            })
            .await;
            let prepared = house.prepare(&ho(1)).await;
            let done = house.commit(yes(&prepared, 2)).await;
            house.bank().resolve_gate.add_permits(1);
            done
        });
        let late = late.expect("answered with the act");
        assert_eq!(late.reply, done.reply);
        assert!(late.replayed);
        assert_eq!(house.bank().landed(done.act.act_id), 1);
    }
}
