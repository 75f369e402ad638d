//! Calling git: with no configuration but ours, no prompts, no credential helpers, no hooks but the gate.

use std::time::Duration;

use wilco_adapter::secret::Shape;

use super::Git;
use super::parse::{self, Ref};
use crate::program::{self, Call, Ended, Failure};

/// The most output of one call that is read, in bytes. A remote with a hundred thousand refs stays below it.
const OUTPUT_MAX: usize = 16 * 1024 * 1024;

impl Git {
    /// Runs git in our repository and returns what it printed, if it succeeded.
    pub(super) async fn git(&self, arguments: &[&str], input: &str) -> Result<String, String> {
        let ended = self
            .git_ended(arguments, input, self.timeout)
            .await
            .map_err(|e| e.to_string())?;
        match ended.code {
            Some(0) => Ok(ended.out),
            _ => Err(parse::complaint(&ended.err)),
        }
    }

    /// The refs of another repository that have these names, and what tags among them are about.
    pub(super) async fn read_refs(
        &self,
        url: &str,
        names: &[&str],
        time: Duration,
    ) -> Result<Vec<Ref>, String> {
        let peeled: Vec<String> = names.iter().map(|n| format!("{n}^{{}}")).collect();
        let mut arguments = vec!["ls-remote", "--quiet", "--", url];
        arguments.extend(names);
        arguments.extend(peeled.iter().map(String::as_str));
        let ended = self
            .git_ended(&arguments, "", time.min(self.timeout))
            .await
            .map_err(|e| e.to_string())?;
        if ended.code != Some(0) {
            return Err(parse::complaint(&ended.err));
        }
        parse::refs(&ended.out)
    }

    /// Runs git to its end, whatever that is.
    pub(super) async fn git_ended(
        &self,
        arguments: &[&str],
        input: &str,
        time: Duration,
    ) -> Result<Ended, Failure> {
        self.git_with(arguments, input, time, Vec::new()).await
    }

    /// The same with more in its environment.
    pub(super) async fn git_with(
        &self,
        arguments: &[&str],
        input: &str,
        time: Duration,
        more: Vec<(String, String)>,
    ) -> Result<Ended, Failure> {
        let mut environment = match self.environment().await {
            Ok(environment) => environment,
            Err(text) => return Err(Failure::NotStarted("git".to_owned(), std::io::Error::other(text))),
        };
        environment.extend(more);
        program::run(Call {
            program: "git",
            arguments: arguments.iter().map(|a| (*a).to_owned()).collect(),
            environment,
            folder: None,
            input: input.to_owned(),
            time,
            output_max: OUTPUT_MAX,
        })
        .await
    }

    async fn environment(&self) -> Result<Vec<(String, String)>, String> {
        let home = self.repository.parent().unwrap_or(&self.repository);
        let repository = self.repository.display().to_string();
        let ssh = self.config.ssh_command.as_deref().unwrap_or("ssh");
        let mut settings: Vec<(String, String)> = [
            ("core.hooksPath", self.hooks().display().to_string().as_str()),
            ("core.fsmonitor", "false"),
            ("gc.auto", "0"),
            ("maintenance.auto", "false"),
            ("credential.helper", ""),
            ("http.followRedirects", "false"),
            ("protocol.version", "2"),
            ("transfer.credentialsInUrl", "die"),
            ("fetch.recurseSubmodules", "false"),
            ("push.recurseSubmodules", "no"),
            ("advice.pushUpdateRejected", "false"),
        ]
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .to_vec();
        if let Some((user, source)) = &self.config.token {
            let read = tokio::time::timeout(self.timeout, source.read("token", Shape::Word)).await;
            let read = read.map_err(|_| "the token was not read in time".to_owned())?;
            let secret = read.map_err(|e| e.to_string())?;
            let basic = data_encoding::BASE64.encode(format!("{user}:{}", secret.expose()).as_bytes());
            // By the environment, which only this user can read; never as an argument, which everybody can.
            let key = format!("http.{}.extraHeader", self.config.remote);
            settings.push((key, format!("Authorization: Basic {basic}")));
        }
        let pair = |k: &str, v: &str| (k.to_owned(), v.to_owned());
        let mut environment = vec![
            pair("HOME", &home.display().to_string()),
            pair("GIT_DIR", &repository),
            pair("GIT_CONFIG_NOSYSTEM", "1"),
            pair("GIT_CONFIG_SYSTEM", "/dev/null"),
            pair("GIT_CONFIG_GLOBAL", "/dev/null"),
            pair("GIT_ATTR_NOSYSTEM", "1"),
            pair("GIT_TERMINAL_PROMPT", "0"),
            pair("GIT_ASKPASS", "true"),
            pair("SSH_ASKPASS", "true"),
            pair("SSH_ASKPASS_REQUIRE", "never"),
            pair("GIT_ALLOW_PROTOCOL", "file:git:http:https:ssh"),
            pair("GIT_NO_REPLACE_OBJECTS", "1"),
            pair("GIT_SSH_COMMAND", &format!("{ssh} -oBatchMode=yes")),
            pair("GIT_SSH_VARIANT", "ssh"),
            pair("GIT_CONFIG_COUNT", &settings.len().to_string()),
        ];
        if let Ok(agent) = std::env::var("SSH_AUTH_SOCK") {
            environment.push(("SSH_AUTH_SOCK".to_owned(), agent));
        }
        for (n, (key, value)) in settings.into_iter().enumerate() {
            environment.push((format!("GIT_CONFIG_KEY_{n}"), key));
            environment.push((format!("GIT_CONFIG_VALUE_{n}"), value));
        }
        Ok(environment)
    }
}
