//! The RW1 functions as JSON endpoints at the root: stateless, open to everyone, one JSON object in and one out.
//!
//! A check answers 200 whatever it finds: its findings are the answer. What cannot be answered (a body that is not the
//! request, a profile that is not loaded, a line that has no fingerprint because it is none) is 422 with `error` and
//! the reason `MALFORMED`. A key given twice, at any depth, is refused. Where a time matters and none is given, it is
//! now; `/check-dn` alone judges no expiry then, because only the caller knows when the statement was confirmed.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use rw1::{Gate, MakeRb, Problem, Profiles, RbCheck, Record};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use wilco_core::act::StoredProblem;
use wilco_core::{Reason, Refusal};

use crate::errors;

/// How many lines `/check-thread` takes at once.
const LINES_MAX: usize = 20_000;

/// The routes of the protocol.
pub fn router(profiles: Arc<Profiles>) -> Router {
    Router::new()
        .route("/check-ho", post(check_ho))
        .route("/check-rb", post(check_rb))
        .route("/check-dn", post(check_dn))
        .route("/check-thread", post(check_thread))
        .route("/make-rb", post(make_rb))
        .route("/validate", post(validate))
        .route("/digest", post(digest))
        .route("/to-json", post(to_json))
        .route("/from-json", post(from_json))
        .route("/gate", post(gate))
        .route("/legend", get(legend))
        .with_state(profiles)
}

type Shared = State<Arc<Profiles>>;
type Body = Result<Bytes, BytesRejection>;
type Answer = Result<Json<Value>, Refused>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckHo {
    profile: Option<String>,
    ho: String,
    record: Record,
}

