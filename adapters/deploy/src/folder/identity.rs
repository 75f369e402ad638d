//! Which folder this is. A file system that is not mounted leaves a folder that looks like a new one, and what is not in there
//! proves nothing about the other. So each target folder has an id of its own, made once and frozen in every plan; and the
//! daemon keeps, in its data folder, which one it knew last.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};
use wilco_core::Timestamp;

use super::Site;
use super::release::read_small;
use super::switch::{sync, write_durably};
use crate::plan::{Plan, clean};

/// What an id begins with.
const PREFIX: &str = "sha256:";

/// Tells apart what one process makes in one instant.
static NEXT: AtomicU64 = AtomicU64::new(1);

impl Site {
    /// The folder is there. It is never made by us: a name that was mistyped would be made too.
    pub(super) fn is_there(&self) -> Result<(), String> {
        if self.root().is_dir() {
            return Ok(());
        }
        Err(format!(
            "folder: {} is not there; mount it or create it",
            self.root().display()
        ))
    }

    /// The folder's id; `None` where it has none.
    pub(super) fn id(&self) -> Result<Option<String>, String> {
        let at = self.acts().join(".id");
        match read_small(&at) {
            Ok(id) if is_id(&id) => Ok(Some(id)),
            Ok(_) => Err(format!("{} is no folder's id", at.display())),
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            Err(e) => Err(format!("{} cannot be read: {e}", at.display())),
        }
    }

    /// It is the folder this daemon knew last under this target's name, or one that it never knew.
    pub(super) fn is_known(&self) -> Result<(), String> {
        let Some(known) = self.known()? else {
            return Ok(());
        };
        let is = match self.id()? {
            Some(id) if id == known => return Ok(()),
            Some(other) => format!("has the id {}", &other[..PREFIX.len() + 12]),
            None => "has no id".to_owned(),
        };
        Err(format!(
            "folder: {} {is}, and the folder that was deployed to before has {}: mount that one; if it was replaced on \
             purpose, remove {}",
            self.root().display(),
            &known[..PREFIX.len() + 12],
            self.memory.display()
        ))
    }

    /// Gives the folder its id, unless it has one, and remembers it.
    pub(super) fn identify(&self, now: Timestamp) -> Result<String, String> {
        let cannot = |e: io::Error| format!("{} cannot be given an id: {e}", self.root().display());
        let known = self.known()?;
        let id = match self.id()? {
            // It went away since it was looked at.
            None if known.is_some() => {
                return self
                    .is_known()
                    .and(Err("the folder changed; try again".to_owned()));
            }
            Some(id) => id,
            None => {
                self.make_id(now).map_err(cannot)?;
                // Perhaps another daemon was faster: its id is the folder's.
                self.id()?
                    .ok_or_else(|| format!("{} was given an id and has none", self.root().display()))?
            }
        };
        match known {
            Some(known) if known == id => {}
            Some(_) => self.is_known()?,
            None => self
                .remember(&id)
                .map_err(|e| format!("{} cannot be written: {e}", self.memory.display()))?,
        }
        Ok(id)
    }

    /// It is the folder that was stated. A plan from before folders had ids says nothing of it.
    pub(super) fn is_the_stated(&self, plan: &Plan) -> Result<(), String> {
        self.is_there()?;
        if plan.folder_id.is_empty() {
            return Ok(());
        }
        let id = self.id()?;
        if id.as_ref() == Some(&plan.folder_id) {
            return Ok(());
        }
        Err(format!(
            "{} is another folder than the stated one, or that one is not mounted: its id is {}, not {}",
            self.root().display(),
            id.as_deref().unwrap_or("missing"),
            clean(&plan.folder_id, 80)
        ))
    }

    /// Written whole under another name first: two daemons may begin at once, and one of them names it.
    fn make_id(&self, now: Timestamp) -> io::Result<()> {
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let made = format!("{} {} {} {n}", self.root().display(), now.0, std::process::id());
        let id = format!(
            "{PREFIX}{}",
            data_encoding::HEXLOWER.encode(&Sha256::digest(made.as_bytes()))
        );
        let draft = self.acts().join(format!(".id.{}-{n}", std::process::id()));
        // Left by an earlier process that had our number.
        match fs::remove_file(&draft) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).open(&draft)?;
        file.write_all(id.as_bytes())?;
        file.sync_all()?;
        let linked = fs::hard_link(&draft, self.acts().join(".id"));
        // Litter at worst: the id is what counts.
        let _ = fs::remove_file(&draft);
        match linked {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
        // An id that a power cut takes away with its folder was none.
        sync(&self.acts())?;
        sync(self.root())
    }

    /// The id that is remembered for the configured folder. A target that was given another folder begins anew.
    fn known(&self) -> Result<Option<String>, String> {
        let cannot = |text: String| format!("{}: {text}", self.memory.display());
        let text = match read_small(&self.memory) {
            Ok(text) => text,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(cannot(format!("it cannot be read: {e}"))),
        };
        match text.trim_end().split_once(' ') {
            Some((id, folder)) if is_id(id) => Ok((Path::new(folder) == self.root()).then(|| id.to_owned())),
            _ => Err(cannot("it is no folder's id".to_owned())),
        }
    }

    fn remember(&self, id: &str) -> io::Result<()> {
        let folder = self.memory.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let draft = folder.join(format!(".folder-id.{}-{n}", std::process::id()));
        write_durably(&draft, &format!("{id} {}\n", self.root().display()))?;
        fs::rename(&draft, &self.memory)?;
        sync(folder)
    }
}

/// Where the id of a target's folder is remembered.
pub(super) fn memory_of(work: &Path, target: &str) -> PathBuf {
    let work = std::path::absolute(work).unwrap_or_else(|_| work.to_owned());
    work.join(format!("{target}.folder-id"))
}

fn is_id(text: &str) -> bool {
    text.strip_prefix(PREFIX)
        .is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
}
