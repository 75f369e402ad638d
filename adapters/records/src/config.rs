//! What an operator writes under `[adapters.records]`, and what it means once checked. The file's text never holds a
//! secret: it says where the database's address is, which may hold a password.

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use wilco_adapter::field::{Broken, between};
use wilco_adapter::secret::{SecretPlaceError, SecretSource};
use wilco_adapter::zone::{ZONE_RULE, Zone};

use crate::sql::{Mapping, Statements};
use crate::statement::{Dialect, Param};

/// The `[adapters.records]` table.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RecordsConfig {
    /// `sqlite` or `postgres`.
    pub database: String,
    /// SQLite: the file. It must be there; nothing is created.
    pub path: PathBuf,
    /// Postgres: a file that holds the address, `postgres://user:password@host/database`. Read anew for each connection.
    pub database_url_file: Option<PathBuf>,
    /// Postgres: an environment variable that holds it.
    pub database_url_env: Option<String>,
    /// Postgres: a program and its arguments that print it; no shell is involved.
    pub database_url_command: Option<Vec<String>>,
    /// Postgres: the same for prepare, which only reads: a role that may do no more.
    pub read_url_file: Option<PathBuf>,
    /// As `read_url_file`, from an environment variable.
    pub read_url_env: Option<String>,
    /// As `read_url_file`, from a program.
    pub read_url_command: Option<Vec<String>>,
    /// Postgres: whether another machine may be spoken to in the clear.
    pub plaintext: bool,
    /// The vendor table, `vendor` or `schema.vendor`.
    pub table: String,
    /// Its columns.
    pub columns: ColumnsConfig,
    /// How its effective date is kept: `text` (`YYYYMMDD`) or `date` (a date; in SQLite `YYYY-MM-DD`).
    pub eff_as: String,
    /// The table with one row for each change made.
    pub acts_table: String,
    /// The table with one row for each call-back.
    pub callbacks_table: String,
    /// Its column that holds which act a call-back is for, where it has one: then it counts for that act alone.
    pub callbacks_ref: String,
    /// `required`: nothing changes before a call-back for exactly this change is recorded. `none`: not asked for.
    pub callback: String,
    /// What an account looks like: `uk` (`40-12-88/61102938`) or `any`.
    pub account: String,
    /// Statements of one's own, in place of the ones built from table and columns.
    pub sql: OwnSql,
    /// Seconds one exchange with the database may take, 1 to 300.
    pub timeout_s: u32,
    /// Seconds after the last byte in which a change may still land, 1 to 86400. For Postgres at least three times
    /// `timeout_s`.
    pub settle_window_s: u32,
    /// Whose day `eff` is counted in: an offset such as `+00:00`, or `Europe/London`.
    pub time_zone: String,
    /// How many acts may be under way at once, 1 to 256.
    pub concurrency: u32,
}

/// The `[adapters.records.columns]` table: what the vendor table calls its columns. An empty name: it has none.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ColumnsConfig {
    /// The supplier's short name; unique.
    pub sup: String,
    /// The account.
    pub acct: String,
    /// Who they are.
    pub name: String,
    /// The day from which the account counts.
    pub eff: String,
    /// The number they are rung on.
    pub phone: String,
    /// Under which approval the account was last changed.
    pub apref: String,
}

/// The `[adapters.records.sql]` table: statements of one's own. Values stand in them as `:sup`, never as text.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OwnSql {
    /// The vendor's row for `:sup`, with columns `sup`, `acct` and, where `columns` names one, `name`, `eff`, `phone`, `apref`.
    pub read: Option<String>,
    /// The compare-and-swap from `:prev` to `:acct` for `:sup`. In Postgres one statement that also writes the row for
    /// `:ref` into the acts table; in SQLite an UPDATE.
    pub change: Option<String>,
    /// Call-backs recorded for `:sup`, `:prev` and `:acct`, with columns `by` and `at`.
    pub callback: Option<String>,
}

/// A field of `[adapters.records]` is wrong.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// One field breaks its rule.
    #[error("[adapters.records] {field}: {rule} (it says {got:?})")]
    Field {
        /// Which.
        field: &'static str,
        /// What it may be.
        rule: String,
        /// What it says.
        got: String,
    },
    /// No usable place for the database's address.
    #[error("[adapters.records] {0}")]
    Place(#[from] SecretPlaceError),
    /// The table is not TOML, misses a field or has one nobody knows.
    #[error("[adapters.records]: {0}")]
    Table(String),
}

