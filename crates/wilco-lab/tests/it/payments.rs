//! One consent, one payment.

use reqwest::StatusCode;
use serde_json::json;

use crate::support::{Bench, CONSENTS, MARLOW, OURS, PAYMENTS, Reply, initiation, ok, payment_body};

#[tokio::test]
async fn a_payment_from_consent_to_book() {
    let bench = Bench::with(|options| options.today = Some(time::macros::date!(2026 - 09 - 14))).await;
    let client = &bench.client;
    let order = initiation("MD-2026-057", "5400.00");

    let consent = client.consent("consent-key", &order).await;
    assert_eq!(consent.text("/Data/Status"), "Authorised");
    assert_eq!(consent.body["Data"]["Initiation"], order);
    assert_eq!(
        consent.body["Risk"],
        json!({ "PaymentContextCode": "BillPayment" })
    );
    assert_eq!(consent.body["Data"]["Debtor"]["Identification"], "20000055779911");
    assert!(
        consent.text("/Data/CreationDateTime").starts_with("2026-09-14T"),
        "{consent:?}"
    );
    let id = consent.text("/Data/ConsentId");
    assert_eq!(
        consent.text("/Links/Self"),
        format!("{}{CONSENTS}/{id}", client.url)
    );

    let funds = client.get(&format!("{CONSENTS}/{id}/funds-confirmation")).await;
    assert_eq!(funds.body["Data"]["FundsAvailableResult"]["FundsAvailable"], true);
    client.book().await.is_untouched();

    let paid = client
        .post(PAYMENTS, "payment-key", &payment_body(&id, &order))
        .await;
    assert_eq!(paid.status, StatusCode::CREATED);
    assert_eq!(paid.text("/Data/Status"), "AcceptedSettlementCompleted");
    assert_eq!(paid.text("/Data/ConsentId"), id);
    assert_eq!(paid.body["Data"]["Initiation"], order);
    assert!(paid.text("/Data/CreationDateTime").starts_with("2026-09-14T"));

    let payment_id = paid.text("/Data/DomesticPaymentId");
    assert!((1..=40).contains(&payment_id.len()), "OBIE's limit: {payment_id}");
    let read = client.get(&format!("{PAYMENTS}/{payment_id}")).await;
    assert_eq!(
        read,
        Reply {
            status: StatusCode::OK,
            body: paid.body.clone()
        }
    );
    assert_eq!(
        client.get(&format!("{CONSENTS}/{id}")).await.text("/Data/Status"),
        "Consumed"
    );

    let book = client.book().await;
    book.holds_one("MD-2026-057", MARLOW, "5400.00");
    let line = &book.payments()[0];
    assert_eq!(line["instruction_id"], "act-MD-2026-057");
    assert_eq!(line["idempotency_key"], "payment-key");
    assert_eq!(
        (&line["consent_id"], &line["payment_id"]),
        (&json!(id), &json!(payment_id))
    );
    assert_eq!(
        (&line["debtor_account"], &line["currency"]),
        (&json!(OURS), &json!("GBP"))
    );
    assert!(
        line["booked_at"]
            .as_str()
            .is_some_and(|at| at.starts_with("2026-09-14T"))
    );
    bench.lab.stop().await;
}

#[tokio::test]
async fn the_same_key_and_bytes_find_what_they_made_with_its_status_of_now() {
    let bench = Bench::with(|options| options.settle_after_s = 3_600).await;
    let client = &bench.client;
    let order = initiation("R1", "10.00");
    let consent = client.consent("c", &order).await;
    assert_eq!(
        client.consent("c", &order).await.text("/Data/ConsentId"),
        consent.text("/Data/ConsentId")
    );

    let body = payment_body(&consent.text("/Data/ConsentId"), &order);
    let first = client.post(PAYMENTS, "p", &body).await;
    assert_eq!(first.text("/Data/Status"), "Pending");
    client.knob("/lab/clock", json!({ "advance_s": 3_601 })).await;
    let again = client.post(PAYMENTS, "p", &body).await;
    assert_eq!(again.status, StatusCode::CREATED);
    assert_eq!(
        again.text("/Data/DomesticPaymentId"),
        first.text("/Data/DomesticPaymentId")
    );
    assert_eq!(again.text("/Data/Status"), "AcceptedSettlementCompleted");
    client.book().await.holds_one("R1", MARLOW, "10.00");
    // The consent's repeat also tells the present: it is used.
    assert_eq!(client.consent("c", &order).await.text("/Data/Status"), "Consumed");
    bench.lab.stop().await;
}

