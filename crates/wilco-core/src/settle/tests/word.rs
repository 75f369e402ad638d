//! A person's word on an act in doubt.

use super::*;

#[test]
fn a_person_settles_only_what_is_in_doubt() {
    for act in [
        crate::testing::a_prepared_act(),
        an_executing_act(),
        apply(&an_executing_act(), &News::Accepted(shown()), 20),
        apply(&an_executing_act(), &News::Executed(shown()), 20),
    ] {
        let refused = word(&act, false, 100_000).expect_err("refused");
        assert_eq!(refused.reason, Reason::Refused);
        assert!(refused.text.contains(act.state().as_str()), "{}", refused.text);
    }
}

#[test]
fn no_persons_word_is_taken_while_the_call_can_land() {
    let running = in_doubt(an_executing_act());
    for done in [true, false] {
        assert!(word(&running, done, 1_000_000).is_err(), "not known to be over");
        let early = word(&over(), done, 79).expect_err("the window is open until 80");
        assert_eq!(early.reason, Reason::Refused);
        assert_eq!(early.retry_after_s, Some(2));
        assert!(word(&over(), done, 80).is_ok());
    }
}

#[test]
fn not_done_by_a_persons_word_fails_the_act_and_answers_the_cancels() {
    let change = word(&awaited(over()), false, 80).expect("settled");
    assert_eq!(change.act.state(), State::Failed);
    assert_eq!(change.expect, Expect::Version(awaited(over()).version));
    let lines = thread_lines(&change);
    assert!(lines[0].starts_with("RW1 FL ") && lines[2].starts_with("RW1 AN "));
    assert_eq!(change.entries[0].principal, "duty");
    assert!(change.entries[0].body.contains("seen in the bank's own screen"));
    assert!(
        closed_of(&change)
            .notes
            .iter()
            .any(|n| n.contains("by duty: seen in"))
    );
}

#[test]
fn done_by_a_persons_word_carries_every_value_from_the_statement_and_says_so() {
    let change = word(&over(), true, 80).expect("settled");
    let closed = closed_of(&change);
    assert_eq!(change.act.state(), State::Done);
    assert!(closed.line.contains(" amt=5400.00 ") && closed.line.contains(" sup=marlow "));
    assert!(
        closed.notes[0].ends_with("sup amt cur kind acct paid ref apref"),
        "{:?}",
        closed.notes
    );
    assert_eq!(
        closed.offer,
        Some(an_offer()),
        "the frozen statement itself is untouched"
    );
}

#[test]
fn quiet_is_the_window_after_the_last_byte_or_unknown() {
    let quiet = |act: &Act, contract: &Contract| quiet_from(contract, act.execution().expect("claimed"));
    assert_eq!(
        quiet(&over(), &a_contract()),
        Some(at(80)),
        "over at 20, a window of 60"
    );
    assert_eq!(quiet(&taken_from_there(), &a_contract()), None);
    let refusing = Contract {
        late_send: LateSend::RefusedAfter(300),
        ..a_contract()
    };
    assert_eq!(quiet(&taken_from_there(), &refusing), Some(at(10 + 300 + 60)));
}

#[test]
fn behind_a_silent_owner_a_word_is_taken_only_once_its_death_was_vouched_for_and_the_window_passed() {
    let act = taken_from_there();
    let refused = word_on(&act, false, 1_000_000).expect_err("it may still send");
    assert_eq!(refused.reason, Reason::Refused);
    assert!(refused.text.contains("there.1"), "{}", refused.text);
    // Nothing is known of when it died, but that it was before now: its last byte needs its window from now on.
    let vouched = word_on(&act, true, 1_000).expect("kept");
    assert_eq!(vouched.act.state(), State::InDoubt);
    assert_eq!(thread_lines(&vouched), [] as [String; 0]);
    assert_eq!(vouched.entries[0].principal, "duty");
    assert!(
        vouched.entries[0].body.contains("owner_dead_by_operator")
            && vouched.entries[0].body.contains("switched off")
    );
    let act = Act {
        version: act.version + 1,
        ..vouched.act
    };
    assert_eq!(progress(&act).over_since, Some(at(1_000)));
    for owner_dead in [true, false] {
        let early = word_on(&act, owner_dead, 1_059).expect_err("until second 1060");
        assert_eq!(early.retry_after_s, Some(2));
        assert!(early.text.contains(&at(1_060).to_rfc3339()), "{}", early.text);
        let settled = word_on(&act, owner_dead, 1_060).expect("settled");
        assert_eq!(settled.act.state(), State::Failed);
    }
    // Meanwhile lookups prove it as they prove any other.
    let looked = apply(&apply(&act, &absent(1_001), 1_001), &absent(1_061), 1_061);
    assert_eq!(looked.state(), State::Failed);
}

#[test]
fn where_nothing_can_land_late_a_word_with_the_death_is_taken_at_once() {
    let contract = Contract {
        settle_window_s: 0,
        ..a_contract()
    };
    let word = Word {
        done: true,
        evidence: "seen in the bank's own screen",
        operator: "duty",
        owner_dead: true,
    };
    let settled = settled_by_operator(&profiles(), &taken_from_there(), &contract, &word, at(60));
    assert_eq!(settled.expect("settled").act.state(), State::Done);
}

#[test]
fn a_persons_word_on_death_cannot_shorten_a_window_that_is_known() {
    let early = word_on(&over(), true, 79).expect_err("over at 20, a window of 60");
    assert_eq!(early.retry_after_s, Some(2));
    assert!(word_on(&over(), true, 80).is_ok());
}
