//! Change windows: `YYYYMMDDTHHMM-HHMM` in a place's own time, as two instants. Pure.

use time::{Date, Duration, Month, OffsetDateTime, PrimitiveDateTime, Time, UtcOffset};
use wilco_adapter::zone::Zone;
use wilco_core::Timestamp;

/// When something may be changed: from `opens` on, and before `closes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub opens: Timestamp,
    pub closes: Timestamp,
}

impl Window {
    /// The window a slot `win` names. An end that is not after the start is the next day's. `None` for what is no
    /// window, one without length, and one that names an hour the zone's clocks skip.
    pub fn parse(win: &str, zone: Zone) -> Option<Window> {
        let bytes = win.as_bytes();
        if bytes.len() != 18 || bytes[8] != b'T' || bytes[13] != b'-' || !win.is_ascii() {
            return None;
        }
        let number = |from: usize, to: usize| -> Option<u16> {
            let digits = &win[from..to];
            digits
                .bytes()
                .all(|b| b.is_ascii_digit())
                .then(|| digits.parse().ok())?
        };
        let small = |from: usize| u8::try_from(number(from, from + 2)?).ok();
        let month = Month::try_from(small(4)?).ok()?;
        let date = Date::from_calendar_date(i32::from(number(0, 4)?), month, small(6)?).ok()?;
        let start = Time::from_hms(small(9)?, small(11)?, 0).ok()?;
        let end = Time::from_hms(small(14)?, small(16)?, 0).ok()?;
        let last_day = match end.cmp(&start) {
            std::cmp::Ordering::Greater => date,
            std::cmp::Ordering::Less => date.next_day()?,
            std::cmp::Ordering::Equal => return None,
        };
        let window = Window {
            opens: instant(zone, PrimitiveDateTime::new(date, start))?,
            closes: instant(zone, PrimitiveDateTime::new(last_day, end))?,
        };
        (window.opens < window.closes).then_some(window)
    }

    /// How a slot `win` writes the window of so many minutes that begins with `now`'s minute, and that window.
    pub fn from_now(now: Timestamp, minutes: i64, zone: Zone) -> Option<(String, Window)> {
        let start = OffsetDateTime::from_unix_timestamp(now.minute_down().0.div_euclid(1_000_000)).ok()?;
        let end = start.checked_add(Duration::minutes(minutes))?;
        let (s, e) = (
            start.to_offset(zone.offset_at(start)),
            end.to_offset(zone.offset_at(end)),
        );
        let text = format!(
            "{:04}{:02}{:02}T{:02}{:02}-{:02}{:02}",
            s.year(),
            u8::from(s.month()),
            s.day(),
            s.hour(),
            s.minute(),
            e.hour(),
            e.minute()
        );
        // What is stated is what is kept to: read back from the text, also in the hour the clocks change.
        let window = Window::parse(&text, zone)?;
        Some((text, window))
    }
}

/// The instant a local time names: the first, where the clocks show it twice.
fn instant(zone: Zone, local: PrimitiveDateTime) -> Option<Timestamp> {
    let candidates = match zone {
        Zone::Fixed(offset) => vec![offset],
        Zone::London => [1, 0]
            .iter()
            .filter_map(|h| UtcOffset::from_hms(*h, 0, 0).ok())
            .collect(),
    };
    candidates
        .into_iter()
        .map(|offset| local.assume_offset(offset))
        .find(|at| zone.offset_at(*at) == at.offset())
        .map(Timestamp::from_datetime)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(text: &str) -> Zone {
        Zone::parse(text).unwrap_or_else(|| panic!("{text} is a zone"))
    }

    fn ends(win: &str, zone: Zone) -> (String, String) {
        let w = Window::parse(win, zone).unwrap_or_else(|| panic!("{win} is a window"));
        (w.opens.to_rw1(), w.closes.to_rw1())
    }

    fn pair(a: &str, b: &str) -> (String, String) {
        (a.to_owned(), b.to_owned())
    }

    #[test]
    fn a_window_is_counted_in_its_zone_and_may_go_over_midnight() {
        let utc = zone("+00:00");
        assert_eq!(
            ends("20261002T0900-1030", utc),
            pair("20261002T0900Z", "20261002T1030Z")
        );
        assert_eq!(
            ends("20261002T2300-0100", utc),
            pair("20261002T2300Z", "20261003T0100Z")
        );
        assert_eq!(
            ends("20261231T2330-0030", zone("-05:30")),
            pair("20270101T0500Z", "20270101T0600Z")
        );
    }

    #[test]
    fn london_keeps_summer_time() {
        let london = zone("Europe/London");
        assert_eq!(
            ends("20260701T2200-2300", london),
            pair("20260701T2100Z", "20260701T2200Z")
        );
        assert_eq!(
            ends("20261201T2200-2300", london),
            pair("20261201T2200Z", "20261201T2300Z")
        );
        // The clocks go from 01:00 to 02:00: half past one is nowhere.
        assert_eq!(Window::parse("20260329T0130-0300", london), None);
        assert_eq!(
            ends("20260329T0030-0300", london),
            pair("20260329T0030Z", "20260329T0200Z")
        );
        // They go back from 02:00 to 01:00: the first half past one counts.
        assert_eq!(
            ends("20261025T0130-0300", london),
            pair("20261025T0030Z", "20261025T0300Z")
        );
    }

    #[test]
    fn what_is_no_window_is_none() {
        let utc = zone("+00:00");
        for bad in [
            "",
            "20261002T0900",
            "20261002T0900-0900",
            "20261302T0900-1000",
            "20261002T2400-0100",
            "20261002T0960-1100",
            "20261002T0900-10000",
            "20261002 0900-1000",
            "20261002T09é-1000",
            "20261002T+900-1000",
        ] {
            assert_eq!(Window::parse(bad, utc), None, "{bad}");
        }
    }

    #[test]
    fn an_hour_from_now_is_stated_and_read_back() {
        let now = Timestamp::from_rw1("20261002T2330Z").unwrap_or_default();
        let (text, window) = Window::from_now(now.plus_seconds(42), 60, zone("+01:00")).expect("a window");
        assert_eq!(text, "20261003T0030-0130");
        assert_eq!((window.opens, window.closes), (now, now.plus_seconds(3_600)));
    }
}
