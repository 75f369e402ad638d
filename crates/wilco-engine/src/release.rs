//! Release: an operator lets a handoff go on although a likely twin stands. The release makes the next attempt.
//!
//! The operator sees the new statement and never its token: confirming it stays the sender's.

use std::sync::Arc;

use wilco_core::act::Lapse;
use wilco_core::{Act, ActId, Reason, Refusal, Stage, Written};

use crate::api::{Caller, Released, Role};
use crate::engine::Engine;

const TRIES: u32 = 8;

pub(crate) async fn release(
    engine: &Arc<Engine>,
    caller: &Caller,
    act_id: ActId,
) -> Result<Released, Refusal> {
    if !caller.has(Role::Operator) {
        return Err(Refusal::new(
            Reason::NotYours,
            "releasing an act takes the role operator",
        ));
    }
    for _ in 0..TRIES {
        let act = engine.expire_if_due(engine.reload(act_id).await?).await?;
        // Released a moment ago, and not stated yet: the same word again states it.
        if is_released(&act) {
            return Ok(state_again(engine, caller, act).await);
        }
        let speaks = caller.speaks_for.contains(&act.handoff.sender);
        let (before, operator) = (act.clone(), caller.name.clone());
        let written = engine
            .write(move |_| Ok(vec![wilco_core::twin::release(&before, &operator, speaks)?]))
            .await?;
        if let Written::Advanced { acts, .. } = written {
            let Some(act) = acts.into_iter().next() else {
                continue;
            };
            engine.release_if_abandoned(std::slice::from_ref(&act));
            tracing::warn!(act = %act.act_id, operator = caller.name, "released although a likely twin stands");
            return Ok(state_again(engine, caller, act).await);
        }
    }
    Err(Refusal::new(Reason::Busy, "this act is being changed by others; ask again").retry_after(1))
}

fn is_released(act: &Act) -> bool {
    matches!(act.stage, Stage::Lapsed(_, Lapse::Released))
}

/// States it again. The release stands whatever comes of that: what cannot be stated now, its sender's next prepare
/// states.
async fn state_again(engine: &Arc<Engine>, caller: &Caller, act: Act) -> Released {
    match crate::prepare::again(engine, caller, act.clone()).await {
        Ok(prepared) => Released {
            act: prepared.act,
            notes: prepared.notes,
        },
        Err(refusal) => Released {
            notes: vec![format!(
                "released; it could not be stated again just now ({refusal}): the sender's next prepare states it"
            )],
            act,
        },
    }
}
