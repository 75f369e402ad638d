//! Scheduled payments: an order stands until the bank's clock reaches its day, and moves money then and once.

use reqwest::StatusCode;
use serde_json::{Value, json};
use wilco_lab::LabOptions;

use crate::support::{Bench, Client, MARLOW, OURS, initiation, ok, pence};

const CONSENTS: &str = "/open-banking/v3.1/pisp/domestic-scheduled-payment-consents";
const PAYMENTS: &str = "/open-banking/v3.1/pisp/domestic-scheduled-payments";
const DAY_S: u64 = 24 * 3_600;

fn frozen(options: &mut LabOptions) {
    options.today = Some(time::macros::date!(2026 - 09 - 14));
}

fn order(reference: &str, amount: &str, at: &str) -> Value {
    let mut order = initiation(reference, amount);
    order["RequestedExecutionDateTime"] = json!(at);
    order
}

fn consent_body(order: &Value) -> Value {
    json!({
        "Data": { "Permission": "Create", "Initiation": order },
        "Risk": { "PaymentContextCode": "BillPayment" },
    })
}

/// Places a consent and returns the body of the order it allows.
async fn allowed(client: &Client, key: &str, order: &Value) -> Value {
    let consent = client.post(CONSENTS, key, &consent_body(order)).await;
    assert_eq!(consent.status, StatusCode::CREATED, "{consent:?}");
    assert_eq!(consent.text("/Data/Permission"), "Create");
    json!({
        "Data": { "ConsentId": consent.text("/Data/ConsentId"), "Initiation": order },
        "Risk": { "PaymentContextCode": "BillPayment" },
    })
}

async fn pass(client: &Client, seconds: u64) {
    let reply = client.knob("/lab/clock", json!({ "advance_s": seconds })).await;
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
}

async fn scheduled(client: &Client) -> Vec<Value> {
    let book = client.book().await;
    assert_eq!(book.payments(), Vec::<Value>::new(), "no payment at once");
    book.0["scheduled"].as_array().cloned().unwrap_or_default()
}

#[tokio::test]
async fn an_order_stands_until_its_day_and_is_paid_then_once() {
    let bench = Bench::with(frozen).await;
    let client = &bench.client;
    let body = allowed(client, "c", &order("R1", "10.00", "2026-09-17T12:00:00+01:00")).await;
    let placed = client.post(PAYMENTS, "p", &body).await;
    assert_eq!(placed.status, StatusCode::CREATED, "{placed:?}");
    assert_eq!(placed.text("/Data/Status"), "InitiationCompleted");
    let id = placed.text("/Data/DomesticScheduledPaymentId");
    assert!((1..=40).contains(&id.len()), "OBIE's limit: {id}");
    let consent = format!("{CONSENTS}/{}", placed.text("/Data/ConsentId"));
    assert_eq!(client.get(&consent).await.text("/Data/Status"), "Consumed");

    let stands = scheduled(client).await;
    assert_eq!(stands.len(), 1);
    assert_eq!(
        (&stands[0]["day"], &stands[0]["booked_at"]),
        (&json!("2026-09-17"), &Value::Null)
    );
    assert_eq!(
        client.book().await.balance(OURS),
        Some(2_500_000_000),
        "nothing has moved"
    );

    pass(client, DAY_S).await;
    assert_eq!(scheduled(client).await, stands, "its day has not come");
    pass(client, 3 * DAY_S).await;
    for _ in 0..2 {
        let paid = scheduled(client).await;
        assert_eq!(paid[0]["booked_at"], "2026-09-17T12:00:00+01:00");
        assert_eq!(
            (&paid[0]["status"], &paid[0]["code"]),
            (&json!("InitiationCompleted"), &json!("ACSC"))
        );
        let book = client.book().await;
        assert_eq!(book.balance(MARLOW), Some(1_000));
        assert_eq!(book.balance(OURS), Some(2_500_000_000 - 1_000));
    }
    // The same order again, and another key on the same consent, make nothing.
    pass(client, 1).await;
    let other = client.post(PAYMENTS, "p2", &body).await;
    assert_eq!(other.refusal(), "UK.OBIE.Resource.InvalidConsentStatus");
    assert_eq!(scheduled(client).await.len(), 1);
    bench.lab.stop().await;
}

