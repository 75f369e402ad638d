//! After: done is said from the word the table names on, a word that is not the bank's last is marked as such, and a
//! rejection that comes after it is seen by looking.

use serde_json::json;
use wilco_adapter::{Adapter, Found, Outcome, Report};

use crate::support::{MARLOW, Scene, pay, pay_with};

async fn seen(scene: &Scene, word: &str) -> (Found, String) {
    let job = pay();
    let frozen = scene.prepare(&job).await;
    let outcome = scene.execute(&job, &frozen).await;
    let (Outcome::Executed(report) | Outcome::Accepted(report)) = outcome else {
        panic!("{outcome:?}")
    };
    let payment = report.receipt.unwrap_or_default();
    scene
        .post(&format!("/lab/settle/{payment}"), json!({ "status": word }))
        .await;
    (
        scene.bank.lookup(job.act_id, &frozen, job.now, None).await,
        payment,
    )
}

fn provisional(report: &Report) -> bool {
    report.provisional
}

#[tokio::test]
async fn done_begins_where_the_table_says() {
    for (version, word, in_process, settled) in [
        ("3.1", "Pending", "accepted", "accepted"),
        ("3.1", "AcceptedSettlementInProcess", "provisional", "accepted"),
        ("3.1", "AcceptedSettlementCompleted", "done", "done"),
        ("3.1", "AcceptedWithoutPosting", "provisional", "provisional"),
        ("3.1", "AcceptedCreditSettlementCompleted", "done", "done"),
        ("3.1", "Rejected", "rejected", "rejected"),
        ("4.0", "RCVD", "accepted", "accepted"),
        ("4.0", "ACFC", "accepted", "accepted"),
        ("4.0", "ACSP", "provisional", "accepted"),
        ("4.0", "ACWC", "accepted", "accepted"),
        ("4.0", "ACSC", "provisional", "provisional"),
        ("4.0", "ACCC", "done", "done"),
        ("4.0", "RJCT", "rejected", "rejected"),
        ("4.0", "BLCK", "exists", "exists"),
    ] {
        for (done_at, want) in [("in_process", in_process), ("settled", settled)] {
            let scene = Scene::with(
                |_| {},
                |bank| (bank.version, bank.done_at) = (version.into(), done_at.into()),
            )
            .await;
            let (found, payment) = seen(&scene, word).await;
            let got = match &found {
                Found::Accepted(report) if !report.provisional => "accepted",
                Found::Executed(report) if provisional(report) => "provisional",
                Found::Executed(_) => "done",
                Found::Rejected(text) if text.contains(&payment) => "rejected",
                Found::Exists(text) if text.contains("neither posted") => "exists",
                other => panic!("{other:?}"),
            };
            assert_eq!(got, want, "{version} {word} {done_at}");
        }
    }
}

/// Days later, after a restart, the key has long been forgotten; the id the bank gave has not.
#[tokio::test]
async fn a_payment_is_read_by_the_id_the_bank_gave_long_after_its_key_is_forgotten() {
    let mut scene = Scene::new().await;
    let job = pay();
    let frozen = scene.prepare(&job).await;
    scene.fault("domestic-payments", "reject-later", 1, 3_600.0).await;
    let Outcome::Executed(report) = scene.execute(&job, &frozen).await else {
        panic!("not executed")
    };
    scene.restart();
    scene.days_pass(3).await;
    let by_the_key = scene.bank.lookup(job.act_id, &frozen, job.now, None).await;
    assert!(matches!(by_the_key, Found::Exists(_)), "{by_the_key:?}");
    let receipt = report.receipt.as_deref();
    let by_its_id = scene.bank.lookup(job.act_id, &frozen, job.now, receipt).await;
    assert!(matches!(by_its_id, Found::Rejected(_)), "{by_its_id:?}");
    assert_eq!(scene.orders().await.len(), 1);
}

/// The night this is for: the bank says that it is on its way, and an hour later that it is not.
#[tokio::test]
async fn a_payment_reported_as_done_can_be_rejected_later_and_looking_says_so() {
    for version in ["3.1", "4.0"] {
        let scene = Scene::with(|_| {}, |bank| bank.version = version.into()).await;
        let job = pay();
        let frozen = scene.prepare(&job).await;
        scene.fault("domestic-payments", "reject-later", 1, 3_600.0).await;
        let outcome = scene.execute(&job, &frozen).await;
        match (version, &outcome) {
            ("3.1", Outcome::Executed(report)) => assert!(report.provisional, "{report:?}"),
            ("4.0", Outcome::Accepted(report)) => assert_eq!(report.status, "RCVD"),
            other => panic!("{other:?}"),
        }
        let found = scene.bank.lookup(job.act_id, &frozen, job.now, None).await;
        assert!(
            matches!(&found, Found::Executed(report) if report.provisional),
            "{version}: {found:?}"
        );
        assert_eq!(scene.balance(MARLOW).await.as_deref(), Some("5400.00"));

        scene.post("/lab/clock", json!({ "advance_s": 3_601 })).await;
        for _ in 0..3 {
            let found = scene.bank.lookup(job.act_id, &frozen, job.now, None).await;
            assert!(matches!(found, Found::Rejected(_)), "{version}: {found:?}");
        }
        assert_eq!(
            scene.balance(MARLOW).await.as_deref(),
            Some("0.00"),
            "the money is back"
        );
        assert_eq!(scene.orders().await.len(), 1, "and nothing was ordered again");
    }
}

#[tokio::test]
async fn a_scheduled_order_is_done_while_it_stands_and_rejected_when_it_comes_to_nothing() {
    for (version, ends) in [
        ("3.1", ["Cancelled", "InitiationFailed"]),
        ("4.0", ["CANC", "RJCT"]),
    ] {
        for end in ends {
            let scene = Scene::with(
                |_| {},
                |bank| (bank.version, bank.scheduled) = (version.into(), true),
            )
            .await;
            let job = pay_with("paid", "20261005");
            let frozen = scene.prepare(&job).await;
            let outcome = scene.execute(&job, &frozen).await;
            let Outcome::Executed(report) = outcome else {
                panic!("{outcome:?}")
            };
            assert!(report.provisional, "its day has not come");
            let payment = report.receipt.unwrap_or_default();
            scene
                .post(&format!("/lab/settle/{payment}"), json!({ "status": end }))
                .await;
            let found = scene.bank.lookup(job.act_id, &frozen, job.now, None).await;
            assert!(
                matches!(&found, Found::Rejected(text) if text.contains(end)),
                "{version} {end}: {found:?}"
            );
            scene.days_pass(5).await;
            assert_eq!(scene.balance(MARLOW).await, None, "never paid");
        }
    }
}
