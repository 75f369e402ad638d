//! The one port: what may arrive there, what leaves it, and under which names.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use serde_json::{Value, json};
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use wilco_api::v1::protocol_client::ProtocolClient;
use wilco_api::v1::{CheckHoRequest, LineRequest};
use wilco_tests::{Caller, Daemon, Payment, Setup, WIRES, Wire, cancel_line};

use crate::support::{nothing_was_paid, ok, refused};

/// The fields of a message in `proto/wilco/v1`, read from the files themselves.
fn proto_fields() -> BTreeMap<String, BTreeSet<String>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../proto/wilco/v1");
    let mut messages: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in [
        "types.proto",
        "executor.proto",
        "operator.proto",
        "protocol.proto",
    ] {
        let text = std::fs::read_to_string(format!("{folder}/{file}")).expect("a proto file");
        let (mut message, mut in_enum) = (String::new(), false);
        for line in text.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix("message ") {
                message = name.trim_end_matches(" {").to_owned();
            } else if line.starts_with("enum ") {
                in_enum = true;
            } else if line == "}" {
                in_enum = false;
            } else if !in_enum
                && !line.starts_with("//")
                && let Some((field, _)) = line.split_once(" = ")
                && let Some(name) = field.rsplit(' ').next()
                && field.contains(' ')
            {
                messages
                    .entry(message.clone())
                    .or_default()
                    .insert(name.to_owned());
            }
        }
    }
    messages
}

#[track_caller]
fn has_exactly(fields: &BTreeMap<String, BTreeSet<String>>, message: &str, value: &Value) {
    let object = value.as_object().unwrap_or_else(|| panic!("{message}: {value}"));
    let names: BTreeSet<String> = object.keys().cloned().collect();
    assert_eq!(&names, &fields[message], "{message}");
}

/// JSON speaks the proto's own names: each answer has exactly the fields of its message.
#[tokio::test]
async fn json_has_the_protos_names() {
    let fields = proto_fields();
    assert!(
        fields["Act"].len() > 25 && fields["Problem"].len() == 5,
        "{fields:?}"
    );
    let daemon = Daemon::start().await;
    let scheduler = daemon.caller("scheduler", Wire::Json);
    let payment = Payment::seed();

    let body = json!({ "thread": "t", "ho": payment.ho(), "record": payment.record() }).to_string();
    let prepared = scheduler.raw("/v1/prepare", body).await.json();
    has_exactly(&fields, "PrepareReply", &prepared);
    has_exactly(&fields, "Act", &prepared["act"]);
    has_exactly(&fields, "FrozenValue", &prepared["act"]["values"][0]);
    assert_eq!(prepared["act"]["state"], "prepared");

    let body = json!({
        "token": prepared["token"], "statement_sha256": prepared["statement_sha256"],
        "confirmation": wilco_tests::confirmation(prepared["statement"].as_str().expect("text"), "scheduler-2"),
        "wait_s": 30,
    });
    let committed = scheduler.raw("/v1/commit", body.to_string()).await.json();
    has_exactly(&fields, "CommitReply", &committed);
    assert_eq!(committed["act"]["state"], "done");

    let body = json!({ "thread": "t", "cx": cancel_line(&payment, "scheduler-3"), "wait_s": 1 });
    has_exactly(
        &fields,
        "CancelReply",
        &scheduler.raw("/v1/cancel", body.to_string()).await.json(),
    );
    let act_id = committed["act"]["act_id"].as_str().expect("text");
    let shown = scheduler
        .read(&format!("/v1/acts/{act_id}?with_journal=true"))
        .await
        .json();
    has_exactly(&fields, "GetActReply", &shown);
    has_exactly(&fields, "Happening", &shown["journal"][0]);
    let listed = scheduler
        .read("/v1/acts?states=done,failed&page_size=1&thread=t&ask=PAY")
        .await
        .json();
    has_exactly(&fields, "ListActsReply", &listed);
    assert_eq!(listed["acts"][0], shown["act"]);
    has_exactly(
        &fields,
        "GetThreadReply",
        &scheduler.read("/v1/threads/t").await.json(),
    );

    // What both wires say is the same, field by field.
    let by_grpc = ok(scheduler.over(Wire::Grpc).act(act_id).await);
    assert_eq!(serde_json::to_value(&by_grpc).expect("JSON"), shown);

    // The pages of the list hold every act once.
    for number in 10..15 {
        ok(scheduler.prepare(&Payment::number(number).ho()).await);
    }
    let (mut token, mut seen) = (String::new(), Vec::new());
    loop {
        let page = scheduler
            .read(&format!("/v1/acts?page_size=2&page_token={token}"))
            .await
            .json();
        seen.extend(
            page["acts"]
                .as_array()
                .expect("acts")
                .iter()
                .map(|a| a["act_id"].to_string()),
        );
        token = page["next_page_token"].as_str().expect("text").to_owned();
        if token.is_empty() {
            break;
        }
    }
    assert_eq!((seen.len(), seen.iter().collect::<BTreeSet<_>>().len()), (6, 6));
    let mut newest_first = seen.clone();
    newest_first.sort();
    newest_first.reverse();
    assert_eq!(seen, newest_first);
}

