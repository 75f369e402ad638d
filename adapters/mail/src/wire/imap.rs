//! IMAP's words (RFC 9051, RFC 3501), as few as a look into one mailbox needs.

use crate::chars::clean;

/// The longest line read, in bytes.
pub(crate) const LINE_MAX: usize = 16 * 1024;
/// The largest literal read, in bytes: some headers of one message.
pub(crate) const LITERAL_MAX: usize = 32 * 1024;
/// How many lines a command's answer may have.
pub(crate) const LINES_MAX: usize = 1_000;
/// How many messages a search may name; an archive holds one of an act.
pub(crate) const HITS_MAX: usize = 50;

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    Ok,
    No(String),
}

/// A quoted string, or `None` for what cannot be one.
pub(crate) fn quoted(text: &str) -> Option<String> {
    if !text.bytes().all(|b| (0x20..0x7f).contains(&b)) {
        return None;
    }
    let mut out = String::from("\"");
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
    Some(out)
}

/// How the command tagged `tag` ended, if this line says so.
pub(crate) fn ended(line: &str, tag: &str) -> Option<Ended> {
    let rest = line.strip_prefix(tag)?.strip_prefix(' ')?;
    let word = rest.split(' ').next().unwrap_or_default();
    if word.eq_ignore_ascii_case("OK") {
        Some(Ended::Ok)
    } else {
        Some(Ended::No(clean(rest, 200)))
    }
}

/// The numbers of a `* SEARCH` line; `None` if it is another line or they cannot be read.
pub(crate) fn search(line: &str) -> Option<Vec<u32>> {
    let rest = line.strip_prefix("* ")?;
    let (word, numbers) = rest.split_once(' ').unwrap_or((rest, ""));
    if !word.eq_ignore_ascii_case("SEARCH") {
        return None;
    }
    numbers.split_ascii_whitespace().map(|n| n.parse().ok()).collect()
}

/// The size of the literal a line announces at its end.
pub(crate) fn literal(line: &str) -> Option<usize> {
    let (_, size) = line.strip_suffix('}')?.rsplit_once('{')?;
    size.parse().ok()
}

/// A header's value in a block of headers, its folds undone; `None` if it is not there exactly once.
pub(crate) fn header(block: &str, name: &str) -> Option<String> {
    let unfolded = block.replace("\r\n ", " ").replace("\r\n\t", " ");
    let mut found = unfolded.lines().filter_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
    });
    let value = found.next()?;
    found.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_cannot_leave_its_quotes() {
        assert_eq!(quoted("a\"b\\c").as_deref(), Some("\"a\\\"b\\\\c\""));
        for bad in ["a\r\nb", "a\nb", "a\0", "ü"] {
            assert_eq!(quoted(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn answers_are_read_as_they_are_written() {
        assert_eq!(ended("a1 OK done", "a1"), Some(Ended::Ok));
        assert_eq!(
            ended("a1 NO [AUTHENTICATIONFAILED] no", "a1"),
            Some(Ended::No("NO [AUTHENTICATIONFAILED] no".to_owned()))
        );
        assert_eq!(ended("a11 OK done", "a1"), None);
        assert_eq!(search("* SEARCH 4 17"), Some(vec![4, 17]));
        assert_eq!(search("* SEARCH"), Some(vec![]));
        assert_eq!(search("* SEARCH x"), None);
        assert_eq!(search("* OK searched"), None);
        assert_eq!(
            literal("* 1 FETCH (UID 4 BODY[HEADER.FIELDS (TO)] {57}"),
            Some(57)
        );
        assert_eq!(literal("* 1 FETCH (UID 4)"), None);
    }

    #[test]
    fn a_header_is_found_once_or_not_at_all() {
        let block = "message-id:\r\n <a.1@b>\r\nTo: x@y\r\n\r\n";
        assert_eq!(header(block, "Message-ID").as_deref(), Some("<a.1@b>"));
        assert_eq!(header(block, "to").as_deref(), Some("x@y"));
        assert_eq!(header("To: a@b\r\nTo: c@d\r\n", "To"), None);
        assert_eq!(header(block, "Subject"), None);
    }
}
