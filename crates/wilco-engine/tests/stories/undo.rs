//! Taking back what was done, and taking the place of what was not: each an act of its own.

use wilco_core::{Reason, State};

use crate::common::*;

/// A payment done as `scheduler-<n>`, and the id of its DN.
async fn done(house: &House, n: u32) -> (wilco_core::Act, String) {
    let prepared = house.prepare(&ho(n)).await;
    let done = house.commit(yes(&prepared, n + 1)).await;
    assert_eq!(done.act.state(), State::Done);
    let dn = id_of(&done.reply);
    (done.act, dn)
}

/// The `why` and the tail of a UN.
fn why(reply: &str) -> (&str, &str) {
    assert!(reply.starts_with("RW1 UN "), "{reply}");
    let why = reply.split(" why=").nth(1).and_then(|r| r.split(' ').next());
    (
        why.unwrap_or_default(),
        reply.split(" // ").nth(1).unwrap_or_default(),
    )
}

#[tokio::test(start_paused = true)]
async fn an_undo_is_stated_with_the_values_as_executed_and_confirmed_like_any_act() {
    let house = house().await;
    // What ran was not what was stated: the reversal must speak of what ran.
    house.bank().next(Call::LandsWith("amt", "5100.00"));
    let (_, dn) = done(&house, 1).await;
    let line = undo(5, &dn).replace("amt=5400.00", "amt=5100.00");
    let prepared = house.prepare(&line).await;
    assert_eq!(prepared.act.state(), State::Prepared, "{:?}", prepared.problems);
    assert!(prepared.statement.contains(" ask=UNDO ") && prepared.statement.contains(" amt=5100.00 "));
    let reversed = house.commit(yes(&prepared, 6)).await;
    assert_eq!(reversed.act.state(), State::Done);
    assert!(reversed.reply.contains(" amt=5100.00 "));
    house.assert_thread_is_sound().await;

    // One that speaks of the plan instead is held.
    house.bank().next(Call::LandsWith("amt", "5100.00"));
    let (_, dn) = done(&house, 11).await;
    let held = house.prepare(&undo(15, &dn)).await;
    assert_eq!(held.act.state(), State::Held);
    assert_eq!(held.problems[0].slot.as_deref(), Some("amt"));
}

