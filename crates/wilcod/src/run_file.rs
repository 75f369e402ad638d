//! `DIR/run.json`: where the running daemon is found, for scripts of the same user. It is there while the daemon answers.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::files::{self, FileError};

/// The file's name.
pub const RUN_FILE: &str = "run.json";

/// What stands in it.
#[derive(Debug, Serialize)]
struct Run<'a> {
    pid: u32,
    url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    lab_url: Option<&'a str>,
}

/// Writes it.
///
/// # Errors
/// [`FileError`].
pub fn write(data: &Path, url: &str, lab_url: Option<&str>) -> Result<(), FileError> {
    let run = Run {
        pid: std::process::id(),
        url,
        lab_url,
    };
    // Two strings and a number always serialise.
    let text = serde_json::to_string(&run).unwrap_or_default();
    files::write_whole(&path(data), 0o600, &format!("{text}\n"))
}

/// Removes it, also one that a killed daemon left behind.
pub fn remove(data: &Path) {
    if let Err(error) = fs::remove_file(path(data))
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(path = %path(data).display(), %error, "run.json cannot be removed");
    }
}

fn path(data: &Path) -> PathBuf {
    data.join(RUN_FILE)
}
