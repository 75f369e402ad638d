//! What a bank's gateway refuses before the bank looks at it. Nothing refused here leaves a trace.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use wilco_lab::{DEFAULT_TOKEN, LabError, LabOptions, NOTICE, NOTICE_HEADER};

use crate::support::{Bench, CONSENTS, Folder, PAYMENTS, consent_body, initiation, ok, payment_body};

#[tokio::test]
async fn the_door_asks_for_token_type_and_key() {
    let bench = Bench::new().await;
    let client = &bench.client;
    let url = format!("{}{CONSENTS}", client.url);
    let body = consent_body(&initiation("R1", "10.00")).to_string();
    let request = |headers: &[(&str, &str)]| {
        let mut request = client.http.post(&url).body(body.clone());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        client.send(request)
    };
    let token = ("authorization", "Bearer lab-token");
    let json = ("content-type", "application/json; charset=utf-8");
    let long = "k".repeat(41);
    let longest = "k".repeat(40);
    for (headers, status, code) in [
        (
            vec![json, ("x-idempotency-key", "k")],
            401,
            "UK.OBIE.Header.Invalid",
        ),
        (
            vec![
                ("authorization", "Bearer other"),
                json,
                ("x-idempotency-key", "k"),
            ],
            401,
            "UK.OBIE.Header.Invalid",
        ),
        (
            vec![("authorization", "Bearer "), json, ("x-idempotency-key", "k")],
            401,
            "UK.OBIE.Header.Invalid",
        ),
        (
            vec![
                ("authorization", "Basic lab-token"),
                json,
                ("x-idempotency-key", "k"),
            ],
            401,
            "UK.OBIE.Header.Invalid",
        ),
        (
            vec![token, ("x-idempotency-key", "k")],
            415,
            "UK.OBIE.Header.Invalid",
        ),
        (
            vec![token, ("content-type", "text/plain"), ("x-idempotency-key", "k")],
            415,
            "UK.OBIE.Header.Invalid",
        ),
        (
            vec![token, json, ("accept", "text/html"), ("x-idempotency-key", "k")],
            406,
            "UK.OBIE.Header.Invalid",
        ),
        (vec![token, json], 400, "UK.OBIE.Header.Missing"),
        (
            vec![token, json, ("x-idempotency-key", "")],
            400,
            "UK.OBIE.Header.Invalid",
        ),
        (
            vec![token, json, ("x-idempotency-key", &long)],
            400,
            "UK.OBIE.Header.Invalid",
        ),
        (
            vec![
                token,
                json,
                ("x-idempotency-key", "k"),
                ("x-fapi-interaction-id", "nonsense"),
            ],
            400,
            "UK.OBIE.Header.Invalid",
        ),
    ] {
        let reply = ok(request(&headers).await);
        assert_eq!(
            (reply.status.as_u16(), reply.text("/Errors/0/ErrorCode").as_str()),
            (status, code),
            "{headers:?}"
        );
        for field in ["/Code", "/Id", "/Message", "/Errors/0/Message"] {
            assert!(!reply.text(field).is_empty(), "{field}");
        }
    }
    let reply = ok(request(&[token, json, ("x-idempotency-key", &longest)]).await);
    assert_eq!(reply.status, StatusCode::CREATED, "{reply:?}");
    bench.lab.stop().await;
}

#[tokio::test]
async fn interaction_ids_come_back_and_every_answer_says_that_this_is_no_bank() {
    let bench = Bench::new().await;
    let client = &bench.client;
    let id = "93bac548-d2de-4546-b106-880a5018460d";
    for (path, status) in [
        (format!("{CONSENTS}/none"), 400),
        ("/".into(), 200),
        ("/nowhere".into(), 404),
        ("/lab/book".into(), 200),
    ] {
        let request = client
            .http
            .get(format!("{}{path}", client.url))
            .bearer_auth(DEFAULT_TOKEN);
        let response = ok(request.header("x-fapi-interaction-id", id).send().await);
        assert_eq!(response.status().as_u16(), status, "{path}");
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        assert_eq!(header(NOTICE_HEADER), Some(NOTICE), "{path}");
        if path.starts_with("/open-banking") {
            assert_eq!(header("x-fapi-interaction-id"), Some(id));
        }
    }
    let page = client.get("/").await;
    assert!(
        page.body
            .as_str()
            .is_some_and(|page| page.contains("THIS IS NOT A BANK")),
        "{page:?}"
    );
    // Without one, the bank gives one.
    let response = ok(client
        .http
        .get(format!("{}{CONSENTS}/none", client.url))
        .send()
        .await);
    assert!(response.headers().get("x-fapi-interaction-id").is_some());
    bench.lab.stop().await;
}

