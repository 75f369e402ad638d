//! 4.0 beside 3.1: other words for the same book, and consents that stay in the version they were asked in.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::{Bench, CONSENTS, Client, MARLOW, PAYMENTS, initiation, payment_body};

const CONSENTS_4: &str = "/open-banking/v4.0/pisp/domestic-payment-consents";
const PAYMENTS_4: &str = "/open-banking/v4.0/pisp/domestic-payments";

fn order(reference: &str, amount: &str) -> Value {
    let mut order = initiation(reference, amount);
    order["RemittanceInformation"] = json!({
        "Structured": [{ "CreditorReferenceInformation": { "Reference": reference } }],
    });
    order
}

async fn allowed(client: &Client, key: &str, order: &Value) -> Value {
    let risk = json!({ "PaymentContextCode": "BillingGoodsAndServicesInArrears" });
    let body = json!({ "Data": { "Initiation": order }, "Risk": risk });
    let consent = client.post(CONSENTS_4, key, &body).await;
    assert_eq!(consent.status, StatusCode::CREATED, "{consent:?}");
    assert_eq!(consent.text("/Data/Status"), "AUTH");
    json!({ "Data": { "ConsentId": consent.text("/Data/ConsentId"), "Initiation": order }, "Risk": risk })
}

#[tokio::test]
async fn a_payment_in_4_0_is_received_first_and_then_shown_as_it_stands() {
    let bench = Bench::new().await;
    let client = &bench.client;
    let body = allowed(client, "c", &order("R1", "10.00")).await;
    let paid = client.post(PAYMENTS_4, "p", &body).await;
    assert_eq!(
        (paid.status, paid.text("/Data/Status").as_str()),
        (StatusCode::CREATED, "RCVD")
    );
    let id = paid.text("/Data/DomesticPaymentId");
    assert_eq!(
        paid.text("/Links/Self"),
        format!("{}{PAYMENTS_4}/{id}", client.url)
    );
    assert_eq!(
        client
            .get(&format!("{PAYMENTS_4}/{id}"))
            .await
            .text("/Data/Status"),
        "ACSC"
    );
    assert_eq!(
        client.post(PAYMENTS_4, "p", &body).await.text("/Data/Status"),
        "ACSC"
    );
    let consent = body["Data"]["ConsentId"].as_str().unwrap_or_default();
    assert_eq!(
        client
            .get(&format!("{CONSENTS_4}/{consent}"))
            .await
            .text("/Data/Status"),
        "COND"
    );
    let book = client.book().await;
    book.holds_one("R1", MARLOW, "10.00");
    let line = &book.payments()[0];
    assert_eq!(
        (&line["status"], &line["code"]),
        (&json!("AcceptedSettlementCompleted"), &json!("ACSC"))
    );
    bench.lab.stop().await;
}

#[tokio::test]
async fn errors_have_the_codes_of_their_version() {
    let bench = Bench::new().await;
    let client = &bench.client;
    let missing = json!({ "Data": {}, "Risk": {} });
    assert_eq!(client.post(CONSENTS_4, "k", &missing).await.refusal(), "U004");
    assert_eq!(
        client.post(CONSENTS, "k", &missing).await.refusal(),
        "UK.OBIE.Field.Missing"
    );
    assert_eq!(client.get(&format!("{PAYMENTS_4}/none")).await.refusal(), "U011");
    let body = allowed(client, "c", &order("R1", "10.00")).await;
    client.arm("domestic-payments", "refuse", 1, 0.0).await;
    assert_eq!(client.post(PAYMENTS_4, "p", &body).await.refusal(), "U014");
    client.post(PAYMENTS_4, "p", &body).await;
    assert_eq!(client.post(PAYMENTS_4, "p2", &body).await.refusal(), "U009");
    bench.lab.stop().await;
}

#[tokio::test]
async fn a_consent_of_one_version_is_unknown_to_the_other() {
    let bench = Bench::new().await;
    let client = &bench.client;
    let four = allowed(client, "c4", &order("R4", "10.00")).await;
    let id = four["Data"]["ConsentId"].as_str().unwrap_or_default().to_owned();
    assert_eq!(
        client.get(&format!("{CONSENTS}/{id}")).await.refusal(),
        "UK.OBIE.Resource.NotFound"
    );
    let crossed = client
        .post(PAYMENTS, "p", &payment_body(&id, &initiation("R4", "10.00")))
        .await;
    assert_eq!(crossed.refusal(), "UK.OBIE.Resource.NotFound");
    let three = client.allowed("c3", &initiation("R3", "10.00")).await;
    let paid = client.post(PAYMENTS, "p", &three).await;
    let id = paid.text("/Data/DomesticPaymentId");
    assert_eq!(client.get(&format!("{PAYMENTS_4}/{id}")).await.refusal(), "U011");
    assert_eq!(client.book().await.payments().len(), 1);
    bench.lab.stop().await;
}

#[tokio::test]
async fn a_payment_on_its_way_can_be_rejected_later_and_the_money_comes_back() {
    let bench = Bench::new().await;
    let client = &bench.client;
    client.arm("domestic-payments", "reject-later", 2, 60.0).await;
    let three = client.allowed("c3", &initiation("R3", "10.00")).await;
    let first = client.post(PAYMENTS, "p3", &three).await;
    assert_eq!(first.text("/Data/Status"), "AcceptedSettlementInProcess");
    let four = allowed(client, "c4", &order("R4", "10.00")).await;
    let second = client.post(PAYMENTS_4, "p4", &four).await;
    assert_eq!(second.text("/Data/Status"), "RCVD");
    let second = format!("{PAYMENTS_4}/{}", second.text("/Data/DomesticPaymentId"));
    assert_eq!(client.get(&second).await.text("/Data/Status"), "ACSP");
    assert_eq!(client.book().await.balance(MARLOW), Some(2_000));

    client.knob("/lab/clock", json!({ "advance_s": 61 })).await;
    let first = format!("{PAYMENTS}/{}", first.text("/Data/DomesticPaymentId"));
    assert_eq!(client.get(&first).await.text("/Data/Status"), "Rejected");
    assert_eq!(client.get(&second).await.text("/Data/Status"), "RJCT");
    assert_eq!(client.book().await.balance(MARLOW), Some(0), "reversed, once");

    let body = json!({ "endpoint": "domestic-payment-consents", "fault": "reject-later" });
    let wrong = client.knob("/lab/faults", body).await;
    assert_eq!(
        (wrong.status, wrong.text("/field")),
        (StatusCode::UNPROCESSABLE_ENTITY, "fault".into())
    );
    bench.lab.stop().await;
}
