//! Delivery into a Maildir, at most once for each act, whatever is repeated, raced or killed.
//!
//! A plain Maildir cannot promise that: its readers move files from `new` to `cur` and delete them, so an empty place proves
//! nothing. Two folders beside it remember:
//!
//! ```text
//! wilco/id            whose Maildir this is: an act stated for another is not delivered here
//! wilco/stage/<act>.n written and flushed; not yet mail
//! wilco/sent/<act>    a second name of the same file, made by whoever comes first; kept for good
//! new/<act>.wilco     the mail: the staged file, renamed
//! wilco/done/<act>    noted after the rename
//!
//! sent is not there                  not delivered, and nobody is about to
//! sent is there, staged file too     not delivered; somebody may be about to
//! sent is there, staged file gone:
//!   noted as done                    delivered, whatever readers did with it since
//!   the file has another name        delivered: it lies in new or cur
//!   it has none                      nobody knows: delivered, noted by nobody and removed by a reader; or its staged file
//!                                    was tidied away
//! ```
//!
//! The rename is the act: it happens at most once because the file it takes exists once, and the system does it whole or not
//! at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use wilco_adapter::Permit;
use wilco_core::{ActId, Timestamp};

use crate::files::sha256;
use crate::wire::imap::header;

/// The largest message read back, in bytes; none larger was written.
const MESSAGE_MAX: u64 = 64 * 1024 * 1024;

/// Tells apart what one process makes in one instant.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// One Maildir.
#[derive(Debug, Clone)]
pub(crate) struct Maildir {
    folder: PathBuf,
    id: String,
}

/// What became of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// It is there.
    Delivered(Delivered),
    /// It is not, and this call will not bring it.
    NotSent(String),
    /// Nobody knows.
    Unknown(String),
}

/// What a look found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Look {
    Delivered(Delivered),
    /// A file of this act was delivered, but not the one that was stated.
    Another(String),
    Absent(String),
    Unknown(String),
}

/// A delivered message, as the Maildir has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Delivered {
    pub to: Option<String>,
    pub name: String,
}

