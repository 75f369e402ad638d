//! What these are after: the done line says what the outside showed and nothing else, doubt stays doubt until it is
//! proved away, and every cancel that waited is answered with the truth.

use super::*;
use crate::act::OpenCall;
use crate::act::WaitingCancel;
use crate::contract::{Identity, LateSend, LookupBy};
use crate::testing::{
    CONFIRMATION, HO, NOON, a_contract, an_executing_act, an_offer, profiles, thread_lines, thread_problems,
};
use crate::{Reason, State};

const CX: &str = "RW1 CX scheduler-3 re=scheduler-1 from=scheduler to=payer item=inv:MD-2026-057 p=pay";

const PACE: Pace = Pace {
    first_s: 2,
    longest_s: 60,
    escalate_after: 3,
};

/// What a bank shows of the seed's payment.
fn shown() -> Executed {
    let values = [
        ("amt", "5400.00"),
        ("cur", "GBP"),
        ("acct", "40-12-88/61102938"),
        ("paid", "20261002"),
        ("ref", "MD-2026-057"),
    ];
    Executed {
        values: values.map(|(k, v)| (k.to_owned(), v.to_owned())).to_vec(),
        receipt: Some("bank-1".into()),
        status: "AcceptedSettlementCompleted".into(),
        provisional: false,
    }
}

fn with(slot: &str, value: Option<&str>) -> Executed {
    let mut executed = shown();
    executed.values.retain(|(k, _)| k != slot);
    executed
        .values
        .extend(value.map(|value| (slot.to_owned(), value.to_owned())));
    executed
}

fn at(seconds: i64) -> Timestamp {
    NOON.plus_seconds(seconds)
}

fn in_doubt(act: Act) -> Act {
    let Stage::Executing(e) = act.stage else {
        panic!("executing")
    };
    Act {
        stage: Stage::InDoubt(e),
        ..act
    }
}

/// One that a cancel waits for.
fn awaited(act: Act) -> Act {
    let waiting = vec![WaitingCancel {
        line: CX.into(),
        id: "scheduler-3".into(),
    }];
    Act { waiting, ..act }
}

/// An act whose call is over since second 20.
fn over() -> Act {
    apply(
        &an_executing_act(),
        &News::CallUnknown("the line went dead".into()),
        20,
    )
}

fn change_by(act: &Act, news: &News, contract: &Contract, now: Timestamp) -> Change {
    settle(&profiles(), act, news, contract, PACE, now)
        .expect("a line")
        .expect("claimed")
}

fn news_at(act: &Act, news: &News, second: i64) -> Change {
    change_by(act, news, &a_contract(), at(second))
}

/// The act after the news, as the store would hand it back.
fn apply(act: &Act, news: &News, second: i64) -> Act {
    let mut next = news_at(act, news, second).act;
    next.version += 1;
    next
}

fn absent(second: i64) -> News {
    News::LookupAbsent {
        asked_at: at(second),
        text: "no such reference".into(),
    }
}

fn closed_of(change: &Change) -> &Closed {
    change.act.closed().expect("closed")
}

fn progress(act: &Act) -> &crate::act::Progress {
    &act.execution().expect("claimed").progress
}

// ---- done

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

// ---- waiting cancels

#[test]
fn a_cancel_that_lost_enters_the_thread_after_the_done_line_and_gets_no_an() {
    let change = news_at(&awaited(an_executing_act()), &News::Executed(shown()), 20);
    let lines = thread_lines(&change);
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with("RW1 DN payer-102 "));
    assert_eq!(lines[1], CX);
    assert_eq!(change.act.waiting, []);
    let thread: Vec<String> = [HO, &an_offer().statement, CONFIRMATION]
        .map(str::to_owned)
        .into_iter()
        .chain(lines)
        .collect();
    assert_eq!(thread_problems(&thread, at(20)), [] as [String; 0]);
    // Its id was taken when it arrived.
    assert_eq!(change.entries[2].message_id, None);
}

