//! The real `wilcod`, in a process and a folder of its own, with the adapter that carries out nothing.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::process::{Child, Command};

use crate::folder::Folder;

const CONFIG: &str = "agents = [\"payer\"]\n\n[adapters.sim]\n";

/// How long it may take to start and to stop.
const PATIENCE: Duration = Duration::from_secs(20);

pub struct Daemon {
    pub url: String,
    /// The scheduler's key.
    pub key: String,
    process: Child,
    log: PathBuf,
    // Dropped last: it goes when nothing writes there any more.
    folder: Folder,
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

impl Daemon {
    pub async fn start() -> Result<Daemon, String> {
        let folder = Folder::new("wilcod")?;
        let data = folder.path().join("data");
        let log = folder.path().join("log");
        let failed = |e: std::io::Error| format!("{}: {e}", data.display());
        std::fs::create_dir(&data).map_err(failed)?;
        std::fs::write(data.join("wilcod.toml"), CONFIG).map_err(failed)?;
        let mut process = Command::new(program()?)
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(&data)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).map_err(failed)?)
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| format!("wilcod: {e}"))?;
        let url = found(&mut process, &data, &log).await?;
        let keys = std::fs::read_to_string(data.join("keys.toml")).map_err(failed)?;
        let key = keys
            .lines()
            .find_map(|l| l.strip_prefix("scheduler = \"")?.strip_suffix('"'));
        Ok(Daemon {
            url,
            key: key.ok_or("keys.toml holds no key of the scheduler")?.to_owned(),
            process,
            log,
            folder,
        })
    }

    /// The processor time it has used, in seconds; `None` where the system does not tell as Linux does.
    pub fn cpu_s(&self) -> Option<f64> {
        const TICKS_PER_S: f64 = 100.0;
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id()?)).ok()?;
        // Counted from behind the name, which may hold anything (proc(5): utime and stime are fields 14 and 15).
        let mut fields = stat.rsplit(')').next()?.split_whitespace().skip(11);
        let (user, system): (f64, f64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        Some((user + system) / TICKS_PER_S)
    }

    /// The data folder.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// What `/metrics` says now.
    pub async fn figures(&self) -> Result<Figures, String> {
        let page = async {
            let answer = reqwest::get(format!("{}/metrics", self.url)).await?;
            answer.error_for_status()?.text().await
        };
        let page = page.await.map_err(|e| format!("/metrics: {e}"))?;
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

    /// Stops it as an operator would; its folder stays for as long as this value lives.
    pub async fn stop(&mut self) -> Result<(), String> {
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

/// Where it answers, once it does.
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
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err(format!("wilcod does not become ready: {}", tail(log)))
}

fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(5)..].join("\n")
}
