//! `DIR/served.json`: what this daemon could serve when it last made sure that nothing open needs anything else.
//!
//! As long as it can serve all of that still, a start need not look at every open act. It is written before the port
//! opens, so whatever this daemon prepares later needs nothing that does not stand there. Other daemons on the same database
//! have a file of their own: what only they serve is found out when it is asked for. It says of which store it speaks:
//! where the folder is given another one, nothing is known of what is open there.

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
    store: String,
    agents: BTreeSet<String>,
    adapters: BTreeSet<String>,
    profiles: BTreeSet<String>,
    token_keys: BTreeSet<String>,
}

/// What stands there of `store` ([`crate::database::name_of`]); `None` where there is nothing, nothing that can be read, or
/// where it speaks of another store: then every open act is looked at.
///
/// # Errors
/// [`FileError`].
pub fn read(data: &Path, store: &str) -> Result<Option<Needs>, FileError> {
    let text = files::read(&data.join(SERVED_FILE))?;
    let file = text.and_then(|text| serde_json::from_str::<File>(&text).ok());
    let file = file.filter(|file| file.store == store);
    Ok(file.map(|file| Needs {
        agents: file.agents,
        adapters: file.adapters,
        profiles: file.profiles,
        token_keys: file.token_keys,
    }))
}

/// Writes it, of `store`. With `orphans`, what stood there stays as well: what open acts may need was not served, and must be looked
/// for again.
///
/// # Errors
/// [`FileError`].
pub fn write(
    data: &Path,
    store: &str,
    serves: &Needs,
    before: Option<&Needs>,
    orphans: bool,
) -> Result<(), FileError> {
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
        store: store.to_owned(),
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

    const HERE: &str = "folder";

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
        assert_eq!(read(folder.path(), HERE).expect("reads"), None);
        write(folder.path(), HERE, &needs("bank"), None, false).expect("writes");
        assert_eq!(read(folder.path(), HERE).expect("reads"), Some(needs("bank")));
        std::fs::write(folder.path().join(SERVED_FILE), "{").expect("written");
        assert_eq!(read(folder.path(), HERE).expect("reads"), None);
    }

    #[test]
    fn served_with_orphans_nothing_is_forgotten() {
        let folder = Folder::new();
        write(folder.path(), HERE, &needs("sim"), None, true).expect("writes");
        assert_eq!(
            read(folder.path(), HERE).expect("reads"),
            None,
            "it was never looked"
        );
        write(folder.path(), HERE, &needs("sim"), Some(&needs("bank")), true).expect("writes");
        let all = read(folder.path(), HERE).expect("reads").expect("there");
        assert_eq!(all.missing_from(&needs("sim")), ["adapter bank"]);
        write(folder.path(), HERE, &needs("sim"), Some(&all), false).expect("writes");
        assert_eq!(read(folder.path(), HERE).expect("reads"), Some(needs("sim")));
    }

    #[test]
    fn what_was_served_on_one_store_says_nothing_of_another() {
        let folder = Folder::new();
        write(folder.path(), HERE, &needs("bank"), None, false).expect("writes");
        let (one, other) = ("database 1", "database 2");
        assert_eq!(read(folder.path(), one).expect("reads"), None);
        // Nothing is known of what is open there: with orphans nothing is remembered, and what stands there is not of it.
        write(folder.path(), one, &needs("bank"), None, true).expect("writes");
        assert_eq!(read(folder.path(), one).expect("reads"), None);
        write(folder.path(), one, &needs("bank"), None, false).expect("writes");
        assert_eq!(read(folder.path(), one).expect("reads"), Some(needs("bank")));
        for store in [HERE, other] {
            assert_eq!(read(folder.path(), store).expect("reads"), None, "{store}");
        }
    }

    /// As it was written before it named its store.
    #[test]
    fn a_file_that_names_no_store_is_not_believed() {
        let folder = Folder::new();
        let text = r#"{"agents":[],"adapters":["bank"],"profiles":[],"token_keys":["k1"]}"#;
        std::fs::write(folder.path().join(SERVED_FILE), text).expect("written");
        assert_eq!(read(folder.path(), HERE).expect("reads"), None);
    }
}
