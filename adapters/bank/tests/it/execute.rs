//! After: one order at most, whatever goes wrong, and an outcome that never says more than the bank did.

use wilco_adapter::{Adapter, Outcome};

use crate::support::{MARLOW, SLIPPED, Scene, pairs, pay, permit};

#[tokio::test]
async fn what_was_stated_is_what_stands_in_the_banks_book() {
    let scene = Scene::new().await;
    let job = pay();
    let frozen = scene.prepare(&job).await;
    let outcome = scene.execute(&job, &frozen).await;
    let Outcome::Executed(report) = outcome else {
        panic!("{outcome:?}")
    };
    let want = [
        ("amt", "5400.00"),
        ("cur", "GBP"),
        ("acct", MARLOW),
        ("ref", "MD-2026-057"),
        ("paid", "20261002"),
    ];
    assert_eq!(report.values, pairs(&want));
    assert_eq!(report.status, "AcceptedSettlementCompleted");

    let payments = scene.payments().await;
    let [payment] = payments.as_slice() else {
        panic!("one payment: {payments:?}")
    };
    assert_eq!(payment["amount"], "5400.00");
    assert_eq!(payment["currency"], "GBP");
    assert_eq!(payment["creditor_account"], MARLOW);
    assert_eq!(payment["debtor_account"], "20-00-00/55779911");
    assert_eq!(payment["reference"], "MD-2026-057");
    assert_eq!(payment["instruction_id"], job.act_id.to_string());
    assert_eq!(payment["idempotency_key"], frozen.request.key);
    assert_eq!(payment["consent_id"].as_str(), frozen.placed.as_deref());
    assert_eq!(payment["payment_id"].as_str(), report.receipt.as_deref());
}

#[tokio::test]
async fn the_same_bytes_again_pay_nothing_more() {
    let mut scene = Scene::new().await;
    let job = pay();
    let frozen = scene.prepare(&job).await;
    let first = scene.execute(&job, &frozen).await;
    scene.restart();
    let second = scene.execute(&job, &frozen).await;
    assert_eq!(first, second);
    assert_eq!(scene.payments().await.len(), 1);
}

/// Each fault at the order: what is in the book, and what the daemon hears.
#[tokio::test]
async fn each_fault_is_told_as_far_as_it_is_known() {
    let cases = [
        ("drop-before", "unknown", 0),
        ("drop-after-accept", "unknown", 1),
        ("5xx-after-accept", "unknown", 1),
        ("refuse", "rejected", 0),
    ];
    for (fault, heard, paid) in cases {
        let scene = Scene::new().await;
        let job = pay();
        let frozen = scene.prepare(&job).await;
        scene.fault("domestic-payments", fault, 1, 0.0).await;
        let outcome = scene.execute(&job, &frozen).await;
        let word = match &outcome {
            Outcome::Unknown(_) => "unknown",
            Outcome::Rejected(text) if text.contains("UK.OBIE.") => "rejected",
            other => panic!("{fault}: {other:?}"),
        };
        assert_eq!(word, heard, "{fault}: {outcome:?}");
        assert_eq!(scene.payments().await.len(), paid, "{fault}");
        assert_eq!(
            scene.get("/lab/faults").await["faults"],
            serde_json::json!([]),
            "{fault} was met by one sending"
        );
    }
}

#[tokio::test]
async fn an_answer_that_takes_too_long_is_no_answer() {
    let scene = Scene::with(|_| {}, |bank| bank.timeout_s = 1).await;
    let job = pay();
    let frozen = scene.prepare(&job).await;
    scene.fault("domestic-payments", "slow", 1, 60.0).await;
    let outcome = scene.execute(&job, &frozen).await;
    assert!(
        matches!(&outcome, Outcome::Unknown(text) if text.contains("1 s")),
        "{outcome:?}"
    );
    assert_eq!(scene.payments().await.len(), 1);
}

#[tokio::test]
async fn what_the_bank_did_is_reported_and_not_what_was_meant() {
    for (fault, slot, value) in [
        ("wrong-amount", "amt", "5100.00"),
        ("wrong-account", "acct", SLIPPED),
    ] {
        let scene = Scene::new().await;
        let job = pay();
        let frozen = scene.prepare(&job).await;
        scene.fault("domestic-payments", fault, 1, 0.0).await;
        let outcome = scene.execute(&job, &frozen).await;
        let Outcome::Executed(report) = outcome else {
            panic!("{fault}: {outcome:?}")
        };
        assert!(
            report.values.contains(&(slot.to_owned(), value.to_owned())),
            "{fault}: {report:?}"
        );
    }
}