#[tokio::test]
async fn unknown_ids_methods_paths_and_sizes() {
    let bench = Bench::new().await;
    let client = &bench.client;
    for path in [
        format!("{CONSENTS}/none"),
        format!("{CONSENTS}/none/funds-confirmation"),
        format!("{PAYMENTS}/none"),
    ] {
        assert_eq!(
            client.get(&path).await.refusal(),
            "UK.OBIE.Resource.NotFound",
            "{path}"
        );
    }
    for (method, path, status) in [
        (Method::GET, CONSENTS, 405),
        (Method::DELETE, PAYMENTS, 405),
        (Method::DELETE, "/lab/book", 405),
        (Method::GET, "/open-banking/v3.1/pisp/file-payments", 404),
        (Method::GET, "/open-banking/v5.0/pisp/domestic-payments", 404),
        (Method::GET, "/lab/nothing", 404),
    ] {
        let request = client
            .http
            .request(method, format!("{}{path}", client.url))
            .bearer_auth(DEFAULT_TOKEN);
        assert_eq!(ok(client.send(request).await).status.as_u16(), status, "{path}");
    }
    let mut huge = consent_body(&initiation("R1", "10.00"));
    huge["Risk"]["MerchantCustomerIdentification"] = json!("x".repeat(70_000));
    assert_eq!(
        client.post(CONSENTS, "k", &huge).await.status,
        StatusCode::PAYLOAD_TOO_LARGE
    );
    bench.lab.stop().await;
}

/// The fields themselves are tested beside their reader; here: both endpoints use it, and the path is named.
#[tokio::test]
async fn bad_bodies_are_named_and_leave_no_trace() {
    let bench = Bench::new().await;
    let client = &bench.client;
    let mut order = initiation("R1", "10.00");
    order["InstructedAmount"]["Amount"] = json!("10.001");
    for (path, body) in [
        (CONSENTS, consent_body(&order)),
        (PAYMENTS, payment_body("x", &order)),
    ] {
        let reply = client.post(path, "k", &body).await;
        assert_eq!(reply.refusal(), "UK.OBIE.Field.Invalid");
        assert_eq!(
            reply.text("/Errors/0/Path"),
            "Data.Initiation.InstructedAmount.Amount"
        );
    }
    let nonsense = client.post_request(CONSENTS, "k", &Value::Null).body("{");
    assert_eq!(
        ok(client.send(nonsense).await).refusal(),
        "UK.OBIE.Resource.InvalidFormat"
    );

    let debtor = |digits: &str| {
        let mut order = initiation("R1", "10.00");
        order["DebtorAccount"] =
            json!({ "SchemeName": "UK.OBIE.SortCodeAccountNumber", "Identification": digits });
        consent_body(&order)
    };
    let stranger = client.post(CONSENTS, "k", &debtor("40128861102938")).await;
    assert_eq!(
        stranger.text("/Errors/0/Path"),
        "Data.Initiation.DebtorAccount.Identification"
    );
    let mut to_itself = initiation("R1", "10.00");
    to_itself["CreditorAccount"]["Identification"] = json!("20000055779911");
    let refused = client.post(CONSENTS, "k", &consent_body(&to_itself)).await;
    assert_eq!(
        refused.text("/Errors/0/Path"),
        "Data.Initiation.CreditorAccount.Identification"
    );
    // A refused key made nothing: it is free for a good body.
    assert_eq!(
        client.post(CONSENTS, "k", &debtor("20000055779911")).await.status,
        StatusCode::CREATED
    );
    client.book().await.is_untouched();
    bench.lab.stop().await;
}

#[tokio::test]
async fn it_listens_on_loopback_only() {
    for listen in ["0.0.0.0:0", "192.0.2.1:0", "[::]:0"] {
        let folder = Folder::new();
        let refused = wilco_lab::start(LabOptions::new(&folder.0, ok(listen.parse()))).await;
        let error = refused.err().unwrap_or_else(|| panic!("{listen} was accepted"));
        assert!(matches!(error, LabError::NotLoopback { .. }), "{error}");
        assert!(error.to_string().contains(listen), "{error}");
        assert!(!folder.0.exists(), "refused before anything was made");
    }
}
