//! kill -9, at every moment that matters, with the lab in a process of its own: the bank remembers, the daemon must
//! find out, and everybody is told the same bytes as before.

use std::time::Duration;

use wilco_api::v1::State;
use wilco_tests::lab::{A_MOMENT, PAYMENTS};
use wilco_tests::{Daemon, Payment, Setup, WIRES, cancel_line, confirmation};

use crate::support::{
    act, committed_act, is_done_as_asked, nothing_was_paid, ok, prepared_act, refused, thread_passes,
};

/// With a window in which no order that is still on its way can be called undone, however slow this machine is.
async fn daemon() -> Daemon {
    let setup = Setup::quick().set("adapters.bank.settle_window_s", "5");
    Daemon::start_with(setup.lab_apart()).await
}

/// Killed before anybody confirmed: the statement, its digest and its token are given again, and still work.
#[tokio::test]
async fn a_statement_survives_byte_for_byte() {
    let mut daemon = daemon().await;
    let (payment, held_off) = (Payment::seed(), Payment::number(7));
    let first = ok(daemon.scheduler().prepare(&payment.ho()).await);
    let cancelled = ok(daemon.scheduler().prepare(&held_off.ho()).await);
    let answer = ok(daemon
        .scheduler()
        .cancel(&cancel_line(&held_off, "scheduler-3"))
        .await);
    daemon.restart().await;

    for wire in WIRES {
        let scheduler = daemon.caller("scheduler", wire);
        let again = ok(scheduler.prepare(&payment.ho()).await);
        assert!(again.replayed);
        assert_eq!(again.reply, first.reply);
        assert_eq!(
            (&again.token, &again.statement_sha256),
            (&first.token, &first.statement_sha256)
        );
        let again = ok(scheduler.prepare(&held_off.ho()).await);
        assert_eq!((again.reply, again.replayed), (answer.reply.clone(), true));
        let again = ok(scheduler.cancel(&cancel_line(&held_off, "scheduler-3")).await);
        assert_eq!((again.reply, again.replayed), (answer.reply.clone(), true));
        refused(scheduler.confirm(&cancelled, "scheduler-4").await, "CANCELLED");
    }
    nothing_was_paid(&daemon).await;
    let committed = ok(daemon.scheduler().confirm(&first, "scheduler-2").await);
    is_done_as_asked(&payment, &committed, &daemon.bank().book().await);

    daemon.restart().await;
    for wire in WIRES {
        let scheduler = daemon.caller("scheduler", wire);
        let again = ok(scheduler.confirm(&first, "scheduler-2").await);
        assert_eq!((&again.reply, again.replayed), (&committed.reply, true));
        let again = ok(scheduler.prepare(&payment.ho()).await);
        assert_eq!((&again.reply, again.replayed), (&committed.reply, true));
    }
    thread_passes(&daemon.scheduler(), "scheduler").await;
    is_done_as_asked(&payment, &committed, &daemon.bank().book().await);
}

/// Killed with the order accepted and the answer still on its way. Nothing is sent again; the next start asks the bank,
/// and the caller that comes back with the same token gets the DN.
#[tokio::test]
async fn killed_between_acceptance_and_report() {
    let mut daemon = daemon().await;
    let payment = Payment::seed();
    let prepared = ok(daemon.scheduler().prepare(&payment.ho()).await);
    daemon.bank().fault(PAYMENTS, "slow", 1, 60.0).await;
    let scheduler = daemon.scheduler();
    tokio::select! {
        answer = scheduler.confirm(&prepared, "scheduler-2") => panic!("the bank is still busy: {answer:?}"),
        _ = async { daemon.bank().paid(&payment.reference).await } => {}
    }
    daemon.restart().await;

    let scheduler = daemon.scheduler();
    let act_id = prepared_act(&prepared).act_id;
    let done = scheduler.until_state(&act_id, &[State::Done]).await;
    for wire in WIRES {
        let committed = ok(scheduler.over(wire).confirm(&prepared, "scheduler-2").await);
        assert_eq!((&committed.reply, committed.replayed), (&done.close, true));
        is_done_as_asked(&payment, &committed, &daemon.bank().book().await);
    }
    daemon.restart().await;
    let again = ok(daemon.scheduler().confirm(&prepared, "scheduler-2").await);
    assert_eq!(again.reply, done.close);
    thread_passes(&daemon.scheduler(), "scheduler").await;
}

/// Killed with an order on its way that lands only after the next start has looked once and found nothing.
#[tokio::test]
async fn killed_with_an_order_that_lands_later() {
    let mut daemon = daemon().await;
    let payment = Payment::seed();
    let prepared = ok(daemon.scheduler().prepare(&payment.ho()).await);
    daemon
        .bank()
        .fault(PAYMENTS, "late", 1, A_MOMENT.as_secs_f64())
        .await;
    let scheduler = daemon.scheduler();
    let act_id = prepared_act(&prepared).act_id;
    tokio::select! {
        answer = scheduler.confirm(&prepared, "scheduler-2") => panic!("the order has not landed: {answer:?}"),
        _ = scheduler.until_state(&act_id, &[State::InDoubt]) => {}
    }
    daemon.restart().await;
    let committed = ok(daemon.scheduler().confirm(&prepared, "scheduler-2").await);
    is_done_as_asked(&payment, &committed, &daemon.bank().book().await);
    thread_passes(&daemon.scheduler(), "scheduler").await;
}

