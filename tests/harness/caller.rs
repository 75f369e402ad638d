//! A caller of the daemon, over gRPC or JSON, with the same calls for both: what one wire answers the other must too.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_types::StatusExt;
use wilco_api::v1;
use wilco_api::v1::executor_client::ExecutorClient;
use wilco_api::v1::operator_client::OperatorClient;

use crate::{PATIENCE, Payment, confirmation};

/// Which way a caller speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// `wilco.v1` over HTTP/2.
    Grpc,
    /// `/v1/...` over HTTP/1.1.
    Json,
}

/// Both of them.
pub const WIRES: [Wire; 2] = [Wire::Grpc, Wire::Json];

/// A refusal as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The stable name.
    pub reason: String,
    /// The sentence.
    pub text: String,
    /// The gRPC code, where it came over gRPC.
    pub code: Option<Code>,
    /// The HTTP status, where it came as JSON.
    pub http: Option<u16>,
    /// `field`, `slot`, `line`, `statement`, `statement_sha256` as far as they came along.
    pub fields: BTreeMap<String, String>,
    /// The problems that came along, as JSON.
    pub problems: Value,
    /// Seconds after which to try again: `RetryInfo`, or the header `Retry-After`.
    pub retry_after_s: Option<u64>,
}

impl Refused {
    /// One of the fields; empty if it did not come along.
    #[must_use]
    pub fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }
}

/// What a call came to.
pub type Answer<T> = Result<T, Box<Refused>>;

/// A client with one principal's key.
#[derive(Debug, Clone)]
pub struct Caller {
    url: String,
    wire: Wire,
    key: Option<String>,
    channel: Channel,
    http: reqwest::Client,
}

impl Caller {
    /// A client of the daemon at `url`.
    ///
    /// # Panics
    /// If there can be no HTTP client.
    #[must_use]
    pub fn new(url: &str, channel: Channel, wire: Wire, key: Option<String>) -> Caller {
        let http = reqwest::Client::builder()
            .no_proxy()
            .timeout(PATIENCE)
            .build()
            .unwrap_or_else(|e| panic!("an HTTP client: {e}"));
        Caller {
            url: url.to_owned(),
            wire,
            key,
            channel,
            http,
        }
    }

    /// The same principal over the other wire, or the same one.
    #[must_use]
    pub fn over(&self, wire: Wire) -> Caller {
        Caller { wire, ..self.clone() }
    }

    /// Hands off a line in a thread; an empty name is the sender's own thread.
    ///
    /// # Errors
    /// The daemon's refusal.
    pub async fn prepare_in(&self, thread: &str, ho: &str) -> Answer<v1::PrepareReply> {
        self.prepare_request(v1::PrepareRequest {
            thread: thread.into(),
            ho: ho.into(),
            record: String::new(),
        })
        .await
    }

    /// Hands off a line in the sender's own thread.
    ///
    /// # Errors
    /// The daemon's refusal.
    pub async fn prepare(&self, ho: &str) -> Answer<v1::PrepareReply> {
        self.prepare_in("", ho).await
    }

    /// Prepare as it stands on the wire.
    ///
    /// # Errors
    /// The daemon's refusal.
    pub async fn prepare_request(&self, request: v1::PrepareRequest) -> Answer<v1::PrepareReply> {
        match self.wire {
            Wire::Grpc => plain(self.executor().prepare(self.keyed(request)).await),
            Wire::Json => self.post("/v1/prepare", &request).await,
        }
    }

    /// Confirms a prepared statement as its sender should: its digest quoted, its RB answered with yes under `an_id`.
    ///
    /// # Errors
    /// The daemon's refusal.
    pub async fn confirm(&self, prepared: &v1::PrepareReply, an_id: &str) -> Answer<v1::CommitReply> {
        self.commit(yes(prepared, an_id)).await
    }

    /// Prepares a payment and confirms it, both in the sender's own thread.
    ///
    /// # Errors
    /// The daemon's refusal of either.
    pub async fn pay(&self, payment: &Payment) -> Answer<v1::CommitReply> {
        let prepared = self.prepare(&payment.ho()).await?;
        let an_id = format!("{}-{}", payment.sender, payment.number + 1_000);
        self.confirm(&prepared, &an_id).await
    }

    /// Commit as it stands on the wire.
    ///
    /// # Errors
    /// The daemon's refusal.
    pub async fn commit(&self, request: v1::CommitRequest) -> Answer<v1::CommitReply> {
        match self.wire {
            Wire::Grpc => plain(self.executor().commit(self.keyed(request)).await),
            Wire::Json => self.post("/v1/commit", &request).await,
        }
    }

    /// Cancels in the sender's own thread.
    ///
    /// # Errors
    /// The daemon's refusal.
    pub async fn cancel(&self, cx: &str) -> Answer<v1::CancelReply> {
        self.cancel_in("", cx).await
    }