/// A checked name: letters, digits and underscores, perhaps in two parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name(Vec<String>);

/// The vendor table's columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Columns {
    pub sup: Name,
    pub acct: Name,
    pub name: Option<Name>,
    pub eff: Option<Name>,
    pub phone: Option<Name>,
    pub apref: Option<Name>,
}

/// How the effective date is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EffAs {
    Text,
    Date,
}

/// Which accounts there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accounts {
    Uk,
    Any,
}

/// Where the table is.
#[derive(Debug, Clone)]
pub(crate) enum Whereabouts {
    Sqlite(PathBuf),
    Postgres {
        main: SecretSource,
        read: Option<SecretSource>,
        plaintext: bool,
    },
}

/// The table, checked.
#[derive(Debug, Clone)]
pub(crate) struct Checked {
    pub whereabouts: Whereabouts,
    pub statements: Statements,
    pub table: Name,
    pub acts: Name,
    pub callbacks: Name,
    pub callbacks_ref: Option<Name>,
    pub columns: Columns,
    /// Whether the table shows an effective date; without one, a change counts from the day it is made.
    pub shows_eff: bool,
    pub shows_apref: bool,
    pub own_callback: bool,
    pub callback: bool,
    pub accounts: Accounts,
    pub timeout: Duration,
    pub settle_window_s: u32,
    pub zone: Zone,
    pub concurrency: u32,
}

impl Default for RecordsConfig {
    fn default() -> Self {
        RecordsConfig {
            database: "sqlite".to_owned(),
            path: PathBuf::from("lab/vendors.sqlite"),
            database_url_file: None,
            database_url_env: None,
            database_url_command: None,
            read_url_file: None,
            read_url_env: None,
            read_url_command: None,
            plaintext: false,
            table: "vendor".to_owned(),
            columns: ColumnsConfig::default(),
            eff_as: "text".to_owned(),
            acts_table: "wilco_acts".to_owned(),
            callbacks_table: "wilco_callbacks".to_owned(),
            callbacks_ref: String::new(),
            callback: "none".to_owned(),
            account: "uk".to_owned(),
            sql: OwnSql::default(),
            timeout_s: 10,
            settle_window_s: 60,
            time_zone: "+00:00".to_owned(),
            concurrency: 8,
        }
    }
}

impl Default for ColumnsConfig {
    fn default() -> Self {
        ColumnsConfig {
            sup: "sup".to_owned(),
            acct: "acct".to_owned(),
            name: "name".to_owned(),
            eff: "eff".to_owned(),
            phone: "phone".to_owned(),
            apref: "apref".to_owned(),
        }
    }
}

impl RecordsConfig {
    /// Reads the table from TOML text (its fields at the top).
    ///
    /// # Errors
    /// [`ConfigError::Table`] where it is not TOML or has a field unknown or of another type.
    pub fn from_toml(text: &str) -> Result<RecordsConfig, ConfigError> {
        toml::from_str(text).map_err(|e| ConfigError::Table(e.message().to_owned()))
    }

    /// The same table with relative paths counted from the data folder.
    #[must_use]
    pub fn in_folder(mut self, data: &Path) -> Self {
        self.path = data.join(&self.path);
        for file in [&mut self.database_url_file, &mut self.read_url_file] {
            *file = file.take().map(|f| data.join(f));
        }
        self
    }

