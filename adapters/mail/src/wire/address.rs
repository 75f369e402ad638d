//! Mail addresses, as narrow as an approver can judge: `local@domain` in the plain form of RFC 5321 §4.1.2.
//!
//! No quoted local part, no address literal, no comment, no source route: all are legal, none is what a supplier or a
//! customer uses, and each is a way to make an address look like another.

use std::fmt;

use crate::chars::{invisible, steers};

/// An address that was checked; it can stand in a header and in an envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address(String);

/// Why a text is no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AddressError {
    #[error("it has no @, or more than one")]
    At,
    #[error("it is longer than 254 characters, or its part before the @ than 64")]
    Length,
    #[error(
        "the part before the @ may hold letters, digits, single dots between them and !#$%&'*+-/=?^_`{{|}}~"
    )]
    Local,
    #[error("the domain must be labels of letters, digits and hyphens, with single dots between them")]
    Domain,
    #[error("it is not ASCII, and smtputf8 is not configured")]
    NotAscii,
}

impl Address {
    /// Reads one. `utf8` says whether characters outside ASCII may be in it (RFC 6531).
    pub fn parse(text: &str, utf8: bool) -> Result<Address, AddressError> {
        let (local, domain) = text.split_once('@').ok_or(AddressError::At)?;
        if domain.contains('@') {
            return Err(AddressError::At);
        }
        if text.len() > 254 || local.len() > 64 {
            return Err(AddressError::Length);
        }
        if !text.is_ascii() && !utf8 {
            return Err(AddressError::NotAscii);
        }
        let dots = |part: &str| part.is_empty() || part.split('.').any(str::is_empty);
        if dots(local) || !local.chars().all(|c| c == '.' || atom(c)) {
            return Err(AddressError::Local);
        }
        let label = |label: &str| {
            (1..=63).contains(&label.len())
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.chars().all(|c| c == '-' || letter(c))
        };
        if domain.is_empty() || !domain.split('.').all(label) {
            return Err(AddressError::Domain);
        }
        Ok(Address(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn is_ascii(&self) -> bool {
        self.0.is_ascii()
    }

    /// What stands after the `@`.
    pub fn domain(&self) -> &str {
        self.0.split_once('@').map_or("", |(_, domain)| domain)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// RFC 5322 `atext`, and what RFC 6532 adds to it.
fn atom(c: char) -> bool {
    if c.is_ascii() {
        c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c)
    } else {
        !steers(c) && !invisible(c) && !c.is_whitespace()
    }
}

fn letter(c: char) -> bool {
    c.is_ascii_alphanumeric() || (!c.is_ascii() && c.is_alphanumeric() && !invisible(c))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn plain_addresses_are_taken_and_clever_ones_are_not() {
        for good in [
            "ar@northfield.example",
            "a.b+c@x-y.example",
            "root@localhost",
            "o'neil@a.b.c",
        ] {
            assert!(Address::parse(good, false).is_ok(), "{good}");
        }
        for bad in [
            "",
            "a",
            "@b",
            "a@",
            "a@@b",
            "a@b@c",
            ".a@b",
            "a.@b",
            "a..b@c",
            "a b@c",
            "\"a b\"@c",
            "a@[127.0.0.1]",
            "a@-b",
            "a@b-",
            "a@b..c",
            "a@b.",
            "a@b,c",
            "a@b>c",
            "<a@b>",
            "a@b\r\nRCPT",
            "a\r@b",
            "a@b c",
            "a@b_c",
            "a(x)@b",
            "a:b@c",
            "a;b@c",
            "a\\b@c",
        ] {
            assert!(Address::parse(bad, false).is_err(), "{bad:?}");
            assert!(Address::parse(bad, true).is_err(), "{bad:?}");
        }
        assert!(Address::parse(&format!("{}@b", "a".repeat(65)), false).is_err());
    }

    #[test]
    fn other_alphabets_need_smtputf8_and_still_may_not_hide_anything() {
        assert_eq!(
            Address::parse("jörg@müller.example", false),
            Err(AddressError::NotAscii)
        );
        assert!(Address::parse("jörg@müller.example", true).is_ok());
        for bad in [
            "a\u{202e}b@c",
            "a\u{200b}b@c",
            "a@b\u{2028}c",
            "a\u{85}@b",
            "a@b\u{ff0e}c",
        ] {
            assert!(Address::parse(bad, true).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_taken_is_one_word_of_a_command(text in "[ -~\\r\\n\\t\u{80}-\u{2100}]{1,30}@[ -~\\r\\n\u{80}-\u{2100}]{1,30}") {
            for utf8 in [false, true] {
                if let Ok(address) = Address::parse(&text, utf8) {
                    let bad = |c: char| c.is_whitespace() || c.is_control() || "<>,;:\"()[]\\".contains(c);
                    prop_assert!(!address.as_str().contains(bad));
                    prop_assert!(utf8 || address.is_ascii());
                }
            }
        }
    }
}
