//! What the disk allows: flushes of one page, one after the other; and records of many callers that share flushes.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::load::{Run, us_since};

const PAGE: usize = 4096;
/// The file is written over again and again, as a database's log is.
const FILE_BYTES: usize = 16 << 20;
/// What one caller writes at a time: about what a write of a cycle is.
const RECORD: usize = 1024;

/// A file of its own in `dir`, every block of it allocated.
fn file(dir: &Path, name: &str) -> Result<File, String> {
    let path = dir.join(name);
    let made = || -> std::io::Result<File> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .open(&path)?;
        file.write_all_at(&vec![7u8; FILE_BYTES], 0)?;
        file.sync_all()?;
        Ok(file)
    };
    made().map_err(|e| format!("{}: {e}", path.display()))
}

/// Overwrites pages one after the other, flushing each.
pub fn flushes(dir: &Path, time: Duration) -> Result<Run, String> {
    let file = file(dir, "flushes")?;
    let page = [8u8; PAGE];
    let (start, mut took_us, mut at) = (Instant::now(), Vec::new(), 0);
    while start.elapsed() < time {
        let begun = Instant::now();
        let written = file
            .write_all_at(&page, at as u64)
            .and_then(|()| file.sync_data());
        written.map_err(|e| format!("a page cannot be flushed: {e}"))?;
        took_us.push(us_since(begun));
        at = (at + PAGE) % FILE_BYTES;
    }
    Ok(Run::of(took_us, start.elapsed()))
}

/// A log that callers write records to, each of which waits until its own is flushed. Whoever finds nobody flushing
/// flushes what all have written so far.
struct Log {
    file: File,
    state: Mutex<State>,
    flushed: Condvar,
}

#[derive(Default)]
struct State {
    /// What is still to be written, from this place of the file on; and a buffer for what comes while it is.
    buffer: Vec<u8>,
    spare: Vec<u8>,
    at: usize,
    /// How many records came, and how many of them are durable.
    came: u64,
    durable: u64,
    flushing: bool,
    failed: Option<String>,
}

/// Lets so many threads write records that share flushes.
pub fn grouped(dir: &Path, callers: usize, time: Duration) -> Result<Run, String> {
    let log = Log {
        file: file(dir, "grouped")?,
        state: Mutex::default(),
        flushed: Condvar::new(),
    };
    let start = Instant::now();
    let took_us = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..callers)
            .map(|_| {
                scope.spawn(|| {
                    let mut took_us = Vec::new();
                    while start.elapsed() < time {
                        let begun = Instant::now();
                        log.write()?;
                        took_us.push(us_since(begun));
                    }
                    Ok::<_, String>(took_us)
                })
            })
            .collect();
        let mut all = Vec::new();
        for thread in threads {
            let took_us = thread.join().map_err(|_| "a thread of the log panicked")?;
            all.append(&mut took_us?);
        }
        Ok::<_, String>(all)
    })?;
    Ok(Run::of(took_us, start.elapsed()))
}

impl Log {
    fn write(&self) -> Result<(), String> {
        let mut state = self.locked();
        let end = state.buffer.len() + RECORD;
        state.buffer.resize(end, 9);
        state.came += 1;
        let mine = state.came;
        while state.durable < mine {
            if let Some(why) = &state.failed {
                return Err(why.clone());
            }
            state = if state.flushing {
                self.flushed.wait(state).unwrap_or_else(PoisonError::into_inner)
            } else {
                self.flush(state)
            };
        }
        Ok(())
    }

    fn flush<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.flushing = true;
        let spare = std::mem::take(&mut state.spare);
        let (mut records, came) = (std::mem::replace(&mut state.buffer, spare), state.came);
        if state.at + records.len() > FILE_BYTES {
            state.at = 0;
        }
        let at = state.at;
        state.at += records.len();
        drop(state);
        let written = self
            .file
            .write_all_at(&records, at as u64)
            .and_then(|()| self.file.sync_data());
        let mut state = self.locked();
        match written {
            Ok(()) => state.durable = came,
            Err(e) => state.failed = Some(format!("the log cannot be flushed: {e}")),
        }
        records.clear();
        state.spare = records;
        state.flushing = false;
        self.flushed.notify_all();
        state
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
