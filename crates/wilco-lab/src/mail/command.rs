//! One line of an SMTP client, read (RFC 5321 §4.1, RFC 1870, RFC 3461, RFC 4954, RFC 6152). Pure.

use data_encoding::BASE64;
use serde::Serialize;

/// The longest address, with its angle brackets (RFC 5321 §4.5.3.1.3).
const PATH_MAX: usize = 256;
/// The longest ENVID, decoded (RFC 3461 §4.4).
const ENVID_MAX: usize = 100;
/// The longest ORCPT (RFC 3461 §4.2).
const ORCPT_MAX: usize = 500;

/// What a client asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// `HELO`, or `EHLO` where `extended`.
    Hello { extended: bool, name: String },
    /// `MAIL FROM`
    Mail(Mail),
    /// `RCPT TO`
    Rcpt(Recipient),
    /// `DATA`
    Data,
    /// `RSET`
    Reset,
    /// `NOOP`
    Noop,
    /// `QUIT`
    Quit,
    /// `HELP`
    Help,
    /// `VRFY`, which tells nothing.
    Verify,
    /// `AUTH PLAIN`, with the initial response if it came along.
    Auth { initial: Option<String> },
}

/// The sender and what it asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mail {
    /// The reverse path; empty for `<>`.
    pub from: String,
    /// `RET`
    pub ret: Option<String>,
    /// `ENVID`, decoded.
    pub envid: Option<String>,
    /// `BODY`
    pub body: Option<String>,
    /// `SIZE`, as declared.
    pub size: Option<u64>,
    /// Whether any of RFC 3461's parameters was given.
    pub dsn: bool,
}

/// One recipient and what was asked for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Recipient {
    /// The forward path.
    pub address: String,
    /// `NOTIFY`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notify: Option<String>,
    /// `ORCPT`, decoded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orcpt: Option<String>,
}

/// What is said to a line that is no command of ours.
pub type Refused = &'static str;

const SYNTAX: Refused = "501 5.5.4 a parameter is missing or malformed";
const PARAMETER: Refused = "555 5.5.4 a parameter is not known here, or given twice";

impl Command {
    /// Reads a line without its end.
    pub fn read(line: &[u8]) -> Result<Self, Refused> {
        let Ok(line) = std::str::from_utf8(line) else {
            return Err("500 5.5.2 commands are ASCII; SMTPUTF8 is not offered");
        };
        if let Some(bad) = line.chars().find(|c| !matches!(c, ' '..='~')) {
            return Err(if bad.is_ascii() {
                "500 5.5.2 a control character in a command"
            } else {
                "553 5.6.7 commands are ASCII; SMTPUTF8 is not offered"
            });
        }
        let line = line.trim_end_matches(' ');
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        match verb.to_ascii_uppercase().as_str() {
            "EHLO" => hello(true, rest),
            "HELO" => hello(false, rest),
            "MAIL" => mail(after(rest, "FROM:")?).map(Self::Mail),
            "RCPT" => recipient(after(rest, "TO:")?).map(Self::Rcpt),
            "DATA" => alone(Self::Data, rest),
            "RSET" => alone(Self::Reset, rest),
            "QUIT" => alone(Self::Quit, rest),
            "NOOP" => Ok(Self::Noop),
            "HELP" => Ok(Self::Help),
            "VRFY" => Ok(Self::Verify),
            "AUTH" => auth(rest),
            "EXPN" | "TURN" | "STARTTLS" | "BDAT" | "ETRN" => Err("502 5.5.1 this command is not offered"),
            _ => Err("500 5.5.2 there is no such command"),
        }
    }
}

/// User and password of a PLAIN response (RFC 4616); none where it is not one.
pub fn plain(response: &str) -> Option<(String, String)> {
    let bytes = BASE64.decode(response.as_bytes()).ok()?;
    let mut parts = bytes.split(|byte| *byte == 0);
    let _for_whom = parts.next()?;
    let user = String::from_utf8(parts.next()?.to_vec()).ok()?;
    let password = String::from_utf8(parts.next()?.to_vec()).ok()?;
    (parts.next().is_none() && !user.is_empty()).then_some((user, password))
}

fn hello(extended: bool, name: &str) -> Result<Command, Refused> {
    if name.is_empty() || name.len() > 255 || name.contains(' ') {
        return Err("501 5.5.4 say who you are: one name or address literal");
    }
    Ok(Command::Hello {
        extended,
        name: name.to_owned(),
    })
}

fn alone(command: Command, rest: &str) -> Result<Command, Refused> {
    if rest.is_empty() { Ok(command) } else { Err(SYNTAX) }
}

