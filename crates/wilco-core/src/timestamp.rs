//! Instants, as the store writes them.
//!
//! An instant is a count of microseconds since 1970-01-01T00:00:00Z, an `i64` in both databases. RW1 writes times to
//! the minute (`YYYYMMDDTHHMMZ`, RW1 specification §3.1 `exp`); the instant such a time names is the one its minute
//! begins with.

use serde::{Deserialize, Serialize};
use time::{Date, Month, OffsetDateTime, PrimitiveDateTime, Time};

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_MINUTE: i64 = 60 * MICROS_PER_SECOND;
const MICROS_PER_DAY: i64 = 24 * 60 * MICROS_PER_MINUTE;

/// An instant in microseconds since the Unix epoch, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

/// Where the shell gets the time from. Pure code never calls it: it is handed a [`Timestamp`].
pub trait Clock: Send + Sync {
    /// The current instant.
    fn now(&self) -> Timestamp;
}

impl Timestamp {
    /// The last instant there is; stands for "no limit".
    pub const MAX: Timestamp = Timestamp(i64::MAX);

    /// The instant `seconds` after this one (before, if negative). Saturates at the ends.
    #[must_use]
    pub fn plus_seconds(self, seconds: i64) -> Timestamp {
        Timestamp(self.0.saturating_add(seconds.saturating_mul(MICROS_PER_SECOND)))
    }

    /// Whole seconds from `earlier` to this instant, rounded down; negative if this one is earlier.
    #[must_use]
    pub fn seconds_since(self, earlier: Timestamp) -> i64 {
        self.0.saturating_sub(earlier.0).div_euclid(MICROS_PER_SECOND)
    }

    /// The first whole minute at or after this instant.
    #[must_use]
    pub fn minute_up(self) -> Timestamp {
        let rest = self.0.rem_euclid(MICROS_PER_MINUTE);
        if rest == 0 {
            self
        } else {
            Timestamp(self.0.saturating_add(MICROS_PER_MINUTE - rest))
        }
    }

    /// The last whole minute at or before this instant.
    #[must_use]
    pub fn minute_down(self) -> Timestamp {
        Timestamp(self.0 - self.0.rem_euclid(MICROS_PER_MINUTE))
    }

    /// The instant an RW1 time (`YYYYMMDDTHHMMZ`) names, or `None` if it is not one.
    #[must_use]
    pub fn from_rw1(text: &str) -> Option<Timestamp> {
        let bytes = text.as_bytes();
        if bytes.len() != 14 || bytes[8] != b'T' || bytes[13] != b'Z' {
            return None;
        }
        let date = date_from_rw1(&text[..8])?;
        let hour = digits(&text[9..11])?;
        let minute = digits(&text[11..13])?;
        let time = Time::from_hms(u8::try_from(hour).ok()?, u8::try_from(minute).ok()?, 0).ok()?;
        Some(Timestamp::from_datetime(
            PrimitiveDateTime::new(date, time).assume_utc(),
        ))
    }

    /// This instant as an RW1 time, cut to the minute it falls in.
    #[must_use]
    pub fn to_rw1(self) -> String {
        let t = self.to_datetime();
        format!(
            "{:04}{:02}{:02}T{:02}{:02}Z",
            t.year(),
            u8::from(t.month()),
            t.day(),
            t.hour(),
            t.minute()
        )
    }

    /// The instant the UTC day `YYYYMMDD` is over (the next day's first instant), or `None` if it is no date.
    #[must_use]
    pub fn end_of_day(date: &str) -> Option<Timestamp> {
        let start = PrimitiveDateTime::new(date_from_rw1(date)?, Time::MIDNIGHT).assume_utc();
        Some(Timestamp(
            Timestamp::from_datetime(start).0.saturating_add(MICROS_PER_DAY),
        ))
    }

    /// This instant as RFC 3339 text with milliseconds, for people and JSON (`2026-10-02T14:05:09.123Z`).
    #[must_use]
    pub fn to_rfc3339(self) -> String {
        let t = self.to_datetime();
        format!(
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
            t.year(),
            u8::from(t.month()),
            t.day(),
            t.hour(),
            t.minute(),
            t.second(),
            t.millisecond()
        )
    }

    /// From the `time` crate's instant.
    #[must_use]
    pub fn from_datetime(t: OffsetDateTime) -> Timestamp {
        Timestamp(i64::try_from(t.unix_timestamp_nanos() / 1_000).unwrap_or(i64::MAX))
    }

    fn to_datetime(self) -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000)
            .unwrap_or(OffsetDateTime::UNIX_EPOCH)
    }
}

fn digits(text: &str) -> Option<u32> {
    if text.bytes().all(|b| b.is_ascii_digit()) {
        text.parse().ok()
    } else {
        None
    }
}

fn date_from_rw1(text: &str) -> Option<Date> {
    if text.len() != 8 || !text.is_ascii() {
        return None;
    }
    let year = i32::try_from(digits(&text[..4])?).ok()?;
    let month = Month::try_from(u8::try_from(digits(&text[4..6])?).ok()?).ok()?;
    Date::from_calendar_date(year, month, u8::try_from(digits(&text[6..])?).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_rw1_time_names_the_instant_its_minute_begins() {
        let t = Timestamp::from_rw1("20261002T1405Z").expect("a time");
        assert_eq!(t.to_rfc3339(), "2026-10-02T14:05:00.000Z");
        assert_eq!(t.to_rw1(), "20261002T1405Z");
        assert_eq!(Timestamp(t.0 + 1).minute_up().to_rw1(), "20261002T1406Z");
        assert_eq!(t.minute_up(), t);
        assert_eq!(Timestamp(t.0 + 59_999_999).minute_down(), t);
    }

    #[test]
    fn what_is_no_time_is_none() {
        for bad in [
            "20261302T1405Z",
            "20260230T1405Z",
            "20261002T2460Z",
            "20261002T1405",
            "2026100éT1405Z",
            "",
        ] {
            assert_eq!(Timestamp::from_rw1(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_day_ends_with_the_next_days_first_instant() {
        let end = Timestamp::end_of_day("20261231").expect("a date");
        assert_eq!(end.to_rfc3339(), "2027-01-01T00:00:00.000Z");
        assert_eq!(Timestamp::end_of_day("20260231"), None);
    }
}
