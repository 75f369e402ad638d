//! A body as the request it should be, or what is wrong with it and where.

use std::error::Error;

use axum::body::{Body, to_bytes};
use serde::de::DeserializeOwned;
use wilco_core::{Reason, Refusal};

/// Reads a body of at most `max` bytes.
///
/// # Errors
/// `BUSY` for a longer one; `MALFORMED` for one that is not the request, naming the field.
pub async fn read<T: DeserializeOwned>(body: Body, max: usize) -> Result<T, Refusal> {
    let bytes = to_bytes(body, max).await.map_err(|error| {
        if too_long(&error) {
            let text = format!("the body did not arrive whole within {max} bytes; a request is shorter");
            return Refusal::new(Reason::Busy, text);
        }
        let text = "body: it did not arrive whole, or its chunks cannot be read (RFC 9112)";
        Refusal::malformed("body", text)
    })?;
    parse(&bytes)
}

fn too_long(error: &axum::Error) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        if error.is::<http_body_util::LengthLimitError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    // serde would read an array as the fields in their order.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(Refusal::malformed("body", "body: a JSON object is needed"));
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|e| {
        let path = e.path().to_string();
        let problem = e.into_inner();
        let field = match path.as_str() {
            "." | "?" | "" => "body".to_owned(),
            named => named.chars().take(64).collect(),
        };
        let what = if problem.is_data() { "" } else { "not JSON: " };
        Refusal::malformed(&field, format!("{field}: {what}{problem}"))
    })?;
    reader
        .end()
        .map_err(|_| Refusal::malformed("body", "body: more follows after the JSON object"))?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wilco_api::v1::{CommitRequest, PrepareRequest};

    #[test]
    fn what_is_wrong_is_named() {
        for (bytes, field) in [
            (&b"{\"ho\": 7}"[..], "ho"),
            (b"{\"hoo\": \"x\"}", "hoo"),
            (b"{\"record\": [1]}", "record"),
            (b"", "body"),
            (b"[]", "body"),
            (b"{} {}", "body"),
            (b"{\"ho\": \"\xff\"}", "ho"),
        ] {
            let refusal = parse::<PrepareRequest>(bytes).expect_err("not the request");
            assert_eq!(
                (refusal.reason, refusal.field.as_deref()),
                (Reason::Malformed, Some(field)),
                "{refusal}"
            );
        }
        let refusal = parse::<CommitRequest>(b"{\"wait_s\": -1}").expect_err("negative");
        assert_eq!(refusal.field.as_deref(), Some("wait_s"));
        assert!(parse::<PrepareRequest>(b" {\"ho\": \"x\"} ").is_ok());
    }

    #[tokio::test]
    async fn a_long_body_is_busy() {
        let refusal = read::<PrepareRequest>(Body::from(vec![b' '; 100]), 99)
            .await
            .expect_err("long");
        assert_eq!(refusal.reason, Reason::Busy);
    }
}
