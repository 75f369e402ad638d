//! Amounts and account numbers as the bank reads and writes them. Pure: text in, value or a named complaint out.

use std::fmt;

use thiserror::Error;

/// Why a text is not an amount this bank can book.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum AmountError {
    /// Not `digits` or `digits.digits` with 1 to 13 and 1 to 5 digits (OBIE R/W 3.1).
    #[error("must be 1 to 13 digits, optionally a point and 1 to 5 digits, for example 5400.00")]
    Form,
    /// More precise than the currency's minor unit.
    #[error("has a fraction of a penny; this bank books whole pence")]
    Fraction,
    /// Zero cannot be paid.
    #[error("must be greater than zero")]
    Zero,
}

/// Reads an OBIE amount as minor units (pence). Never goes through a floating-point number.
pub fn minor_parse(text: &str) -> Result<i64, AmountError> {
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) if (1..=5).contains(&fraction.len()) => (whole, fraction),
        Some(_) => return Err(AmountError::Form),
        None => (text, ""),
    };
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if !(1..=13).contains(&whole.len()) || !digits(whole) || !digits(fraction) {
        return Err(AmountError::Form);
    }
    let (pence, beyond) = fraction.split_at(fraction.len().min(2));
    if beyond.bytes().any(|b| b != b'0') {
        return Err(AmountError::Fraction);
    }
    // At most 15 digits here, so this always fits; a failure would still be a complaint, not a panic.
    let minor: i64 = format!("{whole}{pence:0<2}")
        .parse()
        .map_err(|_| AmountError::Form)?;
    if minor == 0 {
        return Err(AmountError::Zero);
    }
    Ok(minor)
}

/// Writes minor units as an exact decimal with two places, with a sign only below zero.
pub fn minor_format(minor: i64) -> String {
    let sign = if minor < 0 { "-" } else { "" };
    let size = minor.unsigned_abs();
    format!("{sign}{}.{:02}", size / 100, size % 100)
}

/// A UK sort code and account number: fourteen digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AccountNo(String);

/// Why a text is not a UK account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("must be a sort code and account number: 14 digits, or as 40-12-88/61102938")]
pub struct AccountError;

impl AccountNo {
    /// Reads `40128861102938`, the form of OBIE's `UK.OBIE.SortCodeAccountNumber`.
    pub fn from_digits(text: &str) -> Result<Self, AccountError> {
        if text.len() == 14 && text.bytes().all(|b| b.is_ascii_digit()) {
            Ok(Self(text.to_owned()))
        } else {
            Err(AccountError)
        }
    }

    /// Reads `40-12-88/61102938`, the form people write, or the fourteen digits.
    pub fn from_text(text: &str) -> Result<Self, AccountError> {
        let bytes = text.as_bytes();
        if bytes.len() != 17 {
            return Self::from_digits(text);
        }
        if (bytes[2], bytes[5], bytes[8]) != (b'-', b'-', b'/') {
            return Err(AccountError);
        }
        let digits: String = text
            .chars()
            .enumerate()
            .filter(|(at, _)| ![2, 5, 8].contains(at))
            .map(|(_, c)| c)
            .collect();
        Self::from_digits(&digits)
    }

    /// The fourteen digits.
    pub fn digits(&self) -> &str {
        &self.0
    }

    /// The same account with its last two digits swapped, or, where they are equal, with the last digit
    /// one higher: the slip a typing hand makes.
    pub fn slipped(&self) -> Self {
        let (head, tail) = self.0.split_at(12);
        let tail = tail.as_bytes();
        let (tens, ones) = (tail[0], tail[1]);
        let (tens, ones) = if tens == ones {
            (tens, b'0' + (ones - b'0' + 1) % 10)
        } else {
            (ones, tens)
        };
        Self(format!("{head}{}{}", tens as char, ones as char))
    }
}

impl fmt::Display for AccountNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let d = &self.0;
        write!(f, "{}-{}-{}/{}", &d[0..2], &d[2..4], &d[4..6], &d[6..14])
    }
}

/// The wrong amount of the `wrong-amount` fault: 300.00 less, or half when there is not that much to take away.
pub fn minor_slipped(minor: i64) -> i64 {
    match minor {
        ..=1 => 2,
        2..=30_000 => minor / 2,
        _ => minor - 30_000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact_and_strict() {
        for (text, want) in [
            ("5400.00", Ok(540_000)),
            ("5400", Ok(540_000)),
            ("5400.5", Ok(540_050)),
            ("0.01", Ok(1)),
            ("0.01000", Ok(1)),
            ("9999999999999.99", Ok(999_999_999_999_999)),
            ("0.001", Err(AmountError::Fraction)),
            ("0.00", Err(AmountError::Zero)),
            ("12345678901234", Err(AmountError::Form)),
            ("1.000000", Err(AmountError::Form)),
            ("1.", Err(AmountError::Form)),
            (".5", Err(AmountError::Form)),
            ("", Err(AmountError::Form)),
            ("-1.00", Err(AmountError::Form)),
            ("1,000.00", Err(AmountError::Form)),
            ("1.0.0", Err(AmountError::Form)),
            ("١.00", Err(AmountError::Form)),
        ] {
            assert_eq!(minor_parse(text), want, "{text}");
        }
        for (minor, want) in [(1, "0.01"), (540_000, "5400.00"), (-99, "-0.99"), (0, "0.00")] {
            assert_eq!(minor_format(minor), want);
        }
    }

    #[test]
    fn accounts_have_two_spellings_and_one_meaning() {
        let account = AccountNo::from_digits("40128861102938").unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(account.to_string(), "40-12-88/61102938");
        assert_eq!(AccountNo::from_text("40-12-88/61102938"), Ok(account.clone()));
        assert_eq!(AccountNo::from_text("40128861102938"), Ok(account));
        for bad in [
            "",
            "4012886110293",
            "40-12-88-61102938",
            "40/12-88/61102938",
            "4012886110293x",
            "40-12-88/6110293é",
        ] {
            assert_eq!(AccountNo::from_text(bad), Err(AccountError), "{bad}");
        }
    }

    #[test]
    fn slips_are_the_ones_the_readme_names() {
        let slip = |text| AccountNo::from_text(text).map(|a| a.slipped().to_string());
        assert_eq!(slip("40-12-88/61102938").as_deref(), Ok("40-12-88/61102983"));
        assert_eq!(slip("40-12-88/61102933").as_deref(), Ok("40-12-88/61102934"));
        assert_eq!(slip("40-12-88/61102999").as_deref(), Ok("40-12-88/61102990"));
        assert_eq!(minor_slipped(540_000), 510_000);
        assert_eq!(minor_slipped(30_000), 15_000);
        for minor in [1, 2, 3, 30_001] {
            let wrong = minor_slipped(minor);
            assert!(wrong > 0 && wrong != minor, "{minor} -> {wrong}");
        }
    }
}
