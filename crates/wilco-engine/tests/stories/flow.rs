//! One handoff from its arrival to its close, and the same answer ever after.

use std::sync::atomic::Ordering;
use std::time::Duration;

use wilco_adapter::Ready;
use wilco_core::{Reason, State, Verdict};

use crate::common::*;

#[tokio::test(start_paused = true)]
async fn a_payment_is_prepared_checked_confirmed_and_done() {
    let house = house().await;
    let prepared = house.prepare(&ho(1)).await;
    assert_eq!(prepared.act.state(), State::Prepared);
    assert!(!prepared.replayed);
    assert_eq!(prepared.expires_in_s, 300);
    assert_eq!(
        prepared.reply,
        format!("{} x_tok={}", prepared.statement, prepared.token)
    );
    // The answer with its token is itself a line the sender can check.
    let checked = rw1::check_rb(
        house.engine.profiles(),
        None,
        &ho(1),
        &prepared.reply,
        rw1::RbCheck {
            expect_acc: None,
            now: Some("20261002T1200Z"),
        },
    );
    assert_eq!(checked.problems, []);
    assert!(house.bank().nothing_was_sent(), "nothing has happened yet");
    assert_eq!(
        house.lines().await,
        [ho(1), prepared.statement.clone()],
        "never the token"
    );

    let done = house.commit(yes(&prepared, 2)).await;
    assert_eq!(done.act.state(), State::Done);
    assert!(!done.replayed);
    assert_eq!(house.bank().sendings(prepared.act.act_id), 1);
    let closed = done.act.closed().expect("closed");
    assert_eq!(closed.verdict, Some(Verdict::Match));
    assert_eq!(closed.receipt, Some(format!("receipt-{}", prepared.act.act_id)));
    let truth = rw1::check_dn(
        house.engine.profiles(),
        None,
        &ho(1),
        &done.reply,
        Some(&prepared.statement),
        Some("20261002T1200Z"),
    );
    assert_eq!(truth.problems, []);
    let said = yes(&prepared, 2).confirmation;
    assert_eq!(house.lines().await, [ho(1), prepared.statement, said, done.reply]);
    house.assert_thread_is_sound().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_again_is_answered_byte_for_byte_also_after_a_restart_and_after_exp() {
    let mut house = house().await;
    let prepared = house.prepare(&ho(1)).await;
    let again = house.prepare(&format!("{}\n", ho(1))).await;
    assert!(again.replayed);
    assert_eq!((&again.reply, &again.token), (&prepared.reply, &prepared.token));
    assert_eq!(again.act, prepared.act, "nothing was written");

    house.restart().await;
    house.clock().advance(100);
    let again = house.prepare(&ho(1)).await;
    assert!(again.replayed);
    assert_eq!(again.reply, prepared.reply);
    assert_eq!(again.expires_in_s, 200);

    let done = house.commit(yes(&prepared, 2)).await;
    house.restart().await;
    house.clock().advance(400_000);
    for _ in 0..2 {
        let again = house.commit(yes(&prepared, 2)).await;
        assert!(again.replayed);
        assert_eq!(again.reply, done.reply);
        // Whatever else it quotes: a closed act answers as it was closed.
        let bare = house
            .try_commit(wilco_engine::CommitRequest {
                token: prepared.token.clone(),
                ..Default::default()
            })
            .await
            .expect("the stored line");
        assert_eq!(bare.reply, done.reply);
        let handed = house.prepare(&ho(1)).await;
        assert!(handed.replayed);
        assert_eq!(handed.reply, done.reply);
        assert_eq!(handed.token, "", "nothing can be confirmed");
    }
    assert_eq!(house.bank().sendings(prepared.act.act_id), 1);
    house.assert_thread_is_sound().await;
}

#[tokio::test(start_paused = true)]
async fn a_token_rests_only_as_a_hash_and_is_returned_again_under_its_old_key() {
    let mut house = house().await;
    let prepared = house.prepare(&ho(1)).await;
    let stored = format!("{:?}", house.act(prepared.act.act_id).await);
    let secret = prepared.token.rsplit('.').next().expect("a secret");
    assert!(!stored.contains(secret));
    let journal = house
        .engine
        .journal(&duty(), prepared.act.act_id)
        .await
        .expect("a journal");
    assert!(
        journal
            .iter()
            .all(|r| r.body.as_ref().is_none_or(|b| !b.contains(secret)))
    );
    assert_eq!(
        wilco_core::journal::first_break(&house.act(prepared.act.act_id).await, &journal),
        None
    );

    // A new key comes first; the old one stays for the acts that use it.
    house.plan.keys.insert(0, key(2));
    house.restart().await;
    assert_eq!(house.prepare(&ho(1)).await.reply, prepared.reply);
    let newer = house.prepare(&ho(5)).await;
    assert_eq!(newer.act.tokens[0].key_id, "k2");
    assert_eq!(house.commit(yes(&prepared, 2)).await.act.state(), State::Done);
}

#[tokio::test(start_paused = true)]
async fn a_statement_that_ran_out_is_stated_again_with_a_new_token_and_the_old_one_is_stale() {
    let house = house().await;
    let first = house.prepare(&ho(1)).await;
    house.clock().advance(300);
    let second = house.prepare(&ho(1)).await;
    assert!(!second.replayed);
    assert_eq!((second.act.attempt, second.act.act_id), (2, first.act.act_id));
    assert_ne!(second.token, first.token);
    assert_eq!(id_of(&second.statement), "payer-102");
    // What was placed for the first statement is withdrawn.
    let first_consent = first.act.offer().and_then(|o| o.frozen.placed.clone());
    let withdrawn = eventually(async || {
        let released = locked(&house.bank().released);
        released
            .contains(&(first.act.act_id, first_consent.clone()))
            .then_some(())
    });
    assert!(withdrawn.await.is_some());

    for digest in [&first.statement_sha256, &second.statement_sha256] {
        let mut old = yes(&first, 2);
        old.statement_sha256.clone_from(digest);
        let stale = house.try_commit(old).await.expect_err("stale");
        assert_eq!(stale.reason, Reason::DigestStale);
        let current = (second.statement.clone(), second.statement_sha256.clone());
        assert_eq!(stale.statement, Some(current));
    }
    assert!(house.bank().nothing_was_sent());
    assert_eq!(house.commit(yes(&second, 2)).await.act.state(), State::Done);
    // The first token still opens the act: the answer is the same for both.
    assert!(
        house
            .try_commit(yes(&first, 2))
            .await
            .is_ok_and(|c| c.reply.starts_with("RW1 DN "))
    );
    house.assert_thread_is_sound().await;
}

#[tokio::test(start_paused = true)]
async fn a_token_nobody_gave_out_is_unknown_and_so_is_anothers() {
    let house = house().await;
    let prepared = house.prepare(&ho(1)).await;
    let mut forged = yes(&prepared, 2);
    let secret = prepared.token.rsplit('.').next().expect("a secret").to_owned();
    let turned: String = secret.chars().map(|c| if c == 'a' { 'b' } else { 'a' }).collect();
    for token in [
        String::new(),
        "nonsense".into(),
        prepared.token.replace(&secret, &turned),
        prepared.token.replace(".1.", ".2."),
        format!(
            "{}.1.{secret}",
            "0".repeat(12) + "7000800000000000000000"[..20].as_ref()
        ),
    ] {
        forged.token.clone_from(&token);
        let unknown = house.try_commit(forged.clone()).await.expect_err("unknown");
        assert_eq!(unknown.reason, Reason::UnknownToken, "{token}");
    }
    // Another sender, an operator and an approver hold the true token and the right digest: the same answer.
    let unknown = {
        forged.token = "nonsense".into();
        house.try_commit(forged).await.expect_err("unknown")
    };
    for stranger in [
        sender("auditor"),
        duty(),
        with_role("scheduler", wilco_engine::Role::Approver),
    ] {
        let refused = house
            .engine
            .commit(&stranger, yes(&prepared, 2))
            .await
            .expect_err("not theirs");
        assert_eq!(refused, unknown, "{}", stranger.name);
    }
    // Nor does a bare token reveal the precondition to them.
    let bare = wilco_engine::CommitRequest {
        token: prepared.token.clone(),
        ..Default::default()
    };
    let refused = house
        .engine
        .commit(&sender("auditor"), bare)
        .await
        .expect_err("not theirs");
    assert_eq!(refused, unknown);
    assert!(house.bank().nothing_was_sent());
}

#[tokio::test(start_paused = true)]
async fn a_bare_token_never_pays() {
    let house = house().await;
    let prepared = house.prepare(&ho(1)).await;
    let ask = |digest: &str, confirmation: &str| wilco_engine::CommitRequest {
        token: prepared.token.clone(),
        statement_sha256: digest.into(),
        confirmation: confirmation.into(),
        wait: None,
    };
    let right = yes(&prepared, 2);
    for (request, reason) in [
        (ask("", ""), Reason::DigestRequired),
        (ask("", &right.confirmation), Reason::DigestRequired),
        (ask(&"0".repeat(64), &right.confirmation), Reason::DigestStale),
        (ask(&right.statement_sha256, ""), Reason::ConfirmationRequired),
    ] {
        let refused = house.try_commit(request).await.expect_err("refused");
        assert_eq!(refused.reason, reason);
        assert_eq!(
            refused.statement,
            Some((prepared.statement.clone(), prepared.statement_sha256.clone()))
        );
    }
    assert!(house.bank().nothing_was_sent());
    assert_eq!(house.state(prepared.act.act_id).await, State::Prepared);
}

#[tokio::test(start_paused = true)]
async fn a_no_lapses_the_statement_and_the_handoff_may_be_stated_again() {
    let house = house().await;
    let first = house.prepare(&ho(1)).await;
    let declined = house.commit(no(&first, 2)).await;
    assert_eq!(declined.act.state(), State::Lapsed);
    assert_eq!(declined.reply, "");
    assert_eq!(
        declined.notes,
        ["the statement was declined; the handoff is still open"]
    );
    let late = house.try_commit(yes(&first, 3)).await.expect_err("lapsed");
    assert_eq!(
        (late.reason, late.line),
        (Reason::Lapsed, Some(first.statement.clone()))
    );

    let second = house.prepare(&ho(1)).await;
    assert_eq!(second.act.attempt, 2);
    assert_eq!(house.commit(yes(&second, 4)).await.act.state(), State::Done);
    assert_eq!(house.bank().sendings(first.act.act_id), 1);
    house.assert_thread_is_sound().await;
}

#[tokio::test(start_paused = true)]
async fn a_late_yes_is_written_down_before_it_is_answered_and_nothing_is_sent() {
    let house = house().await;
    let prepared = house.prepare(&ho(1)).await;
    let end = prepared.act.offer().expect("an offer").expires_at;
    house.clock().set(end);
    let late = house.try_commit(yes(&prepared, 2)).await.expect_err("late");
    // Recovery may have been first to see that the time is over: either way the lapse stands when the answer is given.
    assert!(late.reason == Reason::Expired, "{late:?}");
    assert_eq!(late.line.as_deref(), Some(prepared.statement.as_str()));
    let stored = house.keeper();
    let stored = wilco_store::Keeper::act(&**stored, prepared.act.act_id)
        .await
        .expect("the store")
        .expect("the act");
    assert_eq!(stored.state(), State::Lapsed);
    assert!(house.bank().nothing_was_sent());
    // The late yes is no line of the thread, and its id is free.
    assert_eq!(house.lines().await.len(), 2);
    let second = house.prepare(&ho(1)).await;
    assert_eq!(house.commit(yes(&second, 2)).await.act.state(), State::Done);
}

#[tokio::test(start_paused = true)]
async fn a_late_yes_is_judged_inside_the_claiming_write() {
    let mut plan = Plan::new();
    plan.config.recovery_interval = Duration::from_secs(3600);
    let house = plan.build().await;
    let prepared = house.prepare(&ho(1)).await;
    let end = prepared.act.offer().expect("an offer").expires_at;
    // It arrives in time, and the write is slow: the store's own instant counts.
    house.clock().set(wilco_core::Timestamp(end.0 - 1_000));
    house
        .keeper()
        .slow_ms
        .store(50, std::sync::atomic::Ordering::SeqCst);
    let request = yes(&prepared, 2);
    let (late, ()) = tokio::join!(house.try_commit(request), async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        house.clock().set(end);
    });
    assert_eq!(late.expect_err("late").reason, Reason::Expired);
    assert!(house.bank().nothing_was_sent());
    let journal = house
        .engine
        .journal(&duty(), prepared.act.act_id)
        .await
        .expect("a journal");
    let written = journal.last().and_then(|r| r.body.clone()).expect("a row");
    assert!(written.contains("confirmation_late"), "{written}");
}

