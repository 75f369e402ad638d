//! Limits of the port, before any verb: how long a request may be, how many run at once, how long one may take.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::Response;
use tokio::sync::Semaphore;
use tonic::Code;
use wilco_core::{Reason, Refusal};

use crate::app::App;
use crate::errors;

/// The limits and what they are counted with.
#[derive(Clone)]
pub struct Limits {
    app: Arc<App>,
    room: Arc<Semaphore>,
    bytes_max: u64,
    time_max: Duration,
}

impl Limits {
    /// At most `requests_max` at once, each of at most `bytes_max` bytes and `time_max` time.
    #[must_use]
    pub fn new(app: Arc<App>, requests_max: usize, bytes_max: u64, time_max: Duration) -> Limits {
        Limits {
            app,
            room: Arc::new(Semaphore::new(requests_max)),
            bytes_max,
            time_max,
        }
    }
}

/// Lets a request through within the limits, or says which it broke.
pub async fn limited(State(limits): State<Limits>, request: Request, next: Next) -> Response {
    // What watches the daemon must get through when it is full: that is what it watches for.
    if matches!(request.uri().path(), "/healthz" | "/readyz" | "/metrics") {
        return next.run(request).await;
    }
    let grpc = is_grpc(request.headers());
    let announced = request
        .headers()
        .get(header::CONTENT_LENGTH)
        .and_then(|v| v.to_str().ok()?.parse().ok());
    if announced.is_some_and(|length: u64| length > limits.bytes_max) {
        return refuse(grpc, &too_long(limits.bytes_max));
    }
    let Ok(_permit) = Arc::clone(&limits.room).try_acquire_owned() else {
        limits.app.metrics.count_shed();
        return refuse(
            grpc,
            &Refusal::new(
                Reason::Busy,
                "too many requests are under way; try again in a moment",
            ),
        );
    };
    // The time limit drops the handler, never the work: the engine's verbs run in tasks of their own.
    match tokio::time::timeout(limits.time_max, next.run(request)).await {
        // tonic's own word for a message over the limit, which no call of ours answers with.
        Ok(response) if grpc && grpc_code(&response) == Some(Code::OutOfRange) => {
            refuse(grpc, &too_long(limits.bytes_max))
        }
        Ok(response) => response,
        Err(_) => {
            limits.app.metrics.count_timed_out();
            let text = "the answer took too long; what was begun goes on: ask again with the same request";
            refuse(grpc, &Refusal::new(Reason::Busy, text))
        }
    }
}

/// Whether a request speaks gRPC.
#[must_use]
pub fn is_grpc(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

fn grpc_code(response: &Response) -> Option<Code> {
    response
        .headers()
        .get("grpc-status")
        .map(|code| Code::from_bytes(code.as_bytes()))
}

fn too_long(bytes_max: u64) -> Refusal {
    Refusal::new(Reason::Busy, format!("a request has at most {bytes_max} bytes"))
}

fn refuse(grpc: bool, refusal: &Refusal) -> Response {
    if grpc {
        errors::status(refusal).into_http()
    } else {
        errors::response(refusal)
    }
}
