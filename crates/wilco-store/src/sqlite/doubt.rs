//! When a batch goes wrong: find out what stands before anybody is answered.
//!
//! An error from COMMIT says nothing about what is in the file. A flush that failed may have left the whole batch in
//! the log, complete with its commit mark, unseen by this process and found by the next one. And where SQLite closed the
//! transaction by itself, later statements may have been on their own. So the connection is dropped and the file opened
//! anew. Where COMMIT was asked for, the log is first moved into the database and emptied, and a new one begun with
//! a flushed write: from then on what can be read is durable, and what cannot be read can never come back. Then each act
//! is read by its id, version and journal head.
//!
//! If any of this fails, what stands is not known: the members are told so, and the store takes no writes. The same is
//! then tried again every second, as a full disk may have been cleared meanwhile: once the file is open, the new log begun
//! and its first write flushed, writes are taken again. What those members wrote can then be read, or never stood; to
//! them it stays unknown.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;
use wilco_core::Act;

use super::line::WriteConnection;
use super::sql;
use super::writer::{Fate, Trouble, Writer, advanced};
use crate::StoreError;
use crate::judge::Sealed;

/// How often to ask for the log to be emptied while readers are in the way; each try waits for the busy timeout.
const CHECKPOINT_TRIES: u32 = 3;

/// How long to wait before what could not be read back is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// Where acts stand: by id, the version and journal head.
type Heads = HashMap<String, (i64, String)>;

impl Writer {
    /// The true fate of each member of a batch that went wrong.
    pub(super) fn settle_doubt(&mut self, trouble: Trouble) -> Vec<Fate> {
        self.shared.faults.commit_failed();
        let Trouble {
            fates,
            problem,
            committing,
        } = trouble;
        let ids: Vec<String> = fates
            .iter()
            .filter_map(|f| match f {
                Fate::Write(write) => Some(write.acts.iter().map(|a| a.act_id.to_string())),
                _ => None,
            })
            .flatten()
            .collect();
        let members = fates.iter().filter(|f| matches!(f, Fate::Write(_))).count();
        self.shared
            .counters
            .unknown
            .fetch_add(members as u64, Ordering::Relaxed);
        tracing::error!(
            problem,
            committing,
            members,
            "a batch of writes went wrong: reading back what stands"
        );

        let read = self.reopen(committing, &ids);
        let heads = match &read {
            Ok(heads) => Some(heads),
            Err(why) => {
                let why =
                    format!("a write went wrong ({problem}), and what stands could not be read back: {why}");
                tracing::error!(
                    why,
                    "the store takes no writes until it can read back what stands: see to the disk"
                );
                self.shared.pause(&why);
                self.look_again = Some(Instant::now() + PAUSE);
                None
            }
        };
        fates
            .into_iter()
            .map(|fate| match fate {
                Fate::Write(write) => match heads.map(|heads| stands(&write, heads)) {
                    Some(Some(true)) => Fate::Answer(Ok(advanced_late(self, write))),
                    Some(Some(false)) => Fate::Answer(Err(not_written(&problem))),
                    Some(None) => {
                        let why = "an act stands as neither before nor after the write";
                        self.shared.stop(why);
                        Fate::Answer(Err(StoreError::Unknown(why.to_owned())))
                    }
                    None => Fate::Answer(Err(StoreError::Unknown(problem.clone()))),
                },
                // It was judged beside members that may not stand, so that judgement is void.
                Fate::Answer(Ok(_)) => Fate::Answer(Err(not_written(&problem))),
                other => other,
            })
            .collect()
    }

    /// Tries again to read back what stands, and takes writes again where that goes well.
    pub(super) fn recover(&mut self) {
        // As after a COMMIT: whether one was asked for since is not worth telling apart.
        match self.reopen(true, &[]) {
            Ok(_) => {
                self.look_again = None;
                self.shared.resume();
                tracing::warn!("the store has read back what stands, and takes writes again");
            }
            Err(why) => {
                // It was told as an error when it began.
                tracing::debug!(why, "what stands can still not be read back");
                self.look_again = Some(Instant::now() + PAUSE);
            }
        }
    }

    fn reopen(&mut self, committing: bool, ids: &[String]) -> Result<Heads, String> {
        let dir = self.shared.dir.clone();
        if self.shared.faults.reopen_fails() {
            return Err("the file could not be opened".to_owned());
        }
        let mut fresh = WriteConnection::open(&dir).map_err(|e| e.to_string())?;
        std::mem::swap(&mut fresh, &mut self.connection);
        fresh.close();
        if committing {
            self.begin_new_log()?;
        }
        self.connection.guard().map_err(|e| e.to_string())?;
        if ids.is_empty() {
            return Ok(Heads::new());
        }
        let wanted = serde_json::to_string(ids).map_err(|e| e.to_string())?;
        let mut heads = Heads::new();
        let read = self.connection.rows(sql::STAND, &[&wanted], |row| {
            heads.insert(row.get(0)?, (row.get(1)?, row.get(2)?));
            Ok(())
        });
        read.map_err(|e| e.to_string())?;
        Ok(heads)
    }

    /// Called before the guard is set on the new connection: this commits.
    fn begin_new_log(&mut self) -> Result<(), String> {
        let mut emptied = false;
        for _ in 0..CHECKPOINT_TRIES {
            let mut busy = 1;
            let tried = self.connection.rows(sql::CHECKPOINT, &[], |row| {
                busy = row.get(0)?;
                Ok(())
            });
            tried.map_err(|e| e.to_string())?;
            emptied = busy == 0;
            if emptied {
                break;
            }
        }
        if !emptied {
            return Err("a reader kept the log from being emptied".to_owned());
        }
        let highest = self.shared.clock.highest();
        let settled = self.connection.run(sql::SETTLE, &[&highest.0]);
        settled.map_err(|e| e.to_string())
    }
}

/// Whether the write stands; `None` where it stands in part.
fn stands(write: &Sealed, heads: &Heads) -> Option<bool> {
    let stands = |act: &Act| {
        heads
            .get(&act.act_id.to_string())
            .is_some_and(|(version, head)| u64::try_from(*version) == Ok(act.version) && *head == act.head)
    };
    let count = write.acts.iter().filter(|act| stands(act)).count();
    match count {
        0 => Some(false),
        n if n == write.acts.len() => Some(true),
        _ => None,
    }
}

fn advanced_late(writer: &Writer, write: Sealed) -> wilco_core::Written {
    writer.shared.counters.writes.fetch_add(1, Ordering::Relaxed);
    advanced(write)
}

fn not_written(problem: &str) -> StoreError {
    StoreError::Down(format!(
        "the write does not stand, and it is safe to send it again ({problem})"
    ))
}
