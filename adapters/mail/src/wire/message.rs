//! The message: RFC 5322 headers and a MIME body, complete, in seven bits (or UTF-8 headers under SMTPUTF8).
//!
//! The same values give the same bytes; only `Date`, `Message-ID`, the reference and the MIME boundaries follow the act.

use time::OffsetDateTime;
use wilco_core::{ActId, Timestamp};

use super::address::Address;
use super::encode::{base64_lines, file_name, phrase, quoted_printable, unstructured};
use crate::chars::{point, steers};

/// An address and the name shown with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mailbox {
    pub name: Option<HeaderText>,
    pub address: Address,
}

/// Text that may stand in a header: one line, and nothing in it that steers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeaderText(String);

impl HeaderText {
    /// # Errors
    /// The character that may not be there.
    pub fn new(text: &str) -> Result<HeaderText, String> {
        match text.chars().find(|&c| steers(c)) {
            Some(c) => Err(format!("holds {}, which may not stand in a header", point(c))),
            None => Ok(HeaderText(text.to_owned())),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One file that goes along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attachment {
    /// As the reader sees it.
    pub name: String,
    pub bytes: Vec<u8>,
}

/// Everything a message is made of.
pub(crate) struct Mail<'a> {
    pub act: ActId,
    pub attempt: u32,
    pub date: Timestamp,
    pub from: &'a Mailbox,
    pub to: &'a Address,
    pub reply_to: Option<&'a Address>,
    pub subject: &'a HeaderText,
    pub message_id: &'a str,
    pub text: &'a str,
    pub html: Option<&'a str>,
    pub attachments: &'a [Attachment],
}

/// The id of an act's message, with its angle brackets. `domain` was checked at start.
pub(crate) fn message_id(act: ActId, attempt: u32, domain: &str) -> String {
    format!("<{act}.{attempt}@{domain}>")
}

/// The message's bytes. Every line ends with CRLF, the last one too.
pub(crate) fn render(mail: &Mail<'_>) -> String {
    let mut out = String::new();
    let mut header = |name: &str, value: &str| {
        out.push_str(name);
        out.push_str(": ");
        out.push_str(value);
        out.push_str("\r\n");
    };
    header("Date", &date(mail.date));
    header("From", &mailbox(mail.from));
    header("To", mail.to.as_str());
    if let Some(reply_to) = mail.reply_to {
        header("Reply-To", reply_to.as_str());
    }
    header("Subject", &unstructured(mail.subject.as_str()));
    header("Message-ID", mail.message_id);
    header("Wilco-Act", &mail.act.to_string());
    // Nobody's holiday notice should answer a program (RFC 3834).
    header("Auto-Submitted", "auto-generated");
    header("MIME-Version", "1.0");
    out.push_str(&body(mail));
    out
}

fn body(mail: &Mail<'_>) -> String {
    let boundary = |part: &str| format!("=_{}.{}.{part}", mail.act, mail.attempt);
    let text = text_part("plain", mail.text);
    let told = match mail.html {
        None => text,
        Some(html) => multipart("alternative", &boundary("a"), &[text, text_part("html", html)]),
    };
    if mail.attachments.is_empty() {
        return told;
    }
    let mut parts = vec![told];
    parts.extend(mail.attachments.iter().map(attachment));
    multipart("mixed", &boundary("m"), &parts)
}

fn text_part(subtype: &str, text: &str) -> String {
    format!(
        "Content-Type: text/{subtype}; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n{}",
        quoted_printable(text)
    )
}

fn attachment(file: &Attachment) -> String {
    format!(
        "Content-Type: {}\r\nContent-Disposition: attachment;\r\n {}\r\nContent-Transfer-Encoding: base64\r\n\r\n{}",
        media_type(&file.name),
        file_name(&file.name),
        base64_lines(&file.bytes)
    )
}

/// A boundary holds `=_`, which neither base64 nor quoted-printable can, so no part can end its own frame.
fn multipart(subtype: &str, boundary: &str, parts: &[String]) -> String {
    let mut out = format!("Content-Type: multipart/{subtype};\r\n boundary=\"{boundary}\"\r\n\r\n");
    for part in parts {
        out.push_str(&format!("--{boundary}\r\n{part}\r\n"));
    }
    out.push_str(&format!("--{boundary}--\r\n"));
    out
}

fn mailbox(mailbox: &Mailbox) -> String {
    match &mailbox.name {
        None => mailbox.address.to_string(),
        Some(name) => format!("{} <{}>", phrase(name.as_str()), mailbox.address),
    }
}

/// RFC 5322 §3.3, in UTC.
fn date(at: Timestamp) -> String {
    const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let t = OffsetDateTime::from_unix_timestamp(at.0.div_euclid(1_000_000));
    let t = t.unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let day = DAYS[usize::from(t.weekday().number_days_from_monday())];
    let month = MONTHS[usize::from(u8::from(t.month())) - 1];
    format!(
        "{day}, {:02} {month} {:04} {:02}:{:02}:{:02} +0000",
        t.day(),
        t.year(),
        t.hour(),
        t.minute(),
        t.second()
    )
}

fn media_type(name: &str) -> &'static str {
    let ending = name.rsplit_once('.').map_or("", |(_, e)| e).to_ascii_lowercase();
    match ending.as_str() {
        "pdf" => "application/pdf",
        "csv" => "text/csv; charset=utf-8",
        "txt" | "md" | "log" => "text/plain; charset=utf-8",
        "json" => "application/json",
        "xml" => "application/xml",
        "zip" => "application/zip",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "ics" => "text/calendar; charset=utf-8",
        "docx" => "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "xlsx" => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        // HTML and everything unknown is a file to be saved, not a page to be shown.
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests;