fn after<'a>(rest: &'a str, word: &str) -> Result<&'a str, Refused> {
    match rest.split_at_checked(word.len()) {
        // A space after the colon is wrong and common.
        Some((found, path)) if found.eq_ignore_ascii_case(word) => Ok(path.trim_start_matches(' ')),
        _ => Err(SYNTAX),
    }
}

fn mail(text: &str) -> Result<Mail, Refused> {
    let (path, rest) = path(text)?;
    if !path.is_empty() {
        mailbox(path)?;
    }
    let mut mail = Mail {
        from: path.to_owned(),
        ..Mail::default()
    };
    for parameter in rest.split(' ').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        match name.to_ascii_uppercase().as_str() {
            "SIZE" if mail.size.is_none() => {
                let digits = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
                // So large that it is no u64 is too large for every limit.
                let size = value.parse().unwrap_or(u64::MAX);
                mail.size = Some(if digits { size } else { return Err(SYNTAX) });
            }
            "BODY" if mail.body.is_none() => mail.body = Some(word(value, &["7BIT", "8BITMIME"])?),
            "RET" if mail.ret.is_none() => mail.ret = Some(word(value, &["FULL", "HDRS"])?),
            "ENVID" if mail.envid.is_none() => {
                let envid = xtext(value).filter(|envid| envid.len() <= ENVID_MAX);
                mail.envid = Some(envid.ok_or(SYNTAX)?);
            }
            // Who submitted it first (RFC 4954 §5); nothing here depends on it.
            "AUTH" if !value.is_empty() => {}
            _ => return Err(PARAMETER),
        }
    }
    mail.dsn = mail.ret.is_some() || mail.envid.is_some();
    Ok(mail)
}

fn recipient(text: &str) -> Result<Recipient, Refused> {
    let (path, rest) = path(text)?;
    if !path.eq_ignore_ascii_case("postmaster") {
        mailbox(path)?;
    }
    let mut recipient = Recipient {
        address: path.to_owned(),
        ..Recipient::default()
    };
    for parameter in rest.split(' ').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        match name.to_ascii_uppercase().as_str() {
            "NOTIFY" if recipient.notify.is_none() => {
                let wanted = value.to_ascii_uppercase();
                let known = |word: &str| matches!(word, "SUCCESS" | "FAILURE" | "DELAY");
                if wanted != "NEVER" && !wanted.split(',').all(known) {
                    return Err(SYNTAX);
                }
                recipient.notify = Some(wanted);
            }
            "ORCPT" if recipient.orcpt.is_none() => {
                let (kind, address) = value.split_once(';').ok_or(SYNTAX)?;
                let address = xtext(address)
                    .filter(|address| !address.is_empty())
                    .ok_or(SYNTAX)?;
                if kind.is_empty() || value.len() > ORCPT_MAX {
                    return Err(SYNTAX);
                }
                recipient.orcpt = Some(format!("{kind};{address}"));
            }
            _ => return Err(PARAMETER),
        }
    }
    Ok(recipient)
}

/// A path in angle brackets, and what follows it. A `>` inside a quoted local part does not end it.
fn path(text: &str) -> Result<(&str, &str), Refused> {
    let inside = text.strip_prefix('<').ok_or(SYNTAX)?;
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in inside.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '>' if !quoted => {
                let (path, rest) = (inside.get(..at), inside.get(at + 1..));
                let (Some(path), Some(rest)) = (path, rest) else {
                    return Err(SYNTAX);
                };
                if path.len() + 2 > PATH_MAX || !(rest.is_empty() || rest.starts_with(' ')) {
                    return Err(SYNTAX);
                }
                return Ok((path, rest));
            }
            _ => {}
        }
    }
    Err(SYNTAX)
}

fn mailbox(path: &str) -> Result<(), Refused> {
    const BAD: Refused = "553 5.1.3 an address looks like name@domain";
    let (local, domain) = path.rsplit_once('@').ok_or(BAD)?;
    let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    let atoms = local.split('.').all(|atom| {
        !atom.is_empty()
            && atom
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&b))
    });
    let labels = domain
        .split('.')
        .all(|label| !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'));
    let literal = domain.len() > 2 && domain.starts_with('[') && domain.ends_with(']');
    if local.len() <= 64 && (quoted || atoms) && (labels || literal) {
        Ok(())
    } else {
        Err(BAD)
    }
}

fn word(value: &str, words: &[&str]) -> Result<String, Refused> {
    let value = value.to_ascii_uppercase();
    if words.contains(&value.as_str()) {
        Ok(value)
    } else {
        Err(SYNTAX)
    }
}

