//! The permit: what an adapter must hold to act, and that only a durable claim yields.

use std::sync::Arc;

use wilco_core::{Act, ActId, Claim, Clock, Durable, Timestamp};

/// Leave to carry out one act, once.
pub struct Permit {
    act_id: ActId,
    claim: Claim,
    clock: Arc<dyn Clock>,
}

/// The act may not be sent any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not sent: {now} is not before {last}, {whose}")]
pub struct TooLate {
    now: String,
    last: String,
    whose: &'static str,
}

impl Permit {
    /// The permit for `act`, if the durable write claimed it. `clock` is the store's.
    #[must_use]
    pub fn from_claim(act: &Act, durable: &Durable, clock: Arc<dyn Clock>) -> Option<Permit> {
        if !durable.covers_claim_of(act.act_id) {
            return None;
        }
        let claim = act.execution()?.claim.clone();
        Some(Permit {
            act_id: act.act_id,
            claim,
            clock,
        })
    }

    /// The act it is for: the reference the counterparty sees.
    #[must_use]
    pub fn act_id(&self) -> ActId {
        self.act_id
    }

    /// When the claim was written.
    #[must_use]
    pub fn claimed_at(&self) -> Timestamp {
        self.claim.claimed_at
    }

    /// Asked immediately before the bytes of a sending leave: yes, or too late. A call that stood still past its claim's
    /// deadline does not begin to send either: others may have taken the claim over by then.
    ///
    /// # Errors
    /// [`TooLate`] at or after the claim's `not_after` or its deadline; then no byte may be sent.
    pub fn may_send(&self) -> Result<(), TooLate> {
        let now = self.clock.now();
        let (last, whose) = if self.claim.not_after <= self.claim.deadline {
            (self.claim.not_after, "the last moment for this act")
        } else {
            (self.claim.deadline, "when its execution should have been over")
        };
        if now < last {
            return Ok(());
        }
        Err(TooLate {
            now: now.to_rfc3339(),
            last: last.to_rfc3339(),
            whose,
        })
    }
}
