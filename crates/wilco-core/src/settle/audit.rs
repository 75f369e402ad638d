//! Closes that are looked at again: one that was concluded from lookups, for about a day; one that the counterparty may still
//! reject, until it is final.

use super::{News, Pace};
use crate::act::Audit;
use crate::journal::{Entry, OURSELVES};
use crate::write::{Change, Expect};
use crate::{Act, Contract, Stage, Timestamp};

/// How often a close concluded from lookups is looked at again, with pauses that double.
const MOST_AUDITS: u32 = 12;
const LONGEST_AUDIT_PAUSE_S: i64 = 6 * 3600;
/// How long it is tried where nobody answers.
const LONGEST_AUDIT_S: i64 = 30 * 86_400;

/// The first look again, for a close concluded at `now`.
pub(super) fn first(contract: &Contract, pace: Pace, now: Timestamp) -> Audit {
    let pause_s = i64::from(contract.settle_window_s).max(pace.first_s).max(1);
    Audit {
        next_at: now.plus_seconds(pause_s),
        looks: 0,
    }
}

/// The write after a close was looked at again and nothing was heard against it; `None` where it is not under audit. A
/// look that was not answered does not count; none is made after a month.
/// News that contradicts the close is [`super::evidence`], not this.
#[must_use]
pub fn audited(act: &Act, news: &News, contract: &Contract, now: Timestamp) -> Option<Change> {
    let mut next = act.clone();
    let done = matches!(next.stage, Stage::Done(_));
    let (closed, answered, most) = match &mut next.stage {
        Stage::Failed(closed) => (closed, matches!(news, News::LookupAbsent { .. }), MOST_AUDITS),
        // As long as it is not final, however often it was looked at.
        Stage::Done(closed) => (closed, matches!(news, News::Executed(_)), u32::MAX),
        _ => return None,
    };
    let looks = closed.audit?.looks.saturating_add(u32::from(answered));
    let mut entries = Vec::new();
    let settled = match news {
        News::Executed(executed) if !executed.provisional => Some(executed),
        _ => None,
    };
    if let Some(executed) = settled {
        closed
            .notes
            .push(format!("final at the counterparty ({})", executed.status));
        entries.push(Entry::event("final", news.detail(), OURSELVES));
    }
    let pause_s = i64::from(contract.settle_window_s)
        .max(1)
        .saturating_mul(1 << looks.min(16))
        .min(LONGEST_AUDIT_PAUSE_S);
    let given_up = now >= closed.closed_at.plus_seconds(LONGEST_AUDIT_S);
    if let (true, News::LookupExists(text)) = (done, news) {
        let note =
            format!("asked again, the counterparty has it, and how it stands is for a person to ask: {text}");
        if !closed.notes.contains(&note) {
            closed.notes.push(note);
        }
    }
    if given_up && done && settled.is_none() {
        closed
            .notes
            .push("the counterparty did not say within a month that it is final".to_owned());
    }
    closed.audit = (looks < most && !given_up && settled.is_none()).then(|| Audit {
        next_at: now.plus_seconds(pause_s),
        looks,
    });
    Some(Change {
        unless_twin: None,
        expect: Expect::Version(act.version),
        act: next,
        entries,
    })
}
