//! What a keeper in a database has done since it was opened.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Counters;

/// Counted as it happens.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) writes: AtomicU64,
    pub(crate) flushes: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) unknown: AtomicU64,
}

impl Tally {
    /// As it stands.
    pub(crate) fn read(&self) -> Counters {
        Counters {
            writes: self.writes.load(Ordering::Relaxed),
            flushes: self.flushes.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            unknown: self.unknown.load(Ordering::Relaxed),
        }
    }
}