    /// Cancels in a thread.
    ///
    /// # Errors
    /// The daemon's refusal.
    pub async fn cancel_in(&self, thread: &str, cx: &str) -> Answer<v1::CancelReply> {
        self.cancel_request(v1::CancelRequest {
            thread: thread.into(),
            cx: cx.into(),
            wait_s: 0,
        })
        .await
    }

    /// Cancel as it stands on the wire.
    ///
    /// # Errors
    /// The daemon's refusal.
    pub async fn cancel_request(&self, request: v1::CancelRequest) -> Answer<v1::CancelReply> {
        match self.wire {
            Wire::Grpc => plain(self.executor().cancel(self.keyed(request)).await),
            Wire::Json => self.post("/v1/cancel", &request).await,
        }
    }

    /// An act by its id, with its journal.
    ///
    /// # Errors
    /// The daemon's refusal.
    pub async fn act(&self, act_id: &str) -> Answer<v1::GetActReply> {
        let request = v1::GetActRequest {
            act_id: act_id.into(),
            with_journal: true,
            ..v1::GetActRequest::default()
        };
        match self.wire {
            Wire::Grpc => plain(self.executor().get_act(self.keyed(request)).await),
            Wire::Json => self.get(&format!("/v1/acts/{act_id}?with_journal=true")).await,
        }
    }

    /// GetAct as it stands on the wire; JSON names acts by their ids only.
    ///
    /// # Errors
    /// The daemon's refusal.
    pub async fn get_act(&self, request: v1::GetActRequest) -> Answer<v1::GetActReply> {
        plain(self.executor().get_act(self.keyed(request)).await)
    }

    /// Acts in these states, newest first; in all states if none is named.
    ///
    /// # Errors
    /// The daemon's refusal.
    pub async fn acts(&self, states: &[v1::State]) -> Answer<v1::ListActsReply> {
        match self.wire {
            Wire::Grpc => {
                let request = v1::ListActsRequest {
                    states: states.iter().map(|s| i32::from(*s)).collect(),
                    ..v1::ListActsRequest::default()
                };
                plain(self.executor().list_acts(self.keyed(request)).await)
            }
            Wire::Json => {
                let words: Vec<&str> = states
                    .iter()
                    .map(|s| wilco_api::convert::state_word(*s))
                    .collect();
                self.get(&format!("/v1/acts?states={}", words.join(","))).await
            }
        }
    }

    /// ListActs as it stands on the wire.
    ///
    /// # Errors
    /// The daemon's refusal.
    pub async fn list_acts(&self, request: v1::ListActsRequest) -> Answer<v1::ListActsReply> {
        plain(self.executor().list_acts(self.keyed(request)).await)
    }

    /// Has the texts of what was closed longer ago than this erased.
    ///
    /// # Errors
    /// The daemon's refusal.
    pub async fn purge(&self, older_than_s: u64) -> Answer<v1::PurgeReply> {
        let mut operator = OperatorClient::new(self.channel.clone());
        plain(
            operator
                .purge(self.keyed(v1::PurgeRequest { older_than_s }))
                .await,
        )
    }

    /// A thread's lines.
    ///
    /// # Errors
    /// The daemon's refusal.
    pub async fn thread(&self, thread: &str) -> Answer<v1::GetThreadReply> {
        match self.wire {
            Wire::Grpc => {
                let request = v1::GetThreadRequest {
                    thread: thread.into(),
                    ..v1::GetThreadRequest::default()
                };
                plain(self.executor().get_thread(self.keyed(request)).await)
            }
            Wire::Json => self.get(&format!("/v1/threads/{thread}")).await,
        }
    }

    /// An operator's word on an act in doubt.
    ///
    /// # Errors
    /// The daemon's refusal.
    pub async fn settle(&self, act_id: &str, done: bool, evidence: &str) -> Answer<v1::SettleReply> {
        use v1::settle_request::Outcome;
        let outcome = if done { Outcome::Done } else { Outcome::NotDone };
        let request = v1::SettleRequest {
            act_id: act_id.into(),
            outcome: outcome.into(),
            evidence: evidence.into(),
            owner_dead: false,
        };
        match self.wire {
            Wire::Grpc => {
                let mut operator = OperatorClient::new(self.channel.clone());
                plain(operator.settle(self.keyed(request)).await)
            }
            Wire::Json => self.post(&format!("/v1/acts/{act_id}/settle"), &request).await,
        }
    }

    /// Waits until an act is in one of these states.
    ///
    /// # Panics
    /// If it never is.
    pub async fn until_state(&self, act_id: &str, states: &[v1::State]) -> v1::Act {
        let names: Vec<&str> = states
            .iter()
            .map(|s| wilco_api::convert::state_word(*s))
            .collect();
        crate::until(
            &format!("act {act_id} to be {}", names.join(" or ")),
            async || {
                let act = self.act(act_id).await.ok()?.act?;
                states.contains(&act.state()).then_some(act)
            },
        )
        .await
    }

