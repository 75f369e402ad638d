//! The life of a handoff in all its ways: cancelled, refused, superseded, reversed, with the thread right at each step.

use wilco_api::v1::State;
use wilco_tests::lines::slot;
use wilco_tests::{Daemon, Payment, WIRES, cancel_line, confirmation};

use crate::support::{act, is_done_as_asked, nothing_was_paid, ok, prepared_act, refused, thread_passes};

/// A cancel before the confirmation abandons the statement and says so; after the act it says what was done instead.
#[tokio::test]
async fn a_cancel_tells_the_truth() {
    let daemon = Daemon::start().await;
    for (n, wire) in WIRES.into_iter().enumerate() {
        let scheduler = daemon.caller("scheduler", wire);
        let number = 10 * u32::try_from(n + 1).expect("small");
        let payment = Payment::number(number);
        let cx = cancel_line(&payment, &format!("scheduler-{}", number + 1));
        let prepared = ok(scheduler.prepare(&payment.ho()).await);
        let cancelled = ok(scheduler.cancel(&cx).await);
        assert_eq!(act(cancelled.act.clone()).state(), State::Cancelled);
        let an = &cancelled.reply;
        assert!(an.starts_with("RW1 AN payer-"), "{an}");
        let cx_id = cx.split(' ').nth(2).expect("an id");
        assert_eq!((slot(an, "re"), slot(an, "val")), (cx_id, "Y"));
        let again = ok(scheduler.cancel(&cx).await);
        assert_eq!((&again.reply, again.replayed), (an, true));
        let again = ok(scheduler.prepare(&payment.ho()).await);
        assert_eq!((&again.reply, again.replayed), (an, true));
        refused(scheduler.confirm(&prepared, "scheduler-99").await, "CANCELLED");

        let payment = Payment::number(number + 2);
        let cx = cancel_line(&payment, &format!("scheduler-{}", number + 3));
        let committed = ok(scheduler.pay(&payment).await);
        let late = ok(scheduler.cancel(&cx).await);
        assert_eq!(late.reply, committed.reply);
        // A bank takes nothing back, and nobody is sent on a way that is none.
        assert!(
            late.notes.iter().any(|n| n.contains("nothing takes it back")),
            "{:?}",
            late.notes
        );
        is_done_as_asked(&payment, &committed, &daemon.bank().book().await);
    }
    thread_passes(&daemon.scheduler(), "scheduler").await;
    assert_eq!(daemon.bank().book().await.payments().len(), 2);
}

/// A cancel that comes before its handoff leaves a tombstone: the handoff is refused when it comes, and stays so.
#[tokio::test]
async fn a_cancel_that_comes_first_wins() {
    let daemon = Daemon::start().await;
    let scheduler = daemon.scheduler();
    let payment = Payment::seed();
    let cx = cancel_line(&payment, "scheduler-2");
    let cancelled = ok(scheduler.cancel(&cx).await);
    assert_eq!(slot(&cancelled.reply, "val"), "Y");
    assert!(
        cancelled.reply.contains("seen in this thread"),
        "{}",
        cancelled.reply
    );
    let buried = ok(scheduler.prepare(&payment.ho()).await);
    assert!(buried.reply.starts_with("RW1 UN payer-"), "{}", buried.reply);
    assert_eq!(slot(&buried.reply, "why"), "REVOKED");
    for wire in WIRES {
        let again = ok(scheduler.over(wire).prepare(&payment.ho()).await);
        assert_eq!((&again.reply, again.replayed), (&buried.reply, true));
        let again = ok(scheduler.over(wire).cancel(&cx).await);
        assert_eq!((&again.reply, again.replayed), (&cancelled.reply, true));
    }
    // A cancel of what could never be a handoff of this sender is one of nothing.
    for re in ["release-1", "scheduler-x", "scheduler"] {
        let other = cx
            .replace("re=scheduler-1", &format!("re={re}"))
            .replace("CX scheduler-2", "CX scheduler-3");
        let refusal = refused(scheduler.cancel(&other).await, "UNKNOWN_ACT");
        assert_eq!(refusal.field("slot"), "re");
    }
    thread_passes(&scheduler, "scheduler").await;
    nothing_was_paid(&daemon).await;
}

