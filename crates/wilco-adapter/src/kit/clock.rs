//! Time that moves only when it is moved.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use wilco_core::{Clock, Timestamp};

/// A clock that stands still until somebody moves it.
#[derive(Debug)]
pub struct Still(AtomicI64);

impl Still {
    /// A clock that stands at `at`.
    #[must_use]
    pub fn at(at: Timestamp) -> Arc<Still> {
        Arc::new(Still(AtomicI64::new(at.0)))
    }

    /// Moves it on by so many seconds (back, if negative).
    pub fn pass(&self, seconds: i64) {
        self.pass_micros(seconds.saturating_mul(1_000_000));
    }

    /// Moves it on by so many microseconds.
    pub fn pass_micros(&self, micros: i64) {
        self.0.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}