/// RFC 3461 §4: printable ASCII with `+XX` for what is not.
fn xtext(value: &str) -> Option<String> {
    let mut bytes = value.bytes();
    let mut text = String::with_capacity(value.len());
    while let Some(byte) = bytes.next() {
        let byte = match byte {
            b'+' => {
                let digits = [bytes.next()?, bytes.next()?];
                if digits.iter().any(u8::is_ascii_lowercase) {
                    return None;
                }
                let digits = std::str::from_utf8(&digits).ok()?;
                u8::from_str_radix(digits, 16).ok()?
            }
            b'=' => return None,
            byte => byte,
        };
        // Decoded, it is printable ASCII as well (RFC 3461 §4.4): a line end in it would be somebody's trick.
        if !(b' '..=b'~').contains(&byte) {
            return None;
        }
        text.push(char::from(byte));
    }
    (!text.is_empty()).then_some(text)
}

fn auth(rest: &str) -> Result<Command, Refused> {
    let (mechanism, initial) = rest.split_once(' ').unwrap_or((rest, ""));
    if !mechanism.eq_ignore_ascii_case("PLAIN") {
        return Err("504 5.5.4 PLAIN is the only mechanism here");
    }
    Ok(Command::Auth {
        initial: (!initial.is_empty()).then(|| initial.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_is_read_with_everything_it_asks_for() {
        let line = b"mail from:<ap@meridian.example> SIZE=812 body=8bitmime RET=HDRS ENVID=WILCO+2B01";
        let want = Mail {
            from: "ap@meridian.example".into(),
            ret: Some("HDRS".into()),
            envid: Some("WILCO+01".into()),
            body: Some("8BITMIME".into()),
            size: Some(812),
            dsn: true,
        };
        assert_eq!(Command::read(line), Ok(Command::Mail(want)));
        let line = b"RCPT TO:<\"a>b\"@marlow.example> NOTIFY=success,FAILURE ORCPT=rfc822;a+40marlow.example";
        let want = Recipient {
            address: "\"a>b\"@marlow.example".into(),
            notify: Some("SUCCESS,FAILURE".into()),
            orcpt: Some("rfc822;a@marlow.example".into()),
        };
        assert_eq!(Command::read(line), Ok(Command::Rcpt(want)));
        assert!(matches!(Command::read(b"MAIL FROM:<>"), Ok(Command::Mail(mail)) if mail.from.is_empty()));
    }

    #[test]
    fn what_is_not_smtp_is_refused_by_its_code() {
        for (line, code) in [
            (&b""[..], "500"),
            (b"\xff\xfe", "500"),
            (b"NOOP \x07", "500"),
            ("RCPT TO:<jos\u{e9}@x.example>".as_bytes(), "553"),
            (b"GET / HTTP/1.1", "500"),
            (b"STARTTLS", "502"),
            (b"EHLO", "501"),
            (b"EHLO a b", "501"),
            (b"DATA now", "501"),
            (b"MAIL", "501"),
            (b"MAIL FROM:a@b", "501"),
            (b"MAIL FROM:<a@b", "501"),
            (b"MAIL FROM:<a@b>x", "501"),
            (b"MAIL FROM:<a@b> SIZE=", "501"),
            (b"MAIL FROM:<a@b> SIZE=1 SIZE=2", "555"),
            (b"MAIL FROM:<a@b> SMTPUTF8", "555"),
            (b"MAIL FROM:<a@b> RET=ALL", "501"),
            (b"MAIL FROM:<a@b> ENVID=a+0A", "501"),
            (b"MAIL FROM:<a@b> ENVID=a+2", "501"),
            (b"RCPT TO:<>", "553"),
            (b"RCPT TO:<a b@c>", "553"),
            (b"RCPT TO:<a@b..c>", "553"),
            (b"RCPT TO:<a@b> NOTIFY=NEVER,SUCCESS", "501"),
            (b"RCPT TO:<a@b> ORCPT=rfc822", "501"),
            (b"AUTH LOGIN", "504"),
        ] {
            let refused = Command::read(line).expect_err(&String::from_utf8_lossy(line));
            assert_eq!(refused.get(..3), Some(code), "{}", String::from_utf8_lossy(line));
        }
        let long = format!("RCPT TO:<{}@x.example>", "a".repeat(65));
        assert_eq!(
            Command::read(long.as_bytes()),
            Err("553 5.1.3 an address looks like name@domain")
        );
    }

    #[test]
    fn plain_has_three_parts() {
        let response = |text: &str| BASE64.encode(text.as_bytes());
        assert_eq!(
            plain(&response("\0ap\0lab-token")),
            Some(("ap".into(), "lab-token".into()))
        );
        for bad in ["", "ap", "\0ap", "\0\0secret", "\0a\0b\0c"] {
            assert_eq!(plain(&response(bad)), None, "{bad:?}");
        }
        assert_eq!(plain("not base64!"), None);
    }
}
