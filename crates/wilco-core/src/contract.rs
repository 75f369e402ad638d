//! What a counterparty promises, as data, and the guarantee that follows from it.
//!
//! An adapter declares its contract; nothing else decides whether an act may be sent again or may be called undone.
//! The contract is frozen with the act, and recovery uses the narrower of the frozen one and the current one.

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// What identity of an act the counterparty itself enforces as unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Identity {
    /// For ever: the same bytes again can never have a second effect.
    Enforced,
    /// For so many seconds after the first sending (an idempotency key that is pruned later).
    Window(u32),
    /// Not at all: sending twice acts twice.
    None,
}

/// How an act is looked up after its answer was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LookupBy {
    /// By the reference we chose before acting.
    Reference,
    /// By something the act must leave behind (a consent's state, a branch's head).
    NaturalKey,
    /// Presence can be proved, absence cannot.
    Evidence,
    /// Not at all.
    None,
}

/// What becomes of bytes that reach the counterparty late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LateSend {
    /// The counterparty itself refuses them so many seconds after prepare (an expiring consent or credential).
    RefusedAfter(u32),
    /// They may still act.
    Accepted,
}

/// What can be taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reversal {
    /// By an act of its own (`ask=UNDO`), with its own readback.
    NewAct,
    /// Not at this counterparty.
    None,
}

/// An adapter's contract for one kind of act.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contract {
    /// What the counterparty enforces as unique.
    pub identity: Identity,
    /// How an act is looked up.
    pub lookup: LookupBy,
    /// Seconds after the last byte in which an act can still land.
    pub settle_window_s: u32,
    /// What becomes of bytes sent late.
    pub late_send: LateSend,
    /// What can be taken back.
    pub reversal: Reversal,
    /// Seconds after it was carried out within which an act can be taken back; `None` where it can be for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reversal_until_s: Option<u32>,
    /// When the counterparty's day or window ends for acts of this kind, in words for operators; empty where it has none.
    /// The instant that counts for an act is frozen with it ([`crate::Frozen::not_after`]).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cut_off: String,
    /// Which bytes on the wire part "surely not done" from "in doubt", in words for operators.
    pub point_of_no_return: String,
    /// What the counterparty's "not found" answers mean, in words for operators.
    pub not_found_means: String,
}

/// What users are promised of an adapter, derived from its contract and from nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Guarantee {
    /// Never sent twice; what became of a lost answer only a person can say.
    Blind,
    /// Never sent twice; a lost answer is looked up.
    Verifiable,
    /// The same bytes may be sent again without a second effect.
    Replayable,
}

impl Guarantee {
    /// The word users see.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Guarantee::Blind => "blind",
            Guarantee::Verifiable => "verifiable",
            Guarantee::Replayable => "replayable",
        }
    }
}

impl Contract {
    /// The guarantee class this contract gives.
    #[must_use]
    pub fn guarantee(&self) -> Guarantee {
        match (self.identity, self.lookup) {
            (Identity::Enforced | Identity::Window(_), _) => Guarantee::Replayable,
            (Identity::None, LookupBy::Reference | LookupBy::NaturalKey) => Guarantee::Verifiable,
            (Identity::None, LookupBy::Evidence | LookupBy::None) => Guarantee::Blind,
        }
    }

    /// Whether two answered lookups can prove that nothing happened.
    #[must_use]
    pub fn absence_can_be_proved(&self) -> bool {
        matches!(self.lookup, LookupBy::Reference | LookupBy::NaturalKey)
    }

    /// Whether an act that was carried out at `done_at` can be taken back at `now`.
    ///
    /// # Errors
    /// The `why` code of the refusal and the rule, in one clause.
    pub fn can_take_back(&self, done_at: Timestamp, now: Timestamp) -> Result<(), (&'static str, String)> {
        if self.reversal == Reversal::None {
            let text = "there is no way back from it at this counterparty; a correction is an act of its own";
            return Err(("NOCAP", text.to_owned()));
        }
        match self.reversal_until_s.map(|s| done_at.plus_seconds(i64::from(s))) {
            Some(until) if now >= until => {
                let text = format!("it could be taken back until {}", until.to_rfc3339());
                Err(("EXPIRED", text))
            }
            _ => Ok(()),
        }
    }

    /// What can be done about an act that was done and should not have been, in one clause for people; `dn` is the id of its
    /// DN.
    #[must_use]
    pub fn way_back(&self, dn: &str) -> String {
        match (self.reversal, self.reversal_until_s) {
            (Reversal::NewAct, None) => format!("reverse it with ask=UNDO ctx={dn}"),
            (Reversal::NewAct, Some(s)) => {
                format!("reverse it with ask=UNDO ctx={dn}, within {s} seconds of its execution")
            }
            (Reversal::None, _) => {
                "nothing takes it back at this counterparty: a person must ask there, by its receipt"
                    .to_owned()
            }
        }
    }

