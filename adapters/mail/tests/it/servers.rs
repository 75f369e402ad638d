//! After: the promises hold against mail servers other people wrote. Postfix takes the mail, Dovecot keeps it, and what lies
//! in their mailboxes is the judge; smtp-sink, which comes with Postfix, refuses and hangs up on demand.

mod harness;
mod kit;

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use wilco_adapter::{Adapter, Found, Job, Outcome};
use wilco_core::Frozen;

use crate::support::{Folder, Scene, but, note, remittance, start, words};
use harness::{Mail, Sink};

const LOGIN: &str = "username = \"pay@acme.example\"\npassword_command = [\"printf\", \"s3cret\"]\n";

/// An adapter that hands mail to this system, with STARTTLS and a login, and looks into its archive.
fn scene(mail: &Mail, more: &str) -> Scene {
    let ca = crate::tls::file("ca.pem");
    scene_at(
        mail,
        mail.smtp,
        &format!("tls = \"starttls\"\nca_file = {ca:?}\n{more}"),
    )
}

fn scene_at(mail: &Mail, port: u16, more: &str) -> Scene {
    let smtp = format!("{LOGIN}archive_bcc = \"archive@acme.example\"\n{more}\n");
    let mut table = crate::support::smtp_table(port, &smtp);
    table.push_str(&format!(
        "[imap]\nhost = \"127.0.0.1\"\nport = {}\nusername = \"archive@acme.example\"\n\
         password_command = [\"printf\", \"s3cret\"]\n",
        mail.imap
    ));
    Scene::with(&table, |c| {
        if let Some(smtp) = &mut c.smtp {
            smtp.host = "localhost".to_owned();
        }
    })
}

/// Looks until the archive has it: the queue takes a moment.
async fn found(scene: &Scene, job: &Job, frozen: &Frozen) -> Found {
    let mut found = scene.mail.lookup(job.act_id, frozen, start(), None).await;
    for _ in 0..200 {
        if !matches!(found, Found::Absent(_)) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        found = scene.mail.lookup(job.act_id, frozen, start(), None).await;
    }
    found
}

#[tokio::test]
async fn postfix_gets_exactly_what_was_stated_and_the_archive_proves_it() {
    let mail = Mail::start().await;
    let scene = scene(&mail, "");
    assert_eq!(scene.mail.health().await, Ok(()));
    let job = but(
        note(),
        "txt",
        ".%0A..%0AGr%C3%BC%C3%9Fe_=_%E2%82%AC%0A%0AFrom_here",
    );
    let frozen = scene.prepare(&job).await;
    let before = scene.mail.lookup(job.act_id, &frozen, start(), None).await;
    assert!(matches!(before, Found::Absent(_)), "{before:?}");
    let outcome = scene.execute(&job, &frozen).await;
    let Outcome::Executed(report) = outcome else {
        panic!("{outcome:?}\n{}", mail.log());
    };
    assert!(
        report.receipt.is_some_and(|r| r.contains("queued as")),
        "the queue's id"
    );

    let Found::Executed(report) = found(&scene, &job, &frozen).await else {
        panic!("{}", mail.log());
    };
    assert_eq!(
        report.values,
        [("addr".to_owned(), "anna@customer.example".to_owned())]
    );

    // Servers put their own headers before the message, and keep lines with LF.
    let got = mail.mailbox("anna@customer.example", 1).await;
    let stated = frozen.request.body.replace("\r\n", "\n");
    assert!(
        got[0].ends_with(&format!("\n{stated}")),
        "{}\n---\n{stated}",
        got[0]
    );
    assert!(
        !got[0].contains("archive@"),
        "the reader does not see the archive"
    );
    assert_eq!(mail.mailbox("archive@acme.example", 1).await.len(), 1);

    // The server tells of the delivery, and names the act.
    let told = mail.mailbox("pay@acme.example", 1).await;
    let envelope = format!("Original-Envelope-Id: {}", job.act_id);
    assert!(told[0].contains(&envelope), "{}", told[0]);
    assert!(
        told[0].contains("Action: delivered") || told[0].contains("Action: relayed"),
        "{}",
        told[0]
    );
}

#[tokio::test]
async fn what_postfix_refuses_is_certainly_no_mail() {
    let mail = Mail::start().await;
    let ours = scene(&mail, "");
    for (addr, code) in [
        ("nobody@customer.example", "550"),
        ("grey@customer.example", "450"),
    ] {
        let job = but(note(), "addr", addr);
        let frozen = ours.prepare(&job).await;
        let outcome = ours.execute(&job, &frozen).await;
        assert!(matches!(outcome, Outcome::Rejected(_)), "{outcome:?}");
        assert!(words(&outcome).contains(code), "{}", words(&outcome));
    }
    let job = note();
    let frozen = ours.prepare(&job).await;
    let stranger = scene(&mail, "helo = \"stranger.example\"");
    let mut config = stranger.config.clone();
    if let Some(smtp) = &mut config.smtp {
        smtp.password_command = Some(vec!["printf".to_owned(), "wrong".to_owned()]);
    }
    let stranger = Scene::with("", |c| *c = config);
    let outcome = stranger.execute(&job, &frozen).await;
    assert!(matches!(outcome, Outcome::NotSent(_)), "{outcome:?}");
    assert!(words(&outcome).contains("535"), "{}", words(&outcome));

    // One that is taken, so that the queue has certainly been worked through.
    let outcome = ours.execute(&job, &frozen).await;
    assert!(
        matches!(outcome, Outcome::Executed(_)),
        "{outcome:?}\n{}",
        mail.log()
    );
    assert_eq!(
        mail.mailbox("archive@acme.example", 1).await.len(),
        1,
        "{}",
        mail.log()
    );
    assert_eq!(mail.mailbox("anna@customer.example", 1).await.len(), 1);
    assert!(mail.everything("grey@customer.example").is_empty());
}

