//! After: what holds for a payment at once in 3.1 holds in each other form, because each consent takes one order in its
//! life: 4.0, scheduled, and both. One story for each failure point, told in every form; the lab's book is the judge.

use serde_json::json;
use wilco_adapter::{Adapter, Found, Job, Outcome, Ready, Report};
use wilco_core::Frozen;

use crate::support::{MARLOW, Scene, pairs, pay, pay_with};

/// One form: version, the day asked for, its resource, and the words of its life.
#[derive(Debug, Clone, Copy)]
struct Form {
    version: &'static str,
    paid: &'static str,
    resource: &'static str,
    /// The status the report of a first sending has, and whether that is done.
    first: (&'static str, bool),
    consumed: &'static str,
    ready: &'static str,
}

const FORMS: [Form; 4] = [
    Form {
        version: "3.1",
        paid: "20261002",
        resource: "domestic-payment",
        first: ("AcceptedSettlementCompleted", true),
        consumed: "Consumed",
        ready: "Authorised",
    },
    Form {
        version: "3.1",
        paid: "20261005",
        resource: "domestic-scheduled-payment",
        first: ("InitiationCompleted", true),
        consumed: "Consumed",
        ready: "Authorised",
    },
    Form {
        version: "4.0",
        paid: "20261002",
        resource: "domestic-payment",
        first: ("RCVD", false),
        consumed: "COND",
        ready: "AUTH",
    },
    Form {
        version: "4.0",
        paid: "20261005",
        resource: "domestic-scheduled-payment",
        first: ("RCVD", true),
        consumed: "COND",
        ready: "AUTH",
    },
];

impl Form {
    async fn scene(self) -> Scene {
        self.scene_with(|_| {}).await
    }

    async fn scene_with(self, lab: impl FnOnce(&mut wilco_lab::LabOptions)) -> Scene {
        Scene::with(lab, |bank| {
            bank.version = self.version.into();
            bank.scheduled = true;
        })
        .await
    }

    fn job(self) -> Job {
        pay_with("paid", self.paid)
    }

    fn payments(self) -> String {
        format!("{}s", self.resource)
    }

    fn consents(self) -> String {
        format!("{}-consents", self.resource)
    }

