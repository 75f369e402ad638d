//! What disk and store allow, measured in a process of its own, as the daemon is one: it can be given a slower disk, and
//! what it does to the processor's caches and the allocator is its own affair.
//!
//! It is asked by lines of JSON on its standard input, and answers each with one on its standard output.

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use wilco_core::Clock;
use wilco_store::{Keeper, PostgresKeeper, PostgresOptions, SqliteKeeper, SqliteOptions};

use crate::disk;
use crate::folder::Folder;
use crate::load::{self, Run};
use crate::shim;
use crate::template::{self, Life, Wall};
use crate::writer::{WRITES, WriterCaller};

/// The argument that makes this program the process; after it a folder, and perhaps a database's URL.
pub const SERVE: &str = "--serve-limits";

/// What is measured.
#[derive(Clone, Copy, Serialize, Deserialize)]
enum What {
    /// Pages flushed one after the other.
    Flushes,
    /// Records of many callers that share flushes.
    Grouped,
    /// The rows of cycles, written by the store.
    Writer,
}

#[derive(Serialize, Deserialize)]
struct Ask {
    what: What,
    callers: usize,
    ms: u64,
}

/// The process.
pub struct Limits {
    asks: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    _process: Child,
    _folder: Folder,
}

impl Limits {
    /// Starts it, on a store in a folder of its own, or in the database; on a slower disk, where there is a shim.
    pub async fn start(database: Option<&str>, slow: Option<&Path>) -> Result<Limits, String> {
        let folder = Folder::new("limits")?;
        let exe = std::env::current_exe().map_err(|e| format!("where this program lies: {e}"))?;
        let mut process = Command::new(exe)
            .arg(SERVE)
            .arg(folder.path())
            .args(database)
            .envs(shim::variable(slow))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| format!("the process of the limits: {e}"))?;
        let (Some(asks), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("the process of the limits has no pipes".to_owned());
        };
        let mut limits = Limits {
            asks,
            answers: BufReader::new(answers).lines(),
            _process: process,
            _folder: folder,
        };
        limits.heard().await?;
        Ok(limits)
    }

    /// Pages flushed one after the other.
    pub async fn flushes(&mut self, time: Duration) -> Result<Run, String> {
        self.ask(What::Flushes, 1, time).await
    }

    /// Records flushed in groups.
    pub async fn grouped(&mut self, callers: usize, time: Duration) -> Result<Run, String> {
        self.ask(What::Grouped, callers, time).await
    }

    /// The rows of cycles, written by the store without a decision in between.
    pub async fn writer(&mut self, callers: usize, time: Duration) -> Result<Run, String> {
        self.ask(What::Writer, callers, time).await
    }

    async fn ask(&mut self, what: What, callers: usize, time: Duration) -> Result<Run, String> {
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let mut ask = serde_json::to_string(&Ask { what, callers, ms }).map_err(|e| e.to_string())?;
        ask.push('\n');
        let asked = self.asks.write_all(ask.as_bytes()).await;
        asked.map_err(|e| format!("the process of the limits: {e}"))?;
        let answer = self.heard().await?;
        serde_json::from_str(&answer).map_err(|_| answer)
    }

    async fn heard(&mut self) -> Result<String, String> {
        let line = self.answers.next_line().await;
        line.map_err(|e| format!("the process of the limits: {e}"))?
            .ok_or_else(|| "the process of the limits ended; its own words stand above".to_owned())
    }
}

/// Serves until its standard input closes, which it does when the bench ends, however it ends.
pub fn serve(words: &[String]) -> Result<(), String> {
    let (folder, database) = match words {
        [folder] => (PathBuf::from(folder), None),
        [folder, database] => (PathBuf::from(folder), Some(database.as_str())),
        _ => return Err(format!("{SERVE} takes a folder and perhaps a database's URL")),
    };
    let runtime = tokio::runtime::Runtime::new().map_err(|e| format!("no runtime: {e}"))?;
    let mut store = runtime.block_on(Store::open(&folder, database))?;
    let say = |line: &str| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{line}").and_then(|()| out.flush())
    };
    say("ready").map_err(|e| e.to_string())?;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|e| e.to_string())?;
        let ask: Ask = serde_json::from_str(&line).map_err(|e| e.to_string())?;
        let time = Duration::from_millis(ask.ms);
        let run = match ask.what {
            What::Flushes => disk::flushes(&folder, time),
            What::Grouped => disk::grouped(&folder, ask.callers, time),
            What::Writer => runtime.block_on(store.run(ask.callers, time)),
        };
        let answer = run.and_then(|run| serde_json::to_string(&run).map_err(|e| e.to_string()));
        say(&answer.unwrap_or_else(|why| why.replace('\n', " "))).map_err(|e| e.to_string())?;
    }
    runtime.block_on(store.keeper.close());
    Ok(())
}

/// The store the bare writer writes to.
struct Store {
    keeper: Arc<dyn Keeper>,
    life: Arc<Life>,
    segments: u32,
}

impl Store {
    async fn open(folder: &Path, database: Option<&str>) -> Result<Store, String> {
        let paid = rw1::unix_to_minute(Wall.now().0 / 1_000_000);
        Ok(Store {
            keeper: keeper(folder, database).await?,
            life: Arc::new(template::record(paid.get(..8).unwrap_or_default()).await?),
            segments: 0,
        })
    }

    async fn run(&mut self, callers: usize, time: Duration) -> Result<Run, String> {
        self.segments += 1;
        let before = self.keeper.counters();
        let callers = (0..callers).map(|n| {
            let thread = format!("bare-{:03}-{n:03}", self.segments);
            WriterCaller::new(&self.keeper, &self.life, thread)
        });
        let run = load::run(callers.collect(), time).await?;
        let writes = self.keeper.counters().writes - before.writes;
        if writes == WRITES * run.calls {
            Ok(run)
        } else {
            Err(format!(
                "the bare writer wrote {writes} times for {} cycles",
                run.calls
            ))
        }
    }
}

/// The keeper of a store: the database's, where there is one, else that of the folder's own file.
pub async fn keeper(folder: &Path, database: Option<&str>) -> Result<Arc<dyn Keeper>, String> {
    match database {
        None => {
            let options = SqliteOptions::new(folder.join("data"), Arc::new(Wall));
            let keeper = SqliteKeeper::open(options).await.map_err(|e| e.to_string())?;
            Ok(Arc::new(keeper))
        }
        Some(url) => {
            let keeper = PostgresKeeper::open(PostgresOptions::new(url)).await;
            Ok(Arc::new(keeper.map_err(|e| e.to_string())?))
        }
    }
}
