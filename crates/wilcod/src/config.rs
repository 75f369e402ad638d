//! `wilcod.toml`: what it may say, what is meant where it says nothing, and the file written at first start.
//!
//! It never holds a secret. A field nobody knows is refused, and a field that breaks its rule is named with the rule,
//! all of them at once.

use std::path::{Path, PathBuf};
use std::time::Duration;

use adapter_bank::BankConfig;
use adapter_deploy::DeployConfig;
use adapter_mail::MailConfig;
use adapter_records::RecordsConfig;
use adapter_sim::SimConfig;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::files::{self, FileError};

/// The file's name in the data folder.
pub const CONFIG_FILE: &str = "wilcod.toml";

/// What is written at first start: every setting, with the value it has anyway.
pub const DEFAULT_TEXT: &str = include_str!("wilcod.toml");

/// Everything `wilcod.toml` may say.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The agents we carry out handoffs for: a handoff `to` anyone else is refused.
    pub agents: Vec<String>,
    /// The one port.
    pub server: Server,
    /// Acts and their times.
    pub acts: Acts,
    /// The background round.
    pub recovery: Recovery,
    /// Where acts are kept.
    pub store: Store,
    /// The lab, where an adapter points at it.
    pub lab: Lab,
    /// Who carries out what.
    pub adapters: Adapters,
}

/// `[server]`: limits of the port.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Server {
    /// The longest request, in bytes.
    pub request_bytes_max: u32,
    /// How many requests are answered at once; one more is told `BUSY`.
    pub requests_max: u32,
    /// How many connections are open at once; more wait.
    pub connections_max: u32,
    /// Seconds the body of a request may take to arrive.
    pub body_time_s: u32,
    /// Seconds a request may take beside the waiting it asked for. An act that was begun goes on in any case.
    pub request_time_s: u32,
    /// Seconds running acts get to end when the daemon is told to stop.
    pub grace_s: u32,
}

/// `[acts]`: times and how many.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Acts {
    /// Seconds a statement can be confirmed; the end is rounded up to the minute.
    pub statement_ttl_s: u32,
    /// Seconds a handoff without `exp` and `due` stays open.
    pub handoff_age_s: u32,
    /// Seconds a commit or cancel waits for the outcome where the caller names no time.
    pub wait_s: u32,
    /// The longest a caller may wait, in seconds.
    pub wait_max_s: u32,
    /// Seconds after which an execution should be over.
    pub execution_deadline_s: u32,
    /// How many acts may be prepared, executed or looked up at once, over all adapters.
    pub concurrency: u32,
}

/// `[recovery]`: how often and how patiently.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Recovery {
    /// Milliseconds between two rounds.
    pub interval_ms: u32,
    /// Milliseconds before an act in doubt is looked up again; doubles each time.
    pub lookup_pause_ms: u32,
    /// The longest such pause, in milliseconds.
    pub lookup_pause_max_ms: u32,
    /// Lookups without an answer before a person is called.
    pub lookups_before_escalation: u32,
    /// Seconds this daemon must itself have watched another daemon's overdue claim unchanged before it takes it over.
    pub takeover_after_s: u32,
    /// Milliseconds between two looks at an act somebody waits for, in case another daemon writes it.
    pub poll_interval_ms: u32,
    /// Milliseconds between two questions to a counterparty how it does, while it answers.
    pub health_interval_ms: u32,
}

/// `[store]`: where acts are kept. Without a database's URL, in the data folder.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Store {
    /// A file that holds the database's URL and that only its owner may read.
    pub database_url_file: Option<PathBuf>,
    /// A variable of the environment that holds it.
    pub database_url_env: Option<String>,
    /// The most connections to the database.
    pub connections_max: u32,
    /// Milliseconds one statement may take.
    pub statement_timeout_ms: u32,
    /// Milliseconds to wait for a free connection; then the caller is told to come back.
    pub connection_wait_ms: u32,
    /// Where the keys are that tokens are derived from; every daemon on one database needs the same ones.
    pub token_key_file: PathBuf,
}

