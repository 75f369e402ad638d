//! Each fault does what the README's table says to the wire and to the book, for as many requests as it was armed
//! for, and then the bank is well again.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::support::{Bench, CONSENTS, Client, MARLOW, PAYMENTS, consent_body, initiation, ok, payment_body};

/// Sends a POST over a bare socket and returns every byte that came back before the connection closed.
async fn bytes_back(bench: &Bench, path: &str, key: &str, body: &Value) -> Vec<u8> {
    let mut socket = ok(TcpStream::connect(bench.lab.addr()).await);
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer lab-token\r\nx-idempotency-key: {key}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        bench.lab.addr(),
        body.len(),
    );
    ok(socket.write_all(format!("{head}{body}").as_bytes()).await);
    let mut back = Vec::new();
    // An end and a reset are both a closed connection; only the bytes matter here.
    let _ = socket.read_to_end(&mut back).await;
    back
}

/// Reads the book until it holds `count` payments.
async fn until_paid(client: &Client, count: usize) {
    for _ in 0..1_000 {
        if client.book().await.payments().len() == count {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the book never held {count} payments");
}

#[tokio::test]
async fn drop_before_closes_without_a_byte_and_does_nothing() {
    let bench = Bench::new().await;
    let client = &bench.client;
    let order = initiation("R1", "10.00");
    client
        .arm("domestic-payment-consents", "drop-before", 1, 0.0)
        .await;
    assert_eq!(
        bytes_back(&bench, CONSENTS, "c", &consent_body(&order)).await,
        b""
    );
    let body = client.allowed("c", &order).await;

    client.arm("domestic-payments", "drop-before", 2, 0.0).await;
    assert_eq!(bytes_back(&bench, PAYMENTS, "p", &body).await, b"");
    let error = client.try_post(PAYMENTS, "p", &body).await.err();
    assert!(
        error.is_some_and(|error| error.is_request() && !error.is_timeout()),
        "the client sees a closed connection"
    );
    client.book().await.is_untouched();
    // Armed twice, met twice.
    assert_eq!(
        client.post(PAYMENTS, "p", &body).await.status,
        StatusCode::CREATED
    );
    client.book().await.holds_one("R1", MARLOW, "10.00");
    bench.lab.stop().await;
}

#[tokio::test]
async fn drop_after_accept_closes_without_a_byte_and_has_done_it() {
    let bench = Bench::new().await;
    let client = &bench.client;
    let order = initiation("R1", "10.00");
    client
        .arm("domestic-payment-consents", "drop-after-accept", 1, 0.0)
        .await;
    assert_eq!(
        bytes_back(&bench, CONSENTS, "c", &consent_body(&order)).await,
        b""
    );
    let body = client.allowed("c", &order).await;

    client.arm("domestic-payments", "drop-after-accept", 1, 0.0).await;
    assert_eq!(bytes_back(&bench, PAYMENTS, "p", &body).await, b"");
    client.book().await.holds_one("R1", MARLOW, "10.00");
    let found = client.post(PAYMENTS, "p", &body).await;
    assert_eq!(found.text("/Data/Status"), "AcceptedSettlementCompleted");
    client.book().await.holds_one("R1", MARLOW, "10.00");
    bench.lab.stop().await;
}

#[tokio::test]
async fn an_error_after_accept_has_done_it_too() {
    let bench = Bench::new().await;
    let client = &bench.client;
    let body = client.allowed("c", &initiation("R1", "10.00")).await;
    client.arm("domestic-payments", "5xx-after-accept", 1, 0.0).await;
    let reply = client.post(PAYMENTS, "p", &body).await;
    assert_eq!(reply.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(reply.text("/Errors/0/ErrorCode"), "UK.OBIE.UnexpectedError");
    client.book().await.holds_one("R1", MARLOW, "10.00");
    assert_eq!(
        client.post(PAYMENTS, "p", &body).await.status,
        StatusCode::CREATED
    );
    client.book().await.holds_one("R1", MARLOW, "10.00");
    bench.lab.stop().await;
}

#[tokio::test]
async fn slow_has_done_it_long_before_it_says_so() {
    let bench = Bench::new().await;
    let client = bench.client.clone();
    let quick = client.allowed("c", &initiation("R1", "10.00")).await;
    client.arm("domestic-payments", "slow", 1, 0.05).await;
    assert_eq!(
        client.post(PAYMENTS, "p", &quick).await.status,
        StatusCode::CREATED
    );

    // An hour is longer than any test: the answer is not there when the book already is.
    let body = client.allowed("c2", &initiation("R2", "20.00")).await;
    client.arm("domestic-payments", "slow", 1, 3_600.0).await;
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.try_post(PAYMENTS, "p2", &body).await }
    });
    until_paid(&client, 2).await;
    assert!(!waiting.is_finished());
    // A bank that goes down takes its unsent answers with it.
    bench.lab.stop().await;
    assert!(ok(waiting.await).is_err());
}

