//! Call-backs: which one counts for an act. Pure.
//!
//! Somebody rang the supplier and wrote down when. That counts once: what is recorded for a supplier before the newest
//! change of that supplier's account was, or could have been, used for that change. So no column of the customer's table
//! has to be written by us, and a second handoff for the same change needs a call of its own.

use time::format_description::well_known::Rfc3339;
use time::{OffsetDateTime, PrimitiveDateTime, UtcOffset};
use wilco_core::{ActId, Timestamp};

use crate::wire::{Swap, clean};

/// One call-back, as somebody wrote it down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Callback {
    pub by: Option<String>,
    pub at: Option<String>,
}

/// A change that was made of the same supplier's account, as the acts table has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Earlier {
    pub reference: String,
    pub at: Option<String>,
}

/// All that decides whether somebody rang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Calls {
    /// For exactly this change.
    pub rows: Vec<Callback>,
    /// Of this supplier, the newest first; this act's own among them, where it has been made.
    pub acts: Vec<Earlier>,
    /// The database's clock.
    pub now: Timestamp,
}

/// The call-back that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Called {
    pub by: String,
    /// As it was written.
    pub told: String,
    /// When that is, to the millisecond, which is how the acts table keeps time.
    pub at: Timestamp,
}

/// The call-back that counts: by somebody, since the handoff came, after the newest change of this supplier's account, not
/// ahead of now by either clock; the earliest of them. Else why none does.
pub(crate) fn counts(
    calls: &Calls,
    act: ActId,
    swap: &Swap,
    now: Timestamp,
) -> Result<Called, Option<String>> {
    let own = act.to_string();
    let mut newest = None;
    for earlier in calls.acts.iter().filter(|e| e.reference != own) {
        let at = earlier.at.as_deref().unwrap_or_default();
        let Some((time, _)) = instant(at) else {
            return Err(Some(format!(
                "the acts table has a change of {} at a time that cannot be read ({}), so no call-back can be told to have come \
                 after it: correct its column at",
                swap.sup,
                clean(at, 40)
            )));
        };
        newest = newest.max(Some(time));
    }
    pick(&calls.rows, swap, newest, now.min(calls.now).plus_seconds(SKEW_S))
}

/// Who rang for an act that was made, where it can still be told.
pub(crate) fn counted(calls: &Calls, act: ActId, swap: &Swap) -> Option<Called> {
    let own = act.to_string();
    let time = |e: &Earlier| instant(e.at.as_deref().unwrap_or_default()).map(|(t, _)| t);
    let made = calls.acts.iter().find(|e| e.reference == own).and_then(time)?;
    let before = calls.acts.iter().filter_map(time).filter(|t| *t < made).max();
    pick(&calls.rows, swap, before, made).ok()
}

/// The time that is bound for a change: never before the call-back it is made on, so that this one is used with it.
pub(crate) fn at_of_change(calls: Option<&Calls>, act: ActId, swap: &Swap, now: Timestamp) -> Timestamp {
    let called = calls.and_then(|c| counts(c, act, swap, now).ok());
    called.map_or(now, |c| c.at.max(now))
}

/// Whether the row with our reference, by its time, uses up this call-back.
pub(crate) fn used_by_own_row(calls: &Calls, act: ActId, called: &Called) -> bool {
    let own = act.to_string();
    let own = calls.acts.iter().find(|e| e.reference == own);
    let at = own.and_then(|e| instant(e.at.as_deref().unwrap_or_default()));
    at.is_some_and(|(at, _)| at >= called.at)
}

/// The database's clock, as it was asked for.
pub(crate) fn clock(text: &str) -> Result<Timestamp, String> {
    let read = instant(text).map(|(time, _)| time);
    read.ok_or_else(|| format!("the database's clock cannot be read: {}", clean(text, 40)))
}

fn pick(
    rows: &[Callback],
    swap: &Swap,
    after: Option<Timestamp>,
    latest: Timestamp,
) -> Result<Called, Option<String>> {
    let mut why_not = None;
    let mut best: Option<Called> = None;
    for row in rows {
        let by = clean(row.by.as_deref().unwrap_or_default().trim(), 80);
        let at = row.at.as_deref().unwrap_or_default().trim();
        let told = clean(at, 40);
        let Some((time, to_the)) = instant(at) else {
            why_not.get_or_insert(format!(
                "a call-back is recorded, but its time {told} cannot be read"
            ));
            continue;
        };
        // Written to the second or the minute, a call-back made right after the handoff seems to be before it.
        let since = match to_the {
            Grain::Minute => swap.asked_at.minute_down(),
            Grain::Second => Timestamp(swap.asked_at.0.div_euclid(1_000_000) * 1_000_000),
        };
        if !by.chars().any(is_shown) {
            why_not.get_or_insert("a call-back is recorded, but not by whom".to_owned());
        } else if time < since {
            why_not.get_or_insert(format!(
                "a call-back was recorded at {told}, before this was asked for"
            ));
        } else if after.is_some_and(|after| time <= after) {
            why_not.get_or_insert(format!(
                "a call-back was recorded at {told}, and {} was changed since, or in that second: it counts for no other \
                 change, ring again and write the time down to the second",
                swap.sup
            ));
        } else if time > latest {
            why_not.get_or_insert(format!("a call-back is recorded for {told}, which has not come"));
        } else if best.as_ref().is_none_or(|b| time < b.at) {
            best = Some(Called { by, told, at: time });
        }
    }
    best.ok_or(why_not)
}

