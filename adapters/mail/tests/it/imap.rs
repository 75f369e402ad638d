//! A look into the archive: found proves done, and nothing else proves anything. The archive here follows a script; the
//! real one is in `servers`.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use wilco_adapter::{Adapter, Found};
use wilco_core::contract::{Guarantee, LookupBy};

use crate::script::{Dot, Script, Server};
use crate::support::{Scene, but, note, remittance, start};

/// Answers to commands by their beginning, `{tag}` and `{id}` filled in; an empty one closes the connection.
type Answers = Vec<(&'static str, String)>;

fn usual(uids: &str) -> Answers {
    let headers = "Message-ID: {id}\r\nTo: ar@marlow.example\r\n\r\n";
    vec![
        ("UID SEARCH", format!("* SEARCH{uids}\r\n{{tag}} OK done")),
        (
            "UID FETCH",
            format!(
                "* 1 FETCH (UID 7 BODY[HEADER.FIELDS (MESSAGE-ID TO)] {{size}}\r\n{headers})\r\n{{tag}} OK done"
            ),
        ),
        ("LOGOUT", "* BYE\r\n{tag} OK done".to_owned()),
        ("", "{tag} OK done".to_owned()),
    ]
}

async fn archive(answers: Answers) -> (u16, Arc<Mutex<Vec<String>>>, Arc<Mutex<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let told = Arc::new(Mutex::new(Vec::new()));
    let id = Arc::new(Mutex::new(String::new()));
    let (kept, message_id) = (told.clone(), id.clone());
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            let mut stream = BufReader::new(tcp);
            stream.write_all(b"* OK archive\r\n").await.expect("greeted");
            loop {
                let mut line = String::new();
                if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                    break;
                }
                let (tag, command) = line.trim_end().split_once(' ').expect("a tag");
                kept.lock().expect("a record").push(command.to_owned());
                let answer = answers.iter().find(|(begins, _)| command.starts_with(begins));
                let (_, answer) = answer.expect("a script for everything");
                let id = message_id.lock().expect("an id").clone();
                let answer = answer.replace("{tag}", tag).replace("{id}", &id);
                if answer.is_empty() {
                    break;
                }
                // The size of what follows on the next lines, up to the closing bracket.
                let literal = answer
                    .split("{size}\r\n")
                    .nth(1)
                    .map_or(0, |rest| rest.find(")\r\n").unwrap_or(rest.len()));
                let answer = answer.replace("{size}", &format!("{{{literal}}}"));
                if stream
                    .write_all(format!("{answer}\r\n").as_bytes())
                    .await
                    .is_err()
                {
                    break;
                }
            }
        }
    });
    (port, told, id)
}

/// An act whose answer was lost, and what the archive with these answers says of it.
async fn looked_up(answers: Answers) -> (Found, Vec<String>) {
    looked_up_as(answers, |id| id.to_owned()).await
}

async fn looked_up_as(answers: Answers, archived: impl Fn(&str) -> String) -> (Found, Vec<String>) {
    let server = Server::start(Script::at_dot(Dot::TakesAndCloses)).await;
    let (port, told, id) = archive(answers).await;
    let scene = Scene::with(&table(server.port, port), |_| {});
    let job = remittance();
    let frozen = scene.prepare(&job).await;
    assert_eq!(frozen.contract.lookup, LookupBy::Evidence);
    assert_eq!(frozen.contract.guarantee(), Guarantee::Blind);
    scene.execute(&job, &frozen).await;
    *id.lock().expect("an id") = archived(&frozen.request.key);
    let found = scene.mail.lookup(job.act_id, &frozen, start(), None).await;
    assert_eq!(server.record().taken.len(), 1, "a look sends nothing");
    let told = told.lock().expect("a record").clone();
    (found, told)
}

