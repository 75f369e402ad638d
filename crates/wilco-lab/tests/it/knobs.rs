//! The lab's own endpoints: register, confirmation of payee, authorisation by hand, settling by hand, knobs.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::{Bench, CONSENTS, MARLOW, OURS, PAYMENTS, Reply, initiation, ok, payment_body};

async fn put_payee(bench: &Bench, sup: &str, body: Value) -> Reply {
    let request = bench
        .client
        .http
        .put(format!("{}/lab/payees/{sup}", bench.client.url))
        .json(&body);
    ok(bench.client.send(request).await)
}

#[tokio::test]
async fn the_register_is_read_and_changed() {
    let bench = Bench::new().await;
    let client = &bench.client;
    let marlow = client.get("/lab/payees/marlow").await;
    assert_eq!(
        marlow.body,
        json!({ "sup": "marlow", "name": "Marlow Supplies Ltd", "account": MARLOW })
    );
    let nobody = client.get("/lab/payees/nobody").await;
    assert_eq!(nobody.status, StatusCode::NOT_FOUND);
    assert!(!nobody.text("/error").is_empty());

    let poisoned = put_payee(
        &bench,
        "marlow",
        json!({ "name": "Marlow Supplies Ltd", "account": "40-12-88/61102983" }),
    )
    .await;
    assert_eq!(poisoned.status, StatusCode::OK);
    assert_eq!(
        client.get("/lab/payees/marlow").await.text("/account"),
        "40-12-88/61102983"
    );
    let all = client.get("/lab/payees").await;
    assert!(
        all.body["payees"]
            .as_array()
            .is_some_and(|payees| payees.len() >= 4),
        "{all:?}"
    );

    for (sup, body, field) in [
        (
            "marlow",
            json!({ "name": "Marlow", "account": "1234" }),
            "account",
        ),
        ("marlow", json!({ "name": " ", "account": MARLOW }), "name"),
        ("marlow", json!({ "account": MARLOW }), "name"),
        (
            "marlow",
            json!({ "name": "M", "account": MARLOW, "sup": "other" }),
            "sup",
        ),
        (
            "marlow",
            json!({ "name": "M", "account": MARLOW, "iban": "x" }),
            "iban",
        ),
        ("a%20b", json!({ "name": "M", "account": MARLOW }), "sup"),
        ("marlow", json!([]), "body"),
    ] {
        let reply = put_payee(&bench, sup, body).await;
        assert_eq!(
            (reply.status, reply.text("/field").as_str()),
            (StatusCode::UNPROCESSABLE_ENTITY, field)
        );
    }
    bench.lab.stop().await;
}

#[tokio::test]
async fn confirmation_of_payee_knows_the_holder_and_not_the_register() {
    let bench = Bench::new().await;
    put_payee(
        &bench,
        "marlow",
        json!({ "name": "Marlow Supplies Ltd", "account": "40-12-88/61102983" }),
    )
    .await;
    put_payee(
        &bench,
        "newcomer",
        json!({ "name": "Newcomer Ltd", "account": "11-22-33/12345678" }),
    )
    .await;
    for (account, name, want) in [
        (
            MARLOW,
            "MARLOW SUPPLIES LIMITED",
            json!({ "result": "match", "name": "Marlow Supplies Ltd" }),
        ),
        (
            "40128861102938",
            "Marlow Suplies Ltd",
            json!({ "result": "close_match", "name": "Marlow Supplies Ltd" }),
        ),
        (
            "40-12-88/61102983",
            "Marlow Supplies Ltd",
            json!({ "result": "no_match" }),
        ),
        (
            "40-12-88/00000000",
            "Marlow Supplies Ltd",
            json!({ "result": "no_match" }),
        ),
        (
            "99-99-99/00000000",
            "Marlow Supplies Ltd",
            json!({ "result": "unavailable" }),
        ),
        (
            "11-22-33/12345678",
            "Newcomer Ltd",
            json!({ "result": "match", "name": "Newcomer Ltd" }),
        ),
    ] {
        let reply = bench
            .client
            .knob(
                "/lab/confirmation-of-payee",
                json!({ "account": account, "name": name }),
            )
            .await;
        assert_eq!(
            (reply.status, &reply.body),
            (StatusCode::OK, &want),
            "{account} {name}"
        );
    }
    bench.lab.stop().await;
}