    /// The contract that promises no more than either: what recovery may rely on when an adapter's contract changed
    /// while an act was open.
    #[must_use]
    pub fn narrower(&self, other: &Contract) -> Contract {
        let identity = match (self.identity, other.identity) {
            (Identity::None, _) | (_, Identity::None) => Identity::None,
            (Identity::Window(a), Identity::Window(b)) => Identity::Window(a.min(b)),
            (Identity::Window(a), Identity::Enforced) | (Identity::Enforced, Identity::Window(a)) => {
                Identity::Window(a)
            }
            (Identity::Enforced, Identity::Enforced) => Identity::Enforced,
        };
        let rank = |l: LookupBy| match l {
            LookupBy::None => 0,
            LookupBy::Evidence => 1,
            LookupBy::NaturalKey => 2,
            LookupBy::Reference => 3,
        };
        let lookup = if rank(self.lookup) <= rank(other.lookup) {
            self.lookup
        } else {
            other.lookup
        };
        let late_send = match (self.late_send, other.late_send) {
            (LateSend::RefusedAfter(a), LateSend::RefusedAfter(b)) => LateSend::RefusedAfter(a.max(b)),
            _ => LateSend::Accepted,
        };
        let reversal = if self.reversal == other.reversal {
            self.reversal
        } else {
            Reversal::None
        };
        Contract {
            identity,
            lookup,
            settle_window_s: self.settle_window_s.max(other.settle_window_s),
            late_send,
            reversal,
            reversal_until_s: match (self.reversal_until_s, other.reversal_until_s) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            },
            cut_off: other.cut_off.clone(),
            point_of_no_return: other.point_of_no_return.clone(),
            not_found_means: other.not_found_means.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contract(identity: Identity, lookup: LookupBy, settle_window_s: u32) -> Contract {
        Contract {
            identity,
            lookup,
            settle_window_s,
            late_send: LateSend::Accepted,
            reversal: Reversal::None,
            reversal_until_s: None,
            cut_off: String::new(),
            point_of_no_return: String::new(),
            not_found_means: String::new(),
        }
    }

    #[test]
    fn the_guarantee_follows_from_the_contract() {
        let g = |i, l| contract(i, l, 0).guarantee();
        assert_eq!(g(Identity::Enforced, LookupBy::None), Guarantee::Replayable);
        assert_eq!(g(Identity::Window(60), LookupBy::Evidence), Guarantee::Replayable);
        assert_eq!(g(Identity::None, LookupBy::Reference), Guarantee::Verifiable);
        assert_eq!(g(Identity::None, LookupBy::NaturalKey), Guarantee::Verifiable);
        assert_eq!(g(Identity::None, LookupBy::Evidence), Guarantee::Blind);
        assert_eq!(g(Identity::None, LookupBy::None), Guarantee::Blind);
    }

    #[test]
    fn what_can_be_taken_back_has_an_end() {
        let at = |s: i64| Timestamp(0).plus_seconds(s);
        let mut contract = contract(Identity::Enforced, LookupBy::Reference, 0);
        let why = |c: &Contract, now| c.can_take_back(at(10), at(now)).err().map(|(why, _)| why);
        assert_eq!(why(&contract, 11), Some("NOCAP"));
        contract.reversal = Reversal::NewAct;
        assert_eq!(why(&contract, 1_000_000), None);
        assert_eq!(
            contract.way_back("payer-102"),
            "reverse it with ask=UNDO ctx=payer-102"
        );
        contract.reversal_until_s = Some(60);
        assert_eq!(why(&contract, 69), None);
        assert_eq!(why(&contract, 70), Some("EXPIRED"));
    }

    #[test]
    fn the_narrower_of_two_contracts_promises_no_more_than_either() {
        let wide = contract(Identity::Enforced, LookupBy::Reference, 5);
        let tight = contract(Identity::Window(60), LookupBy::Evidence, 90);
        for both in [wide.narrower(&tight), tight.narrower(&wide)] {
            assert_eq!(both.identity, Identity::Window(60));
            assert_eq!(both.lookup, LookupBy::Evidence);
            assert_eq!(both.settle_window_s, 90);
            assert_eq!(both.late_send, LateSend::Accepted);
        }
        let none = contract(Identity::None, LookupBy::Reference, 0);
        assert_eq!(none.narrower(&wide).identity, Identity::None);
    }
}
