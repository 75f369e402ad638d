//! A counterparty's days: which date it is there, and when that day is over. Pure.

use time::{Date, Duration, Month, OffsetDateTime, Time, UtcOffset};
use wilco_core::Timestamp;

/// The time zone a counterparty counts its days in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zone {
    /// The same offset all year.
    Fixed(UtcOffset),
    /// Greenwich time, an hour ahead from the last Sunday of March to the last Sunday of October, 01:00 UTC each
    /// (The Summer Time Order 2002).
    London,
}

/// What a configuration may say, for the message where it says something else.
pub const ZONE_RULE: &str = "must be an offset such as +00:00 or -05:30, or Europe/London";

impl Zone {
    /// `+00:00`, `-05:30`, `Europe/London`; nothing else ([`ZONE_RULE`]).
    #[must_use]
    pub fn parse(text: &str) -> Option<Zone> {
        if text == "Europe/London" {
            return Some(Zone::London);
        }
        let (sign, rest) = match text.split_at_checked(1)? {
            ("+", rest) => (1, rest),
            ("-", rest) => (-1, rest),
            _ => return None,
        };
        let (hours, minutes) = rest.split_once(':')?;
        let two = |digits: &str| {
            let plain = digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_digit());
            plain.then(|| digits.parse::<i8>().ok()).flatten()
        };
        let (hours, minutes) = (two(hours)?, two(minutes)?);
        if hours > 14 || minutes > 59 {
            return None;
        }
        UtcOffset::from_hms(sign * hours, sign * minutes, 0)
            .ok()
            .map(Zone::Fixed)
    }

    /// The date at an instant.
    #[must_use]
    pub fn date_of(self, at: OffsetDateTime) -> Date {
        at.to_offset(self.offset_at(at)).date()
    }

    /// The date at an instant of the store's.
    #[must_use]
    pub fn date_at(self, at: Timestamp) -> Date {
        let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(at.0) * 1_000);
        self.date_of(at.unwrap_or(OffsetDateTime::UNIX_EPOCH))
    }

    /// The instant the day `date` is over.
    #[must_use]
    pub fn end_of(self, date: Date) -> Timestamp {
        let midnight = date
            .saturating_add(Duration::DAY)
            .with_time(Time::MIDNIGHT)
            .assume_utc();
        // Neither change of the clocks falls within an hour of midnight, so the offset an hour off is still right.
        let end = midnight - Duration::seconds(i64::from(self.offset_at(midnight).whole_seconds()));
        Timestamp::from_datetime(end)
    }

    /// The offset at an instant.
    #[must_use]
    pub fn offset_at(self, at: OffsetDateTime) -> UtcOffset {
        let utc = match self {
            Zone::Fixed(offset) => return offset,
            Zone::London => at.to_offset(UtcOffset::UTC),
        };
        let change = |month| last_sunday(utc.year(), month).and_then(|d| d.with_hms(1, 0, 0).ok());
        let summer = match (change(Month::March), change(Month::October)) {
            (Some(start), Some(end)) => start.assume_utc() <= utc && utc < end.assume_utc(),
            _ => false,
        };
        UtcOffset::from_hms(i8::from(summer), 0, 0).unwrap_or(UtcOffset::UTC)
    }
}

/// A date as a line writes it, `YYYYMMDD`.
#[must_use]
pub fn on_line(date: Date) -> String {
    format!("{:04}{:02}{:02}", date.year(), u8::from(date.month()), date.day())
}

/// The date a line writes as `YYYYMMDD`; `None` for what is none.
#[must_use]
pub fn from_line(text: &str) -> Option<Date> {
    if text.len() != 8 || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let month = Month::try_from(text.get(4..6)?.parse::<u8>().ok()?).ok()?;
    Date::from_calendar_date(text.get(..4)?.parse().ok()?, month, text.get(6..)?.parse().ok()?).ok()
}

fn last_sunday(year: i32, month: Month) -> Option<Date> {
    let last = Date::from_calendar_date(year, month, 31).ok()?;
    Some(last - Duration::days(i64::from(last.weekday().number_days_from_sunday())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::from_rw1(text).unwrap_or_else(|| panic!("a time: {text}"))
    }

    #[test]
    fn a_day_is_counted_in_its_own_zone() {
        let day = |zone: &str, instant: &str| {
            let zone = Zone::parse(zone).unwrap_or_else(|| panic!("a zone: {zone}"));
            let date = zone.date_at(at(instant));
            (on_line(date), zone.end_of(date).to_rw1())
        };
        let expect = |date: &str, end: &str| (date.to_owned(), end.to_owned());
        for (zone, instant, date, end) in [
            ("+00:00", "20261002T2330Z", "20261002", "20261003T0000Z"),
            ("+01:00", "20261002T2330Z", "20261003", "20261003T2300Z"),
            ("-05:30", "20261002T0529Z", "20261001", "20261002T0530Z"),
            ("Europe/London", "20260701T2330Z", "20260702", "20260702T2300Z"),
            ("Europe/London", "20261201T2330Z", "20261201", "20261202T0000Z"),
            ("Europe/London", "20261025T0900Z", "20261025", "20261026T0000Z"),
        ] {
            assert_eq!(day(zone, instant), expect(date, end), "{zone} {instant}");
        }
    }

    #[test]
    fn london_keeps_summer_time() {
        for (day, end) in [
            ("20260328", "20260329T0000Z"),
            ("20260329", "20260329T2300Z"),
            ("20261024", "20261024T2300Z"),
            ("20261025", "20261026T0000Z"),
        ] {
            let date = from_line(day).unwrap_or_else(|| panic!("a day: {day}"));
            assert_eq!(Zone::London.end_of(date).to_rw1(), end, "{day}");
        }
    }

    #[test]
    fn what_is_no_zone_or_date_is_none() {
        for bad in [
            "", "UTC", "+1:00", "+15:00", "+00:60", "00:00", "+0é:00", "++1:00",
        ] {
            assert_eq!(Zone::parse(bad), None, "{bad}");
        }
        assert!(from_line("20280229").is_some());
        for bad in [
            "",
            "20260230",
            "20261302",
            "2026-10-02",
            "2026100é",
            "202610021",
            "+2026100",
            "２０26100",
        ] {
            assert_eq!(from_line(bad), None, "{bad}");
        }
    }
}
