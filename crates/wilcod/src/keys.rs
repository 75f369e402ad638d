//! Keys: who the principals are, what they prove themselves with, and the server's own key for tokens.
//!
//! | file | who reads it | what it holds |
//! |---|---|---|
//! | `DIR/keys.toml` (0600) | clients on this machine | one key in clear for each default principal |
//! | `DIR/principals.toml` (0600) | the daemon | roles, agents, and the SHA-256 of each key |
//! | `DIR/token.key` (0600) | the daemon | what tokens are derived from; daemons on one database share it |
//!
//! All three are written at the first start. A key is 256 random bits, so that its plain SHA-256 gives nothing away.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use wilco_core::token::TokenKey;

use crate::files::{self, FileError};
use crate::random::{self, NoRandomness};

/// The clients' file.
pub const KEYS_FILE: &str = "keys.toml";
/// The daemon's file.
pub const PRINCIPALS_FILE: &str = "principals.toml";
/// The token keys' file.
pub const TOKEN_KEY_FILE: &str = "token.key";

/// The longest key a caller may present, in bytes.
pub const KEY_MAX: usize = 256;

/// What a principal may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RoleName {
    /// Prepare, confirm and cancel.
    Sender,
    /// Approve.
    Approver,
    /// See, settle, release, purge, stop.
    Operator,
    /// See.
    Viewer,
}

/// A principal and the hash of its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// Its name.
    pub name: String,
    /// What it may do.
    pub roles: Vec<RoleName>,
    /// The agents it speaks for.
    pub speaks_for: Vec<String>,
    /// SHA-256 of its key.
    key_sha256: [u8; 32],
}

impl Principal {
    /// Whether this is its key, by the hash of what was presented, compared in constant time.
    #[must_use]
    pub fn proved_by(&self, presented: &[u8; 32]) -> bool {
        self.key_sha256.ct_eq(presented).into()
    }
}

/// SHA-256 of a presented key.
#[must_use]
pub fn key_hash(key: &[u8]) -> [u8; 32] {
    Sha256::digest(key).into()
}

/// What is wrong with the keys.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// A file could not be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// No key could be made.
    #[error(transparent)]
    Random(#[from] NoRandomness),
    /// A file does not hold what it should.
    #[error("{}: {problem}", path.display())]
    Content {
        /// Which file.
        path: PathBuf,
        /// What is wrong, and the rule.
        problem: String,
    },
}

/// The principals of a folder; at first start the default ones are made, with a key each.
///
/// # Errors
/// [`KeysError`] names the file, the principal and the rule.
pub fn principals(data: &Path) -> Result<Vec<Principal>, KeysError> {
    let path = data.join(PRINCIPALS_FILE);
    if let Some(text) = files::read(&path)? {
        return parse_principals(&text).map_err(|problem| KeysError::Content { path, problem });
    }
    // The clients' file is written first, so a start that was cut short between the two keeps its keys.
    let keys_path = data.join(KEYS_FILE);
    let keys = match files::read_secret(&keys_path)? {
        Some(text) => parse_keys(&text).map_err(|problem| KeysError::Content {
            path: keys_path,
            problem,
        })?,
        None => {
            let mut keys = BTreeMap::new();
            for default in DEFAULTS {
                let secret = data_encoding::BASE32_NOPAD
                    .encode(&random::bytes::<32>()?)
                    .to_ascii_lowercase();
                keys.insert(default.name.to_owned(), format!("wilco_{secret}"));
            }
            files::write_whole(&keys_path, 0o600, &keys_text(&keys))?;
            keys
        }
    };
    let text = principals_text(&keys);
    files::write_whole(&path, 0o600, &text)?;
    parse_principals(&text).map_err(|problem| KeysError::Content { path, problem })
}

/// The keys tokens are derived from.
pub struct TokenKeys {
    /// The first for new tokens, the others for tokens given out earlier.
    pub keys: Vec<TokenKey>,
    /// The file and its text, where the key was made now and is kept nowhere yet.
    fresh: Option<(PathBuf, String)>,
}

impl TokenKeys {
    /// Writes down a key made now. To be called before the first token is given out, and not before it is known that no
    /// open act needs a key that was lost: a new file would stand where the old one belongs.
    ///
    /// # Errors
    /// [`FileError::Write`].
    pub fn keep(&self) -> Result<(), FileError> {
        match &self.fresh {
            Some((path, text)) => files::write_whole(path, 0o600, text),
            None => Ok(()),
        }
    }
}

