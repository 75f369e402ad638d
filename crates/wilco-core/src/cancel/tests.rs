//! What these are after: a cancel is answered with the truth in every state, a cancel that comes first is never
//! forgotten, and nothing of it breaks the thread.

use super::*;
use crate::act::Closed;
use crate::act::{Lapse, Verdict};
use crate::testing::{
    CONFIRMATION, HO, NOON, a_prepared_act, an_act, an_executing_act, an_offer, profiles, thread_lines,
    thread_problems,
};
use crate::{ActId, State};

const CX: &str =
    "RW1 CX scheduler-3 re=scheduler-1 from=scheduler to=payer item=inv:MD-2026-057 p=pay why=REVOKED";
const CX2: &str = "RW1 CX scheduler-4 re=scheduler-1 from=scheduler to=payer item=inv:MD-2026-057 p=pay";

fn take(line: &str) -> Result<Cancel, Refusal> {
    let served = ["payer".to_owned(), "auditor".to_owned()];
    intake(&profiles(), line, &|agent| agent == "scheduler", &served)
}

fn cx(line: &str) -> Cancel {
    take(line).expect("a cancel")
}

fn effect(act: &Act, cancel: &Cancel) -> Effect {
    decide(&profiles(), act, cancel, true, "scheduler", NOON).expect("decided")
}

fn written(act: &Act, cancel: &Cancel) -> Change {
    match effect(act, cancel) {
        Effect::Write(change) => *change,
        Effect::WriteAndWait(_) => panic!("answered at once"),
    }
}

fn staged(stage: Stage) -> Act {
    Act {
        stage,
        ..a_prepared_act()
    }
}

fn a_close(line: &str) -> Closed {
    closed(line.into(), "payer-102".into(), NOON, Some(an_offer()))
}

fn blank() -> Act {
    Act {
        handoff: Handoff::default(),
        ..an_act()
    }
}

fn grave() -> Act {
    let change = tombstone(&profiles(), blank(), &cx(CX), "scheduler", NOON).expect("a tombstone");
    Act {
        version: 1,
        ..change.act
    }
}

// ---- reading

#[test]
fn a_cancel_is_a_cx_line_of_the_callers_to_an_agent_we_serve() {
    let cancel = cx(CX);
    assert_eq!(
        (cancel.id.as_str(), cancel.re.as_str()),
        ("scheduler-3", "scheduler-1")
    );
    assert_eq!((cancel.from.as_str(), cancel.to.as_str()), ("scheduler", "payer"));
    assert_eq!(
        (cancel.item.as_str(), cancel.profile.as_str()),
        ("inv:MD-2026-057", "pay")
    );
    assert_eq!(cx(&format!("{CX}\r\n")), cancel);

    let refused = |line: &str| take(line).expect_err(line);
    assert_eq!(refused("garbage").reason, Reason::Malformed);
    assert_eq!(refused(CONFIRMATION).reason, Reason::Malformed);
    assert_eq!(refused(&format!("{CX}\n\n")).reason, Reason::Malformed);
    assert_eq!(
        refused(&CX.replace(" why=REVOKED", " bogus=1")).reason,
        Reason::Malformed
    );
    let strangers = CX
        .replace("scheduler-3", "auditor-3")
        .replace("from=scheduler", "from=auditor");
    assert_eq!(refused(&strangers).reason, Reason::NotYours);
    let unserved = refused(&CX.replace("to=payer", "to=nobody"));
    assert_eq!(
        (unserved.reason, unserved.slot.as_deref()),
        (Reason::Malformed, Some("to"))
    );
}