#[test]
fn where_nothing_was_done_each_waiting_cancel_is_acknowledged_after_the_fail_line() {
    let mut act = awaited(an_executing_act());
    act.waiting.push(WaitingCancel {
        line: CX.replace("CX scheduler-3", "CX scheduler-4"),
        id: "scheduler-4".into(),
    });
    let refused = News::NotDone {
        why: "ERR",
        text: "insufficient funds".into(),
    };
    let change = news_at(&act, &refused, 20);
    let lines = thread_lines(&change);
    assert_eq!(
        lines[0],
        "RW1 FL payer-102 re=scheduler-1 from=payer to=scheduler item=inv:MD-2026-057 why=ERR retry=N p=pay // \
         insufficient funds"
    );
    assert_eq!(lines[1], CX);
    assert_eq!(
        lines[2],
        "RW1 AN payer-103 re=scheduler-3 from=payer to=scheduler val=Y p=pay // nothing was done"
    );
    assert!(lines[4].starts_with("RW1 AN payer-104 re=scheduler-4 "));
    assert_eq!(change.act.waiting, []);
    assert_eq!(change.act.undo_of, None);
    let thread: Vec<String> = [HO, &an_offer().statement, CONFIRMATION]
        .map(str::to_owned)
        .into_iter()
        .chain(lines)
        .collect();
    assert_eq!(thread_problems(&thread, at(20)), [] as [String; 0]);
    assert_eq!(closed_of(&change).verdict, None);
    assert!(closed_of(&change).claim.is_some());
}

#[test]
fn while_in_doubt_a_cancel_goes_on_waiting() {
    for news in [
        News::CallUnknown("?".into()),
        News::LookupUnknown("?".into()),
        News::Accepted(shown()),
    ] {
        assert_eq!(
            apply(&awaited(an_executing_act()), &news, 20).waiting.len(),
            1,
            "{news:?}"
        );
    }
}

// ---- absence

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

// ---- accepted

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

// ---- pace

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

// ---- a person's word

fn word(act: &Act, done: bool, second: i64) -> Result<Change, Refusal> {
    settled_by_operator(
        &profiles(),
        act,
        &a_contract(),
        &Word {
            done,
            evidence: "seen in the bank's own screen by duty",
            operator: "duty",
            owner_dead: false,
        },
        at(second),
    )
}

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

// ---- who brings news

fn held_by(owner: &str, epoch: u64) -> Act {
    let mut act = in_doubt(an_executing_act());
    if let Stage::InDoubt(e) = &mut act.stage {
        owner.clone_into(&mut e.claim.owner);
        e.claim.epoch = epoch;
    }
    act
}

fn stale() -> Bearer {
    Bearer {
        owner: "there.1".into(),
        epoch: 1,
    }
}

/// The holder of the claim [`an_executing_act`] was made with.
fn mine() -> Bearer {
    Bearer {
        owner: "me".into(),
        epoch: 1,
    }
}

fn kept(act: &Act, news: &News) -> Change {
    evidence(act, news, &stale(), at(99))
}

fn no() -> News {
    News::NotDone {
        why: "ERR",
        text: "insufficient funds".into(),
    }
}

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

