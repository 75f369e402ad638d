//! Open Banking payment initiation, 3.1 and 4.0: headers, faults and answers. What an order does is in `bank.rs`.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::Bytes,
    extract::{ConnectInfo, Path, Request, State, rejection::BytesRejection},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};

use crate::{
    bank::{Answer, Bank, Order, error_answer, invalid, unexpected},
    fault::{Armed, Endpoint, Fault},
    listen::DropSwitch,
    obie::{Distortion, FieldError, Form, Kind, Version, signature},
};

const INTERACTION_ID: HeaderName = HeaderName::from_static("x-fapi-interaction-id");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("x-idempotency-key");

/// The endpoints of one version, under its prefix.
pub fn router(version: Version) -> Router<Arc<Bank>> {
    let mut router = Router::new();
    for kind in [Kind::Domestic, Kind::Scheduled] {
        let form = Form { version, kind };
        for endpoint in [Endpoint::consents(kind), Endpoint::payments(kind)] {
            let word = endpoint.word();
            let order = post(
                move |State(bank): State<Arc<Bank>>, ConnectInfo(switch), headers: HeaderMap, body| async move {
                    order(bank, version, endpoint, switch, &headers, body).await
                },
            );
            let show = get(
                move |State(bank): State<Arc<Bank>>, Path(id): Path<String>, headers: HeaderMap| async move {
                    show(&bank, form, endpoint, &id, &headers).await.spoken(version)
                },
            );
            router = router
                .route(&format!("/{word}"), order)
                .route(&format!("/{word}/{{id}}"), show);
        }
    }
    let funds = get(
        move |State(bank): State<Arc<Bank>>, Path(id): Path<String>, headers: HeaderMap| async move {
            funds(&bank, version, &id, &headers).await.spoken(version)
        },
    );
    router
        .route("/domestic-payment-consents/{id}/funds-confirmation", funds)
        .fallback(move || async move { no_such_resource().spoken(version) })
        .method_not_allowed_fallback(move || async move { no_such_method().spoken(version) })
        .layer(middleware::from_fn(move |request, next| {
            interaction(version, request, next)
        }))
}

async fn show(bank: &Bank, form: Form, endpoint: Endpoint, id: &str, headers: &HeaderMap) -> Answer {
    if let Err(answer) = authorise(bank, headers) {
        return answer;
    }
    let shown = if endpoint == Endpoint::consents(form.kind) {
        bank.consent_show(id, form).await
    } else {
        bank.payment_show(id, form).await
    };
    shown.unwrap_or_else(|answer| answer)
}

async fn funds(bank: &Bank, version: Version, id: &str, headers: &HeaderMap) -> Answer {
    if let Err(answer) = authorise(bank, headers) {
        return answer;
    }
    let shown = bank.consent_funds(id, version).await;
    shown.unwrap_or_else(|answer| answer)
}

/// One POST: the door, then at most one armed fault, then the work in a task of its own, so that a client that
/// hangs up changes nothing about what the bank does.
async fn order(
    bank: Arc<Bank>,
    version: Version,
    endpoint: Endpoint,
    switch: DropSwitch,
    headers: &HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let (key, body) = match admit(&bank, headers, body) {
        Ok(admitted) => admitted,
        Err(answer) => return answer.spoken(version).into_response(),
    };
    let met = bank.faults.take_post(endpoint);
    if let Some(armed) = met {
        tracing::info!(
            endpoint = endpoint.word(),
            fault = armed.fault.word(),
            "a request meets an armed fault"
        );
    }
    let fault = met.map(|armed| armed.fault);
    let delay = met.map_or(Duration::ZERO, |armed: Armed| armed.delay);
    let distortion = match fault {
        Some(Fault::WrongAmount) => Some(Distortion::Amount),
        Some(Fault::WrongAccount) => Some(Distortion::Account),
        _ => None,
    };
    let reject_after_us =
        (fault == Some(Fault::RejectLater)).then(|| i64::try_from(delay.as_micros()).unwrap_or(i64::MAX));
    let order = Order {
        version,
        endpoint,
        key,
        body: body.to_vec(),
        distortion,
        reject_after_us,
    };
    match fault {
        Some(Fault::DropBefore) => return dropped(&switch),
        Some(Fault::Refuse) => return fault_refusal().spoken(version).into_response(),
        Some(Fault::Late) => {
            tokio::spawn(async move {
                if wait(&bank, delay).await {
                    let answer = Arc::clone(&bank).carry_out(order).await;
                    tracing::info!(
                        status = answer.status.as_u16(),
                        "a late request was carried out, nobody hears it"
                    );
                }
            });
            return dropped(&switch);
        }
        _ => {}
    }
    // A task that panicked has rolled back or not; the client learns no more than that something went wrong.
    let work = tokio::spawn(Arc::clone(&bank).carry_out(order));
    let answer = work.await.unwrap_or_else(|_| unexpected());
    match fault {
        Some(Fault::DropAfterAccept) => dropped(&switch),
        Some(Fault::ErrorAfterAccept) => unexpected().spoken(version).into_response(),
        Some(Fault::Slow) if !wait(&bank, delay).await => dropped(&switch),
        _ => answer.spoken(version).into_response(),
    }
}

