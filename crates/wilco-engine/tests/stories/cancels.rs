//! A cancel is told the truth: abandoned, already done, or not known yet.

use std::time::Duration;

use wilco_core::{Reason, State};
use wilco_engine::CommitRequest;

use crate::common::*;

fn brief(request: CommitRequest) -> CommitRequest {
    CommitRequest {
        wait: Some(Duration::ZERO),
        ..request
    }
}

#[tokio::test]
async fn an_unconfirmed_handoff_is_abandoned_released_and_never_executed() {
    let house = house().await;
    let prepared = house.prepare(&ho(1)).await;
    let cancelled = house.cancel(&cx(2, "scheduler-1")).await;
    assert_eq!(cancelled.act.state(), State::Cancelled);
    assert_eq!(
        cancelled.reply,
        "RW1 AN payer-102 re=scheduler-2 from=payer to=scheduler val=Y p=pay // statement abandoned; nothing was done"
    );
    let refused = house.try_commit(yes(&prepared, 3)).await.expect_err("cancelled");
    assert_eq!(
        (refused.reason, refused.line),
        (Reason::Cancelled, Some(cancelled.reply.clone()))
    );
    assert!(house.bank().nothing_was_sent());
    let released = eventually(async || (locked(&house.bank().released).len() == 1).then_some(()));
    assert!(released.await.is_some());
    // The handoff sent again gets the line that closed it.
    let again = house.prepare(&ho(1)).await;
    assert_eq!((again.reply, again.replayed), (cancelled.reply, true));
    house.assert_thread_is_sound().await;
}

#[tokio::test]
async fn the_same_cancel_gets_the_same_answer_and_its_id_with_other_bytes_is_a_conflict() {
    let mut house = house().await;
    house.prepare(&ho(1)).await;
    let first = house.cancel(&cx(2, "scheduler-1")).await;
    house.restart().await;
    let again = house.cancel(&cx(2, "scheduler-1")).await;
    assert_eq!((again.reply, again.replayed), (first.reply, true));
    let lines = house.lines().await;
    let other = cx(2, "scheduler-1").replace(" why=REVOKED", " why=TIMEOUT");
    let refused = house.try_cancel(&other).await.expect_err("conflict");
    assert_eq!(
        (refused.reason, refused.field.as_deref()),
        (Reason::HandoffConflict, Some("cx"))
    );
    assert_eq!(house.lines().await, lines);
    // A second cancel of what is cancelled is acknowledged as well.
    let second = house.cancel(&cx(4, "scheduler-1")).await;
    assert!(second.reply.starts_with("RW1 AN ") && second.reply.contains(" re=scheduler-4 "));
    house.assert_thread_is_sound().await;
}

#[tokio::test]
async fn a_cancel_after_the_act_was_done_is_answered_with_what_was_done() {
    let house = house().await;
    let prepared = house.prepare(&ho(1)).await;
    let done = house.commit(yes(&prepared, 2)).await;
    let cancelled = house.cancel(&cx(3, "scheduler-1")).await;
    assert_eq!(cancelled.reply, done.reply);
    assert_eq!(cancelled.act.state(), State::Done);
    assert!(cancelled.notes[0].contains("ask=UNDO"));
    assert_eq!(house.lines().await.last(), Some(&cx(3, "scheduler-1")));
    let again = house.cancel(&cx(3, "scheduler-1")).await;
    assert_eq!((again.reply, again.replayed), (done.reply, true));
    house.assert_thread_is_sound().await;
}

#[tokio::test]
async fn a_cancel_while_executing_waits_for_the_truth_whichever_it_is() {
    for (call, answer) in [(Call::Lands, "RW1 DN "), (Call::Rejected, "RW1 AN ")] {
        let house = house().await;
        let prepared = house.prepare(&ho(1)).await;
        house.bank().shut();
        house.bank().next(call);
        house.commit(brief(yes(&prepared, 2))).await;
        let line = cx(3, "scheduler-1");
        let (cancelled, ()) = tokio::join!(house.try_cancel(&line), async {
            let arrived = eventually(async || {
                let act = house.act(prepared.act.act_id).await;
                (act.waiting.len() == 1).then_some(())
            });
            arrived.await.expect("it arrived");
            assert_eq!(
                house.lines().await.len(),
                3,
                "it is durable, and not in the thread yet"
            );
            house.assert_thread_is_sound().await;
            house.bank().open();
        });
        let cancelled = cancelled.expect("answered");
        assert!(cancelled.reply.starts_with(answer), "{}", cancelled.reply);
        let again = house.cancel(&cx(3, "scheduler-1")).await;
        assert_eq!((again.reply, again.replayed), (cancelled.reply, true));
        house.assert_thread_is_sound().await;
    }
}