#[tokio::test]
async fn late_closes_at_once_and_does_it_afterwards() {
    let bench = Bench::new().await;
    let client = &bench.client;
    let body = client.allowed("c", &initiation("R1", "10.00")).await;
    client.arm("domestic-payments", "late", 1, 0.2).await;
    assert_eq!(bytes_back(&bench, PAYMENTS, "p", &body).await, b"");
    until_paid(client, 1).await;
    client.book().await.holds_one("R1", MARLOW, "10.00");

    let order = initiation("R2", "20.00");
    let consent = client.consent("c2", &order).await.text("/Data/ConsentId");
    client.arm("domestic-payments", "late", 1, 3_600.0).await;
    assert_eq!(
        bytes_back(&bench, PAYMENTS, "p2", &payment_body(&consent, &order)).await,
        b""
    );
    // This is what makes it dangerous: every lookup says no, and it still can happen.
    assert_eq!(
        client
            .get(&format!("{CONSENTS}/{consent}"))
            .await
            .text("/Data/Status"),
        "Authorised"
    );
    client.book().await.holds_one("R1", MARLOW, "10.00");
    // A sender that repeats itself meanwhile is served, and the late twin then finds the payment made.
    assert_eq!(
        client
            .post(PAYMENTS, "p2", &payment_body(&consent, &order))
            .await
            .status,
        StatusCode::CREATED
    );
    assert_eq!(client.book().await.payments().len(), 2);
    bench.lab.stop().await;
}

#[tokio::test]
async fn a_late_request_does_not_pay_a_second_time() {
    let bench = Bench::new().await;
    let client = &bench.client;
    let body = client.allowed("c", &initiation("R1", "10.00")).await;
    // Ten late ones, half with keys of their own, and the repeat that overtakes them.
    client.arm("domestic-payments", "late", 10, 0.1).await;
    for n in 0..10 {
        let key = if n % 2 == 0 {
            "p".to_owned()
        } else {
            format!("own-{n}")
        };
        assert!(client.try_post(PAYMENTS, &key, &body).await.is_err());
    }
    client.try_post(PAYMENTS, "p", &body).await.ok();
    until_paid(client, 1).await;
    // Late requests are carried out in the order of their delays: once this one is done, the others are too.
    let last = client.allowed("c2", &initiation("R2", "20.00")).await;
    client.arm("domestic-payments", "late", 1, 0.3).await;
    assert!(client.try_post(PAYMENTS, "last", &last).await.is_err());
    until_paid(client, 2).await;
    let paid = client
        .book()
        .await
        .payments()
        .iter()
        .filter(|line| line["reference"] == "R1")
        .count();
    assert_eq!(paid, 1);
    bench.lab.stop().await;
}

#[tokio::test]
async fn refuse_says_no_and_does_nothing() {
    let bench = Bench::new().await;
    let client = &bench.client;
    let order = initiation("R1", "10.00");
    client.arm("domestic-payment-consents", "refuse", 1, 0.0).await;
    let refused = client.post(CONSENTS, "c", &consent_body(&order)).await;
    assert_eq!(refused.refusal(), "UK.OBIE.Rules.FailsControlParameters");
    let body = client.allowed("c", &order).await;
    client.arm("domestic-payments", "refuse", 1, 0.0).await;
    assert_eq!(
        client.post(PAYMENTS, "p", &body).await.refusal(),
        "UK.OBIE.Rules.FailsControlParameters"
    );
    client.book().await.is_untouched();
    assert_eq!(
        client.post(PAYMENTS, "p", &body).await.status,
        StatusCode::CREATED
    );
    bench.lab.stop().await;
}

#[tokio::test]
async fn a_consent_with_a_wrong_value_is_recorded_and_answered_wrong() {
    for (fault, at, want) in [
        ("wrong-amount", "/InstructedAmount/Amount", "5100.00"),
        (
            "wrong-account",
            "/CreditorAccount/Identification",
            "40128861102983",
        ),
    ] {
        let bench = Bench::new().await;
        let client = &bench.client;
        let order = initiation("R1", "5400.00");
        client.arm("domestic-payment-consents", fault, 1, 0.0).await;
        let consent = client.consent("c", &order).await;
        let mut wrong = order.clone();
        if let Some(place) = wrong.pointer_mut(at) {
            *place = json!(want);
        }
        assert_eq!(consent.body["Data"]["Initiation"], wrong, "{fault}");
        let id = consent.text("/Data/ConsentId");
        assert_eq!(
            client.get(&format!("{CONSENTS}/{id}")).await.body["Data"]["Initiation"],
            wrong
        );
        assert_eq!(
            client.consent("c", &order).await.body["Data"]["Initiation"],
            wrong,
            "a repeat finds the same"
        );
        // The bank believes what it recorded.
        assert_eq!(
            client
                .post(PAYMENTS, "p", &payment_body(&id, &order))
                .await
                .refusal(),
            "UK.OBIE.Resource.ConsentMismatch"
        );
        client.book().await.is_untouched();
        bench.lab.stop().await;
    }
}