#[tokio::test(start_paused = true)]
async fn one_undo_of_an_act_may_be_open_or_done_and_one_that_ended_without_effect_makes_room() {
    let house = house().await;
    let (_, dn) = done(&house, 1).await;
    let first = house.prepare(&undo(5, &dn)).await;
    let second = house.prepare(&undo(6, &dn)).await;
    assert_eq!(
        why(&second.reply),
        ("DUP", format!("scheduler-5 reverses {dn} already").as_str())
    );
    // Cancelled, it makes room.
    house.cancel(&cx(7, "scheduler-5")).await;
    let third = house.prepare(&undo(8, &dn)).await;
    assert_eq!(third.act.state(), State::Prepared);
    // Rejected by the bank, it makes room too.
    house.bank().next(Call::Rejected);
    assert_eq!(house.commit(yes(&third, 9)).await.act.state(), State::Failed);
    let fourth = house.prepare(&undo(20, &dn)).await;
    // In doubt it does not.
    house.bank().next(Call::LandsUnheard);
    let mut wait_not = yes(&fourth, 21);
    wait_not.wait = Some(std::time::Duration::ZERO);
    house.commit(wait_not).await;
    house.until(fourth.act.act_id, State::InDoubt).await;
    assert_eq!(why(&house.prepare(&undo(22, &dn)).await.reply).0, "DUP");
    house.clock().advance(3);
    house.until(fourth.act.act_id, State::Done).await;
    assert_eq!(why(&house.prepare(&undo(23, &dn)).await.reply).0, "DUP");
    assert!(house.try_commit(yes(&first, 24)).await.is_err());
    house.assert_thread_is_sound().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_undos_at_once_are_one_undo_and_one_refusal() {
    for _ in 0..20 {
        let house = house().await;
        let (act, dn) = done(&house, 1).await;
        let (five, six) = (undo(5, &dn), undo(6, &dn));
        let (a, b) = tokio::join!(house.try_prepare(&five), house.try_prepare(&six));
        let states = [a.expect("answered"), b.expect("answered")].map(|p| p.act.state());
        assert!(
            states.contains(&State::Prepared) && states.contains(&State::Refused),
            "{states:?}"
        );
        assert_ne!(house.act(act.act_id).await.state(), State::Refused);
        house.assert_thread_is_sound().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_undo_names_exactly_one_dn_of_its_own_senders_in_its_own_thread_and_profile() {
    let house = house().await;
    let (_, dn) = done(&house, 1).await;
    let prepared = house.prepare(&ho(3)).await;
    let cases = [
        (
            undo(10, &dn).replace(&format!(" ctx={dn}"), ""),
            "SCOPE",
            "exactly one DN",
        ),
        (undo(11, &format!("{dn}+payer-9")), "SCOPE", "exactly one DN"),
        (undo(12, "payer-777"), "SCOPE", "no line of yours in this thread"),
        (undo(13, "scheduler-1"), "SCOPE", "is not a DN"),
        (
            undo(14, &id_of(&prepared.statement)),
            "SCOPE",
            "not the DN of an act that was done",
        ),
    ];
    for (line, code, text) in cases {
        let refused = house.prepare(&line).await;
        let (got, tail) = why(&refused.reply);
        assert_eq!(got, code, "{line}: {tail}");
        assert!(tail.contains(text), "{tail}");
    }
    // Another sender, in the same thread.
    let theirs = undo(15, &dn)
        .replace("HO scheduler-15", "HO auditor-15")
        .replace("from=scheduler", "from=auditor");
    let refused = house
        .prepare_as(&sender("auditor"), "scheduler", &theirs)
        .await
        .expect("answered");
    let unknown = house
        .prepare_as(
            &sender("auditor"),
            "scheduler",
            &theirs
                .replace("auditor-15", "auditor-17")
                .replace(&dn, "payer-777"),
        )
        .await
        .expect("answered");
    assert_eq!(
        why(&refused.reply).1.replace(&dn, "payer-777"),
        why(&unknown.reply).1,
        "another's DN is like none"
    );
    // In another thread the DN is no line.
    let elsewhere = house
        .prepare_as(&scheduler(), "run-7", &undo(16, &dn))
        .await
        .expect("answered");
    assert_eq!(why(&elsewhere.reply).0, "SCOPE");
    house.assert_thread_is_sound().await;
}

#[tokio::test(start_paused = true)]
async fn where_the_counterparty_takes_nothing_back_an_undo_is_nocap() {
    let plan = Plan::new();
    *locked(&plan.banks[0].asks) = vec!["PAY"];
    let house = plan.build().await;
    let (_, dn) = done(&house, 1).await;
    let refused = house.prepare(&undo(5, &dn)).await;
    assert_eq!(why(&refused.reply).0, "NOCAP");
    // Refused, it reverses nothing.
    assert_eq!(refused.act.undo_of, None);
    house.assert_thread_is_sound().await;
}

#[tokio::test(start_paused = true)]
async fn the_way_back_has_an_end() {
    let plan = Plan::new();
    locked(&plan.banks[0].contract).reversal_until_s = Some(60);
    let house = plan.build().await;
    let (_, dn) = done(&house, 1).await;
    house.clock().advance(61);
    let refused = house.prepare(&undo(5, &dn)).await;
    let (code, text) = why(&refused.reply);
    assert_eq!(code, "EXPIRED");
    assert!(
        text.contains("could be taken back until 2026-10-02T12:01"),
        "{text}"
    );
    let (_, dn) = done(&house, 11).await;
    house.clock().advance(59);
    assert_eq!(house.prepare(&undo(15, &dn)).await.act.state(), State::Prepared);
}

#[tokio::test(start_paused = true)]
async fn an_undo_that_came_too_late_to_be_stated_holds_no_place() {
    let house = house().await;
    let (_, dn) = done(&house, 1).await;
    house.bank().next_resolve(Resolve::CutOff(NOON));
    let late = house.prepare(&undo(5, &dn)).await;
    assert_eq!(why(&late.reply).0, "EXPIRED");
    assert_eq!(house.prepare(&undo(6, &dn)).await.act.state(), State::Prepared);
}

// ---- taking the place of another

fn reissue(n: u32, re: &str) -> String {
    ho(n).replace(" from=scheduler", &format!(" re={re} from=scheduler"))
}

#[tokio::test(start_paused = true)]
async fn a_reissue_that_names_the_readback_takes_the_unconfirmed_handoffs_place_in_one_write() {
    let house = house().await;
    house
        .bank()
        .next_resolve(Resolve::With("acct", "40-12-88/61102983"));
    let held = house.prepare(&ho(1)).await;
    assert_eq!(held.act.state(), State::Held);
    let next = house.prepare(&reissue(2, &id_of(&held.statement))).await;
    assert_eq!(next.act.state(), State::Prepared);
    let old = house.act(held.act.act_id).await;
    assert_eq!(old.state(), State::Refused);
    let closing = old.closed().expect("closed");
    assert!(closing.line.contains(" why=SUPERSEDED ") && closing.line.ends_with("replaced by scheduler-2"));
    let refused = house.try_commit(yes(&held, 3)).await.expect_err("superseded");
    assert_eq!(
        (refused.reason, refused.line),
        (Reason::Superseded, Some(closing.line.clone()))
    );
    assert_eq!(house.commit(yes(&next, 4)).await.act.state(), State::Done);
    assert_eq!(house.bank().landed(held.act.act_id), 0);
    house.assert_thread_is_sound().await;
}

#[tokio::test(start_paused = true)]
async fn any_statement_of_the_handoff_may_be_named_also_an_earlier_attempts() {
    let house = house().await;
    let first = house.prepare(&ho(1)).await;
    house.clock().advance(301);
    let second = house.prepare(&ho(1)).await;
    let next = house.prepare(&reissue(2, &id_of(&first.statement))).await;
    assert_eq!(next.act.state(), State::Prepared);
    assert_eq!(
        house
            .try_commit(yes(&second, 3))
            .await
            .expect_err("superseded")
            .reason,
        Reason::Superseded
    );
    house.assert_thread_is_sound().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_confirmed_is_not_superseded_and_what_was_read_back_is_not_sent_twice() {
    let house = house().await;
    let prepared = house.prepare(&ho(1)).await;
    assert_eq!(
        why(&house.prepare(&reissue(2, "scheduler-1")).await.reply).0,
        "DUP"
    );
    assert_eq!(house.state(prepared.act.act_id).await, State::Prepared);

    house.bank().shut();
    let rb = id_of(&prepared.statement);
    let mut wait_not = yes(&prepared, 3);
    wait_not.wait = Some(std::time::Duration::ZERO);
    house.commit(wait_not).await;
    assert_eq!(why(&house.prepare(&reissue(4, &rb)).await.reply).0, "CONFLICT");
    house.bank().open();
    house.until(prepared.act.act_id, State::Done).await;
    assert_eq!(why(&house.prepare(&reissue(5, &rb)).await.reply).0, "CONFLICT");
    assert_eq!(locked(&house.bank().executes).len(), 1);
    house.assert_thread_is_sound().await;
}

#[tokio::test(start_paused = true)]
async fn nobody_supersedes_anothers_handoff() {
    let house = house().await;
    let prepared = house.prepare(&ho(1)).await;
    let theirs = ho_of("auditor", 2).replace(
        " from=auditor",
        &format!(" re={} from=auditor", id_of(&prepared.statement)),
    );
    // What is another's is like what is not there: a plain handoff of its own.
    let own = house
        .prepare_as(&sender("auditor"), "scheduler", &theirs)
        .await
        .expect("answered");
    assert_eq!(own.act.state(), State::Prepared);
    assert_eq!(house.state(prepared.act.act_id).await, State::Prepared);
    house.assert_thread_is_sound().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reissue_racing_the_confirmation_leaves_one_of_them() {
    let (mut done, mut superseded) = (0, 0);
    for _ in 0..60 {
        let house = house().await;
        let prepared = house.prepare(&ho(1)).await;
        let next = reissue(2, &id_of(&prepared.statement));
        let (committed, reissued) =
            tokio::join!(house.try_commit(yes(&prepared, 3)), house.try_prepare(&next));
        let reissued = reissued.expect("answered");
        match house.state(prepared.act.act_id).await {
            State::Refused => {
                superseded += 1;
                assert_eq!(committed.expect_err("superseded").reason, Reason::Superseded);
                assert_eq!(reissued.act.state(), State::Prepared);
                assert_eq!(locked(&house.bank().executes).len(), 0);
            }
            State::Done => {
                done += 1;
                assert_eq!(why(&reissued.reply).0, "CONFLICT");
                assert_eq!(house.bank().landed(prepared.act.act_id), 1);
            }
            other => panic!("{other:?}"),
        }
        house.assert_thread_is_sound().await;
    }
    println!("{done} done, {superseded} superseded");
}

#[tokio::test]
async fn a_successor_whose_statement_ran_out_is_stated_again_and_only_one_succeeds() {
    let house = house().await;
    let first = house.prepare(&ho(1)).await;
    let rb = id_of(&first.statement);
    let successor = house.prepare(&reissue(2, &rb)).await;
    assert_eq!(
        why(&house.prepare(&reissue(3, &rb)).await.reply).0,
        "DUP",
        "superseded once"
    );
    house.clock().advance(360);
    let again = house.prepare(&reissue(2, &rb)).await;
    assert_eq!(
        (again.act.act_id, again.act.attempt, again.act.state()),
        (successor.act.act_id, 2, State::Prepared)
    );
    assert_eq!(house.commit(yes(&again, 4)).await.act.state(), State::Done);
    house.assert_thread_is_sound().await;
}
