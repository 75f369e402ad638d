//! Where mail ends up: a Maildir, and one JSON line for each message. The lines are the judge of what was delivered.

use std::{
    collections::VecDeque,
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::command::{Mail, Recipient};

/// The Maildir inside the lab's folder.
pub const MAIL_FOLDER: &str = "mail";
/// The record beside it.
pub const MAIL_RECORD: &str = "mail.jsonl";

/// How much of a message is searched for its headers.
const HEADERS_MAX: usize = 64 * 1024;
/// The longest line of the record that is read back.
const RECORD_LINE_MAX: u64 = 256 * 1024;

/// A message that arrived whole, with its envelope.
#[derive(Debug, Clone)]
pub struct Message {
    /// Under which the server speaks of it.
    pub queue_id: String,
    /// The client's name for itself.
    pub helo: String,
    /// Who logged in, if anybody.
    pub user: Option<String>,
    pub mail: Mail,
    pub to: Vec<Recipient>,
    /// What came between `DATA` and the dot, dots unstuffed.
    pub bytes: Vec<u8>,
    /// The fault that met it, if any.
    pub fault: Option<&'static str>,
}

/// One line of the record.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// When it was stored, RFC 3339, UTC.
    pub at: String,
    /// Under which the server spoke of it in its `250`.
    pub queue_id: String,
    /// The envelope's sender; empty for a report.
    pub from: String,
    /// The envelope's recipients, with what was asked for them.
    pub to: Vec<serde_json::Value>,
    /// `ENVID` of RFC 3461, decoded.
    pub envid: Option<String>,
    /// `RET` of RFC 3461.
    pub ret: Option<String>,
    /// `BODY` of RFC 6152.
    pub body: Option<String>,
    /// The message's own `Message-ID`, with its angle brackets.
    pub message_id: Option<String>,
    /// The message's own `Subject`, unfolded and not decoded.
    pub subject: Option<String>,
    /// Of the bytes of the message.
    pub sha256: String,
    /// How many they are.
    pub size: u64,
    /// The file below the Maildir.
    pub file: String,
    /// The client's name for itself.
    pub helo: String,
    /// Who logged in, if anybody.
    pub user: Option<String>,
    /// The fault that met it, if any.
    pub fault: Option<String>,
}

/// The Maildir and its record.
#[derive(Debug)]
pub struct MailStore {
    maildir: PathBuf,
    record: PathBuf,
    /// Held by whoever writes. True: the record ends in the middle of a line.
    cut_short: Mutex<bool>,
}

