//! What is being executed in this process, and who waits for an act to change.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use wilco_core::ActId;

use crate::engine::lock;

/// Executions running here, and waiting callers.
#[derive(Default)]
pub(crate) struct Running {
    in_flight: Arc<Mutex<HashSet<ActId>>>,
    waiting: Mutex<HashMap<ActId, watch::Sender<u64>>>,
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

    /// Says that an act was written.
    pub(crate) fn changed(&self, act_id: ActId) {
        let mut waiting = lock(&self.waiting);
        if let Some(sender) = waiting.get(&act_id) {
            if sender.receiver_count() == 0 {
                waiting.remove(&act_id);
            } else {
                sender.send_modify(|n| *n += 1);
            }
        }
    }

    /// Something to wait on until the act is written again.
    pub(crate) fn watch(&self, act_id: ActId) -> watch::Receiver<u64> {
        let mut waiting = lock(&self.waiting);
        // Whoever stopped waiting left an entry behind; clear those out before the map grows.
        if waiting.len() > 1024 {
            waiting.retain(|_, sender| sender.receiver_count() > 0);
        }
        waiting
            .entry(act_id)
            .or_insert_with(|| watch::channel(0).0)
            .subscribe()
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        lock(&self.set).remove(&self.act_id);
    }
}
