//! Evidence: news that may not change the state, kept all the same.

use super::{Executed, News};
use crate::act::{Claim, OpenCall};
use crate::journal::{Entry, OURSELVES};
use crate::write::{Change, Expect};
use crate::{Act, Stage, Timestamp, Verdict};

/// Who brings news: the claim as the bringer held it when it acted or asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bearer {
    /// The owner's name.
    pub owner: String,
    /// The claim's epoch then.
    pub epoch: u64,
}

impl Bearer {
    /// The bearer that holds `claim`.
    #[must_use]
    pub fn of(claim: &Claim) -> Bearer {
        Bearer {
            owner: claim.owner.clone(),
            epoch: claim.epoch,
        }
    }

    /// Whether the act is still claimed by this bearer, so that its news may change the state. A stale epoch may only
    /// append evidence.
    #[must_use]
    pub fn holds(&self, act: &Act) -> bool {
        act.execution()
            .is_some_and(|e| e.claim.owner == self.owner && e.claim.epoch == self.epoch)
    }
}

/// The write that keeps news which may not change the state: about a closed act, or from somebody who no longer holds
/// the claim. What contradicts a close marks it; the closing line is never replaced and no second one enters the
/// thread. What says a claimed act was carried out is left for its holder to settle with.
#[must_use]
pub fn evidence(act: &Act, news: &News, from: &Bearer, now: Timestamp) -> Change {
    let mut next = act.clone();
    let contradicts = contradicts(act, news, from);
    let holder_calls = act.holder_may_be_calling();
    match &mut next.stage {
        Stage::Failed(closed) | Stage::Done(closed) if contradicts => {
            closed.verdict = Some(Verdict::Contradicted);
            closed.audit = None;
            closed.notes.push(format!(
                "later evidence contradicts this ({}): {}; an operator must look at the counterparty, and tell the sender",
                now.to_rfc3339(),
                news.in_words()
            ));
        }
        Stage::Executing(e) | Stage::InDoubt(e) => {
            // Whatever its call brought back: it has come back, and is under way no more.
            if news.ends_a_call() {
                let theirs = |call: &OpenCall| call.owner == from.owner && call.epoch == from.epoch;
                e.progress.calls_ended(theirs, holder_calls, now);
            }
            match news {
                News::Executed(executed) => {
                    match &e.progress.heard {
                        Some(first) if is_another(first, executed) => {
                            e.progress.heard_also = Some(executed.clone());
                        }
                        Some(_) => {}
                        None => e.progress.heard = Some(executed.clone()),
                    }
                    e.progress.next_at = now;
                }
                // Seen there once, it is never absent again, whoever saw it.
                News::Accepted(_) | News::LookupExists(_) => {
                    e.progress.exists = true;
                    e.progress.absent_at.clear();
                    e.progress.next_at = now;
                }
                _ => {}
            }
        }
        _ => {}
    }
    let detail = serde_json::json!({
        "news": news.name(), "heard": news.detail(), "owner": from.owner, "epoch": from.epoch,
    });
    let entry = Entry::event("late_evidence", detail, OURSELVES);
    Change {
        unless_twin: None,
        expect: Expect::Version(act.version),
        act: next,
        entries: vec![entry],
    }
}

/// Whether news about a closed act says the opposite of its closing line.
///
/// "Not sent" and "refused" answer one sending. Where the same bytes were sent again, the earlier sending's no says
/// nothing against a later one that the counterparty gave a receipt for. And what the counterparty refused it had taken on
/// before: who saw it there until then, and says so late, contradicts nothing. Two receipts are two orders.
#[must_use]
pub fn contradicts(act: &Act, news: &News, from: &Bearer) -> bool {
    match (&act.stage, news) {
        (Stage::Failed(_), News::Executed(_)) => true,
        (Stage::Failed(closed), News::Accepted(_) | News::LookupExists(_)) => !closed.refused_there,
        (Stage::Done(closed), News::NotDone { .. } | News::Refused(_)) => {
            let of_another_claim = closed.claim.as_ref().is_some_and(|c| Bearer::of(c) != *from);
            !(of_another_claim && closed.receipt.is_some())
        }
        (Stage::Done(closed), News::Executed(executed) | News::Accepted(executed)) => {
            differ(closed.receipt.as_deref(), executed.receipt.as_deref())
        }
        _ => false,
    }
}

/// Whether both report an order, and not the same one.
pub(super) fn is_another(a: &Executed, b: &Executed) -> bool {
    differ(a.receipt.as_deref(), b.receipt.as_deref())
}

fn differ(a: Option<&str>, b: Option<&str>) -> bool {
    matches!((a, b), (Some(a), Some(b)) if a != b)
}

impl News {
    /// Whether it is what a call brought back, or that its process ended: that call is under way no more.
    pub(super) fn ends_a_call(&self) -> bool {
        match self {
            News::Executed(_)
            | News::Accepted(_)
            | News::NotDone { .. }
            | News::Refused(_)
            | News::CallUnknown(_)
            | News::OwnerDead(_) => true,
            News::LookupAbsent { .. } | News::LookupExists(_) | News::LookupUnknown(_) => false,
        }
    }

    /// In words, for people.
    fn in_words(&self) -> String {
        match self {
            News::Executed(e) | News::Accepted(e) => {
                let said = if matches!(self, News::Executed(_)) {
                    "it was carried out"
                } else {
                    "it was taken on"
                };
                let receipt = e
                    .receipt
                    .as_ref()
                    .map(|r| format!(", receipt {r}"))
                    .unwrap_or_default();
                format!("{said}{receipt}")
            }
            News::NotDone { text, .. } | News::Refused(text) => format!("it was not carried out: {text}"),
            News::LookupExists(text) => format!("it stands at the counterparty: {text}"),
            _ => self.name().replace('_', " "),
        }
    }
}
