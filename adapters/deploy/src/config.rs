//! What an operator writes under `[adapters.deploy]`, and what it means once checked. The file's text never holds a
//! secret: it says where the token is.

mod check;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use wilco_adapter::secret::SecretSource;
use wilco_adapter::zone::Zone;

pub(crate) use check::is_version;

/// The `[adapters.deploy]` table.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeployConfig {
    /// Where things are deployed to, each under a name of the operator's: `[adapters.deploy.targets.api-prod]`.
    pub targets: BTreeMap<String, TargetConfig>,
    /// Seconds one push, one reading of a remote, or one switch may take, 1 to 3600.
    #[serde(default = "default_timeout_s")]
    pub timeout_s: u32,
    /// Seconds after the last byte in which a deployment may still land, 1 to 86400. At least twice `timeout_s`.
    #[serde(default = "default_settle_window_s")]
    pub settle_window_s: u32,
    /// The zone change windows are written in, for targets that name none: `+00:00`, `-05:30` or `Europe/London`.
    #[serde(default = "default_time_zone")]
    pub time_zone: String,
    /// How many acts may be under way at once, 1 to 256.
    #[serde(default = "default_concurrency")]
    pub concurrency: u32,
    /// Where the repositories that pushes are made from are kept.
    #[serde(default = "default_work")]
    pub work: PathBuf,
}

/// One place something is deployed to.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum TargetConfig {
    /// A branch of a git remote: what it points at is what runs.
    Git(GitConfig),
    /// A folder of releases with a `current` link.
    Folder(FolderConfig),
}

/// A branch of a git remote.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GitConfig {
    /// The service: `api` is deployed by handoffs with `item=svc:api`.
    pub service: String,
    /// The environment, as the slot `env` says it.
    pub env: String,
    /// The remote: `https://`, `ssh://`, `user@host:path`, a path; `http://` and `git://` on loopback only.
    pub remote: String,
    /// The branch that is moved.
    pub branch: String,
    /// Whether the first deployment may make the branch. Else it must be there: a name that was mistyped would be made.
    #[serde(default)]
    pub create_branch: bool,
    /// Where versions are looked up, as `remote` is written. Left out: the remote itself.
    pub source: Option<String>,
    /// The folder of refs our references are left in at the remote.
    #[serde(default = "default_records")]
    pub records: String,
    /// The program and its arguments that `git` reaches `ssh` remotes with.
    pub ssh_command: Option<Vec<String>>,
    /// The user the token belongs to, for `https://`.
    pub user: Option<String>,
    /// A file that holds the token, read anew for each call.
    pub token_file: Option<PathBuf>,
    /// An environment variable that holds it.
    pub token_env: Option<String>,
    /// A program and its arguments that print it; no shell is involved.
    pub token_command: Option<Vec<String>>,
    /// Whether a deployment must name its change window.
    #[serde(default)]
    pub window: WindowRule,
    /// The zone of its windows.
    pub time_zone: Option<String>,
}

/// A folder of releases.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FolderConfig {
    /// The service: `api` is deployed by handoffs with `item=svc:api`.
    pub service: String,
    /// The environment, as the slot `env` says it.
    pub env: String,
    /// The folder that holds `current`, `releases/` and `acts/`.
    pub folder: PathBuf,
    /// Where `NAME-VER.tar.gz` or folders `NAME-VER` lie.
    pub artefacts: PathBuf,
    /// The NAME of the artefacts. Left out: the service.
    pub name: Option<String>,
    /// How many leading folders of an archive's paths are left away, 0 to 8.
    #[serde(default)]
    pub strip: u32,
    /// The most bytes a release may hold, unpacked.
    #[serde(default = "default_max_bytes")]
    pub max_bytes: u64,
    /// The most files, folders and links a release may hold.
    #[serde(default = "default_max_entries")]
    pub max_entries: u32,
    /// A program and its arguments that say whether the service is healthy after the switch; no shell is involved.
    pub health: Option<Vec<String>>,
    /// Seconds the health program may take, 1 to 600.
    #[serde(default = "default_health_timeout_s")]
    pub health_timeout_s: u32,
    /// Whether a deployment must name its change window.
    #[serde(default)]
    pub window: WindowRule,
    /// The zone of its windows.
    pub time_zone: Option<String>,
}

