//! The mail drop, spoken to on bare sockets. What these tests are after: what its record and its Maildir hold is exactly
//! what it said `250` to, or what an armed fault kept it from saying; and nobody can make it take what is not a message.

use std::{fs, net::SocketAddr, time::Duration};

use data_encoding::{BASE64, HEXLOWER};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};
use wilco_lab::{LabOptions, MailOptions};

use crate::{
    durability::child_lab,
    support::{Bench, Client, Folder, loopback, ok},
};

const MESSAGE: &str = "From: ap@meridian.example\r\nTo: accounts@marlow.example\r\nSubject: Remittance\r\n\
Message-ID: <W1.7c1f@meridian.example>\r\n\r\nInvoice 88123 was paid.\r\n.hidden dot\r\n";

/// A client that says line by line what a test wants.
struct Smtp(BufReader<TcpStream>);

impl Smtp {
    async fn connect(bench: &Bench) -> Self {
        Self::at(bench.lab.mail_addr().expect("a mail drop")).await
    }

    async fn at(addr: SocketAddr) -> Self {
        let mut smtp = Self(BufReader::new(ok(TcpStream::connect(addr).await)));
        assert_eq!(smtp.reply().await.get(..3), Some("220"));
        smtp
    }

    /// Greeted, with the extensions.
    async fn greeted(bench: &Bench) -> Self {
        let mut smtp = Self::connect(bench).await;
        assert!(smtp.says("EHLO client.example").await.starts_with("250"));
        smtp
    }

    async fn send(&mut self, bytes: &[u8]) {
        ok(self.0.get_mut().write_all(bytes).await);
    }

    /// The whole reply; empty where the line has dropped.
    async fn reply(&mut self) -> String {
        let mut reply = String::new();
        loop {
            let mut line = String::new();
            let read = tokio::time::timeout(Duration::from_secs(20), self.0.read_line(&mut line)).await;
            // A reset is a drop as well.
            if ok(read).unwrap_or(0) == 0 {
                return reply;
            }
            reply.push_str(&line);
            if line.as_bytes().get(3) != Some(&b'-') {
                return reply;
            }
        }
    }

    async fn says(&mut self, line: &str) -> String {
        self.send(format!("{line}\r\n").as_bytes()).await;
        self.reply().await
    }

    /// The code of what is answered.
    async fn code(&mut self, line: &str) -> String {
        self.says(line).await.chars().take(3).collect()
    }

    /// Up to `DATA`.
    async fn envelope(&mut self) {
        assert_eq!(self.code("MAIL FROM:<ap@meridian.example>").await, "250");
        assert_eq!(self.code("RCPT TO:<accounts@marlow.example>").await, "250");
        assert_eq!(self.code("DATA").await, "354");
    }

    /// A message from the first word to the dot, and what is said to it.
    async fn message(&mut self, message: &str) -> String {
        self.envelope().await;
        self.send(message.replace("\r\n.", "\r\n..").as_bytes()).await;
        self.says(".").await
    }

    /// Whether the line has dropped: nothing more is said.
    async fn dropped(&mut self) -> bool {
        let mut rest = Vec::new();
        let end = tokio::time::timeout(Duration::from_secs(20), self.0.read_to_end(&mut rest)).await;
        assert!(end.is_ok(), "the line is still open");
        rest.is_empty()
    }
}

async fn mails(bench: &Bench) -> Vec<Value> {
    let reply = bench.client.get("/lab/mail").await;
    reply.body["mails"].as_array().cloned().expect("mails")
}

fn stored(bench: &Bench) -> Vec<Vec<u8>> {
    let new = bench.lab.maildir().expect("a mail drop").join("new");
    let files = ok(fs::read_dir(new)).map(|entry| ok(fs::read(ok(entry).path())));
    files.collect()
}

async fn bench() -> Bench {
    Bench::with(|options| options.mail = Some(MailOptions::new(loopback()))).await
}

