//! Submission by SMTP, by hand, because the whole promise hangs on one byte of it.
//!
//! ```text
//! password, connect, TLS, EHLO, AUTH, MAIL, RCPT, DATA, the message     a failure: certainly not sent
//! permit.may_send()                                                     no: certainly not sent
//! ------------------------------------------------------------------------------------------------
//! the final dot, and the answer to it                                   a failure: nobody knows
//! ```
//!
//! RFC 5321 §4.1.1.4: a server may process a message only when it has the end of the data. Until the dot is written, the
//! connection can be dropped and nothing has happened; and dropping it throws away what the system has not sent yet.

use tokio::time::{Duration, Instant};
use wilco_adapter::Permit;
use wilco_adapter::secret::Shape;

use super::conn::{Conn, Dialler};
use crate::config::{Login, SmtpChecked, Tls};
use crate::wire::smtp::{
    Envelope, Handed, Offers, REPLY_LINE_MAX, REPLY_LINES_MAX, Reply, handed, mail_from, needs_utf8, offers,
    rcpt_archive, rcpt_to, reply_line, stuffed,
};

/// How many times one step's time all steps before the final dot may take together.
const STEPS: u32 = 10;
/// How much of the message is written at a time, so that a slow server is told from a dead one.
const CHUNK: usize = 64 * 1024;
/// How long a farewell may take.
const FAREWELL: Duration = Duration::from_secs(2);

/// Speaks to one mail server.
pub(crate) struct Smtp {
    pub config: SmtpChecked,
    domain: String,
    dialler: Dialler,
}

/// Why a message was not handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The server said no to this message, in its words; nothing has happened.
    Refused(String),
    /// It never came so far; nothing has happened.
    NotSent(String),
    /// The final dot was written, and no clear answer came.
    Lost(String),
}

/// A conversation before its final dot.
struct Session {
    conn: Conn,
    offers: Offers,
    step: Duration,
    deadline: Instant,
}

impl Smtp {
    pub fn new(config: SmtpChecked, domain: &str) -> Result<Smtp, String> {
        Ok(Smtp {
            dialler: Dialler::new(&config.server)?,
            domain: domain.to_owned(),
            config,
        })
    }

    pub fn shown(&self) -> String {
        self.dialler.server().shown()
    }

    /// Hands the message over, once. Answers with the server's words of receipt.
    pub async fn submit(
        &self,
        permit: &Permit,
        envelope: &Envelope,
        message: &str,
    ) -> Result<String, Failure> {
        let mut session = self.session().await.map_err(Failure::NotSent)?;
        let begun = self.begin(&mut session, permit, envelope, message).await;
        if let Err(failure) = begun {
            // Without its data the transaction is nothing; leaving in order is only manners.
            if matches!(failure, Failure::Refused(_)) {
                session.quit().await;
            }
            return Err(failure);
        }
        let stuffed = stuffed(message);
        for chunk in stuffed.as_bytes().chunks(CHUNK) {
            session.write(chunk).await.map_err(Failure::NotSent)?;
        }
        // An answer before the end of the data is none to the message; were it left unread, it would be taken for one.
        if session.conn.spoke().await.map_err(Failure::NotSent)? {
            return Err(Failure::NotSent(match session.reply().await {
                Ok(reply) => format!("the server answers before the end of the data: {}", reply.shown()),
                Err(text) => text,
            }));
        }
        wilco_failpoint::reach!("send.connected");
        permit.may_send().map_err(|e| Failure::NotSent(e.to_string()))?;
        wilco_failpoint::reach!("send.may_send");

        // Past this line the end of the data may have left, and no failure proves anything.
        let answer = self.finish(&mut session).await;
        wilco_failpoint::reach!("send.answered");
        let reply = answer.map_err(Failure::Lost)?;
        match handed(&reply) {
            Handed::Over { receipt } => {
                session.quit().await;
                Ok(receipt)
            }
            Handed::Refused(text) => {
                session.quit().await;
                Err(Failure::Refused(text))
            }
            Handed::Unclear(text) => Err(Failure::Lost(text)),
        }
    }

