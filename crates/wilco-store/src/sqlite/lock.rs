//! The folder's lock: one daemon, one folder.
//!
//! The kernel gives the lock back when its holder ends, however it ends. So holding it also proves that the owner before
//! is gone, which recovery relies on.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::StoreError;

/// Takes the exclusive lock on `dir`, or says who has it.
///
/// # Errors
/// `Refuse` naming the folder and what to do.
pub fn take(dir: &Path) -> Result<File, StoreError> {
    let path = dir.join("lock");
    let refuse = |what: String| StoreError::Refuse(format!("{}: {what}", dir.display()));
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .open(&path)
        .map_err(|e| refuse(format!("the file {} cannot be opened: {e}", path.display())))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(refuse(format!(
                "the folder is in use by {}: stop it first, or give this one another folder",
                holder(&mut file)
            )));
        }
        Err(TryLockError::Error(e)) => {
            return Err(refuse(format!(
                "{} cannot be locked: {e}; put the folder on a file system with locks",
                path.display()
            )));
        }
    }
    // For people and for the message above; nothing depends on it.
    let noted = file
        .set_len(0)
        .and_then(|()| file.write_all(format!("{}\n", std::process::id()).as_bytes()));
    noted.map_err(|e| refuse(format!("{} cannot be written: {e}", path.display())))?;
    Ok(file)
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file
        .rewind()
        .and_then(|()| file.take(20).read_to_string(&mut text));
    match read.ok().and_then(|_| text.trim().parse::<u32>().ok()) {
        Some(pid) => format!("process {pid}"),
        None => "another process".to_owned(),
    }
}
