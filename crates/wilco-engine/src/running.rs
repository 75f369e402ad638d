//! What is being executed in this process, and who waits for an act to change.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use wilco_core::{Act, ActId};

use crate::engine::lock;

/// Executions running here, and waiting callers.
#[derive(Default)]
pub(crate) struct Running {
    in_flight: Arc<Mutex<HashSet<ActId>>>,
    waiting: Mutex<HashMap<ActId, watch::Sender<Heard>>>,
}

/// The newest version of an act that was written since somebody began to wait; nothing before that.
pub(crate) type Heard = Option<Arc<Act>>;

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

    /// Tells who waits for an act how it stands, after it was written.
    pub(crate) fn changed(&self, act: &Act) {
        let mut waiting = lock(&self.waiting);
        let Some(sender) = waiting.get(&act.act_id) else {
            return;
        };
        if sender.receiver_count() > 0 {
            // Two writes, one after the other, may be told of in any order: the newer one stays.
            sender.send_if_modified(|heard| {
                let newer = heard.as_ref().is_none_or(|known| known.version < act.version);
                if newer {
                    *heard = Some(Arc::new(act.clone()));
                }
                newer
            });
        }
        if sender.receiver_count() == 0 || act.state().is_final() {
            // Who waits still hears what was told last.
            waiting.remove(&act.act_id);
        }
    }

    /// Something to wait on until the act is written again.
    pub(crate) fn watch(&self, act_id: ActId) -> watch::Receiver<Heard> {
        let mut waiting = lock(&self.waiting);
        // Whoever stopped waiting left an entry behind; clear those out before the map grows.
        if waiting.len() > 1024 {
            waiting.retain(|_, sender| sender.receiver_count() > 0);
        }
        waiting
            .entry(act_id)
            .or_insert_with(|| watch::channel(None).0)
            .subscribe()
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        lock(&self.set).remove(&self.act_id);
    }
}
