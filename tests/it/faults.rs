//! The bank fails in every way it can, at each of its endpoints: the state and the answer are right, nothing is paid
//! twice, what the bank accepted is paid once, and nobody is told that nothing happened while it still can.

use futures::future::join_all;
use wilco_api::v1::{Act, CommitReply, State};
use wilco_tests::lab::{A_MOMENT, CONSENTS, PAYMENTS};
use wilco_tests::lines::slot;
use wilco_tests::{Caller, Daemon, Payment, Setup, WIRES, Wire, until};

use crate::support::{
    act, committed_act, is_done_as_asked, nothing_was_paid, ok, paid_once, prepared_act, refused,
    thread_passes,
};

/// A payment for each wire, and who hands it off.
fn one_each(daemon: &Daemon) -> [(Payment, Caller); 2] {
    [(1, Wire::Grpc), (2, Wire::Json)]
        .map(|(number, wire)| (Payment::number(number), daemon.caller("scheduler", wire)))
}

/// Pays over both wires at once, each meeting `fault` once.
async fn pay_through(daemon: &Daemon, fault: &str, seconds: f64) -> Vec<(Payment, CommitReply)> {
    let both = one_each(daemon);
    // The consents first: the fault is for the orders.
    let prepared = join_all(both.iter().map(async |(payment, caller)| {
        let prepared = ok(caller.prepare(&payment.ho()).await);
        (payment.clone(), caller, prepared)
    }))
    .await;
    daemon.bank().fault(PAYMENTS, fault, 2, seconds).await;
    let paid = prepared.iter().map(async |(payment, caller, prepared)| {
        let an_id = format!("scheduler-{}", payment.number + 50);
        (payment.clone(), ok(caller.confirm(prepared, &an_id).await))
    });
    let paid = join_all(paid).await;
    assert_eq!(daemon.bank().faults_left().await, 0, "{fault} was met twice");
    paid
}

/// A bank that cannot be asked for a consent stores nothing: the caller is told to come back, and then it works.
#[tokio::test]
async fn a_passing_trouble_at_prepare_leaves_nothing_behind() {
    let setup = Setup::quick().set("adapters.bank.timeout_s", "2");
    let daemon = Daemon::start_with(setup).await;
    let slower_than_patience = 3.5;
    for (payment, caller) in one_each(&daemon) {
        for fault in [
            "drop-before",
            "drop-after-accept",
            "5xx-after-accept",
            "late",
            "slow",
        ] {
            daemon
                .bank()
                .fault(CONSENTS, fault, 1, slower_than_patience)
                .await;
            let refusal = refused(caller.prepare(&payment.ho()).await, "ADAPTER_DOWN");
            assert!(refusal.retry_after_s.is_some(), "{fault}: {refusal:?}");
            let stored = ok(caller.acts(&[State::Prepared, State::Held]).await);
            assert_eq!(stored.acts, [], "{fault}");
        }
        let committed = ok(caller.pay(&payment).await);
        is_done_as_asked(&payment, &committed, &daemon.bank().book().await);
    }
    thread_passes(&daemon.scheduler(), "scheduler").await;
}

/// A slow bank is only slow.
#[tokio::test]
async fn a_slow_bank_is_waited_for() {
    let daemon = Daemon::start().await;
    for (payment, caller) in one_each(&daemon) {
        daemon.bank().fault(CONSENTS, "slow", 1, 0.3).await;
        daemon.bank().fault(PAYMENTS, "slow", 1, 0.3).await;
        let committed = ok(caller.pay(&payment).await);
        is_done_as_asked(&payment, &committed, &daemon.bank().book().await);
    }
}

/// A bank that refuses the consent is the end of the handoff: a UN, given again as it was.
#[tokio::test]
async fn a_refused_consent_refuses_the_handoff() {
    let daemon = Daemon::start().await;
    for (payment, caller) in one_each(&daemon) {
        daemon.bank().fault(CONSENTS, "refuse", 1, 0.0).await;
        let prepared = ok(caller.prepare(&payment.ho()).await);
        assert!(prepared.reply.starts_with("RW1 UN payer-"), "{}", prepared.reply);
        assert_eq!(slot(&prepared.reply, "why"), "SCOPE");
        assert!(
            prepared.reply.contains("FailsControlParameters"),
            "{}",
            prepared.reply
        );
        assert_eq!((prepared.token.as_str(), prepared.statement.as_str()), ("", ""));
        assert_eq!(prepared_act(&prepared).state(), State::Refused);
        let again = ok(caller.prepare(&payment.ho()).await);
        assert_eq!((again.reply, again.replayed), (prepared.reply, true));
    }
    thread_passes(&daemon.scheduler(), "scheduler").await;
    nothing_was_paid(&daemon).await;
}

