//! A close that was concluded from lookups is looked at again for about a day.

use super::Pace;
use crate::act::Audit;
use crate::write::{Change, Expect};
use crate::{Act, Contract, Stage, Timestamp};

/// How often a close concluded from lookups is looked at again, with pauses that double.
const MOST_AUDITS: u32 = 12;
const LONGEST_AUDIT_PAUSE_S: i64 = 6 * 3600;

/// The first look again, for a close concluded at `now`.
pub(super) fn first(contract: &Contract, pace: Pace, now: Timestamp) -> Audit {
    let pause_s = i64::from(contract.settle_window_s).max(pace.first_s).max(1);
    Audit {
        next_at: now.plus_seconds(pause_s),
        looks: 0,
    }
}

/// The write after a failed act was looked at again and nothing new was found; `None` where it is not under audit.
/// News that it stands at the counterparty after all is [`super::evidence`], not this.
#[must_use]
pub fn audited(act: &Act, contract: &Contract, now: Timestamp) -> Option<Change> {
    let mut next = act.clone();
    let Stage::Failed(closed) = &mut next.stage else {
        return None;
    };
    let looks = closed.audit?.looks + 1;
    let pause_s = i64::from(contract.settle_window_s)
        .max(1)
        .saturating_mul(1 << looks.min(16))
        .min(LONGEST_AUDIT_PAUSE_S);
    closed.audit = (looks < MOST_AUDITS).then(|| Audit {
        next_at: now.plus_seconds(pause_s),
        looks,
    });
    Some(Change {
        unless_twin: None,
        expect: Expect::Version(act.version),
        act: next,
        entries: Vec::new(),
    })
}
