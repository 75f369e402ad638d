//! Small files that must be whole or absent, also after a power cut.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What a file could not be used for.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It could not be read.
    #[error("{} cannot be read: {source}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It could not be written.
    #[error("{} cannot be written: {source}", path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is longer than any file of its kind.
    #[error("{} is longer than {limit} bytes: is it the right file?", path.display())]
    TooLong {
        /// Which file.
        path: PathBuf,
        /// The limit in bytes.
        limit: u64,
    },
    /// Others may read a secret.
    #[error("{} may be read by others (mode {mode:o}): chmod 600 it, and change what it held if others use this machine", path.display())]
    TooOpen {
        /// Which file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
}

/// The longest configuration file.
pub const LIMIT: u64 = 1 << 20;

/// Writes a file so that it is there whole or not at all: a sibling is written and flushed, takes the name, and the
/// folder is flushed.
///
/// # Errors
/// [`FileError::Write`].
pub fn write_whole(path: &Path, mode: u32, text: &str) -> Result<(), FileError> {
    let failed = |source| FileError::Write {
        path: path.to_owned(),
        source,
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let sibling = folder.join(name);
    // Left behind by a run that was killed while writing.
    match fs::remove_file(&sibling) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(failed(e)),
        _ => {}
    }
    let write = || -> io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&sibling)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&sibling, path)?;
        File::open(folder)?.sync_all()
    };
    write().map_err(failed)
}

/// Makes a folder, and those above it, for its owner alone; one that is there stays as it is.
///
/// # Errors
/// [`FileError::Write`].
pub fn folder(path: &Path) -> Result<(), FileError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|source| FileError::Write {
        path: path.to_owned(),
        source,
    })
}

/// The text of a file; `None` where there is none.
///
/// # Errors
/// [`FileError::Read`], [`FileError::TooLong`].
pub fn read(path: &Path) -> Result<Option<String>, FileError> {
    let failed = |source| FileError::Read {
        path: path.to_owned(),
        source,
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed(e)),
    };
    let mut text = String::new();
    file.take(LIMIT + 1).read_to_string(&mut text).map_err(failed)?;
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > LIMIT {
        return Err(FileError::TooLong {
            path: path.to_owned(),
            limit: LIMIT,
        });
    }
    Ok(Some(text))
}

/// The text of a file that only its owner may read; `None` where there is none.
///
/// # Errors
/// Those of [`read`], and [`FileError::TooOpen`].
pub fn read_secret(path: &Path) -> Result<Option<String>, FileError> {
    let Some(text) = read(path)? else { return Ok(None) };
    let metadata = fs::metadata(path).map_err(|source| FileError::Read {
        path: path.to_owned(),
        source,
    })?;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(FileError::TooOpen {
            path: path.to_owned(),
            mode,
        });
    }
    Ok(Some(text))
}