#[test]
fn a_cancel_by_another_sender_is_told_what_an_unknown_handoff_is_told() {
    let mut stranger = cx(CX);
    stranger.from = "auditor".into();
    let refused = fits(&a_prepared_act(), &stranger).expect_err("not theirs");
    let unknown_re = Cancel {
        re: "not-an-id-of-theirs".into(),
        ..stranger.clone()
    };
    let unknown = tombstone(&profiles(), blank(), &unknown_re, "auditor", NOON).expect_err("unknown");
    assert_eq!(refused.reason, Reason::UnknownAct);
    assert_eq!(refused.reason, unknown.reason);
    assert_eq!((refused.field, refused.slot), (unknown.field, unknown.slot));
    assert_eq!(
        fits(&grave(), &stranger).map_err(|r| r.reason),
        Err(Reason::UnknownAct)
    );
}

#[test]
fn a_cancel_goes_to_the_handoffs_receiver_about_its_item() {
    assert_eq!(fits(&a_prepared_act(), &cx(CX)), Ok(()));
    let elsewhere = cx(&CX.replace("to=payer", "to=auditor"));
    let refused = fits(&a_prepared_act(), &elsewhere).expect_err("to");
    assert_eq!(
        (refused.reason, refused.slot.as_deref()),
        (Reason::Malformed, Some("to"))
    );
    let other = cx(&CX.replace("item=inv:MD-2026-057", "item=inv:2"));
    let refused = fits(&a_prepared_act(), &other).expect_err("item");
    assert_eq!(
        (refused.reason, refused.slot.as_deref()),
        (Reason::Malformed, Some("item"))
    );
    // A tombstone refuses the id whatever its `to`.
    assert_eq!(fits(&grave(), &elsewhere), Ok(()));
}

// ---- what it does

#[test]
fn an_unclaimed_act_is_abandoned_and_said_so() {
    for stage in [
        Stage::Prepared(an_offer()),
        Stage::Held(an_offer()),
        Stage::Lapsed(an_offer(), Lapse::Expired),
        Stage::Lapsed(an_offer(), Lapse::Declined),
    ] {
        let act = Act {
            undo_of: Some(ActId::new(NOON, [1; 10])),
            ..staged(stage)
        };
        let change = written(&act, &cx(CX));
        assert_eq!(
            change.expect,
            Expect::Version(1),
            "linearised against commit by the version"
        );
        assert_eq!(change.act.state(), State::Cancelled);
        assert_eq!(
            change.act.undo_of, None,
            "the other act may be reversed by another"
        );
        let answer = "RW1 AN payer-102 re=scheduler-3 from=payer to=scheduler val=Y p=pay // statement abandoned; nothing was done";
        assert_eq!(thread_lines(&change), [CX, answer]);
        let closed = change.act.closed().expect("closed");
        assert_eq!(closed.line, answer);
        assert_eq!(closed.offer, Some(an_offer()), "what was placed must be released");
        let thread = [HO, &an_offer().statement, CX, answer];
        assert_eq!(thread_problems(&thread, NOON), [] as [String; 0]);
    }
}

#[test]
fn while_it_may_run_a_cancel_waits_outside_the_thread_and_takes_its_id() {
    let executing = an_executing_act();
    let Stage::Executing(e) = executing.stage.clone() else {
        panic!("executing")
    };
    for act in [
        executing,
        Act {
            stage: Stage::InDoubt(e),
            ..an_executing_act()
        },
    ] {
        let Effect::WriteAndWait(change) = effect(&act, &cx(CX)) else {
            panic!("it waits for the truth")
        };
        assert_eq!(change.act.stage, act.stage, "nothing is abandoned");
        assert_eq!(change.act.waiting.len(), 1);
        assert_eq!(change.act.lines, act.lines, "no line of ours is issued");
        assert_eq!(thread_lines(&change), [] as [String; 0]);
        assert_eq!(change.entries[0].kind, EntryKind::CancelArrived);
        assert_eq!(change.entries[0].message_id.as_deref(), Some("scheduler-3"));
    }
}

