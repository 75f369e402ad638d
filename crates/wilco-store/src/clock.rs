//! The store's clock: the clock handed in, held to never run backwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use wilco_core::{Clock, Timestamp};

use crate::StoreError;

/// How far the clock may fall behind before an operator must have a look, in seconds.
pub(crate) const TOLERATED_S: i64 = 60;

/// Reads the clock handed in, and never answers an instant that was given out before.
///
/// A confirmation is judged by this clock, so a step back must not bring a dead statement to life: it is bridged
/// for up to [`TOLERATED_S`] seconds by standing still, and refused beyond that until an operator acknowledges it. From then
/// on the clock is read with an offset that continues from the highest instant, so that time passes again; the offset
/// is dropped as soon as the clock itself has caught up.
pub(crate) struct StoreClock {
    source: Arc<dyn Clock>,
    highest: AtomicI64,
    offset: AtomicI64,
}

impl StoreClock {
    /// A clock that continues after `highest`, the highest instant the store has ever written.
    pub(crate) fn new(source: Arc<dyn Clock>, highest: Timestamp) -> StoreClock {
        StoreClock {
            source,
            highest: AtomicI64::new(highest.0),
            offset: AtomicI64::new(0),
        }
    }

    /// The instant for one write: later than every instant given out before.
    ///
    /// # Errors
    /// `Down` when the clock is too far behind and nobody has acknowledged it.
    pub(crate) fn next(&self) -> Result<Timestamp, StoreError> {
        self.next_ahead(0)
    }

    /// The same, chosen so many microseconds ahead of the clock.
    ///
    /// # Errors
    /// Those of [`Self::next`].
    pub(crate) fn next_ahead(&self, ahead: i64) -> Result<Timestamp, StoreError> {
        let reading = self.reading();
        self.refuse_if_behind(reading)?;
        let reading = Timestamp(reading.0.saturating_add(ahead));
        let mut given = reading.0;
        // Only one writer calls this, but nothing is lost by being safe for several.
        let _ = self
            .highest
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |highest| {
                given = reading.0.max(highest.saturating_add(1));
                Some(given)
            });
        Ok(Timestamp(given))
    }

    /// Now, never earlier than an instant given out.
    pub(crate) fn now(&self) -> Timestamp {
        self.reading().max(self.highest())
    }

    /// Takes in an instant that somebody else wrote.
    pub(crate) fn saw(&self, at: Timestamp) {
        self.highest.fetch_max(at.0, Ordering::AcqRel);
    }

    /// The highest instant given out or found in the store.
    pub(crate) fn highest(&self) -> Timestamp {
        Timestamp(self.highest.load(Ordering::Acquire))
    }

    /// Seconds the clock handed in is behind the highest instant; zero when it is not.
    pub(crate) fn behind_s(&self) -> i64 {
        self.highest().seconds_since(self.source.now()).max(0)
    }

    /// Whether writes may be stamped by it.
    pub(crate) fn trusted(&self) -> bool {
        self.refuse_if_behind(self.reading()).is_ok()
    }

    /// Continues from the highest instant.
    pub(crate) fn acknowledge(&self) {
        let behind = self.highest().0.saturating_sub(self.source.now().0);
        self.offset.store(behind.max(0), Ordering::Release);
    }

    fn reading(&self) -> Timestamp {
        let raw = self.source.now();
        let offset = self.offset.load(Ordering::Acquire);
        if offset == 0 {
            return raw;
        }
        if raw >= self.highest() {
            self.offset.store(0, Ordering::Release);
            return raw;
        }
        Timestamp(raw.0.saturating_add(offset))
    }

    fn refuse_if_behind(&self, reading: Timestamp) -> Result<(), StoreError> {
        let behind_s = self.highest().seconds_since(reading);
        if behind_s <= TOLERATED_S {
            return Ok(());
        }
        Err(StoreError::Down(format!(
            "the clock is {behind_s} s behind the latest instant written ({}): set the clock right, or acknowledge the \
             step back so that time counts on from there",
            self.highest().to_rfc3339()
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Hand(AtomicI64);

    impl Clock for Hand {
        fn now(&self) -> Timestamp {
            Timestamp(self.0.load(Ordering::SeqCst))
        }
    }

    const SECOND: i64 = 1_000_000;

    fn at(seconds: i64) -> (Arc<Hand>, StoreClock) {
        let hand = Arc::new(Hand(AtomicI64::new(seconds * SECOND)));
        let clock = StoreClock::new(hand.clone(), Timestamp(0));
        (hand, clock)
    }

    #[test]
    fn every_write_gets_a_later_instant_even_when_the_clock_stands_still() {
        let (_, clock) = at(100);
        let given: Vec<i64> = (0..3).filter_map(|_| clock.next().ok()).map(|t| t.0).collect();
        assert_eq!(given, [100 * SECOND, 100 * SECOND + 1, 100 * SECOND + 2]);
        assert_eq!(clock.now().0, 100 * SECOND + 2);
    }

    #[test]
    fn a_small_step_back_is_bridged_and_a_large_one_refused_until_acknowledged() {
        let (hand, clock) = at(1_000);
        assert!(clock.next().is_ok());

        hand.0.store(941 * SECOND, Ordering::SeqCst);
        assert_eq!(clock.next(), Ok(Timestamp(1_000 * SECOND + 1)));

        hand.0.store(900 * SECOND, Ordering::SeqCst);
        assert!(!clock.trusted());
        assert_eq!(clock.behind_s(), 100);
        assert!(matches!(clock.next(), Err(StoreError::Down(why)) if why.contains("100 s behind")));

        clock.acknowledge();
        assert!(clock.trusted());
        hand.0.store(930 * SECOND, Ordering::SeqCst);
        assert_eq!(
            clock.next(),
            Ok(Timestamp(1_030 * SECOND + 1)),
            "thirty seconds have passed"
        );
    }

    #[test]
    fn the_offset_is_dropped_once_the_clock_has_caught_up_and_a_second_step_back_is_refused_again() {
        let (hand, clock) = at(1_000);
        assert!(clock.next().is_ok());
        hand.0.store(500 * SECOND, Ordering::SeqCst);
        clock.acknowledge();
        assert!(clock.next().is_ok());

        hand.0.store(1_010 * SECOND, Ordering::SeqCst);
        assert_eq!(clock.next(), Ok(Timestamp(1_010 * SECOND)));
        hand.0.store(600 * SECOND, Ordering::SeqCst);
        assert!(clock.next().is_err());
    }
}