/// What parses and comes from the right caller, but asks something unknown or not allowed, gets a UN that says why,
/// stored and given again.
#[tokio::test]
async fn what_is_not_taken_is_answered_in_the_protocol() {
    let daemon = Daemon::start().await;
    let scheduler = daemon.scheduler();
    let line = |n: u32| Payment::number(n).ho();
    let cases = [
        (line(1).replace("ask=PAY", "ask=BRIBE"), "UNK", "BRIBE"),
        (line(2).replace("cur=GBP", "cur=XBT"), "UNK", "XBT"),
        (line(3).replace("p=pay", "p=shipping"), "UNK", "shipping"),
        (line(4).replace(" rb=exec", ""), "NOCAP", "rb=exec"),
        (
            line(5).replace("rb=exec", "rb=exec+acc"),
            "NOCAP",
            "comprehension",
        ),
        (line(6).replace("ask=PAY", "ask=REVIEW"), "NOCAP", "REVIEW"),
        (line(8).replace("amt=5400.00", "amt=0.00"), "SCOPE", "amt"),
        (line(9).replace("paid=20261002", "paid=20261003"), "SCOPE", "paid"),
        (line(10).replace("sup=marlow", "sup=nobody"), "NOCTX", "nobody"),
        (
            line(11).replace("amt=5400.00", "amt=99999999999999.00"),
            "SCOPE",
            "amt",
        ),
        (format!("{} exp=20200101T0000Z", line(12)), "EXPIRED", "exp"),
        (format!("{} due=20200101", line(13)), "EXPIRED", "due"),
    ];
    for (ho, why, names) in cases {
        let prepared = ok(scheduler.prepare(&ho).await);
        let un = &prepared.reply;
        assert!(un.starts_with("RW1 UN payer-"), "{ho}\n{un}");
        assert_eq!(slot(un, "why"), why, "{ho}\n{un}");
        let tail = un.split_once(" // ").map_or("", |(_, tail)| tail);
        assert!(tail.contains(names), "{names}: {un}");
        assert_eq!(prepared_act(&prepared).state(), State::Refused);
        for wire in WIRES {
            let again = ok(scheduler.over(wire).prepare(&ho).await);
            assert_eq!((&again.reply, again.replayed), (un, true));
        }
    }
    thread_passes(&scheduler, "scheduler").await;
    nothing_was_paid(&daemon).await;
}

/// A handoff read back badly is re-issued: the new one takes the old one's place in one step, and only it can be paid.
/// Naming what was read back, or what was done, is refused.
#[tokio::test]
async fn a_reissued_handoff_takes_the_old_ones_place() {
    let daemon = Daemon::start().await;
    let scheduler = daemon.scheduler();
    let rb_id = |statement: &str| statement.split(' ').nth(2).unwrap_or_default().to_owned();
    let re = |payment: &Payment, id: &str| payment.ho().replace(" from=", &format!(" re={id} from="));

    let first = Payment::number(1);
    let first_rb = ok(scheduler.prepare(&first.ho()).await);
    let dup = ok(scheduler.prepare(&re(&Payment::number(2), "scheduler-1")).await);
    assert_eq!(slot(&dup.reply, "why"), "DUP", "{}", dup.reply);

    let second = Payment::number(3);
    let second_line = re(&second, &rb_id(&first_rb.statement));
    let second_rb = ok(scheduler.prepare(&second_line).await);
    assert_eq!(prepared_act(&second_rb).state(), State::Prepared);
    refused(scheduler.confirm(&first_rb, "scheduler-90").await, "SUPERSEDED");
    let old = ok(scheduler.prepare(&first.ho()).await);
    assert_eq!((slot(&old.reply, "why"), old.replayed), ("SUPERSEDED", true));

    let committed = ok(scheduler.confirm(&second_rb, "scheduler-91").await);
    assert_eq!(act(committed.act.clone()).state(), State::Done);
    let third = ok(scheduler
        .prepare(&re(&Payment::number(4), &rb_id(&second_rb.statement)))
        .await);
    assert_eq!(slot(&third.reply, "why"), "CONFLICT", "{}", third.reply);

    thread_passes(&scheduler, "scheduler").await;
    let payments = daemon.bank().book().await.payments();
    assert_eq!(payments.len(), 1);
    assert_eq!(payments[0]["reference"], second.reference);
}

