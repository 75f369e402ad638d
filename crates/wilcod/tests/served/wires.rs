//! What answers, to which wire, and in which words.

use super::*;

/// A client of any make can ask what there is, and whether it works.
#[tokio::test]
async fn reflection_and_health_answer_in_both_their_versions() {
    let house = House::new("", "").await;
    let channel = house.channel().await;
    macro_rules! services {
        ($version:ident) => {{
            use tonic_reflection::pb::$version::server_reflection_client::ServerReflectionClient;
            use tonic_reflection::pb::$version::server_reflection_request::MessageRequest;
            use tonic_reflection::pb::$version::server_reflection_response::MessageResponse;
            use tonic_reflection::pb::$version::{ServerReflectionRequest, ServiceResponse};
            let asked = ServerReflectionRequest {
                host: String::new(),
                message_request: Some(MessageRequest::ListServices(String::new())),
            };
            let mut answers = ServerReflectionClient::new(channel.clone())
                .server_reflection_info(tokio_stream::once(asked))
                .await
                .expect("reflection")
                .into_inner();
            match answers
                .next()
                .await
                .expect("an answer")
                .expect("no error")
                .message_response
            {
                Some(MessageResponse::ListServicesResponse(list)) => list
                    .service
                    .into_iter()
                    .map(|ServiceResponse { name }| name)
                    .collect::<Vec<_>>(),
                other => panic!("{other:?}"),
            }
        }};
    }
    for services in [services!(v1), services!(v1alpha)] {
        for name in [
            "wilco.v1.Executor",
            "wilco.v1.Operator",
            "wilco.v1.Protocol",
            "grpc.health.v1.Health",
        ] {
            assert!(services.iter().any(|s| s == name), "{name} in {services:?}");
        }
    }

    use tonic_health::pb::health_check_response::ServingStatus;
    let mut health = tonic_health::pb::health_client::HealthClient::new(channel);
    for service in ["", "wilco.v1.Executor", "wilco.v1.Protocol"] {
        let asked = tonic_health::pb::HealthCheckRequest {
            service: service.to_owned(),
        };
        let status = health.check(asked).await.expect("health").into_inner().status();
        assert_eq!(status, ServingStatus::Serving, "{service}");
    }
    house.end().await;
}

/// The same mistake has the same name on both wires.
#[tokio::test]
async fn both_wires_refuse_alike() {
    let house = House::new("", "").await;
    let mut executor = ExecutorClient::new(house.channel().await);
    let long = "x".repeat(300_000);
    for (ho, record, code, http, name, field) in [
        ("hello", json!({}), Code::InvalidArgument, 422, "MALFORMED", "ho"),
        (
            &HO.replace("scheduler", "release"),
            json!({}),
            Code::PermissionDenied,
            403,
            "NOT_YOURS",
            "",
        ),
        (
            HO,
            json!({"amt": "1.00"}),
            Code::InvalidArgument,
            422,
            "MALFORMED",
            "ho",
        ),
        (&long, json!({}), Code::ResourceExhausted, 429, "BUSY", ""),
    ] {
        let request = PrepareRequest {
            ho: ho.to_owned(),
            record: record.to_string(),
            ..PrepareRequest::default()
        };
        let status = executor.prepare(house.signed(request)).await.expect_err(name);
        assert_eq!(
            (status.code(), reason(&status)),
            (code, name.to_owned()),
            "{status:?}"
        );
        let (http_status, body) = house
            .post("/v1/prepare", &json!({"ho": ho, "record": record}))
            .await;
        assert_eq!(
            (http_status.as_u16(), &body["reason"]),
            (http, &json!(name)),
            "{body}"
        );
        let details = status.get_error_details();
        let metadata = &details.error_info().expect("an ErrorInfo").metadata;
        assert_eq!(
            metadata.get("field").map(String::as_str),
            body["field"].as_str(),
            "{body}"
        );
        if !field.is_empty() {
            assert_eq!(body["field"], field);
        }
        assert_eq!(
            details.retry_info().is_some(),
            body.get("retry_after_s").is_some(),
            "{body}"
        );
    }

    let request = PrepareRequest {
        ho: HO.to_owned(),
        ..PrepareRequest::default()
    };
    let status = executor.prepare(request).await.expect_err("no key");
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::Unauthenticated, "UNAUTHENTICATED")
    );
    let answer = reqwest::Client::new()
        .post(format!("{}/v1/prepare", house.running.url))
        .body("{}")
        .send()
        .await;
    let answer = answer.expect("an answer");
    assert_eq!(answer.status().as_u16(), 401);
    assert_eq!(answer.headers()["www-authenticate"], "Bearer");
    house.end().await;
}