#[tokio::test]
async fn a_payment_with_a_wrong_value_is_booked_and_reported_wrong() {
    for (fault, account, amount) in [
        ("wrong-amount", MARLOW, "5100.00"),
        ("wrong-account", "40-12-88/61102983", "5400.00"),
    ] {
        let bench = Bench::new().await;
        let client = &bench.client;
        let order = initiation("R1", "5400.00");
        let body = client.allowed("c", &order).await;
        client.arm("domestic-payments", fault, 1, 0.0).await;
        let paid = client.post(PAYMENTS, "p", &body).await;
        assert_eq!(paid.status, StatusCode::CREATED, "{fault}");
        assert_ne!(paid.body["Data"]["Initiation"], order);
        assert_eq!(paid.text("/Data/Initiation/InstructedAmount/Amount"), amount);
        assert_eq!(
            paid.text("/Data/Initiation/CreditorAccount/Identification"),
            account.replace(['-', '/'], "")
        );
        client.book().await.holds_one("R1", account, amount);
        assert_eq!(
            client.post(PAYMENTS, "p", &body).await,
            paid,
            "a repeat finds the same"
        );
        bench.lab.stop().await;
    }
}

#[tokio::test]
async fn a_lagging_rail_hides_the_payment_and_the_used_consent_for_a_while() {
    let bench = Bench::new().await;
    let client = &bench.client;
    let order = initiation("R1", "10.00");
    let consent = client.consent("c", &order).await.text("/Data/ConsentId");
    let (consent_path, body) = (format!("{CONSENTS}/{consent}"), payment_body(&consent, &order));
    client
        .arm("domestic-payments", "not-found-then-found", 3, 0.0)
        .await;
    // Before there is anything to hide, reads are true and cost nothing.
    assert_eq!(client.get(&consent_path).await.text("/Data/Status"), "Authorised");
    assert_eq!(
        client.get(&format!("{PAYMENTS}/none")).await.refusal(),
        "UK.OBIE.Resource.NotFound"
    );

    let payment = client
        .post(PAYMENTS, "p", &body)
        .await
        .text("/Data/DomesticPaymentId");
    let payment_path = format!("{PAYMENTS}/{payment}");
    assert_eq!(
        client.get(&payment_path).await.refusal(),
        "UK.OBIE.Resource.NotFound"
    );
    assert_eq!(client.get(&consent_path).await.text("/Data/Status"), "Authorised");
    // What reads do not show, the rules still know.
    assert_eq!(
        client.post(PAYMENTS, "p2", &body).await.refusal(),
        "UK.OBIE.Resource.InvalidConsentStatus"
    );
    assert_eq!(
        client.get(&payment_path).await.refusal(),
        "UK.OBIE.Resource.NotFound"
    );
    assert_eq!(client.get(&payment_path).await.status, StatusCode::OK);
    assert_eq!(client.get(&consent_path).await.text("/Data/Status"), "Consumed");
    client.book().await.holds_one("R1", MARLOW, "10.00");

    client
        .arm("domestic-payment-consents", "not-found-then-found", 1, 0.0)
        .await;
    assert_eq!(
        client.get(&consent_path).await.refusal(),
        "UK.OBIE.Resource.NotFound"
    );
    assert_eq!(client.get(&consent_path).await.status, StatusCode::OK);
    bench.lab.stop().await;
}

#[tokio::test]
async fn a_client_that_hangs_up_changes_nothing() {
    let bench = Bench::new().await;
    let client = &bench.client;
    for n in 0..20 {
        let body = client
            .allowed(&format!("c{n}"), &initiation(&format!("R{n}"), "1.00"))
            .await
            .to_string();
        let mut socket = ok(TcpStream::connect(bench.lab.addr()).await);
        let head = format!(
            "POST {PAYMENTS} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer lab-token\r\nx-idempotency-key: p{n}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len(),
        );
        ok(socket.write_all(format!("{head}{body}").as_bytes()).await);
        ok(socket.shutdown().await);
        drop(socket);
    }
    // Each was received whole before its sender left, so each is carried out, and once.
    until_paid(client, 20).await;
    assert_eq!(client.book().await.balance(MARLOW), Some(2_000));
    bench.lab.stop().await;
}
