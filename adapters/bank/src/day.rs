//! The day a payment is asked for, and what kind of payment that makes it. Pure: dates in, a kind or a refusal out.

use time::{Date, OffsetDateTime};
use wilco_adapter::zone::{Zone, from_line, on_line};
use wilco_adapter::{Job, ResolveError};

use crate::resolve::refused;
use crate::wire::{Kind, clean};

/// The day the handoff names, if it names one.
///
/// # Errors
/// The slot is no date.
pub(crate) fn asked(job: &Job) -> Result<Option<Date>, ResolveError> {
    let Some(text) = job.slot("paid") else {
        return Ok(None);
    };
    from_line(text).map(Some).ok_or_else(|| {
        let text = format!("slot paid: {} is no date such as 20261002", clean(text, 20));
        refused("SCOPE", text)
    })
}

/// The kind of payment for a day, where the bank's day is `today`. `ahead` is how many days scheduled payments may lie
/// ahead; without it there are none.
///
/// # Errors
/// In words for the tail: no payment can be made for that day.
pub(crate) fn kind(paid: Option<Date>, today: Date, ahead: Option<u32>) -> Result<Kind, String> {
    let Some(paid) = paid else {
        return Ok(Kind::Domestic);
    };
    let days = (paid - today).whole_days();
    let (shown, today) = (on_line(paid), on_line(today));
    match ahead {
        _ if days == 0 => Ok(Kind::Domestic),
        _ if days < 0 => Err(format!("slot paid: {shown} is before the bank's today ({today})")),
        None => Err(format!(
            "slot paid: {shown} is not the bank's today ({today}), and scheduled payments are not switched on \
             (scheduled = true)"
        )),
        Some(most) if days > i64::from(most) => Err(format!(
            "slot paid: {shown} is {days} days after the bank's today ({today}); scheduled payments go up to {most} \
             days ahead (scheduled_days)"
        )),
        Some(_) => Ok(Kind::Scheduled),
    }
}

/// Noon of the bank's day `date`, with the bank's offset: wherever an instant of it is read, it is that day.
pub(crate) fn noon_of(zone: Zone, date: Date) -> OffsetDateTime {
    let noon = date.with_time(time::macros::time!(12:00));
    // The clocks change before five in the morning, so the offset at noon UTC is that of noon here.
    noon.assume_offset(zone.offset_at(noon.assume_utc()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::date;

    #[test]
    fn today_is_paid_at_once_and_a_day_to_come_is_scheduled() {
        let today = date!(2026 - 10 - 02);
        let at = |day, ahead| kind(Some(day), today, ahead);
        assert_eq!(kind(None, today, None), Ok(Kind::Domestic));
        assert_eq!(at(today, None), Ok(Kind::Domestic));
        assert_eq!(at(today, Some(30)), Ok(Kind::Domestic));
        assert_eq!(at(date!(2026 - 10 - 03), Some(30)), Ok(Kind::Scheduled));
        assert_eq!(at(date!(2026 - 11 - 01), Some(30)), Ok(Kind::Scheduled));
        for (day, ahead, needle) in [
            (date!(2026 - 10 - 01), None, "before"),
            (date!(2026 - 10 - 01), Some(30), "before"),
            (date!(2026 - 10 - 03), None, "scheduled = true"),
            (date!(2026 - 11 - 02), Some(30), "up to 30 days"),
        ] {
            let said = at(day, ahead).err().unwrap_or_default();
            assert!(said.contains(needle) && said.contains("20261002"), "{said}");
        }
    }

    #[test]
    fn noon_is_noon_on_the_days_the_clocks_change() {
        let noon = |day| noon_of(Zone::London, day).to_string();
        assert_eq!(noon(date!(2026 - 03 - 28)), "2026-03-28 12:00:00.0 +00:00:00");
        assert_eq!(noon(date!(2026 - 03 - 29)), "2026-03-29 12:00:00.0 +01:00:00");
        assert_eq!(noon(date!(2026 - 10 - 25)), "2026-10-25 12:00:00.0 +00:00:00");
        let far = Zone::parse("+14:00").unwrap_or_else(|| panic!("a zone"));
        let at = noon_of(far, date!(2026 - 10 - 02));
        assert_eq!(far.date_of(at), date!(2026 - 10 - 02));
    }
}
