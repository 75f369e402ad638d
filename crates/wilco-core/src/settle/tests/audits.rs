//! What was seen once, and closes that are looked at again.

use super::*;

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
