//! The mail adapter: `SEND` about payments (`p=pay`) and of any other mail (`p=mail`).
//!
//! When a job is prepared, the complete message is written and frozen, byte for byte; the statement carries its digest.
//! Commit hands exactly those bytes to a mail server by SMTP, or puts them into a Maildir. README.md has a table of what
//! happens at each point of failure.
//!
//! `config` is what operators write, `slots` and `template` say what a mail can show, `wire` translates (pure), `files` reads
//! the operator's folders, `client` is the only IO with counterparties, `resolve` prepares. What never lives here: retries,
//! judgement of whether a value is right, and any secret that outlives one sending.

mod chars;
mod client;
mod config;
mod files;
mod resolve;
mod slots;
mod template;
mod wire;

use std::sync::Arc;

use async_trait::async_trait;
use wilco_adapter::{Adapter, Description, Found, Job, Outcome, Permit, Ready, Report, ResolveError, Served};
use wilco_core::contract::{Identity, LateSend, LookupBy, Reversal};
use wilco_core::{ActId, Clock, Contract, Frozen, Resolved, Timestamp};

pub use config::{ConfigError, ImapConfig, MailConfig, SmtpConfig};

use client::imap::Imap;
use client::maildir::{Delivered, Delivery, Look, Maildir};
use client::smtp::{Failure, Smtp};
use config::{Checked, Transport};
use slots::Kind;
use wire::address::Address;
use wire::smtp::Envelope;

/// The verb of a frozen submission by SMTP.
const SUBMIT: &str = "SUBMIT";
/// The verb of a frozen delivery into a Maildir.
const DELIVER: &str = "DELIVER";
/// Seconds within which a delivery into a Maildir that was begun has ended.
const MAILDIR_WINDOW_S: u32 = 5;

/// One way out for mail.
pub struct MailAdapter {
    config: Checked,
    way: Way,
}

/// How mail leaves.
enum Way {
    Maildir(Maildir),
    Smtp(Box<Server>),
}

/// A mail server, and the archive in which a lost answer is looked up.
struct Server {
    smtp: Smtp,
    imap: Option<Imap>,
}

impl MailAdapter {
    /// The adapter for a configured way out. With a Maildir, makes it where there is none. `clock` is the store's.
    ///
    /// # Errors
    /// [`ConfigError`] naming the field and its rule.
    pub fn new(config: &MailConfig, clock: Arc<dyn Clock>) -> Result<MailAdapter, ConfigError> {
        let checked = config.checked()?;
        let way = match &checked.transport {
            Transport::Maildir(path) => {
                let maildir = Maildir::open(path, clock.now());
                Way::Maildir(maildir.map_err(|e| ConfigError::Field {
                    field: "path",
                    rule: format!("must be a Maildir, or a place where one can be made: {e}"),
                    got: path.display().to_string(),
                })?)
            }
            Transport::Smtp(smtp, imap) => {
                let failed = |table: &str, e: String| ConfigError::Table(format!("{table}: {e}"));
                let archive = imap.clone().map(Imap::new).transpose();
                Way::Smtp(Box::new(Server {
                    smtp: Smtp::new((**smtp).clone(), &checked.domain).map_err(|e| failed("smtp", e))?,
                    imap: archive.map_err(|e| failed("imap", e))?,
                }))
            }
        };
        Ok(MailAdapter { config: checked, way })
    }

