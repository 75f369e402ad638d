//! Slot values: their types, how each is read, and how each is shown.

use std::borrow::Cow;

use crate::instant::{is_date, is_minute};
use crate::problem::{Code, Problem};
use crate::profile::{Profile, SlotType};

/// The largest number of days a `days` slot may hold (about 2.7 million years; the point is that there is a bound).
pub const MAX_DAYS: i64 = 999_999_999;

/// A decoded value, borrowing from the line it was read from.
///
/// Two values are compared decoded: `pri=2` and `pri=02` are the same fact, `keep=a+b` and `keep=b+a` are not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// Everything that has no decoded form of its own; money, dates and numbers as written are texts too.
    Text(&'a str),
    /// An integer, or a number of days.
    Int(i64),
    /// `Y` or `N`.
    Bool(bool),
    /// Joined with `+` on the line; order matters.
    List(Vec<Value<'a>>),
}

impl<'a> Value<'a> {
    /// The value as it is written on a line. Integers are shown without leading zeros, days without the `d`.
    pub fn show(&self) -> Cow<'a, str> {
        match self {
            Value::Text(text) => Cow::Borrowed(text),
            Value::Int(n) => Cow::Owned(n.to_string()),
            Value::Bool(true) => Cow::Borrowed("Y"),
            Value::Bool(false) => Cow::Borrowed("N"),
            Value::List(items) => {
                let mut out = String::new();
                for (n, item) in items.iter().enumerate() {
                    if n > 0 {
                        out.push('+');
                    }
                    out.push_str(&item.show());
                }
                Cow::Owned(out)
            }
        }
    }

    /// The text, when it is one.
    pub fn as_text(&self) -> Option<&'a str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The elements of a list; of anything else, none.
    pub fn items(&self) -> &[Value<'a>] {
        match self {
            Value::List(items) => items,
            _ => &[],
        }
    }

    /// The JSON form (RW1 specification §6).
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Value::Text(text) => (*text).into(),
            Value::Int(n) => (*n).into(),
            Value::Bool(b) => (*b).into(),
            Value::List(items) => items.iter().map(Value::to_json).collect(),
        }
    }

    /// True for an empty list: a slot that is there but says nothing.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Value::List(items) if items.is_empty())
    }
}

/// An amount of money in hundredths, from its text on a line (`5400.00` is 540000). `None` when the text is not money
/// or does not fit.
pub fn money_minor(text: &str) -> Option<i64> {
    if !is_money(text) {
        return None;
    }
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let mut minor: i64 = 0;
    for b in digits.bytes().filter(u8::is_ascii_digit) {
        minor = minor.checked_mul(10)?.checked_add(i64::from(b - b'0'))?;
    }
    Some(if negative { -minor } else { minor })
}

/// True for money greater than zero: what a payment must be.
pub fn money_is_positive(text: &str) -> bool {
    is_money(text) && !text.starts_with('-') && text.bytes().any(|b| matches!(b, b'1'..=b'9'))
}

