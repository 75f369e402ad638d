//! What is frozen for an act, and what the database's rows say. Pure.

use serde::{Deserialize, Serialize};
use time::format_description::well_known::Rfc3339;
use time::{OffsetDateTime, PrimitiveDateTime, UtcOffset};
use wilco_adapter::Report;
use wilco_core::{ActId, Frozen, Timestamp};

use crate::config::Accounts;
use crate::statement::{Param, Statement};

/// The longest value that is stated or bound, in bytes.
const LONGEST: usize = 200;

/// The change an act is about: the frozen request's body. Everything commit binds stands here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Swap {
    /// `CHGBANK` or `UNDO`.
    pub ask: String,
    pub sup: String,
    /// The account that must stand there.
    pub prev: String,
    /// The account that will.
    pub acct: String,
    pub eff: String,
    pub apref: String,
    /// When it was stated; a call-back counts from then on.
    pub stated_at: Timestamp,
    /// Whether a call-back was required then.
    pub callback: bool,
    /// Who the supplier is, and the number on file, when it was stated.
    pub name: Option<String>,
    pub phone: Option<String>,
    /// Which database it was stated from.
    pub database: String,
    /// The hex SHA-256 of the statements that will be used.
    pub statements: String,
}

/// The vendor's row.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Row {
    pub sup: String,
    pub acct: Option<String>,
    pub name: Option<String>,
    pub eff: Option<String>,
    pub phone: Option<String>,
    pub apref: Option<String>,
}

/// The row with our reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Recorded {
    pub sup: String,
    pub prev: String,
    pub acct: String,
    pub eff: Option<String>,
    pub apref: Option<String>,
}

/// One call-back, as somebody wrote it down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Callback {
    pub by: Option<String>,
    pub at: Option<String>,
}

