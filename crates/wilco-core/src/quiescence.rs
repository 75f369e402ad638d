//! The quiescence rule: when "it did not happen" may be said.
//!
//! *Absent* may be concluded only when
//!
//! (a) the call that owned the claim is over: it returned, or its process is known to be dead; or the counterparty can
//!     no longer accept its bytes; **and**
//! (b) the settle window has passed since the last byte could have been sent, and two lookups spaced over that window
//!     both say absent.
//!
//! A passed deadline and a fenced epoch never suffice for (a): they keep a paused owner from writing, not from
//! sending.

use crate::act::Progress;
use crate::contract::LateSend;
use crate::{Contract, Timestamp};

/// What may be said of an act nobody found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absence {
    /// It did not happen, and can no longer happen.
    Proved,
    /// Not before this instant, and then only if lookups still find nothing.
    NotBefore(Timestamp),
    /// Lookups can never prove it at this counterparty, or the call is not known to be over: a person must settle it.
    NeverByLookup,
}

/// Judges what has been seen so far. `placed_at` is when prepare put the counterparty's object in place (the claim's
/// instant is a safe upper bound for when its expiry counts from).
#[must_use]
pub fn absence(contract: &Contract, progress: &Progress, placed_at: Timestamp) -> Absence {
    // What was once seen there is not absent because later reads do not show it.
    if !contract.absence_can_be_proved() || progress.exists || progress.accepted {
        return Absence::NeverByLookup;
    }
    let Some(last_byte_by) = last_byte_by(contract, progress, placed_at) else {
        return Absence::NeverByLookup;
    };
    let window_s = i64::from(contract.settle_window_s);
    let settled_at = last_byte_by.plus_seconds(window_s);
    let mut valid = progress
        .absent_at
        .iter()
        .copied()
        .filter(|at| *at >= last_byte_by);
    let Some(first) = valid.next() else {
        return Absence::NotBefore(settled_at);
    };
    let second_from = settled_at.max(first.plus_seconds(window_s));
    // Two lookups are two even where the window is zero: the first cannot stand for both.
    if valid.any(|at| at >= second_from) {
        Absence::Proved
    } else {
        Absence::NotBefore(second_from)
    }
}

/// By when the last byte of the act must have left, if that is known. A lookup asked before that instant says nothing
/// about the act's absence.
pub(crate) fn last_byte_by(
    contract: &Contract,
    progress: &Progress,
    placed_at: Timestamp,
) -> Option<Timestamp> {
    let refused_from = match contract.late_send {
        LateSend::RefusedAfter(seconds) => Some(placed_at.plus_seconds(i64::from(seconds))),
        LateSend::Accepted => None,
    };
    match (progress.over_since, refused_from) {
        (Some(over), Some(refused)) => Some(over.min(refused)),
        (over, refused) => over.or(refused),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::LookupBy;
    use crate::testing::{NOON, a_contract};

    fn seen(over_since: Option<i64>, absent_at: &[i64]) -> Progress {
        Progress {
            over_since: over_since.map(|s| NOON.plus_seconds(s)),
            absent_at: absent_at.iter().map(|s| NOON.plus_seconds(*s)).collect(),
            ..Progress::default()
        }
    }

    fn judge(progress: &Progress) -> Absence {
        absence(&a_contract(), progress, NOON)
    }

    fn not_before(seconds: i64) -> Absence {
        Absence::NotBefore(NOON.plus_seconds(seconds))
    }

    #[test]
    fn two_lookups_spaced_over_the_window_after_the_call_is_over_prove_it() {
        assert_eq!(judge(&seen(Some(10), &[12, 72])), Absence::Proved);
        assert_eq!(judge(&seen(Some(10), &[12, 40, 73])), Absence::Proved);
    }

    #[test]
    fn one_lookup_never_does() {
        assert_eq!(judge(&seen(Some(10), &[])), not_before(70));
        assert_eq!(judge(&seen(Some(10), &[500])), not_before(560));
        let mut no_window = a_contract();
        no_window.settle_window_s = 0;
        assert_eq!(absence(&no_window, &seen(Some(10), &[10]), NOON), not_before(10));
    }

    #[test]
    fn lookups_before_the_call_was_over_do_not_count() {
        assert_eq!(judge(&seen(Some(10), &[2, 5, 9])), not_before(70));
        assert_eq!(judge(&seen(Some(10), &[2, 71])), not_before(131));
    }

    #[test]
    fn lookups_closer_than_the_window_do_not_count_as_two() {
        assert_eq!(judge(&seen(Some(10), &[65, 71])), not_before(125));
    }

    #[test]
    fn while_the_call_may_run_nothing_is_proved() {
        assert_eq!(judge(&seen(None, &[100, 1000, 10_000])), Absence::NeverByLookup);
    }

    #[test]
    fn a_counterparty_that_refuses_late_bytes_ends_the_call_itself() {
        let mut contract = a_contract();
        contract.late_send = LateSend::RefusedAfter(300);
        assert_eq!(
            absence(&contract, &seen(None, &[301, 361]), NOON),
            Absence::Proved
        );
        assert_eq!(
            absence(&contract, &seen(None, &[299, 361]), NOON),
            not_before(421)
        );
    }

    #[test]
    fn evidence_alone_never_proves_absence() {
        for lookup in [LookupBy::Evidence, LookupBy::None] {
            let mut contract = a_contract();
            contract.lookup = lookup;
            assert_eq!(
                absence(&contract, &seen(Some(0), &[1, 1000]), NOON),
                Absence::NeverByLookup
            );
        }
    }
}
