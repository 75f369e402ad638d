//! One client's dialogue (RFC 5321), with the faults that meet it.

use std::{sync::Arc, time::Duration};

use tokio::{
    io::AsyncWriteExt,
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    time::Instant,
};

use super::{
    MailFault, Shared,
    command::{Command, Mail, Recipient, plain},
    lines::{Line, Lines, within},
    store::Message,
};

/// How many recipients one message may have (RFC 5321 §4.5.3.1.8).
const RECIPIENTS_MAX: usize = 100;
/// How many refused lines end the dialogue.
const ERRORS_MAX: usize = 20;
/// How long a reply may take to leave.
const REPLY_TIME: Duration = Duration::from_secs(10);

/// How a dialogue ends.
enum End {
    /// The connection closes. Whatever was to be said was said.
    Closed,
}

type Step = Result<(), End>;

/// A dialogue under way.
pub struct Session {
    shared: Arc<Shared>,
    lines: Lines<OwnedReadHalf>,
    write: OwnedWriteHalf,
    errors: usize,
    helo: Option<String>,
    extended: bool,
    user: Option<String>,
    mail: Option<Mail>,
    to: Vec<Recipient>,
}

impl Session {
    /// A dialogue on a fresh connection.
    pub fn new(stream: TcpStream, shared: Arc<Shared>) -> Self {
        // Small answers should not wait for more; failing to say so costs only time.
        let _ = stream.set_nodelay(true);
        let (read, write) = stream.into_split();
        Self {
            lines: Lines::new(read, shared.stopping.clone()),
            write,
            errors: 0,
            helo: None,
            extended: false,
            user: None,
            mail: None,
            to: Vec::new(),
            shared,
        }
    }

    /// Speaks until one side ends it.
    pub async fn run(mut self) {
        if self
            .reply("220 wilco-lab ESMTP practice mail drop: nothing is sent on")
            .await
            .is_err()
        {
            return;
        }
        while self.turn().await.is_ok() {}
    }

    async fn turn(&mut self) -> Step {
        let line = self.lines.next(within(self.shared.options.idle)).await;
        let line = self.ended(line).await?;
        match line {
            Some(Line::Whole(line)) => match Command::read(&line) {
                Ok(command) => self.obey(command).await,
                Err(refused) => self.refuse(refused).await,
            },
            Some(Line::TooLong) => self.refuse("500 5.5.2 the line is too long").await,
            _ => {
                self.refuse("500 5.5.2 a line ends in CRLF, and has no other CR or LF")
                    .await
            }
        }
    }

    async fn obey(&mut self, command: Command) -> Step {
        match command {
            Command::Hello { extended, name } => {
                self.reset();
                self.helo = Some(name);
                self.extended = extended;
                self.hello().await
            }
            Command::Mail(mail) => self.mail(mail).await,
            Command::Rcpt(recipient) => self.recipient(recipient).await,
            Command::Data if self.mail.is_none() => self.refuse("503 5.5.1 MAIL first").await,
            Command::Data if self.to.is_empty() => self.refuse("554 5.5.1 no valid recipients").await,
            Command::Data => self.data().await,
            Command::Reset => {
                self.reset();
                self.reply("250 2.0.0 ok").await
            }
            Command::Noop => self.reply("250 2.0.0 ok").await,
            Command::Help => {
                self.reply("214 2.0.0 RFC 5321, and the README of wilco-lab")
                    .await
            }
            Command::Verify => self.reply("252 2.5.0 nobody is verified here").await,
            Command::Auth { initial } => self.auth(initial).await,
            Command::Quit => {
                self.reply("221 2.0.0 bye").await?;
                Err(End::Closed)
            }
        }
    }

    async fn hello(&mut self) -> Step {
        if !self.extended {
            return self.reply("250 wilco-lab").await;
        }
        let size = self.shared.options.message_bytes_max;
        self.reply(&format!(
            "250-wilco-lab\r\n250-SIZE {size}\r\n250-8BITMIME\r\n250-DSN\r\n250-AUTH PLAIN\r\n250 ENHANCEDSTATUSCODES"
        ))
        .await
    }