/// Whatever arrives as a body gets an answer that names what is wrong, never a broken connection or a fault of ours.
#[tokio::test]
async fn garbage_is_answered() {
    let daemon = Daemon::start().await;
    let scheduler = daemon.caller("scheduler", Wire::Json);
    let paths = [
        "/v1/prepare",
        "/v1/commit",
        "/v1/cancel",
        "/v1/acts/0190163dc1a07000800000000000abcd/settle",
        "/check-ho",
        "/check-rb",
        "/check-dn",
        "/check-thread",
        "/make-rb",
        "/validate",
        "/digest",
        "/to-json",
        "/from-json",
        "/gate",
    ];
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    let bodies: [Vec<u8>; 14] = [
        b"".to_vec(),
        b"null".to_vec(),
        b"[]".to_vec(),
        b"\"text\"".to_vec(),
        b"{".to_vec(),
        b"{} {}".to_vec(),
        b"{\"ho\": 7, \"token\": 7, \"cx\": 7, \"line\": 7, \"lines\": 7, \"message\": 7, \"evidence\": 7}"
            .to_vec(),
        b"{\"colour\": \"red\"}".to_vec(),
        b"{\"ho\": \"\xff\xfe\"}".to_vec(),
        vec![0; 100],
        deep.clone().into_bytes(),
        format!("{{\"record\": {deep}}}").into_bytes(),
        b"{\"ho\": \"a\", \"ho\": \"b\", \"line\": \"a\", \"line\": \"b\"}".to_vec(),
        format!("{{\"ho\": \"{}\"}}", "\\ud800".repeat(3)).into_bytes(),
    ];
    for path in paths {
        for body in &bodies {
            let answer = scheduler.raw(path, body.clone()).await;
            let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
            assert_eq!(answer.status, 422, "{path} {shown}: {answer:?}");
            let refused = answer.refused();
            assert_eq!(refused.reason, "MALFORMED", "{path} {shown}");
            assert!(!refused.field("field").is_empty(), "{path} {shown}: {answer:?}");
        }
        let huge = format!("{{\"ho\": \"{}\"}}", "x".repeat(400_000));
        // On a connection of its own: the rest of such a body is not read, the connection is closed.
        let answer = daemon.caller("scheduler", Wire::Json).raw(path, huge).await;
        assert_eq!(
            (answer.status, answer.refused().reason.as_str()),
            (429, "BUSY"),
            "{path}"
        );
        assert!(answer.retry_after.is_some());
        let wrong_method = scheduler.read(path).await;
        assert_eq!(wrong_method.status, 405, "{path}");
    }
    for path in [
        "/",
        "/v2/acts",
        "/v1/prepare/",
        "/v1",
        "/%00",
        "/v1/acts/../../keys.toml",
    ] {
        let answer = scheduler.read(path).await;
        assert!(matches!(answer.status, 404 | 405), "{path}: {answer:?}");
    }
    for query in [
        "?states=sideways",
        "?page_size=many",
        "?colour=red",
        "?page_token=%ff",
        "?page_token=x",
    ] {
        let answer = scheduler.read(&format!("/v1/acts{query}")).await;
        assert!(matches!(answer.status, 422 | 400), "{query}: {answer:?}");
    }
    refused(scheduler.act("not-an-id").await, "MALFORMED");
    assert_eq!(scheduler.read("/healthz").await.status, 200, "still well");
    nothing_was_paid(&daemon).await;
}