    fn values(self) -> Vec<(String, String)> {
        pairs(&[
            ("amt", "5400.00"),
            ("cur", "GBP"),
            ("acct", MARLOW),
            ("ref", "MD-2026-057"),
            ("paid", self.paid),
        ])
    }
}

fn executed(found: Found) -> Report {
    match found {
        Found::Executed(report) => report,
        other => panic!("{other:?}"),
    }
}

async fn look(scene: &Scene, job: &Job, frozen: &Frozen) -> Found {
    scene.bank.lookup(job.act_id, frozen, job.now, None).await
}

#[tokio::test]
async fn what_was_stated_is_what_stands_in_the_banks_book() {
    for form in FORMS {
        let scene = form.scene().await;
        let job = form.job();
        let frozen = scene.prepare(&job).await;
        assert_eq!(
            frozen.request.path,
            format!("/open-banking/v{}/pisp/{}", form.version, form.payments())
        );
        assert!(scene.orders().await.is_empty(), "nothing has moved");
        let report = match scene.execute(&job, &frozen).await {
            Outcome::Executed(report) if form.first.1 => report,
            Outcome::Accepted(report) if !form.first.1 => report,
            other => panic!("{form:?}: {other:?}"),
        };
        assert_eq!(report.values, form.values(), "{form:?}");
        assert_eq!(report.status, form.first.0);
        let orders = scene.orders().await;
        let [order] = orders.as_slice() else {
            panic!("one order: {orders:?}")
        };
        assert_eq!(order["amount"], "5400.00");
        assert_eq!(order["creditor_account"], MARLOW);
        assert_eq!(order["instruction_id"], job.act_id.to_string());
        assert_eq!(order["idempotency_key"], frozen.request.key);
        assert_eq!(order["consent_id"].as_str(), frozen.placed.as_deref());
        assert_eq!(order["payment_id"].as_str(), report.receipt.as_deref());
        if form.paid != "20261002" {
            assert_eq!(
                (&order["day"], &order["booked_at"]),
                (&json!("2026-10-05"), &json!(null))
            );
        }
    }
}

#[tokio::test]
async fn the_same_bytes_again_order_nothing_more() {
    for form in FORMS {
        let mut scene = form.scene().await;
        let job = form.job();
        let frozen = scene.prepare(&job).await;
        scene.execute(&job, &frozen).await;
        scene.restart();
        let again = scene.execute(&job, &frozen).await;
        assert!(matches!(again, Outcome::Executed(_)), "{form:?}: {again:?}");
        // A key the bank has never seen orders nothing either: the consent is used up.
        let mut other_key = frozen.clone();
        other_key.request.key = "wother".to_owned();
        let outcome = scene.execute(&job, &other_key).await;
        assert!(
            matches!(&outcome, Outcome::Unknown(text) if text.contains("InvalidConsentStatus")),
            "{form:?}: {outcome:?}"
        );
        assert_eq!(scene.orders().await.len(), 1, "{form:?}");
    }
}

#[tokio::test]
async fn each_fault_is_told_as_far_as_it_is_known_and_found_out_later() {
    let cases = [
        ("drop-before", false, 0),
        ("drop-after-accept", false, 1),
        ("5xx-after-accept", false, 1),
        ("refuse", true, 0),
    ];
    for form in FORMS {
        for (fault, rejected, ordered) in cases {
            let mut scene = form.scene().await;
            let job = form.job();
            let frozen = scene.prepare(&job).await;
            scene.fault(&form.payments(), fault, 1, 0.0).await;
            let outcome = scene.execute(&job, &frozen).await;
            let heard = match &outcome {
                Outcome::Unknown(_) => false,
                Outcome::Rejected(text) if text.contains("FailsControlParameters") => true,
                other => panic!("{form:?} {fault}: {other:?}"),
            };
            assert_eq!(heard, rejected, "{form:?} {fault}: {outcome:?}");
            assert_eq!(scene.orders().await.len(), ordered, "{form:?} {fault}");
            scene.restart();
            for _ in 0..3 {
                match look(&scene, &job, &frozen).await {
                    Found::Executed(report) if ordered == 1 => assert_eq!(report.values, form.values()),
                    Found::Absent(text) if ordered == 0 => assert!(text.contains(form.ready), "{text}"),
                    other => panic!("{form:?} {fault}: {other:?}"),
                }
            }
            assert_eq!(
                scene.orders().await.len(),
                ordered,
                "{form:?} {fault}: looking never orders"
            );
        }
    }
}

#[tokio::test]
async fn a_late_order_is_absent_until_it_lands() {
    for form in FORMS {
        let scene = form.scene().await;
        let job = form.job();
        let frozen = scene.prepare(&job).await;
        scene.fault(&form.payments(), "late", 1, 0.7).await;
        let outcome = scene.execute(&job, &frozen).await;
        assert!(matches!(outcome, Outcome::Unknown(_)), "{form:?}: {outcome:?}");
        assert!(
            matches!(look(&scene, &job, &frozen).await, Found::Absent(_)),
            "{form:?}"
        );
        while scene.orders().await.is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        executed(look(&scene, &job, &frozen).await);
        assert_eq!(scene.orders().await.len(), 1, "{form:?}");
    }
}

#[tokio::test]
async fn an_order_nobody_heard_of_is_not_asked_about_with_a_key_that_is_too_old() {
    for form in FORMS {
        let mut scene = form.scene().await;
        let job = form.job();
        let frozen = scene.prepare(&job).await;
        scene.fault(&form.payments(), "drop-after-accept", 1, 0.0).await;
        scene.execute(&job, &frozen).await;
        scene.restart();
        scene.clock.pass(24 * 3_600 - 600);
        scene.fault(&form.payments(), "drop-before", 1, 0.0).await;
        let found = look(&scene, &job, &frozen).await;
        assert!(
            matches!(&found, Found::Exists(text) if text.contains("an order exists")),
            "{form:?}: {found:?}"
        );
        let faults = scene.get("/lab/faults").await;
        assert_eq!(
            faults["faults"].as_array().map(Vec::len),
            Some(1),
            "no order met the fault"
        );
        assert_eq!(scene.orders().await.len(), 1);
    }
}

#[tokio::test]
async fn a_bank_that_does_not_see_its_consent_or_payment_proves_nothing() {
    for form in FORMS {
        let scene = form.scene().await;
        let job = form.job();
        let frozen = scene.prepare(&job).await;
        scene
            .fault(&form.consents(), "not-found-then-found", 1, 0.0)
            .await;
        let found = look(&scene, &job, &frozen).await;
        assert!(
            matches!(&found, Found::Unknown(text) if text.contains("400")),
            "{form:?}: {found:?}"
        );
        scene.execute(&job, &frozen).await;
        scene
            .fault(&form.payments(), "not-found-then-found", 1, 0.0)
            .await;
        let found = look(&scene, &job, &frozen).await;
        assert!(
            matches!(&found, Found::Unknown(text) if text.contains("400")),
            "{form:?}: {found:?}"
        );
        executed(look(&scene, &job, &frozen).await);
        let ready = scene.bank.ready(job.act_id, &frozen).await;
        assert!(
            matches!(&ready, Ready::Unknown(text) if text.contains(form.consumed)),
            "{form:?}: {ready:?}"
        );
    }
}

/// What people see and do: the link, then yes or no, and what each comes to.
#[tokio::test]
async fn a_person_authorises_or_refuses_in_every_form() {
    for form in FORMS {
        let scene = form.scene_with(|lab| lab.manual = true).await;
        let job = form.job();
        let frozen = scene.prepare(&job).await;
        let consent = frozen.placed.clone().unwrap_or_default();
        let page = format!("{}/lab/consents/{consent}/authorise", scene.lab.url());
        assert_eq!(frozen.authorise_at.as_deref(), Some(page.as_str()), "{form:?}");
        let ready = scene.bank.ready(job.act_id, &frozen).await;
        assert!(
            matches!(&ready, Ready::Awaiting { link: Some(link), .. } if *link == page),
            "{form:?}: {ready:?}"
        );
        let outcome = scene.execute(&job, &frozen).await;
        assert!(matches!(outcome, Outcome::Unknown(_)), "{form:?}: {outcome:?}");
        assert!(
            scene.orders().await.is_empty(),
            "the bank itself holds it back: {form:?}"
        );
        assert!(matches!(look(&scene, &job, &frozen).await, Found::Absent(_)));
        scene
            .post(&format!("/lab/consents/{consent}/authorise"), json!({}))
            .await;
        assert_eq!(
            scene.bank.ready(job.act_id, &frozen).await,
            Ready::Yes,
            "{form:?}"
        );
        scene.execute(&job, &frozen).await;
        executed(look(&scene, &job, &frozen).await);
        assert_eq!(scene.orders().await.len(), 1);

        let other = form.job();
        let frozen = scene.prepare(&other).await;
        let consent = frozen.placed.clone().unwrap_or_default();
        scene
            .post(&format!("/lab/consents/{consent}/reject"), json!({}))
            .await;
        let ready = scene.bank.ready(other.act_id, &frozen).await;
        assert!(
            matches!(&ready, Ready::Refused { text } if text.contains(&consent)),
            "{form:?}: {ready:?}"
        );
        let found = look(&scene, &other, &frozen).await;
        assert!(matches!(found, Found::Rejected(_)), "{form:?}: {found:?}");
        scene.bank.release(other.act_id, &frozen).await;
        assert_eq!(scene.orders().await.len(), 1, "{form:?}");
    }
}

/// An act is finished as it was prepared, whatever the table says by then.
#[tokio::test]
async fn a_changed_table_does_not_change_an_act() {
    for (first, then) in [("3.1", "4.0"), ("4.0", "3.1")] {
        let mut scene = Scene::with(|_| {}, |bank| bank.version = first.into()).await;
        let job = pay();
        let frozen = scene.prepare(&job).await;
        scene.config.version = then.into();
        scene.restart();
        assert_eq!(scene.bank.ready(job.act_id, &frozen).await, Ready::Yes);
        scene
            .fault("domestic-payments", "drop-after-accept", 1, 0.0)
            .await;
        scene.execute(&job, &frozen).await;
        executed(look(&scene, &job, &frozen).await);
        assert_eq!(scene.orders().await.len(), 1);
    }
    // What an earlier daemon froze names no version: it spoke 3.1.
    let scene = Scene::with(|_| {}, |_| {}).await;
    let job = pay();
    let mut frozen = scene.prepare(&job).await;
    frozen.request.path = "/domestic-payments".to_owned();
    scene.execute(&job, &frozen).await;
    executed(look(&scene, &job, &frozen).await);
    // And what nobody knows is not sent anywhere.
    frozen.request.path = "/somewhere".to_owned();
    let outcome = scene.execute(&job, &frozen).await;
    assert!(matches!(outcome, Outcome::NotSent(_)), "{outcome:?}");
    let found = look(&scene, &job, &frozen).await;
    assert!(
        matches!(found, Found::Executed(_) | Found::Unknown(_)),
        "{found:?}"
    );
    assert_eq!(scene.orders().await.len(), 1);
}
