//! Likely twins: another act, in any thread, that would do the same thing.
//!
//! Not idempotency (that is the same handoff), but likeness: the profile names the slots and the span per ask, say the
//! same item, payee, amount, currency and account within 90 days. A second one is held, shown with its twin, and goes
//! on only when an operator other than its sender says so. The release belongs to the handoff and makes the next
//! attempt.
//!
//! The question is asked twice, each time in the transaction that writes the answer: when the statement is stored, and
//! again in the claim, where only acts that were claimed or done count. So of two twins released against each other
//! whichever is confirmed first goes on, and the other is held again unless it was the one released.

use rw1::{Profiles, Span};

use crate::act::{LIKELY_TWIN, StoredProblem};
use crate::journal::Entry;
use crate::write::{Change, Expect, TwinGuard};
use crate::{Act, ActId, Offer, Reason, Refusal, Stage, State, Timestamp};

/// The guard of the write that stores a statement of `act`; `None` where the profile names no likeness for the ask, or
/// an operator released it. `superseded` is the act this one takes the place of.
#[must_use]
pub fn guard_at_prepare(
    profiles: &Profiles,
    act: &Act,
    superseded: Option<ActId>,
    now: Timestamp,
) -> Option<TwinGuard> {
    guard(
        profiles,
        act,
        superseded,
        now,
        &[State::Prepared, State::Executing, State::InDoubt],
    )
}

/// The guard of the claiming write of `act`.
#[must_use]
pub fn guard_at_claim(profiles: &Profiles, act: &Act, now: Timestamp) -> Option<TwinGuard> {
    guard(profiles, act, None, now, &[State::Executing, State::InDoubt])
}

fn guard(
    profiles: &Profiles,
    act: &Act,
    superseded: Option<ActId>,
    now: Timestamp,
    open: &[State],
) -> Option<TwinGuard> {
    if act.released_by.is_some() {
        return None;
    }
    let likeness = act.likeness.clone()?;
    let span = profiles
        .get(&act.handoff.profile)?
        .likeness(&act.handoff.ask)?
        .span;
    let mut states = open.to_vec();
    let since = match span {
        Span::Days(days) => {
            states.push(State::Done);
            now.plus_seconds(-i64::from(days) * 86_400)
        }
        Span::OpenOnly => Timestamp(i64::MIN),
    };
    let except = std::iter::once(act.act_id).chain(superseded).collect();
    Some(TwinGuard {
        likeness,
        since,
        states,
        except,
    })
}

/// The offer of an act that is held because of `twin`.
#[must_use]
pub fn held(mut offer: Offer, twin: &Act) -> Offer {
    let text = format!(
        "a likely twin stands: {} of thread {} ({}, act {}); an operator other than the sender may release this one",
        twin.handoff.id,
        twin.thread,
        twin.state().as_str(),
        twin.act_id
    );
    offer.problems.push(StoredProblem {
        code: LIKELY_TWIN.to_owned(),
        slot: None,
        want: None,
        got: Some(twin.act_id.to_string()),
        text,
    });
    offer
}

/// The write that holds a prepared act because a twin was found in its claim.
#[must_use]
pub fn hold(act: &Act, offer: &Offer, twin: &Act) -> Change {
    let mut next = act.clone();
    next.stage = Stage::Held(held(offer.clone(), twin));
    let detail = serde_json::json!({ "twin": twin.act_id.to_string() });
    let entries = vec![Entry::event("held_as_twin", detail, crate::journal::OURSELVES)];
    Change {
        expect: Expect::Version(act.version),
        act: next,
        entries,
        unless_twin: None,
    }
}

