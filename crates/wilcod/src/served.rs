//! `DIR/served.json`: what this daemon could serve when it last made sure that nothing open needs anything else.
//!
//! As long as it can serve all of that still, a start need not look at every open act. It is written before the port
//! opens, so whatever this daemon prepares later needs nothing that does not stand there. Other daemons on the same database
//! have a file of their own: what only they serve is found out when it is asked for. The file does not say of which database
//! it speaks: where the folder is given another one, remove it.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};
use wilco_engine::Needs;

use crate::files::{self, FileError};

/// The file's name.
pub const SERVED_FILE: &str = "served.json";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    agents: BTreeSet<String>,
    adapters: BTreeSet<String>,
    profiles: BTreeSet<String>,
    token_keys: BTreeSet<String>,
}

/// What stands there; `None` where there is nothing, or nothing that can be read: then every open act is looked at.
///
/// # Errors
/// [`FileError`].
pub fn read(data: &Path) -> Result<Option<Needs>, FileError> {
    let text = files::read(&data.join(SERVED_FILE))?;
    let file = text.and_then(|text| serde_json::from_str::<File>(&text).ok());
    Ok(file.map(|file| Needs {
        agents: file.agents,
        adapters: file.adapters,
        profiles: file.profiles,
        token_keys: file.token_keys,
    }))
}

/// Writes it. With `orphans`, what stood there stays as well: what open acts may need was not served, and must be looked
/// for again.
///
/// # Errors
/// [`FileError`].
pub fn write(data: &Path, serves: &Needs, before: Option<&Needs>, orphans: bool) -> Result<(), FileError> {
    let path = data.join(SERVED_FILE);
    let mut all = serves.clone();
    if orphans {
        match before {
            Some(before) => all.join(before),
            // Nothing is known of what is open: nothing is remembered either.
            None => return Ok(()),
        }
    }
    if before == Some(&all) {
        return Ok(());
    }
    let file = File {
        agents: all.agents,
        adapters: all.adapters,
        profiles: all.profiles,
        token_keys: all.token_keys,
    };
    // Lists of texts always serialise.
    let text = serde_json::to_string_pretty(&file).unwrap_or_default();
    files::write_whole(&path, 0o600, &format!("{text}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Folder;

    fn needs(adapter: &str) -> Needs {
        Needs {
            adapters: [adapter.to_owned()].into(),
            token_keys: ["k1".to_owned()].into(),
            ..Needs::default()
        }
    }

    #[test]
    fn what_was_written_is_read_again_and_nonsense_is_nothing() {
        let folder = Folder::new();
        assert_eq!(read(folder.path()).expect("reads"), None);
        write(folder.path(), &needs("bank"), None, false).expect("writes");
        assert_eq!(read(folder.path()).expect("reads"), Some(needs("bank")));
        std::fs::write(folder.path().join(SERVED_FILE), "{").expect("written");
        assert_eq!(read(folder.path()).expect("reads"), None);
    }

    #[test]
    fn served_with_orphans_nothing_is_forgotten() {
        let folder = Folder::new();
        write(folder.path(), &needs("sim"), None, true).expect("writes");
        assert_eq!(read(folder.path()).expect("reads"), None, "it was never looked");
        write(folder.path(), &needs("sim"), Some(&needs("bank")), true).expect("writes");
        let all = read(folder.path()).expect("reads").expect("there");
        assert_eq!(all.missing_from(&needs("sim")), ["adapter bank"]);
        write(folder.path(), &needs("sim"), Some(&all), false).expect("writes");
        assert_eq!(read(folder.path()).expect("reads"), Some(needs("sim")));
    }
}
