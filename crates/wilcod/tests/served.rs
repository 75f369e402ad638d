//! The served port itself: what answers on it, to which wire, and within which limits. The stories of payments are
//! told elsewhere; here a daemon is started in this process, on a folder of its own.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_stream::StreamExt;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tonic_types::StatusExt;
use wilco_api::v1::executor_client::ExecutorClient;
use wilco_api::v1::protocol_client::ProtocolClient;
use wilco_api::v1::{CheckRbRequest, LineRequest, PrepareRequest};
use wilcod::{Running, ServeOptions};

const HO: &str = "RW1 HO scheduler-1 from=scheduler to=payer item=inv:7 ask=PAY p=pay rb=exec sup=marlow amt=5400.00 \
                  cur=GBP kind=GROSS acct=40-12-88/61102938 paid=20261002 ref=MD-7 apref=FD-1";

/// A daemon with the adapter that carries out nothing, and these settings before its section.
struct House {
    running: Running,
    folder: Folder,
}

/// Removed when the test is over, however it ends.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl House {
    async fn new(settings: &str, sim: &str) -> House {
        let name = uuid();
        let folder = Folder(std::env::temp_dir().join(format!("wilcod-served-{name}")));
        std::fs::create_dir(&folder.0).expect("a folder");
        let text = format!("agents = [\"payer\"]\n{settings}\n[adapters.sim]\n{sim}\n");
        std::fs::write(folder.0.join("wilcod.toml"), text).expect("written");
        let running = wilcod::start(ServeOptions::new(&folder.0)).await.expect("starts");
        House { running, folder }
    }

    fn key(&self, principal: &str) -> String {
        let text = std::fs::read_to_string(self.folder.0.join("keys.toml")).expect("reads");
        wilcod::keys::parse_keys(&text)
            .expect("parses")
            .remove(principal)
            .expect("a key")
    }

    async fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(self.running.url.clone()).expect("a URL");
        endpoint.connect().await.expect("connects")
    }

    fn signed<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        let value = format!("Bearer {}", self.key("scheduler"))
            .parse()
            .expect("ASCII");
        request.metadata_mut().insert("authorization", value);
        request
    }

    async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        self.post_as("scheduler", path, body).await
    }

    async fn get_as(&self, principal: &str, path: &str) -> Value {
        let answer = reqwest::Client::new()
            .get(format!("{}{path}", self.running.url))
            .bearer_auth(self.key(principal))
            .send()
            .await
            .expect("an answer");
        assert_eq!(answer.status(), StatusCode::OK);
        answer.json().await.expect("JSON")
    }

    async fn post_as(&self, principal: &str, path: &str, body: &Value) -> (StatusCode, Value) {
        let answer = reqwest::Client::new()
            .post(format!("{}{path}", self.running.url))
            .bearer_auth(self.key(principal))
            .json(body)
            .send()
            .await
            .expect("an answer");
        (answer.status(), answer.json().await.expect("JSON"))
    }

    /// A request whose body is announced and never sent.
    async fn half(&self, path: &str, headers: &str) -> Half {
        let address = self.running.url.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).await.expect("connects");
        let text = format!("POST {path} HTTP/1.1\r\nhost: {address}\r\n{headers}content-length: 9\r\n\r\n");
        stream.write_all(text.as_bytes()).await.expect("sent");
        Half(stream)
    }

    async fn end(self) {
        self.running.stop().await;
    }
}

/// The connection of a request that stays half.
struct Half(TcpStream);

impl Half {
    /// The head of the answer, in small letters.
    async fn head(&mut self) -> String {
        let mut text = Vec::new();
        while !text.windows(4).any(|four| four == b"\r\n\r\n") {
            let byte = self.0.read_u8().await.expect("an answer");
            text.push(byte);
        }
        String::from_utf8(text).expect("ASCII").to_ascii_lowercase()
    }
}