/// Whether a character names somebody: a letter or digit, and not one of the letters that are blank (Unicode's
/// Hangul fillers).
fn is_shown(c: char) -> bool {
    c.is_alphanumeric() && !matches!(c, '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}')
}

/// How far the clock of whoever records a call-back may be ahead, in seconds.
const SKEW_S: i64 = 60;

/// How finely a time is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grain {
    Minute,
    Second,
}

/// A time, to the millisecond, and how finely it is written.
fn instant(text: &str) -> Option<(Timestamp, Grain)> {
    let (time, grain) = written(text)?;
    Some((Timestamp(time.0.div_euclid(1_000) * 1_000), grain))
}

/// A time as people and databases write it: RFC 3339, or `2026-10-02 09:15[:30[.5]]` with `Z`, `+00`, `+00:00` or
/// nothing, which is UTC.
fn written(text: &str) -> Option<(Timestamp, Grain)> {
    if text.len() > 40 || !text.is_ascii() {
        return None;
    }
    if let Ok(time) = OffsetDateTime::parse(text, &Rfc3339) {
        return Some((Timestamp::from_datetime(time), Grain::Second));
    }
    let (date, rest) = text.split_at_checked(10)?;
    let rest = rest.strip_prefix(['T', ' '])?;
    let zone_at = rest.find(['Z', '+', '-']).unwrap_or(rest.len());
    let (clock, zone) = rest.split_at_checked(zone_at)?;
    let offset = match zone {
        "" | "Z" => UtcOffset::UTC,
        zone => {
            let minutes = match zone.len() {
                3 => "00",
                5 => zone.get(3..)?,
                6 => zone.get(3..)?.strip_prefix(':')?,
                _ => return None,
            };
            let hours: i8 = zone.get(..3)?.parse().ok()?;
            let minutes: i8 = minutes.parse().ok()?;
            UtcOffset::from_hms(hours, if zone.starts_with('-') { -minutes } else { minutes }, 0).ok()?
        }
    };
    let (clock, grain) = match clock.len() {
        5 => (format!("{clock}:00"), Grain::Minute),
        _ => (clock.to_owned(), Grain::Second),
    };
    let plain = OffsetDateTime::parse(&format!("{date}T{clock}Z"), &Rfc3339).ok()?;
    let local = PrimitiveDateTime::new(plain.date(), plain.time());
    Some((Timestamp::from_datetime(local.assume_offset(offset)), grain))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::{at, swap};

    const NOW: &str = "20261002T1200Z";

    fn act(n: u8) -> ActId {
        ActId::new(at("20261002T0900Z"), [n; 10])
    }

    fn called(by: &str, at: &str) -> Callback {
        let some = |t: &str| (!t.is_empty()).then(|| t.to_owned());
        Callback {
            by: some(by),
            at: some(at),
        }
    }

    fn calls(rows: &[Callback], acts: &[(u8, &str)]) -> Calls {
        let earlier = |(n, at): &(u8, &str)| Earlier {
            reference: act(*n).to_string(),
            at: Some((*at).to_owned()),
        };
        Calls {
            rows: rows.to_vec(),
            acts: acts.iter().map(earlier).collect(),
            now: at(NOW),
        }
    }

    /// When the one that counts was made, or why none does.
    fn told(rows: &[Callback], acts: &[(u8, &str)]) -> String {
        match counts(&calls(rows, acts), act(1), &swap("20261002T0900Z"), at(NOW)) {
            Ok(called) => called.told,
            Err(why) => why.unwrap_or_default(),
        }
    }

    #[test]
    fn times_are_read_as_people_and_databases_write_them() {
        let noon = at("20261002T1200Z");
        for text in [
            "2026-10-02T12:00:00Z",
            "2026-10-02T12:00:00.000+00:00",
            "2026-10-02 12:00:00",
            "2026-10-02 12:00",
            "2026-10-02T12:00Z",
            "2026-10-02 14:00:00+02",
            "2026-10-02 06:30:00.0-05:30",
            "2026-10-02 14:00:00+0200",
        ] {
            assert_eq!(instant(text).map(|(t, _)| t), Some(noon), "{text}");
        }
        for bad in [
            "",
            "today",
            "2026-10-02",
            "20261002T1200Z",
            "2026-13-02 12:00",
            "2026-10-02 12:00 CEST",
            "é",
        ] {
            assert_eq!(instant(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_call_back_counts_from_the_handoff_on_and_names_who_made_it() {
        let good = called("j.smith", "2026-10-02T09:30:00Z");
        let when = "2026-10-02T09:30:00Z";
        assert_eq!(told(std::slice::from_ref(&good), &[]), when);
        assert_eq!(
            told(&[called("x", "2026-10-02T11:00:00Z"), good.clone()], &[]),
            when
        );
        assert_eq!(told(&[called("x", "2026-10-01T11:00:00Z"), good], &[]), when);
        assert_eq!(told(&[], &[]), "");
        let why = |row: Callback| told(&[row], &[]);
        assert!(why(called("x", "2026-10-02T08:59:59Z")).contains("before this was asked for"));
        assert_eq!(why(called("x", "2026-10-02T12:01:00Z")), "2026-10-02T12:01:00Z");
        assert!(why(called("x", "2026-10-02T12:01:01Z")).contains("has not come"));
        assert!(why(called("x", "yesterday")).contains("cannot be read"));
        for nobody in [
            "",
            "  ",
            "\u{200b}",
            "\u{2060}\u{feff}",
            "\u{3164}",
            "\u{2800}",
            "--",
        ] {
            assert!(why(called(nobody, when)).contains("not by whom"), "{nobody:?}");
        }
        assert_eq!(why(called("王", when)), when);
    }

    #[test]
    fn only_what_is_written_to_the_minute_may_seem_to_be_before_the_handoff() {
        let mut swap = swap("20261002T0900Z");
        swap.asked_at = Timestamp(swap.asked_at.0 + 40_500_000);
        let one = |at: &str| calls(&[called("x", at)], &[]);
        let counted = |text: &str| counts(&one(text), act(1), &swap, at(NOW)).is_ok();
        assert!(counted("2026-10-02 09:00") && counted("2026-10-02 09:00:40"));
        assert!(!counted("2026-10-02 09:00:20") && !counted("2026-10-02 08:59"));
    }

    #[test]
    fn neither_clock_alone_makes_a_time_that_has_come() {
        let mut calls = calls(&[called("x", "2026-10-02 11:00:00")], &[]);
        let swap = swap("20261002T0900Z");
        let late = |calls: &Calls, now: &str| counts(calls, act(1), &swap, at(now)).is_ok();
        assert!(late(&calls, NOW));
        assert!(!late(&calls, "20261002T1000Z"));
        calls.now = at("20261002T1000Z");
        assert!(!late(&calls, NOW));
    }

    #[test]
    fn what_was_recorded_before_another_change_of_the_supplier_is_used() {
        let row = called("x", "2026-10-02 10:00:00");
        let one = std::slice::from_ref(&row);
        assert_eq!(
            told(one, &[(2, "2026-10-02T09:59:59.999Z")]),
            "2026-10-02 10:00:00"
        );
        for since in [
            "2026-10-02T10:00:00.000Z",
            "2026-10-02T11:00:00.000Z",
            "2026-10-02 13:00:00+02",
        ] {
            let text = told(one, &[(3, "2026-10-02T09:00:00.000Z"), (2, since)]);
            assert!(text.contains("was changed since"), "{since}: {text}");
        }
        // Its own row is not another.
        assert_eq!(
            told(one, &[(1, "2026-10-02T11:00:00.000Z")]),
            "2026-10-02 10:00:00"
        );
        assert!(told(one, &[(2, "noon")]).contains("at a time that cannot be read (noon)"));
        let later = called("y", "2026-10-02 11:00:01");
        let both = [row, later];
        assert_eq!(
            told(&both, &[(2, "2026-10-02T11:00:00.000Z")]),
            "2026-10-02 11:00:01"
        );

        // The row of a change is not before the call-back it is made on, however fine that is written.
        let swap = swap("20261002T0900Z");
        let ahead = calls(&[called("x", "2026-10-02 12:00:30.1239")], &[]);
        let bound = at_of_change(Some(&ahead), act(1), &swap, at(NOW));
        assert_eq!(bound.to_rfc3339(), "2026-10-02T12:00:30.123Z");
        let mut made = calls(&ahead.rows, &[(1, "2026-10-02T12:00:30.123Z")]);
        let called = counts(&made, act(1), &swap, at(NOW)).unwrap_or_else(|e| panic!("{e:?}"));
        assert!(used_by_own_row(&made, act(1), &called));
        assert!(counts(&made, act(2), &swap, at(NOW)).is_err());
        assert_eq!(counted(&made, act(1), &swap), Some(called.clone()));
        made.acts[0].at = Some("2026-10-02T12:00:30.122Z".to_owned());
        assert!(!used_by_own_row(&made, act(1), &called));
    }

    #[test]
    fn who_rang_for_a_change_is_told_after_others_too() {
        let rows = [
            called("first", "2026-10-02 09:30"),
            called("second", "2026-10-02 10:30"),
        ];
        let acts = [
            (3, "2026-10-02T11:00:00.000Z"),
            (1, "2026-10-02T10:31:00.000Z"),
            (2, "2026-10-02T09:31:00.000Z"),
        ];
        let who = |n| counted(&calls(&rows, &acts), act(n), &swap("20261002T0900Z")).map(|c| c.by);
        assert_eq!(
            (who(2).as_deref(), who(1).as_deref(), who(3)),
            (Some("first"), Some("second"), None)
        );
    }
}
