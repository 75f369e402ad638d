//! The database's URL: where it comes from, and that nobody sees it.

use std::fmt;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::config::{self, Store};
use crate::files::{self, FileError};

/// The longest URL, in bytes.
const URL_MAX: usize = 4_096;

/// A database's URL. It may hold a password: it is never printed whole.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl(String);

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum UrlError {
    /// Its file could not be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// It is not where it should be.
    #[error("store.{field}: {what}")]
    Missing {
        /// The setting.
        field: &'static str,
        /// What is missing.
        what: String,
    },
    /// It is no URL of a database we know.
    #[error(
        "the database's URL must be postgres://USER@HOST/DATABASE, in one line of at most {URL_MAX} bytes"
    )]
    Form,
}

impl DatabaseUrl {
    /// Reads one.
    ///
    /// # Errors
    /// [`UrlError::Form`], without repeating it.
    pub fn parse(text: &str) -> Result<DatabaseUrl, UrlError> {
        let text = text.trim();
        let known = ["postgres://", "postgresql://"]
            .iter()
            .any(|s| text.starts_with(s));
        let plain = !text.chars().any(|c| c.is_control() || c.is_whitespace());
        if known && plain && text.len() <= URL_MAX {
            Ok(DatabaseUrl(text.to_owned()))
        } else {
            Err(UrlError::Form)
        }
    }

    /// The whole of it, for the one who connects.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// Which store acts are kept in, in a word that shows nothing: the folder's own, or a digest of the URL without its
/// passwords. Two words for one database cost a look at what is open; one word for two would hide what is. So everything
/// else of the URL counts: what is left out of it (the database, the schema) is taken from the user's name.
#[must_use]
pub fn name_of(url: Option<&DatabaseUrl>) -> String {
    let Some(DatabaseUrl(url)) = url else {
        return "folder".to_owned();
    };
    let url = url.split_once("://").map_or("", |(_, rest)| rest);
    let (place, options) = url.split_once('?').unwrap_or((url, ""));
    let (login, place) = place.rsplit_once('@').unwrap_or(("", place));
    let user = login.split(':').next().unwrap_or("");
    let mut told: Vec<&str> = options
        .split('&')
        .filter(|option| !PASSWORDS.contains(&option.split('=').next().unwrap_or_default()))
        .collect();
    told.sort_unstable();
    let digest = Sha256::digest(format!("{user}@{place}?{}", told.join("&")).as_bytes());
    format!("database {}", data_encoding::HEXLOWER.encode(&digest))
}

/// Options that hold one.
const PASSWORDS: [&str; 2] = ["password", "sslpassword"];

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What follows the path may hold a password too.
        let shown = config::without_passwords(&self.0);
        f.write_str(shown.split(['?', '#']).next().unwrap_or_default())
    }
}

/// The URL the settings point at; `None` where they point at none and acts are kept in the data folder.
///
/// # Errors
/// [`UrlError`] names the setting.
pub fn url(data: &Path, store: &Store) -> Result<Option<DatabaseUrl>, UrlError> {
    if let Some(name) = &store.database_url_env {
        let text = std::env::var(name).map_err(|_| UrlError::Missing {
            field: "database_url_env",
            what: format!("the variable {name} is not set, or is not text"),
        })?;
        return DatabaseUrl::parse(&text).map(Some);
    }
    if let Some(file) = &store.database_url_file {
        let path = data.join(file);
        let text = files::read_secret(&path)?.ok_or_else(|| UrlError::Missing {
            field: "database_url_file",
            what: format!("{} does not exist", path.display()),
        })?;
        return DatabaseUrl::parse(&text).map(Some);
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Folder;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn it_never_shows_its_password() {
        let url =
            DatabaseUrl::parse(" postgres://wilco:secret@db:5432/acts?password=secret\n").expect("a URL");
        assert_eq!(format!("{url:?}"), "postgres://***@db:5432/acts");
        assert_eq!(
            url.reveal(),
            "postgres://wilco:secret@db:5432/acts?password=secret"
        );
        for bad in ["", "mysql://u:secret@h/d", "postgres://a b", "secret"] {
            let refused = DatabaseUrl::parse(bad).expect_err(bad).to_string();
            assert!(!refused.contains("secret"), "{refused}");
        }
    }

    #[test]
    fn a_store_is_named_by_where_it_is_and_not_by_a_password() {
        let named = |url: &str| name_of(Some(&DatabaseUrl::parse(url).expect("a URL")));
        let acts = named("postgres://wilco:secret@db:5432/acts");
        for same in [
            "postgresql://wilco:other@db:5432/acts",
            "postgres://wilco@db:5432/acts?password=secret",
        ] {
            assert_eq!(named(same), acts, "{same}");
        }
        for other in [
            "postgres://wilco:secret@db2:5432/acts",
            "postgres://other:secret@db:5432/acts",
            "postgres://wilco:secret@db:5433/acts",
            "postgres://wilco:secret@db:5432/other",
            "postgres://wilco:secret@db:5432/acts?host=db2",
            "postgres://wilco:secret@db:5432/acts?options=-csearch_path%3Dother",
        ] {
            assert_ne!(named(other), acts, "{other}");
        }
        assert_ne!(name_of(None), acts);
        assert!(!acts.contains("secret") && !acts.contains("db:"));
    }

    #[test]
    fn its_file_is_its_owners_alone() {
        let folder = Folder::new();
        let store = Store {
            database_url_file: Some("database.url".into()),
            ..Store::default()
        };
        let missing = url(folder.path(), &store).expect_err("missing").to_string();
        assert!(missing.contains("database_url_file"), "{missing}");
        let path = folder.path().join("database.url");
        std::fs::write(&path, "postgres://u:secret@h/d\n").expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("chmod");
        let open = url(folder.path(), &store).expect_err("too open").to_string();
        assert!(open.contains("chmod 600") && !open.contains("secret"), "{open}");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("chmod");
        let found = url(folder.path(), &store).expect("read").expect("a URL");
        assert_eq!(found.reveal(), "postgres://u:secret@h/d");
        assert_eq!(url(folder.path(), &Store::default()).expect("none"), None);
    }

    #[test]
    fn a_variable_that_is_not_set_is_named() {
        let store = Store {
            database_url_env: Some("WILCO_TEST_NO_SUCH_VARIABLE".into()),
            ..Store::default()
        };
        let missing = url(Path::new("/"), &store).expect_err("missing").to_string();
        assert!(missing.contains("WILCO_TEST_NO_SUCH_VARIABLE"), "{missing}");
    }
}