#[tokio::test]
async fn a_manual_lab_waits_for_a_person() {
    let bench = Bench::with(|options| options.manual = true).await;
    let client = &bench.client;
    let order = initiation("<b>&\"R1", "10.00");
    let consent = client.consent("c", &order).await;
    assert_eq!(consent.text("/Data/Status"), "AwaitingAuthorisation");
    let id = consent.text("/Data/ConsentId");
    let body = payment_body(&id, &order);
    assert_eq!(
        client.post(PAYMENTS, "p", &body).await.refusal(),
        "UK.OBIE.Resource.InvalidConsentStatus"
    );
    let funds = client.get(&format!("{CONSENTS}/{id}/funds-confirmation")).await;
    assert_eq!(funds.refusal(), "UK.OBIE.Resource.InvalidConsentStatus");

    let link = consent.text("/Links/Authorise");
    let page = ok(client.send(client.http.get(&link)).await);
    let html = page.body.as_str().unwrap_or_default();
    assert!(
        html.contains("&lt;b&gt;&amp;&quot;R1") && !html.contains("<b>&"),
        "what came from outside is escaped: {html}"
    );
    client.book().await.is_untouched();

    let said_yes = ok(client.send(client.http.post(&link)).await);
    assert_eq!(said_yes.body, json!({ "consent_id": id, "status": "Authorised" }));
    assert_eq!(
        client
            .knob(&format!("/lab/consents/{id}/authorise"), json!({}))
            .await
            .status,
        StatusCode::OK
    );
    assert_eq!(
        client
            .knob(&format!("/lab/consents/{id}/reject"), json!({}))
            .await
            .status,
        StatusCode::CONFLICT
    );
    assert_eq!(
        client.get(&format!("{CONSENTS}/{id}")).await.body["Links"]["Authorise"],
        Value::Null
    );
    assert_eq!(
        client.post(PAYMENTS, "p", &body).await.status,
        StatusCode::CREATED
    );

    let other = client.consent("c2", &order).await.text("/Data/ConsentId");
    client
        .knob(&format!("/lab/consents/{other}/reject"), json!({}))
        .await;
    assert_eq!(
        client
            .get(&format!("{CONSENTS}/{other}"))
            .await
            .text("/Data/Status"),
        "Rejected"
    );
    let refused = client.post(PAYMENTS, "p2", &payment_body(&other, &order)).await;
    assert_eq!(refused.refusal(), "UK.OBIE.Resource.InvalidConsentStatus");
    assert_eq!(
        client
            .knob("/lab/consents/none/authorise", json!({}))
            .await
            .status,
        StatusCode::NOT_FOUND
    );
    assert_eq!(client.book().await.payments().len(), 1);
    bench.lab.stop().await;
}

