//! Limits of the port, before any verb: whose request it is, how long it may be, how many run at once, how long one may
//! take.
//!
//! ```text
//!  the key, where one is needed ─► the length announced ─► a place ─► the body, in its own time ─► the answer, in time
//! ```
//!
//! Nobody without a key waits for anything that callers with a key need: what is open to everyone has at most half of
//! the places.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;
use tonic::Code;
use wilco_core::{Reason, Refusal};

use super::who;
use crate::app::App;
use crate::errors;

/// The limits and what they are counted with.
#[derive(Clone)]
pub struct Limits {
    app: Arc<App>,
    room: Arc<Semaphore>,
    /// Those places that requests without a key may take.
    open_room: Arc<Semaphore>,
    bytes_max: u64,
    body_time: Duration,
    time_max: Duration,
}

impl Limits {
    /// At most `requests_max` at once, each of at most `bytes_max` bytes that arrive within `body_time`, and of at most
    /// `time_max` in all.
    #[must_use]
    pub fn new(
        app: Arc<App>,
        requests_max: usize,
        bytes_max: u64,
        body_time: Duration,
        time_max: Duration,
    ) -> Limits {
        Limits {
            app,
            room: Arc::new(Semaphore::new(requests_max)),
            open_room: Arc::new(Semaphore::new(requests_max.div_ceil(2))),
            bytes_max,
            body_time,
            time_max,
        }
    }

    /// A place, or none where all are taken.
    fn place(&self, open: bool) -> Option<(OwnedSemaphorePermit, Option<OwnedSemaphorePermit>)> {
        let open = match open {
            true => Some(Arc::clone(&self.open_room).try_acquire_owned().ok()?),
            false => None,
        };
        Some((Arc::clone(&self.room).try_acquire_owned().ok()?, open))
    }
}

/// Lets a request through within the limits, or says which it broke.
pub async fn limited(State(limits): State<Limits>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    // What watches the daemon must get through when it is full: that is what it watches for.
    if matches!(path, "/healthz" | "/readyz" | "/metrics") {
        return next.run(request).await;
    }
    let grpc = is_grpc(request.headers());
    let verb = who::verb(request.method(), path);
    // Before anything is kept for the request, and before its body is waited for.
    if let Some(verb) = verb
        && let Err(refusal) = who::proved(&limits.app, verb, request.headers())
    {
        return refuse(grpc, &refusal);
    }
    let announced = request
        .headers()
        .get(header::CONTENT_LENGTH)
        .and_then(|v| v.to_str().ok()?.parse().ok());
    if announced.is_some_and(|length: u64| length > limits.bytes_max) {
        return refuse(grpc, &too_long(limits.bytes_max));
    }
    let Some(_place) = limits.place(verb.is_none()) else {
        limits.app.metrics.count_shed();
        return refuse(
            grpc,
            &Refusal::new(
                Reason::Busy,
                "too many requests are under way; try again in a moment",
            ),
        );
    };
    // Reflection is a conversation: its body is open as long as somebody may ask, and it is answered at once.
    let late = Arc::new(AtomicBool::new(false));
    let request = if path.starts_with("/grpc.reflection.") {
        request
    } else {
        request.map(|body| Body::new(Timed::new(body, limits.body_time, Arc::clone(&late))))
    };
    // The time limit drops the handler, never the work: the engine's verbs run in tasks of their own.
    match tokio::time::timeout(limits.time_max, next.run(request)).await {
        Ok(_) if late.load(Ordering::Acquire) => {
            limits.app.metrics.count_timed_out();
            let text = format!(
                "the body did not arrive whole within {} s; send the request again",
                limits.body_time.as_secs()
            );
            refuse(grpc, &Refusal::new(Reason::Busy, text))
        }
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

/// A body that fails once its time is over, however often a little more of it comes.
struct Timed {
    body: Body,
    over: Pin<Box<Sleep>>,
    late: Arc<AtomicBool>,
}

impl Timed {
    fn new(body: Body, time: Duration, late: Arc<AtomicBool>) -> Timed {
        Timed {
            body,
            over: Box::pin(tokio::time::sleep(time)),
            late,
        }
    }
}

impl HttpBody for Timed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let arrived = Pin::new(&mut self.body).poll_frame(context);
        if arrived.is_pending() && self.over.as_mut().poll(context).is_ready() {
            self.late.store(true, Ordering::Release);
            return Poll::Ready(Some(Err(axum::Error::new("the body came too late"))));
        }
        arrived
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
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
