//! The release folder: artefacts to install, and targets whose `current` link says what runs. No process: who deploys
//! works on the folder itself; the link and what lies around it is the record.

mod tarball;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use data_encoding::HEXLOWER;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::{
    git::{VERSIONS, make_executable, program},
    shots::Shots,
};
use tarball::{Entry, tar_gz};

/// The folder inside the lab's.
pub const RELEASES_FOLDER: &str = "releases";
/// Where artefacts are, in it.
pub const ARTEFACTS_FOLDER: &str = "artefacts";
/// Where targets are, in it.
pub const LIVE_FOLDER: &str = "live";
/// The one target of a new folder.
pub const TARGET: &str = "api-prod";

/// How much of an artefact is read to name its digest.
const ARTEFACT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// How many entries of a folder are shown.
const SHOWN_MAX: usize = 200;

const HEALTH: &str = include_str!("health.sh");

/// What may go wrong when the health of a target is asked for. The README's table says what each does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseFault {
    /// The new release does not serve.
    Unhealthy,
    /// It serves, with errors.
    Degraded,
    /// It says so late.
    Slow,
}

impl ReleaseFault {
    /// Every fault, in the order the README lists them.
    pub const ALL: [Self; 3] = [Self::Unhealthy, Self::Degraded, Self::Slow];

    /// Its name in `POST /lab/faults` and `--fault`, and the script's word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Unhealthy => "unhealthy",
            Self::Degraded => "degraded",
            Self::Slow => "slow",
        }
    }
}

/// What stands in the folder.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
pub struct ReleaseReport {
    pub artefacts: Vec<Artefact>,
    pub targets: Vec<Target>,
}

/// A file that can be installed.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
pub struct Artefact {
    pub file: String,
    /// None for a file too large to be read just to be shown.
    pub sha256: Option<String>,
}

/// A place where something runs.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
pub struct Target {
    pub name: String,
    /// What its `current` link points at, if there is one.
    pub current: Option<String>,
    /// The folder in the target that the link ends at, through other links; none where it ends nowhere in it.
    pub runs: Option<String>,
    /// What else lies in it, with the content of folders one level down.
    pub entries: Vec<String>,
}

/// The release folder.
#[derive(Debug, Clone)]
pub struct Releases {
    folder: PathBuf,
    shots: Shots,
}

impl Releases {
    /// Opens the folder in the lab's; fills it where there is none. No fault is armed.
    pub fn open(lab: &Path) -> io::Result<Self> {
        let folder = std::path::absolute(lab)?.join(RELEASES_FOLDER);
        let artefacts = folder.join(ARTEFACTS_FOLDER);
        if !artefacts.exists() {
            seed(&folder, &artefacts)?;
        }
        let shots = Shots::open(folder.join("knobs"))?;
        let releases = Self { folder, shots };
        let health = releases.health();
        fs::write(&health, HEALTH)?;
        make_executable(&health)?;
        Ok(releases)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// The program that says how a target does.
    pub fn health(&self) -> PathBuf {
        self.folder.join("health")
    }

    /// Its armed faults.
    pub fn shots(&self) -> &Shots {
        &self.shots
    }

    /// What stands there now.
    pub fn report(&self) -> io::Result<ReleaseReport> {
        let mut artefacts = Vec::new();
        for name in names(&self.folder.join(ARTEFACTS_FOLDER))? {
            let path = self.folder.join(ARTEFACTS_FOLDER).join(&name);
            let meta = fs::metadata(&path)?;
            if meta.is_file() {
                artefacts.push(Artefact {
                    file: name,
                    sha256: (meta.len() <= ARTEFACT_BYTES_MAX)
                        .then(|| fs::read(&path).map(|bytes| HEXLOWER.encode(&Sha256::digest(&bytes))))
                        .transpose()?,
                });
            }
        }
        let live = self.folder.join(LIVE_FOLDER);
        let mut targets = Vec::new();
        for name in names(&live)? {
            let path = live.join(&name);
            if path.is_dir() {
                targets.push(target(name, &path)?);
            }
        }
        Ok(ReleaseReport { artefacts, targets })
    }
}

fn target(name: String, path: &Path) -> io::Result<Target> {
    let mut entries = Vec::new();
    for entry in names(path)? {
        let below = path.join(&entry);
        if below.is_symlink() || !below.is_dir() {
            entries.push(entry);
            continue;
        }
        for inside in names(&below)? {
            entries.push(format!("{entry}/{inside}"));
        }
    }
    entries.truncate(SHOWN_MAX);
    let current = fs::read_link(path.join("current")).ok();
    Ok(Target {
        name,
        runs: runs(path),
        current: current.map(|to| to.to_string_lossy().into_owned()),
        entries,
    })
}

fn runs(target: &Path) -> Option<String> {
    let release = fs::canonicalize(target.join("current")).ok()?;
    let inside = release.strip_prefix(fs::canonicalize(target).ok()?).ok()?;
    Some(inside.to_string_lossy().into_owned())
}

/// The names in a folder, sorted and bounded; none where there is no folder.
fn names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for entry in entries.take(10_000) {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    names.truncate(SHOWN_MAX);
    Ok(names)
}

/// Fills a new folder. The artefacts come last, whole: they are what says that it has been done.
fn seed(folder: &Path, artefacts: &Path) -> io::Result<()> {
    let target = folder.join(LIVE_FOLDER).join(TARGET);
    let Some(first) = VERSIONS.first() else {
        return Ok(());
    };
    let release = target.join("releases").join(first);
    for entry in content(first) {
        let path = release.join(entry.path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, &entry.content)?;
        if entry.executable {
            make_executable(&path)?;
        }
    }
    let current = target.join("current");
    if !current.is_symlink() {
        link(&Path::new("releases").join(first), &current)?;
    }
    let unready = folder.join("unready");
    fs::create_dir_all(&unready)?;
    for version in VERSIONS {
        fs::write(
            unready.join(format!("api-{version}.tar.gz")),
            tar_gz(&content(version)),
        )?;
    }
    fs::rename(&unready, artefacts)
}

fn content(version: &str) -> Vec<Entry> {
    vec![
        Entry {
            path: "VERSION",
            executable: false,
            content: format!("{version}\n"),
        },
        Entry {
            path: "bin/api",
            executable: true,
            content: program(version),
        },
    ]
}

#[cfg(unix)]
fn link(to: &Path, at: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(to, at)
}

#[cfg(not(unix))]
fn link(_to: &Path, _at: &Path) -> io::Result<()> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "the release folder needs symbolic links",
    ))
}
