//! After: lookups that tell what the bank shows, never conclude more, and can cause nothing.

use serde_json::json;
use wilco_adapter::{Adapter, Found, Outcome};

use crate::support::{Scene, pay};

fn is_executed(found: &Found) -> bool {
    matches!(found, Found::Executed(report) if report.receipt.is_some() && report.values.len() == 5)
}

#[tokio::test]
async fn looking_never_pays() {
    let scene = Scene::new().await;
    let job = pay();
    let frozen = scene.prepare(&job).await;
    for _ in 0..20 {
        let found = scene.bank.lookup(job.act_id, &frozen, job.now, None).await;
        assert!(
            matches!(&found, Found::Absent(text) if text.contains("Authorised")),
            "{found:?}"
        );
    }
    assert!(scene.payments().await.is_empty());
    scene.execute(&job, &frozen).await;
    for _ in 0..20 {
        assert!(is_executed(
            &scene.bank.lookup(job.act_id, &frozen, job.now, None).await
        ));
    }
    assert_eq!(scene.payments().await.len(), 1);
}

#[tokio::test]
async fn an_order_whose_answer_was_lost_is_found_as_it_was_executed() {
    for fault in ["drop-after-accept", "5xx-after-accept"] {
        let mut scene = Scene::new().await;
        let job = pay();
        let frozen = scene.prepare(&job).await;
        scene.fault("domestic-payments", fault, 1, 0.0).await;
        let outcome = scene.execute(&job, &frozen).await;
        assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome:?}");
        scene.restart();
        let found = scene.bank.lookup(job.act_id, &frozen, job.now, None).await;
        let Found::Executed(report) = &found else {
            panic!("{fault}: {found:?}")
        };
        let payments = scene.payments().await;
        assert_eq!(payments.len(), 1, "{fault}");
        assert_eq!(
            payments[0]["payment_id"].as_str(),
            report.receipt.as_deref(),
            "{fault}"
        );
    }
}

#[tokio::test]
async fn a_late_order_is_absent_until_it_lands() {
    let scene = Scene::new().await;
    let job = pay();
    let frozen = scene.prepare(&job).await;
    scene.fault("domestic-payments", "late", 1, 1.0).await;
    let outcome = scene.execute(&job, &frozen).await;
    assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome:?}");
    let found = scene.bank.lookup(job.act_id, &frozen, job.now, None).await;
    assert!(
        matches!(found, Found::Absent(_)),
        "one absence proves nothing yet: {found:?}"
    );
    while scene.payments().await.is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert!(is_executed(
        &scene.bank.lookup(job.act_id, &frozen, job.now, None).await
    ));
}

#[tokio::test]
async fn a_lagging_read_shows_what_it_shows_and_then_the_truth() {
    let scene = Scene::new().await;
    let job = pay();
    let frozen = scene.prepare(&job).await;
    scene
        .fault("domestic-payments", "drop-after-accept", 1, 0.0)
        .await;
    scene.execute(&job, &frozen).await;
    scene
        .fault("domestic-payments", "not-found-then-found", 2, 0.0)
        .await;
    for _ in 0..2 {
        let found = scene.bank.lookup(job.act_id, &frozen, job.now, None).await;
        assert!(
            matches!(found, Found::Absent(_)),
            "the consent still shows as unused: {found:?}"
        );
    }
    assert!(is_executed(
        &scene.bank.lookup(job.act_id, &frozen, job.now, None).await
    ));
}

#[tokio::test]
async fn a_consent_or_payment_the_bank_does_not_see_is_no_absence() {
    let scene = Scene::new().await;
    let job = pay();
    let frozen = scene.prepare(&job).await;
    scene
        .fault("domestic-payment-consents", "not-found-then-found", 1, 0.0)
        .await;
    let found = scene.bank.lookup(job.act_id, &frozen, job.now, None).await;
    assert!(
        matches!(&found, Found::Unknown(text) if text.contains("400")),
        "{found:?}"
    );

    scene.execute(&job, &frozen).await;
    scene
        .fault("domestic-payments", "not-found-then-found", 1, 0.0)
        .await;
    let found = scene.bank.lookup(job.act_id, &frozen, job.now, None).await;
    assert!(
        matches!(&found, Found::Unknown(text) if text.contains("400")),
        "{found:?}"
    );
    assert!(is_executed(
        &scene.bank.lookup(job.act_id, &frozen, job.now, None).await
    ));
}

