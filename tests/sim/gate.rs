//! The life of a daemon's process: everything it says to the store, the counterparty and its callers passes here.

use std::sync::Mutex;

use tokio::sync::Notify;

use crate::locked;

/// Whether a process moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Motion {
    Running,
    /// SIGSTOP: it stands still wherever it is, and goes on from there.
    Frozen,
    /// SIGKILL: nothing it had under way ever acts again.
    Dead,
}

/// The gate of one process.
pub struct Gate {
    motion: Mutex<Motion>,
    moved: Notify,
}

impl Gate {
    pub fn new() -> Gate {
        Gate {
            motion: Mutex::new(Motion::Running),
            moved: Notify::new(),
        }
    }

    pub fn motion(&self) -> Motion {
        *locked(&self.motion)
    }

    /// Sets it in another motion. The dead stay dead.
    pub fn set(&self, motion: Motion) {
        let mut now = locked(&self.motion);
        if *now != Motion::Dead {
            *now = motion;
        }
        drop(now);
        self.moved.notify_waiters();
    }

    /// Returns once the process moves; never, if it is dead.
    pub async fn pass(&self) {
        loop {
            let moved = self.moved.notified();
            match self.motion() {
                Motion::Running => return,
                Motion::Frozen => moved.await,
                Motion::Dead => std::future::pending().await,
            }
        }
    }
}
