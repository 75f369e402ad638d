//! Watching other owners' claims, on this process's own monotonic clock.
//!
//! A claim of another daemon is taken over only after this daemon has itself seen its owner, epoch and version
//! unchanged for the full allowance. The store's clock has no part in it: a step of that clock must not make a living
//! owner look silent.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;
use wilco_core::{Act, ActId};

use crate::engine::lock;

/// Claims under watch.
pub(crate) struct Watch {
    allowance: Duration,
    seen: Mutex<HashMap<ActId, Seen>>,
}

struct Seen {
    owner: String,
    epoch: u64,
    version: u64,
    since: Instant,
    last: Instant,
}

impl Watch {
    pub(crate) fn new(allowance: Duration) -> Watch {
        Watch {
            allowance,
            seen: Mutex::default(),
        }
    }

    /// Looks at a claim once more. Whether nothing about it has moved for the full allowance.
    pub(crate) fn is_silent(&self, act: &Act) -> bool {
        let Some(execution) = act.execution() else {
            return false;
        };
        let now = Instant::now();
        let mut seen = lock(&self.seen);
        let entry = seen.entry(act.act_id).or_insert_with(|| Seen {
            owner: execution.claim.owner.clone(),
            epoch: execution.claim.epoch,
            version: act.version,
            since: now,
            last: now,
        });
        let same = entry.owner == execution.claim.owner
            && entry.epoch == execution.claim.epoch
            && entry.version == act.version;
        if !same {
            *entry = Seen {
                owner: execution.claim.owner.clone(),
                epoch: execution.claim.epoch,
                version: act.version,
                since: now,
                last: now,
            };
        }
        entry.last = now;
        now.duration_since(entry.since) >= self.allowance
    }

    /// How many claims are under watch.
    pub(crate) fn len(&self) -> usize {
        lock(&self.seen).len()
    }

    /// For how long nothing about the claim has moved, as far as this process has watched.
    pub(crate) fn watched_for(&self, act: &Act) -> Option<Duration> {
        let seen = lock(&self.seen);
        let entry = seen.get(&act.act_id).filter(|seen| seen.version == act.version)?;
        Some(entry.since.elapsed())
    }

    /// Forgets claims that were not looked at for a while: they moved on, or are not due any more.
    pub(crate) fn forget_old(&self) {
        let keep = self.allowance * 4 + Duration::from_secs(60);
        lock(&self.seen).retain(|_, seen| seen.last.elapsed() < keep);
    }
}
