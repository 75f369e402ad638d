//! Within which limits it answers.

use super::*;

/// A full daemon says so at once and is still watched; what was under way is answered.
#[tokio::test]
async fn one_request_too_many_is_told_to_come_back() {
    let house = House::new("[server]\nrequests_max = 1\n", "delay_ms = 3000").await;
    let mut executor = ExecutorClient::new(house.channel().await);
    let request = house.signed(PrepareRequest {
        ho: HO.to_owned(),
        ..PrepareRequest::default()
    });
    let mut first = executor.clone();
    let first = tokio::spawn(async move { first.prepare(request).await });
    // Until the first one is inside: from then on there is no room.
    let refused = loop {
        let (status, body) = house.post("/validate", &json!({"line": HO})).await;
        if status == StatusCode::TOO_MANY_REQUESTS {
            break body;
        }
        assert!(
            !first.is_finished(),
            "the slow one ended before the second was turned away"
        );
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    };
    assert_eq!(
        (&refused["reason"], &refused["retry_after_s"]),
        (&json!("BUSY"), &json!(1))
    );
    let request = house.signed(PrepareRequest {
        ho: HO.to_owned(),
        ..PrepareRequest::default()
    });
    let status = executor.prepare(request).await.expect_err("no room");
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::ResourceExhausted, "BUSY")
    );
    for path in ["/healthz", "/readyz", "/metrics"] {
        let answer = reqwest::get(format!("{}{path}", house.running.url))
            .await
            .expect("an answer");
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
    }
    let reply = first.await.expect("no panic").expect("an answer").into_inner();
    assert!(reply.reply.starts_with("RW1 RB payer-101 "), "{}", reply.reply);
    house.end().await;
}

/// Whoever sends half a request without a key is sent away at once, and takes nobody's place.
#[tokio::test]
async fn a_key_is_asked_for_before_the_body_is_waited_for() {
    let house = House::new("[server]\nrequests_max = 1\n", "").await;
    for (path, kind) in [
        ("/v1/prepare", "application/json"),
        ("/wilco.v1.Executor/Prepare", "application/grpc"),
    ] {
        let mut strangers = Vec::new();
        for _ in 0..3 {
            strangers.push(house.half(path, &format!("content-type: {kind}\r\n")).await);
        }
        for mut stranger in strangers {
            let head = stranger.head().await;
            let refused = head.starts_with("http/1.1 401 ") || head.contains("\r\ngrpc-status: 16\r\n");
            assert!(refused, "{head}");
        }
    }
    // Two keys are none: somebody before us may have looked at the other one.
    let (scheduler, viewer) = (house.key("scheduler"), house.key("viewer"));
    let keys = format!("authorization: Bearer {scheduler}\r\nauthorization: Bearer {viewer}\r\n");
    let head = house.half("/v1/prepare", &keys).await.head().await;
    assert!(head.starts_with("http/1.1 401 "), "{head}");

    let (status, body) = house.post("/v1/prepare", &json!({"ho": HO})).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    house.end().await;
}

/// Half a body holds its place for as long as a body may take, and no longer.
#[tokio::test]
async fn a_body_that_does_not_come_is_given_up() {
    let house = House::new("[server]\nrequests_max = 2\nbody_time_s = 1\n", "").await;
    let key = format!("authorization: Bearer {}\r\n", house.key("scheduler"));
    let grpc = "content-type: application/grpc\r\n";
    for (path, headers, needle) in [
        ("/v1/prepare", key.as_str(), "http/1.1 429 "),
        ("/validate", "", "http/1.1 429 "),
        ("/wilco.v1.Protocol/Digest", grpc, "\r\ngrpc-status: 8\r\n"),
    ] {
        let head = house.half(path, headers).await.head().await;
        assert!(head.contains(needle), "{path}: {head}");
        assert!(
            head.contains("retry-after: 1\r\n") || headers == grpc,
            "{path}: {head}"
        );
    }
    house.end().await;
}

/// What is open to everyone has half of the places: half-sent requests to it keep nobody with a key out.
#[tokio::test]
async fn who_needs_no_key_leaves_room_for_those_with_one() {
    let house = House::new("[server]\nrequests_max = 2\nbody_time_s = 600\n", "").await;
    let _stranger = house.half("/validate", "").await;
    // Until it is inside: from then on there is no room for another one.
    loop {
        let (status, body) = house.post("/validate", &json!({"line": HO})).await;
        if status == StatusCode::TOO_MANY_REQUESTS {
            assert_eq!(body["reason"], "BUSY");
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let (status, body) = house.post("/v1/prepare", &json!({"ho": HO})).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    house.end().await;
}
