//! A call of an adapter's that must end by itself, and without a panic.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use super::findings::{Stop, failed};

/// What the call returned, if it did within `limit`. A panic is a finding too, not the end of the suite: what it leaves
/// behind is dropped with the instance.
pub(super) async fn patiently<T>(
    what: &str,
    limit: Duration,
    call: impl Future<Output = T>,
) -> Result<T, Stop> {
    let mut call = pin!(call);
    let caught = poll_fn(
        |cx| match catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(cx))) {
            Ok(Poll::Ready(done)) => Poll::Ready(Some(done)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(_) => Poll::Ready(None),
        },
    );
    match tokio::time::timeout(limit, caught).await {
        Ok(Some(done)) => Ok(done),
        Ok(None) => failed(format!(
            "{what} panicked: what comes from outside is never unwrapped"
        )),
        Err(_) => failed(format!(
            "{what} did not return within {} s: every call must end by itself",
            limit.as_secs()
        )),
    }
}