    /// Whether the server answers and lets us in.
    pub async fn health(&self) -> Result<(), String> {
        let mut session = self.session().await?;
        session.quit().await;
        Ok(())
    }

    async fn finish(&self, session: &mut Session) -> Result<Reply, String> {
        let deadline = Instant::now() + self.config.reply;
        session.conn.write(b".\r\n", deadline).await?;
        reply(&mut session.conn, deadline).await
    }

    /// A session that may begin a mail.
    async fn session(&self) -> Result<Session, String> {
        let config = &self.config;
        let deadline = Instant::now() + config.step * STEPS;
        // The password first: it may take long, and the server does not wait for us.
        let login = match &config.login {
            None => None,
            Some(login) => {
                let read = login.password.read("password", Shape::Line);
                let read = tokio::time::timeout(config.step, read).await;
                let read = read.map_err(|_| "the password was not read in time".to_owned())?;
                Some((login, read.map_err(|e| e.to_string())?))
            }
        };
        let conn = self.dialler.connect(deadline).await?;
        let mut session = Session {
            conn,
            offers: Offers::default(),
            step: config.step,
            deadline,
        };
        session.wants("the greeting", 220).await?;
        self.greet(&mut session).await?;
        if config.server.tls == Tls::Upgraded {
            if !session.offers.starttls {
                return Err(format!("{} does not offer STARTTLS", self.shown()));
            }
            session.said("STARTTLS", "STARTTLS", 220).await?;
            let until = session.until();
            self.dialler.secure(&mut session.conn, until).await?;
            // What was offered before TLS is forgotten (RFC 3207 §4.2).
            self.greet(&mut session).await?;
        }
        if let Some((login, password)) = login {
            session.log_in(login, password.expose()).await?;
        }
        Ok(session)
    }

    async fn greet(&self, session: &mut Session) -> Result<(), String> {
        let name = self.config.helo.as_deref().unwrap_or(&self.domain);
        let reply = session.said(&format!("EHLO {name}"), "EHLO", 250).await?;
        session.offers = offers(&reply);
        Ok(())
    }

    /// Up to the server's leave to send the data.
    async fn begin(
        &self,
        session: &mut Session,
        permit: &Permit,
        envelope: &Envelope,
        message: &str,
    ) -> Result<(), Failure> {
        let dsn = self.config.dsn;
        if let Some(most) = session.offers.size
            && message.len() as u64 > most
        {
            let text = format!("the message has {} bytes, the server takes {most}", message.len());
            return Err(Failure::Refused(text));
        }
        if needs_utf8(envelope, message) && !(session.offers.smtputf8 && session.offers.eightbit) {
            let text = "an address is not ASCII, and the server does not offer SMTPUTF8";
            return Err(Failure::Refused(text.to_owned()));
        }
        let reference = permit.act_id().to_string();
        let from = mail_from(envelope, message, &reference, &session.offers, dsn);
        session.command(&from, 250).await?;
        let to = rcpt_to(&envelope.to, &session.offers, dsn);
        session.recipient(&to).await?;
        if let Some(archive) = &envelope.archive {
            // Refused, nothing goes to anybody: a message without its archive copy could not be looked up.
            let to = rcpt_archive(archive, &session.offers, dsn);
            session.recipient(&to).await?;
        }
        // Asked here too: what can be seen to be too late need not be begun.
        permit.may_send().map_err(|e| Failure::NotSent(e.to_string()))?;
        session.command("DATA", 354).await
    }
}

impl Session {
    /// By when the next step must be over.
    fn until(&self) -> Instant {
        self.deadline.min(Instant::now() + self.step)
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        let until = self.until();
        self.conn.write(bytes, until).await
    }

    async fn reply(&mut self) -> Result<Reply, String> {
        let until = self.until();
        reply(&mut self.conn, until).await
    }