impl Maildir {
    /// Opens the Maildir, and makes it where there is none.
    ///
    /// # Errors
    /// It cannot be made or read.
    pub fn open(folder: &Path, now: Timestamp) -> io::Result<Maildir> {
        for part in [
            "tmp",
            "new",
            "cur",
            "wilco",
            "wilco/stage",
            "wilco/sent",
            "wilco/done",
        ] {
            // What it holds is for its owner; one that is there already stays as its owner made it.
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true).mode(0o700).create(folder.join(part))?;
        }
        // A mail whose folder a power cut takes away is no mail.
        sync(&folder.join("wilco"))?;
        sync(folder)?;
        if let Some(parent) = folder.parent().filter(|p| !p.as_os_str().is_empty()) {
            sync(parent)?;
        }
        let named = folder.join("wilco/id");
        if !named.exists() {
            // Written whole under another name first: two daemons may start at once, and one of them names it.
            let n = NEXT.fetch_add(1, Ordering::Relaxed);
            let made = format!("{} {} {} {n}", folder.display(), now.0, std::process::id());
            let draft = folder.join(format!("wilco/id.{}-{n}", std::process::id()));
            let mut file = OpenOptions::new().write(true).create_new(true).open(&draft)?;
            file.write_all(sha256(made.as_bytes()).as_bytes())?;
            file.sync_all()?;
            let linked = fs::hard_link(&draft, &named);
            drop_staged(&draft);
            match linked {
                Ok(()) => sync(&folder.join("wilco"))?,
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e),
            }
        }
        let id = fs::read_to_string(&named)?;
        if !id.starts_with("sha256:") || id.len() != 71 {
            return Err(io::Error::other(format!(
                "{} is no Maildir's id",
                named.display()
            )));
        }
        Ok(Maildir {
            folder: folder.to_owned(),
            id,
        })
    }

    /// Whose Maildir this is.
    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn shown(&self) -> String {
        self.folder.display().to_string()
    }

    /// Delivers the message, unless it was. Blocks; the permit is asked right before the rename.
    pub fn deliver(&self, permit: &Permit, message: &str) -> Delivery {
        let act = permit.act_id();
        if let Err(e) = self.is_still_ours() {
            return Delivery::NotSent(e.to_string());
        }
        let staged = match self.stage(act, message) {
            Ok(staged) => staged,
            Err(e) => return Delivery::NotSent(format!("the message cannot be written: {e}")),
        };
        let ours = match fs::hard_link(&staged, self.sent(act)) {
            Ok(()) => true,
            Err(e) if e.kind() == ErrorKind::AlreadyExists => false,
            Err(e) => {
                drop_staged(&staged);
                return Delivery::NotSent(format!("the delivery cannot be begun: {e}"));
            }
        };
        if let Err(e) = sync(&self.folder.join("wilco/sent")) {
            return Delivery::NotSent(format!("the delivery cannot be begun: {e}"));
        }
        let waiting = if ours {
            staged
        } else {
            // Somebody was here before us. Theirs is the message; ours was only paper.
            drop_staged(&staged);
            match self.waiting(act) {
                Ok(Some(theirs)) => match read(&theirs) {
                    Ok(bytes) if bytes == message.as_bytes() => theirs,
                    // Moved since: it is told below, from what was kept.
                    Err(e) if e.kind() == ErrorKind::NotFound => return self.told(act, message),
                    Ok(_) => {
                        return Delivery::Unknown(format!(
                            "{} is another message of this act",
                            theirs.display()
                        ));
                    }
                    Err(e) => return Delivery::Unknown(e.to_string()),
                },
                Ok(None) => return self.told(act, message),
                Err(e) => return Delivery::Unknown(e.to_string()),
            }
        };
        wilco_failpoint::reach!("send.connected");
        if let Err(late) = permit.may_send() {
            return Delivery::NotSent(late.to_string());
        }
        wilco_failpoint::reach!("send.may_send");
        let moved = fs::rename(&waiting, self.folder.join("new").join(name(act)));
        wilco_failpoint::reach!("send.answered");
        match moved {
            Ok(()) => {
                self.note_done(act);
                self.told(act, message)
            }
            // Another call of this act has just moved it.
            Err(e) if e.kind() == ErrorKind::NotFound => self.told(act, message),
            Err(e) => Delivery::Unknown(format!("the message could not be moved to new: {e}")),
        }
    }

    /// Whether the act's message was delivered. Changes nothing. Blocks.
    pub fn look(&self, act: ActId, message: &str) -> Look {
        let look = || -> io::Result<Look> {
            self.is_still_ours()?;
            let sent = self.sent(act);
            let bytes = match read(&sent) {
                Ok(bytes) => bytes,
                Err(e) if e.kind() == ErrorKind::NotFound => {
                    return Ok(Look::Absent(format!("{} has no delivery of it", self.shown())));
                }
                Err(e) => return Err(e),
            };
            if let Some(waiting) = self.waiting(act)? {
                return Ok(Look::Absent(format!(
                    "it was written and never delivered: {} still waits",
                    waiting.display()
                )));
            }
            if !self.done(act).exists() && fs::metadata(&sent)?.nlink() < 2 {
                return Ok(Look::Unknown(format!(
                    "its staged file is gone from {} and the message lies nowhere: a reader removed it, or the folder was tidied",
                    self.folder.join("wilco/stage").display()
                )));
            }
            // What is said to be there must be there after a power cut too.
            sync(&self.folder.join("wilco/stage"))?;
            sync(&self.folder.join("new"))?;
            if bytes != message.as_bytes() {
                return Ok(Look::Another(format!(
                    "{} is not the message that was stated: it has {}",
                    sent.display(),
                    sha256(&bytes)
                )));
            }
            let text = String::from_utf8_lossy(&bytes);
            let head = text.split("\r\n\r\n").next().unwrap_or_default();
            Ok(Look::Delivered(Delivered {
                to: header(head, "To"),
                name: name(act),
            }))
        };
        look().unwrap_or_else(|e| Look::Unknown(e.to_string()))
    }

    /// Whether the folder is there and is the one that was opened.
    ///
    /// # Errors
    /// It is not.
    pub fn is_still_ours(&self) -> io::Result<()> {
        let named = self.folder.join("wilco/id");
        let wrong = |e: String| io::Error::other(format!("{}: {e}", named.display()));
        let id = fs::read_to_string(&named).map_err(|e| wrong(e.to_string()))?;
        if id == self.id {
            Ok(())
        } else {
            Err(wrong("another Maildir stands here now".to_owned()))
        }
    }

    fn told(&self, act: ActId, message: &str) -> Delivery {
        match self.look(act, message) {
            Look::Delivered(delivered) => Delivery::Delivered(delivered),
            Look::Another(text) | Look::Absent(text) | Look::Unknown(text) => Delivery::Unknown(text),
        }
    }

    /// Notes that the rename was made. Where that fails, the message's own second name says it, as long as it lies there.
    fn note_done(&self, act: ActId) {
        let noted = File::create(self.done(act))
            .and_then(|file| file.sync_all())
            .and_then(|()| sync(&self.folder.join("wilco/done")));
        if let Err(error) = noted {
            tracing::warn!(%act, %error, "that the message was delivered could not be noted");
        }
    }

    fn done(&self, act: ActId) -> PathBuf {
        self.folder.join("wilco/done").join(act.to_string())
    }

    fn sent(&self, act: ActId) -> PathBuf {
        self.folder.join("wilco/sent").join(act.to_string())
    }

    /// Writes the message under a name nobody else uses, flushed to the disk.
    fn stage(&self, act: ActId, message: &str) -> io::Result<PathBuf> {
        let folder = self.folder.join("wilco/stage");
        for _ in 0..1_000 {
            let n = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = folder.join(format!("{act}.{}-{n}", std::process::id()));
            let mut file = match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => file,
                Err(e) if e.kind() == ErrorKind::AlreadyExists => continue,
                Err(e) => return Err(e),
            };
            let written = file
                .write_all(message.as_bytes())
                .and_then(|()| file.sync_all())
                .and_then(|()| sync(&folder));
            return match written {
                Ok(()) => Ok(path),
                Err(e) => {
                    drop_staged(&path);
                    Err(e)
                }
            };
        }
        Err(io::Error::other("no free name to write it under"))
    }

    /// The staged file that is this act's delivery, if it still waits: the one that is the same file as `sent`.
    fn waiting(&self, act: ActId) -> io::Result<Option<PathBuf>> {
        let sent = identity(&self.sent(act))?;
        let prefix = format!("{act}.");
        for entry in fs::read_dir(self.folder.join("wilco/stage"))? {
            let entry = entry?;
            if !entry.file_name().to_string_lossy().starts_with(&prefix) {
                continue;
            }
            match identity(&entry.path()) {
                Ok(found) if found == sent => return Ok(Some(entry.path())),
                Ok(_) => {}
                // Moved or dropped since the folder was listed.
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
        Ok(None)
    }
}

fn name(act: ActId) -> String {
    format!("{act}.wilco")
}

/// A file nobody needs any more; what stays behind is litter, not mail.
fn drop_staged(path: &Path) {
    let _ = fs::remove_file(path);
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    File::open(path)?.take(MESSAGE_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Flushes a folder, so that the names in it are on the disk.
fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let meta = fs::symlink_metadata(path)?;
    Ok((meta.dev(), meta.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_daemons_that_start_at_once_agree_which_maildir_it_is() {
        let folder = std::env::temp_dir().join(format!("wilco-mail-open-{}", std::process::id()));
        for round in 0..20 {
            let maildir = folder.join(round.to_string());
            let opened: Vec<Maildir> = std::thread::scope(|scope| {
                let open = || scope.spawn(|| Maildir::open(&maildir, Timestamp(round)).expect("opened"));
                let threads: Vec<_> = (0..8).map(|_| open()).collect();
                threads.into_iter().map(|t| t.join().expect("no panic")).collect()
            });
            assert!(opened.iter().all(|m| m.id == opened[0].id), "{opened:?}");
            let beside = fs::read_dir(maildir.join("wilco")).expect("a folder").count();
            assert_eq!(beside, 4, "id, stage, sent and done, and no draft");
        }
        fs::remove_dir_all(&folder).expect("removed");
    }
}
