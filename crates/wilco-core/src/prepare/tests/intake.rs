//! What is taken, refused or an error, and for how long it stays open.

use super::*;

#[test]
fn a_handoff_is_taken_as_it_arrived_but_for_one_line_end() {
    let Ok(Intake::Take(handoff)) = take(HO) else {
        panic!("taken")
    };
    assert_eq!(handoff.line, HO);
    assert_eq!(handoff.id, "scheduler-1");
    assert_eq!(
        (handoff.sender.as_str(), handoff.receiver.as_str()),
        ("scheduler", "payer")
    );
    assert_eq!(
        (
            handoff.item.as_str(),
            handoff.ask.as_str(),
            handoff.profile.as_str()
        ),
        ("inv:MD-2026-057", "PAY", "pay")
    );
    for end in ["\n", "\r\n"] {
        assert_eq!(take(&format!("{HO}{end}")), Ok(Intake::Take(handoff.clone())));
    }
}

#[test]
fn what_is_no_handoff_of_the_callers_is_an_error_and_says_where() {
    let long = format!("{HO} // {}", "x".repeat(rw1::MAX_LINE_BYTES));
    let cases: &[(&str, String, Option<&str>)] = &[
        ("nothing", String::new(), None),
        ("not a line", "pay marlow 5400 pounds".into(), None),
        ("another version", ho("RW1", "RW2"), None),
        ("another type", ho(" HO ", " ST "), None),
        ("no sender", ho("from=scheduler ", ""), Some("from")),
        ("an agent not served", ho("to=payer", "to=auditor"), Some("to")),
        ("an unknown key", ho(" ref=", " colour=red ref="), Some("colour")),
        ("a slot HO has not", ho(" ref=", " out=OK ref="), Some("out")),
        ("extra spaces", ho(" ref=", "  ref="), None),
        ("white space before", format!(" {HO}"), None),
        ("two line ends", format!("{HO}\n\n"), None),
        ("a line end inside", ho(" ref=", "\nref="), None),
        ("a carriage return", format!("{HO}\r"), None),
        ("bad money", ho("amt=5400.00", "amt=5,400"), Some("amt")),
        (
            "an impossible date",
            ho("paid=20261002", "paid=20261302"),
            Some("paid"),
        ),
        ("a missing slot", ho("item=inv:MD-2026-057 ", ""), Some("item")),
        ("an id of another", ho("HO scheduler-1", "HO payer-1"), Some("id")),
        ("from and to the same", ho("to=payer", "to=scheduler"), Some("to")),
        ("too long", long, None),
        // A code nobody knows together with a fault of form is a fault of form.
        ("both", ho("ask=PAY", "ask=GIVE colour=red"), None),
    ];
    for (name, line, slot) in cases {
        let refused = match take(line) {
            Err(refused) => refused,
            Ok(taken) => panic!("{name}: {taken:?}"),
        };
        assert_eq!(refused.reason, Reason::Malformed, "{name}: {}", refused.text);
        assert_eq!(refused.field.as_deref(), Some("ho"), "{name}");
        if slot.is_some() && *name != "an id of another" {
            assert_eq!(refused.slot.as_deref(), *slot, "{name}: {}", refused.text);
        }
    }
}

#[test]
fn a_caller_that_does_not_speak_for_the_sender_learns_nothing_else() {
    // Its `to` is not served and its code unknown as well: neither is told.
    let line = ho("from=scheduler to=payer", "from=auditor to=nobody")
        .replace("HO scheduler-1", "HO auditor-1")
        .replace("ask=PAY", "ask=GIVE");
    let refused = take(&line).expect_err("not theirs");
    assert_eq!(refused.reason, Reason::NotYours);
    assert!(!refused.text.contains("nobody"), "{}", refused.text);
}

