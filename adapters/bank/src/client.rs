//! The only IO of this crate: one HTTP exchange at a time, each on a connection of its own.
//!
//! Nothing here retries, follows a redirect, keeps a connection or knows a proxy. That is why it stands on `hyper`'s
//! bare connection and not on a client with a pool: between "connected" and "the first byte leaves" there must be
//! exactly one place where the permit is asked, and a pool hides that place.
//!
//! ```text
//! token, signature,
//! connect, TLS             a failure here: certainly not sent
//! permit.may_send()        no: certainly not sent
//! ---------------------------------------------------------
//! request, answer, body    a failure here: nobody knows
//! ```

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Method, Request, header};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite};
use wilco_adapter::Permit;
use wilco_adapter::dial::dial;
use wilco_adapter::secret::{Secret, SecretSource, Shape, read_limited};
use wilco_core::Clock;

use crate::config::{Base, Checked, Payees};
use crate::sign::Signer;
use crate::wire::{self, Account, Payee, WireError};

/// The largest answer read, in bytes. A payment's is under two kilobytes.
const ANSWER_MAX: usize = 256 * 1024;
/// The largest register file read, in bytes.
const REGISTER_MAX: u64 = 4 * 1024 * 1024;
/// How long a connection may take to stand, at most; the whole exchange has `timeout_s`.
const CONNECT: Duration = Duration::from_secs(10);

/// Speaks to the bank, the payee register and confirmation of payee.
pub(crate) struct Client {
    bank: Base,
    payees: Payees,
    cop: Option<Base>,
    token: SecretSource,
    signer: Option<Signer>,
    clock: Arc<dyn Clock>,
    timeout: Duration,
    resending: Duration,
    #[cfg(feature = "tls")]
    tls: wilco_adapter::tls::Connector,
}

/// One answer, of any status.
#[derive(Debug)]
pub(crate) struct Answer {
    pub status: u16,
    pub body: Bytes,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// No byte of the request left.
    #[error("{0}")]
    NotSent(String),
    /// It may have arrived or not.
    #[error("{0}")]
    Lost(String),
}

/// Why a payee was not found.
#[derive(Debug)]
pub(crate) enum PayeeError {
    /// The register answers that it has no such entry.
    Unknown,
    /// The register did not answer, or not usably.
    Passing(String),
}

/// What is sent.
struct Exchange<'a> {
    to: &'a Base,
    path: String,
    method: Method,
    body: String,
    key: Option<&'a str>,
    bearer: bool,
    permit: Option<&'a Permit>,
}

impl Client {
    pub fn new(config: &Checked, clock: Arc<dyn Clock>) -> Result<Client, String> {
        Ok(Client {
            bank: config.bank.clone(),
            payees: config.payees.clone(),
            cop: config.cop.clone(),
            token: config.token.clone(),
            signer: config.signer.clone(),
            clock,
            timeout: Duration::from_secs(u64::from(config.timeout_s)),
            resending: config.resending(),
            #[cfg(feature = "tls")]
            tls: wilco_adapter::tls::Connector::new(&config.tls)?,
        })
    }

    /// Reads one of the bank's resources. `path` counts from the bank's base URL, as every path here does.
    pub async fn read(&self, path: &str) -> Result<Answer, Failure> {
        self.exchange(Exchange {
            to: &self.bank,
            path: path.to_owned(),
            method: Method::GET,
            body: String::new(),
            key: None,
            bearer: true,
            permit: None,
        })
        .await
    }

    /// Posts to the bank what can move nothing: a consent, or a key whose payment exists.
    pub async fn post(&self, path: &str, body: &str, key: &str) -> Result<Answer, Failure> {
        self.post_with(path, body, key, None).await
    }

    /// Posts what moves money. The permit is asked with the connection standing, right before the first byte.
    pub async fn post_with_permit(
        &self,
        permit: &Permit,
        path: &str,
        body: &str,
        key: &str,
    ) -> Result<Answer, Failure> {
        self.post_with(path, body, key, Some(permit)).await
    }

    /// Looks a payee up in the register.
    pub async fn payee(&self, sup: &str) -> Result<Payee, PayeeError> {
        match &self.payees {
            Payees::File(path) => payee_in_file(path, sup).await,
            Payees::Url(base) => self.payee_at(base, sup).await,
        }
    }