    async fn mail(&mut self, mail: Mail) -> Step {
        if self.helo.is_none() {
            return self.refuse("503 5.5.1 say EHLO first").await;
        }
        if self.mail.is_some() {
            return self.refuse("503 5.5.1 a message is under way: RSET first").await;
        }
        if !self.extended && (mail.dsn || mail.size.is_some() || mail.body.is_some()) {
            return self.refuse("555 5.5.4 parameters need EHLO").await;
        }
        if mail
            .size
            .is_some_and(|size| size > self.shared.options.message_bytes_max)
        {
            return self.refuse("552 5.3.4 the message is too large").await;
        }
        self.mail = Some(mail);
        self.reply("250 2.1.0 ok").await
    }

    async fn recipient(&mut self, recipient: Recipient) -> Step {
        if self.mail.is_none() {
            return self.refuse("503 5.5.1 MAIL first").await;
        }
        if !self.extended && (recipient.notify.is_some() || recipient.orcpt.is_some()) {
            return self.refuse("555 5.5.4 parameters need EHLO").await;
        }
        if self.to.len() >= RECIPIENTS_MAX {
            return self.refuse("452 4.5.3 too many recipients").await;
        }
        match self
            .shared
            .faults
            .take(MailFault::meets_recipient)
            .map(|armed| armed.fault)
        {
            Some(MailFault::DropBefore) => Err(End::Closed),
            Some(MailFault::Refuse) => {
                self.refuse("550 5.1.1 no such mailbox (a fault of the lab)")
                    .await
            }
            Some(MailFault::Tempfail) => {
                self.refuse("450 4.2.1 the mailbox is busy (a fault of the lab)")
                    .await
            }
            _ => {
                self.to.push(recipient);
                self.reply("250 2.1.5 ok").await
            }
        }
    }

