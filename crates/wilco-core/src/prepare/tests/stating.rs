//! What is frozen and stated.

use super::*;

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