#[tokio::test]
async fn a_message_is_kept_byte_for_byte_with_its_envelope() {
    let bench = bench().await;
    let mut smtp = Smtp::connect(&bench).await;
    let offered = smtp.says("EHLO client.example").await;
    for extension in [
        "SIZE 10485760",
        "8BITMIME",
        "DSN",
        "AUTH PLAIN",
        "ENHANCEDSTATUSCODES",
    ] {
        assert!(offered.contains(extension), "{offered}");
    }
    let login = BASE64.encode(b"\0ap\0lab-token");
    assert_eq!(smtp.code(&format!("AUTH PLAIN {login}")).await, "235");
    let mail = "MAIL FROM:<ap@meridian.example> SIZE=200 BODY=8BITMIME RET=HDRS ENVID=W1+2B7c1f";
    assert_eq!(smtp.code(mail).await, "250");
    let rcpt =
        "RCPT TO:<accounts@marlow.example> NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;accounts@marlow.example";
    assert_eq!(smtp.code(rcpt).await, "250");
    assert_eq!(smtp.code("DATA").await, "354");
    smtp.send(MESSAGE.replace("\r\n.", "\r\n..").as_bytes()).await;
    let said = smtp.says(".").await;
    assert_eq!(smtp.code("QUIT").await, "221");

    assert_eq!(stored(&bench), [MESSAGE.as_bytes()]);
    let mails = mails(&bench).await;
    assert_eq!(mails.len(), 1);
    let mail = &mails[0];
    assert_eq!(
        said.trim_end(),
        format!(
            "250 2.0.0 ok: queued as {}",
            mail["queue_id"].as_str().expect("an id")
        )
    );
    assert_eq!(
        mail["sha256"],
        HEXLOWER.encode(&Sha256::digest(MESSAGE.as_bytes()))
    );
    let envelope = json!([
        mail["from"],
        mail["envid"],
        mail["ret"],
        mail["body"],
        mail["user"],
        mail["fault"]
    ]);
    let want = json!(["ap@meridian.example", "W1+7c1f", "HDRS", "8BITMIME", "ap", null]);
    assert_eq!(envelope, want);
    let to = json!([{
        "address": "accounts@marlow.example",
        "notify": "SUCCESS,FAILURE",
        "orcpt": "rfc822;accounts@marlow.example",
    }]);
    assert_eq!(mail["to"], to);
    assert_eq!(
        json!([mail["message_id"], mail["subject"]]),
        json!(["<W1.7c1f@meridian.example>", "Remittance"])
    );

    for (wanted, found) in [
        ("W1.7c1f@meridian.example", 1),
        ("%3CW1.7c1f@meridian.example%3E", 1),
        ("other", 0),
    ] {
        let reply = bench.client.get(&format!("/lab/mail?message_id={wanted}")).await;
        assert_eq!(
            reply.body["mails"].as_array().map(Vec::len),
            Some(found),
            "{wanted}"
        );
    }
    bench.lab.stop().await;
}

#[tokio::test]
async fn each_fault_leaves_what_the_table_says() {
    // What is said to the dot (or to RCPT), and how many mails there are then.
    for (fault, at_recipient, said, kept) in [
        ("drop-before", true, "", 0),
        ("refuse", true, "550", 0),
        ("tempfail", true, "450", 0),
        ("drop-at-dot", false, "", 0),
        ("refuse-data", false, "554", 0),
        ("tempfail-data", false, "451", 0),
        ("drop-after-accept", false, "", 1),
        ("slow", false, "250", 1),
    ] {
        let bench = bench().await;
        bench.client.fault(&format!("mail:{fault}:1:0.1")).await;
        let mut smtp = Smtp::greeted(&bench).await;
        let heard = if at_recipient {
            assert_eq!(smtp.code("MAIL FROM:<ap@meridian.example>").await, "250");
            smtp.code("RCPT TO:<accounts@marlow.example>").await
        } else {
            smtp.message(MESSAGE).await.chars().take(3).collect()
        };
        assert_eq!(heard, said, "{fault}");
        if said.is_empty() {
            assert!(smtp.dropped().await, "{fault}");
        }
        let mails = mails(&bench).await;
        assert_eq!((mails.len(), stored(&bench).len()), (kept, kept), "{fault}");
        if let Some(mail) = mails.first() {
            assert_eq!(mail["fault"], fault);
        }
        // Met once, and gone: the next message is taken.
        assert_eq!(bench.client.faults_left().await, 0, "{fault}");
        let mut smtp = Smtp::greeted(&bench).await;
        assert!(smtp.message(MESSAGE).await.starts_with("250 "), "{fault}");
        bench.lab.stop().await;
    }
}