/// `[lab]`: the loopback counterparties started beside the daemon.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Lab {
    /// The bank's date: `clock`, `start` (the date it starts on, for ever), or `YYYYMMDD`.
    pub today: String,
    /// A person must authorise each consent.
    pub manual: bool,
    /// Seconds a payment stays pending.
    pub settle_after_s: u32,
}

/// `[adapters.*]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Adapters {
    /// UK Open Banking payment initiation.
    pub bank: Option<BankConfig>,
    /// Mail, by SMTP or into a Maildir.
    pub mail: Option<MailConfig>,
    /// A vendor table in a database.
    pub records: Option<RecordsConfig>,
    /// Git remotes and release folders.
    pub deploy: Option<DeployConfig>,
    /// The seeded adapter for simulation and measurement: it carries out nothing.
    pub sim: Option<SimConfig>,
}

impl Adapters {
    fn is_empty(&self) -> bool {
        let Adapters {
            bank,
            mail,
            records,
            deploy,
            sim,
        } = self;
        bank.is_none() && mail.is_none() && records.is_none() && deploy.is_none() && sim.is_none()
    }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            agents: ["payer", "operator", "mailer"].map(str::to_owned).to_vec(),
            server: Server::default(),
            acts: Acts::default(),
            recovery: Recovery::default(),
            store: Store::default(),
            lab: Lab::default(),
            adapters: Adapters::default(),
        }
    }
}

impl Default for Server {
    fn default() -> Self {
        Server {
            request_bytes_max: 262_144,
            requests_max: 512,
            connections_max: 1024,
            body_time_s: 10,
            request_time_s: 30,
            grace_s: 20,
        }
    }
}

impl Default for Acts {
    fn default() -> Self {
        Acts {
            statement_ttl_s: 600,
            handoff_age_s: 86_400,
            wait_s: 30,
            wait_max_s: 120,
            execution_deadline_s: 60,
            concurrency: 256,
        }
    }
}

impl Default for Recovery {
    fn default() -> Self {
        Recovery {
            interval_ms: 2_000,
            lookup_pause_ms: 2_000,
            lookup_pause_max_ms: 300_000,
            lookups_before_escalation: 10,
            takeover_after_s: 60,
            poll_interval_ms: 500,
            health_interval_ms: 10_000,
        }
    }
}

impl Default for Store {
    fn default() -> Self {
        Store {
            database_url_file: None,
            database_url_env: None,
            connections_max: 32,
            statement_timeout_ms: 10_000,
            connection_wait_ms: 2_000,
            token_key_file: PathBuf::from(crate::keys::TOKEN_KEY_FILE),
        }
    }
}

impl Default for Lab {
    fn default() -> Self {
        Lab {
            today: "clock".to_owned(),
            manual: false,
            settle_after_s: 0,
        }
    }
}

/// What is wrong with the configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file named on the command line is not there.
    #[error("{} does not exist: name another file, or leave --config out to have one written", path.display())]
    Missing {
        /// Which file.
        path: PathBuf,
    },
    /// It is not TOML, or a field is unknown, missing or of another type.
    #[error("{}: {problem}", path.display())]
    Form {
        /// Which file.
        path: PathBuf,
        /// What is wrong, with the line.
        problem: String,
    },
    /// Fields break their rules.
    #[error("{}: {}", path.display(), rules.join("; "))]
    Rules {
        /// Which file.
        path: PathBuf,
        /// Each field with its rule.
        rules: Vec<String>,
    },
}

/// Reads `named`, else `DATA/wilcod.toml`, which is written first where it is missing.
///
/// # Errors
/// [`ConfigError`] names the file, the fields and their rules.
pub fn load(data: &Path, named: Option<&Path>) -> Result<Config, ConfigError> {
    let path = data.join(CONFIG_FILE);
    if named.is_none() && files::read(&path)?.is_none() {
        files::write_whole(&path, 0o600, DEFAULT_TEXT)?;
    }
    peek(data, named)
}

