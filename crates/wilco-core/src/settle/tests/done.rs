//! The done line, and what it says.

use super::*;

#[test]
fn a_done_line_carries_what_was_shown_and_names_what_it_carries_from_the_statement() {
    let change = news_at(&an_executing_act(), &News::Executed(shown()), 20);
    assert_eq!(change.expect, Expect::Version(2));
    assert_eq!(change.act.state(), State::Done);
    let closed = closed_of(&change);
    assert_eq!(
        closed.line,
        "RW1 DN payer-102 re=scheduler-1 from=payer to=scheduler item=inv:MD-2026-057 out=OK p=pay sup=marlow \
         amt=5400.00 cur=GBP kind=GROSS acct=40-12-88/61102938 paid=20261002 ref=MD-2026-057 apref=FD-0929"
    );
    assert_eq!(closed.verdict, Some(Verdict::Match));
    assert_eq!(closed.problems, []);
    assert_eq!(closed.receipt.as_deref(), Some("bank-1"));
    assert!(closed.notes[0].ends_with("sup kind apref"), "{:?}", closed.notes);
    assert_eq!(closed.offer, Some(an_offer()));
    assert_eq!(change.entries[0].kind, crate::journal::EntryKind::Event);
    assert!(change.entries[0].body.contains("AcceptedSettlementCompleted"));
}

#[test]
fn what_the_counterparty_shows_wins_over_what_would_be_carried() {
    let change = news_at(
        &an_executing_act(),
        &News::Executed(with("sup", Some("northfield"))),
        20,
    );
    let closed = closed_of(&change);
    assert!(closed.line.contains(" sup=northfield "), "{}", closed.line);
    assert_eq!(closed.verdict, Some(Verdict::Mismatch));
    assert!(!closed.notes[0].contains("sup"), "{:?}", closed.notes);
}

#[test]
fn a_wrong_value_is_reported_as_it_was_and_called_a_mismatch() {
    for (slot, value) in [
        ("amt", "5100.00"),
        ("acct", "40-12-88/61102983"),
        ("cur", "EUR"),
        ("paid", "20261003"),
    ] {
        let change = news_at(&an_executing_act(), &News::Executed(with(slot, Some(value))), 20);
        let closed = closed_of(&change);
        assert_eq!(change.act.state(), State::Done, "it did run");
        assert!(
            closed.line.contains(&format!(" {slot}={value}")),
            "{}",
            closed.line
        );
        assert_eq!(closed.verdict, Some(Verdict::Mismatch), "{slot}");
        assert_eq!(closed.problems.len(), 1);
        assert_eq!(closed.problems[0].slot.as_deref(), Some(slot));
        assert_eq!(closed.problems[0].got.as_deref(), Some(value));
        // A bank takes nothing back: nobody is sent on a way that is none.
        assert!(
            closed.notes.iter().any(|n| n.contains("a person must ask there")),
            "{:?}",
            closed.notes
        );
    }
}

#[test]
fn a_visible_slot_the_answer_lacks_is_left_out_never_filled_in() {
    let change = news_at(&an_executing_act(), &News::Executed(with("amt", None)), 20);
    let closed = closed_of(&change);
    assert!(!closed.line.contains(" amt="), "{}", closed.line);
    assert_eq!(closed.verdict, Some(Verdict::Mismatch));
    assert_eq!(closed.problems[0].slot.as_deref(), Some("amt"));
}

#[test]
fn a_value_that_cannot_stand_on_a_line_is_left_out_and_the_rest_still_stands() {
    for unfit in ["two words", "five thousand", "1\u{202e}"] {
        let change = news_at(&an_executing_act(), &News::Executed(with("amt", Some(unfit))), 20);
        let closed = closed_of(&change);
        assert_eq!(change.act.state(), State::Done, "{unfit}");
        assert!(!closed.line.contains(" amt="), "{}", closed.line);
        assert!(
            closed.line.contains(" acct=40-12-88/61102938 "),
            "{}",
            closed.line
        );
        assert_eq!(closed.verdict, Some(Verdict::Mismatch));
        assert!(
            closed.notes.iter().any(|n| n.starts_with("amt: ")),
            "{:?}",
            closed.notes
        );
    }
}

#[test]
fn a_true_report_stays_true_however_late_it_comes() {
    // The statement ended at 12:05, the handoff's day is over: judged as of the confirmation instant.
    let change = news_at(&in_doubt(an_executing_act()), &News::Executed(shown()), 400_000);
    assert_eq!(closed_of(&change).verdict, Some(Verdict::Match));
    assert_eq!(closed_of(&change).closed_at, at(400_000));
}

#[test]
fn news_of_the_act_settles_it_from_either_stage() {
    let refused = News::NotDone {
        why: "ERR",
        text: "insufficient funds".into(),
    };
    for act in [an_executing_act(), in_doubt(an_executing_act()), over()] {
        assert_eq!(apply(&act, &News::Executed(shown()), 30).state(), State::Done);
        assert_eq!(apply(&act, &refused, 30).state(), State::Failed);
        assert_eq!(
            apply(&act, &News::Accepted(shown()), 30).state(),
            State::Executing
        );
        assert_eq!(
            apply(&act, &News::CallUnknown("?".into()), 30).state(),
            State::InDoubt
        );
        assert_eq!(
            apply(&act, &News::OwnerDead("?".into()), 30).state(),
            State::InDoubt
        );
        assert_eq!(apply(&act, &absent(30), 30).state(), State::InDoubt);
        assert_eq!(
            apply(&act, &News::LookupUnknown("?".into()), 30).state(),
            State::InDoubt
        );
    }
}

#[test]
fn news_of_an_act_that_is_not_claimed_changes_nothing() {
    for act in [
        crate::testing::a_prepared_act(),
        apply(&an_executing_act(), &News::Executed(shown()), 20),
    ] {
        let change = settle(
            &profiles(),
            &act,
            &News::Executed(shown()),
            &a_contract(),
            PACE,
            at(30),
        );
        assert_eq!(change, Ok(None));
    }
}

#[test]
fn what_is_shown_besides_stands_in_the_report_where_the_profile_has_a_slot_for_it() {
    let mut seen = shown();
    for (slot, value) in [
        ("n", "3"),
        ("x_y", "z"),
        ("out", "FAIL"),
        ("re", "other-1"),
        ("nothing", "such"),
    ] {
        seen.values.push((slot.to_owned(), value.to_owned()));
    }
    let change = news_at(&an_executing_act(), &News::Executed(seen), 20);
    let closed = closed_of(&change);
    assert!(closed.line.contains(" n=3"), "{}", closed.line);
    for other in ["x_y", "FAIL", "other-1", "nothing"] {
        assert!(!closed.line.contains(other), "{}", closed.line);
    }
    assert_eq!(closed.verdict, Some(Verdict::Match));
}