/// Killed with an order that never reached the bank's books: after the restart it is doubted, looked up twice, and
/// only then failed. Committing again pays nothing.
#[tokio::test]
async fn killed_with_an_order_that_was_lost() {
    let mut daemon = daemon().await;
    let payment = Payment::seed();
    let prepared = ok(daemon.scheduler().prepare(&payment.ho()).await);
    daemon.bank().fault(PAYMENTS, "drop-before", 1, 0.0).await;
    let scheduler = daemon.scheduler();
    let act_id = prepared_act(&prepared).act_id;
    tokio::select! {
        answer = scheduler.confirm(&prepared, "scheduler-2") => panic!("too soon to know: {answer:?}"),
        _ = scheduler.until_state(&act_id, &[State::InDoubt]) => {}
    }
    daemon.restart().await;
    let scheduler = daemon.scheduler();
    let committed = ok(scheduler.confirm(&prepared, "scheduler-2").await);
    assert_eq!(committed_act(&committed).state(), State::Failed);
    let again = ok(scheduler.confirm(&prepared, "scheduler-2").await);
    assert_eq!(again.reply, committed.reply);
    thread_passes(&scheduler, "scheduler").await;
    nothing_was_paid(&daemon).await;
}

/// A cancel that came while the bank was busy is remembered over a kill, and gets its answer: the DN it lost to.
#[tokio::test]
async fn a_waiting_cancel_is_remembered() {
    let mut daemon = daemon().await;
    let payment = Payment::seed();
    let cx = cancel_line(&payment, "scheduler-3");
    let prepared = ok(daemon.scheduler().prepare(&payment.ho()).await);
    daemon.bank().fault(PAYMENTS, "slow", 1, 60.0).await;
    let scheduler = daemon.scheduler();
    tokio::select! {
        answer = scheduler.confirm(&prepared, "scheduler-2") => panic!("the bank is still busy: {answer:?}"),
        _ = async { daemon.bank().paid(&payment.reference).await } => {}
    }
    let mut early = wilco_api::v1::CancelRequest::default();
    early.cx.clone_from(&cx);
    early.wait_s = 1;
    let cancel = ok(scheduler.cancel_request(early).await);
    assert_eq!(cancel.reply, "", "whether it was done is not known yet");
    daemon.restart().await;

    let scheduler = daemon.scheduler();
    let committed = ok(scheduler.confirm(&prepared, "scheduler-2").await);
    is_done_as_asked(&payment, &committed, &daemon.bank().book().await);
    let cancel = ok(scheduler.cancel(&cx).await);
    assert_eq!((&cancel.reply, cancel.replayed), (&committed.reply, true));
    let lines = thread_passes(&scheduler, "scheduler").await;
    let an = confirmation(&prepared.statement, "scheduler-2");
    assert_eq!(lines, [payment.ho(), prepared.statement, an, committed.reply, cx]);
}

/// Killed again and again at moments nobody chose, while payments are confirmed: whatever the moment, each ends as its
/// book entry says (done, or certainly not), and every answer anybody got stays what it was.
#[tokio::test]
async fn killed_at_any_moment_each_payment_ends_as_the_book_says() {
    let mut daemon = daemon().await;
    let mut seen = Vec::new();
    for round in 0..8u32 {
        let scheduler = daemon.scheduler();
        let payment = Payment::number(100 + round);
        let prepared = ok(scheduler.prepare(&payment.ho()).await);
        // The bank's answer takes 30 ms, so that kills fall before, into and after it.
        daemon.bank().fault(PAYMENTS, "slow", 1, 0.03).await;
        let an_id = format!("scheduler-{}", 200 + round);
        let pause = Duration::from_millis(u64::from(round) * 11);
        let answer = tokio::select! {
            answer = scheduler.confirm(&prepared, &an_id) => answer.ok().map(|c| c.reply),
            () = tokio::time::sleep(pause) => None,
        };
        daemon.restart().await;
        daemon.bank().well_again().await;
        seen.push((payment, prepared, an_id, answer));
    }
    let scheduler = daemon.scheduler();
    for (payment, prepared, an_id, answer) in seen {
        let committed = ok(scheduler.confirm(&prepared, &an_id).await);
        if let Some(reply) = answer {
            assert_eq!(committed.reply, reply, "what was once answered stays so");
        }
        let book = daemon.bank().book().await;
        if book.payments_of(&payment.reference).is_empty() {
            assert_eq!(committed_act(&committed).state(), State::Failed);
        } else {
            is_done_as_asked(&payment, &committed, &book);
        }
        let now = act(ok(scheduler.act(&prepared_act(&prepared).act_id).await).act);
        assert_eq!(now.close, committed.reply);
    }
    thread_passes(&scheduler, "scheduler").await;
}