#[tokio::test]
async fn an_order_the_account_cannot_fund_is_rejected_and_says_so_later_too() {
    let scene = Scene::with(|lab| lab.world.own[0].opening_minor = 100, |_| {}).await;
    let job = pay();
    let frozen = scene.prepare(&job).await;
    let outcome = scene.execute(&job, &frozen).await;
    assert!(
        matches!(&outcome, Outcome::Rejected(text) if text.contains("Rejected")),
        "{outcome:?}"
    );
    let found = scene.bank.lookup(job.act_id, &frozen, job.now, None).await;
    assert!(matches!(found, wilco_adapter::Found::Rejected(_)), "{found:?}");
}

#[tokio::test]
async fn nothing_is_sent_at_or_after_the_last_moment() {
    let scene = Scene::new().await;
    let job = pay();
    let frozen = scene.prepare(&job).await;
    let permit = permit(&job, &frozen, scene.clock.clone());
    scene.clock.pass(3_600);
    let outcome = scene.bank.execute(permit, &frozen).await;
    assert!(
        matches!(&outcome, Outcome::NotSent(text) if text.contains("last moment")),
        "{outcome:?}"
    );
    assert!(scene.payments().await.is_empty());
}

#[tokio::test]
async fn without_a_connection_or_token_nothing_was_sent() {
    let scene = Scene::new().await;
    let job = pay();
    let frozen = scene.prepare(&job).await;
    std::fs::remove_file(scene.folder().join("token")).unwrap_or_else(|e| panic!("{e}"));
    let outcome = scene.execute(&job, &frozen).await;
    assert!(
        matches!(&outcome, Outcome::NotSent(text) if text.contains("token")),
        "{outcome:?}"
    );
    assert!(scene.payments().await.is_empty());

    std::fs::write(scene.folder().join("token"), "old-token").unwrap_or_else(|e| panic!("{e}"));
    let outcome = scene.execute(&job, &frozen).await;
    assert!(
        matches!(&outcome, Outcome::Rejected(text) if text.contains("401")),
        "{outcome:?}"
    );

    let Scene { lab, bank, clock, .. } = scene;
    lab.stop().await;
    let outcome = bank.execute(permit(&job, &frozen, clock), &frozen).await;
    assert!(matches!(outcome, Outcome::NotSent(_)), "{outcome:?}");
    assert!(bank.health().await.is_err());
}

#[tokio::test]
async fn an_order_that_does_not_equal_its_consent_is_refused_by_the_bank_itself() {
    let scene = Scene::new().await;
    let job = pay();
    let mut frozen = scene.prepare(&job).await;
    frozen.request.body = frozen.request.body.replace("5400.00", "9400.00");
    let outcome = scene.execute(&job, &frozen).await;
    assert!(
        matches!(&outcome, Outcome::Rejected(text) if text.contains("ConsentMismatch")),
        "{outcome:?}"
    );
    assert!(scene.payments().await.is_empty());
}

#[tokio::test]
async fn a_used_consent_or_key_leaves_room_for_an_order_and_is_unknown() {
    let scene = Scene::new().await;
    let job = pay();
    let frozen = scene.prepare(&job).await;
    scene.execute(&job, &frozen).await;
    let mut other_key = frozen.clone();
    other_key.request.key = "wother".to_owned();
    let outcome = scene.execute(&job, &other_key).await;
    assert!(
        matches!(&outcome, Outcome::Unknown(text) if text.contains("InvalidConsentStatus")),
        "{outcome:?}"
    );
    let mut other_body = frozen.clone();
    other_body.request.body = other_body.request.body.replace("5400.00", "9400.00");
    let outcome = scene.execute(&job, &other_body).await;
    assert!(
        matches!(&outcome, Outcome::Unknown(text) if text.contains("idempotency")),
        "{outcome:?}"
    );
    assert_eq!(scene.payments().await.len(), 1);
}
