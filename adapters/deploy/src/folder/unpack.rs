//! Making a release from an artefact, entry by entry. What comes in an archive was perhaps made to harm: an entry is refused,
//! never mended.
//!
//! Files and folders are made first, and every file anew, so that no link can lead a file astray; links are made last, and
//! each must lead to something inside. Owners, times and special bits are not taken over.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::time::Instant;

use flate2::read::MultiGzDecoder;
use sha2::{Digest, Sha256};
use tar::EntryType;

use super::tree::{DEPTH_MAX, TreeError};
use crate::config::Limits;
use crate::plan::clean;

/// The longest name or link in an archive, in bytes.
const NAME_MAX: u64 = 4_096;
/// The largest extended header, in bytes.
const HEADER_MAX: u64 = 64 * 1024;

/// What an artefact is made into.
pub(super) struct Unpacking<'a> {
    /// An empty folder.
    pub into: &'a Path,
    pub strip: usize,
    pub limits: Limits,
    pub until: Instant,
    made: u32,
    bytes: u64,
    links: Vec<(PathBuf, PathBuf)>,
}

impl<'a> Unpacking<'a> {
    pub fn new(into: &'a Path, strip: usize, limits: Limits, until: Instant) -> Unpacking<'a> {
        Unpacking {
            into,
            strip,
            limits,
            until,
            made: 0,
            bytes: 0,
            links: Vec::new(),
        }
    }

    /// Unpacks a `.tar.gz` and returns the hex SHA-256 of its bytes: of those that were unpacked, read once.
    pub fn archive(mut self, artefact: &Path) -> Result<String, TreeError> {
        let file = File::open(artefact)
            .map_err(|e| TreeError::Passing(format!("{} cannot be opened: {e}", artefact.display())))?;
        let mut hashed = Hashed {
            inner: file,
            hash: Sha256::new(),
        };
        let most = self
            .limits
            .bytes
            .saturating_add(u64::from(self.limits.entries).saturating_mul(4 * 512))
            .saturating_add(HEADER_MAX);
        {
            let mut stream = MultiGzDecoder::new(&mut hashed).take(most);
            self.entries(&mut stream)?;
            // To the end, so that the checksum is compared and what the digest covers is all there is.
            io::copy(&mut stream, &mut io::sink()).map_err(|e| broken(&e))?;
            if stream.limit() == 0 {
                return Err(TreeError::Refused(
                    "the archive holds more than max_bytes allows".to_owned(),
                ));
            }
        }
        io::copy(&mut hashed, &mut io::sink()).map_err(|e| broken(&e))?;
        self.finish()?;
        Ok(data_encoding::HEXLOWER.encode(&hashed.hash.finalize()))
    }

    /// Copies a folder.
    pub fn folder(mut self, artefact: &Path) -> Result<(), TreeError> {
        self.strip = 0;
        self.copy(artefact, Path::new(""), 0)?;
        self.finish()
    }

    fn entries(&mut self, stream: &mut impl Read) -> Result<(), TreeError> {
        let mut archive = tar::Archive::new(stream);
        let (mut long_name, mut long_link) = (None, None);
        // Raw: extended headers come as entries of their own, and are read here within limits.
        let entries = archive.entries().map_err(|e| broken(&e))?.raw(true);
        for entry in entries {
            let mut entry = entry.map_err(|e| broken(&e))?;
            let kind = entry.header().entry_type();
            match kind {
                EntryType::GNULongName => long_name = Some(name_in(&mut entry)?),
                EntryType::GNULongLink => long_link = Some(name_in(&mut entry)?),
                EntryType::XHeader => {
                    let (name, link) = extended(&mut entry)?;
                    long_name = name.or(long_name);
                    long_link = link.or(long_link);
                }
                EntryType::XGlobalHeader => {}
                _ => {
                    let name = match long_name.take() {
                        Some(name) => name,
                        None => entry.path_bytes().into_owned(),
                    };
                    let link = match long_link.take() {
                        Some(link) => Some(link),
                        None => entry.link_name_bytes().map(std::borrow::Cow::into_owned),
                    };
                    let Some(path) = self.inside(&name)? else { continue };
                    match kind {
                        EntryType::Regular | EntryType::Continuous => {
                            let mode = entry.header().mode().map_err(|e| broken(&e))?;
                            self.file(&path, &mut entry, mode & 0o111 != 0)?;
                        }
                        EntryType::Directory => self.directory(&path)?,
                        EntryType::Symlink => {
                            let link = path_of(&link.unwrap_or_default())?;
                            self.link(path, link)?;
                        }
                        other => {
                            let text =
                                format!("{} is neither file, folder nor link ({other:?})", path.display());
                            return Err(TreeError::Refused(text));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn copy(&mut self, from: &Path, inside: &Path, depth: usize) -> Result<(), TreeError> {
        let at = from.join(inside);
        let cannot = |e: io::Error| TreeError::Passing(format!("{} cannot be read: {e}", at.display()));
        if depth > DEPTH_MAX {
            return Err(TreeError::Refused(format!("{} lies too deep", inside.display())));
        }
        for entry in fs::read_dir(&at).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            let path = inside.join(entry.file_name());
            let meta = fs::symlink_metadata(entry.path()).map_err(cannot)?;
            match meta.file_type() {
                kind if kind.is_dir() => {
                    self.directory(&path)?;
                    self.copy(from, &path, depth + 1)?;
                }
                kind if kind.is_symlink() => {
                    self.link(path, fs::read_link(entry.path()).map_err(cannot)?)?;
                }
                kind if kind.is_file() => {
                    let mut file = File::open(entry.path()).map_err(cannot)?;
                    self.file(&path, &mut file, meta.permissions().mode() & 0o111 != 0)?;
                }
                _ => {
                    let text = format!("{} is neither file, folder nor link", path.display());
                    return Err(TreeError::Refused(text));
                }
            }
        }
        Ok(())
    }

    /// Where an entry goes, inside; `None` for what is left away with the leading folders.
    fn inside(&mut self, name: &[u8]) -> Result<Option<PathBuf>, TreeError> {
        let path = path_of(name)?;
        let mut kept = PathBuf::new();
        for (n, part) in path.components().filter(|c| *c != Component::CurDir).enumerate() {
            match part {
                Component::Normal(part) if n >= self.strip => kept.push(part),
                Component::Normal(_) => {}
                _ => {
                    return Err(TreeError::Refused(format!(
                        "{} leads outside",
                        clean(&path.display().to_string(), 100)
                    )));
                }
            }
        }
        if kept.components().count() > DEPTH_MAX {
            return Err(TreeError::Refused(format!(
                "{} lies too deep",
                clean(&path.display().to_string(), 100)
            )));
        }
        Ok((!kept.as_os_str().is_empty()).then_some(kept))
    }

    fn count(&mut self) -> Result<(), TreeError> {
        self.made += 1;
        if self.made > self.limits.entries {
            return Err(TreeError::Refused(
                "it holds more files than max_entries allows".to_owned(),
            ));
        }
        self.in_time()
    }

    fn in_time(&self) -> Result<(), TreeError> {
        if Instant::now() >= self.until {
            return Err(TreeError::Passing(
                "it could not be unpacked in time; raise timeout_s".to_owned(),
            ));
        }
        Ok(())
    }

    fn directory(&mut self, path: &Path) -> Result<(), TreeError> {
        let mut at = self.into.to_path_buf();
        for part in path.components() {
            at.push(part);
            match fs::symlink_metadata(&at) {
                Ok(meta) if meta.is_dir() => {}
                Ok(_) => {
                    return Err(TreeError::Refused(format!(
                        "{} is a file and a folder",
                        path.display()
                    )));
                }
                Err(_) => {
                    self.count()?;
                    fs::create_dir(&at).map_err(|e| cannot_write(&at, &e))?;
                }
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, from: &mut impl Read, runs: bool) -> Result<(), TreeError> {
        self.directory(path.parent().unwrap_or(Path::new("")))?;
        self.count()?;
        let at = self.into.join(path);
        let mut to = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(if runs { 0o755 } else { 0o644 })
            .open(&at)
            .map_err(|e| match e.kind() {
                io::ErrorKind::AlreadyExists => {
                    TreeError::Refused(format!("{} is there twice", path.display()))
                }
                _ => cannot_write(&at, &e),
            })?;
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let n = from.read(&mut buffer).map_err(|e| broken(&e))?;
            if n == 0 {
                return Ok(());
            }
            self.bytes = self.bytes.saturating_add(n as u64);
            if self.bytes > self.limits.bytes {
                return Err(TreeError::Refused(
                    "it holds more than max_bytes allows".to_owned(),
                ));
            }
            self.in_time()?;
            to.write_all(&buffer[..n]).map_err(|e| cannot_write(&at, &e))?;
        }
    }

    fn link(&mut self, path: PathBuf, target: PathBuf) -> Result<(), TreeError> {
        self.count()?;
        if target.is_absolute() || target.as_os_str().is_empty() {
            return Err(TreeError::Refused(format!(
                "the link {} leads outside",
                path.display()
            )));
        }
        self.links.push((path, target));
        Ok(())
    }

    /// Makes the links and sees where they lead.
    fn finish(&mut self) -> Result<(), TreeError> {
        let links = std::mem::take(&mut self.links);
        for (path, target) in &links {
            self.directory(path.parent().unwrap_or(Path::new("")))?;
            let at = self.into.join(path);
            std::os::unix::fs::symlink(target, &at).map_err(|e| match e.kind() {
                io::ErrorKind::AlreadyExists => {
                    TreeError::Refused(format!("{} is there twice", path.display()))
                }
                _ => cannot_write(&at, &e),
            })?;
        }
        let root = fs::canonicalize(self.into).map_err(|e| cannot_write(self.into, &e))?;
        for (path, _) in &links {
            // Only the file system knows where a link over links leads.
            let inside = fs::canonicalize(self.into.join(path)).is_ok_and(|at| at.starts_with(&root));
            if !inside {
                let text = format!("the link {} leads outside, or nowhere", path.display());
                return Err(TreeError::Refused(text));
            }
        }
        if self.made == 0 {
            return Err(TreeError::Refused("it is empty".to_owned()));
        }
        Ok(())
    }
}

struct Hashed<R> {
    inner: R,
    hash: Sha256,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.hash.update(&buffer[..n]);
        Ok(n)
    }
}

fn name_in(entry: &mut impl Read) -> Result<Vec<u8>, TreeError> {
    let mut name = limited(entry, NAME_MAX)?;
    while name.last() == Some(&0) {
        name.pop();
    }
    Ok(name)
}

/// The name and the link of an extended header.
#[allow(clippy::type_complexity)]
fn extended(entry: &mut impl Read) -> Result<(Option<Vec<u8>>, Option<Vec<u8>>), TreeError> {
    let text = limited(entry, HEADER_MAX)?;
    let (mut name, mut link) = (None, None);
    for one in tar::PaxExtensions::new(&text) {
        let one = one.map_err(|e| broken(&e))?;
        match one.key_bytes() {
            b"path" => name = Some(one.value_bytes().to_vec()),
            b"linkpath" => link = Some(one.value_bytes().to_vec()),
            key if key == b"size" || key.starts_with(b"GNU.sparse") => {
                return Err(TreeError::Refused(
                    "it holds a file of a kind that is not unpacked".to_owned(),
                ));
            }
            _ => {}
        }
    }
    Ok((name, link))
}

fn limited(from: &mut impl Read, max: u64) -> Result<Vec<u8>, TreeError> {
    let mut bytes = Vec::new();
    from.take(max + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| broken(&e))?;
    if bytes.len() as u64 > max {
        return Err(TreeError::Refused("it holds a name that is too long".to_owned()));
    }
    Ok(bytes)
}

fn path_of(name: &[u8]) -> Result<PathBuf, TreeError> {
    let text = std::str::from_utf8(name)
        .ok()
        .filter(|t| t.len() as u64 <= NAME_MAX && !t.chars().any(char::is_control));
    match text {
        Some(text) => Ok(PathBuf::from(text)),
        None => Err(TreeError::Refused(
            "it holds a name that is too long or no plain text".to_owned(),
        )),
    }
}

/// An archive that ends early or was damaged will be the same next time.
fn broken(error: &io::Error) -> TreeError {
    TreeError::Refused(format!(
        "the artefact cannot be read to its end: {}",
        clean(&error.to_string(), 200)
    ))
}

fn cannot_write(at: &Path, error: &io::Error) -> TreeError {
    // By the file system's own rules, which no second try changes.
    if error.raw_os_error() == Some(rustix::io::Errno::NAMETOOLONG.raw_os_error()) {
        return TreeError::Refused(format!(
            "{} has a name or a path that is too long for this file system",
            clean(&at.file_name().unwrap_or_default().display().to_string(), 100)
        ));
    }
    TreeError::Passing(format!("{} cannot be written: {error}", at.display()))
}
