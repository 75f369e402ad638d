//! SMTP's words (RFC 5321, with DSN of RFC 3461, SIZE of RFC 1870, AUTH of RFC 4954 and SMTPUTF8 of RFC 6531).

use super::address::Address;
use crate::chars::clean;

/// The longest reply line read, in bytes (RFC 5321 §4.5.3.1.5 says 512; some servers say more).
pub(crate) const REPLY_LINE_MAX: usize = 2_048;
/// How many lines a reply may have.
pub(crate) const REPLY_LINES_MAX: usize = 100;

/// A server's reply, all its lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub code: u16,
    pub lines: Vec<String>,
}

/// One line of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReplyLine {
    pub code: u16,
    /// More lines follow.
    pub more: bool,
    pub text: String,
}

/// What the server offers, from its answer to EHLO.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Offers {
    pub starttls: bool,
    pub dsn: bool,
    pub smtputf8: bool,
    pub eightbit: bool,
    /// The largest message it takes, if it says one; 0 is none.
    pub size: Option<u64>,
    size_named: bool,
    pub auth: Vec<String>,
}

/// Who a message is from and for, as the envelope says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub from: Address,
    pub to: Address,
    /// The archive's own copy.
    pub archive: Option<Address>,
}

/// What the reply to the final dot means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Handed {
    /// Taken on, with the queue id if the reply shows one.
    Over { receipt: String },
    /// Refused, and the transaction with it.
    Refused(String),
    /// Neither.
    Unclear(String),
}

impl Reply {
    /// As operators read it, on one line.
    pub fn shown(&self) -> String {
        let text = self.lines.join(" ");
        clean(format!("{} {text}", self.code).trim(), 300)
    }
}

/// Reads a reply line without its line end.
pub(crate) fn reply_line(line: &[u8]) -> Option<ReplyLine> {
    let (code, rest) = line.split_at_checked(3)?;
    if !code.iter().all(u8::is_ascii_digit) || !(b'2'..=b'5').contains(&code[0]) {
        return None;
    }
    let code = code.iter().fold(0u16, |n, d| n * 10 + u16::from(d - b'0'));
    let more = match rest.first() {
        None | Some(b' ') => false,
        Some(b'-') => true,
        Some(_) => return None,
    };
    let text = String::from_utf8_lossy(rest.get(1..).unwrap_or_default()).into_owned();
    Some(ReplyLine { code, more, text })
}

/// What the answer to EHLO offers. Its first line greets.
pub(crate) fn offers(reply: &Reply) -> Offers {
    let mut offers = Offers::default();
    for line in reply.lines.iter().skip(1) {
        let mut words = line.split_ascii_whitespace();
        let keyword = words.next().unwrap_or_default().to_ascii_uppercase();
        match keyword.as_str() {
            "STARTTLS" => offers.starttls = true,
            "DSN" => offers.dsn = true,
            "SMTPUTF8" => offers.smtputf8 = true,
            "8BITMIME" => offers.eightbit = true,
            "SIZE" => {
                offers.size_named = true;
                offers.size = words.next().and_then(|n| n.parse().ok()).filter(|n| *n > 0);
            }
            "AUTH" => offers.auth.extend(words.map(str::to_ascii_uppercase)),
            _ => {}
        }
    }
    offers
}

/// `MAIL FROM`. `reference` is the envelope's id, by which a notification names the act.
pub(crate) fn mail_from(
    envelope: &Envelope,
    message: &str,
    reference: &str,
    offers: &Offers,
    dsn: bool,
) -> String {
    let mut line = format!("MAIL FROM:<{}>", envelope.from);
    if offers.size_named {
        line.push_str(&format!(" SIZE={}", message.len()));
    }
    if dsn && offers.dsn {
        line.push_str(&format!(" RET=HDRS ENVID={}", xtext(reference)));
    }
    if needs_utf8(envelope, message) {
        line.push_str(" SMTPUTF8 BODY=8BITMIME");
    }
    line
}

/// `RCPT TO` for the one recipient.
pub(crate) fn rcpt_to(to: &Address, offers: &Offers, dsn: bool) -> String {
    let mut line = format!("RCPT TO:<{to}>");
    if dsn && offers.dsn {
        // An address outside ASCII has a form of its own here (RFC 6533 §3), in which it is written as it is.
        let kind = if to.is_ascii() { "rfc822" } else { "utf-8" };
        let orcpt = if to.is_ascii() {
            xtext(to.as_str())
        } else {
            to.to_string()
        };
        line.push_str(&format!(" NOTIFY=SUCCESS,FAILURE,DELAY ORCPT={kind};{orcpt}"));
    }
    line
}

/// `RCPT TO` for the archive's copy: nobody is told what becomes of it.
pub(crate) fn rcpt_archive(archive: &Address, offers: &Offers, dsn: bool) -> String {
    let notify = if dsn && offers.dsn { " NOTIFY=NEVER" } else { "" };
    format!("RCPT TO:<{archive}>{notify}")
}

/// Whether envelope or headers cannot be said in ASCII: only an address among them makes it so.
pub(crate) fn needs_utf8(envelope: &Envelope, message: &str) -> bool {
    let archive = envelope.archive.as_ref().is_none_or(Address::is_ascii);
    !(envelope.from.is_ascii() && envelope.to.is_ascii() && archive && message.is_ascii())
}

/// The message as DATA carries it, without the final dot: a line that begins with a dot gets another (RFC 5321 §4.5.2).
/// The message ends with CRLF already.
pub(crate) fn stuffed(message: &str) -> String {
    let mut out = String::with_capacity(message.len() + 64);
    if message.starts_with('.') {
        out.push('.');
    }
    out.push_str(&message.replace("\r\n.", "\r\n.."));
    out
}

