//! The rules of the table's fields.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use wilco_adapter::secret::SecretSource;
use wilco_adapter::zone::{ZONE_RULE, Zone};

use super::{
    Checked, CheckedFolder, CheckedGit, CheckedKind, CheckedTarget, ConfigError, DeployConfig, FolderConfig,
    GitConfig, Limits, Place, TargetConfig, WindowRule,
};

/// How many times `timeout_s` the settle window holds: once for a push whose daemon died (its watcher ends it after one
/// `timeout_s`), and once for the remote to finish what it was given.
const WINDOW_TIMEOUTS: u32 = 2;

/// The most targets of one table.
const TARGETS_MAX: usize = 1_000;

impl DeployConfig {
    /// Checks every field. No network, and no look at the file system.
    pub(crate) fn checked(&self) -> Result<Checked, ConfigError> {
        let top = At(String::new());
        top.between("timeout_s", self.timeout_s, 1, 3_600)?;
        top.between("settle_window_s", self.settle_window_s, 1, 86_400)?;
        top.between("concurrency", self.concurrency, 1, 256)?;
        let least = self.timeout_s * WINDOW_TIMEOUTS;
        if self.settle_window_s < least {
            let rule = format!(
                "must be at least {WINDOW_TIMEOUTS} times timeout_s, which is {least}: for one timeout_s a push may \
                 outlive the daemon; raise it, or lower timeout_s"
            );
            return Err(top.wrong("settle_window_s", &rule, &self.settle_window_s.to_string()));
        }
        if self.targets.is_empty() || self.targets.len() > TARGETS_MAX {
            let rule = "must hold at least one target, [adapters.deploy.targets.NAME], and at most 1000";
            return Err(top.wrong("targets", rule, &self.targets.len().to_string()));
        }
        let mut targets = Vec::with_capacity(self.targets.len());
        let (mut served, mut places) = (BTreeMap::new(), BTreeMap::new());
        for (name, target) in &self.targets {
            let at = At(format!(".targets.{name}"));
            let target = at.target(name, target, &self.time_zone)?;
            let serves = (target.place.service.clone(), target.place.env.clone());
            if let Some(other) = served.insert(serves, name) {
                let rule = format!("target {other} has this service and env already");
                return Err(at.wrong("service", &rule, &target.place.service));
            }
            // Each would take what the other does for somebody else's doing.
            let (field, place) = place_of(&target.kind);
            if let Some(other) = places.insert(place, name) {
                let (rule, got) = match &target.kind {
                    CheckedKind::Git(git) => ("has this remote and branch", git.branch.clone()),
                    CheckedKind::Folder(folder) => ("has this folder", folder.folder.display().to_string()),
                };
                return Err(at.wrong(field, &format!("target {other} {rule} already"), &got));
            }
            targets.push(target);
        }
        Ok(Checked {
            targets,
            timeout: Duration::from_secs(u64::from(self.timeout_s)),
            settle_window_s: self.settle_window_s,
            concurrency: self.concurrency,
            work: self.work.clone(),
        })
    }
}

/// What a target changes, so that two that change the same can be told: the field that names it, and its name, written one way.
fn place_of(kind: &CheckedKind) -> (&'static str, String) {
    match kind {
        CheckedKind::Git(git) => {
            let remote = git.remote.strip_prefix("file://").unwrap_or(&git.remote);
            let remote = remote.trim_end_matches('/');
            let remote = remote.strip_suffix(".git").unwrap_or(remote);
            ("branch", format!("{remote} {}", git.branch))
        }
        CheckedKind::Folder(folder) => {
            let path = std::path::absolute(&folder.folder).unwrap_or_else(|_| folder.folder.clone());
            let mut plain = PathBuf::new();
            for part in path.components() {
                match part {
                    Component::CurDir => {}
                    Component::ParentDir => {
                        plain.pop();
                    }
                    part => plain.push(part),
                }
            }
            ("folder", plain.display().to_string())
        }
    }
}

/// Where in the table we are.
struct At(String);

impl At {
    fn wrong(&self, field: &'static str, rule: &str, got: &str) -> ConfigError {
        ConfigError::Field {
            at: self.0.clone(),
            field,
            rule: rule.to_owned(),
            got: got.chars().take(200).collect(),
        }
    }

    fn between(&self, field: &'static str, got: u32, least: u32, most: u32) -> Result<(), ConfigError> {
        if (least..=most).contains(&got) {
            return Ok(());
        }
        Err(self.wrong(field, &format!("must be {least} to {most}"), &got.to_string()))
    }

