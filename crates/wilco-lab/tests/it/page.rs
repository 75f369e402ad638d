//! The page, its forms, and who may use them. What these tests are after: what it shows is true and harmless, whatever the
//! records hold; a form of another site does nothing; and a lab has what it was started with, faults included.

use reqwest::{RequestBuilder, StatusCode, header};
use serde_json::json;
use wilco_lab::{FaultSpec, LabError, LabOptions};

use crate::support::{Bench, Folder, initiation, loopback, ok};

/// The page's text, and the token in its forms.
async fn page(bench: &Bench) -> (String, String) {
    let response = ok(bench
        .client
        .http
        .get(format!("{}/lab/", bench.client.url))
        .send()
        .await);
    assert_eq!(response.status(), StatusCode::OK);
    let headers = response.headers();
    let policy = headers[header::CONTENT_SECURITY_POLICY]
        .to_str()
        .expect("text")
        .to_owned();
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    let page = ok(response.text().await);
    let token = page
        .split("name=\"token\" value=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    let token = token.expect("a token").to_owned();
    (page, token)
}

fn form(bench: &Bench, path: &str, fields: &[(&str, &str)]) -> RequestBuilder {
    let encode = |text: &str| -> String {
        text.bytes()
            .map(|b| {
                if b.is_ascii_alphanumeric() {
                    char::from(b).to_string()
                } else {
                    format!("%{b:02X}")
                }
            })
            .collect()
    };
    let body: Vec<_> = fields
        .iter()
        .map(|(name, value)| format!("{name}={}", encode(value)))
        .collect();
    let http = ok(reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .build());
    http.post(format!("{}{path}", bench.client.url))
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .body(body.join("&"))
}

async fn status(request: RequestBuilder) -> (StatusCode, String) {
    let response = ok(request.send().await);
    (response.status(), ok(response.text().await))
}

#[tokio::test]
async fn the_page_shows_everybody_with_their_records_escaped() {
    let bench = Bench::everybody().await;
    let (shown, _) = page(&bench).await;
    for part in [
        "NONE OF THIS IS REAL",
        "vendors.sqlite",
        &bench.lab.mail_addr().expect("mail").to_string(),
        &bench.lab.git_url().expect("git"),
        "61102938",
        "refs/heads/prod",
        "api-v2.4.2.tar.gz",
        "releases/v2.4.0",
        "25000000.00 GBP",
        "<option value=\"bank/domestic-payments:late\">",
        "<option value=\"mail:drop-after-accept\">",
    ] {
        assert!(shown.contains(part), "{part}");
    }
    assert!(!shown.contains("http://www") && !shown.contains("<script") && !shown.contains("src="));
    let path = bench.lab.vendors_path().expect("vendors");
    let mut clerk = ok(<sqlx::SqliteConnection as sqlx::Connection>::connect(&format!(
        "sqlite://{}",
        path.display()
    ))
    .await);
    ok(
        sqlx::raw_sql("UPDATE vendor SET name = '<img onerror=\"x\">&' WHERE sup = 'marlow'")
            .execute(&mut clerk)
            .await,
    );
    let (shown, _) = page(&bench).await;
    assert!(shown.contains("&lt;img onerror=&quot;x&quot;&gt;&amp;") && !shown.contains("<img"));
    bench.lab.stop().await;
}

#[tokio::test]
async fn forms_arm_and_clear_faults_and_refuse_what_is_none() {
    let bench = Bench::everybody().await;
    let (_, token) = page(&bench).await;
    let arm = |fault: &'static str, times: &'static str, seconds: &'static str| {
        let fields = [
            ("token", token.as_str()),
            ("fault", fault),
            ("times", times),
            ("seconds", seconds),
        ];
        form(&bench, "/lab/page/faults", &fields)
    };
    for (fault, times, seconds) in [
        ("mail:slow", "2", "0.5"),
        ("bank/domestic-payments:refuse", "", ""),
        ("vendors:lock", "1", "60"),
    ] {
        assert_eq!(
            status(arm(fault, times, seconds)).await.0,
            StatusCode::SEE_OTHER,
            "{fault}"
        );
    }
    let listed = bench.client.get("/lab/faults").await.body["faults"].clone();
    assert_eq!(
        listed[2],
        json!({ "counterparty": "mail", "fault": "slow", "times": 2, "seconds": 0.5 })
    );
    assert_eq!(listed.as_array().map(Vec::len), Some(3));
    let (shown, _) = page(&bench).await;
    assert!(
        shown.contains("<td>bank/domestic-payments</td><td>refuse</td><td>1</td>"),
        "{shown}"
    );

    for (fault, times, seconds, word) in [
        ("mail:explode", "1", "", "fault: must be one of drop-before"),
        ("mail:slow", "none", "", "times: must be a whole number"),
        ("mail:slow", "1", "soon", "seconds: must be a number"),
        ("mail:slow:1", "1", "1", "seconds: nothing may follow"),
        ("<b>", "1", "", "counterparty: must be one of"),
    ] {
        let (code, text) = status(arm(fault, times, seconds)).await;
        assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{fault}");
        assert!(text.contains(word) && !text.contains("<b>"), "{text}");
    }
    let cleared = status(form(&bench, "/lab/page/faults/clear", &[("token", &token)])).await;
    assert_eq!(cleared.0, StatusCode::SEE_OTHER);
    assert_eq!(bench.client.faults_left().await, 0);
    bench.lab.stop().await;
}