#[tokio::test]
async fn a_cancel_of_what_is_in_doubt_says_so_and_is_answered_when_it_is_known() {
    for landed in [true, false] {
        let mut house = house().await;
        house
            .bank()
            .next(if landed { Call::LandsUnheard } else { Call::Lost });
        let prepared = house.prepare(&ho(1)).await;
        house.commit(brief(yes(&prepared, 2))).await;
        house.until(prepared.act.act_id, State::InDoubt).await;
        let told = house
            .cancel_within(&cx(3, "scheduler-1"), Some(Duration::ZERO))
            .await
            .expect("told");
        assert_eq!(told.reply, "");
        assert_eq!(
            told.notes,
            ["whether it was done is not known yet; the answer follows"]
        );
        // Asked again, also by a later process: the same, and the cancel is not taken twice.
        house.restart().await;
        let told = house
            .cancel_within(&cx(3, "scheduler-1"), Some(Duration::ZERO))
            .await
            .expect("told");
        if told.reply.is_empty() {
            assert!(house.act(prepared.act.act_id).await.waiting.len() <= 1);
        }
        let answered = eventually(async || {
            house.clock().advance(20);
            let told = house
                .cancel_within(&cx(3, "scheduler-1"), Some(Duration::ZERO))
                .await
                .expect("told");
            (!told.reply.is_empty()).then_some(told.reply)
        });
        let answer = answered.await.expect("answered");
        let lines = house.lines().await;
        if landed {
            assert!(answer.starts_with("RW1 DN "), "{answer}");
            assert_eq!(lines.last(), Some(&cx(3, "scheduler-1")));
        } else {
            assert!(answer.starts_with("RW1 AN "), "{answer}");
            assert!(lines.iter().any(|l| l.starts_with("RW1 FL ")));
            assert_eq!(lines.last(), Some(&answer));
        }
        house.assert_thread_is_sound().await;
    }
}

#[tokio::test]
async fn a_cancel_that_comes_first_is_kept_and_the_handoff_refused_when_it_comes() {
    let mut house = house().await;
    let cancelled = house.cancel(&cx(2, "scheduler-1")).await;
    assert!(
        cancelled
            .reply
            .ends_with("// no such handoff was seen in this thread; it is refused should it come")
    );
    assert!(cancelled.act.is_tombstone());
    assert_eq!(house.lines().await, [] as [String; 0]);
    let again = house.cancel(&cx(2, "scheduler-1")).await;
    assert_eq!((&again.reply, again.replayed), (&cancelled.reply, true));

    house.restart().await;
    house.clock().advance(400_000);
    let refused = house.prepare(&ho(1)).await;
    assert_eq!(refused.act.state(), State::Refused);
    assert!(refused.reply.contains(" why=REVOKED "), "{}", refused.reply);
    assert_eq!(refused.token, "");
    assert_eq!(house.bank().resolved.load(std::sync::atomic::Ordering::SeqCst), 0);
    // Refused stays refused, the cancel's answer stays its answer, and it is one act.
    let again = house.prepare(&ho(1)).await;
    assert_eq!((&again.reply, again.replayed), (&refused.reply, true));
    assert_eq!(again.act.act_id, cancelled.act.act_id);
    assert_eq!(house.cancel(&cx(2, "scheduler-1")).await.reply, cancelled.reply);
    assert_eq!(
        house.lines().await,
        [ho(1), cx(2, "scheduler-1"), cancelled.reply, refused.reply]
    );
    house.assert_thread_is_sound().await;
    // Other bytes under the id are a conflict now.
    let other = house
        .try_prepare(&ho(1).replace("5400.00", "1.00"))
        .await
        .expect_err("conflict");
    assert_eq!(other.reason, Reason::HandoffConflict);
}

#[tokio::test]
async fn a_tombstone_refuses_its_id_whatever_the_receiver_and_only_there() {
    let house = house().await;
    house.cancel(&cx(2, "scheduler-1")).await;
    let elsewhere = ho(1).replace("to=payer", "to=auditor");
    let refused = house.prepare(&elsewhere).await;
    assert!(refused.reply.starts_with("RW1 UN auditor-"), "{}", refused.reply);
    assert_eq!(house.lines().await, [elsewhere, refused.reply]);
    house.assert_thread_is_sound().await;
    assert_eq!(house.prepare(&ho(3)).await.act.state(), State::Prepared);
    let other_thread = house
        .prepare_as(&scheduler(), "run-7", &ho(1))
        .await
        .expect("prepared");
    assert_eq!(other_thread.act.state(), State::Prepared);

    for re in ["payer-101", "scheduler-x", "auditor-1", "scheduler-1-1"] {
        let refused = house.try_cancel(&cx(9, re)).await.expect_err(re);
        assert_eq!(refused.reason, Reason::UnknownAct, "{re}");
    }
}