fn table(smtp: u16, imap: u16) -> String {
    let smtp = crate::support::smtp_table(smtp, "archive_bcc = \"archive@acme.example\"\n");
    format!(
        "{smtp}\n[imap]\nhost = \"127.0.0.1\"\nport = {imap}\nusername = \"ar\\\"chive\"\n\
         password_command = [\"printf\", 's3\\\\ \"cret']\nmailbox = \"Sent mail\"\ntimeout_s = 2"
    )
}

#[tokio::test]
async fn found_proves_that_it_was_sent() {
    let (found, told) = looked_up(usual(" 7")).await;
    let Found::Executed(report) = found else {
        panic!("{found:?}");
    };
    assert_eq!(
        report.values,
        [("addr".to_owned(), "ar@marlow.example".to_owned())]
    );
    // The server's own receipt may come in late, and a second one would mean a second mail.
    assert_eq!(report.receipt, None);
    let status = report.status;
    assert!(status.contains("uid 7 of Sent mail at 127.0.0.1:"), "{status}");
    assert!(status.contains("not delivery"), "{status}");
    assert_eq!(told[0], "LOGIN \"ar\\\"chive\" \"s3\\\\ \\\"cret\"");
    assert_eq!(told[1], "EXAMINE \"Sent mail\"", "it reads and changes nothing");
    assert!(told[3].contains("BODY.PEEK["));
}

#[tokio::test]
async fn not_found_proves_nothing() {
    let (found, _) = looked_up(usual("")).await;
    assert!(
        matches!(found, Found::Absent(ref text) if text.contains("proves nothing")),
        "{found:?}"
    );
}

#[tokio::test]
async fn only_the_whole_id_is_proof() {
    let (found, _) = looked_up_as(usual(" 7"), |id| format!("{id}.evil@elsewhere")).await;
    assert!(matches!(found, Found::Absent(_)), "{found:?}");
}

#[tokio::test]
async fn an_archive_that_does_not_answer_clearly_says_nothing() {
    let with = |command: &'static str, answer: &str| {
        let mut answers = usual(" 7");
        answers.insert(0, (command, answer.to_owned()));
        answers
    };
    for answers in [
        with("LOGIN", "{tag} NO [AUTHENTICATIONFAILED] no"),
        with("EXAMINE", "{tag} NO no such mailbox"),
        with("UID SEARCH", "{tag} BAD what"),
        with("UID SEARCH", "{tag} OK done"),
        with("UID SEARCH", ""),
        with("UID SEARCH", "* SEARCH"),
        with(
            "UID SEARCH",
            &format!("* SEARCH{}\r\n{{tag}} OK done", " 1".repeat(60)),
        ),
        with("UID SEARCH", &"x".repeat(20_000)),
        with("UID FETCH", "{tag} NO no"),
        with("UID FETCH", "* 1 FETCH (UID 7 BODY[] {99999999}\r\nx"),
    ] {
        let (found, told) = looked_up(answers).await;
        let Found::Unknown(text) = found else {
            panic!("{told:?}: {found:?}");
        };
        assert!(!text.contains("cret"), "{text}");
    }
}

#[tokio::test]
async fn health_looks_into_both() {
    let server = Server::start(Script::new()).await;
    let (port, told, _) = archive(usual("")).await;
    let scene = Scene::with(&table(server.port, port), |_| {});
    assert_eq!(scene.mail.health().await, Ok(()));
    assert_eq!(told.lock().expect("a record").len(), 3);
    let scene = Scene::with(&table(server.port, 1), |_| {});
    assert!(
        scene
            .mail
            .health()
            .await
            .is_err_and(|e| e.starts_with("the archive: "))
    );
}

#[tokio::test]
async fn the_archives_address_is_stated() {
    let scene = Scene::with(&table(1, 1), |_| {});
    let resolved = scene.resolve(&but(note(), "apref", "")).await.expect("resolved");
    let bcc = resolved.extra.iter().find(|(k, _)| k == "x_bcc");
    assert_eq!(bcc.map(|(_, v)| v.as_str()), Some("archive@acme.example"));
}
