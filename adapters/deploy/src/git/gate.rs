//! The gate between git's connection and its first byte.
//!
//! `git push` connects, learns where the remote's refs are, works out what it would send, and then runs a `pre-push` hook.
//! Ours asks the daemon, by two named pipes, and waits for its word. So the permit is asked with the connection standing; and
//! where the remote's refs are not what was stated, nothing is sent, also where git itself would go on: it takes a branch that
//! somebody else has moved to the very commit we push for done, whatever the lease says.
//!
//! A daemon that dies before it answers leaves a hook that waits until the push is killed: nothing is sent.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

use super::Git;

const HOOK: &str = r#"#!/bin/sh
# Asks the daemon whether this push may go on: what it would move goes to one pipe, the word comes from the other.
if [ "$1" = wilco-test ]; then exit 77; fi
if ! [ -p "$WILCO_GATE/asked" ] || ! [ -p "$WILCO_GATE/answer" ]; then exit 1; fi
{ cat; echo end; } > "$WILCO_GATE/asked" || exit 1
read -r answer < "$WILCO_GATE/answer" || exit 1
[ "$answer" = go ]
"#;

/// What the hook ends with when it is run to see whether it can be.
const HOOK_RUNS: i32 = 77;

/// The most that is read of what a push would move, in bytes.
const ASKED_MAX: usize = 16 * 1024;

/// Where a push waits for our word.
pub(super) struct Gate {
    folder: PathBuf,
    asked: pipe::Receiver,
    answer: pipe::Sender,
}

/// One ref a push would move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Move {
    pub name: String,
    pub from: String,
    pub to: String,
}

impl Gate {
    /// The variable that tells the hook where to ask.
    pub fn variable(&self) -> (String, String) {
        ("WILCO_GATE".to_owned(), self.folder.display().to_string())
    }

    /// Waits until the push is ready to be sent, and returns what it would move. Never returns where it is not asked.
    pub async fn asked(&mut self) -> Result<Vec<Move>, String> {
        let mut text = Vec::new();
        while !text.ends_with(b"end\n") {
            if text.len() > ASKED_MAX || self.asked.read_buf(&mut text).await.map_err(|e| e.to_string())? == 0
            {
                return Err("the hook did not say what the push would move".to_owned());
            }
        }
        moves(&String::from_utf8_lossy(&text))
    }

    /// Lets the push go on, or ends it.
    pub async fn answer(&mut self, go: bool) -> Result<(), String> {
        let word: &[u8] = if go { b"go\n" } else { b"no\n" };
        self.answer.write_all(word).await.map_err(|e| e.to_string())
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        // Litter at worst: the folder is never used again.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Reads what git tells a `pre-push` hook: `<local ref> <local id> <remote ref> <remote id>` a line.
fn moves(text: &str) -> Result<Vec<Move>, String> {
    let one = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            [_, to, name, from] => Ok(Move {
                name: (*name).to_owned(),
                from: (*from).to_owned(),
                to: (*to).to_owned(),
            }),
            _ => Err("the hook was told something else than refs".to_owned()),
        }
    };
    text.lines().take_while(|l| *l != "end").map(one).collect()
}

impl Git {
    pub(super) fn hooks(&self) -> PathBuf {
        let mut folder = self.repository.clone();
        folder.set_extension("hooks");
        folder
    }

    /// Makes the repository and the hook where they are missing.
    pub(super) async fn ensure(&self) -> Result<(), String> {
        if self.is_new_enough.get().is_none() {
            let said = self.git(&["version"], "").await?;
            if !super::parse::is_new_enough(&said) {
                return Err(format!("{} is too old: git 2.32 or newer is needed", said.trim()));
            }
            // Perhaps another call has said so already.
            let _ = self.is_new_enough.set(());
        }
        let hooks = self.hooks();
        let hook = hooks.join("pre-push");
        let made = tokio::task::spawn_blocking(move || write_hook(&hooks)).await;
        made.unwrap_or_else(|e| Err(std::io::Error::other(e)))
            .map_err(|e| format!("{} cannot be written: {e}", hook.display()))?;
        if !self.repository.join("HEAD").exists() {
            let path = self.repository.display().to_string();
            self.git(&["init", "--quiet", "--bare", "--template=", "--", &path], "")
                .await
                .map_err(|e| format!("{path} cannot be made: {e}"))?;
        }
        Ok(())
    }

