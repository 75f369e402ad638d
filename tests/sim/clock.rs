//! Time: virtual, true for the counterparty, stepped for the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use wilco_core::{Clock, Timestamp};

/// 2026-10-02T12:00:00Z: when every run begins.
const NOON: Timestamp = Timestamp(1_790_942_400_000_000);

/// True time: what has passed on the runtime's paused clock since the run began.
#[derive(Clone, Copy)]
pub struct TrueClock {
    began: Instant,
}

impl TrueClock {
    pub fn begin() -> TrueClock {
        TrueClock {
            began: Instant::now(),
        }
    }

    /// Since the run began.
    pub fn passed(&self) -> Duration {
        self.began.elapsed()
    }
}

impl Clock for TrueClock {
    fn now(&self) -> Timestamp {
        Timestamp(
            NOON.0
                .saturating_add(i64::try_from(self.passed().as_micros()).unwrap_or(i64::MAX)),
        )
    }
}

/// The clock of the store's machine: true time and whatever it was stepped by.
pub struct SteppedClock {
    truth: TrueClock,
    off_by_us: AtomicI64,
    /// When it was last set forward, milliseconds into the run.
    forward_at_ms: AtomicU64,
}

impl SteppedClock {
    pub fn new(truth: TrueClock) -> Arc<SteppedClock> {
        Arc::new(SteppedClock {
            truth,
            off_by_us: AtomicI64::new(0),
            forward_at_ms: AtomicU64::new(0),
        })
    }

    /// Whether it was not set forward within the last minute: two steps in a row would be one that goes too far.
    pub fn may_step_forward(&self) -> bool {
        self.passed_ms() >= self.forward_at_ms.load(Ordering::SeqCst) + 60_000
    }

    fn passed_ms(&self) -> u64 {
        u64::try_from(self.truth.passed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Steps it.
    pub fn step(&self, seconds: i64) {
        if seconds > 0 {
            self.forward_at_ms.store(self.passed_ms(), Ordering::SeqCst);
        }
        self.off_by_us.fetch_add(seconds * 1_000_000, Ordering::SeqCst);
    }

    /// Sets it right.
    pub fn set_right(&self) {
        self.off_by_us.store(0, Ordering::SeqCst);
    }

    /// How far it is off, seconds.
    pub fn off_by_s(&self) -> i64 {
        self.off_by_us.load(Ordering::SeqCst) / 1_000_000
    }
}

impl Clock for SteppedClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.truth.now().0 + self.off_by_us.load(Ordering::SeqCst))
    }
}
