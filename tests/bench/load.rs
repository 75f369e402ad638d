//! Closed-loop callers: each sends its next call when the one before is answered.

use std::future::Future;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

/// How many callers share a gRPC connection.
const CALLERS_PER_CHANNEL: usize = 16;

/// One caller.
pub trait Caller: Send + 'static {
    /// One call, and a check that its answer is the right one.
    fn call(&mut self) -> impl Future<Output = Result<(), String>> + Send;
}

/// What a run of callers did.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Run {
    pub calls: u64,
    pub per_s: f64,
    /// How long a call took, in milliseconds: half of them, 99 of 100, 999 of 1000 and all took no longer.
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub p999_ms: f64,
    pub longest_ms: f64,
}

impl Run {
    /// A run in which calls took so many microseconds each, and all together `wall`.
    pub fn of(mut took_us: Vec<u64>, wall: Duration) -> Run {
        took_us.sort_unstable();
        let ms = |share: f64| {
            let last = took_us.len().saturating_sub(1);
            let at = (share * took_us.len() as f64).ceil() as usize;
            let us = took_us.get(at.saturating_sub(1).min(last)).copied();
            us.unwrap_or(0) as f64 / 1000.0
        };
        Run {
            calls: took_us.len() as u64,
            per_s: took_us.len() as f64 / wall.as_secs_f64(),
            p50_ms: ms(0.5),
            p99_ms: ms(0.99),
            p999_ms: ms(0.999),
            longest_ms: ms(1.0),
        }
    }
}

/// How long ago that was, in microseconds.
pub fn us_since(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX)
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
                took_us.push(us_since(called));
            }
            Ok::<_, String>(took_us)
        });
    }
    let mut took_us = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        took_us.append(&mut ended.map_err(|e| format!("a caller's task: {e}"))??);
    }
    Ok(Run::of(took_us, start.elapsed()))
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
