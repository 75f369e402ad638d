//! Refusals as the two wires carry them: one table, [`wire`], for gRPC and HTTP.

use std::collections::HashMap;
use std::time::Duration;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};
use wilco_api::convert;
use wilco_api::v1::Problem;
use wilco_core::{Reason, Refusal};

/// `ErrorInfo.domain`: whose reasons these are.
pub const DOMAIN: &str = "wilco.v1";

/// The most bytes of metadata in an error: gRPC clients take no more than 8 KiB of trailers, and base64 adds a third.
const METADATA_MAX: usize = 4_800;

/// The most bytes of the sentence: it travels in the trailers too.
const TEXT_MAX: usize = 1_000;

/// How a reason looks on the wires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wire {
    /// The gRPC code.
    pub code: Code,
    /// The HTTP status.
    pub http: u16,
    /// Seconds after which trying again makes sense, where that is so.
    pub retry_after_s: Option<u32>,
}

/// The table: every reason with its gRPC code, HTTP status, and whether to try again.
#[must_use]
pub fn wire(reason: Reason) -> Wire {
    let (code, http, retry_after_s) = match reason {
        Reason::Unauthenticated => (Code::Unauthenticated, 401, None),
        Reason::NotYours => (Code::PermissionDenied, 403, None),
        Reason::Malformed => (Code::InvalidArgument, 422, None),
        Reason::UnknownToken | Reason::UnknownAct => (Code::NotFound, 404, None),
        Reason::DigestRequired | Reason::ConfirmationRequired => (Code::FailedPrecondition, 428, None),
        Reason::DigestStale => (Code::Aborted, 409, None),
        Reason::HandoffConflict => (Code::AlreadyExists, 409, None),
        Reason::Expired
        | Reason::Cancelled
        | Reason::Refused
        | Reason::Superseded
        | Reason::Held
        | Reason::Lapsed
        | Reason::Limit
        | Reason::NotApproved => (Code::FailedPrecondition, 409, None),
        Reason::Halted | Reason::AdapterDown | Reason::StoreDown => (Code::Unavailable, 503, Some(5)),
        Reason::Busy => (Code::ResourceExhausted, 429, Some(1)),
    };
    Wire {
        code,
        http,
        retry_after_s,
    }
}

/// Seconds after which the refused call may be tried again, if that makes sense.
#[must_use]
pub fn retry_after_s(refusal: &Refusal) -> Option<u32> {
    refusal.retry_after_s.or(wire(refusal.reason).retry_after_s)
}

/// A refusal as a gRPC status with `google.rpc.ErrorInfo` and, where it makes sense, `google.rpc.RetryInfo`.
#[must_use]
pub fn status(refusal: &Refusal) -> Status {
    let mut details = ErrorDetails::new();
    details.set_error_info(refusal.reason.as_str(), DOMAIN, metadata(refusal));
    if let Some(seconds) = retry_after_s(refusal) {
        details.set_retry_info(Some(Duration::from_secs(u64::from(seconds))));
    }
    Status::with_error_details(wire(refusal.reason).code, cut(&refusal.text, TEXT_MAX), details)
}

