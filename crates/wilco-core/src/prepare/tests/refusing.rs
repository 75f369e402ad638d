//! Stored refusals, and likeness.

use super::*;

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
