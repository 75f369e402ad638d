//! A round of a purge: the same in every keeper, which says only how its old acts are read and an erasure is written.

use async_trait::async_trait;
use futures::future::join_all;
use wilco_core::write::Decide;
use wilco_core::{Act, Timestamp, Written, purge};

use crate::{Purged, StoreError, page};

/// What a round needs of a keeper in a database.
#[async_trait]
pub(crate) trait Erases {
    /// How many erasures are under way at once: enough to share a flush, too few to be in anybody's way.
    const AT_ONCE: usize;

    /// At most a page of closed acts that were last written before `older_than` and keep their texts, the oldest first,
    /// after this instant and id.
    async fn old_after(&self, older_than: Timestamp, after: &(i64, String)) -> Result<Vec<Act>, StoreError>;

    /// One erasure.
    async fn erase(&self, decide: Decide) -> Result<Written, StoreError>;
}

/// Erases the oldest acts' texts, at most so many acts'.
///
/// # Errors
/// What the keeper answered.
pub(crate) async fn round<K: Erases + Sync>(
    keeper: &K,
    older_than: Timestamp,
    limit: u32,
) -> Result<Purged, StoreError> {
    let size = page::size(limit) as usize;
    let mut old = oldest(keeper, older_than, size + 1).await?;
    let mut done = Purged {
        more: old.len() > size,
        ..Purged::default()
    };
    old.truncate(size);
    while !old.is_empty() {
        let some: Vec<Act> = old.drain(..old.len().min(K::AT_ONCE)).collect();
        let writes = some
            .into_iter()
            .map(|act| keeper.erase(decision(act, older_than)));
        for written in join_all(writes).await {
            count(&mut done, written)?;
        }
    }
    Ok(done)
}

/// The oldest acts whose texts may be erased, at most so many. Those that are kept for a person are passed over; there are
/// few of them.
async fn oldest<K: Erases + Sync>(
    keeper: &K,
    older_than: Timestamp,
    most: usize,
) -> Result<Vec<Act>, StoreError> {
    let mut old = Vec::new();
    let mut after = (i64::MIN, String::new());
    while old.len() < most {
        let acts = keeper.old_after(older_than, &after).await?;
        let Some(last) = acts.last() else { break };
        after = (last.updated_at.0, last.act_id.to_string());
        old.extend(acts.into_iter().filter(|a| purge::erasable_since(a).is_some()));
    }
    old.truncate(most);
    Ok(old)
}

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
