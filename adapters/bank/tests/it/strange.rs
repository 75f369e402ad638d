//! After: servers that are no bank, or not a sound one. Exactly one connection is made, nothing is followed or sent
//! again, and what cannot be understood is unknown.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use adapter_bank::{BankAdapter, BankConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use wilco_adapter::kit;
use wilco_adapter::{Adapter, Job, Outcome, Permit};
use wilco_core::frozen::Request;
use wilco_core::{Clock, Frozen, Resolved, Timestamp};

use crate::support::{Folder, pay, permit, still};

const BODY: &str = r#"{"Data":{"ConsentId":"c-1"}}"#;

/// A server that answers every connection with the same bytes and hangs up.
struct Strange {
    url: String,
    connections: Arc<AtomicUsize>,
    heard: Arc<Mutex<Vec<u8>>>,
    _folder: Folder,
    bank: BankAdapter,
}

impl Strange {
    async fn answering(answer: impl Into<Vec<u8>>) -> Strange {
        let answer = answer.into();
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .unwrap_or_else(|e| panic!("{e}"));
        let address = listener.local_addr().unwrap_or_else(|e| panic!("{e}"));
        let connections = Arc::new(AtomicUsize::new(0));
        let heard = Arc::new(Mutex::new(Vec::new()));
        let (count, ear) = (connections.clone(), heard.clone());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let mut request = vec![0; 64 * 1024];
                let mut length = 0;
                // Until the body is here, or nothing more comes.
                while let Ok(n @ 1..) = stream.read(&mut request[length..]).await {
                    length += n;
                    if request[..length].ends_with(BODY.as_bytes()) {
                        break;
                    }
                }
                if let Ok(mut ear) = ear.lock() {
                    ear.extend_from_slice(&request[..length]);
                }
                // A client that has gone away meanwhile is part of the game.
                let _ = stream.write_all(&answer).await;
            }
        });
        let folder = Folder::new();
        let token = folder.0.join("token");
        std::fs::write(&token, "s3cret-token").unwrap_or_else(|e| panic!("{e}"));
        let table = format!(
            "url = \"http://{address}/base\"\npayees = \"http://{address}/payees\"\n\
             debtor_account = \"20-00-00/55779911\"\ntoken_file = {token:?}\ntimeout_s = 5"
        );
        let config = BankConfig::from_toml(&table).unwrap_or_else(|e| panic!("{e}"));
        Strange {
            url: format!("http://{address}"),
            connections,
            heard,
            _folder: folder,
            bank: BankAdapter::new(&config, still()).unwrap_or_else(|e| panic!("{e}")),
        }
    }

    fn frozen(&self, job: &Job) -> Frozen {
        let resolved = Resolved {
            values: Vec::new(),
            extra: Vec::new(),
            request: Request {
                method: "POST".to_owned(),
                path: "/domestic-payments".to_owned(),
                body: BODY.to_owned(),
                key: "wkey".to_owned(),
            },
            placed: Some("c-1".to_owned()),
            cut_off: None,
            authorise_at: None,
            notes: Vec::new(),
        };
        kit::frozen_of(job, resolved, &self.bank.describe())
    }

    async fn execute(&self) -> Outcome {
        let job = pay();
        let frozen = self.frozen(&job);
        let permit = permit(&job, &frozen, still());
        self.bank.execute(permit, &frozen).await
    }
}

fn http(status: &str, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    )
}

fn payment(consent: &str, status: &str) -> String {
    format!(
        r#"{{"Data":{{"DomesticPaymentId":"p-1","ConsentId":"{consent}","CreationDateTime":"2026-10-02T10:00:00Z",
        "Status":"{status}","Initiation":{{"EndToEndIdentification":"R","InstructedAmount":{{"Amount":"5400.001","Currency":"GBP"}}}}}}}}"#
    )
}

#[tokio::test]
async fn what_cannot_be_understood_is_unknown_and_is_asked_once() {
    let long = "x".repeat(300 * 1024);
    let elsewhere = "Location: http://127.0.0.1:1/\r\n";
    let cases = [
        ("hangs up", String::new()),
        ("is no HTTP", "roger\r\n\r\n".to_owned()),
        (
            "stops halfway",
            "HTTP/1.1 201 Created\r\nContent-Length: 500\r\n\r\n{".to_owned(),
        ),
        ("redirects", http("308 Permanent Redirect", elsewhere, "")),
        ("redirects a POST", http("303 See Other", elsewhere, "")),
        (
            "says OK where it should create",
            http("200 OK", "", &payment("c-1", "AcceptedSettlementCompleted")),
        ),
        ("creates nothing readable", http("201 Created", "", "{}")),
        ("answers with a page", http("201 Created", "", "<html>")),
        ("answers without end", http("201 Created", "", &long)),
        (
            "answers about another consent",
            http("201 Created", "", &payment("c-2", "AcceptedSettlementCompleted")),
        ),
        (
            "has another version's word",
            http("201 Created", "", &payment("c-1", "ACSC")),
        ),
        (
            "refuses without its error body",
            http("400 Bad Request", "", "no"),
        ),
        ("forbids by a proxy", http("403 Forbidden", "", "<html>")),
        (
            "forbids because the consent is used",
            http(
                "403 Forbidden",
                "",
                r#"{"Errors":[{"ErrorCode":"UK.OBIE.Resource.InvalidConsentStatus"}]}"#,
            ),
        ),
        (
            "forbids because it knows the key",
            http(
                "403 Forbidden",
                "",
                r#"{"Errors":[{"ErrorCode":"U006","Path":"x-idempotency-key"}]}"#,
            ),
        ),
        (
            "is busy",
            http(
                "429 Too Many Requests",
                "Retry-After: 1\r\n",
                r#"{"Errors":[{"ErrorCode":"UK.OBIE.Field.Invalid"}]}"#,
            ),
        ),
        ("is late", http("408 Request Timeout", "", "")),
        (
            "conflicts",
            http(
                "409 Conflict",
                "",
                r#"{"Errors":[{"ErrorCode":"UK.OBIE.Field.Invalid"}]}"#,
            ),
        ),
        ("is too early", http("425 Too Early", "", "")),
        ("is broken", http("500 Internal Server Error", "", "")),
        ("is away", http("503 Service Unavailable", "", "")),
    ];
    for (what, answer) in cases {
        let server = Strange::answering(answer).await;
        let outcome = server.execute().await;
        assert!(
            matches!(outcome, Outcome::Unknown(_)),
            "a server that {what}: {outcome:?}"
        );
        assert_eq!(
            server.connections.load(Ordering::SeqCst),
            1,
            "a server that {what}: asked once"
        );
    }
}

