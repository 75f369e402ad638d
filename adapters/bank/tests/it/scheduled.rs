//! After: a day to come is ordered for that day and no other, a day that is over never, and what is stated is the day the
//! bank says. The lab's today is 2 October 2026.

use wilco_adapter::{Adapter, Found, Outcome, ResolveError};
use wilco_core::Timestamp;
use wilco_core::frozen::Source;

use crate::support::{MARLOW, Scene, pay, pay_with};

async fn scene() -> Scene {
    Scene::with(|_| {}, |bank| (bank.scheduled, bank.scheduled_days) = (true, 30)).await
}

#[tokio::test]
async fn what_is_stated_is_the_day_in_the_banks_consent() {
    let scene = scene().await;
    let job = pay_with("paid", "20261005");
    let resolved = scene.resolve(&job).await.unwrap_or_else(|e| panic!("{e}"));
    let paid = resolved.values.iter().find(|v| v.slot == "paid");
    let paid = paid.unwrap_or_else(|| panic!("paid is stated"));
    assert_eq!((paid.value.as_str(), paid.source), ("20261005", Source::Resolved));
    assert!(paid.evidence.contains("consent"), "{}", paid.evidence);
    assert!(resolved.extra.contains(&("x_sched".to_owned(), "Y".to_owned())));
    assert!(
        resolved
            .notes
            .iter()
            .any(|n| n.contains("the order stands") && n.contains("20261005")),
        "{:?}",
        resolved.notes
    );
    assert!(
        resolved.request.body.contains("2026-10-05T12:00:00Z"),
        "{}",
        resolved.request.body
    );
    assert!(scene.orders().await.is_empty());
    // Today is paid at once, as ever.
    let resolved = scene.resolve(&pay()).await.unwrap_or_else(|e| panic!("{e}"));
    assert!(resolved.request.path.ends_with("/domestic-payments"));
    assert!(!resolved.extra.iter().any(|(slot, _)| slot == "x_sched"));
}

#[tokio::test]
async fn it_is_paid_on_its_day_and_once() {
    for version in ["3.1", "4.0"] {
        let scene = Scene::with(
            |_| {},
            |bank| (bank.version, bank.scheduled) = (version.into(), true),
        )
        .await;
        let job = pay_with("paid", "20261005");
        let frozen = scene.prepare(&job).await;
        let outcome = scene.execute(&job, &frozen).await;
        assert!(matches!(outcome, Outcome::Executed(_)), "{outcome:?}");
        scene.days_pass(1).await;
        assert_eq!(scene.balance(MARLOW).await, None, "not before its day");
        scene.days_pass(4).await;
        assert_eq!(scene.balance(MARLOW).await.as_deref(), Some("5400.00"));
        let found = scene.bank.lookup(job.act_id, &frozen, job.now, None).await;
        let Found::Executed(report) = found else {
            panic!("{found:?}")
        };
        let paid = report.values.iter().find(|(slot, _)| slot == "paid");
        assert_eq!(paid.map(|(_, day)| day.as_str()), Some("20261005"));
        scene.days_pass(4).await;
        assert_eq!(scene.balance(MARLOW).await.as_deref(), Some("5400.00"));
        assert_eq!(scene.orders().await.len(), 1);
    }
}

#[tokio::test]
async fn days_that_cannot_be_paid_on_are_refused_by_their_rule() {
    let scene = scene().await;
    for (paid, needles) in [
        ("20261001", ["before the bank's today", "20261002"]),
        ("20200101", ["before the bank's today", "20261002"]),
        ("20261102", ["up to 30 days", "scheduled_days"]),
        ("20261301", ["no date", "20261301"]),
        ("tomorrow", ["no date", "tomorrow"]),
    ] {
        let said = scene.resolve(&pay_with("paid", paid)).await;
        let Err(ResolveError::Refused { why: "SCOPE", text }) = said else {
            panic!("{paid}: {said:?}")
        };
        assert!(
            text.starts_with("slot paid") && needles.iter().all(|n| text.contains(n)),
            "{text}"
        );
    }
    scene
        .resolve(&pay_with("paid", "20261101"))
        .await
        .unwrap_or_else(|e| panic!("{e}"));
    assert!(scene.orders().await.is_empty());
}

/// Our clock guesses which kind to ask for; the bank's day decides.
#[tokio::test]
async fn the_banks_day_decides_and_not_our_clock() {
    let scene = scene().await;
    for (ours, paid, path) in [
        ("20261010T0900Z", "20261005", "/domestic-scheduled-payments"),
        ("20260930T0900Z", "20261002", "/domestic-payments"),
        ("20261001T2330Z", "20261003", "/domestic-scheduled-payments"),
    ] {
        let mut job = pay_with("paid", paid);
        job.now = Timestamp::from_rw1(ours).unwrap_or_default();
        let resolved = scene
            .resolve(&job)
            .await
            .unwrap_or_else(|e| panic!("{ours} {paid}: {e}"));
        assert!(
            resolved.request.path.ends_with(path),
            "{ours} {paid}: {}",
            resolved.request.path
        );
        let stated = resolved
            .values
            .iter()
            .find(|v| v.slot == "paid")
            .map(|v| v.value.as_str());
        assert_eq!(stated, Some(paid));
    }
    let mut job = pay_with("paid", "20261001");
    job.now = Timestamp::from_rw1("20260930T0900Z").unwrap_or_default();
    let said = scene.resolve(&job).await;
    assert!(
        matches!(said, Err(ResolveError::Refused { why: "SCOPE", .. })),
        "{said:?}"
    );
}

#[tokio::test]
async fn the_day_is_the_banks_own_in_its_zone() {
    let scene = Scene::with(
        |_| {},
        |bank| (bank.scheduled, bank.time_zone) = (true, "Europe/London".into()),
    )
    .await;
    for (paid, at) in [
        ("20261005", "2026-10-05T12:00:00+01:00"),
        ("20261026", "2026-10-26T12:00:00Z"),
    ] {
        let resolved = scene
            .resolve(&pay_with("paid", paid))
            .await
            .unwrap_or_else(|e| panic!("{e}"));
        assert!(resolved.request.body.contains(at), "{}", resolved.request.body);
    }
}

#[tokio::test]
async fn an_order_with_wrong_values_is_reported_as_the_bank_has_it() {
    let scene = scene().await;
    let job = pay_with("paid", "20261005");
    let frozen = scene.prepare(&job).await;
    scene
        .fault("domestic-scheduled-payments", "wrong-amount", 1, 0.0)
        .await;
    let outcome = scene.execute(&job, &frozen).await;
    let Outcome::Executed(report) = outcome else {
        panic!("{outcome:?}")
    };
    assert!(
        report.values.contains(&("amt".to_owned(), "5100.00".to_owned())),
        "{report:?}"
    );
}