#[tokio::test]
async fn a_cancel_racing_its_own_handoff_leaves_one_truth() {
    for first in [0, 1] {
        let house = house().await;
        let (line, handoff) = (cx(2, "scheduler-1"), ho(1));
        let (prepared, cancelled) = if first == 0 {
            tokio::join!(house.try_prepare(&handoff), house.try_cancel(&line))
        } else {
            let (c, p) = tokio::join!(house.try_cancel(&line), house.try_prepare(&handoff));
            (p, c)
        };
        let (prepared, cancelled) = (prepared.expect("answered"), cancelled.expect("answered"));
        assert_eq!(prepared.act.act_id, cancelled.act.act_id);
        assert!(cancelled.reply.starts_with("RW1 AN "));
        let state = house.state(prepared.act.act_id).await;
        assert!(matches!(state, State::Cancelled | State::Refused), "{state:?}");
        house.assert_thread_is_sound().await;
        if !prepared.token.is_empty() {
            assert!(house.try_commit(yes(&prepared, 5)).await.is_err());
        }
        assert!(house.bank().nothing_was_sent());
    }
}

#[tokio::test]
async fn a_cancel_by_another_or_about_another_thing_changes_nothing() {
    let house = house().await;
    let prepared = house.prepare(&ho(1)).await;
    let request = |cx: String| wilco_engine::CancelRequest {
        thread: "scheduler".into(),
        cx,
        wait: None,
    };
    // The auditor may speak for itself, in this thread too, but the handoff is not its own.
    let foreign = cx(2, "scheduler-1")
        .replace("CX scheduler-2", "CX auditor-2")
        .replace("from=scheduler", "from=auditor");
    let refused = house
        .engine
        .cancel(&sender("auditor"), request(foreign))
        .await
        .expect_err("not theirs");
    assert_eq!(refused.reason, Reason::UnknownAct);
    // Not even under the sender's name.
    let refused = house
        .engine
        .cancel(&sender("auditor"), request(cx(2, "scheduler-1")))
        .await
        .expect_err("not theirs");
    assert_eq!(refused.reason, Reason::NotYours);
    for (line, slot) in [
        (cx(2, "scheduler-1").replace("to=payer", "to=auditor"), "to"),
        (
            cx(2, "scheduler-1").replace("item=inv:MD-2026-057", "item=inv:9"),
            "item",
        ),
    ] {
        let refused = house.try_cancel(&line).await.expect_err(slot);
        assert_eq!(
            (refused.reason, refused.slot.as_deref()),
            (Reason::Malformed, Some(slot))
        );
    }
    assert_eq!(house.state(prepared.act.act_id).await, State::Prepared);
    assert_eq!(house.lines().await.len(), 2);
}

#[tokio::test]
async fn what_did_not_validate_stays_outside_the_thread_with_its_cancel() {
    let house = house().await;
    let unknown = ho(1).replace("ask=PAY", "ask=GIVE");
    let refused = house.prepare(&unknown).await;
    assert!(
        refused.reply.contains(" why=UNK ") && refused.reply.contains("GIVE"),
        "{}",
        refused.reply
    );
    assert_eq!(house.prepare(&unknown).await.reply, refused.reply);
    let cancelled = house.cancel(&cx(2, "scheduler-1")).await;
    assert!(cancelled.reply.starts_with("RW1 AN "));
    assert!(house.cancel(&cx(2, "scheduler-1")).await.replayed);
    assert_eq!(house.lines().await, [] as [String; 0]);
    house.assert_thread_is_sound().await;

    // The other way round: its cancel came first.
    let unknown = ho(5).replace("ask=PAY", "ask=GIVE");
    house.cancel(&cx(6, "scheduler-5")).await;
    let refused = house.prepare(&unknown).await;
    assert!(refused.reply.contains(" why=REVOKED "), "{}", refused.reply);
    house.cancel(&cx(7, "scheduler-5")).await;
    assert_eq!(house.lines().await, [] as [String; 0]);
    house.assert_thread_is_sound().await;
}
