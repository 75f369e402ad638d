//! Dates and instants as a line writes them: `YYYYMMDD`, and `YYYYMMDDTHHMMZ` in UTC to the minute.
//!
//! Both have a fixed width, so two of the same kind compare as text. The year 0000 does not exist here.

/// True for `YYYYMMDD` naming a day the Gregorian calendar has.
pub fn is_date(s: &str) -> bool {
    civil(s.as_bytes()).is_some()
}

/// True for `YYYYMMDDTHHMMZ` naming a minute that exists.
pub fn is_minute(s: &str) -> bool {
    minute_to_unix(s).is_some()
}

/// The first second of a minute written `YYYYMMDDTHHMMZ`, in seconds since 1970-01-01T00:00Z; `None` when it is not one.
pub fn minute_to_unix(s: &str) -> Option<i64> {
    let b = s.as_bytes();
    if b.len() != 14 || b[8] != b'T' || b[13] != b'Z' {
        return None;
    }
    let day = date_bytes_to_days(&b[..8])?;
    let hour = number(&b[9..11])?;
    let minute = number(&b[11..13])?;
    (hour < 24 && minute < 60).then(|| day * 86_400 + i64::from(hour) * 3_600 + i64::from(minute) * 60)
}

/// The midnight (UTC) with which a day written `YYYYMMDD` begins, in seconds since 1970; `None` when it is not a day.
pub fn date_to_unix(s: &str) -> Option<i64> {
    date_bytes_to_days(s.as_bytes()).map(|days| days * 86_400)
}

/// The minute that holds a second since 1970, as `YYYYMMDDTHHMMZ`. Outside the years 0001 to 9999 the nearest of
/// those is used, so the width never changes.
pub fn unix_to_minute(seconds: i64) -> String {
    let seconds = seconds.clamp(FIRST_SECOND, LAST_SECOND);
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = days_to_civil(days);
    format!(
        "{year:04}{month:02}{day:02}T{:02}{:02}Z",
        rest / 3_600,
        rest % 3_600 / 60
    )
}

const FIRST_SECOND: i64 = -62_135_596_800;
const LAST_SECOND: i64 = 253_402_300_799;

fn number(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0u32, |n, d| {
        d.is_ascii_digit().then(|| n * 10 + u32::from(d - b'0'))
    })
}

fn civil(b: &[u8]) -> Option<(i64, u32, u32)> {
    if b.len() != 8 {
        return None;
    }
    let (year, month, day) = (number(&b[..4])?, number(&b[4..6])?, number(&b[6..])?);
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let length = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return None,
    };
    (year > 0 && (1..=length).contains(&day)).then_some((i64::from(year), month, day))
}

/// Days since 1970-01-01, counting years from March so that the leap day is the last day of a year.
fn date_bytes_to_days(b: &[u8]) -> Option<i64> {
    let (year, month, day) = civil(b)?;
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year =
        (153 * (i64::from(month) + if month > 2 { -3 } else { 9 }) + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

fn days_to_civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_days_that_exist_are_dates() {
        for good in ["20261002", "20240229", "20000229", "00010101", "99991231"] {
            assert!(is_date(good), "{good}");
        }
        for bad in [
            "20261302",
            "20260230",
            "20230229",
            "19000229",
            "00000101",
            "2026-10-02",
            "2026100",
            "２０２６１００２",
        ] {
            assert!(!is_date(bad), "{bad}");
        }
    }

    #[test]
    fn only_minutes_that_exist_are_times() {
        assert!(is_minute("20261002T1405Z"));
        for bad in [
            "20261002T2400Z",
            "20261002T1260Z",
            "20261302T1200Z",
            "20261002",
            "20261002T1405",
            "20261002t1405Z",
        ] {
            assert!(!is_minute(bad), "{bad}");
        }
    }

    #[test]
    fn a_minute_survives_the_way_to_seconds_and_back() {
        assert_eq!(minute_to_unix("19700101T0000Z"), Some(0));
        assert_eq!(minute_to_unix("20261002T1405Z"), Some(1_790_949_900));
        assert_eq!(unix_to_minute(1_790_949_959), "20261002T1405Z");
        for text in [
            "00010101T0000Z",
            "20240229T2359Z",
            "20000301T0000Z",
            "99991231T2359Z",
        ] {
            assert_eq!(minute_to_unix(text).map(unix_to_minute).as_deref(), Some(text));
        }
        assert_eq!(unix_to_minute(i64::MAX), "99991231T2359Z");
        assert_eq!(unix_to_minute(i64::MIN), "00010101T0000Z");
    }
}