#[test]
fn a_cancel_after_the_act_was_done_is_never_acknowledged() {
    let dn = "RW1 DN payer-102 re=scheduler-1 from=payer to=scheduler item=inv:MD-2026-057 out=OK p=pay";
    let act = staged(Stage::Done(Closed {
        verdict: Some(Verdict::Match),
        ..a_close(dn)
    }));
    let change = written(&act, &cx(CX));
    assert_eq!(change.act.stage, act.stage);
    assert_eq!(thread_lines(&change), [CX], "no AN");
    let thread = [HO, &an_offer().statement, CONFIRMATION, dn, CX];
    assert_eq!(thread_problems(&thread, NOON), [] as [String; 0]);
}

#[test]
fn a_cancel_of_what_was_closed_without_effect_is_acknowledged_and_closes_nothing_twice() {
    let fl = "RW1 FL payer-102 re=scheduler-1 from=payer to=scheduler item=inv:MD-2026-057 why=EXPIRED retry=N p=pay";
    let un = "RW1 UN payer-102 re=scheduler-1 from=payer to=scheduler item=inv:MD-2026-057 why=NOCAP p=pay";
    for (stage, line) in [
        (Stage::Failed(a_close(fl)), fl),
        (Stage::Refused(a_close(un)), un),
    ] {
        let act = Act {
            lines: 2,
            ..staged(stage)
        };
        let change = written(&act, &cx(CX));
        assert_eq!(change.act.stage, act.stage, "the closing line stands");
        let lines = thread_lines(&change);
        assert!(
            lines[1].starts_with("RW1 AN payer-103 re=scheduler-3 "),
            "{}",
            lines[1]
        );
        let thread = [HO, &an_offer().statement, line, &lines[0], &lines[1]];
        assert_eq!(thread_problems(&thread, NOON), [] as [String; 0]);
    }
}

#[test]
fn a_cancel_of_a_handoff_outside_the_thread_stays_outside_with_it() {
    let act = Act {
        lines: 1,
        ..staged(Stage::Refused(a_close("RW1 UN ...")))
    };
    let Ok(Effect::Write(change)) = decide(&profiles(), &act, &cx(CX), false, "scheduler", NOON) else {
        panic!("answered at once")
    };
    assert_eq!(thread_lines(&change), [] as [String; 0]);
    assert_eq!(change.entries.len(), 2);
    assert!(change.entries.iter().all(|e| e.kind == EntryKind::Outside));
    assert_eq!(
        change.entries[0].message_id.as_deref(),
        Some("scheduler-3"),
        "it replays by its id"
    );
}

// ---- the tombstone

#[test]
fn a_cancel_that_comes_first_leaves_a_tombstone_and_says_that_nothing_was_seen() {
    let change = tombstone(&profiles(), blank(), &cx(CX), "scheduler", NOON).expect("a tombstone");
    assert_eq!(change.expect, Expect::Absent);
    assert!(change.act.is_tombstone());
    assert_eq!(change.act.state(), State::Cancelled);
    assert_eq!(change.act.handoff.id, "scheduler-1");
    assert_eq!(change.act.handoff.sender, "scheduler");
    assert_eq!(
        change.act.closed().map(|c| c.line.as_str()),
        Some(
            "RW1 AN payer-101 re=scheduler-3 from=payer to=scheduler val=Y p=pay // no such handoff was seen in this \
             thread; it is refused should it come"
        )
    );
    // Neither line may stand in a thread without the handoff.
    assert_eq!(thread_lines(&change), [] as [String; 0]);
    assert!(
        change.entries.iter().all(|e| e.message_id.is_some()),
        "but both ids are taken"
    );
}

#[test]
fn only_what_could_name_a_handoff_of_the_sender_gets_a_tombstone() {
    for re in [
        "payer-101",
        "scheduler",
        "scheduler-",
        "scheduler-1a",
        "scheduler-1-2",
        "scheduler2-1",
    ] {
        let cancel = Cancel {
            re: re.into(),
            ..cx(CX)
        };
        let refused = tombstone(&profiles(), blank(), &cancel, "scheduler", NOON).expect_err(re);
        assert_eq!(refused.reason, Reason::UnknownAct, "{re}");
    }
}