/// The token keys: `file`, seen from the data folder. One is made at first start, in the data folder. A file elsewhere
/// must be there: it is shared with other daemons, and a new key would only be this one's.
///
/// # Errors
/// [`KeysError`] names the file, the line and the rule.
pub fn token_keys(data: &Path, file: &Path) -> Result<TokenKeys, KeysError> {
    let path = data.join(file);
    let mut fresh = None;
    let text = match files::read_secret(&path)? {
        Some(text) => text,
        None if file != Path::new(TOKEN_KEY_FILE) => {
            let problem = "store.token_key_file names it, and it does not exist: copy the token.key of the other daemons \
                           there, or leave the setting out to have one made";
            return Err(KeysError::Content {
                path,
                problem: problem.to_owned(),
            });
        }
        None => {
            let id = data_encoding::HEXLOWER.encode(&random::bytes::<4>()?);
            let secret = data_encoding::HEXLOWER.encode(&random::bytes::<32>()?);
            let text = format!(
                "# What tokens are derived from: `<id> <64 hex digits>`, one key a line. The first makes new tokens;\n\
                 # keep the others while acts prepared with them are open.\n{id} {secret}\n"
            );
            fresh = Some((path.clone(), text.clone()));
            text
        }
    };
    match parse_token_keys(&text) {
        Ok(keys) => Ok(TokenKeys { keys, fresh }),
        Err(problem) => Err(KeysError::Content { path, problem }),
    }
}

/// One key of a clients' file.
///
/// # Errors
/// What is wrong with the text, naming the principal.
pub fn parse_keys(text: &str) -> Result<BTreeMap<String, String>, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        keys: BTreeMap<String, String>,
    }
    // The parser's own message would quote the line, and the line holds a key.
    let file: File = toml::from_str(text)
        .map_err(|_| "it must hold one table [keys] of `principal = \"key\"`".to_owned())?;
    for (name, key) in &file.keys {
        if key.len() < 32 || key.len() > KEY_MAX || !key.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(format!(
                "keys.{name}: a key has from 32 to {KEY_MAX} printable ASCII characters and no spaces"
            ));
        }
    }
    Ok(file.keys)
}

struct Default {
    name: &'static str,
    roles: &'static [&'static str],
    speaks_for: &'static [&'static str],
    says: &'static str,
}

const DEFAULTS: [Default; 6] = [
    Default {
        name: "scheduler",
        roles: &["sender"],
        speaks_for: &["scheduler"],
        says: "hands off payments",
    },
    Default {
        name: "release",
        roles: &["sender"],
        speaks_for: &["release"],
        says: "hands off deployments",
    },
    Default {
        name: "writer",
        roles: &["sender"],
        speaks_for: &["writer"],
        says: "hands off mails",
    },
    Default {
        name: "approver",
        roles: &["approver"],
        speaks_for: &[],
        says: "approves, never executes",
    },
    Default {
        name: "duty",
        roles: &["operator"],
        speaks_for: &[],
        says: "the operator: sees, settles, releases, purges, stops",
    },
    Default {
        name: "viewer",
        roles: &["viewer"],
        speaks_for: &[],
        says: "sees",
    },
];

fn keys_text(keys: &BTreeMap<String, String>) -> String {
    let mut text = String::from(
        "# Keys in clear, for clients on this machine: `Authorization: Bearer <key>`. The daemon does not read this\n\
         # file: it knows the hashes in principals.toml. Give each client its key, then delete the line here.\n\n[keys]\n",
    );
    for (name, key) in keys {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name} = \"{key}\"");
    }
    text
}

fn principals_text(keys: &BTreeMap<String, String>) -> String {
    let mut text = String::from(
        "# Who may call, and what they may do. Read at start.\n\
         #\n\
         # roles       sender: prepare, confirm and cancel for the agents it speaks for\n\
         #             approver: approve, never execute    viewer: see\n\
         #             operator: see, settle, release, purge, stop, never confirm\n\
         # speaks_for  agents (the `from` of a handoff); only for senders\n\
         # key_sha256  hex SHA-256 of its key:  printf %s \"$KEY\" | sha256sum\n",
    );
    for default in DEFAULTS {
        let Some(key) = keys.get(default.name) else {
            continue;
        };
        let list = |words: &[&str]| {
            words
                .iter()
                .map(|w| format!("\"{w}\""))
                .collect::<Vec<_>>()
                .join(", ")
        };
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "\n# {}\n[principals.{}]\nroles = [{}]\nspeaks_for = [{}]\nkey_sha256 = \"{}\"\n",
            default.says,
            default.name,
            list(default.roles),
            list(default.speaks_for),
            data_encoding::HEXLOWER.encode(&key_hash(key.as_bytes())),
        );
    }
    text
}

