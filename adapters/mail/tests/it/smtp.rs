//! Every stage of a submission, and what it proves. The server's record says what was mailed.

use std::sync::Arc;

use wilco_adapter::{Adapter, Found, Outcome};
use wilco_core::contract::{Guarantee, Identity, LookupBy};

use crate::script::{Dot, Record, Script, Server};
use crate::support::{Scene, but, note, remittance, start, words};

/// Sends a remittance advice to a server with this script.
async fn send(script: Script) -> (Outcome, Record, String) {
    send_with(script, "").await
}

async fn send_with(script: Script, more: &str) -> (Outcome, Record, String) {
    let server = Server::start(script).await;
    let scene = Scene::smtp(server.port, more);
    let job = remittance();
    let frozen = scene.prepare(&job).await;
    let outcome = scene.execute(&job, &frozen).await;
    (outcome, server.record(), frozen.request.body)
}

#[tokio::test]
async fn what_was_frozen_is_what_the_server_gets_to_the_byte() {
    let server = Server::start(Script::new()).await;
    let scene = Scene::smtp(server.port, "");
    let job = but(note(), "txt", ".%0A..%0AFrom_here%0A.");
    let frozen = scene.prepare(&job).await;
    let outcome = scene.execute(&job, &frozen).await;
    let Outcome::Executed(report) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(
        report.values,
        [("addr".to_owned(), "anna@customer.example".to_owned())]
    );
    assert_eq!(report.receipt.as_deref(), Some("2.0.0 Ok: queued as 4F1A2"));
    assert!(report.status.contains("not delivery"), "{}", report.status);
    assert!(!report.provisional);
    let record = server.record();
    assert_eq!(record.taken, [frozen.request.body], "the message, and once");
}

#[tokio::test]
async fn the_envelope_names_the_act_and_one_recipient() {
    let (outcome, record, body) = send(Script::new()).await;
    assert!(matches!(outcome, Outcome::Executed(_)), "{outcome:?}");
    let act = body
        .split("Wilco-Act: ")
        .nth(1)
        .map(|rest| &rest[..32])
        .expect("a reference");
    assert_eq!(
        record.commands,
        [
            "EHLO acme.example".to_owned(),
            format!(
                "MAIL FROM:<pay@acme.example> SIZE={} RET=HDRS ENVID={act}",
                body.len()
            ),
            "RCPT TO:<ar@marlow.example> NOTIFY=SUCCESS,FAILURE,DELAY ORCPT=rfc822;ar@marlow.example"
                .to_owned(),
            "DATA".to_owned(),
            "QUIT".to_owned(),
        ]
    );
    let mut plain = Script::new();
    plain.offers = vec!["mail.example"];
    let (_, record, _) = send(plain).await;
    assert_eq!(
        record.commands[1], "MAIL FROM:<pay@acme.example>",
        "nothing is asked that is not offered"
    );
    let (_, record, _) = send_with(Script::new(), "dsn = false").await;
    assert_eq!(record.commands[2], "RCPT TO:<ar@marlow.example>");
}

#[tokio::test]
async fn a_refusal_before_the_data_is_certainly_no_mail() {
    for (command, answer) in [
        ("MAIL", "550 5.7.1 not you"),
        ("MAIL", "452 4.3.1 no room"),
        ("RCPT", "550 5.1.1 no such user"),
        ("RCPT", "450 4.7.1 Greylisted"),
        ("RCPT", "553-5.1.8 line one\r\n553 5.1.8 line two"),
        ("DATA", "554 5.5.1 no valid recipients"),
    ] {
        let (outcome, record, _) = send(Script::answering(command, answer)).await;
        assert!(
            matches!(outcome, Outcome::Rejected(_)),
            "{command} {answer}: {outcome:?}"
        );
        assert!(words(&outcome).contains(&answer[..3]), "{}", words(&outcome));
        assert_eq!((record.taken.len(), record.dots), (0, 0), "{command} {answer}");
    }
}

