//! The digest of everything in a folder: names, contents, links and whether a file can be run. Times and owners are no part
//! of it. Nothing outside the folder is ever read: links are taken by their text.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use sha2::{Digest, Sha256};

use crate::config::Limits;

/// How deep folders may lie in one another.
pub(super) const DEPTH_MAX: usize = 64;

/// Why a folder cannot be measured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TreeError {
    /// It holds what no release may.
    #[error("{0}")]
    Refused(String),
    /// It could not be read, or not in time.
    #[error("{0}")]
    Passing(String),
}

/// The hex SHA-256 of all that is in `root`.
pub(crate) fn digest(root: &Path, limits: Limits, until: Instant) -> Result<String, TreeError> {
    let mut walk = Walk {
        root,
        hash: Sha256::new(),
        bytes: limits.bytes,
        entries: limits.entries,
        until,
    };
    walk.hash.update(b"wilco tree 1\n");
    walk.folder(&PathBuf::new(), 0)?;
    Ok(data_encoding::HEXLOWER.encode(&walk.hash.finalize()))
}

struct Walk<'a> {
    root: &'a Path,
    hash: Sha256,
    /// What may still come.
    bytes: u64,
    entries: u32,
    until: Instant,
}

impl Walk<'_> {
    fn folder(&mut self, inside: &Path, depth: usize) -> Result<(), TreeError> {
        let at = self.root.join(inside);
        let cannot = |e: io::Error| TreeError::Passing(format!("{} cannot be read: {e}", at.display()));
        if depth > DEPTH_MAX {
            return Err(TreeError::Refused(format!("{} lies too deep", inside.display())));
        }
        let mut names: Vec<OsString> = Vec::new();
        for entry in fs::read_dir(&at).map_err(cannot)? {
            self.entries = self.entries.checked_sub(1).ok_or_else(|| {
                TreeError::Refused("there are more files than max_entries allows".to_owned())
            })?;
            names.push(entry.map_err(cannot)?.file_name());
        }
        names.sort();
        for name in names {
            if Instant::now() >= self.until {
                return Err(TreeError::Passing(
                    "it could not be measured in time; raise timeout_s".to_owned(),
                ));
            }
            let inside = inside.join(&name);
            let at = self.root.join(&inside);
            let meta = fs::symlink_metadata(&at)
                .map_err(|e| TreeError::Passing(format!("{} cannot be read: {e}", at.display())))?;
            match meta.file_type() {
                kind if kind.is_dir() => {
                    self.head(b"d", &inside);
                    self.folder(&inside, depth + 1)?;
                }
                kind if kind.is_symlink() => {
                    let target = fs::read_link(&at)
                        .map_err(|e| TreeError::Passing(format!("{} cannot be read: {e}", at.display())))?;
                    self.head(b"l", &inside);
                    self.part(target.as_os_str().as_bytes());
                }
                kind if kind.is_file() => {
                    let runs = meta.permissions().mode() & 0o111 != 0;
                    self.head(if runs { b"x" } else { b"f" }, &inside);
                    self.file(&at)?;
                }
                _ => {
                    let text = format!("{} is neither file, folder nor link", inside.display());
                    return Err(TreeError::Refused(text));
                }
            }
        }
        Ok(())
    }

    fn file(&mut self, at: &Path) -> Result<(), TreeError> {
        let cannot = |e: io::Error| TreeError::Passing(format!("{} cannot be read: {e}", at.display()));
        let mut file = File::open(at).map_err(cannot)?;
        let mut hash = Sha256::new();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let n = file.read(&mut buffer).map_err(cannot)?;
            if n == 0 {
                break;
            }
            self.bytes = self
                .bytes
                .checked_sub(n as u64)
                .ok_or_else(|| TreeError::Refused("it holds more than max_bytes allows".to_owned()))?;
            if Instant::now() >= self.until {
                return Err(TreeError::Passing(
                    "it could not be measured in time; raise timeout_s".to_owned(),
                ));
            }
            hash.update(&buffer[..n]);
        }
        self.hash.update(hash.finalize());
        Ok(())
    }

    fn head(&mut self, kind: &[u8], inside: &Path) {
        self.hash.update(kind);
        self.part(inside.as_os_str().as_bytes());
    }

    /// Its length goes before it, so that no two folders are written alike.
    fn part(&mut self, bytes: &[u8]) {
        self.hash.update((bytes.len() as u64).to_be_bytes());
        self.hash.update(bytes);
    }
}
