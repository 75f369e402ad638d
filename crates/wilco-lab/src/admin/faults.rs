//! `/lab/faults`: what is armed, anywhere.

use std::sync::Arc;

use axum::{
    body::Bytes,
    extract::{State, rejection::BytesRejection},
    http::StatusCode,
    response::Response,
};
use serde_json::{Map, Value, json};

use super::{Office, problem::Problem};
use crate::{
    http::json_response,
    knob::{FaultSpec, Knob},
};

/// The fields of the body. Without `counterparty` it is the bank that is meant.
const FIELDS: [&str; 5] = ["counterparty", "endpoint", "fault", "times", "seconds"];
/// How much of an unknown field's name is repeated.
const NAME_MAX: usize = 64;

/// `GET /lab/faults`
pub async fn list(State(office): State<Arc<Office>>) -> Result<Response, Problem> {
    let armed = office.all.armed().await?;
    let armed: Vec<Value> = armed.into_iter().map(FaultSpec::to_json).collect();
    Ok(json_response(StatusCode::OK, &json!({ "faults": armed })))
}

/// `POST /lab/faults`
pub async fn arm(
    state: State<Arc<Office>>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let body = body.map_err(|rejection| Problem::new(rejection.status(), rejection.body_text()))?;
    let spec = read(&body)?;
    state.all.arm(&spec).await?;
    list(state).await
}

/// `DELETE /lab/faults`
pub async fn clear(state: State<Arc<Office>>) -> Result<Response, Problem> {
    state.all.clear().await?;
    list(state).await
}

fn read(body: &[u8]) -> Result<FaultSpec, Problem> {
    let Ok(Value::Object(fields)) = serde_json::from_slice(body) else {
        return Err(Problem::field("body", "must be a JSON object"));
    };
    if let Some(name) = fields.keys().find(|name| !FIELDS.contains(&name.as_str())) {
        let name: String = name.chars().take(NAME_MAX).collect();
        return Err(Problem {
            allowed: FIELDS.to_vec(),
            ..Problem::field(&name, "is not a field of this knob")
        });
    }
    let counterparty = if fields.contains_key("counterparty") {
        // What is no text is no word there is.
        text(&fields, "counterparty").unwrap_or("")
    } else {
        "bank"
    };
    let endpoint = fields
        .contains_key("endpoint")
        .then(|| text(&fields, "endpoint").unwrap_or(""));
    let knob = Knob::named(counterparty, endpoint, text(&fields, "fault"))?;
    // What is no whole number is none that is allowed.
    let times = fields.get("times").map(|times| times.as_u64().unwrap_or(0));
    let seconds = fields
        .get("seconds")
        .map(|seconds| seconds.as_f64().unwrap_or(-1.0));
    Ok(FaultSpec::new(knob, times, seconds)?)
}

fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    fields.get(name).and_then(Value::as_str)
}