#[tokio::test]
async fn a_conversation_that_goes_wrong_before_the_data_is_certainly_no_mail() {
    let long: &'static str = Box::leak(format!("250 {}", "x".repeat(5_000)).into_boxed_str());
    let endless: &'static str = Box::leak("250-more\r\n".repeat(200).into_boxed_str());
    for (command, answer) in [
        ("EHLO", ""),
        ("EHLO", "502 no"),
        ("MAIL", ""),
        ("MAIL", "421 4.3.2 shutting down"),
        ("RCPT", ""),
        ("RCPT", "354 what"),
        ("RCPT", "hello"),
        ("RCPT", "250-one\r\n550 two"),
        ("RCPT", long),
        ("RCPT", endless),
        ("DATA", ""),
        ("DATA", "250 ok"),
        ("DATA", "421 4.3.2 shutting down"),
    ] {
        let (outcome, record, _) = send(Script::answering(command, answer)).await;
        assert!(
            matches!(outcome, Outcome::NotSent(_)),
            "{command} {answer}: {outcome:?}"
        );
        assert_eq!((record.taken.len(), record.dots), (0, 0), "{command} {answer}");
    }
    for greeting in ["554 5.3.2 not today", "421 busy", "SSH-2.0-x"] {
        let script = Script {
            greeting,
            ..Script::new()
        };
        let (outcome, record, _) = send(script).await;
        assert!(matches!(outcome, Outcome::NotSent(_)), "{greeting}: {outcome:?}");
        assert!(record.taken.is_empty());
    }
}

#[tokio::test]
async fn nobody_at_home_is_not_sent() {
    let port = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        listener.local_addr().expect("bound").port()
    };
    let scene = Scene::smtp(port, "");
    let job = remittance();
    let frozen = scene.prepare(&job).await;
    assert!(matches!(scene.execute(&job, &frozen).await, Outcome::NotSent(_)));
    assert!(scene.mail.health().await.is_err());
}

#[tokio::test]
async fn a_line_that_drops_in_the_middle_of_the_message_is_certainly_no_mail() {
    let server = Server::start(Script {
        hangs_up_in_data: Some(20_000),
        offers: vec!["mail.example"],
        ..Script::new()
    })
    .await;
    // More than any socket keeps, so that the drop is met while the message is written.
    let bytes = vec![7u8; 12_000_000];
    let folder = crate::support::Folder::new();
    folder.write("big.bin", &bytes);
    let scene = Scene::with(&crate::support::smtp_table(server.port, ""), |c| {
        c.attachments = Some(folder.0.clone());
        c.max_message_bytes = 25_000_000;
    });
    let digest = crate::resolve::sha256(&bytes);
    let job = but(note(), "att", &digest);
    let frozen = scene.prepare(&job).await;
    let outcome = scene.execute(&job, &frozen).await;
    assert!(matches!(outcome, Outcome::NotSent(_)), "{outcome:?}");
    assert_eq!((server.record().taken.len(), server.record().dots), (0, 0));
}

#[tokio::test]
async fn a_refusal_of_the_message_is_certainly_no_mail() {
    for answer in ["554 5.7.1 spam", "552 5.3.4 too big", "451 4.3.0 try later"] {
        let (outcome, record, _) = send(Script::at_dot(Dot::Refuses(answer))).await;
        assert!(matches!(outcome, Outcome::Rejected(_)), "{answer}: {outcome:?}");
        assert!(words(&outcome).contains(answer), "{}", words(&outcome));
        assert_eq!((record.taken.len(), record.dots), (0, 1), "{answer}");
    }
}

#[tokio::test]
async fn after_the_dot_only_a_clear_answer_says_anything() {
    for dot in [
        Dot::TakesAndCloses,
        Dot::TakesAndIsSilent,
        Dot::Takes("421 4.3.2 shutting down"),
        Dot::Takes("354 go on"),
        Dot::Takes("251 elsewhere"),
        Dot::Takes("ok"),
        Dot::Takes("250-one\r\n450 two"),
    ] {
        let (outcome, record, body) = send_with(Script::at_dot(dot), "reply_timeout_s = 1").await;
        assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome:?}");
        assert_eq!(record.taken, [body], "it was taken all the same");
    }
}