#[tokio::test]
async fn a_payment_not_finished_is_accepted_until_the_bank_says_otherwise() {
    for (word, executed) in [("AcceptedSettlementCompleted", true), ("Rejected", false)] {
        let mut scene = Scene::with(|lab| lab.settle_after_s = 3_600, |_| {}).await;
        let job = pay();
        let frozen = scene.prepare(&job).await;
        let outcome = scene.execute(&job, &frozen).await;
        let Outcome::Accepted(report) = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!(report.status, "Pending");
        let payment = report.receipt.clone().unwrap_or_default();
        assert!(matches!(
            scene.bank.lookup(job.act_id, &frozen, job.now, None).await,
            Found::Accepted(_)
        ));
        // After a restart the id is not at hand: one replay of the order finds it again, and from then on it is read.
        scene.restart();
        let found = scene.bank.lookup(job.act_id, &frozen, job.now, None).await;
        assert!(
            matches!(&found, Found::Accepted(again) if again == &report),
            "{found:?}"
        );
        scene
            .post(&format!("/lab/settle/{payment}"), json!({ "status": word }))
            .await;
        // Read, not replayed: this works long after the key's end.
        scene.clock.pass(30 * 3_600);
        let found = scene.bank.lookup(job.act_id, &frozen, job.now, None).await;
        assert_eq!(is_executed(&found), executed, "{found:?}");
        assert_eq!(matches!(found, Found::Rejected(_)), !executed, "{found:?}");
        assert_eq!(scene.payments().await.len(), 1);
    }
}

#[tokio::test]
async fn past_the_keys_window_a_used_consent_stays_in_doubt_and_nothing_is_sent() {
    let mut scene = Scene::new().await;
    let job = pay();
    let frozen = scene.prepare(&job).await;
    scene
        .fault("domestic-payments", "drop-after-accept", 1, 0.0)
        .await;
    scene.execute(&job, &frozen).await;
    scene.restart();
    scene.clock.pass(24 * 3_600 - 601);
    assert!(is_executed(
        &scene.bank.lookup(job.act_id, &frozen, job.now, None).await
    ));
    scene.restart();
    scene.clock.pass(1);
    let armed = ("domestic-payments", "drop-before");
    scene.fault(armed.0, armed.1, 1, 0.0).await;
    let found = scene.bank.lookup(job.act_id, &frozen, job.now, None).await;
    assert!(
        matches!(&found, Found::Exists(text) if text.contains("an order exists")),
        "{found:?}"
    );
    let faults = scene.get("/lab/faults").await;
    assert_eq!(
        faults["faults"].as_array().map(Vec::len),
        Some(1),
        "no order was sent to meet the fault"
    );
    assert_eq!(scene.payments().await.len(), 1);
}

#[tokio::test]
async fn a_consent_the_account_holder_refused_is_certain() {
    let scene = Scene::with(|lab| lab.manual = true, |_| {}).await;
    let job = pay();
    let frozen = scene.prepare(&job).await;
    assert!(matches!(
        scene.bank.lookup(job.act_id, &frozen, job.now, None).await,
        Found::Absent(_)
    ));
    let outcome = scene.execute(&job, &frozen).await;
    assert!(
        matches!(outcome, Outcome::Unknown(_)),
        "not authorised, and the bank's code leaves room: {outcome:?}"
    );
    let consent = frozen.placed.clone().unwrap_or_default();
    scene
        .post(&format!("/lab/consents/{consent}/reject"), json!({}))
        .await;
    let found = scene.bank.lookup(job.act_id, &frozen, job.now, None).await;
    assert!(matches!(found, Found::Rejected(_)), "{found:?}");
    scene.bank.release(job.act_id, &frozen).await;
    assert!(scene.payments().await.is_empty());
}

#[tokio::test]
async fn a_bank_that_is_away_is_unknown() {
    let scene = Scene::new().await;
    let job = pay();
    let frozen = scene.prepare(&job).await;
    let Scene { lab, bank, .. } = scene;
    lab.stop().await;
    let found = bank.lookup(job.act_id, &frozen, job.now, None).await;
    assert!(matches!(found, Found::Unknown(_)), "{found:?}");
}