    /// A new gate, if the hook can be run: on a file system that runs no programs git would leave it out and push.
    pub(super) async fn gate(&self) -> Result<Gate, String> {
        let hook = self.hooks().join("pre-push");
        let call = crate::program::Call {
            program: &hook.display().to_string(),
            arguments: vec!["wilco-test".to_owned()],
            environment: Vec::new(),
            folder: None,
            input: String::new(),
            time: self.timeout,
            output_max: ASKED_MAX,
        };
        match crate::program::run(call).await {
            Ok(ended) if ended.code == Some(HOOK_RUNS) => {}
            Ok(_) => {
                return Err(format!(
                    "{} cannot be run; is its file system mounted noexec?",
                    hook.display()
                ));
            }
            Err(failure) => return Err(failure.to_string()),
        }
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = self.hooks().join(format!("gate-{}-{n}", std::process::id()));
        let there = folder.clone();
        let made = tokio::task::spawn_blocking(move || make_pipes(&there)).await;
        made.unwrap_or_else(|e| Err(std::io::Error::other(e)))
            .and_then(|()| open(folder))
            .map_err(|e| format!("the gate cannot be made: {e}"))
    }
}

/// Both ends are opened by us, so that neither side's coming and going is seen as an end.
#[cfg(target_os = "linux")]
fn open(folder: PathBuf) -> std::io::Result<Gate> {
    let options = |folder: &Path, name: &str| {
        let mut options = pipe::OpenOptions::new();
        options.read_write(true);
        (options, folder.join(name))
    };
    let (asked, at) = options(&folder, "asked");
    let asked = asked.open_receiver(at)?;
    let (answer, at) = options(&folder, "answer");
    let answer = answer.open_sender(at)?;
    Ok(Gate {
        folder,
        asked,
        answer,
    })
}

#[cfg(not(target_os = "linux"))]
fn open(_folder: PathBuf) -> std::io::Result<Gate> {
    Err(std::io::Error::other("git targets need Linux"))
}

/// How old the gate of a process that died is when it is thrown away: no push takes as long.
const GATE_AGE: Duration = Duration::from_secs(24 * 3_600);

fn make_pipes(folder: &Path) -> std::io::Result<()> {
    for entry in folder
        .parent()
        .and_then(|f| std::fs::read_dir(f).ok())
        .into_iter()
        .flatten()
        .flatten()
    {
        let age = entry
            .metadata()
            .and_then(|m| m.modified())
            .ok()
            .and_then(|at| at.elapsed().ok());
        let old = age.is_some_and(|age| age > GATE_AGE);
        if old && entry.file_name().to_string_lossy().starts_with("gate-") {
            // Litter: another call may have been faster.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    // Left by an earlier process that had our number.
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    std::fs::create_dir_all(folder)?;
    for name in ["asked", "answer"] {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(
            rustix::fs::CWD,
            folder.join(name),
            rustix::fs::FileType::Fifo,
            mode,
            0,
        )?;
    }
    Ok(())
}

/// Written under another name and moved into place, because another call may be running it.
fn write_hook(hooks: &Path) -> std::io::Result<()> {
    let hook = hooks.join("pre-push");
    if std::fs::read(&hook).is_ok_and(|text| text == HOOK.as_bytes()) {
        return Ok(());
    }
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let fresh = hooks.join(format!("pre-push.{}", NEXT.fetch_add(1, Ordering::Relaxed)));
    std::fs::create_dir_all(hooks)?;
    std::fs::write(&fresh, HOOK)?;
    std::fs::set_permissions(&fresh, std::fs::Permissions::from_mode(0o700))?;
    std::fs::rename(&fresh, &hook)
}
