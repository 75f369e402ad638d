//! Closed-loop callers: each sends its next call when the one before is answered.

use std::future::Future;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::stats::Latencies;

/// How many callers share a gRPC connection.
const CALLERS_PER_CHANNEL: usize = 16;

/// One caller.
pub trait Caller: Send + 'static {
    /// One call, and a check that its answer is the right one.
    fn call(&mut self) -> impl Future<Output = Result<(), String>> + Send;
}

/// What a run of callers did.
pub struct Run {
    pub calls: u64,
    pub per_s: f64,
    pub took: Latencies,
}

/// Lets the callers call for `time`; each ends with the call it is in.
///
/// # Errors
/// The first call that went wrong.
pub async fn run<C: Caller>(callers: Vec<C>, time: Duration) -> Result<Run, String> {
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for mut caller in callers {
        tasks.spawn(async move {
            let mut took_us = Vec::new();
            while start.elapsed() < time {
                let called = Instant::now();
                caller.call().await?;
                took_us.push(u64::try_from(called.elapsed().as_micros()).unwrap_or(u64::MAX));
            }
            Ok::<_, String>(took_us)
        });
    }
    let mut took_us = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        took_us.append(&mut ended.map_err(|e| format!("a caller's task: {e}"))??);
    }
    let wall = start.elapsed().as_secs_f64();
    Ok(Run {
        calls: took_us.len() as u64,
        per_s: took_us.len() as f64 / wall,
        took: Latencies::new(took_us),
    })
}

/// Connections for so many callers, one for each caller; some share one.
pub async fn channels(url: &str, callers: usize) -> Result<Vec<tonic::transport::Channel>, String> {
    let endpoint =
        tonic::transport::Endpoint::from_shared(url.to_owned()).map_err(|e| format!("{url}: {e}"))?;
    let mut channels = Vec::with_capacity(callers);
    while channels.len() < callers {
        let channel = endpoint.connect().await.map_err(|e| format!("{url}: {e}"))?;
        let left = callers - channels.len();
        channels.extend(std::iter::repeat_n(channel, left.min(CALLERS_PER_CHANNEL)));
    }
    Ok(channels)
}
