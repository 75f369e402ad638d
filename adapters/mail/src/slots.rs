//! The slots a mail is made of: which there are, what each is, and how a reader sees it. Pure.

use time::{Date, Month};
use wilco_core::prepare::READBACKS_OWN;

use crate::chars::{Lines, clean, invisible, point, steers, words};

/// The two kinds of mail served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `p=pay ask=SEND`: mail about a payment.
    Pay,
    /// `p=mail ask=SEND`: any other.
    General,
}

/// What stands for "there is none" in a slot that must be stated.
pub(crate) const NONE: &str = "NONE";

/// Execution slots of mail about payments that no mail server can know: the done report carries them.
pub(crate) const PAY_CARRIED: [&str; 5] = ["sup", "amt", "cur", "paid", "ref"];
/// The same of general mail.
pub(crate) const GENERAL_CARRIED: [&str; 5] = ["tpl", "subj", "txt", "att", "apref"];

/// What a template may show besides `item`, `act` and `x_` slots.
const PAY: [&str; 15] = [
    "sup", "addr", "amt", "cur", "paid", "ref", "po", "kind", "net", "vat", "eff", "acct", "apref", "due",
    "n",
];
const GENERAL: [&str; 7] = ["addr", "name", "subj", "txt", "ref", "apref", "due"];

/// Whether a template of this kind may show this slot.
pub(crate) fn can_be_shown(kind: Kind, slot: &str) -> bool {
    let known: &[&str] = match kind {
        Kind::Pay => &PAY,
        Kind::General => &GENERAL,
    };
    if ["item", "act"].contains(&slot) || known.contains(&slot) {
        return true;
    }
    let letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    // `x_name` is where a statement shows the slot `name`; it cannot be a slot of its own too.
    match slot.strip_prefix("x_") {
        Some(rest) => {
            (1..=30).contains(&rest.len())
                && rest.bytes().all(letter)
                && !known.contains(&rest)
                && !READBACKS_OWN.contains(&slot)
        }
        None => false,
    }
}

/// A slot's value as a reader sees it.
///
/// # Errors
/// The rule it breaks.
pub(crate) fn shown(slot: &str, value: &str) -> Result<String, String> {
    match slot {
        "amt" | "net" | "vat" => money(value),
        "paid" | "eff" | "due" => date(value),
        "txt" => words(value, Lines::Many),
        "subj" | "name" => words(value, Lines::One),
        slot if slot.starts_with("x_") => words(value, Lines::One),
        _ => token(value),
    }
}

fn token(value: &str) -> Result<String, String> {
    if value.len() > 1_000 {
        return Err("has more than 1000 bytes".to_owned());
    }
    match value.chars().find(|&c| steers(c) || invisible(c)) {
        Some(c) => Err(format!("holds {}, which may not stand in a mail", point(c))),
        None => Ok(value.to_owned()),
    }
}

/// `5400.00` as `5,400.00`.
fn money(value: &str) -> Result<String, String> {
    let wrong = || format!("{} is no amount such as 5400.00", clean(value, 30));
    let (sign, digits) = match value.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", value),
    };
    let (whole, cents) = digits.split_once('.').ok_or_else(wrong)?;
    let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !all_digits(whole) || !all_digits(cents) || whole.len() > 15 || cents.len() > 4 {
        return Err(wrong());
    }
    let mut grouped = String::new();
    for (n, digit) in whole.chars().enumerate() {
        if n > 0 && (whole.len() - n) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    Ok(format!("{sign}{grouped}.{cents}"))
}

/// `20261002` as `2 October 2026`, which no reader takes for the tenth of February.
fn date(value: &str) -> Result<String, String> {
    let wrong = || format!("{} is no day such as 20261002", clean(value, 30));
    if value.len() != 8 || !value.bytes().all(|b| b.is_ascii_digit()) {
        return Err(wrong());
    }
    let number = |part: &str| part.parse::<u16>().map_err(|_| wrong());
    let (year, month, day) = (number(&value[..4])?, number(&value[4..6])?, number(&value[6..])?);
    let month = u8::try_from(month)
        .ok()
        .and_then(|m| Month::try_from(m).ok())
        .ok_or_else(wrong)?;
    let day = u8::try_from(day).map_err(|_| wrong())?;
    Date::from_calendar_date(i32::from(year), month, day).map_err(|_| wrong())?;
    Ok(format!("{day} {month} {year}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_and_days_are_shown_as_people_read_them() {
        for (slot, value, want) in [
            ("amt", "5400.00", "5,400.00"),
            ("amt", "-1234567.5", "-1,234,567.5"),
            ("amt", "999.00", "999.00"),
            ("paid", "20261002", "2 October 2026"),
            ("subj", "Two_words", "Two words"),
            ("x_name", "J%C3%B6rg_B.", "Jörg B."),
            ("ref", "MD_2026", "MD_2026"),
        ] {
            assert_eq!(shown(slot, value).as_deref(), Ok(want), "{slot}");
        }
        for (slot, value) in [
            ("amt", "5,400.00"),
            ("amt", "1e3"),
            ("amt", "5400"),
            ("paid", "20261301"),
            ("paid", "20260231"),
            ("paid", "2 October"),
            ("subj", "a%0D%0ABcc:_x"),
            ("ref", "a\u{202e}b"),
            ("ref", "a\r\nb"),
        ] {
            assert!(shown(slot, value).is_err(), "{slot} {value:?}");
        }
    }

    #[test]
    fn a_template_shows_only_what_a_statement_can_show() {
        assert!(can_be_shown(Kind::Pay, "amt") && !can_be_shown(Kind::General, "amt"));
        assert!(can_be_shown(Kind::General, "x_order") && can_be_shown(Kind::General, "item"));
        for bad in ["x_body", "x_name", "x_", "who", "X_a", "x_A", ""] {
            assert!(!can_be_shown(Kind::General, bad), "{bad}");
        }
    }
}