/// Two agents in one thread use the same number: our lines' ids never collide, and each handoff has its own end.
#[tokio::test]
async fn ids_are_unique_in_a_thread_of_many() {
    let mut daemon = Daemon::start().await;
    daemon.add_sender("audit", "auditor");
    daemon.restart().await;
    let (scheduler, audit) = (daemon.scheduler(), daemon.caller("audit", WIRES[1]));
    let mine = Payment::number(1);
    let theirs = Payment {
        sender: "auditor".into(),
        item: "inv:MD-2026-901".into(),
        reference: "MD-2026-901".into(),
        ..Payment::number(1)
    };
    let my_rb = ok(scheduler.prepare_in("shared", &mine.ho()).await);
    let their_rb = ok(audit.prepare_in("shared", &theirs.ho()).await);
    let id = |line: &str| line.split(' ').nth(2).unwrap_or_default().to_owned();
    assert_eq!(id(&my_rb.statement), "payer-101");
    assert_ne!(id(&their_rb.statement), "payer-101");
    let mine_done = ok(scheduler.confirm(&my_rb, "scheduler-2").await);
    // Neither confirms or cancels the other's, even in a shared thread.
    refused(scheduler.confirm(&their_rb, "scheduler-3").await, "UNKNOWN_TOKEN");
    let cx = cancel_line(&theirs, "auditor-4");
    refused(scheduler.cancel_in("shared", &cx).await, "NOT_YOURS");
    let cx = cx
        .replace("CX auditor-4", "CX scheduler-4")
        .replace("from=auditor", "from=scheduler");
    refused(scheduler.cancel_in("shared", &cx).await, "UNKNOWN_ACT");
    let theirs_done = ok(audit.confirm(&their_rb, "auditor-2").await);
    let book = daemon.bank().book().await;
    is_done_as_asked(&mine, &mine_done, &book);
    is_done_as_asked(&theirs, &theirs_done, &book);
    let lines = thread_passes(&daemon.caller("viewer", WIRES[0]), "shared").await;
    assert_eq!(lines.len(), 8);
    assert!(lines.contains(&confirmation(&their_rb.statement, "auditor-2")));
}

/// Open Banking takes nothing back: an UNDO of what was paid is answered with NOCAP, and one of anything else with what
/// is wrong with it.
#[tokio::test]
async fn a_payment_cannot_be_undone_at_a_bank() {
    let daemon = Daemon::start().await;
    let scheduler = daemon.scheduler();
    let committed = ok(scheduler.pay(&Payment::seed()).await);
    let dn = committed.reply.split(' ').nth(2).expect("an id");
    for (number, ctx, why) in [(7, dn, "NOCAP"), (8, "payer-199", "SCOPE")] {
        let undo = Payment::number(number)
            .ho()
            .replace("ask=PAY", &format!("ask=UNDO ctx={ctx}"));
        let prepared = ok(scheduler.prepare(&undo).await);
        assert_eq!(slot(&prepared.reply, "why"), why, "{}", prepared.reply);
    }
    thread_passes(&scheduler, "scheduler").await;
    assert_eq!(daemon.bank().book().await.payments().len(), 1);
}