/// `[A-Za-z0-9._-]+`
pub(crate) fn is_name(s: &str) -> bool {
    !s.is_empty()
        && s.bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

/// `[a-z][a-z0-9_]*`
pub(crate) fn is_key(s: &str) -> bool {
    s.bytes().next().is_some_and(|b| b.is_ascii_lowercase())
        && s.bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

/// An optional minus and digits.
fn is_integer(s: &str) -> bool {
    is_digits(s.strip_prefix('-').unwrap_or(s))
}

pub(crate) fn is_digits(s: &str) -> bool {
    !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit())
}

fn is_money(s: &str) -> bool {
    let s = s.strip_prefix('-').unwrap_or(s);
    s.split_once('.')
        .is_some_and(|(whole, cents)| is_digits(whole) && cents.len() == 2 && is_digits(cents))
}

/// A decimal: digits, and perhaps a point and digits.
fn is_decimal(s: &str) -> bool {
    match s.split_once('.') {
        None => is_digits(s),
        Some((whole, fraction)) => is_digits(whole) && is_digits(fraction),
    }
}

/// A signed decimal, as an answer to `need=NUM` gives it.
pub(crate) fn is_signed_decimal(s: &str) -> bool {
    is_decimal(s.strip_prefix('-').unwrap_or(s))
}

/// A signed decimal, or two decimals with a slash.
fn is_num(s: &str) -> bool {
    match s.split_once('/') {
        None => is_signed_decimal(s),
        Some((over, under)) => is_signed_decimal(over) && is_decimal(under),
    }
}

/// Reads one value by its slot's type. What is wrong goes to `errors`; the value is then the text as written.
pub(crate) fn read<'a>(
    profile: &Profile,
    key: &str,
    ty: &SlotType,
    raw: &'a str,
    errors: &mut Vec<Problem>,
) -> Value<'a> {
    let mut fail = |code: Code, rule: String| {
        errors.push(
            Problem::new(code, format!("{key}={raw}: {rule}"))
                .slot(key)
                .got(raw),
        );
        Value::Text(raw)
    };
    match ty {
        SlotType::List(inner) => Value::List(
            raw.split('+')
                .filter(|x| !x.is_empty())
                .map(|x| read(profile, key, inner, x, errors))
                .collect(),
        ),
        SlotType::Token | SlotType::Ref => Value::Text(raw),
        SlotType::Enum(at) => {
            let vocabulary = profile.enumeration(*at);
            if !vocabulary.has(raw) {
                let name = &vocabulary.name;
                return fail(
                    Code::UnknownCode,
                    format!("not a known {name} code; never guess, answer UN why=UNK"),
                );
            }
            Value::Text(raw)
        }
        SlotType::Int { lo, hi } => {
            if !is_integer(raw) {
                return fail(Code::NotAnInteger, "an integer is written in digits".into());
            }
            match bounded(raw).filter(|n| (lo..=hi).contains(&n)) {
                Some(n) => Value::Int(n),
                None => fail(
                    Code::OutOfRange,
                    format!("out of range, {lo} to {hi} are allowed"),
                ),
            }
        }
        SlotType::Date if is_date(raw) => Value::Text(raw),
        SlotType::Date => fail(
            Code::BadDate,
            "a date is YYYYMMDD and exists in the calendar".into(),
        ),
        SlotType::Time if is_minute(raw) => Value::Text(raw),
        SlotType::Time => fail(
            Code::BadTime,
            "times are YYYYMMDDTHHMMZ, in UTC, and exist on the clock".into(),
        ),
        SlotType::Days => {
            let digits = raw.strip_suffix('d').unwrap_or(raw);
            if !is_digits(digits) {
                return fail(Code::BadDays, "a number of days is written 14 or 14d".into());
            }
            match bounded(digits).filter(|n| *n <= MAX_DAYS) {
                Some(n) => Value::Int(n),
                None => fail(Code::BadDays, format!("at most {MAX_DAYS} days")),
            }
        }
        SlotType::Money if is_money(raw) => Value::Text(raw),
        SlotType::Money => fail(
            Code::BadMoney,
            "money is written with exactly two decimals and nothing else, as 5400.00".into(),
        ),
        SlotType::Num if is_num(raw) => Value::Text(raw),
        SlotType::Num => fail(
            Code::BadNumber,
            "num is a number as written, 7.2 or 148/88; its unit has a slot of its own".into(),
        ),
        SlotType::Bool => match raw {
            "Y" => Value::Bool(true),
            "N" => Value::Bool(false),
            _ => fail(Code::BadBool, "yes and no are written Y and N".into()),
        },
        SlotType::MsgId if is_name(raw) => Value::Text(raw),
        SlotType::MsgId => fail(Code::BadName, "a message id is made of [A-Za-z0-9._-]".into()),
        SlotType::Agent => {
            if !is_name(raw) {
                fail(Code::BadName, "an agent's name is made of [A-Za-z0-9._-]".into());
            }
            if !profile.knows_agent(raw) {
                let rule = format!("not an agent of profile {}", profile.name());
                errors.push(
                    Problem::new(Code::UnknownAgent, format!("{key}={raw}: {rule}"))
                        .slot(key)
                        .got(raw),
                );
            }
            Value::Text(raw)
        }
    }
}

/// Digits (perhaps signed) as a number, whatever their count; `None` when it does not fit.
fn bounded(raw: &str) -> Option<i64> {
    let (sign, digits) = match raw.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, raw),
    };
    let digits = digits.trim_start_matches('0');
    match digits.len() {
        0 => Some(0),
        1..=18 => digits.parse::<i64>().ok().map(|n| n * sign),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_digits_with_two_decimals_and_nothing_else() {
        for good in ["5400.00", "0.00", "-12.50", "007.10"] {
            assert!(is_money(good), "{good}");
        }
        for bad in [
            "5400",
            "5400.0",
            "5400.000",
            "5,400.00",
            "５４００.００",
            "+1.00",
            "--1.00",
            ".50",
            "1.-5",
            "1e2.00",
            "",
        ] {
            assert!(!is_money(bad), "{bad}");
        }
    }

    #[test]
    fn money_in_hundredths() {
        assert_eq!(money_minor("5400.00"), Some(540_000));
        assert_eq!(money_minor("-0.05"), Some(-5));
        assert_eq!(money_minor("99999999999999999999.00"), None);
        assert_eq!(money_minor("5400"), None);
        assert!(money_is_positive("0.01"));
        assert!(money_is_positive("99999999999999999999.00"));
        for zero_or_less in ["0.00", "-0.00", "-1.00", "000.00", "1"] {
            assert!(!money_is_positive(zero_or_less), "{zero_or_less}");
        }
    }

    #[test]
    fn numbers_as_written() {
        for good in ["7.2", "148/88", "-3", "3/10", "1.5/2.5"] {
            assert!(is_num(good), "{good}");
        }
        for bad in ["7,2", "148/", "/88", "1/2/3", "1/-2", "7.", "٣"] {
            assert!(!is_num(bad), "{bad}");
        }
    }

    #[test]
    fn integers_are_bounded_whatever_their_length() {
        assert_eq!(bounded("0000000000000000000000000000012"), Some(12));
        assert_eq!(bounded("-0"), Some(0));
        assert_eq!(bounded(&"9".repeat(10_000)), None);
    }
}