/// A bank that froze something else than it was asked is caught by the statement: held, with the slot named.
#[tokio::test]
async fn a_consent_recorded_wrong_is_held() {
    let daemon = Daemon::start().await;
    let cases = [
        ("wrong-amount", "amt", "5100.00"),
        ("wrong-account", "acct", "40-12-88/61102983"),
    ];
    for (number, (fault, key, stated)) in cases.into_iter().enumerate() {
        for (payment, caller) in one_each(&daemon) {
            let payment = Payment {
                number: payment.number + 10 * (1 + u32::try_from(number).expect("small")),
                ..payment
            };
            daemon.bank().fault(CONSENTS, fault, 1, 0.0).await;
            let prepared = ok(caller.prepare(&payment.ho()).await);
            assert_eq!(prepared_act(&prepared).state(), State::Held, "{fault}");
            assert_eq!(slot(&prepared.statement, key), stated);
            let slots: Vec<&str> = prepared.problems.iter().map(|p| p.slot.as_str()).collect();
            assert_eq!(slots, [key], "{fault}");
            let an_id = format!("scheduler-{}", payment.number + 100);
            let refusal = refused(caller.confirm(&prepared, &an_id).await, "HELD");
            assert_eq!(refusal.problems[0]["slot"], key, "{refusal:?}");
        }
    }
    thread_passes(&daemon.scheduler(), "scheduler").await;
    nothing_was_paid(&daemon).await;
}

/// A bank that does not know its own consent for a moment has not said that it may be used: nothing is claimed or
/// sent, and the same commit works a moment later.
#[tokio::test]
async fn a_consent_that_cannot_be_read_claims_nothing() {
    let daemon = Daemon::start().await;
    for (payment, caller) in one_each(&daemon) {
        let prepared = ok(caller.prepare(&payment.ho()).await);
        daemon
            .bank()
            .fault(CONSENTS, "not-found-then-found", 1, 0.0)
            .await;
        let an_id = format!("scheduler-{}", payment.number + 50);
        let refusal = refused(caller.confirm(&prepared, &an_id).await, "ADAPTER_DOWN");
        assert!(refusal.retry_after_s.is_some());
        let now = act(ok(caller.act(&prepared_act(&prepared).act_id).await).act);
        assert_eq!(now.state(), State::Prepared);
        let committed = ok(caller.confirm(&prepared, &an_id).await);
        is_done_as_asked(&payment, &committed, &daemon.bank().book().await);
    }
}

/// The order never reached the bank's books, but nobody can know: in doubt, for as long as it could still land.
#[tokio::test]
async fn an_order_lost_on_the_way_is_doubted() {
    let setup = Setup::quick().set("adapters.bank.settle_window_s", "3600");
    let daemon = Daemon::start_with(setup).await;
    for (payment, caller) in one_each(&daemon) {
        let prepared = ok(caller.prepare(&payment.ho()).await);
        daemon.bank().fault(PAYMENTS, "drop-before", 1, 0.0).await;
        let mut request = wilco_tests::caller::yes(&prepared, &format!("scheduler-{}", payment.number + 50));
        request.wait_s = 1;
        let early = ok(caller.commit(request).await);
        assert_eq!(early.reply, "", "nothing is claimed to be known");
        let act_id = prepared_act(&prepared).act_id;
        let doubted = caller.until_state(&act_id, &[State::InDoubt]).await;
        assert!(
            !doubted.doubt.is_empty() && doubted.waits_for.contains("bank"),
            "{doubted:?}"
        );
    }
    assert_eq!(ok(daemon.scheduler().acts(&[State::InDoubt]).await).acts.len(), 2);
    thread_passes(&daemon.scheduler(), "scheduler").await;
    nothing_was_paid(&daemon).await;
}

/// And failed only once looking twice, over the time in which it could still have landed, found nothing.
#[tokio::test]
async fn an_order_lost_on_the_way_is_denied_after_two_looks() {
    let daemon = Daemon::start().await;
    let scheduler = daemon.scheduler();
    for (payment, committed) in pay_through(&daemon, "drop-before", 0.0).await {
        let failed = committed_act(&committed);
        assert_eq!(failed.state(), State::Failed);
        assert!(
            committed.reply.starts_with("RW1 FL payer-"),
            "{}",
            committed.reply
        );
        assert_eq!(slot(&failed.close, "retry"), "N");
        is_looked_up_twice(&scheduler, &failed).await;
        let again = ok(scheduler.prepare(&payment.ho()).await);
        assert_eq!((again.reply, again.replayed), (committed.reply, true));
    }
    thread_passes(&scheduler, "scheduler").await;
    nothing_was_paid(&daemon).await;
}

