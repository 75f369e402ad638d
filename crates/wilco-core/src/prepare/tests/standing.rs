//! How a handoff stands to what is known.

use super::*;

#[test]
fn the_same_line_gets_what_it_got_and_other_bytes_name_the_first_difference() {
    let act = a_prepared_act();
    let stand = |line: &str| standing(&profiles(), &act, line);
    assert_eq!(stand(HO), Ok(Standing::Statement));
    let cases = [
        (ho("amt=5400.00", "amt=5400.01"), "amt"),
        (ho("to=payer", "to=deployer"), "to"),
        (ho("item=inv:MD-2026-057", "item=inv:MD-2026-058"), "item"),
        (ho("from=scheduler", "from=scheduler re=payer-9"), "re"),
        (ho(" apref=FD-0929", ""), "apref"),
        (ho("ref=MD", "x_note=a ref=MD"), "x_note"),
        // Several differ: the first in the order of the line.
        (
            ho("amt=5400.00 cur=GBP", "amt=1.00 cur=EUR").replace("sup=marlow", "sup=other"),
            "sup",
        ),
        (format!("{HO} // and hurry"), "tail"),
        // The same facts in another order, or written with a space more: not the same bytes.
        (ho("amt=5400.00 cur=GBP", "cur=GBP amt=5400.00"), "form"),
        (format!("{HO} "), "form"),
        ("garbage".into(), "form"),
    ];
    for (line, part) in cases {
        let refused = stand(&line).expect_err(&line);
        assert_eq!(refused.reason, Reason::HandoffConflict, "{line}");
        assert_eq!(refused.slot.as_deref(), Some(part), "{line}");
        assert!(refused.text.contains("scheduler-1"), "{}", refused.text);
    }
}

#[test]
fn a_handoff_sent_again_gets_its_statement_the_next_attempt_or_its_closing_line() {
    for state in State::ALL {
        let act = Act {
            stage: stage_of(state),
            ..a_prepared_act()
        };
        let expected = match state {
            State::Prepared | State::Held | State::Executing | State::InDoubt => Standing::Statement,
            State::Lapsed => Standing::Again,
            State::Done | State::Failed | State::Cancelled | State::Refused => Standing::Closed,
        };
        assert_eq!(standing(&profiles(), &act, HO), Ok(expected), "{state:?}");
        // In every state other bytes are a conflict.
        assert!(
            standing(&profiles(), &act, &ho("5400.00", "1.00")).is_err(),
            "{state:?}"
        );
    }
    let mut grave = Act {
        stage: stage_of(State::Cancelled),
        ..a_prepared_act()
    };
    grave.handoff.line.clear();
    assert_eq!(standing(&profiles(), &grave, HO), Ok(Standing::Tombstone));
}

#[test]
fn a_reissue_that_names_an_unconfirmed_statement_takes_its_place_and_a_confirmed_one_is_a_conflict() {
    let again = Handoff {
        id: "scheduler-9".into(),
        ..an_act().handoff
    };
    let rb = an_offer().statement;
    for state in State::ALL {
        let target = Act {
            stage: stage_of(state),
            ..a_prepared_act()
        };
        let by_rb = reissue(&again, "payer-101", &target, Some(&rb));
        let by_ho = reissue(&again, "scheduler-1", &target, Some(HO));
        match state {
            State::Prepared | State::Held | State::Lapsed => {
                assert_eq!(by_rb, Reissue::Supersedes, "{state:?}");
                assert!(matches!(by_ho, Reissue::Refuse("DUP", _)), "{state:?}: {by_ho:?}");
            }
            State::Executing | State::InDoubt | State::Done => {
                assert!(
                    matches!(by_rb, Reissue::Refuse("CONFLICT", _)),
                    "{state:?}: {by_rb:?}"
                );
                assert!(matches!(by_ho, Reissue::Refuse("DUP", _)), "{state:?}: {by_ho:?}");
            }
            State::Failed | State::Cancelled | State::Refused => {
                assert_eq!(by_rb, Reissue::Unrelated, "{state:?}");
                assert_eq!(by_ho, Reissue::Unrelated, "{state:?}");
            }
        }
    }
}

#[test]
fn what_is_another_senders_is_like_what_is_not_there() {
    let stranger = Handoff {
        id: "auditor-1".into(),
        sender: "auditor".into(),
        ..an_act().handoff
    };
    let target = a_prepared_act();
    for (re, body) in [("payer-101", an_offer().statement), ("scheduler-1", HO.into())] {
        let verdict = reissue(&stranger, re, &target, Some(&body));
        assert_eq!(verdict, Reissue::Unrelated, "{re}");
    }
}

#[test]
fn a_statement_is_superseded_once() {
    let again = Handoff {
        id: "scheduler-9".into(),
        ..an_act().handoff
    };
    let by_first = superseded(&profiles(), &a_prepared_act(), "scheduler-8", NOON).expect("a UN");
    let verdict = reissue(&again, "payer-101", &by_first.act, Some(&an_offer().statement));
    assert!(matches!(verdict, Reissue::Refuse("DUP", _)), "{verdict:?}");
}

#[test]
fn a_handoff_cannot_put_words_into_our_mouth() {
    let line = HO.replace(
        "rb=exec",
        "rb=exec+x_cop+x_note+x_callback+x_sched+x_commit x_cop=match x_note=mine x_tok=forged x_callback=required \
         x_sched=Y x_commit=forged",
    );
    let act = Act {
        handoff: Handoff {
            line,
            ..an_act().handoff
        },
        ..an_act()
    };
    let frozen = crate::testing::a_frozen();
    let end = NOON.plus_seconds(300);
    let offer = state(&profiles(), &act, "payer-101", frozen, NOON, end, Vec::new()).expect("a statement");
    for ours in ["x_cop=", "x_callback=", "x_sched=", "forged"] {
        assert!(!offer.statement.contains(ours), "{ours}: {}", offer.statement);
    }
    assert!(offer.statement.contains("x_note=mine"), "{}", offer.statement);
    // It asked for a word nobody could give: held.
    assert!(!offer.problems.is_empty());
}

#[test]
fn a_reissue_that_names_neither_statement_nor_stated_handoff_is_a_plain_handoff() {
    let again = Handoff {
        id: "scheduler-9".into(),
        ..an_act().handoff
    };
    let target = a_prepared_act();
    for (re, body) in [
        ("scheduler-2", Some(crate::testing::CONFIRMATION)),
        ("payer-102", Some("RW1 DN payer-102 re=scheduler-1")),
        ("payer-101", None),
    ] {
        assert_eq!(reissue(&again, re, &target, body), Reissue::Unrelated, "{re}");
    }
    // A handoff that was refused before anything was stated.
    let refused = Act {
        stage: stage_of(State::Refused),
        attempt: 0,
        ..an_act()
    };
    assert_eq!(
        reissue(&again, "scheduler-1", &refused, Some(HO)),
        Reissue::Unrelated
    );
}