/// Reads the configuration as [`load`] does, and writes nothing: where there is none, what would be written is meant.
///
/// # Errors
/// As [`load`].
pub fn peek(data: &Path, named: Option<&Path>) -> Result<Config, ConfigError> {
    let path = named.map_or_else(|| data.join(CONFIG_FILE), Path::to_owned);
    let text = match (files::read(&path)?, named) {
        (Some(text), _) => text,
        (None, None) => DEFAULT_TEXT.to_owned(),
        (None, Some(_)) => return Err(ConfigError::Missing { path }),
    };
    let config: Config = match toml_from(&text) {
        Ok(config) => config,
        Err(problem) => return Err(ConfigError::Form { path, problem }),
    };
    let rules = config.broken_rules();
    if rules.is_empty() {
        Ok(config)
    } else {
        Err(ConfigError::Rules { path, rules })
    }
}

/// Reads TOML; a problem is told with its line and what stands there.
///
/// # Errors
/// One sentence.
pub fn toml_from<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    toml::from_str(text).map_err(|e| {
        let Some(span) = e.span() else {
            return e.message().to_owned();
        };
        let before = text.get(..span.start).unwrap_or_default();
        let number = before.matches('\n').count() + 1;
        let line: String = text
            .lines()
            .nth(number - 1)
            .unwrap_or_default()
            .trim()
            .chars()
            .take(100)
            .collect();
        let message = e.message().replace('\n', ", ");
        without_passwords(&format!("line {number} (`{line}`): {message}"))
    })
}

/// Text in which no URL shows who logs in and with which password.
#[must_use]
pub fn without_passwords(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        shown.push_str(before);
        let end = after
            .find(|c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\'' | '`'))
            .unwrap_or(after.len());
        match after[..end].rfind('@') {
            Some(at) => {
                shown.push_str("***");
                rest = &after[at..];
            }
            None => rest = after,
        }
    }
    shown.push_str(rest);
    shown
}

/// Whether a name may stand in `from` and `to` (RW1 specification §2.2) and is not the one that stands for people.
#[must_use]
pub fn is_agent(name: &str) -> bool {
    let letter = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    !name.is_empty() && name.len() <= 64 && name.bytes().all(letter) && name != "human"
}

/// A date as RW1 writes it.
#[must_use]
pub fn date_from(text: &str) -> Option<time::Date> {
    if text.len() != 8 || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let month = time::Month::try_from(text[4..6].parse::<u8>().ok()?).ok()?;
    time::Date::from_calendar_date(text[..4].parse().ok()?, month, text[6..].parse().ok()?).ok()
}