#[tokio::test]
async fn an_answer_nobody_asked_for_is_not_taken_for_one_to_the_dot() {
    let script = Script {
        early: "250 2.0.0 Ok: queued as WRONG",
        // Holds the message back until the early answer has certainly arrived.
        answers: vec![("DATA", "354 go on\r\n250 2.0.0 Ok: queued as WRONG")],
        dot: Dot::Refuses("554 no"),
        ..Script::new()
    };
    let (outcome, record, _) = send(script).await;
    assert!(matches!(outcome, Outcome::NotSent(_)), "{outcome:?}");
    assert!(record.taken.is_empty());
}

#[tokio::test]
async fn at_its_last_moment_an_act_is_not_sent() {
    let server = Server::start(Script::new()).await;
    let scene = Scene::smtp(server.port, "");
    let job = remittance();
    let frozen = scene.prepare(&job).await;
    let permit = scene.permit(&job, &frozen);
    scene.clock.pass(3_600);
    let outcome = scene.mail.execute(permit, &frozen).await;
    assert!(matches!(outcome, Outcome::NotSent(_)), "{outcome:?}");
    assert!(
        !server.record().commands.iter().any(|c| c == "DATA"),
        "not even begun"
    );
}

#[tokio::test]
async fn the_last_moment_may_come_while_the_message_is_on_its_way() {
    let clock = crate::support::Still::new();
    let moved = clock.clone();
    let script = Script {
        at_data: Some(Arc::new(move || moved.pass(3_600))),
        ..Script::new()
    };
    let server = Server::start(script).await;
    let scene = Scene::smtp(server.port, "");
    let job = remittance();
    let frozen = scene.prepare(&job).await;
    let permit = wilco_adapter::kit::permit(&job, &frozen, clock);
    let outcome = scene.mail.execute(permit, &frozen).await;
    assert!(matches!(outcome, Outcome::NotSent(_)), "{outcome:?}");
    let record = server.record();
    assert!(record.commands.iter().any(|c| c == "DATA"), "it was begun");
    assert_eq!(
        (record.taken.len(), record.dots),
        (0, 0),
        "and has no end, so it is no mail"
    );
}

#[tokio::test]
async fn without_its_archive_copy_nothing_is_sent() {
    let more = "archive_bcc = \"archive@acme.example\"";
    let (outcome, record, body) = send_with(Script::new(), more).await;
    assert!(matches!(outcome, Outcome::Executed(_)), "{outcome:?}");
    assert_eq!(record.commands[3], "RCPT TO:<archive@acme.example> NOTIFY=NEVER");
    assert!(!body.contains("archive@"), "the reader does not see it");
    let script = Script::answering("RCPT TO:<archive", "550 no");
    let (outcome, record, _) = send_with(script, more).await;
    assert!(matches!(outcome, Outcome::Rejected(_)), "{outcome:?}");
    assert!(record.taken.is_empty());
}

#[tokio::test]
async fn a_message_the_server_has_no_room_for_is_not_begun() {
    let mut script = Script::new();
    script.offers = vec!["mail.example", "SIZE 100"];
    let (outcome, record, _) = send(script).await;
    assert!(matches!(outcome, Outcome::Rejected(_)), "{outcome:?}");
    assert_eq!(record.commands, ["EHLO acme.example", "QUIT"]);
}

