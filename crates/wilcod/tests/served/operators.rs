//! What operators do over the port.

use super::*;

/// The same payment twice waits for an operator, who lets it go on without ever holding its token.
#[tokio::test]
async fn a_likely_twin_is_released_over_either_wire() {
    let house = House::new("", "").await;
    let ho = HO.replace("paid=20261002", &format!("paid={}", today()));
    let prepare = async |n: u32| {
        let ho = ho.replace("scheduler-1 ", &format!("scheduler-{n} "));
        let (status, reply) = house.post("/v1/prepare", &json!({ "ho": ho })).await;
        assert_eq!(status, StatusCode::OK, "{reply}");
        reply
    };
    let first = prepare(1).await;
    assert_eq!(first["act"]["state"], "prepared");
    let held = [prepare(2).await, prepare(3).await].map(|r| r["act"].clone());
    for act in &held {
        assert_eq!(act["state"], "held");
        assert_eq!(act["twins"], json!([first["act"]["act_id"]]));
        let waits = act["waits_for"].as_str().expect("text");
        assert!(waits.contains("operator: release"), "{waits}");
    }
    let path = |act: &Value| format!("/v1/acts/{}/release", act["act_id"].as_str().expect("an id"));
    let (status, refused) = house.post(&path(&held[0]), &json!({})).await;
    assert_eq!(
        (status, &refused["reason"]),
        (StatusCode::FORBIDDEN, &json!("NOT_YOURS"))
    );
    let (status, released) = house.post_as("duty", &path(&held[0]), &json!({})).await;
    assert_eq!(status, StatusCode::OK, "{released}");
    let act = &released["act"];
    assert_eq!(
        (&act["state"], &act["released_by"], &act["attempt"]),
        (&json!("prepared"), &json!("duty"), &json!(2))
    );
    assert!(!released.to_string().contains("x_tok"), "{released}");
    let (status, refused) = house
        .post_as("duty", &path(&held[0]), &json!({ "act_id": held[1]["act_id"] }))
        .await;
    assert_eq!(
        (status, &refused["field"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("act_id"))
    );

    let mut request = Request::new(wilco_api::v1::ReleaseRequest {
        act_id: held[1]["act_id"].as_str().expect("an id").to_owned(),
    });
    let value = format!("Bearer {}", house.key("duty")).parse().expect("ASCII");
    request.metadata_mut().insert("authorization", value);
    let mut operator = wilco_api::v1::operator_client::OperatorClient::new(house.channel().await);
    let released = operator.release(request).await.expect("released").into_inner();
    assert_eq!(released.act.map(|a| a.released_by).as_deref(), Some("duty"));
    house.end().await;
}

/// A lost answer is told with who holds it, what was seen, and from when anybody may say more.
#[tokio::test]
async fn an_act_in_doubt_is_told_in_full_and_counted() {
    let house = House::new(
        "",
        "guarantee = \"blind\"\nsettle_window_s = 3600\n[adapters.sim.odds]\n\"lost-after\" = 1000",
    )
    .await;
    let ho = HO.replace("paid=20261002", &format!("paid={}", today()));
    let (_, stated) = house.post("/v1/prepare", &json!({ "ho": ho })).await;
    let rb = stated["statement"].as_str().expect("a statement");
    let yes = format!(
        "RW1 AN scheduler-2 re={} from=scheduler to=payer p=pay val=Y",
        rb.split(' ').nth(2).expect("an id")
    );
    let commit = json!({
        "token": stated["token"], "statement_sha256": stated["statement_sha256"], "confirmation": yes, "wait_s": 1
    });
    let (status, reply) = house.post("/v1/commit", &commit).await;
    assert_eq!(
        (status, &reply["act"]["state"]),
        (StatusCode::OK, &json!("in_doubt")),
        "{reply}"
    );

    let act_id = stated["act"]["act_id"].as_str().expect("an id");
    let shown = house.get_as("duty", &format!("/v1/acts/{act_id}")).await;
    let doubt = &shown["doubt"];
    assert_eq!(doubt["maybe_sent"], true);
    let owner = read(&house.folder.0, "house.id");
    let name = owner.split(' ').next().expect("a house");
    assert!(
        doubt["owner"]
            .as_str()
            .is_some_and(|o| o.starts_with(&format!("{name}."))),
        "{doubt}"
    );
    assert!(
        doubt["owner_fate"]
            .as_str()
            .is_some_and(|f| f.starts_with("this daemon"))
    );
    assert_eq!(doubt["decides_from"], "", "nothing can be asked there");
    let whats: Vec<&str> = shown["timeline"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|m| m["what"].as_str())
        .collect();
    assert_eq!(whats[..2], ["claimed", "call ended"], "{shown}");
    // Refused until the instant that is shown.
    let word = json!({ "outcome": "not_done", "evidence": "seen in its own books by duty" });
    let (status, refused) = house
        .post_as("duty", &format!("/v1/acts/{act_id}/settle"), &word)
        .await;
    assert_eq!(status, StatusCode::CONFLICT);
    let until = doubt["settles_from"].as_str().expect("an instant");
    assert!(
        refused["error"].as_str().is_some_and(|e| e.contains(until)),
        "{refused} and {until}"
    );
    let page = reqwest::get(format!("{}/metrics", house.running.url))
        .await
        .expect("an answer")
        .text()
        .await
        .expect("text");
    for line in [
        "wilco_contradictions_total 0",
        "wilco_takeovers_total 0",
        "wilco_resends_total 0",
        "wilco_acts{state=\"in_doubt\"} 1",
        "wilco_requests_total{verb=\"settle\",reason=\"REFUSED\"} 1",
        "# HELP wilco_executions_running Acts in hand in this process: calls at counterparties, and steps of recovery.",
    ] {
        assert!(page.lines().any(|l| l == line), "{line}: {page}");
    }
    house.end().await;
}

/// Only an operator erases, and never what was closed today.
#[tokio::test]
async fn a_purge_is_an_operators_and_never_of_today() {
    let house = House::new("", "").await;
    let (status, _) = house.post("/v1/purge", &json!({ "older_than_s": 86_400 })).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    for age in [0_u64, 86_399, u64::MAX] {
        let (status, refused) = house
            .post_as("duty", "/v1/purge", &json!({ "older_than_s": age }))
            .await;
        assert_eq!(
            (status, &refused["field"]),
            (StatusCode::UNPROCESSABLE_ENTITY, &json!("older_than_s"))
        );
    }
    let (status, reply) = house
        .post_as("duty", "/v1/purge", &json!({ "older_than_s": 86_400 }))
        .await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(reply, json!({ "acts": 0, "bodies": 0, "more": false }));
    house.end().await;
}