    fn contract(&self) -> Contract {
        match &self.way {
            Way::Maildir(_) => Contract {
                identity: Identity::Enforced,
                lookup: LookupBy::Reference,
                settle_window_s: MAILDIR_WINDOW_S,
                late_send: LateSend::Accepted,
                reversal: Reversal::None,
                reversal_until_s: None,
                cut_off: String::new(),
                point_of_no_return:
                    "the rename of the written message into new: before it nothing is mail, after it \
                                     everything is"
                        .to_owned(),
                not_found_means:
                    "not delivered: the folder wilco/sent keeps a name for each delivery, whatever readers \
                                  do with the mail. A folder that is gone or is another counts as no answer"
                        .to_owned(),
            },
            Way::Smtp(server) => Contract {
                identity: Identity::None,
                lookup: match &server.imap {
                    Some(_) => LookupBy::Evidence,
                    None => LookupBy::None,
                },
                settle_window_s: server.smtp.config.settle_window_s,
                late_send: LateSend::Accepted,
                reversal: Reversal::None,
                reversal_until_s: None,
                cut_off: String::new(),
                point_of_no_return:
                    "the final dot of DATA: a failure before it is written is certainly no mail, after \
                                     it only the server's answer says"
                        .to_owned(),
                not_found_means:
                    "nothing: a server may keep a message in its queue for days before the archive's copy \
                                  arrives. Found in the archive proves that the server took the message on"
                        .to_owned(),
            },
        }
    }

    fn served(&self, profile: &str, kind: Kind) -> Served {
        Served {
            profile: profile.to_owned(),
            ask: "SEND".to_owned(),
            carried: resolve::carried(kind),
            contract: self.contract(),
        }
    }
}

impl Way {
    /// Verb, place and a note for operators, as they are frozen.
    fn frozen(&self, from: &Address, to: &Address) -> (&'static str, String, &'static str) {
        match self {
            Way::Maildir(maildir) => (
                DELIVER,
                maildir.id().to_owned(),
                "done will mean: the message lies in the Maildir",
            ),
            Way::Smtp(server) => {
                let envelope = Envelope {
                    from: from.clone(),
                    to: to.clone(),
                    archive: server.smtp.config.archive_bcc.clone(),
                };
                (
                    SUBMIT,
                    envelope.frozen(),
                    "done will mean: the next mail server took the message on; that is not delivery",
                )
            }
        }
    }
}

#[async_trait]
impl Adapter for MailAdapter {
    fn describe(&self) -> Description {
        Description {
            name: "mail".to_owned(),
            counterparty: match &self.way {
                Way::Maildir(maildir) => format!("Maildir {}", maildir.shown()),
                Way::Smtp(server) => format!("SMTP at {}", server.smtp.shown()),
            },
            serves: vec![self.served("pay", Kind::Pay), self.served("mail", Kind::General)],
            concurrency: self.config.concurrency,
        }
    }

    async fn resolve(&self, job: &Job) -> Result<Resolved, ResolveError> {
        resolve::resolve(self, job).await
    }

    /// A mail server has no object of its own before the message; whoever must approve has approved the statement.
    async fn ready(&self, _act: ActId, _frozen: &Frozen) -> Ready {
        Ready::Yes
    }

    async fn execute(&self, permit: Permit, frozen: &Frozen) -> Outcome {
        let request = &frozen.request;
        match (&self.way, request.method.as_str()) {
            (Way::Maildir(maildir), DELIVER) if request.path == maildir.id() => {
                let (maildir, message) = (maildir.clone(), request.body.clone());
                let delivered = tokio::task::spawn_blocking(move || maildir.deliver(&permit, &message)).await;
                match delivered {
                    Ok(Delivery::Delivered(delivered)) => Outcome::Executed(delivered_report(delivered)),
                    Ok(Delivery::NotSent(text)) => Outcome::NotSent(text),
                    Ok(Delivery::Unknown(text)) => Outcome::Unknown(text),
                    Err(e) => Outcome::Unknown(format!("the delivery ended without an answer: {e}")),
                }
            }
            (Way::Smtp(server), SUBMIT) => {
                let envelope = match Envelope::thawed(&request.path) {
                    Ok(envelope) => envelope,
                    Err(text) => return Outcome::NotSent(text),
                };
                match server.smtp.submit(&permit, &envelope, &request.body).await {
                    Ok(receipt) => Outcome::Executed(Report {
                        values: vec![("addr".to_owned(), envelope.to.to_string())],
                        receipt: Some(receipt),
                        status: "taken on by the next mail server, which is not delivery".to_owned(),
                        ..Report::default()
                    }),
                    Err(Failure::Refused(text)) => Outcome::Rejected(text),
                    Err(Failure::NotSent(text)) => Outcome::NotSent(text),
                    Err(Failure::Lost(text)) => Outcome::Unknown(text),
                }
            }
            _ => Outcome::NotSent(
                "it was stated for another way out of mail than is configured now; prepare it again"
                    .to_owned(),
            ),
        }
    }

