//! Who brings news, and whose news may change the state.

use super::*;

#[test]
fn only_the_owner_and_epoch_of_the_claim_hold_it() {
    let act = held_by("here.1", 2);
    let holds = |owner: &str, epoch| {
        Bearer {
            owner: owner.into(),
            epoch,
        }
        .holds(&act)
    };
    assert!(holds("here.1", 2));
    assert!(!holds("here.1", 1), "fenced by its own later epoch");
    assert!(!holds("here.1", 3) && !holds("there.1", 2) && !holds("", 2));
    let closed = apply(&an_executing_act(), &News::Executed(shown()), 20);
    let was = Bearer::of(closed.closed().and_then(|c| c.claim.as_ref()).expect("a claim"));
    assert!(!was.holds(&closed), "a closed act is held by nobody");
}

#[test]
fn what_a_former_owner_reports_is_left_for_the_holder_and_changes_no_state() {
    let act = held_by("here.1", 2);
    let change = kept(&act, &News::Executed(shown()));
    assert_eq!(change.expect, Expect::Version(act.version));
    assert_eq!(change.act.state(), State::InDoubt);
    assert_eq!(progress(&change.act).heard, Some(shown()));
    assert_eq!(progress(&change.act).next_at, at(99), "the holder looks at once");
    assert_eq!(
        change.act.execution().map(|e| &e.claim),
        act.execution().map(|e| &e.claim)
    );
    assert_eq!(
        thread_lines(&change),
        [] as [String; 0],
        "nothing enters the thread"
    );
    let body = &change.entries[0].body;
    assert!(
        body.contains("late_evidence") && body.contains("there.1") && body.contains("bank-1"),
        "{body}"
    );
}

#[test]
fn what_was_refused_had_been_taken_on_and_saying_so_late_contradicts_nothing() {
    let verdict = |act: &Act, news: &News| closed_of(&kept(act, news)).verdict;
    let seen_there = [
        News::Accepted(shown()),
        News::LookupExists("it stands there".into()),
    ];
    let refused = apply(
        &an_executing_act(),
        &News::Refused("insufficient funds".into()),
        20,
    );
    let never_left = apply(&an_executing_act(), &no(), 20);
    for seen in &seen_there {
        assert_eq!(verdict(&refused, seen), None, "{seen:?}");
        assert_eq!(
            verdict(&never_left, seen),
            Some(Verdict::Contradicted),
            "{seen:?}"
        );
    }
    for act in [&refused, &never_left] {
        let carried_out = News::Executed(shown());
        assert_eq!(verdict(act, &carried_out), Some(Verdict::Contradicted));
    }
}

#[test]
fn a_former_owners_no_is_about_its_own_call_and_proves_nothing() {
    for news in [no(), News::CallUnknown("?".into()), absent(90)] {
        let act = held_by("here.1", 2);
        let change = kept(&act, &news);
        assert_eq!(change.act.stage, act.stage, "{news:?}");
        assert_eq!(change.entries.len(), 1);
    }
}

#[test]
fn a_call_that_came_back_is_open_no_more_whatever_it_brought() {
    for news in [
        no(),
        News::CallUnknown("?".into()),
        News::Executed(shown()),
        News::Accepted(shown()),
    ] {
        let change = kept(&taken_from_there(), &news);
        let after = progress(&change.act);
        assert!(!after.others_open && after.open_calls.is_empty(), "{news:?}");
        assert_eq!(after.over_since, Some(at(99)), "{news:?}");
        assert_eq!(change.act.state(), State::InDoubt);
    }
    // A lookup of theirs is no call, and another epoch or owner is another call.
    let other = |owner: &str, epoch| Bearer {
        owner: owner.into(),
        epoch,
    };
    for (news, from) in [
        (absent(90), stale()),
        (News::LookupUnknown("?".into()), stale()),
        (no(), other("there.1", 3)),
        (no(), other("third.1", 1)),
    ] {
        let change = evidence(&taken_from_there(), &news, &from, at(99));
        assert_eq!(change.act.stage, taken_from_there().stage, "{news:?} of {from:?}");
    }
}

#[test]
fn a_call_that_came_back_ends_nothing_while_the_holder_is_calling_itself() {
    let mut act = taken_from_there();
    if let Stage::InDoubt(e) = act.stage {
        act.stage = Stage::Executing(e);
    }
    let change = kept(&act, &no());
    assert!(!progress(&change.act).others_open);
    assert_eq!(progress(&change.act).over_since, None);
}