#[tokio::test]
async fn the_same_key_with_other_bytes_is_refused_and_makes_nothing() {
    let bench = Bench::new().await;
    let client = &bench.client;
    let order = initiation("R1", "10.00");
    client.consent("c", &order).await;
    let other = crate::support::consent_body(&initiation("R2", "10.00"));
    assert_eq!(
        client.post(CONSENTS, "c", &other).await.refusal(),
        "UK.OBIE.Header.Invalid"
    );

    let body = client.allowed("c1", &order).await;
    client.post(PAYMENTS, "p", &body).await;
    let second = client.allowed("c2", &order).await;
    assert_eq!(
        client.post(PAYMENTS, "p", &second).await.refusal(),
        "UK.OBIE.Header.Invalid"
    );
    client.book().await.holds_one("R1", MARLOW, "10.00");
    // Keys belong to their endpoint: the same word elsewhere is another key.
    client.consent("p", &order).await;
    bench.lab.stop().await;
}

#[tokio::test]
async fn a_consumed_consent_pays_nobody_else() {
    let bench = Bench::new().await;
    let client = &bench.client;
    let body = client.allowed("c", &initiation("R1", "10.00")).await;
    assert_eq!(
        client.post(PAYMENTS, "p1", &body).await.status,
        StatusCode::CREATED
    );
    for key in ["p2", "p3"] {
        let refused = client.post(PAYMENTS, key, &body).await;
        assert_eq!(refused.refusal(), "UK.OBIE.Resource.InvalidConsentStatus");
        // A key that was refused has made nothing, so it stays refused and finds nothing later.
        assert_eq!(
            client.post(PAYMENTS, key, &body).await.refusal(),
            "UK.OBIE.Resource.InvalidConsentStatus"
        );
    }
    client.book().await.holds_one("R1", MARLOW, "10.00");
    bench.lab.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fifty_at_once_pay_once() {
    let bench = Bench::new().await;
    let client = bench.client.clone();
    let body = client.allowed("c", &initiation("RACE", "10.00")).await;
    // Half of them share one key, as retries do; the others have keys of their own, as bugs do.
    let tasks: Vec<_> = (0..50)
        .map(|n| {
            let (client, body) = (client.clone(), body.clone());
            let key = if n % 2 == 0 {
                "shared".to_owned()
            } else {
                format!("own-{n}")
            };
            tokio::spawn(async move { client.post(PAYMENTS, &key, &body).await })
        })
        .collect();
    let mut made = Vec::new();
    for task in tasks {
        let reply = ok(task.await);
        if reply.status == StatusCode::CREATED {
            made.push(reply.text("/Data/DomesticPaymentId"));
        } else {
            assert_eq!(reply.refusal(), "UK.OBIE.Resource.InvalidConsentStatus");
        }
    }
    made.dedup();
    assert_eq!(made.len(), 1, "{made:?}");
    client.book().await.holds_one("RACE", MARLOW, "10.00");
    bench.lab.stop().await;
}

#[tokio::test]
async fn what_was_not_consented_to_is_not_paid() {
    let bench = Bench::new().await;
    let client = &bench.client;
    let good = client.allowed("c", &initiation("R1", "10.00")).await;
    let mut amount = good.clone();
    amount["Data"]["Initiation"]["InstructedAmount"]["Amount"] = json!("10.01");
    let mut spelling = good.clone();
    spelling["Data"]["Initiation"]["InstructedAmount"]["Amount"] = json!("10.0");
    let mut risk = good.clone();
    risk["Risk"] = json!({ "PaymentContextCode": "Other" });
    let mut unknown = good.clone();
    unknown["Data"]["ConsentId"] = json!("lab-consent-nobody");
    for (n, (body, code)) in [
        (amount, "UK.OBIE.Resource.ConsentMismatch"),
        (spelling, "UK.OBIE.Resource.ConsentMismatch"),
        (risk, "UK.OBIE.Resource.ConsentMismatch"),
        (unknown, "UK.OBIE.Resource.NotFound"),
    ]
    .iter()
    .enumerate()
    {
        assert_eq!(
            &client.post(PAYMENTS, &format!("p{n}"), body).await.refusal(),
            code
        );
    }
    client.book().await.is_untouched();
    // None of that used the consent up.
    assert_eq!(
        client.post(PAYMENTS, "p", &good).await.status,
        StatusCode::CREATED
    );
    bench.lab.stop().await;
}

#[tokio::test]
async fn more_than_there_is_is_rejected_without_entries() {
    let bench = Bench::new().await;
    let client = &bench.client;
    let order = initiation("TOO-MUCH", "25000000.01");
    let consent = client.consent("c", &order).await;
    let id = consent.text("/Data/ConsentId");
    let funds = client.get(&format!("{CONSENTS}/{id}/funds-confirmation")).await;
    assert_eq!(
        funds.body["Data"]["FundsAvailableResult"]["FundsAvailable"],
        false
    );

    let body = payment_body(&id, &order);
    let reply = client.post(PAYMENTS, "p", &body).await;
    assert_eq!(
        (reply.status, reply.text("/Data/Status")),
        (StatusCode::CREATED, "Rejected".into())
    );
    let book = client.book().await;
    assert_eq!(book.balance(OURS), Some(2_500_000_000));
    assert_eq!(book.balance(MARLOW), None);
    assert_eq!(book.payments().len(), 1);
    assert_eq!(
        (&book.payments()[0]["status"], &book.payments()[0]["booked_at"]),
        (&json!("Rejected"), &json!(null))
    );
    // Rejected is an answer like any other: the consent is used and a repeat finds it.
    assert_eq!(client.post(PAYMENTS, "p", &body).await, reply);
    assert_eq!(
        client.post(PAYMENTS, "q", &body).await.refusal(),
        "UK.OBIE.Resource.InvalidConsentStatus"
    );
    // The last penny can be spent.
    let all = client.allowed("c2", &initiation("ALL", "25000000.00")).await;
    assert_eq!(
        client.post(PAYMENTS, "p2", &all).await.text("/Data/Status"),
        "AcceptedSettlementCompleted"
    );
    assert_eq!(client.book().await.balance(OURS), Some(0));
    bench.lab.stop().await;
}

#[tokio::test]
async fn after_a_day_a_key_is_forgotten_and_the_consent_still_guards() {
    let bench = Bench::with(|options| options.today = Some(time::macros::date!(2026 - 09 - 14))).await;
    let client = &bench.client;
    let order = initiation("R1", "10.00");
    let consent = client.consent("c", &order).await.text("/Data/ConsentId");
    let body = payment_body(&consent, &order);
    client.post(PAYMENTS, "p", &body).await;
    client.knob("/lab/clock", json!({ "advance_s": 86_400 })).await;

    assert_eq!(
        client.post(PAYMENTS, "p", &body).await.refusal(),
        "UK.OBIE.Resource.InvalidConsentStatus"
    );
    assert_ne!(client.consent("c", &order).await.text("/Data/ConsentId"), consent);
    client.book().await.holds_one("R1", MARLOW, "10.00");
    // The frozen day goes on: a new payment is still of that date and inside its cut-off.
    let next = client.allowed("c2", &initiation("R2", "1.00")).await;
    let paid = client.post(PAYMENTS, "p2", &next).await;
    assert_eq!(paid.text("/Data/CreationDateTime"), "2026-09-14T23:59:59Z");
    bench.lab.stop().await;
}

#[tokio::test]
async fn a_consent_ends_with_its_day_and_a_repeat_does_not() {
    let bench = Bench::new().await;
    let client = &bench.client;
    let used = client.allowed("c1", &initiation("R1", "10.00")).await;
    let paid = client.post(PAYMENTS, "p1", &used).await;
    let order = initiation("R2", "20.00");
    let unused = client.consent("c2", &order).await;

    let cut_off = unused.text("/Data/CutOffDateTime");
    let parse = |text: &str| {
        ok(time::OffsetDateTime::parse(
            text,
            &time::format_description::well_known::Rfc3339,
        ))
    };
    let now = client.get("/lab/clock").await.text("/bank_time");
    let wait_s = (parse(&cut_off) - parse(&now)).whole_seconds();
    client
        .knob("/lab/clock", json!({ "advance_s": wait_s.max(1) }))
        .await;

    let late = payment_body(&unused.text("/Data/ConsentId"), &order);
    assert_eq!(
        client.post(PAYMENTS, "p2", &late).await.refusal(),
        "UK.OBIE.Rules.AfterCutOffDateTime"
    );
    assert_eq!(
        client
            .post(PAYMENTS, "p1", &used)
            .await
            .text("/Data/DomesticPaymentId"),
        paid.text("/Data/DomesticPaymentId")
    );
    client.book().await.holds_one("R1", MARLOW, "10.00");
    bench.lab.stop().await;
}