#[test]
fn what_is_asked_in_unknown_words_is_answered_un_unk_outside_the_thread() {
    for (line, word) in [
        (ho("ask=PAY", "ask=GIVE"), "GIVE"),
        (ho("cur=GBP", "cur=DOUBLOON"), "DOUBLOON"),
        (ho("p=pay", "p=nosuch"), "nosuch"),
    ] {
        match take(&line) {
            Ok(Intake::Refuse {
                why: "UNK",
                text,
                outside: true,
                handoff,
            }) => {
                assert!(text.contains(word), "{text}");
                assert_eq!(handoff.line, line);
                assert_eq!(handoff.id, "scheduler-1");
            }
            other => panic!("{word}: {other:?}"),
        }
    }
    // With a profile nobody has, its slots cannot be known either: that is the same question, not a fault of form.
    let plain = "RW1 HO scheduler-1 from=scheduler to=payer item=inv:7 ask=REVIEW p=nosuch";
    assert_eq!(un(plain).0, "UNK");
    let malformed = ho("p=pay", "p=nosuch").replace("amt=5400.00", "amt=5400.00 due=tomorrow");
    let refused = take(&malformed).expect_err("malformed");
    assert!(refused.text.contains("due"), "{}", refused.text);
}

#[test]
fn what_a_tool_cannot_do_is_answered_un_by_rule() {
    let cases = [
        (ho("rb=exec ", ""), "NOCAP", "rb=exec"),
        (ho("rb=exec", "rb=all"), "NOCAP", "rb=exec"),
        (ho("rb=exec", "rb=exec+acc"), "NOCAP", "comprehension"),
        (ho("rb=exec", "rb=plan+exec"), "NOCAP", "comprehension"),
        (ho("ask=PAY", "ask=REVIEW"), "NOCAP", "REVIEW"),
        (
            "RW1 HO scheduler-1 from=scheduler to=payer item=inv:7 ask=REVIEW".into(),
            "NOCAP",
            "the core",
        ),
        (ho("amt=5400.00", "amt=0.00"), "SCOPE", "amt"),
        (ho("amt=5400.00", "amt=-1.00"), "SCOPE", "amt"),
    ];
    for (line, why, text) in cases {
        let (got, tail, outside) = un(&line);
        assert_eq!(got, why, "{line}: {tail}");
        assert!(tail.contains(text), "{tail}");
        assert!(!outside, "it validates, so it stands in the thread");
    }
    // rb is matched in whatever case it is written.
    assert!(matches!(take(&ho("rb=exec", "rb=EXEC+all")), Ok(Intake::Take(_))));
}

#[test]
fn a_handoff_ends_with_its_exp_its_due_day_or_its_age() {
    let limit = |slots: &str| {
        let line = ho(" ref=", &format!(" {slots}ref="));
        let handoff = Handoff {
            line,
            ..an_act().handoff
        };
        limit_of(&profiles(), &handoff, NOON, 3600).to_rfc3339()
    };
    assert_eq!(limit(""), "2026-10-02T13:00:00.000Z");
    assert_eq!(limit("exp=20261002T1230Z "), "2026-10-02T12:30:00.000Z");
    assert_eq!(limit("due=20261003 "), "2026-10-04T00:00:00.000Z");
    assert_eq!(
        limit("due=20261003 exp=20261002T1230Z "),
        "2026-10-02T12:30:00.000Z"
    );
    assert_eq!(
        limit("due=20261003 exp=20261009T1230Z "),
        "2026-10-04T00:00:00.000Z"
    );
}

#[test]
fn a_statement_ends_on_a_minute_rounded_up_and_never_past_its_bound() {
    let far = NOON.plus_seconds(86_400);
    let end = |now_s: i64, ttl_s: i64, not_after| {
        statement_end(NOON.plus_seconds(now_s), ttl_s, not_after).map(|t| t.seconds_since(NOON))
    };
    assert_eq!(end(0, 300, far), Some(300));
    assert_eq!(end(1, 300, far), Some(360));
    assert_eq!(end(59, 1, far), Some(60));
    assert_eq!(
        statement_end(Timestamp(NOON.0 + 1), 300, far),
        Some(NOON.plus_seconds(360))
    );
    // The handoff's end and the cut-off bound it, rounded down: a statement never outlives them.
    assert_eq!(end(0, 300, NOON.plus_seconds(120)), Some(120));
    assert_eq!(end(0, 300, NOON.plus_seconds(179)), Some(120));
    assert_eq!(end(0, 300, Timestamp(NOON.plus_seconds(120).0 - 1)), Some(60));
    // No whole minute is left.
    assert_eq!(end(0, 300, NOON.plus_seconds(59)), None);
    assert_eq!(end(60, 300, NOON.plus_seconds(60)), None);
    assert_eq!(end(90, 300, NOON.plus_seconds(60)), None);
    assert_eq!(end(119, 300, NOON.plus_seconds(120)), Some(120));
    assert_eq!(end(0, i64::MAX, far), Some(86_400));
}