async fn is_looked_up_twice(caller: &Caller, failed: &Act) {
    let journal = ok(caller.act(&failed.act_id).await).journal;
    let absent = journal
        .iter()
        .filter(|h| h.body.contains("lookup_absent"))
        .count();
    assert!(absent >= 2, "{journal:#?}");
}

/// The bank took the order and the answer was lost: it is found, and reported as done, once.
#[tokio::test]
async fn an_answer_lost_on_the_way_is_found_again() {
    for fault in ["drop-after-accept", "5xx-after-accept"] {
        let daemon = Daemon::start().await;
        for (payment, committed) in pay_through(&daemon, fault, 0.0).await {
            is_done_as_asked(&payment, &committed, &daemon.bank().book().await);
        }
        thread_passes(&daemon.scheduler(), "scheduler").await;
    }
}

/// The bank answers, but after nobody listens any more.
#[tokio::test]
async fn an_answer_that_comes_too_late_is_found_again() {
    let setup = Setup::quick().set("adapters.bank.timeout_s", "2");
    let daemon = Daemon::start_with(setup).await;
    for (payment, committed) in pay_through(&daemon, "slow", 3.5).await {
        is_done_as_asked(&payment, &committed, &daemon.bank().book().await);
    }
}

/// The connection is cut and the order lands after that, when a first look has already found nothing. It was never
/// called undone, and is done in the end.
#[tokio::test]
async fn an_order_that_lands_late_was_never_called_undone() {
    let daemon = Daemon::start_with(Setup::quick().set("adapters.bank.settle_window_s", "8")).await;
    for (payment, committed) in pay_through(&daemon, "late", A_MOMENT.as_secs_f64()).await {
        is_done_as_asked(&payment, &committed, &daemon.bank().book().await);
        let journal = ok(daemon.scheduler().act(&committed_act(&committed).act_id).await).journal;
        let said: Vec<&str> = journal.iter().map(|h| h.body.as_str()).collect();
        assert!(!said.iter().any(|b| b.starts_with("RW1 FL ")), "{said:#?}");
    }
    thread_passes(&daemon.scheduler(), "scheduler").await;
}

/// A rail whose reads lag shows an unused consent although the order exists. One such look proves nothing.
#[tokio::test]
async fn a_lagging_read_is_not_believed_once() {
    let daemon = Daemon::start().await;
    let (payment, scheduler) = (Payment::seed(), daemon.scheduler());
    let prepared = ok(scheduler.prepare(&payment.ho()).await);
    daemon.bank().fault(PAYMENTS, "drop-after-accept", 1, 0.0).await;
    daemon
        .bank()
        .fault(PAYMENTS, "not-found-then-found", 1, 0.0)
        .await;
    let committed = ok(scheduler.confirm(&prepared, "scheduler-2").await);
    assert_eq!(daemon.bank().faults_left().await, 0, "the lagging read was met");
    is_done_as_asked(&payment, &committed, &daemon.bank().book().await);
}

/// The bank says no: certainly not done, by its own words.
#[tokio::test]
async fn an_order_the_bank_refuses_is_failed() {
    let daemon = Daemon::start().await;
    for (_, committed) in pay_through(&daemon, "refuse", 0.0).await {
        assert_eq!(committed_act(&committed).state(), State::Failed);
        assert!(
            committed.reply.contains("FailsControlParameters"),
            "{}",
            committed.reply
        );
    }
    thread_passes(&daemon.scheduler(), "scheduler").await;
    nothing_was_paid(&daemon).await;
}

/// The bank did something else than it was told. It is reported as it ran, not as it was meant, and the report does
/// not match.
#[tokio::test]
async fn what_ran_is_reported_also_where_it_is_wrong() {
    let cases = [
        ("wrong-amount", "amt", "5400.00", "5100.00"),
        ("wrong-account", "acct", "40-12-88/61102938", "40-12-88/61102983"),
    ];
    for (fault, key, plan, ran) in cases {
        let daemon = Daemon::start().await;
        for (payment, committed) in pay_through(&daemon, fault, 0.0).await {
            assert_eq!(slot(&committed.reply, key), ran, "{}", committed.reply);
            assert_eq!(slot(&committed.reply, "out"), "OK");
            let done = committed_act(&committed);
            assert_eq!((done.state(), done.verdict.as_str()), (State::Done, "mismatch"));
            let texts: Vec<&str> = committed.problems.iter().map(|p| p.text.as_str()).collect();
            assert_eq!(
                texts,
                [format!("executed: {key} mismatch: plan {plan} vs DN {ran}")]
            );
            assert!(
                committed
                    .notes
                    .iter()
                    .any(|n| n.contains("a person must ask there")),
                "{:?}",
                committed.notes
            );
            let booked = Payment {
                amt: slot(&committed.reply, "amt").into(),
                acct: slot(&committed.reply, "acct").into(),
                ..payment
            };
            paid_once(&booked, &done, &daemon.bank().book().await);
        }
        thread_passes(&daemon.scheduler(), "scheduler").await;
    }
}