fn parse_principals(text: &str) -> Result<Vec<Principal>, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        #[serde(default)]
        principals: BTreeMap<String, Entry>,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Entry {
        roles: Vec<RoleName>,
        #[serde(default)]
        speaks_for: Vec<String>,
        key_sha256: String,
    }
    let file: File = crate::config::toml_from(text)?;
    let mut all: Vec<Principal> = Vec::new();
    for (name, entry) in file.principals {
        let at = |field: &str, rule: &str| format!("principals.{name}.{field}: {rule}");
        let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
        if name.is_empty() || name.len() > 64 || !name.chars().all(word) {
            return Err(format!(
                "principals.{name}: a name has 1 to 64 characters of a-z, 0-9, - and _"
            ));
        }
        if name == wilco_core::journal::OURSELVES {
            return Err(format!(
                "principals.{name}: the name stands for the daemon itself"
            ));
        }
        if entry.roles.is_empty() {
            return Err(at("roles", "at least one of sender, approver, operator, viewer"));
        }
        let sender = entry.roles.contains(&RoleName::Sender);
        let watcher = entry
            .roles
            .iter()
            .any(|r| matches!(r, RoleName::Operator | RoleName::Approver));
        if sender && watcher {
            return Err(at(
                "roles",
                "a sender cannot be operator or approver as well: those never confirm, so give each a principal",
            ));
        }
        if sender == entry.speaks_for.is_empty() {
            return Err(at(
                "speaks_for",
                "names the agents of a sender, and is empty for everyone else",
            ));
        }
        if let Some(agent) = entry.speaks_for.iter().find(|a| !crate::config::is_agent(a)) {
            return Err(at(
                "speaks_for",
                &format!("`{agent}` is not an agent name (1 to 64 of A-Z a-z 0-9 . _ -, not `human`)"),
            ));
        }
        let hash = data_encoding::HEXLOWER_PERMISSIVE
            .decode(entry.key_sha256.as_bytes())
            .ok()
            .and_then(|bytes| <[u8; 32]>::try_from(bytes).ok())
            .ok_or_else(|| at("key_sha256", "the SHA-256 of the key, 64 hex digits"))?;
        if let Some(other) = all.iter().find(|p| p.key_sha256 == hash) {
            return Err(at(
                "key_sha256",
                &format!("is also the key of {}: keys are not shared", other.name),
            ));
        }
        all.push(Principal {
            name,
            roles: entry.roles,
            speaks_for: entry.speaks_for,
            key_sha256: hash,
        });
    }
    if all.is_empty() {
        return Err(
            "it names no principal, so nobody could call: delete it to have the default ones made".into(),
        );
    }
    Ok(all)
}