    async fn lookup(
        &self,
        act: ActId,
        frozen: &Frozen,
        _first_sent_at: Timestamp,
        _receipt: Option<&str>,
    ) -> Found {
        let request = &frozen.request;
        match (&self.way, request.method.as_str()) {
            (Way::Maildir(maildir), DELIVER) if request.path == maildir.id() => {
                let (maildir, message) = (maildir.clone(), request.body.clone());
                let look = tokio::task::spawn_blocking(move || maildir.look(act, &message)).await;
                match look {
                    Ok(Look::Delivered(delivered)) => Found::Executed(delivered_report(delivered)),
                    Ok(Look::Another(text)) => Found::Exists(text),
                    Ok(Look::Absent(text)) => Found::Absent(text),
                    Ok(Look::Unknown(text)) => Found::Unknown(text),
                    Err(e) => Found::Unknown(format!("the look ended without an answer: {e}")),
                }
            }
            (Way::Smtp(server), SUBMIT) => match &server.imap {
                Some(imap) => in_archive(imap, frozen).await,
                None => Found::Unknown(format!(
                    "no archive mailbox is configured; look for Message-ID {} in the log of {}",
                    request.key,
                    server.smtp.shown()
                )),
            },
            _ => Found::Unknown(
                "it was stated for another way out of mail than is configured now; look there".to_owned(),
            ),
        }
    }

    /// Nothing was put in place: the message exists only in our own record.
    async fn release(&self, _act: ActId, _frozen: &Frozen) {}

    async fn health(&self) -> Result<(), String> {
        match &self.way {
            Way::Maildir(maildir) => {
                let maildir = maildir.clone();
                let looked = tokio::task::spawn_blocking(move || maildir.is_still_ours()).await;
                looked.map_err(|e| e.to_string())?.map_err(|e| e.to_string())
            }
            Way::Smtp(server) => {
                server.smtp.health().await?;
                match &server.imap {
                    Some(imap) => imap.health().await.map_err(|e| format!("the archive: {e}")),
                    None => Ok(()),
                }
            }
        }
    }
}

async fn in_archive(imap: &Imap, frozen: &Frozen) -> Found {
    let message_id = &frozen.request.key;
    match imap.find(message_id).await {
        Ok(Some(archived)) => {
            let copies = match archived.copies {
                1 => String::new(),
                n => format!(", {n} times"),
            };
            Found::Executed(Report {
                values: archived
                    .to
                    .map(|to| ("addr".to_owned(), to))
                    .into_iter()
                    .collect(),
                // The archive's number is no receipt: the server gave its own with its answer, and two receipts that differ
                // are two orders.
                receipt: None,
                status: format!(
                    "found in the archive{copies} (uid {} of {}): the server took it on, which is not delivery",
                    archived.uid,
                    imap.shown()
                ),
                ..Report::default()
            })
        }
        Ok(None) => Found::Absent(format!(
            "{} has no message {message_id} yet, which proves nothing",
            imap.shown()
        )),
        Err(text) => Found::Unknown(text),
    }
}

fn delivered_report(delivered: Delivered) -> Report {
    Report {
        values: delivered
            .to
            .map(|to| ("addr".to_owned(), to))
            .into_iter()
            .collect(),
        receipt: Some(delivered.name),
        status: "delivered into the Maildir".to_owned(),
        ..Report::default()
    }
}