    /// Asks confirmation of payee, if it is configured: `match`, `close_match`, `no_match` or `unavailable`.
    pub async fn confirm(&self, payee: &Payee) -> Option<Result<&'static str, String>> {
        let to = self.cop.as_ref()?;
        let body = serde_json::json!({ "account": payee.account.on_line(), "name": payee.name }).to_string();
        let asked = Exchange {
            to,
            path: String::new(),
            method: Method::POST,
            body,
            key: None,
            bearer: false,
            permit: None,
        };
        Some(match self.exchange(asked).await {
            Ok(Answer { status: 200, body }) => wire::cop_answer(&body).map_err(|e| e.to_string()),
            Ok(answer) => Err(format!("status {}", answer.status)),
            Err(failure) => Err(failure.to_string()),
        })
    }

    async fn post_with(
        &self,
        path: &str,
        body: &str,
        key: &str,
        permit: Option<&Permit>,
    ) -> Result<Answer, Failure> {
        self.exchange(Exchange {
            to: &self.bank,
            path: path.to_owned(),
            method: Method::POST,
            body: body.to_owned(),
            key: Some(key),
            bearer: true,
            permit,
        })
        .await
    }

    async fn payee_at(&self, base: &Base, sup: &str) -> Result<Payee, PayeeError> {
        let Some(segment) = wire::segment(sup) else {
            return Err(PayeeError::Unknown);
        };
        let asked = Exchange {
            to: base,
            path: format!("/{segment}"),
            method: Method::GET,
            body: String::new(),
            key: None,
            bearer: false,
            permit: None,
        };
        match self.exchange(asked).await {
            Ok(Answer { status: 200, body }) => {
                wire::payee_answer(sup, &body).map_err(|e| PayeeError::Passing(e.to_string()))
            }
            Ok(Answer { status: 404, .. }) => Err(PayeeError::Unknown),
            Ok(answer) => Err(PayeeError::Passing(format!("status {}", answer.status))),
            Err(failure) => Err(PayeeError::Passing(failure.to_string())),
        }
    }

    async fn exchange(&self, asked: Exchange<'_>) -> Result<Answer, Failure> {
        let deadline = tokio::time::Instant::now() + self.timeout;
        let prepared = tokio::time::timeout_at(deadline, self.prepared(&asked)).await;
        let request = match prepared {
            Ok(prepared) => prepared.map_err(Failure::NotSent)?,
            Err(_) => {
                let text = "the token or the signing key was not read in time";
                return Err(Failure::NotSent(text.to_owned()));
            }
        };
        let connect = self.connect(asked.to);
        let connected =
            tokio::time::timeout_at(deadline.min(tokio::time::Instant::now() + CONNECT), connect).await;
        let stream = match connected {
            Ok(Ok(stream)) => stream,
            Ok(Err(text)) => return Err(Failure::NotSent(text)),
            Err(_) => return Err(Failure::NotSent("no connection in time".to_owned())),
        };
        let (mut sender, connection) = http1::handshake::<_, Full<Bytes>>(TokioIo::new(stream))
            .await
            .map_err(|e| Failure::NotSent(e.to_string()))?;
        // Ends with this exchange, whatever becomes of it.
        let mut connection = AbortOnDrop(tokio::spawn(connection));
        if let Some(permit) = asked.permit {
            wilco_failpoint::reach!("send.connected");
            permit.may_send().map_err(|e| Failure::NotSent(e.to_string()))?;
            wilco_failpoint::reach!("send.may_send");
        }

        // Past this line a byte may have left, and no failure proves anything.
        let answered = async {
            let answer = sender.send_request(request).await.map_err(|e| words(&e))?;
            let status = answer.status().as_u16();
            let body = Limited::new(answer.into_body(), ANSWER_MAX).collect().await;
            let body = body.map_err(|e| format!("status {status}, and the body could not be read: {e}"))?;
            Ok::<_, String>(Answer {
                status,
                body: body.to_bytes(),
            })
        };
        let answered = tokio::time::timeout_at(deadline, answered).await;
        // Closed before anybody hears how it ended: what the system has not sent by now is never sent.
        connection.end().await;
        if asked.permit.is_some() {
            wilco_failpoint::reach!("send.answered");
        }
        let answer = match answered {
            Ok(answered) => answered.map_err(Failure::Lost)?,
            Err(_) => {
                return Err(Failure::Lost(format!(
                    "no answer within {} s",
                    self.timeout.as_secs()
                )));
            }
        };
        tracing::debug!(to = %asked.to.authority, method = %asked.method, path = %asked.path, status = answer.status, "answered");
        Ok(answer)
    }

    /// The request as it will leave: the frozen bytes, and around them what is made for each sending.
    async fn prepared(&self, asked: &Exchange<'_>) -> Result<Request<Full<Bytes>>, String> {
        let token = match asked.bearer {
            true => Some(
                self.token
                    .read("token", Shape::Word)
                    .await
                    .map_err(|e| e.to_string())?,
            ),
            false => None,
        };
        // What a key names is an order or a consent of the bank's; nothing else is signed.
        let signature = match (&self.signer, asked.key) {
            (Some(signer), Some(_)) => Some(signer.sign(&asked.body, self.clock.now()).await?),
            _ => None,
        };
        request(asked, token.as_ref(), signature.as_deref())
    }

    async fn connect(&self, to: &Base) -> Result<Box<dyn Stream>, String> {
        let tcp = dial(&to.host, to.port, self.resending)
            .await
            .map_err(|e| format!("{} cannot be reached: {e}", to.authority))?;
        if !to.tls {
            return Ok(Box::new(tcp));
        }
        #[cfg(feature = "tls")]
        return Ok(Box::new(self.tls.connect(&to.host, tcp).await?));
        #[cfg(not(feature = "tls"))]
        Err("https:// needs a build with the feature `tls` of the crate adapter-bank".to_owned())
    }
}

