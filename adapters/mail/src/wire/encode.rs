//! Text in seven bits: quoted-printable (RFC 2045 §6.7), encoded words (RFC 2047) and file names (RFC 2231).

/// The longest line of quoted-printable, without its end (RFC 2045 §6.7 rule 5).
const LINE: usize = 76;
/// How many bytes of text go into one encoded word: 60 characters of base64, with its frame under 75 (RFC 2047 §2).
const WORD_BYTES: usize = 45;

/// A text with `\n` as its line ends, as quoted-printable with CRLF. It ends with one.
pub(crate) fn quoted_printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8 + 2);
    let text = text.strip_suffix('\n').unwrap_or(text);
    for line in text.split('\n') {
        quote_line(line, &mut out);
        out.push_str("\r\n");
    }
    out
}

/// One token of the encoding at a time, so that no `=XX` is ever broken over two lines.
fn quote_line(line: &str, out: &mut String) {
    let bytes = line.as_bytes();
    let mut column = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        let last = at + 1 == bytes.len();
        // Some hops still write `>From ` for a line that begins so, which changes the message on its way.
        let from = at == 0 && line.starts_with("From ");
        let plain = match byte {
            b'=' => false,
            b' ' | b'\t' => !last,
            33..=126 => !from,
            _ => false,
        };
        let token = if plain {
            char::from(byte).to_string()
        } else {
            format!("={byte:02X}")
        };
        // Room for the soft line end, unless this is the last token.
        let most = if last { LINE } else { LINE - 1 };
        if column + token.len() > most {
            out.push_str("=\r\n");
            column = 0;
        }
        out.push_str(&token);
        column += token.len();
    }
}

/// A header's unstructured text: as it is where that is short printable ASCII, else as encoded words, one a line.
pub(crate) fn unstructured(text: &str) -> String {
    let plain = text.len() <= 66
        && text.bytes().all(|b| (0x20..0x7f).contains(&b))
        && !text.contains("=?")
        && !text.starts_with(' ')
        && !text.ends_with(' ');
    if plain && !text.is_empty() {
        return text.to_owned();
    }
    encoded_words(text)
}

/// A name before an address: quoted where it is short ASCII, else as encoded words.
pub(crate) fn phrase(text: &str) -> String {
    let plain = text.len() <= 60 && text.bytes().all(|b| (0x20..0x7f).contains(&b)) && !text.contains("=?");
    if !plain {
        return encoded_words(text);
    }
    let mut out = String::from("\"");
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
    out
}

fn encoded_words(text: &str) -> String {
    let mut words = Vec::new();
    let mut chunk = String::new();
    for c in text.chars() {
        // A character is never split over two words (RFC 2047 §5).
        if chunk.len() + c.len_utf8() > WORD_BYTES {
            words.push(std::mem::take(&mut chunk));
        }
        chunk.push(c);
    }
    words.push(chunk);
    let words = words
        .iter()
        .map(|w| format!("=?UTF-8?B?{}?=", data_encoding::BASE64.encode(w.as_bytes())));
    words.collect::<Vec<_>>().join("\r\n ")
}

/// The `filename` parameter.
pub(crate) fn file_name(name: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b' ');
    if name.len() <= 60 && name.bytes().all(plain) {
        return format!("filename=\"{name}\"");
    }
    let attribute = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let mut out = String::from("filename*=UTF-8''");
    for byte in name.bytes() {
        if attribute(byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Bytes as base64 in lines of 76 characters with CRLF (RFC 2045 §6.8).
pub(crate) fn base64_lines(bytes: &[u8]) -> String {
    let mut out = data_encoding::BASE64_MIME.encode(bytes);
    if !out.is_empty() && !out.ends_with("\r\n") {
        out.push_str("\r\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads quoted-printable as RFC 2045 says a receiver does.
    fn read_back(encoded: &str) -> String {
        let mut bytes = Vec::new();
        for line in encoded.strip_suffix("\r\n").unwrap_or(encoded).split("\r\n") {
            let (line, soft) = match line.strip_suffix('=') {
                Some(line) => (line, true),
                None => (line, false),
            };
            let mut rest = line.as_bytes();
            while let Some((&b, after)) = rest.split_first() {
                if b == b'=' {
                    let digits = data_encoding::HEXUPPER.decode(&after[..2]).expect("two digits");
                    bytes.extend(digits);
                    rest = &after[2..];
                } else {
                    bytes.push(b);
                    rest = after;
                }
            }
            if !soft {
                bytes.push(b'\n');
            }
        }
        bytes.pop();
        String::from_utf8(bytes).expect("UTF-8")
    }

    #[test]
    fn quoted_printable_is_what_the_standard_says() {
        assert_eq!(
            quoted_printable("1 = 1 \nGrüße"),
            "1 =3D 1=20\r\nGr=C3=BC=C3=9Fe\r\n"
        );
        assert_eq!(
            quoted_printable("From here\nAnd From there"),
            "=46rom here\r\nAnd From there\r\n"
        );
        assert_eq!(quoted_printable(""), "\r\n");
        let long = quoted_printable(&"a".repeat(80));
        assert_eq!(long, format!("{}=\r\n{}\r\n", "a".repeat(75), "a".repeat(5)));
        assert_eq!(
            quoted_printable(&"a".repeat(76)),
            format!("{}\r\n", "a".repeat(76))
        );
    }

    #[test]
    fn headers_stay_in_seven_bits_and_on_their_line() {
        assert_eq!(unstructured("Remittance advice 7731"), "Remittance advice 7731");
        assert_eq!(unstructured("Grüße"), "=?UTF-8?B?R3LDvMOfZQ==?=");
        assert_eq!(unstructured("=?UTF-8?Q?x?="), "=?UTF-8?B?PT9VVEYtOD9RP3g/PQ==?=");
        assert_eq!(phrase("Accounts \"A\""), "\"Accounts \\\"A\\\"\"");
        assert_eq!(file_name("invoice 7.pdf"), "filename=\"invoice 7.pdf\"");
        assert_eq!(
            file_name("Rechnung ü.pdf"),
            "filename*=UTF-8''Rechnung%20%C3%BC.pdf"
        );
        assert_eq!(file_name("a\".pdf"), "filename*=UTF-8''a%22.pdf");
    }

    proptest! {
        #[test]
        fn a_text_is_read_back_as_it_was(text in "[\\PC\n =.]{0,400}") {
            let encoded = quoted_printable(&text);
            prop_assert!(encoded.is_ascii());
            for line in encoded.split("\r\n") {
                prop_assert!(line.len() <= 76, "{line}");
                prop_assert!(!line.contains(['\r', '\n']) && !line.ends_with([' ', '\t']));
            }
            // With and without an end, the last line is the same line.
            prop_assert_eq!(read_back(&encoded), text.strip_suffix('\n').unwrap_or(&text));
        }

        #[test]
        fn a_subject_is_seven_bit_lines_that_go_on_with_a_space(text in "\\PC{1,200}") {
            for written in [unstructured(&text), phrase(&text)] {
                prop_assert!(written.is_ascii());
                for (n, line) in written.split("\r\n").enumerate() {
                    prop_assert!(line.len() <= 126 && !line.contains(['\r', '\n']));
                    prop_assert!(n == 0 || line.starts_with(' '));
                }
            }
        }

        #[test]
        fn a_file_name_is_one_parameter(name in "\\PC{1,60}") {
            let written = file_name(&name);
            prop_assert!(written.is_ascii() && !written.contains([';', '\r', '\n', '\\']));
            prop_assert!(written.matches('"').count() == 0 || written.matches('"').count() == 2);
        }
    }
}
