//! What these are after: what is an error and what is a stored UN, how a handoff stands to what is known, and that a
//! statement says exactly what was resolved, for no longer than it may.

use super::*;
use crate::frozen::{FrozenValue, Request, Source};
use crate::journal::EntryKind;
use crate::testing::{
    HO, NOON, a_contract, a_frozen, a_prepared_act, an_act, an_executing_act, an_offer, profiles,
    thread_lines, thread_problems,
};
use crate::{Act, Verdict};

// ---- intake

fn take(line: &str) -> Result<Intake, Refusal> {
    let served = ["payer".to_owned(), "deployer".to_owned()];
    intake(&profiles(), line, &|agent| agent == "scheduler", &served)
}

/// [`HO`] with one piece of it replaced.
fn ho(old: &str, new: &str) -> String {
    assert!(HO.contains(old), "{old}");
    HO.replace(old, new)
}

fn un(line: &str) -> (&'static str, String, bool) {
    match take(line) {
        Ok(Intake::Refuse {
            why, text, outside, ..
        }) => (why, text, outside),
        other => panic!("{line}: expected a UN, got {other:?}"),
    }
}

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

// ---- limits

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

// ---- standing

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

fn stage_of(state: State) -> Stage {
    let close = || closed("line".into(), "payer-102".into(), NOON, Some(an_offer()));
    let Stage::Executing(e) = an_executing_act().stage else {
        panic!("executing")
    };
    match state {
        State::Prepared => Stage::Prepared(an_offer()),
        State::Held => Stage::Held(an_offer()),
        State::Lapsed => Stage::Lapsed(an_offer(), Lapse::Expired),
        State::Executing => Stage::Executing(e),
        State::InDoubt => Stage::InDoubt(e),
        State::Done => Stage::Done(Closed {
            verdict: Some(Verdict::Match),
            ..close()
        }),
        State::Failed => Stage::Failed(close()),
        State::Cancelled => Stage::Cancelled(close()),
        State::Refused => Stage::Refused(close()),
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

// ---- reissue

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

// ---- freezing and stating

fn resolved() -> Resolved {
    let frozen = a_frozen();
    Resolved {
        values: frozen.values,
        extra: frozen.extra,
        request: Request {
            method: "POST".into(),
            path: "/p".into(),
            body: "{}".into(),
            key: "k".into(),
        },
        placed: Some("consent-1".into()),
        cut_off: None,
        authorise_at: None,
        notes: vec![],
    }
}

fn exec() -> Vec<String> {
    ["sup", "amt", "cur", "kind", "acct", "paid", "ref", "apref"]
        .map(str::to_owned)
        .to_vec()
}

#[test]
fn freezing_keeps_the_profiles_slots_in_its_order_and_the_earlier_end() {
    let mut from = resolved();
    from.values.reverse();
    from.values.push(FrozenValue {
        slot: "prev".into(),
        value: "not an execution slot".into(),
        source: Source::Resolved,
        evidence: String::new(),
    });
    let limit = NOON.plus_seconds(3600);
    let carried = vec!["sup".to_owned()];
    let frozen = freeze(
        from.clone(),
        &exec(),
        "bank",
        (&a_contract(), &carried),
        "digest",
        limit,
    );
    let slots: Vec<&str> = frozen.values.iter().map(|v| v.slot.as_str()).collect();
    assert_eq!(slots, exec());
    assert_eq!(frozen.not_after, limit);
    assert_eq!(frozen.carried, carried);
    assert_eq!(frozen.contract, a_contract());
    assert_eq!(frozen.profile_digest, "digest");
    assert_eq!(frozen.adapter, "bank");
    for (cut_off_s, end_s) in [(60, 60), (7200, 3600)] {
        from.cut_off = Some(NOON.plus_seconds(cut_off_s));
        let frozen = freeze(
            from.clone(),
            &exec(),
            "bank",
            (&a_contract(), &carried),
            "",
            limit,
        );
        assert_eq!(frozen.not_after, NOON.plus_seconds(end_s));
    }
}

/// The statement made of `line` with what [`a_frozen`] holds, after `change`.
fn stated_with(line: &str, change: impl FnOnce(&mut Frozen)) -> Result<Offer, Refusal> {
    let mut act = an_act();
    act.handoff.line = line.to_owned();
    let mut frozen = a_frozen();
    change(&mut frozen);
    state(
        &profiles(),
        &act,
        "payer-101",
        frozen,
        NOON,
        NOON.plus_seconds(300),
        vec!["a note".into()],
    )
}

fn statement_of(line: &str) -> Offer {
    stated_with(line, |_| {}).expect("stated")
}

#[test]
fn a_statement_says_every_value_that_would_be_used_and_passes_our_own_check() {
    let offer = statement_of(HO);
    let digest = rw1::digest(&profiles(), None, HO).expect("a digest");
    assert_eq!(
        offer.statement,
        format!(
            "RW1 RB payer-101 re=scheduler-1 from=payer to=scheduler item=inv:MD-2026-057 ask=PAY p=pay h={digest} \
             exp=20261002T1205Z sup=marlow amt=5400.00 cur=GBP kind=GROSS acct=40-12-88/61102938 paid=20261002 \
             ref=MD-2026-057 apref=FD-0929 x_dbtr=20-00-00/55779911"
        )
    );
    assert_eq!(offer.statement_sha256, sha256_hex(offer.statement.as_bytes()));
    assert_eq!((offer.attempt, offer.rb_id.as_str()), (1, "payer-101"));
    assert_eq!(offer.expires_at.to_rw1(), "20261002T1205Z");
    assert_eq!(offer.problems, []);
    assert_eq!(offer.notes, ["a note"]);
}

#[test]
fn a_value_that_is_not_the_handoffs_is_stated_as_it_is_and_found_by_the_check() {
    let offer =
        stated_with(HO, |frozen| frozen.values[4].value = "40-12-88/61102983".into()).expect("stated");
    assert!(offer.statement.contains(" acct=40-12-88/61102983 "));
    assert_eq!(offer.problems.len(), 1);
    assert_eq!(offer.problems[0].slot.as_deref(), Some("acct"));
    assert_eq!(offer.problems[0].want.as_deref(), Some("40-12-88/61102938"));
    assert_eq!(offer.problems[0].got.as_deref(), Some("40-12-88/61102983"));
    // A slot the adapter left unresolved is not made up.
    let offer = stated_with(HO, |frozen| drop(frozen.values.remove(4))).expect("stated");
    assert!(!offer.statement.contains(" acct="));
    assert_eq!(offer.problems[0].slot.as_deref(), Some("acct"));
}

#[test]
fn a_readback_echoes_due_what_the_handoff_names_and_everything_under_all() {
    let due = statement_of(&ho("rb=exec", "rb=exec due=20261003"));
    assert!(due.statement.contains(" due=20261003 "), "{}", due.statement);
    assert_eq!(due.problems, []);

    let named = statement_of(&ho(
        "rb=exec",
        "rb=exec+src+x_batch src=email:7 x_batch=9 po=PO-1",
    ));
    assert!(named.statement.contains(" src=email:7"), "{}", named.statement);
    assert!(named.statement.contains(" x_batch=9"), "{}", named.statement);
    assert!(!named.statement.contains("po=PO-1"), "{}", named.statement);
    assert_eq!(named.problems, []);

    let all = statement_of(&ho(
        "rb=exec",
        "rb=exec+all src=email:7 x_batch=9 po=PO-1 due=20261003",
    ));
    for slot in [" src=email:7", " x_batch=9", " po=PO-1", " due=20261003"] {
        assert!(all.statement.contains(slot), "{slot}: {}", all.statement);
    }
    assert_eq!(all.problems, []);
}

#[test]
fn slots_only_a_handoff_has_are_echoed_where_it_asks_for_them() {
    for (slots, rb) in [
        ("pri=1 conf=H keep=auditor", "exec+pri+conf+keep"),
        ("pri=1 conf=H keep=auditor art=doc:1 ctx=scheduler-0", "exec+all"),
    ] {
        let offer = statement_of(&ho("rb=exec", &format!("rb={rb} {slots}")));
        for slot in slots.split(' ') {
            assert!(offer.statement.contains(slot), "{slot}: {}", offer.statement);
        }
        assert_eq!(offer.problems, [], "{}", offer.statement);
    }
}

#[test]
fn the_statements_own_exp_is_never_the_handoffs_echo() {
    let offer = statement_of(&ho("rb=exec", "rb=exec+all exp=20261002T2300Z"));
    assert!(
        offer.statement.contains(" exp=20261002T1205Z "),
        "{}",
        offer.statement
    );
    assert_eq!(offer.problems, []);
}

#[test]
fn what_pays_and_the_token_are_ours_to_say_not_the_handoffs() {
    let offer = statement_of(&ho("rb=exec", "rb=exec+all x_dbtr=somebody-else x_tok=mine"));
    assert_eq!(offer.statement.matches("x_dbtr=").count(), 1);
    assert!(offer.statement.contains(" x_dbtr=20-00-00/55779911"));
    assert!(!offer.statement.contains("x_tok="));
    assert!(
        !offer.problems.is_empty(),
        "the handoff said something else: held"
    );
}

#[test]
fn a_resolved_value_that_cannot_stand_on_a_line_is_the_adapters_trouble_and_nothing_is_stored() {
    for bad in ["two words", "", "amt=1\u{202e}", "line\nend"] {
        let refused = stated_with(HO, |frozen| frozen.values[6].value = bad.into());
        match refused {
            Err(refused) => assert_eq!(refused.reason, Reason::AdapterDown, "{bad:?}"),
            // An empty value is a slot left out, which our own check finds.
            Ok(offer) => {
                assert_eq!(bad, "");
                assert_eq!(offer.problems[0].slot.as_deref(), Some("ref"));
            }
        }
    }
}

#[test]
fn the_first_statement_brings_the_handoff_into_the_thread_and_the_next_only_itself() {
    let offer = statement_of(HO);
    let first = stated(an_act(), Expect::Absent, offer.clone(), "scheduler");
    assert_eq!(first.act.state(), State::Prepared);
    assert_eq!(first.act.attempt, 1);
    assert_eq!(thread_lines(&first), [HO.to_owned(), offer.statement.clone()]);
    assert_eq!(first.entries[0].principal, "scheduler");
    assert_eq!(first.entries[1].principal, OURSELVES);
    assert_eq!(thread_problems(&thread_lines(&first), NOON), [] as [String; 0]);

    let second = Offer {
        attempt: 2,
        ..offer.clone()
    };
    let again = stated(an_act(), Expect::Version(3), second, "scheduler");
    assert_eq!(thread_lines(&again), std::slice::from_ref(&offer.statement));
    assert_eq!(again.act.attempt, 2);

    let held = stated_with(HO, |frozen| frozen.values[1].value = "5100.00".into()).expect("stated");
    let held = stated(an_act(), Expect::Absent, held, "scheduler");
    assert_eq!(held.act.state(), State::Held);
}

// ---- refusing

#[test]
fn a_un_closes_the_handoff_in_the_thread_or_stays_outside_with_it() {
    let make = |outside: bool| {
        let act = Act {
            undo_of: Some(an_act().act_id),
            ..an_act()
        };
        refused(
            &profiles(),
            act,
            Expect::Absent,
            "NOCAP",
            "no such thing",
            outside,
            "scheduler",
            NOON,
        )
        .expect("a UN")
    };
    let inside = make(false);
    assert_eq!(inside.act.state(), State::Refused);
    assert_eq!(
        thread_lines(&inside)[1],
        "RW1 UN payer-101 re=scheduler-1 from=payer to=scheduler item=inv:MD-2026-057 why=NOCAP p=pay // no such thing"
    );
    assert_eq!(thread_problems(&thread_lines(&inside), NOON), [] as [String; 0]);
    assert_eq!(inside.act.undo_of, None, "a refused UNDO reverses nothing");
    let ids = |change: &Change| -> Vec<Option<String>> {
        change.entries.iter().map(|e| e.message_id.clone()).collect()
    };
    assert_eq!(
        ids(&inside),
        [Some("scheduler-1".to_owned()), Some("payer-101".to_owned())]
    );

    let outside = make(true);
    assert_eq!(thread_lines(&outside), [] as [String; 0]);
    assert!(outside.entries.iter().all(|e| e.kind == EntryKind::Outside));
    assert_eq!(
        ids(&outside),
        [None, None],
        "an id outside the thread takes nothing"
    );
}

#[test]
fn a_un_about_an_unknown_profile_does_not_carry_it() {
    let mut act = an_act();
    act.handoff.profile = "nosuch".into();
    let change = refused(
        &profiles(),
        act,
        Expect::Absent,
        "UNK",
        "p=nosuch is unknown",
        true,
        "scheduler",
        NOON,
    )
    .expect("a UN");
    let line = &change.act.closed().expect("closed").line;
    assert!(
        !line.split(" // ").next().is_some_and(|head| head.contains(" p=")),
        "{line}"
    );
    assert!(rw1::parse_strict(&profiles(), None, line).is_ok(), "{line}");
}

#[test]
fn superseding_closes_the_old_handoff_with_a_un_that_names_the_new_one() {
    let target = Act {
        undo_of: Some(an_act().act_id),
        ..a_prepared_act()
    };
    let change = superseded(&profiles(), &target, "scheduler-9", NOON).expect("a UN");
    assert_eq!(change.expect, Expect::Version(1));
    let closed = change.act.closed().expect("closed");
    assert!(closed.superseded);
    assert_eq!(closed.offer, Some(an_offer()));
    assert!(closed.line.contains("why=SUPERSEDED"), "{}", closed.line);
    assert!(
        closed.line.ends_with("// replaced by scheduler-9"),
        "{}",
        closed.line
    );
    assert_eq!(change.act.undo_of, None);
}

// ---- likeness

#[test]
fn two_payments_are_alike_by_item_payee_amount_and_account_alone() {
    let like = |change: &dyn Fn(&mut Handoff, &mut Frozen)| {
        let (mut handoff, mut frozen) = (an_act().handoff, a_frozen());
        change(&mut handoff, &mut frozen);
        likeness(&profiles(), &handoff, &frozen)
    };
    let same = like(&|_, _| {});
    assert!(same.is_some());
    assert_eq!(same, like(&|h, _| h.id = "scheduler-77".into()));
    assert_eq!(same, like(&|_, f| f.values[7].value = "FD-1".into()), "apref");
    assert_ne!(same, like(&|h, _| h.item = "inv:2".into()));
    assert_ne!(same, like(&|_, f| f.values[1].value = "5400.01".into()), "amt");
    assert_ne!(same, like(&|_, f| f.values[4].value = "1/2".into()), "acct");
    assert_eq!(like(&|h, _| h.ask = "SEND".into()), None);
    assert_eq!(like(&|h, _| h.profile = "nosuch".into()), None);
}
