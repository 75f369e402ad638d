//! A PostgreSQL server of one's own: made, started, broken and removed.
//!
//! It needs the server's programs and nothing else. Its data lie in a private folder of the temporary directory, because
//! PostgreSQL refuses to run as root and the account it then runs as must be able to get there; it listens on a Unix socket
//! in that folder, so that it takes no port. Durability is on, as it comes: the keeper refuses anything less.
//!
//! A small shell outlives us by a moment: it waits at a pipe whose other end we hold, and when that closes, however we
//! ended (also by Ctrl-C or a kill), it stops the server and removes the folder.
//!
//! Only the standard library is used here: `xtask` and the store's tests share this file.

// Each of those who share it uses a part of it.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Waits at its standard input for words, answers each with a line, and cleans up at its end.
///
/// $1 the folder of the programs; the rest are lines of `postgresql.conf`.
const KEEPER: &str = r#"
trap '' HUP INT TERM PIPE
bin=$1; shift
cd / || exit 1
dir=$(mktemp -d "${TMPDIR:-/tmp}/wilco-postgres.XXXXXX") || exit 1
data=$dir/data
ctl() { "$bin/pg_ctl" -D "$data" -s -w -t 60 -l "$dir/log" "$@" >>"$dir/ctl" 2>&1 </dev/null; }
clean() { ctl stop -m immediate; rm -rf "$dir"; }
fail() { echo "failed $1: $(tail -n 5 "$dir/ctl" "$dir/log" 2>/dev/null | tr '\n' ' ')"; clean; exit 1; }
"$bin/initdb" -D "$data" -U wilco -A trust -E UTF8 --locale=C --no-sync --no-instructions >"$dir/ctl" 2>&1 || fail initdb
{
    echo "listen_addresses = ''"
    echo "unix_socket_directories = '$dir'"
    echo "max_connections = 300"
    for line in "$@"; do echo "$line"; done
} >>"$data/postgresql.conf"
ctl start || fail start
echo "ready $dir"
while read -r word rest; do
    case $word in
        start) ctl start ;;
        stop) ctl stop -m "$rest" ;;
        set) echo "$rest" >>"$data/postgresql.conf"; ctl reload ;;
        *) false ;;
    esac && echo ready || echo "failed $word $rest: $(tail -n 5 "$dir/ctl" "$dir/log" | tr '\n' ' ')"
done
clean
"#;

/// A running server. Dropping it stops it and removes everything.
#[derive(Debug)]
pub struct Cluster {
    keeper: Child,
    words: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    folder: PathBuf,
}

impl Cluster {
    /// Makes and starts one, with more lines for its `postgresql.conf`.
    ///
    /// # Errors
    /// The programs are not there, or the server does not start; the text says why.
    pub fn start(settings: &[&str]) -> Result<Cluster, String> {
        Cluster::start_with(settings, None)
    }

    /// The same, with one more variable in its environment.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub fn start_with(settings: &[&str], variable: Option<(&str, &str)>) -> Result<Cluster, String> {
        let programs = programs().ok_or(
            "PostgreSQL's server programs (initdb, pg_ctl) are neither in /usr/lib/postgresql/*/bin nor in the PATH",
        )?;
        let mut keeper = as_somebody_else()
            .args(["sh", "-c", KEEPER, "wilco-postgres"])
            .arg(programs)
            .args(settings)
            .envs(variable)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Not in our group: a Ctrl-C is for us, and the end of us for it.
            .process_group(0)
            .spawn()
            .map_err(|e| format!("the shell that keeps PostgreSQL cannot be started: {e}"))?;
        let words = keeper.stdin.take();
        let answers = keeper.stdout.take().ok_or("the shell has no standard output")?;
        let mut cluster = Cluster {
            keeper,
            words,
            answers: BufReader::new(answers),
            folder: PathBuf::new(),
        };
        cluster.folder = PathBuf::from(cluster.answer()?);
        Ok(cluster)
    }

    /// Its address, for a user who may do everything.
    #[must_use]
    pub fn url(&self) -> String {
        url_at(&self.folder)
    }

    /// The folder its socket lies in.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Stops it as a power cut would: at once, with nothing put in order.
    ///
    /// # Errors
    /// It does not stop.
    pub fn crash(&mut self) -> Result<(), String> {
        self.tell("stop immediate")
    }

    /// Starts it again.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_again(&mut self) -> Result<(), String> {
        self.tell("start")
    }

    /// Changes a setting that needs no restart, by a line for `postgresql.conf`.
    ///
    /// # Errors
    /// The server does not take it.
    pub fn set(&mut self, line: &str) -> Result<(), String> {
        self.tell(&format!("set {line}"))
    }

    fn tell(&mut self, word: &str) -> Result<(), String> {
        let words = self.words.as_mut().ok_or("it was closed")?;
        writeln!(words, "{word}").map_err(|e| format!("the shell that keeps PostgreSQL is gone: {e}"))?;
        self.answer().map(drop)
    }

    fn answer(&mut self) -> Result<String, String> {
        let mut line = String::new();
        self.answers
            .read_line(&mut line)
            .map_err(|e| format!("the shell that keeps PostgreSQL does not answer: {e}"))?;
        match line.trim().split_once(' ').unwrap_or((line.trim(), "")) {
            ("ready", rest) => Ok(rest.to_owned()),
            _ => Err(format!("PostgreSQL: {}", line.trim())),
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.words.take());
        let _ = self.keeper.wait();
    }
}

