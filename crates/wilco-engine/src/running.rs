//! What is being executed in this process, and who waits for an act to change.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use wilco_core::{Act, ActId};

use crate::engine::lock;

/// Executions running here, and waiting callers.
#[derive(Default)]
pub(crate) struct Running {
    in_flight: Arc<Mutex<HashSet<ActId>>>,
    waiting: Mutex<HashMap<ActId, Arc<Waiters>>>,
}

/// Those who wait for one act.
// Not a watch channel: that one wakes its waiters in an order drawn by chance, and a run must be able to be replayed.
#[derive(Default)]
pub(crate) struct Waiters {
    woken: Notify,
    newest: Mutex<Option<Arc<Act>>>,
}

impl Waiters {
    /// Ends when the act is written again. Taken before the act is read or [`Waiters::newer`] is asked, it misses nothing
    /// that is written after.
    pub(crate) fn notified(&self) -> Notified<'_> {
        self.woken.notified()
    }

    /// The act as it was written in this process since somebody began to wait, if that is newer than `version`.
    pub(crate) fn newer(&self, version: u64) -> Option<Arc<Act>> {
        lock(&self.newest).clone().filter(|act| act.version > version)
    }

    fn tell(&self, act: &Act) {
        let mut newest = lock(&self.newest);
        // Two writes, one after the other, may be told of in any order: the newer one stays.
        if newest.as_ref().is_none_or(|known| known.version < act.version) {
            *newest = Some(Arc::new(act.clone()));
        }
        drop(newest);
        self.woken.notify_waiters();
    }
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

    /// Tells who waits for an act how it stands, after it was written: they are woken in the order they came.
    pub(crate) fn changed(&self, act: &Act) {
        let mut waiting = lock(&self.waiting);
        let Some(waiters) = waiting.get(&act.act_id) else {
            return;
        };
        let abandoned = is_abandoned(waiters);
        if !abandoned {
            waiters.tell(act);
        }
        if abandoned || act.state().is_final() {
            // Who waits still holds what was told last.
            waiting.remove(&act.act_id);
        }
    }

    /// Wakes who waits for an act that another daemon wrote: how it stands is in the store.
    pub(crate) fn hinted(&self, act_id: ActId) {
        if let Some(waiters) = lock(&self.waiting).get(&act_id) {
            waiters.woken.notify_waiters();
        }
    }

    /// Something to wait on until the act is written again.
    pub(crate) fn watch(&self, act_id: ActId) -> Arc<Waiters> {
        let mut waiting = lock(&self.waiting);
        // Whoever stopped waiting left an entry behind; clear those out before the map grows.
        if waiting.len() > 1024 {
            waiting.retain(|_, waiters| !is_abandoned(waiters));
        }
        Arc::clone(waiting.entry(act_id).or_default())
    }
}

/// Nobody but the map holds it.
fn is_abandoned(waiters: &Arc<Waiters>) -> bool {
    Arc::strong_count(waiters) == 1
}

impl Drop for InFlight {
    fn drop(&mut self) {
        lock(&self.set).remove(&self.act_id);
    }
}
