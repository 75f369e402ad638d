//! The bank's days: which date it is there, and when that day is over.

use time::{Date, Duration, Month, OffsetDateTime, Time, UtcOffset};
use wilco_core::Timestamp;

use super::{ConfigError, wrong};

/// The bank's time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zone {
    Fixed(UtcOffset),
    /// Greenwich time, an hour ahead from the last Sunday of March to the last Sunday of October, 01:00 UTC each
    /// (The Summer Time Order 2002).
    London,
}

impl Zone {
    pub(super) fn parse(text: &str) -> Result<Zone, ConfigError> {
        if text == "Europe/London" {
            return Ok(Zone::London);
        }
        let rule = "must be an offset such as +00:00 or -05:30, or Europe/London";
        let bad = || wrong("time_zone", rule, text);
        let bytes = text.as_bytes();
        if bytes.len() != 6 || bytes[3] != b':' || !text.is_ascii() {
            return Err(bad());
        }
        let number = |from: usize| {
            let two = &bytes[from..from + 2];
            two.iter()
                .all(u8::is_ascii_digit)
                .then(|| i8::try_from((two[0] - b'0') * 10 + (two[1] - b'0')).unwrap_or(i8::MAX))
        };
        let (hours, minutes) = (number(1).ok_or_else(bad)?, number(4).ok_or_else(bad)?);
        let sign = match bytes[0] {
            b'+' => 1,
            b'-' => -1,
            _ => return Err(bad()),
        };
        if hours > 14 || minutes > 59 {
            return Err(bad());
        }
        UtcOffset::from_hms(sign * hours, sign * minutes, 0)
            .map(Zone::Fixed)
            .map_err(|_| bad())
    }

    /// The bank's date at an instant.
    pub fn date_of(self, at: OffsetDateTime) -> Date {
        at.to_offset(self.offset_at(at)).date()
    }

    /// The instant the bank's day `date` is over.
    pub fn end_of(self, date: Date) -> Timestamp {
        let midnight = date
            .saturating_add(Duration::DAY)
            .with_time(Time::MIDNIGHT)
            .assume_utc();
        // Neither change of the clocks falls within an hour of midnight, so the offset an hour off is still right.
        let end = midnight - Duration::seconds(i64::from(self.offset_at(midnight).whole_seconds()));
        Timestamp::from_datetime(end)
    }

    /// Noon of the bank's day `date`, with the bank's offset: wherever an instant of it is read, it is that day.
    pub fn noon_of(self, date: Date) -> OffsetDateTime {
        let noon = date.with_time(time::macros::time!(12:00)).assume_utc();
        // The clocks change before five in the morning, so the offset at noon UTC is that of noon here.
        date.with_time(time::macros::time!(12:00))
            .assume_offset(self.offset_at(noon))
    }

    fn offset_at(self, at: OffsetDateTime) -> UtcOffset {
        match self {
            Zone::Fixed(offset) => offset,
            Zone::London => {
                let utc = at.to_offset(UtcOffset::UTC);
                let change = |month| last_sunday(utc.year(), month).map(|d| d.with_hms(1, 0, 0));
                let summer = match (change(Month::March), change(Month::October)) {
                    (Some(Ok(start)), Some(Ok(end))) => start.assume_utc() <= utc && utc < end.assume_utc(),
                    _ => false,
                };
                let hours = i8::from(summer);
                UtcOffset::from_hms(hours, 0, 0).unwrap_or(UtcOffset::UTC)
            }
        }
    }
}

fn last_sunday(year: i32, month: Month) -> Option<Date> {
    let last = Date::from_calendar_date(year, month, 31).ok()?;
    Some(last - Duration::days(i64::from(last.weekday().number_days_from_sunday())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::{date, datetime};

    #[test]
    fn the_banks_day_is_counted_in_its_own_zone() {
        let ahead = Zone::parse("+01:00").unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(
            ahead.date_of(datetime!(2026-10-02 23:30 UTC)),
            date!(2026 - 10 - 03)
        );
        assert_eq!(
            ahead.end_of(date!(2026 - 10 - 02)).to_rfc3339(),
            "2026-10-02T23:00:00.000Z"
        );
        let behind = Zone::parse("-05:30").unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(
            behind.date_of(datetime!(2026-10-02 05:29 UTC)),
            date!(2026 - 10 - 01)
        );
        assert_eq!(
            behind.end_of(date!(2026 - 10 - 02)).to_rfc3339(),
            "2026-10-03T05:30:00.000Z"
        );
    }

    #[test]
    fn noon_is_noon_on_the_days_the_clocks_change() {
        let noon = |day| Zone::London.noon_of(day).to_string();
        assert_eq!(noon(date!(2026 - 03 - 28)), "2026-03-28 12:00:00.0 +00:00:00");
        assert_eq!(noon(date!(2026 - 03 - 29)), "2026-03-29 12:00:00.0 +01:00:00");
        assert_eq!(noon(date!(2026 - 10 - 25)), "2026-10-25 12:00:00.0 +00:00:00");
        let far = Zone::parse("+14:00").unwrap_or_else(|e| panic!("{e}"));
        let at = far.noon_of(date!(2026 - 10 - 02));
        assert_eq!(far.date_of(at), date!(2026 - 10 - 02));
    }

    #[test]
    fn london_keeps_summer_time() {
        let end = |day| Zone::London.end_of(day).to_rfc3339();
        assert_eq!(end(date!(2026 - 03 - 28)), "2026-03-29T00:00:00.000Z");
        assert_eq!(end(date!(2026 - 03 - 29)), "2026-03-29T23:00:00.000Z");
        assert_eq!(end(date!(2026 - 10 - 24)), "2026-10-24T23:00:00.000Z");
        assert_eq!(end(date!(2026 - 10 - 25)), "2026-10-26T00:00:00.000Z");
        assert_eq!(
            Zone::London.date_of(datetime!(2026-07-01 23:30 UTC)),
            date!(2026 - 07 - 02)
        );
        assert_eq!(
            Zone::London.date_of(datetime!(2026-12-01 23:30 UTC)),
            date!(2026 - 12 - 01)
        );
    }
}