#[test]
fn the_handoff_that_comes_after_its_cancel_is_refused_and_both_enter_the_thread() {
    let change = handoff_after_tombstone(&profiles(), &grave(), &an_act().handoff, false, "scheduler", NOON)
        .expect("a UN");
    assert_eq!(change.expect, Expect::Version(1));
    assert_eq!(change.act.state(), State::Refused);
    assert!(
        !change.act.is_tombstone(),
        "from now on it is a handoff like any other"
    );
    let lines = thread_lines(&change);
    assert_eq!(lines.len(), 4);
    assert_eq!((lines[0].as_str(), lines[1].as_str()), (HO, CX));
    assert!(
        lines[2].starts_with("RW1 AN payer-101 re=scheduler-3 "),
        "{}",
        lines[2]
    );
    assert_eq!(
        lines[3],
        "RW1 UN payer-102 re=scheduler-1 from=payer to=scheduler item=inv:MD-2026-057 why=REVOKED p=pay // cancelled \
         before it came; nothing was done"
    );
    assert_eq!(thread_problems(&lines, NOON), [] as [String; 0]);
    // The cancel's and its answer's ids were taken when they came; the handoff's and the UN's are taken now.
    let ids: Vec<Option<&str>> = change.entries.iter().map(|e| e.message_id.as_deref()).collect();
    assert_eq!(ids, [Some("scheduler-1"), None, None, Some("payer-102")]);
}

#[test]
fn a_handoff_to_another_agent_than_its_cancel_named_is_refused_all_the_same() {
    let elsewhere = Handoff {
        line: HO.replace("to=payer", "to=auditor"),
        receiver: "auditor".into(),
        ..an_act().handoff
    };
    let change =
        handoff_after_tombstone(&profiles(), &grave(), &elsewhere, false, "scheduler", NOON).expect("a UN");
    let lines = thread_lines(&change);
    assert_eq!(
        lines.len(),
        2,
        "a cancel to payer cannot stand under a handoff to auditor"
    );
    assert!(
        lines[1].starts_with("RW1 UN auditor-102 re=scheduler-1 from=auditor "),
        "{}",
        lines[1]
    );
    assert_eq!(thread_problems(&lines, NOON), [] as [String; 0]);
}

#[test]
fn a_handoff_that_does_not_validate_stays_outside_even_after_its_cancel() {
    let change = handoff_after_tombstone(&profiles(), &grave(), &an_act().handoff, true, "scheduler", NOON)
        .expect("a UN");
    assert_eq!(thread_lines(&change), [] as [String; 0]);
    assert_eq!(change.act.state(), State::Refused);
    assert!(change.entries.iter().all(|e| e.message_id.is_none()));
}

#[test]
fn a_second_cancel_of_a_tombstone_is_answered_by_the_agent_it_names() {
    let elsewhere = cx(&CX2.replace("to=payer", "to=auditor"));
    let change = written(&grave(), &elsewhere);
    assert!(change.act.is_tombstone(), "the tombstone stands");
    assert_eq!(change.act.handoff.receiver, "payer");
    assert_eq!(thread_lines(&change), [] as [String; 0]);
    let answer = &change.entries[1].body;
    assert!(
        answer.starts_with("RW1 AN auditor-102 re=scheduler-4 from=auditor "),
        "{answer}"
    );
    // And the handoff is still refused with the first cancel alone.
    let grave = Act {
        version: 2,
        ..change.act
    };
    let buried = handoff_after_tombstone(&profiles(), &grave, &an_act().handoff, false, "scheduler", NOON)
        .expect("a UN");
    assert_eq!(thread_problems(&thread_lines(&buried), NOON), [] as [String; 0]);
}
