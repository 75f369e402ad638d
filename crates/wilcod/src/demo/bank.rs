//! The practice bank as its own people see it: the book, and the knobs that make it fail.

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Method, Request, header};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::DemoError;

/// The longest answer that is read, in bytes.
const ANSWER_MAX: usize = 1 << 20;

/// A payment as it stands in the bank's book.
#[derive(Debug, Deserialize)]
pub struct Payment {
    /// What the payer wrote on it.
    #[serde(default)]
    pub reference: Option<String>,
    /// The key that makes it unique.
    pub idempotency_key: String,
    /// Its amount.
    pub amount: String,
    /// Its currency.
    pub currency: String,
    /// Who was paid.
    pub creditor_account: String,
    /// How it stands.
    pub status: String,
}

/// The payments in the book.
///
/// # Errors
/// The lab does not answer, or not with a book.
pub async fn book(lab_url: &str) -> Result<Vec<Payment>, DemoError> {
    #[derive(Deserialize)]
    struct Book {
        payments: Vec<Payment>,
    }
    let answer = ask(lab_url, Method::GET, "/lab/book", None).await?;
    let book: Book = serde_json::from_value(answer).map_err(|e| DemoError::Bank(format!("its book: {e}")))?;
    Ok(book.payments)
}

/// Arms a fault for the next request to an endpoint.
///
/// # Errors
/// The lab does not answer, or refuses.
pub async fn arm(lab_url: &str, endpoint: &str, fault: &str, seconds: u32) -> Result<(), DemoError> {
    let body = json!({ "endpoint": endpoint, "fault": fault, "times": 1, "seconds": seconds });
    ask(lab_url, Method::POST, "/lab/faults", Some(body))
        .await
        .map(|_| ())
}

async fn ask(lab_url: &str, method: Method, path: &str, body: Option<Value>) -> Result<Value, DemoError> {
    let failed = |what: String| DemoError::Bank(format!("{method} {path}: {what}"));
    let authority = lab_url.trim_start_matches("http://").trim_end_matches('/');
    let stream = TcpStream::connect(authority)
        .await
        .map_err(|e| failed(e.to_string()))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|e| failed(e.to_string()))?;
    let driver = tokio::spawn(connection);
    let text = body.map(|body| body.to_string()).unwrap_or_default();
    let request = Request::builder()
        .method(method.clone())
        .uri(path)
        .header(header::HOST, authority)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(text)))
        .map_err(|e| failed(e.to_string()))?;
    let answer = sender
        .send_request(request)
        .await
        .map_err(|e| failed(e.to_string()))?;
    let status = answer.status();
    let bytes = Limited::new(answer.into_body(), ANSWER_MAX)
        .collect()
        .await
        .map_err(|e| failed(e.to_string()))?
        .to_bytes();
    driver.abort();
    if !status.is_success() {
        return Err(failed(format!("{status}: {}", String::from_utf8_lossy(&bytes))));
    }
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(&bytes).map_err(|e| failed(format!("not JSON: {e}")))
}
