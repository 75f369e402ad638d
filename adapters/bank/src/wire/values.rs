//! Amounts and accounts, as a line writes them and as Open Banking does. Text in, text out; never a float.

/// A UK sort code and account number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account(String);

/// OBIE's name for the scheme of fourteen digits.
pub(crate) const SCHEME: &str = "UK.OBIE.SortCodeAccountNumber";

impl Account {
    /// Reads `40-12-88/61102938` or `40128861102938`.
    pub fn from_text(text: &str) -> Option<Account> {
        let bytes = text.as_bytes();
        let digits: String = match bytes.len() {
            14 => text.to_owned(),
            17 if bytes[2] == b'-' && bytes[5] == b'-' && bytes[8] == b'/' => {
                text.chars().filter(|c| !matches!(c, '-' | '/')).collect()
            }
            _ => return None,
        };
        (digits.len() == 14 && digits.bytes().all(|b| b.is_ascii_digit())).then_some(Account(digits))
    }

    /// The fourteen digits.
    pub fn digits(&self) -> &str {
        &self.0
    }

    /// As a line writes it: `40-12-88/61102938`.
    pub fn on_line(&self) -> String {
        let d = &self.0;
        format!("{}-{}-{}/{}", &d[..2], &d[2..4], &d[4..6], &d[6..])
    }
}

/// An amount as OBIE writes it (`^\d{1,13}(\.\d{1,5})?$`), as a line writes it: two decimals, no leading zeros.
/// `None` if it is neither, or is more precise than two decimals.
pub(crate) fn amount_on_line(text: &str) -> Option<String> {
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) if (1..=5).contains(&fraction.len()) => (whole, fraction),
        Some(_) => return None,
        None => (text, ""),
    };
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if !(1..=13).contains(&whole.len()) || !digits(whole) || !digits(fraction) {
        return None;
    }
    let (hundredths, beyond) = fraction.split_at(fraction.len().min(2));
    if beyond.bytes().any(|b| b != b'0') {
        return None;
    }
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    Some(format!("{whole}.{hundredths:0<2}"))
}

/// Whether an amount on a line can be asked of a bank: RW1 money (two decimals), above zero, at most thirteen digits
/// before the point.
pub(crate) fn amount_can_be_asked(text: &str) -> bool {
    amount_on_line(text).is_some_and(|same| same == text) && text.bytes().any(|b| (b'1'..=b'9').contains(&b))
}

/// A text of the counterparty's, fit for a line's tail or a log: no control, bidirectional or line-breaking
/// characters, at most `limit` characters.
pub(crate) fn clean(text: &str, limit: usize) -> String {
    let plain = text.chars().map(|c| {
        if c == ' ' || c.is_ascii_graphic() || is_letter(c) {
            c
        } else {
            '?'
        }
    });
    let mut short: String = plain.take(limit).collect();
    if text.chars().nth(limit).is_some() {
        short.push_str("...");
    }
    short
}

fn is_letter(c: char) -> bool {
    c.is_alphanumeric() && !c.is_control()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_has_two_spellings_and_one_meaning() {
        let one = Account::from_text("40-12-88/61102938");
        assert_eq!(one, Account::from_text("40128861102938"));
        assert_eq!(one.map(|a| a.on_line()).as_deref(), Some("40-12-88/61102938"));
        for bad in [
            "",
            "4012886110293",
            "40-12-88-61102938",
            "40/12-88/61102938",
            "40-12-88/6110-938",
            "4012886110293x",
            "40-12-88/6110293é",
            "4012886110293٣",
        ] {
            assert_eq!(Account::from_text(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_banks_amount_is_shown_with_two_decimals_or_not_at_all() {
        for (obie, line) in [
            ("5400.00", Some("5400.00")),
            ("5400", Some("5400.00")),
            ("5400.5", Some("5400.50")),
            ("5400.00000", Some("5400.00")),
            ("05400.00", Some("5400.00")),
            ("0.01", Some("0.01")),
            ("00.10", Some("0.10")),
            ("9999999999999.99", Some("9999999999999.99")),
            ("5400.001", None),
            ("5400.", None),
            (".50", None),
            ("5,400.00", None),
            ("-5400.00", None),
            ("+5400.00", None),
            ("5400.000000", None),
            ("12345678901234", None),
            ("5400.00 ", None),
            ("٥.00", None),
            ("", None),
        ] {
            assert_eq!(amount_on_line(obie).as_deref(), line, "{obie}");
        }
    }

    #[test]
    fn only_a_lines_own_form_above_zero_is_asked() {
        assert!(amount_can_be_asked("5400.00"));
        assert!(amount_can_be_asked("0.01"));
        for bad in [
            "5400",
            "5400.0",
            "0.00",
            "05400.00",
            "-1.00",
            "12345678901234.00",
            "５.00",
        ] {
            assert!(!amount_can_be_asked(bad), "{bad}");
        }
    }

    #[test]
    fn a_counterpartys_words_cannot_break_a_line() {
        assert_eq!(clean("a\nb\u{202e}c\u{200b}d", 10), "a?b?c?d");
        assert_eq!(clean("Café Ångström", 40), "Café Ångström");
        assert_eq!(clean("abcdef", 3), "abc...");
    }
}
