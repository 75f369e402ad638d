//! The profiles in force: the built-in ones, and those of a folder in their place.

use std::path::{Path, PathBuf};

use crate::files::{self, FileError};

/// How many profiles a folder may hold.
const MAX: usize = 256;

/// Why the profiles cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfilesError {
    /// The folder cannot be read.
    #[error("{} cannot be read as a folder of profiles: {source}", path.display())]
    Folder {
        /// Which folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// There is none, or there are too many.
    #[error("{}: {found} files *.json; a folder of profiles has 1 to {MAX}", path.display())]
    Count {
        /// Which folder.
        path: PathBuf,
        /// How many there are.
        found: usize,
    },
    /// One does not load.
    #[error("{}: {source}", path.display())]
    Profile {
        /// Which folder.
        path: PathBuf,
        /// Which profile and what is wrong with it.
        source: rw1::ProfileError,
    },
}

/// The profiles of a folder (`<name>.json`), or the built-in ones.
///
/// # Errors
/// [`ProfilesError`].
pub fn load(folder: Option<&Path>) -> Result<rw1::Profiles, ProfilesError> {
    let Some(folder) = folder else {
        return Ok(rw1::Profiles::builtin());
    };
    let failed = |source| ProfilesError::Folder {
        path: folder.to_owned(),
        source,
    };
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|e| e == "json")
            && let Some(name) = path.file_stem().and_then(|name| name.to_str())
            && let Some(text) = files::read(&path)?
        {
            texts.push((name.to_owned(), text));
        }
        if texts.len() > MAX {
            break;
        }
    }
    if texts.is_empty() || texts.len() > MAX {
        return Err(ProfilesError::Count {
            path: folder.to_owned(),
            found: texts.len(),
        });
    }
    // The order of a folder is not ours to rely on.
    texts.sort();
    rw1::Profiles::from_texts(texts).map_err(|source| ProfilesError::Profile {
        path: folder.to_owned(),
        source,
    })
}