fn uuid() -> String {
    let bytes = wilcod::random::bytes::<8>().expect("randomness");
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn reason(status: &Status) -> String {
    status
        .get_error_details()
        .error_info()
        .map(|info| info.reason.clone())
        .unwrap_or_default()
}

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

/// One folder, one daemon; and what a run leaves behind fits the next.
#[tokio::test]
async fn a_folder_has_one_daemon_and_says_where() {
    let house = House::new("", "").await;
    let run: Value = serde_json::from_str(&read(&house.folder.0, "run.json")).expect("JSON");
    assert_eq!(
        (&run["url"], &run["pid"]),
        (&json!(house.running.url), &json!(std::process::id()))
    );
    let second = wilcod::start(ServeOptions::new(&house.folder.0))
        .await
        .map(|_| ())
        .expect_err("in use");
    assert!(second.to_string().contains("in use"), "{second}");
    assert!(
        house.folder.0.join("run.json").exists(),
        "the second one left the first one's file alone"
    );

    let (key, House { running, folder }) = (house.key("viewer"), house);
    running.stop().await;
    assert!(!folder.0.join("run.json").exists());
    let running = wilcod::start(ServeOptions::new(&folder.0))
        .await
        .expect("starts again");
    let house = House { running, folder };
    assert_eq!(house.key("viewer"), key);
    house.end().await;
}

/// A call that outlives the grace may still send, until the process ends. So long nobody may say that it is over.
#[tokio::test]
async fn a_folder_stays_locked_while_a_call_of_its_daemon_may_still_send() {
    let house = House::new("", "delay_ms = 0").await;
    let ho = HO.replace("paid=20261002", &format!("paid={}", today()));
    let (_, stated) = house.post("/v1/prepare", &json!({ "ho": ho })).await;
    let rb = stated["statement"].as_str().expect("a statement");
    let yes = format!(
        "RW1 AN scheduler-2 re={} from=scheduler to=payer p=pay val=Y",
        rb.split(' ').nth(2).expect("an id")
    );
    let House { running, folder } = house;
    running.stop().await;

    // Nothing was left: it starts again, and from here on a call takes a minute.
    let slow = read(&folder.0, "wilcod.toml").replace("delay_ms = 0", "delay_ms = 60000");
    std::fs::write(folder.0.join("wilcod.toml"), slow).expect("written");
    let mut options = ServeOptions::new(&folder.0);
    options.grace = Some(std::time::Duration::ZERO);
    let running = wilcod::start(options).await.expect("starts again");
    let house = House { running, folder };
    let commit = json!({
        "token": stated["token"], "statement_sha256": stated["statement_sha256"], "confirmation": yes, "wait_s": 1
    });
    let (_, reply) = house.post("/v1/commit", &commit).await;
    assert_eq!(
        reply["act"]["state"], "executing",
        "the call is under way: {reply}"
    );

    let House { running, folder } = house;
    running.stop().await;
    let second = wilcod::start(ServeOptions::new(&folder.0)).await.map(|_| ());
    let said = second.expect_err("the call may still send").to_string();
    assert!(said.contains("in use"), "{said}");
}

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

/// In a folder that others may look into, what the daemon makes is its owner's alone.
#[tokio::test]
async fn what_is_made_is_the_owners_alone() {
    let folder = Folder(std::env::temp_dir().join(format!("wilcod-served-{}", uuid())));
    std::fs::create_dir(&folder.0).expect("a folder");
    std::fs::set_permissions(&folder.0, std::fs::Permissions::from_mode(0o755)).expect("chmod");
    // As at a first start, with the lab.
    let running = wilcod::start(ServeOptions::new(&folder.0)).await.expect("starts");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&folder.0).expect("reads") {
        let entry = entry.expect("reads");
        let mode = entry.metadata().expect("there").permissions().mode();
        let name = entry.file_name().into_string().expect("UTF-8");
        assert_eq!(mode & 0o077, 0, "{name}: {mode:o}");
        names.push(name);
    }
    for name in [
        "wilco.sqlite",
        "wilco.sqlite-wal",
        "wilco.sqlite-shm",
        "lab",
        "run.json",
        "wilcod.toml",
    ] {
        assert!(names.iter().any(|n| n == name), "{name} in {names:?}");
    }
    running.stop().await;
}

/// Open acts need the key their tokens were made with: without it nothing starts, and nothing takes its place.
#[tokio::test]
async fn a_lost_token_key_is_missed_by_name() {
    let house = House::new("", "").await;
    let (status, body) = house.post("/v1/prepare", &json!({"ho": HO})).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let served: Value = serde_json::from_str(&read(&house.folder.0, "served.json")).expect("JSON");
    assert_eq!(served["adapters"], json!(["sim"]));
    let House { running, folder } = house;
    running.stop().await;
    let path = folder.0.join("token.key");
    let kept = read(&folder.0, "token.key");
    let id = kept
        .lines()
        .find_map(|line| line.split_once(' ').filter(|(id, _)| *id != "#"))
        .expect("a key")
        .0;
    std::fs::remove_file(&path).expect("removed");

    for _ in 0..2 {
        let refused = wilcod::start(ServeOptions::new(&folder.0))
            .await
            .map(|_| ())
            .expect_err("the key is lost")
            .to_string();
        assert!(
            refused.contains(&format!("token key {id}")) && refused.contains("token.key"),
            "{refused}"
        );
        assert!(!refused.contains('\n') && !path.exists(), "{refused}");
    }
    // Put back, it serves the same token.
    std::fs::write(&path, &kept).expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("chmod");
    let running = wilcod::start(ServeOptions::new(&folder.0)).await.expect("starts");
    let house = House { running, folder };
    let (_, again) = house.post("/v1/prepare", &json!({"ho": HO})).await;
    assert_eq!(
        (&again["token"], &again["replayed"]),
        (&body["token"], &json!(true))
    );
    house.end().await;
}

/// Nothing beyond loopback is served, and the folder stays untouched.
#[tokio::test]
async fn another_address_than_loopback_is_refused_by_name() {
    let folder = std::env::temp_dir().join(format!("wilcod-served-{}", uuid()));
    let mut options = ServeOptions::new(&folder);
    options.listen = "0.0.0.0:0".parse().expect("an address");
    let refused = wilcod::start(options)
        .await
        .map(|_| ())
        .expect_err("not loopback");
    assert!(
        refused
            .to_string()
            .contains("0.0.0.0:0 is not a loopback address"),
        "{refused}"
    );
    assert!(!folder.exists());
}

/// The bank's day: the machine's, by UTC.
fn today() -> String {
    let seconds = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| d.as_secs());
    rw1::unix_to_minute(i64::try_from(seconds).unwrap_or(0))[..8].to_owned()
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).expect("reads")
}
