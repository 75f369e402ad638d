//! The git remote: a bare repository that is pushed to by path, and hooks that record every push and make some fail.
//!
//! There is no server here: the pusher's own git runs `git receive-pack`, which runs the hooks. They are plain shell
//! scripts, written anew at every start; they take armed faults from a folder of [`crate::shots`].

mod seed;

use std::{
    collections::VecDeque,
    fs::{self, File},
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use serde::Serialize;
use thiserror::Error;
use tokio::{io::AsyncWriteExt, process::Command};

pub use seed::{VERSIONS, program};

use crate::shots::Shots;

/// Everything of the git remote inside the lab's folder.
pub const GIT_FOLDER: &str = "git";
/// The repository in it.
pub const GIT_REPOSITORY: &str = "api.git";
/// The record of pushes in it.
pub const GIT_RECORD: &str = "pushes.log";

/// How long one call of the git program may take.
const GIT_TIME: Duration = Duration::from_secs(20);
/// How much of the git program's complaint is repeated.
const COMPLAINT_MAX: usize = 300;
/// The longest line of the record that is read back.
const RECORD_LINE_MAX: u64 = 64 * 1024;

const HOOKS: [(&str, &str); 3] = [
    ("pre-receive", include_str!("pre-receive.sh")),
    ("reference-transaction", include_str!("reference-transaction.sh")),
    ("post-receive", include_str!("post-receive.sh")),
];

const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n\tlogAllRefUpdates = always\n\
[receive]\n\tadvertisePushOptions = true\n\tfsckObjects = true\n[gc]\n\tauto = 0\n";

/// What may go wrong with a push. The README's table says what each does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitFault {
    /// The other side dies before anything moves.
    DropBefore,
    /// The ref has moved; the other side dies before it says so.
    DropAfterAccept,
    /// Refused by the pre-receive hook.
    Refuse,
    /// Carried out later.
    Slow,
}

impl GitFault {
    /// Every fault, in the order the README lists them.
    pub const ALL: [Self; 4] = [Self::DropBefore, Self::DropAfterAccept, Self::Refuse, Self::Slow];

    /// Its name in `POST /lab/faults` and `--fault`, and the hooks' word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::DropBefore => "drop-before",
            Self::DropAfterAccept => "drop-after-accept",
            Self::Refuse => "refuse",
            Self::Slow => "slow",
        }
    }
}