/// The address of the server the tests share.
///
/// # Errors
/// It is not told.
pub fn server() -> Result<String, String> {
    std::env::var("WILCO_TEST_POSTGRES").map_err(|_| {
        "WILCO_TEST_POSTGRES is not set: run these tests by `cargo xtask test`, or give the address of a PostgreSQL server \
         on which databases may be made"
            .to_owned()
    })
}

/// A database nobody else has. Dropping it removes it, whoever still uses it.
#[derive(Debug)]
pub struct Database {
    server: String,
    name: String,
}

impl Database {
    /// A new and empty one, in the server at this address.
    ///
    /// # Errors
    /// The server does not make it.
    pub fn create(server: &str) -> Result<Database, String> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = format!("wilco_{}_{}_{n}", std::process::id(), now.as_micros());
        sql(server, &format!("CREATE DATABASE {name} TEMPLATE template0"))?;
        Ok(Database {
            server: server.to_owned(),
            name,
        })
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        self.at(&self.server)
    }

    /// Its address through another door to the server.
    #[must_use]
    pub fn at(&self, server: &str) -> String {
        let (front, query) = server.split_once('?').unwrap_or((server, ""));
        let server = front.rsplit_once('/').map_or(front, |(server, _)| server);
        let mark = if query.is_empty() { "" } else { "?" };
        format!("{server}/{}{mark}{query}", self.name)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let _ = sql(&self.server, &format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}

/// What a statement answers, a row a line, as PostgreSQL's own client says it.
///
/// # Errors
/// The server's words.
pub fn sql(url: &str, statement: &str) -> Result<String, String> {
    let psql = programs()
        .map(|bin| bin.join("psql"))
        .filter(|psql| psql.is_file());
    let out = Command::new(psql.unwrap_or_else(|| PathBuf::from("psql")))
        .args([
            "-X",
            "-q",
            "-A",
            "-t",
            "-v",
            "ON_ERROR_STOP=1",
            "-d",
            url,
            "-c",
            statement,
        ])
        .output()
        .map_err(|e| format!("psql could not be started: {e}"))?;
    if out.status.success() {
        Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned())
    } else {
        Err(String::from_utf8_lossy(&out.stderr).trim().to_owned())
    }
}

/// The address of the server whose socket lies in this folder.
#[must_use]
pub fn url_at(folder: &Path) -> String {
    format!("postgres://wilco@localhost/postgres?host={}", folder.display())
}

/// The folder of the server's programs: of the newest version in Debian's place, else the first in the PATH.
#[must_use]
pub fn programs() -> Option<PathBuf> {
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut versions: Vec<(u32, PathBuf)> = debian
        .flatten()
        .filter_map(|entry| {
            let version = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .collect();
    versions.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let newest_first = versions.into_iter().rev().map(|(_, bin)| bin);
    newest_first
        .chain(std::env::split_paths(&path))
        .find(|bin| ["initdb", "pg_ctl"].iter().all(|name| bin.join(name).is_file()))
}

/// A command that runs its arguments, as an unprivileged account where we are root.
fn as_somebody_else() -> Command {
    let id = |args: &[&str]| {
        let out = Command::new("id")
            .args(args)
            .stderr(Stdio::null())
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&out.stdout).trim().to_owned();
        out.status.success().then_some(text)
    };
    if id(&["-u"]).as_deref() != Some("0") {
        return Command::new("env");
    }
    let account = if id(&["-u", "postgres"]).is_some() {
        "postgres"
    } else {
        "nobody"
    };
    let mut command = Command::new("runuser");
    command.args(["-u", account, "--"]);
    command
}
