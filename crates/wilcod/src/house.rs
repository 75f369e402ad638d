//! `DIR/house.id`: the name under which a folder's runs hold claims.
//!
//! A daemon calls the owners of claims `<house>.<boot>`. It holds its folder's lock, so every earlier owner of the same
//! house is known to be dead, and what it left is taken over at once. That is only true while the name belongs to one
//! folder on one machine. So the file holds a mark: which machine it is, and its own inode number and time of birth. In a
//! copy of the folder the last two are others, and a clone of its volume is mounted on another machine. Where the mark is
//! not the folder's, a new name is made, and what the old one still holds is watched like any other daemon's: that takes
//! longer, and is always safe. Where one of the three is not known, no mark is ever believed.
//!
//! Two clones on one machine, and machines cloned with their names, share a mark. Those betray themselves by what they
//! claim: `wilco_core::recovery::proves_double`.

use std::fs::{self, Metadata, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::UNIX_EPOCH;

use sha2::{Digest, Sha256};

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
    of_on(data, machine().as_deref())
}

fn of_on(data: &Path, machine: Option<&str>) -> Result<String, HouseError> {
    let path = data.join(HOUSE_FILE);
    if let Some(text) = files::read(&path)? {
        let metadata = fs::metadata(&path).map_err(|source| FileError::Read {
            path: path.clone(),
            source,
        })?;
        match parse(&text) {
            Some((house, mark)) if mark_of(machine, &metadata).is_some_and(|ours| ours == mark) => {
                return Ok(house);
            }
            Some((house, _)) => tracing::warn!(
                house,
                data = %data.display(),
                "this folder is a copy, was restored, or is on another machine or one of another name; or the machine or the \
                 file system cannot tell: it gets a name of its own, and claims under the old one are watched before they are \
                 taken over"
            ),
            // Cut short by a kill while it was first written: nobody has used the name yet.
            None => {}
        }
    }
    make(&path, machine)
}

/// What no copy of the file shares with it, where that is known.
fn mark_of(machine: Option<&str>, metadata: &Metadata) -> Option<String> {
    let born = metadata
        .created()
        .ok()
        .and_then(|at| at.duration_since(UNIX_EPOCH).ok())
        .map(|since| since.as_nanos());
    mark(machine, metadata.ino(), born)
}

/// Inode numbers alone repeat: a fresh volume gives them out in the same order.
fn mark(machine: Option<&str>, inode: u64, born: Option<u128>) -> Option<String> {
    let born = born.filter(|nanos| *nanos > 0)?;
    Some(format!("{}.{inode}.{born}", machine?))
}

/// Which machine this is, as far as it says so itself, and the same after it was started again: a digest of its id and its
/// name. Containers often have one of the two only.
fn machine() -> Option<String> {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    machine_of(&text("/etc/machine-id"), &text("/proc/sys/kernel/hostname"))
}

fn machine_of(id: &str, name: &str) -> Option<String> {
    // What `machine-id(5)` says of images whose id is not set yet, and what a machine without a name is called.
    let id = if id == "uninitialized" { "" } else { id };
    let name = if ["localhost", "(none)"].contains(&name) {
        ""
    } else {
        name
    };
    if id.is_empty() && name.is_empty() {
        return None;
    }
    // The id itself is not for others to see.
    let digest = Sha256::digest(format!("wilco house\0{id}\0{name}").as_bytes());
    digest.get(..8).map(|short| data_encoding::HEXLOWER.encode(short))
}

/// Stands in the file for a mark that cannot be made. No mark is equal to it.
const NO_MARK: &str = "unknown";

fn parse(text: &str) -> Option<(String, String)> {
    let (house, mark) = text.strip_suffix('\n')?.split_once(' ')?;
    let sound = house.len() == 16 && house.bytes().all(|b| b.is_ascii_hexdigit());
    sound.then(|| (house.to_owned(), mark.to_owned()))
}

/// Not written beside and renamed, as other files are: the mark must be known before it is written.
fn make(path: &Path, machine: Option<&str>) -> Result<String, HouseError> {
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
        let mark = mark_of(machine, &file.metadata()?).unwrap_or_else(|| NO_MARK.to_owned());
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

    /// A clone of the volume keeps inode number and time of birth.
    #[test]
    fn the_same_folder_on_another_machine_gets_a_name_of_its_own() {
        let folder = Folder::new();
        let house = of_on(folder.path(), Some("a")).expect("made");
        assert_eq!(of_on(folder.path(), Some("a")).expect("read"), house);
        let cloned = of_on(folder.path(), Some("b")).expect("made");
        assert_ne!(cloned, house);
        assert_eq!(of_on(folder.path(), Some("b")).expect("read"), cloned);
        assert_ne!(
            of_on(folder.path(), Some("a")).expect("made"),
            house,
            "nor is the old name ever used again"
        );
    }

    #[test]
    fn what_cannot_be_told_apart_is_never_the_same() {
        let folder = Folder::new();
        let house = of_on(folder.path(), None).expect("made");
        assert_ne!(of_on(folder.path(), None).expect("made"), house);
        assert_eq!(mark(Some("a"), 7, None), None);
        assert_eq!(
            mark(Some("a"), 7, Some(0)),
            None,
            "what file systems without it say"
        );
        assert_eq!(mark(None, 7, Some(9)), None);
        let mut marks: Vec<_> = [("a", 7, 9), ("b", 7, 9), ("a", 8, 9), ("a", 7, 8)]
            .map(|(machine, inode, born)| mark(Some(machine), inode, Some(born)))
            .into();
        marks.dedup();
        assert!(marks.len() == 4 && marks.iter().all(|m| m.as_deref().is_some_and(|m| m != NO_MARK)));
    }

    #[test]
    fn a_machine_is_its_id_and_its_name() {
        let both = machine_of("8e0c", "db1").expect("known");
        assert_eq!(machine_of("8e0c", "db1").as_ref(), Some(&both));
        assert!(!both.contains("8e0c") && !both.contains([' ', '.']));
        for (id, name) in [("8e0d", "db1"), ("8e0c", "db2"), ("", "db1"), ("8e0c", "")] {
            let other = machine_of(id, name).expect("one of the two is enough");
            assert_ne!(other, both, "{id} {name}");
        }
        for (id, name) in [("", ""), ("uninitialized", "localhost"), ("", "(none)")] {
            assert_eq!(machine_of(id, name), None, "{id} {name}");
        }
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
