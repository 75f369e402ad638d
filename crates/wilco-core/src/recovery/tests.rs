//! What these are after: time runs out to the instant, and nobody is looked at as dead who is not known to be.

use super::*;
use crate::State;
use crate::settle::{News, Pace, settle};
use crate::testing::{
    HO, NOON, a_contract, a_prepared_act, an_executing_act, an_offer, profiles, thread_lines, thread_problems,
};

fn act_of(n: u8, act: Act) -> Act {
    Act {
        act_id: ActId::new(NOON, [n; 10]),
        ..act
    }
}

fn lapsed_act() -> Act {
    Act {
        stage: Stage::Lapsed(an_offer(), Lapse::Declined),
        ..a_prepared_act()
    }
}

fn held_act() -> Act {
    Act {
        stage: Stage::Held(an_offer()),
        ..a_prepared_act()
    }
}

fn call_over() -> Act {
    let pace = Pace {
        first_s: 1,
        longest_s: 1,
        escalate_after: 1,
    };
    let news = News::CallUnknown("?".into());
    settle(&profiles(), &an_executing_act(), &news, &a_contract(), pace, NOON)
        .expect("a line")
        .expect("claimed")
        .act
}

fn step_for(act: &Act, me: &str, others_are_dead: bool, now: Timestamp) -> Option<Step> {
    let in_flight = HashSet::new();
    let owners = Owners {
        me,
        in_flight: &in_flight,
        others_are_dead,
        silent: &|_| false,
    };
    plan(std::slice::from_ref(act), &owners, now).into_iter().next()
}

#[test]
fn a_statement_expires_at_its_instant_and_not_a_microsecond_before() {
    let (act, end) = (a_prepared_act(), an_offer().expires_at);
    assert_eq!(expires(&act, Timestamp(end.0 - 1)), None);
    assert_eq!(expires(&act, end), Some(Expiry::Statement));
    assert_eq!(act.due_at(), Some(end));
    // What is held or lapsed has no live statement: only the handoff's end counts.
    for act in [held_act(), lapsed_act()] {
        assert_eq!(expires(&act, end), None);
        assert_eq!(act.due_at(), Some(act.limit));
    }
}

#[test]
fn a_handoff_ends_at_its_limit_in_every_unclaimed_stage_and_in_no_other() {
    for act in [a_prepared_act(), held_act(), lapsed_act()] {
        assert_ne!(expires(&act, Timestamp(act.limit.0 - 1)), Some(Expiry::Handoff));
        assert_eq!(expires(&act, act.limit), Some(Expiry::Handoff));
    }
    for act in [an_executing_act(), call_over()] {
        assert_eq!(
            expires(&act, Timestamp::MAX),
            None,
            "claimed: its outcome closes it"
        );
    }
}

#[test]
fn an_expired_statement_lapses_and_the_handoff_stays_open() {
    let act = a_prepared_act();
    let change = expiry(&profiles(), &act, an_offer().expires_at)
        .expect("a line")
        .expect("due");
    assert_eq!(change.act.stage, Stage::Lapsed(an_offer(), Lapse::Expired));
    assert_eq!(change.entries, []);
    assert_eq!(change.expect, Expect::Version(1));
    assert_eq!(expiry(&profiles(), &act, NOON), Ok(None), "not due");
}

#[test]
fn an_expired_handoff_is_closed_with_fl_expired_and_nothing_is_claimed_to_have_run() {
    for act in [a_prepared_act(), held_act(), lapsed_act()] {
        let change = expiry(&profiles(), &act, act.limit)
            .expect("a line")
            .expect("due");
        assert_eq!(change.act.state(), State::Failed);
        let lines = thread_lines(&change);
        assert_eq!(
            lines,
            [
                "RW1 FL payer-102 re=scheduler-1 from=payer to=scheduler item=inv:MD-2026-057 why=EXPIRED retry=N p=pay \
                 // its time ran out before it was confirmed; nothing was done"
            ]
        );
        let closed = change.act.closed().expect("closed");
        assert_eq!(closed.claim, None);
        assert_eq!(closed.offer, Some(an_offer()), "what was placed must be released");
        let thread = [HO, &an_offer().statement, &lines[0]];
        assert_eq!(thread_problems(&thread, act.limit), [] as [String; 0]);
    }
}

#[test]
fn the_plan_names_a_step_for_every_act_that_is_due() {
    let late = NOON.plus_seconds(400);
    let running = act_of(3, an_executing_act());
    let due = [
        act_of(1, a_prepared_act()),
        act_of(2, call_over()),
        running.clone(),
        act_of(4, an_executing_act()),
        act_of(5, lapsed_act()),
    ];
    let in_flight = HashSet::from([running.act_id]);
    let owners = Owners {
        me: "me",
        in_flight: &in_flight,
        others_are_dead: false,
        silent: &|_| false,
    };
    assert_eq!(
        plan(&due, &owners, late),
        [
            Step::Expire(due[0].act_id),
            Step::LookUp(due[1].act_id),
            Step::Leave(due[2].act_id),
            Step::TakeOver(due[3].act_id, Fate::Over),
        ]
    );
}

#[test]
fn anothers_claim_is_taken_over_only_where_its_owner_is_known_to_be_dead() {
    let act = an_executing_act();
    let far_past_its_deadline = NOON.plus_seconds(1_000_000);
    assert_eq!(
        step_for(&act, "another", false, far_past_its_deadline),
        Some(Step::Watch(act.act_id)),
        "a passed deadline proves nothing"
    );
    assert_eq!(
        step_for(&act, "another", true, NOON),
        Some(Step::TakeOver(act.act_id, Fate::Over))
    );
    // Ours and not running here: the call has returned, this process only lost it.
    assert_eq!(
        step_for(&act, "me", false, NOON),
        Some(Step::TakeOver(act.act_id, Fate::Over))
    );
}

#[test]
fn what_is_final_is_left_alone() {
    for line in ["DN", "AN", "UN"] {
        let close = crate::prepare::closed(line.into(), "payer-102".into(), NOON, None);
        let act = Act {
            stage: Stage::Refused(close),
            ..a_prepared_act()
        };
        assert_eq!(step_for(&act, "me", true, Timestamp::MAX), None);
        assert_eq!(act.due_at(), None);
    }
}
