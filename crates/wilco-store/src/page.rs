//! Page tokens, the same in every keeper.

use wilco_core::{Act, ActId, Timestamp};

use crate::StoreError;

/// The most rows one page holds.
pub(crate) const MOST: u32 = 500;

/// How many rows to answer: what was asked for, zero meaning as many as there may be.
pub(crate) fn size(asked: u32) -> u32 {
    if asked == 0 { MOST } else { asked.min(MOST) }
}

/// Where a page of acts ended: its last act.
pub(crate) fn act_token(token: Option<&str>) -> Result<Option<ActId>, StoreError> {
    token
        .map(|t| t.parse().map_err(|_| StoreError::PageToken))
        .transpose()
}

/// A line's place in its thread. Lines are ordered by the instant they entered; those of one write share it, and
/// stand in the order of their acts and of their numbers there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) at: Timestamp,
    pub(crate) act_id: ActId,
    pub(crate) seq: u64,
}

impl Place {
    /// The token that names it.
    pub(crate) fn token(self) -> String {
        format!("{}.{}.{}", self.at.0, self.act_id, self.seq)
    }

    /// The place a token names.
    pub(crate) fn from_token(token: &str) -> Result<Place, StoreError> {
        let parse = || {
            let mut parts = token.splitn(3, '.');
            let at = Timestamp(parts.next()?.parse().ok()?);
            let act_id = parts.next()?.parse().ok()?;
            let seq = parts.next()?.parse().ok()?;
            i64::try_from(seq).ok()?;
            Some(Place { at, act_id, seq })
        };
        parse().ok_or(StoreError::PageToken)
    }
}

/// Cuts a list that was read one row too long into a page.
pub(crate) fn cut<T>(mut items: Vec<T>, size: u32, token: impl Fn(&T) -> String) -> crate::Page<T> {
    let size = size as usize;
    let more = items.len() > size;
    items.truncate(size);
    let next = if more { items.last().map(token) } else { None };
    crate::Page { items, next }
}

/// A page of acts that were read in several walks.
pub(crate) fn merged(mut acts: Vec<Act>, size: u32) -> crate::Page<Act> {
    acts.sort_by_key(|a| std::cmp::Reverse(a.act_id));
    acts.dedup_by_key(|a| a.act_id);
    cut(acts, size, |a| a.act_id.to_string())
}

impl crate::ThreadLine {
    /// Its place in the thread.
    pub(crate) fn place(&self) -> Place {
        Place {
            at: self.at,
            act_id: self.act_id,
            seq: self.seq,
        }
    }
}
