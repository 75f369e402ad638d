//! A payment from handoff to done report, and what can be seen of it.

use serde_json::json;
use wilco_api::v1::{PrepareRequest, State};
use wilco_tests::lines::slot;
use wilco_tests::{Daemon, Payment, WIRES, Wire, confirmation};

use crate::support::{
    act, committed_act, is_done_as_asked, nothing_was_paid, ok, prepared_act, refused, thread_passes,
};

/// The protocol's own example over each wire: what is stated is what was asked, what ran is what was stated, and
/// the bank's book holds it once.
#[tokio::test]
async fn the_seeds_payment_goes_out_once() {
    let daemon = Daemon::start().await;
    for (number, wire) in WIRES.into_iter().enumerate() {
        let payment = Payment {
            number: 1 + u32::try_from(number).expect("small"),
            // One invoice is paid once: the second payment is of another.
            item: format!("inv:MD-2026-057-{number}"),
            reference: format!("MD-2026-057-{number}"),
            ..Payment::seed()
        };
        let scheduler = daemon.caller("scheduler", wire);
        let prepared = ok(scheduler.prepare(&payment.ho()).await);

        assert_eq!(prepared.problems, []);
        assert!(!prepared.replayed);
        assert_eq!(
            prepared.reply,
            format!("{} x_tok={}", prepared.statement, prepared.token)
        );
        assert!(
            prepared.expires_in_s > 0 && prepared.expires_in_s <= 660,
            "{}",
            prepared.expires_in_s
        );
        let profiles = rw1::Profiles::builtin();
        let digest = rw1::digest(&profiles, None, &payment.ho()).expect("a line");
        let statement = &prepared.statement;
        assert_eq!(slot(statement, "h"), digest);
        for (key, value) in [
            ("re", payment.id().as_str()),
            ("sup", "marlow"),
            ("amt", "5400.00"),
            ("cur", "GBP"),
            ("kind", "GROSS"),
            ("acct", "40-12-88/61102938"),
            ("paid", "20261002"),
            ("ref", payment.reference.as_str()),
            ("apref", "FD-0929"),
            ("x_dbtr", "20-00-00/55779911"),
        ] {
            assert_eq!(slot(statement, key), value, "{key} in {statement}");
        }
        let checked = rw1::check_rb(&profiles, None, &payment.ho(), statement, rw1::RbCheck::default());
        assert_eq!(checked.problems, []);
        assert!(
            daemon
                .bank()
                .book()
                .await
                .payments_of(&payment.reference)
                .is_empty()
        );

        let act = prepared_act(&prepared);
        assert_eq!(act.state(), State::Prepared);
        assert_eq!(
            (act.thread.as_str(), act.guarantee.as_str()),
            ("scheduler", "replayable")
        );
        assert_eq!(act.waits_for, "scheduler: confirm or cancel");

        let committed = ok(scheduler
            .confirm(&prepared, &format!("scheduler-9{number}"))
            .await);
        is_done_as_asked(&payment, &committed, &daemon.bank().book().await);
        let done = rw1::check_dn(
            &profiles,
            None,
            &payment.ho(),
            &committed.reply,
            Some(statement),
            None,
        );
        assert_eq!(done.problems, []);
    }
    let lines = thread_passes(&daemon.scheduler(), "scheduler").await;
    let kinds: Vec<&str> = lines.iter().filter_map(|l| l.split(' ').nth(1)).collect();
    assert_eq!(kinds, ["HO", "RB", "AN", "DN", "HO", "RB", "AN", "DN"]);
    assert_eq!(daemon.bank().book().await.spent(), 1_080_000);
}

/// What no counterparty can know is carried from the statement, and the act says which slots those are.
#[tokio::test]
async fn what_the_bank_cannot_know_is_named() {
    let daemon = Daemon::start().await;
    let committed = ok(daemon.scheduler().pay(&Payment::seed()).await);
    let act = committed_act(&committed);
    assert_eq!(act.carried, ["sup", "kind", "apref"]);
    assert!(
        committed.notes.iter().any(|n| n.contains("sup kind apref")),
        "{:?}",
        committed.notes
    );
    let source = |slot: &str| {
        let value = act.values.iter().find(|v| v.slot == slot);
        value.map(|v| v.source.clone()).unwrap_or_default()
    };
    assert_eq!(
        (source("acct"), source("sup")),
        ("resolved".into(), "handoff".into())
    );
}

/// The approved record travels along and is compared: a line that differs is refused, and nothing is kept of it.
#[tokio::test]
async fn a_line_that_differs_from_the_record_is_refused() {
    let daemon = Daemon::start().await;
    for wire in WIRES {
        let scheduler = daemon.caller("scheduler", wire);
        let approved = Payment::number(if wire == Wire::Grpc { 1 } else { 2 });
        let mistyped = Payment {
            acct: "40-12-88/61102983".into(),
            ..approved.clone()
        };
        let request = |ho: String| PrepareRequest {
            thread: String::new(),
            ho,
            record: approved.record().to_string(),
        };
        let refusal = refused(
            scheduler.prepare_request(request(mistyped.ho())).await,
            "MALFORMED",
        );
        assert_eq!(
            refusal.problems[0]["text"],
            "record: acct mismatch: record 40-12-88/61102938 vs HO 40-12-88/61102983"
        );
        assert_eq!(
            ok(scheduler.acts(&[]).await).acts.len(),
            if wire == Wire::Grpc { 0 } else { 1 }
        );
        let prepared = ok(scheduler.prepare_request(request(approved.ho())).await);
        assert_eq!(prepared_act(&prepared).state(), State::Prepared);
    }
}

