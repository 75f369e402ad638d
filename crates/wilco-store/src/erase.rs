//! What one erasure of a purge writes, and how it is counted: the same in every keeper.

use wilco_core::write::Decide;
use wilco_core::{Act, Timestamp, Written, purge};

use crate::{Purged, StoreError};

/// How many erasures of one round are under way at once in SQLite: enough to share a flush, too few to be in anybody's way.
pub(crate) const AT_ONCE: usize = 16;

/// The write that erases the texts of `act`; it writes nothing where they may not be erased.
pub(crate) fn decision(act: Act, older_than: Timestamp) -> Decide {
    Box::new(move |now| purge::erase(&act, older_than, now).into_iter().collect())
}

/// Counts what became of one erasure.
///
/// # Errors
/// What the keeper answered.
pub(crate) fn count(done: &mut Purged, written: Result<Written, StoreError>) -> Result<(), StoreError> {
    match written? {
        Written::Advanced { acts, .. } => {
            done.acts += acts.len() as u64;
            // All rows but the one that says so.
            done.bodies += acts.iter().map(|a| a.seq.saturating_sub(1)).sum::<u64>();
        }
        Written::Stale { .. } | Written::Taken(_) => done.more = true,
    }
    Ok(())
}