#[tokio::test]
async fn taken_and_then_the_line_drops_is_settled_by_the_archive() {
    let mail = Mail::start().await;
    let port = cut_after_the_dot(mail.smtp).await;
    let scene = scene_at(&mail, port, "tls = \"none\"");
    let job = remittance();
    let frozen = scene.prepare(&job).await;
    let outcome = scene.execute(&job, &frozen).await;
    assert!(
        matches!(outcome, Outcome::Unknown(_)),
        "{outcome:?}\n{}",
        mail.log()
    );
    let Found::Executed(report) = found(&scene, &job, &frozen).await else {
        panic!("{}", mail.log());
    };
    assert_eq!(
        report.values,
        [("addr".to_owned(), "ar@marlow.example".to_owned())]
    );
    assert_eq!(mail.mailbox("ar@marlow.example", 1).await.len(), 1);

    // Why nothing is ever sent again by itself: the same Message-ID twice is two mails.
    scene.execute(&job, &frozen).await;
    assert_eq!(
        mail.mailbox("ar@marlow.example", 2).await.len(),
        2,
        "{}",
        mail.log()
    );
    mail.mailbox("archive@acme.example", 2).await;
    let again = scene.mail.lookup(job.act_id, &frozen, start(), None).await;
    assert!(
        matches!(&again, Found::Executed(r) if r.status.contains("2 times")),
        "{again:?}"
    );
}

/// A line to the server that carries the final dot and then nothing back.
async fn cut_after_the_dot(to: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let server = TcpStream::connect(("127.0.0.1", to)).await.expect("the server");
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                let back = tokio::spawn(async move {
                    let _ = tokio::io::copy(&mut from_server, &mut to_client).await;
                });
                let mut seen = Vec::new();
                let mut chunk = [0u8; 4_096];
                while let Ok(read @ 1..) = from_client.read(&mut chunk).await {
                    seen.extend_from_slice(&chunk[..read]);
                    if seen.ends_with(b"\r\n.\r\n") {
                        back.abort();
                        let _ = back.await;
                        let _ = to_server.write_all(&chunk[..read]).await;
                        // The server must have it before the line is gone.
                        tokio::time::sleep(Duration::from_millis(500)).await;
                        return;
                    }
                    if to_server.write_all(&chunk[..read]).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

enum Proves {
    /// The server took it, and says so.
    Done,
    /// It certainly did not.
    NotDone,
    /// Nobody can say.
    Nothing,
}

#[tokio::test]
async fn smtp_sink_refuses_and_hangs_up_at_every_step() {
    let cases: [(&[&str], Proves); 19] = [
        (&[], Proves::Done),
        (&["-W", ".:1"], Proves::Done),
        (&["-W", ".:5"], Proves::Nothing),
        (&["-q", "."], Proves::Nothing),
        (&["-Q", "."], Proves::Nothing),
        (&["-f", "."], Proves::NotDone),
        (&["-r", "."], Proves::NotDone),
        (&["-f", "CONNECT"], Proves::NotDone),
        (&["-q", "CONNECT"], Proves::NotDone),
        (&["-r", "EHLO"], Proves::NotDone),
        (&["-f", "MAIL"], Proves::NotDone),
        (&["-q", "MAIL"], Proves::NotDone),
        (&["-f", "RCPT"], Proves::NotDone),
        (&["-r", "RCPT"], Proves::NotDone),
        (&["-q", "RCPT"], Proves::NotDone),
        (&["-f", "DATA"], Proves::NotDone),
        (&["-q", "DATA"], Proves::NotDone),
        (&["-Q", "DATA"], Proves::NotDone),
        (&["-A", "0"], Proves::NotDone),
    ];
    for (options, proves) in cases {
        let folder = Folder::new();
        let sink = Sink::start(&folder, options).await;
        let scene = Scene::smtp(sink.port, "reply_timeout_s = 3\ntimeout_s = 5");
        let job = remittance();
        let frozen = scene.prepare(&job).await;
        let outcome = scene.execute(&job, &frozen).await;
        let as_it_should = match proves {
            Proves::Done => matches!(outcome, Outcome::Executed(_)),
            Proves::NotDone => matches!(outcome, Outcome::Rejected(_) | Outcome::NotSent(_)),
            Proves::Nothing => matches!(outcome, Outcome::Unknown(_)),
        };
        assert!(as_it_should, "smtp-sink {options:?}: {outcome:?}");
        let stated = frozen.request.body.replace("\r\n", "\n");
        let whole = sink
            .captured()
            .iter()
            .filter(|mail| mail.contains(&stated))
            .count();
        match proves {
            Proves::Done => assert_eq!(whole, 1, "smtp-sink {options:?} has it, to the byte"),
            // It has the mail, whether or not it would have said so: this is what in doubt means.
            Proves::Nothing => assert_eq!(whole, 1, "smtp-sink {options:?}"),
            // Where it refuses only at the end, it may have written down what it refuses.
            Proves::NotDone if options.contains(&".") => {}
            Proves::NotDone => assert_eq!(whole, 0, "smtp-sink {options:?}"),
        }
    }
}
