//! The same questions, asked of a real daemon that was started with the package's own profiles.

use std::path::Path;

use futures::StreamExt;
use serde_json::{Map, Value, json};
use wilco_tests::{Caller, Daemon, Setup, Wire};

/// How many questions are under way at once.
const AT_ONCE: usize = 24;

/// A daemon that judges by the package's profiles.
pub async fn daemon(profiles: &Path) -> Daemon {
    Daemon::start_with(
        Setup::quick()
            .log("warn")
            .arg("--profiles")
            .arg(profiles.display().to_string()),
    )
    .await
}

/// A client of the protocol's endpoints. They are open: it has no key.
pub fn client(daemon: &Daemon) -> Caller {
    daemon.stranger(Wire::Json)
}

/// The body of a 200.
pub async fn post(client: &Caller, path: &str, body: &Value) -> Value {
    let answer = client.raw(path, body.to_string()).await;
    assert_eq!(answer.status, 200, "{path} {body}: {answer:?}");
    answer.json()
}

/// Answers in the shape of the oracle's.
pub async fn ask(client: &Caller, questions: &[Value], now: &str) -> Vec<Value> {
    futures::stream::iter(questions)
        .map(|question| one(client, question, now))
        .buffered(AT_ONCE)
        .collect()
        .await
}

async fn one(client: &Caller, question: &Value, now: &str) -> Value {
    let function = question["f"].as_str().expect("a function");
    let mut body: Map<String, Value> = question.as_object().cloned().expect("an object");
    body.remove("f");
    body.retain(|_, value| !value.is_null());
    if function == "parse" {
        return parse(client, Value::Object(body)).await;
    }
    if function == "check-dn" {
        // The package judges a statement's end by its clock, we by the instant we are given.
        body.insert("at".into(), now.into());
    }
    let answer = post(client, &format!("/{function}"), &Value::Object(body)).await;
    let texts = answer["problems"].clone();
    let problems = pairs(&answer["details"]);
    assert_eq!(answer["ok"], Value::from(problems.is_empty()), "{answer}");
    assert_eq!(problems.len(), texts.as_array().map_or(0, Vec::len), "{answer}");
    json!({ "problems": problems, "notes": count(&answer["notes"]), "texts": texts })
}

async fn parse(client: &Caller, body: Value) -> Value {
    let answer = post(client, "/validate", &body).await;
    let problems = pairs(&answer["details"]);
    assert_eq!(answer["ok"], Value::from(problems.is_empty()), "{answer}");
    let mut told =
        json!({ "problems": problems, "notes": count(&answer["warnings"]), "texts": answer["errors"] });
    if problems.is_empty() {
        told["message"] = answer["message"].clone();
        told["digest"] = post(client, "/digest", &body).await["digest"].clone();
    }
    told
}

/// `(code, slot)` of each problem; where a plan fails its own check, the slot is that of the check inside.
fn pairs(details: &Value) -> Vec<Value> {
    let details = details.as_array().cloned().unwrap_or_default();
    let pair = |d: &Value| {
        let slot = match d["code"].as_str() {
            Some("readback_failed") => "",
            _ => d["slot"].as_str().unwrap_or_default(),
        };
        json!([d["code"], slot])
    };
    details.iter().map(pair).collect()
}

fn count(texts: &Value) -> usize {
    texts.as_array().map_or(0, Vec::len)
}