impl Swap {
    /// As it is frozen.
    pub fn body(&self) -> String {
        // A struct of texts and numbers has no value that JSON cannot write.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The change that was frozen, if its body is what the statement says.
    pub fn of(frozen: &Frozen) -> Result<Swap, String> {
        let swap: Swap = serde_json::from_str(&frozen.request.body)
            .map_err(|e| format!("the frozen request cannot be read: {e}"))?;
        let stated = [
            ("sup", &swap.sup),
            ("prev", &swap.prev),
            ("acct", &swap.acct),
            ("eff", &swap.eff),
            ("apref", &swap.apref),
        ];
        let other = |(slot, value): &(&str, &String)| frozen.value(slot).is_some_and(|v| v != value.as_str());
        match stated.iter().find(|s| other(s)) {
            Some((slot, _)) => Err(format!(
                "the frozen request is not what was stated: slot {slot} differs"
            )),
            None => Ok(swap),
        }
    }

    /// What is bound to a statement's places, in their order.
    pub fn binds(&self, statement: &Statement, act: ActId, now: Timestamp) -> Vec<Option<String>> {
        let bind = |param: &Param| match param {
            Param::Ref => Some(act.to_string()),
            Param::Ask => Some(self.ask.clone()),
            Param::Sup => Some(self.sup.clone()),
            Param::Prev => Some(self.prev.clone()),
            Param::Acct => Some(self.acct.clone()),
            Param::Eff => Some(self.eff.clone()),
            Param::Apref => Some(self.apref.clone()),
            Param::At => Some(now.to_rfc3339()),
        };
        statement.params.iter().map(bind).collect()
    }

    /// The same for the row with our reference, whose values are the vendor's row after the change.
    pub fn binds_of_row(
        &self,
        statement: &Statement,
        act: ActId,
        now: Timestamp,
        row: &Row,
    ) -> Vec<Option<String>> {
        let ours = self.binds(statement, act, now);
        let bind = |(param, ours): (&Param, Option<String>)| match param {
            Param::Sup => Some(row.sup.clone()),
            Param::Acct => row.acct.clone(),
            Param::Eff => row.eff.clone(),
            Param::Apref => row.apref.clone(),
            Param::Ref | Param::Ask | Param::Prev | Param::At => ours,
        };
        statement.params.iter().zip(ours).map(bind).collect()
    }

    /// Where the rows after the change are not what was stated; nothing has been committed yet.
    pub fn differs(
        &self,
        row: &Row,
        recorded: &Recorded,
        shows_eff: bool,
        shows_apref: bool,
    ) -> Option<String> {
        let recorded_as = |what: &str| format!("the row with our reference, {what}");
        let mut pairs = vec![
            ("sup", Some(&row.sup), &self.sup, "the vendor's row".to_owned()),
            (
                "acct",
                row.acct.as_ref(),
                &self.acct,
                "the vendor's row".to_owned(),
            ),
            ("sup", Some(&recorded.sup), &self.sup, recorded_as("sup")),
            ("prev", Some(&recorded.prev), &self.prev, recorded_as("prev")),
            ("acct", Some(&recorded.acct), &self.acct, recorded_as("acct")),
        ];
        if shows_eff {
            pairs.push(("eff", row.eff.as_ref(), &self.eff, "the vendor's row".to_owned()));
            pairs.push(("eff", recorded.eff.as_ref(), &self.eff, recorded_as("eff")));
        }
        if shows_apref {
            pairs.push((
                "apref",
                row.apref.as_ref(),
                &self.apref,
                "the vendor's row".to_owned(),
            ));
            pairs.push((
                "apref",
                recorded.apref.as_ref(),
                &self.apref,
                recorded_as("apref"),
            ));
        }
        let other = pairs.into_iter().find(|(_, got, want, _)| *got != Some(*want))?;
        let (slot, got, want, place) = other;
        let got = got.map_or("nothing".to_owned(), |g| clean(g, 80));
        Some(format!("{place} would show {slot} as {got}, not as {want}"))
    }
}

impl Recorded {
    /// The report of a change that stands.
    pub fn report(&self, act: ActId, status: String) -> Report {
        let mut values = vec![
            ("sup".to_owned(), self.sup.clone()),
            ("acct".to_owned(), self.acct.clone()),
        ];
        let known = [("eff", &self.eff), ("apref", &self.apref)];
        for (slot, value) in known {
            if let Some(value) = value {
                values.push((slot.to_owned(), value.clone()));
            }
        }
        values.push(("prev".to_owned(), self.prev.clone()));
        Report {
            values,
            receipt: Some(act.to_string()),
            status,
            provisional: false,
        }
    }
}

/// The call-back that counts: by somebody, at or after the statement, not ahead of now; the earliest of them. Else why
/// none does.
pub(crate) fn counts(
    rows: &[Callback],
    swap: &Swap,
    now: Timestamp,
) -> Result<(String, String), Option<String>> {
    // Written to the second or the minute, a call-back made right after the statement seems to be before it.
    let since = swap.stated_at.minute_down();
    let latest = now.plus_seconds(SKEW_S);
    let mut why_not = None;
    let mut best: Option<(Timestamp, String, String)> = None;
    for row in rows {
        let by = clean(row.by.as_deref().unwrap_or_default().trim(), 80);
        let at = row.at.as_deref().unwrap_or_default().trim();
        let told = clean(at, 40);
        let Some(time) = instant(at) else {
            why_not.get_or_insert(format!(
                "a call-back is recorded, but its time {told} cannot be read"
            ));
            continue;
        };
        if by.is_empty() {
            why_not.get_or_insert("a call-back is recorded, but not by whom".to_owned());
        } else if time < since {
            why_not.get_or_insert(format!(
                "a call-back was recorded at {told}, before this was stated"
            ));
        } else if time > latest {
            why_not.get_or_insert(format!("a call-back is recorded for {told}, which has not come"));
        } else if best.as_ref().is_none_or(|(t, ..)| time < *t) {
            best = Some((time, by, told));
        }
    }
    best.map(|(_, by, told)| (by, told)).ok_or(why_not)
}

/// How far the clock of whoever records a call-back may be ahead of ours, in seconds.
const SKEW_S: i64 = 300;

/// A time as people and databases write it: RFC 3339, or `2026-10-02 09:15[:30[.5]]` with `Z`, `+00`, `+00:00` or
/// nothing, which is UTC.
fn instant(text: &str) -> Option<Timestamp> {
    if text.len() > 40 || !text.is_ascii() {
        return None;
    }
    if let Ok(time) = OffsetDateTime::parse(text, &Rfc3339) {
        return Some(Timestamp::from_datetime(time));
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
    let clock = if clock.len() == 5 {
        format!("{clock}:00")
    } else {
        clock.to_owned()
    };
    let plain = OffsetDateTime::parse(&format!("{date}T{clock}Z"), &Rfc3339).ok()?;
    let local = PrimitiveDateTime::new(plain.date(), plain.time());
    Some(Timestamp::from_datetime(local.assume_offset(offset)))
}

/// Whether a value can stand on a line, and what must be so if not.
pub(crate) fn stands_on_line(value: &str) -> Result<(), String> {
    if value.is_empty() || value.len() > LONGEST || !value.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(format!(
            "must be 1 to {LONGEST} visible ASCII characters without spaces"
        ));
    }
    Ok(())
}

/// Whether this is an account, and what one looks like if not.
pub(crate) fn is_account(value: &str, accounts: Accounts) -> Result<(), String> {
    stands_on_line(value)?;
    let uk = value.len() == 17
        && value.bytes().enumerate().all(|(at, b)| match at {
            2 | 5 => b == b'-',
            8 => b == b'/',
            _ => b.is_ascii_digit(),
        });
    if accounts == Accounts::Uk && !uk {
        return Err("must be a sort code and account number such as 40-12-88/61102938".to_owned());
    }
    Ok(())
}

/// A text for messages: no line of it can pass for ours, and it has an end.
pub(crate) fn clean(text: &str, most: usize) -> String {
    let plain = text.chars().map(|c| match c {
        c if c.is_control() || c == '\u{2028}' || c == '\u{2029}' => ' ',
        // Marks that change the order in which text is shown (Unicode UAX #9).
        '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => ' ',
        c => c,
    });
    let mut out: String = plain.take(most).collect();
    if text.chars().count() > most {
        out.push('…');
    }
    out
}

/// A text as SQL writes it, for the row a person is shown. Never sent by us.
pub(crate) fn sql_text(text: &str) -> String {
    format!("'{}'", clean(text, LONGEST).replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn swap(stated_at: &str) -> Swap {
        Swap {
            ask: "CHGBANK".to_owned(),
            sup: "marlow".to_owned(),
            prev: "40-12-88/61102911".to_owned(),
            acct: "40-12-88/61102938".to_owned(),
            eff: "20261005".to_owned(),
            apref: "FD-0930".to_owned(),
            stated_at: at(stated_at),
            callback: true,
            name: None,
            phone: None,
            database: "d".to_owned(),
            statements: "s".to_owned(),
        }
    }

    fn at(text: &str) -> Timestamp {
        Timestamp::from_rw1(text).unwrap_or_else(|| panic!("a time: {text}"))
    }

    fn called(by: &str, at: &str) -> Callback {
        let some = |t: &str| (!t.is_empty()).then(|| t.to_owned());
        Callback {
            by: some(by),
            at: some(at),
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
            assert_eq!(instant(text), Some(noon), "{text}");
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
    fn a_call_back_counts_from_the_statement_on_and_names_who_made_it() {
        let now = at("20261002T1200Z");
        let swap = swap("20261002T0900Z");
        let told = |rows: &[Callback]| counts(rows, &swap, now);
        let good = called("j.smith", "2026-10-02T09:30:00Z");
        let who = Ok(("j.smith".to_owned(), "2026-10-02T09:30:00Z".to_owned()));
        assert_eq!(told(std::slice::from_ref(&good)), who);
        assert_eq!(told(&[called("x", "2026-10-02T11:00:00Z"), good.clone()]), who);
        assert_eq!(told(&[called("x", "2026-10-01T11:00:00Z"), good]), who);
        assert_eq!(told(&[]), Err(None));
        let why = |row: Callback| told(&[row]).err().flatten().unwrap_or_default();
        assert!(why(called("x", "2026-10-02T08:59:59Z")).contains("before this was stated"));
        assert!(why(called("x", "2026-10-02T12:05:01Z")).contains("has not come"));
        assert!(why(called("x", "yesterday")).contains("cannot be read"));
        assert!(why(called("", "2026-10-02T09:30:00Z")).contains("not by whom"));
        assert!(why(called("  ", "2026-10-02T09:30:00Z")).contains("not by whom"));
    }

    #[test]
    fn accounts_look_like_accounts() {
        assert!(is_account("40-12-88/61102938", Accounts::Uk).is_ok());
        for bad in [
            "",
            "40-12-88/6110293",
            "401288/61102938",
            "40-12-88/6110293x",
            "40-12-88 61102938",
            "４0-12-88/6110293",
        ] {
            assert!(is_account(bad, Accounts::Uk).is_err(), "{bad}");
        }
        assert!(is_account("DE89370400440532013000", Accounts::Any).is_ok());
        assert!(is_account("DE89 3704", Accounts::Any).is_err());
    }

    #[test]
    fn what_people_are_shown_cannot_pass_for_something_else() {
        assert_eq!(sql_text("o'hara'); --"), "'o''hara''); --'");
        assert_eq!(clean("a\nRW1 \u{202e}x", 80), "a RW1  x");
        assert_eq!(clean("abcdef", 3), "abc…");
    }

    #[test]
    fn a_body_that_is_not_what_was_stated_is_not_used() {
        let said = swap("20261002T0900Z");
        let read: Swap = serde_json::from_str(&said.body()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(read, said);
    }
}