#[tokio::test(start_paused = true)]
async fn a_yes_in_the_last_microsecond_is_in_time() {
    let house = house().await;
    let prepared = house.prepare(&ho(1)).await;
    let end = prepared.act.offer().expect("an offer").expires_at;
    house.clock().set(wilco_core::Timestamp(end.0 - 1));
    assert_eq!(house.commit(yes(&prepared, 2)).await.act.state(), State::Done);
}

#[tokio::test(start_paused = true)]
async fn no_byte_is_sent_once_the_last_moment_has_passed_though_it_was_claimed_in_time() {
    let house = house().await;
    let line = ho(1).replace("rb=exec", "rb=exec exp=20261002T1203Z");
    let prepared = house.prepare(&line).await;
    assert_eq!(
        prepared.expires_in_s, 180,
        "never later than the handoff's own end"
    );
    house.bank().asks_late.store(true, Ordering::SeqCst);
    house.bank().shut();
    let (closed, ()) = tokio::join!(house.try_commit(yes(&prepared, 2)), async {
        house.until(prepared.act.act_id, State::Executing).await;
        eventually(async || (locked(&house.bank().executes).len() == 1).then_some(())).await;
        house.clock().advance(180);
        house.bank().open();
    });
    let closed = closed.expect("closed");
    assert_eq!(closed.act.state(), State::Failed);
    assert!(closed.reply.contains("why=EXPIRED"), "{}", closed.reply);
    assert!(house.bank().nothing_was_sent());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_stood_still_past_its_deadline_does_not_begin_to_send() {
    let house = house().await;
    let prepared = house.prepare(&ho(1)).await;
    house.bank().asks_late.store(true, Ordering::SeqCst);
    house.bank().shut();
    let (closed, ()) = tokio::join!(house.try_commit(yes(&prepared, 2)), async {
        house.until(prepared.act.act_id, State::Executing).await;
        eventually(async || (locked(&house.bank().executes).len() == 1).then_some(())).await;
        let act = house.act(prepared.act.act_id).await;
        let claim = &act.execution().expect("claimed").claim;
        assert!(claim.deadline < claim.not_after);
        house.clock().set(claim.deadline);
        house.bank().open();
    });
    let closed = closed.expect("closed");
    assert_eq!(closed.act.state(), State::Failed);
    assert!(closed.reply.contains("should have been over"), "{}", closed.reply);
    assert!(house.bank().nothing_was_sent());
    house.assert_thread_is_sound().await;
}

#[tokio::test(start_paused = true)]
async fn a_handoff_that_is_over_is_closed_and_told_so_ever_after() {
    let house = house().await;
    let line = ho(1).replace("rb=exec", "rb=exec exp=20261002T1230Z");
    let prepared = house.prepare(&line).await;
    house.clock().advance(1_800);
    let closed = house.prepare(&line).await;
    assert_eq!(closed.act.state(), State::Failed);
    assert!(closed.reply.starts_with("RW1 FL ") && closed.reply.contains("why=EXPIRED"));
    let again = house
        .try_commit(yes(&prepared, 2))
        .await
        .expect("the stored line");
    assert_eq!(again.reply, closed.reply);
    house.assert_thread_is_sound().await;

    // One that is over before it comes.
    let late = house
        .prepare(&line.replace("HO scheduler-1", "HO scheduler-7"))
        .await;
    assert_eq!(late.act.state(), State::Refused);
    assert!(late.reply.contains("why=EXPIRED"), "{}", late.reply);
    house.assert_thread_is_sound().await;
}

#[tokio::test(start_paused = true)]
async fn reading_a_thread_closes_first_what_is_over() {
    let mut plan = Plan::new();
    plan.config.recovery_interval = Duration::from_secs(3600);
    let house = plan.build().await;
    house
        .prepare(&ho(1).replace("rb=exec", "rb=exec exp=20261002T1230Z"))
        .await;
    house.prepare(&ho(2)).await;
    house.clock().advance(1_800);
    let (lines, problems) = house.thread("scheduler").await;
    assert_eq!(problems, [] as [String; 0], "not orphaned: closed");
    assert!(
        lines
            .last()
            .is_some_and(|l| l.contains("re=scheduler-1 ") && l.contains("why=EXPIRED"))
    );
}

#[tokio::test(start_paused = true)]
async fn what_the_tool_resolves_otherwise_is_held_and_cannot_be_confirmed() {
    let house = house().await;
    house
        .bank()
        .next_resolve(Resolve::With("acct", "40-12-88/61102983"));
    let held = house.prepare(&ho(1)).await;
    assert_eq!(held.act.state(), State::Held);
    assert!(held.statement.contains("acct=40-12-88/61102983"));
    assert_eq!(held.problems[0].slot.as_deref(), Some("acct"));
    let refused = house.try_commit(yes(&held, 2)).await.expect_err("held");
    assert_eq!(refused.reason, Reason::Held);
    assert_eq!(refused.problems, held.problems);
    // It does not run out with the statement, only with the handoff.
    house.clock().advance(3_600);
    assert!(house.prepare(&ho(1)).await.replayed);
    assert!(house.bank().nothing_was_sent());
    let cancelled = house.cancel(&cx(3, "scheduler-1")).await;
    assert_eq!(cancelled.act.state(), State::Cancelled);
    house.assert_thread_is_sound().await;
}

#[tokio::test(start_paused = true)]
async fn what_ran_otherwise_is_reported_as_it_ran() {
    let house = house().await;
    house.bank().next(Call::LandsWith("amt", "5100.00"));
    let prepared = house.prepare(&ho(1)).await;
    let done = house.commit(yes(&prepared, 2)).await;
    assert_eq!(done.act.state(), State::Done);
    assert!(done.reply.contains(" amt=5100.00 "), "{}", done.reply);
    assert_eq!(done.act.closed().and_then(|c| c.verdict), Some(Verdict::Mismatch));
    assert_eq!(done.problems[0].slot.as_deref(), Some("amt"));
    assert_eq!(house.engine.counts().await.expect("counts").mismatches, 1);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_done_is_a_stored_un_and_a_passing_trouble_is_not() {
    let house = house().await;
    house.bank().next_resolve(Resolve::Down);
    let trouble = house.try_prepare(&ho(1)).await.expect_err("down");
    assert_eq!(trouble.reason, Reason::AdapterDown);
    assert!(trouble.retry_after_s.is_some());
    assert_eq!(
        house.engine.adapters()[0].trouble.as_deref(),
        Some("no route to the bank")
    );
    let prepared = house.prepare(&ho(1)).await;
    assert_eq!(
        prepared.act.state(),
        State::Prepared,
        "nothing was stored the first time"
    );
    assert_eq!(house.engine.adapters()[0].trouble, None);

    house.bank().next_resolve(Resolve::Refuses("PERM"));
    let refused = house.prepare(&ho(2)).await;
    assert_eq!(refused.act.state(), State::Refused);
    assert!(refused.reply.starts_with("RW1 UN ") && refused.reply.contains("why=PERM"));
    let again = house.prepare(&ho(2)).await;
    assert!(again.replayed, "refused stays refused");
    assert_eq!(again.reply, refused.reply);

    house.bank().next_resolve(Resolve::Panics);
    let broken = house.try_prepare(&ho(3)).await.expect_err("broken");
    assert_eq!(broken.reason, Reason::StoreDown);
    assert_eq!(house.prepare(&ho(3)).await.act.state(), State::Prepared);
    house.assert_thread_is_sound().await;
}

#[tokio::test(start_paused = true)]
async fn a_handoff_that_differs_from_its_record_is_an_error_and_nothing_is_stored() {
    let house = house().await;
    let record = |amt: &str| -> rw1::Record {
        serde_json::from_str(&format!(r#"{{"item": "inv:MD-2026-057", "amt": "{amt}"}}"#)).expect("a record")
    };
    let ask = |amt: &str| wilco_engine::PrepareRequest {
        thread: String::new(),
        ho: ho(1),
        record: Some(record(amt)),
    };
    let refused = house
        .engine
        .prepare(&scheduler(), ask("5100.00"))
        .await
        .expect_err("differs");
    assert_eq!(refused.reason, Reason::Malformed);
    assert!(refused.problems.iter().any(|p| p.slot.as_deref() == Some("amt")));
    assert!(house.bank().resolved.load(std::sync::atomic::Ordering::SeqCst) == 0);
    let agreed = house.engine.prepare(&scheduler(), ask("5400.00")).await;
    assert!(agreed.is_ok_and(|p| !p.replayed));
}

#[tokio::test(start_paused = true)]
async fn the_same_id_with_other_bytes_is_a_conflict_that_names_what_differs() {
    let house = house().await;
    house.prepare(&ho(1)).await;
    for (line, part) in [
        (ho(1).replace("5400.00", "5400.01"), "amt"),
        (format!("{} // please", ho(1)), "tail"),
        (ho(1).replace("cur=GBP kind=GROSS", "kind=GROSS cur=GBP"), "form"),
    ] {
        let refused = house.try_prepare(&line).await.expect_err("conflict");
        assert_eq!(refused.reason, Reason::HandoffConflict);
        assert_eq!(refused.slot.as_deref(), Some(part));
    }
    // In another thread it is another handoff.
    let elsewhere = house
        .prepare_as(&scheduler(), "run-7", &ho(1).replace("5400.00", "5400.01"))
        .await;
    assert!(elsewhere.is_ok_and(|p| !p.replayed));
}

#[tokio::test(start_paused = true)]
async fn an_act_that_a_person_must_authorise_is_not_claimed_before() {
    let house = house().await;
    let prepared = house.prepare(&ho(1)).await;
    *locked(&house.bank().ready) = Ready::Awaiting {
        link: Some("https://bank.example/authorise".into()),
        text: "the account holder must authorise it".into(),
    };
    let waiting = house.try_commit(yes(&prepared, 2)).await.expect_err("awaiting");
    assert_eq!(waiting.reason, Reason::NotApproved);
    assert!(waiting.text.contains("https://bank.example/authorise"));
    assert_eq!(house.state(prepared.act.act_id).await, State::Prepared);

    *locked(&house.bank().ready) = Ready::Unknown("no route".into());
    assert_eq!(
        house
            .try_commit(yes(&prepared, 2))
            .await
            .expect_err("down")
            .reason,
        Reason::AdapterDown
    );
    assert!(house.bank().nothing_was_sent());

    *locked(&house.bank().ready) = Ready::Yes;
    assert_eq!(house.commit(yes(&prepared, 2)).await.act.state(), State::Done);

    let other = house.prepare(&ho(5)).await;
    *locked(&house.bank().ready) = Ready::Refused {
        text: "the customer said no".into(),
    };
    let closed = house.commit(yes(&other, 6)).await;
    assert_eq!(closed.act.state(), State::Failed);
    assert!(!closed.replayed, "this is the first answer");
    assert!(closed.reply.contains("why=PERM") && closed.reply.ends_with("// the customer said no"));
    assert_eq!(house.bank().sendings(other.act.act_id), 0);
    assert!(house.commit(yes(&other, 6)).await.replayed);
    house.assert_thread_is_sound().await;
}

#[tokio::test(start_paused = true)]
async fn a_lapsed_handoff_past_the_cut_off_is_told_so_and_stays_open() {
    let house = house().await;
    house.prepare(&ho(1)).await;
    house.clock().advance(600);
    // The bank's day ends within the minute: no statement can be made any more.
    house.bank().next_resolve(Resolve::CutOff(NOON.plus_seconds(601)));
    let refused = house.try_prepare(&ho(1)).await.expect_err("cut off");
    assert_eq!(refused.reason, Reason::Expired, "{}", refused.text);
    assert_eq!(
        house.prepare(&ho(1)).await.act.attempt,
        2,
        "the next day it is stated again"
    );
    // A new one is answered for good.
    house.bank().next_resolve(Resolve::CutOff(NOON.plus_seconds(601)));
    let refused = house.prepare(&ho(2)).await;
    assert!(refused.reply.contains("why=EXPIRED"), "{}", refused.reply);
    house.assert_thread_is_sound().await;
}