/// A refusal as an HTTP answer.
#[must_use]
pub fn response(refusal: &Refusal) -> Response {
    let wire = wire(refusal.reason);
    let retry_after_s = retry_after_s(refusal);
    let body = Body {
        error: &refusal.text,
        reason: refusal.reason.as_str(),
        field: refusal.field.as_deref(),
        slot: refusal.slot.as_deref(),
        line: refusal.line.as_deref(),
        statement: refusal
            .statement
            .as_ref()
            .map(|(statement, _)| statement.as_str()),
        statement_sha256: refusal.statement.as_ref().map(|(_, sha256)| sha256.as_str()),
        problems: convert::problems(&refusal.problems),
        retry_after_s,
    };
    let status = StatusCode::from_u16(wire.http).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, Json(body)).into_response();
    if let Some(seconds) = retry_after_s {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if status == StatusCode::UNAUTHORIZED {
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

#[derive(Serialize)]
struct Body<'a> {
    error: &'a str,
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slot: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    statement: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    statement_sha256: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<Problem>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_s: Option<u32>,
}

// What does not fit is left out whole, the least needed last: half a line would be worse than none.
fn metadata(refusal: &Refusal) -> HashMap<String, String> {
    let statement = refusal.statement.as_ref();
    let problems = convert::problems(&refusal.problems);
    let problems = match serde_json::to_string(&problems) {
        Ok(text) if !problems.is_empty() => Some(text),
        _ => None,
    };
    let wanted = [
        ("field", refusal.field.clone()),
        ("slot", refusal.slot.clone()),
        ("statement_sha256", statement.map(|(_, sha256)| sha256.clone())),
        ("line", refusal.line.clone()),
        ("statement", statement.map(|(statement, _)| statement.clone())),
        ("problems", problems),
    ];
    let mut room = METADATA_MAX;
    let mut metadata = HashMap::new();
    for (name, value) in wanted {
        if let Some(value) = value
            && let Some(left) = room.checked_sub(name.len() + value.len())
        {
            room = left;
            metadata.insert(name.to_owned(), value);
        }
    }
    metadata
}

fn cut(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let end = (0..=limit)
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0);
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use wilco_core::act::StoredProblem;

    /// The table of the API's documentation, word for word.
    #[test]
    fn each_reason_has_its_code_and_status() {
        for (reason, code, http, again) in [
            (Reason::Unauthenticated, Code::Unauthenticated, 401, false),
            (Reason::NotYours, Code::PermissionDenied, 403, false),
            (Reason::Malformed, Code::InvalidArgument, 422, false),
            (Reason::UnknownToken, Code::NotFound, 404, false),
            (Reason::UnknownAct, Code::NotFound, 404, false),
            (Reason::DigestRequired, Code::FailedPrecondition, 428, false),
            (Reason::ConfirmationRequired, Code::FailedPrecondition, 428, false),
            (Reason::DigestStale, Code::Aborted, 409, false),
            (Reason::HandoffConflict, Code::AlreadyExists, 409, false),
            (Reason::Expired, Code::FailedPrecondition, 409, false),
            (Reason::Cancelled, Code::FailedPrecondition, 409, false),
            (Reason::Refused, Code::FailedPrecondition, 409, false),
            (Reason::Superseded, Code::FailedPrecondition, 409, false),
            (Reason::Held, Code::FailedPrecondition, 409, false),
            (Reason::Lapsed, Code::FailedPrecondition, 409, false),
            (Reason::Limit, Code::FailedPrecondition, 409, false),
            (Reason::NotApproved, Code::FailedPrecondition, 409, false),
            (Reason::Halted, Code::Unavailable, 503, true),
            (Reason::AdapterDown, Code::Unavailable, 503, true),
            (Reason::StoreDown, Code::Unavailable, 503, true),
            (Reason::Busy, Code::ResourceExhausted, 429, true),
        ] {
            let refusal = Refusal::new(reason, "why");
            let status = status(&refusal);
            let details = status.get_error_details();
            let info = details.error_info().expect("an ErrorInfo");
            assert_eq!((status.code(), info.reason.as_str()), (code, reason.as_str()));
            assert_eq!(details.retry_info().is_some(), again, "{reason:?}");
            let response = response(&refusal);
            assert_eq!(response.status().as_u16(), http);
            assert_eq!(
                response.headers().contains_key(header::RETRY_AFTER),
                again,
                "{reason:?}"
            );
        }
    }

    #[tokio::test]
    async fn a_stale_digest_carries_the_current_statement_on_both_wires() {
        let refusal = Refusal::new(Reason::DigestStale, "the statement changed")
            .in_field("statement_sha256")
            .with_statement("RW1 RB payer-101", "ab")
            .with_line("RW1 RB payer-101 x_tok=…")
            .with_problems(vec![StoredProblem {
                code: "c".into(),
                slot: Some("amt".into()),
                want: None,
                got: None,
                text: "t".into(),
            }]);
        let details = status(&refusal).get_error_details();
        let metadata = &details.error_info().expect("an ErrorInfo").metadata;
        assert_eq!(metadata["statement"], "RW1 RB payer-101");
        assert_eq!(metadata["statement_sha256"], "ab");
        assert!(metadata["problems"].contains("\"slot\":\"amt\""));

        let body = axum::body::to_bytes(response(&refusal).into_body(), 10_000)
            .await
            .expect("a body");
        let json: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(json["reason"], "DIGEST_STALE");
        assert_eq!(json["error"], "the statement changed");
        assert_eq!(json["field"], "statement_sha256");
        assert_eq!(json["statement"], "RW1 RB payer-101");
        assert_eq!(json["problems"][0]["slot"], "amt");
        assert!(json.get("slot").is_none());
    }

    #[test]
    fn an_error_never_outgrows_the_trailers() {
        let long = "é".repeat(20_000);
        let refusal = Refusal::new(Reason::Malformed, long.clone())
            .in_field("ho")
            .with_line(long.clone())
            .with_statement(&long, "ab");
        let status = status(&refusal);
        assert!(status.message().len() < TEXT_MAX + 10);
        assert!(status.details().len() < 6_000);
        let details = status.get_error_details();
        let metadata = &details.error_info().expect("an ErrorInfo").metadata;
        assert_eq!(metadata["field"], "ho");
        assert!(!metadata.contains_key("line"));
    }
}
