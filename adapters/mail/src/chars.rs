//! Which characters may go into a mail, and words as a slot writes them.
//!
//! A slot's value has no spaces. Where it stands for words (a subject, a text, a name), a space is written `_`, and any other
//! byte that cannot stand on a line as `%` and two hexadecimal digits, `_` and `%` themselves too.

/// The longest words a slot may hold, in bytes once read.
pub(crate) const WORDS_MAX: usize = 8 * 1024;

/// Whether a line end may be among the words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lines {
    One,
    Many,
}

/// A character that ends a header, drives a terminal, or turns the order in which text is shown (Unicode UAX #9).
pub(crate) fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}')
        || matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A character that shows nothing (Unicode `Default_Ignorable_Code_Point`).
pub(crate) fn invisible(c: char) -> bool {
    matches!(c,
        '\u{00ad}' | '\u{034f}' | '\u{061c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// The words a value stands for.
///
/// # Errors
/// The rule it breaks.
pub(crate) fn words(value: &str, lines: Lines) -> Result<String, String> {
    if value.len() > 3 * WORDS_MAX {
        return Err(too_long());
    }
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'_' => bytes.push(b' '),
            b'%' => {
                let Some((digits, after)) = rest.split_at_checked(2) else {
                    return Err("% is not followed by two hexadecimal digits".to_owned());
                };
                let read = data_encoding::HEXLOWER_PERMISSIVE.decode(digits);
                let read = read.map_err(|_| "% is not followed by two hexadecimal digits".to_owned())?;
                bytes.extend(read);
                rest = after;
            }
            other => bytes.push(other),
        }
    }
    if bytes.len() > WORDS_MAX {
        return Err(too_long());
    }
    let text = String::from_utf8(bytes).map_err(|_| "is not UTF-8 once its % are read".to_owned())?;
    match text.chars().find(|&c| refused(c, lines)) {
        Some(c) => Err(format!(
            "holds {}, which may not stand in a mail's words",
            point(c)
        )),
        None => Ok(text),
    }
}

/// The value that stands for these words.
pub(crate) fn on_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if c == ' ' {
            out.push('_');
        } else if plain(c) {
            out.push(c);
        } else {
            let mut buffer = [0; 4];
            for byte in c.encode_utf8(&mut buffer).bytes() {
                out.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    out
}

/// What somebody else said, for a message: short, on one line, and nothing a terminal would act on.
pub(crate) fn clean(text: &str, most: usize) -> String {
    let shown = text
        .chars()
        .map(|c| if steers(c) || invisible(c) { '\u{fffd}' } else { c });
    let mut out: String = shown.take(most).collect();
    if text.chars().nth(most).is_some() {
        out.push('…');
    }
    out
}

/// `U+202E` and the like.
pub(crate) fn point(c: char) -> String {
    format!("U+{:04X}", u32::from(c))
}

fn refused(c: char, lines: Lines) -> bool {
    let line_end = c == '\n' && lines == Lines::Many;
    (steers(c) || invisible(c)) && !line_end
}

fn plain(c: char) -> bool {
    match c {
        '-' | '.' | ',' | ':' | '/' | '(' | ')' | '!' | '?' | '\'' | '&' | '@' | '#' => true,
        c if c.is_ascii() => c.is_ascii_alphanumeric(),
        c => c.is_alphanumeric() && !invisible(c) && !steers(c),
    }
}

fn too_long() -> String {
    format!("stands for more than {WORDS_MAX} bytes; put a longer text into a file and name it by its digest")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_are_written_without_spaces_and_read_back() {
        assert_eq!(on_line("Your order, 50% off_now"), "Your_order,_50%25_off%5Fnow");
        assert_eq!(
            words("Gr%C3%BC%C3%9Fe_an_Anna", Lines::One).as_deref(),
            Ok("Grüße an Anna")
        );
        assert_eq!(words("Grüße", Lines::One).as_deref(), Ok("Grüße"));
        assert_eq!(words("two%0Alines", Lines::Many).as_deref(), Ok("two\nlines"));
    }

    #[test]
    fn what_ends_a_header_or_hides_is_refused() {
        for bad in [
            "a%0Ab",
            "a%0Db",
            "a%00b",
            "a%E2%80%AEb",
            "a%E2%80%8Bb",
            "a%7Fb",
            "a%FFb",
            "a%4",
            "a%zz",
        ] {
            assert!(words(bad, Lines::One).is_err(), "{bad}");
        }
        for bad in ["a%0D%0Ab", "a%00b", "a%E2%80%AEb"] {
            assert!(words(bad, Lines::Many).is_err(), "{bad}");
        }
        assert!(words(&"a".repeat(WORDS_MAX + 1), Lines::One).is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(text in "\\PC{0,200}") {
            let written = on_line(&text);
            prop_assert!(!written.contains(|c: char| c.is_whitespace() || c.is_control()));
            match words(&written, Lines::One) {
                Ok(read) => prop_assert_eq!(read, text),
                Err(_) => prop_assert!(text.chars().any(|c| steers(c) || invisible(c))),
            }
        }

        #[test]
        fn no_value_makes_a_second_line(value in "[ -~%_0-9a-fA-F]{0,60}") {
            if let Ok(text) = words(&value, Lines::One) {
                prop_assert!(!text.contains(['\r', '\n', '\0']));
            }
        }
    }
}
