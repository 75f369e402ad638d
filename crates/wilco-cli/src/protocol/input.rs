//! What the verbs read: standard input, files, a folder of profiles, the clock.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rw1::{Code, Problem, Profiles};

use super::answer::Failed;
use super::args::Args;

/// The longest input that is read, in bytes.
const INPUT_MAX: u64 = 16 << 20;

/// The longest profile that is read, in bytes.
const PROFILE_MAX: u64 = 1 << 20;

/// The most profiles a folder may hold.
const PROFILES_MAX: usize = 256;

/// An argument, or all of standard input for `-`, without its last line end.
pub(super) fn text(place: &str) -> Result<String, Failed> {
    if place != "-" {
        return Ok(place.to_owned());
    }
    let mut text = read("standard input", std::io::stdin().lock(), INPUT_MAX)?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

/// The lines of a file, or of standard input for `-`.
pub(super) fn lines(place: &str) -> Result<Vec<String>, Failed> {
    let text = match place {
        "-" => read("standard input", std::io::stdin().lock(), INPUT_MAX)?,
        path => read(path, open(Path::new(path))?, INPUT_MAX)?,
    };
    Ok(text.lines().map(str::to_owned).collect())
}

/// The profiles in the binary, or those of the folder that was named.
pub(super) fn profiles(args: &Args) -> Result<Profiles, Failed> {
    let Some(folder) = &args.profiles else {
        return Ok(Profiles::builtin());
    };
    let unreadable = |e: std::io::Error| Failed::Usage(format!("{folder}: {e}"));
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let name = path.file_stem().and_then(|name| name.to_str());
        if let (Some(name), Some("json")) = (name, path.extension().and_then(|e| e.to_str())) {
            texts.push((
                name.to_owned(),
                read(&path.display().to_string(), open(&path)?, PROFILE_MAX)?,
            ));
        }
        if texts.len() > PROFILES_MAX {
            return Err(Failed::Usage(format!(
                "{folder}: more than {PROFILES_MAX} profiles"
            )));
        }
    }
    if texts.is_empty() {
        return Err(Failed::Usage(format!("{folder}: no profile (*.json) is there")));
    }
    // the order of a folder is an accident; what is reported first should not be
    texts.sort();
    Profiles::from_texts(texts)
        .map_err(|e| Failed::Refused(vec![Problem::new(Code::UnknownProfile, e.to_string())]))
}

/// The minute it is, as a line writes it.
pub(super) fn this_minute() -> String {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    rw1::unix_to_minute(i64::try_from(seconds).unwrap_or(i64::MAX))
}

fn open(path: &Path) -> Result<File, Failed> {
    File::open(path).map_err(|e| Failed::Usage(format!("{}: {e}", path.display())))
}

fn read(name: &str, from: impl Read, most: u64) -> Result<String, Failed> {
    let mut bytes = Vec::new();
    from.take(most + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| Failed::Usage(format!("{name}: {e}")))?;
    if bytes.len() as u64 > most {
        return Err(Failed::Usage(format!("{name}: longer than {most} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| Failed::Usage(format!("{name}: not UTF-8")))
}