#[tokio::test]
async fn a_repeat_of_the_order_shows_the_one_that_stands() {
    let bench = Bench::with(frozen).await;
    let client = &bench.client;
    let body = allowed(client, "c", &order("R1", "10.00", "2026-09-15T12:00:00Z")).await;
    let first = client.post(PAYMENTS, "p", &body).await;
    let again = client.post(PAYMENTS, "p", &body).await;
    assert_eq!(first, again);
    let read = format!("{PAYMENTS}/{}", first.text("/Data/DomesticScheduledPaymentId"));
    assert_eq!(client.get(&read).await.body, first.body);
    assert_eq!(scheduled(client).await.len(), 1);
    bench.lab.stop().await;
}

/// The money is looked for on the day, and an order that cannot be paid then has failed.
#[tokio::test]
async fn an_order_without_money_on_its_day_fails() {
    let bench = Bench::with(|options| {
        frozen(options);
        options.world.own[0].opening_minor = 1_500;
    })
    .await;
    let client = &bench.client;
    for (key, at) in [("1", "2026-09-15T12:00:00Z"), ("2", "2026-09-16T12:00:00Z")] {
        let body = allowed(
            client,
            &format!("c{key}"),
            &order(&format!("R{key}"), "10.00", at),
        )
        .await;
        let placed = client.post(PAYMENTS, &format!("p{key}"), &body).await;
        assert_eq!(placed.text("/Data/Status"), "InitiationCompleted");
    }
    // Both days pass unseen, and are made up for in their order.
    pass(client, 5 * DAY_S).await;
    let ended = scheduled(client).await;
    let words: Vec<_> = ended
        .iter()
        .map(|line| line["status"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(words, ["InitiationCompleted", "InitiationFailed"]);
    assert_eq!(ended[1]["booked_at"], Value::Null);
    assert_eq!(client.book().await.balance(OURS), Some(pence("5.00")));
    bench.lab.stop().await;
}

#[tokio::test]
async fn only_days_to_come_are_taken() {
    let bench = Bench::with(frozen).await;
    let client = &bench.client;
    for (at, code) in [
        ("2026-09-13T12:00:00Z", "UK.OBIE.Field.InvalidDate"),
        ("2026-09-14T23:59:59Z", "UK.OBIE.Field.InvalidDate"),
        ("2026-09-15T00:30:00+01:00", "UK.OBIE.Field.InvalidDate"),
        ("2027-09-16T12:00:00Z", "UK.OBIE.Field.InvalidDate"),
        ("2026-09-15", "UK.OBIE.Field.InvalidDate"),
    ] {
        let reply = client
            .post(CONSENTS, "k", &consent_body(&order("R1", "10.00", at)))
            .await;
        assert_eq!(reply.refusal(), code, "{at}");
        assert_eq!(
            reply.text("/Errors/0/Path"),
            "Data.Initiation.RequestedExecutionDateTime"
        );
    }
    allowed(client, "k1", &order("R1", "10.00", "2026-09-15T00:00:00Z")).await;
    allowed(client, "k2", &order("R1", "10.00", "2027-09-15T12:00:00Z")).await;
    bench.lab.stop().await;
}

#[tokio::test]
async fn an_order_can_be_cancelled_or_rejected_before_its_day_and_is_not_paid() {
    let bench = Bench::with(frozen).await;
    let client = &bench.client;
    for (key, word) in [("1", "Cancelled"), ("2", "InitiationFailed")] {
        let at = "2026-09-16T12:00:00Z";
        let body = allowed(
            client,
            &format!("c{key}"),
            &order(&format!("R{key}"), "10.00", at),
        )
        .await;
        let placed = client.post(PAYMENTS, &format!("p{key}"), &body).await;
        let id = placed.text("/Data/DomesticScheduledPaymentId");
        let settle = format!("/lab/settle/{id}");
        let moved = client.knob(&settle, json!({ "status": word })).await;
        assert_eq!(moved.text("/status"), word);
        let seen = client.get(&format!("{PAYMENTS}/{id}")).await;
        assert_eq!(seen.text("/Data/Status"), word);
        let again = client
            .knob(&settle, json!({ "status": "InitiationCompleted" }))
            .await;
        assert_eq!(again.status, StatusCode::CONFLICT, "it stays so");
    }
    pass(client, 5 * DAY_S).await;
    assert_eq!(scheduled(client).await.len(), 2);
    assert_eq!(client.book().await.balance(OURS), Some(2_500_000_000));
    bench.lab.stop().await;
}

#[tokio::test]
async fn the_knobs_meet_scheduled_orders_too() {
    let bench = Bench::with(frozen).await;
    let client = &bench.client;
    client
        .arm("domestic-scheduled-payments", "drop-after-accept", 1, 0.0)
        .await;
    let body = allowed(client, "c1", &order("R1", "10.00", "2026-09-16T12:00:00Z")).await;
    assert!(client.try_post(PAYMENTS, "p1", &body).await.is_err());
    assert_eq!(
        scheduled(client).await.len(),
        1,
        "it was taken, only the answer was lost"
    );

    client
        .arm("domestic-scheduled-payments", "reject-later", 1, 3_600.0)
        .await;
    let body = allowed(client, "c2", &order("R2", "10.00", "2026-09-16T12:00:00Z")).await;
    let placed = client.post(PAYMENTS, "p2", &body).await;
    assert_eq!(placed.text("/Data/Status"), "InitiationCompleted");
    pass(client, 3_600).await;
    let read = format!("{PAYMENTS}/{}", placed.text("/Data/DomesticScheduledPaymentId"));
    assert_eq!(client.get(&read).await.text("/Data/Status"), "InitiationFailed");
    pass(client, 5 * DAY_S).await;
    assert_eq!(
        client.book().await.balance(OURS),
        Some(2_500_000_000 - 1_000),
        "only the first"
    );
    bench.lab.stop().await;
}

#[tokio::test]
async fn a_persons_page_says_when_it_would_be_paid_and_takes_one_answer() {
    let bench = Bench::with(|options| {
        frozen(options);
        options.manual = true;
    })
    .await;
    let client = &bench.client;
    let order = order("R1", "10.00", "2026-09-16T12:00:00Z");
    let consent = client.post(CONSENTS, "c", &consent_body(&order)).await;
    assert_eq!(consent.text("/Data/Status"), "AwaitingAuthorisation");
    let page = consent.text("/Links/Authorise");
    let shown = ok(ok(client.http.get(&page).send().await).text().await);
    for needle in [
        "10.00 GBP",
        "Marlow Supplies Ltd",
        "2026-09-16T12:00:00Z",
        "Authorise</button>",
        "Refuse</button>",
    ] {
        assert!(shown.contains(needle), "{needle} in {shown}");
    }
    let refused = client
        .http
        .post(page.replace("/authorise", "/reject"))
        .header("accept", "text/html");
    let shown = ok(ok(refused.send().await).text().await);
    assert!(
        shown.contains("Status: Rejected") && !shown.contains("<button>"),
        "{shown}"
    );
    let body = json!({ "Data": { "ConsentId": consent.text("/Data/ConsentId"), "Initiation": order },
        "Risk": { "PaymentContextCode": "BillPayment" } });
    let refusal = client.post(PAYMENTS, "p", &body).await.refusal();
    assert_eq!(refusal, "UK.OBIE.Resource.InvalidConsentStatus");
    assert_eq!(scheduled(client).await, Vec::<Value>::new());
    bench.lab.stop().await;
}