/// What every POST must bring, in the order a bank's gateway asks for it.
fn admit(
    bank: &Bank,
    headers: &HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<(String, Bytes), Answer> {
    authorise(bank, headers)?;
    let content_type = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("");
    if !media_type(content_type).eq_ignore_ascii_case("application/json") {
        let error = FieldError::new(
            "UK.OBIE.Header.Invalid",
            "Content-Type",
            "must be application/json",
        );
        return Err(error_answer(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported media type",
            &[error],
        ));
    }
    let Some(key) = headers.get(IDEMPOTENCY_KEY) else {
        return Err(invalid(&[FieldError::new(
            "UK.OBIE.Header.Missing",
            "x-idempotency-key",
            "is required",
        )]));
    };
    let key = key.to_str().unwrap_or("");
    if !(1..=40).contains(&key.len()) || key.trim() != key {
        let message = "must have 1 to 40 visible ASCII characters";
        return Err(invalid(&[FieldError::new(
            "UK.OBIE.Header.Invalid",
            "x-idempotency-key",
            message,
        )]));
    }
    let body = body.map_err(|rejection| {
        let error = FieldError::new("UK.OBIE.Resource.InvalidFormat", "body", rejection.body_text());
        error_answer(rejection.status(), "the body could not be read", &[error])
    })?;
    let signature = headers.get(signature::HEADER).map(HeaderValue::as_bytes);
    bank.signed(signature, &body)?;
    Ok((key.to_owned(), body))
}

/// Bearer token, and an `Accept` that this bank can serve.
fn authorise(bank: &Bank, headers: &HeaderMap) -> Result<(), Answer> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let token = text(header::AUTHORIZATION)
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("Bearer"))
        .map(|(_, token)| token.trim());
    if token != Some(bank.token.as_str()) {
        let error = FieldError::new(
            "UK.OBIE.Header.Invalid",
            "Authorization",
            "must be Bearer and the lab's token",
        );
        return Err(error_answer(StatusCode::UNAUTHORIZED, "not authorised", &[error]));
    }
    let accepted = text(header::ACCEPT).is_none_or(|accept| {
        accept.split(',').any(|one| {
            matches!(
                media_type(one).to_ascii_lowercase().as_str(),
                "application/json" | "application/*" | "*/*"
            )
        })
    });
    if !accepted {
        let error = FieldError::new("UK.OBIE.Header.Invalid", "Accept", "must allow application/json");
        return Err(error_answer(
            StatusCode::NOT_ACCEPTABLE,
            "not acceptable",
            &[error],
        ));
    }
    Ok(())
}

fn media_type(value: &str) -> &str {
    value.split(';').next().unwrap_or("").trim()
}

/// Closes the connection without a byte: the answer made here never leaves.
fn dropped(switch: &DropSwitch) -> Response {
    switch.throw();
    StatusCode::SERVICE_UNAVAILABLE.into_response()
}

/// Waits; false when the lab stopped meanwhile.
async fn wait(bank: &Bank, delay: Duration) -> bool {
    let mut stopping = bank.stopping.clone();
    tokio::select! {
        () = tokio::time::sleep(delay) => true,
        _ = stopping.wait_for(|stopping| *stopping) => false,
    }
}

fn fault_refusal() -> Answer {
    let message = "the bank does not carry out this order (armed fault `refuse`)";
    invalid(&[FieldError::new(
        "UK.OBIE.Rules.FailsControlParameters",
        "Data",
        message,
    )])
}

/// Echoes the caller's interaction id, or gives one.
async fn interaction(version: Version, request: Request, next: Next) -> Response {
    let id = match request.headers().get(INTERACTION_ID) {
        None => HeaderValue::from_str(&uuid::Uuid::now_v7().to_string()).ok(),
        Some(value) => {
            let uuid = value
                .to_str()
                .is_ok_and(|text| text.len() == 36 && uuid::Uuid::try_parse(text).is_ok());
            if !uuid {
                let error = FieldError::new(
                    "UK.OBIE.Header.Invalid",
                    "x-fapi-interaction-id",
                    "must be a UUID",
                );
                return invalid(&[error]).spoken(version).into_response();
            }
            Some(value.clone())
        }
    };
    let mut response = next.run(request).await;
    if let Some(id) = id {
        response.headers_mut().insert(INTERACTION_ID, id);
    }
    response
}

fn no_such_resource() -> Answer {
    let error = FieldError::new("UK.OBIE.Resource.NotFound", "", "this bank has no such endpoint");
    error_answer(StatusCode::NOT_FOUND, "not found", &[error])
}

fn no_such_method() -> Answer {
    let error = FieldError::new(
        "UK.OBIE.Resource.InvalidFormat",
        "",
        "this endpoint does not take this method",
    );
    error_answer(StatusCode::METHOD_NOT_ALLOWED, "method not allowed", &[error])
}
