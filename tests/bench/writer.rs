//! What the store allows: the rows of a cycle, written by its keeper without a decision in between.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rw1::Profiles;
use wilco_core::journal::Entry;
use wilco_core::{Act, ActId, Change, Clock, Expect, Written, twin};
use wilco_store::Keeper;

use crate::lines::FIRST_ID;
use crate::load::Caller;
use crate::template::{Life, Step, Wall};

/// How many writes a cycle takes.
pub const WRITES: u64 = 3;

/// A caller of the store.
pub struct WriterCaller {
    keeper: Arc<dyn Keeper>,
    life: Arc<Life>,
    profiles: Profiles,
    thread: String,
    next_id: u64,
}

impl WriterCaller {
    pub fn new(keeper: &Arc<dyn Keeper>, life: &Arc<Life>, thread: String) -> WriterCaller {
        WriterCaller {
            keeper: Arc::clone(keeper),
            life: Arc::clone(life),
            profiles: Profiles::builtin(),
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
    fn entries(step: &Step, id: u64) -> Vec<Entry> {
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

    /// The first step: an act that is like no other.
    fn first(&self, id: u64) -> Change {
        let act = fresh(&self.life.prepared.act, &self.thread, id);
        Change {
            unless_twin: twin::guard_at_prepare(&self.profiles, &act, None, Wall.now()),
            expect: Expect::Absent,
            entries: Self::entries(&self.life.prepared, id),
            act,
        }
    }

    /// The next step of an act that stands as `before`.
    fn step(step: &Step, before: Act, id: u64) -> Change {
        let version = before.version;
        let mut act = before;
        act.stage = step.act.stage.clone();
        act.lines = step.act.lines;
        act.waiting.clone_from(&step.act.waiting);
        Change {
            expect: Expect::Version(version),
            act,
            entries: Self::entries(step, id),
            unless_twin: None,
        }
    }
}

impl Caller for WriterCaller {
    async fn call(&mut self) -> Result<(), String> {
        let id = self.next_id;
        self.next_id += 2;
        let prepared = self.write(self.first(id)).await?;
        let guard = twin::guard_at_claim(&self.profiles, &prepared, Wall.now());
        let mut claim = Self::step(&self.life.claimed, prepared, id);
        claim.unless_twin = guard;
        let claimed = self.write(claim).await?;
        let done = self.write(Self::step(&self.life.done, claimed, id)).await?;
        match done.version {
            WRITES => Ok(()),
            version => Err(format!("three writes left version {version}")),
        }
    }
}

/// An act as `like`, with an id, a place in a thread and a likeness of its own.
pub fn fresh(like: &Act, thread: &str, id: u64) -> Act {
    let mut act = like.clone();
    act.act_id = new_id();
    thread.clone_into(&mut act.thread);
    act.handoff.id = format!("scheduler-{id}");
    act.likeness = act.likeness.map(|_| hash_of(act.act_id));
    act
}

/// As long as a hash, and as unlike any other.
pub fn hash_of(id: ActId) -> String {
    wilco_core::journal::sha256_hex(id.as_bytes())
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