/// A bank that takes the order and finishes it later: executing until then, done after.
#[tokio::test]
async fn a_pending_payment_is_polled_to_its_end() {
    let daemon = Daemon::start_with(Setup::quick().set("lab.settle_after_s", "86400")).await;
    for (payment, caller) in one_each(&daemon) {
        let prepared = ok(caller.prepare(&payment.ho()).await);
        let act_id = prepared_act(&prepared).act_id;
        let mut request = wilco_tests::caller::yes(&prepared, &format!("scheduler-{}", payment.number + 50));
        request.wait_s = 1;
        let early = ok(caller.commit(request.clone()).await);
        assert_eq!(early.reply, "", "it is not finished");
        let pending = until("the bank to have it", async || {
            let now = act(ok(caller.act(&act_id).await).act);
            (now.waits_for == "bank: finish").then_some(now)
        })
        .await;
        assert_eq!(pending.state(), State::Executing);
        let settle = format!("/lab/settle/{}", pending.receipt);
        let completed = serde_json::json!({ "status": "AcceptedSettlementCompleted" });
        daemon.bank().post(&settle, &completed).await;
        request.wait_s = 60;
        let committed = ok(caller.commit(request).await);
        assert!(committed.replayed, "the running one was joined");
        is_done_as_asked(&payment, &committed, &daemon.bank().book().await);
    }
}

/// The bank goes down between statement and confirmation: nothing was sent, so nothing is claimed or in doubt.
#[tokio::test]
async fn a_bank_that_is_down_at_commit_was_not_told_anything() {
    let mut daemon = Daemon::start_with(Setup::quick().lab_apart()).await;
    let (payment, scheduler) = (Payment::seed(), daemon.scheduler());
    let prepared = ok(scheduler.prepare(&payment.ho()).await);
    daemon.lab().kill();
    for wire in WIRES {
        refused(
            scheduler.over(wire).confirm(&prepared, "scheduler-2").await,
            "ADAPTER_DOWN",
        );
        refused(
            scheduler.over(wire).prepare(&Payment::number(9).ho()).await,
            "ADAPTER_DOWN",
        );
    }
    let now = act(ok(scheduler.act(&prepared_act(&prepared).act_id).await).act);
    assert_eq!(now.state(), State::Prepared);
    daemon.lab().restart().await;
    let committed = ok(scheduler.confirm(&prepared, "scheduler-2").await);
    is_done_as_asked(&payment, &committed, &daemon.bank().book().await);
}

/// The bank dies with the order in its hands and stays away: in doubt for as long as that lasts, and an operator is
/// not let to say "not done" while it can still land. When the bank is back it is asked, and knows.
#[tokio::test]
async fn an_act_stays_in_doubt_while_nobody_can_be_asked() {
    let setup = Setup::quick()
        .set("adapters.bank.settle_window_s", "3600")
        .lab_apart();
    let mut daemon = Daemon::start_with(setup).await;
    let (payment, scheduler) = (Payment::seed(), daemon.scheduler());
    let prepared = ok(scheduler.prepare(&payment.ho()).await);
    daemon.bank().fault(PAYMENTS, "slow", 1, 60.0).await;
    let waiting = scheduler.confirm(&prepared, "scheduler-2");
    let dying = async {
        daemon.bank().paid(&payment.reference).await;
    };
    let mut waiting = Box::pin(waiting);
    tokio::select! {
        answer = &mut waiting => panic!("the bank is still busy: {answer:?}"),
        () = dying => {}
    }
    daemon.lab().kill();
    let act_id = prepared_act(&prepared).act_id;
    let doubted = scheduler.until_state(&act_id, &[State::InDoubt]).await;
    assert_eq!(doubted.close, "");
    for wire in WIRES {
        let duty = daemon.caller("duty", wire);
        let refusal = refused(duty.settle(&act_id, false, "nobody answers").await, "REFUSED");
        assert!(refusal.text.contains("can still land"), "{refusal:?}");
    }
    let again = ok(scheduler.prepare(&payment.ho()).await);
    assert_eq!((&again.reply, again.replayed), (&prepared.reply, true));
    daemon.lab().restart().await;
    let committed = ok(waiting.await);
    is_done_as_asked(&payment, &committed, &daemon.bank().book().await);
}
