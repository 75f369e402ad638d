//! After: the suite again, with Postfix and Dovecot behind the lines that break. The judge is what lies in the recipients'
//! mailboxes.

use std::sync::Arc;

use adapter_mail::{MailAdapter, MailConfig};
use wilco_adapter::kit::{self, Bench, Effect, FaultProxy, Finding, Still};
use wilco_adapter::{Adapter, Job};
use wilco_core::{ActId, Frozen};

use super::harness::Mail;
use crate::kit::{effect_of, is_of, remittance};
use crate::support::start;

struct PostfixBench {
    mail: Mail,
    smtp: FaultProxy,
    imap: FaultProxy,
    config: MailConfig,
    clock: Arc<Still>,
}

impl PostfixBench {
    async fn open() -> PostfixBench {
        let mail = Mail::start().await;
        let line = async |port: u16| {
            let to = std::net::SocketAddr::from(([127, 0, 0, 1], port));
            FaultProxy::to(to).await.unwrap_or_else(|e| panic!("{e}"))
        };
        let (smtp, imap) = (line(mail.smtp).await, line(mail.imap).await);
        let more = "username = \"pay@acme.example\"\npassword_command = [\"printf\", \"s3cret\"]\n\
                    archive_bcc = \"archive@acme.example\"\ntimeout_s = 1\nreply_timeout_s = 1\nsettle_window_s = 2\n";
        let mut table = crate::support::smtp_table(smtp.addr().port(), more);
        table.push_str(&format!(
            "[imap]\nhost = \"127.0.0.1\"\nport = {}\nusername = \"archive@acme.example\"\n\
             password_command = [\"printf\", \"s3cret\"]\ntimeout_s = 2\n",
            imap.addr().port()
        ));
        PostfixBench {
            mail,
            smtp,
            imap,
            config: MailConfig::from_toml(&table).unwrap_or_else(|e| panic!("{e}")),
            clock: Still::at(start()),
        }
    }
}

#[async_trait::async_trait]
impl Bench for PostfixBench {
    async fn adapter(&self) -> Arc<dyn Adapter> {
        let mail = MailAdapter::new(&self.config, self.clock.clone());
        Arc::new(mail.unwrap_or_else(|e| panic!("{e}")))
    }

    fn clock(&self) -> Arc<Still> {
        self.clock.clone()
    }

    async fn job(&self, n: u32) -> Job {
        remittance(&self.clock, &format!("ar{n}@marlow.example"))
    }

    async fn effects(&self, act: ActId, _frozen: &Frozen) -> Vec<Effect> {
        // A mail in the queue is one that was taken on.
        self.mail.quiet().await;
        let mails = self.mail.everything_at("@marlow.example");
        mails
            .iter()
            .filter(|mail| is_of(mail, act))
            .map(|mail| effect_of(mail))
            .collect()
    }

    async fn effects_in_all(&self) -> Option<usize> {
        self.mail.quiet().await;
        Some(self.mail.everything_at("@marlow.example").len())
    }

    async fn settle(&self) {
        self.mail.quiet().await;
        self.clock.pass(2);
    }

    fn proxy(&self) -> Option<&FaultProxy> {
        Some(&self.smtp)
    }

    fn lookup_proxy(&self) -> Option<&FaultProxy> {
        Some(&self.imap)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postfix_and_dovecot_behind_lines_that_break() {
    let bench = PostfixBench::open().await;
    let findings = kit::run(&bench).await;
    findings.assert_sound();
    let cut = findings.finding("cut before the reply");
    assert_eq!(cut, Some(&Finding::Passed), "{findings}");
}
