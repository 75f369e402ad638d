//! What is being executed in this process, and who waits for an act to change.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;
use wilco_core::ActId;

use crate::engine::lock;

/// Executions running here, and waiting callers.
#[derive(Default)]
pub(crate) struct Running {
    in_flight: Arc<Mutex<HashSet<ActId>>>,
    // Not a watch channel: that one wakes its waiters in an order drawn by chance, and a run must be able to be replayed.
    waiting: Mutex<HashMap<ActId, Arc<Notify>>>,
}

/// Stands for one execution; recovery leaves the act alone while it lives.
pub(crate) struct InFlight {
    act_id: ActId,
    set: Arc<Mutex<HashSet<ActId>>>,
}

impl Running {
    /// Marks an act as executing here. `None` if it already is.
    pub(crate) fn enter(&self, act_id: ActId) -> Option<InFlight> {
        lock(&self.in_flight).insert(act_id).then(|| InFlight {
            act_id,
            set: Arc::clone(&self.in_flight),
        })
    }

    pub(crate) fn snapshot(&self) -> HashSet<ActId> {
        lock(&self.in_flight).clone()
    }

    pub(crate) fn contains(&self, act_id: ActId) -> bool {
        lock(&self.in_flight).contains(&act_id)
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.in_flight).len()
    }

    /// Says that an act was written: whoever waits for it is woken, in the order they came.
    pub(crate) fn changed(&self, act_id: ActId) {
        let mut waiting = lock(&self.waiting);
        if let Some(waiters) = waiting.get(&act_id) {
            if is_abandoned(waiters) {
                waiting.remove(&act_id);
            } else {
                waiters.notify_waiters();
            }
        }
    }

    /// Something to wait on until the act is written again: what its `notified` gives, taken before the act is read,
    /// misses nothing that is written after.
    pub(crate) fn watch(&self, act_id: ActId) -> Arc<Notify> {
        let mut waiting = lock(&self.waiting);
        // Whoever stopped waiting left an entry behind; clear those out before the map grows.
        if waiting.len() > 1024 {
            waiting.retain(|_, waiters| !is_abandoned(waiters));
        }
        Arc::clone(waiting.entry(act_id).or_default())
    }
}

/// Nobody but the map holds it.
fn is_abandoned(waiters: &Arc<Notify>) -> bool {
    Arc::strong_count(waiters) == 1
}

impl Drop for InFlight {
    fn drop(&mut self) {
        lock(&self.set).remove(&self.act_id);
    }
}