    /// From `DATA` to what is said to the dot.
    async fn data(&mut self) -> Step {
        self.reply("354 end with a dot on a line of its own").await?;
        let read = self.message().await?;
        let mail = self.mail.take().unwrap_or_default();
        let to = std::mem::take(&mut self.to);
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(refused) => return self.refuse(refused).await,
        };
        let armed = self.shared.faults.take(MailFault::meets_dot);
        let fault = armed.map(|armed| armed.fault);
        let delay = armed.map(|armed| armed.delay).unwrap_or_default();
        match fault {
            Some(MailFault::DropAtDot) => return Err(End::Closed),
            Some(MailFault::RefuseData) => {
                return self
                    .refuse("554 5.7.1 the message is refused (a fault of the lab)")
                    .await;
            }
            Some(MailFault::TempfailData) => {
                return self
                    .refuse("451 4.3.0 try again later (a fault of the lab)")
                    .await;
            }
            _ => {}
        }
        let message = Message {
            queue_id: super::queue_id(),
            helo: self.helo.clone().unwrap_or_default(),
            user: self.user.clone(),
            mail,
            to,
            bytes,
            fault: fault.map(MailFault::word),
        };
        if fault == Some(MailFault::Late) {
            // Its own task: it goes on when this connection is gone.
            tokio::spawn(Arc::clone(&self.shared).deliver_later(message, delay));
            return Err(End::Closed);
        }
        let queue_id = message.queue_id.clone();
        if let Err(error) = Arc::clone(&self.shared).deliver(message).await {
            tracing::error!(%error, "the lab could not store a mail");
            return self.refuse("451 4.3.0 the message could not be stored").await;
        }
        match fault {
            Some(MailFault::DropAfterAccept) => return Err(End::Closed),
            Some(MailFault::Slow) => self.shared.wait(delay).await.map_err(|_| End::Closed)?,
            _ => {}
        }
        self.reply(&format!("250 2.0.0 ok: queued as {queue_id}")).await
    }

    /// The message up to the dot; inside it, why it cannot be taken. The dot is read in either case.
    async fn message(&mut self) -> Result<Result<Vec<u8>, &'static str>, End> {
        let options = &self.shared.options;
        let (bytes_max, deadline) = (options.message_bytes_max, within(options.message_time));
        let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        let mut bytes: Vec<u8> = Vec::new();
        let mut passed = 0usize;
        let mut refused = None;
        // Whether the line before ended in CRLF: only CRLF, a dot and CRLF end a message.
        let mut at_start = true;
        loop {
            let next = deadline.min(Instant::now() + self.shared.options.idle);
            let line = self.lines.next(next).await;
            let after_crlf = std::mem::replace(&mut at_start, true);
            let line = match self.ended(line).await? {
                Some(Line::Whole(line)) if line == b"." && after_crlf => {
                    return Ok(refused.map_or(Ok(bytes), Err));
                }
                Some(Line::Whole(line)) => line,
                Some(Line::TooLong) => {
                    refused = refused.or(Some("500 5.5.2 a line of the message is too long"));
                    Vec::new()
                }
                _ => {
                    at_start = false;
                    refused = refused.or(Some("554 5.6.11 a line of the message has a bare CR or LF"));
                    Vec::new()
                }
            };
            let text = line.strip_prefix(b".").unwrap_or(&line);
            passed = passed.saturating_add(text.len() + 2);
            if passed > bytes_max {
                refused = refused.or(Some("552 5.3.4 the message is too large"));
                if passed > bytes_max.saturating_mul(4) {
                    // Whoever goes on and on is not listened to any longer.
                    return Err(End::Closed);
                }
            }
            if refused.is_some() {
                bytes = Vec::new();
            } else {
                bytes.extend_from_slice(text);
                bytes.extend_from_slice(b"\r\n");
            }
        }
    }

    async fn auth(&mut self, initial: Option<String>) -> Step {
        if self.helo.is_none() || !self.extended || self.mail.is_some() || self.user.is_some() {
            return self
                .refuse("503 5.5.1 AUTH once, after EHLO and before MAIL")
                .await;
        }
        let response = match initial {
            Some(response) => response,
            None => {
                self.reply("334 ").await?;
                let line = self.lines.next(within(self.shared.options.idle)).await;
                match self.ended(line).await? {
                    Some(Line::Whole(line)) => String::from_utf8_lossy(&line).into_owned(),
                    _ => String::new(),
                }
            }
        };
        match plain(&response) {
            Some((user, password)) if password == self.shared.token => {
                self.user = Some(user);
                self.reply("235 2.7.0 welcome").await
            }
            Some(_) => self.refuse("535 5.7.8 the password is the lab's token").await,
            None => self.refuse("501 5.5.2 not a PLAIN response").await,
        }
    }

    fn reset(&mut self) {
        self.mail = None;
        self.to.clear();
    }

    /// Ends the dialogue where the line says so.
    async fn ended(&mut self, line: Line) -> Result<Option<Line>, End> {
        match line {
            Line::Gone => Err(End::Closed),
            Line::TimedOut => {
                self.reply("421 4.4.2 nothing came in time").await?;
                Err(End::Closed)
            }
            Line::Stopping => {
                self.reply("421 4.3.2 the lab stops").await?;
                Err(End::Closed)
            }
            line => Ok(Some(line)),
        }
    }

    /// A reply that counts as an error of the client's.
    async fn refuse(&mut self, text: &str) -> Step {
        self.errors += 1;
        self.reply(text).await?;
        if self.errors >= ERRORS_MAX {
            self.reply("421 4.7.0 too many errors").await?;
            return Err(End::Closed);
        }
        Ok(())
    }

    async fn reply(&mut self, text: &str) -> Step {
        let line = format!("{text}\r\n");
        match tokio::time::timeout(REPLY_TIME, self.write.write_all(line.as_bytes())).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(End::Closed),
        }
    }
}
