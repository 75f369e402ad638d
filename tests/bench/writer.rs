//! What the store allows: the rows of a cycle, written by its grouping writer without a decision in between.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wilco_core::journal::Entry;
use wilco_core::{Act, ActId, Change, Clock, Expect, Written};
use wilco_store::{Keeper, SqliteKeeper};

use crate::lines::FIRST_ID;
use crate::load::Caller;
use crate::template::{Life, Step, Wall};

/// A caller of the store.
pub struct WriterCaller {
    keeper: Arc<SqliteKeeper>,
    life: Arc<Life>,
    thread: String,
    next_id: u64,
}

impl WriterCaller {
    pub fn new(keeper: &Arc<SqliteKeeper>, life: &Arc<Life>, thread: String) -> WriterCaller {
        WriterCaller {
            keeper: Arc::clone(keeper),
            life: Arc::clone(life),
            thread,
            next_id: FIRST_ID,
        }
    }

    async fn write(&self, change: Change) -> Result<Act, String> {
        let written = self.keeper.write(Box::new(move |_| vec![change.clone()])).await;
        match written.map_err(|e| format!("the store: {e}"))? {
            Written::Advanced { mut acts, .. } => acts.pop().ok_or("the store wrote no act".to_owned()),
            other => Err(format!("the store did not advance: {other:?}")),
        }
    }

    /// The step's journal rows with this act's message ids.
    fn entries(&self, step: &Step, id: u64) -> Vec<Entry> {
        let mut entries = step.entries.clone();
        for name in entries.iter_mut().filter_map(|e| e.message_id.as_mut()) {
            for (was, is) in [(FIRST_ID, id), (FIRST_ID + 1, id + 1)] {
                let was = was.to_string();
                if name.contains(&was) {
                    *name = name.replacen(&was, &is.to_string(), 1);
                    break;
                }
            }
        }
        entries
    }

    /// The next step of an act that stands as `before`.
    fn step(&self, step: &Step, before: Act, id: u64) -> Change {
        let version = before.version;
        let mut act = before;
        act.stage = step.act.stage.clone();
        act.lines = step.act.lines;
        act.waiting.clone_from(&step.act.waiting);
        Change {
            unless_twin: None,
            expect: Expect::Version(version),
            act,
            entries: self.entries(step, id),
        }
    }
}

impl Caller for WriterCaller {
    async fn call(&mut self) -> Result<(), String> {
        let id = self.next_id;
        self.next_id += 2;
        let life = Arc::clone(&self.life);
        let mut act = life.prepared.act.clone();
        act.act_id = new_id();
        act.thread.clone_from(&self.thread);
        act.handoff.id = format!("scheduler-{id}");
        let prepared = self
            .write(Change {
                unless_twin: None,
                expect: Expect::Absent,
                act,
                entries: self.entries(&life.prepared, id),
            })
            .await?;
        let claimed = self.write(self.step(&life.claimed, prepared, id)).await?;
        let done = self.write(self.step(&life.done, claimed, id)).await?;
        match done.version {
            3 => Ok(()),
            version => Err(format!("three writes left version {version}")),
        }
    }
}

/// As a daemon's: ordered by time, and unlike any other.
fn new_id() -> ActId {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let spread = COUNT
        .fetch_add(1, Ordering::Relaxed)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut random = [0u8; 10];
    random[2..].copy_from_slice(&spread.to_be_bytes());
    ActId::new(Wall.now(), random)
}
