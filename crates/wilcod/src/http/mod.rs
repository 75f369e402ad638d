//! JSON over HTTP: the verbs under `/v1`, and what operators' tools ask for.
//!
//! The same functions answer as for gRPC; here a body becomes their request, and their reply a body.

mod body;
mod limits;
mod who;

use std::sync::Arc;

use axum::extract::{FromRequestParts, Path, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Serialize;
use tonic::Status;
use wilco_api::v1;
use wilco_core::Refusal;

use crate::app::App;
use crate::{errors, metrics, verbs};

pub use limits::{Limits, limited};

/// The routes of the JSON API, without their state's limits.
pub fn router(app: Arc<App>, body_max: usize) -> Router {
    let state = Http { app, body_max };
    Router::new()
        .route("/v1/prepare", post(prepare))
        .route("/v1/commit", post(commit))
        .route("/v1/cancel", post(cancel))
        .route("/v1/acts", get(list_acts))
        .route("/v1/acts/{act_id}", get(get_act))
        .route("/v1/acts/{act_id}/settle", post(settle))
        .route("/v1/acts/{act_id}/release", post(release))
        .route("/v1/threads/{thread}", get(get_thread))
        .route("/v1/adapters", get(list_adapters))
        .route("/v1/adapters/{name}/check", post(check_adapter))
        .route("/v1/purge", post(purge))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(figures))
        .with_state(state)
}

/// What answers where nothing else does, to either wire.
pub async fn nothing_here(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    if limits::is_grpc(&headers) {
        return Status::unimplemented("no such service or call: ask reflection what there is").into_http();
    }
    plain(
        StatusCode::NOT_FOUND,
        format!("nothing answers {method} {}", shown(&uri)),
    )
}

/// What answers a method that its path does not take.
pub async fn other_method(method: Method, uri: Uri) -> Response {
    plain(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("{} does not take {method}", shown(&uri)),
    )
}

#[derive(Clone)]
struct Http {
    app: Arc<App>,
    body_max: usize,
}

async fn prepare(State(http): State<Http>, request: Request) -> Response {
    let (key, request) = match http.take::<v1::PrepareRequest>(request).await {
        Ok(taken) => taken,
        Err(refusal) => return errors::response(&refusal),
    };
    answer(verbs::prepare(&http.app, key.as_deref(), request).await)
}

async fn commit(State(http): State<Http>, request: Request) -> Response {
    let (key, request) = match http.take::<v1::CommitRequest>(request).await {
        Ok(taken) => taken,
        Err(refusal) => return errors::response(&refusal),
    };
    answer(verbs::commit(&http.app, key.as_deref(), request).await)
}

async fn cancel(State(http): State<Http>, request: Request) -> Response {
    let (key, request) = match http.take::<v1::CancelRequest>(request).await {
        Ok(taken) => taken,
        Err(refusal) => return errors::response(&refusal),
    };
    answer(verbs::cancel(&http.app, key.as_deref(), request).await)
}

async fn settle(State(http): State<Http>, Name(act_id): Name, request: Request) -> Response {
    let (key, mut request) = match http.take::<v1::SettleRequest>(request).await {
        Ok(taken) => taken,
        Err(refusal) => return errors::response(&refusal),
    };
    if let Err(refusal) = same_act(&request.act_id, &act_id) {
        return errors::response(&refusal);
    }
    request.act_id = act_id;
    answer(verbs::settle(&http.app, key.as_deref(), request).await)
}

async fn release(State(http): State<Http>, Path(act_id): Path<String>, request: Request) -> Response {
    let (key, mut request) = match http.take::<v1::ReleaseRequest>(request).await {
        Ok(taken) => taken,
        Err(refusal) => return errors::response(&refusal),
    };
    if let Err(refusal) = same_act(&request.act_id, &act_id) {
        return errors::response(&refusal);
    }
    request.act_id = act_id;
    answer(verbs::release(&http.app, key.as_deref(), request).await)
}

async fn purge(State(http): State<Http>, request: Request) -> Response {
    let (key, request) = match http.take::<v1::PurgeRequest>(request).await {
        Ok(taken) => taken,
        Err(refusal) => return errors::response(&refusal),
    };
    answer(verbs::purge(&http.app, key.as_deref(), request).await)
}

fn same_act(in_body: &str, in_path: &str) -> Result<(), Refusal> {
    if in_body.is_empty() || in_body == in_path {
        return Ok(());
    }
    let text = "act_id: the body names another act than the path; leave it out";
    Err(Refusal::malformed("act_id", text))
}

async fn get_act(
    State(http): State<Http>,
    Name(act_id): Name,
    query: Query<Vec<(String, String)>>,
    headers: HeaderMap,
) -> Response {
    let mut request = v1::GetActRequest {
        act_id,
        ..v1::GetActRequest::default()
    };
    for (name, value) in &query.0 {
        match (name.as_str(), value.as_str()) {
            ("with_journal", "true") => request.with_journal = true,
            ("with_journal", "false") => request.with_journal = false,
            ("with_journal", _) => return refused("with_journal", "true or false"),
            _ => return unknown_query(name, "with_journal"),
        }
    }
    answer(verbs::get_act(&http.app, key(&headers), request).await)
}

