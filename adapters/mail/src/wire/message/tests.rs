//! What a message is made of, to the byte. The golden files are what a mail reader gets; each was read with another
//! program's MIME parser when it was written.
//!
//! `WILCO_GOLDEN=write cargo test -p adapter-mail` writes them anew, for a person to look at.

use proptest::prelude::*;

use super::*;

fn act() -> ActId {
    ActId::new(Timestamp(1_790_931_600_000_000), [7; 10])
}

fn mailbox(name: Option<&str>, address: &str) -> Mailbox {
    Mailbox {
        name: name.map(|n| HeaderText::new(n).expect("a name")),
        address: Address::parse(address, true).expect("an address"),
    }
}

struct Parts {
    subject: &'static str,
    text: &'static str,
    html: Option<&'static str>,
    attachments: Vec<Attachment>,
}

fn rendered(parts: &Parts) -> String {
    let from = mailbox(Some("Acme Accounts"), "pay@acme.example");
    let to = Address::parse("ar@northfield.example", false).expect("an address");
    let reply_to = Address::parse("questions@acme.example", false).expect("an address");
    let id = message_id(act(), 1, "acme.example");
    render(&Mail {
        act: act(),
        attempt: 1,
        date: Timestamp::from_rw1("20261002T0905Z").expect("an instant"),
        from: &from,
        to: &to,
        reply_to: Some(&reply_to),
        subject: &HeaderText::new(parts.subject).expect("a subject"),
        message_id: &id,
        text: parts.text,
        html: parts.html,
        attachments: &parts.attachments,
    })
}

/// Golden files hold LF, as files of a repository do; messages hold CRLF.
fn golden(name: &str, message: &str) {
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    let got = message.replace("\r\n", "\n");
    assert_eq!(
        got.matches('\n').count(),
        message.matches("\r\n").count(),
        "a bare line end"
    );
    if std::env::var("WILCO_GOLDEN").as_deref() == Ok("write") {
        std::fs::write(&path, &got).expect("written");
    }
    let want = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    assert_eq!(got, want, "{name} differs from what {path} says");
}

#[test]
fn a_plain_message() {
    let message = rendered(&Parts {
        subject: "Remittance advice MD-2026-057: 5,400.00 GBP",
        text: "This is to tell you of one payment.\n\n.dots begin a line\nFrom here = 5,400.00 GBP\n",
        html: None,
        attachments: Vec::new(),
    });
    golden("plain.eml", &message);
}

#[test]
fn a_message_in_two_forms_with_files_and_other_alphabets() {
    let message = rendered(&Parts {
        subject: "Grüße aus München, und eine lange Betreffzeile, die über mehrere Zeilen geht",
        text: "Liebe Frau Weiß,\nπ ≈ 3,14\n",
        html: Some("<p>Liebe Frau Weiß,<br>π ≈ 3,14</p>\n"),
        attachments: vec![
            Attachment {
                name: "invoice 7731.pdf".to_owned(),
                bytes: (0..=255).cycle().take(600).collect(),
            },
            Attachment {
                name: "Übersicht.html".to_owned(),
                bytes: b"<p>saved, not shown</p>".to_vec(),
            },
        ],
    });
    golden("mixed.eml", &message);
}

#[test]
fn a_header_cannot_be_given_a_line_of_its_own() {
    for bad in [
        "a\r\nBcc: x@y",
        "a\nb",
        "a\rb",
        "a\0b",
        "a\u{85}b",
        "a\u{2028}b",
        "a\u{202e}b",
    ] {
        assert!(HeaderText::new(bad).is_err(), "{bad:?}");
    }
}

/// The names of the headers a message has, in their order.
fn names(message: &str) -> Vec<String> {
    let head = message.split("\r\n\r\n").next().unwrap_or_default();
    let lines = head.split("\r\n").filter(|l| !l.starts_with([' ', '\t']));
    lines
        .map(|l| l.split(':').next().unwrap_or_default().to_owned())
        .collect()
}

proptest! {
    #[test]
    fn no_words_change_which_headers_there_are(
        subject in "\\PC{1,120}",
        name in "\\PC{1,60}",
        text in "[\\PC\n]{0,300}",
        file in "\\PC{1,60}",
    ) {
        let (Ok(subject), Ok(name)) = (HeaderText::new(&subject), HeaderText::new(&name)) else {
            return Ok(());
        };
        let from = Mailbox { name: Some(name), ..mailbox(None, "pay@acme.example") };
        let to = Address::parse("ar@northfield.example", false).expect("an address");
        let id = message_id(act(), 1, "acme.example");
        let message = render(&Mail {
            act: act(),
            attempt: 1,
            date: Timestamp(0),
            from: &from,
            to: &to,
            reply_to: None,
            subject: &subject,
            message_id: &id,
            text: &text,
            html: Some(&text),
            attachments: &[Attachment { name: file, bytes: text.clone().into_bytes() }],
        });
        prop_assert_eq!(
            names(&message),
            ["Date", "From", "To", "Subject", "Message-ID", "Wilco-Act", "Auto-Submitted", "MIME-Version", "Content-Type"]
        );
        prop_assert!(message.is_ascii(), "seven bits");
        prop_assert!(message.ends_with("\r\n"));
        let without = message.replace("\r\n", "");
        prop_assert!(!without.contains(['\r', '\n', '\0']), "a bare line end");
        for line in message.split("\r\n") {
            prop_assert!(line.len() <= 998, "RFC 5322 §2.1.1");
        }
        // Two frames, three parts: what is in a part cannot end it.
        prop_assert_eq!(message.matches("\r\n--=_").count(), 2 + 1 + 2 + 1);
    }
}
