//! Armed faults of a counterparty that has no process of its own: a folder with one file for each time a fault is to
//! happen. Whoever removes a file has taken that shot, and the file system lets only one do so; the scripts that a push
//! or a health check runs take the first in the order of their names.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// How many shots one folder holds.
pub const SHOTS_MAX: usize = 100;

/// A folder of shots.
#[derive(Debug, Clone)]
pub struct Shots {
    folder: PathBuf,
    /// Held while shots are added: each has a number of its own.
    arming: Arc<Mutex<()>>,
}

/// Shots of one kind, next to each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The fault's word.
    pub word: String,
    /// How often it still happens.
    pub times: u32,
    /// Its delay.
    pub delay: Duration,
}

impl Shots {
    /// An empty folder: what an earlier lab left armed is gone.
    pub fn open(folder: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&folder)?;
        let shots = Self {
            folder,
            arming: Arc::default(),
        };
        shots.clear()?;
        Ok(shots)
    }

    /// Arms a fault behind those already armed; false when there would be more than [`SHOTS_MAX`].
    pub fn arm(&self, word: &str, times: u32, delay: Duration) -> io::Result<bool> {
        let _one_at_a_time = self.arming.lock().unwrap_or_else(PoisonError::into_inner);
        let names = self.names()?;
        let times_at_most = SHOTS_MAX.saturating_sub(names.len());
        if usize::try_from(times).is_ok_and(|times| times > times_at_most) {
            return Ok(false);
        }
        let last = names.last().and_then(|name| name.split_once('.'));
        let last = last
            .and_then(|(number, _)| number.parse::<u32>().ok())
            .unwrap_or(0);
        for number in 1..=times {
            let name = format!("{:010}.{word}", last.saturating_add(number));
            // Written under a name that no script takes, so that none reads half of it.
            let unready = self.folder.join(".unready");
            fs::write(&unready, format!("{:.3}\n", delay.as_secs_f64()))?;
            fs::rename(&unready, self.folder.join(name))?;
        }
        Ok(true)
    }

    /// What is armed, in order.
    pub fn list(&self) -> io::Result<Vec<Row>> {
        let mut rows: Vec<Row> = Vec::new();
        for name in self.names()? {
            let Some((_, word)) = name.split_once('.') else {
                continue;
            };
            // Taken meanwhile: then it is no longer armed.
            let Ok(text) = fs::read_to_string(self.folder.join(&name)) else {
                continue;
            };
            let seconds = text.trim().parse().unwrap_or(0.0);
            let delay = Duration::try_from_secs_f64(seconds).unwrap_or_default();
            match rows.last_mut() {
                Some(row) if row.word == word && row.delay == delay => row.times += 1,
                _ => rows.push(Row {
                    word: word.to_owned(),
                    times: 1,
                    delay,
                }),
            }
        }
        Ok(rows)
    }

    /// Disarms everything.
    pub fn clear(&self) -> io::Result<()> {
        for name in self.names()? {
            remove(&self.folder.join(name))?;
        }
        Ok(())
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            if let Ok(name) = entry?.file_name().into_string()
                && !name.starts_with('.')
            {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