impl Config {
    /// Every rule that is broken, naming the field.
    #[must_use]
    pub fn broken_rules(&self) -> Vec<String> {
        let mut rules = Vec::new();
        if self.agents.is_empty() {
            rules.push("agents: name at least one agent to carry out handoffs for".to_owned());
        }
        for (at, agent) in self.agents.iter().enumerate() {
            if !is_agent(agent) {
                rules.push(format!(
                    "agents: {agent:?} is not an agent name (1 to 64 of A-Z a-z 0-9 . _ -, not `human`)"
                ));
            } else if self.agents[..at].contains(agent) {
                rules.push(format!("agents: `{agent}` is named twice"));
            }
        }
        let mut between = |field: &str, got: u32, least: u32, most: u32| {
            if !(least..=most).contains(&got) {
                rules.push(format!("{field}: from {least} to {most}, not {got}"));
            }
        };
        between(
            "server.request_bytes_max",
            self.server.request_bytes_max,
            16_384,
            16_777_216,
        );
        between("server.requests_max", self.server.requests_max, 1, 100_000);
        between("server.connections_max", self.server.connections_max, 1, 100_000);
        between("server.body_time_s", self.server.body_time_s, 1, 3_600);
        between("server.request_time_s", self.server.request_time_s, 1, 3_600);
        between("server.grace_s", self.server.grace_s, 0, 3_600);
        between("acts.statement_ttl_s", self.acts.statement_ttl_s, 1, 86_400);
        between("acts.handoff_age_s", self.acts.handoff_age_s, 1, 31_536_000);
        between("acts.wait_s", self.acts.wait_s, 1, 3_600);
        between(
            "acts.wait_max_s",
            self.acts.wait_max_s,
            self.acts.wait_s.clamp(1, 3_600),
            3_600,
        );
        between(
            "acts.execution_deadline_s",
            self.acts.execution_deadline_s,
            1,
            86_400,
        );
        between("acts.concurrency", self.acts.concurrency, 1, 10_000);
        between("recovery.interval_ms", self.recovery.interval_ms, 10, 3_600_000);
        between(
            "recovery.lookup_pause_ms",
            self.recovery.lookup_pause_ms,
            10,
            3_600_000,
        );
        let least = self.recovery.lookup_pause_ms.clamp(10, 3_600_000);
        between(
            "recovery.lookup_pause_max_ms",
            self.recovery.lookup_pause_max_ms,
            least,
            86_400_000,
        );
        between(
            "recovery.lookups_before_escalation",
            self.recovery.lookups_before_escalation,
            1,
            1_000_000,
        );
        between(
            "recovery.takeover_after_s",
            self.recovery.takeover_after_s,
            1,
            86_400,
        );
        between(
            "recovery.poll_interval_ms",
            self.recovery.poll_interval_ms,
            10,
            60_000,
        );
        between(
            "recovery.health_interval_ms",
            self.recovery.health_interval_ms,
            100,
            3_600_000,
        );
        between("store.connections_max", self.store.connections_max, 2, 1_000);
        between(
            "store.statement_timeout_ms",
            self.store.statement_timeout_ms,
            100,
            600_000,
        );
        between(
            "store.connection_wait_ms",
            self.store.connection_wait_ms,
            10,
            60_000,
        );
        between("lab.settle_after_s", self.lab.settle_after_s, 0, 86_400);
        if self.store.database_url_file.is_some() && self.store.database_url_env.is_some() {
            rules.push(
                "store: name one place for the database's URL, database_url_file or database_url_env"
                    .to_owned(),
            );
        }
        if !matches!(self.lab.today.as_str(), "clock" | "start") && date_from(&self.lab.today).is_none() {
            rules.push(format!(
                "lab.today: `clock`, `start` or a date YYYYMMDD, not {:?}",
                self.lab.today
            ));
        }
        if self.adapters.is_empty() {
            rules.push("adapters: configure at least one, for example [adapters.bank]".to_owned());
        }
        rules
    }