/// The write of a release: the act lapses, and may be stated again with its twin standing.
///
/// # Errors
/// The act is not held, is held for another reason, or the operator is the one who sent it.
pub fn release(act: &Act, operator: &str, speaks_for_sender: bool) -> Result<Change, Refusal> {
    let Stage::Held(offer) = &act.stage else {
        let text = format!(
            "only a held act is released; this one is {}",
            act.state().as_str()
        );
        return Err(Refusal::new(Reason::Refused, text));
    };
    if !act.is_held_as_twin() {
        let text =
            "it is held because its statement differs from its handoff: nobody can release that; cancel it";
        return Err(Refusal::new(Reason::Held, text).with_problems(offer.problems.clone()));
    }
    if speaks_for_sender || operator == act.principal {
        let text = "a likely twin is released by an operator other than its sender";
        return Err(Refusal::new(Reason::NotYours, text));
    }
    let mut next = act.clone();
    next.released_by = Some(operator.to_owned());
    next.stage = Stage::Lapsed(offer.clone(), crate::act::Lapse::Released);
    let twins: Vec<&str> = offer.problems.iter().filter_map(|p| p.got.as_deref()).collect();
    let entries = vec![Entry::event(
        "released",
        serde_json::json!({ "twins": twins }),
        operator,
    )];
    Ok(Change {
        expect: Expect::Version(act.version),
        act: next,
        entries,
        unless_twin: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::act::Lapse;
    use crate::testing::{NOON, a_prepared_act, an_offer, profiles};

    fn alike() -> Act {
        Act {
            likeness: Some("same".into()),
            ..a_prepared_act()
        }
    }

    fn held_act() -> Act {
        let twin = Act {
            thread: "other".into(),
            ..alike()
        };
        Act {
            stage: Stage::Held(held(an_offer(), &twin)),
            principal: "scheduler".into(),
            ..alike()
        }
    }

    #[test]
    fn a_payment_looks_back_ninety_days_and_done_counts() {
        let guard = guard_at_prepare(&profiles(), &alike(), None, NOON).expect("pay names likeness for PAY");
        assert_eq!(guard.since, NOON.plus_seconds(-90 * 86_400));
        assert!(guard.states.contains(&State::Done) && guard.states.contains(&State::Prepared));
        assert!(!guard.states.contains(&State::Lapsed) && !guard.states.contains(&State::Refused));
        assert_eq!(guard.except, [alike().act_id]);
    }

    #[test]
    fn in_the_claim_only_what_was_claimed_or_done_counts() {
        let guard = guard_at_claim(&profiles(), &alike(), NOON).expect("a guard");
        assert_eq!(guard.states, [State::Executing, State::InDoubt, State::Done]);
    }

    #[test]
    fn a_released_act_and_one_without_likeness_are_not_guarded() {
        let released = Act {
            released_by: Some("duty".into()),
            ..alike()
        };
        assert_eq!(guard_at_prepare(&profiles(), &released, None, NOON), None);
        assert_eq!(guard_at_claim(&profiles(), &released, NOON), None);
        assert_eq!(guard_at_prepare(&profiles(), &a_prepared_act(), None, NOON), None);
    }

    #[test]
    fn only_an_operator_other_than_the_sender_releases_and_only_a_twin() {
        let change = release(&held_act(), "duty", false).expect("released");
        assert!(matches!(change.act.stage, Stage::Lapsed(_, Lapse::Released)));
        assert_eq!(change.act.released_by.as_deref(), Some("duty"));
        let refused = |act: &Act, who, speaks| release(act, who, speaks).expect_err("refused").reason;
        assert_eq!(refused(&held_act(), "scheduler", false), Reason::NotYours);
        assert_eq!(refused(&held_act(), "duty", true), Reason::NotYours);
        assert_eq!(refused(&alike(), "duty", false), Reason::Refused);
        let mut wrong = held(an_offer(), &alike());
        wrong.problems.insert(
            0,
            StoredProblem {
                code: "exec_mismatch".into(),
                ..wrong.problems[0].clone()
            },
        );
        let wrong = Act {
            stage: Stage::Held(wrong),
            ..alike()
        };
        assert_eq!(refused(&wrong, "duty", false), Reason::Held);
    }

    #[test]
    fn a_release_is_spent_once_the_values_it_was_given_for_are_others() {
        let profiles = profiles();
        let mut act = Act {
            released_by: Some("duty".into()),
            ..a_prepared_act()
        };
        let frozen = an_offer().frozen;
        act.likeness = crate::prepare::likeness(&profiles, &act.handoff, &frozen);
        let mut same = act.clone();
        crate::prepare::liken(&profiles, &mut same, &frozen);
        assert_eq!(same.released_by.as_deref(), Some("duty"));
        let mut other = frozen;
        for value in other.values.iter_mut().filter(|v| v.slot == "acct") {
            value.value = "20-00-00/00000001".into();
        }
        crate::prepare::liken(&profiles, &mut act, &other);
        assert_eq!(act.released_by, None);
        assert!(act.likeness.is_some() && act.likeness != same.likeness);
    }
}
