//! How counterparties do: one that is down stops nothing but its own acts, and what one may still reject is watched.

use std::sync::atomic::Ordering;
use std::time::Duration;

use wilco_core::{Reason, State, Verdict};

use crate::common::*;

/// Until the counterparty was asked how it does, and its answer counts.
async fn asked() {
    tokio::time::sleep(Duration::from_secs(15)).await;
}

#[tokio::test(start_paused = true)]
async fn a_counterparty_that_is_down_at_the_start_stops_only_its_own_acts() {
    let plan = Plan::new();
    *locked(&plan.banks[0].down) = Some("connection refused");
    let house = plan.build().await;
    asked().await;
    assert!(house.engine.ready().is_ok(), "the daemon itself is well");
    let status = house.engine.adapters().remove(0);
    assert!(status.down);
    assert_eq!(status.trouble.as_deref(), Some("connection refused"));
    let refused = house.try_prepare(&ho(1)).await.expect_err("down");
    assert_eq!(refused.reason, Reason::AdapterDown);
    assert!(refused.text.contains("connection refused"), "{}", refused.text);
    assert!(refused.retry_after_s.is_some());
    assert_eq!(
        house.bank().resolved.load(Ordering::SeqCst),
        0,
        "nobody was asked"
    );

    // It comes back by itself, and so does the daemon's trust in it.
    *locked(&house.bank().down) = None;
    asked().await;
    assert!(!house.engine.adapters().remove(0).down);
    assert_eq!(house.prepare(&ho(1)).await.act.state(), State::Prepared);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_claimed_for_a_counterparty_that_is_down() {
    let house = house().await;
    let prepared = house.prepare(&ho(1)).await;
    *locked(&house.bank().down) = Some("no answer");
    asked().await;
    let refused = house.try_commit(yes(&prepared, 2)).await.expect_err("down");
    assert_eq!(refused.reason, Reason::AdapterDown);
    assert_eq!(house.state(prepared.act.act_id).await, State::Prepared);
    assert!(house.bank().nothing_was_sent());
    *locked(&house.bank().down) = None;
    asked().await;
    assert_eq!(house.commit(yes(&prepared, 2)).await.act.state(), State::Done);
    house.assert_thread_is_sound().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_claimed_already_is_looked_up_all_the_same() {
    let house = house().await;
    let prepared = house.prepare(&ho(1)).await;
    house.bank().next(Call::LandsUnheard);
    let mut now = yes(&prepared, 2);
    now.wait = Some(Duration::ZERO);
    house.commit(now).await;
    *locked(&house.bank().down) = Some("no answer");
    house.until(prepared.act.act_id, State::InDoubt).await;
    asked().await;
    house.clock().advance(3);
    house.until(prepared.act.act_id, State::Done).await;
    assert_eq!(house.bank().landed(prepared.act.act_id), 1);
    assert!(
        house.engine.adapters().remove(0).down,
        "only its own word that it is well counts: the answer may be another part's of it"
    );
}

#[tokio::test(start_paused = true)]
async fn one_act_that_goes_wrong_says_little_of_the_counterparty() {
    let house = house().await;
    house.bank().next_resolve(Resolve::Down);
    assert!(house.try_prepare(&ho(1)).await.is_err());
    // Trouble is shown, and the counterparty was asked and is well: the next one goes through.
    assert!(house.engine.adapters().remove(0).trouble.is_some());
    asked().await;
    assert!(!house.engine.adapters().remove(0).down);
    assert_eq!(house.prepare(&ho(1)).await.act.state(), State::Prepared);
    assert_eq!(house.engine.adapters().remove(0).trouble, None);
}

// ---- done, and not final

#[tokio::test(start_paused = true)]
async fn what_is_rejected_after_it_was_done_calls_people_and_stays_in_the_record() {
    let house = house().await;
    house.bank().provisional.store(true, Ordering::SeqCst);
    let prepared = house.prepare(&ho(1)).await;
    let done = house.commit(yes(&prepared, 2)).await;
    assert_eq!(done.act.state(), State::Done);
    assert!(
        done.notes.iter().any(|n| n.contains("may still reject it")),
        "{:?}",
        done.notes
    );
    let id = done.act.act_id;

    house.bank().next_lookup(wilco_adapter::Found::Rejected(
        "the payee's bank sent it back".into(),
    ));
    for _ in 0..3 {
        house.clock().advance(120);
        asked().await;
    }
    let act = house.act(id).await;
    let closed = act.closed().expect("closed");
    let asked_with = locked(&house.bank().asked_with).clone();
    assert_eq!(
        asked_with, closed.receipt,
        "it is asked for by the id it was given"
    );
    assert_eq!(act.state(), State::Done);
    assert_eq!(closed.line, done.reply, "the line stands");
    assert_eq!(closed.verdict, Some(Verdict::Contradicted));
    assert!(
        closed.notes.iter().any(|n| n.contains("sent it back")),
        "{:?}",
        closed.notes
    );
    assert_eq!(house.engine.counts().await.expect("counts").contradictions, 1);
    assert_eq!(act.due_at(), None);
    house.assert_thread_is_sound().await;
}

#[tokio::test(start_paused = true)]
async fn what_became_final_is_left_alone() {
    let house = house().await;
    house.bank().provisional.store(true, Ordering::SeqCst);
    let prepared = house.prepare(&ho(1)).await;
    let id = house.commit(yes(&prepared, 2)).await.act.act_id;
    house.clock().advance(120);
    asked().await;
    assert!(house.act(id).await.due_at().is_some(), "not yet");
    house.bank().provisional.store(false, Ordering::SeqCst);
    for _ in 0..3 {
        house.clock().advance(7 * 3_600);
        asked().await;
    }
    let act = house.act(id).await;
    assert_eq!(act.due_at(), None);
    let closed = act.closed().expect("closed");
    assert_eq!(closed.verdict, Some(Verdict::Match));
    assert!(
        closed.notes.iter().any(|n| n.starts_with("final")),
        "{:?}",
        closed.notes
    );
    let asked_so_far = house.bank().asked.load(Ordering::SeqCst);
    house.clock().advance(40 * 86_400);
    asked().await;
    assert_eq!(house.bank().asked.load(Ordering::SeqCst), asked_so_far);
    assert_eq!(house.bank().sendings(id), 1);
}

#[tokio::test(start_paused = true)]
async fn a_change_window_that_has_not_opened_leaves_the_statement() {
    let house = house().await;
    let prepared = house.prepare(&ho(1)).await;
    *locked(&house.bank().ready) = wilco_adapter::Ready::NotYet {
        from: NOON.plus_seconds(300),
        text: "the change window opens then".into(),
    };
    let waiting = house.try_commit(yes(&prepared, 2)).await.expect_err("too early");
    assert_eq!(waiting.reason, Reason::NotApproved);
    assert!(waiting.text.contains("2026-10-02T12:05:00"), "{}", waiting.text);
    assert_eq!(waiting.retry_after_s, Some(300));
    assert!(house.bank().nothing_was_sent());
    *locked(&house.bank().ready) = wilco_adapter::Ready::Yes;
    assert_eq!(house.commit(yes(&prepared, 2)).await.act.state(), State::Done);
}