#[tokio::test]
async fn a_person_answers_consents_on_the_page() {
    let bench = Bench::with(|options| options.manual = true).await;
    for (key, reference, answer, want) in [
        ("k1", "INV-1", "authorise", "Authorised"),
        ("k2", "INV-<2>", "reject", "Rejected"),
    ] {
        let consent = bench.client.consent(key, &initiation(reference, "10.00")).await;
        let id = consent.text("/Data/ConsentId");
        let (shown, token) = page(&bench).await;
        assert!(shown.contains(&format!("value=\"{id}\"")) && !shown.contains("<2>"));
        let answered = |answer: &str| {
            form(
                &bench,
                "/lab/page/consents",
                &[("token", &token), ("consent", &id), ("answer", answer)],
            )
        };
        assert_eq!(
            status(answered("perhaps")).await.0,
            StatusCode::UNPROCESSABLE_ENTITY
        );
        assert_eq!(status(answered(answer)).await.0, StatusCode::SEE_OTHER);
        let path = format!("{}/{id}", crate::support::CONSENTS);
        assert_eq!(bench.client.get(&path).await.text("/Data/Status"), want);
        let (shown, _) = page(&bench).await;
        assert!(!shown.contains(&id), "answered, and gone from the page");
    }
    bench.lab.stop().await;
}

#[tokio::test]
async fn another_site_gets_nowhere() {
    let bench = Bench::everybody().await;
    let (_, token) = page(&bench).await;
    let fields = [
        ("token", token.as_str()),
        ("fault", "mail:refuse"),
        ("times", "1"),
    ];
    for request in [
        form(
            &bench,
            "/lab/page/faults",
            &[("fault", "mail:refuse"), ("times", "1")],
        ),
        form(
            &bench,
            "/lab/page/faults",
            &[("token", "0000"), ("fault", "mail:refuse")],
        ),
        form(&bench, "/lab/page/faults", &fields).header(header::ORIGIN, "http://evil.example"),
        form(&bench, "/lab/page/faults", &fields).header("sec-fetch-site", "cross-site"),
        form(&bench, "/lab/page/faults", &fields).header(header::HOST, "evil.example"),
        form(&bench, "/lab/page/faults/clear", &[("token", "")]),
        bench
            .client
            .http
            .get(format!("{}/lab/", bench.client.url))
            .header(header::HOST, "evil.example:80"),
        bench
            .client
            .http
            .post(format!("{}/lab/faults", bench.client.url))
            .header(header::ORIGIN, "null")
            .body("{\"counterparty\":\"mail\",\"fault\":\"refuse\"}"),
    ] {
        assert_eq!(status(request).await.0, StatusCode::FORBIDDEN);
    }
    assert_eq!(bench.client.faults_left().await, 0);
    let own = form(&bench, "/lab/page/faults", &fields).header(header::ORIGIN, &bench.client.url);
    assert_eq!(status(own).await.0, StatusCode::SEE_OTHER);
    assert_eq!(bench.client.faults_left().await, 1);
    bench.lab.stop().await;
}

