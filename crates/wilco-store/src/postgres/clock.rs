//! The database's clock, as seen from here between two readings.
//!
//! Every answer of the server brings a reading. From it, and from how long ago the question was sent, follows an instant
//! that the server's clock has not passed; this process's own monotonic clock carries it on. So the estimate is never
//! behind the server's clock by more than clocks drift between two readings, and ahead by at most a round trip.
//!
//! A write is decided with an instant a little ahead of the estimate, since it must not be before the server's clock when
//! the server has everything locked. How much ahead is learnt from how long that took lately.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use wilco_core::{Clock, Timestamp};

/// The least and the most an instant is chosen ahead, in microseconds.
const LEAST_AHEAD: i64 = 300;
const MOST_AHEAD: i64 = 250_000;

/// Where instants come from.
pub(super) enum Source {
    /// The database's clock.
    Database(Estimate),
    /// A clock that was handed in, for tests that move it by hand.
    #[cfg_attr(not(feature = "suite"), expect(dead_code))]
    Given(Arc<dyn Clock>),
}

/// An estimate of the database's clock.
pub(super) struct Estimate {
    origin: Instant,
    /// What the server's clock is ahead of ours, at most.
    offset: AtomicI64,
    ahead: AtomicI64,
}

impl Source {
    /// Microseconds of this process's own clock, for [`Source::read`].
    pub(super) fn ours(&self) -> i64 {
        match self {
            Source::Database(e) => e.ours(),
            Source::Given(_) => 0,
        }
    }

    /// Takes in a reading of the server's clock, answered to a question sent at `sent`.
    pub(super) fn read(&self, sent: i64, server: i64) {
        let Source::Database(e) = self else { return };
        let most = server.saturating_sub(sent);
        let least = server.saturating_sub(e.ours());
        let update = |offset: i64| {
            Some(if most <= offset {
                // A tighter bound, or a clock that was set back.
                most
            } else {
                // A slow answer bounds it less well, and a clock runs a little faster or slower than ours.
                offset.saturating_add((most - offset) / 8).max(least)
            })
        };
        let _ = e.offset.fetch_update(Ordering::AcqRel, Ordering::Acquire, update);
    }

    /// Takes in how a write went that was decided with `at`, at `sent`: the server's clock said `server` once everything
    /// was locked.
    pub(super) fn locked(&self, sent: i64, at: Timestamp, server: i64) {
        let Source::Database(e) = self else { return };
        let late = server.saturating_sub(at.0);
        if late > MOST_AHEAD {
            // No write takes so long: the server's clock was set forward.
            let offset = server.saturating_sub(e.ours());
            e.offset.fetch_max(offset, Ordering::AcqRel);
            return;
        }
        let needed = server.saturating_sub(sent.saturating_add(e.offset.load(Ordering::Acquire)));
        let update = |ahead: i64| {
            let less = ahead - ahead / 16;
            Some(needed.saturating_mul(2).max(less).clamp(LEAST_AHEAD, MOST_AHEAD))
        };
        let _ = e.ahead.fetch_update(Ordering::AcqRel, Ordering::Acquire, update);
        self.read(sent, server);
    }

    /// How far ahead the next write is decided, in microseconds.
    pub(super) fn ahead(&self) -> i64 {
        match self {
            Source::Database(e) => e.ahead.load(Ordering::Acquire),
            Source::Given(_) => 0,
        }
    }

    /// Whether instants are compared with the server's clock.
    pub(super) fn is_the_servers(&self) -> bool {
        matches!(self, Source::Database(_))
    }
}

impl Estimate {
    /// No reading yet: the first sets it.
    pub(super) fn new() -> Estimate {
        Estimate {
            origin: Instant::now(),
            offset: AtomicI64::new(i64::MAX),
            ahead: AtomicI64::new(2_000),
        }
    }

    fn ours(&self) -> i64 {
        i64::try_from(self.origin.elapsed().as_micros()).unwrap_or(i64::MAX)
    }
}

impl Clock for Source {
    fn now(&self) -> Timestamp {
        match self {
            Source::Database(e) => Timestamp(e.ours().saturating_add(e.offset.load(Ordering::Acquire))),
            Source::Given(clock) => clock.now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate() -> Source {
        Source::Database(Estimate::new())
    }

    #[test]
    fn the_estimate_is_never_behind_the_last_reading() {
        let source = estimate();
        for server in [5_000_000_000, 5_000_100_000, 4_000_000_000, 4_000_050_000] {
            source.read(source.ours(), server);
            assert!(source.now().0 >= server, "{server}");
            assert!(source.now().0 < server + 10_000_000_000, "{server}");
        }
    }

    #[test]
    fn a_write_that_was_late_is_decided_further_ahead_the_next_time() {
        let source = estimate();
        source.read(source.ours(), 5_000_000_000);
        let (sent, at) = (source.ours(), source.now());
        source.locked(sent, at, at.0 + 40_000);
        assert!(source.ahead() >= 40_000);
        for _ in 0..500 {
            source.locked(source.ours(), source.now(), source.now().0 - 1_000);
        }
        assert_eq!(source.ahead(), LEAST_AHEAD, "and less once it takes less");
    }

    #[test]
    fn a_clock_set_forward_is_followed_at_once() {
        let source = estimate();
        source.read(source.ours(), 5_000_000_000);
        let at = source.now();
        source.locked(source.ours(), at, at.0 + 60_000_000);
        assert!(source.now().0 >= at.0 + 60_000_000);
    }
}