async fn list_acts(
    State(http): State<Http>,
    query: Query<Vec<(String, String)>>,
    headers: HeaderMap,
) -> Response {
    let mut request = v1::ListActsRequest::default();
    for (name, value) in query.0 {
        match name.as_str() {
            // Repeated, or separated by commas.
            "states" | "state" => {
                for word in value.split(',').filter(|word| !word.is_empty()) {
                    match verbs::state_named(word) {
                        Ok(state) => request.states.push(state.into()),
                        Err(refusal) => return errors::response(&refusal),
                    }
                }
            }
            "ask" => request.ask = value,
            "thread" => request.thread = value,
            "page_token" => request.page_token = value,
            "page_size" => match value.parse() {
                Ok(size) => request.page_size = size,
                Err(_) => return refused("page_size", "a number"),
            },
            _ => return unknown_query(&name, "states, ask, thread, page_token, page_size"),
        }
    }
    answer(verbs::list_acts(&http.app, key(&headers), request).await)
}

async fn get_thread(
    State(http): State<Http>,
    Name(thread): Name,
    query: Query<Vec<(String, String)>>,
    headers: HeaderMap,
) -> Response {
    let mut request = v1::GetThreadRequest {
        thread,
        ..v1::GetThreadRequest::default()
    };
    for (name, value) in query.0 {
        match name.as_str() {
            "page_token" => request.page_token = value,
            _ => return unknown_query(&name, "page_token"),
        }
    }
    answer(verbs::get_thread(&http.app, key(&headers), request).await)
}

async fn list_adapters(
    State(http): State<Http>,
    query: Query<Vec<(String, String)>>,
    headers: HeaderMap,
) -> Response {
    if let Some((name, _)) = query.0.first() {
        return unknown_query(name, "none");
    }
    let request = v1::ListAdaptersRequest {};
    answer(verbs::list_adapters(&http.app, key(&headers), &request))
}

async fn check_adapter(State(http): State<Http>, Name(name): Name, request: Request) -> Response {
    let (key, mut request) = match http.take::<v1::CheckAdapterRequest>(request).await {
        Ok(taken) => taken,
        Err(refusal) => return errors::response(&refusal),
    };
    if !request.name.is_empty() && request.name != name {
        return refused("name", "the one in the path, or left out");
    }
    request.name = name;
    answer(verbs::check_adapter(&http.app, key.as_deref(), request).await)
}

/// The process lives.
async fn healthz() -> &'static str {
    "ok\n"
}

/// Work is taken.
async fn readyz(State(http): State<Http>) -> Response {
    match http.app.ready() {
        Ok(()) => "ready\n".into_response(),
        Err(why) => {
            let again = [(header::RETRY_AFTER, "5")];
            (
                StatusCode::SERVICE_UNAVAILABLE,
                again,
                format!("not ready: {why}\n"),
            )
                .into_response()
        }
    }
}

async fn figures(State(http): State<Http>) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (kind, metrics::text(&http.app).await).into_response()
}

impl Http {
    async fn take<T: serde::de::DeserializeOwned>(
        &self,
        request: Request,
    ) -> Result<(Option<Vec<u8>>, T), Refusal> {
        let key = key(request.headers()).map(<[u8]>::to_vec);
        let request = body::read(request.into_body(), self.body_max).await?;
        Ok((key, request))
    }
}

/// The name in a path.
struct Name(String);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Name, Response> {
        match Path::<String>::from_request_parts(parts, state).await {
            Ok(Path(name)) => Ok(Name(name)),
            // axum's own answer is plain text, which no client of ours expects.
            Err(_) => Err(refused(
                "path",
                "a name in it is not UTF-8 after percent-decoding",
            )),
        }
    }
}

fn key(headers: &HeaderMap) -> Option<&[u8]> {
    headers.get(header::AUTHORIZATION).map(|value| value.as_bytes())
}

fn answer<T: Serialize>(answer: Result<T, Refusal>) -> Response {
    match answer {
        Ok(reply) => Json(reply).into_response(),
        Err(refusal) => errors::response(&refusal),
    }
}

fn refused(field: &str, rule: &str) -> Response {
    errors::response(&Refusal::malformed(field, format!("{field}: {rule}")))
}

fn unknown_query(name: &str, known: &str) -> Response {
    let name: String = name.chars().take(64).collect();
    errors::response(&Refusal::malformed(
        &name,
        format!("{name:?} is not a parameter here; known: {known}"),
    ))
}

fn plain(status: StatusCode, error: String) -> Response {
    (status, Json(serde_json::json!({ "error": error }))).into_response()
}

fn shown(uri: &Uri) -> String {
    uri.path().chars().take(100).collect()
}
