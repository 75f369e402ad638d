//! What is read from the operator's folders at prepare: files by their digest, and the register of contacts.
//!
//! A digest names the bytes and nothing else, so whoever approves a mail approves exactly this file, whatever the folder
//! holds by the time it is sent. (The bytes are frozen with the message; the folder is not read again.)

use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};
use wilco_adapter::secret::read_limited;

/// How many files the folder may hold: each look reads them all.
const FILES_MAX: usize = 1_000;
/// How much a look reads at most, in bytes.
const LOOK_MAX: u64 = 256 * 1024 * 1024;
/// The largest register of contacts, in bytes.
const CONTACTS_MAX: u64 = 4 * 1024 * 1024;

/// A digest as slots write it: `sha256:` and 64 lowercase hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileDigest(String);

/// A file that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub name: String,
    pub bytes: Vec<u8>,
}

/// Why a file was not found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lost {
    /// No file in the folder has it.
    Unknown,
    /// The folder cannot be read, or holds too much.
    Passing(String),
}

impl FileDigest {
    pub fn parse(text: &str) -> Option<FileDigest> {
        let digits = text.strip_prefix("sha256:")?;
        let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        (digits.len() == 64 && digits.bytes().all(hex)).then(|| FileDigest(digits.to_owned()))
    }

    /// Whether a text claims to be one.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with("sha256:")
    }
}

/// `sha256:` of these bytes.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    format!(
        "sha256:{}",
        data_encoding::HEXLOWER.encode(&Sha256::digest(bytes))
    )
}

/// The file of the folder that has this digest, the first by name; files above `largest` bytes are passed over.
pub(crate) async fn by_digest(folder: &Path, digest: &FileDigest, largest: u64) -> Result<Found, Lost> {
    let (folder, digest) = (folder.to_owned(), digest.clone());
    let look = tokio::task::spawn_blocking(move || look(&folder, &digest, largest));
    look.await.unwrap_or_else(|e| Err(Lost::Passing(e.to_string())))
}

fn look(folder: &Path, digest: &FileDigest, largest: u64) -> Result<Found, Lost> {
    let passing = |path: &Path, e: &dyn std::fmt::Display| Lost::Passing(format!("{}: {e}", path.display()));
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|e| passing(folder, &e))? {
        let entry = entry.map_err(|e| passing(folder, &e))?;
        // A link could lead out of the folder; only what lies in it counts.
        if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            files.push(entry.path());
        }
        if files.len() > FILES_MAX {
            let why = format!("holds more than {FILES_MAX} files; take out what is not needed any more");
            return Err(passing(folder, &why));
        }
    }
    files.sort();
    let mut left = LOOK_MAX;
    for path in files {
        let size = match std::fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_file() => meta.len(),
            // Gone or changed since the folder was listed.
            _ => continue,
        };
        if size > largest {
            continue;
        }
        left = left.checked_sub(size).ok_or_else(|| {
            let why = format!("holds more than {LOOK_MAX} bytes; take out what is not needed any more");
            passing(folder, &why)
        })?;
        let mut bytes = Vec::new();
        let file = std::fs::File::open(&path).map_err(|e| passing(&path, &e))?;
        let read = file.take(largest + 1).read_to_end(&mut bytes);
        read.map_err(|e| passing(&path, &e))?;
        let hex = data_encoding::HEXLOWER.encode(&Sha256::digest(&bytes));
        if hex == digest.0 && bytes.len() as u64 <= largest {
            return Ok(Found {
                name: name_of(&path, &hex),
                bytes,
            });
        }
    }
    Err(Lost::Unknown)
}

/// The file's own name where a reader can be shown it, else one made of its digest.
fn name_of(path: &Path, hex: &str) -> String {
    let odd = |c: char| crate::chars::steers(c) || crate::chars::invisible(c);
    let name = path.file_name().and_then(|n| n.to_str());
    match name {
        Some(name) if name.len() <= 120 && !name.starts_with('.') && !name.chars().any(odd) => {
            name.to_owned()
        }
        _ => hex.chars().take(16).collect(),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ContactsFile {
    contacts: std::collections::BTreeMap<String, Contact>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Contact {
    addr: String,
}

/// The address the register has for a supplier. Read anew for each job: what is on file when a statement is made is what
/// it must say.
pub(crate) async fn contact(path: &Path, sup: &str) -> Result<String, Lost> {
    let passing = |e: String| Lost::Passing(format!("the contacts {}: {e}", path.display()));
    let text = read_limited(path, CONTACTS_MAX)
        .await
        .map_err(|e| passing(e.to_string()))?;
    let mut file: ContactsFile = toml::from_str(&text).map_err(|e| passing(e.message().to_owned()))?;
    file.contacts.remove(sup).map(|c| c.addr).ok_or(Lost::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_has_one_spelling() {
        let hex = "ab".repeat(32);
        assert!(FileDigest::parse(&format!("sha256:{hex}")).is_some());
        for bad in [
            hex.clone(),
            format!("sha256:{}", hex.to_uppercase()),
            format!("sha256:{hex}0"),
            "sha256:../x".into(),
        ] {
            assert!(FileDigest::parse(&bad).is_none(), "{bad}");
        }
    }
}