/// The protocol functions give one answer, whoever carries it.
#[tokio::test]
async fn both_wires_check_alike() {
    let house = House::new("", "").await;
    let mut protocol = ProtocolClient::new(house.channel().await);
    let line = LineRequest {
        profile: "pay".to_owned(),
        line: HO.to_owned(),
    };
    let digest = protocol.digest(line).await.expect("a digest").into_inner().digest;
    let (_, body) = house
        .post("/digest", &json!({"profile": "pay", "line": HO}))
        .await;
    assert_eq!(body["digest"], digest);

    let (_, made) = house
        .post("/make-rb", &json!({"ho": HO, "id": "payer-101"}))
        .await;
    let rb = made["line"]
        .as_str()
        .expect("a line")
        .replace("40-12-88/61102938", "40-12-88/61102983");
    let asked = CheckRbRequest {
        ho: HO.to_owned(),
        rb: rb.clone(),
        ..CheckRbRequest::default()
    };
    let checked = protocol.check_rb(asked).await.expect("a check").into_inner();
    let (_, body) = house.post("/check-rb", &json!({"ho": HO, "rb": rb})).await;
    assert_eq!(body["problems"][0], checked.problems[0].text);
    assert_eq!((checked.ok, checked.problems[0].slot.as_str()), (false, "acct"));

    let asked = LineRequest {
        profile: "nope".to_owned(),
        line: HO.to_owned(),
    };
    let status = protocol.validate(asked).await.expect_err("no such profile");
    let (http, body) = house
        .post("/validate", &json!({"profile": "nope", "line": HO}))
        .await;
    assert_eq!((status.code(), http.as_u16()), (Code::InvalidArgument, 422));
    assert_eq!(
        (reason(&status).as_str(), &body["reason"]),
        ("MALFORMED", &json!("MALFORMED"))
    );
    house.end().await;
}

/// Paths and methods nobody takes are told apart, and so are the wires.
#[tokio::test]
async fn what_does_not_exist_is_said_in_the_callers_own_wire() {
    let house = House::new("", "").await;
    let (status, body) = house.post("/v2/prepare", &json!({})).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(
        body["error"].as_str().is_some_and(|e| e.contains("/v2/prepare")),
        "{body}"
    );
    for path in ["/v1/threads/%ff", "/v1/acts/%ff"] {
        let answer = reqwest::Client::new()
            .get(format!("{}{path}", house.running.url))
            .bearer_auth(house.key("scheduler"))
            .send()
            .await
            .expect("an answer");
        assert_eq!(answer.status().as_u16(), 422, "{path}");
        let body: Value = answer.json().await.expect("JSON");
        assert_eq!(
            (&body["reason"], &body["field"]),
            (&json!("MALFORMED"), &json!("path"))
        );
    }
    let answer = reqwest::get(format!("{}/v1/prepare", house.running.url))
        .await
        .expect("an answer");
    assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED);
    let answer = reqwest::Client::new()
        .post(format!("{}/wilco.v1.Nobody/Home", house.running.url))
        .header("content-type", "application/grpc")
        .send()
        .await
        .expect("an answer");
    assert_eq!(answer.headers()["grpc-status"], "12");
    house.end().await;
}