    fn target(&self, name: &str, target: &TargetConfig, zone: &str) -> Result<CheckedTarget, ConfigError> {
        if !is_word(name) {
            let rule = "a target's name is made of letters, digits, '-' and '_', at most 60";
            return Err(self.wrong("targets", rule, name));
        }
        match target {
            TargetConfig::Git(git) => {
                let zone = git.time_zone.as_deref().unwrap_or(zone);
                let place = self.place(name, &git.service, &git.env, zone, git.window)?;
                Ok(CheckedTarget {
                    place,
                    kind: CheckedKind::Git(self.git(git)?),
                })
            }
            TargetConfig::Folder(folder) => {
                let zone = folder.time_zone.as_deref().unwrap_or(zone);
                let place = self.place(name, &folder.service, &folder.env, zone, folder.window)?;
                let kind = CheckedKind::Folder(self.folder(folder)?);
                Ok(CheckedTarget { place, kind })
            }
        }
    }

    fn place(
        &self,
        name: &str,
        service: &str,
        env: &str,
        zone: &str,
        window: WindowRule,
    ) -> Result<Place, ConfigError> {
        if !is_version(service) || service.contains('/') {
            let rule = "must be the part after svc: of the item, made of letters, digits, '.', '-' and '_'";
            return Err(self.wrong("service", rule, service));
        }
        if env.is_empty() || env.len() > 20 || !env.bytes().all(|b| b.is_ascii_uppercase()) {
            let rule = "must be a code of the profile's env, such as DEV, STAGE or PROD";
            return Err(self.wrong("env", rule, env));
        }
        let zone_read = Zone::parse(zone).ok_or_else(|| self.wrong("time_zone", ZONE_RULE, zone))?;
        Ok(Place {
            name: name.to_owned(),
            service: service.to_owned(),
            env: env.to_owned(),
            zone: zone_read,
            window,
        })
    }

    fn git(&self, git: &GitConfig) -> Result<CheckedGit, ConfigError> {
        if cfg!(not(target_os = "linux")) {
            let rule = "git targets need Linux; a folder works here";
            return Err(self.wrong("kind", rule, "git"));
        }
        self.remote("remote", &git.remote)?;
        if let Some(source) = &git.source {
            self.remote("source", source)?;
        }
        if !is_ref_path(&git.branch) {
            let rule = "must be a branch's name such as prod or deploy/prod";
            return Err(self.wrong("branch", rule, &git.branch));
        }
        let records = git.records.as_str();
        if !is_ref_path(records)
            || !records.starts_with("refs/")
            || records.starts_with("refs/heads")
            || records.starts_with("refs/tags")
        {
            let rule = "must be a folder of refs such as refs/wilco, and neither refs/heads nor refs/tags";
            return Err(self.wrong("records", rule, records));
        }
        Ok(CheckedGit {
            remote: git.remote.clone(),
            source: git.source.clone().unwrap_or_else(|| git.remote.clone()),
            branch: format!("refs/heads/{}", git.branch),
            create_branch: git.create_branch,
            records: records.to_owned(),
            ssh_command: self.ssh_command(git)?,
            token: self.token(git)?,
        })
    }

    /// What may be handed to `git` as the address of a repository.
    fn remote(&self, field: &'static str, remote: &str) -> Result<(), ConfigError> {
        let rule = "must be an https:// or ssh:// address, user@host:path, or a path; http:// and git:// are allowed \
                    on loopback only, because what they carry can be changed on the way";
        let bad = || Err(self.wrong(field, rule, &without_secret(remote)));
        let no_text = |c: char| c.is_control() || c.is_whitespace();
        if remote.is_empty() || remote.len() > 1_000 || remote.starts_with('-') || remote.contains(no_text) {
            return bad();
        }
        let Some((scheme, rest)) = remote.split_once("://") else {
            // `ext::sh -c ...` and its like run programs.
            return if remote.contains("::") { bad() } else { Ok(()) };
        };
        let authority = rest.split('/').next().unwrap_or_default();
        let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        if user.contains(':') || (scheme != "ssh" && !user.is_empty()) || host.starts_with('-') {
            let rule = "must not hold a password or a user; name them in user and token_file";
            return Err(self.wrong(field, rule, &without_secret(remote)));
        }
        match scheme {
            "file" => Ok(()),
            "https" | "ssh" if !host.is_empty() => Ok(()),
            "http" | "git" if is_loopback(host) => Ok(()),
            _ => bad(),
        }
    }

