//! After: mail and password go only to a server whose certificate the operator's authority signed. The keys in `tests/tls`
//! belong to a test authority that is worth nothing.

use std::path::PathBuf;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use wilco_adapter::{Adapter, Outcome};

use crate::script::{Record, Script, Server};
use crate::support::{Scene, remittance, words};

pub fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/tls")
        .join(name)
}

fn acceptor() -> TlsAcceptor {
    let key = PrivateKeyDer::from_pem_file(file("server.key.pem")).expect("a key");
    let certificate = CertificateDer::from_pem_file(file("server.pem")).expect("a certificate");
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("a certificate");
    TlsAcceptor::from(Arc::new(config))
}

fn secured() -> Script {
    let mut script = Script::new();
    script.offers.push("STARTTLS");
    script.tls = Some(acceptor());
    script
}

const LOGIN: &str = "username = \"pay\"\npassword_command = [\"printf\", \"s3cret\"]\ntimeout_s = 3";

/// Sends to a server called localhost, as its certificate says, with these lines of configuration.
async fn send(script: Script, host: &str, more: &str) -> (Outcome, Record, String) {
    let server = Server::start(script).await;
    let table = crate::support::smtp_table(server.port, &format!("{LOGIN}\n{more}"));
    let scene = Scene::with(&table, |c| {
        if let Some(smtp) = &mut c.smtp {
            smtp.host = host.to_owned();
        }
    });
    let job = remittance();
    let frozen = scene.prepare(&job).await;
    let outcome = scene.execute(&job, &frozen).await;
    (outcome, server.record(), frozen.request.body)
}

fn ours(mode: &str) -> String {
    format!("tls = \"{mode}\"\nca_file = {:?}", file("ca.pem"))
}

#[tokio::test]
async fn starttls_and_tls_from_the_first_byte_carry_the_message() {
    let (outcome, record, body) = send(secured(), "localhost", &ours("starttls")).await;
    assert!(matches!(outcome, Outcome::Executed(_)), "{outcome:?}");
    assert_eq!(record.taken, [body]);
    let said: Vec<&str> = record
        .commands
        .iter()
        .filter_map(|c| c.split(' ').next())
        .collect();
    assert_eq!(
        said,
        ["EHLO", "STARTTLS", "EHLO", "AUTH", "MAIL", "RCPT", "DATA", "QUIT"]
    );

    let script = Script {
        tls_from_start: true,
        ..secured()
    };
    let (outcome, record, body) = send(script, "localhost", &ours("tls")).await;
    assert!(matches!(outcome, Outcome::Executed(_)), "{outcome:?}");
    assert_eq!(record.taken, [body]);
}

#[tokio::test]
async fn a_server_nobody_vouches_for_gets_neither_mail_nor_password() {
    // Another authority: our own certificate vouches for nobody.
    let stranger = format!("tls = \"starttls\"\nca_file = {:?}", file("server.pem"));
    let cases = [
        ("localhost", stranger),
        ("127.0.0.1", ours("starttls")),
        ("127.0.0.1", ours("tls")),
    ];
    for (host, more) in cases {
        let script = Script {
            tls_from_start: more.contains("\"tls\""),
            ..secured()
        };
        let (outcome, record, _) = send(script, host, &more).await;
        assert!(
            matches!(outcome, Outcome::NotSent(_)),
            "{host} {more}: {outcome:?}"
        );
        assert!(
            !record.commands.iter().any(|c| c.starts_with("AUTH")),
            "{:?}",
            record.commands
        );
        assert!(record.taken.is_empty());
    }
}

#[tokio::test]
async fn a_server_without_starttls_gets_neither_mail_nor_password() {
    let (outcome, record, _) = send(Script::new(), "localhost", &ours("starttls")).await;
    assert!(matches!(outcome, Outcome::NotSent(_)), "{outcome:?}");
    assert!(words(&outcome).contains("does not offer STARTTLS"));
    assert_eq!(record.commands.len(), 1);
    let mut refusing = secured();
    refusing.answers.push(("STARTTLS", "454 4.7.0 not now"));
    let (outcome, record, _) = send(refusing, "localhost", &ours("starttls")).await;
    assert!(matches!(outcome, Outcome::NotSent(_)), "{outcome:?}");
    assert_eq!(record.commands.len(), 2);
}

#[tokio::test]
async fn what_is_slipped_in_before_tls_is_not_read_after_it() {
    let mut script = secured();
    script
        .answers
        .push(("STARTTLS", "220 go ahead\r\n250-mail.example\r\n250 AUTH PLAIN"));
    let (outcome, record, _) = send(script, "localhost", &ours("starttls")).await;
    assert!(matches!(outcome, Outcome::NotSent(_)), "{outcome:?}");
    assert!(
        words(&outcome).contains("speaks before TLS stands"),
        "{}",
        words(&outcome)
    );
    assert_eq!(record.commands.len(), 2);
}

#[tokio::test]
async fn certificates_that_cannot_be_read_are_named_at_start() {
    let table = crate::support::smtp_table(25, "tls = \"starttls\"\nca_file = \"/nonexistent/ca.pem\"");
    let config = adapter_mail::MailConfig::from_toml(&table).expect("a table");
    let error = match adapter_mail::MailAdapter::new(&config, crate::support::Still::new()) {
        Ok(_) => panic!("no such file"),
        Err(error) => error.to_string(),
    };
    assert!(error.contains("smtp: ca_file /nonexistent/ca.pem"), "{error}");
    let scene = Scene::maildir();
    assert_eq!(scene.mail.health().await, Ok(()));
}
