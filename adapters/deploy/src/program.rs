//! Running somebody else's program: an argument list and never a shell, an environment of our making, limits on time and
//! output, and a process group that ends with the call.
//!
//! Ending it has two belts. While we live, a dropped call kills the group. Should this process be killed or paused, the
//! program `timeout` (coreutils), which leads the group, kills it when the time is up: nothing goes on sending for ever.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

/// By how much we are faster than the program that would end it for us.
const MOMENT: Duration = Duration::from_millis(50);

/// What is run.
pub(crate) struct Call<'a> {
    pub program: &'a str,
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
    pub folder: Option<&'a Path>,
    pub input: String,
    /// How long it may take.
    pub time: Duration,
    /// The most bytes of each output that are read.
    pub output_max: usize,
}

/// How it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Its exit code; `None` where a signal ended it.
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// Why it did not end by itself, or not usably.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// It never ran.
    #[error("{0} cannot be started: {1}")]
    NotStarted(String, std::io::Error),
    /// It was ended.
    #[error("{0} did not end within {1} s")]
    TimedOut(String, u64),
    /// It was ended.
    #[error("{0} says more than {1} bytes")]
    TooMuch(String, usize),
    /// Its pipes broke.
    #[error("{0} cannot be listened to: {1}")]
    Pipes(String, std::io::Error),
}

/// Kills the group when it is dropped, unless all of it is known to have ended.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            // Gone already is what is wanted.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

/// Runs it to its end.
pub(crate) async fn run(call: Call<'_>) -> Result<Ended, Failure> {
    let name = call.program.to_owned();
    let seconds = call.time.as_secs().max(1);
    let mut command = Command::new("timeout");
    command
        .args(["--signal=KILL", &seconds.to_string(), call.program])
        .args(&call.arguments)
        .env_clear()
        .env("PATH", search_path())
        .env("LC_ALL", "C")
        .envs(call.environment)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    if let Some(folder) = call.folder {
        command.current_dir(folder);
    }
    let mut child = command
        .spawn()
        .map_err(|e| Failure::NotStarted(name.clone(), e))?;
    let pid = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .and_then(Pid::from_raw);
    let mut group = Group(pid);
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let max = call.output_max;
    let talk = async {
        let write = async {
            if let Some(mut stdin) = stdin {
                // A program that does not read its input has its reasons.
                let _ = stdin.write_all(call.input.as_bytes()).await;
            }
            Ok::<_, std::io::Error>(())
        };
        let ((), out, err) = tokio::try_join!(write, read(stdout, max), read(stderr, max))?;
        let status = child.wait().await?;
        Ok::<_, std::io::Error>((status, out, err))
    };
    // A moment less than `timeout` waits, which is there for the day on which we do not.
    let ended = tokio::time::timeout(Duration::from_secs(seconds) - MOMENT, talk).await;
    let (status, out, err) = match ended {
        Err(_) => return Err(Failure::TimedOut(name, seconds)),
        Ok(Err(e)) => return Err(Failure::Pipes(name, e)),
        Ok(Ok(ended)) => ended,
    };
    if out.len() > max || err.len() > max {
        return Err(Failure::TooMuch(name, max));
    }
    group.0 = None;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Ended {
        code: status.code(),
        out: text(out),
        err: text(err),
    })
}

/// Where programs that are named without a path are looked for.
pub(crate) fn paths() -> impl Iterator<Item = PathBuf> {
    std::env::split_paths(&search_path())
        .collect::<Vec<_>>()
        .into_iter()
}

fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into())
}

/// Reads to the end, keeping one byte more than allowed at most; what is beyond is thrown away, so that nobody waits.
async fn read(pipe: Option<impl AsyncRead + Unpin>, max: usize) -> std::io::Result<Vec<u8>> {
    let mut kept = Vec::new();
    let Some(mut pipe) = pipe else { return Ok(kept) };
    let limit = u64::try_from(max).unwrap_or(u64::MAX).saturating_add(1);
    (&mut pipe).take(limit).read_to_end(&mut kept).await?;
    tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await?;
    Ok(kept)
}
