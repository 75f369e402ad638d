//! Which characters a line may carry.
//!
//! A line is read by programs, by models and by people in terminals, and all three must see the same thing. So no
//! control, bidirectional or line-breaking character is accepted anywhere; and outside the tail, where values decide
//! where money goes, no white space but the separating space and no character that shows nothing.

use std::borrow::Cow;

/// The first character that may not stand in the part of a line before its tail.
pub(crate) fn forbidden_in_slots(s: &str) -> Option<char> {
    if is_plain_ascii(s) {
        return None;
    }
    s.chars()
        .find(|&c| forbidden_everywhere(c) || (c != ' ' && c.is_whitespace()) || is_invisible(c))
}

/// The first character that may not stand in a tail.
pub(crate) fn forbidden_in_tail(s: &str) -> Option<char> {
    if is_plain_ascii(s) {
        return None;
    }
    s.chars().find(|&c| forbidden_everywhere(c))
}

/// `s` with every character a terminal could act on written as `\u{..}`.
pub(crate) fn shown(s: &str) -> Cow<'_, str> {
    if forbidden_in_tail(s).is_none() {
        return Cow::Borrowed(s);
    }
    let mut out = String::with_capacity(s.len() + 16);
    for c in s.chars() {
        if forbidden_everywhere(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// `U+202E` and the like, for messages.
pub(crate) fn code_point(c: char) -> String {
    format!("U+{:04X}", c as u32)
}

fn is_plain_ascii(s: &str) -> bool {
    // without a way out in the middle, so that many bytes are looked at at once
    s.bytes().fold(true, |plain, b| plain & (0x20..0x7f).contains(&b))
}

fn forbidden_everywhere(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}')
        // marks and overrides that change the order in which text is shown (Unicode UAX #9)
        || matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Code points that are ignored when shown (Unicode `Default_Ignorable_Code_Point`): two values that look the same
/// could differ by them.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{00ad}' | '\u{034f}' | '\u{061c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_may_not_hide_anything() {
        for bad in [
            "a\tb",
            "a\u{a0}b",
            "a\u{200b}b",
            "a\u{202e}b",
            "a\u{feff}",
            "a\u{2028}b",
            "\u{1b}[2J",
            "a\u{7f}",
        ] {
            assert!(forbidden_in_slots(bad).is_some(), "{bad:?}");
        }
        assert_eq!(forbidden_in_slots("Müller-&-Söhne 東京"), None);
    }

    #[test]
    fn a_tail_is_prose_but_stays_on_its_line() {
        assert_eq!(forbidden_in_tail("naïve\u{a0}prose, 👩\u{200d}🚒"), None);
        for bad in ["a\rb", "a\nb", "a\u{85}b", "a\u{2029}b", "a\u{2067}b", "a\0b"] {
            assert!(forbidden_in_tail(bad).is_some(), "{bad:?}");
        }
    }

    #[test]
    fn what_is_shown_cannot_drive_a_terminal() {
        assert_eq!(shown("a\u{1b}[31mb"), "a\\u{1b}[31mb");
        assert_eq!(shown("plain"), "plain");
    }
}
