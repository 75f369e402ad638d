//! Doubt is an answer: it is said, looked into, and ended only by proof.

use std::sync::atomic::Ordering;
use std::time::Duration;

use wilco_adapter::{Found, Report};
use wilco_core::contract::{Identity, LookupBy};
use wilco_core::{Act, Reason, State, Verdict};
use wilco_engine::CommitRequest;

use crate::common::*;

fn brief(request: CommitRequest) -> CommitRequest {
    CommitRequest {
        wait: Some(Duration::ZERO),
        ..request
    }
}

/// A house whose bank will do `call`, with the act prepared and confirmed.
async fn after(call: Call) -> (House, Act) {
    let house = house().await;
    house.bank().next(call);
    let prepared = house.prepare(&ho(1)).await;
    house.commit(brief(yes(&prepared, 2))).await;
    (house, prepared.act)
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_in_doubt_and_found_again_by_our_reference() {
    let (house, act) = after(Call::LandsUnheard).await;
    house.until(act.act_id, State::InDoubt).await;
    let told = house.try_prepare(&ho(1)).await.expect("its statement");
    assert!(
        told.reply.starts_with("RW1 RB "),
        "held, executing or in doubt: its RB"
    );
    house.clock().advance(3);
    let done = house.until(act.act_id, State::Done).await;
    let closed = done.closed().expect("closed");
    assert_eq!(closed.verdict, Some(Verdict::Match));
    assert_eq!(house.bank().landed(act.act_id), 1);
    assert_eq!(
        house.bank().sendings(act.act_id),
        1,
        "looked up, never sent again"
    );
    house.assert_thread_is_sound().await;
}

#[tokio::test(start_paused = true)]
async fn absence_is_said_after_two_lookups_over_the_window_and_not_an_instant_earlier() {
    let (house, act) = after(Call::Lost).await;
    house.until(act.act_id, State::InDoubt).await;
    let looks = async |n: usize| {
        let seen = eventually(async || (locked(&house.bank().looked).len() >= n).then_some(())).await;
        assert!(seen.is_some(), "lookup {n}");
    };
    house.clock().advance(3);
    looks(1).await;
    let first = eventually(async || {
        let act = house.act(act.act_id).await;
        act.execution()
            .and_then(|e| e.progress.absent_at.first().copied())
    })
    .await
    .expect("a first absent lookup");
    // Many more lookups inside the window say absent; none of them is proof.
    for _ in 0..6 {
        let next = house
            .act(act.act_id)
            .await
            .execution()
            .map(|e| e.progress.next_at)
            .expect("in doubt");
        if next >= first.plus_seconds(60) {
            break;
        }
        let before = locked(&house.bank().looked).len();
        house.clock().set(next);
        looks(before + 1).await;
        settle_down().await;
        assert_eq!(house.state(act.act_id).await, State::InDoubt);
    }
    house
        .clock()
        .set(wilco_core::Timestamp(first.plus_seconds(60).0 - 1_000));
    settle_down().await;
    assert_eq!(
        house.state(act.act_id).await,
        State::InDoubt,
        "a millisecond too early"
    );
    house.clock().set(first.plus_seconds(61));
    let failed = house.until(act.act_id, State::Failed).await;
    assert!(failed.closed().is_some_and(|c| c.line.starts_with("RW1 FL ")));
    assert!(locked(&house.bank().looked).len() >= 2);
    house.assert_thread_is_sound().await;
}

#[tokio::test(start_paused = true)]
async fn an_act_that_lands_late_inside_the_window_is_found_and_never_called_undone() {
    let (house, act) = after(Call::Lost).await;
    let doubted = house.until(act.act_id, State::InDoubt).await;
    house.clock().advance(3);
    eventually(async || (locked(&house.bank().looked).len() == 1).then_some(())).await;
    // The bytes arrive at last.
    let frozen = &doubted.offer().expect("an offer").frozen;
    house.bank().land(act.act_id, frozen);
    house.clock().advance(600);
    let done = house.until(act.act_id, State::Done).await;
    assert_eq!(done.closed().and_then(|c| c.verdict), Some(Verdict::Match));
}

#[tokio::test(start_paused = true)]
async fn a_lookup_answered_late_says_how_it_was_when_it_was_asked() {
    let (house, act) = after(Call::Lost).await;
    let doubted = house.until(act.act_id, State::InDoubt).await;
    house.clock().advance(3);
    eventually(async || {
        let act = house.act(act.act_id).await;
        act.execution()
            .and_then(|e| e.progress.absent_at.first().copied())
    })
    .await
    .expect("a first absent lookup");
    // The second is asked soon after, and answered when the window is over. In between the act lands.
    house.bank().shut_lookups();
    house
        .bank()
        .next_lookup(Found::Absent("as of when you asked".into()));
    let asked = eventually(async || {
        house.clock().advance(1);
        (house.bank().asked.load(Ordering::SeqCst) == 2).then_some(())
    });
    assert!(asked.await.is_some());
    house.clock().advance(100);
    house
        .bank()
        .land(act.act_id, &doubted.offer().expect("an offer").frozen);
    house.bank().open_lookups();
    let closed = eventually(async || {
        house.clock().advance(1);
        let act = house.act(act.act_id).await;
        act.state().is_final().then_some(act)
    });
    assert_eq!(closed.await.expect("closed").state(), State::Done);
}

#[tokio::test(start_paused = true)]
async fn a_broken_adapter_leaves_the_act_in_doubt_whether_or_not_it_had_landed() {
    for (call, end) in [(Call::Panics, State::Failed), (Call::LandsAndPanics, State::Done)] {
        let (house, act) = after(call).await;
        let doubted = house.until(act.act_id, State::InDoubt).await;
        assert!(
            doubted
                .execution()
                .is_some_and(|e| e.progress.reason.contains("abnormally"))
        );
        house.clock().advance(3);
        if end == State::Failed {
            eventually(async || (!locked(&house.bank().looked).is_empty()).then_some(())).await;
            settle_down().await;
            house.clock().advance(70);
        }
        house.until(act.act_id, end).await;
        assert!(house.bank().sendings(act.act_id) <= 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_plain_no_of_the_counterparty_and_what_never_left_are_failures_at_once() {
    for (call, text) in [
        (Call::Rejected, "insufficient funds"),
        (Call::NotSent, "connection refused"),
    ] {
        let house = house().await;
        house.bank().next(call);
        let prepared = house.prepare(&ho(1)).await;
        let failed = house.commit(yes(&prepared, 2)).await;
        assert_eq!(failed.act.state(), State::Failed);
        assert!(
            failed.reply.starts_with("RW1 FL ") && failed.reply.ends_with(text),
            "{}",
            failed.reply
        );
        assert_eq!(locked(&house.bank().looked).len(), 0);
        let again = house.commit(yes(&prepared, 2)).await;
        assert_eq!((again.reply, again.replayed), (failed.reply, true));
        house.assert_thread_is_sound().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_accepted_is_polled_until_it_is_finished() {
    let (house, act) = after(Call::Accepted).await;
    house.bank().next_lookup(Found::Accepted(Report {
        status: "still pending".into(),
        ..Report::default()
    }));
    let theirs = eventually(async || {
        let act = house.act(act.act_id).await;
        act.execution()
            .is_some_and(|e| e.progress.accepted)
            .then_some(act)
    });
    assert_eq!(theirs.await.expect("accepted").state(), State::Executing);
    house
        .bank()
        .land(act.act_id, &act.offer().expect("an offer").frozen);
    for _ in 0..3 {
        house.clock().advance(10);
        settle_down().await;
    }
    house.until(act.act_id, State::Done).await;
    assert_eq!(house.bank().sendings(act.act_id), 1);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_at_the_claim_sends_nothing() {
    let house = house().await;
    let prepared = house.prepare(&ho(1)).await;
    house.keeper().fail(Fault {
        state: State::Executing,
        times: 1,
        written: false,
    });
    let refused = house.try_commit(yes(&prepared, 2)).await.expect_err("store down");
    assert_eq!(refused.reason, Reason::StoreDown);
    assert_eq!(locked(&house.bank().executes).len(), 0);
    assert_eq!(house.state(prepared.act.act_id).await, State::Prepared);
    assert_eq!(house.commit(yes(&prepared, 2)).await.act.state(), State::Done);
    assert_eq!(house.bank().sendings(prepared.act.act_id), 1);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_was_written_though_the_store_denied_it_sends_nothing_and_ends_by_lookup() {
    let house = house().await;
    let prepared = house.prepare(&ho(1)).await;
    house.keeper().fail(Fault {
        state: State::Executing,
        times: 1,
        written: true,
    });
    let refused = house.try_commit(yes(&prepared, 2)).await.expect_err("unknown");
    assert_eq!(refused.reason, Reason::StoreDown);
    assert_eq!(house.state(prepared.act.act_id).await, State::Executing);
    let joined = house.commit(brief(yes(&prepared, 2))).await;
    assert_eq!(joined.reply, "");
    assert_eq!(
        locked(&house.bank().executes).len(),
        0,
        "no permit without the proof"
    );
    // Nobody runs it: recovery looks, twice over the window.
    house.clock().advance(31);
    eventually(async || (!locked(&house.bank().looked).is_empty()).then_some(())).await;
    settle_down().await;
    house.clock().advance(70);
    house.until(prepared.act.act_id, State::Failed).await;
    assert!(house.bank().nothing_was_sent());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_at_the_outcome_tells_doubt_and_recovery_finds_the_truth() {
    let house = house().await;
    let prepared = house.prepare(&ho(1)).await;
    house.keeper().fail(Fault {
        state: State::Done,
        times: u32::MAX,
        written: false,
    });
    let told = house
        .commit(CommitRequest {
            wait: Some(Duration::from_millis(200)),
            ..yes(&prepared, 2)
        })
        .await;
    assert_eq!(told.reply, "", "done is said only once it is durable");
    assert_ne!(told.act.state(), State::Done);
    assert_eq!(house.bank().landed(prepared.act.act_id), 1);
    // The execution goes on trying to write, and leaves the act to nobody meanwhile.
    house.clock().advance(40);
    settle_down().await;
    house.keeper().heal();
    let done = eventually(async || {
        house.clock().advance(40);
        let act = house.act(prepared.act.act_id).await;
        (act.state() == State::Done).then_some(act)
    });
    assert_eq!(
        done.await.expect("done").closed().and_then(|c| c.verdict),
        Some(Verdict::Match)
    );
    assert_eq!(house.bank().sendings(prepared.act.act_id), 1);
    house.assert_thread_is_sound().await;
}

/// A counterparty that cannot be asked: what became of the call is known to this process alone.
#[tokio::test(start_paused = true)]
async fn an_outcome_is_not_given_up_while_the_store_is_away() {
    let house = house().await;
    {
        let mut contract = locked(&house.bank().contract);
        (contract.identity, contract.lookup) = (Identity::None, LookupBy::None);
    }
    let prepared = house.prepare(&ho(1)).await;
    house.keeper().fail(Fault {
        state: State::Done,
        times: 40,
        written: false,
    });
    let told = house.commit(brief(yes(&prepared, 2))).await;
    assert_eq!(told.reply, "");
    tokio::time::sleep(Duration::from_secs(240)).await;
    let done = house.until(prepared.act.act_id, State::Done).await;
    assert_eq!(done.closed().and_then(|c| c.verdict), Some(Verdict::Match));
    assert_eq!(locked(&house.bank().looked).len(), 0);
    assert_eq!(house.bank().sendings(prepared.act.act_id), 1);
}

#[tokio::test(start_paused = true)]
async fn a_statement_written_though_the_store_denied_it_keeps_what_was_placed_for_it() {
    let house = house().await;
    house.keeper().fail(Fault {
        state: State::Prepared,
        times: 1,
        written: true,
    });
    let refused = house.try_prepare(&ho(1)).await.expect_err("unknown");
    assert_eq!(refused.reason, Reason::StoreDown);
    settle_down().await;
    assert_eq!(*locked(&house.bank().released), []);
    let prepared = house.prepare(&ho(1)).await;
    assert!(prepared.replayed);
    assert_eq!(house.commit(yes(&prepared, 2)).await.act.state(), State::Done);
}

#[tokio::test(start_paused = true)]
async fn an_outcome_written_though_the_store_denied_it_is_not_written_twice() {
    let house = house().await;
    let prepared = house.prepare(&ho(1)).await;
    house.keeper().fail(Fault {
        state: State::Done,
        times: 1,
        written: true,
    });
    let done = house.commit(yes(&prepared, 2)).await;
    assert!(done.reply.starts_with("RW1 DN payer-102 "), "{}", done.reply);
    settle_down().await;
    let dns = house
        .lines()
        .await
        .iter()
        .filter(|l| l.starts_with("RW1 DN "))
        .count();
    assert_eq!(dns, 1);
    assert_eq!(
        house
            .act(prepared.act.act_id)
            .await
            .closed()
            .and_then(|c| c.verdict),
        Some(Verdict::Match)
    );
}

#[tokio::test(start_paused = true)]
async fn a_process_that_dies_while_executing_is_followed_by_one_that_looks_and_never_sends() {
    for landed in [true, false] {
        let mut house = house().await;
        house.bank().shut();
        let prepared = house.prepare(&ho(1)).await;
        let act_id = prepared.act.act_id;
        house.commit(brief(yes(&prepared, 2))).await;
        eventually(async || (locked(&house.bank().executes).len() == 1).then_some(())).await;
        if landed {
            house
                .bank()
                .land(act_id, &prepared.act.offer().expect("an offer").frozen);
        }
        house.restart().await;
        if landed {
            // At the start already, before it is due.
            let done = house.until(act_id, State::Done).await;
            let replayed = house.commit(yes(&prepared, 2)).await;
            assert_eq!(
                Some(replayed.reply.as_str()),
                done.closed().map(|c| c.line.as_str())
            );
            assert!(replayed.reply.starts_with("RW1 DN payer-102 "));
        } else {
            house.until(act_id, State::InDoubt).await;
            eventually(async || (!locked(&house.bank().looked).is_empty()).then_some(())).await;
            settle_down().await;
            house.clock().advance(120);
            house.until(act_id, State::Failed).await;
        }
        assert_eq!(locked(&house.bank().executes).len(), 1, "never called again");
        house.assert_thread_is_sound().await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_counterparty_that_never_answers_keeps_nobody_else_waiting() {
    let mut plan = Plan::new();
    let records = Bank::new("records");
    *locked(&records.asks) = vec!["CHGBANK"];
    plan.banks.push(records.clone());
    let house = plan.build().await;

    house.bank().next(Call::LandsUnheard);
    let stuck = house.prepare(&ho(1)).await;
    house.commit(brief(yes(&stuck, 2))).await;
    house.until(stuck.act.act_id, State::InDoubt).await;
    house.bank().shut_lookups();

    records.next(Call::LandsUnheard);
    let line = "RW1 HO scheduler-3 from=scheduler to=payer item=sup:marlow ask=CHGBANK p=pay rb=exec sup=marlow \
                acct=40-12-88/61102938 eff=20261003 apref=FD-1";
    records.next_resolve(Resolve::With("prev", "40-12-88/1"));
    let other = house.prepare(line).await;
    assert_eq!(other.act.state(), State::Prepared, "{:?}", other.problems);
    house.commit(brief(yes(&other, 4))).await;
    house.until(other.act.act_id, State::InDoubt).await;
    let waiting = house.prepare(&ho(5)).await;

    house.clock().advance(400);
    house.until(other.act.act_id, State::Done).await;
    house.until(waiting.act.act_id, State::Lapsed).await;
    assert_eq!(house.state(stuck.act.act_id).await, State::InDoubt);
    house.bank().open_lookups();
    house.until(stuck.act.act_id, State::Done).await;
}

#[tokio::test(start_paused = true)]
async fn where_absence_cannot_be_proved_a_person_is_called_and_settles_it() {
    let plan = Plan::new();
    locked(&plan.banks[0].contract).lookup = LookupBy::Evidence;
    let house = plan.build().await;
    house.bank().next(Call::Lost);
    let prepared = house.prepare(&ho(1)).await;
    let act_id = prepared.act.act_id;
    house.commit(brief(yes(&prepared, 2))).await;
    house.until(act_id, State::InDoubt).await;

    let early = house.settle(act_id, false).await.expect_err("the window is open");
    assert_eq!(early.reason, Reason::Refused);
    assert!(early.retry_after_s.is_some());

    let escalated = eventually(async || {
        house.clock().advance(60);
        tokio::time::sleep(Duration::from_millis(5)).await;
        let counts = house.engine.counts().await.expect("counts");
        (counts.escalated == 1).then_some(())
    });
    assert!(escalated.await.is_some());
    assert_eq!(house.state(act_id).await, State::InDoubt);

    // Nobody but an operator, and not without evidence.
    let request = |evidence: &str| wilco_engine::SettleRequest {
        act_id,
        done: false,
        evidence: evidence.into(),
        owner_dead: false,
    };
    let sender_says = house.engine.settle(&scheduler(), request("I saw it")).await;
    assert_eq!(sender_says.expect_err("not theirs").reason, Reason::NotYours);
    for nothing in ["", "   ", &"x".repeat(2001)] {
        let refused = house
            .engine
            .settle(&duty(), request(nothing))
            .await
            .expect_err("no evidence");
        assert_eq!(
            (refused.reason, refused.field.as_deref()),
            (Reason::Malformed, Some("evidence"))
        );
    }
    let settled = house.settle(act_id, false).await.expect("settled");
    assert_eq!(settled.act.state(), State::Failed);
    assert!(settled.reply.starts_with("RW1 FL "));
    assert_eq!(house.commit(yes(&prepared, 2)).await.reply, settled.reply);
    house.assert_thread_is_sound().await;
}

#[tokio::test(start_paused = true)]
async fn evidence_that_contradicts_a_close_is_kept_and_never_replaces_it() {
    let house = house().await;
    house.bank().next(Call::Lost);
    let prepared = house.prepare(&ho(1)).await;
    let act_id = prepared.act.act_id;
    house.commit(brief(yes(&prepared, 2))).await;
    house.until(act_id, State::InDoubt).await;
    // A lookup is under way while a person settles it as not done; then the lookup finds it.
    house.bank().shut_lookups();
    house.clock().advance(100);
    settle_down().await;
    let settled = house.settle(act_id, false).await.expect("settled");
    house
        .bank()
        .land(act_id, &prepared.act.offer().expect("an offer").frozen);
    house.bank().open_lookups();
    let contradicted = eventually(async || {
        let act = house.act(act_id).await;
        (act.closed()?.verdict == Some(Verdict::Contradicted)).then_some(act)
    });
    let contradicted = contradicted.await.expect("contradicted");
    assert_eq!(contradicted.state(), State::Failed);
    assert_eq!(
        contradicted.closed().map(|c| c.line.clone()),
        Some(settled.reply.clone())
    );
    let counts = house.engine.counts().await.expect("counts");
    assert_eq!(
        (counts.contradictions, counts.mismatches),
        (1, 0),
        "a contradiction is no mismatch: nothing is known to have run other than stated"
    );
    let journal = house.engine.journal(&duty(), act_id).await.expect("a journal");
    let last = journal.last().and_then(|r| r.body.clone()).expect("a row");
    assert!(
        last.contains("late_evidence") && last.contains(&format!("receipt-{act_id}")),
        "{last}"
    );
    assert_eq!(
        house.lines().await.iter().filter(|l| l.contains(" FL ")).count(),
        1
    );
    house.assert_thread_is_sound().await;
}

#[tokio::test]
async fn a_call_that_runs_past_its_deadline_is_left_alone_and_nobody_speaks_for_it() {
    let house = house().await;
    house.bank().shut();
    let prepared = house.prepare(&ho(1)).await;
    let act_id = prepared.act.act_id;
    house.commit(brief(yes(&prepared, 2))).await;
    eventually(async || (locked(&house.bank().executes).len() == 1).then_some(())).await;
    for _ in 0..5 {
        house.clock().advance(600);
        settle_down().await;
    }
    let act = house.act(act_id).await;
    assert_eq!(act.state(), State::Executing, "a passed deadline proves nothing");
    assert_eq!(act.execution().and_then(|e| e.progress.over_since), None);
    assert_eq!(house.bank().asked.load(Ordering::SeqCst), 0);
    assert!(house.settle(act_id, false).await.is_err());
    house.bank().open();
    let done = house.until(act_id, State::Done).await;
    assert_eq!(done.closed().and_then(|c| c.verdict), Some(Verdict::Match));
}