    /// The engine's share. `house` is the data folder's name; `sole_owner` says that nobody else can have the store.
    #[must_use]
    pub fn engine(&self, house: String, sole_owner: bool, orphan: bool) -> wilco_engine::Config {
        let seconds = |s: u32| Duration::from_secs(u64::from(s));
        let millis = |ms: u32| Duration::from_millis(u64::from(ms));
        wilco_engine::Config {
            agents: self.agents.clone(),
            statement_ttl: seconds(self.acts.statement_ttl_s),
            handoff_age: seconds(self.acts.handoff_age_s),
            default_wait: seconds(self.acts.wait_s),
            max_wait: seconds(self.acts.wait_max_s),
            execution_deadline: seconds(self.acts.execution_deadline_s),
            recovery_interval: millis(self.recovery.interval_ms),
            lookup_pause: millis(self.recovery.lookup_pause_ms),
            lookup_pause_max: millis(self.recovery.lookup_pause_max_ms),
            lookups_before_escalation: self.recovery.lookups_before_escalation,
            concurrency: self.acts.concurrency,
            sole_owner,
            house,
            takeover_allowance: seconds(self.recovery.takeover_after_s),
            health_interval: millis(self.recovery.health_interval_ms),
            poll_interval: millis(self.recovery.poll_interval_ms),
            orphan,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Folder;

    #[test]
    fn the_file_written_first_says_what_is_meant_anyway() {
        let folder = Folder::new();
        let written = load(folder.path(), None).expect("loads");
        let on_disk = std::fs::read_to_string(folder.path().join(CONFIG_FILE)).expect("reads");
        assert_eq!(on_disk, DEFAULT_TEXT);
        assert!(written.adapters.bank.as_ref().is_some_and(BankConfig::wants_lab));
        let adapters = written.adapters.clone();
        assert!(adapters.mail.is_some() && adapters.records.is_some() && adapters.deploy.is_some());
        assert!(adapters.sim.is_none());
        let meant = Config {
            adapters,
            ..Config::default()
        };
        assert_eq!(format!("{written:?}"), format!("{meant:?}"));
    }

    #[test]
    fn every_setting_stands_in_the_file_written_first() {
        let value: toml::Table = toml::from_str(DEFAULT_TEXT).expect("parses");
        let names = |table: &str| -> Vec<String> {
            value[table]
                .as_table()
                .map(|t| t.keys().cloned().collect())
                .unwrap_or_default()
        };
        let debug = format!("{:?}", Config::default());
        for table in ["server", "acts", "recovery", "store", "lab"] {
            for name in names(table) {
                assert!(debug.contains(&format!("{name}: ")), "{table}.{name}");
            }
        }
        assert_eq!(
            ["server", "acts", "recovery", "store", "lab"].map(|t| names(t).len()),
            [6, 6, 7, 4, 3],
            "a new setting belongs into the file as well"
        );
    }

    #[test]
    fn a_password_is_never_repeated() {
        for (text, shown) in [
            ("postgres://u:p@h/d", "postgres://***@h/d"),
            (
                "x postgres://h/d?user=u, http://a@b c",
                "x postgres://h/d?user=u, http://***@b c",
            ),
            ("postgres://u:p@q@h", "postgres://***@h"),
            ("no url @ all", "no url @ all"),
        ] {
            assert_eq!(without_passwords(text), shown);
        }
        let problem =
            toml_from::<Config>("[store]\ndatabase_url = \"postgres://u:secret@h/d\"").expect_err("unknown");
        assert!(
            problem.contains("database_url_file") && !problem.contains("secret"),
            "{problem}"
        );
    }

    #[test]
    fn a_wrong_field_is_named_with_its_line_or_its_rule() {
        let folder = Folder::new();
        let path = folder.path().join("mine.toml");
        let bank = "[adapters.bank]\nurl=\"lab\"\npayees=\"lab\"\ndebtor_account=\"20-00-00/55779911\"\n";
        for (text, needles) in [
            (
                "agnts = [\"payer\"]".to_owned(),
                vec!["mine.toml", "line 1", "agnts"],
            ),
            (format!("{bank}tokn_file=\"x\"\n"), vec!["line 5", "tokn_file"]),
            (
                "\n[acts]\nwait_s = \"soon\"".to_owned(),
                vec!["line 3", "wait_s = \"soon\"", "expected u32"],
            ),
            (format!("agents=[]\n{bank}"), vec!["agents: name at least one"]),
            (
                format!("agents=[\"a b\",\"x\",\"x\"]\n{bank}"),
                vec!["\"a b\"", "`x` is named twice"],
            ),
            (
                format!("[acts]\nwait_s=0\nconcurrency=0\n{bank}"),
                vec!["acts.wait_s: from 1 to 3600, not 0", "acts.concurrency"],
            ),
            (
                format!("[acts]\nwait_s=100\nwait_max_s=10\n{bank}"),
                vec!["acts.wait_max_s: from 100"],
            ),
            (
                format!("[store]\ndatabase_url_env=\"X\"\ndatabase_url_file=\"y\"\n{bank}"),
                vec!["store: name one place"],
            ),
            (
                format!("[store]\ndatabase_url=\"postgres://u:secret@h/d\"\n{bank}"),
                vec!["database_url"],
            ),
            (format!("[lab]\ntoday=\"20260231\"\n{bank}"), vec!["lab.today"]),
            (
                "agents=[\"payer\"]".to_owned(),
                vec!["adapters: configure at least one"],
            ),
        ] {
            std::fs::write(&path, &text).expect("written");
            let problem = load(folder.path(), Some(&path)).expect_err(&text).to_string();
            for needle in needles {
                assert!(problem.contains(needle), "{text}: {problem}");
            }
        }
        let missing = load(folder.path(), Some(&folder.path().join("none.toml"))).expect_err("missing");
        assert!(missing.to_string().contains("does not exist"), "{missing}");
    }
}