    /// A JSON body as it is, to any path.
    ///
    /// # Panics
    /// If the daemon does not answer at all.
    pub async fn raw(&self, path: &str, body: impl Into<reqwest::Body>) -> Raw {
        let request = self.http.post(format!("{}{path}", self.url));
        self.send(request.header("content-type", "application/json").body(body))
            .await
    }

    /// What stands at a path.
    ///
    /// # Panics
    /// If the daemon does not answer at all.
    pub async fn read(&self, path: &str) -> Raw {
        self.send(self.http.get(format!("{}{path}", self.url))).await
    }

    async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Answer<T> {
        let body = serde_json::to_string(body).unwrap_or_else(|e| panic!("{path}: {e}"));
        self.raw(path, body).await.reply(path)
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Answer<T> {
        self.read(path).await.reply(path)
    }

    async fn send(&self, mut request: reqwest::RequestBuilder) -> Raw {
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }
        let answer = match request.send().await {
            Ok(answer) => answer,
            Err(e) => return Raw::unreachable(&e.to_string()),
        };
        let status = answer.status().as_u16();
        let header = |name: &str| {
            let value = answer.headers().get(name).and_then(|v| v.to_str().ok());
            value.map(str::to_owned)
        };
        let (retry_after, content_type) = (header("retry-after"), header("content-type"));
        match answer.text().await {
            Ok(text) => Raw {
                status,
                retry_after,
                content_type: content_type.unwrap_or_default(),
                text,
            },
            Err(e) => Raw::unreachable(&e.to_string()),
        }
    }

    fn executor(&self) -> ExecutorClient<Channel> {
        ExecutorClient::new(self.channel.clone())
    }

    fn keyed<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(key) = &self.key {
            let value = format!("Bearer {key}");
            let value = value
                .parse()
                .unwrap_or_else(|e| panic!("a key fits a header: {e}"));
            request.metadata_mut().insert("authorization", value);
        }
        request
    }
}

/// The commit of a prepared statement, confirmed under `an_id`.
#[must_use]
pub fn yes(prepared: &v1::PrepareReply, an_id: &str) -> v1::CommitRequest {
    v1::CommitRequest {
        token: prepared.token.clone(),
        statement_sha256: prepared.statement_sha256.clone(),
        confirmation: confirmation(&prepared.statement, an_id),
        wait_s: 0,
    }
}

/// An HTTP answer as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raw {
    /// The status; 0 when nothing answered.
    pub status: u16,
    /// The header `Retry-After`.
    pub retry_after: Option<String>,
    /// The header `Content-Type`.
    pub content_type: String,
    /// The body.
    pub text: String,
}

impl Raw {
    fn unreachable(text: &str) -> Raw {
        Raw {
            status: 0,
            retry_after: None,
            content_type: String::new(),
            text: text.to_owned(),
        }
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// If it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("not JSON: {e}: {self:?}"))
    }

    fn reply<T: DeserializeOwned>(&self, path: &str) -> Answer<T> {
        if self.status == 200 {
            return Ok(serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{path}: {e}: {self:?}")));
        }
        Err(Box::new(self.refused()))
    }

    /// The refusal this is.
    ///
    /// # Panics
    /// If the body is no JSON although something answered.
    #[must_use]
    pub fn refused(&self) -> Refused {
        if self.status == 0 {
            return Refused {
                reason: "UNREACHABLE".into(),
                text: self.text.clone(),
                code: None,
                http: None,
                fields: BTreeMap::new(),
                problems: Value::Null,
                retry_after_s: None,
            };
        }
        let body = self.json();
        let text = |name: &str| body[name].as_str().map(str::to_owned);
        let names = ["field", "slot", "line", "statement", "statement_sha256"];
        Refused {
            reason: text("reason").unwrap_or_default(),
            text: text("error").unwrap_or_default(),
            code: None,
            http: Some(self.status),
            fields: names
                .iter()
                .filter_map(|n| Some(((*n).to_owned(), text(n)?)))
                .collect(),
            problems: body["problems"].clone(),
            retry_after_s: self.retry_after.as_ref().and_then(|s| s.parse().ok()),
        }
    }
}

fn plain<T>(answer: Result<tonic::Response<T>, Status>) -> Answer<T> {
    answer
        .map(tonic::Response::into_inner)
        .map_err(|s| Box::new(refused(&s)))
}

/// A gRPC status as the refusal it carries. One without `ErrorInfo` has no reason: the connection broke, or the
/// server is not ours.
#[must_use]
pub fn refused(status: &Status) -> Refused {
    let details = status.get_error_details();
    let info = details.error_info();
    let mut fields: BTreeMap<String, String> = info
        .map(|i| i.metadata.clone().into_iter().collect())
        .unwrap_or_default();
    let problems = fields
        .remove("problems")
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or(Value::Null);
    Refused {
        reason: info.map_or_else(|| "UNREACHABLE".into(), |i| i.reason.clone()),
        text: status.message().to_owned(),
        code: Some(status.code()),
        http: None,
        fields,
        problems,
        retry_after_s: details
            .retry_info()
            .and_then(|r| r.retry_delay)
            .map(|d| d.as_secs()),
    }
}
