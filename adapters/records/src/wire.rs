//! What is frozen for an act, and what the database's rows say. Pure.

use serde::{Deserialize, Serialize};
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
    /// When the act began, to the millisecond: call-backs count from then on, also for a statement that was made anew
    /// because an earlier one ran out while somebody was on the phone.
    pub asked_at: Timestamp,
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

/// When the handoff of an act arrived: its id says so (RFC 9562 §5.7).
pub(crate) fn begun_at(act: ActId) -> Timestamp {
    let millis = act
        .as_bytes()
        .iter()
        .take(6)
        .fold(0_i64, |n, b| n << 8 | i64::from(*b));
    Timestamp(millis.saturating_mul(1_000))
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
pub(crate) mod tests {
    use super::*;

    pub(crate) fn swap(asked_at: &str) -> Swap {
        Swap {
            ask: "CHGBANK".to_owned(),
            sup: "marlow".to_owned(),
            prev: "40-12-88/61102911".to_owned(),
            acct: "40-12-88/61102938".to_owned(),
            eff: "20261005".to_owned(),
            apref: "FD-0930".to_owned(),
            asked_at: at(asked_at),
            callback: true,
            name: None,
            phone: None,
            database: "d".to_owned(),
            statements: "s".to_owned(),
        }
    }

    pub(crate) fn at(text: &str) -> Timestamp {
        Timestamp::from_rw1(text).unwrap_or_else(|| panic!("a time: {text}"))
    }

    #[test]
    fn an_act_knows_when_it_began() {
        let began = at("20261002T0900Z");
        assert_eq!(begun_at(ActId::new(began, [255; 10])), began);
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