#[tokio::test]
async fn a_value_the_bank_shows_in_no_usable_form_is_left_out_of_the_report() {
    let server = Strange::answering(http("201 Created", "", &payment("c-1", "AcceptedWithoutPosting"))).await;
    let outcome = server.execute().await;
    let Outcome::Executed(report) = outcome else {
        panic!("it was carried out, and that is certain: {outcome:?}")
    };
    let slots: Vec<&str> = report.values.iter().map(|(slot, _)| slot.as_str()).collect();
    assert_eq!(
        slots,
        ["cur", "ref", "paid"],
        "5400.001 and a missing account are for check_dn to find"
    );
}

/// Ordered today, made on Monday: the report says Monday, and whether that was stated is for check_dn.
#[tokio::test]
async fn the_day_reported_is_the_one_the_bank_expects() {
    let answer = payment("c-1", "AcceptedSettlementCompleted").replace(
        "\"Status\"",
        "\"ExpectedExecutionDateTime\":\"2026-10-05T09:00:00Z\",\"Status\"",
    );
    let server = Strange::answering(http("201 Created", "", &answer)).await;
    let outcome = server.execute().await;
    let Outcome::Executed(report) = outcome else {
        panic!("{outcome:?}")
    };
    assert!(
        report
            .values
            .contains(&("paid".to_owned(), "20261005".to_owned())),
        "{report:?}"
    );
}

#[tokio::test]
async fn the_request_is_the_frozen_one_and_what_is_made_per_sending() {
    let server = Strange::answering(http("500 Internal Server Error", "", "")).await;
    server.execute().await;
    server.execute().await;
    let heard = server
        .heard
        .lock()
        .map(|h| String::from_utf8_lossy(&h).into_owned())
        .unwrap_or_default();
    let requests: Vec<&str> = heard.split_inclusive(BODY).collect();
    let [one, two] = requests.as_slice() else {
        panic!("two requests: {heard}")
    };
    let header = |request: &str, name: &str| {
        let line = request
            .lines()
            .find(|l| l.to_ascii_lowercase().starts_with(&format!("{name}: ")));
        line.map(|l| l[name.len() + 2..].to_owned()).unwrap_or_default()
    };
    for request in [one, two] {
        assert!(
            request.starts_with("POST /base/open-banking/v3.1/pisp/domestic-payments HTTP/1.1\r\n"),
            "{request}"
        );
        assert_eq!(header(request, "host"), server.url.trim_start_matches("http://"));
        assert_eq!(header(request, "authorization"), "Bearer s3cret-token");
        assert_eq!(header(request, "x-idempotency-key"), "wkey");
        assert_eq!(header(request, "content-type"), "application/json");
        assert_eq!(header(request, "content-length"), BODY.len().to_string());
        assert_eq!(header(request, "x-fapi-interaction-id").len(), 36);
    }
    assert_ne!(
        header(one, "x-fapi-interaction-id"),
        header(two, "x-fapi-interaction-id")
    );
}

/// A clock that answers only once the server has a connection, and then says that it is too late.
struct AskedWithConnection {
    connections: Arc<AtomicUsize>,
    not_after: Timestamp,
}

impl Clock for AskedWithConnection {
    fn now(&self) -> Timestamp {
        for _ in 0..500 {
            if self.connections.load(Ordering::SeqCst) > 0 {
                return self.not_after;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("the permit was asked before there was a connection")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_permit_is_asked_last_and_then_no_byte_leaves() {
    let server = Strange::answering(http("500 Internal Server Error", "", "")).await;
    let job = pay();
    let frozen = server.frozen(&job);
    let clock = Arc::new(AskedWithConnection {
        connections: server.connections.clone(),
        not_after: frozen.not_after,
    });
    let permit: Permit = permit(&job, &frozen, clock);
    let outcome = server.bank.execute(permit, &frozen).await;
    assert!(matches!(outcome, Outcome::NotSent(_)), "{outcome:?}");
    let heard = server.heard.lock().map(|h| h.clone()).unwrap_or_default();
    assert_eq!(heard, b"", "not one byte");
}
