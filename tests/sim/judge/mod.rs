//! The judge: looks at every write as it is committed and at every answer as it is given, and compares them with the
//! counterparty's own book. What it finds broken ends the run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use adapter_sim::{SimStanding, SimWorld};
use tokio::sync::Notify;
use wilco_core::contract::LateSend;
use wilco_core::{Act, ActId, Stage, State, Timestamp, Verdict};
use wilco_engine::{Cancelled, Committed, Prepared, Settled};

use crate::locked;
use crate::log::Log;

mod answers;
mod erased;
mod writes;

pub use writes::closed_by_a_person;

/// Watches a run.
pub struct Judge {
    log: Arc<Log>,
    world: Arc<SimWorld>,
    seen: Mutex<Seen>,
    found: Notify,
}

#[derive(Default)]
struct Seen {
    acts: BTreeMap<ActId, Act>,
    /// The processes that were ever given leave to send an act.
    owners: BTreeMap<ActId, BTreeSet<String>>,
    /// Which process an owner's name stands for.
    processes: BTreeMap<String, String>,
    /// Calls that a process may still have under way.
    calls: BTreeMap<ActId, Vec<String>>,
    dead: BTreeSet<String>,
    statements: BTreeMap<(ActId, u32), String>,
    closings: BTreeMap<ActId, String>,
    /// Acts of which a cancel was told that nothing was done.
    told_undone: BTreeSet<ActId>,
    alike: BTreeMap<String, Vec<ActId>>,
    /// Which acts were ever meant to reverse one.
    undos: BTreeMap<ActId, Vec<ActId>>,
    /// What each cancel was finally answered, by thread and line.
    cancels: BTreeMap<(String, String), String>,
    /// Erased acts as they stood before.
    whole: BTreeMap<ActId, Act>,
    /// Bodies that were erased, by act and row.
    bodies: BTreeMap<(ActId, u64), String>,
    broken: Vec<Broken>,
    tally: Tally,
}

/// A promise that was not kept.
#[derive(Debug, Clone)]
pub struct Broken {
    /// Which, and how.
    pub text: String,
    /// What to look for in the log.
    pub names: Vec<String>,
}

/// How much a run went through.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    pub writes: u64,
    pub claims: u64,
    pub takeovers: u64,
    pub resends: u64,
    pub in_doubt: u64,
    pub by_people: u64,
    pub twins_held: u64,
    pub late_evidence: u64,
    pub undone: u64,
    pub cancelled: u64,
    pub erased: u64,
}

impl Judge {
    pub fn new(log: Arc<Log>, world: Arc<SimWorld>) -> Judge {
        Judge {
            log,
            world,
            seen: Mutex::default(),
            found: Notify::new(),
        }
    }

    /// Notes that a promise was broken. `names` say what to look for in the log.
    pub fn broken(&self, names: &[String], text: String) {
        self.log.say(&format!("BROKEN {text}"));
        locked(&self.seen).broken.push(Broken {
            text,
            names: names.to_vec(),
        });
        self.found.notify_one();
    }

    /// Returns once something was found broken.
    pub async fn found_broken(&self) {
        self.found.notified().await;
    }

    /// Everything found broken.
    pub fn all_broken(&self) -> Vec<Broken> {
        locked(&self.seen).broken.clone()
    }

    /// What the run went through.
    pub fn tally(&self) -> Tally {
        locked(&self.seen).tally
    }

    /// Every act, as it was last written.
    pub fn acts(&self) -> Vec<Act> {
        self.with_acts(|acts| acts.values().cloned().collect())
    }

    /// Looks at every act without copying any.
    pub fn with_acts<T>(&self, look: impl FnOnce(&BTreeMap<ActId, Act>) -> T) -> T {
        look(&locked(&self.seen).acts)
    }

    /// The instant from which no byte of a claimed act may be sent.
    pub fn last_moment(&self, act: ActId) -> Option<Timestamp> {
        let seen = locked(&self.seen);
        Some(seen.acts.get(&act)?.execution()?.claim.not_after)
    }

    /// Whether everybody who was ever given leave to send the act is dead.
    pub fn owners_are_dead(&self, act: ActId) -> bool {
        let seen = locked(&self.seen);
        seen.owners
            .get(&act)
            .is_none_or(|owners| owners.is_subset(&seen.dead))
    }

    /// The acts of which a cancel was told that nothing was done.
    pub fn told_undone(&self) -> BTreeSet<ActId> {
        locked(&self.seen).told_undone.clone()
    }

    // ---- processes and their calls

    /// A process died: nothing it had under way acts again.
    pub fn died(&self, process: &str) {
        let mut seen = locked(&self.seen);
        seen.dead.insert(process.to_owned());
        for calls in seen.calls.values_mut() {
            calls.retain(|p| p != process);
        }
    }

    /// A process is about to send. The claim must have been committed before.
    pub fn call_begins(&self, process: &str, act: ActId) {
        let leave = locked(&self.seen)
            .calls
            .get(&act)
            .is_some_and(|calls| calls.iter().any(|p| p == process));
        if !leave {
            let text = format!("{process} sends {act} without a committed claim of its own");
            self.broken(&[act.to_string()], text);
        }
    }

    /// Its call returned.
    pub fn call_ends(&self, process: &str, act: ActId) {
        let mut seen = locked(&self.seen);
        if let Some(calls) = seen.calls.get_mut(&act)
            && let Some(at) = calls.iter().position(|p| p == process)
        {
            calls.remove(at);
        }
    }
}