    /// Waits for one reply that must be `code`.
    async fn wants(&mut self, what: &str, code: u16) -> Result<Reply, String> {
        let reply = self.reply().await.map_err(|e| format!("{what}: {e}"))?;
        if reply.code == code {
            Ok(reply)
        } else {
            Err(format!("to {what} the server answers {}", reply.shown()))
        }
    }

    /// Says a command; `what` stands for it in messages, since it may hold a secret.
    async fn said(&mut self, command: &str, what: &str, code: u16) -> Result<Reply, String> {
        self.write(format!("{command}\r\n").as_bytes()).await?;
        self.wants(what, code).await
    }

    /// A command about this message: a refusal of it is the server's word on the message.
    async fn command(&mut self, command: &str, code: u16) -> Result<(), Failure> {
        let reply = self.ask(command).await?;
        if reply.code == code {
            Ok(())
        } else {
            Err(turned_away(command, &reply))
        }
    }

    /// 251: the server forwards (RFC 5321 §3.4), which is between it and the recipient.
    async fn recipient(&mut self, command: &str) -> Result<(), Failure> {
        let reply = self.ask(command).await?;
        match reply.code {
            250 | 251 => Ok(()),
            _ => Err(turned_away(command, &reply)),
        }
    }

    async fn ask(&mut self, command: &str) -> Result<Reply, Failure> {
        self.write(format!("{command}\r\n").as_bytes())
            .await
            .map_err(Failure::NotSent)?;
        let word = command.split(' ').next().unwrap_or_default();
        let reply = self.reply().await;
        reply.map_err(|e| Failure::NotSent(format!("{word}: {e}")))
    }

    async fn log_in(&mut self, login: &Login, password: &str) -> Result<(), String> {
        let base64 = |text: &str| data_encoding::BASE64.encode(text.as_bytes());
        let offered = |name: &str| self.offers.auth.iter().any(|a| a == name);
        if offered("PLAIN") {
            let proof = base64(&format!("\0{}\0{password}", login.username));
            self.said(&format!("AUTH PLAIN {proof}"), "AUTH PLAIN", 235)
                .await?;
        } else if offered("LOGIN") {
            self.said("AUTH LOGIN", "AUTH LOGIN", 334).await?;
            self.said(&base64(&login.username), "the user's name", 334)
                .await?;
            self.said(&base64(password), "the password", 235).await?;
        } else {
            return Err("the server offers neither AUTH PLAIN nor AUTH LOGIN".to_owned());
        }
        Ok(())
    }

    /// Says goodbye. What was agreed stands without it.
    async fn quit(&mut self) {
        let until = Instant::now() + FAREWELL;
        if self.conn.write(b"QUIT\r\n", until).await.is_ok() {
            let _ = reply(&mut self.conn, until).await;
        }
    }
}

/// 4xx and 5xx are the server's word; any other answer is a conversation gone wrong. Nothing has happened either way.
fn turned_away(command: &str, reply: &Reply) -> Failure {
    let text = format!("to {command} the server answers {}", reply.shown());
    match reply.code {
        421 => Failure::NotSent(text),
        400..=599 => Failure::Refused(text),
        _ => Failure::NotSent(text),
    }
}

async fn reply(conn: &mut Conn, deadline: Instant) -> Result<Reply, String> {
    let mut lines = Vec::new();
    loop {
        let line = conn.line(REPLY_LINE_MAX, deadline).await?;
        let read = reply_line(&line).ok_or("the server does not answer as SMTP does")?;
        lines.push((read.code, read.text));
        if !read.more {
            break;
        }
        if lines.len() >= REPLY_LINES_MAX {
            return Err(format!("the server answers in more than {REPLY_LINES_MAX} lines"));
        }
    }
    let code = lines.last().map_or(0, |(code, _)| *code);
    if lines.iter().any(|(other, _)| *other != code) {
        return Err("the server's answer has two codes".to_owned());
    }
    Ok(Reply {
        code,
        lines: lines.into_iter().map(|(_, text)| text).collect(),
    })
}
