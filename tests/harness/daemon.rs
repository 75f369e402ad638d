//! A daemon of a test's own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use tonic::transport::{Channel, Endpoint};

use crate::process::{Ended, run_file};
use crate::{Bank, Caller, Folder, LabProcess, PATIENCE, Process, TODAY, Wire, binaries};

/// How a daemon is set up: quick lookups and short windows unless a test says otherwise.
#[derive(Debug, Clone)]
pub struct Setup {
    settings: BTreeMap<String, String>,
    lab: Lab,
    args: Vec<String>,
    log: String,
    outlives_full_disk: bool,
    failing: bool,
    wrapper: Vec<String>,
    env: BTreeMap<String, String>,
}

#[derive(Debug, Clone)]
enum Lab {
    Inside,
    Apart(Vec<String>),
    /// Somebody else's, at this URL.
    At(String),
}

impl Default for Setup {
    fn default() -> Setup {
        Setup::quick()
    }
}

impl Setup {
    /// The bank adapter with a lab inside the daemon, everything that is waited for made short.
    #[must_use]
    pub fn quick() -> Setup {
        let settings = [
            ("agents", "[\"payer\"]"),
            ("server.grace_s", "20"),
            ("acts.wait_s", "60"),
            ("recovery.interval_ms", "50"),
            ("recovery.lookup_pause_ms", "50"),
            ("recovery.lookup_pause_max_ms", "1000"),
            ("adapters.bank.url", "\"lab\""),
            ("adapters.bank.payees", "\"lab\""),
            ("adapters.bank.confirmation_of_payee", "\"lab\""),
            ("adapters.bank.token_file", "\"lab/token\""),
            ("adapters.bank.debtor_account", "\"20-00-00/55779911\""),
            ("adapters.bank.settle_window_s", "2"),
        ];
        let settings = settings
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let setup = Setup {
            settings: settings.collect(),
            lab: Lab::Inside,
            args: Vec::new(),
            log: "info".to_owned(),
            outlives_full_disk: false,
            failing: false,
            wrapper: Vec::new(),
            env: BTreeMap::new(),
        };
        setup.set("lab.today", &format!("\"{TODAY}\""))
    }

    /// Changes a setting of `wilcod.toml`, by its dotted name, to a TOML literal.
    #[must_use]
    pub fn set(mut self, name: &str, literal: &str) -> Setup {
        self.settings.insert(name.to_owned(), literal.to_owned());
        self
    }

    /// Puts the lab into a process of its own, which outlives the daemon.
    #[must_use]
    pub fn lab_apart(self) -> Setup {
        self.lab_apart_with(&[])
    }

    /// The same, with more arguments for `wilcod lab`.
    #[must_use]
    pub fn lab_apart_with(mut self, args: &[&str]) -> Setup {
        self.lab = Lab::Apart(args.iter().map(|a| (*a).to_owned()).collect());
        self
    }

    /// Pays at a lab that belongs to the test.
    #[must_use]
    pub fn lab_at(mut self, url: &str) -> Setup {
        self.lab = Lab::At(url.to_owned());
        self
    }