    /// Checks every field.
    pub(crate) fn checked(&self) -> Result<Checked, ConfigError> {
        between("timeout_s", self.timeout_s, 1, 300)?;
        between("settle_window_s", self.settle_window_s, 1, 86_400)?;
        between("concurrency", self.concurrency, 1, 256)?;
        let (dialect, whereabouts) = self.whereabouts()?;
        let least = self.timeout_s * WINDOW_TIMEOUTS;
        if dialect == Dialect::Postgres && self.settle_window_s < least {
            let rule = format!(
                "must be at least {WINDOW_TIMEOUTS} times timeout_s, which is {least}: that long the server may go on \
                 with a transaction nobody waits for; raise it, or lower timeout_s"
            );
            return Err(wrong("settle_window_s", &rule, &self.settle_window_s.to_string()));
        }
        let columns = self.columns()?;
        let table = Name::parse("table", &self.table, 2)?;
        let acts = Name::parse("acts_table", &self.acts_table, 2)?;
        let callbacks = Name::parse("callbacks_table", &self.callbacks_table, 2)?;
        let callbacks_ref = match self.callbacks_ref.as_str() {
            "" => None,
            name => Some(Name::parse("callbacks_ref", name, 1)?),
        };
        if callbacks_ref.is_some() && self.sql.callback.is_some() {
            let rule = "must be left out where sql.callback is given: use :ref in that statement";
            return Err(wrong("callbacks_ref", rule, &self.callbacks_ref));
        }
        let eff_as = one_of(
            "eff_as",
            &self.eff_as,
            &[("text", EffAs::Text), ("date", EffAs::Date)],
        )?;
        let statements = Statements::of(&Mapping {
            dialect,
            table: &table,
            columns: &columns,
            eff_as,
            acts: &acts,
            callbacks: &callbacks,
            callbacks_ref: callbacks_ref.as_ref(),
            own: &self.sql,
        });
        let statements = statements.map_err(|(field, rule)| {
            let said = match field {
                "sql.read" => &self.sql.read,
                "sql.change" => &self.sql.change,
                _ => &self.sql.callback,
            };
            wrong(field, &rule, said.as_deref().unwrap_or_default())
        })?;
        let callback = one_of("callback", &self.callback, &[("none", false), ("required", true)])?;
        if let (true, Dialect::Postgres, Some(own)) = (callback, dialect, &self.sql.change)
            && !statements.change.params.contains(&Param::At)
        {
            let rule = "must use :at where a call-back is required: written into the acts table, it says which call-backs are used";
            return Err(wrong("sql.change", rule, own));
        }
        let zone =
            Zone::parse(&self.time_zone).ok_or_else(|| wrong("time_zone", ZONE_RULE, &self.time_zone))?;
        let accounts = [("uk", Accounts::Uk), ("any", Accounts::Any)];
        Ok(Checked {
            whereabouts,
            statements,
            table,
            acts,
            callbacks,
            callbacks_ref,
            shows_eff: columns.eff.is_some(),
            shows_apref: columns.apref.is_some(),
            columns,
            own_callback: self.sql.callback.is_some(),
            callback,
            accounts: one_of("account", &self.account, &accounts)?,
            timeout: Duration::from_secs(u64::from(self.timeout_s)),
            settle_window_s: self.settle_window_s,
            zone,
            concurrency: self.concurrency,
        })
    }

    fn whereabouts(&self) -> Result<(Dialect, Whereabouts), ConfigError> {
        let main = SecretSource::named(
            "database_url",
            self.database_url_file.as_deref(),
            self.database_url_env.as_deref(),
            self.database_url_command.as_deref(),
        );
        let read = SecretSource::named(
            "read_url",
            self.read_url_file.as_deref(),
            self.read_url_env.as_deref(),
            self.read_url_command.as_deref(),
        );
        // None given is no mistake yet: SQLite has no address, and the second one may be left out.
        let none = |e: &SecretPlaceError| matches!(e, SecretPlaceError::NotOne { given: 0, .. });
        let read = match read {
            Ok(read) => Some(read),
            Err(e) if none(&e) => None,
            Err(e) => return Err(e.into()),
        };
        match self.database.as_str() {
            "sqlite" => {
                if !main.as_ref().is_err_and(none) || read.is_some() || self.plaintext {
                    let rule =
                        "must be \"postgres\" where an address or plaintext is given; SQLite has a path";
                    return Err(wrong("database", rule, &self.database));
                }
                if self.path.as_os_str().is_empty() {
                    return Err(wrong("path", "must be the database's file", ""));
                }
                Ok((Dialect::Sqlite, Whereabouts::Sqlite(self.path.clone())))
            }
            "postgres" => {
                let postgres = Whereabouts::Postgres {
                    main: main?,
                    read,
                    plaintext: self.plaintext,
                };
                Ok((Dialect::Postgres, postgres))
            }
            other => Err(wrong("database", "must be \"sqlite\" or \"postgres\"", other)),
        }
    }