/// Why there is no git remote.
#[derive(Debug, Error)]
pub enum GitError {
    /// There is no git program.
    #[error("the program git does not run ({source}); install it and start the lab again")]
    NoGit {
        /// What the system said.
        source: io::Error,
    },
    /// It did not do what it was asked to.
    #[error("git {step} failed: {complaint}")]
    Failed {
        /// Which step.
        step: &'static str,
        /// The program's own words, cut short.
        complaint: String,
    },
    /// The folder could not be used.
    #[error("{}: {source}", path.display())]
    Folder {
        /// Which path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// One line of the record.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
pub struct Push {
    /// UTC.
    pub at: String,
    #[serde(rename = "ref")]
    pub reference: String,
    /// The commit before; all zeroes where there was none.
    pub old: String,
    /// The commit after; all zeroes where the ref is gone.
    pub new: String,
    /// The push options, in order. None for a ref that was moved by hand.
    pub options: Vec<String>,
}

/// The git remote.
#[derive(Debug, Clone)]
pub struct GitRemote {
    folder: PathBuf,
    shots: Shots,
}

impl GitRemote {
    /// Opens the remote in the lab's folder; makes and fills the repository where there is none. No fault is armed.
    pub async fn open(lab: &Path) -> Result<Self, GitError> {
        let lab = std::path::absolute(lab).map_err(in_folder(lab))?;
        let folder = lab.join(GIT_FOLDER);
        fs::create_dir_all(&folder).map_err(in_folder(&folder))?;
        let knobs = folder.join("knobs");
        let shots = Shots::open(knobs.clone()).map_err(in_folder(&knobs))?;
        let repository = folder.join(GIT_REPOSITORY);
        if repository.exists() {
            run("--version", &["--version"], b"").await?;
        } else {
            seed(&folder, &repository).await?;
        }
        write_hooks(&repository).map_err(in_folder(&repository))?;
        Ok(Self { folder, shots })
    }

    /// The repository.
    pub fn repository(&self) -> PathBuf {
        self.folder.join(GIT_REPOSITORY)
    }

    /// The repository as a URL that git takes.
    pub fn url(&self) -> String {
        let mut url = String::from("file://");
        for byte in self.repository().to_string_lossy().bytes() {
            if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
                url.push(char::from(byte));
            } else {
                url.push_str(&format!("%{byte:02X}"));
            }
        }
        url
    }

    /// The record.
    pub fn record(&self) -> PathBuf {
        self.folder.join(GIT_RECORD)
    }

    /// Its armed faults.
    pub fn shots(&self) -> &Shots {
        &self.shots
    }

    /// The last `count` moves of a ref, newest first.
    pub fn pushes(&self, count: usize) -> io::Result<Vec<Push>> {
        let file = match File::open(self.record()) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut reader = BufReader::new(file);
        let mut last = VecDeque::new();
        let mut line = Vec::new();
        loop {
            line.clear();
            if reader
                .by_ref()
                .take(RECORD_LINE_MAX)
                .read_until(b'\n', &mut line)?
                == 0
            {
                return Ok(last.into_iter().rev().collect());
            }
            if let Some(push) = push_line(&String::from_utf8_lossy(&line)) {
                if last.len() >= count {
                    last.pop_front();
                }
                last.push_back(push);
            }
        }
    }

    /// Where every ref stands, by name; at most a thousand.
    pub async fn refs(&self) -> Result<Vec<(String, String)>, GitError> {
        let repository = self.repository().to_string_lossy().into_owned();
        let arguments = [
            "--git-dir",
            &repository,
            "for-each-ref",
            "--count=1000",
            // An annotated tag stands at the commit it names.
            "--format=%(refname) %(if)%(*objectname)%(then)%(*objectname)%(else)%(objectname)%(end)",
        ];
        let text = run("for-each-ref", &arguments, b"").await?;
        let refs = text.lines().filter_map(|line| line.split_once(' '));
        Ok(refs.map(|(name, at)| (name.to_owned(), at.to_owned())).collect())
    }
}

/// A repository appears whole or not at all.
async fn seed(folder: &Path, repository: &Path) -> Result<(), GitError> {
    let unready = folder.join("unready.git");
    if unready.exists() {
        fs::remove_dir_all(&unready).map_err(in_folder(&unready))?;
    }
    let path = unready.to_string_lossy().into_owned();
    let init = [
        "init",
        "--quiet",
        "--bare",
        "--template=",
        "--initial-branch=main",
        &path,
    ];
    run("init", &init, b"").await?;
    let config = unready.join("config");
    fs::write(&config, CONFIG).map_err(in_folder(&config))?;
    // What a power cut takes away is made again.
    let import = [
        "-c",
        "core.fsync=none",
        "--git-dir",
        &path,
        "fast-import",
        "--quiet",
        "--date-format=raw",
    ];
    run("fast-import", &import, seed::stream().as_bytes()).await?;
    fs::rename(&unready, repository).map_err(in_folder(repository))
}

fn write_hooks(repository: &Path) -> io::Result<()> {
    let hooks = repository.join("hooks");
    fs::create_dir_all(&hooks)?;
    for (name, script) in HOOKS {
        // Renamed into place: a push that starts just now finds the old script or the new one.
        let unready = hooks.join(format!(".{name}"));
        fs::write(&unready, script)?;
        make_executable(&unready)?;
        fs::rename(&unready, hooks.join(name))?;
    }
    Ok(())
}

/// Lets the owner run a script.
pub(crate) fn make_executable(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

async fn run(step: &'static str, arguments: &[&str], input: &[u8]) -> Result<String, GitError> {
    let no_git = |source| GitError::NoGit { source };
    let mut command = Command::new("git");
    command
        .args(arguments)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    // What a surrounding git (a hook, an alias) set for itself is not meant for this repository.
    for name in [
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_COMMON_DIR",
    ] {
        command.env_remove(name);
    }
    let mut child = command.spawn().map_err(no_git)?;
    let mut stdin = child.stdin.take();
    let told = async {
        if let Some(mut stdin) = stdin.take() {
            // A git that stops reading says why on its standard error.
            let _ = stdin.write_all(input).await;
        }
    };
    let ended = async { tokio::join!(told, child.wait_with_output()).1 };
    let failed = |complaint: String| GitError::Failed { step, complaint };
    let output = match tokio::time::timeout(GIT_TIME, ended).await {
        Ok(output) => output.map_err(no_git)?,
        Err(_) => return Err(failed(format!("no end within {} seconds", GIT_TIME.as_secs()))),
    };
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        return Err(failed(complaint.trim().chars().take(COMPLAINT_MAX).collect()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn push_line(line: &str) -> Option<Push> {
    let mut parts = line.strip_suffix('\n')?.split('\t').map(str::to_owned);
    Some(Push {
        at: parts.next()?,
        reference: parts.next()?,
        old: parts.next()?,
        new: parts.next()?,
        options: parts.filter(|option| !option.is_empty()).collect(),
    })
}

fn in_folder(path: &Path) -> impl Fn(io::Error) -> GitError {
    let path = path.to_owned();
    move |source| GitError::Folder {
        path: path.clone(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_record_is_read_whole_or_not_at_all() {
        let push = push_line("2026-09-14T10:00:00Z\trefs/heads/prod\taa\tbb\tref=W1\tapref=CAB-1\t\n")
            .expect("a push");
        assert_eq!(
            (push.reference.as_str(), push.new.as_str()),
            ("refs/heads/prod", "bb")
        );
        assert_eq!(push.options, ["ref=W1", "apref=CAB-1"]);
        assert_eq!(
            push_line("2026-09-14T10:00:00Z\trefs/heads/prod\taa\tbb\t\n").map(|p| p.options),
            Some(vec![])
        );
        for cut in [
            "",
            "2026\trefs/heads/prod\taa\n",
            "2026\trefs/heads/prod\taa\tbb\tref=W",
        ] {
            assert_eq!(push_line(cut), None, "{cut:?}");
        }
    }
}