async fn check_ho(State(profiles): Shared, body: Body) -> Answer {
    let asked: CheckHo = read(body)?;
    let profile = known(&profiles, &asked.profile)?;
    Ok(Json(
        rw1::check_ho(&profiles, profile, &asked.ho, &asked.record).to_json(),
    ))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckRb {
    profile: Option<String>,
    ho: String,
    rb: String,
    expect_acc: Option<Vec<String>>,
    now: Option<String>,
}

async fn check_rb(State(profiles): Shared, body: Body) -> Answer {
    let asked: CheckRb = read(body)?;
    let profile = known(&profiles, &asked.profile)?;
    let now = instant("now", asked.now)?.unwrap_or_else(this_minute);
    let with = RbCheck {
        expect_acc: asked.expect_acc.as_deref(),
        now: Some(&now),
    };
    Ok(Json(
        rw1::check_rb(&profiles, profile, &asked.ho, &asked.rb, with).to_json(),
    ))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckDn {
    profile: Option<String>,
    ho: String,
    dn: String,
    rb: Option<String>,
    at: Option<String>,
}

async fn check_dn(State(profiles): Shared, body: Body) -> Answer {
    let asked: CheckDn = read(body)?;
    let profile = known(&profiles, &asked.profile)?;
    let at = instant("at", asked.at)?;
    let rb = given(&asked.rb);
    Ok(Json(
        rw1::check_dn(&profiles, profile, &asked.ho, &asked.dn, rb, at.as_deref()).to_json(),
    ))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckThread {
    profile: Option<String>,
    lines: Vec<String>,
    now: Option<String>,
}

async fn check_thread(State(profiles): Shared, body: Body) -> Answer {
    let asked: CheckThread = read(body)?;
    let profile = known(&profiles, &asked.profile)?;
    if asked.lines.len() > LINES_MAX {
        return Err(malformed(
            "lines",
            format!(
                "{} lines; at most {LINES_MAX} are checked at once",
                asked.lines.len()
            ),
        ));
    }
    let now = instant("now", asked.now)?.unwrap_or_else(this_minute);
    Ok(Json(
        rw1::check_thread(&profiles, profile, &asked.lines, Some(&now)).to_json(),
    ))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Make {
    profile: Option<String>,
    ho: String,
    id: String,
    acc: Option<Vec<String>>,
    #[serde(rename = "do")]
    do_: Option<String>,
    eta: Option<String>,
    hash: Option<bool>,
}

async fn make_rb(State(profiles): Shared, body: Body) -> Answer {
    let asked: Make = read(body)?;
    let profile = known(&profiles, &asked.profile)?;
    let with = MakeRb {
        acc: asked.acc.unwrap_or_default(),
        do_: asked.do_.filter(|text| !text.is_empty()),
        eta: asked.eta.filter(|text| !text.is_empty()),
        hash: asked.hash.unwrap_or(true),
    };
    let line =
        rw1::make_rb(&profiles, profile, &asked.ho, &asked.id, &with).map_err(|p| not_valid("ho", &p))?;
    Ok(Json(json!({ "line": line })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    profile: Option<String>,
    line: String,
}

async fn validate(State(profiles): Shared, body: Body) -> Answer {
    let asked: Line = read(body)?;
    let profile = known(&profiles, &asked.profile)?;
    Ok(Json(rw1::parse(&profiles, profile, &asked.line).to_json()))
}

async fn digest(State(profiles): Shared, body: Body) -> Answer {
    let asked: Line = read(body)?;
    let profile = known(&profiles, &asked.profile)?;
    let digest = rw1::digest(&profiles, profile, &asked.line).map_err(|p| not_valid("line", &p))?;
    Ok(Json(json!({ "digest": digest })))
}

async fn to_json(State(profiles): Shared, body: Body) -> Answer {
    let asked: Line = read(body)?;
    let profile = known(&profiles, &asked.profile)?;
    let message = rw1::parse(&profiles, profile, &asked.line)
        .accepted()
        .map_err(|p| not_valid("line", &p))?;
    Ok(Json(json!({ "message": message.to_json() })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FromJson {
    profile: Option<String>,
    message: Value,
}

async fn from_json(State(profiles): Shared, body: Body) -> Answer {
    let asked: FromJson = read(body)?;
    let profile = known(&profiles, &asked.profile)?;
    let line =
        rw1::from_json_value(&profiles, profile, &asked.message).map_err(|p| not_valid("message", &p))?;
    Ok(Json(json!({ "line": line })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AskGate {
    profile: Option<String>,
    record: Option<Record>,
    ho: String,
    rb: Option<String>,
    dn: Option<String>,
    expect_acc: Option<Vec<String>>,
    now: Option<String>,
    at: Option<String>,
}

async fn gate(State(profiles): Shared, body: Body) -> Answer {
    let asked: AskGate = read(body)?;
    let profile = known(&profiles, &asked.profile)?;
    let now = instant("now", asked.now)?.unwrap_or_else(this_minute);
    let at = instant("at", asked.at)?;
    let lines = Gate {
        record: asked.record.as_ref(),
        ho: &asked.ho,
        rb: given(&asked.rb),
        dn: given(&asked.dn),
        expect_acc: asked.expect_acc.as_deref(),
        now: Some(&now),
        at: at.as_deref(),
    };
    Ok(Json(rw1::gate(&profiles, profile, lines).to_json()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AskLegend {
    profile: Option<String>,
    lean: Option<String>,
}

async fn legend(State(profiles): Shared, query: Result<Query<AskLegend>, QueryRejection>) -> Answer {
    let Query(asked) = query.map_err(|e| malformed("query", e.body_text()))?;
    let profile = known(&profiles, &asked.profile)?;
    let lean = match asked.lean.as_deref() {
        None | Some("" | "0" | "false") => false,
        Some("1" | "true") => true,
        Some(_) => return Err(malformed("lean", "true or false")),
    };
    let legend = rw1::legend(&profiles, profile, lean).map_err(|p| not_valid("profile", &[p]))?;
    Ok(Json(json!({ "legend": legend })))
}

/// Why a request has no answer.
struct Refused(Box<Refusal>);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        errors::response(&self.0)
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Refused {
        Refused(Box::new(refusal))
    }
}

fn malformed(field: &str, rule: impl std::fmt::Display) -> Refused {
    Refusal::malformed(field, format!("{field}: {rule}")).into()
}

/// The texts of all problems, and the problems themselves.
fn not_valid(field: &str, problems: &[Problem]) -> Refused {
    let texts: Vec<&str> = problems.iter().map(|p| p.text.as_str()).collect();
    let stored = problems.iter().map(StoredProblem::from).collect();
    Refusal::malformed(field, format!("{field}: {}", texts.join("; ")))
        .with_problems(stored)
        .into()
}

/// The body as the request it should be.
fn read<T: DeserializeOwned>(body: Body) -> Result<T, Refused> {
    let bytes =
        body.map_err(|e| Refusal::new(Reason::Busy, format!("the body is not taken: {}", e.body_text())))?;
    let text = std::str::from_utf8(&bytes).map_err(|_| malformed("body", "JSON is written in UTF-8"))?;
    let value = rw1::read_json(text).map_err(|p| malformed("body", p))?;
    serde_path_to_error::deserialize(value).map_err(|e| {
        let path = e.path().to_string();
        let field = match path.as_str() {
            "." | "?" | "" => "body".to_owned(),
            named => named.chars().take(64).collect(),
        };
        malformed(&field, e.into_inner())
    })
}

/// The profile to judge by: none when none is given, and then the line's own `p=` decides.
fn known<'a>(profiles: &Profiles, profile: &'a Option<String>) -> Result<Option<&'a str>, Refused> {
    let name = given(profile);
    profiles
        .find(name)
        .map_err(|problem| not_valid("profile", &[problem]))?;
    Ok(name)
}

/// A text that says something.
fn given(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

fn instant(field: &str, value: Option<String>) -> Result<Option<String>, Refused> {
    match value.filter(|text| !text.is_empty()) {
        Some(text) if !rw1::is_minute(&text) => Err(malformed(field, "a time is YYYYMMDDTHHMMZ, in UTC")),
        other => Ok(other),
    }
}

/// The minute it is, as a line writes it.
fn this_minute() -> String {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    rw1::unix_to_minute(i64::try_from(seconds).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    //! Over a real socket, so that the paths, the bodies and the statuses are those a client meets.

    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const HO: &str = "RW1 HO scheduler-1 from=scheduler to=payer item=inv:MD-2026-057 ask=PAY p=pay rb=exec sup=marlow \
                      amt=5400.00 cur=GBP kind=GROSS acct=40-12-88/61102938 paid=20261002 ref=MD-2026-057 apref=FD-0929";
    const RB: &str = "RW1 RB payer-1 re=scheduler-1 from=payer to=scheduler item=inv:MD-2026-057 ask=PAY p=pay \
                      h=a7a82de76607 sup=marlow amt=5400.00 cur=GBP kind=GROSS acct=40-12-88/61102938 paid=20261002 \
                      ref=MD-2026-057 apref=FD-0929";

    struct Server(std::net::SocketAddr);

    impl Server {
        async fn start() -> Server {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
                .await
                .expect("a free port");
            let at = listener.local_addr().expect("an address");
            let app = router(Arc::new(Profiles::builtin()));
            tokio::spawn(async move { axum::serve(listener, app).await });
            Server(at)
        }

        async fn post(&self, path: &str, body: Value) -> (u16, Value) {
            self.send(&format!("POST {path}"), &body.to_string()).await
        }

        async fn send(&self, what: &str, body: &str) -> (u16, Value) {
            let mut stream = tokio::net::TcpStream::connect(self.0)
                .await
                .expect("a connection");
            let request = format!(
                "{what} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(request.as_bytes()).await.expect("sent");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.expect("an answer");
            let status = answer
                .split(' ')
                .nth(1)
                .and_then(|s| s.parse().ok())
                .expect("a status");
            let body = answer.split_once("\r\n\r\n").expect("a body").1;
            (status, serde_json::from_str(body).unwrap_or(Value::Null))
        }
    }

    #[tokio::test]
    async fn a_check_answers_with_what_it_found() {
        let server = Server::start().await;
        let record = json!({"acct": "40-12-88/61102938", "amt": "5400.00"});
        let swapped = HO.replace("61102938", "61102983");
        let (status, found) = server
            .post(
                "/check-ho",
                json!({"profile": "pay", "ho": swapped, "record": record}),
            )
            .await;
        assert_eq!((status, &found["ok"]), (200, &json!(false)));
        let text = "record: acct mismatch: record 40-12-88/61102938 vs HO 40-12-88/61102983";
        assert_eq!(found["problems"], json!([text]));
        assert_eq!(found["details"][0]["code"], "record_mismatch");
        assert_eq!(found["details"][0]["slot"], "acct");
        assert_eq!(found["details"][0]["want"], "40-12-88/61102938");
        assert_eq!(found["details"][0]["got"], "40-12-88/61102983");

        let (_, found) = server.post("/check-rb", json!({"ho": HO, "rb": RB})).await;
        assert_eq!(
            found,
            json!({"ok": true, "problems": [], "notes": [], "details": []})
        );
        let rb = format!("{RB} exp=20261002T0905Z");
        let (_, late) = server
            .post("/check-rb", json!({"ho": HO, "rb": rb, "now": "20261002T0905Z"}))
            .await;
        assert_eq!(late["details"][0]["code"], "expired");

        let dn = RB
            .replace("RB payer-1", "DN payer-2")
            .replace("ask=PAY", "out=OK")
            .replace(" h=a7a82de76607", "");
        let asked = json!({"ho": HO, "dn": dn, "rb": rb, "at": "20261002T0904Z"});
        assert_eq!(server.post("/check-dn", asked).await.1["ok"], true);
        let (_, thread) = server.post("/check-thread", json!({"lines": [HO, RB, dn]})).await;
        assert_eq!(thread["ok"], true, "{thread}");
        let (_, gate) = server
            .post(
                "/gate",
                json!({"ho": HO, "rb": RB, "dn": dn.replace("5400", "5100")}),
            )
            .await;
        assert_eq!((&gate["go"], &gate["stage"]), (&json!(false), &json!("check-dn")));
    }

    #[tokio::test]
    async fn without_a_time_the_check_is_as_of_now() {
        let server = Server::start().await;
        for (exp, ok) in [("20200101T0000Z", false), ("99990101T0000Z", true)] {
            let (_, found) = server
                .post("/check-rb", json!({"ho": HO, "rb": format!("{RB} exp={exp}")}))
                .await;
            assert_eq!(found["ok"], ok, "{exp}");
            let ho = format!("{HO} exp={exp}");
            assert_eq!(
                server.post("/check-thread", json!({"lines": [ho]})).await.1["ok"],
                ok,
                "{exp}"
            );
            let (_, gate) = server
                .post("/gate", json!({"ho": HO, "rb": format!("{RB} exp={exp}")}))
                .await;
            assert_eq!(gate["go"], ok, "{exp}");
        }
    }

    #[tokio::test]
    async fn lines_and_their_other_forms() {
        let server = Server::start().await;
        assert_eq!(
            server.post("/digest", json!({"line": HO})).await,
            (200, json!({"digest": "a7a82de76607"}))
        );
        let (_, made) = server.post("/make-rb", json!({"ho": HO, "id": "payer-1"})).await;
        assert_eq!(made["line"], RB);
        let bare = json!({"ho": HO, "id": "payer-1", "hash": false, "do": "copy", "eta": "20261001", "acc": ["len:1p"]});
        let (_, made) = server.post("/make-rb", bare).await;
        let line = made["line"].as_str().expect("a line");
        assert!(
            line.contains(" eta=20261001 ") && line.contains(" acc=len:1p do=copy ") && !line.contains(" h=")
        );
        let (_, read) = server.post("/to-json", json!({"line": HO})).await;
        assert_eq!(read["message"]["slots"]["rb"], json!(["exec"]));
        let (_, back) = server
            .post("/from-json", json!({"message": read["message"]}))
            .await;
        assert_eq!(
            server.post("/digest", json!({"line": back["line"]})).await.1["digest"],
            "a7a82de76607"
        );
        let (status, valid) = server
            .post(
                "/validate",
                json!({"line": "RW1 ST a-1 from=a to=b item=x:1 zz=1"}),
            )
            .await;
        assert_eq!(
            (status, &valid["ok"], &valid["message"]["from"]),
            (200, &json!(true), &json!("a"))
        );
        assert_eq!(valid["warnings"].as_array().map(Vec::len), Some(1));
        let (_, invalid) = server
            .post("/validate", json!({"line": "RW1 ST a-1 from=a to=b"}))
            .await;
        assert_eq!(
            (&invalid["ok"], &invalid["details"][0]["slot"]),
            (&json!(false), &json!("item"))
        );
        let (_, full) = server.send("GET /legend?profile=pay", "").await;
        let (_, lean) = server.send("GET /legend?profile=pay&lean=true", "").await;
        let length = |v: &Value| v["legend"].as_str().map_or(0, str::len);
        assert!(length(&lean) > 1_000 && length(&full) > length(&lean));
    }

    #[tokio::test]
    async fn what_is_no_request_is_refused_by_name() {
        let server = Server::start().await;
        for (path, body, field) in [
            ("/check-ho", r#"{"ho": "x"}"#, "body"),
            ("/check-ho", r#"{"ho": "x", "record": [1]}"#, "record"),
            (
                "/check-ho",
                r#"{"ho": "x", "record": {"amt": "1.00", "amt": "2.00"}}"#,
                "body",
            ),
            (
                "/check-ho",
                r#"{"ho": "x", "record": {}, "profile": "nope"}"#,
                "profile",
            ),
            (
                "/check-rb",
                r#"{"ho": "x", "rb": "y", "expect_ac": []}"#,
                "expect_ac",
            ),
            ("/check-rb", r#"{"ho": "x", "rb": "y", "now": "tomorrow"}"#, "now"),
            (
                "/check-dn",
                r#"{"ho": "x", "dn": "y", "at": "20261302T0000Z"}"#,
                "at",
            ),
            ("/check-thread", r#"{"lines": "x"}"#, "lines"),
            ("/digest", r#"{"line": "RW2 HO"}"#, "line"),
            ("/make-rb", r#"{"ho": "RW2", "id": "a-1"}"#, "ho"),
            ("/to-json", r#"{"line": "no"}"#, "line"),
            ("/from-json", r#"{"message": []}"#, "message"),
            ("/gate", "{}", "body"),
            ("/gate", "not json", "body"),
        ] {
            let (status, answer) = server.send(&format!("POST {path}"), body).await;
            assert_eq!(
                (status, &answer["reason"]),
                (422, &json!("MALFORMED")),
                "{path} {body}: {answer}"
            );
            assert_eq!(answer["field"], field, "{path} {body}: {answer}");
            assert!(answer["error"].as_str().is_some_and(|error| error.len() > 5));
        }
        for path in ["/legend?profile=nope", "/legend?lean=perhaps", "/legend?leen=1"] {
            assert_eq!(server.send(&format!("GET {path}"), "").await.0, 422, "{path}");
        }
        let (status, answer) = server.send("POST /digest", &" ".repeat(3_000_000)).await;
        assert_eq!((status, &answer["reason"]), (429, &json!("BUSY")));
    }
}