fn parse_token_keys(text: &str) -> Result<Vec<TokenKey>, String> {
    let mut keys: Vec<TokenKey> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let bad = |rule: &str| format!("line {}: {rule}", number + 1);
        let (id, secret) = line
            .split_once(' ')
            .ok_or_else(|| bad("`<id> <64 hex digits>`"))?;
        if id.len() > 16 || !id.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return Err(bad("an id has 1 to 16 letters and digits"));
        }
        if keys.iter().any(|k| k.id == id) {
            return Err(bad("the id stands on two lines"));
        }
        let secret = data_encoding::HEXLOWER_PERMISSIVE
            .decode(secret.trim().as_bytes())
            .ok()
            .and_then(|bytes| <[u8; 32]>::try_from(bytes).ok())
            .ok_or_else(|| bad("the secret is 64 hex digits"))?;
        keys.push(TokenKey {
            id: id.to_owned(),
            secret,
        });
    }
    if keys.is_empty() {
        return Err("it holds no key; delete it only if no act is open, and a new one is made".into());
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Folder;
    use std::os::unix::fs::PermissionsExt;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).expect("exists").permissions().mode() & 0o777
    }

    #[test]
    fn the_first_start_makes_a_key_for_each_default_principal_and_later_ones_keep_them() {
        let folder = Folder::new();
        let first = principals(folder.path()).expect("made");
        assert_eq!(mode(&folder.path().join(KEYS_FILE)), 0o600);
        let text = std::fs::read_to_string(folder.path().join(KEYS_FILE)).expect("reads");
        let keys = parse_keys(&text).expect("parses");
        let names: Vec<&str> = keys.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            ["approver", "duty", "release", "scheduler", "viewer", "writer"]
        );
        for principal in &first {
            assert!(principal.proved_by(&key_hash(keys[&principal.name].as_bytes())));
            assert!(!principal.proved_by(&key_hash(b"something else")));
        }
        let daemon_side = std::fs::read_to_string(folder.path().join(PRINCIPALS_FILE)).expect("reads");
        assert!(keys.values().all(|key| !daemon_side.contains(key)));
        for told in [
            "operator: see, settle, release, purge, stop, never confirm",
            "sees, settles, releases, purges, stops",
        ] {
            assert!(daemon_side.contains(told), "{told}");
        }
        assert_eq!(principals(folder.path()).expect("read"), first);
    }

    #[test]
    fn a_start_cut_short_between_the_two_files_keeps_the_keys() {
        let folder = Folder::new();
        let first = principals(folder.path()).expect("made");
        std::fs::remove_file(folder.path().join(PRINCIPALS_FILE)).expect("removed");
        assert_eq!(principals(folder.path()).expect("made again"), first);
    }

    #[test]
    fn the_token_key_is_made_once_and_kept_from_others() {
        let folder = Folder::new();
        let default = Path::new(TOKEN_KEY_FILE);
        let first = token_keys(folder.path(), default).expect("made");
        first.keep().expect("kept");
        let again = token_keys(folder.path(), default).expect("read");
        again.keep().expect("kept already");
        let of = |made: &TokenKeys| (made.keys[0].id.clone(), made.keys[0].secret);
        assert_eq!(of(&first), of(&again));
        let path = folder.path().join(TOKEN_KEY_FILE);
        assert_eq!(mode(&path), 0o600);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("chmod");
        let refused = token_keys(folder.path(), default)
            .map(drop)
            .expect_err("too open");
        assert!(refused.to_string().contains("chmod 600"), "{refused}");
        // A shared file is never made by itself.
        let shared = folder.path().join("shared.key");
        let refused = token_keys(folder.path(), &shared).map(drop).expect_err("missing");
        assert!(refused.to_string().contains("token_key_file"), "{refused}");
        assert!(!shared.exists());
        std::fs::rename(&path, &shared).expect("moved");
        std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o600)).expect("chmod");
        let moved = token_keys(folder.path(), &shared).expect("read");
        assert_eq!(moved.keys[0].id, first.keys[0].id);
    }

    #[test]
    fn old_token_keys_may_follow_the_new_one() {
        let (a, b) = ("ab".repeat(32), "cd".repeat(32));
        let keys = parse_token_keys(&format!("# new\nk2 {a}\n\nk1 {b}\n")).expect("parses");
        assert_eq!(
            keys.iter().map(|k| k.id.as_str()).collect::<Vec<_>>(),
            ["k2", "k1"]
        );
        for (bad, rule) in [
            (String::new(), "no key"),
            (format!("k1 {a}\nk1 {b}"), "line 2"),
            ("k1 zz".to_owned(), "64 hex"),
            (format!("a_b {a}"), "16 letters"),
        ] {
            let problem = parse_token_keys(&bad).err().unwrap_or_default();
            assert!(problem.contains(rule), "{bad}: {problem}");
        }
    }

    #[test]
    fn every_bad_field_is_named_with_its_rule() {
        let hash = "ab".repeat(32);
        let entry = |body: &str| format!("[principals.ann]\n{body}\n");
        for (text, needle) in [
            (
                entry(&format!("roles=[]\nkey_sha256=\"{hash}\"")),
                "principals.ann.roles",
            ),
            (entry(&format!("roles=[\"king\"]\nkey_sha256=\"{hash}\"")), "king"),
            (
                entry(&format!("roles=[\"sender\"]\nkey_sha256=\"{hash}\"")),
                "principals.ann.speaks_for",
            ),
            (
                entry(&format!(
                    "roles=[\"sender\",\"operator\"]\nspeaks_for=[\"a\"]\nkey_sha256=\"{hash}\""
                )),
                "never confirm",
            ),
            (
                entry(&format!(
                    "roles=[\"sender\"]\nspeaks_for=[\"human\"]\nkey_sha256=\"{hash}\""
                )),
                "`human` is not an agent",
            ),
            (
                entry("roles=[\"viewer\"]\nkey_sha256=\"ab\""),
                "principals.ann.key_sha256",
            ),
            (
                entry(&format!("roles=[\"viewer\"]\nkey_sha256=\"{hash}\"\nkey=\"x\"")),
                "key",
            ),
            (
                format!(
                    "[principals.ann]\nroles=[\"viewer\"]\nkey_sha256=\"{hash}\"\n\
                     [principals.bob]\nroles=[\"viewer\"]\nkey_sha256=\"{hash}\"\n"
                ),
                "also the key of ann",
            ),
            (
                format!("[principals.wilco]\nroles=[\"viewer\"]\nkey_sha256=\"{hash}\"\n"),
                "itself",
            ),
            (String::new(), "no principal"),
        ] {
            let problem = parse_principals(&text).expect_err(&text);
            assert!(problem.contains(needle), "{text}: {problem}");
        }
    }

    #[test]
    fn a_bad_clients_file_is_never_quoted() {
        let problem = parse_keys("[keys]\nscheduler = \"wilco_secret\" oops").expect_err("bad");
        assert!(!problem.contains("wilco_secret"), "{problem}");
        let problem = parse_keys("[keys]\nscheduler = \"short\"").expect_err("bad");
        assert!(
            problem.contains("keys.scheduler") && !problem.contains("\"short\""),
            "{problem}"
        );
    }
}
