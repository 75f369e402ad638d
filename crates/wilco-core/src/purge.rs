//! Purge: what is left of a closed act once its texts were erased.
//!
//! Erased are the handoff's line, the statement, the frozen values and request, what a check found, and every body in the
//! journal. What stays is what a later question needs:
//!
//! - the ids and names, the state, the receipt, the hashes of the tokens, and the likeness, so that a twin is still seen;
//! - the SHA-256 of the handoff's line, which is its identity from now on: sent again it is known, and other bytes under
//!   its id are still a conflict;
//! - the closing line itself. Asked again, the daemon gives the same line, byte for byte, as before. Were it erased, the
//!   answer to a repeated commit would be an empty one, which means that the outcome is not known yet: the one answer
//!   that must never be given about an act that was done. It is also the answer of a sender that has not asked yet.
//!
//! The journal keeps its rows with the hash of each body, so the chain still holds and a body kept elsewhere can be proved.
//! A cancel that comes after the erasure is kept like any other line: it names the handoff, and nothing of what was done.

use crate::act::{Closed, Erased};
use crate::journal::{Entry, OURSELVES, sha256_hex};
use crate::write::{Change, Expect};
use crate::{Act, Stage, Timestamp, Verdict};

/// Since when the texts of `act` are of no use; `None` while they may be needed, and once they are erased.
///
/// Needed are those of an act that is not closed, of one that ended otherwise than stated or than was said, which a
/// person has to look into, of one that is still looked at again, and of one with a cancel that waits for its answer. A
/// tombstone stays as it is.
#[must_use]
pub fn erasable_since(act: &Act) -> Option<Timestamp> {
    let closed = act.closed()?;
    let for_a_person = matches!(closed.verdict, Some(Verdict::Mismatch | Verdict::Contradicted));
    let kept =
        for_a_person || act.handoff.line.is_empty() || !act.waiting.is_empty() || closed.audit.is_some();
    (!kept).then_some(act.updated_at)
}