    fn columns(&self) -> Result<Columns, ConfigError> {
        let c = &self.columns;
        let perhaps = |field, name: &str| match name {
            "" => Ok(None),
            name => Name::parse(field, name, 1).map(Some),
        };
        let columns = Columns {
            sup: Name::parse("columns.sup", &c.sup, 1)?,
            acct: Name::parse("columns.acct", &c.acct, 1)?,
            name: perhaps("columns.name", &c.name)?,
            eff: perhaps("columns.eff", &c.eff)?,
            phone: perhaps("columns.phone", &c.phone)?,
            apref: perhaps("columns.apref", &c.apref)?,
        };
        let set = [
            Some(&columns.sup),
            Some(&columns.acct),
            columns.eff.as_ref(),
            columns.apref.as_ref(),
        ];
        let set: Vec<&Name> = set.into_iter().flatten().collect();
        let twice = set
            .iter()
            .enumerate()
            .find(|(at, name)| set.iter().take(*at).any(|n| n == *name));
        match twice {
            Some((_, name)) => {
                let rule = "must name different columns for sup, acct, eff and apref";
                Err(wrong("columns", rule, &name.shown()))
            }
            None => Ok(columns),
        }
    }
}

impl Checked {
    /// The columns a statement must yield.
    pub fn columns_of(&self, statement: &str) -> Vec<&'static str> {
        let c = &self.columns;
        match statement {
            "sql.read" => {
                let perhaps = [
                    ("name", &c.name),
                    ("eff", &c.eff),
                    ("phone", &c.phone),
                    ("apref", &c.apref),
                ];
                let named = perhaps.into_iter().filter(|(_, column)| column.is_some());
                ["sup", "acct"]
                    .into_iter()
                    .chain(named.map(|(name, _)| name))
                    .collect()
            }
            "sql.callback" => vec!["by", "at"],
            "acts" => vec!["ref", "at"],
            "lookup" => vec!["sup", "prev", "acct", "eff", "apref"],
            _ => Vec::new(),
        }
    }
}

/// How many times `timeout_s` the settle window in Postgres holds: once for a statement that still runs there, once for a
/// transaction nobody ends, once for the end of it.
const WINDOW_TIMEOUTS: u32 = 3;

impl Name {
    fn parse(field: &'static str, text: &str, parts: usize) -> Result<Name, ConfigError> {
        let plain = |part: &str| {
            (1..=63).contains(&part.len())
                && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
                && !part.starts_with(|c: char| c.is_ascii_digit())
        };
        let names: Vec<String> = text.split('.').map(str::to_owned).collect();
        if names.len() > parts || !names.iter().all(|n| plain(n)) {
            let rule = match parts {
                1 => "must be a name of letters, digits and underscores, at most 63",
                _ => "must be a name such as vendor or purchasing.vendor: letters, digits and underscores",
            };
            return Err(wrong(field, rule, text));
        }
        Ok(Name(names))
    }

    /// As SQL says it.
    pub fn quoted(&self) -> String {
        let parts: Vec<String> = self.0.iter().map(|part| format!("\"{part}\"")).collect();
        parts.join(".")
    }

    /// As people say it.
    pub fn shown(&self) -> String {
        self.0.join(".")
    }

    /// Its parts: a schema perhaps, then the name.
    pub fn parts(&self) -> (Option<&str>, &str) {
        match self.0.as_slice() {
            [schema, name] => (Some(schema), name),
            [name] => (None, name),
            _ => (None, ""),
        }
    }
}

fn one_of<T: Copy>(field: &'static str, got: &str, words: &[(&str, T)]) -> Result<T, ConfigError> {
    let found = words.iter().find(|(word, _)| *word == got);
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let known: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        wrong(field, &format!("must be {}", known.join(" or ")), got)
    })
}

impl From<Broken> for ConfigError {
    fn from(broken: Broken) -> ConfigError {
        wrong(broken.field, &broken.rule, &broken.got)
    }
}

fn wrong(field: &'static str, rule: &str, got: &str) -> ConfigError {
    ConfigError::Field {
        field,
        rule: rule.to_owned(),
        got: got.to_owned(),
    }
}