#[tokio::test]
async fn a_payment_is_moved_by_hand_and_a_rejection_takes_the_money_back() {
    let bench = Bench::with(|options| options.settle_after_s = 3_600).await;
    let client = &bench.client;
    let body = client.allowed("c", &initiation("R1", "10.00")).await;
    let id = client
        .post(PAYMENTS, "p", &body)
        .await
        .text("/Data/DomesticPaymentId");
    client.book().await.holds_one("R1", MARLOW, "10.00");
    let settle = |status: &'static str| client.knob_settle(&id, status);

    assert_eq!(
        settle("AcceptedSettlementInProcess").await.text("/status"),
        "AcceptedSettlementInProcess"
    );
    // Moved by hand, it no longer settles by itself.
    client.knob("/lab/clock", json!({ "advance_s": 7_200 })).await;
    assert_eq!(
        client.get(&format!("{PAYMENTS}/{id}")).await.text("/Data/Status"),
        "AcceptedSettlementInProcess"
    );

    for _ in 0..2 {
        assert_eq!(settle("Rejected").await.text("/status"), "Rejected");
        let book = client.book().await;
        assert_eq!(
            (book.balance(MARLOW), book.balance(OURS)),
            (Some(0), Some(2_500_000_000))
        );
        assert_eq!(book.payments()[0]["status"], "Rejected");
        assert_ne!(book.payments()[0]["booked_at"], Value::Null);
    }
    assert_eq!(
        settle("AcceptedSettlementCompleted").await.status,
        StatusCode::CONFLICT
    );
    // The consent stays used, whatever became of its payment.
    assert_eq!(
        client.post(PAYMENTS, "p2", &body).await.refusal(),
        "UK.OBIE.Resource.InvalidConsentStatus"
    );

    let wrong = settle("Done").await;
    assert_eq!(
        (wrong.status, wrong.text("/field")),
        (StatusCode::UNPROCESSABLE_ENTITY, "status".into())
    );
    assert!(
        wrong.body["allowed"]
            .as_array()
            .is_some_and(|words| words.contains(&json!("Rejected")))
    );
    assert_eq!(
        client.knob_settle("none", "Rejected").await.status,
        StatusCode::NOT_FOUND
    );
    bench.lab.stop().await;
}

impl crate::support::Client {
    async fn knob_settle(&self, payment_id: &str, status: &str) -> Reply {
        self.knob(&format!("/lab/settle/{payment_id}"), json!({ "status": status }))
            .await
    }
}

#[tokio::test]
async fn fault_words_are_checked_and_listed_and_cleared() {
    let bench = Bench::new().await;
    let client = &bench.client;
    for (body, field, allowed) in [
        (
            json!({ "endpoint": "payments", "fault": "slow" }),
            "endpoint",
            "domestic-payments",
        ),
        (
            json!({ "fault": "slow" }),
            "endpoint",
            "domestic-payment-consents",
        ),
        (
            json!({ "endpoint": "domestic-payments", "fault": "explode" }),
            "fault",
            "not-found-then-found",
        ),
        (
            json!({ "endpoint": "domestic-payments", "fault": "slow", "count": 1 }),
            "count",
            "times",
        ),
    ] {
        let reply = client.knob("/lab/faults", body).await;
        assert_eq!(
            (reply.status, reply.text("/field").as_str()),
            (StatusCode::UNPROCESSABLE_ENTITY, field)
        );
        assert!(
            reply.body["allowed"]
                .as_array()
                .is_some_and(|words| words.contains(&json!(allowed))),
            "{reply:?}"
        );
    }
    for (name, value) in [
        ("times", json!(0)),
        ("times", json!("1")),
        ("times", json!(10_001)),
        ("seconds", json!(-1)),
        ("seconds", json!(1e9)),
    ] {
        let mut body = json!({ "endpoint": "domestic-payments", "fault": "slow" });
        body[name] = value;
        assert_eq!(client.knob("/lab/faults", body).await.text("/field"), name);
    }
    assert_eq!(client.faults_left().await, 0);
    client.arm("domestic-payments", "slow", 2, 0.5).await;
    let listed = client.get("/lab/faults").await;
    let want = json!({
        "counterparty": "bank", "endpoint": "domestic-payments", "fault": "slow", "times": 2, "seconds": 0.5
    });
    assert_eq!(listed.body["faults"], json!([want]));
    ok(client
        .send(client.http.delete(format!("{}/lab/faults", client.url)))
        .await);
    assert_eq!(client.faults_left().await, 0);
    bench.lab.stop().await;
}