/// What an exchange runs over.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

struct AbortOnDrop(tokio::task::JoinHandle<hyper::Result<()>>);

impl AbortOnDrop {
    /// Drops the connection, and returns once it is dropped.
    async fn end(&mut self) {
        self.0.abort();
        // It was aborted, or had ended before: both are what is wanted.
        let _ = (&mut self.0).await;
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn request(
    asked: &Exchange<'_>,
    token: Option<&Secret>,
    signature: Option<&str>,
) -> Result<Request<Full<Bytes>>, String> {
    let mut request = Request::builder()
        .method(asked.method.clone())
        .uri(format!("{}{}", asked.to.path, asked.path))
        .header(header::HOST, &asked.to.authority)
        .header(header::CONNECTION, "close")
        .header(header::ACCEPT, "application/json");
    if asked.bearer {
        let id = uuid::Builder::from_random_bytes(rand::random()).into_uuid();
        request = request.header("x-fapi-interaction-id", id.to_string());
    }
    if let Some(key) = asked.key {
        request = request.header("x-idempotency-key", key);
    }
    if let Some(signature) = signature {
        request = request.header("x-jws-signature", signature);
    }
    if asked.method == Method::POST {
        request = request.header(header::CONTENT_TYPE, "application/json");
    }
    if let Some(token) = token {
        let mut value = header::HeaderValue::from_str(&format!("Bearer {}", token.expose()))
            .map_err(|_| "the token holds characters a header cannot".to_owned())?;
        value.set_sensitive(true);
        request = request.header(header::AUTHORIZATION, value);
    }
    let body = Full::new(Bytes::from(asked.body.clone()));
    request
        .body(body)
        .map_err(|e| format!("the request cannot be written: {e}"))
}

fn words(error: &hyper::Error) -> String {
    use std::error::Error;
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RegisterFile {
    payees: std::collections::BTreeMap<String, RegisterEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RegisterEntry {
    name: String,
    account: String,
}

/// Read anew for each job: what is on file when a statement is made is what it must say.
async fn payee_in_file(path: &Path, sup: &str) -> Result<Payee, PayeeError> {
    let passing = |e: String| PayeeError::Passing(format!("the payee register {}: {e}", path.display()));
    let text = read_limited(path, REGISTER_MAX)
        .await
        .map_err(|e| passing(e.to_string()))?;
    let file: RegisterFile = toml::from_str(&text).map_err(|e| passing(e.message().to_owned()))?;
    let entry = file.payees.get(sup).ok_or(PayeeError::Unknown)?;
    wire::payee(Some(entry.name.clone()), Account::from_text(&entry.account))
        .map_err(|e: WireError| passing(format!("entry {sup}: {e}")))
}