#[tokio::test]
async fn the_password_is_shown_to_the_server_and_to_nobody_else() {
    let more = "username = \"pay\"\npassword_command = [\"printf\", \"s3 cret\"]";
    let (outcome, record, _) = send_with(Script::new(), more).await;
    assert!(matches!(outcome, Outcome::Executed(_)), "{outcome:?}");
    assert_eq!(record.commands[1], "AUTH PLAIN AHBheQBzMyBjcmV0");

    let mut old = Script::new();
    old.offers = vec!["mail.example", "AUTH LOGIN"];
    let (outcome, record, _) = send_with(old, more).await;
    assert!(matches!(outcome, Outcome::Executed(_)), "{outcome:?}");
    assert_eq!(record.commands[1..4], ["AUTH LOGIN", "cGF5", "czMgY3JldA=="]);

    let refusing = Script::answering("AUTH", "535 5.7.8 no");
    let (outcome, record, _) = send_with(refusing, more).await;
    assert!(matches!(outcome, Outcome::NotSent(_)), "{outcome:?}");
    let said = words(&outcome);
    assert!(
        said.contains("535") && !said.contains("AHBh") && !said.contains("cret"),
        "{said}"
    );
    assert!(record.taken.is_empty());

    let mut none = Script::new();
    none.offers = vec!["mail.example"];
    let (outcome, ..) = send_with(none, more).await;
    assert!(matches!(outcome, Outcome::NotSent(_)), "{outcome:?}");
    let (outcome, ..) = send_with(
        Script::new(),
        "username = \"pay\"\npassword_env = \"WILCO_NO_SUCH\"",
    )
    .await;
    assert!(matches!(outcome, Outcome::NotSent(_)), "{outcome:?}");
}

#[tokio::test]
async fn other_alphabets_need_a_server_that_takes_them() {
    let table = |port| format!("smtputf8 = true\n{}", crate::support::smtp_table(port, ""));
    let job = but(note(), "addr", "jörg@müller.example");
    let server = Server::start(Script::new()).await;
    let scene = Scene::with(&table(server.port), |_| {});
    let frozen = scene.prepare(&job).await;
    let outcome = scene.execute(&job, &frozen).await;
    assert!(matches!(outcome, Outcome::Rejected(_)), "{outcome:?}");
    assert!(server.record().taken.is_empty());

    let mut script = Script::new();
    script.offers.push("SMTPUTF8");
    let server = Server::start(script).await;
    let scene = Scene::with(&table(server.port), |_| {});
    let outcome = scene.execute(&job, &frozen).await;
    assert!(matches!(outcome, Outcome::Executed(_)), "{outcome:?}");
    let record = server.record();
    assert!(
        record.commands[1].ends_with(" SMTPUTF8 BODY=8BITMIME"),
        "{}",
        record.commands[1]
    );
    assert!(record.taken[0].contains("To: jörg@müller.example\r\n"));
}

#[tokio::test]
async fn without_an_archive_nothing_can_be_looked_up_and_the_contract_says_so() {
    let (scene, server) = {
        let server = Server::start(Script::at_dot(Dot::TakesAndCloses)).await;
        (Scene::smtp(server.port, ""), server)
    };
    let job = remittance();
    let frozen = scene.prepare(&job).await;
    assert_eq!(frozen.contract.identity, Identity::None);
    assert_eq!(frozen.contract.lookup, LookupBy::None);
    assert_eq!(frozen.contract.guarantee(), Guarantee::Blind);
    assert!(matches!(scene.execute(&job, &frozen).await, Outcome::Unknown(_)));
    let Found::Unknown(text) = scene.mail.lookup(job.act_id, &frozen, start(), None).await else {
        panic!("nothing to look in");
    };
    assert!(
        text.contains(&frozen.request.key),
        "a person is told what to look for: {text}"
    );
    assert_eq!(server.record().taken.len(), 1);
}

#[tokio::test]
async fn an_act_stated_for_a_maildir_is_not_sent_by_smtp() {
    let job = remittance();
    let frozen = Scene::maildir().prepare(&job).await;
    let server = Server::start(Script::new()).await;
    let scene = Scene::smtp(server.port, "");
    assert!(matches!(scene.execute(&job, &frozen).await, Outcome::NotSent(_)));
    let found = scene.mail.lookup(job.act_id, &frozen, start(), None).await;
    assert!(matches!(found, Found::Unknown(_)), "{found:?}");
    assert!(server.record().commands.is_empty());
}

#[tokio::test]
async fn health_is_a_conversation_without_a_mail() {
    let server = Server::start(Script::new()).await;
    let scene = Scene::smtp(server.port, "");
    assert_eq!(scene.mail.health().await, Ok(()));
    assert_eq!(server.record().commands, ["EHLO acme.example", "QUIT"]);
}