#[tokio::test]
async fn a_lab_has_what_it_was_started_with_and_says_what_it_has_not() {
    let bench = Bench::new().await;
    assert!(
        bench.lab.mail_addr().is_none()
            && bench.lab.git_url().is_none()
            && bench.lab.vendors_path().is_none()
    );
    for counterparty in ["vendors", "mail", "git", "releases"] {
        let reply = bench.client.get(&format!("/lab/{counterparty}")).await;
        let want = (
            StatusCode::CONFLICT,
            format!("{counterparty}: this lab was started without it"),
        );
        assert_eq!((reply.status, reply.text("/error")), want);
        let places = bench.client.get("/lab/counterparties").await.body;
        assert_eq!(places[counterparty]["problem"], want.1);
    }
    let reply = bench
        .client
        .knob("/lab/faults", json!({ "counterparty": "mail", "fault": "late" }))
        .await;
    assert_eq!(reply.status, StatusCode::CONFLICT);
    for (body, field, word) in [
        (
            json!({ "counterparty": "post", "fault": "late" }),
            "counterparty",
            "vendors",
        ),
        (
            json!({ "counterparty": 7, "fault": "late" }),
            "counterparty",
            "vendors",
        ),
        (
            json!({ "counterparty": "git", "fault": "late" }),
            "fault",
            "drop-before",
        ),
    ] {
        let reply = bench.client.knob("/lab/faults", body).await;
        assert_eq!(
            (reply.status, reply.text("/field").as_str()),
            (StatusCode::UNPROCESSABLE_ENTITY, field)
        );
        assert!(
            reply.body["allowed"]
                .as_array()
                .is_some_and(|words| words.contains(&json!(word)))
        );
    }
    let (shown, _) = page(&bench).await;
    assert!(shown.contains("mail: this lab was started without it"));
    let beside = std::fs::read_dir(&bench.folder.0).map(|entries| entries.count());
    assert_eq!(ok(beside), 4, "the book with its two companions, and the lock");
    bench.lab.stop().await;
}

#[tokio::test]
async fn faults_are_armed_from_the_start_or_the_lab_does_not_start() {
    let faults: Vec<FaultSpec> = [
        "bank/domestic-payments:late:2:9",
        "mail:refuse",
        "git:slow:3:0.5",
        "releases:unhealthy",
    ]
    .map(|text| ok(text.parse()))
    .to_vec();
    let bench = Bench::with(|options| {
        *options = options.clone().with_everybody(loopback());
        options.faults = faults.clone();
    })
    .await;
    assert_eq!(bench.client.faults_left().await, 4);
    bench.lab.stop().await;

    let folder = Folder::new();
    let mut options = LabOptions::new(&folder.0, loopback());
    options.faults = faults;
    let error = wilco_lab::start(options.clone()).await.expect_err("no mail drop");
    assert!(
        matches!(&error, LabError::Fault { fault, .. } if fault.to_string() == "mail:refuse:1"),
        "{error}"
    );
    options.faults.clear();
    options = options.with_everybody("10.0.0.1:0".parse().expect("an address"));
    let error = wilco_lab::start(options).await.expect_err("no loopback");
    assert!(matches!(error, LabError::NotLoopback { .. }), "{error}");
}
