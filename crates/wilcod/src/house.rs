//! `DIR/house.id`: the name under which a folder's runs hold claims.
//!
//! A daemon calls the owners of claims `<house>.<boot>`. It holds its folder's lock, so every earlier owner of the same
//! house is known to be dead, and what it left is taken over at once. That is only true while the name belongs to one
//! folder: the file holds its own inode number and time of birth, and in a copy of the folder they are others. Then a new
//! name is made, and what the old one still holds is watched like any other daemon's. A snapshot of a whole volume or file
//! system is no copy in this sense: it keeps both. And where a file system knows no time of birth, zero stands for it.

use std::fs::{self, Metadata, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::UNIX_EPOCH;

use crate::files::{self, FileError};
use crate::random::{self, NoRandomness};

/// The file's name.
pub const HOUSE_FILE: &str = "house.id";

/// Why no name can be had.
#[derive(Debug, thiserror::Error)]
pub enum HouseError {
    /// The file could not be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// No name could be made.
    #[error(transparent)]
    Random(#[from] NoRandomness),
}

/// The folder's name; made at the first start. Call it with the folder's lock held.
///
/// # Errors
/// [`HouseError`].
pub fn of(data: &Path) -> Result<String, HouseError> {
    let path = data.join(HOUSE_FILE);
    if let Some(text) = files::read(&path)? {
        let metadata = fs::metadata(&path).map_err(|source| FileError::Read {
            path: path.clone(),
            source,
        })?;
        match parse(&text) {
            Some((house, mark)) if mark == mark_of(&metadata) => return Ok(house),
            Some((house, _)) => tracing::warn!(
                house,
                data = %data.display(),
                "this folder is a copy, or was restored: it gets a name of its own, and claims under the old one are watched \
                 before they are taken over"
            ),
            // Cut short by a kill while it was first written: nobody has used the name yet.
            None => {}
        }
    }
    make(&path)
}

/// What no copy of the file shares with it.
fn mark_of(metadata: &Metadata) -> String {
    let born = metadata
        .created()
        .ok()
        .and_then(|at| at.duration_since(UNIX_EPOCH).ok())
        .map_or(0, |since| since.as_nanos());
    format!("{}.{born}", metadata.ino())
}

fn parse(text: &str) -> Option<(String, String)> {
    let (house, mark) = text.strip_suffix('\n')?.split_once(' ')?;
    let sound = house.len() == 16 && house.bytes().all(|b| b.is_ascii_hexdigit());
    sound.then(|| (house.to_owned(), mark.to_owned()))
}

/// Not written beside and renamed, as other files are: the mark must be known before it is written.
fn make(path: &Path) -> Result<String, HouseError> {
    let failed = |source| FileError::Write {
        path: path.to_owned(),
        source,
    };
    match fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(failed(e).into()),
        _ => {}
    }
    let house = data_encoding::HEXLOWER.encode(&random::bytes::<8>()?);
    let write = || -> std::io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        let mark = mark_of(&file.metadata()?);
        file.write_all(format!("{house} {mark}\n").as_bytes())?;
        file.sync_all()?;
        fs::File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
    };
    write().map_err(failed)?;
    Ok(house)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Folder;

    #[test]
    fn a_folder_keeps_its_name_and_no_two_have_the_same() {
        let (one, other) = (Folder::new(), Folder::new());
        let house = of(one.path()).expect("made");
        assert_eq!(of(one.path()).expect("read"), house);
        assert_ne!(of(other.path()).expect("made"), house);
        assert!(!house.contains('.'), "a dot parts the house from the boot");
    }

    #[test]
    fn a_copy_of_a_folder_gets_a_name_of_its_own() {
        let (one, copy) = (Folder::new(), Folder::new());
        let house = of(one.path()).expect("made");
        fs::copy(one.path().join(HOUSE_FILE), copy.path().join(HOUSE_FILE)).expect("copied");
        let new = of(copy.path()).expect("made");
        assert_ne!(new, house);
        assert_eq!(of(copy.path()).expect("read"), new);
        assert_eq!(of(one.path()).expect("read"), house);
    }

    #[test]
    fn what_was_cut_short_is_made_anew() {
        let folder = Folder::new();
        for text in [
            "",
            "0123456789abcdef",
            "0123456789abcdef 7",
            "nonsense 7\n",
            "a.b 7\n",
        ] {
            fs::write(folder.path().join(HOUSE_FILE), text).expect("written");
            let house = of(folder.path()).expect("made");
            assert_ne!(house, "0123456789abcdef");
            assert_eq!(house.len(), 16);
        }
    }
}
