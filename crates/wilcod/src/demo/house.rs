//! The demo's processes and folder: a practice bank, a daemon, and nothing left behind.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::process::{Child, Command};
use tonic::transport::{Channel, Endpoint};
use wilco_api::v1::executor_client::ExecutorClient;

use super::{DemoError, say};
use crate::lab::TOKEN_FILE;
use crate::{files, keys, random, run_file};

/// How long a process may take until it answers.
const START_TIME: Duration = Duration::from_secs(60);

/// Everything the demo started.
pub struct House {
    folder: PathBuf,
    lab: Child,
    daemon: Child,
    /// The practice bank.
    pub lab_url: String,
    /// The daemon.
    pub url: String,
    /// The scheduler's key.
    pub key: String,
    /// The bank's date, as RW1 writes it.
    pub today: String,
}

impl House {
    /// Makes the folder and starts both.
    ///
    /// # Errors
    /// What could not be had.
    pub async fn build() -> Result<House, DemoError> {
        let name = random::bytes::<6>().map_err(|e| DemoError::House(e.to_string()))?;
        let folder =
            std::env::temp_dir().join(format!("wilco-demo-{}", data_encoding::HEXLOWER.encode(&name)));
        std::fs::create_dir(&folder)
            .map_err(|e| DemoError::House(format!("{} cannot be made: {e}", folder.display())))?;
        // Removes the folder again if anything below fails.
        let sweeper = Sweeper {
            folder: folder.clone(),
            armed: true,
        };

        // The bank keeps the date it starts on, so that midnight does not matter.
        let date = time::OffsetDateTime::now_utc().date();
        let today = format!("{:04}{:02}{:02}", date.year(), u8::from(date.month()), date.day());
        let lab_data = folder.join("bank");
        std::fs::create_dir(&lab_data).map_err(|e| DemoError::House(e.to_string()))?;
        let mut lab = spawn(
            &folder,
            "bank",
            &[
                "lab",
                "--data",
                &text(&lab_data),
                "--listen",
                "127.0.0.1:0",
                "--today",
                &today,
            ],
        )?;
        let lab_url = ready(&folder, "bank", &lab_data, &mut lab).await?;

        let config = folder.join("wilcod.toml");
        files::write_whole(&config, 0o644, &settings(&lab_url, &lab_data))
            .map_err(|e| DemoError::House(e.to_string()))?;
        let mut daemon = start_daemon(&folder, SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let data = folder.join("data");
        let url = ready(&folder, "daemon", &data, &mut daemon).await?;
        let key = key_of(&data, "scheduler")?;
        sweeper.disarm();
        Ok(House {
            folder,
            lab,
            daemon,
            lab_url,
            url,
            key,
            today,
        })
    }

    /// A client of the daemon.
    ///
    /// # Errors
    /// It cannot be reached.
    pub async fn client(&self) -> Result<ExecutorClient<Channel>, DemoError> {
        let failed =
            |e: tonic::transport::Error| DemoError::House(format!("{} cannot be reached: {e}", self.url));
        let endpoint = Endpoint::from_shared(self.url.clone()).map_err(failed)?;
        Ok(ExecutorClient::new(endpoint.connect().await.map_err(failed)?))
    }

    /// Kills the daemon without a word (SIGKILL).
    ///
    /// # Errors
    /// It could not be killed.
    pub async fn daemon_kill(&mut self) -> Result<(), DemoError> {
        self.daemon
            .kill()
            .await
            .map_err(|e| DemoError::House(format!("the daemon could not be killed: {e}")))
    }

    /// Starts the daemon again, on the same folder and address.
    ///
    /// # Errors
    /// It does not start.
    pub async fn daemon_restart(&mut self) -> Result<(), DemoError> {
        let address = self.url.trim_start_matches("http://").parse();
        let listen = address.map_err(|_| DemoError::House(format!("{} is no address", self.url)))?;
        self.daemon = start_daemon(&self.folder, listen)?;
        self.url = ready(
            &self.folder,
            "daemon",
            &self.folder.join("data"),
            &mut self.daemon,
        )
        .await?;
        Ok(())
    }

    /// Ends both processes and removes the folder.
    pub async fn close(mut self) {
        // Whatever fails here failed because it was gone already.
        let _ = self.daemon.kill().await;
        let _ = self.lab.kill().await;
    }

    /// Leaves both running, and says how to look around.
    pub fn leave_running(self) {
        let data = text(&self.folder.join("data"));
        let pids: Vec<String> = [&self.daemon, &self.lab]
            .iter()
            .filter_map(|c| c.id())
            .map(|pid| pid.to_string())
            .collect();
        say("");
        say("It is still running. Look around:");
        for command in [
            format!("wilco acts --all --data {data}"),
            format!("wilco show --thread scheduler --handoff scheduler-1 --data {data}"),
            format!("wilco thread scheduler --data {data}"),
            format!("curl -s {}/lab/book", self.lab_url),
            format!("curl -s {}/metrics", self.url),
        ] {
            say(&format!("  {command}"));
        }
        say(&format!(
            "Stop it:\n  kill {}; rm -r {}",
            pids.join(" "),
            self.folder.display()
        ));
        // Dropping it would end both.
        std::mem::forget(self);
    }
}

impl Drop for House {
    fn drop(&mut self) {
        // What they still write is of no use to anyone; their handles kill them again, in case this fails.
        let _ = self.daemon.start_kill();
        let _ = self.lab.start_kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

struct Sweeper {
    folder: PathBuf,
    armed: bool,
}

impl Sweeper {
    fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        if self.armed {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

/// The daemon's settings: those of the first start, but patient only for as long as a demonstration is watched.
fn settings(lab_url: &str, lab_data: &Path) -> String {
    let token_file = text(&lab_data.join(TOKEN_FILE));
    format!(
        "agents = [\"payer\"]\n\n\
         [recovery]\ninterval_ms = 100\nlookup_pause_ms = 100\nlookup_pause_max_ms = 500\n\
         lookups_before_escalation = 100\n\n\
         [adapters.bank]\nurl = \"{lab_url}\"\ntoken_file = {token_file:?}\n\
         debtor_account = \"20-00-00/55779911\"\npayees = \"{lab_url}/lab/payees\"\n\
         confirmation_of_payee = \"{lab_url}/lab/confirmation-of-payee\"\nsettle_window_s = 1\n"
    )
}

fn start_daemon(folder: &Path, listen: SocketAddr) -> Result<Child, DemoError> {
    let (data, config) = (text(&folder.join("data")), text(&folder.join("wilcod.toml")));
    let listen = listen.to_string();
    spawn(
        folder,
        "daemon",
        &["serve", "--data", &data, "--listen", &listen, "--config", &config],
    )
}

fn spawn(folder: &Path, name: &str, arguments: &[&str]) -> Result<Child, DemoError> {
    let failed = |e: std::io::Error| DemoError::House(format!("the {name} cannot be started: {e}"));
    let log = File::options()
        .create(true)
        .append(true)
        .open(folder.join(format!("{name}.log")))
        .map_err(failed)?;
    Command::new(std::env::current_exe().map_err(failed)?)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        // A Ctrl-C is the demo's to answer: it ends its processes in order.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)
}

/// Waits until the process says where it answers.
async fn ready(folder: &Path, name: &str, data: &Path, child: &mut Child) -> Result<String, DemoError> {
    #[derive(serde::Deserialize)]
    struct Run {
        pid: u32,
        url: String,
    }
    let began = Instant::now();
    while began.elapsed() < START_TIME {
        let found = files::read(&data.join(run_file::RUN_FILE)).ok().flatten();
        if let Some(run) = found.and_then(|text| serde_json::from_str::<Run>(&text).ok())
            && child.id() == Some(run.pid)
        {
            return Ok(run.url);
        }
        if let Ok(Some(status)) = child.try_wait() {
            let log = files::read(&folder.join(format!("{name}.log")))
                .ok()
                .flatten()
                .unwrap_or_default();
            let last = log.lines().last().unwrap_or_default().to_owned();
            return Err(DemoError::House(format!("the {name} ended ({status}): {last}")));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Err(DemoError::House(format!(
        "the {name} was not ready within {} s",
        START_TIME.as_secs()
    )))
}

fn key_of(data: &Path, principal: &str) -> Result<String, DemoError> {
    let path = data.join(keys::KEYS_FILE);
    let text = files::read_secret(&path)
        .map_err(|e| DemoError::House(e.to_string()))?
        .unwrap_or_default();
    let mut keys = keys::parse_keys(&text).map_err(DemoError::House)?;
    keys.remove(principal)
        .ok_or_else(|| DemoError::House(format!("{} has no key for {principal}", path.display())))
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