/// gRPC tools find their way: reflection under both of its names, health for the whole and for each service.
#[tokio::test]
async fn grpc_tools_find_their_way() {
    let daemon = Daemon::start().await;
    let mut health = HealthClient::new(daemon.channel());
    for service in ["", "wilco.v1.Executor", "wilco.v1.Operator", "wilco.v1.Protocol"] {
        let request = HealthCheckRequest {
            service: service.to_owned(),
        };
        let answer = health.check(request).await.expect("health answers").into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{service}");
    }
    let unknown = HealthCheckRequest {
        service: "wilco.v1.Nothing".to_owned(),
    };
    assert_eq!(
        health.check(unknown).await.expect_err("unknown").code(),
        Code::NotFound
    );

    let wanted: BTreeSet<&str> = [
        "wilco.v1.Executor",
        "wilco.v1.Operator",
        "wilco.v1.Protocol",
        "grpc.health.v1.Health",
    ]
    .into();
    macro_rules! services_by_reflection {
        ($version:ident) => {{
            use tonic_reflection::pb::$version::server_reflection_client::ServerReflectionClient;
            use tonic_reflection::pb::$version::server_reflection_request::MessageRequest;
            use tonic_reflection::pb::$version::server_reflection_response::MessageResponse;
            use tonic_reflection::pb::$version::ServerReflectionRequest;
            let ask = |message: MessageRequest| {
                let request = ServerReflectionRequest { host: String::new(), message_request: Some(message) };
                futures::stream::iter([request])
            };
            let mut client = ServerReflectionClient::new(daemon.channel());
            let list = ask(MessageRequest::ListServices(String::new()));
            let mut answers = client.server_reflection_info(list).await.expect("reflection answers").into_inner();
            let answer = answers.message().await.expect("an answer").expect("one answer");
            let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
                panic!("{answer:?}")
            };
            let names: BTreeSet<String> = list.service.into_iter().map(|s| s.name).collect();
            assert!(wanted.iter().all(|w| names.contains(*w)), "{names:?}");
            let symbol = ask(MessageRequest::FileContainingSymbol("wilco.v1.Executor.Commit".into()));
            let mut answers = client.server_reflection_info(symbol).await.expect("reflection answers").into_inner();
            let answer = answers.message().await.expect("an answer").expect("one answer");
            assert!(
                matches!(&answer.message_response, Some(MessageResponse::FileDescriptorResponse(f)) if !f.file_descriptor_proto.is_empty()),
                "{answer:?}"
            );
        }};
    }
    services_by_reflection!(v1);
    services_by_reflection!(v1alpha);
}

/// The protocol's functions are open to everyone, at the root and over gRPC, and say the same.
#[tokio::test]
async fn the_protocol_is_open_to_everyone() {
    let daemon = Daemon::start().await;
    let stranger = daemon.stranger(Wire::Json);
    let payment = Payment::seed();
    let (ho, record) = (payment.ho(), payment.record());
    let mistyped = ho.replace("61102938", "61102983");
    let text = "record: acct mismatch: record 40-12-88/61102938 vs HO 40-12-88/61102983";

    let post = async |caller: &Caller, path: &str, body: Value| {
        let answer = caller.raw(path, body.to_string()).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        assert!(answer.content_type.starts_with("application/json"));
        answer.json()
    };
    let checked = post(
        &stranger,
        "/check-ho",
        json!({ "profile": "pay", "ho": mistyped, "record": record }),
    )
    .await;
    assert_eq!(
        (&checked["ok"], &checked["problems"]),
        (&json!(false), &json!([text]))
    );
    assert_eq!(checked["notes"], json!([]));
    let detail = &checked["details"][0];
    assert_eq!(
        (&detail["code"], &detail["slot"], &detail["want"], &detail["got"]),
        (
            &json!("record_mismatch"),
            &json!("acct"),
            &json!("40-12-88/61102938"),
            &json!("40-12-88/61102983")
        )
    );
    let mut protocol = ProtocolClient::new(daemon.channel());
    let request = CheckHoRequest {
        profile: "pay".into(),
        ho: mistyped.clone(),
        record: record.to_string(),
    };
    let by_grpc = protocol.check_ho(request).await.expect("open").into_inner();
    assert_eq!((by_grpc.ok, by_grpc.problems[0].text.as_str()), (false, text));

    let digest = post(&stranger, "/digest", json!({ "line": ho })).await;
    let request = LineRequest {
        profile: String::new(),
        line: ho.clone(),
    };
    assert_eq!(
        protocol.digest(request).await.expect("open").into_inner().digest,
        digest["digest"]
    );
    assert_eq!(
        digest["digest"], "a7a82de76607",
        "the specification's own example"
    );

    let message = post(&stranger, "/to-json", json!({ "line": ho })).await;
    assert_eq!(message["message"]["slots"]["amt"], "5400.00");
    let line = post(&stranger, "/from-json", message).await;
    assert_eq!(post(&stranger, "/digest", line).await, digest);
    let rb = post(&stranger, "/make-rb", json!({ "ho": ho, "id": "payer-1" })).await["line"].clone();
    let checked = post(&stranger, "/check-rb", json!({ "ho": ho, "rb": rb })).await;
    assert_eq!(checked["ok"], true, "{checked}");
    let dn = payment.dn("payer-2");
    for dn in [&dn, &dn.replace("5400.00", "5100.00")] {
        let gate = post(
            &stranger,
            "/gate",
            json!({ "record": record, "ho": ho, "rb": rb, "dn": dn }),
        )
        .await;
        assert_eq!(
            (&gate["go"], &gate["stage"]),
            (&json!(!dn.contains("5100.00")), &json!("check-dn")),
            "{gate}"
        );
        let checked = post(&stranger, "/check-dn", json!({ "ho": ho, "dn": dn, "rb": rb })).await;
        assert_eq!(checked["ok"], gate["go"]);
    }
    let thread = json!({ "lines": [ho, rb, dn] });
    assert_eq!(post(&stranger, "/check-thread", thread).await["ok"], true);
    let open = json!({ "lines": [ho, rb], "now": "20261003T0000Z" });
    assert_eq!(
        post(&stranger, "/check-thread", open).await["notes"],
        json!(["scheduler-1: open"])
    );
    let validated = post(
        &stranger,
        "/validate",
        json!({ "line": "RW1 ST a-1 from=a to=b" }),
    )
    .await;
    assert_eq!(validated["ok"], false);
    assert!(
        validated["errors"][0]
            .as_str()
            .is_some_and(|e| e.contains("item")),
        "{validated}"
    );
    let legend = stranger.read("/legend?profile=pay").await.json();
    let lean = stranger.read("/legend?profile=pay&lean=true").await.json();
    let length = |value: &Value| value["legend"].as_str().map_or(0, str::len);
    assert!(length(&lean) > 500 && length(&legend) > length(&lean));
    for (path, body) in [
        ("/validate", json!({ "profile": "shipping", "line": ho })),
        ("/digest", json!({ "line": "RW1" })),
    ] {
        let answer = stranger.raw(path, body.to_string()).await;
        assert_eq!(
            (answer.status, answer.refused().reason.as_str()),
            (422, "MALFORMED"),
            "{path}"
        );
    }
}