/// Taken from `there.1`, which had claimed it under epoch 1.
fn taken_from_there() -> Act {
    let mut act = held_by("here.1", 2);
    if let Stage::InDoubt(e) = &mut act.stage {
        e.progress.others_open = true;
        e.progress.open_calls = vec![OpenCall {
            owner: "there.1".into(),
            epoch: 1,
        }];
    }
    act.updated_at = at(50);
    act
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

fn without_receipt(done: &Act) -> Act {
    let mut done = done.clone();
    if let Stage::Done(closed) = &mut done.stage {
        closed.receipt = None;
    }
    done
}

// ---- a person's word where a call may be open

fn word_on(act: &Act, owner_dead: bool, second: i64) -> Result<Change, Refusal> {
    let word = Word {
        done: false,
        evidence: "the host was switched off, and the bank shows nothing",
        operator: "duty",
        owner_dead,
    };
    settled_by_operator(&profiles(), act, &a_contract(), &word, at(second))
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

// ---- what was seen once, and what is looked at again

#[test]
fn what_was_seen_at_the_counterparty_is_never_absent_again() {
    let seen = apply(&over(), &News::LookupExists("consent is Consumed".into()), 21);
    assert_eq!(seen.state(), State::InDoubt);
    let mut act = seen.clone();
    for second in [30, 100, 200, 400, 4_000] {
        act = apply(&act, &absent(second), second);
        assert_eq!(act.state(), State::InDoubt, "at {second}: still in doubt");
    }
    let refused =
        word(&act, false, 100_000).expect_err("a person must name the order to say it came to nothing");
    assert!(refused.text.contains("consent-1"), "{}", refused.text);
    assert!(word(&act, true, 100_000).is_ok());
    let asked = "the bank says that the order of consent-1 was refused";
    let said = Word {
        done: false,
        evidence: asked,
        operator: "duty",
        owner_dead: false,
    };
    let settled = settled_by_operator(&profiles(), &act, &a_contract(), &said, at(100_000)).expect("settled");
    assert_eq!(settled.act.state(), State::Failed);
}

#[test]
fn a_close_concluded_from_lookups_is_looked_at_again_and_contradicted_by_what_turns_up() {
    let failed = apply(&apply(&over(), &absent(21), 21), &absent(81), 81);
    assert_eq!(failed.state(), State::Failed);
    let due = failed.due_at().expect("looked at again");
    assert!(due > at(81));
    let looked = audited(&failed, &nothing(due), &a_contract(), due)
        .expect("under audit")
        .act;
    assert!(looked.due_at().is_some_and(|next| next > due), "later and later");
    assert_eq!(looked.closed().map(|c| &c.line), failed.closed().map(|c| &c.line));
    for news in [
        News::Executed(shown()),
        News::Accepted(shown()),
        News::LookupExists("there".into()),
    ] {
        assert!(contradicts(&looked, &news, &mine()));
        let marked = evidence(&looked, &news, &mine(), at(99)).act;
        let closed = marked.closed().expect("closed");
        assert_eq!(closed.verdict, Some(Verdict::Contradicted));
        assert_eq!(
            closed.line,
            failed.closed().expect("closed").line,
            "the line stands"
        );
        assert_eq!(marked.due_at(), None);
    }
    let mut act = looked;
    for _ in 0..20 {
        let Some(due) = act.due_at() else { break };
        act = audited(&act, &nothing(due), &a_contract(), due)
            .expect("under audit")
            .act;
    }
    assert_eq!(act.due_at(), None, "an audit ends");
}

#[test]
fn what_the_counterparty_refused_in_words_needs_no_audit() {
    let news = News::NotDone {
        why: "ERR",
        text: "no funds".into(),
    };
    assert_eq!(apply(&an_executing_act(), &news, 20).due_at(), None);
}

// ---- what a former owner reported

/// Reported as done by `there.1`, after `here.1` took the act over.
fn reported() -> Act {
    let act = kept(&taken_from_there(), &News::Executed(shown())).act;
    assert_eq!(progress(&act).heard, Some(shown()));
    Act { version: 9, ..act }
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

fn another() -> Executed {
    Executed {
        receipt: Some("bank-2".into()),
        ..shown()
    }
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

fn nothing(asked_at: Timestamp) -> News {
    News::LookupAbsent {
        asked_at,
        text: "no trace".into(),
    }
}

fn unanswered() -> News {
    News::LookupUnknown("?".into())
}

// ---- what the counterparty may still reject

fn provisional() -> News {
    News::Executed(Executed {
        provisional: true,
        status: "AcceptedSettlementInProcess".into(),
        ..shown()
    })
}

#[test]
fn what_may_still_be_rejected_is_done_and_looked_at_until_it_is_final() {
    let mut act = apply(&an_executing_act(), &provisional(), 20);
    assert_eq!(act.state(), State::Done);
    let line = act.closed().expect("closed").line.clone();
    // As long as it is not final; a look that nobody answers changes nothing.
    let blocked = News::LookupExists("blocked".into());
    for news in [
        provisional(),
        unanswered(),
        blocked,
        nothing(at(30)),
        provisional(),
    ] {
        let due = act.due_at().expect("looked at again");
        assert!(!contradicts(&act, &news, &mine()));
        act = audited(&act, &news, &a_contract(), due).expect("under audit").act;
        assert!(act.due_at().is_some_and(|next| next > due));
    }
    let due = act.due_at().expect("looked at again");
    let notes = &act.closed().expect("closed").notes;
    assert!(notes.iter().any(|n| n.ends_with("blocked")), "{notes:?}");
    let change = audited(&act, &News::Executed(shown()), &a_contract(), due).expect("under audit");
    assert_eq!(change.act.due_at(), None);
    assert_eq!(change.entries.len(), 1, "the journal says that it is final");
    let closed = closed_of(&change);
    assert_eq!((closed.verdict, &closed.line), (Some(Verdict::Match), &line));
    assert!(
        closed.notes.iter().any(|n| n.starts_with("final")),
        "{:?}",
        closed.notes
    );
}

#[test]
fn what_nobody_called_final_for_a_month_says_so() {
    let act = apply(&an_executing_act(), &provisional(), 20);
    let month = at(20).plus_seconds(31 * 86_400);
    for last in [provisional(), unanswered()] {
        let given_up = audited(&act, &last, &a_contract(), month).expect("under audit");
        assert_eq!(given_up.act.due_at(), None);
        let notes = &closed_of(&given_up).notes;
        assert!(notes.iter().any(|n| n.contains("within a month")), "{notes:?}");
    }
}

#[test]
fn a_later_rejection_marks_what_was_done() {
    let act = apply(&an_executing_act(), &provisional(), 20);
    let line = act.closed().expect("closed").line.clone();
    let news = News::Refused("the payee's bank sent it back".into());
    assert!(contradicts(&act, &news, &mine()));
    let marked = evidence(&act, &news, &mine(), at(99));
    let closed = closed_of(&marked);
    assert_eq!(
        (closed.verdict, &closed.line),
        (Some(Verdict::Contradicted), &line)
    );
    assert!(
        closed.notes.iter().any(|n| n.contains("sent it back")),
        "{:?}",
        closed.notes
    );
    assert_eq!(marked.act.due_at(), None);
}

#[test]
fn what_is_final_is_not_looked_at_again() {
    let act = apply(&an_executing_act(), &News::Executed(shown()), 20);
    assert_eq!(act.due_at(), None);
    assert!(audited(&act, &provisional(), &a_contract(), at(30)).is_none());
}

#[test]
fn who_vouches_that_it_was_done_has_seen_it_there() {
    let word = Word {
        done: true,
        evidence: "the bank's screen shows it paid",
        operator: "duty",
        owner_dead: true,
    };
    let settle = |act: &Act, second| settled_by_operator(&profiles(), act, &a_contract(), &word, at(second));
    let mut act = settle(&taken_from_there(), 1_000).expect("kept").act;
    assert_eq!(act.state(), State::InDoubt);
    // Whatever lookups find meanwhile, nobody concludes the opposite.
    for second in [1_001, 1_100, 9_000] {
        act = apply(&act, &absent(second), second);
        assert_eq!(act.state(), State::InDoubt, "at {second}");
    }
    assert_eq!(settle(&act, 9_001).expect("settled").act.state(), State::Done);
}

// ---- what the counterparty shows besides

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