    /// Gives `wilcod serve` one more argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Setup {
        self.args.push(arg.into());
        self
    }

    /// A full disk is an error to it, not its end (see [`Daemon::fill_disk`]).
    #[must_use]
    pub fn outlives_full_disk(mut self) -> Setup {
        self.outlives_full_disk = true;
        // With the signal ignored, a write beyond the limit fails, as it does on a full disk.
        self.under(&["sh", "-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
    }

    /// Runs the daemon whose failpoints the environment arms.
    #[must_use]
    pub fn failing(mut self) -> Setup {
        self.failing = true;
        self
    }

    /// Sets a variable of the daemon's environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Setup {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Runs the daemon under another program, which starts it with the words that follow its own.
    #[must_use]
    pub fn under(mut self, words: &[&str]) -> Setup {
        self.wrapper = words.iter().map(|w| (*w).to_owned()).collect();
        self
    }

    /// What is logged, as `RUST_LOG` says it.
    #[must_use]
    pub fn log(mut self, filter: &str) -> Setup {
        filter.clone_into(&mut self.log);
        self
    }

    fn text(&self) -> String {
        let mut sections: BTreeMap<&str, String> = BTreeMap::new();
        for (name, literal) in &self.settings {
            let (section, key) = name.rsplit_once('.').unwrap_or(("", name));
            let text = sections.entry(section).or_default();
            text.push_str(&format!("{key} = {literal}\n"));
        }
        let mut whole = String::new();
        for (section, text) in sections {
            if !section.is_empty() {
                whole.push_str(&format!("\n[{section}]\n"));
            }
            whole.push_str(&text);
        }
        whole
    }
}

/// A running daemon. Dropping it kills it and removes its folder.
#[derive(Debug)]
pub struct Daemon {
    process: Process,
    url: String,
    lab_url: String,
    setup: Setup,
    lab: Option<LabProcess>,
    folder: Folder,
}

impl Daemon {
    /// One with the quick setup.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start() -> Daemon {
        Daemon::start_with(Setup::quick()).await
    }

    /// One set up as told.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start_with(mut setup: Setup) -> Daemon {
        let folder = Folder::new();
        let lab = match &setup.lab {
            Lab::Inside | Lab::At(_) => None,
            Lab::Apart(args) => {
                let args: Vec<&str> = args.iter().map(String::as_str).collect();
                Some(LabProcess::start(&args).await)
            }
        };
        let data = folder.path().join("data");
        create_dir(&data);
        let elsewhere = match (&lab, &setup.lab) {
            (Some(lab), _) => Some(lab.url().to_owned()),
            (None, Lab::At(url)) => Some(url.clone()),
            (None, _) => None,
        };
        if let Some(url) = elsewhere {
            setup = setup
                .set("adapters.bank.url", &format!("\"{url}\""))
                .set("adapters.bank.payees", &format!("\"{url}/lab/payees\""))
                .set(
                    "adapters.bank.confirmation_of_payee",
                    &format!("\"{url}/lab/confirmation-of-payee\""),
                )
                .set("adapters.bank.token_file", "\"bank.token\"");
            write(&data.join("bank.token"), "lab-token\n");
        }
        write(&data.join("wilcod.toml"), &setup.text());
        let process = launch(&folder, &setup);
        let mut daemon = Daemon {
            process,
            url: String::new(),
            lab_url: String::new(),
            setup,
            lab,
            folder,
        };
        daemon.wait_until_ready().await;
        daemon
    }

    /// Its base URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its data folder.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The lab it pays at.
    #[must_use]
    pub fn bank(&self) -> Bank {
        Bank::new(&self.lab_url)
    }

    /// The lab's process, where it has one of its own.
    ///
    /// # Panics
    /// If the lab is inside the daemon.
    pub fn lab(&mut self) -> &mut LabProcess {
        self.lab
            .as_mut()
            .unwrap_or_else(|| panic!("this daemon's lab has no process of its own"))
    }

    /// The process itself.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Everything it logged, over all its starts.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// The key of one of the default principals, from `keys.toml`.
    ///
    /// # Panics
    /// If the file holds none.
    #[must_use]
    pub fn key(&self, principal: &str) -> String {
        key_in(&self.data(), principal)
    }

    /// A client that proves itself as `principal`.
    ///
    /// # Panics
    /// If the principal has no key or the daemon's URL is none.
    #[must_use]
    pub fn caller(&self, principal: &str, wire: Wire) -> Caller {
        Caller::new(&self.url, self.channel(), wire, Some(self.key(principal)))
    }

    /// The sending agent of most stories, over gRPC.
    #[must_use]
    pub fn scheduler(&self) -> Caller {
        self.caller("scheduler", Wire::Grpc)
    }

    /// A client without a key.
    #[must_use]
    pub fn stranger(&self, wire: Wire) -> Caller {
        Caller::new(&self.url, self.channel(), wire, None)
    }

    /// A new gRPC connection.
    ///
    /// # Panics
    /// If the daemon's URL is none.
    #[must_use]
    pub fn channel(&self) -> Channel {
        let endpoint =
            Endpoint::from_shared(self.url.clone()).unwrap_or_else(|e| panic!("{}: {e}", self.url));
        endpoint.timeout(PATIENCE).connect_lazy()
    }

    /// Kills it as `kill -9` does.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again on the same folder, killing it first if it still runs.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn restart(&mut self) {
        self.process.kill();
        self.process = launch(&self.folder, &self.setup);
        self.wait_until_ready().await;
    }

    /// From here on no file of the daemon's can grow: to it, the disk is full. For one set up to be told so, and not
    /// killed, by the system.
    ///
    /// # Panics
    /// If the system sets no limit.
    pub fn fill_disk(&self) {
        self.limit_files("4096:");
    }

    /// There is room again.
    ///
    /// # Panics
    /// If the system does not lift the limit.
    pub fn free_disk(&self) {
        self.limit_files("unlimited:");
    }

    fn limit_files(&self, bytes: &str) {
        assert!(
            self.setup.outlives_full_disk,
            "set up to outlive it: a write beyond the limit kills"
        );
        let status = Command::new("prlimit")
            .args([
                "--pid",
                &self.process.pid().to_string(),
                &format!("--fsize={bytes}"),
            ])
            .status()
            .unwrap_or_else(|e| panic!("prlimit (of util-linux): {e}"));
        assert!(status.success(), "prlimit: {status}");
    }

    /// Starts it again on the same folder with these variables and no others, killing it first if it still runs. Does
    /// not wait for anything.
    pub fn relaunch(&mut self, env: &[(&str, &str)]) {
        self.process.kill();
        self.setup.env = env
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        self.process = launch(&self.folder, &self.setup);
    }

    /// Whether it answers by now: looks for the `run.json` of this very process, and takes the URL from it.
    pub fn answers(&mut self) -> bool {
        let Ok(text) = std::fs::read_to_string(self.data().join("run.json")) else {
            return false;
        };
        let Ok(run) = serde_json::from_str::<serde_json::Value>(&text) else {
            return false;
        };
        if run["pid"] != self.process.pid() {
            return false;
        }
        run["url"].as_str().unwrap_or_default().clone_into(&mut self.url);
        true
    }

    /// Changes a setting; it counts from the next start on.
    pub fn set(&mut self, name: &str, literal: &str) {
        self.setup = self.setup.clone().set(name, literal);
        write(&self.data().join("wilcod.toml"), &self.setup.text());
    }

    /// Lets one more principal send for `agent`, with a key of its own. It counts from the next start on.
    pub fn add_sender(&self, principal: &str, agent: &str) {
        let key = format!("a-key-of-a-test-for-{principal}-0123456789");
        let hash = wilco_core::journal::sha256_hex(key.as_bytes());
        append(
            &self.data().join("keys.toml"),
            &format!("{principal} = \"{key}\"\n"),
        );
        append(
            &self.data().join("principals.toml"),
            &format!(
                "\n[principals.{principal}]\nroles = [\"sender\"]\nspeaks_for = [\"{agent}\"]\nkey_sha256 = \"{hash}\"\n"
            ),
        );
    }

    /// Sends SIGTERM and waits for the end.
    ///
    /// # Panics
    /// If it does not end.
    pub async fn stop(&mut self) -> Ended {
        self.process.terminate();
        self.process.end().await
    }

    async fn wait_until_ready(&mut self) {
        let path = self.data().join("run.json");
        let run = run_file(&path, &mut self.process).await;
        let text = |name: &str| run[name].as_str().unwrap_or_default().to_owned();
        self.url = text("url");
        self.lab_url = match (&self.lab, &self.setup.lab) {
            (Some(lab), _) => lab.url().to_owned(),
            (None, Lab::At(url)) => url.clone(),
            (None, _) => text("lab_url"),
        };
        assert!(self.url.starts_with("http://127.0.0.1:"), "{run}");
    }
}