#[tokio::test]
async fn a_late_mail_arrives_after_the_line_has_dropped_or_never() {
    let bench = bench().await;
    bench.client.fault("mail:late:1:0.3").await;
    let mut smtp = Smtp::greeted(&bench).await;
    assert_eq!(smtp.message(MESSAGE).await, "");
    assert!(smtp.dropped().await);
    for _ in 0..500 {
        if !mails(&bench).await.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(mails(&bench).await[0]["fault"], "late");

    bench.client.fault("mail:late:1:3600").await;
    let mut smtp = Smtp::greeted(&bench).await;
    assert_eq!(smtp.message(MESSAGE).await, "");
    let (maildir, folder) = (bench.lab.maildir().expect("a Maildir").to_owned(), bench.folder);
    bench.lab.stop().await;
    assert_eq!(
        ok(fs::read_dir(maildir.join("new"))).count(),
        1,
        "stopped: it is never delivered"
    );
    drop(folder);
}

#[tokio::test]
async fn what_is_out_of_order_or_no_smtp_is_refused_and_leaves_nothing() {
    let bench = bench().await;
    let mut smtp = Smtp::connect(&bench).await;
    for (line, code) in [
        ("MAIL FROM:<a@b.example>", "503"),
        ("EHLO c", "250"),
        ("RCPT TO:<a@b.example>", "503"),
        ("DATA", "503"),
        ("GET / HTTP/1.1", "500"),
        ("MAIL FROM:<a@b.example> SIZE=99999999", "552"),
        ("MAIL FROM:<a@b.example>", "250"),
        ("MAIL FROM:<a@b.example>", "503"),
        ("DATA", "554"),
        ("RSET", "250"),
        ("RCPT TO:<a@b.example>", "503"),
        ("NOOP", "250"),
        ("VRFY root", "252"),
        ("HELP", "214"),
        ("STARTTLS", "502"),
        ("AUTH PLAIN AGFwAHdyb25n", "535"),
        ("AUTH LOGIN", "504"),
        ("HELO c", "250"),
        ("MAIL FROM:<a@b.example> RET=HDRS", "555"),
    ] {
        assert_eq!(smtp.code(line).await, code, "{line}");
    }
    smtp.send(b"NOOP\n").await;
    assert!(smtp.reply().await.starts_with("500"), "a bare LF ends no line");
    smtp.send(&[b'x'; 20_000]).await;
    assert_eq!(smtp.code("").await, "500");
    assert_eq!(smtp.code("NOOP").await, "250", "the long line was one line");
    assert!(mails(&bench).await.is_empty());

    let mut smtp = Smtp::connect(&bench).await;
    for _ in 0..19 {
        assert_eq!(smtp.code("XYZZY").await, "500");
    }
    assert_eq!(smtp.code("XYZZY").await, "500");
    assert!(smtp.reply().await.starts_with("421"), "enough is enough");
    assert!(smtp.dropped().await);
    bench.lab.stop().await;
}

#[tokio::test]
async fn no_message_is_smuggled_into_another_one() {
    let bench = bench().await;
    for end in ["\n.\n", "\r\n.\n", "\n.\r\n", "\r.\r"] {
        let mut smtp = Smtp::greeted(&bench).await;
        smtp.envelope().await;
        let trick = format!(
            "Subject: one\r\n\r\ntext{end}MAIL FROM:<x@y.example>\r\nRCPT TO:<a@b.example>\r\nDATA\r\n"
        );
        smtp.send(trick.as_bytes()).await;
        let said = smtp.says("\r\n.").await;
        assert!(said.starts_with("554 5.6.11"), "{end:?}: {said}");
        assert_eq!(
            smtp.code("NOOP").await,
            "250",
            "{end:?}: nothing else was heard as a command"
        );
    }
    assert!(mails(&bench).await.is_empty());
    bench.lab.stop().await;
}

#[tokio::test]
async fn size_time_and_number_have_an_end() {
    let mut mail = MailOptions::new(loopback());
    mail.message_bytes_max = 1000;
    let bench = Bench::with(|options| options.mail = Some(mail)).await;
    let mut smtp = Smtp::greeted(&bench).await;
    let large = format!("Subject: large\r\n\r\n{}\r\n", "y".repeat(1000));
    assert!(smtp.message(&large).await.starts_with("552"));
    // The same connection goes on.
    assert!(smtp.message(MESSAGE).await.starts_with("250"));
    smtp.envelope().await;
    let endless = "z".repeat(98) + "\r\n";
    for _ in 0..100 {
        if smtp.0.get_mut().write_all(endless.as_bytes()).await.is_err() {
            break;
        }
    }
    assert!(smtp.dropped().await, "who goes on and on is not listened to");

    let mut smtp = Smtp::greeted(&bench).await;
    assert_eq!(smtp.code("MAIL FROM:<a@b.example>").await, "250");
    for n in 0..100 {
        assert_eq!(smtp.code(&format!("RCPT TO:<a{n}@b.example>")).await, "250");
    }
    assert_eq!(smtp.code("RCPT TO:<a@b.example>").await, "452");
    assert_eq!(mails(&bench).await.len(), 1);
    bench.lab.stop().await;
}

#[tokio::test]
async fn who_is_silent_is_hung_up_on() {
    let mut mail = MailOptions::new(loopback());
    mail.idle = Duration::from_secs(2);
    let bench = Bench::with(|options| options.mail = Some(mail)).await;
    let mut silent = Smtp::greeted(&bench).await;
    let mut stuck = Smtp::greeted(&bench).await;
    stuck.envelope().await;
    stuck.send(b"Subject: half\r\n").await;
    let (silent, stuck) = tokio::join!(silent.reply(), stuck.reply());
    assert!(silent.starts_with("421 4.4.2") && stuck.starts_with("421 4.4.2"));
    assert!(mails(&bench).await.is_empty());
    bench.lab.stop().await;
}

#[tokio::test]
async fn a_client_that_hangs_up_before_the_dot_has_sent_nothing() {
    let bench = bench().await;
    let mut smtp = Smtp::greeted(&bench).await;
    smtp.envelope().await;
    smtp.send(MESSAGE.as_bytes()).await;
    drop(smtp);
    let mut smtp = Smtp::greeted(&bench).await;
    assert!(smtp.message(MESSAGE).await.starts_with("250"));
    assert_eq!(mails(&bench).await.len(), 1);
    bench.lab.stop().await;
}

#[tokio::test]
async fn a_stopped_lab_says_so_and_a_new_one_remembers() {
    let bench = bench().await;
    let mut smtp = Smtp::greeted(&bench).await;
    assert!(smtp.message(MESSAGE).await.starts_with("250"));
    let folder = bench.folder;
    let (_, said) = tokio::join!(bench.lab.stop(), smtp.reply());
    assert!(said.starts_with("421 4.3.2"), "{said}");
    // A kill in the middle of a line of the record: what was whole is still told.
    let record = folder.0.join("mail.jsonl");
    let mut text = ok(fs::read_to_string(&record));
    text.push_str("{\"at\":\"2026-");
    ok(fs::write(&record, text));
    let mut options = LabOptions::new(&folder.0, loopback());
    options.mail = Some(MailOptions::new(loopback()));
    let lab = crate::support::start_again(options).await;
    assert_eq!(ok(lab.mails(10).await).len(), 1);
    // And what comes next is not lost in the half line.
    let mut smtp = Smtp::at(lab.mail_addr().expect("a mail drop")).await;
    assert!(smtp.says("EHLO c").await.starts_with("250"));
    assert!(smtp.message(MESSAGE).await.starts_with("250"));
    assert_eq!(ok(lab.mails(10).await).len(), 2);
    assert_eq!(ok(lab.mails(1).await).len(), 1);
    lab.stop().await;
}

/// Where a lab of which only the client is at hand speaks SMTP.
async fn mail_addr(client: &Client) -> SocketAddr {
    let places = client.get("/lab/counterparties").await;
    ok(places.text("/mail/smtp").parse())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_in_the_middle_it_has_every_mail_it_promised_and_none_by_halves() {
    let folder = Folder::new();
    let mut promised = Vec::new();
    for round in 0..3 {
        let (mut child, client) = child_lab(&folder);
        let addr = mail_addr(&client).await;
        let mut tasks = tokio::task::JoinSet::new();
        for n in 0..12 {
            tasks.spawn(async move {
                let mut smtp = Smtp::at(addr).await;
                let _ = smtp.says("EHLO c").await;
                // Whatever is not answered ends the dialogue: the lab was killed.
                for line in ["MAIL FROM:<a@b.example>", "RCPT TO:<c@d.example>", "DATA"] {
                    if smtp.says(line).await.is_empty() {
                        return String::new();
                    }
                }
                let text = format!(
                    "Message-ID: <{round}.{n}@b.example>\r\n\r\n{}\r\n.\r\n",
                    "x".repeat(500)
                );
                if smtp.0.get_mut().write_all(text.as_bytes()).await.is_err() {
                    return String::new();
                }
                smtp.reply().await
            });
        }
        let mut answered = 0;
        while let Some(said) = tasks.join_next().await {
            // A client that found nobody to speak to was promised nothing.
            if let Ok(said) = said
                && let Some((_, queue_id)) = said.trim_end().split_once("queued as ")
            {
                promised.push(queue_id.to_owned());
                answered += 1;
                if answered == 3 + round {
                    ok(child.kill());
                }
            }
        }
        ok(child.kill());
        ok(child.wait());
    }
    assert!(promised.len() >= 3 + 4 + 5, "{promised:?}");
    let (mut child, client) = child_lab(&folder);
    let body = client.get("/lab/mail").await.body;
    let mails = body["mails"].as_array().expect("mails");
    for queue_id in &promised {
        let found = mails.iter().filter(|mail| mail["queue_id"] == queue_id.as_str());
        assert_eq!(found.count(), 1, "promised and kept: {queue_id}");
    }
    for mail in mails {
        let file = folder.0.join("mail").join(mail["file"].as_str().expect("a file"));
        assert_eq!(
            mail["sha256"],
            HEXLOWER.encode(&Sha256::digest(ok(fs::read(file))))
        );
    }
    ok(child.kill());
    ok(child.wait());
}