impl MailStore {
    /// Opens the store in the lab's folder, made where there is none.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let folder = std::path::absolute(folder)?;
        let maildir = folder.join(MAIL_FOLDER);
        for part in ["tmp", "new", "cur"] {
            fs::create_dir_all(maildir.join(part))?;
        }
        let record = folder.join(MAIL_RECORD);
        Ok(Self {
            maildir,
            cut_short: Mutex::new(is_cut_short(&record)?),
            record,
        })
    }

    /// The Maildir.
    pub fn maildir(&self) -> &Path {
        &self.maildir
    }

    /// The record.
    pub fn record(&self) -> &Path {
        &self.record
    }

    /// Stores a message and its line; both are on disk once it returns.
    pub fn deliver(&self, message: &Message, at: time::OffsetDateTime) -> io::Result<Record> {
        let name = format!("{}.{}.wilco-lab", at.unix_timestamp(), message.queue_id);
        let at = at
            .replace_nanosecond(at.nanosecond() / 1_000 * 1_000)
            .unwrap_or(at);
        let headers = Headers::of(&message.bytes);
        let record = Record {
            at: at
                .format(&time::format_description::well_known::Rfc3339)
                .map_err(io::Error::other)?,
            queue_id: message.queue_id.clone(),
            from: message.mail.from.clone(),
            to: message.to.iter().map(|to| serde_json::json!(to)).collect(),
            envid: message.mail.envid.clone(),
            ret: message.mail.ret.clone(),
            body: message.mail.body.clone(),
            message_id: headers.value("message-id"),
            subject: headers.value("subject"),
            sha256: HEXLOWER.encode(&Sha256::digest(&message.bytes)),
            size: u64::try_from(message.bytes.len()).unwrap_or(u64::MAX),
            file: format!("new/{name}"),
            helo: message.helo.clone(),
            user: message.user.clone(),
            fault: message.fault.map(str::to_owned),
        };
        let line = serde_json::to_string(&record).map_err(io::Error::other)?;

        let mut cut_short = self.cut_short.lock().unwrap_or_else(PoisonError::into_inner);
        let unready = self.maildir.join("tmp").join(&name);
        let mut file = OpenOptions::new().write(true).create_new(true).open(&unready)?;
        file.write_all(&message.bytes)?;
        file.sync_all()?;
        let new = self.maildir.join("new");
        fs::rename(&unready, new.join(&name))?;
        File::open(&new)?.sync_all()?;
        let mut lines = OpenOptions::new().append(true).create(true).open(&self.record)?;
        let start = if *cut_short { "\n" } else { "" };
        // Until it is known to be whole.
        *cut_short = true;
        lines.write_all(format!("{start}{line}\n").as_bytes())?;
        *cut_short = false;
        lines.sync_all()?;
        Ok(record)
    }

    /// The last `count` messages, newest first; only those with this `Message-ID`, where one is given.
    pub fn records(&self, message_id: Option<&str>, count: usize) -> io::Result<Vec<Record>> {
        let file = match File::open(&self.record) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut reader = BufReader::new(file);
        let mut last = VecDeque::with_capacity(count.min(1024));
        let mut line = Vec::new();
        loop {
            line.clear();
            if reader
                .by_ref()
                .take(RECORD_LINE_MAX)
                .read_until(b'\n', &mut line)?
                == 0
            {
                break;
            }
            // The line being written just now, or one cut short by a kill: not delivered, as far as anybody was told.
            let Ok(record) = serde_json::from_slice::<Record>(&line) else {
                continue;
            };
            if message_id.is_none_or(|wanted| record.message_id.as_deref() == Some(wanted)) {
                if last.len() >= count {
                    last.pop_front();
                }
                last.push_back(record);
            }
        }
        Ok(last.into_iter().rev().collect())
    }
}

/// Whether a kill left the record in the middle of a line.
fn is_cut_short(record: &Path) -> io::Result<bool> {
    let mut file = match File::open(record) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

/// The header block of a message.
struct Headers(Vec<String>);

impl Headers {
    fn of(message: &[u8]) -> Self {
        let block = message.get(..HEADERS_MAX).unwrap_or(message);
        let mut lines: Vec<String> = Vec::new();
        for line in block.split(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let text = String::from_utf8_lossy(line);
            match (line.first(), lines.last_mut()) {
                (None, _) => break,
                (Some(b' ' | b'\t'), Some(folded)) => folded.push_str(&text),
                _ => lines.push(text.into_owned()),
            }
        }
        Self(lines)
    }

    fn value(&self, name: &str) -> Option<String> {
        self.0.iter().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found
                .trim_end()
                .eq_ignore_ascii_case(name)
                .then(|| value.trim().chars().take(1000).collect())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_found_unfolded_and_not_in_the_body() {
        let headers = Headers::of(b"Subject: one\r\n two\r\nMESSAGE-ID :\r\n <a@b>\r\n\r\nX-Body: no\r\n");
        assert_eq!(headers.value("subject").as_deref(), Some("one two"));
        assert_eq!(headers.value("message-id").as_deref(), Some("<a@b>"));
        assert_eq!(headers.value("x-body"), None);
        assert_eq!(Headers::of(b"").value("subject"), None);
    }
}
