//! The database's clock, as seen from here between two readings.
//!
//! Every answer of the server brings a reading. From it, and from how long ago the question was sent, follows an instant
//! that the server's clock has not passed; a clock of this machine carries it on, one that nobody sets. So the estimate is
//! never behind the server's clock by more than clocks drift between two readings, and ahead by at most a round trip.
//!
//! That clock must go on while this machine sleeps, as the server's does: else what ran out meanwhile would seem in time
//! until the next reading. The standard library's `Instant` stands still then.
//!
//! A write is decided with an instant a little ahead of the estimate, since it must not be before the server's clock when
//! the server has everything locked. How much ahead is learnt from how long that took lately.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use rustix::time::{ClockId, clock_gettime};
use wilco_core::{Clock, Timestamp};

/// The least and the most an instant is chosen ahead, in microseconds.
const LEAST_AHEAD: i64 = 300;
const MOST_AHEAD: i64 = 250_000;

/// The most that one reading which bounds nothing lets the estimate go ahead, in microseconds: more than clocks drift between
/// two.
const MOST_DRIFT: i64 = 10_000;

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
    own: Box<dyn Fn() -> i64 + Send + Sync>,
    /// The latest that our own clock told: a machine that was moved may come back with an earlier one.
    latest: AtomicI64,
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
                // A slow answer bounds it less well, and a clock runs a little faster or slower than ours. An answer may
                // be hours slow where this machine slept in between, which says nothing of the clocks.
                let more = (most.saturating_sub(offset) / 8).min(MOST_DRIFT);
                offset.saturating_add(more).max(least)
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
        Estimate::carried_by(awake_or_not)
    }

    /// The same, carried on by this clock, in microseconds.
    fn carried_by(own: impl Fn() -> i64 + Send + Sync + 'static) -> Estimate {
        Estimate {
            own: Box::new(own),
            latest: AtomicI64::new(i64::MIN),
            offset: AtomicI64::new(i64::MAX),
            ahead: AtomicI64::new(2_000),
        }
    }

    fn ours(&self) -> i64 {
        let told = (self.own)();
        self.latest.fetch_max(told, Ordering::AcqRel).max(told)
    }
}

/// Microseconds since this machine was started, those in which it was suspended included.
fn awake_or_not() -> i64 {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::Boottime;
    // Elsewhere the monotonic clock counts them, or there is none that does.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: ClockId = ClockId::Monotonic;
    let since = clock_gettime(CLOCK);
    since
        .tv_sec
        .saturating_mul(1_000_000)
        .saturating_add(since.tv_nsec / 1_000)
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

    const SECOND: i64 = 1_000_000;

    /// An estimate that was read at 5,000 s, and the clock that carries it, which stood at 100 s.
    fn by_hand() -> (Arc<AtomicI64>, Source) {
        let hand = Arc::new(AtomicI64::new(100 * SECOND));
        let own = Arc::clone(&hand);
        let source = Source::Database(Estimate::carried_by(move || own.load(Ordering::SeqCst)));
        source.read(source.ours(), 5_000 * SECOND);
        (hand, source)
    }

    #[test]
    fn the_hours_a_machine_slept_have_passed_before_the_next_reading() {
        let (hand, source) = by_hand();
        hand.store(10_900 * SECOND, Ordering::SeqCst);
        assert_eq!(source.now().0, 15_800 * SECOND);
        // A question that was sent before the sleep and answered after it bounds next to nothing.
        source.read(100 * SECOND, 15_800 * SECOND);
        let ahead = source.now().0 - 15_800 * SECOND;
        assert!((0..=MOST_DRIFT).contains(&ahead), "{ahead}");
    }

    #[test]
    fn the_estimate_stands_still_where_our_own_clock_goes_back() {
        let (hand, source) = by_hand();
        hand.store(160 * SECOND, Ordering::SeqCst);
        assert_eq!(source.now().0, 5_060 * SECOND);
        for back in [159, 100, 0, -50] {
            hand.store(back * SECOND, Ordering::SeqCst);
            assert_eq!(source.now().0, 5_060 * SECOND, "{back}");
        }
        hand.store(161 * SECOND, Ordering::SeqCst);
        assert_eq!(source.now().0, 5_061 * SECOND);
    }

    /// `/proc/uptime` counts what the machine slept, in hundredths of a second.
    #[cfg(target_os = "linux")]
    #[test]
    fn the_clock_that_carries_it_counts_what_the_machine_slept() {
        let uptime = || {
            let text = std::fs::read_to_string("/proc/uptime").expect("Linux tells it");
            let (whole, part) = text
                .split(' ')
                .next()
                .and_then(|s| s.split_once('.'))
                .expect("a number");
            let number = |s: &str| s.parse::<i64>().expect("digits");
            number(whole) * SECOND + number(part) * 10_000
        };
        let before = uptime();
        let told = awake_or_not();
        let after = uptime() + 10_000;
        assert!(before <= told && told <= after, "{before} {told} {after}");
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