/// Figures for operators: one flush carries many writes, and what happened is counted.
#[tokio::test]
async fn figures_count_what_happened() {
    let daemon = Daemon::start().await;
    let scheduler = daemon.scheduler();
    let stranger = daemon.stranger(Wire::Json);
    let figure = async |name: &str| {
        let text = stranger.read("/metrics").await.text;
        let sum: f64 = text
            .lines()
            .filter(|line| line.starts_with(name))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum();
        assert!(text.contains(name), "{name} is no figure:\n{text}");
        sum
    };
    let (flushes, writes) = (
        figure("wilco_store_flushes").await,
        figure("wilco_store_writes").await,
    );
    ok(scheduler.pay(&Payment::seed()).await);
    let payments: Vec<_> = (10..42).map(Payment::number).collect();
    let lines: Vec<_> = payments.iter().map(Payment::ho).collect();
    let prepares = lines.iter().map(|ho| scheduler.prepare(ho));
    for prepared in futures::future::join_all(prepares).await {
        ok(prepared);
    }
    let (flushed, written) = (
        figure("wilco_store_flushes").await - flushes,
        figure("wilco_store_writes").await - writes,
    );
    assert!(written >= 35.0, "{written} writes");
    assert!(
        flushed >= 3.0 && flushed <= written,
        "{flushed} flushes for {written} writes"
    );
    for wire in WIRES {
        let _ = daemon.caller("release", wire).prepare(&lines[0]).await;
    }
    assert!(figure("wilco_requests").await >= 35.0);
}

/// A data folder served with profiles of somebody's own: what they name is what is known.
#[tokio::test]
async fn profiles_come_from_a_folder() {
    let folder = wilco_tests::Folder::new();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../profiles");
    for name in ["core.json", "deploy.json"] {
        std::fs::copy(format!("{source}/{name}"), folder.path().join(name)).expect("copied");
    }
    let pay = std::fs::read_to_string(format!("{source}/pay.json")).expect("readable");
    let pay = pay.replace(
        "\"GBP\": \"British pounds\"",
        "\"GBP\": \"British pounds\", \"XTS\": \"for testing\"",
    );
    std::fs::write(folder.path().join("pay.json"), pay).expect("written");
    let setup = Setup::quick()
        .arg("--profiles")
        .arg(folder.path().display().to_string());
    let daemon = Daemon::start_with(setup).await;
    let stranger = daemon.stranger(Wire::Json);
    let line = Payment::seed().ho().replace("cur=GBP", "cur=XTS");
    let validate = async |line: String| {
        stranger
            .raw("/validate", json!({ "line": line }).to_string())
            .await
            .json()
    };
    assert_eq!(validate(line.clone()).await["ok"], true);
    assert_eq!(validate(line.replace("XTS", "XXX")).await["ok"], false);
}
