//! The bank's clock. Two things are called time here and must not be mixed up: the *instant*, which always
//! runs (keys age by it, payments settle by it), and the *bank time*, which is what answers show and which a
//! frozen `today` holds on one date.

use std::sync::atomic::{AtomicI64, Ordering};

use time::{Date, Duration, OffsetDateTime, Time, format_description::well_known::Rfc3339};

/// The last moment of a bank day that a whole-second stamp can show.
const LAST_SECOND: Time = time::macros::time!(23:59:59);

/// One reading of the clock, taken once for each request so that everything it writes agrees.
#[derive(Debug, Clone)]
pub struct Stamp {
    /// The running instant, microseconds since 1970 (UTC).
    pub instant_us: i64,
    /// Bank time as RFC 3339 with whole seconds, UTC.
    pub shown: String,
    /// Until when an order received now may be used, as RFC 3339.
    pub cut_off_shown: String,
    /// The same cut-off as an instant, microseconds since 1970.
    pub cut_off_us: i64,
    /// The bank's date.
    pub today: Date,
    /// Bank time itself.
    bank_time: OffsetDateTime,
}

impl Stamp {
    /// How many days after the bank's today a moment of bank time lies. The bank's days are UTC's.
    pub fn days_until(&self, at: OffsetDateTime) -> i64 {
        (at.to_offset(time::UtcOffset::UTC).date() - self.today).whole_days()
    }

    /// The instant at which bank time reaches `at`: as far ahead as bank time has to go. A frozen date does not move by
    /// itself, but its future comes all the same.
    pub fn instant_of(&self, at: OffsetDateTime) -> i64 {
        let ahead = i64::try_from((at - self.bank_time).whole_microseconds()).unwrap_or(i64::MAX);
        self.instant_us.saturating_add(ahead)
    }
}

/// The bank's clock: real time plus what operators of the lab have added, with the shown date frozen or not.
#[derive(Debug)]
pub struct Clock {
    today: Option<Date>,
    /// The real date when the lab started: a frozen day is over for the wall clock once this has passed.
    started_on: Date,
    offset_s: AtomicI64,
}

impl Clock {
    /// A clock that shows `today` for ever, or follows real time (UTC), `offset_s` seconds ahead.
    pub fn new(today: Option<Date>, offset_s: i64) -> Self {
        let clock = Self {
            today,
            started_on: Date::MIN,
            offset_s: AtomicI64::new(offset_s),
        };
        let started_on = clock.instant().date();
        Self { started_on, ..clock }
    }

    /// Reads the clock.
    pub fn stamp(&self) -> Stamp {
        stamp_at(self.instant(), self.today, self.started_on)
    }

    /// Seconds the lab is ahead of real time.
    pub fn offset_s(&self) -> i64 {
        self.offset_s.load(Ordering::SeqCst)
    }

    /// Moves the lab ahead; it cannot be turned back. The caller has made the new offset durable.
    pub fn offset_set(&self, offset_s: i64) {
        self.offset_s.fetch_max(offset_s, Ordering::SeqCst);
    }

    fn instant(&self) -> OffsetDateTime {
        OffsetDateTime::now_utc().saturating_add(Duration::seconds(self.offset_s()))
    }
}

fn stamp_at(instant: OffsetDateTime, today: Option<Date>, started_on: Date) -> Stamp {
    let (bank_time, cut_off) = match today {
        None => (instant, instant.replace_time(LAST_SECOND)),
        Some(today) => {
            let time = if instant.date() > started_on {
                LAST_SECOND
            } else {
                instant.time()
            };
            let day_end = today.with_time(LAST_SECOND).assume_utc();
            // A frozen day must never end under a running test, whatever its date: the cut-off is the end of
            // that day or a full day from now, whichever is later.
            let day_from_now = instant.saturating_add(Duration::DAY + Duration::SECOND);
            (today.with_time(time).assume_utc(), day_end.max(day_from_now))
        }
    };
    let cut_off = whole_second(cut_off);
    Stamp {
        instant_us: micros(instant),
        shown: rfc3339(bank_time),
        cut_off_shown: rfc3339(cut_off),
        cut_off_us: micros(cut_off),
        today: bank_time.date(),
        bank_time,
    }
}

fn micros(at: OffsetDateTime) -> i64 {
    i64::try_from(at.unix_timestamp_nanos() / 1_000).unwrap_or(i64::MAX)
}

fn whole_second(at: OffsetDateTime) -> OffsetDateTime {
    at.replace_nanosecond(0).unwrap_or(at)
}

fn rfc3339(at: OffsetDateTime) -> String {
    // Formatting fails only for years beyond 9999, which no option of the lab can produce in earnest.
    whole_second(at)
        .format(&Rfc3339)
        .unwrap_or_else(|_| String::from("9999-12-31T23:59:59Z"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::{date, datetime};

    #[test]
    fn a_frozen_day_keeps_its_date_and_never_ends() {
        let frozen = Some(date!(2026 - 09 - 14));
        let started = date!(2026 - 11 - 30);
        let noon = stamp_at(datetime!(2026-11-30 12:00:00.5 UTC), frozen, started);
        assert_eq!(noon.shown, "2026-09-14T12:00:00Z");
        assert_eq!(noon.cut_off_shown, "2026-12-01T12:00:01Z");
        let next_day = stamp_at(datetime!(2026-12-01 00:00:01 UTC), frozen, started);
        assert_eq!(next_day.shown, "2026-09-14T23:59:59Z");
        assert!(next_day.cut_off_us > next_day.instant_us);
    }

    #[test]
    fn a_day_frozen_ahead_is_open_until_it_is_over() {
        let stamp = stamp_at(
            datetime!(2026-11-30 12:00 UTC),
            Some(date!(2030 - 01 - 01)),
            date!(2026 - 11 - 30),
        );
        assert_eq!(stamp.cut_off_shown, "2030-01-01T23:59:59Z");
    }

    #[test]
    fn a_running_clock_ends_its_day_at_midnight() {
        let stamp = stamp_at(datetime!(2026-11-30 12:00:00.9 UTC), None, date!(2026 - 11 - 29));
        assert_eq!(stamp.shown, "2026-11-30T12:00:00Z");
        assert_eq!(stamp.cut_off_shown, "2026-11-30T23:59:59Z");
    }

    #[test]
    fn a_frozen_days_future_is_as_far_away_as_it_looks() {
        let noon = datetime!(2026-11-30 12:00 UTC);
        let stamp = stamp_at(noon, Some(date!(2026 - 09 - 14)), date!(2026 - 11 - 30));
        let at = datetime!(2026-09-17 00:30 +01:00);
        assert_eq!(stamp.days_until(at), 2, "the bank's days are UTC's");
        let in_two_and_a_half_days = noon + Duration::hours(59) + Duration::minutes(30);
        assert_eq!(stamp.instant_of(at), micros(in_two_and_a_half_days));
    }

    #[test]
    fn the_clock_cannot_be_turned_back() {
        let clock = Clock::new(None, 100);
        clock.offset_set(50);
        assert_eq!(clock.offset_s(), 100);
        clock.offset_set(86_400);
        assert_eq!(clock.offset_s(), 86_400);
    }
}