/// The write that erases the texts of `act`, if they are older than `older_than`. The bodies of its journal go with it.
#[must_use]
pub fn erase(act: &Act, older_than: Timestamp, now: Timestamp) -> Option<Change> {
    erasable_since(act).filter(|since| *since < older_than)?;
    let mut next = act.clone();
    let line = std::mem::take(&mut next.handoff.line);
    let (Stage::Done(closed) | Stage::Failed(closed) | Stage::Cancelled(closed) | Stage::Refused(closed)) =
        &mut next.stage
    else {
        return None;
    };
    *closed = Closed {
        offer: None,
        problems: Vec::new(),
        notes: Vec::new(),
        erased: Some(Erased {
            at: now,
            handoff_sha256: sha256_hex(line.as_bytes()),
        }),
        ..closed.clone()
    };
    let detail = serde_json::json!({ "rows": act.seq });
    Some(Change {
        expect: Expect::Version(act.version),
        act: next,
        entries: vec![Entry::event("erased", detail, OURSELVES)],
        unless_twin: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::State;
    use crate::act::WaitingCancel;
    use crate::prepare::closed;
    use crate::prepare::{Reissue, Standing, reissue, standing};
    use crate::testing::{HO, NOON, a_prepared_act, an_executing_act, an_offer, profiles};

    const LATER: Timestamp = Timestamp(NOON.0 + 100 * 86_400 * 1_000_000);

    fn in_state(state: State) -> Act {
        let closed = || {
            closed(
                "RW1 DN payer-102".into(),
                "payer-102".into(),
                NOON,
                Some(an_offer()),
            )
        };
        let execution = an_executing_act().execution().cloned().expect("executing");
        let stage = match state {
            State::Prepared => Stage::Prepared(an_offer()),
            State::Held => Stage::Held(an_offer()),
            State::Lapsed => Stage::Lapsed(an_offer(), crate::act::Lapse::Expired),
            State::Executing => Stage::Executing(execution),
            State::InDoubt => Stage::InDoubt(execution),
            State::Done => Stage::Done(Closed {
                verdict: Some(Verdict::Match),
                receipt: Some("dp-1".into()),
                ..closed()
            }),
            State::Failed => Stage::Failed(closed()),
            State::Cancelled => Stage::Cancelled(closed()),
            State::Refused => Stage::Refused(closed()),
        };
        Act {
            stage,
            updated_at: NOON,
            ..a_prepared_act()
        }
    }

    fn with_verdict(state: State, verdict: Verdict) -> Act {
        let mut act = in_state(state);
        if let Stage::Done(closed) | Stage::Failed(closed) = &mut act.stage {
            closed.verdict = Some(verdict);
        }
        act
    }

    fn erased(act: &Act) -> Act {
        let change = erase(act, LATER, LATER).expect("it may be erased");
        Act {
            updated_at: LATER,
            version: act.version + 1,
            ..change.act
        }
    }

    #[test]
    fn only_what_is_closed_old_and_nobodys_business_is_erased() {
        for state in State::ALL {
            let act = in_state(state);
            assert_eq!(erase(&act, LATER, LATER).is_some(), state.is_final(), "{state:?}");
            assert_eq!(erase(&act, NOON, LATER), None, "not older than itself");
        }
        let person = [
            with_verdict(State::Done, Verdict::Mismatch),
            with_verdict(State::Done, Verdict::Contradicted),
            with_verdict(State::Failed, Verdict::Contradicted),
        ];
        for act in person {
            assert_eq!(erase(&act, LATER, LATER), None);
        }
        let mut waited_for = in_state(State::Failed);
        waited_for.waiting.push(WaitingCancel {
            line: "RW1 CX".into(),
            id: "scheduler-2".into(),
        });
        assert_eq!(erase(&waited_for, LATER, LATER), None);
    }

    #[test]
    fn what_is_left_answers_as_before_and_holds_no_text_but_the_closing_line() {
        for state in [State::Done, State::Failed, State::Cancelled, State::Refused] {
            let act = in_state(state);
            let left = erased(&act);
            assert_eq!(left.state(), state);
            assert!(!left.is_tombstone());
            let (was, is) = (act.closed().expect("closed"), left.closed().expect("closed"));
            assert_eq!(
                (&is.line, &is.line_id, &is.receipt),
                (&was.line, &was.line_id, &was.receipt)
            );
            assert_eq!((&left.tokens, &left.likeness), (&act.tokens, &act.likeness));
            assert!(left.handoff.line.is_empty() && left.offer().is_none());

            assert_eq!(standing(&profiles(), &left, HO), Ok(Standing::Closed));
            let conflict = standing(&profiles(), &left, &format!("{HO} "));
            assert_eq!(
                conflict.expect_err("other bytes").reason,
                crate::Reason::HandoffConflict
            );
        }
    }

    #[test]
    fn a_tombstone_and_what_was_erased_stay_as_they_are() {
        let mut grave = in_state(State::Cancelled);
        grave.handoff.line.clear();
        assert_eq!(erase(&grave, LATER, LATER), None);
        let mut left = erased(&in_state(State::Failed));
        left.updated_at = NOON;
        assert_eq!(erase(&left, LATER, LATER), None);
    }

    #[test]
    fn a_reissue_that_names_an_erased_line_of_an_act_that_was_done_is_refused() {
        let again = crate::Handoff {
            id: "scheduler-9".into(),
            ..a_prepared_act().handoff
        };
        let done = erased(&in_state(State::Done));
        let answer = reissue(&again, "payer-101", &done, None);
        assert!(matches!(answer, Reissue::Refuse("CONFLICT", _)), "{answer:?}");
        let failed = erased(&in_state(State::Failed));
        assert_eq!(reissue(&again, "payer-101", &failed, None), Reissue::Unrelated);
    }
}
