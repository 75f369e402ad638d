//! What PostgreSQL allows: `pgbench`, with three commits a cycle, on a server of this run's own.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use wilco_tests::postgres::{Cluster, programs};

use crate::folder::Folder;
use crate::load::Run;
use crate::shim;

/// What a row holds: about what a statement is, in bytes.
const BODY: usize = 700;

/// The threads `pgbench` calls with, as many as there are cores to share with the server.
const THREADS: usize = 2;

/// A server of our own.
pub struct Server {
    cluster: Cluster,
    programs: PathBuf,
    folder: Folder,
}

impl Server {
    /// Makes and starts one, on a slower disk where there is a shim; `None` where PostgreSQL's programs are not here.
    pub fn start(slow: Option<&Path>) -> Result<Option<Server>, String> {
        let Some(programs) = programs().filter(|p| p.join("pgbench").is_file()) else {
            return Ok(None);
        };
        let variable = shim::variable(slow);
        let variable = variable.as_ref().map(|(name, value)| (*name, value.as_str()));
        // Room for 256 callers of pgbench, beside the connections of the daemon and of the bare store.
        let cluster = Cluster::start_with(&["max_connections = 400"], variable)?;
        let server = Server {
            cluster,
            programs,
            folder: Folder::new("pgbench")?,
        };
        server.ask("postgres", "CREATE DATABASE pgbench")?;
        let table = "CREATE TABLE cycle (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, state INT NOT NULL, \
                     body TEXT NOT NULL)";
        server.ask("pgbench", table)?;
        let script = server.folder.path().join("cycle.sql");
        std::fs::write(&script, cycle()).map_err(|e| format!("{}: {e}", script.display()))?;
        Ok(Some(server))
    }

    /// The address of a new database.
    pub fn database(&self, name: &str) -> Result<String, String> {
        self.ask("postgres", &format!("CREATE DATABASE {name}"))?;
        Ok(self.cluster.url().replacen("/postgres?", &format!("/{name}?"), 1))
    }

    /// Lets so many callers insert a row and update it twice, each time durably.
    pub async fn cycles(&self, callers: usize, time: Duration) -> Result<Run, String> {
        let seconds = time.as_secs_f64().ceil().max(1.0);
        let logs = self.folder.path().join("logs");
        let failed = |e: std::io::Error| format!("{}: {e}", logs.display());
        std::fs::create_dir(&logs).map_err(failed)?;
        let mut command = tokio::process::Command::from(self.program("pgbench"));
        command
            .args(["--no-vacuum", "--protocol=prepared", "--log"])
            .arg(format!("--log-prefix={}/log", logs.display()))
            .arg(format!("--file={}/cycle.sql", self.folder.path().display()))
            .arg(format!("--client={callers}"))
            .arg(format!("--jobs={}", callers.min(THREADS)))
            .arg(format!("--time={seconds}"))
            .arg("pgbench")
            .kill_on_drop(true);
        let out = command.output().await.map_err(|e| format!("pgbench: {e}"))?;
        let (said, wrong) = (
            String::from_utf8_lossy(&out.stdout),
            String::from_utf8_lossy(&out.stderr),
        );
        let none_failed = said
            .lines()
            .any(|l| l.starts_with("number of failed transactions: 0 "));
        if !out.status.success() || !none_failed {
            return Err(format!("pgbench ended with {}: {said} {wrong}", out.status));
        }
        let per_s = said.lines().find_map(|l| {
            let rest = l.strip_prefix("tps = ")?;
            rest.split(' ').next()?.parse::<f64>().ok()
        });
        let took_us = read_logs(&logs)?;
        std::fs::remove_dir_all(&logs).map_err(failed)?;
        Ok(Run {
            per_s: per_s.ok_or("pgbench told no tps")?,
            ..Run::of(took_us, time)
        })
    }

    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        command
            .env("PGHOST", self.cluster.folder())
            .env("PGUSER", "wilco");
        command
    }

    /// What a database (its name, or its address) answers.
    pub fn ask(&self, database: &str, statements: &str) -> Result<String, String> {
        let out = self
            .program("psql")
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"])
            .args(["-d", database, "-c", statements])
            .output();
        let out = out.map_err(|e| format!("psql: {e}"))?;
        match out.status.success() {
            true => Ok(String::from_utf8_lossy(&out.stdout).into_owned()),
            false => Err(format!("psql: {}", String::from_utf8_lossy(&out.stderr))),
        }
    }
}

/// The three transactions of a cycle.
fn cycle() -> String {
    let body = "0123456789".repeat(BODY / 10);
    let mut script = format!("INSERT INTO cycle (state, body) VALUES (1, '{body}') RETURNING id \\gset\n");
    for state in [2, 3] {
        // Writing to a String cannot fail.
        let _ = writeln!(script, "UPDATE cycle SET state = {state} WHERE id = :id;");
    }
    script
}

/// How long each cycle took, in microseconds: the third figure of each line.
fn read_logs(folder: &Path) -> Result<Vec<u64>, String> {
    let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
    let mut took_us = Vec::new();
    for log in std::fs::read_dir(folder).map_err(failed)? {
        let text = std::fs::read_to_string(log.map_err(failed)?.path()).map_err(failed)?;
        for line in text.lines() {
            let us = line.split(' ').nth(2).and_then(|us| us.parse().ok());
            took_us.push(us.ok_or_else(|| format!("pgbench logs {line:?}"))?);
        }
    }
    Ok(took_us)
}