/// The account on file is looked up and stated, also where the handoff names another: the statement fails its own
/// check, is held, and nobody can confirm it.
#[tokio::test]
async fn a_statement_that_fails_its_own_check_is_held() {
    let daemon = Daemon::start().await;
    daemon
        .bank()
        .payee("marlow", "Marlow Supplies Ltd", "40-12-88/61102983")
        .await;
    // Who really holds that account is another question; ask the register alone.
    let mut daemon = daemon;
    daemon.set("adapters.bank.allow_cop", "[\"no_match\", \"unavailable\"]");
    daemon.restart().await;
    for wire in WIRES {
        let scheduler = daemon.caller("scheduler", wire);
        let payment = Payment::number(if wire == Wire::Grpc { 1 } else { 2 });
        let prepared = ok(scheduler.prepare(&payment.ho()).await);
        let act = prepared_act(&prepared);
        assert_eq!(act.state(), State::Held);
        assert_eq!(
            prepared.problems[0].text,
            "tier5 execution: acct mismatch: HO 40-12-88/61102938 vs RB 40-12-88/61102983"
        );
        assert_eq!(slot(&prepared.statement, "acct"), "40-12-88/61102983");
        let refusal = refused(scheduler.confirm(&prepared, "scheduler-90").await, "HELD");
        assert_eq!(refusal.problems[0]["slot"], "acct");
    }
    nothing_was_paid(&daemon).await;
}

/// The same handoff gets the same answer, byte for byte, in every stage of its life, on either wire.
#[tokio::test]
async fn a_repeated_handoff_gets_the_same_bytes() {
    let daemon = Daemon::start().await;
    let (payment, scheduler) = (Payment::seed(), daemon.scheduler());
    let first = ok(scheduler.prepare(&payment.ho()).await);
    for wire in WIRES {
        for ending in ["", "\n", "\r\n"] {
            let again = ok(scheduler
                .over(wire)
                .prepare(&format!("{}{ending}", payment.ho()))
                .await);
            assert!(again.replayed);
            assert_eq!(
                (&again.reply, &again.token, &again.statement_sha256),
                (&first.reply, &first.token, &first.statement_sha256)
            );
        }
    }
    let committed = ok(scheduler.confirm(&first, "scheduler-2").await);
    for wire in WIRES {
        let caller = scheduler.over(wire);
        let again = ok(caller.confirm(&first, "scheduler-2").await);
        assert!(again.replayed);
        assert_eq!(again.reply, committed.reply);
        // The closing line answers the handoff, too.
        let again = ok(caller.prepare(&payment.ho()).await);
        assert!(again.replayed);
        assert_eq!(again.reply, committed.reply);
    }
    is_done_as_asked(&payment, &committed, &daemon.bank().book().await);
}

/// An act is found by its id, by its handoff and by its token; lists and journal show it; JSON shows the same.
#[tokio::test]
async fn an_act_can_be_looked_at_from_every_side() {
    let daemon = Daemon::start().await;
    let (payment, scheduler) = (Payment::seed(), daemon.scheduler());
    let prepared = ok(scheduler.prepare_in("month-end", &payment.ho()).await);
    let committed = ok(scheduler.confirm(&prepared, "scheduler-2").await);
    let act_id = committed_act(&committed).act_id;

    let by_id = ok(scheduler.act(&act_id).await);
    let found = act(by_id.act.clone());
    let request = wilco_api::v1::GetActRequest::default;
    let by_handoff = wilco_api::v1::GetActRequest {
        thread: "month-end".into(),
        handoff_id: payment.id(),
        ..request()
    };
    assert_eq!(act(ok(scheduler.get_act(by_handoff).await).act), found);
    let by_token = wilco_api::v1::GetActRequest {
        token: prepared.token.clone(),
        ..request()
    };
    assert_eq!(act(ok(scheduler.get_act(by_token).await).act), found);
    assert_eq!(ok(scheduler.over(Wire::Json).act(&act_id).await), by_id);

    for wire in WIRES {
        let caller = scheduler.over(wire);
        assert_eq!(
            ok(caller.acts(&[State::Done]).await).acts,
            std::slice::from_ref(&found)
        );
        assert_eq!(ok(caller.acts(&[State::Prepared]).await).acts, []);
        let lines = thread_passes(&caller, "month-end").await;
        let (rb, dn) = (prepared.statement.clone(), committed.reply.clone());
        assert_eq!(
            lines,
            [payment.ho(), rb.clone(), confirmation(&rb, "scheduler-2"), dn]
        );
    }
    let journal: Vec<&str> = by_id.journal.iter().map(|h| h.kind.as_str()).collect();
    assert_eq!(journal.iter().filter(|k| **k == "line").count(), 4, "{journal:?}");
    assert!(
        by_id.journal.iter().any(|h| h.body.contains("claimed")),
        "{:#?}",
        by_id.journal
    );
    assert_eq!(found.ho, payment.ho());
    assert_eq!(found.reference, found.act_id);
    let booked = daemon.bank().book().await.payments();
    assert_eq!(json!(found.receipt), booked[0]["payment_id"]);
}