    fn ssh_command(&self, git: &GitConfig) -> Result<Option<String>, ConfigError> {
        let Some(words) = &git.ssh_command else {
            return Ok(None);
        };
        // `git` hands this to a shell, so only what a shell takes literally is let through.
        let plain = |w: &String| {
            !w.is_empty()
                && w.bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"/._-=@:,%+".contains(&b))
        };
        if words.is_empty() || words.len() > 40 || !words.iter().all(plain) {
            let rule = "must name a program, then its arguments, in letters, digits and /._-=@:,%+";
            return Err(self.wrong("ssh_command", rule, &words.join(" ")));
        }
        Ok(Some(words.join(" ")))
    }

    fn token(&self, git: &GitConfig) -> Result<Option<(String, SecretSource)>, ConfigError> {
        let (file, env, command) = (&git.token_file, &git.token_env, &git.token_command);
        if file.is_none() && env.is_none() && command.is_none() {
            return match &git.user {
                None => Ok(None),
                Some(user) => {
                    let rule = "needs token_file, token_env or token_command beside it";
                    Err(self.wrong("user", rule, user))
                }
            };
        }
        let source = SecretSource::named("token", file.as_deref(), env.as_deref(), command.as_deref());
        let source = source.map_err(|e| self.wrong("token_file", &e.to_string(), ""))?;
        if !git.remote.starts_with("https://") && !git.remote.starts_with("http://") {
            let rule = "a token is for https:// remotes; ssh has keys of its own";
            return Err(self.wrong("token_file", rule, &git.remote));
        }
        let user = git.user.clone().unwrap_or_else(|| "wilco".to_owned());
        if user.is_empty() || user.contains(':') || !user.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(self.wrong("user", "must be one word of visible ASCII without ':'", &user));
        }
        Ok(Some((user, source)))
    }

    fn folder(&self, folder: &FolderConfig) -> Result<CheckedFolder, ConfigError> {
        self.between("strip", folder.strip, 0, 8)?;
        self.between("health_timeout_s", folder.health_timeout_s, 1, 600)?;
        self.between("max_entries", folder.max_entries, 1, 5_000_000)?;
        for (field, path) in [("folder", &folder.folder), ("artefacts", &folder.artefacts)] {
            if path.as_os_str().is_empty() {
                return Err(self.wrong(field, "must be the path of a folder", ""));
            }
        }
        if folder.folder == folder.artefacts {
            let rule = "must be another folder than folder: releases are unpacked there";
            return Err(self.wrong("artefacts", rule, &folder.artefacts.display().to_string()));
        }
        if folder.max_bytes == 0 {
            return Err(self.wrong("max_bytes", "must be at least 1", "0"));
        }
        let name = folder.name.clone().unwrap_or_else(|| folder.service.clone());
        if !is_version(&name) || name.contains('/') {
            let rule = "must be the NAME of NAME-VER.tar.gz, made of letters, digits, '.', '-' and '_'";
            return Err(self.wrong("name", rule, &name));
        }
        if folder
            .health
            .as_ref()
            .is_some_and(|w| w.first().is_none_or(String::is_empty))
        {
            return Err(self.wrong("health", "must name a program, then its arguments", ""));
        }
        Ok(CheckedFolder {
            folder: folder.folder.clone(),
            artefacts: folder.artefacts.clone(),
            name,
            strip: folder.strip as usize,
            limits: Limits {
                bytes: folder.max_bytes,
                entries: folder.max_entries,
            },
            health: folder.health.clone(),
            health_timeout: Duration::from_secs(u64::from(folder.health_timeout_s)),
        })
    }
}

/// A remote that is a path, counted from the data folder.
pub(super) fn remote_in(remote: &str, data: &Path) -> String {
    let scheme = remote.contains("://");
    let first = remote.split('/').next().unwrap_or_default();
    // `host:path` is ssh's; git takes what has no colon before its first slash for a path.
    if scheme || first.contains(':') || remote.is_empty() {
        return remote.to_owned();
    }
    data.join(remote).display().to_string()
}

/// Whether a text may be a version, a name or a part of a path: `v2.4.1`, `release/2.4`, `6ce3c90`.
pub(crate) fn is_version(text: &str) -> bool {
    let first = text.bytes().next();
    first.is_some_and(|b| b.is_ascii_alphanumeric())
        && text.len() <= 100
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-/".contains(&b))
        && is_ref_path(text)
}

fn is_word(text: &str) -> bool {
    let good = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    !text.is_empty() && text.len() <= 60 && text.bytes().all(good)
}

/// The narrower rules of `git check-ref-format`.
fn is_ref_path(text: &str) -> bool {
    let part =
        |p: &str| !p.is_empty() && !p.starts_with(['.', '-']) && !p.ends_with('.') && !p.ends_with(".lock");
    text.len() <= 200
        && !text.contains("..")
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-/".contains(&b))
        && text.split('/').all(part)
}

fn is_loopback(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// An address as it may be shown: whatever stands before an `@` is not.
fn without_secret(remote: &str) -> String {
    match remote.rsplit_once('@') {
        Some((_, rest)) if remote.contains("://") => format!("…@{rest}"),
        _ => remote.to_owned(),
    }
}
