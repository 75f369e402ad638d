//! The real `wilcod`, in a process and a folder of its own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::process::{Child, Command};

use crate::folder::Folder;
use crate::shim;

/// The adapter that carries out nothing, and statements that outlive the bench.
const CONFIG: &str = "agents = [\"payer\"]\n\n[acts]\nstatement_ttl_s = 86400\n\n[adapters.sim]\n";

/// How long it may take to start and to stop.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a daemon is run.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// The database that keeps the acts, instead of the folder.
    pub database: Option<String>,
    /// What gives it a slower disk.
    pub slow: Option<PathBuf>,
    /// With the configuration it writes itself at its first start, which has a practice bank in the same process.
    pub as_it_comes: bool,
}

/// A daemon's folder, in which it may be started more than once.
pub struct House {
    setup: Setup,
    folder: Folder,
}

/// A running daemon.
pub struct Daemon {
    pub url: String,
    /// The scheduler's key.
    pub key: String,
    /// How long it took from its start until it said that it was ready.
    pub took: Duration,
    process: Child,
    log: PathBuf,
}

/// What the store has done since the daemon started, and how many acts are done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    pub writes: u64,
    pub flushes: u64,
    pub refused: u64,
    pub unknown: u64,
    pub done: u64,
    /// Acts in any other state.
    pub others: u64,
}

impl House {
    pub fn new(setup: Setup) -> Result<House, String> {
        let house = House {
            setup,
            folder: Folder::new("wilcod")?,
        };
        let data = house.data();
        let failed = |e: std::io::Error| format!("{}: {e}", data.display());
        std::fs::create_dir(&data).map_err(failed)?;
        if !house.setup.as_it_comes {
            std::fs::write(data.join("wilcod.toml"), CONFIG).map_err(failed)?;
        }
        Ok(house)
    }

    /// The folder that holds the data folder, and what is beside it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The data folder.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The database, where there is one.
    pub fn database(&self) -> Option<&str> {
        self.setup.database.as_deref()
    }

    /// Starts the daemon in it, which must not be running.
    pub async fn start(&self) -> Result<Daemon, String> {
        let (data, log) = (self.data(), self.folder.path().join("log"));
        let failed = |e: std::io::Error| format!("{}: {e}", data.display());
        let mut command = Command::new(program()?);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(&data)
            .envs(shim::variable(self.setup.slow.as_deref()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).map_err(failed)?)
            .kill_on_drop(true);
        if let Some(url) = &self.setup.database {
            command.args(["--database-url", url]);
        }
        let begun = Instant::now();
        let mut process = command.spawn().map_err(|e| format!("wilcod: {e}"))?;
        let url = found(&mut process, &data, &log).await?;
        ready(&url).await?;
        let took = begun.elapsed();
        let keys = std::fs::read_to_string(data.join("keys.toml")).map_err(failed)?;
        let key = keys
            .lines()
            .find_map(|l| l.strip_prefix("scheduler = \"")?.strip_suffix('"'));
        Ok(Daemon {
            url,
            key: key.ok_or("keys.toml holds no key of the scheduler")?.to_owned(),
            took,
            process,
            log,
        })
    }
}

impl Daemon {
    /// The processor time that the threads it has now have used, in seconds; `None` where the system does not tell as
    /// Linux does.
    pub fn cpu_s(&self) -> Option<f64> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.process.id()?)).ok()?;
        let mut sum = 0.0;
        for task in tasks.flatten() {
            // Nanoseconds on a processor, and two more figures.
            let line = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
            sum += line.split_whitespace().next()?.parse::<f64>().ok()?;
        }
        Some(sum / 1e9)
    }

    /// Memory that is resident now, in MB; `None` where the system does not tell as Linux does.
    pub fn resident_mb(&self) -> Option<f64> {
        self.memory("VmRSS:")
    }

    /// The most that was ever resident, in MB.
    pub fn most_resident_mb(&self) -> Option<f64> {
        self.memory("VmHWM:")
    }

    fn memory(&self, name: &str) -> Option<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()?)).ok()?;
        let line = status.lines().find_map(|l| l.strip_prefix(name))?;
        let kib: f64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kib * 1024.0 / 1e6)
    }

    /// What `/metrics` says now; its count of acts may be a second old.
    pub async fn figures(&self) -> Result<Figures, String> {
        let page = page(&format!("{}/metrics", self.url)).await;
        let page = page.map_err(|e| format!("/metrics: {e}"))?;
        let acts = |line: &str| Some(line.strip_prefix("wilco_acts{state=")?.to_owned());
        let count = |line: &str| line.rsplit(' ').next().and_then(|n| n.parse::<u64>().ok());
        let acts: Vec<String> = page.lines().filter_map(acts).collect();
        if acts.is_empty() {
            return Err("/metrics does not count acts".to_owned());
        }
        let sum = |done: bool| {
            let wanted = acts.iter().filter(|l| l.starts_with("\"done\"") == done);
            wanted.filter_map(|l| count(l)).sum()
        };
        let sample = |name: &str| {
            let line = page
                .lines()
                .find(|l| l.strip_prefix(name).is_some_and(|l| l.starts_with(' ')));
            line.and_then(count)
                .ok_or_else(|| format!("/metrics has no {name}"))
        };
        Ok(Figures {
            writes: sample("wilco_store_writes_total")?,
            flushes: sample("wilco_store_flushes_total")?,
            refused: sample("wilco_store_writes_refused_total")?,
            unknown: sample("wilco_store_writes_unknown_total")?,
            done: sum(true),
            others: sum(false),
        })
    }

    /// Stops it as an operator would.
    pub async fn stop(mut self) -> Result<(), String> {
        let Some(pid) = self.process.id() else {
            return Err(format!("wilcod ended by itself: {}", tail(&self.log)));
        };
        let told = Command::new("sh")
            .args(["-c", &format!("kill -TERM {pid}")])
            .status()
            .await;
        told.map_err(|e| format!("sh: {e}"))?;
        match tokio::time::timeout(PATIENCE, self.process.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(format!("wilcod ended with {status}: {}", tail(&self.log))),
            Ok(Err(e)) => Err(format!("wilcod: {e}")),
            Err(_) => Err("wilcod did not stop when told to".to_owned()),
        }
    }
}

/// The daemon of the same build as this program.
fn program() -> Result<PathBuf, String> {
    let exe = std::env::current_exe().map_err(|e| format!("where this program lies: {e}"))?;
    let program = exe.with_file_name("wilcod");
    match program.exists() {
        true => Ok(program),
        false => Err(format!(
            "{} is not there: `cargo xtask bench` builds it",
            program.display()
        )),
    }
}

/// Where it answers, once it says so.
async fn found(process: &mut Child, data: &Path, log: &Path) -> Result<String, String> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if let Ok(text) = std::fs::read_to_string(data.join("run.json")) {
            let run: serde_json::Value = serde_json::from_str(&text).map_err(|e| format!("run.json: {e}"))?;
            return run["url"]
                .as_str()
                .map(str::to_owned)
                .ok_or("run.json has no url".to_owned());
        }
        if process.try_wait().map_err(|e| format!("wilcod: {e}"))?.is_some() {
            return Err(format!("wilcod does not start: {}", tail(log)));
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Err(format!("wilcod does not become ready: {}", tail(log)))
}

/// Waits until it says that it takes work.
async fn ready(url: &str) -> Result<(), String> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if page(&format!("{url}/readyz")).await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Err("wilcod does not become ready".to_owned())
}

async fn page(url: &str) -> Result<String, reqwest::Error> {
    reqwest::get(url).await?.error_for_status()?.text().await
}

fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(5)..].join("\n")
}