/// Whether a `DEPLOY` must carry `win`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WindowRule {
    /// Without one, the hour that begins with the statement is stated and kept to.
    #[default]
    Optional,
    /// Without one it is refused.
    Required,
}

/// A field of `[adapters.deploy]` is wrong.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// One field breaks its rule.
    #[error("[adapters.deploy{at}] {field}: {rule} (it says {got:?})")]
    Field {
        /// The target's part of the table's name, `.targets.api-prod`; empty for the table itself.
        at: String,
        /// Which.
        field: &'static str,
        /// What it may be.
        rule: String,
        /// What it says.
        got: String,
    },
    /// The table is not TOML, misses a field or has one nobody knows.
    #[error("[adapters.deploy]: {0}")]
    Table(String),
}

/// The table, checked.
#[derive(Debug, Clone)]
pub(crate) struct Checked {
    pub targets: Vec<CheckedTarget>,
    pub timeout: Duration,
    pub settle_window_s: u32,
    pub concurrency: u32,
    pub work: PathBuf,
}

/// A target, checked.
#[derive(Debug, Clone)]
pub(crate) struct CheckedTarget {
    pub place: Place,
    pub kind: CheckedKind,
}

/// What every kind of target has.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub name: String,
    pub service: String,
    pub env: String,
    pub zone: Zone,
    pub window: WindowRule,
}

/// What only one kind has.
#[derive(Debug, Clone)]
pub(crate) enum CheckedKind {
    Git(CheckedGit),
    Folder(CheckedFolder),
}

/// A git remote, checked.
#[derive(Debug, Clone)]
pub(crate) struct CheckedGit {
    pub remote: String,
    pub source: String,
    /// `refs/heads/<branch>`
    pub branch: String,
    /// Whether the first deployment may make it.
    pub create_branch: bool,
    /// Without a final slash.
    pub records: String,
    pub ssh_command: Option<String>,
    pub token: Option<(String, SecretSource)>,
}

/// A release folder, checked.
#[derive(Debug, Clone)]
pub(crate) struct CheckedFolder {
    pub folder: PathBuf,
    pub artefacts: PathBuf,
    pub name: String,
    pub strip: usize,
    pub limits: Limits,
    pub health: Option<Vec<String>>,
    pub health_timeout: Duration,
}

/// How large a release may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub bytes: u64,
    pub entries: u32,
}

fn default_timeout_s() -> u32 {
    30
}

fn default_settle_window_s() -> u32 {
    120
}

fn default_time_zone() -> String {
    "+00:00".to_owned()
}

fn default_concurrency() -> u32 {
    4
}

fn default_work() -> PathBuf {
    PathBuf::from("deploy")
}

fn default_records() -> String {
    "refs/wilco".to_owned()
}

fn default_max_bytes() -> u64 {
    2 * 1024 * 1024 * 1024
}

fn default_max_entries() -> u32 {
    100_000
}

fn default_health_timeout_s() -> u32 {
    20
}

impl DeployConfig {
    /// Reads the table from TOML text (its fields at the top).
    ///
    /// # Errors
    /// [`ConfigError::Table`] where it is not TOML or has a field missing, unknown or of another type.
    pub fn from_toml(text: &str) -> Result<DeployConfig, ConfigError> {
        toml::from_str(text).map_err(|e| ConfigError::Table(e.message().to_owned()))
    }

    /// The same table with relative paths counted from the data folder.
    #[must_use]
    pub fn in_folder(mut self, data: &Path) -> DeployConfig {
        self.work = data.join(&self.work);
        for target in self.targets.values_mut() {
            match target {
                TargetConfig::Git(git) => {
                    git.remote = check::remote_in(&git.remote, data);
                    git.source = git.source.as_deref().map(|s| check::remote_in(s, data));
                    git.token_file = git.token_file.as_ref().map(|f| data.join(f));
                }
                TargetConfig::Folder(folder) => {
                    folder.folder = data.join(&folder.folder);
                    folder.artefacts = data.join(&folder.artefacts);
                }
            }
        }
        self
    }
}