/// What the reply to the final dot means. `421` is the server's word about the connection, which it may say at any moment
/// (RFC 5321 §3.8), so it says nothing of the message.
pub(crate) fn handed(reply: &Reply) -> Handed {
    match reply.code {
        250 => Handed::Over {
            receipt: clean(&reply.lines.join(" "), 200),
        },
        421 => Handed::Unclear(format!("to the final dot the server answers {}", reply.shown())),
        400..=599 => Handed::Refused(format!("the server refuses the message: {}", reply.shown())),
        _ => Handed::Unclear(format!("to the final dot the server answers {}", reply.shown())),
    }
}

/// RFC 3461 §4.
fn xtext(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if (33..=126).contains(&byte) && byte != b'+' && byte != b'=' {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("+{byte:02X}"));
        }
    }
    out
}

impl Envelope {
    /// As it is frozen: the addresses with a space between them, which none of them can hold.
    pub fn frozen(&self) -> String {
        let archive = self.archive.as_ref().map(|a| format!(" {a}")).unwrap_or_default();
        format!("{} {}{archive}", self.from, self.to)
    }

    /// Reads what was frozen.
    pub fn thawed(text: &str) -> Result<Envelope, String> {
        let mut words = text.split(' ');
        let mut next = || {
            let word = words.next();
            word.map(|w| Address::parse(w, true).map_err(|e| format!("the frozen envelope {text:?}: {e}")))
        };
        let (from, to, archive, more) = (next(), next(), next(), next());
        match (from, to, archive, more) {
            (Some(from), Some(to), archive, None) => Ok(Envelope {
                from: from?,
                to: to?,
                archive: archive.transpose()?,
            }),
            _ => Err(format!(
                "the frozen envelope {text:?} has not two or three addresses"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(text: &str) -> Address {
        Address::parse(text, true).expect("an address")
    }

    fn reply(code: u16, lines: &[&str]) -> Reply {
        Reply {
            code,
            lines: lines.iter().map(|l| (*l).to_owned()).collect(),
        }
    }

    #[test]
    fn replies_are_read_strictly() {
        let line = reply_line(b"250-PIPELINING").expect("a line");
        assert_eq!(
            (line.code, line.more, line.text.as_str()),
            (250, true, "PIPELINING")
        );
        assert!(!reply_line(b"354").expect("a line").more);
        for bad in [&b"25"[..], b"abc", b"250x", b"150 no", b"650 no", b"", b"2 50"] {
            assert_eq!(reply_line(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn what_a_server_offers_is_used_and_nothing_else() {
        let all = offers(&reply(
            250,
            &["mail.example", "SIZE 1000", "dsn", "AUTH PLAIN LOGIN", "STARTTLS"],
        ));
        assert!(all.dsn && all.starttls && !all.smtputf8);
        assert_eq!((all.size, all.auth.len()), (Some(1000), 2));
        let none = offers(&reply(250, &["DSN"]));
        assert!(!none.dsn, "the first line is a greeting");
        let envelope = Envelope {
            from: address("pay@x.example"),
            to: address("a+b=c@y.example"),
            archive: Some(address("archive@x.example")),
        };
        assert_eq!(
            mail_from(&envelope, "1234567", "0123", &all, true),
            "MAIL FROM:<pay@x.example> SIZE=7 RET=HDRS ENVID=0123"
        );
        assert_eq!(
            rcpt_to(&envelope.to, &all, true),
            "RCPT TO:<a+b=c@y.example> NOTIFY=SUCCESS,FAILURE,DELAY ORCPT=rfc822;a+2Bb+3Dc@y.example"
        );
        assert_eq!(
            rcpt_archive(&address("archive@x.example"), &all, true),
            "RCPT TO:<archive@x.example> NOTIFY=NEVER"
        );
        assert_eq!(
            mail_from(&envelope, "1234567", "0123", &none, true),
            "MAIL FROM:<pay@x.example>"
        );
        assert_eq!(rcpt_to(&envelope.to, &all, false), "RCPT TO:<a+b=c@y.example>");
    }

    #[test]
    fn only_250_hands_over_and_only_an_answer_about_the_message_refuses() {
        assert!(
            matches!(handed(&reply(250, &["2.0.0 Ok: queued as 4F1"])), Handed::Over { receipt } if receipt.contains("4F1"))
        );
        for code in [450, 451, 452, 550, 552, 554] {
            assert!(
                matches!(handed(&reply(code, &["no"])), Handed::Refused(_)),
                "{code}"
            );
        }
        for code in [421, 251, 354, 220, 334] {
            assert!(
                matches!(handed(&reply(code, &["?"])), Handed::Unclear(_)),
                "{code}"
            );
        }
    }

    #[test]
    fn an_envelope_survives_its_freezing() {
        for archive in [None, Some(address("archive@x.example"))] {
            let envelope = Envelope {
                from: address("pay@x.example"),
                to: address("jörg@y.example"),
                archive,
            };
            assert_eq!(Envelope::thawed(&envelope.frozen()), Ok(envelope));
        }
        for bad in ["", "a@b", "a@b c@d e@f g@h", "a@b  c@d", "a@b nobody"] {
            assert!(Envelope::thawed(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn no_message_can_end_itself(lines in proptest::collection::vec("[.a]{0,4}", 0..20)) {
            let message = format!("{}\r\n", lines.join("\r\n"));
            let sent = stuffed(&message);
            prop_assert!(!sent.contains("\r\n.\r\n") && !sent.starts_with(".\r\n"));
            // What a server keeps: one dot less where a line begins with one (RFC 5321 §4.5.2).
            let kept: Vec<&str> = sent.split("\r\n").map(|l| l.strip_prefix('.').unwrap_or(l)).collect();
            prop_assert_eq!(kept.join("\r\n"), message);
        }
    }
}
