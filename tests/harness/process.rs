//! A child process whose output is kept, and which does not outlive its owner.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::PATIENCE;

/// A running program. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    name: String,
    out: PathBuf,
    err: PathBuf,
}

/// What a program said when it had ended.
#[derive(Debug, Clone)]
pub struct Ended {
    /// Its exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Process {
    /// Starts a program with its output in `folder`, under `name`.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn start(mut command: Command, folder: &Path, name: &str) -> Process {
        let file = |ending: &str| folder.join(format!("{name}.{ending}"));
        let (out, err) = (file("out"), file("err"));
        let open = |path: &Path| {
            File::options()
                .create(true)
                .append(true)
                .open(path)
                .unwrap_or_else(|e| panic!("{}: {e}", path.display()))
        };
        let child = command
            .stdin(Stdio::null())
            .stdout(open(&out))
            .stderr(open(&err))
            .spawn()
            .unwrap_or_else(|e| panic!("{name} could not be started: {e}"));
        Process {
            child,
            name: name.to_owned(),
            out,
            err,
        }
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Standard error so far, of this and earlier processes of the same name.
    #[must_use]
    pub fn log(&self) -> String {
        read(&self.err)
    }

    /// Standard output so far.
    #[must_use]
    pub fn output(&self) -> String {
        read(&self.out)
    }

    /// How it ended, if it has.
    ///
    /// # Panics
    /// If the system does not say.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child
            .try_wait()
            .unwrap_or_else(|e| panic!("{}: {e}", self.name))
    }

    /// Kills it as `kill -9` does, and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks it to end, as a supervisor does.
    ///
    /// # Panics
    /// If the signal cannot be sent.
    pub fn terminate(&self) {
        signal(self.pid(), "TERM");
    }

    /// Stops the process where it stands, as a machine that is suspended does, without ending it.
    pub fn pause(&self) {
        signal(self.pid(), "STOP");
    }

    /// Lets a paused process go on.
    pub fn go_on(&self) {
        signal(self.pid(), "CONT");
    }

    /// Waits until it ends by itself.
    ///
    /// # Panics
    /// If it does not within [`PATIENCE`].
    pub async fn end(&mut self) -> Ended {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.ended() {
                return Ended {
                    code: status.code(),
                    out: read(&self.out),
                    err: read(&self.err),
                };
            }
            assert!(
                Instant::now() < deadline,
                "{} does not end:\n{}{}",
                self.name,
                read(&self.out),
                read(&self.err)
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!(
                "--- {} said\n{}{}",
                self.name,
                end_of(&self.out),
                end_of(&self.err)
            );
        }
    }
}

/// Runs a program to its end.
///
/// # Panics
/// If it cannot be started.
pub async fn run(command: Command) -> Ended {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut command = tokio::process::Command::from(command);
    command.stdin(Stdio::null()).kill_on_drop(true);
    let ended = tokio::time::timeout(PATIENCE, command.output())
        .await
        .unwrap_or_else(|_| panic!("{name} does not end"))
        .unwrap_or_else(|e| panic!("{name} could not be started: {e}"));
    Ended {
        code: ended.status.code(),
        out: String::from_utf8_lossy(&ended.stdout).into_owned(),
        err: String::from_utf8_lossy(&ended.stderr).into_owned(),
    }
}

/// Waits for the `run.json` that `process` writes once it answers.
///
/// # Panics
/// If the process ends instead.
pub async fn run_file(path: &Path, process: &mut Process) -> serde_json::Value {
    crate::until("run.json", async || {
        if let Some(status) = process.ended() {
            panic!("{} ended with {status} instead of serving", process.name);
        }
        let text = std::fs::read_to_string(path).ok()?;
        let run: serde_json::Value = serde_json::from_str(&text)
            .unwrap_or_else(|e| panic!("run.json is whole when seen: {e}: {text}"));
        // A killed process leaves its file behind until the next one has the folder.
        (run["pid"] == process.pid()).then_some(run)
    })
    .await
}

// The shell's own `kill`: there is one on every machine, and no foreign code to call for it.
fn signal(pid: u32, name: &str) {
    let status = Command::new("sh")
        .args(["-c", &format!("kill -{name} {pid}")])
        .status()
        .unwrap_or_else(|e| panic!("sh: {e}"));
    assert!(status.success(), "process {pid} took no SIG{name}");
}

fn end_of(path: &Path) -> String {
    let text = read(path);
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(60);
    let mut end = lines[from..].join("\n");
    end.push('\n');
    end
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}
