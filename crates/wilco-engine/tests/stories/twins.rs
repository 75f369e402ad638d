//! Likely twins: the same thing asked twice is held and shown, and goes on only when an operator other than its sender
//! says so.

use wilco_core::{Reason, State};
use wilco_engine::{Caller, Prepared, Role};

use crate::common::*;

/// The first handoff's payment under another id.
fn twin(n: u32) -> String {
    ho(1).replace("scheduler-1 ", &format!("scheduler-{n} "))
}

async fn prepare_in(house: &House, thread: &str, line: &str) -> Prepared {
    house
        .prepare_as(&scheduler(), thread, line)
        .await
        .expect("prepared")
}

#[tokio::test(start_paused = true)]
async fn a_likely_twin_is_held_in_any_thread_and_names_the_other() {
    let house = house().await;
    let first = house.prepare(&ho(1)).await;
    for (thread, line) in [("", twin(2)), ("month-end", twin(1))] {
        let held = prepare_in(&house, thread, &line).await;
        assert_eq!(held.act.state(), State::Held);
        assert!(held.act.is_held_as_twin());
        let named: Vec<Option<&str>> = held.problems.iter().map(|p| p.got.as_deref()).collect();
        assert_eq!(named, [Some(first.act.act_id.to_string().as_str())]);
        let refused = house.try_commit(yes(&held, 5)).await.expect_err("held");
        assert_eq!(refused.reason, Reason::Held);
        // Sent again it is answered as it stands, byte for byte.
        let again = prepare_in(&house, thread, &line).await;
        assert_eq!((again.reply, again.replayed), (held.reply, true));
    }
    // What differs in one of the slots the profile names is no twin.
    let other = house
        .prepare(&twin(7).replace("amt=5400.00", "amt=5400.01"))
        .await;
    assert_eq!(other.act.state(), State::Prepared);
    assert_eq!(house.commit(yes(&first, 3)).await.act.state(), State::Done);
}

#[tokio::test(start_paused = true)]
async fn a_released_twin_is_stated_again_and_its_sender_confirms_it() {
    let house = house().await;
    let first = house.prepare(&ho(1)).await;
    house.commit(yes(&first, 3)).await;
    let held = house.prepare(&twin(2)).await;
    assert_eq!(held.act.state(), State::Held, "what was done counts");
    let act_id = held.act.act_id;
    let released = house.engine.release(&duty(), act_id).await.expect("released");
    assert_eq!((released.act.state(), released.act.attempt), (State::Prepared, 2));
    assert_eq!(released.act.released_by.as_deref(), Some("duty"));
    // The held statement cannot be confirmed; the new one comes to its sender with a token of its own.
    assert!(house.try_commit(yes(&held, 4)).await.is_err());
    let stated = house.prepare(&twin(2)).await;
    assert_ne!(stated.token, held.token);
    let done = house.commit(yes(&stated, 5)).await;
    assert!(done.reply.starts_with("RW1 DN "), "{}", done.reply);
    assert_eq!(house.bank().landed(act_id), 1);
    house.assert_thread_is_sound().await;
}

#[tokio::test(start_paused = true)]
async fn only_an_operator_other_than_its_sender_releases_and_only_a_twin() {
    let house = house().await;
    let first = house.prepare(&ho(1)).await;
    let held = house.prepare(&twin(2)).await;
    let act_id = held.act.act_id;
    let both = Caller {
        name: "scheduler".into(),
        roles: vec![Role::Operator],
        speaks_for: vec![],
    };
    for who in [scheduler(), with_role("approver", Role::Approver), both] {
        let refused = house.engine.release(&who, act_id).await.expect_err("refused");
        assert_eq!(refused.reason, Reason::NotYours, "{}", who.name);
    }
    let refused = house.engine.release(&duty(), first.act.act_id).await;
    assert_eq!(refused.expect_err("not held").reason, Reason::Refused);
    house
        .bank()
        .next_resolve(Resolve::With("acct", "40-12-88/61102983"));
    let wrong = house.prepare(&ho(4)).await;
    assert_eq!(wrong.act.state(), State::Held);
    let refused = house.engine.release(&duty(), wrong.act.act_id).await;
    assert_eq!(
        refused.expect_err("nobody lifts that").reason,
        Reason::Held,
        "its statement differs from its handoff"
    );
}

#[tokio::test(start_paused = true)]
async fn of_two_that_were_stated_whichever_is_claimed_first_goes_on() {
    let house = house().await;
    let first = house.prepare(&ho(1)).await;
    let held = house.prepare(&twin(2)).await;
    house
        .engine
        .release(&duty(), held.act.act_id)
        .await
        .expect("released");
    let second = house.prepare(&twin(2)).await;
    assert_eq!(house.commit(yes(&second, 3)).await.act.state(), State::Done);
    // The first was stated before there was a twin, and nobody has released it.
    let refused = house.try_commit(yes(&first, 4)).await.expect_err("held now");
    assert_eq!(refused.reason, Reason::Held);
    assert_eq!(house.state(first.act.act_id).await, State::Held);
    assert_eq!(house.bank().landed(first.act.act_id), 0);
    house.assert_thread_is_sound().await;
}

#[tokio::test(start_paused = true)]
async fn a_release_stands_although_the_counterparty_is_down_at_the_moment() {
    let house = house().await;
    house.prepare(&ho(1)).await;
    let held = house.prepare(&twin(2)).await;
    house.bank().next_resolve(Resolve::Down);
    let released = house
        .engine
        .release(&duty(), held.act.act_id)
        .await
        .expect("released");
    assert_eq!(released.act.state(), State::Lapsed);
    assert!(
        released.notes[0].contains("could not be stated again"),
        "{:?}",
        released.notes
    );
    // The operator's word again, or the sender's handoff again: either states it.
    let again = house
        .engine
        .release(&duty(), held.act.act_id)
        .await
        .expect("stated");
    assert_eq!(again.act.state(), State::Prepared);
    let stated = house.prepare(&twin(2)).await;
    assert_eq!(house.commit(yes(&stated, 3)).await.act.state(), State::Done);
}

#[tokio::test(start_paused = true)]
async fn two_daemons_that_state_twins_at_once_hold_one_of_them() {
    for seed in 0..20 {
        let plan = Plan { seed, ..Plan::new() };
        let (there, here) = two_houses(plan).await;
        let (one, other) = (twin(1), twin(2));
        let (a, b) = tokio::join!(
            prepare_in(&there, "one", &one),
            prepare_in(&here, "other", &other)
        );
        let held = [a.act.state(), b.act.state()]
            .iter()
            .filter(|s| **s == State::Held)
            .count();
        assert_eq!(held, 1, "{:?} and {:?}", a.act.state(), b.act.state());
    }
}
