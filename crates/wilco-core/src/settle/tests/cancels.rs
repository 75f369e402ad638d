//! Cancels that waited for the truth.

use super::*;

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
