//! The folder's lock: one daemon, one folder.
//!
//! The kernel gives the lock back when its holder ends, however it ends. So holding it also proves that the owner before
//! is gone, which recovery relies on. Locked are a file in the folder, which says who has it, and the folder itself: a file can
//! be removed while it is locked, and who makes a new one would hold the lock of nothing.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::StoreError;

/// The lock, held as long as this lives.
#[derive(Debug)]
pub struct FolderLock {
    _file: File,
    /// None on file systems that lock files only (NFS).
    _folder: Option<File>,
}

/// Takes the exclusive lock on `dir`, or says who has it.
///
/// # Errors
/// `Refuse` naming the folder and what to do.
pub fn take(dir: &Path) -> Result<FolderLock, StoreError> {
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
    let folder = File::open(dir).map_err(|e| refuse(format!("the folder cannot be opened: {e}")))?;
    let folder = match folder.try_lock() {
        Ok(()) => Some(folder),
        Err(TryLockError::WouldBlock) => {
            let what = "the folder is in use, though its lock file is not the one that was locked (was it removed?): find the \
                        daemon that runs on it (run.json names it) and stop it first";
            return Err(refuse(what.to_owned()));
        }
        Err(TryLockError::Error(_)) => None,
    };
    // For people and for the message above; nothing depends on it.
    let noted = file
        .set_len(0)
        .and_then(|()| file.write_all(format!("{}\n", std::process::id()).as_bytes()));
    noted.map_err(|e| refuse(format!("{} cannot be written: {e}", path.display())))?;
    Ok(FolderLock {
        _file: file,
        _folder: folder,
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_locked_even_where_its_lock_file_was_removed() {
        let dir = std::env::temp_dir().join(format!("wilco-lock-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a folder");
        let held = take(&dir).expect("free");
        assert!(matches!(take(&dir), Err(StoreError::Refuse(_))));
        std::fs::remove_file(dir.join("lock")).expect("removed");
        match take(&dir) {
            Err(StoreError::Refuse(why)) => assert!(why.contains("in use"), "{why}"),
            other => panic!("taken a second time: {other:?}"),
        }
        drop(held);
        take(&dir).expect("free again");
        std::fs::remove_dir_all(&dir).expect("cleaned up");
    }
}
