//! A clock moved by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use wilco_core::{Clock, Timestamp};

/// Stands still until it is moved.
pub struct HandClock(AtomicI64);

impl HandClock {
    /// A clock that stands at an instant in 2026.
    #[must_use]
    pub fn new() -> Arc<HandClock> {
        Arc::new(HandClock(AtomicI64::new(1_790_000_000_000_000)))
    }

    /// Moves it by so many seconds, back where negative.
    pub fn advance_s(&self, seconds: i64) {
        self.0.fetch_add(seconds * 1_000_000, Ordering::SeqCst);
    }
}

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}