/// The key of a principal in a data folder's `keys.toml`.
///
/// # Panics
/// If the file holds none.
#[must_use]
pub fn key_in(data: &Path, principal: &str) -> String {
    let path = data.join("keys.toml");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let line = format!("{principal} = \"");
    let key = text
        .lines()
        .find_map(|l| l.strip_prefix(&line)?.strip_suffix('"'));
    key.unwrap_or_else(|| panic!("{} holds no key for {principal}", path.display()))
        .to_owned()
}

/// `wilcod serve` on a folder, a free port and the settings that lie there, not yet started.
#[must_use]
pub fn serve(data: &Path) -> Command {
    let mut command = Command::new(binaries::wilcod());
    served_on(&mut command, data);
    command
}

fn served_on(command: &mut Command, data: &Path) {
    command.arg("serve").arg("--data").arg(data);
    command.env("RUST_LOG", "info");
}

fn launch(folder: &Folder, setup: &Setup) -> Process {
    let program = match setup.failing {
        true => binaries::wilcod_failing(),
        false => binaries::wilcod(),
    };
    let mut command = match setup.wrapper.split_first() {
        None => Command::new(program),
        Some((wrapper, words)) => {
            let mut command = Command::new(wrapper);
            command.args(words).arg(program);
            command
        }
    };
    served_on(&mut command, &folder.path().join("data"));
    command.args(["--listen", "127.0.0.1:0"]).args(&setup.args);
    command.env("RUST_LOG", &setup.log).envs(&setup.env);
    Process::start(command, folder.path(), "wilcod")
}

fn append(path: &Path, text: &str) {
    let old = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    write(path, &(old + text));
}

fn create_dir(path: &Path) {
    std::fs::create_dir_all(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}
