//! A look into the archive mailbox: is there a message with this Message-ID? It reads and changes nothing (EXAMINE,
//! BODY.PEEK), so it can be asked as often as one likes.

use tokio::time::Instant;
use wilco_adapter::secret::Shape;

use super::conn::{Conn, Dialler};
use crate::chars::clean;
use crate::config::{ImapChecked, Tls};
use crate::wire::imap::{
    Ended, HITS_MAX, LINE_MAX, LINES_MAX, LITERAL_MAX, ended, header, literal, quoted, search,
};

/// The archive mailbox.
pub(crate) struct Imap {
    config: ImapChecked,
    dialler: Dialler,
}

/// A message that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Archived {
    pub uid: u32,
    pub to: Option<String>,
    /// How many messages have this Message-ID.
    pub copies: usize,
}

/// One command's answer.
struct Answer {
    lines: Vec<String>,
    literals: Vec<Vec<u8>>,
}

struct Session {
    conn: Conn,
    tags: u32,
    deadline: Instant,
}

impl Imap {
    pub fn new(config: ImapChecked) -> Result<Imap, String> {
        Ok(Imap {
            dialler: Dialler::new(&config.server)?,
            config,
        })
    }

    pub fn shown(&self) -> String {
        format!("{} at {}", self.config.mailbox, self.dialler.server().shown())
    }

    /// Looks for the message; `None`: the mailbox has none of this id now.
    pub async fn find(&self, message_id: &str) -> Result<Option<Archived>, String> {
        let asked = quoted(message_id).ok_or("the Message-ID cannot be asked for")?;
        let mut session = self.session().await?;
        let found = session
            .ask(&format!("UID SEARCH HEADER Message-ID {asked}"), "UID SEARCH")
            .await?;
        let mut uids: Option<Vec<u32>> = None;
        for line in &found.lines {
            if let Some(more) = search(line) {
                uids.get_or_insert_default().extend(more);
            }
        }
        let uids = uids.ok_or("the server does not answer the search")?;
        if uids.len() > HITS_MAX {
            return Err(format!("the search finds more than {HITS_MAX} messages"));
        }
        // A search matches parts of a header; only the whole id is proof.
        let mut archived: Option<Archived> = None;
        for uid in uids {
            let fetch = format!("UID FETCH {uid} (BODY.PEEK[HEADER.FIELDS (MESSAGE-ID TO)])");
            let answer = session.ask(&fetch, "UID FETCH").await?;
            let is_it = |block: &&Vec<u8>| {
                let block = String::from_utf8_lossy(block);
                header(&block, "Message-ID").as_deref() == Some(message_id)
            };
            if let Some(block) = answer.literals.iter().find(is_it) {
                let to = header(&String::from_utf8_lossy(block), "To");
                match &mut archived {
                    Some(first) => first.copies += 1,
                    None => archived = Some(Archived { uid, to, copies: 1 }),
                }
            }
        }
        session.log_out().await;
        Ok(archived)
    }

    /// Whether the mailbox can be looked into.
    pub async fn health(&self) -> Result<(), String> {
        self.session().await?.log_out().await;
        Ok(())
    }

    /// A session with the mailbox open for reading.
    async fn session(&self) -> Result<Session, String> {
        let config = &self.config;
        let deadline = Instant::now() + config.timeout;
        let password = tokio::time::timeout_at(deadline, config.login.password.read("password", Shape::Line));
        let password = password
            .await
            .map_err(|_| "the password was not read in time".to_owned())?;
        let password = password.map_err(|e| e.to_string())?;
        let password =
            quoted(password.expose()).ok_or("the password is not ASCII, which IMAP's LOGIN needs")?;
        let user = quoted(&config.login.username).ok_or("the user's name is not ASCII")?;
        let mailbox = quoted(&config.mailbox).ok_or("the mailbox's name is not ASCII")?;
        let mut session = Session {
            conn: self.dialler.connect(deadline).await?,
            tags: 0,
            deadline,
        };
        let greeting = session.line().await?;
        if !greeting.to_ascii_uppercase().starts_with("* OK") {
            return Err(format!("the server greets with {}", clean(&greeting, 100)));
        }
        if config.server.tls == Tls::Upgraded {
            session.ask("STARTTLS", "STARTTLS").await?;
            self.dialler.secure(&mut session.conn, deadline).await?;
        }
        session.ask(&format!("LOGIN {user} {password}"), "LOGIN").await?;
        session.ask(&format!("EXAMINE {mailbox}"), "EXAMINE").await?;
        Ok(session)
    }
}

impl Session {
    async fn line(&mut self) -> Result<String, String> {
        let line = self.conn.line(LINE_MAX, self.deadline).await?;
        Ok(String::from_utf8_lossy(&line).into_owned())
    }

    /// Says a command and reads its whole answer; `what` stands for it in messages, since it may hold a secret.
    async fn ask(&mut self, command: &str, what: &str) -> Result<Answer, String> {
        self.tags += 1;
        let tag = format!("w{}", self.tags);
        let said = format!("{tag} {command}\r\n");
        self.conn.write(said.as_bytes(), self.deadline).await?;
        let mut answer = Answer {
            lines: Vec::new(),
            literals: Vec::new(),
        };
        loop {
            let line = self.line().await?;
            match ended(&line, &tag) {
                Some(Ended::Ok) => return Ok(answer),
                Some(Ended::No(text)) => return Err(format!("to {what} the archive answers {text}")),
                None => {}
            }
            if let Some(size) = literal(&line) {
                if size > LITERAL_MAX {
                    return Err(format!("the archive sends a literal of {size} bytes"));
                }
                answer.literals.push(self.conn.bytes(size, self.deadline).await?);
            }
            answer.lines.push(line);
            if answer.lines.len() > LINES_MAX {
                return Err(format!("the archive answers in more than {LINES_MAX} lines"));
            }
        }
    }

    async fn log_out(&mut self) {
        // What was read stands without it.
        let _ = self.ask("LOGOUT", "LOGOUT").await;
    }
}
