//! When nothing is concluded, and when looking again is due.

use super::*;

#[test]
fn absent_is_said_after_two_lookups_over_the_window_and_never_earlier() {
    let act = over();
    assert_eq!(progress(&act).over_since, Some(at(20)));
    let once = apply(&act, &absent(21), 21);
    assert_eq!(once.state(), State::InDoubt);
    // The window is 60 seconds: again at 80 is a second too early for the first lookup, at 81 it is not.
    let early = apply(&once, &absent(80), 80);
    assert_eq!(early.state(), State::InDoubt);
    let proved = apply(&once, &absent(81), 81);
    assert_eq!(proved.state(), State::Failed);
    assert!(proved.closed().is_some_and(|c| c.line.contains("why=ERR")));
    assert_eq!(apply(&early, &absent(81), 81).state(), State::Failed);
}

#[test]
fn a_lookup_counts_from_when_it_was_asked_not_from_when_it_was_answered() {
    let once = apply(&over(), &absent(21), 21);
    // Asked at 25, answered at 100: it saw the counterparty as it stood at 25.
    let slow = News::LookupAbsent {
        asked_at: at(25),
        text: String::new(),
    };
    let act = apply(&once, &slow, 100);
    assert_eq!(act.state(), State::InDoubt);
    assert_eq!(progress(&act).absent_at, [at(21), at(25)]);
    // Asked before the call was over: it says nothing at all.
    let before = News::LookupAbsent {
        asked_at: at(19),
        text: String::new(),
    };
    assert_eq!(progress(&apply(&over(), &before, 100)).absent_at, []);
}

#[test]
fn while_the_call_may_still_run_no_number_of_lookups_proves_anything() {
    let mut act = an_executing_act();
    for second in [100, 1_000, 10_000, 100_000] {
        act = apply(&act, &absent(second), second);
        assert_eq!(act.state(), State::InDoubt);
    }
    assert_eq!(progress(&act).absent_at, []);
}

#[test]
fn what_cannot_prove_absence_stays_in_doubt_for_a_person() {
    for lookup in [LookupBy::Evidence, LookupBy::None] {
        let mut contract = a_contract();
        contract.lookup = lookup;
        let mut act = over();
        for second in [100, 200, 1_000, 10_000] {
            act = change_by(&act, &absent(second), &contract, at(second)).act;
            assert_eq!(act.state(), State::InDoubt, "{lookup:?}");
        }
        assert!(progress(&act).escalated);
    }
}

#[test]
fn bytes_the_counterparty_refuses_late_end_the_call_by_themselves() {
    let mut contract = a_contract();
    contract.late_send = LateSend::RefusedAfter(300);
    contract.identity = Identity::None;
    let mut act = an_executing_act();
    for (second, state) in [
        (100, State::InDoubt),
        (311, State::InDoubt),
        (370, State::InDoubt),
        (371, State::Failed),
    ] {
        act = change_by(&act, &absent(second), &contract, at(second)).act;
        assert_eq!(act.state(), state, "at {second}");
    }
}

#[test]
fn many_lookups_keep_the_first_and_the_newest_so_that_the_proof_is_not_lost() {
    let mut act = over();
    for second in 21..81 {
        act = apply(&act, &absent(second), second);
        assert_eq!(act.state(), State::InDoubt, "at {second}");
        assert!(progress(&act).absent_at.len() <= 8);
    }
    assert_eq!(apply(&act, &absent(81), 81).state(), State::Failed);
}

#[test]
fn what_the_counterparty_said_it_has_cannot_become_absent() {
    let mut act = apply(&an_executing_act(), &News::Accepted(shown()), 20);
    for second in [30, 100, 200, 10_000] {
        act = apply(&act, &absent(second), second);
        assert_eq!(
            act.state(),
            State::InDoubt,
            "a contradiction is doubt, at {second}"
        );
    }
    // Only its own word ends it.
    assert_eq!(apply(&act, &News::Executed(shown()), 10_001).state(), State::Done);
}

#[test]
fn accepted_is_executing_until_the_counterparty_finishes() {
    let act = apply(&an_executing_act(), &News::Accepted(shown()), 20);
    assert_eq!(act.state(), State::Executing);
    assert_eq!(
        progress(&act).over_since,
        Some(at(20)),
        "the call is over, theirs goes on"
    );
    assert_eq!(progress(&act).receipt.as_deref(), Some("bank-1"));
    assert_eq!(act.due_at(), Some(at(22)));
    let again = news_at(&act, &News::Accepted(shown()), 30);
    assert_eq!(again.entries, [], "the same answer again is not worth a row");
    assert_eq!(again.act.due_at(), Some(at(34)));
    // A poll that is not answered leaves it theirs.
    assert_eq!(
        apply(&act, &News::LookupUnknown("?".into()), 40).state(),
        State::Executing
    );
    // What was doubted for another reason stays doubted until something is heard.
    let doubted = apply(&act, &absent(40), 40);
    assert_eq!(
        apply(&doubted, &News::LookupUnknown("?".into()), 50).state(),
        State::InDoubt
    );
}

#[test]
fn pauses_double_up_to_the_longest_and_a_person_is_called_once() {
    let mut act = over();
    assert_eq!(
        act.due_at(),
        Some(at(22)),
        "the first look comes after the first pause"
    );
    let mut called = Vec::new();
    for (n, pause) in [(1, 4), (2, 8), (3, 16), (4, 32), (5, 60), (6, 60), (40, 60)] {
        if n == 40
            && let Stage::InDoubt(e) = &mut act.stage
        {
            e.progress.lookups = 39;
        }
        let change = news_at(&act, &News::LookupUnknown("no route".into()), 1_000 * n);
        assert_eq!(change.act.due_at(), Some(at(1_000 * n + pause)), "lookup {n}");
        let called_now = change.entries.iter().any(|e| e.body.contains("escalated"));
        called.push(called_now);
        act = change.act;
    }
    assert_eq!(called, [false, false, true, false, false, false, false]);
    assert!(progress(&act).escalated);
}

#[test]
fn a_lookup_that_could_prove_absence_is_not_put_off_past_the_instant_it_can() {
    let act = apply(&over(), &absent(21), 21);
    assert_eq!(act.due_at(), Some(at(25)), "the pause is shorter than the wait");
    let mut later = act;
    for second in [25, 33, 49] {
        later = apply(&later, &absent(second), second);
    }
    assert_eq!(
        later.due_at(),
        Some(at(81)),
        "the pause would be longer: 21 + 60 comes first"
    );
}