#[test]
fn evidence_that_agrees_with_a_close_is_kept_and_says_nothing_more() {
    let done = apply(&an_executing_act(), &News::Executed(shown()), 20);
    let failed = apply(&an_executing_act(), &no(), 20);
    for (act, news) in [
        (&done, News::Executed(shown())),
        (&done, News::Accepted(shown())),
        (&done, absent(90)),
        (&failed, no()),
        (&failed, News::LookupUnknown("?".into())),
    ] {
        assert!(!contradicts(act, &news, &mine()));
        let change = kept(act, &news);
        assert_eq!(change.act.stage, act.stage);
        assert_eq!(change.entries.len(), 1);
    }
}

#[test]
fn evidence_against_a_close_marks_it_and_never_replaces_its_line() {
    let done = apply(&an_executing_act(), &News::Executed(shown()), 20);
    let failed = apply(&an_executing_act(), &no(), 20);
    for (act, news) in [
        (&failed, News::Executed(shown())),
        (&failed, News::Accepted(shown())),
        (&done, no()),
    ] {
        assert!(contradicts(act, &news, &mine()));
        let change = evidence(act, &news, &mine(), at(99));
        let (before, after) = (act.closed().expect("closed"), closed_of(&change));
        assert_eq!(change.act.state(), act.state());
        assert_eq!(after.verdict, Some(Verdict::Contradicted));
        assert_eq!((&after.line, &after.line_id), (&before.line, &before.line_id));
        assert!(after.notes.len() == before.notes.len() + 1 && after.notes.last() != before.notes.last());
        assert_eq!(thread_lines(&change), [] as [String; 0]);
    }
}

#[test]
fn the_no_to_an_earlier_sending_contradicts_only_what_no_receipt_stands_for() {
    // Claimed by another daemon, taken over, and sent again by the holder: its answer closed it.
    let receipted = apply(&an_executing_act(), &News::Executed(shown()), 20);
    assert!(receipted.closed().is_some_and(|c| c.receipt.is_some()));
    for (act, from, against) in [
        (&receipted, stale(), false),
        (&receipted, mine(), true),
        (&without_receipt(&receipted), stale(), true),
    ] {
        assert_eq!(contradicts(act, &no(), &from), against, "{from:?}");
        let change = evidence(act, &no(), &from, at(99));
        let verdict = closed_of(&change).verdict;
        assert_eq!(verdict == Some(Verdict::Contradicted), against, "{from:?}");
    }
}

#[test]
fn what_a_former_owner_reported_is_never_absent_and_no_person_says_it_was_not_done() {
    let mut act = reported();
    for second in [200, 400, 4_000] {
        act = apply(&act, &absent(second), second);
        assert_eq!(act.state(), State::InDoubt, "at {second}");
    }
    let refused = word_on(&act, false, 10_000).expect_err("it was done");
    assert!(refused.text.contains("bank-1"), "{}", refused.text);
    let word = Word {
        done: true,
        evidence: "seen",
        operator: "duty",
        owner_dead: false,
    };
    let settled = settled_by_operator(&profiles(), &act, &a_contract(), &word, at(10_000)).expect("settled");
    assert_eq!(settled.act.state(), State::Done);
    assert_eq!(
        closed_of(&settled).receipt,
        shown().receipt,
        "with what the counterparty showed"
    );
}

#[test]
fn two_receipts_are_two_orders_and_call_a_person() {
    let done = apply(&an_executing_act(), &News::Executed(shown()), 20);
    for news in [News::Executed(another()), News::Accepted(another())] {
        assert!(contradicts(&done, &news, &stale()));
        assert_eq!(
            closed_of(&kept(&done, &news)).verdict,
            Some(Verdict::Contradicted)
        );
    }
    assert!(!contradicts(&done, &News::Executed(shown()), &stale()));
    // Heard of both before it was settled.
    let both = kept(&reported(), &News::Executed(another())).act;
    assert_eq!(progress(&both).heard, Some(shown()), "the first is kept");
    let settled = news_at(&both, &News::Executed(shown()), 120);
    let closed = closed_of(&settled);
    assert_eq!(closed.verdict, Some(Verdict::Contradicted));
    assert!(
        closed.notes.iter().any(|n| n.contains("bank-2")),
        "{:?}",
        closed.notes
    );
}

#[test]
fn a_look_again_that_nobody_answers_does_not_count() {
    let failed = apply(&apply(&over(), &absent(21), 21), &absent(81), 81);
    let mut act = failed;
    for _ in 0..40 {
        let due = act.due_at().expect("looked at again");
        act = audited(&act, &unanswered(), &a_contract(), due)
            .expect("under audit")
            .act;
    }
    let looks = act.closed().and_then(|c| c.audit).map(|a| a.looks);
    assert_eq!(looks, Some(0));
    let month = at(81).plus_seconds(31 * 86_400);
    let given_up = audited(&act, &unanswered(), &a_contract(), month)
        .expect("under audit")
        .act;
    assert_eq!(given_up.due_at(), None, "but not for ever");
}
